"""Verdicts on tool calls against the tables of tool_calls.py, calls.py and json_schema.py."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prefkit.verify.budget import Budget, BudgetSpent
from prefkit.verify.json_schema import Schema, SchemaError
from prefkit.verify.tool_calls import ToolCallsVerifier
from prefkit.verify.verdict import SCORED, Judgement, Status
from prefkit.verify.verifier import Source

VERIFIER = ToolCallsVerifier()
HERE = Source(Path(__file__).parent, 2.0)

WEATHER = {
    "name": "weather",
    "parameters": {
        "type": "object",
        "properties": {
            "city": {"type": "string"},
            "days": {"type": "integer", "minimum": 1, "default": 1},
            "unit": {"type": "string", "enum": ["C", "F"], "default": "C"},
            "place": {"type": "object", "properties": {"lat": {"type": "number"}, "zoom": {"type": "integer", "default": 5}}},
        },
        "required": ["city"],
    },
}
ADD = {
    "type": "function",
    "function": {
        "name": "add",
        "parameters": {
            "type": "object",
            "properties": {"numbers": {"type": "array", "items": {"type": "number"}}},
            "required": ["numbers"],
        },
    },
}
PING = {"name": "ping"}
TOOLS = [WEATHER, ADD, PING]


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"name": name, "arguments": arguments}


ROME, OSLO = call("weather", city="Rome"), call("weather", city="Oslo")


def judged(line: dict[str, Any]) -> Judgement:
    """The verifier's judgement; it waits for nothing, so the generator ends at once."""
    check = VERIFIER.read({"verifier": "tool_calls"} | line, "1", HERE)
    json.dumps(list(VERIFIER.key(check)))
    steps = VERIFIER.judge(check)
    with pytest.raises(StopIteration) as end:
        next(steps)
    return end.value.value


def said(answer: str, accepted: list[list[dict[str, Any]]], tools: list[dict[str, Any]] | None = None, **options: Any) -> tuple[str, str]:
    judgement = judged({"tools": TOOLS if tools is None else tools, "accepted": accepted, "answer": answer, **options})
    return str(judgement.status), judgement.reason


def passes(answer: Any, accepted: list[list[dict[str, Any]]], **options: Any) -> bool:
    return said(answer if isinstance(answer, str) else json.dumps(answer), accepted, **options)[0] == "PASS"


def test_every_shared_case_gets_the_verdict_that_an_honest_verifier_gives(shared: Path) -> None:
    cases = [json.loads(line) for line in (shared / "cases.jsonl").read_text().splitlines()]
    cases = [case for case in cases if case.get("verifier") == "tool_calls"]
    assert len(cases) >= 3
    assert {case["id"]: judged(case).status for case in cases if judged(case).status not in case["want"]} == {}


FORMS = {
    "object": json.dumps(ROME),
    "list": json.dumps([ROME]),
    "fence": f"I call it.\n```json\n{json.dumps(ROME)}\n```\nDone.",
    "other fence": f"```tool_code\n{json.dumps([ROME])}\n```",
    "tag": f"<tool_call>\n{json.dumps(ROME)}\n</tool_call>",
    "unclosed tag": f"<tool_call>{json.dumps(ROME)}",
    "tag after a thought": f"<think>weather of Oslo? {json.dumps(OSLO)} no</think>\n<tool_call>{json.dumps(ROME)}</tool_call>",
    "prose": f"Let me look: {json.dumps(ROME)} I hope it helps [1].",
    "parameters": json.dumps({"name": "weather", "parameters": {"city": "Rome"}}),
    "input": json.dumps({"type": "tool_use", "id": "t1", "name": "weather", "input": {"city": "Rome"}}),
    "function": json.dumps({"id": "c1", "type": "function", "function": ROME}),
    "double-encoded": json.dumps({"name": "weather", "arguments": json.dumps({"city": "Rome"})}),
    "function, double-encoded": json.dumps([{"type": "function", "function": {"name": "weather", "arguments": '{"city": "Rome"}'}}]),
    "message": json.dumps({"role": "assistant", "content": None, "tool_calls": [{"function": ROME}]}),
    "with a thought beside it": json.dumps({"thought": "Rome it is", **ROME}),
    "special tokens": f"<|python_tag|>{json.dumps(ROME)}<|eom_id|>",
    "a marker before it": f"[TOOL_CALLS] [{json.dumps(ROME)}]",
    "the whole as a text": json.dumps(json.dumps(ROME)),
    "answer tag": f"<answer>{json.dumps([ROME])}</answer>",
}


