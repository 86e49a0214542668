"""JSON in free text: where models put it, what is wrong with it, and text that is hostile."""

from __future__ import annotations

import json
from decimal import Decimal

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from prefkit.verify.json_text import MAX_DEPTH, MAX_DIGITS, MAX_TEXT, canonical, places, read_json, shown, uniform

D = '{"a": [1, "}"], "b": {"c": null}}'
V = {"a": [1, "}"], "b": {"c": None}}

FOUND = {
    "plain": (D, "whole", [V]),
    "white space and a byte order mark": (f"\ufeff\n {D}\n", "whole", [V]),
    "list": (f"[{D}]", "whole", [[V]]),
    "lines": (f'{D}\n{{"b": 1}}\n', "whole", [V, {"b": 1}]),
    "a text that holds JSON": (json.dumps(D), "whole", [V]),
    "fence": (f"```json\n{D}\n```", "fence", [V]),
    "fence without label": (f"```\n{D}\n```", "fence", [V]),
    "other label": (f"```tool_code\n{D}\n```", "fence", [V]),
    "tildes": (f"~~~\n{D}\n~~~", "fence", [V]),
    "one line": (f"```json {D}```", "fence", [V]),
    "unclosed fence": (f"So:\n```json\n{D}", "fence", [V]),
    "two fences": (f'```json\n{D}\n```\nand\n```\n{{"b": 1}}\n```', "fence", [V, {"b": 1}]),
    "a fence of something else": (f"```python\nx = {{}}\n```\n```json\n{D}\n```", "fence", [V]),
    "tag": (f"<tool_call>\n{D}\n</tool_call>", "tag", [V]),
    "two tags": (f'<tool_call>{D}</tool_call><tool_call>{{"b": 1}}</tool_call>', "tag", [V, {"b": 1}]),
    "tag in a tag": (f"<tool_calls><tool_call>{D}</tool_call></tool_calls>", "tag", [V]),
    "unclosed tag": (f"Hm. <tool_call>{D}", "tag", [V]),
    "tag with bars": (f"<|tool_call|>{D}<|/tool_call|>", "tag", [V]),
    "fence in a tag": (f"<tool_call>\n```json\n{D}\n```\n</tool_call>", "tag", [V]),
    "answer tag": (f"It is <answer>{D}</answer>.", "answer", [V]),
    "prose around": (f"Sure, here it is: {D} Anything else?", "prose", [V]),
    "prose with brackets": (f"See [1] and (so) {{that}}: {D}", "prose", [[1], V]),
    "in a bracket of prose": (f"[as follows: {D}]", "prose", [V]),
    "fence marks in a text": ('Here: {"a": "```py\\nx\\n```"} ok', "prose", [{"a": "```py\nx\n```"}]),
    "fence marks in a text in a fence": (
        '```json\n{"a": "```py\\nx\\n```"}\n```\nand\n```\n[]\n```',
        "fence",
        [{"a": "```py\nx\n```"}, []],
    ),
    "thought": (f'<think>{{"no": 1}}</think>{D}', "whole", [V]),
    "thought without its beginning": (f'{{"no": 1}}</think>{D}', "whole", [V]),
    "a thought's mark in a text": ('{"a": "</think> x"}', "whole", [{"a": "</think> x"}]),
    "end mark": (f'{D}<|im_end|>\n{{"no": 1}}', "whole", [V]),
    "other mark before it": (f"<|python_tag|>{D}<|eom_id|>", "prose", [V]),
    "escapes": (r'{"a": "\"\\\u00e9"}', "whole", [{"a": '"\\é'}]),
}


@pytest.mark.parametrize("name", FOUND)
def test_finds_json_where_it_stands(name: str) -> None:
    text, place, values = FOUND[name]
    first = next(places(text))
    assert first.name == place
    assert [document.value for document in first.documents] == values
    assert not any(document.problem for document in first.documents)


@pytest.mark.parametrize(
    "text", ["", " ", "No.", "{", "[", '"', '"a"', "12", "{x}", "[see above]", f"<think>{D}", f"<|im_end|>{D}", "```\nls\n```"]
)
def test_finds_nothing_where_there_is_none(text: str) -> None:
    assert not [document for place in places(text) for document in place.documents if not document.problem]


