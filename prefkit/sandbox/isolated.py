"""What an SQL worker inside tier A or B puts in force before it meets a query. Standard library only; Linux."""

from __future__ import annotations

import os
from typing import Any

from prefkit.sandbox import landlock, seccomp
from prefkit.sandbox.enter import exit_code

_DEVICES = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom")
_KERNEL = ("/proc/self", "/sys/fs/cgroup")
"""What an engine asks about its own process: it takes a limit that it may not read for an error. Tier A has the first of them alone."""


def leave_process_one() -> None:
    """Go on in a child. Process 1 of a namespace takes no signal that it does not handle, such as that of the processor-time limit."""
    if os.getpid() != 1:
        return
    child = os.fork()
    if child == 0:
        return
    for descriptor in (0, 1):
        os.close(descriptor)
    os._exit(exit_code(os.waitpid(child, 0)[1]))


def lock_in(plan: dict[str, Any], folder: str) -> None:
    """Read what the sandbox holds and `folder`, write nothing, reach nobody: for this thread and all that it starts, so to be called before
    any other thread begins. plan: what launch.py says of the sandbox. Raises OSError."""
    rules = landlock.shown(plan["tier"], [*plan.get("read", ()), folder], plan.get("hide", ()))
    rules += [(path, landlock.DEVICE) for path in _DEVICES] + [(path, landlock.READ) for path in _KERNEL]
    descriptor = landlock.ruleset(rules)
    seccomp.install(protected=[os.getppid()], report=False)  # sets PR_SET_NO_NEW_PRIVS, which Landlock asks for
    landlock.restrict(descriptor)
    os.close(descriptor)
