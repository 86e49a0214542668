"""A folder for what need not outlive its process, nor stay behind where that is killed."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
from pathlib import Path

_PREFIX = "prefkit-own-"


class TemporaryFolder:
    """Made when it is first asked for; removed by `close`, when the program ends, or, where that was killed, by the next of the same user.

    A lock on the folder says that its process lives: the system gives it back however that ends.
    """

    def __init__(self) -> None:
        self._made: tuple[tempfile.TemporaryDirectory[str], int] | None = None
        _remove_abandoned(Path(tempfile.gettempdir()))

    @property
    def path(self) -> Path:
        """Nobody else may enter it. OSError where the system's place for temporary files takes no folder."""
        while self._made is None:
            folder = tempfile.TemporaryDirectory(prefix=_PREFIX, ignore_cleanup_errors=True)
            lock = _lock(Path(folder.name))
            if lock is None:  # another process took it for abandoned before it was locked
                folder.cleanup()
            else:
                self._made = folder, lock
        return Path(self._made[0].name)

    def close(self) -> None:
        if self._made is not None:
            folder, lock = self._made
            self._made = None
            folder.cleanup()
            os.close(lock)


def _lock(path: Path) -> int | None:
    """A descriptor that holds the lock of the folder, which must still be there; None where another process holds it."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(descriptor), os.lstat(path)):
            return descriptor
    except OSError:
        pass
    os.close(descriptor)
    return None


def _remove_abandoned(place: Path) -> None:
    for path in place.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            found = path.lstat()
            if found.st_uid != os.geteuid() or not stat.S_ISDIR(found.st_mode) or (lock := _lock(path)) is None:
                continue
            try:
                shutil.rmtree(path)
            finally:
                os.close(lock)
