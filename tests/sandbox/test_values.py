"""Canonical typed values: every kind there and back, caps, and objects that lie."""

from __future__ import annotations

import collections
import datetime
import decimal
import enum
import fractions
import itertools
import json
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prefkit.sandbox.values import MAX_DEPTH, MAX_ITEMS, MAX_TEXT, decode, encode

KEYS = st.none() | st.booleans() | st.integers() | st.text(max_size=4) | st.binary(max_size=4)
SCALARS = (
    KEYS
    | st.floats()
    | st.complex_numbers()
    | st.fractions()
    | st.decimals(allow_nan=False)
    | st.dates()
    | st.datetimes()
    | st.timedeltas()
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(KEYS | st.sampled_from(["$int", "$x"]), inner, max_size=4)
        | st.sets(KEYS, max_size=4)
        | st.frozensets(KEYS, max_size=4)
        | st.lists(inner, max_size=3).map(collections.deque)
    ),
    max_leaves=12,
)


@given(VALUES)
@settings(max_examples=300, deadline=None)
def test_there_and_back(value: object) -> None:
    form = json.loads(json.dumps(encode(value)))
    again = decode(form)
    assert type(again) is type(value)
    assert encode(again) == encode(value) or str(form).count("nan")


def test_forms() -> None:
    assert encode(1) == 1
    assert encode(True) is True
    assert type(encode(1.0)) is float
    assert math.copysign(1, json.loads(json.dumps(encode(-0.0)))) == -1
    assert encode(2**53) == {"$int": "20000000000000"}
    assert encode(-(10**5000)) == {"$int": format(-(10**5000), "x")}
    assert encode(float("nan")) == {"$float": "nan"}
    assert encode({"a": (1, b"x")}) == {"a": {"$tuple": [1, {"$bytes": "78"}]}}
    assert encode({1: 2}) == {"$dict": [[1, 2]]}
    assert encode({"$a": 2}) == {"$dict": [["$a", 2]]}
    assert encode("\ud800") == "\ud800"
    assert encode(range(3)) == {"$range": [0, 3, 1]}
    assert encode(datetime.datetime(2024, 1, 2)) == {"$datetime": "2024-01-02T00:00:00"}
    assert encode(decimal.Decimal("1.50")) == {"$decimal": "1.50"}
    assert encode(fractions.Fraction(2, 6)) == {"$fraction": [1, 3]}


