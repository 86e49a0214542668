"""The report as Markdown: the same content, for a pull request or a terminal.

Every printed value is escaped unless it was made safe here.
"""

from __future__ import annotations

import re
from typing import Any

from prefkit.evaluate.words import percent
from prefkit.report.content import Content, Gain, Score
from prefkit.report.html_report import environment
from prefkit.report.text import number, visible

_SPECIAL = re.compile(r"([\\`*_{}\[\]#|~$])")
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}


class Md(str):
    """Markdown that is ready to be printed as it is."""


def render_markdown(said: Content) -> str:
    """The Markdown text."""
    template = environment(autoescape=False, finalize=escape).get_template("report.md.j2")
    text = template.render(
        c=said,
        fenced=fenced,
        gain=gain,
        score=score,
        shares=lambda share: "" if share is None else percent(share),
        value=lambda value, unit: percent(value) if unit == "%" else number(value),
    )
    return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"


def escape(value: Any) -> str:
    """One line of text in which nothing is Markdown, HTML or a link; also inside a table cell."""
    if isinstance(value, Md):
        return value
    text = " ".join(visible(value).split("\n"))
    text = re.sub(r"[&<>]", lambda match: _ENTITIES[match[0]], text)
    text = _SPECIAL.sub(r"\\\1", text)
    # GitHub turns bare addresses into links.
    return re.sub(r"(?i)(:)(?=//)|(?<=www)(\.)", r"\\\g<0>", text)


def fenced(text: str, language: str = "") -> Md:
    """A code block that its own content cannot end: the fence is longer than any run of backticks in it."""
    shown = visible(text)
    longest = max((len(run) for run in re.findall(r"`+", shown)), default=0)
    fence = "`" * max(3, longest + 1)
    return Md(f"{fence}{language}\n{shown}\n{fence}")


def gain(figure: Gain | None) -> Md:
    """A gain with its interval and what it may be called."""
    if figure is None:
        return Md("–")
    if figure.effect == "same":
        return Md(f"{figure.mean} (no change: the same score on every question)")
    return Md(escape(f"{figure.mean} ({figure.interval}; {figure.p}; {figure.won} up, {figure.lost} down): {figure.words}"))


def score(figure: Score) -> Md:
    """A share with its interval; † where it rests on few questions."""
    interval = f" ({figure.interval})" if figure.interval else ""
    return Md(f"{figure.mean}{interval}{' †' if figure.few else ''}")
