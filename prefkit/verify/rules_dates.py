"""The check `date`: a text that is a date in one format, in order with others.

| key                       | what                                                                                                    |
|---------------------------|---------------------------------------------------------------------------------------------------------|
| `path`                    | the text                                                                                                |
| `format`                  | as strptime takes it; `%Y-%m-%d` where none is given. The text must be just what strftime writes for it   |
| `after`, `before`         | strictly later, earlier than: a date in that format, or the path of one                                 |
| `not_before`, `not_after` | the same, or that very date                                                                             |

There is no "today": a verdict must be the same tomorrow. Give the day that counts in the document or in the rule.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from prefkit.verify.json_text import shown
from prefkit.verify.paths import MISSING, Path
from prefkit.verify.rules_checks import Check, over_values
from prefkit.verify.rules_terms import Scope, absent, path_of
from prefkit.verify.yaml_lines import Node

_DEFAULT = "%Y-%m-%d"
_LONGEST = 64
_PROBES = (datetime(2024, 2, 29, 13, 45, 59, tzinfo=UTC), datetime(1999, 12, 31, tzinfo=UTC))
_ORDERS: dict[str, tuple[Callable[[datetime, datetime], bool], str]] = {
    "after": (operator.gt, "is not after"),
    "before": (operator.lt, "is not before"),
    "not_before": (operator.ge, "is before"),
    "not_after": (operator.le, "is after"),
}


def compile_date(node: Node) -> Check:
    """Raises PlaceError."""
    fields = node.fields(("path",), ("format", *_ORDERS))
    form = fields["format"].text("a format such as %d.%m.%Y") if "format" in fields else _DEFAULT
    probes = [probe.strftime(form) for probe in _PROBES]
    if probes[0] == probes[1] or not all(read_date(probe, form) for probe in probes):
        raise fields["format"].error(f"{form!r} is no format of dates; one looks like {_DEFAULT}")
    bounds = [(name, _bound(fields[name], form)) for name in _ORDERS if name in fields]

    def say(scope: Scope, value: Any) -> str | None:
        date = read_date(value, form)
        if date is None:
            return f"is no date of the form {form}: {shown(value)}"
        for name, bound in bounds:
            keeps, words = _ORDERS[name]
            where, other = _value(scope, bound)
            limit = other if isinstance(other, datetime) else read_date(other, form)
            if limit is None:
                if absent(other) and scope.optional:
                    continue
                return f"cannot be compared: {where} is {'missing' if absent(other) else f'no date of the form {form}'}"
            if (limit.tzinfo is None) != (date.tzinfo is None) or not keeps(date, limit):
                return f"{shown(value)[1:-1]} {words} {where}"
        return None

    return over_values(path_of(fields["path"]), say)


def read_date(value: Any, form: str) -> datetime | None:
    """The date that a text is in that format, written just so; None for any other value."""
    if not isinstance(value, str) or len(value) > _LONGEST:
        return None
    try:
        date = datetime.strptime(value, form)
        return date if date.strftime(form) == value else None
    except (ValueError, OverflowError, UnicodeError):
        return None


def _bound(node: Node, form: str) -> datetime | Path:
    date = read_date(node.value, form)
    return date if date is not None else path_of(node, many=False)


def _value(scope: Scope, bound: datetime | Path) -> tuple[str, Any]:
    if isinstance(bound, datetime):
        return bound.date().isoformat(), bound
    return next(scope.find(bound), (bound.text, MISSING))
