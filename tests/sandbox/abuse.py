"""What hostile programs try, with the status that each must get. `python abuse.py TIER` runs all and prints one JSON line for each.

It runs as root and as an ordinary user, also outside pytest, so it imports the standard library and the sandbox alone.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

SMALL = {"memory": 100 << 20}
SECRET = "do-not-tell-3141592653"


@dataclass(frozen=True)
class Case:
    """number: in the list of abuses. want: the statuses that are right. free_of: text that must not come out. then: a program that runs
    next in the same worker and must print `prints`."""

    number: int
    title: str
    code: str
    want: tuple[str, ...]
    language: str = "python"
    op: str = "program"
    cpu_s: float = 1.0
    limits: dict[str, Any] = field(default_factory=dict)
    free_of: str = SECRET
    then: str = "print('next')"
    prints: str = "next\n"
    tiers: str = "AB"

    @property
    def name(self) -> str:
        return f"{self.number}-{self.title.replace(' ', '-')}"

    def message(self) -> dict[str, Any]:
        if self.op == "program":
            return {"language": self.language, "code": self.code}
        cases = [{"args": [1], "kwargs": {}}]
        return {"module": "solution", "also": [], "entry": "f", "files": {"solution.py": self.code}, "cases": cases}


CONNECT = "import socket\nsocket.create_connection(('127.0.0.1', 9), 1)\nprint('connected')"
CAUGHT = "import socket\ntry:\n    socket.create_connection(('127.0.0.1', 9), 1)\nexcept OSError:\n    print('nothing happened')"
READ = "print(open({path!r}).read())"
LIBC = "import ctypes, os\nlibc = ctypes.CDLL(None)\n"
BUSY_DAEMON = """\
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for descriptor in range(3):
            os.dup2(os.open('/dev/null', os.O_RDWR), descriptor)
        while True:
            time.sleep(0.02)
            open('late', 'w').write('x')
    os._exit(0)
os.wait()
print('main')
"""
LEFTOVERS = """\
import os
os.makedirs('a/b/c')
open('a/b/c/d', 'w').write('x')
for folder in ('a/b/c', 'a/b', 'a'):
    os.chmod(folder, 0)
print('left')
"""
DEEP = "import os\nfor i in range(1200):\n    os.mkdir('deep-folder')\n    os.chdir('deep-folder')\nprint('deep')"
CLEAN = "import os, time\ntime.sleep(0.1)\nprint(os.listdir())"
MANY_PROCESSES = """\
import os, time
for i in range(8):
    if os.fork() == 0:
        x = bytearray(60_000_000)
        time.sleep(9)