@pytest.mark.parametrize(
    "value",
    [(n for n in range(3)), iter([0, 1, 2]), map(int, "012"), filter(None, [1]), zip([1], [2], strict=True), enumerate("a"), reversed([1]),
     itertools.chain([1], [2]), {}.keys(), {1: 2}.values(), {1: 2}.items(), itertools.islice(itertools.count(), 3)],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_iterators_are_read(value: Any) -> None:
    form = encode(value)
    assert list(form) == ["$generator"]
    assert type(form["$generator"]) is list


def test_what_the_standard_library_builds_on_plain_types() -> None:
    point = collections.namedtuple("point", "x y")
    assert encode(point(1, 2)) == {"$tuple": [1, 2]}
    assert encode(collections.Counter("aab")) == {"a": 2, "b": 1}
    assert encode(collections.OrderedDict(a=1)) == {"a": 1}
    assert encode(collections.defaultdict(int, a=1)) == {"a": 1}


@pytest.mark.parametrize(
    ("value", "form"),
    [
        (np.int64(3), {"$scalar": {"kind": "i", "value": 3}}),
        (np.float32(0.5), {"$scalar": {"kind": "f", "value": 0.5}}),
        (np.bool_(True), {"$scalar": {"kind": "b", "value": True}}),
        (np.longdouble(1.5), {"$scalar": {"kind": "f", "value": 1.5}}),
        (np.array([[1, 2], [3, 4]]), {"$array": {"kind": "i", "shape": [2, 2], "items": [1, 2, 3, 4]}}),
        (np.array(5.0), {"$array": {"kind": "f", "shape": [], "items": [5.0]}}),
        (np.array([math.nan, math.inf]), {"$array": {"kind": "f", "shape": [2], "items": [{"$float": "nan"}, {"$float": "inf"}]}}),
        (np.array(["2024-01-02"], "datetime64[D]"), {"$array": {"kind": "M", "shape": [1], "items": ["2024-01-02"]}}),
        (np.array([1, "a", None], object), {"$array": {"kind": "O", "shape": [3], "items": [1, "a", None]}}),
        (pd.Series([1, 2], name="n"), {"$series": {"kind": "i", "name": "n", "index": [0, 1], "items": [1, 2]}}),
        (pd.Index([1, 2]), {"$index": {"kind": "i", "items": [1, 2]}}),
        (pd.Timestamp("2024-01-02"), {"$datetime": "2024-01-02T00:00:00"}),
        (pd.Timedelta("1D"), {"$timedelta": [1, 0, 0]}),
        (pd.NaT, {"$missing": "NaT"}),
        (pd.NA, {"$missing": "NA"}),
    ],
)
def test_numpy_and_pandas(value: object, form: object) -> None:
    assert encode(value) == form
    json.dumps(form)


def test_a_frame_keeps_columns_labels_and_kinds() -> None:
    frame = pd.DataFrame({"n": [1, 2], "x": [0.5, None], "t": ["a", "b"]}, index=["r", "s"])
    form = encode(frame)["$frame"]
    assert form["columns"] == ["n", "x", "t"]
    assert form["index"] == ["r", "s"]
    assert form["kinds"][:2] == ["i", "f"]
    assert form["items"] == [[1, 2], [0.5, {"$float": "nan"}], ["a", "b"]]
    pd.testing.assert_frame_equal(decode({"$frame": form}), frame, check_dtype=False)
    np.testing.assert_array_equal(decode(encode(np.array([[1, 2], [3, 4]]))), np.array([[1, 2], [3, 4]]))


class Whole(int):
    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = int.__hash__


class Liar:
    """Says that it is an int, equals everything, and never ends."""

    @property
    def __class__(self) -> type:  # type: ignore[override]
        return int

    def __eq__(self, other: object) -> bool:
        return True

    def __iter__(self) -> Iterator[int]:
        return itertools.count()

    def __len__(self) -> int:
        raise SystemExit

    def __repr__(self) -> str:
        raise SystemExit

    def __reduce__(self) -> Any:
        raise SystemExit

    __hash__ = object.__hash__


class Endless(list):
    def __iter__(self) -> Iterator[Any]:
        return itertools.count()


def odd() -> type:
    """A class that lets nobody look at it; not at the top of the file, where the test runner would look."""

    class Meta(type):
        def __getattribute__(cls, name: str) -> Any:
            raise SystemExit

        def __instancecheck__(cls, instance: object) -> bool:
            raise SystemExit

        def __subclasscheck__(cls, subclass: object) -> bool:
            raise SystemExit

    class Odd(metaclass=Meta):
        pass

    return Odd


class Colour(enum.IntEnum):
    RED = 1


def test_objects_of_other_classes_are_only_named() -> None:
    hidden = odd()
    others: list[Any] = [Whole(3), Liar(), Endless([1]), object.__new__(hidden), hidden, Colour.RED, object(), len, int]
    others += [type("S", (str,), {})("x"), type("D", (dict,), {})()]
    for value in others:
        form = encode([value])[0]
        assert list(form) == ["$object"]
        assert all(type(text) is str for text in form["$object"].values())
        with pytest.raises(ValueError, match="stands for no value"):
            decode(form)


def test_what_raises_while_it_is_read() -> None:
    def broken() -> Iterator[int]:
        yield 1
        raise KeyError("x")

    assert encode(broken())["$object"]["repr"] == "cannot be read: KeyError"


def test_caps() -> None:
    loop: list[Any] = []
    loop.append(loop)
    wide: Any = []
    for _ in range(40):
        wide = [wide, wide]
    deep: Any = 1
    for _ in range(MAX_DEPTH - 1):
        deep = [deep]
    assert encode(loop) == {"$cut": "depth"}
    assert encode(wide) == {"$cut": "items"}
    assert encode(deep) != {"$cut": "depth"}
    assert encode([deep]) == {"$cut": "depth"}
    assert encode(itertools.count()) == {"$cut": "items"}
    assert encode(np.zeros(MAX_ITEMS + 1)) == {"$cut": "items"}
    assert encode("x" * (MAX_TEXT + 1)) == {"$cut": "text"}
    assert encode(1 << (MAX_TEXT * 8)) == {"$cut": "text"}


@pytest.mark.parametrize("form", [{"$int": "zz"}, {"$object": {}}, {"$nothing": 1}, {"$dict": [1]}, {"$fraction": [1, 0]}, {"$date": "x"}])
def test_forms_that_stand_for_nothing(form: Any) -> None:
    with pytest.raises(ValueError, match=r"\$|invalid|Invalid"):
        decode(form)
