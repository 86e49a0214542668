"""Charts as inline SVG: no script, no image file, colours from the page's style sheet, every figure also in the title and description.

All are 320 units wide, so that a phone shows their text at its full size; a page puts two side by side where there is room.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from markupsafe import Markup

from prefkit.report.text import number, visible

WIDTH = 320


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a range chart. ``look`` is "base", "middle" or "final" for scores; "gain", "nothing", "loss" or "same" for gains."""

    label: str
    value: str
    mean: float
    low: float
    high: float
    look: str


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar; ``look`` is "base" or "final". ``label`` may be empty where the bar belongs to the label above it."""

    label: str
    value: str
    length: float
    look: str


@dataclass(frozen=True, slots=True)
class Line:
    """One curve: (step, value) points; a dashed one is told apart without colour."""

    label: str
    points: Sequence[tuple[float, float]]
    look: str = "final"


def ranges(name: str, title: str, rows: Sequence[Row], domain: tuple[float, float], unit: str = "%") -> Markup:
    """A dot with its interval for each row, on one axis in per cent or points; values and domain are shares (0.25 is 25)."""
    top, height, left, right = 4, 44, 8, WIDTH - 8
    bottom = top + height * len(rows)

    def x(value: float) -> float:
        return left + (min(max(value, domain[0]), domain[1]) - domain[0]) / (domain[1] - domain[0]) * (right - left)

    parts = []
    for tick in ticks(*domain, most=6):
        anchor = "start" if x(tick) < left + 10 else "end" if x(tick) > right - 10 else "middle"
        # Only behind the dots: a line through the labels would make them hard to read.
        look = "zero" if tick == 0 and domain[0] < 0 else "grid"
        parts += [_line(x(tick), top + height * place + 19, x(tick), top + height * place + 39, look) for place in range(len(rows))]
        parts.append(_text(x(tick), bottom + 15, _tick_text(tick, unit), "tick", anchor))
    for index, row in enumerate(rows):
        y = top + height * index
        parts.append(_text(left, y + 14, row.label, "label", most=28) + _text(right, y + 14, row.value, "value", "end"))
        parts.append(
            f'<rect class="range {row.look}" x="{x(row.low):.1f}" y="{y + 25}" '
            f'width="{max(1.0, x(row.high) - x(row.low)):.1f}" height="8" rx="4"/>'
        )
        parts.append(f'<circle class="dot {row.look}" cx="{x(row.mean):.1f}" cy="{y + 29}" r="5.5"/>')
    described = "; ".join(f"{row.label}: {row.value}" for row in rows)
    return _svg(name, title, described, bottom + 22, parts)


def bars(name: str, title: str, rows: Sequence[Bar]) -> Markup:
    """Horizontal bars from 0, all on one scale; a bar without a label follows its neighbour closely."""
    longest = max((bar.length for bar in rows), default=0) or 1
    parts, y, described, last = [], 2, [], ""
    for bar in rows:
        if bar.label:
            parts.append(_text(8, y + 14, bar.label, "label"))
            y, last = y + 20, bar.label
        length = bar.length / longest * (WIDTH - 90)
        parts.append(f'<rect class="bar {bar.look}" x="8" y="{y}" width="{max(length, 1.5 if bar.length else 0):.1f}" height="10" rx="2"/>')
        parts.append(_text(8 + max(length, 0) + 8, y + 9.5, bar.value, "value"))
        described.append(f"{last}: {bar.value}")
        y += 15 if bar is not rows[-1] else 12
    return _svg(name, title, "; ".join(described), y + 4, parts)


def lines(name: str, title: str, series: Sequence[Line], unit: str = "") -> Markup:
    """Curves over training steps on one pair of axes; the label of each stands in a legend above where there are several."""
    points = [point for line in series for point in line.points]
    xs, ys = [x for x, _ in points], [y for _, y in points]
    low, high = _padded(min(ys), max(ys), least=0.2 if unit == "%" else 0.0)
    first, last = min(xs), max(xs) if max(xs) > min(xs) else min(xs) + 1
    left, right, bottom = 46, WIDTH - 12, 168
    top = 12 if len(series) == 1 else 32

    def place(point: tuple[float, float]) -> tuple[float, float]:
        return left + (point[0] - first) / (last - first) * (right - left), bottom - (point[1] - low) / (high - low) * (bottom - top)

    parts = []
    for tick in ticks(low, high, most=5):
        y = place((first, tick))[1]
        parts.append(_line(left, y, right, y, "grid") + _text(left - 6, y + 4, _tick_text(tick, unit), "tick", "end"))
    for step, anchor in ((first, "start"), (last, "end")):
        parts.append(_text(place((step, low))[0], bottom + 17, f"step {number(round(step))}", "tick", anchor))
    legend = left
    for line in series:
        placed = [place(point) for point in line.points]
        if len(series) > 1:
            parts.append(_line(legend, 13, legend + 18, 13, f"curve {line.look}") + _text(legend + 24, 17, line.label, "tick"))
            legend += 42 + 7 * len(line.label)
        parts.append(f'<polyline class="curve {line.look}" points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in placed)}"/>')
        if len(placed) <= 12:
            parts += [f'<circle class="dot {line.look}" cx="{x:.1f}" cy="{y:.1f}" r="3"/>' for x, y in placed]
    scale = 100 if unit == "%" else 1
    described = "; ".join(
        f"{line.label}: from {number(line.points[0][1] * scale)}{unit} at step {number(round(line.points[0][0]))} to "
        f"{number(line.points[-1][1] * scale)}{unit} at step {number(round(line.points[-1][0]))}"
        for line in series
    )
    return _svg(name, title, described, bottom + 24, parts)


def ticks(low: float, high: float, most: int) -> list[float]:
    """Round values within ``low`` and ``high``, at most ``most`` of them, with steps of 1, 2, 2.5 or 5 times a power of ten."""
    span = high - low
    power = 10.0 ** math.floor(math.log10(span / most))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10, 20) if span / (factor * power) <= most - 1 + 1e-9)
    start = math.ceil(low / step - 1e-9)
    return [round(index * step, 10) for index in range(start, math.floor(high / step + 1e-9) + 1)]


def share_domain(highest: float) -> tuple[float, float]:
    """0 to the first of 10, 25, 50, 100 % that holds ``highest``."""
    return 0.0, next((limit for limit in (0.1, 0.25, 0.5) if highest <= limit), 1.0)


def gain_domain(lows: Sequence[float], highs: Sequence[float]) -> tuple[float, float]:
    """A range of whole five points around all intervals, with 0 inside it and room on both sides."""
    low, high = min([0.0, *lows]), max([0.0, *highs])
    return min(-0.05, math.floor(low / 0.05) * 0.05), max(0.05, math.ceil(high / 0.05) * 0.05)


def _padded(low: float, high: float, least: float) -> tuple[float, float]:
    """The range of an axis around ``low`` and ``high``: at least ``least`` wide, so that a tremor does not look like a leap."""
    room = max(0.06 * (high - low), (least - (high - low)) / 2)
    if room == 0:
        room = abs(low) * 0.1 or 1.0
    # A quantity that never falls below 0 gets no axis below 0.
    bottom = max(0.0, low - room) if low >= 0 else low - room
    return bottom, max(high + room, bottom + least)


def _tick_text(value: float, unit: str) -> str:
    if unit in ("%", "points"):
        text = f"{100 * value:g}".replace("-", "\u2212")
        return f"{text}\u00a0%" if unit == "%" else f"+{text}" if value > 0 else text
    return f"{value:g}".replace("-", "\u2212")


def _line(x1: float, y1: float, x2: float, y2: float, look: str) -> str:
    return f'<line class="{look}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def _text(x: float, y: float, text: str, look: str, anchor: str = "start", most: int = 52) -> str:
    shown = text if len(text) <= most else text[: most - 1] + "…"
    return f'<text class="{look}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(visible(shown))}</text>'


def _svg(name: str, title: str, described: str, height: float, parts: Sequence[str]) -> Markup:
    safe = escape(name, quote=True)
    return Markup(
        f'<svg class="chart" viewBox="0 0 {WIDTH} {height:.0f}" role="img" aria-labelledby="{safe}-t {safe}-d" '
        f'xmlns="http://www.w3.org/2000/svg"><title id="{safe}-t">{escape(visible(title))}</title>'
        f'<desc id="{safe}-d">{escape(visible(described))}</desc>{"".join(parts)}</svg>'
    )
