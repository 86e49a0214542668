"""Every fault that is planted in a run is found, and named by its file, its row and what is wrong with it."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from faults import CASES, Fault, forge

from prefkit.audit.run import audit
from prefkit.cli import main
from prefkit.commands.audit import GROUPS
from prefkit.runfolder import RunFolder
from prefkit.verify.scheduler import Scheduler


@pytest.fixture(scope="module")
def scheduler() -> Iterator[Scheduler]:
    """Shared, so that equal answers to equal questions on equal data are executed once for all tests."""
    with Scheduler(workers=2) as scheduler:
        yield scheduler


def test_an_untouched_run_agrees_in_everything(small_run: Path, scheduler: Scheduler) -> None:
    findings = audit(small_run, scheduler)
    assert [found.line() for found in findings.disagreements] == []
    assert {group for group, count in findings.checked.items() if count} == set(GROUPS)
    assert all(findings.agreeing(group) == count for group, count in findings.checked.items())


def test_a_run_may_be_moved_and_its_report_written_again(copied: Path, scheduler: Scheduler) -> None:
    moved = copied.rename(copied.with_name("moved"))
    assert audit(moved, scheduler).agrees
    assert main(["report", str(moved)]) == 0
    assert audit(moved, scheduler).agrees


def test_fifty_faults_or_more_are_planted() -> None:
    assert len(CASES) >= 50


@pytest.mark.parametrize(("fault", "seed"), CASES, ids=[f"{fault.name} {seed}" for fault, seed in CASES])
def test_a_planted_fault_is_found_and_named(fault: Fault, seed: int, copied: Path, scheduler: Scheduler) -> None:
    run = RunFolder(copied)
    file, row, what = fault.plant(run, random.Random(f"{fault.name}/{seed}"))
    if fault.forged:
        forge(run)
    findings = audit(copied, scheduler)
    named = [found for found in findings.disagreements if found.file.startswith(file) and row in found.row and what in found.what]
    assert named, "\n".join(found.line() for found in findings.disagreements) or "nothing was found"
