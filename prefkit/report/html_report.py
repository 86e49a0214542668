"""The report as one self-contained page (report.html), with report.md beside it: no script, no request, safe for any text in it."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prefkit.evaluate.words import percent
from prefkit.hashing import hash_bytes, hash_value
from prefkit.report.content import Content, Gain, LedgerRow, PolicyRow, Score, SplitPart, content
from prefkit.report.curves import Curve
from prefkit.report.funnel import Round
from prefkit.report.source import read
from prefkit.report.text import visible

if TYPE_CHECKING:
    from markupsafe import Markup

    from prefkit.runfolder import RunFolder

TEMPLATES = Path(__file__).parent / "templates"


def write(run: RunFolder) -> Path:
    """Write report.html and report.md into the run folder, each whole or not at all.

    Returns:
        The path of report.html.

    Raises:
        RunError: where the run has not been evaluated yet.
    """
    from prefkit.report.markdown import render_markdown

    said = content(read(run))
    run.write_text("report.md", render_markdown(said))
    return run.write_text("report.html", render_html(said))


@functools.cache
def writer() -> str:
    """SHA-256 over the code and the templates that make a report out of a run's files: another one may word the same figures otherwise."""
    package = Path(__file__).parents[1]
    found = [file for part in ("evaluate", "report") for file in sorted((package / part).rglob("*"))]
    files = [file for file in found if file.suffix in (".py", ".j2", ".css")]
    return hash_value([[file.relative_to(package).as_posix(), hash_bytes(file)] for file in files])


def render_html(said: Content) -> str:
    """The page as text."""
    from markupsafe import Markup

    template = environment(autoescape=True).get_template("report.html.j2")
    css = Markup((TEMPLATES / "report.css").read_text(encoding="utf-8"))
    shares = {"shares": lambda share: "" if share is None else percent(share)}
    return template.render(c=said, charts=charts(said), css=css, **shares).lstrip()


@functools.cache
def environment(autoescape: bool, finalize: Any = None) -> Any:
    """The template environment: an unknown name is an error, and every printed value passes ``finalize`` (by default :func:`visible`)."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    def show(value: Any) -> Any:
        return value if isinstance(value, Markup) else visible(value)

    return Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=autoescape,
        undefined=StrictUndefined,
        finalize=finalize or show,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def charts(said: Content) -> dict[str, Markup]:
    """Every chart of the page by its name; the numbers in the names count from 1, as the template's loops do."""
    drawn: dict[str, Markup] = {}
    with_steps = [part for part in said.splits if part.ledger]
    for index, part in enumerate(with_steps, start=1):
        drawn.update(_gain_charts(part, index))
    for index, part in enumerate(said.splits, start=1):
        drawn.update(_score_charts(part, index))
        if part.failures:
            drawn[f"failures-{index}"] = _failure_chart(said, part, index)
    for index, turn in enumerate(said.rounds, start=1):
        drawn[f"round-{index}"] = _round_chart(turn, index)
    for index, curve in enumerate(said.curves, start=1):
        drawn[f"curve-{index}"] = _curve_chart(curve, index)
    return drawn


def _gain_charts(part: SplitPart, index: int) -> dict[str, Markup]:
    from prefkit.report.charts import Row, gain_domain, ranges

    gains = [gain.raw for row in part.ledger for gain in (row.greedy, row.samples) if gain]
    domain = gain_domain([gain["low"] for gain in gains], [gain["high"] for gain in gains])

    def chart(measure: str, title: str) -> Markup:
        pairs: Sequence[tuple[LedgerRow, Gain | None]] = [(row, getattr(row, measure)) for row in part.ledger]
        rows = [
            Row(_short(row), _gain_value(gain), gain.raw["mean"], gain.raw["low"], gain.raw["high"], gain.effect)
            for row, gain in pairs
            if gain
        ]
        return ranges(f"gain-{measure}-{index}", title, rows, domain, "points")

    return {
        f"gain-greedy-{index}": chart("greedy", f"Gain in first answers on the {part.words}, by step"),
        f"gain-samples-{index}": chart("samples", f"Gain in sampled answers on the {part.words}, by step"),
    }


def _score_charts(part: SplitPart, index: int) -> dict[str, Markup]:
    from prefkit.report.charts import Row, ranges, share_domain

    domain = share_domain(max((score.raw["high"] for row in part.policies for score in (row.greedy, row.samples)), default=1.0))

    def chart(measure: str, title: str) -> Markup:
        pairs: Sequence[tuple[PolicyRow, Score]] = [(row, getattr(row, measure)) for row in part.policies]
        rows = [
            Row(row.name, f"{score.mean} ({score.interval})", score.raw["mean"], score.raw["low"], score.raw["high"], row.look)
            for row, score in pairs
            if score.raw["mean"] is not None
        ]
        return ranges(f"score-{measure}-{index}", title, rows, domain, "%")

    return {
        f"score-greedy-{index}": chart("greedy", f"First answers right on the {part.words}"),
        f"score-samples-{index}": chart("samples", f"Sampled answers right on the {part.words}"),
    }


def _failure_chart(said: Content, part: SplitPart, index: int) -> Markup:
    from prefkit.report.charts import Bar, bars

    rows = []
    for row in part.failures:
        if said.compared:
            rows.append(Bar(row.kind, str(row.before), row.before, "base"))
        rows.append(Bar("" if said.compared else row.kind, str(row.after), row.after, "final"))
    order = f"{said.before}, then {said.after}" if said.compared else said.after
    return bars(f"failures-{index}", f"Failures on the {part.words}: {order}", rows)


def _round_chart(turn: Round, index: int) -> Markup:
    from prefkit.report.charts import Bar, bars

    rows = [Bar(step.label, step.words, step.count, "final" if step.rows else "base") for step in turn.steps]
    return bars(f"round-{index}", f"From questions to training rows, {turn.title.lower()}", rows)


def _curve_chart(curve: Curve, index: int) -> Markup:
    from prefkit.report.charts import Line, lines

    looks = ("final", "base")
    series = [Line(label, points, looks[place % 2]) for place, (label, points) in enumerate(curve.lines)]
    return lines(f"curve-{index}", f"{curve.title}, {curve.stage}", series, curve.unit)


def _gain_value(gain: Gain) -> str:
    return "no change" if gain.effect == "same" else f"{gain.mean} ({gain.interval})"


def _short(row: LedgerRow) -> str:
    # The chart's label shares its line with the figures; the table beside it has the full name.
    short = {"references": "References", "own_pairs": "Own answers", "calibrated": "Calibration", "total": "Together"}
    return short.get(row.step, row.name)
