"""Landlock: what this process and all that it starts may touch in the file system, the network and other processes.

Spoken through its three system calls, which have the same numbers on every architecture; a library would bring nothing else. See
https://docs.kernel.org/userspace-api/landlock.html. The interface has versions (ABI): 1 files (kernel 5.13), 2 renames between folders,
3 truncation, 4 TCP, 5 device ioctls, 6 signals and abstract Unix sockets (6.12). What a kernel does not know is left out of the rules.
"""

from __future__ import annotations

import ctypes
import os
import stat
import struct
import sys
from collections.abc import Iterable

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION_FLAG = 1
_PATH_BENEATH = 1

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_REMOVE_DIR, _REMOVE_FILE, _MAKE_CHAR, _MAKE_DIR, _MAKE_REG, _MAKE_SOCK, _MAKE_FIFO, _MAKE_BLOCK, _MAKE_SYM = (1 << n for n in range(4, 13))
_REFER, _TRUNCATE, _IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
_BIND_TCP, _CONNECT_TCP = 1 << 0, 1 << 1
_SCOPE_ABSTRACT_UNIX, _SCOPE_SIGNAL = 1 << 0, 1 << 1

READ = _EXECUTE | _READ_FILE | _READ_DIR
LIST = _READ_DIR
DEVICE = _READ_FILE | _WRITE_FILE
WRITE = READ | _WRITE_FILE | _REMOVE_DIR | _REMOVE_FILE | _MAKE_DIR | _MAKE_REG | _MAKE_SOCK | _MAKE_FIFO | _MAKE_SYM | _REFER | _TRUNCATE
_OF_A_FILE = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV
"""Rights that a rule on something other than a folder may name."""

SCOPED_SIGNALS_ABI = 6

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


def abi() -> int:
    """The version of Landlock that this kernel speaks; 0 where it has none, or has it switched off."""
    if sys.platform != "linux":
        return 0
    return max(0, _libc.syscall(_CREATE_RULESET, None, 0, _VERSION_FLAG))


def ruleset(rules: Iterable[tuple[str, int]], scoped: bool = True) -> int:
    """A descriptor of rules: each path with what is allowed at it and below; all else is refused, as is TCP.

    scoped: no signals to, and no abstract sockets of, processes outside. Paths that do not exist are left out. Raises OSError.
    """
    version = abi()
    files = _known_files(version)
    network = _BIND_TCP | _CONNECT_TCP if version >= 4 else 0
    scopes = _SCOPE_ABSTRACT_UNIX | _SCOPE_SIGNAL if scoped and version >= SCOPED_SIGNALS_ABI else 0
    attributes = struct.pack("QQQ", files, network, scopes)[: 8 if version < 4 else 16 if version < 6 else 24]
    descriptor = _call(_CREATE_RULESET, attributes, len(attributes), 0)
    for path, rights in rules:
        _allow(descriptor, path, rights & files)
    return descriptor


def reading(folder: str, hidden: Iterable[str]) -> list[tuple[str, int]]:
    """Rules that let a folder be read without what is hidden in it. Rules can only add, so those beside it are named one by one; that
    there is something hidden can still be seen, and the names in it."""
    inside = [path for path in hidden if path == folder or path.startswith(f"{folder}/")]
    if folder in inside:
        return []
    if not inside:
        return [(folder, READ)]
    rules = [(folder, LIST)]
    with os.scandir(folder) as entries:
        for entry in entries:
            # What a link points to is judged by where it stands, so a link needs no rule, and must not give one to its target.
            if not entry.is_symlink():
                rules += reading(entry.path, inside)
    return rules


def shown(tier: str, folders: Iterable[str] = (), hidden: Iterable[str] = ()) -> list[tuple[str, int]]:
    """Rules for reading what a sandbox holds: in tier A all that its own file system shows, in tier B the folders named, without what is
    hidden. Raises OSError where this kernel cannot keep signals inside, which in tier B nothing else does."""
    if tier == "A":
        return [("/", READ)]
    if abi() < SCOPED_SIGNALS_ABI:
        raise OSError(f"Landlock of this kernel (ABI {abi()}) cannot keep signals inside")
    hidden = list(hidden)
    return [rule for folder in folders for rule in reading(folder, hidden)]


def restrict(descriptor: int) -> None:
    """Put the rules in force for this thread and all that it starts, for ever; PR_SET_NO_NEW_PRIVS must be set. Raises OSError."""
    _call(_RESTRICT_SELF, descriptor, 0)


def _known_files(version: int) -> int:
    """Every right on files that this version can refuse."""
    newest = {1: 13, 2: 14, 3: 15, 4: 15}.get(version, 16)
    return (1 << newest) - 1


def _allow(descriptor: int, path: str, rights: int) -> None:
    try:
        target = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        if not stat.S_ISDIR(os.fstat(target).st_mode):
            rights &= _OF_A_FILE
        _call(_ADD_RULE, descriptor, _PATH_BENEATH, struct.pack("=Qi", rights, target), 0)
    finally:
        os.close(target)


def _call(number: int, *arguments: int | bytes) -> int:
    result = _libc.syscall(*(ctypes.c_long(value) if isinstance(value, int) else value for value in (number, *arguments)))
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"Landlock: {os.strerror(code)}")
    return result
