"""Folders of processes that live, that ended and that were killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from prefkit.temporary import TemporaryFolder

HOLD = """
import sys
from prefkit.temporary import TemporaryFolder
folder = TemporaryFolder()
(folder.path / "rows").write_text("1")
print(folder.path, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    return tmp_path


@contextmanager
def holder() -> Iterator[tuple[subprocess.Popen[str], Path]]:
    with subprocess.Popen([sys.executable, "-c", HOLD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process, Path(process.stdout.readline().strip())
        process.kill()


def test_closed_or_ended_it_is_gone(place: Path) -> None:
    folder = TemporaryFolder()
    (folder.path / "rows").write_text("1")
    folder.close()
    folder.close()
    assert os.listdir(place) == []
    with holder() as (process, path):
        assert (path / "rows").read_text() == "1"
        process.communicate("")
    assert os.listdir(place) == []


def test_of_a_killed_process_the_next_removes_it(place: Path) -> None:
    with holder() as (process, path):
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert path.exists()
        TemporaryFolder()
        assert os.listdir(place) == []


def test_of_a_living_process_it_stays(place: Path) -> None:
    with holder() as (process, path):
        own, other = TemporaryFolder(), TemporaryFolder()
        assert own.path != other.path
        TemporaryFolder()
        assert (path / "rows").read_text() == "1"
        assert own.path.exists()
        assert other.path.exists()
        own.close()
        other.close()
        process.communicate("")


def test_what_only_looks_like_one_stays(place: Path) -> None:
    (place / "else").mkdir()
    (place / "else" / "kept").write_text("1")
    (place / "prefkit-own-link").symlink_to(place / "else")
    (place / "prefkit-own-file").write_text("1")
    TemporaryFolder()
    assert sorted(os.listdir(place)) == ["else", "prefkit-own-file", "prefkit-own-link"]
    assert os.listdir(place / "else") == ["kept"]
