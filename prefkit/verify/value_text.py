"""Canonical values (see sandbox/values.py) as short text for people and for correction turns."""

from __future__ import annotations

from typing import Any

from prefkit.sandbox.values import decode, tag_of

_FAULTS = (TypeError, ValueError, KeyError, AttributeError, ArithmeticError, RecursionError, MemoryError)
_MARKS = {
    "$set": "{%s}", "$list": "[%s]", "$frozenset": "frozenset({%s})", "$deque": "deque([%s])", "$generator": "<generator of [%s]>",
}  # fmt: skip


def show(form: Any, most: int = 80) -> str:
    """A value as Python writes it, cut short, for people. Never raises."""
    try:
        text = _show(form, most)
    except _FAULTS:
        text = "?"
    text = text.encode("utf-8", "backslashreplace").decode()
    return text if len(text) <= most else text[: most - 1] + "…"


def _show(form: Any, most: int) -> str:
    if most <= 0:
        return "…"
    if type(form) is list:
        return "[" + _joined([_show(item, most) for item in form[:most]]) + "]"
    if type(form) is not dict:
        return repr(form[:most] if type(form) is str else form)
    tag = tag_of(form)
    if tag is None:
        return "{" + _joined([f"{key[:most]!r}: {_show(value, most)}" for key, value in list(form.items())[:most]]) + "}"
    content = form[tag]
    if tag in ("$tuple", "$set", "$frozenset", "$deque", "$generator", "$list"):
        inside = _joined([_show(item, most) for item in content[:most]])
        if tag == "$tuple":
            return f"({inside},)" if len(content) == 1 else f"({inside})"
        return _MARKS[tag] % inside if content or tag != "$set" else "set()"
    if tag == "$dict":
        return "{" + _joined([f"{_show(key, most)}: {_show(value, most)}" for key, value in content[:most]]) + "}"
    if tag == "$object":
        return str(content["repr"])[:most]
    if tag == "$cut":
        return f"a value with too much in it ({str(content)[:10]})"
    if type(content) is dict:
        return f"{tag[1:]} {_show(content.get('items', content.get('value')), most)}"
    return repr(decode(form))[:most] if tag != "$int" else f"0x{content[:most]}"


def _joined(parts: list[str]) -> str:
    return ", ".join(parts)
