"""A persistent process inside the isolation that runs candidates: one fork for each, with what they import already imported.

Started by enter.py; the standard library alone. One JSON line in for each run, one out, in order:

    {"op": "program", "files": {path: text}, "limits": {"timeout", "memory", "output", "processes", "disk"}, …what the op needs…}
    -> {"results": [{"status", "reason", "value", "stdout", "stderr", "exit", "signal"}], "cpu": seconds, "wall": seconds, "peak": bytes}

The zygote never reads a message: the child does, which was forked before the message came, so that no later child finds an earlier
candidate's code or data in its memory. For the same reason what a run wrote is handled in buffers that are overwritten afterwards.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import gc
import importlib
import json
import os
import platform
import select
import signal
import sys
import time
from typing import Any, NoReturn

from prefkit.sandbox import candidate, landlock, seccomp
from prefkit.sandbox.compiled import PRODUCT, Compiled
from prefkit.sandbox.processes import Tree
from prefkit.sandbox.scratch import Scratch
from prefkit.sandbox.zygote_child import Lock
from prefkit.sandbox.zygote_run import SHOWN_ERRORS, Run
from prefkit.sandbox.zygote_wire import Buffer, Header, LineReader, write_all

OPS = {
    "program": "prefkit.sandbox.op_program:run",
    "calls": "prefkit.sandbox.op_python:calls",
    "tests": "prefkit.sandbox.op_python:tests",
    "math": "prefkit.sandbox.op_math:run",
}
"""What a message can ask for, as module:function. The function takes the message and returns what is sent back as `value`. A module that
also has a `plan` function (see zygote_child.Plan) says instead which program is to take the child's place."""

COMMON = (
    *("abc", "array", "bisect", "collections", "contextlib", "copy", "dataclasses", "datetime", "decimal", "enum", "fractions"),
    *("functools", "hashlib", "heapq", "io", "itertools", "json", "math", "operator", "queue", "random", "re", "statistics", "string"),
    *("textwrap", "threading", "time", "traceback", "types", "typing"),
)
"""Modules of the standard library that answers import most: here once, instead of in each child."""

AT_START = ("program", "calls", "tests")
"""Ops that are imported before the first message; the others when one asks for them."""

_PR_SET_DUMPABLE, _PR_SET_CHILD_SUBREAPER = 4, 36
_PR_SET_NO_NEW_PRIVS, _M_PERTURB = 38, -6
_FEW_THREADS, _MORE_THREADS = 8, 256
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty")


def main(config: str) -> None:
    """Serve until standard input ends. config: what launch.py says of the sandbox, as JSON."""
    zygote = Zygote(json.loads(config))
    version = f"{platform.python_implementation()} {platform.python_version()}"
    write_all(1, json.dumps({"ready": version, "peak": zygote.size()}).encode() + b"\n")
    zygote.serve()


