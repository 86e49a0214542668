"""Many checks over a few worker processes: coalesced, cached, streamed in input order, one verdict for each."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import time
from collections import OrderedDict, deque
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from prefkit.sandbox.limits import SqlLimits
from prefkit.sandbox.pool import Answer, WorkerPool
from prefkit.sandbox.worker import Job
from prefkit.verify import gold as gold_file
from prefkit.verify.cache import Cache
from prefkit.verify.compare import VERSION
from prefkit.verify.databases import Database, Databases
from prefkit.verify.extract import extract_sql
from prefkit.verify.gold import Gold
from prefkit.verify.sql import Judgement, SqlCheck, judge, refused_before_running, tidy_error, unusable
from prefkit.verify.verdict import Status, Verdict, score_of

TIER = "P"
_WINDOW = 512
"""Checks under way at once: bounds memory, and keeps the workers fed while the oldest is slow."""
_PATIENCE_S = 0.002
_KEPT_VERDICTS, _KEPT_GOLDS = 100_000, 5_000
_LONGEST_CACHED_GOLD = 1 << 18


@dataclass(frozen=True, slots=True)
class QueryResult:
    """What a query returned. status is PASS where it ran; else reason says why not. truncated: there are more rows than were asked for."""

    columns: list[str]
    rows: list[tuple]
    status: Status
    reason: str
    truncated: bool = False


class _Flow:
    """A generator that yields jobs or other flows and is sent what came of them; its return value is kept for those that wait for it."""

    __slots__ = ("dead", "done", "steps", "value", "waiting")

    def __init__(self, steps: Generator[Any, Any, Any]) -> None:
        self.steps = steps
        self.done = self.dead = False
        self.value: Any = None
        self.waiting: list[_Flow] = []


class Scheduler:
    """Verifies checks on `workers` guarded processes; `cache` names a file that keeps verdicts between runs.

    A context manager; use from one thread at a time. `counts` says what was done so far: checks, cached, executions, golds.
    """

    def __init__(self, workers: int = 2, cache: Path | None = None, rows: int = 10_000, max_bytes: int = 2_000_000) -> None:
        self._pool = WorkerPool(workers)
        self._cache = Cache(Path(cache)) if cache is not None else None
        self._rows, self._bytes = rows, max_bytes
        self._databases = Databases()
        self._running: dict[bytes, _Flow] = {}
        self._verdicts: OrderedDict[bytes, Verdict] = OrderedDict()
        self._golds: OrderedDict[bytes, _Flow] = OrderedDict()
        self._prefixes: dict[tuple, Any] = {}
        self._answers: dict[int, Answer] = {}
        self._active = 0
        self._turned = 0.0
        self._versions = {"sqlite": sqlite3.sqlite_version, "judge": VERSION}
        self._counts = {"checks": 0, "cached": 0, "golds": 0}

    def __enter__(self) -> Scheduler:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the workers and write the cache."""
        self._pool.close()
        if self._cache is not None:
            self._cache.close()
            self._cache = None

    @property
    def counts(self) -> dict[str, int]:
        return self._counts | {"executions": self._pool.executions, "replaced_workers": self._pool.replaced}

    def verify(self, checks: Iterable[SqlCheck]) -> Iterator[Verdict]:
        """One verdict for each check, in input order, as they come. Checks are taken from the iterable as there is room for them.

        Closing the iterator cancels what has not begun. Raises IsolationUnavailable when no worker can be started.
        """
        source, more = iter(checks), True
        window: deque[tuple[str, _Flow | Verdict, bool]] = deque()
        self._databases.look_again()
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

    def query(self, database: str, sql: str, timeout_s: float = 2.0, max_rows: int = 50) -> QueryResult:
        """Run one query under the same guards and return its first `max_rows` rows. It may read the clock. Its failure is a status."""
        if not self._active:
            self._databases.look_again()
        found = self._databases.find(database)
        if found.problem:
            return QueryResult([], [], Status.UNVERIFIABLE, found.problem)
        job = Job(sql, ((found.path, found.stamp),), SqlLimits(timeout_s, max_rows, self._bytes, truncate=True))
        self._pool.submit(job)
        while id(job) not in self._answers:
            self._turn()
        result = self._answers.pop(id(job)).last
        if result.status == "ok":
            return QueryResult(result.columns, result.rows, Status.PASS, "", result.truncated)
        return QueryResult([], [], _failure_status(result.status), tidy_error(result.reason))

    def _begin(self, check: SqlCheck) -> tuple[_Flow | Verdict, bool]:
        """What will give the check's verdict, and whether that was asked for before."""
        self._counts["checks"] += 1
        databases = [self._databases.find(path) for path in check.databases]
        sql = extract_sql(check.answer)
        key = self._key(check, databases, sql)
        known = self._verdicts.get(key) or self._running.get(key)
        if known is None and self._cache is not None:
            payload = self._cache.get(key)
            if payload is not None:
                known = self._keep(key, self._restored(key, *json.loads(payload)))
        if known is not None:
            self._counts["cached"] += 1
            return known, True
        flow = _Flow(self._judge(check, databases, sql, key))
        self._running[key] = flow
        self._advance(flow, None)
        return flow, False

    def _key(self, check: SqlCheck, databases: list[Database], sql: str | None) -> bytes:
        """Hash of all that decides a verdict: query, golds, database bytes, limits, rules, tier and versions."""
        given = (check.golds, tuple(database.content for database in databases), check.timeout_s, check.columns)
        prefix = self._prefixes.get(given)
        if prefix is None:
            if len(self._prefixes) > _KEPT_GOLDS:
                self._prefixes.clear()
            parts = ["sql", TIER, self._versions, self._rows, self._bytes, *given]
            prefix = self._prefixes[given] = hashlib.sha256(json.dumps(parts).encode())
        digest = prefix.copy()
        digest.update(b"\0" if sql is None else b"\1" + sql.encode("utf-8", "surrogatepass"))
        return digest.digest()

    def _judge(self, check: SqlCheck, databases: list[Database], sql: str | None, key: bytes) -> Generator[Any, Any, Verdict]:
        """The flow of one check: its golds first, then the query."""
        answer: Answer | None = None
        try:
            problem = next((database.problem for database in databases if database.problem), None)
            if problem or not databases:
                judgement: Judgement | None = Judgement(Status.UNVERIFIABLE, problem or "no database")
            else:
                files = tuple((database.path, database.stamp) for database in databases)
                limits = SqlLimits(check.timeout_s, self._rows, self._bytes)
                golds = []
                for gold in check.golds:
                    golds.append((yield self._gold(gold, databases, files, limits)))
                judgement = unusable(golds) or refused_before_running(sql)
                if judgement is None and sql is not None:
                    ran: Answer = yield Job(sql, files, limits)
                    answer, judgement = ran, judge(golds, ran, check.columns)
        except Exception as error:  # a fault of ours must not lose the other verdicts, nor count as the answer's
            judgement = Judgement(Status.INFRA, _fault(error))
        assert judgement is not None
        spent = (answer.cpu_s, answer.wall_s, answer.peak_mem) if answer is not None else (0.0, 0.0, 0)
        verdict = self._restored(key, judgement.status, judgement.reason, judgement.feedback, *spent)
        self._running.pop(key, None)
        # A file that is missing now may be there next time, and its name is not part of the key.
        if verdict.status is not Status.INFRA and not any(database.problem for database in databases):
            self._keep(key, verdict)
            if self._cache is not None:
                self._cache.put(key, json.dumps([str(verdict.status), verdict.reason, verdict.feedback, *spent]))
        return verdict

    def _gold(self, sql: str, databases: list[Database], files: gold_file.Databases, limits: SqlLimits) -> _Flow:
        """The flow that checks a gold: begun once, kept for all checks that share it."""
        parts = ["gold", self._versions, sql, [database.content for database in databases], limits.timeout_s, limits.rows, limits.bytes]
        key = hashlib.sha256(json.dumps(parts).encode()).digest()
        flow = self._golds.get(key)
        if flow is None:
            flow = self._golds[key] = _Flow(self._check_gold(key, sql, files, limits))
            if len(self._golds) > _KEPT_GOLDS:
                oldest = next(iter(self._golds))
                if self._golds[oldest].done:
                    del self._golds[oldest]
            self._advance(flow, None)
        else:
            self._golds.move_to_end(key)
        return flow

    def _check_gold(self, key: bytes, sql: str, files: gold_file.Databases, limits: SqlLimits) -> Generator[Any, Any, Gold]:
        try:
            payload = self._cache.get(key) if self._cache is not None else None
            if payload is not None:
                return Gold.from_json(payload)
            self._counts["golds"] += 1
            gold = yield from gold_file.prepare(sql, files, limits)
        except Exception as error:
            gold = Gold(problem=_fault(error), infra=True)
        if gold.infra:
            self._golds.pop(key, None)
        elif self._cache is not None and len(text := gold.to_json()) <= _LONGEST_CACHED_GOLD:
            self._cache.put(key, text)
        return gold

    def _advance(self, flow: _Flow, value: Any, begun: bool = False) -> None:
        """Send a value to a flow, and on to those that waited for it, until all of them wait for jobs."""
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
            elif wanted.done:
                ready.append((flow, wanted.value))
            else:
                wanted.waiting.append(flow)

    def _turn(self, timeout: float = 1.0) -> None:
        self._turned = time.monotonic()
        for job, answer in self._pool.pump(timeout):
            if isinstance(job.tag, _Flow):
                self._advance(job.tag, answer, begun=True)
            else:
                self._answers[id(job)] = answer

    def _cancel(self) -> None:
        self._pool.drop_queued()
        for flow in (*self._running.values(), *(flow for flow in self._golds.values() if not flow.done)):
            flow.dead = True
        self._running.clear()
        self._golds = OrderedDict((key, flow) for key, flow in self._golds.items() if flow.done)

    def _restored(self, key: bytes, status: str, reason: str, feedback: str | None, cpu_s: float, wall_s: float, peak_mem: int) -> Verdict:
        status = Status(status)
        reason, feedback = _writable(reason), feedback and _writable(feedback)
        return Verdict(
            "", status, score_of(status), reason, feedback, "executed", TIER, cpu_s, wall_s, peak_mem, False, key.hex(), self._versions
        )

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
        return replace(work if isinstance(work, Verdict) else work.value, id=check_id, cached=cached)


def _writable(text: str) -> str:
    """Text that any file takes: bytes that were no UTF-8 in a database come out as question marks."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _fault(error: Exception) -> str:
    return f"the verifier failed: {type(error).__name__}: {error}"[:300]


def _failure_status(status: str) -> Status:
    judged = {"error": Status.CRASH, "crash": Status.CRASH, "policy": Status.POLICY, "timeout": Status.TIMEOUT, "limit": Status.LIMIT}
    return judged.get(status, Status.INFRA if status == "infra" else Status.UNVERIFIABLE)
