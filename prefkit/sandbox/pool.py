"""Hands jobs to worker processes, kills what overruns, replaces what died and judges again what was in flight.

One thread, no locks: `pump` does one turn of an event loop over the workers' pipes. Use a pool from one thread at a time.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import time
from collections import defaultdict, deque
from collections.abc import Mapping

from prefkit.errors import IsolationUnavailable
from prefkit.sandbox.job import Answer, Job, Outcome
from prefkit.sandbox.worker import Worker

DEPTH = 4
"""Jobs in one worker's pipe: enough that it never waits for the next, few enough that little is queued behind a slow one."""
SQLITE_ONLY = {"sqlite": "P"}
_MAX_ATTEMPTS = 3
_MAX_FAILED_STARTS = 5
_STARVED = {("infra", "no processor time"), ("timeout", "time limit: waiting"), ("timeout", "time limit: wall clock")}
_OUT_OF_TIME = {-signal.SIGPROF, -signal.SIGXCPU}
_ENGINE_FAULTS = {-signal.SIGSEGV, -signal.SIGBUS, -signal.SIGABRT, -signal.SIGILL, -signal.SIGFPE}


_Kind = tuple[str, str]
"""The kind of a worker, and the folder that it can read."""


class WorkerPool:
    """A context manager around worker processes, which are started when there is work for them: up to `workers` of each kind.

    tiers: the isolation in which each kind of worker runs.
    """

    def __init__(self, workers: int = 2, tiers: Mapping[str, str] = SQLITE_ONLY) -> None:
        if workers < 1:
            raise ValueError(f"workers must be at least 1, not {workers}")
        self.tiers = dict(tiers)
        self.executions = 0
        self.replaced = 0
        self._size = workers
        self._workers: list[Worker] = []
        self._queues: defaultdict[_Kind, deque[Job]] = defaultdict(deque)
        self._alone: deque[Job] = deque()
        self._selector = selectors.DefaultSelector()
        self._failed_starts = 0
        self._owner = os.getpid()
        self._lost: list[tuple[Job, Answer]] = []

    def __enter__(self) -> WorkerPool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def backlog(self) -> int:
        """Jobs that no worker has been given yet."""
        return sum(map(len, self._queues.values())) + len(self._alone)

    @property
    def busy(self) -> bool:
        """Whether there are jobs that are not answered."""
        return self.backlog > 0 or any(worker.jobs for worker in self._workers)

    def submit(self, job: Job, first: bool = False) -> None:
        """Queue a job, `first` ahead of those that wait: for what finishes something begun."""
        queue = self._queues[job.kind, job.folder]
        if first:
            queue.appendleft(job)
        else:
            queue.append(job)
        self._dispatch()

    def drop_queued(self) -> None:
        """Forget the jobs that no worker has been given yet."""
        self._queues.clear()
        self._alone.clear()

    def run(self, job: Job) -> Answer:
        """Execute one job and wait for it; for use while nothing else is submitted."""
        self.submit(job)
        while True:
            for done, answer in self.pump():
                if done is job:
                    return answer

    def pump(self, timeout: float = 1.0) -> list[tuple[Job, Answer]]:
        """One turn: hand out, wait up to `timeout` seconds for the first answer or deadline, collect. Returns what is answered.

        Raises IsolationUnavailable when workers cannot be started.
        """
        self._dispatch()
        now = time.monotonic()
        wait = min([timeout, *(worker.deadline() - now for worker in self._workers)])
        done: list[tuple[Job, Answer]] = []
        for key, events in self._selector.select(max(0.0, wait)):
            worker: Worker = key.data
            if worker not in self._workers:
                continue  # buried in this very turn
            if events & selectors.EVENT_WRITE:
                worker.flush()
                self._selector.unregister(worker.stdin)
                self._watch_unsent(worker)
            else:
                done += self._collect(worker)
        self._expire()
        done += self._lost
        self._lost = []
        self._dispatch()
        return done

    def close(self) -> None:
        """End every worker. In a process that was forked from the owner this does nothing: the workers are not its own."""
        if os.getpid() != self._owner:
            return
        for worker in self._workers:
            worker.kill()
        for worker in list(self._workers):
            self._remove(worker)
        self.drop_queued()
        self._selector.close()

    def _dispatch(self) -> None:
        if self._alone:
            self._dispatch_alone()
            return
        for kind, queue in self._queues.items():
            while queue and (worker := self._least_busy(*kind)) is not None:
                self._give(worker, queue.popleft())

    def _dispatch_alone(self) -> None:
        """A job that must run alone waits until nothing else runs, and nothing else is handed out meanwhile."""
        if any(worker.jobs for worker in self._workers):
            return
        worker = self._least_busy(self._alone[0].kind, self._alone[0].folder)
        if worker is not None:
            self._give(worker, self._alone.popleft())

    def _give(self, worker: Worker, job: Job) -> None:
        worker.send(job)
        worker.flush()
        self._watch_unsent(worker)

    def _watch_unsent(self, worker: Worker) -> None:
        if worker.unsent:
            with contextlib.suppress(KeyError):
                self._selector.register(worker.stdin, selectors.EVENT_WRITE, worker)

    def _least_busy(self, kind: str, folder: str) -> Worker | None:
        workers = [worker for worker in self._workers if (worker.kind, worker.folder) == (kind, folder)]
        worker = min(workers, key=lambda worker: len(worker.jobs), default=None)
        if len(workers) < self._size and (worker is None or worker.jobs):
            worker = Worker(kind, self.tiers[kind], folder)
            self._workers.append(worker)
            self._selector.register(worker.stdout, selectors.EVENT_READ, worker)
        return worker if worker is not None and len(worker.jobs) < DEPTH else None

    def _collect(self, worker: Worker) -> list[tuple[Job, Answer]]:
        messages = worker.read()
        if messages is None:
            self._bury(worker)
            return []
        done = []
        for message in messages:
            worker.since = time.monotonic()
            if "ready" in message:
                worker.version, worker.peak = message["ready"], message["peak"]
                self._failed_starts = 0
                continue
            job = worker.jobs.popleft()
            worker.cpu_used += message["cpu"]
            self.executions += len(message["results"])
            answer = Answer([job.read(raw) for raw in message["results"]], message["cpu"], message["wall"], message["peak"])
            if _was_starved(answer.last) and not job.alone:
                job.alone = True  # once more, with the machine to itself
                self._alone.append(job)
            else:
                done.append((job, answer))
        return done

    def _expire(self) -> None:
        """SIGKILL workers that are past their deadline."""
        now = time.monotonic()
        for worker in list(self._workers):
            if now >= worker.deadline():
                worker.kill()
                self._bury(worker, overran=True)

    def _bury(self, worker: Worker, overran: bool = False) -> None:
        """Take a dead worker out, decide what its oldest job's death means, and queue what was behind it again."""
        ready, complaint = worker.ready, worker.complaint()
        code, cpu = self._remove(worker)
        jobs = list(worker.jobs)
        if not ready:
            self._failed_starts += 1
            if self._failed_starts >= _MAX_FAILED_STARTS:
                raise IsolationUnavailable(f"worker processes end before they begin ({_ending(code)}): {complaint or 'no message'}")
        elif jobs and code != 0:  # 0: it made way for a fresh one
            self.replaced += 1
            self._judge_death(jobs.pop(0), code, cpu, overran)
        self._queues[worker.kind, worker.folder].extendleft(reversed(jobs))

    def _judge_death(self, job: Job, code: int, cpu: float, overran: bool) -> None:
        job.attempts += 1
        late = overran or code in _OUT_OF_TIME
        if late and job.alone:
            starved = overran and cpu < job.timeout_s() / 4
            outcome = job.failed("infra", "no processor time") if starved else job.failed("timeout", "time limit: processor time")
        elif not late and job.attempts >= _MAX_ATTEMPTS:
            status = "crash" if code in _ENGINE_FAULTS else "infra"
            what = "the engine died" if status == "crash" else "worker lost"
            outcome = job.failed(status, f"{what} ({_ending(code)})")
        else:
            # A time-out counts after a second run with the machine to itself; a lost worker may have been another's fault.
            job.alone = True
            self._alone.append(job)
            return
        self._lost.append((job, Answer([outcome], cpu, cpu)))

    def _remove(self, worker: Worker) -> tuple[int, float]:
        self._workers.remove(worker)
        for stream in (worker.stdin, worker.stdout):
            with contextlib.suppress(KeyError):
                self._selector.unregister(stream)
        ending = worker.reap()
        worker.forget()
        return ending


def _was_starved(outcome: Outcome) -> bool:
    """Whether the machine, rather than the answer, may be why it did not come to its end: all that the clock on the wall decides."""
    return (outcome.status, outcome.reason) in _STARVED


def _ending(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    with contextlib.suppress(ValueError):
        return signal.Signals(-code).name
    return f"signal {-code}"
