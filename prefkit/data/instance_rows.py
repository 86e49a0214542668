"""Which rows of a database stay when it is thinned out: what a kept row refers to is always kept.

Rows are numbered 0, 1, … in each table. A row is taken out together with all that refers to it, directly or over others, so references
in circles and to the own table need no rule of their own. Tables take turns, one row each, which leaves parents as well as children
thinner; a row is left in where taking it out would leave any table below its share.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from dataclasses import dataclass, field

Row = tuple[str, int]
"""A table's name and the number of a row in it."""


@dataclass
class Rows:
    """The rows of a database and what refers to what.

    sizes: table -> number of rows. dependents: row -> the rows that refer to it. lost: rows that refer to nothing that is there.
    """

    sizes: dict[str, int]
    dependents: dict[Row, list[Row]] = field(default_factory=dict)
    lost: set[Row] = field(default_factory=set)

    def refer(self, row: Row, target: Row) -> None:
        """Note that `row` refers to `target`."""
        self.dependents.setdefault(target, []).append(row)


def choose(rows: Rows, share: float, seed: int) -> dict[str, list[int]]:
    """table -> the numbers of the rows that stay, ascending: at least `share` of each table's, rounded up, and no more than keys require.

    Rows that refer to nothing are taken out first, whatever the share. The same rows, share and seed give the same choice.
    """
    gone: set[Row] = set()
    for row in sorted(rows.lost):
        gone |= _with_dependents(rows, row, gone, None)
    left = Counter(rows.sizes)
    left.subtract(Counter(table for table, _ in gone))
    # 0.7 of 10 rows is 7.000000000000001 in floating point, which must not be rounded up to 8.
    room = Counter({table: max(0, count - max(1, math.ceil(share * count - 1e-9))) for table, count in left.items()})
    draw = random.Random(f"prefkit instance {seed}")
    queues = {table: draw.sample(range(size), size) for table, size in rows.sizes.items()}
    while queues:
        for table in list(queues):
            queue = queues[table]
            while queue and (table, queue[-1]) in gone:
                queue.pop()
            if not queue or room[table] <= 0:
                del queues[table]
                continue
            taken = _with_dependents(rows, (table, queue.pop()), gone, room)
            gone |= taken
            room.subtract(Counter(name for name, _ in taken))
    return {table: [number for number in range(size) if (table, number) not in gone] for table, size in rows.sizes.items()}


def _with_dependents(rows: Rows, start: Row, gone: set[Row], room: Counter[str] | None) -> set[Row]:
    """The row and all that refers to it and is still there; nothing where a table has not the room for that."""
    found, todo, used = {start}, [start], Counter([start[0]])
    while todo:
        for dependent in rows.dependents.get(todo.pop(), ()):
            if dependent in found or dependent in gone:
                continue
            used[dependent[0]] += 1
            if room is not None and used[dependent[0]] > room[dependent[0]]:
                return set()
            found.add(dependent)
            todo.append(dependent)
    return found if room is None or used[start[0]] <= room[start[0]] else set()
