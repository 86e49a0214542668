"""Python values as canonical typed JSON: written where an answer ran, compared by the parent as data.

| value                                          | form                                                                              |
|------------------------------------------------|-----------------------------------------------------------------------------------|
| None, bool, text, list, ordinary float and int | themselves                                                                        |
| int past 53 bits                               | {"$int": hexadecimal text}                                                        |
| NaN, infinities                                | {"$float": "nan" \\| "inf" \\| "-inf"}                                            |
| dict whose keys are text without "$" in front  | a JSON object                                                                     |
| any other dict                                 | {"$dict": [[key, value]…]}                                                        |
| tuple, set, frozenset, deque                   | {"$tuple": […]}, {"$set": […]}, {"$frozenset": […]}, {"$deque": […]}              |
| generators and the built-in iterators, views   | {"$generator": [items…]}, consumed up to the cap                                  |
| range                                          | {"$range": [start, stop, step]}                                                   |
| bytes, bytearray                               | {"$bytes": hexadecimal}, {"$bytearray": hexadecimal}                              |
| complex                                        | {"$complex": [real, imaginary]}                                                   |
| Decimal, Fraction                              | {"$decimal": text}, {"$fraction": [numerator, denominator]}                       |
| datetime, date, time; timedelta                | {"$datetime": ISO text} …; {"$timedelta": [days, seconds, microseconds]}          |
| numpy scalars and arrays                       | {"$scalar": {"kind", "value"}}, {"$array": {"kind", "shape", "items"}}            |
| pandas series, index, frame                    | {"$series": {"kind", "name", "index", "items"}}, {"$index": {"kind", "items"}}    |
| pandas frame                                   | {"$frame": {"columns", "index", "kinds", "items": one list a column}}             |
| pandas NaT, NA                                 | {"$missing": "NaT" \\| "NA"}                                                      |
| anything else, subclasses of the above too     | {"$object": {"type": name, "repr": text}}, which equals nothing                   |
| too deep, too many items, too much text        | the whole value is {"$cut": "depth" \\| "items" \\| "text"}, which equals nothing |

`kind` is numpy's letter of a dtype: b, i, u, f, c, U, S, O, M, m. An instance of a subclass is not the plain type, because its methods may
lie; what the standard library builds on dict (Counter, defaultdict, OrderedDict) and plain named tuples are read through the base's own
methods. No method of a class that the answer defines is called: types are taken from `type()`, so that `__class__`, `__eq__`,
`__iter__` or `__repr__` say nothing. Standard library only; numpy and pandas are looked at where the answer has imported them.
"""

from __future__ import annotations

import collections
import datetime
import decimal
import fractions
import itertools
import math
import sys
import types
from collections.abc import Callable, Iterable
from typing import Any

MAX_DEPTH = 60
MAX_ITEMS = 100_000
MAX_TEXT = 2_000_000
"""Most levels, items and characters of one encoded value."""

PLAIN_INT = 1 << 53
_ITERATORS = frozenset(
    {types.GeneratorType, map, filter, zip, enumerate, reversed}
    | {type(iter(empty)) for empty in ((), [], "", b"", {}, set(), range(0), {}.items(), {}.values(), bytearray())}
    | {type(reversed([])), type(reversed({})), type({}.keys()), type({}.values()), type({}.items())}
    | {value for value in vars(itertools).values() if isinstance(value, type)}
)
_DICTS = frozenset({dict, collections.Counter, collections.defaultdict, collections.OrderedDict})
_TYPE_DICT: Callable[[type], Any] = type.__dict__["__dict__"].__get__  # type: ignore[attr-defined]
_TYPE_NAME: Callable[[type], Any] = type.__dict__["__qualname__"].__get__  # type: ignore[attr-defined]
_TYPE_MODULE: Callable[[type], Any] = type.__dict__["__module__"].__get__  # type: ignore[attr-defined]
_TYPE_BASES: Callable[[type], Any] = type.__dict__["__bases__"].__get__  # type: ignore[attr-defined]


class _Cut(Exception):
    """The value passes a cap; the first argument names it."""


