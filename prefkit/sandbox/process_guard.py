"""Guards of a worker process, set by the worker itself before its first job. Standard library only; Linux and macOS."""

from __future__ import annotations

import _thread
import contextlib
import os
import resource
import select
import signal
import sys

MEMORY = 1 << 30
"""Address space of a worker in bytes (RLIMIT_AS). macOS does not enforce it; there the progress handler watches resident memory."""

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_NO_NEW_PRIVS = 1, 4, 38


def die_with_parent(parent: int, by_signal: bool) -> None:
    """See to it that this process ends when process `parent` does, also when that one is killed.

    Three ways, because each has a gap: the kernel's parent-death signal follows the *thread* that started us (so `by_signal` is for
    workers started by a main thread) and is Linux's alone; the end of our standard input is not seen while a process that the parent
    forked still holds the pipe; the parent's process id is looked at every half second.
    """
    if by_signal and sys.platform == "linux":
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(0)
    _thread.start_new_thread(_watch, (parent,))


def _watch(parent: int) -> None:
    gone = select.POLLHUP | select.POLLERR | select.POLLNVAL
    poller = select.poll()
    poller.register(0, 0)
    while True:
        events = poller.poll(500)
        if any(event & gone for _, event in events) or os.getppid() != parent:
            os._exit(0)


def limit_process(memory: int = MEMORY) -> None:
    """No files written, no core dump, few descriptors, bounded address space, no new processes, no new privileges."""
    if sys.platform == "linux":
        _prctl(_PR_SET_NO_NEW_PRIVS, 1)
        _prctl(_PR_SET_DUMPABLE, 0)
    for what, value in (("RLIMIT_CORE", 0), ("RLIMIT_FSIZE", 0), ("RLIMIT_NOFILE", 256), ("RLIMIT_AS", memory), ("RLIMIT_NPROC", 0)):
        limit = getattr(resource, what, None)
        if limit is not None:
            # macOS refuses RLIMIT_AS, and a hard limit that is lower already stays: both leave the other guards in force.
            with contextlib.suppress(ValueError, OSError):
                resource.setrlimit(limit, (value, value))


def limit_cpu(seconds: float) -> None:
    """End this process by SIGPROF after `seconds` more of processor time, even inside C code; 0 takes the limit away.

    RLIMIT_CPU stands two seconds behind it. Processor time does not run while other processes have the machine, so a busy machine
    does not turn a right answer into a time-out.
    """
    signal.setitimer(signal.ITIMER_PROF, seconds)
    if seconds:
        usage = resource.getrusage(resource.RUSAGE_SELF)
        soft = int(usage.ru_utime + usage.ru_stime + seconds) + 3
        hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
        if hard == resource.RLIM_INFINITY or soft < hard:
            resource.setrlimit(resource.RLIMIT_CPU, (soft, hard))


def resident_peak() -> int:
    """Most resident memory that this process has had, in bytes."""
    if sys.platform == "linux":
        # getrusage would give the peak of the process that forked us where that was larger.
        with contextlib.suppress(OSError, ValueError, IndexError), open("/proc/self/status", "rb") as status:
            return int(status.read().split(b"VmHWM:")[1].split()[0]) * 1024
    return max_resident()


def max_resident() -> int:
    """ru_maxrss in bytes. After a fork it begins at the parent's peak, so only its growth says something."""
    usage = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return usage if sys.platform == "darwin" else usage * 1024


def _prctl(option: int, value: int) -> None:
    import ctypes

    ctypes.CDLL(None).prctl(option, value, 0, 0, 0)
