"""One run as its zygote sees it: the forked child, its pipes, its limits, its end, and the reply. Standard library only."""

from __future__ import annotations

import contextlib
import ctypes
import json
import math
import os
import select
import signal
import time
from typing import TYPE_CHECKING, Any

from prefkit.sandbox import zygote_child
from prefkit.sandbox.json_check import is_plain_json
from prefkit.sandbox.zygote_child import OS_ERRORS
from prefkit.sandbox.zygote_wire import Buffer, Header, write_all

if TYPE_CHECKING:
    from prefkit.sandbox.zygote import Zygote

FIRST_LOOK_S, LOOK_S = 0.005, 0.010
"""Seconds after which, and between which, the use of memory, processes and disk is looked at. Most runs end before the first."""
HEADER_S = 20.0
STARVED_S = 4.0
"""With four times the processor time allowed: seconds on the clock after which a run that had hardly a processor is given up."""
MAX_RESULT = 32 << 20
MAX_FILES = 10_000
SHOWN_ERRORS = 8_000
"""Bytes of a result; files that a run may have at once; bytes of standard error that are passed on (its end)."""
MAX_REFUSALS = 1_000
LINGER = 8
"""Refused calls that end a run even if a program may make them by habit; looks at what a main child left behind."""

_fork = ctypes.PyDLL(None).fork
"""The C library's fork. os.fork would then have Python repair what threads may have left behind, and seed `random` anew: the zygote has one
thread, wants the same numbers in every child, and the repair touches 200 pages, which are two thirds of what a child costs."""