PROBLEMS = {
    "duplicate key": ('{"a": 1, "b": 2, "a": 3}', 'duplicate key: "a"'),
    "duplicate key below": ('[{"x": {"a": 1, "a": 1}}]', 'duplicate key: "a"'),
    "duplicate key, escaped": (r'{"a": 1, "\u0061": 2}', 'duplicate key: "a"'),
    "NaN": ('{"a": NaN}', "number out of range: NaN"),
    "Infinity": ("[Infinity]", "number out of range: Infinity"),
    "-Infinity": ("[-Infinity]", "number out of range: -Infinity"),
    "past a double": ("[1e400]", "number out of range"),
    "just past a double": ("[1.8e308]", "number out of range"),
    "a giant exponent": ("[1e999999999]", "number out of range"),
    "a tiny exponent": ("[1e-999999999]", "number out of range"),
    "an exponent that is no exponent": ("[1e99999999999999999999999]", "number out of range"),
    "long integer": (f"[{'9' * (MAX_DIGITS + 1)}]", f"number too long: more than {MAX_DIGITS} digits"),
    "long decimal": (f"[0.{'9' * MAX_DIGITS}]", f"number too long: more than {MAX_DIGITS} digits"),
    "deep lists": ("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1), f"nested too deeply: more than {MAX_DEPTH} levels"),
    "deep objects, unclosed": ('{"a":' * 30_000, f"nested too deeply: more than {MAX_DEPTH} levels"),
    "long": (f'["{"x" * MAX_TEXT}"]', f"answer too long: more than {MAX_TEXT} characters"),
    "many documents": ("{} " * 2_000, "more than 1000 JSON documents"),
}


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("name", PROBLEMS)
def test_json_that_breaks_a_rule_is_reported_as_policy(name: str, exact: bool) -> None:
    text, problem = PROBLEMS[name]
    for written in (text, f"```json\n{text}\n```", f"Here: {text}"):
        documents = next(places(written, exact)).documents
        assert (documents[-1].problem, documents[-1].policy) == (problem, True), written[:40]


@pytest.mark.parametrize(
    "text",
    [
        '{"a": 1',
        '{"a": 1,}',
        "{'a': 1}",
        '{"a": 1} x',
        '{"a": "\n"}',
        '[{"a": 1}, {"b": }]',
        '{"a": 01}',
        '{"a": undefined}',
        '{"a": +1}',
        '{"a"}',
    ],
)
def test_what_is_not_json_is_said_to_be_none(text: str) -> None:
    document = read_json(text)
    assert document.problem.startswith("not JSON: ")
    assert not document.policy
    assert " at character " not in uniform(document.problem)


def test_a_list_that_breaks_off_does_not_give_its_first_item() -> None:
    for text in ('[{"name": "a"}, {"name": "b"', 'Sure: [{"name": "a"}, {"name": }]', '{"x": {"name": "a"}, "y": '):
        assert [document.value for place in places(text) for document in place.documents if not document.problem] == []


def test_numbers_are_exact() -> None:
    big = 10**300 + 7
    assert read_json(f"[{big}, {-big}]").value == [big, -big]
    assert read_json("[0.1, 1e2, 1.0]", exact=True).value == [Decimal("0.1"), Decimal("1e2"), Decimal("1.0")]
    assert sum(read_json("[0.1, 0.2]", exact=True).value) == Decimal("0.3")
    assert [type(number) for number in read_json("[1, 1.0, -0]").value] == [int, float, int]
    assert read_json(str(MAX_DEPTH * [[]]).replace("'", '"')).problem == ""


def test_as_deep_as_allowed() -> None:
    assert read_json("[" * MAX_DEPTH + "]" * MAX_DEPTH).problem == ""
    assert read_json('["' + "[" * 1000 + '"]').problem == ""


@pytest.mark.parametrize(
    "text",
    [
        '"\\"' * 60_000, '"' * 150_000, "[" * 40 + "[]" * 90_000, "{" * 40 + '"a' * 50_000, "<tool_call>" * 18_000, "```" * 60_000,
        "[]" * 90_000, '{"a":1' * 30_000, "<think>" * 30_000, "\\" * 190_000, '{"' * 60_000, "[{" * 90_000, "~~~{" * 45_000,
        "\x00{" * 50_000, "</tool_call>{" * 15_000,
    ],
    ids=range(15),
)  # fmt: skip
def test_long_hostile_text_comes_to_an_end(text: str) -> None:
    assert all(len(place.documents) <= 60_000 for place in places(text))


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)
wrappings = st.sampled_from(["{}", "```json\n{}\n```", "<tool_call>{}</tool_call>", "Well, {} it is.", "<think>[]</think>\n{}", "~~~\n{}"])


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(st.text(max_size=5), values, max_size=4) | st.lists(values, max_size=4), wrappings, st.booleans())
def test_what_json_writes_is_read_back_wherever_it_stands(value: object, wrapping: str, ascii: bool) -> None:
    text = json.dumps(value, ensure_ascii=ascii)
    marks = ("<", "```", "~~~")
    if any(mark in text for mark in marks):
        return
    found = next(places(wrapping.replace("{}", text))).documents
    assert len(found) == 1
    assert found[0].problem == ""
    assert found[0].value == value
    assert canonical(found[0].value) == canonical(value)


