"""From the process that the parent starts to the isolation: give up root, then become the sandbox. Standard library only; Linux.

    A: [as root: private mounts, drop to an unprivileged user] -> bwrap -> zygote, as process 1 of its own namespace
    B: [as root: drop to an unprivileged user] -> a process that waits -> a guardian -> zygote, which locks itself in

What is said of the zygote holds for a DuckDB worker as well.

bwrap started by root is no sandbox: the process inside still owns what root owns on the host, and is exempt from the limit on processes.
So root is given up first. Python or its packages may lie below a folder that only root may enter (/root/.pyenv); therefore what is to be
readable is bound to a folder of a private mount namespace while we are still root. Nothing changes on the disk.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import shutil
import signal
import stat
import sys
import tempfile
import time
from typing import Any, NoReturn

from prefkit.sandbox.scratch import Scratch
from prefkit.sandbox.seccomp import program  # all imports stand here: once root is given up, nothing may be readable

_CLONE_NEWNS = 0x20000
_MS_BIND, _MS_REC, _MS_PRIVATE = 0x1000, 0x4000, 0x40000
_PR_SET_PDEATHSIG, _PR_CAPBSET_DROP, _PR_SET_KEEPCAPS, _PR_SET_CHILD_SUBREAPER, _PR_SET_NO_NEW_PRIVS = 1, 24, 8, 36, 38
_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_RAISE = 47, 2
_CAP_DAC_READ_SEARCH = 2
_LAST_CAP = 63
_STAGES = ("/mnt", "/media", "/srv", "/run", "/tmp")
"""Folders of which every Linux has one, to be covered in this process's own view."""
_UIDS = ((1_900_000_000, 100_000_000), (61_184, 4_000))
"""Where a worker's own user is taken from, as (first, count): a range that belongs to nobody, and one for containers with few users."""

_libc = ctypes.CDLL(None, use_errno=True)


def main(config: str) -> None:
    """Become the sandbox that `config` describes (see launch._plan); the process never returns from here."""
    plan: dict[str, Any] = json.loads(config)
    try:
        root = os.geteuid() == 0
        if plan["tier"] == "A":
            reads = _stage(plan) if root else plan["read"]
            if root:
                _drop_root(keep_reading=False)
            if not plan["by_signal"]:
                _wait_for_child()
            _die_with_parent(plan)
            _become_bwrap(plan, reads)
        else:
            if root:
                _drop_root(keep_reading=not _open_to_all(plan))
            _die_with_parent(plan)
            _become_guardian(plan)
    except OSError as error:
        sys.exit(f"{error.strerror or error}: {error.filename}" if error.filename else str(error))


def _become_bwrap(plan: dict[str, Any], reads: list[list[str]]) -> None:
    descriptor = os.memfd_create("seccomp", 0)
    os.write(descriptor, program(notify=False, outer=True))
    os.lseek(descriptor, 0, os.SEEK_SET)
    os.set_inheritable(descriptor, True)
    argv = [plan["bwrap"], "--unshare-all", "--unshare-user", "--disable-userns", "--as-pid-1", "--die-with-parent", "--new-session"]
    argv += ["--clearenv", "--uid", "1000", "--gid", "1000", "--hostname", "sandbox", "--cap-drop", "ALL", "--seccomp", str(descriptor)]
    for name, value in plan["env"].items():
        argv += ["--setenv", name, value]
    for source, target in reads:
        argv += ["--ro-bind", source, target]
    for target, link in plan["links"]:
        argv += ["--symlink", target, link]
    for folder in plan["hide"]:
        argv += ["--perms", "0555", "--size", "4096", "--tmpfs", folder, "--remount-ro", folder]
    for folder in plan["empty"]:
        argv += ["--perms", "0755", "--dir", folder]
    argv += ["--proc", "/proc", "--dev", "/dev"]
    for folder, size in plan["write"]:
        argv += ["--perms", "0700", "--size", str(size), "--tmpfs", folder]
    argv += ["--remount-ro", "/dev", "--remount-ro", "/", "--chdir", plan["write"][0][0], "--", *plan["program"]]
    os.execv(plan["bwrap"], argv)


def _wait_for_child() -> None:
    """Go on in a child and wait for it: bwrap ends with the *thread* that starts it, which must not be a passing one of the parent's."""
    child = os.fork()
    if child == 0:
        return
    for descriptor in (0, 1):
        os.close(descriptor)
    os._exit(exit_code(os.waitpid(child, 0)[1]))


def _become_guardian(plan: dict[str, Any]) -> None:
    """Wait for a guardian, which starts the zygote and clears up after it.

    Three processes, because the parent ends a worker by SIGKILL: that reaches this one, which holds nothing, and the guardian is told.
    """
    waiting = os.getpid()
    guardian = os.fork()
    if guardian == 0:
        _guard(plan, waiting)
    for descriptor in (0, 1):
        os.close(descriptor)
    os._exit(exit_code(os.waitpid(guardian, 0)[1]))


def _guard(plan: dict[str, Any], waiting: int) -> NoReturn:
    """Give the zygote a folder, start it, and when it or `waiting` ends, end all that is left of it and remove the folder."""
    code, folder, zygote = 1, "", 0
    try:
        signal.signal(signal.SIGTERM, _stop)
        _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
        if os.getppid() == waiting:
            folder = _make_folder(plan["folders"])
            zygote = _start(plan, folder)
            for descriptor in (0, 1):
                os.close(descriptor)
            code = exit_code(os.waitpid(zygote, 0)[1])
    except _Stopped:
        code = 0
    except OSError as error:
        os.write(2, f"{error}\n".encode())
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while _kill_children():
        time.sleep(0.005)
    if folder:
        Scratch([f"{folder}/run"], own=False).wipe()
        shutil.rmtree(folder, ignore_errors=True)
    os._exit(code)


