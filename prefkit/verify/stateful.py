"""Stateful tasks: the calls of an answer are made in a simulator, and the state at the end is compared with the wanted ones.

| what happens                                                  | status       | reason                                       |
|---------------------------------------------------------------|--------------|----------------------------------------------|
| the simulator refuses the start state                         | UNVERIFIABLE | start state: …                               |
| a call of an accepted list fails                              | UNVERIFIABLE | gold: x fails: …                             |
| an accepted list ends in no accepted state                    | UNVERIFIABLE | gold: wrong end state: orders.17.status      |
| nothing in the answer; JSON that is broken or breaks a rule   | WRONG, POLICY | as in tool_calls.py                         |
| more than 200 calls                                           | LIMIT        | limit: calls (more than 200)                 |
| the end is one of those wanted (see end_state.py)             | PASS         | wanted end state                             |
| it is not                                                     | WRONG        | wrong end state: orders.17.status            |
| it is not, and the answer calls nothing                       | WRONG        | no tool call in the answer                   |

Calls that fail give an error and stop nothing. How the end was reached does not matter. The accepted ends are given as states (`end`), as
call lists that are made to find them (`accepted`), or as both, and then the call lists must reach the states.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

from prefkit.verify.budget import Budget, BudgetSpent
from prefkit.verify.calls import Call, CallError, calls_in, calls_of, refused_before_calling
from prefkit.verify.end_state import state_difference
from prefkit.verify.json_text import read_json, shown
from prefkit.verify.line_fields import must
from prefkit.verify.paths import Path, read_path
from prefkit.verify.simulator import CallResult, Simulator, content_of, simulator_class
from prefkit.verify.verdict import Judgement, Status
from prefkit.verify.verifier import Source

MAX_CALLS = 200
_STEPS = 500_000
_GOLD_S = 10.0
_SHOWN_CALLS = 6


@dataclass(frozen=True, slots=True)
class StatefulCheck:
    """One answer to judge by what its calls bring about.

    answer: free model text. simulator: the class. state: the start, JSON. ends: wanted end states, a JSON list, any one suffices. accepted:
    call lists, JSON, that lead to a wanted end. ignore: paths that do not matter. ordered: lists in the state are compared in order.
    timeout_s: processor seconds for judging; the tools' own time is not limited.
    """

    kind: ClassVar[str] = "tool_calls"
    id: str
    answer: str
    simulator: type[Simulator]
    state: str
    ends: str = "[]"
    accepted: str = "[]"
    ignore: tuple[str, ...] = ()
    ordered: bool = False
    timeout_s: float = 2.0


@dataclass(frozen=True, slots=True)
class _World:
    """A task's side of a check. problem: why it cannot be judged by."""

    start: Any = None
    ends: tuple[Any, ...] = ()
    ignore: tuple[Path, ...] = ()
    problem: str = ""


def read_stateful(line: dict[str, Any], id: str, answer: str, timeout_s: float, source: Source) -> StatefulCheck:
    """A line: {"simulator": name | "module:Class", "state": {…}, "end": {…} | [{…}, …], "accepted": [[calls], …], "ignore": [paths],
    "ordered": bool, "answer": text}; one of "end" and "accepted" at least. Raises ValueError."""
    name, state, ordered = line["simulator"], line.get("state"), line.get("ordered", False)
    if not isinstance(name, str):
        raise must(line, "simulator", 'a name or "module:Class"')
    if not isinstance(state, dict):
        raise must(line, "state", "a JSON object, the state at the start")
    ends = line.get("end", [])
    ends = [ends] if isinstance(ends, dict) else ends
    if not isinstance(ends, list) or not all(isinstance(end, dict) for end in ends):
        raise must(line, "end", "a JSON object, a wanted end state, or a list of them")
    accepted = line.get("accepted", [])
    if not isinstance(accepted, list) or not all(isinstance(calls, list) for calls in accepted):
        raise must(line, "accepted", "a list of call lists")
    if not ends and not accepted:
        raise ValueError('expected "end" (wanted end states) or "accepted" (call lists that lead to one)')
    ignore = line.get("ignore", [])
    if not isinstance(ignore, list) or not all(isinstance(path, str) for path in ignore):
        raise must(line, "ignore", "a list of paths")
    for path in ignore:
        read_path(path)
    if not isinstance(ordered, bool):
        raise must(line, "ordered", "true or false")
    kind = simulator_class(name, source.folder)
    return StatefulCheck(id, answer, kind, json.dumps(state), json.dumps(ends), json.dumps(accepted), tuple(ignore), ordered, timeout_s)