@pytest.mark.parametrize("form", FORMS)
def test_a_call_is_read_in_every_form(form: str) -> None:
    assert said(FORMS[form], [[ROME]]) == ("PASS", "same calls")
    assert said(FORMS[form], [[OSLO]]) == ("WRONG", 'wrong argument of "weather": "city"')
    assert said(FORMS[form], [[]])[0] == "WRONG"


WRONG = {
    "empty": ("", "empty answer"),
    "white space": (" \n", "empty answer"),
    "a thought without end": ("<think>I will call weather", "empty answer"),
    "only a thought": ("<think>I did</think>", "empty answer"),
    "prose": ("It is sunny in Rome.", "no tool call in the answer"),
    "another JSON": ('{"city": "Rome"}', "no tool call in the answer"),
    "an empty list": ("[]", "no tool call in the answer"),
    "no JSON": ('{"name": "weather", "arguments": {"city": "Rome"}', "not JSON: expecting ',' delimiter"),
    "single quotes": ("{'name': 'weather', 'arguments': {'city': 'Rome'}}", "no tool call in the answer"),
    "a list that breaks off": (f'[{json.dumps(ROME)}, {{"name": ', "not JSON: expecting value"),
    "no JSON in a tag": ("<tool_call>weather of Rome</tool_call>", "not JSON: no object or list"),
    "no call in a tag": ("<tool_call>[1]</tool_call>", "a tag holds no call"),
    "calls and other things": (f"[{json.dumps(ROME)}, 5]", "a list holds calls and other things"),
    "as a program": ('weather(city="Rome")', 'call of "weather" is not JSON'),
    "unknown tool": (json.dumps(call("wether", city="Rome")), 'unknown tool: "wether"'),
    "case counts": (json.dumps(call("Weather", city="Rome")), 'unknown tool: "Weather"'),
    "missing argument": (json.dumps(call("weather", days=1)), "missing argument: weather.city"),
    "no arguments": ('{"name": "weather"}', "missing argument: weather.city"),
    "null for arguments": ('{"name": "weather", "arguments": null}', "missing argument: weather.city"),
    "arguments are a list": ('{"name": "weather", "arguments": ["Rome"]}', "arguments are no object"),
    "arguments are text": ('{"name": "weather", "arguments": "Rome"}', "arguments: not JSON: expecting value"),
    "arguments are given twice": (
        '{"name": "weather", "arguments": {}, "parameters": {"city": "Rome"}}',
        "arguments are given twice: arguments, parameters",
    ),
    "invented argument": (json.dumps(call("weather", city="Rome", country="IT")), "invented argument: weather.country"),
    "argument of a tool without any": (json.dumps(call("ping", x=1)), "invented argument: ping.x"),
    "wrong type": (json.dumps(call("weather", city=5)), "argument breaks its schema: weather.city (type)"),
    "null": (json.dumps(call("weather", city=None)), "argument breaks its schema: weather.city (type)"),
    "true is no integer": (json.dumps(call("weather", city="Rome", days=True)), "argument breaks its schema: weather.days (type)"),
    "1.5 is no integer": (json.dumps(call("weather", city="Rome", days=1.5)), "argument breaks its schema: weather.days (type)"),
    "text is no integer": (json.dumps(call("weather", city="Rome", days="1")), "argument breaks its schema: weather.days (type)"),
    "below the minimum": (json.dumps(call("weather", city="Rome", days=0)), "argument breaks its schema: weather.days (minimum)"),
    "not of the enum": (json.dumps(call("weather", city="Rome", unit="K")), "argument breaks its schema: weather.unit (enum)"),
    "a list as text": (json.dumps(call("add", numbers="[1, 2]")), "argument breaks its schema: add.numbers (type)"),
    "a boolean among numbers": (json.dumps(call("add", numbers=[1, True])), "argument breaks its schema: add.numbers[1] (type)"),
    "other value": (json.dumps(OSLO), 'wrong argument of "weather": "city"'),
    "case of a value": (json.dumps(call("weather", city="rome")), 'wrong argument of "weather": "city"'),
    "another option": (json.dumps(call("weather", city="Rome", days=2)), 'wrong argument of "weather": "days"'),
    "other tool": ('{"name": "ping"}', 'wrong tool: "ping"'),
    "twice": (json.dumps([ROME, ROME]), "wrong number of calls: 2, expected 1"),
    "one too many": (json.dumps([ROME, OSLO]), "wrong number of calls: 2, expected 1"),
    "every city there is": (
        json.dumps([call("weather", city=f"c{i}") for i in range(500)] + [ROME]),
        "wrong number of calls: 501, expected 1",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_answers_are_wrong_and_say_why(name: str) -> None:
    answer, reason = WRONG[name]
    assert said(answer, [[ROME]]) == ("WRONG", reason)


POLICY = {
    "duplicate key": ('{"name": "weather", "arguments": {"city": "Oslo", "city": "Rome"}}', 'duplicate key: "city"'),
    "name twice": ('{"name": "ping", "name": "weather", "arguments": {"city": "Rome"}}', 'duplicate key: "name"'),
    "duplicate key, encoded": ('{"name": "weather", "arguments": "{\\"city\\": 1, \\"city\\": 2}"}', 'arguments: duplicate key: "city"'),
    "NaN": ('{"name": "add", "arguments": {"numbers": [NaN]}}', "number out of range: NaN"),
    "Infinity": ('{"name": "add", "arguments": {"numbers": [-Infinity]}}', "number out of range: -Infinity"),
    "1e999": ('{"name": "add", "arguments": {"numbers": [1e999]}}', "number out of range"),
    "depth": ('{"name": "add", "arguments": {"numbers": ' + "[" * 5000 + "]" * 5000 + "}}", "nested too deeply: more than 64 levels"),
    "depth, unclosed": ('{"a":' * 30_000, "nested too deeply: more than 64 levels"),
    "size": (json.dumps(call("weather", city="R" * 300_000)), "answer too long: more than 200000 characters"),
    "remote $ref": (json.dumps(call("weather", city="Rome", place={"$ref": "https://example.com/x.json"})), "remote $ref"),
    "remote $ref to a file": (json.dumps(call("weather", city={"$ref": "file:///etc/passwd"})), "remote $ref"),
}


@pytest.mark.parametrize("wrapping", ["{}", "<tool_call>{}</tool_call>", "```json\n{}\n```"])
@pytest.mark.parametrize("name", POLICY)
def test_json_that_breaks_the_rules_is_policy(name: str, wrapping: str) -> None:
    answer, reason = POLICY[name]
    assert said(wrapping.replace("{}", answer), [[ROME]]) == ("POLICY", reason)


def test_json_in_prose_that_is_no_call_and_breaks_a_rule_does_not_matter() -> None:
    assert passes(f"The matrix [NaN, 1] aside: {json.dumps(ROME)}", [[ROME]])


def test_a_ref_is_data_where_the_task_wants_one() -> None:
    tool = {"name": "save", "parameters": {"type": "object", "properties": {"schema": {"type": "object"}}}}
    wanted = call("save", schema={"$ref": "https://example.com/x.json"})
    assert passes(wanted, [[wanted]], tools=[tool])
    assert said(json.dumps(wanted), [[call("save", schema={})]], [tool]) == ("POLICY", "remote $ref")


UNFIT = {
    "unknown tool": ([[call("wether")]], TOOLS, 'gold: unknown tool: "wether"'),
    "missing argument": ([[call("weather")]], TOOLS, "gold: missing argument: weather.city"),
    "invented argument": ([[call("weather", city="Rome", x=1)]], TOOLS, "gold: invented argument: weather.x"),
    "wrong type": ([[call("weather", city=1)]], TOOLS, "gold: argument breaks its schema: weather.city (type)"),
    "the second list": ([[ROME], [call("weather")]], TOOLS, "gold: missing argument: weather.city"),
    "no calls": ([[1]], TOOLS, "gold: not a list of calls: [1]"),
    "NaN": ([[call("add", numbers=[float("nan")])]], TOOLS, "gold: number out of range: NaN"),
    "no schema": (
        [[]],
        [{"name": "f", "parameters": {"type": "dict"}}],
        "schema of f: type: 'dict' is not valid under any of the given schemas",
    ),
    "a bad pattern": (
        [[]],
        [{"name": "f", "parameters": {"properties": {"a": {"pattern": "("}}}}],
        "schema of f: properties.a.pattern: '(' is not a 'regex'",
    ),
    "remote $ref": (
        [[]],
        [{"name": "f", "parameters": {"$ref": "http://127.0.0.1:1/x"}}],
        'schema of f: remote $ref: "http://127.0.0.1:1/x"',
    ),
    "remote $ref below": (
        [[]],
        [{"name": "f", "parameters": {"properties": {"a": {"items": {"$ref": "x.json"}}}}}],
        'schema of f: remote $ref: "x.json"',
    ),
    "$ref to a file": (
        [[]],
        [{"name": "f", "parameters": {"anyOf": [{"$ref": "file:///etc/passwd"}]}}],
        'schema of f: remote $ref: "file:///etc/passwd"',
    ),
    "$ref to nothing": ([[]], [{"name": "f", "parameters": {"$ref": "#/$defs/x"}}], 'schema of f: $ref leads nowhere: "#/$defs/x"'),
    "unknown dialect": (
        [[]],
        [{"name": "f", "parameters": {"$schema": "http://example.com/my"}}],
        'schema of f: unknown $schema: "http://example.com/my"',
    ),
    "a circle": ([[call("f")]], [{"name": "f", "parameters": {"$ref": "#"}}], "$ref goes round in circles"),
}


@pytest.mark.parametrize("name", UNFIT)
def test_a_task_that_cannot_be_judged_by_is_unverifiable(name: str) -> None:
    accepted, tools, reason = UNFIT[name]
    for answer in ("no", json.dumps(ROME)):
        assert said(answer, accepted, tools) == ("UNVERIFIABLE", reason)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ({"accepted": [[ROME]]}, '"tools" must be a list'),
        ({"tools": [], "accepted": [[ROME]]}, '"tools" must be a list of tools, and not empty'),
        ({"tools": TOOLS}, '"accepted" must be a list of call lists'),
        ({"tools": TOOLS, "accepted": []}, "not empty"),
        ({"tools": TOOLS, "accepted": [ROME]}, '"accepted" must be a list of call lists'),
        ({"tools": TOOLS, "accepted": [[ROME]], "ordered": 1}, '"ordered" must be true or false'),
        ({"tools": TOOLS, "accepted": [[ROME]], "defaults": "maybe"}, '"defaults" must be one of fill, strict, not "maybe"'),
        ({"tools": TOOLS, "accepted": [[ROME]], "timeout": -1}, '"timeout"'),
        ({"tools": TOOLS, "accepted": [[ROME]], "answer": {}}, '"answer" must be text'),
    ],
)
def test_a_broken_line_is_refused_with_what_was_expected(line: dict[str, Any], expected: str) -> None:
    with pytest.raises(ValueError, match=expected.replace("[", r"\[")):
        judged({"answer": "x"} | line)


