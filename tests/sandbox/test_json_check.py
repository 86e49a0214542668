"""The check of a result that is passed on unread: it takes what json.dumps writes plainly, and nothing that a parser would not take."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prefkit.sandbox.json_check import DEPTH, is_plain_json

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(VALUES)
@settings(max_examples=300, deadline=None)
def test_plain_writing_is_taken(value: object) -> None:
    assert is_plain_json(json.dumps(value, separators=(",", ":")).encode())


@given(VALUES, st.data())
@settings(max_examples=500, deadline=None)
def test_what_is_taken_can_be_parsed_whole(value: object, data: st.DataObject) -> None:
    text = json.dumps(value, separators=(",", ":"))
    place = data.draw(st.integers(0, len(text)))
    signs = ["", ",", "]", "}", "[", "{", '"', "\\", ":", "0", "-", "e", ".", "\n", "\x00", "null", "é"]
    broken = text[:place] + data.draw(st.sampled_from(signs)) + text[place:]
    cut = broken[: data.draw(st.integers(0, len(broken)))]
    for candidate in (broken, cut):
        if is_plain_json(candidate.encode()):
            json.loads(candidate)
            assert "\n" not in candidate
        else:
            assert not _plain(candidate)


def _plain(text: str) -> bool:
    """The slow way to say the same: it parses, has no space and no endless exponent outside of strings, and nothing but ASCII."""
    try:
        json.loads(text, parse_constant=lambda _: [][0])
    except (ValueError, IndexError):
        return False
    outside = "".join(part for number, part in enumerate(text.replace("\\\\", "").replace('\\"', "").split('"')) if number % 2 == 0)
    if re.search(r"\d[eE][+-]?\d{10}", outside):
        return False
    return text.isascii() and not any(sign.isspace() for sign in outside) and "\x7f" not in text


@given(st.binary(max_size=40))
@settings(max_examples=300, deadline=None)
def test_any_bytes_get_an_answer(data: bytes) -> None:
    if is_plain_json(data):
        json.loads(data)


@pytest.mark.parametrize(
    "text",
    ["", " 1", "1 ", "[1, 2]", "NaN", "-Infinity", "01", "1.", ".5", "+1", "1e", "[1,]", '{"a":1,}', "{1:2}", '{"a"}', "[", "]", '"a',
     '"\\x"', "1,2", "[1]2", "[}", '{"a":1]', "9" * 5000, '"\n"', '"é"', "tru",
     "truefalse", "1e0000000000", '1}],"results":[{"status":"ok"'],
)  # fmt: skip
def test_what_is_not_plain_is_refused(text: str) -> None:
    assert not is_plain_json(text.encode())


def test_depth_has_an_end() -> None:
    for levels, taken in ((DEPTH, True), (DEPTH + 1, False), (1_000_000, False)):
        assert is_plain_json(b"[" * levels + b"]" * levels) is taken
    json.loads("[" * DEPTH + "]" * DEPTH)


def test_memory_of_other_kinds_is_read_in_place() -> None:
    assert is_plain_json(memoryview(bytearray(b'{"a":[1,2.5,"x"]}')))
