"""HumanEval: every reference passes, in both ways; no mutant that does something else passes. A tenth here, all of it in tests/soak."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from code_judge import Judge, open_pool
from humaneval import problems
from humaneval_judge import REDUCING, judge_mutants, judge_references


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    with open_pool() as pool:
        yield Judge(pool)


def test_checks_that_reduce_to_calls(shared: Path) -> None:
    found = problems(shared)
    assert len(found) == 164
    assert sum(problem.reduces for problem in found) == REDUCING


def test_references_pass_by_tests_and_by_values(shared: Path, judge: Judge) -> None:
    assert judge_references(judge, problems(shared)[::10]) == []


def test_no_mutant_passes(shared: Path, judge: Judge) -> None:
    counts = judge_mutants(judge, problems(shared)[::10], each=3)
    assert counts.passed == []
    assert counts.by_values >= 30
    assert counts.by_tests >= 20