@pytest.mark.parametrize("tools", [[5], [{"parameters": {}}], [{"name": ""}], [PING, PING], [{"type": "function"}]])
def test_tools_that_are_none_make_the_task_unverifiable(tools: list[Any]) -> None:
    status, reason = said("x", [[]], tools)
    assert status == "UNVERIFIABLE"
    assert reason.startswith("tool ")


# Equality


@pytest.mark.parametrize(
    ("wanted", "given", "same"),
    [
        (call("add", numbers=[12.0, 15.0]), call("add", numbers=[12, 15]), True),
        (call("add", numbers=[12]), call("add", numbers=[12.0]), True),
        (call("add", numbers=[10**30]), call("add", numbers=[10**30 + 1]), False),
        (call("add", numbers=[2**53]), call("add", numbers=[2**53 + 1]), False),
        (call("add", numbers=[0.1]), call("add", numbers=[0.1000000001]), False),
        (call("add", numbers=[1, 2]), call("add", numbers=[2, 1]), False),
        (call("add", numbers=[0]), call("add", numbers=[-0.0]), True),
        (call("weather", city="Rome", days=2), call("weather", days=2.0, city="Rome"), True),
        (call("weather", city="Rome"), call("weather", city="Rome "), False),
        (call("weather", city="Zürich"), call("weather", city="Zu\u0308rich"), False),
        (call("ping"), {"name": "ping"}, True),
        (call("ping"), {"name": "ping", "arguments": ""}, True),
    ],
)
def test_arguments_are_equal_as_json_values(wanted: dict[str, Any], given: dict[str, Any], same: bool) -> None:
    assert passes(given, [[wanted]]) == same