pieces = st.sampled_from(
    ["{", "}", "[", "]", '"', ":", ",", "\\", "a", "1", "1e", "NaN", "-", ".", "```", "json", "\n", "<tool_call>", "</tool_call>",
     "<think>", "</think>", "<answer>", "\ud800", "\x00", "é", '"name"', '"arguments"', '{"a": 1}', "<|im_end|>", " ", "~~~", "null",
     "\ufeff"]
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(
    st.lists(pieces, max_size=40).map("".join)
    | st.text(max_size=60)
    | st.binary(max_size=60).map(lambda raw: raw.decode("utf-8", "surrogateescape"))
)
@example("[" * 200)
@example('{"a": "\ud800"}')
@example('"' + "[" * 70)
def test_no_text_raises(text: str) -> None:
    for exact in (False, True):
        for place in places(text, exact):
            assert place.documents
            for document in place.documents:
                assert document.problem or document.value is not None
                json.dumps([document.problem], ensure_ascii=False).encode("utf-8")
                hash(canonical(document.value))


def slow_equal(a: object, b: object) -> bool:
    """Equality of JSON values, written again: by type, then by content."""
    if isinstance(a, bool) or isinstance(b, bool) or a is None or b is None:
        return type(a) is type(b) and a == b
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(slow_equal(a[key], b[key]) for key in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(slow_equal, a, b))
    return not isinstance(a, dict | list) and not isinstance(b, dict | list) and a == b


small = st.recursive(
    st.sampled_from([None, True, False, 0, 1, 0.0, 1.0, -0.0, "", "1", "True", "None", 0.5, Decimal("0.5"), Decimal("1.0"), 10**20, 1e20]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=6,
)


@settings(max_examples=300, deadline=None)
@given(small, small)
def test_canonical_forms_are_equal_exactly_where_the_values_are(a: object, b: object) -> None:
    assert (canonical(a) == canonical(b)) == slow_equal(a, b)
    if slow_equal(a, b):
        assert hash(canonical(a)) == hash(canonical(b))


@settings(max_examples=150, deadline=None)
@given(values | st.text(st.characters(categories=None)), st.integers(2, 60))
def test_values_are_shown_short_and_printable(value: object, characters: int) -> None:
    text = shown(value, characters)
    assert len(text) <= characters
    text.encode("utf-8")
    assert "\n" not in text or "\n" in json.dumps(value)


def test_what_is_shown_of_huge_values_is_short() -> None:
    assert len(shown("x" * 10**6)) == 40
    assert shown([[1] * 1000] * 1000).startswith("[[1, 1")
    assert shown(10**500) == '"a long number"'
    assert shown(Decimal("1.50")) == "1.50"
