"""The batches that an interrupted stage has committed: one line of JSON each, in a file beside the stage's rollouts.

A line is written whole and brought to the disk before its batch counts as done. What a kill, a power cut or a full disk left after the last
good line is cut off; a file that belongs to other requests counts for nothing.
"""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from types import TracebackType
from typing import Any

from prefkit.errors import RunError

Row = dict[str, Any]


class Partial:
    """The committed batches of the requests that `identity` is a hash of. A context manager; `add` needs it to be entered.

    done: batch number -> its results.
    """

    def __init__(self, path: Path, identity: str) -> None:
        self.path = path
        self._header = (json.dumps({"identity": identity}) + "\n").encode()
        self.done, self._end = self._read()
        self._file: int | None = None

    def _read(self) -> tuple[dict[int, list[Row]], int]:
        """What is committed, and how many bytes of the file hold it."""
        if not self.path.is_file():
            return {}, 0
        data = self.path.read_bytes()
        if not data.startswith(self._header):
            return {}, 0
        done, end = {}, len(self._header)
        for line in data[end:].split(b"\n")[:-1]:
            try:
                batch = json.loads(line)
                done[batch["batch"]] = batch["results"]
            except (ValueError, TypeError, KeyError):  # a line that never reached the disk whole; nothing after it is trusted
                break
            end += len(line) + 1
        return done, end

    def __enter__(self) -> Partial:
        with self._explained():
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = os.open(self.path, os.O_WRONLY | os.O_CREAT, 0o644)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def add(self, number: int, results: list[Row]) -> None:
        """Commit one batch. RunError where the disk does not take it; the batches before it stay."""
        self._write((b"" if self._end else self._header) + (json.dumps({"batch": number, "results": results}) + "\n").encode())
        self.done[number] = results

    def _write(self, data: bytes) -> None:
        assert self._file is not None, "Partial is a context manager"
        with self._explained():
            try:
                if os.fstat(self._file).st_size != self._end:
                    os.ftruncate(self._file, self._end)
                written = 0
                while written < len(data):
                    written += os.pwrite(self._file, data[written:], self._end + written)
                os.fsync(self._file)
            except OSError:
                with contextlib.suppress(OSError):
                    os.ftruncate(self._file, self._end)
                raise
        self._end += len(data)

    @contextlib.contextmanager
    def _explained(self):
        try:
            yield
        except OSError as error:
            raise RunError(
                f"{self.path} cannot be written: {error.strerror}. {len(self.done)} batches are kept in it. Make room on the disk, then "
                "run the same command with --resume: it goes on after them."
            ) from error