def test_defaults_may_be_left_out_or_written_out() -> None:
    full = call("weather", city="Rome", days=1, unit="C")
    for wanted, answer in itertools.product([ROME, full, call("weather", city="Rome", unit="C")], repeat=2):
        assert passes(answer, [[wanted]])
        assert passes(answer, [[wanted]], defaults="strict") == (wanted == answer)
    inner, outer = call("weather", city="Rome", place={"lat": 1}), call("weather", city="Rome", place={"lat": 1.0, "zoom": 5})
    assert passes(inner, [[outer]]) and passes(outer, [[inner]])
    assert not passes(inner, [[call("weather", city="Rome", place={"lat": 1, "zoom": 6})]])
    assert not passes(ROME, [[inner]])


def test_defaults_are_found_through_references_and_lists() -> None:
    parameters = {
        "type": "object",
        "properties": {"rows": {"type": "array", "items": {"$ref": "#/$defs/row"}}},
        "$defs": {"row": {"type": "object", "properties": {"id": {"type": "integer"}, "size": {"default": [1, {"a": None}]}}}},
    }
    wanted, given = call("f", rows=[{"id": 1}]), call("f", rows=[{"id": 1, "size": [1.0, {"a": None}]}])
    assert passes(given, [[wanted]], tools=[{"name": "f", "parameters": parameters}])
    assert passes(wanted, [[given]], tools=[{"name": "f", "parameters": parameters}])