def encode(value: object, depth: int = MAX_DEPTH, items: int = MAX_ITEMS, text: int = MAX_TEXT) -> Any:
    """The canonical form of any object, with at most that many levels, items and characters. Never raises an Exception.

    >>> encode((1, {2.5: b"x"}))
    {'$tuple': [1, {'$dict': [[2.5, {'$bytes': '78'}]]}]}
    """
    encoder = _Encoder(items, text)
    try:
        return encoder.form(value, depth)
    except _Cut as cut:
        return {"$cut": cut.args[0]}
    except RecursionError:
        return {"$cut": "depth"}
    except MemoryError:
        return {"$cut": "items"}
    except Exception as error:  # a generator that raises, a library object that is broken inside
        return {"$object": {"type": type_name(type(value)), "repr": f"cannot be read: {type_name(type(error))}"}}


def type_name(of: type) -> str:
    """The qualified name of a class, read past its metaclass."""
    name = _TYPE_NAME(of)
    return name[:100] if type(name) is str else "?"


class _Encoder:
    """Counts what one value may still hold."""

    def __init__(self, items: int, text: int) -> None:
        self._items, self._text = items, text

    def form(self, value: Any, depth: int) -> Any:
        if depth <= 0:
            raise _Cut("depth")
        self._items -= 1
        if self._items < 0:
            raise _Cut("items")
        kind = type(value)
        plain = _PLAIN.get(kind)
        if plain is not None:
            return plain(self, value, depth)
        if kind in _ITERATORS:
            return {"$generator": self._list(value, depth)}
        if _is_named_tuple(kind):
            return {"$tuple": self._list(tuple.__iter__(value), depth)}
        form = self._library(value, kind, depth)
        return {"$object": {"type": type_name(kind), "repr": f"<{type_name(kind)} object>"}} if form is None else form

    def _list(self, values: Iterable[Any], depth: int) -> list[Any]:
        return [self.form(value, depth - 1) for value in values]

    def _string(self, value: str) -> str:
        self._text -= len(value)
        if self._text < 0:
            raise _Cut("text")
        return value

    def _int(self, value: int, depth: int) -> Any:
        if -PLAIN_INT < value < PLAIN_INT:
            return value
        self._text -= value.bit_length() // 4  # before the text is made
        if self._text < 0:
            raise _Cut("text")
        return {"$int": format(value, "x")}

    def _float(self, value: float, depth: int) -> Any:
        return value if math.isfinite(value) else {"$float": str(value)}

    def _dict(self, value: dict[Any, Any], depth: int) -> Any:
        pairs = list(dict.items(value))
        if all(type(key) is str and key[:1] != "$" for key, _ in pairs):
            return {self._string(key): self.form(item, depth - 1) for key, item in pairs}
        return {"$dict": [[self.form(key, depth - 1), self.form(item, depth - 1)] for key, item in pairs]}

    def _library(self, value: Any, kind: type, depth: int) -> Any:
        """numpy and pandas, where they are loaded; None for everything else."""
        numpy, pandas = sys.modules.get("numpy"), sys.modules.get("pandas")
        if pandas is not None:
            found = self._pandas(value, kind, pandas, depth)
            if found is not None:
                return found
        if numpy is None:
            return None
        if kind is getattr(numpy, "ndarray", None):
            if value.size > self._items:
                raise _Cut("items")
            shape = [int(length) for length in value.shape]
            return {"$array": {"kind": value.dtype.kind, "shape": shape, "items": self._elements(value.ravel(), depth)}}
        generic = getattr(numpy, "generic", None)
        if isinstance(generic, type) and issubclass(kind, generic) and _module(kind) == "numpy":
            return {"$scalar": {"kind": value.dtype.kind, "value": self._elements(value.reshape(1), depth)[0]}}
        return None

    def _pandas(self, value: Any, kind: type, pandas: Any, depth: int) -> Any:
        if value is getattr(pandas, "NaT", self):
            return {"$missing": "NaT"}
        if value is getattr(pandas, "NA", self):
            return {"$missing": "NA"}
        if kind is getattr(pandas, "Timestamp", None):
            return {"$datetime": self._string(value.isoformat())}
        if kind is getattr(pandas, "Timedelta", None):
            return self.form(value.to_pytimedelta(), depth)
        if kind is getattr(pandas, "Series", None):
            index = self._elements(value.index, depth)
            name = self.form(value.name, depth - 1)
            return {"$series": {"kind": value.dtype.kind, "name": name, "index": index, "items": self._elements(value, depth)}}
        if kind is getattr(pandas, "DataFrame", None):
            columns = [value.iloc[:, i] for i in range(value.shape[1])]
            return {
                "$frame": {
                    "columns": self._elements(value.columns, depth),
                    "index": self._elements(value.index, depth),
                    "kinds": [column.dtype.kind for column in columns],
                    "items": [self._elements(column, depth) for column in columns],
                }
            }
        index = getattr(pandas, "Index", None)
        if isinstance(index, type) and issubclass(kind, index) and _module(kind).partition(".")[0] == "pandas":
            return {"$index": {"kind": value.dtype.kind, "items": self._elements(value, depth)}}
        return None

    def _elements(self, values: Any, depth: int) -> list[Any]:
        """The elements of a one-dimensional array, series or index as Python's own values."""
        if len(values) > self._items:
            raise _Cut("items")
        letter = getattr(values.dtype, "kind", "O")
        if letter in "Mm" and type(values).__module__ == "numpy":
            return [self._string(str(value)) for value in values.astype(str).tolist()]
        if letter == "f":
            return [self.form(float(value), depth - 1) if value == value else {"$float": "nan"} for value in values.tolist()]
        if letter == "c":
            return [self.form(complex(value), depth - 1) for value in values.tolist()]
        return self._list(values.tolist(), depth)


