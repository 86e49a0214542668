"""Many checks over a few worker processes: coalesced, cached, streamed in input order, one verdict for each."""

from __future__ import annotations

import hashlib
import json
import time
from collections import OrderedDict, deque
from collections.abc import Generator, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import replace
from pathlib import Path
from typing import Any

from prefkit.errors import IsolationUnavailable
from prefkit.sandbox.job import Answer, Job
from prefkit.sandbox.pool import WorkerPool
from prefkit.verify.cache import Cache
from prefkit.verify.verdict import Judgement, Status, Verdict
from prefkit.verify.verifier import Check, Once, Steps, Verifier, make

_WINDOW = 512
"""Checks under way at once: bounds memory, and keeps the workers fed while the oldest is slow."""
_PATIENCE_S = 0.002
_GLANCE_S = 0.02
"""How often calls in other threads are looked at while workers are busy, too."""
_KEPT_VERDICTS, _KEPT_OUTCOMES = 100_000, 5_000
_LONGEST_CACHED_OUTCOME = 1 << 18


class _Flow:
    """Steps under way. What they yield is waited for, what came of it is sent to them; their outcome is kept for those that wait for it."""

    __slots__ = ("dead", "done", "steps", "value", "waiting")

    def __init__(self, steps: Steps) -> None:
        self.steps = steps
        self.done = self.dead = False
        self.value: Any = None
        self.waiting: list[_Flow] = []