def test_extra_arguments_count_where_the_schema_allows_them() -> None:
    tool = {"name": "f", "parameters": {"type": "object", "properties": {"a": {}}, "additionalProperties": True}}
    assert passes(call("f", a=1, b=2), [[call("f", a=1, b=2)]], tools=[tool])
    assert said(json.dumps(call("f", a=1, b=2)), [[call("f", a=1)]], [tool]) == ("WRONG", 'wrong argument of "f": "b"')
    closed = {"name": "f", "parameters": {"type": "object", "properties": {"a": {}}, "additionalProperties": False}}
    assert said(json.dumps(call("f", b=2)), [[call("f", a=1)]], [closed]) == ("WRONG", "invented argument: f.b")
    free = {"name": "f", "parameters": {"type": "object"}}
    assert passes(call("f", b=2), [[call("f", b=2)]], tools=[free])


def test_parallel_calls_match_one_to_one_in_any_order() -> None:
    three = [ROME, OSLO, call("ping")]
    for order in itertools.permutations(three):
        assert passes(list(order), [three])
        assert passes(list(order), [three], ordered=True) == (list(order) == three)
    assert said(json.dumps([ROME, ROME, OSLO]), [[ROME, OSLO, OSLO]])[1] == 'wrong argument of "weather": "city"'
    assert said(json.dumps([OSLO, ROME]), [[ROME, OSLO]], ordered=True) == ("WRONG", "wrong order of calls")
    assert passes("\n".join(f"<tool_call>{json.dumps(one)}</tool_call>" for one in three), [three])
    assert passes("\n".join(map(json.dumps, three)), [three])


