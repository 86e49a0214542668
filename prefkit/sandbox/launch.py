"""The command lines of worker processes.

| kind     | runs                                  | tier   | what it can import          | what it can read of the user's |
|----------|---------------------------------------|--------|-----------------------------|--------------------------------|
| sqlite   | queries on SQLite files               | P      | the standard library        | files, through SQLite alone    |
| postgres | sends queries to a PostgreSQL server  | P      | psycopg                     | files, through libpq alone     |
| duckdb   | queries on DuckDB files               | A or B | duckdb                      | one folder of database files   |
| zygote   | code                                  | A or B | all installed packages      | nothing                        |

A worker in tier A or B starts as a process that becomes the sandbox by itself (see enter.py): what is handed over is a plan, as JSON, of
what is readable inside, what is writable and how large, and which program runs there.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
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

_NOTHING_BYTES = 4096

RUNS = 2_000
"""Runs after which a zygote makes way for a fresh one."""

DATABASES = "/databases"
"""Where the folder of database files stands inside tier A."""

GUARDED = frozenset({"sqlite", "postgres"})
"""Kinds of worker that run as a guarded process (tier P): nothing that they execute comes from an answer, the engine reads its text."""

_EXTRAS = {"duckdb": ("DuckDB", "duckdb"), "postgres": ("PostgreSQL's client (psycopg)", "psycopg")}
"""Kinds of worker that need an optional extra, which has the kind's own name: what that is called, and its package."""

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
    """How a worker is started. wrapped: another process waits for it, so that its exit code is 128 and the signal that ended it."""

    argv: list[str]
    env: dict[str, str]
    wrapped: bool = False


def command(kind: str, tier: str, folder: str = "") -> Launch:
    """The command of a worker of that kind in that isolation (see the table above). folder: of files that a DuckDB worker can read.

    Start it from a thread that lives as long as the worker is wanted: in Linux the death of the starting *thread* ends the worker. A
    command that is made outside the main thread leaves that signal out; the end of standard input ends such a worker.
    """
    # The parent-death signal follows the thread that starts the process, so only a main thread's workers may have it.
    main_thread = threading.current_thread() is threading.main_thread()
    if kind in GUARDED and tier == "P":
        paths = [ROOT, *(_packages(kind) if kind in _EXTRAS else [])]
        code = f"import sys; sys.path += {paths!r}; from prefkit.sandbox.{kind}_worker import main; main({os.getpid()}, {main_thread})"
        return Launch([sys.executable, "-I", "-S", "-c", code], _linker_environment())
    if kind in ("zygote", "duckdb") and tier in ("A", "B"):
        plan = _plan(tier, kind) | {"parent": os.getpid(), "by_signal": main_thread}
        if kind == "duckdb":
            inside = DATABASES if tier == "A" else os.path.realpath(folder)
            plan |= {"read": [*plan["read"], [folder, inside]], "program": [*plan["program"], inside]}
        code = f"import sys; sys.path.append({ROOT!r}); from prefkit.sandbox.enter import main; main(sys.argv[1])"
        return Launch([sys.executable, "-I", "-S", "-c", code, json.dumps(plan)], _linker_environment(), wrapped=kind == "duckdb")
    raise ValueError(f"there is no worker of kind {kind!r} in tier {tier!r}")


def require(kind: str) -> None:
    """Raises IsolationUnavailable, with the mend, where the package is missing that a worker of that kind needs."""
    if kind not in _EXTRAS:
        return
    what, package = _EXTRAS[kind]
    if importlib.util.find_spec(package) is None:
        raise IsolationUnavailable(f"{what} is not installed; pip install 'prefkit[{kind}]'")
    if package == "psycopg":
        try:
            importlib.import_module(package)
        except ImportError as error:  # it is there, and the C library that it speaks through is not
            raise IsolationUnavailable(f"{what} cannot be used ({error}); pip install 'prefkit[{kind}]'") from error


@functools.cache
def _plan(tier: str, kind: str) -> dict[str, Any]:
    """What the sandbox holds: see enter.py and the worker's own file for the use of each entry. Raises IsolationUnavailable where bwrap
    is missing."""
    if sys.platform != "linux":
        raise IsolationUnavailable("code can be isolated on Linux alone; use a Linux machine, or a container that allows user namespaces")
    code_runs = kind == "zygote"
    python = os.path.realpath(getattr(sys, "_base_executable", sys.executable))
    packages = _packages(kind)
    tools = {name: path for name in _TOOLS if code_runs and (path := shutil.which(name))}
    folders = _folders(python, packages, tools)
    own = [f"{ROOT}/prefkit/__init__.py", f"{ROOT}/prefkit/sandbox"]
    place = _place_inside if tier == "A" else str
    root = _PACKAGE if tier == "A" else ROOT
    hidden = [f"{folder}/prefkit" for folder in packages if os.path.isdir(f"{folder}/prefkit")]
    inside: dict[str, Any] = {"tier": tier, "packages": [place(folder) for folder in packages]}
    if code_runs:
        inside |= {"cache_bytes": CACHE_BYTES, "runs": RUNS, "tools": {name: place(path) for name, path in tools.items()}}
    if tier == "B":
        inside |= {"read": [*folders, *own], "hide": hidden}
    module = "zygote" if code_runs else f"{kind}_worker"
    code = f"import sys; sys.path.append({root!r}); from prefkit.sandbox.{module} import main; main(*sys.argv[1:])"
    path = dict.fromkeys([*(os.path.dirname(place(tool)) for tool in tools.values()), "/usr/local/bin", "/usr/bin", "/bin"])
    return {
        "tier": tier,
        "bwrap": _bwrap() if tier == "A" else "",
        "read": [[path, place(path)] for path in folders] + [[path, path.replace(ROOT, root, 1)] for path in own],
        "links": [[os.readlink(path), path] for path in _SYSTEM if os.path.islink(path)] if tier == "A" else [],
        "hide": [place(folder) for folder in hidden],
        "empty": [f"{_HOME}/.ssh"],
        "folders": list(dict.fromkeys([tempfile.gettempdir(), "/tmp", "/dev/shm"])),
        "write": [["/tmp", SCRATCH_BYTES], ["/dev/shm", SHARED_MEMORY_BYTES]] if code_runs else [["/tmp", _NOTHING_BYTES]],
        "env": _ENVIRONMENT | _linker_environment() | {"PATH": ":".join(path)},
        # Not -I, which would leave out PYTHONHASHSEED; the environment is what stands above, and nothing else.
        "program": [place(python), "-P", "-s", "-S", "-B", "-X", "utf8", "-c", code, json.dumps(inside)],
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


def _packages(kind: str) -> list[str]:
    """The folders of installed packages that a worker of that kind imports from."""
    paths = [sysconfig.get_path(name) for name in ("purelib", "platlib")]
    if kind in _EXTRAS and (found := importlib.util.find_spec(_EXTRAS[kind][1])) and found.origin:
        paths.insert(0, os.path.dirname(os.path.dirname(found.origin)))
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
