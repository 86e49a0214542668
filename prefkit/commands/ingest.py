"""`prefkit ingest`: production logs and user feedback into examples, pairs and trajectories."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from prefkit.commands.arguments import Parser

ABOUT = (
    "Read a log of a deployed model, take out what must not be kept, judge what can be judged by running it, and write training rows "
    "with a report of what was refused and why. Stopped in the middle, it leaves nothing to train on; the same command begins again."
)
EXAMPLE = "prefkit ingest logs.jsonl --task sql-gen --set task.database=my.sqlite --set task.questions=my.csv"


def arguments(parser: Parser) -> None:
    parser.add_argument(
        "log", type=Path, metavar="LOGS.jsonl", help='lines like {"question": …, "answer": …, "thumbs": "down", "correction": …}'
    )
    parser.add_argument("--task", required=True, metavar="T", help="whose questions and databases these are: a recipe, or a run folder")
    parser.add_argument("--columns", type=Path, metavar="MAP.yaml", help="where your fields have other names: `question: request.text` …")
    parser.add_argument(
        "--set", dest="overrides", action="append", default=[], metavar="key=value", help="as for the recipe: task.database=…"
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="the folder to write (else ingested/NAME-HASH)")


def run(options: Any) -> int:
    from prefkit import recipe
    from prefkit.context import load_task
    from prefkit.data.column_map import ColumnMap, read_columns
    from prefkit.data.ingest import Log, default_folder, ingest
    from prefkit.progress import Progress
    from prefkit.verify.scheduler import Scheduler

    log = Log.at(options.log)
    columns = read_columns(options.columns) if options.columns else ColumnMap()
    task = load_task(recipe.load(options.task, overrides=options.overrides))
    folder = options.out or default_folder(log, columns, task)
    with Progress() as progress, Scheduler(workers=2) as scheduler:
        report = ingest(log, task, columns, folder, scheduler, progress)
    show(report, folder, options)
    return 0


def show(report: Mapping[str, Any], folder: Path, options: Any) -> None:
    """What was made, what was not, and the command that trains on it."""
    from prefkit.commands.terminal import fields, shown
    from prefkit.data.ingest_report import agreement_words

    counts, made = report["counts"], report["made"]

    def most(faults: Mapping[str, Any]) -> str:
        named = [f"{count:,} {reason}" for reason, count in faults["reasons"].items()]
        return shown("; ".join(named[:5]) + ("; …" if len(named) > 5 else "")) or "none"

    contradictions = report["contradictions"]
    fields(
        [
            (
                "lines",
                f"{counts['handled']:,} handled, {counts['broken']:,} broken" + (f", {counts['empty']:,} empty" * bool(counts["empty"])),
            ),
            ("broken", most(report["broken"])),
            ("used", f"{counts['used']:,} lines: " + ", ".join(f"{count:,} {name}" for name, count in made.items())),
            ("not used", most(report["refused"])),
            ("redacted", ", ".join(f"{count:,} {kind}" for kind, count in report["redacted"].items()) or "nothing was found"),
            ("thumbs", agreement_words(report["agreement"]["task"])),
            (
                "differ",
                f"{contradictions['thumbs']['count']:,} answers with thumbs up and down, "
                f"{contradictions['corrections']['count']:,} questions with corrections that contradict each other",
            ),
            ("report", str(folder / "report.md")),
        ]
    )
    if any(made[name] for name in ("examples", "pairs")):
        given = " ".join(f"--set {shlex.quote(assignment)}" for assignment in options.overrides)
        words = f"prefkit recipe {shlex.quote(options.task)} {given}".rstrip()
        print(f"next    {words} --from RUN --with {shlex.quote(str(folder))}")
    else:
        print("Nothing of this log can train: report.md says why, line by line.")
