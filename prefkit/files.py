"""Files that are there whole or not at all: written under a temporary name in the same folder, fsynced, then renamed."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

TEMPORARY = ".tmp-"
WEIGHTS = "adapter_model.safetensors"
ADAPTER_FILES = ("adapter_config.json", WEIGHTS)
"""What an adapter's folder holds, as PEFT names it."""


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path to write to; at the end of the block it takes the place of `path` in one step.

    A block that raises, or a process that is killed, leaves the old file as it was.
    """
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = _temporary_name(target)
    try:
        yield temporary
        sync(temporary)
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)
    sync(target.parent)


def write_bytes(path: str | Path, data: bytes) -> None:
    """Write `data` to `path`, whole or not at all."""
    with replacing(path) as temporary:
        temporary.write_bytes(data)


def write_text(path: str | Path, text: str) -> None:
    """Write `text` as UTF-8 to `path`, whole or not at all."""
    write_bytes(path, text.encode("utf-8"))


@contextmanager
def replacing_folder(path: str | Path) -> Iterator[Path]:
    """Yield an empty temporary folder to fill; at the end of the block it takes the place of the folder `path`.

    A folder cannot be replaced in one step: a process killed between the two renames leaves no folder at all, never half a one.
    """
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary, old = _temporary_name(target), _temporary_name(target)
    temporary.mkdir()
    try:
        yield temporary
        for file in temporary.rglob("*"):
            sync(file)
        if target.exists():
            os.replace(target, old)
        os.replace(temporary, target)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)
    sync(target.parent)


def remove(path: str | Path) -> None:
    """Remove a file, or a folder with all that is in it; nothing where there is none."""
    path = Path(path)
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def remove_temporaries(folder: str | Path) -> int:
    """Remove what killed writers left below `folder`; returns how many there were. Only for a folder that nobody writes to now."""
    left = [path for path in Path(folder).rglob(f"{TEMPORARY}*") if TEMPORARY not in str(path.parent.relative_to(folder))]
    for path in left:
        remove(path)
    return len(left)


def _temporary_name(target: Path) -> Path:
    # The name ends like the target's, because some writers look at the suffix.
    return target.with_name(f"{TEMPORARY}{secrets.token_hex(4)}-{target.name}")


def sync(path: Path) -> None:
    """Have the operating system write a file, or the names in a folder, to the disk before this returns."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def copy_adapter(source: Path, target: Path) -> None:
    """Copy an adapter into the folder `target`, which is there: what else lies in `source` (a card, optimiser states) is left out."""
    for name in ADAPTER_FILES:
        shutil.copy2(source / name, target / name)
