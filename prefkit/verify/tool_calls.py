"""The tool calls verifier: are the calls in an answer those of an accepted list; or, with a simulator, did the right thing happen.

| what happens                                                   | status         | reason                                            |
|----------------------------------------------------------------|----------------|---------------------------------------------------|
| a tool's schema is none, or has a remote `$ref`                | UNVERIFIABLE   | schema of x: remote $ref: "http://…" / …          |
| an accepted call names no tool, or breaks its schema           | UNVERIFIABLE   | gold: unknown tool: "x" / gold: missing argument… |
| nothing stands in the answer, or only thoughts                 | WRONG          | empty answer                                      |
| its JSON is broken, or is no call (see calls.py)               | WRONG          | not JSON: … / arguments are no object             |
| its JSON breaks a rule (see json_text.py)                      | POLICY         | duplicate key: "x" / nested too deeply: … / …     |
| a `$ref` to another document, which no accepted call has       | POLICY         | remote $ref                                       |
| no calls where some are wanted                                 | WRONG          | no tool call in the answer                        |
| calls where none are wanted                                    | WRONG          | a tool is called where none should be             |
| a call names no tool                                           | WRONG          | unknown tool: "x"                                 |
| it lacks a required argument                                   | WRONG          | missing argument: x.y                             |
| it has an argument that the tool has not                       | WRONG          | invented argument: x.y                            |
| an argument breaks the tool's schema otherwise                 | WRONG          | argument breaks its schema: x.y (type)            |
| other calls                                                    | WRONG          | wrong number of calls: 1, expected 2 /            |
|                                                                |                | wrong tool: "x" / wrong argument of "x": "y" /    |
|                                                                |                | wrong order of calls                              |
| the calls of an accepted list, in any order                    | PASS           | same calls                                        |
| an accepted list is empty and the answer is prose              | PASS           | no call, as wanted                                |
| schemas cannot be held against the answer within the limits    | LIMIT, TIMEOUT | limit: steps of judging / time limit: pattern     |

Calls are equal when their names are, and their arguments as JSON values: integers equal floats of the same value, true is not 1, text is
not a number, case counts, keys stand in any order, lists in theirs. Calls are matched one to one, so that a repeated call counts as often
as it stands there; with `"ordered": true` their order counts too. Optional arguments that equal their schema's default may be left out, or
be written out; with `"defaults": "strict"` they may not. Types are JSON Schema's (json_schema.py): 12 does for a number, 1.0 does for an
integer. Feedback holds the answer's own calls and what the schemas say, nothing of the accepted ones.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.metadata import version
from typing import Any, ClassVar

from prefkit.verify.budget import Budget, BudgetSpent
from prefkit.verify.call_match import difference
from prefkit.verify.calls import Call, CallError, Tool, calls_in, calls_of, read_tools, refused_before_calling
from prefkit.verify.json_schema import SchemaError
from prefkit.verify.json_text import read_json, shown, uniform
from prefkit.verify.line_fields import must, timeout_of
from prefkit.verify.stateful import StatefulCheck, judge_stateful, read_stateful, simulator_content, stateful_key
from prefkit.verify.verdict import Judgement, Status
from prefkit.verify.verifier import Source, VerifierBase

VERSION = "tool-calls/1"
DEFAULTS = ("fill", "strict")
_STEPS = 100_000
_GOLD_S = 10.0
_LOOKED_AT = 20
"""Calls that are held against their schemas at least, also where fewer are wanted."""
_SHOWN_CALLS = 4


@dataclass(frozen=True, slots=True)
class ToolCallsCheck:
    """One answer to judge by its calls.

    answer: free model text. tools: a JSON list of tools (see calls.read_tools). accepted: a JSON list of call lists, any one suffices; an
    empty call list says that no tool should be called. defaults: "fill" or "strict". timeout_s: processor seconds for judging.
    """

    kind: ClassVar[str] = "tool_calls"
    id: str
    answer: str
    tools: str
    accepted: str
    ordered: bool = False
    defaults: str = "fill"
    timeout_s: float = 2.0


@dataclass(frozen=True, slots=True)
class _Task:
    """Tools and accepted calls, ready to judge by. problem: why they are not."""

    tools: dict[str, Tool] = field(default_factory=dict)
    accepted: tuple[tuple[Call, ...], ...] = ()
    problem: str = ""


class ToolCallsVerifier(VerifierBase):
    """Judges ToolCallsChecks and StatefulChecks. Nothing of an answer runs, but for the calls of a simulator's own tools."""

    kind: ClassVar[str] = "tool_calls"
    fields: ClassVar[tuple[str, ...]] = ("tools", "accepted", "ordered", "defaults", "simulator", "state", "end", "ignore")

    def __init__(self) -> None:
        self.versions = {"jsonschema": version("jsonschema"), "judge": VERSION}

    def read(self, line: dict[str, Any], id: str, source: Source) -> ToolCallsCheck | StatefulCheck:
        """A line: {"tools": [tools], "accepted": [[calls], …], "answer": text, "ordered": bool, "defaults": "fill" | "strict",
        "timeout": seconds}; or with a "simulator" (see stateful.py)."""
        answer, timeout = line.get("answer"), timeout_of(line, source)
        if not isinstance(answer, str):
            raise must(line, "answer", "text")
        if "simulator" in line:
            return read_stateful(line, id, answer, timeout, source)
        if not isinstance(line.get("tools"), list) or not line["tools"]:
            raise must(line, "tools", "a list of tools, and not empty")
        accepted = line.get("accepted")
        if not isinstance(accepted, list) or not accepted or not all(isinstance(calls, list) for calls in accepted):
            raise must(line, "accepted", 'a list of call lists, and not empty ([[{"name": …, "arguments": {…}}]])')
        ordered, defaults = line.get("ordered", False), line.get("defaults", "fill")
        if not isinstance(ordered, bool):
            raise must(line, "ordered", "true or false")
        if defaults not in DEFAULTS:
            raise must(line, "defaults", f"one of {', '.join(DEFAULTS)}")
        return ToolCallsCheck(id, answer, json.dumps(line["tools"]), json.dumps(accepted), ordered, defaults, timeout)

    def key(self, check: ToolCallsCheck | StatefulCheck) -> Sequence[Any]:
        if isinstance(check, StatefulCheck):
            return ["stateful", simulator_content(check), *stateful_key(check)]
        return [check.answer, check.tools, check.accepted, check.ordered, check.defaults, check.timeout_s]

    def judge(self, check: ToolCallsCheck | StatefulCheck) -> Generator[Any, Any, Judgement]:
        """Waits for nothing."""
        yield from ()
        if isinstance(check, StatefulCheck):
            return judge_stateful(check)
        task = _task(check.tools, check.accepted, check.defaults)
        if task.problem:
            return Judgement(Status.UNVERIFIABLE, task.problem)
        try:
            return _judge(check, task, Budget(_STEPS, check.timeout_s))
        except BudgetSpent as spent:
            return Judgement(spent.status, spent.reason, "The arguments take too long to be checked.")
        except SchemaError as error:
            return Judgement(Status.UNVERIFIABLE, f"schema: {error}")


