"""Build an SQL dataset: databases as SQL text, hand-written patterns and questions -> splits and their card.

    databases/NAME/schema.sql, rows-1.sql, rows-2.sql    two data instances of one schema
    patterns/NAME.yaml                                   training patterns: one query form, several wordings, slot bindings
    questions/NAME.yaml                                  hand-written held-out questions: validation, test, unseen
    plan.yaml                                            how much there must be of each

    python -m prefkit.tasks.sql_dataset check [NAME…]    every fault of the questions (sql_dataset_check.py)
    python -m prefkit.tasks.sql_dataset build            the splits as JSON lines
    python -m prefkit.tasks.sql_dataset card             the card's tables, measured anew (sql_dataset_card.py)

The same text gives the same bytes.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from prefkit.errors import DataError
from prefkit.files import write_text
from prefkit.tasks.names import HELD_OUT, SPLITS
from prefkit.tasks.sql_databases import database_names

COLUMNS = ("id", "database", "level", "question", "gold", "pattern")
Row = dict[str, Any]
"""One question with the columns of a split file (COLUMNS)."""


def expand(patterns: list[dict[str, Any]], database: str) -> list[Row]:
    """Training questions of one database: question i of a pattern takes binding i mod #bindings and wording i mod #wordings."""
    rows = []
    for pattern in patterns:
        slots, wordings = pattern.get("slots") or [{}], pattern["wordings"]
        for index in range(max(len(slots), len(wordings))):
            binding = slots[index % len(slots)]
            rows.append(
                {
                    "id": f"{pattern['id']}-{index + 1}",
                    "database": database,
                    "level": pattern["level"],
                    "question": wordings[index % len(wordings)].format(**binding),
                    "gold": pattern["sql"].format(**binding),
                    "pattern": pattern["id"],
                }
            )
    return rows


def read_patterns(folder: Path, name: str) -> list[dict[str, Any]]:
    """The training patterns of one database; none where training never sees it."""
    return _yaml(folder / "patterns" / f"{name}.yaml") or []


def read_questions(folder: Path, name: str) -> dict[str, list[Row]]:
    """All questions of one database by split, from their sources. Raises DataError for a source that cannot be read."""
    try:
        held_out = _yaml(folder / "questions" / f"{name}.yaml") or {}
        splits = {"train": expand(read_patterns(folder, name), name)}
        for split in HELD_OUT:
            splits[split] = [
                {
                    "id": f"{name}-{split}-{number}",
                    "database": name,
                    "level": row["level"],
                    "question": row["question"],
                    "gold": row["sql"],
                    "pattern": None,
                }
                for number, row in enumerate(held_out.get(split) or [], 1)
            ]
    except (KeyError, IndexError, TypeError, AttributeError, ValueError) as error:
        raise DataError(f"{folder / 'patterns' / name}.yaml or its questions cannot be read: {type(error).__name__}: {error}") from error
    return splits


def all_questions(folder: Path) -> dict[str, list[Row]]:
    """All questions of the dataset by split, databases in the order of their names."""
    splits: dict[str, list[Row]] = {split: [] for split in SPLITS}
    for name in database_names(folder):
        for split, rows in read_questions(folder, name).items():
            splits[split] += rows
    return splits


def build(folder: Path, target: Path | None = None) -> dict[str, int]:
    """Write train, validation, test and unseen as JSON lines into `target` (default: the dataset's folder). Returns the counts."""
    splits = all_questions(folder)
    for split, rows in splits.items():
        text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        write_text((target or folder) / f"{split}.jsonl", text)
    return {split: len(rows) for split, rows in splits.items()}


def read_plan(folder: Path) -> dict[str, Any]:
    """How much the dataset must have: see plan.yaml. Empty where there is no such file."""
    return _yaml(folder / "plan.yaml") or {}


def _yaml(path: Path) -> Any:
    import yaml

    if not path.is_file():
        return None
    try:
        # The loader in C takes a tenth of the time, where there is one.
        return yaml.load(path.read_text(encoding="utf-8"), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.YAMLError as error:
        raise DataError(f"{path} is no YAML: {error}") from error


def main(arguments: list[str]) -> int:
    """Run one of the commands above on the shipped sql-gen. Returns the exit code."""
    from prefkit.resources import cache_dir, dataset_path
    from prefkit.tasks.sql_dataset_card import write_card
    from prefkit.tasks.sql_dataset_check import check

    command, *names = arguments or [""]
    folder = dataset_path("sql-gen")
    if command == "build":
        print(build(folder))
    elif command == "card":
        write_card(folder, cache_dir())
    elif command == "check":
        faults = check(folder, cache_dir(), names or None)
        print("\n".join(faults) or "ok")
        return 1 if faults else 0
    else:
        print("check [NAME…], build or card")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
