"""Are the calls of an answer those of an accepted list, and if not, where do they differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from prefkit.verify.calls import Call
from prefkit.verify.json_text import canonical, shown

_ARRANGED = 50
"""Most calls that are paired up to say what differs; whether they differ is decided for any number."""


def same_calls(wanted: Sequence[Call], calls: Sequence[Call], ordered: bool) -> bool:
    """Whether there is a one-to-one matching of equal calls; with `ordered`, the one that keeps the order.

    Equality of calls is transitive (names as text, numbers by value), so that a matching is there exactly where both hold each call equally
    often: time is linear.
    """
    first, second = [_key(call) for call in wanted], [_key(call) for call in calls]
    return first == second if ordered else Counter(first) == Counter(second)


def difference(wanted: Sequence[Call], calls: Sequence[Call], ordered: bool) -> tuple[int, str] | None:
    """(how far it agrees, what is wrong first) in uniform words, None where the calls are the wanted ones."""
    if same_calls(wanted, calls, ordered):
        return None
    if not calls:
        return 0, "no tool call in the answer"
    if not wanted:
        return 0, "a tool is called where none should be"
    if len(calls) != len(wanted):
        return 1, f"wrong number of calls: {len(calls)}, expected {len(wanted)}"
    if ordered and same_calls(wanted, calls, ordered=False):
        return 4, "wrong order of calls"
    left = list((Counter(map(_key, calls)) - Counter(map(_key, wanted))).elements())
    missing = list((Counter(map(_key, wanted)) - Counter(map(_key, calls))).elements())
    extra = Counter(name for name, _ in left) - Counter(name for name, _ in missing)
    if extra:
        return 2, f"wrong tool: {shown(min(extra))}"
    name, arguments = min(left, key=lambda key: key[0])
    others = [dict(other[1]) for other_name, other in missing if other_name == name][:_ARRANGED]
    given = dict(arguments[1])
    closest = min((_different(other, given) for other in others), key=lambda keys: (len(keys), keys))
    return 3, f"wrong argument of {shown(name)}: {shown(closest[0])}"


def _key(call: Call) -> tuple[str, Any]:
    return call.name, canonical(call.arguments)


def _different(wanted: dict[str, Any], given: dict[str, Any]) -> list[str]:
    return sorted(key for key in wanted.keys() | given.keys() if key not in wanted or key not in given or wanted[key] != given[key])
