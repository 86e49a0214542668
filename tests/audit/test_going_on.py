"""A run that goes on from another with rows out of production: untouched it agrees, and faults in what is new to it are named."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from faults import change, flipped, forge
from small_run import make_next

from prefkit import recipe
from prefkit.audit.run import audit
from prefkit.context import load_task
from prefkit.data import receipts
from prefkit.data.findings import Findings
from prefkit.runfolder import RunFolder
from prefkit.verify.scheduler import Scheduler

Row = dict[str, Any]
HISTORY = "history.parquet"


@pytest.fixture(scope="module")
def scheduler() -> Iterator[Scheduler]:
    with Scheduler(workers=2) as scheduler:
        yield scheduler


@pytest.fixture(scope="module")
def following(small_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The untouched run. Only for reading."""
    with pytest.MonkeyPatch.context() as patch:
        return make_next(small_run, tmp_path_factory.mktemp("next"), patch)


def test_an_untouched_run_agrees_in_everything(following: Path, scheduler: Scheduler) -> None:
    run = RunFolder(following)
    sources = Counter(row["source"] for number in (0, 1) for row in run.read_rows(f"pairs/round-{number}.parquet"))
    assert {"history", "reference", "correction", "model"} <= sources.keys()
    ends = {row["end"] for name in ("round-0", "round-1", "history") for row in run.read_rows(f"trajectories/{name}.parquet")}
    assert ends == {"repaired", "reference", "open"}
    findings = audit(following, scheduler)
    assert [found.line() for found in findings.disagreements] == []
    assert all(findings.agreeing(group) == count for group, count in findings.checked.items())


def test_an_address_that_was_taken_out_of_feedback_is_no_disagreement(following: Path, scheduler: Scheduler) -> None:
    run = RunFolder(following)
    row = next(row for row in run.read_rows(f"rollouts/{HISTORY}") if "example.com" in row["completion"])
    verdict = next(one for one in run.read_rows(f"verdicts/{HISTORY}") if one["id"] == row["id"])
    assert "[EMAIL]" in verdict["feedback"] and "ann@example.com" not in verdict["feedback"]
    task = load_task(recipe.load(following))
    example = next(example for example in task.load("ingested") if example.id == row["example_id"])
    (found,) = scheduler.verify([task.check(example, row["completion"])])
    assert "ann@example.com" in (found.feedback or "") and audit(following, scheduler).agrees


def test_what_it_goes_on_from_may_be_gone(following: Path, small_run: Path, scheduler: Scheduler) -> None:
    away = small_run.rename(small_run.with_name("away"))
    try:
        assert audit(following, scheduler).agrees
    finally:
        away.rename(small_run)


def test_without_the_ingested_folder_rows_are_compared_with_each_other(following: Path, scheduler: Scheduler) -> None:
    folder = following.with_name("new-data")
    away = folder.rename(folder.with_name("away"))
    try:
        findings = audit(following, scheduler)
    finally:
        away.rename(folder)
    assert [(found.file, found.row) for found in findings.disagreements] == [("recipe.yaml", "task")]
    assert findings.checked["pairs"] and findings.checked["trajectories"] and findings.checked["figures"]


def test_faults_in_what_is_new_are_named(following: Path, tmp_path: Path, scheduler: Scheduler) -> None:
    run, draw = RunFolder(shutil.copytree(following, tmp_path / "run")), random.Random(1)
    expected = [plant(run, draw) for plant in FAULTS]
    forge(run)
    findings = audit(run.path, scheduler)
    missed = [one for one in expected if not named(findings, *one)]
    assert not missed, "\n".join([*map(str, missed), *(found.line() for found in findings.disagreements)])


def named(findings: Findings, file: str, row: str, what: str) -> bool:
    return any(found.file == file and row in found.row and what in found.what for found in findings.disagreements)


Planted = tuple[str, str, str]


def other_start(run: RunFolder, _: random.Random) -> Planted:
    run.file("start/adapter/adapter_model.safetensors").write_text("0.11")
    return "start/adapter/adapter_model.safetensors", "", "earlier run"


def logged_verdict(run: RunFolder, draw: random.Random) -> Planted:
    file = f"verdicts/{HISTORY}"
    return file, change(run, file, draw, lambda row: True, flipped)["id"], "status"


def logged_reason(run: RunFolder, draw: random.Random) -> Planted:
    file = f"verdicts/{HISTORY}"
    return file, change(run, file, draw, lambda row: row["score"] == 0, lambda row: row.update(reason="other"))["id"], "reason"


def logged_answer(run: RunFolder, draw: random.Random) -> Planted:
    def edit(row: Row) -> None:
        row["completion"] = "I do not know."
        row["content_hash"] = receipts.content_hash(row, receipts.ROLLOUT)

    right = {row["id"] for row in run.read_rows(f"verdicts/{HISTORY}") if row["score"] == 1}
    return f"verdicts/{HISTORY}", change(run, f"rollouts/{HISTORY}", draw, lambda row: row["id"] in right, edit)["id"], "status"


def logged_model(run: RunFolder, draw: random.Random) -> Planted:
    file = f"rollouts/{HISTORY}"
    return file, change(run, file, draw, lambda row: True, lambda row: row.update(model="mutation"))["id"], "model"


def logged_turn(part: str, value: Any) -> Callable[[RunFolder, random.Random], Planted]:
    def plant(run: RunFolder, draw: random.Random) -> Planted:
        file = f"trajectories/{HISTORY}"
        return file, change(run, file, draw, lambda row: True, lambda row: row["turns"][0].update({part: value}))["id"], f"turn 0, {part}"

    return plant


def logged_end(run: RunFolder, draw: random.Random) -> Planted:
    file = f"trajectories/{HISTORY}"
    return file, change(run, file, draw, lambda row: row["end"] == "open", lambda row: row.update(end="repaired"))["id"], "end"


def logged_pair(name: str, value: Any) -> Callable[[RunFolder, random.Random], Planted]:
    def plant(run: RunFolder, draw: random.Random) -> Planted:
        file = "pairs/round-0.parquet"
        return file, change(run, file, draw, lambda row: row["source"] == "history", lambda row: row.update({name: value}))["id"], name

    return plant


def closing_gold(run: RunFolder, draw: random.Random) -> Planted:
    """Another text in the place of the gold that closes a trajectory."""

    def edit(row: Row) -> None:
        row["turns"][-1]["content"] = "SELECT 1"

    file = "trajectories/round-0.parquet"
    row = change(run, file, draw, lambda row: row["end"] == "reference", edit)
    return file, row["id"], f"turn {len(row['turns']) - 1}, content"


def earlier_answer(run: RunFolder, draw: random.Random) -> Planted:
    """An answer of the earlier run's model that passes for the base model's."""

    def edit(row: Row) -> None:
        row["adapter"] = None
        row["content_hash"] = receipts.content_hash(row, receipts.ROLLOUT)

    file = f"rollouts/{draw.choice(['readiness', 'rollouts-0'])}.parquet"
    return file, change(run, file, draw, lambda row: True, edit)["id"], "adapter"


FAULTS: list[Callable[[RunFolder, random.Random], Planted]] = [
    logged_verdict, logged_reason, logged_answer, logged_model, logged_turn("verdict", "0" * 64), logged_turn("status", "CRASH!"),
    logged_turn("train", True), logged_end, logged_pair("rejected_source", "model"), logged_pair("rejected_status", "TAMPER"),
    logged_pair("chosen_verdict", "0" * 64), closing_gold, earlier_answer, other_start,
]  # fmt: skip
