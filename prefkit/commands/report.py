"""`prefkit report`: write a run's report again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from prefkit.commands.arguments import Parser

ABOUT = "Write report.html and report.md again from a run's own files, and say where they are."
EXAMPLE = "prefkit report runs/sql-gen-0123456789 --open"


def arguments(parser: Parser) -> None:
    parser.add_argument("run", type=Path, metavar="RUN", help="a run folder")
    parser.add_argument("--open", action="store_true", help="show it in the browser")


def run(options: Any) -> int:
    from prefkit.report import html_report
    from prefkit.runfolder import RunFolder

    folder = RunFolder.existing(options.run)
    with folder.lock():
        page = html_report.write(folder)
    print(page)
    print(page.with_name("report.md"))
    if options.open:
        import webbrowser

        if not webbrowser.open(page.resolve().as_uri()):
            print("There is no browser here; copy the page to a machine that has one: it needs no other file.")
    return 0