time.sleep(9)
"""

CASES = [
    Case(1, "fork bomb", "import os\nwhile True:\n    os.fork()", ("limit", "timeout")),
    Case(1, "fork bomb in bash", ":(){ :|:& };:", ("limit", "timeout"), "bash"),
    Case(1, "fork bomb in C", "#include <unistd.h>\nint main() { for (;;) fork(); }", ("limit", "timeout"), "c"),
    Case(2, "memory bomb", "x = []\nwhile True:\n    x.append(bytearray(10_000_000))", ("limit",), limits=SMALL),
    Case(2, "memory in one piece", "x = bytearray(1 << 40)", ("limit",)),
    Case(2, "memory bomb in C", "#include <stdlib.h>\n#include <string.h>\nint main() { for (;;) memset(malloc(1 << 20), 1, 1 << 20); }",
         ("limit",), "c", limits=SMALL),
    Case(3, "memory over processes", MANY_PROCESSES, ("limit",), limits={"memory": 200 << 20}),
    Case(4, "fill the scratch folder", "i = 0\nwhile True:\n    i += 1\n    open(str(i), 'wb').write(bytes(1_000_000))", ("limit",)),
    Case(4, "one large file", "f = open('x', 'wb')\nwhile True:\n    f.write(bytes(1_000_000))", ("limit",)),
    Case(5, "fill the root", "f = open('/x', 'wb')\nwhile True:\n    f.write(bytes(1_000_000))", ("policy", "limit")),
    Case(5, "fill /dev", "f = open('/dev/x', 'wb')\nwhile True:\n    f.write(bytes(1_000_000))", ("policy", "limit")),
    Case(5, "fill /dev/shm", "f = open('/dev/shm/x', 'wb')\nwhile True:\n    f.write(bytes(1_000_000))", ("policy", "limit"), then=CLEAN,
         prints="[]\n"),
    Case(6, "inode bomb", "i = 0\nwhile True:\n    i += 1\n    open(str(i), 'w')", ("limit",), cpu_s=20.0, then=CLEAN,
         prints="[]\n"),  # on a disk, as in tier B, a file costs more than in memory
    Case(7, "open files without end", "import os\nx = []\nwhile True:\n    x.append(os.open('/dev/null', 0))", ("limit",)),
    Case(8, "thread bomb", "import threading, time\nwhile True:\n    threading.Thread(target=time.sleep, args=(9,)).start()", ("limit",)),
    Case(9, "TCP connect", CONNECT, ("policy",)),
    Case(9, "TCP connect, error caught", CAUGHT, ("policy",)),
    Case(9, "bash and /dev/tcp", "exec 3<>/dev/tcp/127.0.0.1/9; echo connected", ("policy",), "bash"),
    Case(10, "DNS", "import socket\nprint(socket.getaddrinfo('example.com', 80))", ("policy",)),
    Case(11, "read /etc/passwd", READ.format(path="/etc/passwd"), ("crash", "policy"), free_of=":0:0:"),
    Case(12, "secrets in the environment", "import os\nprint(dict(os.environ))", ("ok",)),
    Case(13, "the parent's environment", "import os\nprint(open(f'/proc/{os.getppid()}/environ').read())", ("policy",)),
    Case(13, "the parent's memory", "import os\nopen(f'/proc/{os.getppid()}/mem', 'r+b')", ("policy",)),
    Case(14, "trace the parent", f"{LIBC}libc.ptrace(16, os.getppid(), 0, 0)", ("policy",)),
    Case(14, "write the parent's memory", f"{LIBC}libc.process_vm_writev(os.getppid(), 0, 0, 0, 0, 0)", ("policy",)),
    Case(15, "kill the parent", "import os\nos.kill(os.getppid(), 9)", ("policy",)),
    Case(15, "stop the parent", "import os\nos.kill(os.getppid(), 19)", ("policy",)),
    Case(16, "a new user namespace", f"{LIBC}libc.unshare(0x10000000)", ("policy",)),
    Case(16, "mount", f"{LIBC}libc.mount(b'x', b'/tmp', b'tmpfs', 0, None)", ("policy",)),
    Case(16, "unshare in bash", "unshare -Ur id; unshare -m true", ("policy",), "bash"),
    Case(17, "become root", "import os\nos.setuid(0)", ("policy",)),
    Case(17, "raise a limit", "import resource\nresource.setrlimit(resource.RLIMIT_NPROC, (-1, -1))", ("policy",)),
    Case(17, "limits of the parent", f"{LIBC}import resource\nresource.prlimit(os.getppid(), resource.RLIMIT_NOFILE, (0, 0))", ("policy",)),
    Case(18, "a link to the root of process 1", "import os\nos.symlink('/proc/1/root', 'x')\nprint(os.listdir('x/'))", ("policy",)),
    Case(19, "write .ssh", "import os\nopen(os.path.expanduser('~/.ssh/authorized_keys'), 'w')", ("policy",), tiers="A"),
    Case(19, "make .ssh", "import os\nos.makedirs(os.path.expanduser('~/.ssh/keys'))", ("policy",)),
    Case(19, "write /usr", "open('/usr/x', 'w')", ("policy",)),
    Case(19, "write core_pattern", "open('/proc/sys/kernel/core_pattern', 'w')", ("policy",)),
    Case(20, "output without end", "while True:\n    print('x' * 1000)", ("limit",)),
    Case(20, "errors without end", "text=$(printf '%01000d' 0); while :; do echo $text >&2; done", ("limit",), "bash", cpu_s=5.0),
    Case(21, "ignore SIGTERM", "import signal\nsignal.signal(15, signal.SIG_IGN)\nwhile True:\n    pass", ("timeout",), cpu_s=0.3),
    Case(22, "a daemon", BUSY_DAEMON, ("ok",), then=CLEAN, prints="[]\n"),
    Case(23, "a late writer", BUSY_DAEMON, ("ok",), then=CLEAN, prints="[]\n"),
    Case(24, "folders without rights", LEFTOVERS, ("ok",), then=CLEAN, prints="[]\n"),
    Case(24, "folders without end", DEEP, ("ok",), then=CLEAN, prints="[]\n"),
    Case(26, "exit at once while being loaded", "import os\nos._exit(0)", ("crash",), op="calls"),
    Case(33, "read standard input", "print(input())", ("crash",)),
    Case(34, "a giant power", "print(9**9**9)", ("timeout",), cpu_s=0.3),
    Case(35, "a giant number as text", "print(10**5000)", ("crash",)),
    Case(36, "catastrophic pattern", "import re\nre.match('(a+)+$', 'a' * 40 + 'b')", ("timeout",), cpu_s=0.3),
    Case(37, "deep recursion", "def f():\n    return f()\nf()", ("crash", "timeout")),
    Case(37, "deep recursion in C", "int f(int x) { volatile int y = f(x + 1); return y + 1; } int main() { return f(0); }",
         ("crash", "timeout"), "c"),
    Case(38, "segmentation fault", "import ctypes\nctypes.string_at(0)", ("crash",)),
    Case(39, "alarm", "import signal, time\nsignal.setitimer(signal.ITIMER_REAL, 0.05)\ntime.sleep(9)", ("crash", "timeout")),
    Case(39, "stop itself", "import os\nos.kill(os.getpid(), 19)", ("crash", "timeout"), cpu_s=0.1),
    Case(40, "close everything", "import os\nos.closerange(0, 300)\nprint('x')", ("crash",)),
    Case(41, "gcc includes /etc/passwd", '#include "/etc/passwd"\nint main() {}', ("crash",), "c", free_of=":0:0:"),
    Case(41, "gcc includes /dev/zero", '#include "/dev/zero"\nint main() {}', ("crash",), "c"),
    Case(41, "gcc and a huge array", "char a[1L << 44] = {1};\nint main() {}", ("crash",), "c"),
    Case(42, "node heap bomb", "const a = []; for (;;) a.push(new Array(1e5).fill('x' + a.length))", ("limit",), "javascript", cpu_s=9.0,
         limits={"memory": 150 << 20}),
]  # fmt: skip


def run(tier: str) -> Iterator[dict[str, Any]]:
    """Every case of that tier in one pool of one worker: its status, reason and output, and what the next program saw."""
    from prefkit.sandbox.job import CodeJob
    from prefkit.sandbox.pool import WorkerPool

    os.environ["SECRET_TOKEN"] = SECRET
    with WorkerPool(1, {"zygote": tier}) as pool:
        for case in CASES:
            if tier not in case.tiers:
                continue
            for _ in range(5):  # on a busy machine a run may get no processor: that is no verdict
                began = time.monotonic()
                answer = pool.run(CodeJob(case.op, case.message(), cpu_s=case.cpu_s, **case.limits))
                took = time.monotonic() - began
                result = answer.last
                if result.status != "infra":
                    break
            after = pool.run(CodeJob("program", {"language": "python", "code": case.then})).last
            yield {
                "name": case.name,
                "status": result.status,
                "reason": result.reason,
                "output": (result.stdout + result.stderr)[-2000:],
                "next": after.stdout if after.status == "ok" else f"{after.status}: {after.reason} {after.stderr}",
                "cpu_s": answer.cpu_s,
                "wall_s": took,
            }


if __name__ == "__main__":
    sys.path.insert(0, sys.argv[2])
    for line in run(sys.argv[1]):
        print(json.dumps(line), flush=True)
