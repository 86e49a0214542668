"""Which isolation code can have on this machine, found by running canaries in it; and the tier to use.

| tier | what holds                                                        | who may use it                             |
|------|-------------------------------------------------------------------|--------------------------------------------|
| A    | namespaces (bwrap), system-call filter, Landlock, limits          | everyone; it is what code needs by default |
| B    | system-call filter, Landlock with scoped signals, limits          | who lowers `min_isolation` to B            |

A canary is a program that tries what must not succeed. What counts is what came of it, seen from outside where it can be: no connection
arrived, no file appeared, no secret came back. Where one gets through, the tier does not hold, whatever the kernel says of its features.
There is no way down but the user's: without the tier that is asked for there is an error that says why and what to do.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import secrets
import socket
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from prefkit.errors import IsolationUnavailable
from prefkit.sandbox.job import CodeJob, CodeResult
from prefkit.sandbox.launch import GUARDED, command, require
from prefkit.sandbox.pool import WorkerPool
from prefkit.sandbox.probe import Evidence, Probe, probe_duckdb

CODE_TIERS = ("A", "B")

_SECRET = "PREFKIT_CANARY"
_MOST_PROCESSES = 100
_TRIES = 5
_MENDS = (
    ("bwrap is not installed", "install it: apt-get install bubblewrap (Debian, Ubuntu) or dnf install bubblewrap (Fedora)"),
    ("is setuid", "take that away: chmod u-s,g-s /usr/bin/bwrap"),
    ("Landlock", "boot a kernel with Landlock on: 5.13 or later with landlock among lsm= for tier A, 6.12 or later for tier B"),
    ("namespace", "allow user namespaces: sysctl -w kernel.unprivileged_userns_clone=1 user.max_user_namespaces=10000; on Ubuntu sysctl -w "
     "kernel.apparmor_restrict_unprivileged_userns=0; in Docker --security-opt seccomp=unconfined --security-opt systempaths=unconfined"),
    ("uid map", "allow user namespaces: on Ubuntu sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"),
    ("Permission denied", "let every user read Python and its packages: chmod -R go+rX on their folder; or run as an ordinary user"),
    ("system-call table", "use a machine with an x86_64 or aarch64 processor"),
    ("on Linux alone", "use a Linux machine, or a Linux container that allows user namespaces"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Canary:
    """code: the program, in Python, with {names} filled in. held: whether the guard held, from the result."""

    tried: str
    code: str
    held: Callable[[CodeResult], bool]
    cpu_s: float = 2.0
    memory: int = 256 << 20


@functools.cache
def probe_code(tier: str) -> Probe:
    """Run the canaries in tier "A" or "B". Takes about two seconds, once in a process."""
    if tier not in CODE_TIERS:
        raise ValueError(f"code runs in tier A or B, not {tier!r}")
    evidence: list[Evidence] = []
    try:
        command("zygote", tier)  # says at once what is missing
        with _bait() as bait, WorkerPool(1, {"zygote": tier}) as pool:
            for canary in _canaries(bait):
                evidence.append(_evidence(canary, _run(pool, canary)))
            evidence += bait.seen()
    except IsolationUnavailable as error:
        return Probe(None, tuple(evidence), mend_for(str(error)))
    broken = [item.tried for item in evidence if not item.held]
    if broken:
        return Probe(None, tuple(evidence), f"tier {tier} does not hold here; it lets through: {', '.join(broken)}")
    return Probe(tier, tuple(evidence))


def code_tier(least: str = "A") -> str:
    """The strongest tier that holds here, at least `least`. Raises IsolationUnavailable with the cause and the mend."""
    causes = []
    allowed = CODE_TIERS[:1] if least == "A" else CODE_TIERS
    for tier in allowed:
        probe = probe_code(tier)
        if probe.tier:
            return tier
        causes.append(f"tier {tier}: {probe.mend}")
    if "B" not in allowed and probe_code("B").tier:
        causes.append("tier B (no namespaces) holds here; allow it with --min-isolation B or min_isolation: B")
    raise IsolationUnavailable("code cannot be isolated here. " + "; ".join(causes))


def worker_tier(kind: str, least: str = "A") -> str:
    """The tier for a worker of that kind (see launch.py), where it is not P at least `least`. Raises IsolationUnavailable with the mend:
    the isolation is not to be had, or the package that the worker needs is not installed."""
    require(kind)
    if kind in GUARDED:
        return "P"
    tier = code_tier(least)
    if kind == "duckdb" and probe_duckdb(tier).tier is None:
        raise IsolationUnavailable(f"DuckDB cannot be run safely here: {probe_duckdb(tier).mend}")
    return tier


def mend_for(cause: str) -> str:
    """The cause, with what to do about it where that is known."""
    mend = next((mend for sign, mend in _MENDS if sign in cause), "")
    return f"{cause}. Mend: {mend}" if mend else cause


def _run(pool: WorkerPool, canary: _Canary) -> CodeResult:
    """Run a canary, again where the machine was too busy for it: that says nothing about the guard."""
    for _ in range(_TRIES):
        message = {"language": "python", "code": canary.code}
        result: CodeResult = pool.run(CodeJob("program", message, cpu_s=canary.cpu_s, memory=canary.memory)).last
        if result.status != "infra":
            break
    return result


def _evidence(canary: _Canary, result: CodeResult) -> Evidence:
    said = " ".join((result.stdout or result.reason).split())[:80]
    return Evidence(canary.tried, canary.held(result), f"{result.status}: {said}" if said else result.status)


class _Bait:
    """What the canaries go for, and what became of it."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.secret = secrets.token_hex(8)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener.setblocking(False)
        self.port = self.listener.getsockname()[1]
        # Anyone may read and write here, so that it is the sandbox that must refuse.
        os.chmod(folder, 0o777)
        with open(os.path.join(folder, "secret"), "w") as file:
            file.write(self.secret)
        os.chmod(os.path.join(folder, "secret"), 0o666)

    def seen(self) -> Iterator[Evidence]:
        try:
            self.listener.accept()[0].close()
            yield Evidence("connect to this machine", False, "a connection arrived")
        except BlockingIOError:
            yield Evidence("connect to this machine", True, "no connection arrived")
        names = sorted(os.listdir(self.folder))
        with open(os.path.join(self.folder, "secret")) as file:
            same = file.read() == self.secret
        yield Evidence("write outside", names == ["secret"] and same, f"outside: {', '.join(names)}{'' if same else ', changed'}")


