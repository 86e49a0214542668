"""Read a log of a deployed model line by line: each line becomes an entry or a fault with its reason. Nothing here trusts what it reads.

| a line is broken                       | reason                |
|----------------------------------------|-----------------------|
| longer than 1 MiB                      | line too long         |
| bytes that are no UTF-8                | not UTF-8             |
| no JSON, or a number without end       | not JSON              |
| brackets in brackets without end       | too deeply nested     |
| a list, a number, a text               | not an object         |
| question or answer missing or empty    | no question / no answer |
| a number where text is expected        | wrong type            |
| a text longer than 20,000 characters   | text too long         |
| half a character (a lone surrogate)    | broken characters     |
| thumbs that mean nothing               | unknown thumbs        |
| no database where there are several    | no database           |
| a database that the task does not have | unknown database      |
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from prefkit.data.column_map import ColumnMap, Unknown

LONGEST_LINE = 1 << 20
LONGEST_TEXT = 20_000
_TEXTS = ("question", "answer", "correction", "error", "retry")
_KINDS = {dict: "an object", list: "a list", str: "text", bool: "true or false", int: "a number", float: "a number", type(None): "null"}


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of a log. `thumb`: True is up. Texts are as they were logged: they go no further without being redacted."""

    line: int
    id: str | None
    database: str | None
    question: str
    answer: str
    thumb: bool | None
    correction: str | None
    error: str | None
    retry: str | None
    retry_of: str | None
    unused: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Fault:
    """A line that cannot be read. `detail` says more than the reason; it may quote the log."""

    line: int
    reason: str
    detail: str = ""


class _Broken(ValueError):
    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(reason)
        self.reason, self.detail = reason, detail


def read_log(path: Path, columns: ColumnMap) -> Iterator[Entry | Fault | None]:
    """What each line of a JSON-lines file is; None for an empty one. One line is held at a time."""
    with path.open("rb") as file:
        for number, raw in enumerate(_lines(file), 1):
            if raw is not None and not raw.strip():
                yield None
                continue
            try:
                yield _entry(raw, number, columns)
            except _Broken as error:
                yield Fault(number, error.reason, error.detail)


def _lines(file: BinaryIO) -> Iterator[bytes | None]:
    """The lines of a file; None for one that is too long to be read."""
    while raw := file.readline(LONGEST_LINE + 1):
        if len(raw) <= LONGEST_LINE or raw.endswith(b"\n"):
            yield raw
            continue
        while (more := file.readline(LONGEST_LINE)) and not more.endswith(b"\n"):
            pass
        yield None


def _entry(raw: bytes | None, number: int, columns: ColumnMap) -> Entry:
    record = _record(raw, number)
    texts = {name: _text(columns.get(record, name), name) for name in _TEXTS}
    for name in ("question", "answer"):
        if texts[name] is None:
            raise _Broken(f"no {name}", f"{columns.paths[name]} is missing or empty")
    try:
        thumb = columns.thumb(columns.get(record, "thumbs"))
    except Unknown:
        value = columns.get(record, "thumbs")
        raise _Broken("unknown thumbs", "say in the column map which values are up and which are down: " + _quoted(value)) from None
    return Entry(
        line=number,
        id=_name(columns.get(record, "id"), "id"),
        database=_name(columns.get(record, "database"), "database"),
        question=texts["question"] or "",
        answer=texts["answer"] or "",
        thumb=thumb,
        correction=texts["correction"],
        error=texts["error"],
        retry=texts["retry"],
        retry_of=_name(columns.get(record, "retry_of"), "retry_of"),
        unused=tuple(columns.unused(record)),
    )


def _record(raw: bytes | None, number: int) -> dict[str, Any]:
    if raw is None:
        raise _Broken("line too long", f"more than {LONGEST_LINE} bytes")
    try:
        record = json.loads(raw.decode("utf-8-sig" if number == 1 else "utf-8"))
    except UnicodeDecodeError as error:
        raise _Broken("not UTF-8", f"at byte {error.start + 1}") from None
    except json.JSONDecodeError as error:
        raise _Broken("not JSON", f"{error.msg} at column {error.colno}") from None
    except RecursionError:
        raise _Broken("too deeply nested") from None
    except ValueError:
        raise _Broken("not JSON", "a number of too many digits") from None
    if not isinstance(record, dict):
        raise _Broken("not an object", f"it is {_KINDS[type(record)]}")
    return record


def _text(value: Any, name: str) -> str | None:
    """The text of a field; None for one that is missing or empty."""
    if value is None:
        return None
    if not isinstance(value, str):
        raise _Broken("wrong type", f"{name} is {_KINDS[type(value)]}, not text")
    if len(value) > LONGEST_TEXT:
        raise _Broken("text too long", f"{name} has {len(value)} characters, more than {LONGEST_TEXT}")
    return _whole(value, name) if value.strip() else None


def _name(value: Any, name: str) -> str | None:
    """A name or number that stands for something."""
    if value is None or value == "":
        return None
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise _Broken("wrong type", f"{name} is {_KINDS[type(value)]}, not a name")
    if isinstance(value, int) and value.bit_length() > 256:
        raise _Broken("wrong type", f"{name} is a number of too many digits")
    if len(str(value)) > LONGEST_TEXT:
        raise _Broken("text too long", f"{name} has more than {LONGEST_TEXT} characters")
    return _whole(str(value), name)


def _whole(text: str, name: str) -> str:
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise _Broken("broken characters", f"{name} holds a lone surrogate") from None
    return text


def _quoted(value: Any) -> str:
    """A value of thumbs for a message; the log's own text is redacted later."""
    if isinstance(value, dict | list):
        return _KINDS[type(value)]
    if isinstance(value, int) and value.bit_length() > 256:
        return "a number of too many digits"
    return ascii(value)