class Run:
    """Made before its message comes, so that the fork is not waited for."""

    def __init__(self, zygote: Zygote) -> None:
        self.zygote = zygote
        self.out, self.err, self.result = zygote.buffers
        message, self.message = os.pipe()
        result, out, err = os.pipe(), os.pipe(), os.pipe()
        self.pid = _fork()
        if self.pid == 0:
            zygote_child.run(zygote.ops, zygote.lock, (message, result[1], out[1], err[1]))
        for descriptor in (message, result[1], out[1], err[1]):
            os.close(descriptor)
        self.pidfd = os.pidfd_open(self.pid)
        self.pipes: dict[int, Buffer] = {result[0]: self.result, out[0]: self.out, err[0]: self.err}
        self.header_pipe = result[0]
        for descriptor in self.pipes:
            os.set_blocking(descriptor, False)
        self.started = 0.0
        self.refused: list[str] = []
        self.hostile = False
        self.reaped_cpu = 0.0
        self.peak = 0
        self.waiting = 0.0
        self.cpu = 0.0
        self.disk_due = 0.0

    def start(self, line: memoryview) -> Header:
        """Hand over the message. Returns the child's header."""
        self.started = time.monotonic()
        with contextlib.suppress(BrokenPipeError):
            write_all(self.message, line)
        os.close(self.message)
        self.message = -1
        poller = select.poll()
        poller.register(self.header_pipe, select.POLLIN)
        while self.result.size < Header.SIZE:
            if not poller.poll(HEADER_S * 1000) or not self._read(self.header_pipe):
                return Header("B", "the message could not be read")
        header = Header.unpack(self.result.data)
        rest = self.result.size - Header.SIZE
        self.result.data[:rest] = self.result.data[Header.SIZE : self.result.size]
        self.result.data[rest : self.result.size] = bytes(Header.SIZE)
        self.result.size = rest
        return header

    def watch(self, header: Header) -> dict[str, Any]:
        """Wait for the main child's end or the first limit, then end all the others. Returns the outcome."""
        zygote = self.zygote
        poller = zygote.poller
        for descriptor in (self.pidfd, *self.pipes):
            poller.register(descriptor, select.POLLIN)
        stopped: tuple[str, str] | None = None
        ended = False
        look = self.started + FIRST_LOOK_S
        while not ended and stopped is None:
            events = poller.poll(max(0, math.ceil((look - time.monotonic()) * 1000)))
            for descriptor, event in events:
                if descriptor == self.pidfd:
                    ended = True
                elif descriptor in self.pipes:
                    if not self._read(descriptor):
                        poller.unregister(descriptor)
                        os.close(descriptor)
                        del self.pipes[descriptor]
                elif descriptor == 0:
                    if event & (select.POLLHUP | select.POLLERR):
                        zygote.end()
                else:
                    stopped = stopped or self._refuse()
            stopped = stopped or self._output(header)
            now = time.monotonic()
            if now >= look and not ended and stopped is None:
                stopped = self._look(header, now)
                look = time.monotonic() + max(0.001, min(LOOK_S, header.timeout - self.cpu))
        return self._end(header, stopped)

    def _end(self, header: Header, stopped: tuple[str, str] | None) -> dict[str, Any]:
        poller = self.zygote.poller
        for descriptor in (self.pidfd, *self.pipes):
            poller.unregister(descriptor)
        status = None
        if stopped is None:
            _, status, usage = os.wait4(self.pid, 0)
        else:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            _, status, usage = os.wait4(self.pid, 0)
        self.reaped_cpu += usage.ru_utime + usage.ru_stime
        self.peak = max(self.peak, usage.ru_maxrss * 1024)
        if stopped is None and not self.zygote.tree.is_empty():
            stopped = self._linger(header)
        left, cpu = self.zygote.tree.kill()
        self.reaped_cpu += cpu
        self.cpu = max(self.cpu, self.reaped_cpu)
        for descriptor in list(self.pipes):
            with contextlib.suppress(BlockingIOError):
                while self.result.size + self.out.size + self.err.size < MAX_RESULT and self.pipes[descriptor].fill(descriptor):
                    pass
        stopped = stopped or self._output(header) or self._disk(header)
        if stopped is None and left > header.processes:
            stopped = ("limit", "limit: processes")
        return self._outcome(header, stopped, os.waitstatus_to_exitcode(status))

    def close(self) -> None:
        for descriptor in (self.message, self.pidfd, *self.pipes):
            if descriptor >= 0:
                os.close(descriptor)
        for buffer in self.zygote.buffers:
            buffer.clear()

    def _read(self, descriptor: int) -> bool:
        """Whether more may come."""
        try:
            return self.pipes[descriptor].fill(descriptor) > 0
        except BlockingIOError:
            return True

    def _refuse(self) -> tuple[str, str] | None:
        listener = self.zygote.listener
        refusal = listener.refuse() if listener else None
        if refusal is None:
            return None
        name, hostile = refusal
        self.refused.append(name)
        if hostile or len(self.refused) > MAX_REFUSALS:
            return "policy", f"policy: system call {name}"
        return None

    def _output(self, header: Header) -> tuple[str, str] | None:
        if self.out.size + self.err.size > header.output:
            return "limit", "limit: output"
        if self.result.size > MAX_RESULT:
            return "limit", "limit: result"
        return None

    def _disk(self, header: Header) -> tuple[str, str] | None:
        size, files = self.zygote.scratch.used(MAX_FILES)
        if size > header.disk:
            return "limit", "limit: disk"
        if files > MAX_FILES:
            return "limit", "limit: files"
        return None

    def _look(self, header: Header, now: float) -> tuple[str, str] | None:
        """Which limit the processes have passed, taken together."""
        self._reap()
        tree = self.zygote.tree
        usage = tree.usage()
        self.cpu = self.reaped_cpu + usage.cpu
        self.waiting = max(self.waiting, usage.waiting)
        if self.cpu >= header.timeout:
            return "timeout", "time limit: processor time"
        if now - self.started - self.waiting >= header.wall:
            return "timeout", "time limit: waiting"
        if now - self.started >= STARVED_S + 4 * header.timeout:
            return "infra", "no processor time"
        memory = usage.memory
        if memory > header.memory:
            memory = tree.private_memory() or memory
        self.peak = max(self.peak, memory)
        if memory > header.memory:
            return "limit", "limit: memory"
        if usage.processes > header.processes:
            return "limit", "limit: processes"
        if usage.threads >= header.processes + header.threads:
            return "limit", "limit: threads"
        if now < self.disk_due:
            return None
        passed = self._disk(header)
        # Where files must be counted one by one, that may take long: a fifth of the time at most.
        self.disk_due = now + 5 * (time.monotonic() - now)
        return passed

    def _linger(self, header: Header) -> tuple[str, str] | None:
        """The main child has left others behind. Where these are busy, look whether they become more and more, as a fork bomb's do whose
        first process ends at once. A daemon that waits is ended at once, one that works a little later."""
        for _ in range(LINGER):
            self._reap()
            usage = self.zygote.tree.usage()
            if usage.processes > header.processes:
                return "limit", "limit: processes"
            if usage.running < 2:
                return None
            time.sleep(LOOK_S)
        return None

    def _reap(self) -> None:
        """Take in what ended and was left to us, but not the main child, whose end its pidfd tells."""
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) is not None and ended.si_pid != self.pid:
                _, _, usage = os.wait4(ended.si_pid, 0)
                self.reaped_cpu += usage.ru_utime + usage.ru_stime

    def _outcome(self, header: Header, stopped: tuple[str, str] | None, code: int) -> dict[str, Any]:
        outcome: dict[str, Any] = {"exit": code if code >= 0 else None, "signal": _name(-code) if code < 0 else None}
        status, reason = stopped or self._judge(header, code)
        if status not in ("ok", "infra") and self.refused and status == "crash":
            status, reason = "policy", f"policy: system call {self.refused[0]}"
        return {"status": status, "reason": reason} | outcome

    def _judge(self, header: Header, code: int) -> tuple[str, str]:
        """What the end of the main child means, where no limit was passed."""
        if code < 0:
            return self._judge_signal(header, -code)
        sent = self.result
        if header.kind == "V" and sent.data[:1] == b"=" and code == 0:
            return self._judge_value()
        if sent.size and sent.data[:1] == b"!":
            return _told(sent)
        if code:
            return _from_text(self.err) or ("crash", f"exit code {code}")
        if header.kind == "V":
            return "crash", "ended before it returned"
        return "ok", ""

    def _judge_value(self) -> tuple[str, str]:
        sent = self.result
        with memoryview(sent.data) as data, data[: sent.size] as text:
            if text[-1:] != b"\n":
                return "crash", "ended before it returned"
            with text[1:-1] as value:
                return ("ok", "") if is_plain_json(value) else ("tamper", "result written by the code")

    def _judge_signal(self, header: Header, number: int) -> tuple[str, str]:
        if number == signal.SIGXCPU or (number == signal.SIGKILL and self.cpu >= header.timeout):
            return "timeout", "time limit: processor time"
        if number == signal.SIGXFSZ:
            return "limit", "limit: file size"
        if number == signal.SIGSYS:
            return "policy", "policy: system call"
        if self.peak > header.memory:
            return "limit", "limit: memory"
        return (_from_text(self.err) if number == signal.SIGABRT else None) or ("crash", _name(number))


def _told(sent: Buffer) -> tuple[str, str]:
    """What the child's own wrapper says; only that something went wrong can be said there."""
    try:
        told = json.loads(bytes(sent.data[1 : min(sent.size, 1000)]))
        status, reason = told["status"], told["reason"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return "crash", "ended before it returned"
    if status not in ("crash", "limit", "policy", "timeout") or not isinstance(reason, str):
        return "crash", "ended before it returned"
    return status, reason[:100]


_TEXTS = (
    *(((os.strerror(number)).encode(), outcome) for number, outcome in OS_ERRORS.items()),
    (b"bad_alloc", ("limit", "limit: memory")),
    (b"heap out of memory", ("limit", "limit: memory")),
    (b"MemoryError", ("limit", "limit: memory")),
)


def _from_text(err: Buffer) -> tuple[str, str] | None:
    """A program of another language tells why it failed in words only. All that this decides is which failure it was."""
    for text, outcome in _TEXTS:
        if err.data.find(text, max(0, err.size - 2000), err.size) >= 0:
            return outcome
    return None


def _name(number: int) -> str:
    with contextlib.suppress(ValueError):
        return signal.Signals(number).name
    return f"signal {number}"
