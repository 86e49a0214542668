"""Programs that were compiled inside the sandbox, kept in memory by the hash of what they were made from. Standard library only.

Each is a sealed memory file that the zygote holds open: it has no name, so no candidate can reach it to change it or its rights (Landlock
does not look after rights), and the seals keep it as it is. A program that was made from hostile source is as hostile as its source, and is
found again by exactly that source alone.
"""

from __future__ import annotations

import fcntl
import os
import stat

PRODUCT = "program.out"
"""What a compiler is told to write, in the working folder."""
FIRST_DESCRIPTOR = 512
"""Descriptors from here on are compiled programs."""
_MOST = 200
_COPY = 1 << 20
_MFD_EXEC = 0x10
_SEALS = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE if hasattr(fcntl, "F_SEAL_SEAL") else 0


class Compiled:
    """descriptors: by key. size: most bytes of all together; the ones that were made first go first."""

    def __init__(self, size: int) -> None:
        self.descriptors: dict[str, int] = {}
        self._most = size
        self._sizes: dict[str, int] = {}

    def store(self, key: str, path: str) -> bool:
        """Keep what a compiler left at `path`. False where that is no plain file of a fitting size."""
        try:
            source = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            status = os.fstat(source)
            if not stat.S_ISREG(status.st_mode) or not 0 < status.st_size <= self._most:
                return False
            self._make_room(status.st_size)
            self.descriptors[key] = _sealed_copy(source)
            self._sizes[key] = status.st_size
            return True
        except OSError:
            return False
        finally:
            os.close(source)

    def _make_room(self, size: int) -> None:
        while self._sizes and (sum(self._sizes.values()) + size > self._most or len(self._sizes) >= _MOST):
            oldest = next(iter(self._sizes))
            del self._sizes[oldest]
            os.close(self.descriptors.pop(oldest))


def _sealed_copy(source: int) -> int:
    flags = os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING
    try:
        memory = os.memfd_create("program", flags | _MFD_EXEC)
    except OSError:  # kernels before 6.3 do not know the flag, and need none
        memory = os.memfd_create("program", flags)
    try:
        while os.sendfile(memory, source, None, _COPY):
            pass
        fcntl.fcntl(memory, fcntl.F_ADD_SEALS, _SEALS)
        return fcntl.fcntl(memory, fcntl.F_DUPFD_CLOEXEC, FIRST_DESCRIPTOR)
    finally:
        os.close(memory)
