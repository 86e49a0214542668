"""Paths into a JSON document: `total`, `items[*].price`, `orders.*.status`, `$` for the whole of it.

| step                    | leads to                                                  |
|-------------------------|-----------------------------------------------------------|
| `name`                  | that key of an object: letters, digits, `_` and `-`       |
| `["any text"]`          | that key, whatever stands in it                           |
| `[0]`, `[-1]`           | that item of a list, from the front or the back           |
| `[*]`                   | every item of a list                                      |
| `*`                     | every item of a list, or every value of an object         |
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

_STEP = re.compile(r'\.?(?:(?P<name>[\w-]+)|(?P<star>\*))|\[(?:(?P<index>-?\d{1,9})|(?P<all>\*)|(?P<text>"(?:[^"\\]|\\.)*"))\]')


class Missing:
    """What a path finds where there is nothing."""

    def __repr__(self) -> str:
        return "MISSING"


MISSING = Missing()


class Every:
    """The step to every item of a list, and to every value of an object too unless it is for lists alone."""

    def __init__(self, kinds: tuple[type, ...], written: str) -> None:
        self.kinds = kinds
        self.written = written


ITEMS, VALUES = Every((list,), "[*]"), Every((list, dict), ".*")


@dataclass(frozen=True, slots=True)
class Path:
    """A path, read. text: as it was written. steps: a key, an index, ITEMS or VALUES each. root: it begins with `$`."""

    text: str
    steps: tuple[str | int | Every, ...]
    root: bool = False

    @property
    def many(self) -> bool:
        """Whether it may lead to several places."""
        return any(isinstance(step, Every) for step in self.steps)

    def find(self, document: Any, begin: str = "") -> Iterator[tuple[str, Any]]:
        """(where, value) of each place it leads to, MISSING as the value where there is nothing; nothing for every item of no items.

        Where the list or object is not there of which every item was asked for, `where` ends in `[*]` or `.*`.
        begin: where the document stands in a larger one.
        """
        return _find(self.steps, document, begin)


def read_path(text: str) -> Path:
    """Raises ValueError where the text is no path.

    >>> list(read_path("items[*].price").find({"items": [{"price": 2}, {}]}))
    [('items[0].price', 2), ('items[1].price', MISSING)]
    """
    rest = text.strip()
    root = rest == "$" or rest.startswith(("$.", "$["))
    position = 1 if root else 0
    steps: list[str | int | Every] = []
    while position < len(rest):
        step = _STEP.match(rest, position)
        dotted = rest[position] == "."
        if step is None or dotted != bool(position and step[0][0] != "[") or (dotted and position == 0):
            raise ValueError(f"{text!r} is no path; paths look like total, items[*].price, items[0].name")
        if step["name"] is not None:
            steps.append(step["name"])
        elif step["index"] is not None:
            steps.append(int(step["index"]))
        elif step["text"] is not None:
            steps.append(json.loads(step["text"]))
        else:
            steps.append(ITEMS if step["all"] else VALUES)
        position = step.end()
    if not steps and not root:
        raise ValueError("a path is empty; the whole document is $")
    return Path(rest, tuple(steps), root)


def without(document: Any, paths: list[Path]) -> Any:
    """A copy of the document without what the paths lead to."""
    for path in paths:
        document = _without(path.steps, document)
    return document


def joined(begin: str, step: str | int) -> str:
    """The place of a step below another place."""
    if isinstance(step, int):
        return f"{begin}[{step}]"
    name = step if re.fullmatch(r"[\w-]{1,60}", step) else f"[{json.dumps(step[:60])}]"
    return name if not begin else f"{begin}{name}" if name.startswith("[") else f"{begin}.{name}"


def _find(steps: tuple[str | int | Every, ...], value: Any, where: str) -> Iterator[tuple[str, Any]]:
    for i, step in enumerate(steps):
        if isinstance(step, Every):
            if not isinstance(value, step.kinds):
                yield f"{where}{step.written}", MISSING
                return
            for key, item in enumerate(value) if isinstance(value, list) else value.items():
                yield from _find(steps[i + 1 :], item, joined(where, key))
            return
        where = joined(where, step)
        if isinstance(step, str):
            value = value.get(step, MISSING) if isinstance(value, dict) else MISSING
        else:
            value = value[step] if isinstance(value, list) and -len(value) <= step < len(value) else MISSING
        if value is MISSING:
            many = next((later.written for later in steps[i + 1 :] if isinstance(later, Every)), "")
            yield where + many, MISSING
            return
    yield where, value


def _without(steps: tuple[str | int | Every, ...], value: Any) -> Any:
    if not steps:
        return value
    step, rest = steps[0], steps[1:]
    if isinstance(value, dict) and not isinstance(step, int):
        hit = {step} if isinstance(step, str) else value.keys() if dict in step.kinds else set()
        return {key: _without(rest, item) if key in hit else item for key, item in value.items() if rest or key not in hit}
    if isinstance(value, list) and not isinstance(step, str):
        every = isinstance(step, Every)
        index = step + len(value) if isinstance(step, int) and step < 0 else step
        return [_without(rest, item) if every or i == index else item for i, item in enumerate(value) if rest or not (every or i == index)]
    return value
