"""What an audit found: each disagreement, how much was looked at, and what was not."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

LONGEST = 160
"""Characters of a value that a disagreement shows."""
Problem = tuple[str, Any, Any]
"""(what it is about, what is written, what was found)"""


@dataclass(frozen=True, slots=True)
class Finding:
    """One disagreement.

    group: what was checked, such as "verdicts". file: in the run folder. row: the id of the row or the name of the figure. what: the
    column, or what the disagreement is about. near_limit: a time-out, a limit or a lost worker is part of it; it stood after a second
    execution, alone.
    """

    group: str
    file: str
    row: str
    what: str
    written: Any
    found: Any
    near_limit: bool = False

    def line(self) -> str:
        """The finding on one line, for a person."""
        written, found = differing(self.written, self.found)
        where = f"{self.file}, {self.row}" if self.row else self.file
        return f"{where}: {self.what}: written {written}, found {found}"

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON; long texts are cut to where they differ."""
        written, found = differing(self.written, self.found)
        return {
            "group": self.group, "file": self.file, "row": self.row, "what": self.what, "written": written, "found": found,
            "near_limit": self.near_limit,
        }  # fmt: skip


class Findings:
    """What an audit collects. checked: rows or figures by group. not_checked: reason -> how many (0: not a matter of numbers).

    steadied: verdicts near a time limit that agreed when they were run again alone.
    """

    def __init__(self) -> None:
        self.disagreements: list[Finding] = []
        self.checked: Counter[str] = Counter()
        self._faulty: dict[str, set[tuple[str, str]]] = {}
        self.not_checked: dict[str, int] = {}
        self.steadied: list[Finding] = []

    def row(self, group: str, file: str, row: str, problems: Iterable[Problem], near_limit: bool = False) -> bool:
        """Count one row, with every problem of it. Returns whether it agrees."""
        self.checked[group] += 1
        agrees = True
        for problem in problems:
            self.add(group, file, row, problem, near_limit)
            agrees = False
        return agrees

    def add(self, group: str, file: str, row: str, problem: Problem, near_limit: bool = False) -> None:
        """A disagreement about a row that is counted elsewhere."""
        self._faulty.setdefault(group, set()).add((file, row))
        self.disagreements.append(Finding(group, file, row, *problem, near_limit))

    def agreeing(self, group: str) -> int:
        """How many of the rows or figures that were checked agree."""
        return max(0, self.checked[group] - len(self._faulty.get(group, ())))

    def skip(self, reason: str, count: int = 0) -> None:
        """Something that was not checked, and why."""
        self.not_checked[reason] = self.not_checked.get(reason, 0) + count

    def figures(self, file: str, written: Any, found: Any, prefix: str = "", row: str = "") -> None:
        """Compare what is written with what was found again, figure by figure. A key that `found` lacks is not compared."""
        for name, old, new in _leaves(written, found, prefix):
            self.row("figures", file, row or name, [] if same(old, new) else [(name if row else "figure", old, new)])

    def take(self, other: Findings, folder: str) -> None:
        """Add what was found in a folder inside the run."""
        named = [replace(found, file=f"{folder}/{found.file}") for found in other.disagreements]
        self.disagreements += named
        self.steadied += [replace(found, file=f"{folder}/{found.file}") for found in other.steadied]
        self.checked.update(other.checked)
        for group, those in other._faulty.items():
            self._faulty.setdefault(group, set()).update((f"{folder}/{file}", row) for file, row in those)
        for reason, count in other.not_checked.items():
            self.skip(f"{folder}: {reason}" if reason not in self.not_checked else reason, count)

    @property
    def agrees(self) -> bool:
        return not self.disagreements


class Absent:
    """Stands for a value that is not there."""

    def __repr__(self) -> str:
        return "nothing"


ABSENT = Absent()


def _leaves(written: Any, found: Any, path: str) -> Iterable[tuple[str, Any, Any]]:
    if isinstance(found, dict) and isinstance(written, dict) and found:
        for key, value in found.items():
            yield from _leaves(written.get(key, ABSENT), value, f"{path}.{key}" if path else str(key))
    elif isinstance(found, list) and isinstance(written, list) and len(found) == len(written) and found:
        for number, (old, new) in enumerate(zip(written, found, strict=True)):
            yield from _leaves(old, new, f"{path}[{number}]")
    else:
        yield path, written, found


def extra(written: Any, found: Any, path: str = "") -> Iterable[str]:
    """The keys that only `written` has."""
    if isinstance(found, dict) and isinstance(written, dict):
        for key, value in written.items():
            name = f"{path}.{key}" if path else str(key)
            yield from [name] if key not in found else extra(value, found[key], name)


def same(written: Any, found: Any) -> bool:
    """Equal; numbers to within what another processor rounds differently."""
    if isinstance(written, bool) or isinstance(found, bool):
        return written is found
    if isinstance(written, int | float) and isinstance(found, int | float):
        return written == found or math.isclose(written, found, rel_tol=1e-9, abs_tol=1e-12)
    return type(written) is type(found) and written == found


def differing(written: Any, found: Any) -> tuple[str, str]:
    """Both as text, cut to the place where they begin to differ."""
    texts = [_text(written), _text(found)]
    if all(len(text) <= LONGEST for text in texts):
        return texts[0], texts[1]
    start = next((n for n, (a, b) in enumerate(zip(*texts, strict=False)) if a != b), min(map(len, texts)))
    begin = max(0, start - LONGEST // 3)
    return tuple(_cut(text, begin) for text in texts)  # type: ignore[return-value]


def _cut(text: str, begin: int) -> str:
    part = text[begin : begin + LONGEST]
    return ("…" if begin else "") + part + ("…" if begin + LONGEST < len(text) else "")


def _text(value: Any) -> str:
    if isinstance(value, Absent):
        return repr(value)
    if value is None or isinstance(value, bool | int | float):
        return json.dumps(value)
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    return json.dumps(value, ensure_ascii=False, default=str)


def listed(names: Sequence[str], most: int = 6) -> str:
    """Names in a row, the rest counted."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
