"""JSON lines on a worker's standard input and output. Standard library only."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

_output = 1


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


def send(reply: dict[str, Any]) -> None:
    """One line to standard output. Text that is no UTF-8 leaves as escaped surrogates."""
    data = memoryview(json.dumps(reply, separators=(",", ":")).encode() + b"\n")
    while data:
        data = data[os.write(_output, data) :]