def test_any_accepted_list_suffices() -> None:
    accepted = [[ROME, OSLO], [call("ping")], []]
    assert passes([OSLO, ROME], accepted)
    assert passes({"name": "ping"}, accepted)
    assert passes("None of these is needed.", accepted)
    assert said(json.dumps([ROME]), accepted)[0] == "WRONG"


def test_many_calls_are_matched_in_little_time() -> None:
    calls = [call("add", numbers=[i]) for i in range(900)]
    assert passes(calls[::-1], [calls])
    assert not passes([*calls[1:], calls[1]], [calls])


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [
        ("You did not say which city. Which one do you mean?", ("PASS", "no call, as wanted")),
        ("[]", ("PASS", "no call, as wanted")),
        ('{"tool_calls": []}', ("PASS", "no call, as wanted")),
        ('The weather (for {"city": "Rome"}) needs no tool.', ("PASS", "no call, as wanted")),
        ('```json\n{"result": 5}\n```', ("PASS", "no call, as wanted")),
        ("<answer>No tool is needed.</answer>", ("PASS", "no call, as wanted")),
        ("weather() would not help.", ("WRONG", 'call of "weather" is not JSON')),
        ("", ("WRONG", "empty answer")),
        ("…", ("WRONG", "empty answer")),
        (json.dumps(ROME), ("WRONG", "a tool is called where none should be")),
        (json.dumps(call("wether")), ("WRONG", 'unknown tool: "wether"')),
        (f"No tool.\n<tool_call>{json.dumps(ROME)}", ("WRONG", "a tool is called where none should be")),
        ('<tool_call>{"name": "weather"', ("WRONG", "not JSON: expecting ',' delimiter")),
    ],
)
def test_where_no_tool_should_be_called_prose_passes(answer: str, verdict: tuple[str, str]) -> None:
    assert said(answer, [[]]) == verdict


def test_feedback_holds_nothing_of_the_accepted_calls() -> None:
    secret = call("weather", city="Secretville", days=98765)
    for answer, _ in WRONG.values():
        judgement = judged({"tools": TOOLS, "accepted": [[secret]], "answer": answer})
        assert judgement.status is Status.WRONG
        assert judgement.feedback
        assert "Secret" not in judgement.feedback + judgement.reason
        assert "98765" not in judgement.feedback


def test_what_decides_the_verdict_is_in_the_key() -> None:
    line = {"tools": TOOLS, "accepted": [[ROME]], "answer": "x"}
    changes = [{}, {"answer": "y"}, {"accepted": [[OSLO]]}, {"tools": [WEATHER]}, {"ordered": True}, {"defaults": "strict"}, {"timeout": 1}]
    keys = {json.dumps(list(VERIFIER.key(VERIFIER.read(line | change, "1", HERE)))) for change in changes}
    assert len(keys) == len(changes)
    assert {"jsonschema", "judge"} <= VERIFIER.versions.keys()