class _Stopped(Exception):
    pass


def _stop(*_: object) -> NoReturn:
    raise _Stopped


def _start(plan: dict[str, Any], folder: str) -> int:
    guardian = os.getpid()
    zygote = os.fork()
    if zygote:
        return zygote
    try:
        os.setsid()
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
        if os.getppid() == guardian:
            os.chdir(f"{folder}/run")
            os.execve(plan["program"][0], plan["program"], plan["env"] | {"TMPDIR": f"{folder}/run"})
    finally:
        os._exit(1)


def _make_folder(places: list[str]) -> str:
    """With the candidates' folder in it, so that what stands around that is out of their reach."""
    for place in places:
        with contextlib.suppress(OSError):
            folder = os.path.realpath(tempfile.mkdtemp(prefix="prefkit-", dir=place))
            os.mkdir(f"{folder}/run", 0o700)
            return folder
    raise PermissionError(f"no folder for temporary files can be made in {', '.join(places)}")


def exit_code(status: int) -> int:
    """Of a process that this one stands for. A signal becomes 128 and its number, as shells say it."""
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def _kill_children() -> bool:
    """SIGKILL our children, reap what has ended; what they leave behind becomes our child next. False when there are none."""
    with open(f"/proc/self/task/{os.getpid()}/children") as file:
        for pid in file.read().split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True


def _die_with_parent(plan: dict[str, Any]) -> None:
    """Giving up root clears this signal, so it is set afterwards. Where the parent went before that, its process id tells."""
    if plan["by_signal"]:
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != plan["parent"]:
            os._exit(0)


def _stage(plan: dict[str, Any]) -> list[list[str]]:
    """Bind what is to be read below one folder that every user may enter, in a mount namespace of our own. Returns the new sources.

    Where mounts are not allowed, the paths stay as they are: bwrap then says which of them it cannot reach.
    """
    reads: list[list[str]] = plan["read"]
    needed = [plan["bwrap"], *(source for source, _ in reads)]
    stage = next((path for path in _STAGES if os.path.isdir(path) and not any(f"{need}/".startswith(f"{path}/") for need in needed)), None)
    if stage is None or _libc.unshare(_CLONE_NEWNS) or _libc.mount(None, b"/", None, _MS_REC | _MS_PRIVATE, None):
        return reads
    sources = [os.open(source, os.O_PATH | os.O_CLOEXEC) for source, _ in reads]
    _call(_libc.mount, b"prefkit", stage.encode(), b"tmpfs", 0, b"mode=0755,size=1m", what=stage)
    staged = []
    for number, (source, (_, target)) in enumerate(zip(sources, reads, strict=True)):
        place = f"{stage}/{number}"
        if stat.S_ISDIR(os.fstat(source).st_mode):
            os.mkdir(place)
        else:
            os.close(os.open(place, os.O_CREAT | os.O_WRONLY))
        _call(_libc.mount, f"/proc/self/fd/{source}".encode(), place.encode(), None, _MS_BIND | _MS_REC, None, what=target)
        staged.append([place, target])
    return staged


def _open_to_all(plan: dict[str, Any]) -> bool:
    """Whether any user may enter every folder above what is to be read."""
    for source, _ in plan["read"]:
        folder = os.path.dirname(os.path.realpath(source))
        while folder != "/":
            if not os.stat(folder).st_mode & stat.S_IXOTH:
                return False
            folder = os.path.dirname(folder)
    return True


def _drop_root(keep_reading: bool) -> None:
    """Become a user of this worker's own, who owns nothing, with no capability.

    keep_reading: keep the one to read and enter any folder (for tier B, where Landlock then says which; only where it is needed).
    """
    for capability in range(_LAST_CAP + 1):
        if not (keep_reading and capability == _CAP_DAC_READ_SEARCH):
            _libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)
    if keep_reading:
        _libc.prctl(_PR_SET_KEEPCAPS, 1, 0, 0, 0)
    os.setgroups([])
    user = _own_user()
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)
    if keep_reading:
        _keep_only(_CAP_DAC_READ_SEARCH)
    _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    if os.geteuid() == 0 or os.getuid() == 0:
        raise PermissionError("root could not be given up")


def _own_user() -> int:
    """A number that no other worker has at the same time and that this user namespace knows."""
    with open("/proc/self/uid_map") as file:
        known = [(int(first), int(count)) for first, _, count in (line.split() for line in file)]
    for first, count in _UIDS:
        user = first + os.getpid() % count
        if any(start <= user < start + length for start, length in known):
            return user
    raise PermissionError("no unprivileged user is mapped in this container")


def _keep_only(capability: int) -> None:
    """Make one capability the only one, and let it pass through exec."""
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    bit = 1 << capability
    _call(_libc.capset, header, (ctypes.c_uint32 * 6)(bit, bit, bit, 0, 0, 0), what="capabilities")
    _call(_libc.prctl, _PR_CAP_AMBIENT, _PR_CAP_AMBIENT_RAISE, capability, 0, 0, what="capabilities")


def _call(function: Any, *arguments: Any, what: str) -> None:
    if function(*arguments):
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), what)
