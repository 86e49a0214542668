"""The stages of corrections and pairs over a run folder, with a stand-in for the model: what they leave, what a killed one asks again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from prefkit import recipe, stages
from prefkit.context import Context
from prefkit.data.rollouts import first_turn
from prefkit.progress import quiet
from prefkit.runfolder import RunFolder, hash_file
from prefkit.tasks.sampling import Parts

if TYPE_CHECKING:
    from prefkit.tasks.base import Example
    from prefkit.tasks.sql import SqlTask
    from prefkit.verify.scheduler import Scheduler

Row = dict[str, Any]
FRUIT = "SELECT name FROM item WHERE kind = 'fruit'"
FIRST = {"shop/fruit": ["SELECT 1", "SELECT 1", "SELECT name", FRUIT], "farm/fruit": ["SELECT 2"] * 4}
LATER = {"shop/fruit/turn-1": ["SELECT 3", "SELECT 4"], "shop/fruit/turn-2": [FRUIT, "SELECT 5"]}
SETTINGS = ["corrections.questions=null", "corrections.turns=2", "rollouts.max_new_tokens=99"]


class Model:
    """The pool of answers and of token ids."""

    def __init__(self, answers: Any, tokenize: Any) -> None:
        self.answers, self._tokenize, self.processes = answers, tokenize, 1
        self.jobs: list[str] = []

    def map(self, job: str, batches: Iterable[Row]) -> Iterator[tuple[int, Any]]:
        self.jobs.append(job)
        if job == "tokenize":
            return iter([(number, self._tokenize(batch["rows"])) for number, batch in enumerate(batches)])
        return self.answers.map(job, batches)


@pytest.fixture
def context(task: SqlTask, examples: list[Example], scheduler: Scheduler, pool: Any, tokenize: Any, tmp_path: Path) -> Any:
    """(settings, round, folder) -> the context of a run whose rollouts of the round are there."""

    def make(settings: list[str], index: int, folder: str = "run") -> Context:
        chosen = recipe.load("sql-gen", overrides=[*SETTINGS, *settings])
        asked = tuple(example for example in examples if example.id in FIRST)
        parts = Parts(asked, asked, (), (), {}, len(examples))
        model = cast(Any, Model(pool(LATER), tokenize))
        run = RunFolder(tmp_path / folder)
        made = Context(chosen, run, task, model, scheduler, cast(Any, quiet()), stage=f"corrections-{index}", _parts=parts)
        if not run.file(f"rollouts/rollouts-{index}.parquet").is_file():
            first = Context(chosen, run, task, cast(Any, pool(FIRST)), scheduler, cast(Any, quiet()))
            name = f"rollouts-{index}"
            first.keep(name, *first.answer(name, first_turn(task, asked), first.sampling(None, 4, 1.0)))
        return made

    return make


def test_a_round_on_own_answers_leaves_trajectories_and_pairs_without_any_gold(context: Any) -> None:
    made = context([], 1)
    counted = stages.make_corrections(made, 1)
    run = made.run
    assert (counted["trajectories"], counted["repaired"], counted["open"], counted["closed_by_reference"]) == (2, 1, 1, 0)
    rows = run.read_rows("rollouts/corrections-1.parquet")
    assert counted["answers"] == counted["verifier_calls"] == len(rows) == 2 * (2 + 2) + 2 * 4
    assert counted["tokens"] == sum(row["tokens"] for row in rows)
    assert [row["id"] for row in rows] == [row["id"] for row in run.read_rows("verdicts/corrections-1.parquet")]
    names = {row["id"]: row for row in rows}
    for row in run.read_rows("trajectories/round-1.parquet"):
        receipts = [one["rollout"] for turn in row["turns"] for one in turn["tries"]] + [one["rollout"] for one in row["fresh"]]
        assert set(receipts) <= names.keys() and len(receipts) == 8
        assert row["turns"][0]["rollout"].startswith("rollouts-1/")
        assert row["end"] in ("repaired", "open")
    (pair,) = run.read_rows("pairs/corrections-1.parquet")
    assert (pair["source"], pair["chosen_rollout"]) == ("correction", "corrections-1/shop/fruit/turn-2/0")
    stages.make_pairs(made, 1)
    assert {row["source"] for row in run.read_rows("pairs/round-1.parquet")} == {"model", "correction"}
    untrained = context(["corrections.train=false"], 1)
    stages.make_pairs(untrained, 1)
    assert {row["source"] for row in run.read_rows("pairs/round-1.parquet")} == {"model"}


def test_in_a_round_on_references_the_gold_closes_what_was_not_repaired(context: Any) -> None:
    made = context(["corrections.references=true"], 0)
    counted = stages.make_corrections(made, 0)
    assert (counted["repaired"], counted["closed_by_reference"], counted["open"]) == (1, 1, 0)
    ends = {row["example_id"]: row["end"] for row in made.run.read_rows("trajectories/round-0.parquet")}
    assert ends == {"shop/fruit": "repaired", "farm/fruit": "reference"}
    stages.make_pairs(made, 0)
    rows = made.run.read_rows("pairs/round-0.parquet")
    turns = {(row["example_id"], row["source"], len(row["prompt"])) for row in rows}
    assert turns == {
        ("shop/fruit", "reference", 2), ("farm/fruit", "reference", 2), ("shop/fruit", "correction", 6), ("farm/fruit", "reference", 6),
    }  # fmt: skip
    assert len({row["id"] for row in rows}) == len(rows) == 4


@pytest.mark.parametrize("part", ["turn-1", "turn-2", "fresh"])
def test_a_stage_killed_in_any_of_its_parts_asks_nothing_twice(
    part: str, context: Any, killed: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    undisturbed = context([], 1)
    stages.make_corrections(undisturbed, 1)
    made = context([], 1, folder="killed")
    answer, asked = Context.answer, made.pool.answers.asked

    def cut(self: Context, name: str, *rest: Any, **more: Any) -> Any:
        found = answer(self, name, *rest, **more)
        if more["part"] == part:  # all of it is answered, nothing is written yet
            raise killed
        return found

    with monkeypatch.context() as patch, pytest.raises(killed):
        patch.setattr(Context, "answer", cut)
        stages.make_corrections(made, 1)
    again = context([], 1, folder="killed")
    stages.make_corrections(again, 1)
    before, after = ({name for names in names_of for name in names} for names_of in (asked, again.pool.answers.asked))
    assert before and not before & after
    assert len(before | after) == 2 + 2 + 2
    for file in undisturbed.run.path.rglob("*.parquet"):
        rel = file.relative_to(undisturbed.run.path).as_posix()
        assert hash_file(file) == hash_file(again.run.file(rel)), rel


def test_what_a_stage_has_asked_is_kept_until_the_stage_is_done(context: Any) -> None:
    """A run killed after its rows are written, before the manifest says so, has nothing to ask again."""
    made = context([], 1)
    stages.make_corrections(made, 1)
    again = context([], 1)
    stages.make_corrections(again, 1)
    assert again.pool.answers.asked == []
