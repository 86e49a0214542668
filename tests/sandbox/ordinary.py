"""An ordinary user for tests that run as root: a number that nobody has, a home, a Python that all may run, and a copy of the sandbox."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import prefkit

USER = 47_113
PACKAGE = Path(prefkit.__file__).parent


def python_for_all() -> str | None:
    """A Python that any user may run: this one, or the system's where it is new enough."""
    for path in (getattr(sys, "_base_executable", sys.executable), "/usr/bin/python3"):
        real = os.path.realpath(path)
        if os.path.isfile(real) and all(folder.stat().st_mode & stat.S_IXOTH for folder in Path(real).parents) and _new_enough(path):
            return path
    return None


def _new_enough(python: str) -> bool:
    done = subprocess.run([python, "-c", "import sys; sys.exit(sys.version_info < (3, 11))"], capture_output=True, check=False)
    return done.returncode == 0


@contextlib.contextmanager
def home() -> Iterator[Path]:
    """A folder of that user's, which holds the sandbox's part of prefkit and the abuse suite."""
    folder = Path(tempfile.mkdtemp(prefix="prefkit-test-"))
    try:
        shutil.copytree(PACKAGE / "sandbox", folder / "prefkit" / "sandbox", ignore=shutil.ignore_patterns("__pycache__"))
        for name in ("__init__.py", "errors.py"):
            shutil.copy(PACKAGE / name, folder / "prefkit" / name)
        shutil.copy(Path(__file__).parent / "abuse.py", folder / "abuse.py")
        if os.geteuid() == 0:
            for path in (folder, *folder.rglob("*")):
                os.chown(path, USER, USER)
        yield folder
    finally:
        shutil.rmtree(folder)


def run_as_user(argv: list[str], folder: Path, **more: Any) -> subprocess.CompletedProcess[str]:
    """Run a command as the ordinary user, who may be the one that runs the tests, with the folder as home."""
    whose: dict[str, Any] = {"user": USER, "group": USER, "extra_groups": []} if os.geteuid() == 0 else {}
    environment = {"HOME": str(folder), "PATH": os.environ.get("PATH", os.defpath), "LANG": "C.UTF-8"}
    return subprocess.run(argv, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=300, **whose, **more)