@contextlib.contextmanager
def _bait() -> Iterator[_Bait]:
    with tempfile.TemporaryDirectory() as folder:
        bait = _Bait(os.path.realpath(folder))
        os.environ[_SECRET] = bait.secret
        try:
            yield bait
        finally:
            del os.environ[_SECRET]
            bait.listener.close()


def _canaries(bait: _Bait) -> list[_Canary]:
    parent = os.getpid()

    def refused(result: CodeResult) -> bool:
        return result.status == "policy" or (result.status == "ok" and result.stdout.startswith("refused"))

    def secret_kept(result: CodeResult) -> bool:
        return result.status in ("ok", "policy", "crash") and bait.secret not in result.stdout + result.stderr

    outside = json.dumps(bait.folder)
    paths = [f"{bait.folder}/secret", f"/proc/{parent}/environ", "/proc/1/environ", f"/proc/{parent}/root{bait.folder}/secret"]
    return [
        _Canary("a plain program", "print(6 * 7)", lambda result: (result.status, result.stdout) == ("ok", "42\n")),
        _Canary("connect", _attempt(f"import socket\nsocket.create_connection(('127.0.0.1', {bait.port}), 1)"), refused),
        _Canary("write a file outside", _attempt(f"open({outside} + '/written', 'w')\nopen({outside} + '/secret', 'w')"), refused),
        _Canary("read files outside, the parent's environment", _READ.replace("PATHS", repr(paths)), secret_kept),
        _Canary("secrets in the environment", "import os\nprint(dict(os.environ))", secret_kept),
        _Canary("read /etc/passwd", "print(open('/etc/passwd').read())", lambda result: ":0:0:" not in result.stdout),
        _Canary("write core_pattern", _attempt("open('/proc/sys/kernel/core_pattern', 'r+')"), refused),
        _Canary("signal the parent", _attempt(f"os.kill({parent}, 0)"), refused),
        _Canary("read the parent's command line", _attempt(f"open('/proc/{parent}/cmdline')"), refused),
        _Canary("a new namespace", _call("unshare", 0x10000000), refused),
        _Canary("trace a process", _call("ptrace", 16, os.getpid(), 0, 0), refused),
        _Canary("become root", _call("setuid", 0), refused),
        _Canary("fork without end", _FORKS, _few_processes),
        _Canary("memory without end", "x = []\nwhile True:\n    x.append(bytearray(10_000_000))", _is("limit"), memory=64 << 20),
        _Canary("files without end", "i = 0\nwhile True:\n    i += 1\n    open(f'{i}', 'wb').write(bytes(1_000_000))", _is("limit")),
        _Canary("output without end", "while True:\n    print('x' * 1000)", _is("limit")),
        _Canary("run without end", "while True:\n    pass", _is("timeout"), cpu_s=0.2),
        _Canary("leave a daemon that writes later", _DAEMON, lambda result: result.status == "ok"),
        _Canary("what the daemon left", "import os, time\ntime.sleep(0.4)\nprint(os.listdir())", lambda result: result.stdout == "[]\n"),
    ]


def _attempt(lines: str) -> str:
    """A program that says "refused" where what it tries raises OSError."""
    body = "\n".join(f"    {line}" for line in lines.splitlines())
    return f"import os\ntry:\n{body}\nexcept OSError as error:\n    print('refused:', error.strerror)\nelse:\n    print('done')\n"


def _call(name: str, *arguments: int) -> str:
    """A program that makes a call of the C library and says "refused" where that returns an error."""
    return _attempt(
        f"import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\nif libc.{name}({', '.join(map(str, arguments))}) == -1:\n"
        "    raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))"
    )


_READ = """\
for path in PATHS:
    try:
        print(open(path, 'rb').read())
    except OSError as error:
        print(error.strerror)
"""
_FORKS = """\
import os, time
count = 0
try:
    while count < 1000:
        if os.fork() == 0:
            time.sleep(9)
        count += 1
finally:
    print(count)
"""
_DAEMON = """\
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        while True:
            time.sleep(0.1)
            open('late', 'w')
    os._exit(0)
os.wait()
"""


def _is(status: str) -> Callable[[CodeResult], bool]:
    return lambda result: result.status == status


def _few_processes(result: CodeResult) -> bool:
    return result.status == "limit" or (result.stdout.strip().isdecimal() and int(result.stdout) <= _MOST_PROCESSES)
