"""The card of a run's pairs: `pairs/README.md`, in the form of Hugging Face's dataset cards, so that the folder opens by its name.

`load_dataset("runs/sql-gen-…/pairs", split="round_1")` gives the rows of round 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from prefkit.data.pair_checks import ENOUGH_PAIRS, TELLS

Row = dict[str, Any]

_SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"), (10**12, "n>1M"))
_COLUMNS = """\
| column | what it holds |
|---|---|
| `id` | the receipts of both sides, `>` between them |
| `example_id`, `database`, `level` | the question, its database, how hard it is (1 to 5) |
| `prompt`, `chosen`, `rejected` | conversations as TRL takes them; `rejected` is null where the row teaches by likelihood alone |
| `prompt_ids`, `chosen_ids`, `rejected_ids` | the same as token ids, each answer with its one end token |
| `source`, `rejected_source` | where each side comes from: model, reference, correction, history; model, mutation, history |
| `chosen_rollout`, `rejected_rollout` | the row of `rollouts/*.parquet` that holds the answer; null for a reference |
| `chosen_verdict`, `rejected_verdict` | the `key` of its verdict in `verdicts/*.parquet` |
| `rejected_status`, `rejected_reason` | how the rejected side failed: WRONG, CRASH, …; and how exactly |"""
_COUNTED = (
    ("rows", "rows"), ("pairs", "with both sides"), ("model", "right side: the model's own"), ("reference", "right side: the reference"),
    ("correction", "right side: a corrected answer"), ("history", "right side: a logged answer"),
    ("rejected_mutation", "wrong side: a right answer with one part changed"), ("rejected_history", "wrong side: a logged answer"),
    ("prompts_all_right", "questions whose answers are all right"), ("prompts_none_right", "questions without a right answer"),
    ("answers_not_compared", "answers beyond those that are compared"),
    ("dropped_identical", "dropped: both sides the same"), ("dropped_long", "dropped: too long"),
    ("dropped_end_token", "dropped: not exactly one end token"), ("dropped_duplicate", "dropped: there already"),
    ("chosen_longer_share", "share of pairs whose right side is longer"), ("chosen_longer_by", "tokens by which it is longer, mean"),
    ("length_tells_share", "share of pairs that length alone tells apart (chance: 0.5)"),
    ("form_tells_share", "share that one feature of form tells apart (chance: 0.5)"), ("form_feature", "that feature"),
    ("leaked_ids", "rows with a held-out question's id"), ("leaked_questions", "rows with its words"),
    ("leaked_queries", "rows with its query but for the literals"),
    ("mutations_tried", "changed answers executed"), ("mutations_wrong", "of them wrong"), ("mutations_passed", "right all the same"),
    ("mutations_failed", "failed to run"), ("mutations_not_judged", "not judged"),
    ("mutations_impossible", "right answers that could not be changed"),
)  # fmt: skip
_SPREADS = (
    ("by_level", "level"), ("by_database", "database"), ("by_table", "table that the right query reads"),
    ("by_failure", "failure of the rejected side"),
)  # fmt: skip


def text(task: str, model: str, settings: Mapping[str, Any], rounds: Sequence[Mapping[str, Any]]) -> str:
    """The card as Markdown. rounds: the figures of each round's pairs, in order (see pair_checks.py)."""
    sections = [
        _head(task, rounds),
        f"# Preference pairs: {_plain(task)}",
        f"A right answer over a wrong one to the same question, from a run of prefkit on the task {_plain(task)} with the model "
        f"{_plain(model)}. Every answer on either side was executed, and its verdict says which is right; references are the task's golds. "
        "Each row names the rollouts and the verdicts that it comes from, which lie beside this folder.",
        "```python\nfrom datasets import load_dataset\n\n"
        f'rows = load_dataset("…/pairs", split="round_{len(rounds) - 1}")\n'
        'pairs = rows.filter(lambda row: row["rejected"] is not None)  # for trainers that need both sides\n```',
        "## Columns",
        _COLUMNS,
        "## How they were made",
        "\n".join(f"- {name}: {_plain(value)}" for name, value in settings.items()),
        "## Counts",
        _table("what", [(label, [counts.get(key) for counts in rounds]) for key, label in _COUNTED], len(rounds)),
        *_spread_sections(rounds),
        "## What to know before training on them",
        _warnings(rounds),
    ]
    return "\n\n".join(section.strip() for section in sections if section) + "\n"


def _head(task: str, rounds: Sequence[Mapping[str, Any]]) -> str:
    import yaml

    count = sum(counts.get("rows") or 0 for counts in rounds)
    # A split without rows would keep the others from being opened.
    there = [number for number, counts in enumerate(rounds) if counts.get("rows")]
    files = [{"split": f"round_{number}", "path": f"round-{number}.parquet"} for number in there]
    values = {
        "pretty_name": f"Preference pairs: {_plain(task)}",
        "task_categories": ["text-generation"],
        "tags": ["prefkit", "preference", "dpo", "trl", "text-to-sql"],
        "size_categories": [next(name for size, name in _SIZES if count < size)],
        "configs": [{"config_name": "default", "data_files": files}],
    }
    return f"---\n{yaml.safe_dump(values, sort_keys=False, allow_unicode=True).strip()}\n---"


def _spread_sections(rounds: Sequence[Mapping[str, Any]]) -> list[str]:
    sections = []
    for key, label in _SPREADS:
        names = sorted({name for counts in rounds for name in counts.get(key) or {}})
        rows = [(name, [(counts.get(key) or {}).get(name, 0) for counts in rounds]) for name in names]
        if rows:
            sections.append(_table(label, rows, len(rounds)))
    mutated = [counts.get("by_mutation") or {} for counts in rounds]
    if any(mutated):
        names = sorted({name for found in mutated for name in found})
        rows = [(name, [_of(found.get(name)) for found in mutated]) for name in names]
        sections.append(_table("part that was changed (wrong of executed)", rows, len(rounds)))
    return sections


def _of(counts: Mapping[str, int] | None) -> str | None:
    return f"{counts.get('wrong', 0)} of {counts['tried']}" if counts else None


def _table(label: str, rows: Sequence[tuple[str, Sequence[Any]]], rounds: int) -> str:
    """Rows that no round has are left out."""
    lines = [f"| {label} | {' | '.join(f'round {number}' for number in range(rounds))} |", "|---|" + "---:|" * rounds]
    for name, values in rows:
        if any(value is not None for value in values):
            cells = " | ".join("–" if value is None else _plain(value) for value in values)
            lines.append(f"| {_plain(name)} | {cells} |")
    return "\n".join(lines)


def _warnings(rounds: Sequence[Mapping[str, Any]]) -> str:
    found = [f"- Round {number}: {warning}" for number, counts in enumerate(rounds) for warning in counts.get("warnings") or ()]
    return "\n".join(found) or (
        "Nothing was found: no row shares its question or its query with a held-out one, and neither length nor form tells right from "
        f"wrong in {TELLS:.0%} of the pairs or more (looked at where a round has {ENOUGH_PAIRS} pairs or more)."
    )


def _plain(value: object) -> str:
    """A value on one line, without marks that would end a cell."""
    shown = ", ".join(map(str, value)) or "none" if isinstance(value, list | tuple) else str(value)
    return " ".join(shown.split()).replace("|", "\\|").replace("<", "&lt;").replace("`", "'")
