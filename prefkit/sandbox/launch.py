"""The command lines of worker processes.

`command("zygote", tier)` starts a process that becomes the sandbox by itself (see enter.py): what is handed over is a plan, as JSON, of
what is readable inside, what is writable and how large, and which program runs there.
"""

from __future__ import annotations

import functools
import json
import os
import shutil
import sys
import sysconfig
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prefkit.errors import IsolationUnavailable

ROOT = str(Path(__file__).resolve().parents[2])
_KEPT_ENVIRONMENT = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "DYLD_FALLBACK_LIBRARY_PATH")
"""What the dynamic linker may need to find SQLite and Python; nothing else of the environment reaches a worker."""

SCRATCH_BYTES = 256 << 20
SHARED_MEMORY_BYTES = 64 << 20
CACHE_BYTES = 64 << 20
"""Sizes of what is writable in tier A: /tmp, and /dev/shm for locks and shared arrays of Python's multiprocessing; of compiled programs."""

RUNS = 2_000
"""Runs after which a zygote makes way for a fresh one."""

_PACKAGE = "/prefkit"
"""Where prefkit's own files stand inside tier A: those of the sandbox alone, because the data sets that ship beside them hold golds."""

_OUTSIDE = "/outside"
_SYSTEM = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_ETC = ("/etc/ld.so.cache", "/etc/alternatives")
_TOOLS = ("gcc", "node", "bash")
_HOME = "/root"
"""Home of whoever runs inside: a folder that cannot be written, so that reaching for ~/.ssh is refused whichever way it is spelled."""
_ENVIRONMENT = {
    "HOME": _HOME,
    # Each arena of the C library's allocator reserves 64 MB of address space, which is limited.
    "MALLOC_ARENA_MAX": "2",
    "LANG": "C.UTF-8",
    "PYTHONHASHSEED": "0",  # the order of a set is the same in every run, and so is the verdict
    "OPENSSL_CONF": "/dev/null",  # node reads it at start; the file is not there to be read
    "TMPDIR": "/tmp",
    "TZ": "UTC",
    # One thread each: a zygote that has threads must not fork, and the limit on processes counts threads.
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "NUMEXPR_NUM_THREADS": "1",
}


@dataclass(frozen=True, slots=True)
class Launch:
    """How a worker is started. pass_fds: descriptors that it inherits."""

    argv: list[str]
    env: dict[str, str]
    pass_fds: tuple[int, ...] = ()


def command(kind: str, tier: str) -> Launch:
    """The command of a worker of that kind ("sqlite", "zygote") in that isolation ("P" for the former, "A" or "B" for the latter).

    Start it from a thread that lives as long as the worker is wanted: in Linux the death of the starting *thread* ends the worker. A
    command that is made outside the main thread leaves that signal out; the end of standard input ends such a worker.
    """
    # The parent-death signal follows the thread that starts the process, so only a main thread's workers may have it.
    main_thread = threading.current_thread() is threading.main_thread()
    if (kind, tier) == ("sqlite", "P"):
        code = f"import sys; sys.path.append({ROOT!r}); from prefkit.sandbox.sqlite_worker import main; main({os.getpid()}, {main_thread})"
        return Launch([sys.executable, "-I", "-S", "-c", code], _linker_environment())
    if kind == "zygote" and tier in ("A", "B"):
        plan = _plan(tier) | {"parent": os.getpid(), "by_signal": main_thread}
        code = f"import sys; sys.path.append({ROOT!r}); from prefkit.sandbox.enter import main; main(sys.argv[1])"
        return Launch([sys.executable, "-I", "-S", "-c", code, json.dumps(plan)], _linker_environment())
    raise ValueError(f"there is no worker of kind {kind!r} in tier {tier!r}")


