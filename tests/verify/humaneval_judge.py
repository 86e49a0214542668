"""Judge HumanEval's references and their mutants by the Python verifier."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import Any

from code_judge import Judge
from humaneval import Problem, behaviour, more_inputs, mutants

from prefkit.verify.values_compare import exact_form

REDUCING = 156
"""Problems of 164 whose checks are calls of the entry beside constants."""


@dataclass
class Counts:
    """Mutants. by_values: those that do something else than the reference, judged by values; by_tests: of these, judged by the checks too;
    same: those that do the same; endless: those that never end, which cannot pass; passed: those that a verdict let pass."""

    by_values: int = 0
    by_tests: int = 0
    same: int = 0
    endless: int = 0
    passed: list[str] = field(default_factory=list)


def judge_references(judge: Judge, chosen: list[Problem]) -> list[str]:
    """What did not pass, of the references."""
    wrong = []
    for problem in chosen:
        found = judge("python", answer=problem.solution, tests=[problem.test], entry=problem.entry, timeout=5)
        if found.status != "PASS":
            wrong.append(f"{problem.name} by tests: {found}")
        if problem.reduces:
            allowed = max([tolerance for _, tolerance in problem.calls if tolerance is not None], default=None)
            task: dict[str, Any] = {} if allowed is None else {"tolerance": {"absolute": allowed}}
            found = judge("python", answer=problem.solution, entry=problem.entry, cases=_check_cases(problem), timeout=5, **task)
            if found.status != "PASS":
                wrong.append(f"{problem.name} by values: {found}")
    return wrong


def judge_mutants(judge: Judge, chosen: list[Problem], each: int) -> Counts:
    """Up to `each` mutants of each problem whose checks reduce to calls, spread over the program."""
    counts = Counts()
    for problem in chosen:
        if not problem.reduces:
            continue
        programs = mutants(problem.solution, 2 * each)
        checked = [arguments for arguments, _ in problem.calls]
        inputs = checked + more_inputs(checked)
        reference, different = behaviour(problem, programs, inputs)
        good = [i for i, (kind, _) in enumerate(reference) if kind == "value"]
        cases = [[_forms(inputs[i]), exact_form(_value(reference[i][1]))] for i in good]
        ending = [(program, differs) for program, differs in zip(programs, different, strict=True) if differs is not None]
        changed = [(program, differs) for program, differs in ending if any(differs[i] for i in good)]
        counts.endless += len(programs) - len(ending)
        counts.same += len(ending) - len(changed)
        for program, differs in changed[:each]:
            counts.by_values += 1
            _must_fail(judge, counts, problem, program, entry=problem.entry, cases=cases)
            # The checks themselves can only see what differs on their own inputs by more than they allow.
            if any(differs[: len(checked)]) and all(tolerance is None for _, tolerance in problem.calls):
                counts.by_tests += 1
                _must_fail(judge, counts, problem, program, entry=problem.entry, tests=[problem.test])
    return counts


def _must_fail(judge: Judge, counts: Counts, problem: Problem, program: str, **task: Any) -> None:
    found = judge("python", answer=program, timeout=0.5, **task)
    if found.status in ("PASS", "UNVERIFIABLE", "INFRA", "REFUSED"):
        counts.passed.append(f"{problem.name} {found.status} {found.reason}\n{program}")


def _check_cases(problem: Problem) -> list[Any]:
    """The checks as cases, with the tolerance that they have."""
    return [[_forms(arguments), exact_form(expected)] for (arguments, _), expected in zip(problem.calls, problem.expected, strict=True)]


def _forms(arguments: list[Any]) -> list[Any]:
    return [exact_form(argument) for argument in arguments]


def _value(text: str) -> Any:
    return ast.literal_eval(text)
