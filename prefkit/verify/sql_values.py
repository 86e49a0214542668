"""Values of DuckDB and PostgreSQL as values that compare.py knows: numbers, text, bytes and NULL.

Two values that their engine calls equal (`=`, with the session at UTC) become the same value here; where it has no such comparison, or
only one through text, they stay different. Numbers stay numbers and text stays text; everything else becomes bytes that begin with its
kind, so that no two kinds meet.

| DuckDB                                 | PostgreSQL                        | canonical                                      |
|----------------------------------------|-----------------------------------|------------------------------------------------|
| TINYINT … UHUGEINT, BIGNUM             | int2, int4, int8, oid             | int                                            |
| DECIMAL                                | numeric, money                    | int where whole, else float                    |
| FLOAT, DOUBLE                          | float4, float8                    | float; NaN is `number:nan`, equal to itself    |
| VARCHAR, ENUM                          | text, varchar, name, enum, citext | text                                           |
|                                        | char(n)                           | text without the blanks at its end             |
| BOOLEAN                                | bool                              | `bool:true`: never the number 1                |
| BLOB                                   | bytea                             | `blob:` and the bytes                          |
| BIT                                    | bit, varbit                       | `bits:0101`                                    |
| UUID                                   | uuid                              | `uuid:` and 32 digits                          |
| DATE                                   | date                              | `date:2024-01-31`                              |
| TIMESTAMP, _S, _MS, _NS (microseconds) | timestamp                         | `date:…` at midnight, else `timestamp:…`       |
| TIMESTAMP WITH TIME ZONE               | timestamptz                       | the same, in UTC                               |
| TIME                                   | time                              | `time:10:00:00.5`                              |
| TIME WITH TIME ZONE                    | timetz                            | `time:…` in UTC                                |
| INTERVAL                               | interval                          | `interval:` microseconds; a month is 30 days   |
| LIST, ARRAY, row()                     | array, composite                  | `list:` JSON of canonical values, order counts |
| STRUCT, MAP                            |                                   | `map:` JSON of [key, value] pairs, order free  |
| JSON                                   | json, jsonb                       | `json:` with sorted keys, numbers by value     |
| others                                 | inet, ranges, point, …            | `other:type:text`                              |

Numbers inside lists, maps and JSON: whole floats are ints. `align` gives those that lie within compare.py's tolerance the same value on
both sides. VARIANT and UNION are what they hold. A decimal is compared like a float because a quotient's digits depend on how it is
written; a sum of money still differs where it differs by more than a millionth.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable
from decimal import Decimal, InvalidOperation
from typing import Any

from prefkit.verify.compare import ABSOLUTE, RELATIVE, Row

_LARGEST = 1 << 1023
"""Beyond this a number has no float to be compared with, and stands as `number:` and its digits."""
_DAY, _MONTH = 86_400_000_000, 30 * 86_400_000_000
_NESTED = (b"list:", b"map:", b"json:")
_INEXACT = re.compile(rb"\d[.e]")


def canonical_rows(rows: Iterable[Iterable[Any]]) -> list[Row]:
    """Rows as a worker sends them (sandbox/sql_wire.py) with canonical values."""
    return [tuple([canonical(value) if type(value) is dict else value for value in row]) for row in rows]


def canonical(value: Any) -> Any:
    """One value of sql_wire.py as None, int, float, str or bytes. Raises ValueError where it is not one."""
    if type(value) is not dict:
        return value
    if len(value) != 1:
        raise ValueError("a value has one entry")
    kind, held = next(iter(value.items()))
    if kind == "number":
        return _number(held)
    if kind in ("list", "map"):
        return kind.encode() + b":" + _dump(_inner(value))
    if kind == "json":
        return _json(held)
    return f"{kind}:".encode() + bytes.fromhex(held) if kind == "blob" else _tagged(kind, held).encode("utf-8", "surrogatepass")


def show(value: Any) -> str:
    """A canonical value as a person reads it in a table of results."""
    if value is None:
        return "NULL"
    if not isinstance(value, bytes):
        return str(value)
    kind, _, held = value.partition(b":")
    if kind == b"blob":
        return f"x'{held.hex()}'"
    text = held.decode("utf-8", "replace")
    if kind == b"interval":
        return _show_interval(int(text))
    return text.partition(":")[2] if kind == b"other" else text


def align(expected: list[Row], rows: list[Row]) -> tuple[list[Row], list[Row]]:
    """Both sides with one value for numbers inside lists, maps and JSON that are equal within the tolerance.

    Of each column, the numbers of both sides are sorted and split where neighbours differ by more than the tolerance; a run whose ends
    agree too gets its smallest. A longer run stays as it is, so that no two values are taken for equal that are not.
    """
    columns = {i for side in (expected, rows) for row in side for i, value in enumerate(row) if _is_inexact(value)}
    if not columns:
        return expected, rows
    for column in columns:
        trees = [[_load(row[column]) if column < len(row) else None for row in side] for side in (expected, rows)]
        numbers = sorted({number for side in trees for tree in side if tree for number in _numbers(tree[1])})
        same = _snapped(numbers)
        expected, rows = (
            [
                (*row[:column], tree[0] + _dump(_replaced(tree[1], same)), *row[column + 1 :]) if tree else row
                for row, tree in zip(side, forest, strict=True)
            ]
            for side, forest in zip((expected, rows), trees, strict=True)
        )
    return expected, rows


def _tagged(kind: str, held: Any) -> str:
    if kind == "bool":
        return "bool:true" if held is True else "bool:false"
    if kind in ("date", "timestamp", "timestamptz"):
        return _moment(held)
    if kind in ("time", "timetz"):
        return f"time:{_time(held)}"
    if kind == "interval":
        months, days, microseconds = held
        return f"interval:{months * _MONTH + days * _DAY + microseconds}"
    if kind == "other":
        return f"other:{held[0]}:{held[1]}"
    if kind in ("uuid", "bits"):
        return f"{kind}:{held}"
    raise ValueError(f"not a kind of value: {kind}")


def _number(digits: str) -> int | float | bytes:
    try:
        number = Decimal(digits)
    except InvalidOperation as error:
        raise ValueError("not a number") from error
    if not number.is_finite():
        return b"number:nan" if number.is_nan() else float(number)
    if number == 0:
        return 0
    if number.adjusted() >= 308:
        return f"number:{number.normalize():E}".encode() if not -_LARGEST < number < _LARGEST else int(number)
    whole = number.to_integral_value()
    return int(whole) if whole == number else float(number)


def _moment(text: str) -> str:
    """A date, or a moment in UTC; at midnight a date, as the engines compare them."""
    found = re.fullmatch(r"(-?\d{4,}-\d\d-\d\d)(?:[ T](\d\d:\d\d:\d\d(?:\.\d+)?))?(?:\+00(?::00)?)?( ?\(?BC\)?)?", text)
    if not found:
        return f"date:{text.strip().lower()}"  # infinity
    day = found[1] + (" BC" if found[3] else "")
    time = _time(found[2] or "00:00:00")
    return f"date:{day}" if time == "00:00:00" else f"timestamp:{day} {time}"


def _time(text: str) -> str:
    """A time of day without zeros at the end of its fraction, in UTC."""
    found = re.fullmatch(r"(\d\d):(\d\d)(?::(\d\d)(\.\d+)?)?(?:([+-])(\d\d)(?::?(\d\d))?(?::?(\d\d))?)?", text)
    if not found:
        return text
    seconds = int(found[1]) * 3600 + int(found[2]) * 60 + int(found[3] or 0)
    offset = int(found[6] or 0) * 3600 + int(found[7] or 0) * 60 + int(found[8] or 0)
    seconds -= -offset if found[5] == "-" else offset
    if offset:
        seconds %= 86_400
    fraction = (found[4] or "").rstrip("0").rstrip(".")
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}{fraction}"


def _json(text: str) -> bytes:
    try:
        value = json.loads(text, parse_float=lambda digits: _number(digits.lower()), parse_int=lambda digits: _number(digits))
        return b"json:" + _dump(_plain(value))
    except (ValueError, RecursionError):
        return b"other:json:" + text.encode("utf-8", "surrogatepass")


def _plain(value: Any) -> Any:
    """JSON's own value with whole floats as ints; numbers that have no float as text that no JSON string is."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, bytes):
        return {"": value.decode()}
    return _whole(value)


