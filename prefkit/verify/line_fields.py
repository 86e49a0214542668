"""Fields that lines of `prefkit verify` have in common. Each raises ValueError that says what was expected."""

from __future__ import annotations

import math
from typing import Any

from prefkit.verify.verifier import Source

_MAX_TIMEOUT_S = 600.0


def texts(line: dict[str, Any], name: str) -> tuple[str, ...]:
    """One text or a list of them. Raises ValueError for anything else."""
    value = line.get(name)
    values = [value] if isinstance(value, str) else value
    if not isinstance(values, list) or not values or not all(isinstance(item, str) and item.strip() for item in values):
        raise ValueError(f'"{name}" must be text or a list of texts, and not empty')
    return tuple(values)


def timeout_of(line: dict[str, Any], source: Source) -> float:
    """The line's own time limit in seconds, or the source's. Raises ValueError where it is none."""
    timeout = line.get("timeout", source.timeout_s)
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not (math.isfinite(timeout) and 0 < timeout <= _MAX_TIMEOUT_S):
        raise ValueError(f'"timeout" must be a number of seconds above 0 and up to {_MAX_TIMEOUT_S:g}')
    return float(timeout)


def beside(source: Source, name: str) -> str:
    """A relative path: beside the line's file where it is there, else in the current folder."""
    path = source.folder / name
    try:
        return str(path) if path.exists() else name
    except (OSError, ValueError):  # too long, or a null character
        return name
