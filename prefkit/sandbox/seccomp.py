"""A system-call filter: what is on the list works, what is hostile is refused and reported, what is unknown does not exist.

| call                                                        | answer                                                           |
|-------------------------------------------------------------|------------------------------------------------------------------|
| in syscalls.ALLOWED                                         | runs                                                             |
| in syscalls.HOSTILE; clone with a new namespace             | EPERM, reported as hostile                                       |
| kill of a protected process; setuid(0), setgid(0)           | EPERM, reported as hostile                                       |
| socket for TCP over IPv4                                    | EPERM, reported as hostile                                       |
| socket of any other family but Unix                         | EPERM, reported: libraries look for addresses when imported      |
| in syscalls.FORBIDDEN; personality; prlimit of another      | EPERM, reported                                                  |
| socket(AF_UNIX), sendto an address, datagram pairs          | EACCES: libraries ask for name services, and do without           |
| priorities of others, terminal injection                    | EPERM                                                            |
| any other, also of the 32-bit and x32 interfaces            | ENOSYS (a foreign architecture is killed)                        |

"Reported": the kernel hands the call to the process that put the filter in force (SECCOMP_RET_USER_NOTIF), which refuses it and knows
from then on. Where the kernel allows no listener, the same calls are refused without a report.

Own assembly rather than pyseccomp: that package was last released in 2021, and it needs libseccomp2, which minimal containers lack; the
program below is a list of comparisons that fits a page. Format: https://docs.kernel.org/userspace-api/seccomp_filter.html.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import platform
import struct
from collections.abc import Iterable

from prefkit.sandbox.syscalls import ALLOWED, ARCHITECTURES, CONDITIONAL, FORBIDDEN, HOSTILE

_AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_X32 = 0x40000000

_LOAD, _AND, _JUMP_EQUAL, _JUMP_ABOVE, _JUMP_ANY_BIT, _RETURN = 0x20, 0x54, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16
"""Where struct seccomp_data holds them."""

_ALLOW, _NOTIFY, _KILL_PROCESS = 0x7FFF0000, 0x7FC00000, 0x80000000
_NEW_NAMESPACES = 0x7E020000
"""CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET."""
_AF_UNIX, _AF_INET, _SOCK_STREAM, _SOCK_SEQPACKET, _TIOCSTI, _TIOCLINUX, _QUERY = 1, 2, 1, 5, 0x5412, 0x541C, 0xFFFFFFFF

_HOSTILE_SO = ("clone", "kill", "tkill", "tgkill", "setuid", "setgid")
"""Calls that are reported only where their arguments make them hostile."""

_SET_MODE_FILTER, _NEW_LISTENER, _WAIT_KILLABLE = 1, 1 << 3, 1 << 5
_SECCOMP = {"x86_64": 317, "aarch64": 277}
_PR_SET_NO_NEW_PRIVS = 38
_NOTIF_RECV, _NOTIF_SEND = 0xC0502100, 0xC0182101

_Instruction = tuple[int, int, int, int]
_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


def architecture() -> str:
    """The name of this machine's system-call table. Raises OSError where there is none here."""
    name = {"arm64": "aarch64", "amd64": "x86_64"}.get(platform.machine(), platform.machine())
    if name not in ARCHITECTURES:
        raise OSError(errno.ENOSYS, f"no system-call table for {name}")
    return name


def program(notify: bool, outer: bool = False, protected: Iterable[int] = (), machine: str = "") -> bytes:
    """The filter as an array of struct sock_filter, for bwrap's --seccomp or for seccomp(2).

    notify: report hostile and forbidden calls to the listener instead of refusing them at once. outer: leave those to a filter that is put
    in force inside this one, and let that be done. protected: processes that must not be sent signals. machine: a name of ARCHITECTURES.
    """
    machine = machine or architecture()
    refused = _ALLOW if outer else _NOTIFY if notify else _errno(errno.EPERM)
    column = ARCHITECTURES.index(machine)
    code = [(_LOAD, 0, 0, _ARCHITECTURE), (_JUMP_EQUAL, 1, 0, _AUDIT_ARCH[machine]), (_RETURN, 0, 0, _KILL_PROCESS), (_LOAD, 0, 0, _NUMBER)]
    if machine == "x86_64":
        code += [(_JUMP_ABOVE, 0, 1, _X32), (_RETURN, 0, 0, _errno(errno.ENOSYS))]
    answers = {numbers[column]: _ALLOW for numbers in ALLOWED.values()}
    answers |= {numbers[column]: refused for numbers in (HOSTILE | FORBIDDEN).values()}
    for name, body in _conditions(refused, protected).items():
        number = CONDITIONAL[name][column]
        if outer:
            answers[number] = _ALLOW
        elif number is not None:
            code += [(_JUMP_EQUAL, 0, len(body), number), *body]
    answers.pop(None, None)
    code += _steps({number: answer for number, answer in answers.items() if number is not None})
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in code)


