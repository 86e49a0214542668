"""Compare values in canonical form (see sandbox/values.py): what a task expects with what an answer's code returned.

| expected                                  | what agrees                                                                                |
|-------------------------------------------|--------------------------------------------------------------------------------------------|
| true, false, text, null                   | the same value of the same type: True is not 1, "1" is not 1                               |
| a whole number                            | an int, float, Decimal, Fraction or numpy number of exactly that value: 3 and 3.0          |
| a number with a point                     | the same, within the tolerance                                                             |
| NaN                                       | NaN; where another value is expected, NaN is wrong                                         |
| a JSON array                              | any ordered sequence of such items: list, tuple, generator, range, deque, numpy array      |
| {"$list": …}, {"$tuple": …}, {"$deque"…}  | that type alone                                                                            |
| a JSON object, {"$dict": …}               | a dict with those keys and values, in any order                                            |
| {"$set": …}, {"$frozenset": …}            | a set or frozenset whose members pair off                                                  |
| {"$bytes": …}, {"$bytearray": …}          | bytes or a bytearray                                                                       |
| {"$array": …}, {"$scalar": …}             | numpy's, of the same kind of dtype (int, float, bool, text…), shape and content            |
| {"$series": …}, {"$frame": …}, {"$index"} | pandas', of the same kinds, labels, names and content; missing is missing, however written |
| anything else                             | the same tag and value                                                                     |

{"$python": "(1, {2, 3})"} in a task stands for that literal, with its exact types. Tolerance: relative 1e-9 or absolute 1e-12, whichever
is wider, unless the task sets its own, which then holds for whole numbers too; 0 asks for the exact value. Objects of the answer's own
classes and values past the caps equal nothing. What came out may have been written by the answer in any shape: it is read as data, and
nothing in it raises.
"""

from __future__ import annotations

import ast
import datetime
import decimal
import fractions
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from prefkit.sandbox.values import decode, encode, tag_of
from prefkit.verify.json_text import shown

VERSION = "values/1"

_SEQUENCES = frozenset({"$list", "$tuple", "$generator", "$deque"})
_ALIKE = {"$frozenset": "$set", "$bytearray": "$bytes"}
_KINDS = {"u": "i", "S": "U"}
_TIMES: dict[str, Callable[[str], Any]] = {
    "$datetime": datetime.datetime.fromisoformat,
    "$date": datetime.date.fromisoformat,
    "$time": datetime.time.fromisoformat,
}
_TABLES = {
    "$scalar": {"kind", "value"}, "$array": {"kind", "shape", "items"}, "$index": {"kind", "items"},
    "$series": {"kind", "name", "index", "items"}, "$frame": {"columns", "index", "kinds", "items"},
}  # fmt: skip
_MAX_LEFT = 200
_MAX_DEPTH = 60
_FAULTS = (TypeError, ValueError, KeyError, AttributeError, ArithmeticError, RecursionError, MemoryError)


@dataclass(frozen=True, slots=True)
class Tolerance:
    """Numbers agree when they differ by at most `relative` of the larger or by `absolute`. given: set by the task, so for ints too."""

    relative: float = 1e-9
    absolute: float = 1e-12
    given: bool = False

    @classmethod
    def read(cls, value: Any) -> Tolerance:
        """From a task: None, a number for both, or {"relative": …, "absolute": …}. Raises ValueError."""
        if value is None:
            return cls()
        parts = value if isinstance(value, dict) else {"relative": value, "absolute": value}
        if not parts or not parts.keys() <= {"relative", "absolute"} or not all(map(_is_tolerance, parts.values())):
            raise ValueError(f'"tolerance" must be a number from 0 on, or {{"relative": number, "absolute": number}}, not {shown(value)}')
        return cls(float(parts.get("relative", 0.0)), float(parts.get("absolute", 0.0)), True)


def _is_tolerance(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value) and value >= 0


DEFAULT = Tolerance()


def expected_form(value: Any, depth: int = _MAX_DEPTH) -> Any:
    """The canonical form that a task's JSON value stands for. Raises ValueError for typed values that cannot be read.

    >>> expected_form([1, {"$python": "(2, 3)"}])
    [1, {'$tuple': [2, 3]}]
    """
    if depth <= 0:
        raise ValueError("a value is too deeply nested")
    if isinstance(value, list):
        return [expected_form(item, depth - 1) for item in value]
    if not isinstance(value, dict):
        return encode(value) if isinstance(value, (int, float)) else value
    tag = tag_of(value)
    if tag is None:
        return {key: expected_form(item, depth - 1) for key, item in value.items()}
    content = value[tag]
    if tag == "$python":
        return _literal(content)
    if tag == "$dict":
        content = [[_hashable(expected_form(key, depth - 1)), expected_form(item, depth - 1)] for key, item in _pairs(content)]
    elif tag in _SEQUENCES or tag in ("$set", "$frozenset"):
        if not isinstance(content, list):
            raise ValueError(f"{tag} takes a list")
        content = [expected_form(item, depth - 1) for item in content]
        content = content if tag in _SEQUENCES else [_hashable(item) for item in content]
    elif tag in _TABLES:
        if not isinstance(content, dict) or content.keys() != _TABLES[tag]:
            raise ValueError(f"{tag} takes an object with {', '.join(sorted(_TABLES[tag]))}")
        content = {key: expected_form(item, depth - 1) for key, item in content.items()}
    elif tag != "$missing":
        decode(value)
    return {tag: content}


