"""What workers are asked to do, and what comes of it.

A worker process reads one JSON line a job and writes one JSON line for it, in order:
`{"results": [result…], "cpu": seconds, "wall": seconds, "peak": bytes}`. What stands in a job's line and in a result depends on the kind of
worker; the pool knows only what this file says.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

from prefkit.sandbox.limits import SqlLimits


class Outcome(Protocol):
    """One result of a job. status: "ok", or why not (see `verify.verdict`); reason: uniform words."""

    status: str
    reason: str


@dataclass(slots=True, eq=False)
class Job:
    """Work for one worker of one kind. folder: of files that the worker must be able to read, where it runs in isolation. tag: anything of
    the caller's. attempts, alone: kept by the pool."""

    kind: ClassVar[str]
    folder: str = field(default="", kw_only=True)
    tag: Any = field(default=None, kw_only=True)
    attempts: int = field(default=0, kw_only=True)
    alone: bool = field(default=False, kw_only=True)

    def line(self) -> bytes:
        """The job as its worker reads it, with the end of line."""
        raise NotImplementedError

    def wall_s(self) -> float:
        """Seconds on the wall clock after which the worker is killed."""
        raise NotImplementedError

    def timeout_s(self) -> float:
        """Processor seconds that the job may take; one that was killed by the wall clock with much less was starved."""
        raise NotImplementedError

    def read(self, raw: dict[str, Any]) -> Outcome:
        """One result of the worker's reply."""
        raise NotImplementedError

    def failed(self, status: str, reason: str) -> Outcome:
        """The result where the worker was lost."""
        raise NotImplementedError


@dataclass(slots=True)
class Answer:
    """Results of a job, in order, up to the first that is not ok. Seconds of the processor and of the wall; peak in bytes."""

    results: list[Any]
    cpu_s: float = 0.0
    wall_s: float = 0.0
    peak_mem: int = 0

    @property
    def last(self) -> Any:
        return self.results[-1]


@dataclass(slots=True, eq=False)
class SqlJob(Job):
    """One query on one or more data instances, or (with `script`) a database to build from schema text.

    databases: (absolute path, stamp); the stamp tells versions of one file apart. order: "" for the file itself, or a key of
    sqlite_shadow.ORDERS.
    """

    kind: ClassVar[str] = "sqlite"
    sql: str
    databases: tuple[tuple[str, str], ...]
    limits: SqlLimits
    order: str = ""
    script: str | None = None

    def line(self) -> bytes:
        message: dict[str, Any] = {"cpu": self.limits.timeout_s + (2.0 if self.order else 0.0)}
        if self.script is not None:
            message |= {"op": "build", "script": self.script}
        else:
            message |= {"op": "run", "sql": self.sql, "databases": self.databases, "order": self.order, "steps": self.limits.steps}
            message |= {"rows": self.limits.rows, "bytes": self.limits.bytes, "truncate": self.limits.truncate}
        return as_line(message)

    def wall_s(self) -> float:
        return self.limits.wall_s(len(self.databases)) + (4.0 if self.order else 0.0)

    def timeout_s(self) -> float:
        return self.limits.timeout_s

    def read(self, raw: dict[str, Any]) -> Result:
        return Result.read(raw)

    def failed(self, status: str, reason: str) -> Result:
        return Result(status, reason)


@dataclass(slots=True)
class Result:
    """What came of one query on one database.

    status: ok, error, policy, timeout, limit, database (the file cannot be read), crash (the engine died), infra (the worker was lost).
    uses: "clock", "random" where the query read them. faithful: see sqlite_shadow. image: bytes of a built database, base64.
    """

    status: str
    reason: str = ""
    columns: list[str] = field(default_factory=list)
    rows: list[tuple] = field(default_factory=list)
    uses: tuple[str, ...] = ()
    truncated: bool = False
    faithful: bool = True
    image: str = ""

    @classmethod
    def read(cls, raw: dict[str, Any]) -> Result:
        rows = raw.get("rows", [])
        rows = read_rows(rows) if raw.get("blobs") else list(map(tuple, rows))
        return cls(
            raw["status"],
            raw.get("reason", ""),
            raw.get("columns", []),
            rows,
            tuple(raw.get("uses", ())),
            raw.get("truncated", False),
            not raw.get("unfaithful", False),
            raw.get("image", ""),
        )


def read_rows(rows: list[list[Any]]) -> list[tuple]:
    """Rows as JSON holds them, with their blobs."""
    return [tuple([bytes.fromhex(value["blob"]) if type(value) is dict else value for value in row]) for row in rows]


@dataclass(slots=True, eq=False)
class CodeJob(Job):
    """Code that runs in a child of a zygote (see zygote.py). message: what its line says, without the limits.

    cpu_s: processor seconds for the whole tree of processes. memory, disk, output: bytes. processes: most at once.
    """

    kind: ClassVar[str] = "zygote"
    op: str
    message: dict[str, Any]
    cpu_s: float = 2.0
    memory: int = 512 << 20
    output: int = 1 << 20
    processes: int = 16
    disk: int = 16 << 20

    def line(self) -> bytes:
        limits = {"timeout": self.cpu_s, "memory": self.memory, "output": self.output, "processes": self.processes, "disk": self.disk}
        return as_line(self.message | {"op": self.op, "limits": limits})

    def wall_s(self) -> float:
        return 5.0 + 5.0 * self.cpu_s

    def timeout_s(self) -> float:
        return self.cpu_s

    def read(self, raw: dict[str, Any]) -> CodeResult:
        return CodeResult(
            raw["status"],
            raw.get("reason", ""),
            raw.get("value"),
            raw.get("stdout", ""),
            raw.get("stderr", ""),
            raw.get("exit"),
            raw.get("signal"),
        )

    def failed(self, status: str, reason: str) -> CodeResult:
        return CodeResult(status, reason)


@dataclass(slots=True)
class CodeResult:
    """What came of one run of code. status: ok, crash, timeout, limit, policy, tamper, infra.

    value: what the op returned, where the status is ok; the candidate may have written it, so it is to be read as hostile data.
    """

    status: str
    reason: str = ""
    value: Any = None
    stdout: str = ""
    stderr: str = ""
    exit: int | None = None
    signal: str | None = None


def as_line(message: dict[str, Any]) -> bytes:
    """A message as a worker reads it."""
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"
