"""What a measured run counts, on processes whose memory is known."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
HELD = 200_000_000
# A process that starts another one, which holds HELD bytes of its own for two seconds.
CHILD = f"import time; held = bytearray(b'x') * {HELD}; time.sleep(2)"
PARENT = f"import subprocess, sys; sys.exit(subprocess.call([sys.executable, '-c', {CHILD!r}]))"


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("measured_run", ROOT / "benchmarks" / "measured_run.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


measured_run = load()


def test_the_memory_of_processes_below_the_command_counts(tmp_path: Path) -> None:
    found = measured_run.measure([sys.executable, "-c", PARENT], tmp_path)
    assert found["code"] == 0
    assert HELD < found["peak_memory_bytes"] < HELD + 150_000_000
    assert found["seconds"] > 2


def test_a_failing_command_gives_its_exit_code_and_an_ended_process_has_no_memory(tmp_path: Path) -> None:
    assert measured_run.measure([sys.executable, "-c", "raise SystemExit(3)"], tmp_path)["code"] == 3
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    assert measured_run.tree_memory(ended.pid) == 0
    assert measured_run.tree_memory(os.getpid()) > 1_000_000


def test_the_machine_is_named_with_its_cores_and_memory() -> None:
    said = measured_run.machine()
    assert " cores of " in said and "GB of memory" in said


def test_a_folder_that_holds_a_run_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "manifest.json").write_text("{}")
    assert measured_run.main(["--quick", "--run", str(tmp_path)]) == 2
    assert "holds a run already" in capsys.readouterr().err


def test_an_unknown_recipe_is_a_message(capsys: pytest.CaptureFixture[str]) -> None:
    assert measured_run.main(["sql-gne"]) == 2
    assert "did you mean sql-gen" in capsys.readouterr().err
