"""The figures of a dataset's card, measured and written by code between markers such as `<!-- counts -->` and `<!-- /counts -->`."""

from __future__ import annotations

import re
import sqlite3
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from prefkit.errors import DataError
from prefkit.files import write_text
from prefkit.tasks.baselines import BASELINES, right_of_baselines
from prefkit.tasks.names import HELD_OUT, SPLITS
from prefkit.tasks.overlap import NEAR
from prefkit.tasks.sql import SqlTask
from prefkit.tasks.sql_dataset import Row, all_questions, read_patterns
from prefkit.tasks.sql_dataset_check import leakage
from prefkit.verify.scheduler import Scheduler

LEVELS = {1: "filter", 2: "aggregate", 3: "group, having, order", 4: "joins", 5: "subqueries, dates, NULL"}


def write_card(folder: Path, cache: Path, workers: int = 2) -> Path:
    """Measure the tables anew and write them into the card, README.md; the splits must be built. Returns the card's path."""
    path = folder / "README.md"
    text = path.read_text(encoding="utf-8")
    for name, table in card_tables(folder, cache, workers).items():
        text = _between(path, text, name, table)
    write_text(path, text)
    return path


def card_tables(folder: Path, cache: Path, workers: int = 2) -> dict[str, str]:
    """Marker -> Markdown table: counts, databases, sources, leakage, baselines."""
    splits = all_questions(folder)
    task = SqlTask.from_dataset(folder, cache)
    return {
        "counts": _counts(splits),
        "databases": _databases(task, splits),
        "sources": _sources(folder, task, splits),
        "leakage": _leakage(splits),
        "baselines": _baselines(task, workers),
    }


def _counts(splits: Mapping[str, list[Row]]) -> str:
    rows = []
    for split in SPLITS:
        levels = Counter(row["level"] for row in splits[split])
        rows.append([split, *(levels[level] for level in LEVELS), len(splits[split])])
    return _table(["split", *(f"{level} {name}" for level, name in LEVELS.items()), "all"], rows)


def _databases(task: SqlTask, splits: Mapping[str, list[Row]]) -> str:
    asked = {split: Counter(row["database"] for row in rows) for split, rows in splits.items()}
    rows = []
    for name, files in task.databases.items():
        tables, columns, sizes = _shape(files)
        rows.append([name, tables, columns, " / ".join(map(str, sizes)), *(asked[split][name] or "" for split in SPLITS)])
    return _table(["database", "tables", "columns", "rows in instance 1 / 2", *SPLITS], rows)


def _shape(files: Sequence[Path]) -> tuple[int, int, list[int]]:
    """(tables, columns, rows of each instance) of one database."""
    sizes, tables, columns = [], [], 0
    for file in files:
        connection = sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro&immutable=1", uri=True)
        tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        columns = sum(len(connection.execute(f'PRAGMA table_info("{table}")').fetchall()) for table in tables)
        sizes.append(sum(connection.execute(f'SELECT COUNT(*) FROM "{table}"').fetchone()[0] for table in tables))
        connection.close()
    return len(tables), columns, sizes


def _sources(folder: Path, task: SqlTask, splits: Mapping[str, list[Row]]) -> str:
    patterns = [pattern for name in task.databases for pattern in read_patterns(folder, name)]
    held_out = sum(len(splits[split]) for split in HELD_OUT)
    rows = [
        ["training patterns", len(patterns)],
        ["wordings of them", sum(len(set(pattern["wordings"])) for pattern in patterns)],
        ["training questions that they make", len(splits["train"])],
        ["different golds among these", len({(row["database"], row["gold"]) for row in splits["train"]})],
        ["held-out questions, each written on its own", held_out],
    ]
    return _table(["what", "how many"], rows)


def _leakage(splits: Mapping[str, list[Row]]) -> str:
    rows = []
    for split in HELD_OUT:
        found = leakage(splits, split)
        near = len({row["id"] for row, _, _ in found.near})
        closest = max((share for _, _, share in found.near), default=None)
        rows.append([split, found.forms, found.questions, near, f"{closest:.2f}" if closest else f"below {NEAR}"])
    head = ["split", "query forms shared with train", "questions shared", f"questions sharing ≥ {NEAR} of the words", "greatest share"]
    return _table(head, rows)


def _baselines(task: SqlTask, workers: int) -> str:
    with Scheduler(workers=workers) as scheduler:
        right = {split: right_of_baselines(task, task.load(split), scheduler) for split in ("test", "unseen")}
    rows = [[name, *(f"{right[split][name]} of {len(task.load(split))}" for split in right)] for name in BASELINES]
    return _table(["answer", *right], rows)


def _table(head: Sequence[object], rows: Iterable[Sequence[object]]) -> str:
    numeric = ["---"] + ["---:"] * (len(head) - 1)
    return "\n".join("| " + " | ".join(map(str, row)) + " |" for row in (head, numeric, *rows))


def _between(path: Path, text: str, name: str, table: str) -> str:
    pattern = re.compile(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.DOTALL)
    if len(pattern.findall(text)) != 1:
        raise DataError(f"{path}: the markers <!-- {name} --> and <!-- /{name} --> must stand there once, each on its own line.")
    return pattern.sub(lambda match: match[1] + table + "\n" + match[2], text)
