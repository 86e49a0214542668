"""sql-compare/1: whether the result of a query is the gold's.

| what              | rule                                                                                                            |
|-------------------|-----------------------------------------------------------------------------------------------------------------|
| rows              | a bag: every row as often as in the gold; DISTINCT is not stripped                                                |
| order             | only where the gold has a top-level ORDER BY; rows with equal sort keys may then stand in any order among them     |
| columns           | in order, names free; with columns="any_order" some order of the columns must do for all rows                     |
| integers          | exact; equal to a float of the same value                                                                         |
| floats            | equal within 1e-6 of the larger or 1e-9, whichever is more                                                        |
| text, blobs       | exact, case counts; text is not a number, a blob is not text                                                      |
| NULL              | equal to NULL alone                                                                                               |

Floats in a bag. Rows that are equal exactly are taken away first. Of the rest, each column's floats of both sides are sorted together and
split where two neighbours differ by more than the tolerance; all floats between two splits get one number. Rows are sorted by those numbers
(and exact values elsewhere) and paired in order, and each pair must agree within the tolerance in every column. So there is no
rounding edge: values within the tolerance always get the same number, wherever they lie. Where many values lie so dense that their
chain is longer than the tolerance (0.9999995, 1, 1.0000005, …), rows inside it are paired by their values at twelve digits, then by the
exact ones. Such a pairing can miss one that would have agreed, never accept one that does not: every pair is checked.

Time is O(n log n) in the rows; no search over permutations of rows.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, permutations, product

VERSION = "sql-compare/1"
RELATIVE, ABSOLUTE = 1e-6, 1e-9
_MAX_ARRANGEMENTS = 24

Row = tuple
"""Values of SQLite: int, float, str, bytes, None."""


@dataclass(frozen=True, slots=True)
class Expected:
    """A gold's result on one data instance.

    ties: None where order does not count; else the lengths of the runs of rows with equal sort keys, in order.
    """

    width: int
    rows: list[Row]
    ties: tuple[int, ...] | None = None


def difference(expected: Expected, width: int, rows: list[Row], columns: str = "in_order") -> str | None:
    """What is wrong with a result, in a few uniform words, or None where it is the gold's. `width` is its number of columns."""
    if width != expected.width:
        return f"wrong number of columns: {width}, expected {expected.width}"
    if len(rows) != len(expected.rows):
        return "no rows" if not rows else f"wrong number of rows: {len(rows)}, expected {len(expected.rows)}"
    if columns == "any_order":
        found = "wrong rows"
        for order in islice(_arrangements(expected.rows, rows, width), _MAX_ARRANGEMENTS):
            arranged = [tuple(row[i] for i in order) for row in rows]
            now = _rows_difference(expected, arranged)
            if now is None:
                return None
            found = "wrong order" if now == "wrong order" else found
        return found
    return _rows_difference(expected, rows)


def _rows_difference(expected: Expected, rows: list[Row]) -> str | None:
    if rows == expected.rows:
        return None
    if not same_bag(expected.rows, rows):
        return "wrong rows"
    if expected.ties is None:
        return None
    start = 0
    for length in expected.ties:
        if not same_bag(expected.rows[start : start + length], rows[start : start + length]):
            return "wrong order"
        start += length
    return None


def same_value(a: object, b: object) -> bool:
    """Whether two values of SQLite are the same under the rules above."""
    if a == b:
        return True
    kinds = {type(a), type(b)}
    if float not in kinds or not kinds <= {int, float}:
        return False
    return math.isclose(a, b, rel_tol=RELATIVE, abs_tol=ABSOLUTE)  # type: ignore[arg-type]


def same_bag(a: Sequence[Row], b: Sequence[Row]) -> bool:
    """Whether two sequences of rows are the same bag. O(n log n)."""
    if len(a) != len(b):
        return False
    if len(a) == 1:
        return _same_row(a[0], b[0])
    left, right = Counter(a), Counter(b)
    if left == right:
        return True
    rest_a, rest_b = list((left - right).elements()), list((right - left).elements())
    inexact = [i for i in range(len(rest_a[0])) if any(type(row[i]) is float for rows in (rest_a, rest_b) for row in rows)]
    if not inexact:
        return False
    chains = {i: _chains([row[i] for rows in (rest_a, rest_b) for row in rows]) for i in inexact}
    rest_a.sort(key=lambda row: _sort_key(row, chains))
    rest_b.sort(key=lambda row: _sort_key(row, chains))
    return all(map(_same_row, rest_a, rest_b))


def _same_row(a: Row, b: Row) -> bool:
    return len(a) == len(b) and all(map(same_value, a, b))


def _chains(values: list[object]) -> dict[float, int]:
    """A number for each numeric value: values joined by steps within the tolerance get the same one."""
    numbers: dict[float, int] = {}
    number, before = 0, None
    for value in sorted({value for value in values if isinstance(value, (int, float))}):
        if before is not None and not math.isclose(before, value, rel_tol=RELATIVE, abs_tol=ABSOLUTE):
            number += 1
        numbers[value] = number
        before = value
    return numbers


def _sort_key(row: Row, chains: dict[int, dict[float, int]]) -> tuple:
    """Chain numbers and exact values first, then the floats at twelve digits, then as they are."""
    first, second, third = [], [], []
    for i, value in enumerate(row):
        if i in chains and isinstance(value, (int, float)):
            first.append((1, chains[i][value]))
            second.append(float(f"{value:.12g}"))
            third.append(value)
        else:
            first.append(_exact_key(value))
    return first, second, third  # type: ignore[return-value]


def _exact_key(value: object) -> tuple:
    """Sortable among all values of SQLite: NULL, numbers, text, blobs."""
    if value is None:
        return (0,)
    return (1 if isinstance(value, (int, float)) else 2 if isinstance(value, str) else 3, value)


def _arrangements(expected: list[Row], rows: list[Row], width: int) -> Iterator[tuple[int, ...]]:
    """Orders of the result's columns in which each column holds the values of the gold's, as bags.

    Columns are grouped by their sorted values first, so that a search remains only among columns that hold the same values.
    """
    wanted = [[(row[i],) for row in expected] for i in range(width)]
    had = [[(row[i],) for row in rows] for i in range(width)]
    groups: list[tuple[list[int], list[int]]] = []
    left = list(range(width))
    for target in range(width):
        group = next((group for group in groups if same_bag(wanted[group[0][0]], wanted[target])), None)
        if group is not None:
            group[0].append(target)
            continue
        sources = [source for source in left if same_bag(wanted[target], had[source])]
        left = [source for source in left if source not in sources]
        groups.append(([target], sources))
    if any(len(targets) != len(sources) for targets, sources in groups):
        return
    for choice in product(*(permutations(sources) for _, sources in groups)):
        order = [0] * width
        for (targets, _), sources in zip(groups, choice, strict=True):
            for target, source in zip(targets, sources, strict=True):
                order[target] = source
        yield tuple(order)
