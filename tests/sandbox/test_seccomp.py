"""The system-call filter: its program is well formed, its numbers are the kernel's, and each kind of call gets its answer."""

from __future__ import annotations

import errno
import platform
import re
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from prefkit.sandbox import seccomp, syscalls

ROOT = Path(__file__).resolve().parents[2]
HEADERS = Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h")
NAMESPACES = 0x7E020000
KILL, ALLOW, NOTIFY = 0x80000000, 0x7FFF0000, 0x7FC00000

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Linux alone has seccomp")


def evaluate(program: bytes, number: int, arguments: tuple[int, ...] = (), arch: int = 0xC000003E) -> int:
    """What a filter answers, by a second reading of the machine that the kernel documents. Fails where it would read or jump outside."""
    data = struct.pack("=iIQ6Q", number, arch, 0, *[argument & (1 << 64) - 1 for argument in (*arguments, *[0] * (6 - len(arguments)))])
    code = [struct.unpack_from("=HBBI", program, offset) for offset in range(0, len(program), 8)]
    place, register = 0, 0
    while True:
        operation, yes, no, value = code[place]
        place += 1
        if operation == 0x20:
            (register,) = struct.unpack_from("=I", data, value)
        elif operation == 0x54:
            register &= value
        elif operation == 0x06:
            return value
        else:
            test = {0x15: register == value, 0x35: register >= value, 0x45: bool(register & value)}[operation]
            place += yes if test else no


def refused(code: int) -> int:
    return 0x50000 | code


@pytest.mark.parametrize("machine", syscalls.ARCHITECTURES)
@pytest.mark.parametrize("notify", [False, True])
def test_every_call_of_the_tables_gets_its_answer(machine: str, notify: bool) -> None:
    column = syscalls.ARCHITECTURES.index(machine)
    arch = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}[machine]
    program = seccomp.program(notify=notify, machine=machine)
    assert len(program) % 8 == 0 and len(program) // 8 <= 4096
    no = NOTIFY if notify else refused(errno.EPERM)
    known = set()
    for table, want in ((syscalls.ALLOWED, ALLOW), (syscalls.HOSTILE, no), (syscalls.FORBIDDEN, no)):
        for name, numbers in table.items():
            number = numbers[column]
            if number is not None:
                assert evaluate(program, number, arch=arch) == want, name
                known.add(number)
    known |= {numbers[column] for numbers in syscalls.CONDITIONAL.values()}
    for number in {*range(600), 0xFFFFFFFF} - known:
        assert evaluate(program, number if number < 1 << 31 else -1, arch=arch) == refused(errno.ENOSYS), number


def test_tables_name_a_call_once() -> None:
    tables = (syscalls.ALLOWED, syscalls.CONDITIONAL, syscalls.HOSTILE, syscalls.FORBIDDEN)
    names = [name for table in tables for name in table]
    assert len(names) == len(set(names))
    for column in (0, 1):
        numbers = [row[column] for table in tables for row in table.values() if row[column] is not None]
        assert len(numbers) == len(set(numbers))


@pytest.mark.skipif(not HEADERS.exists(), reason="no kernel headers of x86_64")
def test_numbers_are_the_kernels() -> None:
    real = {name: int(number) for name, number in re.findall(r"#define __NR_(\w+) (\d+)", HEADERS.read_text())}
    for table in (syscalls.ALLOWED, syscalls.CONDITIONAL, syscalls.HOSTILE, syscalls.FORBIDDEN):
        for name, (number, _) in table.items():
            if name in real:
                assert real[name] == number, name