# Schemas and hostile values


def fault(schema: Any, value: Any, steps: int = 100_000) -> str | None:
    found = Schema(schema).fault(value, Budget(steps, 2.0))
    return None if found is None else f"{found.path} {found.message}".strip()


@pytest.mark.parametrize(
    ("schema", "value", "message"),
    [
        ({"type": "integer"}, 1.0, None),
        ({"type": "integer"}, True, "must be an integer, not true"),
        ({"type": ["string", "null"]}, 1, "must be text or null, not 1"),
        ({"const": 1}, True, "must be 1, not true"),
        ({"enum": [1, "a"]}, "A", 'must be one of [1, "a"], not "A"'),
        ({"multipleOf": 0.1}, 0.3, None),
        ({"multipleOf": 0.1}, 0.35, "is not a multiple of 0.1"),
        ({"multipleOf": 3}, 10**300 + 1, "is not a multiple of 3"),
        ({"uniqueItems": True}, [1, True, "1", [1], {"a": 1}], None),
        ({"uniqueItems": True}, [{"a": 1, "b": 2}, {"b": 2, "a": 1.0}], "has an item twice"),
        ({"pattern": "^a+$"}, "aab", "does not match the pattern"),
        ({"patternProperties": {"^x": {"type": "integer"}}, "additionalProperties": False}, {"x1": 1, "y": 2}, "y must not be there"),
        ({"patternProperties": {"^x": {"type": "integer"}}}, {"x1": "a"}, 'x1 must be an integer, not "a"'),
        ({"additionalProperties": {"type": "integer"}}, {"k": "a"}, 'k must be an integer, not "a"'),
        ({"properties": {"a": {"required": ["b"]}}}, {"a": {}}, "a.b is missing"),
        ({"properties": {"$ref": {"type": "string"}}}, {"$ref": 1}, "$ref must be text, not 1"),
        ({"$defs": {"n": {"type": "number"}}, "items": {"$ref": "#/$defs/n"}}, [1, "2"], '[1] must be a number, not "2"'),
        (
            {"$schema": "http://json-schema.org/draft-07/schema#", "definitions": {"a": {"minLength": 2}}, "$ref": "#/definitions/a"},
            "x",
            "breaks minLength: 2",
        ),
        ({"oneOf": [{"type": "integer"}, {"type": "number"}]}, 1, 'breaks oneOf: [{"type": "integer"}, {"type": "number"}]'),
        ({"format": "email"}, "no", None),
        ({"maximum": 5}, 10**300, f"must be at most 5, not 1{38 * '0'}…"),
        (False, 1, "must not be there"),
        (True, 1, None),
    ],
)
def test_schemas_say_what_is_wrong(schema: Any, value: Any, message: str | None) -> None:
    assert fault(schema, value) == message


def test_nothing_is_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    import socket
    import urllib.request

    def refused(*_: Any, **__: Any) -> None:
        raise AssertionError("a schema was fetched")

    monkeypatch.setattr(urllib.request, "urlopen", refused)
    monkeypatch.setattr(socket, "create_connection", refused)
    for reference in ("http://json-schema.org/nothing", "https://example.com/s.json#/a", "urn:x:y", "//host/x", "other.json"):
        with pytest.raises(SchemaError, match=r"remote \$ref"):
            Schema({"properties": {"a": {"$ref": reference}}})
    assert fault({"$ref": "https://json-schema.org/draft/2020-12/schema"}, {"type": "integer"}) is None