def _judge(check: ToolCallsCheck, task: _Task, budget: Budget) -> Judgement:
    """Raises BudgetSpent and SchemaError."""
    found = calls_in(check.answer, task.tools)
    refused = refused_before_calling(check.answer, found)
    if refused is not None:
        return refused
    calls = found.calls
    if _far_reference(calls) and not any(_far_reference(wanted) for wanted in task.accepted):
        return Judgement(Status.POLICY, "remote $ref", "An argument refers to another document; write the value itself.")
    looked_at = max(_LOOKED_AT, *(len(wanted) for wanted in task.accepted))
    for call in calls[:looked_at]:
        problem = _problem(call, task.tools, budget)
        if problem is not None:
            return Judgement(Status.WRONG, *problem)
    given = [_filled(call, task.tools, budget) for call in calls[:looked_at]] if check.defaults == "fill" else calls[:looked_at]
    best: tuple[int, str] | None = None
    for wanted in task.accepted:
        differs = difference(wanted, [*given, *calls[looked_at:]], check.ordered)
        if differs is None:
            return Judgement(Status.PASS, "same calls" if calls else "no call, as wanted")
        best = differs if best is None or differs[0] > best[0] else best
    assert best is not None, "there is an accepted list"
    return Judgement(Status.WRONG, best[1], _feedback(calls))


