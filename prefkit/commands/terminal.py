"""What goes to the terminal: text made safe, and tables. No colour where standard output is no terminal or NO_COLOR is set."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from typing import Any, TextIO

from prefkit.report.text import visible

CELL = 200
"""Characters of a database's value that are shown."""


def shown(text: object) -> str:
    """Text of a model or a database on one or more lines, with everything written out that a terminal would obey."""
    return visible(text).replace("\t", "    ")


def cell(value: object) -> str:
    """A database's value on one line."""
    if value is None:
        return "NULL"
    if isinstance(value, bytes):
        return f"x'{value[: CELL // 2].hex()}'" + (f" … ({len(value)} bytes)" if len(value) > CELL // 2 else "")
    text = str(value)
    return shown(text[:CELL] + ("…" if len(text) > CELL else "")).replace("\n", "⟨U+000A⟩")


def console(stream: TextIO | None = None) -> Any:
    """A rich console that shows text as it is, in a notebook too: no markup, no highlighting, no HTML."""
    from rich.console import Console

    return Console(file=stream or sys.stdout, force_jupyter=False, markup=False, highlight=False, emoji=False, soft_wrap=False)


def table(columns: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> Any:
    """A table for `console().print`. `right`: the columns of figures, which stand to the right. Cells must be safe already."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    made = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1), show_edge=False)
    for index, name in enumerate(columns):
        made.add_column(Text(name), justify="right" if index in right else "left", overflow="fold")
    for row in rows:
        made.add_row(*map(Text, row))
    return made


def fields(rows: Sequence[tuple[str, str]]) -> None:
    """Print lines of a name and what is to be said of it; long text goes on below its beginning."""
    import textwrap

    name_width = max(len(name) for name, _ in rows)
    width = max(40, shutil.get_terminal_size().columns - name_width - 2)
    for name, text in rows:
        first, *more = textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False) or [""]
        print(f"{name:{name_width}}  {first}")
        for line in more:
            print(" " * (name_width + 2) + line)


def paragraph(text: str) -> None:
    """Print text broken at the terminal's width."""
    import textwrap

    width = max(40, shutil.get_terminal_size().columns)
    print("\n".join(textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)))
