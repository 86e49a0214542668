"""HumanEval's problems as tasks of the Python verifier: their checks as calls where they reduce to calls, more inputs, and mutants.

What a mutant does is found out by running it in a plain Python process beside the reference (no verifier, no encoding, no tolerance).
"""

from __future__ import annotations

import ast
import json
import operator
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass
class Problem:
    """One problem. calls: (arguments, tolerance or None) of its checks where every check is a call of the entry beside a constant."""

    name: str
    entry: str
    solution: str
    test: str
    calls: list[tuple[list[Any], float | None]] = field(default_factory=list)
    expected: list[Any] = field(default_factory=list)

    @property
    def reduces(self) -> bool:
        return bool(self.calls)


def problems(shared: Path) -> list[Problem]:
    rows = [json.loads(line) for line in (shared / "realdata" / "humaneval" / "HumanEval.jsonl").read_text("utf-8").splitlines()]
    found = [Problem(row["task_id"], row["entry_point"], row["prompt"] + row["canonical_solution"], row["test"]) for row in rows]
    for problem in found:
        reduced = _reduced(problem.test)
        if reduced is not None:
            problem.calls = [(arguments, tolerance) for arguments, _, tolerance in reduced]
            problem.expected = [expected for _, expected, _ in reduced]
    return found


def _reduced(test: str) -> list[tuple[list[Any], Any, float | None]] | None:
    """(arguments, expected, tolerance) of each assertion of `check`; None where one is anything else."""
    checks = [node for node in ast.parse(test).body if isinstance(node, ast.FunctionDef) and node.name == "check"]
    found = []
    for statement in checks[0].body:
        if isinstance(statement, ast.Expr | ast.Pass):
            continue
        try:
            if not isinstance(statement, ast.Assert):
                raise ValueError
            reduced = _assertion(statement.test)
        except ValueError:
            return None
        if reduced is not None:
            found.append(reduced)
    return found or None


def _assertion(test: ast.expr) -> tuple[list[Any], Any, float | None] | None:
    if isinstance(test, ast.Constant) and test.value is True:
        return None
    if isinstance(test, ast.Call):
        return _arguments(test), True, None
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return _arguments(test.operand), False, None
    if not isinstance(test, ast.Compare) or len(test.ops) != 1:
        raise ValueError
    left, right = test.left, test.comparators[0]
    if isinstance(test.ops[0], ast.Eq | ast.Is):
        return _arguments(left), _constant(right), None
    if isinstance(test.ops[0], ast.Lt) and isinstance(left, ast.Call) and isinstance(left.func, ast.Name) and left.func.id == "abs":
        (difference,) = left.args
        if isinstance(difference, ast.BinOp) and isinstance(difference.op, ast.Sub):
            return _arguments(difference.left), _constant(difference.right), _constant(right)
    raise ValueError


def _arguments(call: ast.expr) -> list[Any]:
    if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "candidate" and not call.keywords:
        return [_constant(argument) for argument in call.args]
    raise ValueError


_OPERATORS: dict[type, Any] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv, ast.Pow: operator.pow,
}  # fmt: skip


def _constant(node: ast.expr) -> Any:
    """The value of a literal or of arithmetic on literals. Raises ValueError."""
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        return _OPERATORS[type(node.op)](_constant(node.left), _constant(node.right))
    if isinstance(node, ast.List | ast.Tuple):
        parts = [_constant(part) for part in node.elts]
        return parts if isinstance(node, ast.List) else tuple(parts)
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError) as error:
        raise ValueError from error


