"""What every reader of a model's free text begins with: thoughts taken out, fenced blocks found."""

from __future__ import annotations

import re

_THOUGHT = re.compile(r"<(think|thinking|thought|reasoning|scratchpad)>", re.IGNORECASE)
_THOUGHT_END = re.compile(r"</(?:think|thinking|thought|reasoning|scratchpad)>", re.IGNORECASE)
_FENCE = re.compile(r"`{3,}|~{3,}")
_LABEL = re.compile(r"\s*\{?\.?([\w.+#-]+)\}?")


def without_thoughts(text: str) -> str:
    """The text after its last thought. A thought that never ends has no answer after it.

    >>> without_thoughts("<think>2 or 3?</think>3")
    '3'
    """
    text = _THOUGHT_END.split(text)[-1]
    begin = _THOUGHT.search(text)
    return text[: begin.start()] if begin else text


def fenced_parts(text: str) -> list[str]:
    """The text cut at its fences: prose at the even places, what stands in fences (with its label) at the odd ones, also unclosed."""
    return _FENCE.split(text)


def next_fence(text: str, position: int) -> re.Match[str] | None:
    """The next mark of a fence from there on."""
    return _FENCE.search(text, position)


def after_label(line: str) -> tuple[str, str]:
    """A fence's first line: its label in small letters ("" without one) and what follows it.

    >>> after_label('JSON {"a": 1}')
    ('json', ' {"a": 1}')
    """
    word = _LABEL.match(line)
    return (word[1].lower(), line[word.end() :]) if word else ("", line)
