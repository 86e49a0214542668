"""Rollouts, corrections and pairs that are killed at random moments and resumed are those of a run that nobody touched.

Takes about a quarter of an hour. Everything up to the pairs of round 1 is run once; each kill works on a copy of that in which the stages
that sample and pair have yet to run, so that no training is repeated.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from prefkit.runfolder import RunFolder

pytestmark = pytest.mark.soak

KILLS, SEED = 20, 20264
STAGES = ["readiness", "rollouts-0", "pairs-0", "warm_start-0", "rollouts-1", "corrections-1", "pairs-1"]
AGAIN = [stage for stage in STAGES if stage != "warm_start-0"]
# The smoke profile with enough references that its own answers are right and wrong, and repairs have something to do.
SETTINGS = ["limits.references=96", "warm_start.rounds.0.epochs=2", "limits.own=24", "corrections.questions=8", "rollouts.branches=16"]
COMMAND = """
import sys
from pathlib import Path
from prefkit import pipeline, recipe
from prefkit.progress import quiet
folder, stages, settings = sys.argv[1], sys.argv[2].split(","), sys.argv[3:]
with quiet() as progress:
    pipeline.run(recipe.load("sql-gen", profile="smoke", overrides=settings), Path(folder), progress, only=stages)
"""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """The run that nobody touched, up to the pairs of round 1."""
    folder = tmp_path_factory.mktemp("runs") / "whole"
    finish(folder)
    run = RunFolder(folder)
    figures = {name: entry["figures"] for name, entry in run.manifest["stages"].items()}
    assert figures["rollouts-1"]["mixed"] > 0 and figures["pairs-1"]["pairs"] > 0, "own pairs that a kill could spoil"
    assert figures["corrections-1"]["trajectories"] > 0
    return run


@pytest.fixture(scope="module")
def seconds(whole: RunFolder, tmp_path_factory: pytest.TempPathFactory) -> float:
    """How long the stages take that are killed, where nobody kills them; their results are the same again."""
    folder = tmp_path_factory.mktemp("runs") / "again"
    begin_again(whole, folder)
    started = time.monotonic()
    finish(folder)
    compare(whole, RunFolder(folder), "run again without a kill")
    return time.monotonic() - started


@pytest.fixture(scope="module")
def places() -> Iterator[list[str]]:
    """Where the kills fell; printed at the end."""
    found: list[str] = []
    yield found
    print(f"\nseed {SEED}, killed in: {', '.join(found)}")


@pytest.mark.parametrize("number", range(KILLS))
def test_killed_and_resumed_gives_the_same_hashes(number: int, whole: RunFolder, seconds: float, places: list[str], tmp_path: Path) -> None:
    # Each kill falls into its own twentieth of the time, so that all stages have their turn.
    moment = seconds * (number + random.Random(SEED + number).random()) / KILLS
    folder = tmp_path / "killed"
    begin_again(whole, folder)
    process = start(folder)
    time.sleep(moment)
    kill(process)
    place = unfinished(RunFolder(folder))
    places.append(f"{place} at {moment:.1f} s")
    finish(folder)
    compare(whole, RunFolder(folder), places[-1])


def begin_again(whole: RunFolder, folder: Path) -> None:
    """A copy of the run that has the training of round 0 and nothing else."""
    shutil.copytree(whole.path, folder, ignore=shutil.ignore_patterns(".lock", "wandb", "logs"))
    run = RunFolder(folder)
    entries = run.manifest["stages"]
    for stage in AGAIN:
        for rel in entries[stage]["outputs"]:
            run.file(rel).unlink()
    run.describe(stages={name: entry for name, entry in entries.items() if name not in AGAIN})


def start(folder: Path) -> subprocess.Popen[bytes]:
    """The stages in a process group of their own."""
    environment = {**os.environ, "WANDB_MODE": "offline", "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, "-c", COMMAND, str(folder), ",".join(STAGES), *SETTINGS, "track.wandb=off"]
    with folder.with_name(f"{folder.name}.log").open("ab") as log:
        return subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=environment, start_new_session=True)


def kill(process: subprocess.Popen[bytes]) -> None:
    """SIGKILL to the whole process group; what has a group of its own ends with its parent."""
    family = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    _, left = psutil.wait_procs(family, timeout=20)
    assert not left, f"outlived the run: {left}"


def finish(folder: Path) -> None:
    assert start(folder).wait() == 0, folder.with_name(f"{folder.name}.log").read_text("utf-8", "replace")[-4000:]


def unfinished(run: RunFolder) -> str:
    """The stage that was under way."""
    entries = run.manifest["stages"]
    begun = [stage for stage in AGAIN if stage in entries and entries[stage]["status"] != "done"]
    waiting = [stage for stage in AGAIN if stage not in entries]
    return begun[0] if begun else f"before {waiting[0]}" if waiting else "the end"


def compare(whole: RunFolder, resumed: RunFolder, where: str) -> None:
    """The same content in every file of every stage, each done once, and nothing left over."""
    first, second = (contents(run) for run in (whole, resumed))
    assert second.keys() == first.keys(), where
    for stage, outputs in first.items():
        assert second[stage] == outputs, f"{stage} differs; killed in {where}"
    left = [path.name for path in resumed.path.rglob("*") if "partial" in path.name or path.name.startswith(".tmp")]
    assert left == [], where


def contents(run: RunFolder) -> dict[str, Any]:
    """Stage -> file -> hash of its content without timings, of everything that was killed."""
    entries = run.manifest["stages"]
    assert all(entries[stage]["status"] == "done" for stage in STAGES)
    return {stage: entries[stage]["outputs"] for stage in AGAIN}
