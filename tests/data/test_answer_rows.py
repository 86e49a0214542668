"""The answers of a stage as pairs need them: the same values as the file has, each prompt held once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from prefkit.data import answer_rows
from prefkit.data.answer_rows import OF_ANSWERS, OF_PROMPTS, OF_VERDICTS, read_answers
from prefkit.data.pairs import Settings, own_pairs
from prefkit.errors import RunError
from prefkit.runfolder import RunFolder

if TYPE_CHECKING:
    from prefkit.tasks.base import Example

ANSWERS = {"shop/count": ["SELECT COUNT(*) FROM item", "SELECT 1", "…SELECT"], "farm/names": ["SELECT name FROM item", "SELECT 2"]}


@pytest.fixture
def run(answered: Callable, tmp_path: Path) -> RunFolder:
    run = RunFolder(tmp_path)
    rollouts, verdicts = answered(ANSWERS)
    run.write_rows("rollouts/rollouts-1.parquet", rollouts)
    run.write_rows("verdicts/rollouts-1.parquet", verdicts)
    return run


@pytest.mark.parametrize("batch", [1, 2, 4096])
def test_the_values_are_those_of_the_file(run: RunFolder, batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer_rows, "BATCH", batch)
    whole = [run.read_rows(f"{kind}/rollouts-1.parquet") for kind in ("rollouts", "verdicts")]
    rollouts, verdicts = read_answers(run, "rollouts-1")
    assert rollouts == [{name: row[name] for name in (*OF_ANSWERS, *OF_PROMPTS)} for row in whole[0]]
    assert verdicts == [{name: row[name] for name in OF_VERDICTS} for row in whole[1]]


def test_a_prompt_is_held_once_for_all_its_answers(run: RunFolder) -> None:
    rollouts, _ = read_answers(run, "rollouts-1")
    assert len({id(row["prompt_ids"]) for row in rollouts}) == len({id(row["messages"]) for row in rollouts}) == len(ANSWERS)


def test_the_pairs_are_those_of_whole_rows(run: RunFolder, examples: list[Example]) -> None:
    asked = [example for example in examples if example.id in ANSWERS]
    settings = Settings("nearest", 2, 500, 2, 0)
    whole = (run.read_rows("rollouts/rollouts-1.parquet"), run.read_rows("verdicts/rollouts-1.parquet"))
    rows, counts = own_pairs(asked, *read_answers(run, "rollouts-1"), [], settings)
    assert rows and (rows, counts) == own_pairs(asked, *whole, [], settings)


def test_a_stage_without_answers_gives_none(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    for kind in ("rollouts", "verdicts"):
        run.write_rows(f"{kind}/rollouts-1.parquet", [])
    assert read_answers(run, "rollouts-1") == ([], [])


def test_a_file_that_is_missing_or_broken_is_said(run: RunFolder) -> None:
    with pytest.raises(RunError, match=r"rollouts-2\.parquet is missing"):
        read_answers(run, "rollouts-2")
    run.file("verdicts/rollouts-1.parquet").write_bytes(b"no parquet")
    with pytest.raises(RunError, match=r"verdicts/rollouts-1\.parquet is broken"):
        read_answers(run, "rollouts-1")
