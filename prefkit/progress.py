"""What a run is doing, live: stage, done of total, rate, time left. In a terminal a moving view, elsewhere one plain line now and then.

    with Progress() as progress:
        progress.stage("rollouts", 3, 9)
        with progress.task("questions", total=300) as task:
            task.advance(8, right=0.31)

Everything goes to standard error, so that standard output stays for results.
"""

from __future__ import annotations

import contextlib
import math
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import Any, TextIO, TypeVar

Item = TypeVar("Item")
WINDOW_S = 30.0


class Meter:
    """How far a piece of work is: done, total (None where unknown), units a second over the last half minute, seconds left."""

    def __init__(self, name: str, total: float | None, clock: Callable[[], float] = time.monotonic) -> None:
        self.name, self.total, self.done = name, total, 0.0
        self.figures: dict[str, Any] = {}
        self._clock = clock
        self.started = clock()
        self.ended: float | None = None
        self._seen: deque[tuple[float, float]] = deque([(self.started, 0.0)])

    def add(self, n: float) -> None:
        """Count `n` more units as done."""
        now = self._clock()
        self.done += n
        self._seen.append((now, self.done))
        while len(self._seen) > 2 and now - self._seen[1][0] >= WINDOW_S:
            self._seen.popleft()

    def end(self) -> None:
        """Stop the time."""
        self.ended = self.ended or self._clock()

    @property
    def elapsed(self) -> float:
        """Seconds since the start, up to the end."""
        return (self.ended or self._clock()) - self.started

    @property
    def rate(self) -> float | None:
        """Units a second: over the last half minute while it runs, over all of it once it has ended; None before the first unit."""
        if self.done <= 0:
            return None
        if self.ended is not None:
            return self.done / self.elapsed if self.elapsed > 0 else None
        start, before = self._seen[0]
        span = self._seen[-1][0] - start
        return (self.done - before) / span if span > 0 else None

    @property
    def left(self) -> float | None:
        """Seconds left at the present rate; None where the total or the rate is not known."""
        if self.total is None or not self.rate or self.ended is not None:
            return None
        # Since the last unit was counted, some of the time has passed already.
        waited = self._clock() - self._seen[-1][0]
        return max(0.0, (self.total - self.done) / self.rate - waited)

    def line(self) -> str:
        """One line for a person: `questions 120/300, 8.4/s, 21 s left, right 0.31`."""
        total = "" if self.total is None else f"/{shown(self.total)}"
        parts = [f"{self.name} {shown(self.done)}{total}"]
        if self.rate:
            parts.append(f"{shown(self.rate)}/s")
        if self.ended is not None:
            parts.append(f"took {duration(self.elapsed)}")
        elif self.left is not None:
            parts.append(f"{duration(self.left)} left")
        return ", ".join(parts + [f"{name} {shown(value)}" for name, value in self.figures.items()])


class View:
    """Where meters are shown. This one shows nothing."""

    def open(self) -> None:
        """Take the terminal."""

    def close(self) -> None:
        """Give the terminal back."""

    def stage(self, text: str) -> None:
        """A stage begins."""

    def start(self, meter: Meter) -> None:
        """A piece of work begins."""

    def update(self, meter: Meter) -> None:
        """A piece of work is further than before."""

    def end(self, meter: Meter) -> None:
        """A piece of work is over."""

    def say(self, text: str) -> None:
        """A line of text."""


