"""Whether bytes are one JSON value in the plainest writing, without making anything of them. Standard library only.

A zygote passes on what a candidate's process wrote. It must know that this cannot break out of the line that it is put into, and must not
parse it, because what it parses stays in its memory, which later candidates inherit. Plainest writing: ASCII, no spaces, no NaN or
infinity, numbers of a length that every parser takes, and no deeper than DEPTH. That is what json.dumps(…, separators=(",", ":")) writes.
"""

from __future__ import annotations

import re

DEPTH = 400
"""Most levels of lists and objects."""

_STRING = rb'"(?:[ !#-\[\]-~]++|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+"'
_NUMBER = rb"-?(?:0|[1-9][0-9]{0,3999})(?![0-9])(?:\.[0-9]{1,3999}(?![0-9]))?(?:[eE][+-]?[0-9]{1,9}(?![0-9]))?"
_SCALAR = rb"(?:" + _STRING + rb"|" + _NUMBER + rb"|true|false|null)"
_MEMBER = _STRING + rb":" + _SCALAR
# The first group is whole in itself; in a list and in an object it takes as many plain members as follow each other.
_ONE = re.compile(rb"(" + _SCALAR + rb")|(\[)|(\{)")
_ITEMS = re.compile(rb"(" + _SCALAR + rb"(?:," + _SCALAR + rb")*+)|(\[)|(\{)")
_MEMBERS = re.compile(rb"(" + _MEMBER + rb"(?:," + _MEMBER + rb")*+)|(" + _STRING + rb":)")

_COMMA, _LIST_END, _OBJECT_END = b",]}"


def is_plain_json(text: bytes | bytearray | memoryview) -> bool:
    """Whether the whole of `text` is one JSON value in plain writing."""
    ends: list[int] = []
    position, length = 0, len(text)
    expected = "value"
    while position < length:
        if expected == "after":
            if not ends:
                return False
            sign = text[position]
            position += 1
            if sign == _COMMA:
                expected = "key" if ends[-1] == _OBJECT_END else "value"
            elif sign != ends.pop():
                return False
            continue
        found = (_MEMBERS if expected == "key" else _ITEMS if ends and ends[-1] == _LIST_END else _ONE).match(text, position)
        if found is None:
            return False
        position = found.end()
        if found.lastindex == 1:
            expected = "after"
        elif expected == "key":
            expected = "value"
        elif len(ends) == DEPTH:
            return False
        else:
            end = _LIST_END if found.lastindex == 2 else _OBJECT_END
            if position < length and text[position] == end:
                position += 1
                expected = "after"
            else:
                ends.append(end)
                expected = "value" if end == _LIST_END else "key"
    return expected == "after" and not ends
