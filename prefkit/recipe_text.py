"""Recipe text and values: YAML that remembers its lines, overlays, and `key=value` overrides."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import yaml

from .errors import RecipeError

OVERRIDE = "--set "

# A key or an index for each level, such as ("warm_start", "rounds", 0, "epochs").
Key = tuple[str | int, ...]


@dataclass
class Text:
    """Values and where each was written: `places[key]` is "file:line" or the override. The place of () is the file."""

    values: dict[str, Any]
    places: dict[Key, str] = field(default_factory=dict)

    def place(self, key: Key) -> str:
        """Where the value of `key` was written: an override of it or in it, else its line, else the line of the nearest group around it."""
        below = [where for there, where in self.places.items() if there[: len(key)] == key and there]
        overrides = [where for where in below if where.startswith(OVERRIDE)]
        if overrides:
            return overrides[-1]
        if key in self.places or not below:
            while key not in self.places and key:
                key = key[:-1]
            return self.places.get(key, "recipe")
        return below[0]


def dotted(key: Key) -> str:
    """The key as `--set` takes it: warm_start.rounds.0.epochs"""
    return ".".join(str(part) for part in key)


class _Loader(yaml.SafeLoader):
    """YAML 1.2's plain scalars: 1e-3 is a number; off, no and 12:30 are text. (YAML 1.1, PyYAML's own, reads them the other way.)"""


class _Dumper(yaml.SafeDumper):
    """Quotes each text that either version of YAML would read as something else."""


_SCALARS = (
    ("tag:yaml.org,2002:null", re.compile(r"(?:~|null|Null|NULL|)$"), ["~", "n", "N", ""]),
    ("tag:yaml.org,2002:bool", re.compile(r"(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF")),
    ("tag:yaml.org,2002:int", re.compile(r"[-+]?[0-9]+$"), list("-+0123456789")),
    (
        "tag:yaml.org,2002:float",
        re.compile(r"(?:[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$"),
        list("-+0123456789."),
    ),
)
_Loader.yaml_implicit_resolvers = {}
for _tag, _pattern, _first in _SCALARS:
    _Loader.add_implicit_resolver(_tag, _pattern, _first)
    _Dumper.add_implicit_resolver(_tag, _pattern, _first)


def read(text: str, file: str) -> Text:
    """Read a recipe's YAML. RecipeError with file and line for text that is no YAML, a key given twice, or a list at the top."""
    try:
        node = yaml.compose(text, Loader=_Loader)
    except yaml.YAMLError as error:
        raise RecipeError(_syntax_message(error, file)) from error
    if not isinstance(node, yaml.MappingNode):
        raise RecipeError(f"{file}:1: a recipe is a list of `key: value` lines; this file has none.")
    found = Text({}, {(): file})
    found.values = _value(node, (), found.places, file, [])
    return found


def write(values: dict[str, Any]) -> str:
    """YAML of `values` in their order; `read` gives the same values back."""
    return yaml.dump(values, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)


def overlay(base: Text, over: dict[str, Any], places: dict[Key, str]) -> Text:
    """`base` with the values of `over` put on top: groups are merged key by key, lists and single values are replaced."""
    result = Text(base.values, dict(base.places))
    result.values = _merged(base.values, over, (), result.places)
    result.places.update(places)
    return result


def override(text: Text, assignment: str) -> Text:
    """`text` with one `key=value` applied, the value read as YAML. RecipeError where that is no assignment or leads into a single value."""
    name, equals, raw = assignment.partition("=")
    place = f"{OVERRIDE}{assignment}"
    if not equals or not re.fullmatch(r"[A-Za-z_]\w*(\.\w+)*", name.strip()):
        raise RecipeError(f"{place}: expected key=value, for example --set limits.test=120 or --set warm_start.rounds.0.epochs=2")
    key: Key = tuple(int(part) if part.isdigit() else part for part in name.strip().split("."))
    value = _override_value(raw.strip(), place)
    values = _assigned(text.values, key, value, (), place)
    # What stood below the key was written elsewhere and is gone now.
    places = {old: where for old, where in text.places.items() if old[: len(key)] != key}
    return Text(values, {**places, key: place})