@pytest.mark.parametrize(
    ("name", "arguments", "want"),
    [
        ("clone", (0x01200011,), ALLOW),
        ("clone", (0x10000000 | 17,), NOTIFY),
        ("clone", (0x00020000,), NOTIFY),
        ("kill", (77, 9), NOTIFY),
        ("kill", (78, 9), ALLOW),
        ("tgkill", (77, 77, 9), NOTIFY),
        ("setuid", (0,), NOTIFY),
        ("setuid", (1000,), ALLOW),
        ("prlimit64", (0, 7), ALLOW),
        ("prlimit64", (77, 7), NOTIFY),
        ("socket", (1, 1), refused(errno.EACCES)),
        ("socket", (2, 1), NOTIFY),
        ("socket", (16, 3), NOTIFY),
        ("socketpair", (1, 1), ALLOW),
        ("socketpair", (1, 1 | 0o2000000), ALLOW),
        ("socketpair", (1, 5), ALLOW),
        ("socketpair", (1, 2), refused(errno.EACCES)),
        ("socketpair", (2, 1), refused(errno.EPERM)),
        ("sendto", (3, 0, 0, 0, 0), ALLOW),
        ("sendto", (3, 0, 0, 0, 1), refused(errno.EACCES)),
        ("sendto", (3, 0, 0, 0, 1 << 32), refused(errno.EACCES)),
        ("ioctl", (0, 0x5401), ALLOW),
        ("ioctl", (0, 0x5412), refused(errno.EPERM)),
        ("ioctl", (0, 0x541C), refused(errno.EPERM)),
        ("personality", (0xFFFFFFFF,), ALLOW),
        ("personality", (0,), ALLOW),
        ("personality", (0x0040000,), NOTIFY),
        ("setpriority", (0, 0, 19), ALLOW),
        ("setpriority", (0, 77, 19), refused(errno.EPERM)),
        ("setpriority", (2, 0, 19), refused(errno.EPERM)),
        ("sched_setaffinity", (0,), ALLOW),
        ("sched_setaffinity", (77,), refused(errno.EPERM)),
    ],
)  # fmt: skip
def test_calls_that_depend_on_their_arguments(name: str, arguments: tuple[int, ...], want: int) -> None:
    for column, machine in enumerate(syscalls.ARCHITECTURES):
        number = syscalls.CONDITIONAL[name][column]
        assert number is not None
        arch = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}[machine]
        assert evaluate(seccomp.program(notify=True, protected=[77], machine=machine), number, arguments, arch) == want


def test_foreign_interfaces_are_refused() -> None:
    program = seccomp.program(notify=True, machine="x86_64")
    assert evaluate(program, 0, arch=0x40000003) == KILL
    assert evaluate(program, 0x40000000) == refused(errno.ENOSYS)
    assert evaluate(program, 0x40000000 + 520) == refused(errno.ENOSYS)


def test_the_outer_filter_leaves_reports_to_the_inner_one_and_lets_it_be_installed() -> None:
    program = seccomp.program(notify=False, outer=True, machine="x86_64")
    for name in ("ptrace", "mount", "seccomp", "socket", "clone"):
        number = next(table[name][0] for table in (syscalls.HOSTILE, syscalls.FORBIDDEN, syscalls.CONDITIONAL) if name in table)
        assert number is not None and evaluate(program, number) == ALLOW
    assert evaluate(program, 425) == refused(errno.ENOSYS)  # io_uring_setup


ATTEMPTS = """
import ctypes, errno, os, select, sys
sys.path.insert(0, sys.argv[1])
from prefkit.sandbox import seccomp
listener = seccomp.install(protected=[os.getpid()])
libc = ctypes.CDLL(None, use_errno=True)
reports = []
child = os.fork()
if child == 0:
    if listener:
        os.close(listener.descriptor)
    import socket
    a, b = socket.socketpair()
    a.sendall(b"x")
    assert b.recv(1) == b"x"
    answers = []
    for call in (lambda: libc.unshare(0x10000000), lambda: libc.socket(2, 1, 0), lambda: libc.socket(2, 2, 0), lambda: libc.socket(1, 1, 0),
                 lambda: libc.kill(os.getppid(), 0), lambda: libc.personality(0x40000), lambda: libc.syscall(425, 1, 0)):
        answers.append(errno.errorcode[ctypes.get_errno()] if call() == -1 else "done")
    print(answers, flush=True)
    os._exit(0)
pidfd = os.pidfd_open(child)
while True:
    ready, _, _ = select.select([pidfd] + ([listener.descriptor] if listener else []), [], [])
    if listener and listener.descriptor in ready:
        reports.append(listener.refuse())
    elif pidfd in ready:
        break
print(reports if listener else "no listener")
"""


@pytest.mark.skipif(platform.machine() not in ("x86_64", "aarch64"), reason="no system-call table for this processor")
def test_the_kernel_takes_the_filter_and_reports_what_is_refused() -> None:
    done = subprocess.run([sys.executable, "-c", ATTEMPTS, str(ROOT)], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    answers, reports = done.stdout.splitlines()
    assert re.findall(r"'(\w+)'", answers) == ["EPERM", "EPERM", "EPERM", "EACCES", "EPERM", "EPERM", "ENOSYS"]
    if reports == "no listener":
        pytest.skip("this kernel lets nobody listen here")
    assert reports == "[('unshare', True), ('socket', True), ('socket', False), ('kill', True), ('personality', False)]"


def test_the_listener_is_not_inherited_by_programs() -> None:
    code = f"""
import os, sys
sys.path.insert(0, {str(ROOT)!r})
from prefkit.sandbox import seccomp
listener = seccomp.install()
print(listener is None or not os.get_inheritable(listener.descriptor))
"""
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60).stdout == "True\n"


def test_an_unknown_processor_has_no_filter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    with pytest.raises(OSError, match="riscv64"):
        seccomp.program(notify=False)