class TaskProgress:
    """One piece of work inside a stage. Usable as a context manager; without one, call `close`."""

    def __init__(self, meter: Meter, view: View) -> None:
        self.meter, self._view = meter, view

    def advance(self, n: float = 1, **figures: Any) -> None:
        """Count `n` more units as done and show the newest figures, such as `loss=0.31`."""
        self.meter.add(n)
        self.meter.figures.update(figures)
        self._view.update(self.meter)

    def set_total(self, total: float | None) -> None:
        """Set how much there is to do, once that is known."""
        self.meter.total = total
        self._view.update(self.meter)

    def close(self) -> None:
        """Stop the time and show the last state."""
        if self.meter.ended is None:
            self.meter.end()
            self._view.end(self.meter)

    def __enter__(self) -> TaskProgress:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Progress:
    """The view of one run. Leaving the block gives the terminal back, also after Ctrl-C or an error, neither of which is swallowed.

    `view`: None chooses by standard error: a live view in a terminal, plain lines elsewhere. `quiet()` shows nothing.
    """

    def __init__(self, view: View | None = None) -> None:
        self._view = view or _view_for(sys.stderr)
        self._open: list[TaskProgress] = []

    def stage(self, name: str, number: int | None = None, of: int | None = None) -> None:
        """Say which stage runs now, and which of how many it is."""
        self._view.stage(f"[{number}/{of}] {name}" if number and of else name)

    def task(self, name: str, total: float | None = None) -> TaskProgress:
        """Begin a piece of work of `total` units (None where that is not known)."""
        task = TaskProgress(Meter(name, total), self._view)
        self._open = [old for old in self._open if old.meter.ended is None] + [task]
        self._view.start(task.meter)
        return task

    def track(self, items: Iterable[Item], name: str, total: float | None = None) -> Iterator[Item]:
        """Pass `items` on and count them."""
        if total is None and hasattr(items, "__len__"):
            total = len(items)  # type: ignore[arg-type]
        with self.task(name, total) as task:
            for item in items:
                yield item
                task.advance()

    def say(self, text: str) -> None:
        """Print a line above the view."""
        self._view.say(text)

    def __enter__(self) -> Progress:
        self._view.open()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            for task in self._open:
                task.close()
        finally:
            self._view.close()


def quiet() -> Progress:
    """A progress that shows nothing, for use as a library and in tests."""
    return Progress(View())


class PlainView(View):
    """One plain line at the start and the end of each piece of work, and about every `every_s` seconds in between."""

    def __init__(self, stream: TextIO, every_s: float = 10.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream, self._every_s, self._clock = stream, every_s, clock
        self._stage = ""
        self._last = clock()

    def stage(self, text: str) -> None:
        self._stage = text
        self.say(text)

    def start(self, meter: Meter) -> None:
        self._last = self._clock()

    def update(self, meter: Meter) -> None:
        whole = meter.total is not None and meter.done >= meter.total  # its end is said next
        if self._clock() - self._last >= self._every_s and not whole:
            self.end(meter)

    def end(self, meter: Meter) -> None:
        self.say(f"{self._stage}: {meter.line()}" if self._stage else meter.line())

    def say(self, text: str) -> None:
        self._last = self._clock()
        # A reader that went away (`2>&1 | head`) must not end a run of an hour.
        with contextlib.suppress(OSError, ValueError):
            print(text, file=self._stream, flush=True)


class LiveView(View):
    """A moving view through rich."""

    def __init__(self, console: Any) -> None:
        from rich.progress import BarColumn, ProgressColumn, TextColumn
        from rich.progress import Progress as RichProgress
        from rich.text import Text

        class Line(ProgressColumn):
            def render(self, task: Any) -> Text:
                return Text(task.fields["meter"].line(), overflow="ellipsis", no_wrap=True)

        self._console = console
        self._rich = RichProgress(TextColumn("{task.description}"), BarColumn(bar_width=24), Line(), console=console, refresh_per_second=4)
        self._ids: dict[int, Any] = {}
        self._stage = ""

    def open(self) -> None:
        self._rich.start()

    def close(self) -> None:
        self._rich.stop()

    def stage(self, text: str) -> None:
        self._stage = text

    def start(self, meter: Meter) -> None:
        self._ids[id(meter)] = self._rich.add_task(self._stage, total=meter.total, meter=meter)

    def update(self, meter: Meter) -> None:
        self._rich.update(self._ids[id(meter)], total=meter.total, completed=meter.done)

    def end(self, meter: Meter) -> None:
        # What has ended becomes an ordinary line above, so that the moving part stays short.
        self._rich.remove_task(self._ids.pop(id(meter)))
        self.say(f"{self._stage}: {meter.line()}" if self._stage else meter.line())

    def say(self, text: str) -> None:
        self._rich.print(text, markup=False, highlight=False)


def _view_for(stream: TextIO) -> View:
    if not stream.isatty():
        return PlainView(stream)
    from rich.console import Console

    console = Console(file=stream)
    return PlainView(stream) if console.is_dumb_terminal else LiveView(console)


def shown(value: Any) -> str:
    """A figure for a person: whole numbers without decimals, fractions with three digits that count."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return str(value)
    if value == round(value):
        return str(round(value))
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"


def duration(seconds: float) -> str:
    """A time for a person: 8 s, 2 min 05 s, 1 h 12 min."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"
