"""What a rule may ask of a document: the vocabulary, each word with what it checks.

| check                                                          | kept where                                                       |
|----------------------------------------------------------------|------------------------------------------------------------------|
| `required: PATH` or a list of them                             | something is there: not null, no blank text                      |
| `type: {path, is: KIND or [KINDS]}`                            | text, integer (1.0 is one), number, boolean, list, object, null  |
| `only: {path, keys: [names]}`                                  | the object has no other keys                                     |
| `equals: {path, value: anything}`                              | the value is that one, as JSON                                   |
| `one_of: {path, values: [anything]}`                           | it is one of them                                                |
| `range: {path, at_least, at_most, above, below}`               | a number between terms (see rules_terms.py)                      |
| `length: {path, at_least, at_most}`                            | characters of a text, items of a list                            |
| `pattern: {path, matches: regular expression}`                 | the whole text matches                                           |
| `agree: {left: TERM, right: TERM, tolerance: 0.01}`            | the two numbers differ by no more than the tolerance, which is 0 |
| `date: {path, format, after, before, not_before, not_after}`   | see rules_dates.py                                               |
| `unique: PATH`, `unique: {path, by: [names]}`                  | no two places hold equal values                                  |
| `lookup: {path, table, column, same: {path: column}}`          | see rules_tables.py                                              |
| `steps: {path, final, tolerance, expression, result}`          | see rules_steps.py                                               |
| `all: [checks]`, `any: [checks]`, `not: check`                 | all, some, none of them are kept                                 |

A value that is not there breaks the check, whatever it asks. In a rule with `optional: true` it is passed over, and so is null; a check
that then has nothing to look at does not apply. Nor does one over the items of an empty list.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

from prefkit.verify.budget import compile_pattern
from prefkit.verify.json_text import canonical, shown
from prefkit.verify.paths import MISSING, Path
from prefkit.verify.rules_terms import NoNumber, Scope, Term, absent, compile_term, not_there, number_of, path_of, written
from prefkit.verify.yaml_lines import Node

SHOWN = 3
"""Places that are named, at most, where one rule is broken in many."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check says of a document. broken: where, in words; empty where it is kept. applies: whether it had anything to look at."""

    broken: tuple[str, ...] = ()
    applies: bool = True


KEPT, BESIDE = Finding(), Finding(applies=False)
Check = Callable[[Scope], Finding]
Say = Callable[[Scope, Any], str | None]
"""What is wrong with one value, None where nothing is."""


def over_values(path: Path, say: Say) -> Check:
    """A check that looks at each value of a path for itself."""

    def check(scope: Scope) -> Finding:
        broken: list[str] = []
        seen = False
        for where, value in present(scope, path, broken):
            seen = True
            said = say(scope, value)
            if said is not None:
                broken.append(f"{where} {said}")
        return Finding(tuple(broken[:SHOWN]), applies=seen or bool(broken))

    return check


def present(scope: Scope, path: Path, broken: list[str]) -> Iterator[tuple[str, Any]]:
    """The values of a path that are there. Those that are not go to `broken`, unless the rule is optional."""
    for where, value in scope.find(path):
        if value is MISSING or (value is None and scope.optional):
            if not scope.optional:
                broken.append(not_there(where, value))
        else:
            yield where, value


def of_numbers(decide: Callable[[Scope], Finding]) -> Check:
    """A check of terms, which says so where one of them has no value."""

    def check(scope: Scope) -> Finding:
        try:
            return decide(scope)
        except NoNumber as problem:
            return BESIDE if problem.missing and scope.optional else Finding((str(problem),))

    return check


def _required(node: Node) -> Check:
    paths = [path_of(item) for item in (node.items("paths") if isinstance(node.value, list) else [node])]

    def check(scope: Scope) -> Finding:
        broken = []
        seen = False
        for path in paths:
            for where, value in scope.find(path):
                seen = True
                if absent(value) or (isinstance(value, str) and not value.strip()):
                    broken.append(not_there(where, value))
        return Finding(tuple(broken[:SHOWN]), applies=seen)

    return check


def _whole(value: Any) -> bool:
    return isinstance(value, int) or (isinstance(value, Decimal) and value == value.to_integral_value())


_KINDS: dict[str, Callable[[Any], bool]] = {
    "text": lambda value: isinstance(value, str),
    "integer": lambda value: not isinstance(value, bool) and _whole(value),
    "number": lambda value: number_of(value) is not None,
    "boolean": lambda value: isinstance(value, bool),
    "list": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
    "null": lambda value: value is None,
}


def _type(node: Node) -> Check:
    fields = node.fields(("path", "is"))
    given = fields["is"].items("kinds") if isinstance(fields["is"].value, list) else [fields["is"]]
    kinds = ["null" if kind.value is None else kind.choice(_KINDS) for kind in given]  # to YAML, null is not the word

    def say(_: Scope, value: Any) -> str | None:
        return None if any(_KINDS[kind](value) for kind in kinds) else f"is no {' or '.join(kinds)}: {shown(value)}"

    return over_values(path_of(fields["path"]), say)


def _only(node: Node) -> Check:
    fields = node.fields(("path", "keys"))
    keys = {str(item.plain()) for item in fields["keys"].items("keys")}

    def say(_: Scope, value: Any) -> str | None:
        if not isinstance(value, dict):
            return f"is no object: {shown(value)}"
        extra = next((key for key in value if key not in keys), None)
        return None if extra is None else f"must not have {shown(extra)}"

    return over_values(path_of(fields["path"]), say)


