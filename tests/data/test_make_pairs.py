"""The stage that makes pairs, on a run folder with answers that were really executed: files, receipts, card, figures, and that plain
`datasets` opens what it leaves."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from prefkit import pipeline, recipe, stages
from prefkit.context import Context
from prefkit.data import columns
from prefkit.progress import quiet
from prefkit.runfolder import RunFolder
from prefkit.tasks.sampling import Parts

if TYPE_CHECKING:
    from prefkit.tasks.base import Example
    from prefkit.tasks.sql import SqlTask
    from prefkit.verify.scheduler import Scheduler

Row = dict[str, Any]
FRUIT = "SELECT name FROM item WHERE kind = 'fruit'"
ANSWERS = {
    "shop/count": ["SELECT COUNT(*) FROM item", "SELECT 1"], "shop/fruit": [FRUIT, FRUIT], "farm/count": ["SELECT 2", "SELECT 4"],
    "farm/fruit": ["SELECT name FROM item", "SELECT 3"],
}  # fmt: skip


class Tokens:
    """Stands for the pool of model processes."""

    def __init__(self, tokenize: Callable[[list[Row]], list[Row]]) -> None:
        self.tokenize = tokenize

    def map(self, job: str, batches: Iterable[Row]) -> Iterator[tuple[int, list[Row]]]:
        assert job == "tokenize"
        yield from ((number, self.tokenize(batch["rows"])) for number, batch in enumerate(batches))


@pytest.fixture
def make(
    tmp_path: Path, task: SqlTask, examples: list[Example], scheduler: Scheduler, tokenize: Callable, answered: Callable
) -> Iterator[Callable[..., tuple[RunFolder, Row]]]:
    """Run the stage of round 1 with these settings, on ANSWERS."""
    asked = tuple(example for example in examples if example.id in ANSWERS)

    def make(*overrides: str, logged: dict[str, list[str]] | None = None, name: str = "run") -> tuple[RunFolder, Row]:
        run = RunFolder(tmp_path / name)
        for kind, rows in zip(("rollouts", "verdicts"), answered(ANSWERS), strict=True):
            run.write_rows(f"{kind}/rollouts-1.parquet", rows)
        if logged:
            rollouts, verdicts = answered(logged, model="history", logprobs=[], completion_ids=[])
            for rows in (rollouts, verdicts):
                for row in rows:
                    row["id"] = row["id"].replace("rollouts-1", "history")
            run.write_rows("rollouts/history.parquet", rollouts)
            run.write_rows("verdicts/history.parquet", verdicts)
        run.write_rows("pairs/corrections-1.parquet", [], columns.pairs())
        run.describe(stages={"pairs-0": {"status": "done", "figures": {"rows": 7, "pairs": 3, "reference": 7}}})
        chosen = recipe.load("sql-gen", profile="cpu", overrides=list(overrides))
        parts = Parts(references=(), own=asked, calibrate=(), readiness=(), wanted={}, available=len(examples))
        pool: Any = Tokens(tokenize)
        with quiet() as progress:
            context = Context(chosen, run, task, pool, scheduler, progress, "pairs-1", None, parts)
            return run, stages.make_pairs(context, 1)

    yield make


def test_the_default_makes_rows_and_a_card_and_executes_nothing(make: Callable) -> None:
    run, counts = make()
    rows = run.read_rows("pairs/round-1.parquet")
    assert [(row["example_id"], row["rejected_source"]) for row in rows] == [("shop/count", "model"), ("shop/fruit", None)]
    assert (counts["rows"], counts["pairs"], counts["prompts_all_right"], counts["prompts_none_right"]) == (2, 1, 1, 2)
    assert counts["warnings"] == [] and not run.file("rollouts/pairs-1.parquet").exists()
    card = run.file("pairs/README.md").read_text()
    assert "| rows | 7 | 2 |" in card and "- longest row in tokens: 1024" in card


def test_mutations_are_kept_as_rollouts_and_verdicts_that_rows_name(make: Callable) -> None:
    run, counts = make("pairs.mutations=2", "pairs.per_prompt=2")
    rows = run.read_rows("pairs/round-1.parquet")
    keys = {}
    for stage in ("rollouts-1", "pairs-1"):
        rollouts, verdicts = (run.read_rows(f"{kind}/{stage}.parquet") for kind in ("rollouts", "verdicts"))
        assert [row["id"] for row in rollouts] == [row["id"] for row in verdicts]
        keys |= {row["id"]: (row["key"], row["status"]) for row in verdicts}
    assert {row["rejected_source"] for row in rows} == {"model", "mutation"}
    for row in rows:
        assert keys[row["chosen_rollout"]] == (row["chosen_verdict"], "PASS")
        assert keys[row["rejected_rollout"]] == (row["rejected_verdict"], row["rejected_status"])
        assert row["rejected_status"] == "WRONG"
    assert counts["verifier_calls"] == counts["mutations_tried"] == len(run.read_rows("rollouts/pairs-1.parquet")) > 0


def test_the_plan_names_the_files_that_the_stage_leaves(make: Callable) -> None:
    overrides = ["pairs.mutations=2", "pairs.per_prompt=2"]
    run, _ = make(*overrides)
    planned = {stage.name: stage.writes for stage in pipeline.plan(recipe.load("sql-gen", profile="cpu", overrides=overrides))}
    assert all(run.file(rel).is_file() for rel in planned["pairs-1"])
    assert "rollouts/pairs-1.parquet" in planned["pairs-1"] and "pairs/README.md" in planned["pairs-1"]
    assert "pairs/README.md" not in planned["pairs-0"]
    plain = {stage.name: stage.writes for stage in pipeline.plan(recipe.load("sql-gen", profile="cpu"))}
    assert plain["pairs-1"] == ("pairs/round-1.parquet", "pairs/README.md")


def test_a_fallback_is_taken_only_where_the_recipe_says_so(make: Callable) -> None:
    logged = {"farm/count": ["SELECT COUNT(id) FROM item"]}
    assert {row["source"] for row in make(logged=logged)[0].read_rows("pairs/round-1.parquet")} == {"model"}
    run, counts = make('pairs.fallback=["history","reference"]', logged=logged, name="other")
    found = {row["example_id"]: row for row in run.read_rows("pairs/round-1.parquet")}
    assert {name: row["source"] for name, row in found.items()} == {
        "shop/count": "model", "shop/fruit": "model", "farm/count": "history", "farm/fruit": "reference",
    }  # fmt: skip
    assert (counts["history"], counts["reference"]) == (1, 1)
    (history,) = run.read_rows("verdicts/history.parquet")
    assert (found["farm/count"]["chosen_rollout"], found["farm/count"]["chosen_verdict"]) == (history["id"], history["key"])


def test_plain_datasets_opens_every_file(make: Callable, tmp_path: Path) -> None:
    from datasets import load_dataset

    run, _ = make("pairs.mutations=1", "pairs.per_prompt=2")
    files = sorted(run.path.rglob("*.parquet"))
    assert len(files) == 6
    for file in files:
        rows = run.read_rows(file.relative_to(run.path).as_posix())
        # Of a file without rows load_dataset says "corresponds to no data", unless it streams.
        loaded = load_dataset("parquet", data_files=str(file), split="train", cache_dir=str(tmp_path / "cache"), streaming=not rows)
        assert list(loaded) == rows
        assert {"id", "example_id"} & set(loaded.column_names or ())
