"""What is wrong with a recipe, in words: where it stands, what was expected, and the mend."""

from __future__ import annotations

import types
import typing
from collections.abc import Iterator
from typing import Any, Literal

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from .names import nearest
from .recipe_text import Key, Text, dotted

_WORDS = {int: "a whole number", float: "a number", bool: "true or false", str: "text", type(None): "null"}


def problems(error: ValidationError, model: type[BaseModel], text: Text) -> list[str]:
    """One line for each key with a problem, in the order of the file: "file:line: key is value; expected …"."""
    lines: dict[str, None] = {}
    for detail in error.errors(include_url=False):
        kind, key = detail["type"], tuple(detail["loc"])
        if kind == "extra_forbidden":
            lines[f"{text.place(key)}: {_unknown(key, model)}"] = None
        elif kind == "value_error":
            lines[f"{text.place(key)}: {detail.get('ctx', {}).get('error')}"] = None
        else:
            # The members of a union report one by one, below the key; what the file has is the key.
            known, field = _known(key, model)
            lines[f"{text.place(known)}: {_wrong(known, field, _value(text, known))}"] = None
    return list(lines)


def expected(field: FieldInfo) -> str:
    """What a setting may be: `a whole number, at least 1, or null`."""
    options = list(_options(field.annotation))
    if all(option.startswith('"') for option in options):
        return f"one of {', '.join(option.strip(chr(34)) for option in options)}"
    null = ", or null" if "null" in options else ""
    return " or ".join(option for option in options if option != "null") + _bounds(field) + null


def _bounds(field: FieldInfo) -> str:
    words = {"ge": "at least {}", "gt": "above {}", "le": "at most {}", "lt": "below {}", "min_length": "not empty"}
    limits = {name: getattr(item, name) for item in field.metadata for name in words if hasattr(item, name)}
    if "ge" in limits and "le" in limits:
        return f" from {limits['ge']} to {limits['le']}"
    parts = [words[name].format(value) for name, value in limits.items() if value is not None]
    return f", {' and '.join(parts)}" if parts else ""


def _options(annotation: Any) -> Iterator[str]:
    origin = typing.get_origin(annotation)
    if origin in (typing.Union, types.UnionType):
        for member in typing.get_args(annotation):
            yield from _options(member)
    elif origin is Literal:
        yield from (f'"{value}"' for value in typing.get_args(annotation))
    elif origin is list:
        item = typing.get_args(annotation)[0]
        if typing.get_origin(item) is Literal:
            yield f"a list of {', '.join(map(str, typing.get_args(item)))}"
        else:
            yield f"a list of {'texts' if item is str else 'groups of settings'}"
    elif isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield f"a group of settings ({', '.join(annotation.model_fields)})"
    else:
        yield _WORDS.get(annotation, "text")


def _unknown(key: Key, model: type[BaseModel]) -> str:
    name, group = str(key[-1]), _group(key[:-1], model)
    siblings = list(group.model_fields) if group else []
    prefix = f"{dotted(key[:-1])}." if len(key) > 1 else ""
    close = [prefix + near for near in nearest(name, siblings)]
    # A key that is right but stands in the wrong group.
    close += [path for path in _paths(model) if path.rpartition(".")[2] == name][: 3 - len(close)]
    mend = f"did you mean {' or '.join(close)}? " if close else ""
    where = f"{dotted(key[:-1])} has" if len(key) > 1 else "A recipe has"
    return f"unknown key {dotted(key)}; {mend}{where}: {', '.join(siblings)}."


def _wrong(key: Key, field: FieldInfo | None, value: Any) -> str:
    wanted = expected(field) if field else "a group of settings"
    meaning = f" ({field.description})" if field and field.description else ""
    if value is _MISSING:
        return f"{dotted(key)} is missing; expected {wanted}{meaning}."
    message = f"{dotted(key) or 'this'} is {_shown(value)}; expected {wanted}{meaning}."
    if isinstance(value, str):
        if field and (options := [str(option) for option in typing.get_args(field.annotation)]) and (close := nearest(value, options)):
            return f"{message} Did you mean {close[0]}?"
        if field and field.annotation is not str and value.replace(".", "", 1).replace("-", "").isdigit():
            return f"{message} Write it without quotes."
    return message


class _Missing:
    pass


_MISSING = _Missing()


def _value(text: Text, key: Key) -> Any:
    value: Any = text.values
    for part in key:
        try:
            value = value[part]
        except (KeyError, IndexError, TypeError):
            return _MISSING
    return value


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return f"a group of settings ({', '.join(value)})"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return f'the text "{value}"' if isinstance(value, str) else f"the list {value!r}" if isinstance(value, list) else repr(value)


def _known(key: Key, model: type[BaseModel]) -> tuple[Key, FieldInfo | None]:
    """The longest start of `key` that is a setting of `model`, and its field; an entry of a list has its list's field."""
    group: type[BaseModel] | None = model
    field, known = None, ()
    for part in key:
        if isinstance(part, str) and group is not None and part in group.model_fields:
            field = group.model_fields[part]
            group, known = _inner(field.annotation), (*known, part)
        elif isinstance(part, int) and group is not None:
            known = (*known, part)
        else:
            break
    # An entry of a list of groups that is no group itself: the field is the list's, the words the group's.
    if known and isinstance(known[-1], int) and group is not None:
        return known, FieldInfo(annotation=group)
    return known, field


def _group(key: Key, model: type[BaseModel]) -> type[BaseModel] | None:
    group: type[BaseModel] | None = model
    for part in key:
        if isinstance(part, str) and group is not None:
            field = group.model_fields.get(part)
            group = _inner(field.annotation) if field else None
    return group


def _inner(annotation: Any) -> type[BaseModel] | None:
    """The group of settings in an annotation: of itself, of its list's entries, of one member of its union."""
    for candidate in (annotation, *typing.get_args(annotation)):
        if isinstance(candidate, type) and issubclass(candidate, BaseModel):
            return candidate
    return None


def _paths(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    for name, field in model.model_fields.items():
        yield prefix + name
        inner = _inner(field.annotation)
        if inner is not None:
            entry = "0." if typing.get_origin(field.annotation) is list else ""
            yield from _paths(inner, f"{prefix}{name}.{entry}")
