"""The column map: which of the user's field names holds what prefkit asks for.

question: request.text               # ours: theirs; a dotted path goes into objects, a number into a list
answer: response.choices.0.message.content
thumbs: rating
up: [4, 5]                           # which values of thumbs mean what, where they are not the usual words
down: [1, 2]
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

from prefkit.errors import DataError
from prefkit.names import suggestion

FIELDS = ("id", "database", "question", "answer", "thumbs", "correction", "error", "retry", "retry_of")
"""What a line of a log may hold, by our names. question and answer are needed."""
VALUES = ("up", "down")
UP = (True, 1, "up", "+1", "👍", "yes", "good", "like", "positive", "thumbs_up", "true")
DOWN = (False, -1, "down", "-1", "👎", "no", "bad", "dislike", "negative", "thumbs_down", "false")
NEITHER = (None, "", "none", "null")
_MISSING = object()


class Unknown(ValueError):
    """A value of thumbs that says nothing."""


@dataclass(frozen=True)
class ColumnMap:
    """Our name -> the path of the user's field. up, down: the values of thumbs, where the user names them."""

    paths: Mapping[str, str] = field(default_factory=lambda: {name: name for name in FIELDS})
    up: tuple[Any, ...] = UP
    down: tuple[Any, ...] = DOWN

    def get(self, record: Mapping[str, Any], name: str) -> Any:
        """The value of our field `name` in a line; None where the line has none."""
        path = self.paths.get(name)
        return None if path is None else _at(record, path)

    def thumb(self, value: Any) -> bool | None:
        """Whether a value of thumbs is up; None where it is neither. Unknown for one that is not known."""
        if isinstance(value, str):
            value = value.strip().lower()
        for meaning, values in ((True, self.up), (False, self.down), (None, NEITHER)):
            if any(_same(known, value) for known in values):
                return meaning
        raise Unknown

    def unused(self, record: Mapping[str, Any]) -> Iterable[str]:
        """The user's names at the top of a line that nothing is read from."""
        used = {path for path in self.paths.values()} | {path.partition(".")[0] for path in self.paths.values()}
        return (str(name) for name in record if name not in used)


def _same(known: Any, value: Any) -> bool:
    """Whether two values are the same; true is not 1."""
    return isinstance(known, bool) == isinstance(value, bool) and isinstance(value, bool | int | float | str | None) and known == value


def _at(value: Any, path: str) -> Any:
    if isinstance(value, dict) and path in value:
        return value[path]  # a name that holds a dot
    for part in path.split("."):
        if isinstance(value, dict):
            value = value.get(part, _MISSING)
        elif isinstance(value, list) and part.isascii() and part.isdigit() and int(part[:9]) < len(value):
            value = value[int(part[:9])]
        else:
            return None
        if value is _MISSING:
            return None
    return value


def read_columns(path: Path) -> ColumnMap:
    """The map in a YAML file; fields that it does not name keep our names. DataError with file and line for what cannot be read."""
    from prefkit.verify.yaml_lines import PlaceError, read_yaml

    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error.strerror}): name an existing column map with --columns.") from error
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not UTF-8 text; save the file as UTF-8.") from error
    try:
        root = read_yaml(text, str(path))
        if not isinstance(root.value, dict):
            raise root.error("a column map is a list of `ours: theirs` lines, such as question: request.text")
        paths = {name: name for name in FIELDS}
        values: dict[str, tuple[Any, ...]] = {}
        for name, node in root.value.items():
            if name in VALUES:
                values[name] = tuple(_value(item) for item in node.items("values of thumbs"))
            elif name in FIELDS:
                paths[name] = node.text("the name of your field, such as request.text")
            elif isinstance(node.value, str) and node.value in FIELDS:
                raise node.error(f"a line is `ours: theirs`; write it the other way round: {node.value}: {name}")
            else:
                raise node.error(f"unknown field {name}; {suggestion(name, [*FIELDS, *VALUES])}")
    except PlaceError as error:
        raise DataError(str(error)) from error
    return ColumnMap(paths, values.get("up", UP if "down" not in values else ()), values.get("down", DOWN if "up" not in values else ()))


def _value(node: Any) -> Any:
    if isinstance(node.value, Decimal):
        return float(node.value)
    if isinstance(node.value, dict | list) or node.value is None:
        raise node.error("expected a single value of thumbs")
    return node.value.strip().lower() if isinstance(node.value, str) else node.value
