"""A run that is killed at any moment and begun again ends like one that nobody touched. Takes about half an hour."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from prefkit import pipeline, recipe
from prefkit.hashing import hash_file
from prefkit.runfolder import RunFolder

pytestmark = pytest.mark.soak

KILLS, SEED = 10, 20260
TOLERANCE = 1e-5
SMOKE: tuple[str, ...] = ()
# The smoke profile answers next to nothing right. With more references, room for whole queries and more answers, its own pairs and its
# online steps have something to learn from.
SIGNAL = (
    "limits.references=96", "warm_start.rounds.0.epochs=2", "limits.own=24", "rollouts.max_new_tokens=48", "warm_start.rounds.1.epochs=4",
    "limits.calibrate=24", "calibrate.steps=3", "calibrate.prompts=8", "calibrate.k=4", "calibrate.temperature=0.7",
)  # fmt: skip


def undisturbed(folder: Path, overrides: tuple[str, ...]) -> tuple[RunFolder, float]:
    """A run that nobody touched, and how many seconds it took."""
    started = time.monotonic()
    assert start(folder, overrides).wait() == 0, log_of(folder)
    return RunFolder(folder), time.monotonic() - started


@pytest.fixture(scope="module")
def smoke(tmp_path_factory: pytest.TempPathFactory) -> tuple[RunFolder, float]:
    return undisturbed(tmp_path_factory.mktemp("runs") / "smoke", SMOKE)


@pytest.fixture(scope="module")
def signal_run(tmp_path_factory: pytest.TempPathFactory) -> tuple[RunFolder, float]:
    run, seconds = undisturbed(tmp_path_factory.mktemp("runs") / "signal", SIGNAL)
    figures = {name: entry["figures"] for name, entry in run.manifest["stages"].items()}
    for stage in ("warm_start-1", "calibrate"):
        assert figures[stage]["changed_share"] > 0, f"{stage} learned nothing that a kill could spoil"
    return run, seconds


@pytest.mark.parametrize("number", range(KILLS))
def test_killed_at_a_random_moment_and_resumed_ends_the_same(number: int, smoke: tuple[RunFolder, float], tmp_path: Path) -> None:
    whole, seconds = smoke
    draw = random.Random(SEED + number)
    # Each kill falls into its own tenth of the run, so that all stages have their turn.
    moment = seconds * (number + draw.random()) / KILLS
    folder = tmp_path / "killed"
    killed_at = kill_after(folder, moment, SMOKE)
    resume(folder, SMOKE)
    compare(whole, RunFolder(folder), f"killed after {moment:.1f} s, in {killed_at}")


def test_killed_again_and_again_ends_the_same(signal_run: tuple[RunFolder, float], tmp_path: Path) -> None:
    whole, seconds = signal_run
    draw = random.Random(SEED)
    folder = tmp_path / "killed"
    moments = [seconds * draw.uniform(0.1, 0.4) for _ in range(KILLS)]
    places = [kill_after(folder, moment, SIGNAL) for moment in moments]
    resume(folder, SIGNAL)
    compare(whole, RunFolder(folder), f"killed in {', '.join(places)}")


def start(folder: Path, overrides: tuple[str, ...]) -> subprocess.Popen[bytes]:
    """The command that a person types, on the smoke profile."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "prefkit", "recipe", "sql-gen", "--profile", "smoke", "--run", str(folder)]
    command += [part for override in overrides for part in ("--set", override)]
    environment = {**os.environ, "WANDB_MODE": "offline", "HF_HUB_OFFLINE": "1"}
    with log_path(folder).open("ab") as log:
        return subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=environment)


def kill_after(folder: Path, seconds: float, overrides: tuple[str, ...]) -> str:
    """Start or go on, kill after `seconds` with everything that belongs to it, and say which stage it was in."""
    process = start(folder, overrides)
    with contextlib.suppress(subprocess.TimeoutExpired):
        assert process.wait(seconds) == 0, log_of(folder)
        return "the end"
    family = psutil.Process(process.pid).children(recursive=True)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    _, left = psutil.wait_procs([child for child in family if "prefkit" in command_of(child)], timeout=20)
    assert not left, f"outlived the run: {[command_of(child) for child in left]}"
    stages = RunFolder(folder).manifest["stages"]
    return next((name for name, entry in stages.items() if entry["status"] != "done"), "between stages")


def resume(folder: Path, overrides: tuple[str, ...]) -> None:
    assert start(folder, overrides).wait() == 0, log_of(folder)


def compare(whole: RunFolder, resumed: RunFolder, what: str) -> None:
    """The same pairs, adapters, answers and stages."""
    from safetensors.numpy import load_file

    files, found = (
        sorted(path.relative_to(run.path).as_posix() for path in run.path.rglob("*") if wanted(path)) for run in (whole, resumed)
    )
    assert found == files, what
    for rel in files:
        if rel.endswith(".safetensors"):
            first, second = load_file(whole.file(rel)), load_file(resumed.file(rel))
            assert first.keys() == second.keys()
            worst = max(float(abs(first[name] - second[name]).max()) for name in first)
            assert worst < TOLERANCE, f"{rel} differs by {worst}; {what}"
        else:
            assert hash_file(whole.file(rel)) == hash_file(resumed.file(rel)), f"{rel} differs; {what}"
    stages = [stage.name for stage in pipeline.plan(recipe.load("sql-gen", profile="smoke"))]
    assert list(resumed.manifest["stages"]) == stages == list(whole.manifest["stages"]), what
    assert all(entry["status"] == "done" for entry in resumed.manifest["stages"].values()), what
    done = [event["stage"] for event in resumed.read_events() if event["kind"] == "done"]
    assert len(done) == len(set(done)), f"a stage was finished twice; {what}"
    assert curves(resumed) == curves(whole), what
    assert not [path for path in resumed.path.rglob("*") if "partial" in path.name or path.name.startswith(".tmp")], what


def wanted(path: Path) -> bool:
    """What must be equal: pairs, answers, verdicts, trajectories and weights. Reports and manifests hold times."""
    return path.suffix in (".parquet", ".safetensors") and "wandb" not in path.parts


def curves(run: RunFolder) -> list[tuple[Any, ...]]:
    """Which step of which stage was logged, each once."""
    return sorted((row["stage"], row["step"], "loss" in row) for row in run.read_metrics())


def command_of(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.NoSuchProcess:
        return ""


def log_path(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.log")


def log_of(folder: Path) -> str:
    return log_path(folder).read_text("utf-8", "replace")[-4000:]