def exact_form(value: object) -> Any:
    """The form of a Python value that only values of the very same types agree with: a list is a list, not any sequence."""
    form = encode(value)
    if type(form) is dict and tag_of(form) in ("$object", "$cut"):
        raise ValueError(f"{type(value).__name__} has no canonical form")
    return _exact(form)


def same(expected: Any, got: Any, tolerance: Tolerance = DEFAULT) -> bool:
    """Whether `got`, data from outside, agrees with `expected`, a form of expected_form. Never raises."""
    try:
        return _same(expected, got, tolerance)
    except _FAULTS:
        return False


def _literal(text: Any) -> Any:
    try:
        return _exact(encode(ast.literal_eval(text)))
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError) as error:
        raise ValueError("$python takes the text of a Python literal") from error


def _pairs(content: Any) -> list[list[Any]]:
    if not isinstance(content, list) or not all(isinstance(pair, list) and len(pair) == 2 for pair in content):
        raise ValueError("$dict takes a list of [key, value]")
    return content


def _hashable(form: Any) -> Any:
    """A JSON array inside a set or as a key can only be a tuple."""
    return {"$tuple": [_hashable(item) for item in form]} if isinstance(form, list) else form


def _exact(form: Any) -> Any:
    if isinstance(form, list):
        return {"$list": [_exact(item) for item in form]}
    if not isinstance(form, dict):
        return form
    tag = tag_of(form)
    if tag == "$dict":
        return {"$dict": [[_exact(key), _exact(value)] for key, value in form[tag]]}
    if tag in _SEQUENCES or tag in ("$set", "$frozenset"):
        return {tag: [_exact(item) for item in form[tag]]}
    return form if tag is not None else {key: _exact(value) for key, value in form.items()}


def _same(expected: Any, got: Any, tolerance: Tolerance) -> bool:
    if expected is None or type(expected) in (bool, str):
        got = _of_scalar(got)
        return type(got) is type(expected) and got == expected
    number = _number(expected)
    if number is not None:
        other = _number(_of_scalar(got))
        return other is not None and _same_number(number, other, tolerance)
    if type(expected) is list:
        items = _sequence(got)
        return items is not None and _same_items(expected, items, tolerance)
    tag = tag_of(expected)
    if tag is None or tag == "$dict":
        return _same_dict(expected, got, tolerance)
    if tag == "$list":
        return type(got) is list and _same_items(expected[tag], got, tolerance)
    other_tag = tag_of(got) if type(got) is dict else None
    if other_tag is None or _ALIKE.get(tag, tag) != _ALIKE.get(other_tag, other_tag):
        return False
    return _same_tagged(tag, expected[tag], got[other_tag], tolerance)


def _same_tagged(tag: str, a: Any, b: Any, tolerance: Tolerance) -> bool:
    if tag in _SEQUENCES:
        return _same_items(a, b, tolerance)
    if tag in ("$set", "$frozenset"):
        return _same_bag(a, b, tolerance)
    if tag == "$complex":
        return len(b) == 2 and all(_same(x, y, tolerance) for x, y in zip(a, b, strict=True))
    if tag == "$range":
        return decode({tag: a}) == decode({tag: b})
    if tag in _TIMES:
        return a == b or _TIMES[tag](a) == _TIMES[tag](b)
    if tag in _TABLES:
        return _same_table(a, b, tolerance)
    return type(a) is type(b) and a == b and tag not in ("$object", "$cut")


def _same_table(a: dict[str, Any], b: dict[str, Any], tolerance: Tolerance) -> bool:
    """numpy's and pandas' values: kinds of dtype, then all else."""
    if a.keys() != b.keys() or _kinds(a) != _kinds(b):
        return False
    return all(name in ("kind", "kinds") or _same_cells(a[name], b[name], tolerance) for name in a)


def _same_cells(a: Any, b: Any, tolerance: Tolerance) -> bool:
    if type(a) is list and type(b) is list:
        return len(a) == len(b) and all(_same_cells(x, y, tolerance) for x, y in zip(a, b, strict=True))
    return (_is_missing(a) and _is_missing(b)) or _same(a, b, tolerance)


def _is_missing(form: Any) -> bool:
    return form is None or form == {"$float": "nan"} or (type(form) is dict and tag_of(form) == "$missing")


def _kinds(table: dict[str, Any]) -> list[Any]:
    kinds = table.get("kinds", [table.get("kind")])
    return [_KINDS.get(kind, kind) for kind in kinds]


