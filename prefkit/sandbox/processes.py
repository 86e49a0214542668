"""The processes of one run as its zygote sees them: what they use, and their end. Inside the sandbox; standard library only."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from dataclasses import dataclass

_PAGE = os.sysconf("SC_PAGE_SIZE")
_TICK = os.sysconf("SC_CLK_TCK")


@dataclass(slots=True)
class Usage:
    """Of all processes of a run together.

    cpu, waiting: seconds on a processor, and runnable without one (the most that one process waited). memory: bytes in RAM, where pages
    that processes share count for each. running: processes that are on a processor or want one.
    """

    cpu: float = 0.0
    waiting: float = 0.0
    memory: int = 0
    processes: int = 0
    threads: int = 0
    running: int = 0


class Tree:
    """Every process that the zygote's child has started and that still lives. alone: the zygote is process 1 of a namespace that holds
    nothing else, so that "every other process" is the tree."""

    def __init__(self, alone: bool) -> None:
        self._alone = alone

    def members(self) -> list[int]:
        if self._alone:
            return [int(name) for name in os.listdir("/proc") if name.isdecimal() and name != "1"]
        found: list[int] = []
        level = _children(os.getpid())
        while level:
            found += level
            level = [child for pid in level for child in _children(pid)]
        return found

    def usage(self) -> Usage:
        total = Usage()
        for pid in self.members():
            # A process may end while it is looked at.
            with contextlib.suppress(OSError, ValueError, IndexError):
                _add(total, pid)
        return total

    def is_empty(self) -> bool:
        """Whether nothing is left, ended processes included."""
        with contextlib.suppress(ChildProcessError):
            os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            return False
        return True

    def private_memory(self) -> int:
        """Bytes in RAM with each shared page divided among those that share it. Slow: the kernel walks every page."""
        total = 0
        for pid in self.members():
            with contextlib.suppress(OSError, ValueError, IndexError), open(f"/proc/{pid}/smaps_rollup", "rb") as file:
                total += int(file.read().split(b"\nPss:")[1].split()[0]) * 1024
        return total

    def kill(self) -> tuple[int, float]:
        """End all of them and wait until none is left. Returns how many there were and the processor seconds of those."""
        count, cpu = 0, 0.0
        pause = 0.0
        while True:
            self._signal()
            try:
                while True:
                    pid, _, usage = os.wait4(-1, 0 if self._alone else os.WNOHANG)
                    if pid == 0:
                        break
                    count += 1
                    cpu += usage.ru_utime + usage.ru_stime
            except ChildProcessError:
                return count, cpu
            time.sleep(pause)
            pause = 0.001

    def _signal(self) -> None:
        """SIGKILL to everything but ourselves. Only where that cannot reach a stranger: as process 1, or process by process."""
        if self._alone and os.getpid() == 1:
            with contextlib.suppress(ProcessLookupError):
                os.kill(-1, signal.SIGKILL)
            return
        for pid in self.members():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)


def _children(pid: int) -> list[int]:
    found: list[int] = []
    with contextlib.suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{task}/children") as file:
                found += map(int, file.read().split())
    return found


def _add(total: Usage, pid: int) -> None:
    with open(f"/proc/{pid}/stat", "rb") as file:
        fields = file.read().rpartition(b")")[2].split()
    if fields[0] in b"ZX":
        total.cpu += (int(fields[11]) + int(fields[12]) + int(fields[13]) + int(fields[14])) / _TICK
        total.processes += 1
        return
    total.cpu += (int(fields[11]) + int(fields[12]) + int(fields[13]) + int(fields[14])) / _TICK
    total.running += fields[0] == b"R"
    total.threads += int(fields[17])
    total.memory += int(fields[21]) * _PAGE
    total.processes += 1
    with contextlib.suppress(OSError, ValueError, IndexError), open(f"/proc/{pid}/schedstat", "rb") as file:
        total.waiting = max(total.waiting, int(file.read().split()[1]) / 1e9)
