"""Expected against returned values, as data."""

from __future__ import annotations

import collections
import decimal
import fractions
import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prefkit.sandbox.values import encode
from prefkit.verify.value_text import show
from prefkit.verify.values_compare import Tolerance, exact_form, expected_form, same

NAN = float("nan")


@pytest.mark.parametrize(
    ("expected", "got", "agrees"),
    [
        (3, 3, True),
        (3, 3.0, True),
        (3.0, 3, True),
        (1, True, False),
        (True, 1, False),
        (True, True, True),
        (0, False, False),
        (None, None, True),
        (None, 0, False),
        ("1", 1, False),
        (1, "1", False),
        ("a", "a", True),
        ("a", b"a", False),
        (0.3, 0.1 + 0.2, True),
        (0.3, 0.3000001, False),
        (0.0, 1e-16, True),
        (3, 3.0000000001, False),
        (10**17, 1e17, True),
        (10**18 // 3, 10**18 / 3, False),
        (10**40, 10**40, True),
        (1, NAN, False),
        (0.5, NAN, False),
        ({"$float": "nan"}, NAN, True),
        ({"$float": "nan"}, 1.0, False),
        ({"$float": "inf"}, math.inf, True),
        ({"$float": "inf"}, 1e308, False),
        (0.5, decimal.Decimal("0.5"), True),
        (0.5, fractions.Fraction(1, 2), True),
        (1, 1 + 0j, False),
        ([1, 2], [1, 2], True),
        ([1, 2], (1, 2), True),
        ([1, 2], (n for n in (1, 2)), True),
        ([0, 1], range(2), True),
        ([1, 2], collections.deque([1, 2]), True),
        ([1, 2], np.array([1, 2]), True),
        ([[1, 2], [3, 4]], np.array([[1, 2], [3, 4]]), True),
        ([1, 2, 3, 4], np.array([[1, 2], [3, 4]]), False),
        ([1, 2], [2, 1], False),
        ([1, 2], [1, 2, 3], False),
        ([1, 2], {1, 2}, False),
        ([1], pd.Series([1]), False),
        (["a"], "a", False),
        ([], [], True),
        ([], None, False),
        ({"$list": [1]}, (1,), False),
        ({"$tuple": [1]}, (1,), True),
        ({"$tuple": [1]}, [1], False),
        ({"$python": "(1, [2])"}, (1, [2]), True),
        ({"$python": "(1, [2])"}, (1, (2,)), False),
        ({"$python": "{1: {2, 3}}"}, {1: {3, 2}}, True),
        ({"a": 1}, {"a": 1.0}, True),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True),
        ({"a": 1}, {"a": 1, "b": 2}, False),
        ({"1": 1}, {1: 1}, False),
        ({"$dict": [[1, 2]]}, {1.0: 2}, True),
        ({"$dict": [[1, 2]]}, {True: 2}, False),
        ({"a": 1}, collections.Counter(a=1), True),
        ({"$set": [1, 2]}, {2, 1}, True),
        ({"$set": [1, 2]}, frozenset({2, 1}), True),
        ({"$set": [0.3]}, {0.1 + 0.2}, True),
        ({"$set": [[1, 2]]}, {(1, 2)}, True),
        ({"$set": [1, 2]}, [1, 2], False),
        ({"$set": [1]}, {True}, False),
        ({"$bytes": "78"}, bytearray(b"x"), True),
        ({"$complex": [1, 2]}, 1 + 2j, True),
        (3, np.int64(3), True),
        (True, np.bool_(True), True),
        (1, np.bool_(True), False),
        ({"$scalar": {"kind": "i", "value": 3}}, np.uint8(3), True),
        ({"$scalar": {"kind": "i", "value": 3}}, 3, False),
        ({"$array": {"kind": "i", "shape": [2], "items": [1, 2]}}, np.array([1, 2]), True),
        ({"$array": {"kind": "i", "shape": [2], "items": [1, 2]}}, np.array([1.0, 2.0]), False),
        ({"$array": {"kind": "i", "shape": [1, 2], "items": [1, 2]}}, np.array([1, 2]), False),
        ({"$array": {"kind": "i", "shape": [2], "items": [1, 2]}}, [1, 2], False),
    ],
)
def test_values(expected: Any, got: object, agrees: bool) -> None:
    assert same(expected_form(expected), encode(got)) is agrees