def _is_named_tuple(kind: type) -> bool:
    """Whether a class is what namedtuple() makes: a tuple with names and no comparison of its own."""
    if type(kind) is not type or _TYPE_BASES(kind) != (tuple,):
        return False
    own = _TYPE_DICT(kind)
    fields = own.get("_fields")
    return type(fields) is tuple and all(type(name) is str for name in fields) and not {"__eq__", "__hash__", "__iter__"} & set(own)


def _module(kind: type) -> str:
    name = _TYPE_MODULE(kind)
    return name if type(name) is str else ""


def _fraction(encoder: _Encoder, value: Any, depth: int) -> Any:
    parts = [value.numerator, value.denominator]
    if not all(type(part) is int for part in parts):
        raise TypeError("not a fraction")
    return {"$fraction": [encoder.form(part, depth - 1) for part in parts]}


_PLAIN: dict[type, Callable[[_Encoder, Any, int], Any]] = {
    type(None): lambda encoder, value, depth: None,
    bool: lambda encoder, value, depth: value,
    str: lambda encoder, value, depth: encoder._string(value),
    int: _Encoder._int,
    float: _Encoder._float,
    list: lambda encoder, value, depth: encoder._list(value, depth),
    tuple: lambda encoder, value, depth: {"$tuple": encoder._list(value, depth)},
    # Equal sets may hold their members in different orders; their forms do not.
    set: lambda encoder, value, depth: {"$set": sorted(encoder._list(value, depth), key=repr)},
    frozenset: lambda encoder, value, depth: {"$frozenset": sorted(encoder._list(value, depth), key=repr)},
    collections.deque: lambda encoder, value, depth: {"$deque": encoder._list(value, depth)},
    range: lambda encoder, value, depth: {"$range": [encoder.form(n, depth - 1) for n in (value.start, value.stop, value.step)]},
    bytes: lambda encoder, value, depth: {"$bytes": encoder._string(value.hex())},
    bytearray: lambda encoder, value, depth: {"$bytearray": encoder._string(value.hex())},
    complex: lambda encoder, value, depth: {"$complex": [encoder._float(value.real, 1), encoder._float(value.imag, 1)]},
    decimal.Decimal: lambda encoder, value, depth: {"$decimal": encoder._string(str(value))},
    fractions.Fraction: _fraction,
    datetime.datetime: lambda encoder, value, depth: {"$datetime": encoder._string(datetime.datetime.isoformat(value))},
    datetime.date: lambda encoder, value, depth: {"$date": encoder._string(datetime.date.isoformat(value))},
    datetime.time: lambda encoder, value, depth: {"$time": encoder._string(datetime.time.isoformat(value))},
    datetime.timedelta: lambda encoder, value, depth: {"$timedelta": [value.days, value.seconds, value.microseconds]},
    **{kind: lambda encoder, value, depth: encoder._dict(value, depth) for kind in _DICTS},
}


