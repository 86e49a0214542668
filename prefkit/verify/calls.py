"""Tool calls in a model's free text, and the tools that may be called.

| form of a call (a JSON document, see json_text.py)                                  | read as                             |
|-------------------------------------------------------------------------------------|-------------------------------------|
| `{"name": N, "arguments": A}`; `parameters`, `args` or `input` for `arguments`      | a call                              |
| `{"function": {"name": N, "arguments": A}}`, with or without `type` and `id`        | a call                              |
| `{"name": N}` where N is a tool                                                     | a call without arguments            |
| a list of calls, `{"tool_calls": [calls]}`, several documents one after the other   | several calls, in their order       |
| A a JSON text that holds an object                                                  | that object                         |
| A `null` or an empty text                                                           | no arguments                        |
| two of `arguments`, `parameters`, `args`, `input`                                   | problem: arguments are given twice  |
| A anything else                                                                     | problem: arguments are no object    |
| any other JSON                                                                      | no call; in a tag, a problem        |
| the first kind of place that holds calls or problems                                | counts alone; in it, everything     |

Keys beside these (`id`, `type`, a thought) reach no tool and are ignored.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from prefkit.verify.answer_text import without_thoughts
from prefkit.verify.json_schema import Schema, SchemaError
from prefkit.verify.json_text import Document, places, read_json, shown, uniform
from prefkit.verify.verdict import Judgement, Status

_ARGUMENTS = ("arguments", "parameters", "args", "input")
_SCHEMAS = ("parameters", "input_schema", "inputSchema")
_CALL_WORDS = re.compile(r'"(?:name|arguments|function|tool_calls)"\s*:')
NO_PARAMETERS = {"type": "object", "properties": {}}


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a tool. arguments: as JSON reads them."""

    name: str
    arguments: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Calls:
    """Calls found in an answer. problem: why they cannot be used ("" where they can). policy: the problem breaks a rule of json_text.py."""

    calls: list[Call]
    problem: str = ""
    policy: bool = False


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool as the model was told of it."""

    name: str
    schema: Schema


class CallError(ValueError):
    """JSON that is meant to be a call, and is none."""

    def __init__(self, reason: str, policy: bool = False) -> None:
        super().__init__(reason)
        self.policy = policy


def read_tools(values: Any) -> dict[str, Tool]:
    """Tools by name, from `{"name", "parameters"}` or OpenAI's `{"type": "function", "function": {…}}`.

    The schema may stand under `input_schema` or `inputSchema` too. Raises ValueError for what is no list of tools, SchemaError for a schema
    that cannot be used.
    """
    if not isinstance(values, list):
        raise ValueError('"tools" must be a list of tools')
    tools: dict[str, Tool] = {}
    for number, value in enumerate(values, 1):
        inner = value.get("function", value) if isinstance(value, dict) else None
        name = inner.get("name") if isinstance(inner, dict) else None
        if not isinstance(name, str) or not name or not isinstance(inner, dict):
            raise ValueError(f'tool {number}: expected {{"name": text, "parameters": JSON Schema}}')
        if name in tools:
            raise ValueError(f"tool {number}: {shown(name)} is given twice")
        schema = next((inner[key] for key in _SCHEMAS if inner.get(key) is not None), {}) or NO_PARAMETERS
        try:
            tools[name] = Tool(name, Schema(schema))
        except SchemaError as error:
            raise SchemaError(f"schema of {name}: {error}") from None
    return tools


def calls_in(text: str, names: Iterable[str] = ()) -> Calls:
    """The calls in an answer. names: of the tools there are, for the forms that need them. Never raises.

    >>> calls_in('<tool_call>{"name": "add", "arguments": {"a": 1}}</tool_call>').calls
    [Call(name='add', arguments={'a': 1})]
    """
    known = frozenset(names)
    for place in places(text):
        calls: list[Call] = []
        for document in place.documents:
            try:
                found = _calls_of_document(document, known, place.name)
            except CallError as error:
                return Calls([], str(error), error.policy)
            calls += found or []
        if calls:
            return Calls(calls)
    if (name := next(_written_as_code(text, known), None)) is not None:
        return Calls([], f"call of {shown(name)} is not JSON")
    return Calls([])


def calls_of(value: Any, known: frozenset[str] = frozenset()) -> list[Call] | None:
    """The calls that a JSON value is, None where it is none. Raises CallError where it is meant to be calls and is none."""
    if isinstance(value, list):
        read = [calls_of(item, known) for item in value]
        if all(calls is None for calls in read):
            return None if value else []
        if any(calls is None for calls in read):
            raise CallError("a list holds calls and other things")
        return [call for calls in read for call in calls or []]
    if not isinstance(value, dict):
        return None
    if isinstance(value.get("tool_calls"), list):
        return calls_of(value["tool_calls"], known)
    if isinstance(value.get("function"), dict):
        return calls_of(value["function"], known)
    name, given = value.get("name"), [key for key in _ARGUMENTS if key in value]
    if not isinstance(name, str) or (not given and name not in known):
        return None
    if len(given) > 1:
        raise CallError(f"arguments are given twice: {', '.join(given)}")
    return [Call(name, _arguments(value[given[0]] if given else None))]


def refused_before_calling(answer: str, found: Calls) -> Judgement | None:
    """The judgement of an answer that has nothing in it, or JSON that cannot be used; None for any other."""
    if found.problem:
        status = Status.POLICY if found.policy else Status.WRONG
        return Judgement(status, uniform(found.problem), f"The tool calls cannot be read: {found.problem}.")
    if any(character.isalnum() or character in "[{" for character in without_thoughts(answer)):
        return None
    return Judgement(Status.WRONG, "empty answer", "There is nothing in the answer.")


def _calls_of_document(document: Document, known: frozenset[str], place: str) -> list[Call] | None:
    """As `calls_of`. What cannot be read raises where it is the whole answer, stands in a tag, or looks like a call."""
    tagged = place == "tag"
    if document.problem and (tagged or place == "whole" or document.value is None):
        if tagged or document.policy or _CALL_WORDS.search(document.text):
            raise CallError(document.problem, document.policy)
        return None
    calls = calls_of(document.value, known)
    if calls is not None and document.problem:
        raise CallError(document.problem, document.policy)
    if calls is None and tagged:
        raise CallError("a tag holds no call")
    return calls


def _arguments(value: Any) -> dict[str, Any]:
    if isinstance(value, str) and value.strip():
        inner = read_json(value)
        if inner.problem:
            raise CallError(f"arguments: {inner.problem}", inner.policy)
        value = inner.value
    if value is None or value == "":
        return {}
    if not isinstance(value, dict):
        raise CallError("arguments are no object")
    return value


def _written_as_code(text: str, known: frozenset[str]) -> Iterator[str]:
    """Tools that a line begins to call as a program would: `refund(order=17)`."""
    if known:
        names = "|".join(re.escape(name) for name in sorted(known, key=len, reverse=True))
        yield from re.findall(rf"^[ \t>*`\[-]*(?:print\()?({names})\(", text, re.MULTILINE)
