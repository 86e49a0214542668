"""Values as PostgreSQL writes them in text form, into those of sql_wire.py. Standard library only.

The session's settings are fixed (postgres_client.SETTINGS): dates and intervals are ISO 8601, zones UTC, bytea in hexadecimal, floats
as short as they can be.
Built-in types are known by their numbers (https://www.postgresql.org/docs/current/catalog-pg-type.html, stable for ever); arrays, domains,
enums and composite types are looked up by the caller.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from prefkit.sandbox.sql_wire import MAX_DEPTH, TooDeep, encode


@dataclass(frozen=True, slots=True)
class TypeInfo:
    """A row of pg_type that this file does not know by number. kind: typtype; element: typelem of an array; base: typbasetype of a domain.

    fields: types of a composite's columns. delimiter: between an array's elements.
    """

    name: str
    kind: str
    element: int = 0
    base: int = 0
    fields: tuple[int, ...] = ()
    delimiter: str = ","


Lookup = Callable[[int], TypeInfo]

_INTEGERS = {20, 21, 23, 26}
_FLOATS = {700, 701}
_TEXTS = {18, 19, 25, 705, 1043, 2275}
_TAGS = {114: "json", 3802: "json", 1560: "bits", 1562: "bits", 1082: "date", 1083: "time", 1266: "timetz", 1114: "timestamp"}
_BOOL, _BYTEA, _MONEY, _BPCHAR, _TIMESTAMPTZ, _INTERVAL, _NUMERIC, _UUID, _RECORD = 16, 17, 790, 1042, 1184, 1186, 1700, 2950, 2249
NAMES = {
    16: "bool", 17: "bytea", 20: "int8", 21: "int2", 23: "int4", 25: "text", 26: "oid", 114: "json", 700: "float4", 701: "float8",
    790: "money", 1042: "bpchar", 1043: "varchar", 1082: "date", 1083: "time", 1114: "timestamp", 1184: "timestamptz", 1186: "interval",
    1266: "timetz", 1560: "bit", 1562: "varbit", 1700: "numeric", 2249: "record", 2950: "uuid", 3802: "jsonb",
}  # fmt: skip
_DURATION = re.compile(
    r"P(?:(-?\d+)Y)?(?:(-?\d+)M)?(?:(-?\d+)W)?(?:(-?\d+)D)?(?:T(?:(-?\d+)H)?(?:(-?\d+)M)?(?:(-?)(\d+)(?:\.(\d{1,6}))?S)?)?"
)


def decode(text: str, oid: int, lookup: Lookup, depth: int = 0) -> Any:
    """The value that `text` of type `oid` is. Raises TooDeep; what has no form of its own becomes `other`."""
    if oid in _INTEGERS:
        return encode(int(text))
    if oid in _TEXTS:
        return text
    if oid in _FLOATS:
        value = float(text)
        return value if math.isfinite(value) else {"number": str(value)}
    if oid in _TAGS:
        return {_TAGS[oid]: text}
    if depth > MAX_DEPTH:
        raise TooDeep(f"values nested deeper than {MAX_DEPTH}")
    return _decode_rarer(text, oid, lookup, depth)


def _decode_rarer(text: str, oid: int, lookup: Lookup, depth: int) -> Any:
    if oid == _NUMERIC:
        return {"number": text.lower().replace("infinity", "inf")}
    if oid == _BOOL:
        return {"bool": text == "t"}
    if oid == _TIMESTAMPTZ:
        return {"timestamptz": re.sub(r"\+00(?=$| BC$)", "", text)}
    if oid == _BPCHAR:
        return text.rstrip(" ")  # as its own comparison does
    if oid == _UUID:
        return {"uuid": text.replace("-", "")}
    if oid == _BYTEA:
        return {"blob": text.removeprefix("\\x")}
    if oid == _INTERVAL:
        return _interval(text)
    if oid == _MONEY:
        return {"number": re.sub(r"[^\d.-]", "", text)}
    if oid == _RECORD:
        return {"list": [_or_none(item, 25, lookup, depth) for item in parse_record(text)]}
    return _decode_looked_up(text, lookup(oid), lookup, depth)


def _decode_looked_up(text: str, info: TypeInfo, lookup: Lookup, depth: int) -> Any:
    if info.kind == "d":
        return decode(text, info.base, lookup, depth + 1)
    if info.kind == "e" or info.name == "citext":
        return text
    if info.kind == "c":
        items = parse_record(text)
        if len(items) == len(info.fields):
            return {"list": [_or_none(item, oid, lookup, depth) for item, oid in zip(items, info.fields, strict=True)]}
    elif info.element and text.startswith(("{", "[")):
        return _array(parse_array(text, info.delimiter), info.element, lookup, depth)
    return {"other": [info.name, text]}


def _array(items: list[Any], oid: int, lookup: Lookup, depth: int) -> Any:
    if depth > MAX_DEPTH:
        raise TooDeep(f"values nested deeper than {MAX_DEPTH}")
    return {
        "list": [_array(item, oid, lookup, depth + 1) if isinstance(item, list) else _or_none(item, oid, lookup, depth) for item in items]
    }


def _or_none(text: str | None, oid: int, lookup: Lookup, depth: int) -> Any:
    return None if text is None else decode(text, oid, lookup, depth + 1)


def _interval(text: str) -> dict[str, Any]:
    found = _DURATION.fullmatch(text)
    if not found:
        return {"other": ["interval", text]}
    years, months, weeks, days, hours, minutes = (int(part or 0) for part in found.groups()[:6])
    sign, seconds, fraction = found.group(7), int(found.group(8) or 0), (found.group(9) or "").ljust(6, "0")
    microseconds = (seconds * 1_000_000 + int(fraction)) * (-1 if sign else 1)
    return {"interval": [years * 12 + months, weeks * 7 + days, (hours * 3600 + minutes * 60) * 1_000_000 + microseconds]}


def parse_array(text: str, delimiter: str = ",") -> list[Any]:
    """An array's elements as text, None for NULL, lists for further dimensions. Bounds before the braces are passed over."""
    if text.startswith("["):
        text = text.partition("=")[2]
    stack: list[list[Any]] = [[]]
    at, word, quoted = 0, "", False

    def end_word() -> None:
        nonlocal word, quoted
        if word or quoted:
            stack[-1].append(None if word.upper() == "NULL" and not quoted else word)
        word, quoted = "", False

    while at < len(text):
        sign = text[at]
        if sign == '"':
            quoted = True
            part, at = _quoted(text, at)
            word += part
            continue
        if sign == "{":
            stack.append([])
            if len(stack) > MAX_DEPTH:
                raise TooDeep(f"values nested deeper than {MAX_DEPTH}")
        elif sign == "}":
            end_word()
            done = stack.pop()
            if not stack:
                return done
            stack[-1].append(done)
        elif sign == delimiter:
            end_word()
        elif sign == "\\" and at + 1 < len(text):
            at += 1
            word += text[at]
        else:
            word += sign
        at += 1
    return stack[0][0] if stack[0] and isinstance(stack[0][0], list) else stack[0]


def parse_record(text: str) -> list[str | None]:
    """A row's fields as text, None for NULL: `(1,"a b",)`."""
    fields: list[str | None] = []
    at, word, seen = 1, "", False
    while at < len(text):
        sign = text[at]
        if sign == '"':
            seen = True
            part, at = _quoted(text, at)
            word += part
            continue
        if sign in ",)":
            fields.append(word if seen else None)
            word, seen = "", False
            if sign == ")":
                break
        else:
            seen = True
            if sign == "\\" and at + 1 < len(text):
                at += 1
                sign = text[at]
            word += sign
        at += 1
    return fields


def _quoted(text: str, at: int) -> tuple[str, int]:
    """The text of the quotation that begins at `at`, and where it ends. A quote inside is doubled or has a backslash before it."""
    out = []
    at += 1
    while at < len(text):
        sign = text[at]
        if sign == "\\":
            at += 1
            out.append(text[at : at + 1])
        elif sign == '"':
            if text[at + 1 : at + 2] != '"':
                return "".join(out), at + 1
            at += 1
            out.append('"')
        else:
            out.append(sign)
        at += 1
    return "".join(out), at