def _inner(value: Any) -> Any:
    """A value inside a list or map: numbers, text and null as they are, all else as an object that says its kind."""
    if type(value) is not dict:
        return _whole(value)
    kind, held = next(iter(value.items()))
    if kind == "list":
        return [_inner(item) for item in held]
    if kind == "map":
        pairs = [[_inner(key), _inner(item)] for key, item in held]
        return {"map": sorted(pairs, key=lambda pair: _dump(pair[0]))}
    known = canonical(value)
    return {"bytes": known.decode("utf-8", "surrogateescape")} if isinstance(known, bytes) else _whole(known)


def _whole(value: Any) -> Any:
    return int(value) if type(value) is float and math.isfinite(value) and value == int(value) else value


def _dump(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def _is_inexact(value: Any) -> bool:
    return type(value) is bytes and value.startswith(_NESTED) and _INEXACT.search(value) is not None


def _load(value: Any) -> tuple[bytes, Any] | None:
    if type(value) is not bytes or not value.startswith(_NESTED):
        return None
    kind, _, held = value.partition(b":")
    return kind + b":", json.loads(held)


def _numbers(tree: Any) -> Iterable[float]:
    left = [tree]
    while left:
        node = left.pop()
        if isinstance(node, dict):
            left += node.values()
        elif isinstance(node, list):
            left += node
        elif type(node) in (int, float) and math.isfinite(node):
            yield node


def _snapped(numbers: list[float]) -> dict[float, float]:
    same: dict[float, float] = {}
    run: list[float] = []
    for number in [*numbers, math.inf]:
        if run and not math.isclose(run[-1], number, rel_tol=RELATIVE, abs_tol=ABSOLUTE):
            if math.isclose(run[0], run[-1], rel_tol=RELATIVE, abs_tol=ABSOLUTE):
                same |= dict.fromkeys(run, run[0])
            run = []
        run.append(number)
    return same


def _replaced(tree: Any, same: dict[float, float]) -> Any:
    if isinstance(tree, dict):
        return {key: _replaced(item, same) for key, item in tree.items()}
    if isinstance(tree, list):
        return [_replaced(item, same) for item in tree]
    return same.get(tree, tree) if type(tree) in (int, float) else tree


def _show_interval(microseconds: int) -> str:
    sign, rest = ("-" if microseconds < 0 else ""), abs(microseconds)
    days, rest = divmod(rest, _DAY)
    seconds, fraction = divmod(rest, 1_000_000)
    time = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}" + (f".{fraction:06}".rstrip("0") if fraction else "")
    return sign + (f"{days} {'day' if days == 1 else 'days'}" + (f" {time}" if rest else "") if days else time)
