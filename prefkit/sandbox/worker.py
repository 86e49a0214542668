"""One worker process as its parent sees it: start, pipes, jobs in flight, death."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from prefkit.errors import IsolationUnavailable
from prefkit.sandbox.limits import SqlLimits

_ROOT = str(Path(__file__).resolve().parents[2])
_KEPT_ENVIRONMENT = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "DYLD_FALLBACK_LIBRARY_PATH")
"""What the dynamic linker may need to find SQLite; nothing else of the environment reaches a worker."""

START_S = 30.0
"""Seconds within which a worker must have started. It takes about 0.03 on an idle machine."""


@dataclass(slots=True, eq=False)
class Job:
    """One query on one or more data instances, or (with `script`) a database to build from schema text.

    databases: (absolute path, stamp); the stamp tells versions of one file apart. order: "" for the file itself, or a key of
    sqlite_shadow.ORDERS. tag: anything of the caller's. attempts, alone: kept by the pool.
    """

    sql: str
    databases: tuple[tuple[str, str], ...]
    limits: SqlLimits
    order: str = ""
    script: str | None = None
    tag: Any = None
    attempts: int = 0
    alone: bool = False

    def line(self) -> bytes:
        cpu = self.limits.timeout_s + (2.0 if self.order else 0.0)
        message: dict[str, Any] = {"cpu": cpu}
        if self.script is not None:
            message |= {"op": "build", "script": self.script}
        else:
            message |= {"op": "run", "sql": self.sql, "databases": self.databases, "order": self.order, "steps": self.limits.steps}
            message |= {"rows": self.limits.rows, "bytes": self.limits.bytes, "truncate": self.limits.truncate}
        return json.dumps(message, separators=(",", ":")).encode() + b"\n"

    def wall_s(self) -> float:
        return self.limits.wall_s(len(self.databases)) + (4.0 if self.order else 0.0)


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


class Worker:
    """A running worker. The pool reads `jobs` (in flight, oldest first) and `since` (when the oldest began, seconds of time.monotonic)."""

    def __init__(self) -> None:
        """Start the process; it reports for work with a first line. Raises IsolationUnavailable where no process can be started."""
        self.jobs: deque[Job] = deque()
        self.since = time.monotonic()
        self.version = ""
        self.cpu_used = 0.0
        self.peak = 0
        self._out = bytearray()
        self._rest = b""
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  (closed in reap)
        # The parent-death signal follows the thread that starts the process, so only a main thread's workers may have it.
        main_thread = threading.current_thread() is threading.main_thread()
        code = f"import sys; sys.path.append({_ROOT!r}); from prefkit.sandbox.sqlite_worker import main; main({os.getpid()}, {main_thread})"
        try:
            self.process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", code],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                cwd="/",
                env={name: os.environ[name] for name in _KEPT_ENVIRONMENT if name in os.environ},
                start_new_session=True,  # Ctrl-C is for the parent, which ends its workers itself
                bufsize=0,
            )
        except OSError as error:
            self._errors.close()
            raise IsolationUnavailable(f"a worker process cannot be started with {sys.executable}: {error}") from error
        assert self.process.stdin is not None and self.process.stdout is not None
        self.stdin, self.stdout = self.process.stdin.fileno(), self.process.stdout.fileno()
        os.set_blocking(self.stdin, False)
        os.set_blocking(self.stdout, False)

    @property
    def ready(self) -> bool:
        return bool(self.version)

    @property
    def unsent(self) -> bool:
        return bool(self._out)

    def deadline(self) -> float:
        """time.monotonic() at which this worker has had too long; infinity while it has nothing to do."""
        if not self.ready:
            return self.since + START_S
        return self.since + self.jobs[0].wall_s() if self.jobs else float("inf")

    def send(self, job: Job) -> None:
        if not self.jobs and self.ready:
            self.since = time.monotonic()
        self.jobs.append(job)
        self._out += job.line()

    def flush(self) -> None:
        """Write what fits into the pipe. A worker that is gone is noticed when it is read."""
        with contextlib.suppress(BlockingIOError, BrokenPipeError):
            while self._out:
                del self._out[: os.write(self.stdin, self._out)]
            return

    def read(self) -> list[dict[str, Any]] | None:
        """The messages that have come whole, or None when the worker is gone and nothing is left to read."""
        chunks = []
        with contextlib.suppress(BlockingIOError):
            while chunk := os.read(self.stdout, 1 << 20):
                chunks.append(chunk)
                if len(chunk) < 1 << 16:
                    break
            else:
                if not chunks:
                    return None
        *lines, self._rest = (self._rest + b"".join(chunks)).split(b"\n")
        return [json.loads(line) for line in lines]

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.process.pid, signal.SIGKILL)

    def reap(self) -> tuple[int, float]:
        """Wait for the end. Returns (return code, minus the signal where one ended it; processor seconds since the last answer)."""
        used = 0.0
        if self.process.returncode is None:
            try:
                _, status, usage = os.wait4(self.process.pid, 0)
                self.process.returncode = os.waitstatus_to_exitcode(status)
                used = usage.ru_utime + usage.ru_stime - self.cpu_used
            except ChildProcessError:  # someone else waited for it
                self.process.returncode = 1
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                stream.close()
        return self.process.returncode, used

    def complaint(self) -> str:
        """The last line that the process wrote to standard error."""
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else ""

    def forget(self) -> None:
        self._errors.close()
