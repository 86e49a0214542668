"""YAML that remembers its lines, for files of which every mistake is to be named with its place.

Plain scalars are YAML 1.2's: null, true, false, integers and decimal numbers (as Decimal). Everything else is text, and so is all that is
quoted, and what YAML 1.1 takes for dates, times or switches: 2024-01-31, 12:30, no.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import yaml

_INTEGER = re.compile(r"[-+]?[0-9]{1,400}")
_DECIMAL = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]{1,3})?")
_TAGS = {f"tag:yaml.org,2002:{name}" for name in ("map", "seq", "str")}
_WORDS = {"null": None, "true": True, "false": False}
_CONSTANTS = {"": None, "~": None} | {form(word): value for word, value in _WORDS.items() for form in (str, str.upper, str.capitalize)}


class PlaceError(ValueError):
    """What is wrong in a file: the message begins with `file:line: `."""


@dataclass(frozen=True, slots=True)
class Node:
    """A value of a YAML file and where it stands. value: dict of Nodes, list of Nodes, text, int, Decimal, bool or None."""

    value: Any
    file: str
    line: int

    def error(self, message: str) -> PlaceError:
        """The error to raise for this place."""
        return PlaceError(f"{self.file}:{self.line}: {message}")

    def plain(self) -> Any:
        """The value without places."""
        if isinstance(self.value, dict):
            return {key: node.plain() for key, node in self.value.items()}
        return [node.plain() for node in self.value] if isinstance(self.value, list) else self.value

    def fields(self, needed: Collection[str] = (), optional: Collection[str] = ()) -> dict[str, Node]:
        """The keys of a group. Raises PlaceError for what is no group, a key that is not known and one that is missing."""
        if not isinstance(self.value, dict):
            raise self.error(f"expected a group with {', '.join([*needed, *optional])}")
        for key, node in self.value.items():
            if key not in needed and key not in optional:
                raise node.error(f"unknown key {key}; there is: {', '.join([*needed, *optional])}")
        for key in needed:
            if key not in self.value:
                raise self.error(f"{key} is missing")
        return self.value

    def items(self, what: str) -> list[Node]:
        """The items of a list that is not empty. Raises PlaceError."""
        if not isinstance(self.value, list) or not self.value:
            raise self.error(f"expected a list of {what}, and not empty")
        return self.value

    def text(self, what: str) -> str:
        """Raises PlaceError for what is no text, or empty."""
        if not isinstance(self.value, str) or not self.value.strip():
            raise self.error(f"expected {what}")
        return self.value

    def number(self, what: str, least: int | None = None) -> int | Decimal:
        """Raises PlaceError for what is no number, or less than `least`."""
        if isinstance(self.value, bool) or not isinstance(self.value, int | Decimal) or (least is not None and self.value < least):
            raise self.error(f"expected {what}" + (f", {least} or more" if least is not None else ""))
        return self.value

    def flag(self) -> bool:
        """Raises PlaceError for what is neither true nor false."""
        if not isinstance(self.value, bool):
            raise self.error("expected true or false")
        return self.value

    def choice(self, known: Collection[str]) -> str:
        """Raises PlaceError for what is none of them."""
        if not isinstance(self.value, str) or self.value not in known:
            raise self.error(f"expected one of {', '.join(known)}")
        return self.value


def read_yaml(text: str, file: str) -> Node:
    """Raises PlaceError for text that is no YAML, for a key given twice, and for tags."""
    try:
        node = yaml.compose(text, Loader=yaml.BaseLoader)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        hint = ' (a path with brackets needs quotes inside { }: "items[*].price")' if "got '['" in str(error.problem) else ""
        raise PlaceError(f"{file}:{line}: not YAML: {error.problem}{hint}") from None
    except (yaml.YAMLError, RecursionError, UnicodeError) as error:
        raise PlaceError(f"{file}:1: not YAML: {type(error).__name__}") from None
    return Node(None, file, 1) if node is None else _node(node, file, ())


def _node(node: yaml.Node, file: str, around: tuple[yaml.Node, ...]) -> Node:
    line = node.start_mark.line + 1
    here = Node(None, file, line)
    if any(node is outer for outer in around) or len(around) > 50:
        raise here.error("this value contains itself, or is nested too deeply")
    if node.tag not in _TAGS:
        raise here.error(f"the tag {node.tag.replace('tag:yaml.org,2002:', '!!')} is not known here")
    if isinstance(node, yaml.MappingNode):
        values: dict[str, Node] = {}
        for key, value in node.value:
            name = str(key.value)
            if not isinstance(key, yaml.ScalarNode):
                raise here.error("a key is a single word")
            if name in values:
                raise Node(None, file, key.start_mark.line + 1).error(f"{name} is given twice")
            read = _node(value, file, (*around, node))
            # What stands on the lines below its key is best looked for at the key.
            values[name] = Node(read.value, file, key.start_mark.line + 1) if isinstance(read.value, dict | list) else read
        return Node(values, file, line)
    if isinstance(node, yaml.SequenceNode):
        return Node([_node(item, file, (*around, node)) for item in node.value], file, line)
    return Node(_scalar(node), file, line)


def _scalar(node: yaml.Node) -> Any:
    text = node.value
    if getattr(node, "style", None) is not None:
        return text
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    return Decimal(text) if _DECIMAL.fullmatch(text) else text
