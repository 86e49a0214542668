"""In the process that a zygote forks for one candidate: read the message, lock the door, run the op. Standard library only.

Up to the call of the op everything here is trusted; from then on nothing in this process is.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import os
import resource
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from json.encoder import encode_basestring_ascii
from typing import Any, NoReturn

from prefkit.sandbox import landlock
from prefkit.sandbox.compiled import FIRST_DESCRIPTOR
from prefkit.sandbox.zygote_wire import Header

RESULT, _MESSAGE, _PROGRAM = 3, 4, 5
"""Descriptors of the child: where its result goes, and where its message comes from. 0, 1 and 2 are its standard streams."""

OPEN_FILES = 256
MESSAGE_BAD = 97
_LAST_DESCRIPTOR = 1 << 20
_SPARE_THREADS = 48
"""Threads beyond the processes allowed: the kernel counts both alike, and a thread is no process of its own."""
_PR_SET_DUMPABLE = 4
_M_PERTURB = -6

_DEFAULTS: dict[str, float] = {"timeout": 2.0, "memory": 512 << 20, "output": 1 << 20, "processes": 16, "disk": 16 << 20}


class Bad(Exception):
    """The message cannot be run; the reason is the first argument."""


class NotLoaded(Exception):
    """The zygote has not imported the op yet; its name is the first argument."""


@dataclass(slots=True)
class Plan:
    """What is to happen in this process, as an op that has a `plan` function says; an op without is simply called with the message.

    argv: the program that takes this process's place. program: its descriptor, where it has no name. stdin: text for it. compile: the key
    of a program that must be compiled first; argv is the compiler then, and leaves compiled.PRODUCT in the working folder. address_space:
    bytes that each process may map beyond twice the memory limit. threads: that it needs besides the processes allowed. call: what to run
    in this process instead of argv. limits: those that differ from the message's.
    """

    argv: list[str] = field(default_factory=list)
    stdin: str = ""
    program: int | None = None
    compile: str = ""
    address_space: int = 0
    threads: int = 0
    call: Callable[[], None] | None = None
    limits: dict[str, float] = field(default_factory=dict)


class Lock:
    """What every child puts in force, made ready once: looking things up costs each child a copy of the pages they stand in.

    rules: the Landlock rules of candidates. taken: threads that count against the limit of this user already. Raises OSError.
    """

    def __init__(self, rules: int, taken: int) -> None:
        self._rules = rules
        self._taken = taken
        self.handles_signals = signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
        libc = ctypes.CDLL(None)
        self._prctl, self._mallopt = libc.prctl, getattr(libc, "mallopt", None)
        self._hard = {what: resource.getrlimit(what)[1] for what in _LIMITED}
        with open("/proc/self/statm", "rb") as file:
            self._mapped = int(file.read().split()[0]) * resource.getpagesize()

    def close(self) -> None:
        """Refuse files outside, for ever; and let go of what is the zygote's."""
        landlock.restrict(self._rules)
        os.closerange(_MESSAGE + 1, FIRST_DESCRIPTOR)

    def limit(self, header: Header, address_space: int) -> None:
        """Limits of each process; what holds for all of them together is watched by the zygote."""
        space = 2 * header.memory + (address_space or self._mapped)
        processes = self._taken + header.processes + header.threads
        values = (0, 0, int(header.timeout) + 2, header.disk, OPEN_FILES, space, processes)
        for what, value in zip(_LIMITED, values, strict=True):
            hard = self._hard[what]
            value = value if hard == resource.RLIM_INFINITY else min(value, hard)
            resource.setrlimit(what, (value, value))
        self._prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0)
        if self._mallopt is not None:
            self._mallopt(_M_PERTURB, 0)


_LIMITED = (
    *(resource.RLIMIT_CORE, resource.RLIMIT_MEMLOCK, resource.RLIMIT_CPU, resource.RLIMIT_FSIZE),
    *(resource.RLIMIT_NOFILE, resource.RLIMIT_AS, resource.RLIMIT_NPROC),
)


def run(ops: dict[str, Any], lock: Lock, pipes: tuple[int, int, int, int]) -> NoReturn:
    """Be the child: `pipes` are the ends for the message, the result, standard output and standard error.

    ops: functions by name; a plan function stands under the op's name with "?plan".
    """
    code = MESSAGE_BAD
    try:
        if lock.handles_signals:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.setsid()
        for source, target in zip(pipes, (_MESSAGE, RESULT, 1, 2), strict=True):
            os.dup2(source, target)
        lock.close()
        code = _serve(ops, lock)
    except Bad as error:
        os.write(RESULT, Header("B", str(error)).pack())
    except NotLoaded as error:
        os.write(RESULT, Header("L", str(error)).pack())
    except BaseException as error:
        with contextlib.suppress(BaseException):
            os.write(2, f"{type(error).__name__}: {error}\n".encode("utf-8", "replace"))
    os._exit(code)


def _serve(ops: dict[str, Any], lock: Lock) -> int:
    message = _read_message()
    limits = {name: _number(message.get("limits"), name, default) for name, default in _DEFAULTS.items()}
    op = message.get("op")
    if not isinstance(op, str) or op not in ops:
        raise NotLoaded(op) if isinstance(op, str) else Bad("no op")
    _write_files(message.get("files") or {})
    plan = None
    if f"{op}?plan" in ops:
        plan = ops[f"{op}?plan"](message)
        limits |= plan.limits
    kind = "V" if plan is None else "C" if plan.compile else "X"
    threads = _SPARE_THREADS + (plan.threads if plan else 0)
    wall = 1.0 + 1.5 * limits["timeout"]
    memory, output, processes, disk = (int(limits[name]) for name in ("memory", "output", "processes", "disk"))
    header = Header(kind, plan.compile if plan else "", limits["timeout"], wall, memory, output, processes, disk, threads)
    os.write(RESULT, header.pack())
    if plan is not None and plan.program is not None:
        os.dup2(plan.program, _PROGRAM, inheritable=False)
    os.closerange(FIRST_DESCRIPTOR, _LAST_DESCRIPTOR)
    lock.limit(header, plan.address_space if plan else 0)
    if plan is not None:
        return _become(plan)
    return _answer(ops[op], message)