def more_inputs(calls: list[list[Any]], most: int = 24) -> list[list[Any]]:
    """Inputs near those of the checks: a number more or less, a list without its end or reversed …"""
    found: list[list[Any]] = []
    for arguments in calls:
        for place, value in enumerate(arguments):
            found += [[*arguments[:place], other, *arguments[place + 1 :]] for other in _near(value)]
    known = {repr(arguments) for arguments in calls}
    fresh = {repr(arguments): arguments for arguments in found if repr(arguments) not in known}
    chosen = list(fresh.values())
    return chosen[:: max(1, len(chosen) // most)][:most]


def _near(value: Any) -> list[Any]:
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int | float):
        return [value + 1, value - 1] if abs(value) < 1000 else []
    if isinstance(value, str):
        return [value[:-1], value[::-1], value + value[:1]] if value else []
    if isinstance(value, list):
        return [value[:-1], value[::-1], value + value[:1]] if value else []
    return []


_SWAPS: dict[type, type] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.In: ast.NotIn,
    ast.NotIn: ast.In, ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.Mod: ast.Mult, ast.FloorDiv: ast.Mult, ast.Div: ast.Mult,
    ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip


def mutants(solution: str, most: int) -> list[str]:
    """The program with one place changed: a comparison, an operator, a constant by one, a negation, a condition, what is returned.

    Up to `most`, spread over the program.
    """
    nodes = list(ast.walk(ast.parse(solution)))
    places = [(place, variant) for place, node in enumerate(nodes) for variant in range(2) if _change(node, variant)]
    made = []
    for place, variant in places[:: max(1, len(places) // most)][:most]:
        tree = ast.parse(solution)
        _change(list(ast.walk(tree))[place], variant)
        made.append(ast.unparse(ast.fix_missing_locations(tree)))
    return list(dict.fromkeys(made))


def _change(node: ast.AST, variant: int) -> bool:
    """Change one node in place; False where there is nothing to change."""
    if isinstance(node, ast.Compare) and variant == 0 and type(node.ops[0]) in _SWAPS:
        node.ops[0] = _SWAPS[type(node.ops[0])]()
    elif isinstance(node, ast.BinOp | ast.BoolOp | ast.AugAssign) and variant == 0 and type(node.op) in _SWAPS:
        node.op = _SWAPS[type(node.op)]()  # type: ignore[assignment]
    elif isinstance(node, ast.Constant) and type(node.value) is int:
        node.value = node.value + (1 if variant == 0 else -1)
    elif isinstance(node, ast.Constant) and type(node.value) is bool and variant == 0:
        node.value = not node.value
    elif isinstance(node, ast.If | ast.IfExp | ast.While) and variant == 0:
        node.test = ast.UnaryOp(ast.Not(), node.test)
    elif isinstance(node, ast.If) and variant == 1 and node.orelse:
        node.orelse = []
    elif isinstance(node, ast.Return) and variant == 0 and node.value is not None:
        node.value = None
    else:
        return False
    return True


_RUNNER = """
import json, resource, signal, sys
resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
def late(*_): raise TimeoutError
signal.signal(signal.SIGVTALRM, late)
def run(source, entry, inputs):
    space = {"__name__": "solution"}
    try:
        signal.setitimer(signal.ITIMER_VIRTUAL, 5)
        exec(compile(source, "solution.py", "exec"), space)
    except BaseException as error:
        return [("raised", type(error).__name__)] * len(inputs)
    outcomes = []
    for text in inputs:
        if ("raised", "TimeoutError") in outcomes:
            break
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.2)
        try:
            outcomes.append(("value", space[entry](*eval(text))))
        except BaseException as error:
            outcomes.append(("raised", type(error).__name__))
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    return outcomes
def differs(a, b):
    return a[0] != b[0] or (type(a[1]) is bool) != (type(b[1]) is bool) or not a[1] == b[1]
for line in sys.stdin:
    job = json.loads(line)
    reference = run(job["solution"], job["entry"], job["inputs"])
    reply = {"reference": [[kind, repr(value)] for kind, value in reference], "mutants": []}
    for mutant in job["mutants"]:
        outcomes = run(mutant, job["entry"], job["inputs"])
        ends = ("raised", "TimeoutError") not in outcomes
        reply["mutants"].append([differs(a, b) for a, b in zip(reference, outcomes)] if ends else None)
    print(json.dumps(reply), flush=True)
"""


def behaviour(problem: Problem, programs: list[str], inputs: list[list[Any]]) -> tuple[list[tuple[str, str]], list[list[bool] | None]]:
    """((value or raised, its text) of the reference for each input, and for each program whether it does something else there).

    None for a program that does not end within 0.2 s of processor time on some input.
    """
    texts = [repr(tuple(arguments)) for arguments in inputs]
    job = {"solution": problem.solution, "entry": problem.entry, "inputs": texts, "mutants": programs}
    ran = subprocess.run(
        [sys.executable, "-I", "-c", _RUNNER], input=json.dumps(job), capture_output=True, text=True, check=True, timeout=600
    )
    reply = json.loads(ran.stdout.splitlines()[-1])
    return [tuple(outcome) for outcome in reply["reference"]], reply["mutants"]
