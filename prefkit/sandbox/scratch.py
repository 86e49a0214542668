"""The folders that a candidate may write in: how full they are, and how they become empty again. Standard library only."""

from __future__ import annotations

import contextlib
import os
import stat

_BLOCK = 512


class Scratch:
    """folders: emptied between runs, the first is where a candidate starts. own: each is a file system of its own, so that its use is known
    at once; otherwise the files are counted."""

    def __init__(self, folders: list[str], own: bool) -> None:
        self.folders = [folder for folder in folders if os.path.isdir(folder)]
        self._own = own

    def used(self, most_files: int) -> tuple[int, int]:
        """Bytes and files in use; the count of files may stop past `most_files`."""
        size, files = 0, 0
        for folder in self.folders:
            if self._own:
                status = os.statvfs(folder)
                size += (status.f_blocks - status.f_bfree) * status.f_frsize
                files += status.f_files - status.f_ffree
            else:
                more = _count(folder, most_files - files)
                size, files = size + more[0], files + more[1]
        return size, files

    def wipe(self) -> bool:
        """Remove everything in them. False where something stays."""
        clean = True
        for folder in self.folders:
            clean = _empty(folder) and clean
        return clean


def _count(folder: str, most: int) -> tuple[int, int]:
    size, files = 0, 0
    pending = [folder]
    while pending and files <= most:
        with contextlib.suppress(OSError), os.scandir(pending.pop()) as entries:
            for entry in entries:
                files += 1
                with contextlib.suppress(OSError):
                    status = entry.stat(follow_symlinks=False)
                    size += status.st_blocks * _BLOCK
                    if stat.S_ISDIR(status.st_mode):
                        pending.append(entry.path)
                if files > most:
                    break
    return size, files


def _empty(folder: str) -> bool:
    """Remove what stands in a folder, whatever its modes are. Nothing else runs meanwhile, so that no name changes under our hands.

    A folder in a folder is first moved to the top, so that no path is too long, however deep a candidate went.
    """
    clean = True
    moved = 0
    os.chmod(folder, 0o700)  # its rights are a candidate's to change
    pending = [f"{folder}/{name}" for name in os.listdir(folder)]
    while pending:
        path = pending.pop()
        try:
            os.unlink(path)
            continue
        except IsADirectoryError:
            pass
        except OSError:
            clean = False
            continue
        try:
            os.chmod(path, 0o700)
            for name in os.listdir(path):
                inner = f"{path}/{name}"
                try:
                    os.unlink(inner)
                except IsADirectoryError:
                    os.chmod(inner, 0o700)
                    moved += 1
                    os.rename(inner, f"{folder}/.moved-{moved}")
                    pending.append(f"{folder}/.moved-{moved}")
            os.rmdir(path)
        except OSError:
            clean = False
    return clean
