"""Bytes between the parent, the zygote and its child, handled in memory that is overwritten afterwards. Standard library only.

What a zygote leaves in its memory, every later child inherits. So nothing that belongs to a candidate becomes a Python object of its own
in the zygote: messages, output and results stay in buffers that are cleared, and the few objects that must be made are long ones, because
those come from the C library's malloc, which overwrites them when they are freed (see Zygote.__init__); Python's own allocator does not.
"""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass
from json.encoder import encode_basestring_ascii

_FIRST = 1 << 14
_KEPT = 1 << 20
_LONG = 1100
"""Bytes past which malloc keeps a freed block in no cache that it does not overwrite (tcache ends at 1,032)."""
_ESCAPED = 6 * _LONG


class Buffer:
    """Bytes that are read straight from a descriptor and can be overwritten. The rest of `data` is always zero."""

    def __init__(self) -> None:
        self.data = bytearray(_FIRST)
        self.size = 0

    def fill(self, descriptor: int) -> int:
        """Read what is there. Returns how many bytes; 0 at the end. Raises BlockingIOError where there is nothing yet."""
        if len(self.data) - self.size < _LONG + 4096:
            self.data.extend(bytes(len(self.data)))
        with memoryview(self.data) as data, data[self.size : len(self.data) - _LONG] as room:
            count = os.readv(descriptor, [room])
        self.size += count
        return count

    def clear(self) -> None:
        if len(self.data) > _KEPT:
            self.data = bytearray(_FIRST)
        else:
            self.data[: self.size] = bytes(self.size)
        self.size = 0

    def json_text(self, first: int, last: int) -> memoryview:
        """Those bytes as JSON text in ASCII, without the closing quote; what is no UTF-8 is replaced."""
        with memoryview(self.data) as data, data[first : last + _LONG] as part:
            text = encode_basestring_ascii(str(part, "utf-8", "replace")) if last == self.size else _text_of_slice(part, last - first)
        return memoryview(text.encode())[: -1 - _ESCAPED]


def _text_of_slice(part: memoryview, length: int) -> str:
    """The same where other bytes follow: in a copy, long enough to be overwritten, these are zero."""
    copy = bytearray(part)
    copy[length:] = bytes(_LONG)
    return encode_basestring_ascii(copy.decode("utf-8", "replace"))


class LineReader:
    """Whole lines from a descriptor, one at a time."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._buffer = Buffer()
        self._line = 0

    def next(self) -> memoryview | None:
        """The next line with its end, to be released before the next is asked for; None at the end of input."""
        buffer = self._buffer
        self.drop()
        searched = 0
        while True:
            found = buffer.data.find(b"\n", searched, buffer.size)
            if found >= 0:
                self._line = found + 1
                return memoryview(buffer.data)[: self._line]
            searched = buffer.size
            if not buffer.fill(self._descriptor):
                return None

    def drop(self) -> None:
        """Overwrite the line that was given out last."""
        buffer = self._buffer
        rest = buffer.size - self._line
        if rest:
            buffer.data[:rest] = buffer.data[self._line : buffer.size]
            buffer.data[rest : buffer.size] = bytes(self._line)
            buffer.size = rest
        else:
            buffer.clear()
        self._line = 0


@dataclass(frozen=True, slots=True)
class Header:
    """What a child says of its message before it runs anything: the zygote watches accordingly.

    kind: "V" run, and judge by the value that is sent back; "X" run, and judge by how the process ends; "C" compile, then ask again;
    "L" the op's module is to be loaded first; "B" the message is no good. argument: the compiled program's key, the op's name, or the
    reason. timeout: processor seconds of all processes. wall: seconds on the clock, without those spent waiting for a processor. memory,
    output, disk: bytes.
    """

    kind: str
    argument: str = ""
    timeout: float = 0.0
    wall: float = 0.0
    memory: int = 0
    output: int = 0
    processes: int = 0
    disk: int = 0
    threads: int = 0

    _FORM = struct.Struct("=c128pddqqqqq")
    SIZE = _FORM.size

    def pack(self) -> bytes:
        numbers = (self.timeout, self.wall, self.memory, self.output, self.processes, self.disk, self.threads)
        return self._FORM.pack(self.kind.encode(), self.argument.encode("ascii", "replace")[:127], *numbers)

    @classmethod
    def unpack(cls, data: bytes | bytearray | memoryview) -> Header:
        kind, argument, *numbers = cls._FORM.unpack_from(data)
        return cls(kind.decode(), argument.decode("ascii", "replace"), *numbers)


def write_all(descriptor: int, *parts: bytes | bytearray | memoryview) -> None:
    """Write them one after the other, whole."""
    views: list[memoryview] = [memoryview(part).cast("B") for part in parts if len(part)]
    while views:
        written = os.writev(descriptor, views[:64])
        while views and written >= len(views[0]):
            written -= len(views.pop(0))
        if views and written:
            views[0] = views[0][written:]
