"""Every fault that is planted in a run is found, and named by its file, its row and what is wrong with it."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from faults import CASES, FAULTS, Expected, batch_of, forge

from prefkit.audit.run import audit
from prefkit.cli import main
from prefkit.commands.audit import GROUPS
from prefkit.data.findings import Findings
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
    assert len(CASES) >= 50 and len({fault.name for fault in FAULTS}) == len(FAULTS)


@pytest.fixture(scope="module")
def audited(small_run: Path, tmp_path_factory: pytest.TempPathFactory, scheduler: Scheduler) -> Callable[[int], tuple[Expected, Findings]]:
    """(case) -> what must be named, and the findings in the run in which it was planted with others; each run is audited once."""
    known: dict[tuple[str, int], tuple[dict[int, Expected], Findings]] = {}

    def audited(case: int) -> tuple[Expected, Findings]:
        batch = batch_of(case)
        if batch not in known:
            run = RunFolder(shutil.copytree(small_run, tmp_path_factory.mktemp("faults") / "run"))
            planted = {}
            for number, (fault, seed) in enumerate(CASES):
                if batch_of(number) == batch:
                    planted[number] = fault.plant(run, random.Random(f"{fault.name}/{seed}"))
            if all(CASES[number][0].forged for number in planted):
                forge(run)
            known[batch] = planted, audit(run.path, scheduler)
            shutil.rmtree(run.path)
        expected, findings = known[batch]
        return expected[case], findings

    return audited


@pytest.mark.parametrize("case", range(len(CASES)), ids=[f"{fault.name} {seed}" for fault, seed in CASES])
def test_a_planted_fault_is_found_and_named(case: int, audited: Callable[[int], tuple[Expected, Findings]]) -> None:
    (file, row, what), findings = audited(case)
    named = [found for found in findings.disagreements if found.file.startswith(file) and row in found.row and what in found.what]
    assert named, "\n".join([f"{file}, {row}: {what}", *(found.line() for found in findings.disagreements)])
