"""Is the state at the end the wanted one, given the state at the start.

| the wanted end says                  | the end must have                                                                             |
|--------------------------------------|-----------------------------------------------------------------------------------------------|
| a value                              | that value: numbers by value, true is not 1, text exactly                                     |
| an object                            | its keys, each as wanted                                                                      |
| nothing of a key that the start has  | that key, unchanged: what nobody asked for must not happen                                    |
| nothing of a key that is new         | no such key in an object that the start has; in an object that is new itself, it does not matter |
| a list                               | as many items, matched one to one in any order (in order with `ordered`)                       |
| an item of a list                    | as an object; the start's item with the same `id` is what it was before                        |
| `{"$absent": true}`                  | no such key                                                                                   |

What `ignore` leads to (see paths.py) is taken out of all three first, and so does not matter wherever it stands.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from prefkit.verify.budget import Budget
from prefkit.verify.json_text import canonical
from prefkit.verify.paths import MISSING, Path, joined, without

_ABSENT = {"$absent": True}


@dataclass(frozen=True, slots=True)
class _Rules:
    ordered: bool
    budget: Budget


def state_difference(start: Any, wanted: Any, end: Any, ignore: Sequence[Path], ordered: bool, budget: Budget) -> str | None:
    """Where the end is first not as wanted, None where it is. Raises BudgetSpent.

    >>> start = {"orders": {"17": {"status": "paid", "total": 5}}}
    >>> end = {"orders": {"17": {"status": "refunded", "total": 5}}}
    >>> state_difference(start, {"orders": {"17": {"status": "refunded"}}}, end, (), False, Budget(1000, 1.0))
    >>> state_difference(start, {}, end, (), False, Budget(1000, 1.0))
    'orders.17.status'
    """
    paths = list(ignore)
    return _difference(without(start, paths), without(wanted, paths), without(end, paths), "", _Rules(ordered, budget))


def _difference(start: Any, wanted: Any, end: Any, where: str, rules: _Rules) -> str | None:
    rules.budget.spend()
    if isinstance(wanted, dict) and isinstance(end, dict):
        return _object_difference(start, wanted, end, where, rules)
    if isinstance(wanted, list) and isinstance(end, list):
        return _list_difference(start, wanted, end, where, rules)
    return None if canonical(wanted) == canonical(end) else where or "$"


def _object_difference(start: Any, wanted: dict[str, Any], end: dict[str, Any], where: str, rules: _Rules) -> str | None:
    before = start if isinstance(start, dict) else {}
    for key, value in wanted.items():
        place = joined(where, key)
        if value == _ABSENT:
            found = place if key in end else None
        else:
            found = place if key not in end else _difference(before.get(key, MISSING), value, end[key], place, rules)
        if found is not None:
            return found
    if not isinstance(start, dict):
        return None
    for key in sorted((before.keys() | end.keys()) - wanted.keys()):
        rules.budget.spend()
        if key not in before or key not in end:
            return joined(where, key)
        if (found := _changed(before[key], end[key], joined(where, key), rules)) is not None:
            return found
    return None


def _changed(before: Any, after: Any, where: str, rules: _Rules) -> str | None:
    """The deepest single place where two values differ."""
    rules.budget.spend()
    if isinstance(before, dict) and isinstance(after, dict):
        for key in sorted(before.keys() | after.keys()):
            if key not in before or key not in after:
                return joined(where, key)
            if (found := _changed(before[key], after[key], joined(where, key), rules)) is not None:
                return found
        return None
    return None if canonical(before) == canonical(after) else where


def _list_difference(start: Any, wanted: list[Any], end: list[Any], where: str, rules: _Rules) -> str | None:
    if len(wanted) != len(end):
        return where or "$"
    before = {canonical(item["id"]): item for item in start if isinstance(item, dict) and "id" in item} if isinstance(start, list) else {}

    def earlier(item: Any) -> Any:
        return before.get(canonical(item["id"]), MISSING) if isinstance(item, dict) and "id" in item else MISSING

    if rules.ordered:
        pairs = zip(wanted, end, strict=True)
        found = (_difference(earlier(item), want, item, joined(where, i), rules) for i, (want, item) in enumerate(pairs))
        return next((place for place in found if place is not None), None)
    # What is the same on both sides and says all there is to say is taken out first: a matching without it is there if one is.
    same = Counter(map(canonical, wanted)) & Counter(map(canonical, end))
    left, given = _rest(wanted, same), _rest(end, same)
    fits = [[_difference(earlier(item), want, item, where, rules) is None for item in given] for want in left]
    return None if perfect_matching(fits) else where or "$"


def _rest(items: list[Any], taken: Counter) -> list[Any]:
    left = Counter(taken)
    rest = []
    for item in items:
        key = canonical(item)
        left[key] -= 1
        if left[key] < 0:
            rest.append(item)
    return rest


def perfect_matching(fits: list[list[bool]]) -> bool:
    """Whether each row can have a column of its own among those that fit it. Hopcroft and Karp's algorithm, by scipy."""
    if not fits:
        return True
    if not all(map(any, fits)):
        return False
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import maximum_bipartite_matching

    return bool((maximum_bipartite_matching(csr_matrix(fits, dtype=bool), perm_type="column") >= 0).all())
