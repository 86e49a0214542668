"""One small run for the whole session, which tests copy before they change it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from small_run import make


@pytest.fixture(scope="session")
def small_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The untouched run. Only for reading."""
    with pytest.MonkeyPatch.context() as patch:  # undone before any other test runs
        return make(tmp_path_factory.mktemp("shop"), patch)


@pytest.fixture
def copied(small_run: Path, tmp_path: Path) -> Path:
    """A copy to change. Its data lies where the small run's lies."""
    return Path(shutil.copytree(small_run, tmp_path / "run"))
