"""`load_dataset("parquet", …)` opens the rows of any run, those of many runs together, and those of which whole columns are empty."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from prefkit.data import columns
from prefkit.data.rollouts import Sampling, collect, first_turn
from prefkit.data.trajectories import Trajectory, Turn
from prefkit.errors import DataError
from prefkit.runfolder import RunFolder

if TYPE_CHECKING:
    from datasets import Dataset
    from prefkit.tasks.base import Example
    from prefkit.tasks.sql import SqlTask
    from prefkit.verify.scheduler import Scheduler

Row = dict[str, Any]


@pytest.fixture
def load(tmp_path: Path) -> Callable[..., Dataset]:
    """The rows of files below the run folder, as anyone loads them."""
    import datasets

    datasets.disable_progress_bars()
    return lambda *rels: datasets.load_dataset(
        "parquet", data_files=[str(tmp_path / rel) for rel in rels], split="train", cache_dir=str(tmp_path / "cache")
    )


@pytest.fixture
def rows(task: SqlTask, examples: list[Example], pool: Any, scheduler: Scheduler, tmp_path: Path) -> tuple[list[Row], list[Row]]:
    answers = {example.id: [example.golds[0], "SELECT 'no'"] for example in examples}
    sampling = Sampling({"name": "stand-in"}, None, 2, 1.0, 99, 5)
    return collect(
        "rollouts-1", first_turn(task, examples), sampling, task, pool(answers), scheduler, tmp_path / "p.jsonl", lambda *_: None
    )


def test_the_types_name_the_columns_that_rows_have(rows: tuple[list[Row], list[Row]], examples: list[Example]) -> None:
    training = {"model", "template", "versions", "data_hash"}  # put in when the rows are kept, as what a rollout was made with
    assert set(columns.rollouts()) == {*rows[0][0], "adapter", "template", "content_hash"}
    assert set(columns.verdicts()) == set(rows[1][0])
    one = Trajectory(examples[0], [Turn((rows[0][1], rows[1][1]))])
    one.add([(rows[0][0], rows[1][0])])
    assert set(columns.trajectories()) == {*one.row(), *training}
    pair = one.pair()
    assert pair is not None and set(columns.pairs()) == {*pair, *training}


def test_rollouts_with_and_without_parents_open_together(rows: tuple[list[Row], list[Row]], tmp_path: Path, load: Callable) -> None:
    run = RunFolder(tmp_path)
    first = rows[0]
    run.write_rows("rollouts/rollouts-1.parquet", first, columns.rollouts())
    second = [{**row, "turn": 1, "parent": row["id"], "logprobs": [], "completion_ids": []} for row in first]
    run.write_rows("rollouts/corrections-1.parquet", second, columns.rollouts())
    run.write_rows("rollouts/none.parquet", [], columns.rollouts())
    both = load("rollouts/none.parquet", "rollouts/rollouts-1.parquet", "rollouts/corrections-1.parquet")
    assert len(both) == 2 * len(first)
    assert both[0]["parent"] is None and both[len(first)]["parent"] == first[0]["id"]
    assert both[0]["messages"] == first[0]["messages"]


def test_verdicts_open_together_whether_or_not_any_has_feedback(rows: tuple[list[Row], list[Row]], tmp_path: Path, load: Callable) -> None:
    run = RunFolder(tmp_path)
    right = [row for row in rows[1] if row["score"] == 1]
    assert right and all(row["feedback"] is None for row in right)
    run.write_rows("verdicts/a.parquet", right, columns.verdicts())
    run.write_rows("verdicts/b.parquet", [row for row in rows[1] if row["score"] == 0], columns.verdicts())
    run.write_rows("verdicts/c.parquet", [{**row, "score": None} for row in right], columns.verdicts())
    found = load("verdicts/a.parquet", "verdicts/b.parquet", "verdicts/c.parquet")
    assert [row["score"] for row in found] == [1.0] * 8 + [0.0] * 8 + [None] * 8
    assert load("verdicts/c.parquet").features["score"].dtype == "float64"


def test_trajectories_open_whatever_is_empty_in_them(
    rows: tuple[list[Row], list[Row]], examples: list[Example], tmp_path: Path, load: Callable
) -> None:
    """Never a reference, never a completion, no tries and no control, no rows at all: the types are the same."""
    run = RunFolder(tmp_path)
    answers = list(zip(*rows, strict=True))
    bare = Trajectory(examples[0], [Turn(answers[1])])
    whole = Trajectory(examples[1], [Turn(answers[3])], fresh=(answers[2],))
    whole.add([answers[3], answers[2]])
    closed = Trajectory(examples[0], [Turn(answers[1]), Turn(answers[1], (answers[1],))], reference=[1, 2])
    for name, found in (("none", []), ("bare", [bare]), ("whole", [whole]), ("closed", [closed])):
        run.write_rows(f"trajectories/{name}.parquet", [one.row() for one in found], columns.trajectories())
        if found:  # alone, a file without rows is no data for `load_dataset`; with others it opens
            assert len(load(f"trajectories/{name}.parquet")) == len(found)
    every = load(*(f"trajectories/{name}.parquet" for name in ("none", "bare", "whole", "closed")))
    assert every["end"] == ["open", "repaired", "reference"]
    assert every[0]["completion"] is None and every[0]["fresh"] == [] and every[0]["turns"][0]["tries"] == []
    assert [one["score"] for one in every[1]["turns"][1]["tries"]] == [0, 1]
    assert every[2]["turns"][1]["rollout"] is None


def test_columns_without_a_fixed_type_are_kept_and_wrong_values_refused(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    run.write_rows("a.parquet", [{"id": "1", "extra": 3}, {"id": "2"}], columns.verdicts())
    (first, second) = run.read_rows("a.parquet")
    assert (first["id"], first["extra"], second["extra"], second["feedback"]) == ("1", 3, None, None)
    with pytest.raises(DataError, match=r"a\.parquet: the column score cannot be written"):
        run.write_rows("a.parquet", [{"id": "1", "score": "right"}], columns.verdicts())