@lru_cache(maxsize=512)
def _task(tools: str, accepted: str, defaults: str) -> _Task:
    """Read a task's side of a check, which many answers share."""
    document = read_json(accepted)
    if document.problem:
        return _Task(problem=f"gold: {uniform(document.problem)}")
    try:
        known = read_tools(json.loads(tools))
        golds = [_gold(calls, known, defaults) for calls in document.value]
    except SchemaError as error:
        return _Task(problem=str(error))
    except ValueError as error:
        return _Task(problem=f"gold: {error}" if isinstance(error, CallError) else str(error))
    except BudgetSpent as spent:
        return _Task(problem=f"gold: {spent.reason}")
    return _Task(known, tuple(golds)) if golds else _Task(problem="no gold")


def _gold(values: Any, tools: dict[str, Tool], defaults: str) -> tuple[Call, ...]:
    """Raises CallError where it is no list of calls that can be made."""
    calls = calls_of(values, frozenset(tools))
    if calls is None:
        raise CallError(f"not a list of calls: {shown(values)}")
    budget = Budget(_STEPS, _GOLD_S)
    for call in calls:
        problem = _problem(call, tools, budget)
        if problem is not None:
            raise CallError(problem[0])
    return tuple(_filled(call, tools, budget) if defaults == "fill" else call for call in calls)


def _problem(call: Call, tools: dict[str, Tool], budget: Budget) -> tuple[str, str] | None:
    """(reason, feedback) where a call cannot be made."""
    tool = tools.get(call.name)
    if tool is None:
        return f"unknown tool: {shown(call.name)}", f"There is no tool {shown(call.name)}."
    invented = tool.schema.invented(call.arguments, budget)
    fault = tool.schema.fault(call.arguments, budget)
    if fault is None and invented is None:
        return None
    if fault is not None and fault.keyword == "required":
        return f"missing argument: {tool.name}.{fault.path}", f"{tool.name}: the argument {fault.path} {fault.message}."
    if invented is not None:
        return f"invented argument: {tool.name}.{shown(invented)[1:-1]}", f"{tool.name} has no argument {shown(invented)}."
    assert fault is not None
    if fault.keyword in ("additionalProperties", "unevaluatedProperties"):
        return f"invented argument: {tool.name}.{fault.path}".rstrip("."), f"{tool.name}: {fault.path or 'arguments'} {fault.message}."
    where = f"{tool.name}.{fault.path}" if fault.path else tool.name
    return f"argument breaks its schema: {where} ({fault.keyword})", f"{tool.name}: {fault.path or 'arguments'} {fault.message}."


def _filled(call: Call, tools: dict[str, Tool], budget: Budget) -> Call:
    return Call(call.name, tools[call.name].schema.filled(call.arguments, budget))


def _far_reference(value: Any) -> bool:
    """Whether a `$ref` to another document stands anywhere in calls or values."""
    if isinstance(value, Call):
        return _far_reference(value.arguments)
    if isinstance(value, dict):
        reference = value.get("$ref")
        return (isinstance(reference, str) and not reference.startswith("#")) or any(map(_far_reference, value.values()))
    return isinstance(value, list | tuple) and any(map(_far_reference, value))


def _feedback(calls: Sequence[Call]) -> str:
    """The answer's own calls in words."""
    if not calls:
        return "The answer calls no tool."
    said = "; ".join(f"{shown(call.name)[1:-1]}({shown(call.arguments, 120)})" for call in calls[:_SHOWN_CALLS])
    more = f" and {len(calls) - _SHOWN_CALLS} more" if len(calls) > _SHOWN_CALLS else ""
    return f"The calls can be made, but they are not what was asked for. The answer calls {said}{more}."
