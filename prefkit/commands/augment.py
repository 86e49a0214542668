"""`prefkit augment`: more training questions for a user's own schema."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prefkit.commands.arguments import Parser, whole

if TYPE_CHECKING:
    from prefkit.data.augment import Augmented
    from prefkit.recipe import Recipe

ABOUT = (
    "Make training questions for your own schema from executed query patterns. They are marked, only train, and share no query form with "
    "your validation and test questions; ten are shown for you to read."
)
EXAMPLE = "prefkit augment sql-gen --set task.database=my.sqlite --set task.questions=my.csv"


def arguments(parser: Parser) -> None:
    parser.add_argument("recipe", metavar="NAME|FILE", help="a shipped recipe (`prefkit recipes`) or a YAML file")
    parser.add_argument(
        "--set", dest="overrides", action="append", default=[], metavar="key=value", help="your data: task.database=F and task.questions=F"
    )
    parser.add_argument("--count", type=whole(1), metavar="N", help="questions to make, at most (1000)")
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="the new file, JSON lines (else NAME-augmented.jsonl in the working folder)"
    )
    parser.add_argument("--seed", type=whole(0), metavar="S", help="seed of the choice (else the recipe's)")


def run(options: Any) -> int:
    import json

    from prefkit import recipe
    from prefkit.commands.machine import cores
    from prefkit.context import load_task
    from prefkit.data.augment import COUNT, augment
    from prefkit.data.augment_bind import read_role_patterns
    from prefkit.errors import DataError
    from prefkit.files import write_text
    from prefkit.progress import Progress
    from prefkit.resources import dataset_path
    from prefkit.verify.scheduler import Scheduler

    chosen = recipe.load(options.recipe, overrides=options.overrides)
    if chosen.task.database is None:
        mend = "name your own data: --set task.database=my.sqlite --set task.questions=my.csv."
        raise DataError(f"{chosen.name} asks its shipped dataset, which has training questions of its own; {mend}")
    task = load_task(chosen.model_copy(update={"task": chosen.task.model_copy(update={"augmented": None})}))
    target = options.out or Path(f"{task.name}-augmented.jsonl")
    if target.suffix.lower() not in (".jsonl", ".ndjson"):
        raise DataError(f"{target} is to hold JSON lines; name a file that ends in .jsonl.")
    if target.exists():
        raise DataError(f"{target} is there already; name a new file with --out.")
    patterns = read_role_patterns(dataset_path("sql-gen") / "roles.yaml")
    count = options.count or COUNT
    with Progress() as progress, Scheduler(workers=min(cores(), 4)) as scheduler, progress.task("questions", count) as shown:
        seed = chosen.seed if options.seed is None else options.seed
        made = augment(task, patterns, scheduler, count, seed, shown.advance)
    write_text(target, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in made.rows))
    _show(made, count, len(patterns))
    _next(target, chosen)
    return 0


def _show(made: Augmented, count: int, patterns: int) -> None:
    """Ten questions, then the counts."""
    from prefkit.commands.terminal import cell, console, fields, shown, table
    from prefkit.data.augment import examples_to_read

    rows = [[shown(row["question"]), shown(row["sql"]), _result(columns, first)] for row, columns, first in examples_to_read(made)]
    console().print(table(["question", "query", "first rows"], rows))
    print()
    levels, golds = Counter(row["level"] for row in made.rows), len({row["sql"] for row in made.rows})
    used = Counter(row["pattern"] for row in made.rows)
    few = "" if len(made.rows) >= count else f", all that there are (of {count} asked for)"
    lines = [
        ("made", f"{len(made.rows)} questions of {golds} queries{few}; they only train"),
        ("levels", ", ".join(f"{levels[level]} of level {level}" for level in sorted(levels))),
        ("patterns", f"{len(used)} of {patterns}, the commonest with {max(used.values())} questions"),
        ("tables", ", ".join(f"{shown(name)} {number}" for name, number in made.tables.most_common())),
        ("left out", f"{made.dropped.total()} of the queries tried" + (":" if made.dropped else "")),
        *(("", f"{number} {cell(reason)}") for reason, number in made.dropped.most_common()),
    ]
    fields(lines)


def _result(columns: Sequence[str], rows: Sequence[tuple]) -> str:
    from prefkit.commands.terminal import cell

    return "\n".join(", ".join(cell(value) for value in row) for row in rows) or ", ".join(map(cell, columns))


def _next(target: Path, chosen: Recipe) -> None:
    """The command that trains on them. Printed whole, so that it can be copied."""
    database = chosen.task.database if isinstance(chosen.task.database, str) else f"[{', '.join(chosen.task.database or [])}]"
    settings = {"task.database": database, "task.questions": chosen.task.questions, "task.augmented": str(target)}
    print(f"\nread a few of {target}, then:")
    print(f"prefkit recipe {chosen.name} " + " ".join(shlex.join(["--set", f"{key}={value}"]) for key, value in settings.items()))