@functools.cache
def _plan(tier: str) -> dict[str, Any]:
    """What the sandbox holds: see enter.py and zygote.py for the use of each entry. Raises IsolationUnavailable where bwrap is missing."""
    if sys.platform != "linux":
        raise IsolationUnavailable("code can be isolated on Linux alone; use a Linux machine, or a container that allows user namespaces")
    python = os.path.realpath(getattr(sys, "_base_executable", sys.executable))
    packages = _packages()
    tools = {name: path for name in _TOOLS if (path := shutil.which(name))}
    folders = _folders(python, packages, tools)
    own = [f"{ROOT}/prefkit/__init__.py", f"{ROOT}/prefkit/sandbox"]
    place = _place_inside if tier == "A" else str
    root = _PACKAGE if tier == "A" else ROOT
    hidden = [f"{folder}/prefkit" for folder in packages if os.path.isdir(f"{folder}/prefkit")]
    inside: dict[str, Any] = {"tier": tier, "cache_bytes": CACHE_BYTES, "runs": RUNS}
    inside |= {"packages": [place(folder) for folder in packages], "tools": {name: place(path) for name, path in tools.items()}}
    if tier == "B":
        inside |= {"read": [*folders, *own], "hide": hidden}
    code = f"import sys; sys.path.append({root!r}); from prefkit.sandbox.zygote import main; main(sys.argv[1])"
    path = dict.fromkeys([*(os.path.dirname(tool) for tool in inside["tools"].values()), "/usr/local/bin", "/usr/bin", "/bin"])
    return {
        "tier": tier,
        "bwrap": _bwrap() if tier == "A" else "",
        "read": [[path, place(path)] for path in folders] + [[path, path.replace(ROOT, root, 1)] for path in own],
        "links": [[os.readlink(path), path] for path in _SYSTEM if os.path.islink(path)] if tier == "A" else [],
        "hide": [place(folder) for folder in hidden],
        "empty": [f"{_HOME}/.ssh"],
        "folders": list(dict.fromkeys([tempfile.gettempdir(), "/tmp", "/dev/shm"])),
        "write": [["/tmp", SCRATCH_BYTES], ["/dev/shm", SHARED_MEMORY_BYTES]],
        "env": _ENVIRONMENT | _linker_environment() | {"PATH": ":".join(path)},
        # Not -I, which would leave out PYTHONHASHSEED; the environment is what stands above, and nothing else.
        "zygote": [place(python), "-P", "-s", "-S", "-B", "-X", "utf8", "-c", code, json.dumps(inside)],
    }


def _place_inside(path: str) -> str:
    """Where a path of the outside stands in tier A: at the same place, but for what lies where a folder of the sandbox's own will be."""
    return f"{_OUTSIDE}{path}" if path.startswith(("/tmp/", "/dev/", "/proc/", "/prefkit/")) else path


def _linker_environment() -> dict[str, str]:
    return {name: os.environ[name] for name in _KEPT_ENVIRONMENT if name in os.environ}


def _bwrap() -> str:
    path = shutil.which("bwrap")
    if path is None:
        raise IsolationUnavailable("bwrap is not installed; on Debian and Ubuntu: apt-get install bubblewrap")
    mode = os.stat(path)
    if mode.st_mode & 0o6000:
        raise IsolationUnavailable(f"{path} is setuid, which turns every fault in it into root; mend it: chmod u-s,g-s {path}")
    return path


def _packages() -> list[str]:
    """The folders of installed packages that candidates may import from."""
    paths = [sysconfig.get_path(name) for name in ("purelib", "platlib")]
    return [path for path in dict.fromkeys(paths) if path and os.path.isdir(path)]


def _folders(python: str, packages: list[str], tools: dict[str, str]) -> list[str]:
    """What is readable inside, at the same path as outside, without what lies in another of them."""
    wanted = ["/usr", *(path for path in (*_SYSTEM, *_ETC) if os.path.exists(path) and not os.path.islink(path))]
    wanted += [os.path.realpath(path) for path in (sys.base_prefix, sys.base_exec_prefix)]
    wanted += packages
    wanted += [path for path in os.environ.get("LD_LIBRARY_PATH", "").split(":") if os.path.isdir(path)]
    wanted += [os.path.dirname(os.path.dirname(os.path.realpath(path))) for path in (python, *tools.values())]
    if any(path.startswith("/nix/store/") for path in wanted):
        wanted.append("/nix/store")
    kept: list[str] = []
    for path in sorted(dict.fromkeys(wanted), key=len):
        if path != "/" and not any(path == parent or path.startswith(parent + "/") for parent in kept):
            kept.append(path)
    return kept