def simulator_content(check: StatefulCheck) -> str:
    """A hash of the simulator's code, for the cache's key."""
    return content_of(check.simulator)


def stateful_key(check: StatefulCheck) -> list[Any]:
    """All else that decides the verdict."""
    return [check.answer, check.state, check.ends, check.accepted, check.ignore, check.ordered, check.timeout_s]


def judge_stateful(check: StatefulCheck) -> Judgement:
    """Make the answer's calls, and look at what is there then."""
    world = _world(check.simulator, check.state, check.ends, check.accepted, check.ignore, check.ordered)
    if world.problem:
        return Judgement(Status.UNVERIFIABLE, world.problem)
    found = calls_in(check.answer, [declared["name"] for declared in check.simulator.tools()])
    refused = refused_before_calling(check.answer, found)
    if refused is not None:
        return refused
    if len(found.calls) > MAX_CALLS:
        return Judgement(Status.LIMIT, f"limit: calls (more than {MAX_CALLS})", "There are far too many calls.")
    budget = Budget(_STEPS, check.timeout_s)
    try:
        simulator = check.simulator(world.start)
        results = [simulator.call(call.name, call.arguments, budget) for call in found.calls]
        differences = [state_difference(world.start, end, simulator.state, world.ignore, check.ordered, budget) for end in world.ends]
    except BudgetSpent as spent:
        return Judgement(spent.status, spent.reason, "The calls take too long to be checked.")
    if None in differences:
        return Judgement(Status.PASS, "wanted end state")
    reason = f"wrong end state: {differences[0]}" if found.calls else "no tool call in the answer"
    return Judgement(Status.WRONG, reason, _feedback(found.calls, results))


@lru_cache(maxsize=256)
def _world(kind: type[Simulator], state: str, ends: str, accepted: str, ignore: tuple[str, ...], ordered: bool) -> _World:
    """Read a task's side of a check, which many answers share, and make the accepted calls."""
    for document in (read_json(state), read_json(ends), read_json(accepted)):
        if document.problem:
            return _World(problem=f"task: {document.problem}")
    start, wanted, golds = json.loads(state), json.loads(ends), json.loads(accepted)
    paths = tuple(map(read_path, ignore))
    budget = Budget(_STEPS, _GOLD_S)
    try:
        start = kind(start).state  # a simulator may fill in what its start leaves out
    except Exception as error:
        return _World(problem=f"start state: {shown(str(error), 200)[1:-1]}")
    reached = []
    for gold in golds:
        try:
            end = _end_of(kind, start, gold, budget)
            differences = [state_difference(start, one, end, paths, ordered, budget) for one in wanted]
        except (CallError, BudgetSpent) as error:
            return _World(problem=f"gold: {error}")
        if wanted and None not in differences:
            return _World(problem=f"gold: wrong end state: {differences[0]}")
        reached.append(end)
    return _World(start, tuple(wanted or reached), paths)


def _end_of(kind: type[Simulator], start: Any, gold: Any, budget: Budget) -> Any:
    """The state after a gold's calls. Raises CallError where one of them fails."""
    calls = calls_of(gold, frozenset(declared["name"] for declared in kind.tools()))
    if calls is None:
        raise CallError(f"not a list of calls: {shown(gold)}")
    simulator = kind(start)
    for call in calls:
        result = simulator.call(call.name, call.arguments, budget)
        if result.error:
            raise CallError(f"{shown(call.name)[1:-1]} fails: {result.error}")
    return simulator.state


def _feedback(calls: Sequence[Call], results: Sequence[CallResult]) -> str:
    """What each of the answer's own calls gave."""
    if not calls:
        return "The answer calls no tool."
    said = []
    for call, result in zip(calls[:_SHOWN_CALLS], results, strict=False):
        gave = f"the error: {result.error}" if result.error else shown(result.value, 80)
        said.append(f"{shown(call.name)[1:-1]}({shown(call.arguments, 80)}) gave {gave}")
    more = f"; and {len(calls) - _SHOWN_CALLS} more" if len(calls) > _SHOWN_CALLS else ""
    return f"What was asked for has not happened, or more than that. {'; '.join(said)}{more}."
