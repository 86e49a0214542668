"""Fields that lines of `prefkit verify` have in common. Each raises ValueError that says what was expected."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from prefkit.verify.json_text import shown
from prefkit.verify.verifier import Source

COMMON = ("id", "verifier", "answer", "timeout")
"""Fields of every line."""
_MAX_TIMEOUT_S = 600.0
_SHORTEST_NAME = 4


def must(line: dict[str, Any], name: str, be: str) -> ValueError:
    """The error that says what a field must be, and what it is. `be`: "text", "a list of up to 3 numbers"."""
    return ValueError(f'"{name}" must be {be}{is_not(line[name]) if name in line else "; it is missing"}')


def is_not(value: Any) -> str:
    """The end of such a sentence: `, not 3`."""
    return f", not {shown(value)}"


def refuse_misspelt(line: dict[str, Any], known: Iterable[str]) -> None:
    """Raise ValueError where a field is almost one of those `known`, which the line does not have: a setting that would be passed over.

    Any other field is the user's own (a source, a level, a note), and is.
    """
    missing = [name for name in known if name not in line and len(name) >= _SHORTEST_NAME]
    for given in line:
        near = next((name for name in missing if given not in known and _almost(given, name)), None)
        if near is not None:
            raise ValueError(f'unknown field "{given}"; did you mean "{near}"? (give a field of your own another name)')


def _almost(given: str, name: str) -> bool:
    """One letter too many, too few, wrong, or two letters changed over: two such mistakes in a long name."""
    from rapidfuzz.distance import OSA

    return OSA.distance(given.lower(), name, score_cutoff=3) <= (1 if len(name) < 8 else 2)


def texts(line: dict[str, Any], name: str) -> tuple[str, ...]:
    """One text or a list of them. Raises ValueError for anything else."""
    value = line.get(name)
    values = [value] if isinstance(value, str) else value
    if not isinstance(values, list) or not values:
        raise must(line, name, "text or a list of texts, and not empty")
    for number, item in enumerate(values, 1):
        if not isinstance(item, str) or not item.strip():
            which = f"item {number} is" if isinstance(value, list) else "it is"
            raise ValueError(f'"{name}" must be text or a list of texts, and not empty; {which} {shown(item)}')
    return tuple(values)


def timeout_of(line: dict[str, Any], source: Source) -> float:
    """The line's own time limit in seconds, or the source's. Raises ValueError where it is none."""
    timeout = line.get("timeout", source.timeout_s)
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not (math.isfinite(timeout) and 0 < timeout <= _MAX_TIMEOUT_S):
        raise must(line, "timeout", f"a number of seconds above 0 and up to {_MAX_TIMEOUT_S:g}")
    return float(timeout)


def beside(source: Source, name: str) -> str:
    """A relative path: beside the line's file where it is there, else in the current folder."""
    path = source.folder / name
    try:
        return str(path) if path.exists() else name
    except (OSError, ValueError):  # too long, or a null character
        return name