def _of_scalar(form: Any) -> Any:
    """What a numpy scalar holds, or the form itself."""
    if type(form) is dict and tag_of(form) == "$scalar" and form["$scalar"].keys() == _TABLES["$scalar"]:
        return form["$scalar"]["value"]
    return form


def _number(form: Any) -> int | float | fractions.Fraction | decimal.Decimal | None:
    if type(form) in (int, float):
        return form
    tag = tag_of(form) if type(form) is dict else None
    if tag not in ("$int", "$float", "$fraction", "$decimal"):
        return None
    value = decode(form)
    return value if type(value) in (int, float, fractions.Fraction, decimal.Decimal) else None


def _same_number(a: Any, b: Any, tolerance: Tolerance) -> bool:
    if a != a or b != b:
        return a != a and b != b
    if a == b:
        return True
    if type(a) is int and not tolerance.given:
        return False
    x, y = float(a), float(b)
    if math.isinf(x) or math.isinf(y):
        return False
    return abs(x - y) <= max(tolerance.relative * max(abs(x), abs(y)), tolerance.absolute)


def _sequence(form: Any) -> list[Any] | None:
    """The items of any ordered sequence, arrays nested as their shape says; None for what is none."""
    if type(form) is list:
        return form
    tag = tag_of(form) if type(form) is dict else None
    if tag in _SEQUENCES:
        return form[tag] if type(form[tag]) is list else None
    if tag == "$range":
        numbers = decode(form)
        return list(numbers) if len(numbers) <= 1_000_000 else None
    if tag == "$array":
        items, shape = form[tag]["items"], form[tag]["shape"]
        if not shape or not all(type(length) is int and length >= 0 for length in shape) or math.prod(shape) != len(items):
            return None
        for length in reversed(shape[1:]):
            items = [items[i : i + length] for i in range(0, len(items), length)] if length else [[]] * math.prod(shape[:-1])
        return items
    return None


def _same_items(a: list[Any], b: Any, tolerance: Tolerance) -> bool:
    return type(b) is list and len(a) == len(b) and all(_same(x, y, tolerance) for x, y in zip(a, b, strict=True))


def _same_dict(expected: dict[str, Any], got: Any, tolerance: Tolerance) -> bool:
    if type(got) is not dict:
        return False
    a, b = _entries(expected), _entries(got)
    return a is not None and b is not None and a.keys() == b.keys() and all(_same(a[key], b[key], tolerance) for key in a)


def _entries(form: dict[str, Any]) -> dict[Any, Any] | None:
    """Values by hashable key; None where it is no dict, or where a key comes twice."""
    tag = tag_of(form)
    if tag not in (None, "$dict"):
        return None
    pairs = [(key, value) for key, value in form["$dict"]] if tag else list(form.items())
    entries = {_key(key): value for key, value in pairs}
    return entries if len(entries) == len(pairs) else None


def _key(form: Any) -> Any:
    """A hashable that is equal for values that agree exactly, and different for others."""
    form = _of_scalar(form)
    if form is None or type(form) in (bool, str):
        return (type(form).__name__, form)
    number = _number(form)
    if number is not None:
        return ("number", number if number == number else "nan")
    if type(form) is list:
        return ("$list", *map(_key, form))
    tag = tag_of(form)
    if tag is None or tag == "$dict":
        entries = _entries(form)
        return ("$dict", frozenset((key, _key(value)) for key, value in entries.items()) if entries is not None else id(form))
    if tag in ("$set", "$frozenset"):
        return ("$set", frozenset(map(_key, form[tag])))
    if tag in _SEQUENCES:
        return (tag, *map(_key, form[tag]))
    return (_ALIKE.get(tag, tag), repr(form[tag]))


def _same_bag(a: list[Any], b: Any, tolerance: Tolerance) -> bool:
    """Whether the members of two sets pair off: those that agree exactly first, the rest by search."""
    if type(b) is not list or len(a) != len(b):
        return False
    waiting: dict[Any, list[Any]] = {}
    for form in b:
        waiting.setdefault(_key(form), []).append(form)
    left = [form for form in a if not _take(waiting, _key(form))]
    other = [form for forms in waiting.values() for form in forms]
    if len(left) > _MAX_LEFT:
        return False
    return _pair_off([[_same(x, y, tolerance) for y in other] for x in left])


def _take(waiting: dict[Any, list[Any]], key: Any) -> bool:
    forms = waiting.get(key)
    if not forms or key[0] in ("$object", "$cut"):
        return False
    forms.pop()
    return True


def _pair_off(agrees: Sequence[Sequence[bool]]) -> bool:
    """A matching of every row with a column of its own, by augmenting paths."""
    partner: dict[int, int] = {}

    def place(row: int, seen: set[int]) -> bool:
        for column, fits in enumerate(agrees[row]):
            if fits and column not in seen:
                seen.add(column)
                if column not in partner or place(partner[column], seen):
                    partner[column] = row
                    return True
        return False

    return all(place(row, set()) for row in range(len(agrees)))