def test_patterns_cannot_hang() -> None:
    for schema, value in [
        ({"pattern": r"^(([a-z])+.)+[A-Z]([a-z])+$"}, "a" * 2_000),
        ({"patternProperties": {r"^(([a-z])+.)+[A-Z]([a-z])+$": {}}}, {"a" * 2_000: 1}),
        ({"patternProperties": {r"^(([a-z])+.)+[A-Z]([a-z])+$": {}}, "additionalProperties": False}, {"a" * 2_000: 1}),
    ]:
        with pytest.raises(BudgetSpent) as spent:
            Schema(schema).fault(value, Budget(1_000, 0.2))
        assert spent.value.status is Status.TIMEOUT
    with pytest.raises(BudgetSpent) as spent:
        fault({"pattern": "a"}, "b" * 30_000)
    assert spent.value.status is Status.LIMIT


def test_a_schema_that_refers_to_itself_cannot_be_blown_up() -> None:
    node = {"type": "object", "properties": {"c": {"$ref": "#/$defs/n"}}}
    tree = {
        "$defs": {"n": {"anyOf": [node | {"required": ["x"]}, node | {"required": ["y"]}, node | {"required": ["z"]}]}},
        "$ref": "#/$defs/n",
    }
    value: dict[str, Any] = {}
    for _ in range(40):
        value = {"c": value}
    with pytest.raises(BudgetSpent) as spent:
        fault(tree, value, steps=20_000)
    assert spent.value.status is Status.LIMIT
    tool = {
        "name": "f",
        "parameters": {"type": "object", "properties": {"t": tree["$ref"] and {"$ref": "#/$defs/n"}}, "$defs": tree["$defs"]},
    }
    status, reason = said(json.dumps(call("f", t=value)), [[call("f", t={"x": 1})]], [tool], timeout=0.3)
    assert (status, reason) in {("LIMIT", "limit: steps of judging"), ("TIMEOUT", "time limit: judging")}


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=4) | st.integers(10**400, 10**401),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["name", "arguments", "city", "function", "$ref", "x"]), inner, max_size=4)
    ),
    max_leaves=10,
)
hostile = (
    json_values.map(json.dumps)
    | st.fixed_dictionaries({"name": st.sampled_from(["weather", "add", "ping", "x"]), "arguments": json_values}).map(json.dumps)
    | st.text(st.characters(categories=None), max_size=60)
    | st.binary(max_size=80).map(lambda raw: raw.decode("utf-8", "surrogateescape"))
)


@settings(max_examples=250, deadline=None)
@given(st.lists(hostile, min_size=1, max_size=3).map("\n".join), st.sampled_from(["{}", "<tool_call>{}</tool_call>", "```\n{}\n```"]))
def test_every_answer_gets_a_verdict(answer: str, wrapping: str) -> None:
    judgement = judged({"tools": TOOLS, "accepted": [[ROME, call("add", numbers=[1])]], "answer": wrapping.replace("{}", answer)})
    assert judgement.status in SCORED
    json.dumps([judgement.reason, judgement.feedback], ensure_ascii=False).encode("utf-8")
    assert len(judgement.reason) < 300
    assert judgement.status is not Status.PASS


some_calls = st.lists(
    st.sampled_from([ROME, OSLO, call("weather", city="Rome", days=1), call("ping"), call("add", numbers=[1]), call("add", numbers=[1.0])]),
    max_size=5,
)


@settings(max_examples=150, deadline=None)
@given(some_calls, some_calls.filter(bool))
def test_matching_agrees_with_trying_every_pairing(wanted: list[dict[str, Any]], given: list[dict[str, Any]]) -> None:
    def full(one: dict[str, Any]) -> str:
        defaults = {"days": 1, "unit": "C"} if one["name"] == "weather" else {}
        return json.dumps([one["name"], sorted((defaults | one["arguments"]).items())]).replace("1.0", "1")

    slow = any(list(map(full, wanted)) == list(map(full, order)) for order in itertools.permutations(given))
    assert passes(given, [wanted]) == slow
    assert passes(given, [wanted], ordered=True) == (list(map(full, wanted)) == list(map(full, given)))
    assert slow == (Counter(map(full, wanted)) == Counter(map(full, given)))
