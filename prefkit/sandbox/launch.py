"""The command lines of worker processes."""

from __future__ import annotations

import os
import sys
import threading
from dataclasses import dataclass
from pathlib import Path

ROOT = str(Path(__file__).resolve().parents[2])
_KEPT_ENVIRONMENT = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "DYLD_FALLBACK_LIBRARY_PATH")
"""What the dynamic linker may need to find SQLite; nothing else of the environment reaches a worker."""


@dataclass(frozen=True, slots=True)
class Launch:
    """How a worker is started. pass_fds: descriptors that it inherits."""

    argv: list[str]
    env: dict[str, str]
    pass_fds: tuple[int, ...] = ()


def command(kind: str, tier: str) -> Launch:
    """The command of a worker of that kind in that isolation."""
    assert (kind, tier) == ("sqlite", "P")
    # The parent-death signal follows the thread that starts the process, so only a main thread's workers may have it.
    main_thread = threading.current_thread() is threading.main_thread()
    code = f"import sys; sys.path.append({ROOT!r}); from prefkit.sandbox.sqlite_worker import main; main({os.getpid()}, {main_thread})"
    return Launch([sys.executable, "-I", "-S", "-c", code], {name: os.environ[name] for name in _KEPT_ENVIRONMENT if name in os.environ})