def test_tables() -> None:
    frame = pd.DataFrame({"n": [1, 2], "x": [0.1 + 0.2, None]})
    expected = expected_form(encode(frame))
    assert same(expected, encode(pd.DataFrame({"n": [1, 2], "x": [0.3, math.nan]})))
    assert not same(expected, encode(pd.DataFrame({"n": [1.0, 2.0], "x": [0.3, None]})))
    assert not same(expected, encode(pd.DataFrame({"m": [1, 2], "x": [0.3, None]})))
    assert not same(expected, encode(frame.set_index("n")))
    assert not same(expected, encode(frame.iloc[::-1]))
    assert not same(expected_form(encode(pd.Series([1], name="a"))), encode(pd.Series([1], name="b")))


def test_tolerance() -> None:
    wide = Tolerance.read(0.01)
    assert same(1.0, 1.009, wide)
    assert same(100, 100.5, wide)
    assert not same(1.0, 1.1, wide)
    exact = Tolerance.read(0)
    assert not same(0.3, 0.1 + 0.2, exact)
    assert same(3, 3.0, exact)
    assert same(0.0, 0.4, Tolerance.read({"absolute": 0.5}))
    assert not same(1000.0, 1001.0, Tolerance.read({"absolute": 0.5}))
    for bad in ("x", -1, True, {"abs": 1}, {}, math.nan):
        with pytest.raises(ValueError, match="tolerance"):
            Tolerance.read(bad)


@pytest.mark.parametrize(
    "value",
    [
        {"$nothing": 1},
        {"$int": "x"},
        {"$python": "f()"},
        {"$python": 1},
        {"$set": 1},
        {"$dict": [1]},
        {"$array": {}},
        {"$object": {}},
        {"$cut": "x"},
    ],
)
def test_expected_values_that_cannot_be_read(value: Any) -> None:
    with pytest.raises(ValueError):
        expected_form([value])


def test_objects_and_cut_values_equal_nothing() -> None:
    for form in (encode(object()), {"$cut": "items"}):
        assert not same(form, form)
        assert not same({"$set": [form]}, {"$set": [form]})
    with pytest.raises(ValueError, match="no canonical form"):
        exact_form(object())


TAGS = ["$int", "$float", "$list", "$tuple", "$set", "$dict", "$array", "$scalar", "$series", "$frame", "$range", "$bytes", "$complex", 
        "$decimal", "$fraction", "$datetime", "$object", "$cut", "$missing", "$generator", "$what"]  # fmt: skip
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["kind", "shape", "items", "value", "a", *TAGS]), inner, max_size=4)
        | st.tuples(st.sampled_from(TAGS), inner).map(lambda pair: {pair[0]: pair[1]})
    ),
    max_leaves=15,
)


@given(JSON, JSON)
@settings(max_examples=400, deadline=None)
def test_any_data_is_compared_and_shown(expected: Any, got: Any) -> None:
    try:
        form = expected_form(expected)
    except ValueError:
        form = None
    assert same(form, got) in (True, False)
    assert len(show(got)) <= 80


def test_deep_data_is_no_error() -> None:
    deep: Any = 1
    for _ in range(900):
        deep = [deep]
    assert same([1], deep) is False
    assert show(deep)


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False, width=16), max_size=8, unique=True), st.randoms())
@settings(deadline=None)
def test_sets_of_floats_pair_off(numbers: list[float], random: Any) -> None:
    nudged = [number * (1 + 1e-12) for number in numbers]
    random.shuffle(nudged)
    assert same({"$set": numbers}, {"$set": nudged})
    assert not same({"$set": numbers}, {"$set": [*nudged, 77777.0]})


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ((1,), "(1,)"),
        ({1: [2]}, "{1: [2]}"),
        ({"a": None}, "{'a': None}"),
        (set(), "set()"),
        (b"x", "b'x'"),
        (1.5, "1.5"),
        ("x" * 200, "'" + "x" * 78 + "…"),
        (np.array([1, 2]), "array [1, 2]"),
    ],
)
def test_text(value: object, text: str) -> None:
    assert show(encode(value)) == text