def _conditions(refused: int, protected: Iterable[int]) -> dict[str, list[_Instruction]]:
    """What decides about calls that depend on their arguments; each ends in an answer."""
    allow, refuse, no = (_RETURN, 0, 0, _ALLOW), (_RETURN, 0, 0, refused), (_RETURN, 0, 0, _errno(errno.EPERM))
    quiet = (_RETURN, 0, 0, _errno(errno.EACCES))
    spared: list[_Instruction] = [instruction for pid in protected for instruction in ((_JUMP_EQUAL, 0, 1, pid), refuse)]
    signals = [_argument(0), *spared, allow]
    own = [_argument(0), (_JUMP_EQUAL, 0, 1, 0), allow, no]
    return {
        "clone": [_argument(0), (_JUMP_ANY_BIT, 0, 1, _NEW_NAMESPACES), refuse, allow],
        "kill": signals,
        "tkill": signals,
        "tgkill": signals,
        "setuid": [_argument(0), (_JUMP_EQUAL, 0, 1, 0), refuse, allow],
        "setgid": [_argument(0), (_JUMP_EQUAL, 0, 1, 0), refuse, allow],
        "prlimit64": [_argument(0), (_JUMP_EQUAL, 0, 1, 0), allow, refuse],
        "socket": [_argument(0), (_JUMP_EQUAL, 0, 1, _AF_UNIX), quiet, refuse],
        "socketpair": [
            *(_argument(0), (_JUMP_EQUAL, 1, 0, _AF_UNIX), no),
            *(_argument(1), (_AND, 0, 0, 0xF), (_JUMP_EQUAL, 1, 0, _SOCK_STREAM), (_JUMP_EQUAL, 0, 1, _SOCK_SEQPACKET), allow, quiet),
        ],
        "sendto": [_argument(4), (_JUMP_EQUAL, 1, 0, 0), quiet, _argument(4, high=True), (_JUMP_EQUAL, 1, 0, 0), quiet, allow],
        "ioctl": [_argument(1), (_JUMP_EQUAL, 1, 0, _TIOCSTI), (_JUMP_EQUAL, 0, 1, _TIOCLINUX), no, allow],
        "personality": [_argument(0), (_JUMP_EQUAL, 1, 0, 0), (_JUMP_EQUAL, 0, 1, _QUERY), allow, refuse],
        "setpriority": [_argument(0), (_JUMP_EQUAL, 0, 3, 0), _argument(1), (_JUMP_EQUAL, 0, 1, 0), allow, no],
        "sched_setaffinity": own,
        "sched_setscheduler": own,
        "sched_setparam": own,
        "sched_setattr": own,
    }


def _argument(index: int, high: bool = False) -> _Instruction:
    """Load half of an argument; both architectures are little-endian."""
    return (_LOAD, 0, 0, _ARGUMENTS + 8 * index + (4 if high else 0))


def _steps(answers: dict[int, int]) -> list[_Instruction]:
    """The answer to each number as a step function: below each border, the answer of the stretch that ends there."""
    unknown = _errno(errno.ENOSYS)
    code: list[_Instruction] = []
    last = max(answers)
    for number in range(last + 1):
        answer = answers.get(number, unknown)
        if answer != answers.get(number + 1, unknown) or number == last:
            code += [(_JUMP_ABOVE, 1, 0, number + 1), (_RETURN, 0, 0, answer)]
    return [*code, (_RETURN, 0, 0, unknown)]


def _errno(code: int) -> int:
    return 0x50000 | code


def install(protected: Iterable[int] = (), report: bool = True) -> Listener | None:
    """Put the filter in force for this thread and all that it starts, for ever. Returns where refused calls are reported, or None without
    `report` and where the kernel allows no listener (before 5.0, or where this process already has one above it). Raises OSError where it
    cannot be done."""
    if _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "PR_SET_NO_NEW_PRIVS")
    protected = tuple(protected)
    for flags in (_NEW_LISTENER | _WAIT_KILLABLE, _NEW_LISTENER, 0) if report else (0,):
        code = program(notify=bool(flags), protected=protected)
        buffer = ctypes.create_string_buffer(code, len(code))
        header = ctypes.create_string_buffer(struct.pack("@HP", len(code) // 8, ctypes.addressof(buffer)))
        result = _libc.syscall(ctypes.c_long(_SECCOMP[architecture()]), ctypes.c_long(_SET_MODE_FILTER), ctypes.c_long(flags), header)
        if result >= 0:
            return Listener(result) if flags else None
        code_of_error = ctypes.get_errno()
    raise OSError(code_of_error, f"seccomp: {os.strerror(code_of_error)}")


class Listener:
    """Where the kernel reports refused calls. The processes under the filter must not hold its descriptor: whoever does can allow them."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        column = ARCHITECTURES.index(architecture())
        self._names = {numbers[column]: name for table in (CONDITIONAL, HOSTILE, FORBIDDEN) for name, numbers in table.items()}

    def refuse(self) -> tuple[str, bool] | None:
        """Refuse the call that waits. Returns its name and whether it is hostile; None where its process is gone."""
        notice = bytearray(80)
        try:
            fcntl.ioctl(self.descriptor, _NOTIF_RECV, notice)
            identity, _, _, number, _, _, *arguments = struct.unpack_from("=QIIiIQQQ", notice)
            fcntl.ioctl(self.descriptor, _NOTIF_SEND, struct.pack("=QqiI", identity, 0, -errno.EPERM, 0))
        except OSError:
            return None
        name = self._names.get(number, str(number))
        if name == "socket":
            return name, arguments[0] == _AF_INET and arguments[1] & 0xF == _SOCK_STREAM
        return name, name in HOSTILE or name in _HOSTILE_SO