def _value(node: yaml.Node, key: Key, places: dict[Key, str], file: str, parents: list[yaml.Node]) -> Any:
    line = node.start_mark.line + 1
    places.setdefault(key, f"{file}:{line}")
    if any(node is parent for parent in parents):
        raise RecipeError(f"{file}:{line}: this value contains itself; write it out.")
    if isinstance(node, yaml.MappingNode):
        result: dict[str, Any] = {}
        for key_node, value_node in node.value:
            name, place = str(key_node.value), f"{file}:{key_node.start_mark.line + 1}"
            if not isinstance(key_node, yaml.ScalarNode):
                raise RecipeError(f"{place}: a key is a single word.")
            if name in result:
                first = places[(*key, name)].rpartition(":")[2]
                raise RecipeError(f"{place}: {dotted((*key, name))} is given twice, first in line {first}. Keep one.")
            places[(*key, name)] = place
            result[name] = _value(value_node, (*key, name), places, file, [*parents, node])
        return result
    if isinstance(node, yaml.SequenceNode):
        return [_value(item, (*key, index), places, file, [*parents, node]) for index, item in enumerate(node.value)]
    return _scalar(node, file, line)


def _scalar(node: yaml.Node, file: str, line: int) -> Any:
    text = node.value
    kind = node.tag.removeprefix("tag:yaml.org,2002:")
    try:
        match kind:
            case "str":
                return text
            case "null":
                return None
            case "bool":
                return {"true": True, "false": False}[text.lower()]
            case "int":
                return int(text)
            case "float":
                return float(re.sub(r"\.(?=inf|nan)", "", text.lower()))
    except (KeyError, ValueError) as error:
        raise RecipeError(f"{file}:{line}: {text!r} is no {kind}.") from error
    raise RecipeError(f"{file}:{line}: the tag {node.tag} is not known here; write the value without it.")


def _merged(base: Any, over: Any, key: Key, places: dict[Key, str]) -> Any:
    if isinstance(base, dict) and isinstance(over, dict):
        return {**base, **{name: _merged(base.get(name), value, (*key, name), places) for name, value in over.items()}}
    for old in [old for old in places if old[: len(key)] == key]:
        del places[old]
    return over


def _override_value(raw: str, place: str) -> Any:
    try:
        return read(f"value: {raw}", place).values["value"]
    except RecipeError:
        return raw  # plain text with YAML's signs in it, such as a description with a colon


def _assigned(values: Any, key: Key, value: Any, done: Key, place: str) -> Any:
    if not key:
        return value
    head, rest, here = key[0], key[1:], (*done, key[0])
    if isinstance(values, list):
        if not isinstance(head, int) or head >= len(values):
            there = f"it has the entries {', '.join(str(number) for number in range(len(values)))}" if values else "it is empty"
            raise RecipeError(f"{place}: {dotted(done)} is a list and has no entry {head}; {there}.")
        return [_assigned(item, rest, value, here, place) if index == head else item for index, item in enumerate(values)]
    if isinstance(values, dict) or values is None:
        known = values or {}
        return {**known, str(head): _assigned(known.get(str(head)), rest, value, here, place)}
    raise RecipeError(f"{place}: {dotted(done)} is a single value ({values!r}) without {dotted(here)}. Use --set {dotted(done)}=VALUE.")


def _syntax_message(error: yaml.YAMLError, file: str) -> str:
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark:
        context = f" {error.context}" if error.context else ""
        line = error.problem_mark.line + 1
        return f"{file}:{line}: this is no YAML: {error.problem}{context}. Look at the indent, the colons and the quotes."
    return f"{file}:1: this is no YAML: {error}"
