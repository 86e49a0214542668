"""The check `steps`: does the working that an answer states add up, and lead to its result.

| key                    | what                                                                                                       |
|------------------------|------------------------------------------------------------------------------------------------------------|
| `path`                 | the steps: a list, or one text with all of them                                                            |
| a step that is text    | every equation in it must be true (see arithmetic.py); one without any states nothing                      |
| a step that is an object | `expression` (arithmetic as text) must have the value `result` (a number, or arithmetic as text)           |
| `expression`, `result` | other names of those two keys                                                                              |
| `final`                | the path of the answer's result, which must be that of the last step                                       |
| `tolerance`            | how much values may differ, 0 where none is given                                                          |

Steps in which nothing can be checked break the rule: an answer that shows no working has not shown that its working is right.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from prefkit.verify.arithmetic import MAX_EQUATIONS, NoValue, equations, value_of
from prefkit.verify.json_text import shown
from prefkit.verify.paths import MISSING, Path, joined
from prefkit.verify.rules_checks import BESIDE, KEPT, SHOWN, Check, Finding
from prefkit.verify.rules_terms import Scope, absent, number_of, path_of, written
from prefkit.verify.yaml_lines import Node

_COST = 500
"""Steps of judging that an equation in a text takes."""


@dataclass(frozen=True, slots=True)
class _Stated:
    """One claim of a step. left: None where nothing is claimed of the value. problem: why it cannot be read."""

    where: str
    left: Fraction | None = None
    right: Fraction | None = None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class _Keys:
    expression: str
    result: str


def compile_steps(node: Node) -> Check:
    """Raises PlaceError."""
    fields = node.fields(("path",), ("final", "tolerance", "expression", "result"))
    path = path_of(fields["path"], many=False)
    final = path_of(fields["final"], many=False) if "final" in fields else None
    tolerance = Fraction(fields["tolerance"].number("a tolerance", least=0)) if "tolerance" in fields else Fraction(0)
    keys = _Keys(*(fields[name].text("a key") if name in fields else name for name in ("expression", "result")))

    def check(scope: Scope) -> Finding:
        where, steps = next(scope.find(path), (path.text, MISSING))
        if absent(steps):
            return BESIDE if scope.optional else Finding((f"{where} is missing",))
        if not isinstance(steps, str | list):
            return Finding((f"{where} is no list of steps: {shown(steps)}",))
        stated = list(_stated(scope, where, steps, keys))
        broken = [said for one in stated if (said := _said(one, tolerance)) is not None]
        if not any(one.left is not None for one in stated) and not broken:
            broken = [f"{where} states nothing that can be checked"]
        if not broken and final is not None:
            broken = _unlike_final(scope, final, stated, tolerance)
        return Finding(tuple(broken[:SHOWN])) if broken else KEPT

    return check


def _stated(scope: Scope, where: str, steps: str | list[Any], keys: _Keys) -> Iterator[_Stated]:
    for number, step in enumerate(steps if isinstance(steps, list) else [steps]):
        place = joined(where, number) if isinstance(steps, list) else where
        scope.budget.spend(1 + _COST * min(step.count("="), MAX_EQUATIONS) if isinstance(step, str) else 1)
        if isinstance(step, str):
            for equation in equations(step):
                yield _Stated(place, equation.left, equation.right)
        elif isinstance(step, dict):
            left, right = _value(step.get(keys.expression, MISSING)), _value(step.get(keys.result, MISSING))
            unread = next((key for key, value in ((keys.expression, left), (keys.result, right)) if value is None), None)
            yield _Stated(place, left, right, "" if unread is None else f"{unread} is no arithmetic")
        else:
            yield _Stated(place, problem="is no step")


def _value(value: Any) -> Fraction | None:
    if not isinstance(value, str):
        return number_of(value)
    try:
        return value_of(value)
    except NoValue:
        return None


def _said(one: _Stated, tolerance: Fraction) -> str | None:
    if one.problem:
        return f"{one.where}: {one.problem}"
    if one.left is None or one.right is None or abs(one.left - one.right) <= tolerance:
        return None
    return f"{one.where}: the value is {written(one.left)}, not {written(one.right)}"


def _unlike_final(scope: Scope, final: Path, stated: list[_Stated], tolerance: Fraction) -> list[str]:
    where, value = next(scope.find(final), (final.text, MISSING))
    if absent(value) and scope.optional:
        return []
    result = _value(value)
    if result is None:
        return [f"{where} is missing" if absent(value) else f"{where} is no number: {shown(value)}"]
    last = stated[-1].right
    if last is not None and abs(result - last) <= tolerance:
        return []
    return [f"{where} is {written(result)}, but the last step gives {written(last) if last is not None else 'nothing'}"]