def _read_message() -> dict[str, Any]:
    chunks = []
    while True:
        chunk = os.read(_MESSAGE, 1 << 16)
        if not chunk:
            os._exit(0)  # the zygote has ended
        chunks.append(chunk)
        if chunk.endswith(b"\n"):
            break
    os.close(_MESSAGE)
    try:
        message = json.loads(b"".join(chunks))
    except (ValueError, RecursionError) as error:
        raise Bad(f"message is no JSON: {error}") from error
    if not isinstance(message, dict):
        raise Bad("message is no object")
    return message


def _number(limits: Any, name: str, default: float) -> float:
    value = limits.get(name, default) if isinstance(limits, dict) else default
    if type(value) not in (int, float) or not 0 < value < 1 << 50:
        raise Bad(f"limit {name} is no positive number")
    return value


def _write_files(files: Any) -> None:
    """Into the working folder. Names come from outside: none may lead out of it."""
    if not isinstance(files, dict):
        raise Bad("files is no object")
    for path, text in files.items():
        parts = path.split("/")
        if not isinstance(text, str) or "\0" in path or any(part in ("", ".", "..") for part in parts):
            raise Bad("a file's name must be a relative path without dots, and its content text")
        if len(parts) > 1:
            os.makedirs("/".join(parts[:-1]), exist_ok=True)
        try:
            write_file(path, text)
        except OSError as error:
            raise Bad(f"a file cannot be written: {error.strerror}") from error


def write_file(path: str, text: str) -> None:
    """A new file in the working folder. Raises OSError."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    data = memoryview(text.encode("utf-8", "surrogatepass"))
    while data:
        data = data[os.write(file, data) :]
    os.close(file)


def _become(plan: Plan) -> int:
    """Read from the given text and make way for the program."""
    stdin = os.memfd_create("stdin")
    data = memoryview(plan.stdin.encode("utf-8", "surrogatepass"))
    while data:
        data = data[os.write(stdin, data) :]
    os.lseek(stdin, 0, os.SEEK_SET)
    os.dup2(stdin, 0)
    os.close(stdin)
    if plan.call is not None:
        gc.unfreeze()
        gc.enable()
        plan.call()
        return 0
    os.close(RESULT)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    try:
        os.execve(plan.argv[0] if plan.program is None else _PROGRAM, plan.argv, dict(os.environ))
    except OSError as error:
        os.write(2, f"{plan.argv[0]}: {error.strerror}\n".encode())
        return 126


def _answer(op: Callable[[dict[str, Any]], dict[str, Any]], message: dict[str, Any]) -> int:
    """Call the op and send back what it returns. What it needs afterwards is looked up before, while nobody has touched it."""
    encode, write, refused, exit_, view_of = plain_json(), os.write, failure_of, os._exit, memoryview
    os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
    gc.enable()
    try:
        line = b"=" + encode(op(message)).encode("ascii") + b"\n"
        code = 0
    except BaseException as error:
        status, reason = refused(error)
        line, code = b"!" + encode({"status": status, "reason": reason}).encode("ascii", "replace") + b"\n", 1
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:
        pass
    view = view_of(line)
    while view:
        view = view[write(RESULT, view) :]
    exit_(code)
    return code


def plain_json() -> Callable[[Any], str]:
    """What writes plain data as JSON in ASCII, in C from end to end: whatever is changed later in `json` changes nothing of it."""
    make = getattr(json.encoder, "c_make_encoder", None)
    if make is None:  # a Python without it
        return json.JSONEncoder(separators=(",", ":")).encode
    encoder = make(None, _no_json, encode_basestring_ascii, None, ":", ",", False, False, True)
    return lambda value: "".join(encoder(value, 0))


def _no_json(value: object) -> object:
    raise TypeError


def failure_of(error: BaseException) -> tuple[str, str]:
    """Status and uniform reason of what was raised."""
    if isinstance(error, MemoryError):
        return "limit", "limit: memory"
    if isinstance(error, OSError):
        reason = OS_ERRORS.get(error.errno or 0)
        if reason is not None:
            return reason
    text = str(error) if type(error) in (RuntimeError, ValueError) else ""
    if "can't start new thread" in text:
        return "limit", "limit: threads"
    if "not allowed to raise maximum limit" in text:
        return "policy", "policy: raise a limit"
    return "crash", type(error).__name__


OS_ERRORS: dict[int, tuple[str, str]] = {
    1: ("policy", "policy: operation not permitted"),
    13: ("policy", "policy: permission denied"),
    30: ("policy", "policy: read-only file system"),
    11: ("limit", "limit: processes"),
    12: ("limit", "limit: memory"),
    24: ("limit", "limit: open files"),
    27: ("limit", "limit: file size"),
    28: ("limit", "limit: disk"),
    122: ("limit", "limit: disk"),
}
"""By number: EPERM, EACCES, EROFS; EAGAIN, ENOMEM, EMFILE, EFBIG, ENOSPC, EDQUOT."""
