"""JSON lines on a worker's standard input and output, and the loop that answers them. Standard library only."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from prefkit.sandbox.process_guard import resident_peak

MAX_JOBS = 50_000
"""Jobs after which a worker makes way for a fresh one."""

_output = 1


class Answering(Protocol):
    """`dirty`: this process should not be used again."""

    dirty: bool

    def answer(self, job: dict[str, Any]) -> dict[str, Any]: ...


def serve(worker: Answering, version: str, default: Callable[[Any], Any] | None = None) -> None:
    """Report for work, then one line out for each line in, until standard input ends. `default` writes what JSON does not know."""
    send({"ready": version, "peak": resident_peak()})
    for served, line in enumerate(read_lines(), 1):
        send(worker.answer(json.loads(line)), default)
        if worker.dirty or served >= MAX_JOBS:
            os._exit(0)


def keep_output() -> None:
    """From here on standard output is ours alone: what a library writes there (as DuckDB does its progress bar) goes nowhere."""
    global _output
    _output = os.dup(1)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)


def read_lines() -> Iterator[bytes]:
    """Whole lines from standard input, as they come."""
    rest = b""
    while chunk := os.read(0, 1 << 16):
        *lines, rest = (rest + chunk).split(b"\n")
        yield from lines


def send(reply: dict[str, Any], default: Callable[[Any], Any] | None = None) -> None:
    """One line to standard output. Text that is no UTF-8 leaves as escaped surrogates."""
    data = memoryview(json.dumps(reply, default=default, separators=(",", ":")).encode() + b"\n")
    while data:
        data = data[os.write(_output, data) :]