class Scheduler:
    """Verifies checks of any kind on up to `workers` processes for each kind of worker.

    cache: a file that keeps verdicts between runs. min_isolation: the least tier that code may run in (see sandbox.tiers); without it, A.
    verifiers: ready-made ones, in place of the default of their kind.

    A context manager; use from one thread at a time. `counts` says what was done so far: checks, cached, executions, golds.
    """

    def __init__(
        self, workers: int = 2, cache: Path | None = None, min_isolation: str | None = None, verifiers: Iterable[Verifier] = ()
    ) -> None:
        self._pool = WorkerPool(workers)
        self._cache = Cache(Path(cache)) if cache is not None else None
        self._min_isolation = min_isolation
        self._verifiers: dict[str, Verifier] = {verifier.kind: verifier for verifier in verifiers}
        self._running: dict[bytes, _Flow] = {}
        self._verdicts: OrderedDict[bytes, Verdict] = OrderedDict()
        self._shared: OrderedDict[bytes, _Flow] = OrderedDict()
        self._calls: dict[Future[Any], _Flow] = {}
        self._answers: dict[int, Answer] = {}
        self._active = 0
        self._turned = 0.0
        self._counts = {"checks": 0, "cached": 0, "golds": 0}

    def __enter__(self) -> Scheduler:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the workers and write the cache."""
        self._pool.close()
        for verifier in self._verifiers.values():
            verifier.close()
        if self._cache is not None:
            self._cache.close()
            self._cache = None

    @property
    def counts(self) -> dict[str, int]:
        return self._counts | {"executions": self._pool.executions, "replaced_workers": self._pool.replaced}

    def verifier(self, kind: str) -> Verifier:
        """The verifier of that kind. Raises KeyError for a kind that there is not."""
        if kind not in self._verifiers:
            self._verifiers[kind] = make(kind)
            self._verifiers[kind].prepare()
        return self._verifiers[kind]

    def verifier_of(self, check: Check) -> Verifier:
        """The verifier that judges a check. Raises KeyError for a kind that there is not."""
        verifier = self.verifier(check.kind)
        variant = verifier.variant(check)
        return self.verifier(f"{check.kind}:{variant}") if variant else verifier

    def tier(self, verifier: Verifier) -> str:
        """The isolation that its answers run in; "" where nothing of an answer runs. Raises IsolationUnavailable with the mend."""
        worker = verifier.worker
        if worker is None:
            return ""
        if worker not in self._pool.tiers:
            from prefkit.sandbox.tiers import worker_tier

            self._pool.tiers[worker] = worker_tier(worker, "A" if self._min_isolation in (None, "A") else "B")
        return self._pool.tiers[worker]

    def verify(self, checks: Iterable[Check]) -> Iterator[Verdict]:
        """One verdict for each check, in input order, as they come. Checks are taken from the iterable as there is room for them.

        Closing the iterator cancels what has not begun. Raises IsolationUnavailable when no worker can be started.
        """
        source, more = iter(checks), True
        window: deque[tuple[str, _Flow | Verdict, bool]] = deque()
        self.look_again()
        self._active += 1
        try:
            while more or window:
                while more and len(window) < _WINDOW:
                    check = next(source, None)
                    if check is None:
                        more = False
                    else:
                        window.append((check.id, *self._begin(check)))
                    if time.monotonic() - self._turned > _PATIENCE_S:  # the iterable may take its time: keep the workers going
                        self._turn(0.0)
                    if window and self._ready(window[0][1]):
                        break
                while window and self._ready(window[0][1]):
                    yield self._verdict(*window.popleft())
                if window and not (more and len(window) < _WINDOW):
                    self._turn()
        finally:
            self._active -= 1
            if window and not self._active:
                self._cancel()
            if self._cache is not None:
                self._cache.flush()

    def run(self, job: Job) -> Answer:
        """Execute one job that judges nothing, beside whatever is under way."""
        self._pool.submit(job)
        while id(job) not in self._answers:
            self._turn()
        return self._answers.pop(id(job))

    @property
    def active(self) -> bool:
        """Whether verdicts are under way."""
        return self._active > 0

    def look_again(self) -> None:
        """Files may have changed: verifiers look at them anew."""
        for verifier in self._verifiers.values():
            verifier.prepare()

    def _begin(self, check: Check) -> tuple[_Flow | Verdict, bool]:
        """What will give the check's verdict, and whether that was asked for before."""
        self._counts["checks"] += 1
        verifier = self.verifier_of(check)
        try:
            tier = self.tier(verifier)
        except IsolationUnavailable as error:
            return Verdict(check.id, Status.REFUSED, None, str(error), trust=verifier.trust(check), tier=""), False
        if verifier.ask(check) is None:
            return self._find_or_begin(check, verifier, tier)
        flow = _Flow(self._ask_first(check, verifier, tier))
        self._advance(flow, None)
        return flow, False

    def _ask_first(self, check: Check, verifier: Verifier, tier: str) -> Generator[Any, Any, Verdict]:
        """The steps of a check whose key is not known until something was asked."""
        while (wanted := verifier.ask(check)) is not None:
            yield wanted
        work, known = self._find_or_begin(check, verifier, tier)
        return replace(work if isinstance(work, Verdict) else (yield work), cached=known)

    def _find_or_begin(self, check: Check, verifier: Verifier, tier: str) -> tuple[_Flow | Verdict, bool]:
        """The check's verdict, or what will give it, and whether that was asked for before."""
        key = _hash([check.kind, tier, verifier.versions, *verifier.key(check)])
        known = self._verdicts.get(key) or self._running.get(key)
        if known is None and self._cache is not None:
            payload = self._cache.get(key)
            if payload is not None:
                status, reason, feedback, score, *spent = json.loads(payload)
                judgement = Judgement(Status(status), reason, feedback, score)
                known = self._keep(key, _made(key, verifier, check, tier, judgement, spent))
        if known is not None:
            self._counts["cached"] += 1
            return known, True
        flow = _Flow(self._judge(check, verifier, tier, key))
        self._running[key] = flow
        self._advance(flow, None)
        return flow, False

    def _judge(self, check: Check, verifier: Verifier, tier: str, key: bytes) -> Generator[Any, Any, Verdict]:
        """The steps of one check: the verifier's, with what its last execution took."""
        spent: list[float] = [0.0, 0.0, 0]
        try:
            steps, sent = verifier.judge(check), None
            while True:
                try:
                    wanted = steps.send(sent)
                except StopIteration as end:
                    judgement: Judgement = end.value
                    break
                sent = yield wanted
                if isinstance(sent, Answer):
                    spent = [spent[0] + sent.cpu_s, spent[1] + sent.wall_s, max(spent[2], sent.peak_mem)]
        except Exception as error:  # a fault of ours must not lose the other verdicts, nor count as the answer's
            judgement = Judgement(Status.INFRA, _fault(error))
        verdict = _made(key, verifier, check, tier, judgement, spent)
        self._running.pop(key, None)
        if verdict.status not in (Status.INFRA, Status.REFUSED) and verifier.kept(check):
            self._keep(key, verdict)
            if self._cache is not None:
                self._cache.put(key, json.dumps([str(verdict.status), verdict.reason, verdict.feedback, judgement.score, *spent]))
        return verdict

    def _once(self, wanted: Once) -> _Flow:
        """The flow of shared work: begun once, kept for all that ask for it."""
        key = _hash(["once", *wanted.key])
        flow = self._shared.get(key)
        if flow is None:
            flow = self._shared[key] = _Flow(self._do_once(key, wanted))
            if len(self._shared) > _KEPT_OUTCOMES:
                oldest = next(iter(self._shared))
                if self._shared[oldest].done:
                    del self._shared[oldest]
            self._advance(flow, None)
        else:
            self._shared.move_to_end(key)
        return flow

    def _do_once(self, key: bytes, wanted: Once) -> Steps:
        try:
            payload = self._cache.get(key) if self._cache is not None and wanted.load is not None else None
            if payload is not None and wanted.load is not None:
                return wanted.load(payload)
            self._counts["golds"] += 1
            outcome = yield from wanted.begin()
            if not wanted.again(outcome) and self._cache is not None:
                text = wanted.save(outcome)
                if text is not None and len(text) <= _LONGEST_CACHED_OUTCOME:
                    self._cache.put(key, text)
        except Exception as error:
            outcome = wanted.lost(_fault(error))
        if wanted.again(outcome):
            self._shared.pop(key, None)
        return outcome

    def _advance(self, flow: _Flow, value: Any, begun: bool = False) -> None:
        """Send a value to a flow, and on to those that waited for it, until all of them wait for jobs or calls."""
        ready = [(flow, value)]
        while ready:
            flow, value = ready.pop()
            if flow.dead:
                continue
            try:
                wanted = flow.steps.send(value)
            except StopIteration as end:
                flow.done, flow.value = True, end.value
                ready += [(waiting, end.value) for waiting in flow.waiting]
                continue
            if isinstance(wanted, Job):
                wanted.tag = flow
                self._pool.submit(wanted, first=begun)  # what is begun is finished first, so that verdicts come early
                continue
            if isinstance(wanted, Future):
                self._calls[wanted] = flow
                continue
            shared = wanted if isinstance(wanted, _Flow) else self._once(wanted)
            if shared.done:
                ready.append((flow, shared.value))
            else:
                shared.waiting.append(flow)

    def _turn(self, timeout: float = 1.0) -> None:
        if self._calls and not self._pool.busy:
            wait(self._calls, timeout, FIRST_COMPLETED)
            timeout = 0.0
        for job, answer in self._pool.pump(min(timeout, _GLANCE_S) if self._calls else timeout):
            if isinstance(job.tag, _Flow):
                self._advance(job.tag, answer, begun=True)
            else:
                self._answers[id(job)] = answer
        for call in [call for call in self._calls if call.done()]:
            self._advance(self._calls.pop(call), None, begun=True)
        self._turned = time.monotonic()

    def _cancel(self) -> None:
        self._pool.drop_queued()
        for call in self._calls:
            call.cancel()
        self._calls.clear()
        for flow in (*self._running.values(), *(flow for flow in self._shared.values() if not flow.done)):
            flow.dead = True
        self._running.clear()
        self._shared = OrderedDict((key, flow) for key, flow in self._shared.items() if flow.done)

    def _keep(self, key: bytes, verdict: Verdict) -> Verdict:
        self._verdicts[key] = verdict
        if len(self._verdicts) > _KEPT_VERDICTS:
            self._verdicts.popitem(last=False)
        return verdict

    @staticmethod
    def _ready(work: _Flow | Verdict) -> bool:
        return isinstance(work, Verdict) or work.done

    @staticmethod
    def _verdict(check_id: str, work: _Flow | Verdict, cached: bool) -> Verdict:
        verdict: Verdict = work if isinstance(work, Verdict) else work.value
        return replace(verdict, id=check_id, cached=cached or verdict.cached)


def _made(key: bytes, verifier: Verifier, check: Check, tier: str, judgement: Judgement, spent: Sequence[float]) -> Verdict:
    """The verdict of a judgement, without an id. spent: processor seconds, wall seconds, peak bytes."""
    cpu_s, wall_s, peak_mem = spent
    return Verdict(
        "",
        judgement.status,
        judgement.points,
        _writable(judgement.reason),
        judgement.feedback and _writable(judgement.feedback),
        verifier.trust(check),
        tier,
        cpu_s,
        wall_s,
        int(peak_mem),
        False,
        key.hex(),
        verifier.versions,
        verifier.data_hash(check),
    )


def _hash(parts: list[Any]) -> bytes:
    """JSON writes lone surrogates as escapes, so any text has a hash."""
    return hashlib.sha256(json.dumps(parts, separators=(",", ":")).encode()).digest()


def _writable(text: str) -> str:
    """Text that any file takes: bytes that were no UTF-8 in a database come out as question marks."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _fault(error: Exception) -> str:
    return f"the verifier failed: {type(error).__name__}: {error}"[:300]