def decode(form: Any) -> Any:
    """The Python value of a canonical form, made anew at each call. Raises ValueError for what has none ($object, $cut, no form at all).

    >>> decode({"$tuple": [1, {"$set": [2]}]})
    (1, {2})
    """
    if type(form) is list:
        return [decode(item) for item in form]
    if type(form) is not dict:
        return form
    tag = tag_of(form)
    if tag is None:
        return {key: decode(value) for key, value in form.items()}
    decoder = _DECODERS.get(tag)
    if decoder is None:
        raise ValueError(f"{tag} stands for no value")
    try:
        return decoder(form[tag])
    except (TypeError, KeyError, AttributeError, ArithmeticError, OverflowError, ImportError) as error:
        raise ValueError(f"{tag} cannot be read: {error}") from error


def tag_of(form: dict[str, Any]) -> str | None:
    """The "$…" of a typed value, None for a plain object."""
    if len(form) != 1:
        return None
    (name,) = form
    return name if name[:1] == "$" else None


def _array(parts: dict[str, Any]) -> Any:
    import numpy

    items = [decode(item) for item in parts["items"]]
    dtype = {
        "b": "bool",
        "i": "int64",
        "u": "uint64",
        "f": "float64",
        "c": "complex128",
        "O": "object",
        "M": "datetime64",
        "m": "timedelta64",
    }
    return numpy.array(items, dtype=dtype.get(parts["kind"])).reshape(parts["shape"])


def _series(parts: dict[str, Any]) -> Any:
    import pandas

    return pandas.Series([decode(v) for v in parts["items"]], [decode(v) for v in parts["index"]], name=decode(parts["name"]))


def _frame(parts: dict[str, Any]) -> Any:
    import pandas

    columns = [pandas.Series([decode(value) for value in column]) for column in parts["items"]]
    frame = pandas.DataFrame(dict(enumerate(columns)))
    frame.columns = [decode(name) for name in parts["columns"]]
    frame.index = [decode(label) for label in parts["index"]]
    return frame


_DECODERS: dict[str, Callable[[Any], Any]] = {
    "$int": lambda v: int(v, 16),
    "$float": float,
    "$list": lambda v: [decode(item) for item in v],
    "$dict": lambda v: {decode(key): decode(item) for key, item in v},
    "$tuple": lambda v: tuple(decode(item) for item in v),
    "$set": lambda v: {decode(item) for item in v},
    "$frozenset": lambda v: frozenset(decode(item) for item in v),
    "$deque": lambda v: collections.deque(decode(item) for item in v),
    "$generator": lambda v: iter([decode(item) for item in v]),
    "$range": lambda v: range(*map(decode, v)),
    "$bytes": bytes.fromhex,
    "$bytearray": bytearray.fromhex,
    "$complex": lambda v: complex(*map(decode, v)),
    "$decimal": decimal.Decimal,
    "$fraction": lambda v: fractions.Fraction(*map(decode, v)),
    "$datetime": datetime.datetime.fromisoformat,
    "$date": datetime.date.fromisoformat,
    "$time": datetime.time.fromisoformat,
    "$timedelta": lambda v: datetime.timedelta(*v),
    "$scalar": lambda v: _array({"kind": v["kind"], "shape": [1], "items": [v["value"]]})[0],
    "$array": _array,
    "$series": _series,
    "$frame": _frame,
}
