"""Balanced choices among questions: a fixed part of a split, and the disjoint parts of the training questions.

Everything is a function of the questions and the seed. Whatever the number taken, databases and levels keep the shares that they
have in the whole, to within one question where the data allows it.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from prefkit.errors import DataError
from prefkit.tasks.base import Example
from prefkit.tasks.sql_text import normalised

PARTS = ("references", "own", "calibrate", "readiness")


@dataclass(frozen=True, slots=True)
class Parts:
    """Disjoint parts of the training questions, each in the order of the split.

    references: the gold trains. own, calibrate: the gold only verifies. readiness: asked of the untrained model only.
    wanted: how many were asked for (None: an equal share of the rest). available: how many questions the split has.
    """

    references: tuple[Example, ...]
    own: tuple[Example, ...]
    calibrate: tuple[Example, ...]
    readiness: tuple[Example, ...]
    wanted: dict[str, int | None]
    available: int

    @property
    def counts(self) -> dict[str, int]:
        """How many questions each part got."""
        return {name: len(getattr(self, name)) for name in PARTS}


def subset(examples: Sequence[Example], n: int | None, seed: int) -> list[Example]:
    """`n` of the examples (all, where n is None or larger), balanced over databases and levels, in their original order.

    For one seed a smaller subset is contained in a larger one.
    """
    if n is None or n >= len(examples):
        return list(examples)
    chosen = {example.id for group in balanced_order([(example,) for example in examples], seed)[:n] for example in group}
    return [example for example in examples if example.id in chosen]


def make_parts(examples: Sequence[Example], seed: int, wanted: Mapping[str, int | None]) -> Parts:
    """Disjoint parts of the sizes `wanted`; no gold text stands in two of them, so questions of one gold stay together.

    Counts that exceed what is there are all reduced in proportion. Where whole groups of one gold do not add up to a count, a
    group is cut and its other questions are left out. Raises DataError for a negative count.
    """
    for name, count in wanted.items():
        if count is not None and count < 0:
            raise DataError(f"{count} {name} questions cannot be taken; give 0 or more, or null for a share of all.")
    sizes = _sizes(len(examples), wanted)
    queue = balanced_order(gold_groups(examples), seed)
    taken: dict[str, set[str]] = {}
    for name in PARTS:
        taken[name], queue = _take(queue, sizes[name])
    chosen = {name: tuple(example for example in examples if example.id in ids) for name, ids in taken.items()}
    return Parts(**chosen, wanted={name: wanted.get(name, 0) for name in PARTS}, available=len(examples))


def without_golds(parts: Parts, examples: Sequence[Example]) -> Parts:
    """The parts without questions of `own` and `calibrate` whose gold is also one of `examples`: there a gold only verifies."""
    shown = {(example.database, normalised(gold)) for example in examples for gold in example.golds}
    left = {
        name: tuple(
            example for example in getattr(parts, name) if not any((example.database, normalised(gold)) in shown for gold in example.golds)
        )
        for name in ("own", "calibrate")
    }
    return replace(parts, **left)


def gold_groups(examples: Sequence[Example]) -> list[tuple[Example, ...]]:
    """The examples in groups that share a database and a gold text, directly or over others."""
    group_of: dict[tuple[str, str], list[Example]] = {}
    for example in examples:
        keys = [(example.database, normalised(gold)) for gold in example.golds]
        met = {id(group_of[key]): group_of[key] for key in keys if key in group_of}
        group = [member for other in met.values() for member in other] + [example]
        keys += [(member.database, normalised(gold)) for member in group for gold in member.golds]
        group_of.update(dict.fromkeys(keys, group))
    return [tuple(group) for group in {id(group): group for group in group_of.values()}.values()]


def balanced_order(groups: Iterable[tuple[Example, ...]], seed: int) -> list[tuple[Example, ...]]:
    """The groups in an order whose every beginning has the databases and levels in about the shares of the whole.

    At each step the next group comes from the cell (database, level) that is furthest behind its share, counting the cell, its
    database and its level; the order within a cell, and among equals, is drawn with the seed.
    """
    draw = random.Random(f"prefkit parts {seed}")
    cells: dict[tuple[str, int], list[tuple[Example, ...]]] = {}
    for group in groups:
        cells.setdefault((group[0].database, group[0].level), []).append(group)
    for cell in cells.values():
        draw.shuffle(cell)
    names = list(cells)
    draw.shuffle(names)
    total, taken, done = Counter[object](), Counter[object](), 0
    for (database, level), cell in cells.items():
        size = sum(map(len, cell))
        for key in ((database, level), database, level, None):
            total[key] += size
    order: list[tuple[Example, ...]] = []
    while names:
        share = (done + 1) / total[None]
        name = max(names, key=lambda cell: sum(share * total[key] - taken[key] for key in (cell, *cell)))
        group = cells[name].pop()
        for key in (name, *name):
            taken[key] += len(group)
        done += len(group)
        order.append(group)
        if not cells[name]:
            names.remove(name)
    return order


def _sizes(available: int, wanted: Mapping[str, int | None]) -> dict[str, int]:
    """How many questions each part gets: what was asked for, less where there are fewer, and equal shares of the rest for None."""
    counts = {name: count for name in PARTS if (count := wanted.get(name, 0)) is not None}
    asked = sum(counts.values())
    if asked > available:
        counts = {name: count * available // asked for name, count in counts.items()}
    rest = [name for name in PARTS if name not in counts]
    left = available - sum(counts.values())
    for index, name in enumerate(rest):
        counts[name] = left // len(rest) + (index < left % len(rest))
    return counts


def _take(queue: list[tuple[Example, ...]], size: int) -> tuple[set[str], list[tuple[Example, ...]]]:
    """Ids of `size` examples from the front of the queue, and the groups that are left."""
    ids: set[str] = set()
    left: list[tuple[Example, ...]] = []
    for group in queue:
        if len(ids) + len(group) <= size:
            ids.update(example.id for example in group)
        else:
            left.append(group)
    if len(ids) < size and left:
        cut = left.pop(0)
        ids.update(example.id for example in cut[: size - len(ids)])
    return ids, left
