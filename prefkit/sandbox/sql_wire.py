"""Values of SQL results as JSON lines carry them from a worker to its parent. Standard library only.

Text, whole numbers of up to 64 bits, finite floats and NULL stand as themselves. Every other value is an object with one entry, whose
name says what it is; verify/sql_values.py turns them into values that can be compared.

| entry                  | holds                                                                                     |
|------------------------|-------------------------------------------------------------------------------------------|
| bool                   | true or false                                                                             |
| number                 | digits: a longer whole number, a decimal, or nan, inf, -inf                               |
| blob, bits, uuid, json | hexadecimal digits; 0s and 1s; 32 hexadecimal digits; JSON text                           |
| date, time, timestamp  | ISO 8601 with a space between date and time; as the engine writes it outside years 1–9999 |
| timestamptz, timetz    | the same, in UTC; with its offset                                                         |
| interval               | [months, days, microseconds]                                                              |
| list                   | values of a list, array or row, in order                                                  |
| map                    | [key, value] pairs of a map, or of a struct, whose names are text                         |
| other                  | [name of the type, text]                                                                  |
"""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

MAX_DEPTH = 64
"""Lists in lists in lists …: deeper values are refused."""
_BIG = 1 << 63


class TooDeep(ValueError):
    """A value nested deeper than MAX_DEPTH."""


def encode(value: Any, depth: int = 0) -> Any:
    """A Python value of a database driver as the table above has it. Raises TooDeep; what it does not know becomes `other`."""
    kind = type(value)
    if value is None or kind is str:
        return value
    if kind is int:
        return value if -_BIG <= value < _BIG else {"number": digits(value)}
    if kind is float:
        return value if math.isfinite(value) else {"number": str(value)}
    if kind is bool:
        return {"bool": value}
    if depth > MAX_DEPTH:
        raise TooDeep(f"values nested deeper than {MAX_DEPTH}")
    if isinstance(value, (list, tuple)):
        return {"list": [encode(item, depth + 1) for item in value]}
    if isinstance(value, dict):
        return {"map": [[encode(key, depth + 1), encode(item, depth + 1)] for key, item in value.items()]}
    return _scalar(value)


def _scalar(value: Any) -> dict[str, Any]:
    if isinstance(value, Decimal):
        return {"number": str(value).lower()}
    if isinstance(value, (bytes, bytearray, memoryview)):
        return {"blob": bytes(value).hex()}
    if isinstance(value, UUID):
        return {"uuid": value.hex}
    if isinstance(value, datetime):
        zoned = value.tzinfo is not None
        return {"timestamptz" if zoned else "timestamp": (value.astimezone(UTC).replace(tzinfo=None) if zoned else value).isoformat(" ")}
    if isinstance(value, date):
        return {"date": value.isoformat()}
    if isinstance(value, time):
        return {"timetz" if value.tzinfo is not None else "time": value.isoformat()}
    if isinstance(value, timedelta):
        return {"interval": [0, value.days, value.seconds * 1_000_000 + value.microseconds]}
    return {"other": [type(value).__name__, str(value)]}


def digits(number: int) -> str:
    """A whole number's decimal digits, however many: Python refuses to write more than 4,300 of them as text."""
    return str(number) if abs(number) < 10**4000 else format(Decimal(number), "f")


def size(value: Any) -> int:
    """Bytes that an encoded value counts for against the cap on a result: its characters, or 8 for a number."""
    if type(value) is str:
        return len(value)
    if type(value) is dict:
        return 8 + sum(map(size, value.values()))
    if type(value) is list:
        return sum(map(size, value))
    return 8