class Zygote:
    """What outlives a run: imported ops, rules, buffers, the reader of messages, and the compiled programs."""

    def __init__(self, plan: dict[str, Any]) -> None:
        self._plan = plan
        self._own_files = plan["tier"] == "A"
        self._compiled = Compiled(plan["cache_bytes"])
        # Descriptors 3 and 4 are the child's; taken here, no pipe gets them.
        while os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC) < 4:
            pass
        libc = ctypes.CDLL(None)
        libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
        libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        # Freed memory is overwritten (glibc), so that forks do not inherit what earlier runs wrote.
        with contextlib.suppress(AttributeError):
            libc.mallopt(_M_PERTURB, 165)
        if not self._own_files:
            # How the guardian's end is told. In a namespace of its own everything ends with process 1, and a handler costs each child.
            signal.signal(signal.SIGTERM, lambda *_: self.end())
        sys.path.extend(plan["packages"])
        self.ops: dict[str, Any] = {}
        self._own_modules: dict[str, Any] = {}
        for name in COMMON:
            importlib.import_module(name)
        for name in AT_START:
            self._load(name)
        self.buffers = (Buffer(), Buffer(), Buffer())
        self._lines = LineReader(0)
        self.tree = Tree(alone=self._own_files)
        self.scratch = Scratch(["/tmp", "/dev/shm"] if self._own_files else [os.environ["TMPDIR"]], own=self._own_files)
        self.poller = select.poll()
        self._lock()
        os.chdir(self.scratch.folders[0])
        candidate.prepare()
        self._hide()
        gc.collect()
        gc.freeze()
        gc.disable()

    def _load(self, op: str) -> bool:
        """Import an op; later children have it. False where there is none of that name."""
        module, _, name = OPS.get(op, "").partition(":")
        sys.modules.update(self._own_modules)
        try:
            found = importlib.import_module(module)
        except (ModuleNotFoundError, ValueError):
            return False
        finally:
            self._hide()
        self.ops[op] = getattr(found, name)
        if hasattr(found, "plan"):
            self.ops[f"{op}?plan"] = functools.partial(found.plan, tools=self._plan["tools"], compiled=self._compiled.descriptors)
        return True

    def _hide(self) -> None:
        """Put the modules of prefkit out of an answer's easy reach; here once, because each child would copy two hundred pages for it."""
        for name in [name for name in sys.modules if name.partition(".")[0] == "prefkit"]:
            self._own_modules[name] = sys.modules.pop(name)

    def _lock(self) -> None:
        """From here on this process itself can do no more than it needs, and its children less."""
        devices = [(path, landlock.DEVICE) for path in _DEVICES]
        own = [(folder, landlock.WRITE) for folder in self.scratch.folders]
        read = landlock.shown(self._plan["tier"], self._plan.get("read", ()), self._plan.get("hide", ()))
        if not self._own_files:
            restrict_here = landlock.ruleset([*read, *own, *devices, ("/proc", landlock.READ)])
            landlock.restrict(restrict_here)
            os.close(restrict_here)
        self.lock = Lock(landlock.ruleset([*read, *own, *devices]), taken=_threads_of_user())
        self.listener = seccomp.install(protected=[os.getpid()] if self._own_files else [os.getpid(), os.getppid()])
        self.poller.register(0, 0)
        if self.listener:
            self.poller.register(self.listener.descriptor, select.POLLIN)

    def size(self) -> int:
        """Bytes that this process holds in RAM."""
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def end(self) -> NoReturn:
        """Leave nothing behind."""
        with contextlib.suppress(BaseException):
            self.tree.kill()
            self.scratch.wipe()
        os._exit(0)

    def serve(self) -> None:
        """Run until standard input ends, or it is time for a fresh zygote; what then waits in the pipe is the parent's to give again."""
        runs = 0
        run = Run(self)
        while (line := self._lines.next()) is not None:
            clean = self._answer(run, line)
            runs += 1
            if not clean or runs >= self._plan["runs"]:
                break
            run = Run(self)
        self.end()

    def _answer(self, run: Run, line: memoryview) -> bool:
        """Run one message and write its reply. Returns whether this zygote is fit for another."""
        wall = time.perf_counter()
        with line:
            run, header, outcome = self._judge(run, line)
        out, err, result = self.buffers
        head = json.dumps(outcome, separators=(",", ":"))[:-1].encode()
        tail = {"cpu": round(run.cpu, 6), "wall": round(time.perf_counter() - wall, 6), "peak": run.peak}
        errors = min(err.size, header.output)
        parts = [b'{"results":[', head, b',"stdout":', out.json_text(0, min(out.size, header.output))]
        parts += [b'","stderr":', err.json_text(max(0, errors - SHOWN_ERRORS), errors), b'","value":']
        with memoryview(result.data) as data, data[1 : max(1, result.size - 1)] as value:
            sent = outcome["status"] == "ok" and header.kind == "V"
            write_all(1, *parts, value if sent else b"null", b"}],", json.dumps(tail).encode()[1:], b"\n")
        for part in parts:
            if isinstance(part, memoryview):
                part.release()
        run.close()
        self._lines.drop()
        return self.scratch.wipe()

    def _judge(self, run: Run, line: memoryview) -> tuple[Run, Header, dict[str, Any]]:
        """Let the child run, after what its message needs first: an import, a compiled program."""
        for _ in range(4):
            header = run.start(line)
            if header.kind in "VX":
                return run, header, run.watch(header)
            if header.kind == "L":
                ready = self._load(header.argument)
                outcome = _failed("infra", f"no op {header.argument}")
            elif header.kind == "C":
                outcome = run.watch(header)
                ready = outcome["status"] == "ok" and self._compiled.store(header.argument, f"{self.scratch.folders[0]}/{PRODUCT}")
                outcome |= {"status": "crash", "reason": f"compile: {outcome['reason'] or 'nothing made'}"}
            else:
                ready, outcome = False, _failed("infra", f"message: {header.argument}")
            if not ready:
                if header.kind != "C":
                    run.watch(header)
                return run, header, outcome
            if header.kind != "C":
                run.watch(header)
            run.close()
            self.scratch.wipe()
            run = Run(self)
        return run, header, _failed("infra", "the message asks again and again")


def _threads_of_user() -> int:
    """Threads that count against this user's limit already; where they are many and may become more, with room for that."""
    user, count = os.getuid(), 0
    for name in os.listdir("/proc"):
        if name.isdecimal():
            with contextlib.suppress(OSError, ValueError, IndexError), open(f"/proc/{name}/status", "rb") as file:
                text = file.read()
                if int(text.split(b"\nUid:")[1].split()[0]) == user:
                    count += int(text.split(b"\nThreads:")[1].split()[0])
    return count if count <= _FEW_THREADS else count + _MORE_THREADS


def _failed(status: str, reason: str) -> dict[str, Any]:
    return {"status": status, "reason": reason, "exit": None, "signal": None}