def _equals(node: Node) -> Check:
    fields = node.fields(("path", "value"))
    wanted = canonical(fields["value"].plain())
    return over_values(path_of(fields["path"]), lambda _, value: None if canonical(value) == wanted else f"is {shown(value)}")


def _one_of(node: Node) -> Check:
    fields = node.fields(("path", "values"))
    wanted = {canonical(item.plain()) for item in fields["values"].items("values")}
    return over_values(path_of(fields["path"]), lambda _, value: None if canonical(value) in wanted else f"is {shown(value)}")


_BOUNDS: dict[str, tuple[str, Callable[[Fraction, Fraction], bool]]] = {
    "at_least": ("less than", lambda value, bound: value >= bound),
    "at_most": ("more than", lambda value, bound: value <= bound),
    "above": ("not above", lambda value, bound: value > bound),
    "below": ("not below", lambda value, bound: value < bound),
}


def _bounds(node: Node, fields: dict[str, Node], names: tuple[str, ...]) -> list[tuple[str, Term]]:
    bounds = [(name, compile_term(fields[name])) for name in names if name in fields]
    if not bounds:
        raise node.error(f"expected one of {', '.join(names)}")
    return bounds


def _beyond(scope: Scope, number: Fraction, bounds: list[tuple[str, Term]]) -> str | None:
    for name, term in bounds:
        words, keeps = _BOUNDS[name]
        bound = term(scope)
        if not keeps(number, bound):
            return f"{written(number)}, {words} {written(bound)}"
    return None


def _range(node: Node) -> Check:
    names = tuple(_BOUNDS)
    fields = node.fields(("path",), names)
    bounds = _bounds(node, fields, names)

    def say(scope: Scope, value: Any) -> str | None:
        number = number_of(value)
        if number is None:
            return f"is no number: {shown(value)}"
        said = _beyond(scope, number, bounds)
        return None if said is None else f"is {said}"

    return of_numbers(over_values(path_of(fields["path"]), say))


def _length(node: Node) -> Check:
    names = ("at_least", "at_most")
    fields = node.fields(("path",), names)
    bounds = _bounds(node, fields, names)

    def say(scope: Scope, value: Any) -> str | None:
        if not isinstance(value, str | list):
            return f"is no text and no list: {shown(value)}"
        said = _beyond(scope, Fraction(len(value)), bounds)
        return None if said is None else f"has the length {said}"

    return of_numbers(over_values(path_of(fields["path"]), say))


def _pattern(node: Node) -> Check:
    fields = node.fields(("path", "matches"))
    text = fields["matches"].text("a regular expression")
    try:
        pattern = compile_pattern(text)
    except ValueError as error:
        raise fields["matches"].error(str(error)) from None

    def say(scope: Scope, value: Any) -> str | None:
        if not isinstance(value, str):
            return f"is no text: {shown(value)}"
        return None if scope.budget.matches(pattern, value, whole=True) else f"is {shown(value)}"

    return over_values(path_of(fields["path"]), say)


def _agree(node: Node) -> Check:
    fields = node.fields(("left", "right"), ("tolerance",))
    left, right = compile_term(fields["left"]), compile_term(fields["right"])
    tolerance = Fraction(fields["tolerance"].number("a tolerance", least=0)) if "tolerance" in fields else Fraction(0)

    def decide(scope: Scope) -> Finding:
        a, b = left(scope), right(scope)
        if abs(a - b) <= tolerance:
            return KEPT
        return Finding((f"{scope.where + ': ' if scope.where else ''}{written(a)} is not {written(b)}",))

    return of_numbers(decide)


def _unique(node: Node) -> Check:
    if isinstance(node.value, str):
        path, names = path_of(node), []
    else:
        fields = node.fields(("path",), ("by",))
        path, names = path_of(fields["path"]), [item.text("a key") for item in fields["by"].items("keys")] if "by" in fields else []

    def check(scope: Scope) -> Finding:
        broken: list[str] = []
        first: dict[Any, str] = {}
        for where, value in present(scope, path, broken):
            if names:
                value = [value.get(name) for name in names] if isinstance(value, dict) else value
            earlier = first.setdefault(canonical(value), where)
            if earlier != where:
                broken.append(f"{where} repeats {earlier}")
        return Finding(tuple(broken[:SHOWN]), applies=bool(first) or bool(broken))

    return check


def all_of(checks: list[Check]) -> Check:
    """Kept where every one of them that applies is."""

    def check(scope: Scope) -> Finding:
        findings = [check(scope) for check in checks]
        broken = [said for finding in findings for said in finding.broken]
        return Finding(tuple(broken[:SHOWN]), applies=any(finding.applies for finding in findings))

    return check


def any_of(checks: list[Check]) -> Check:
    """Kept where one of them applies and is kept."""

    def check(scope: Scope) -> Finding:
        findings = [finding for check in checks if (finding := check(scope)).applies]
        if not findings:
            return BESIDE
        return KEPT if any(not finding.broken for finding in findings) else Finding(findings[0].broken)

    return check


def not_of(inner: Check) -> Check:
    """Kept where it is broken, or does not apply."""

    def check(scope: Scope) -> Finding:
        return Finding(("it does",)) if holds(inner, scope) else KEPT

    return check


def holds(check: Check, scope: Scope) -> bool:
    """Whether a condition holds: it applies and is kept."""
    finding = check(scope)
    return finding.applies and not finding.broken


SIMPLE: dict[str, Callable[[Node], Check]] = {
    "required": _required, "type": _type, "only": _only, "equals": _equals, "one_of": _one_of, "range": _range, "length": _length,
    "pattern": _pattern, "agree": _agree, "unique": _unique,
}  # fmt: skip
"""The checks that need nothing but their own lines."""
