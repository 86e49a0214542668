"""Compare what a program printed with what was expected.

| mode      | rule                                                                                                           |
|-----------|----------------------------------------------------------------------------------------------------------------|
| default   | white space at the ends of lines (with it \\r) and blank lines at the end do not count; all else does          |
| exact     | every character counts                                                                                         |
| tolerance | as by default, but lines are compared word by word, and words that are both numbers agree within the tolerance |
"""

from __future__ import annotations

import math
import re

from prefkit.verify.values_compare import Tolerance

VERSION = "output/1"
_NUMBER = re.compile(r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?", re.ASCII)


def difference(expected: str, got: str, exact: bool = False, tolerance: Tolerance | None = None) -> str | None:
    """None where the output agrees, else in uniform words what is wrong. Time is linear in both."""
    if expected == got:
        return None
    if exact:
        return "wrong output" if lines_of(expected) != lines_of(got) else "wrong white space"
    wanted, lines = lines_of(expected), lines_of(got)
    if wanted == lines:
        return None
    if not lines:
        return "no output"
    if len(wanted) != len(lines):
        return "wrong number of lines"
    if tolerance is not None and all(_same_words(a.split(), b.split(), tolerance) for a, b in zip(wanted, lines, strict=True)):
        return None
    return "wrong output"


def lines_of(text: str) -> list[str]:
    """Lines without white space at their ends, without blank ones at the end of the text."""
    lines = [line.rstrip() for line in text.split("\n")]
    while lines and not lines[-1]:
        lines.pop()
    return lines


def _same_words(a: list[str], b: list[str], tolerance: Tolerance) -> bool:
    return len(a) == len(b) and all(x == y or _same_number(x, y, tolerance) for x, y in zip(a, b, strict=True))


def _same_number(a: str, b: str, tolerance: Tolerance) -> bool:
    if not (_NUMBER.fullmatch(a) and _NUMBER.fullmatch(b)):
        return False
    x, y = float(a), float(b)
    if math.isinf(x) or math.isinf(y):
        return False
    return abs(x - y) <= max(tolerance.relative * max(abs(x), abs(y)), tolerance.absolute)
