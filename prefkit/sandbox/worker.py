"""One worker process as its parent sees it: start, pipes, jobs in flight, death."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import tempfile
import time
from collections import deque
from typing import Any

from prefkit.errors import IsolationUnavailable
from prefkit.sandbox.job import Job
from prefkit.sandbox.launch import command

START_S = 30.0
"""Seconds within which a worker must have started. It takes about 0.03 on an idle machine."""


class Worker:
    """A running worker. The pool reads `jobs` (in flight, oldest first) and `since` (when the oldest began, seconds of time.monotonic)."""

    def __init__(self, kind: str, tier: str, folder: str = "") -> None:
        """Start a process of that kind; it reports for work with a first line. Raises IsolationUnavailable where none can be started.

        folder: see launch.command.
        """
        self.kind, self.folder = kind, folder
        self.jobs: deque[Job] = deque()
        self.since = time.monotonic()
        self.version = ""
        self.cpu_used = 0.0
        self.peak = 0
        self._out = bytearray()
        self._rest = b""
        launch = command(kind, tier, folder)
        self._wrapped = launch.wrapped
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  (closed in reap)
        try:
            self.process = subprocess.Popen(
                launch.argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                cwd="/",
                env=launch.env,
                start_new_session=True,  # Ctrl-C is for the parent, which ends its workers itself
                bufsize=0,
            )
        except OSError as error:
            self._errors.close()
            raise IsolationUnavailable(f"a worker process cannot be started with {launch.argv[0]}: {error}") from error
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
                code = os.waitstatus_to_exitcode(status)
                self.process.returncode = 128 - code if self._wrapped and code > 128 else code
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
