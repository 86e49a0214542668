"""HumanEval as a whole: 164 references in both ways, and three mutants of each problem whose checks reduce to calls. Takes minutes."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "verify"))
from code_judge import Judge, open_pool  # pyright: ignore[reportMissingImports]
from humaneval import problems  # pyright: ignore[reportMissingImports]
from humaneval_judge import judge_mutants, judge_references  # pyright: ignore[reportMissingImports]

pytestmark = pytest.mark.soak


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    with open_pool() as pool:
        yield Judge(pool)


@pytest.fixture
def shared() -> Path:
    folder = os.environ.get("PREFKIT_SHARED")
    if not folder:
        pytest.skip("PREFKIT_SHARED does not name the folder with the real data")
    return Path(folder)


def test_every_reference_passes(shared: Path, judge: Judge) -> None:
    assert judge_references(judge, problems(shared)) == []


def test_no_mutant_passes(shared: Path, judge: Judge) -> None:
    counts = judge_mutants(judge, problems(shared), each=3)
    assert counts.passed == []
    assert counts.by_values >= 300
    assert counts.by_tests >= 250
