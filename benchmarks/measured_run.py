"""One run of a recipe from its beginning, with its wall time and peak memory: RUN/bench.json, which benchmarks/figures.py reads.

    python benchmarks/measured_run.py --set seed=17
    python benchmarks/measured_run.py --quick            # the smoke profile

It runs the command that a user runs, in a folder of its own, and looks at the memory of all its processes every two seconds (looking takes
processor time that the run would pay). Pages that they share count once where the system says so (PSS on Linux); elsewhere resident memory
is added up, which is too much rather than too little.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil

from prefkit import recipe
from prefkit.errors import PrefkitError
from prefkit.runfolder import RunFolder, run_path

EVERY_S = 2.0
HELP_RUNS = 5


def measure(command: Sequence[str], folder: Path) -> dict[str, Any]:
    """Run `command` to its end: exit code, wall seconds, and the most memory in bytes that its processes had together, at all and by stage
    of the run in `folder`."""
    start = time.monotonic()
    process = subprocess.Popen(command)
    peaks: dict[str, int] = {}
    try:
        while process.poll() is None:
            stage = next((event["stage"] for event in reversed(RunFolder(folder).read_events()) if "stage" in event), "start")
            peaks[stage] = max(peaks.get(stage, 0), tree_memory(process.pid))
            time.sleep(EVERY_S)
    finally:
        # Ctrl-C reaches the command by itself; whatever else ends this script must not leave it running.
        if process.poll() is None:
            process.wait()
    return {
        "code": process.returncode,
        "seconds": time.monotonic() - start,
        "peak_memory_bytes": max(peaks.values(), default=0),
        "peak_memory_bytes_by_stage": peaks,
    }


def tree_memory(pid: int) -> int:
    """Memory in bytes of a process and all below it, at this moment; 0 where it has ended."""
    total = 0
    try:
        root = psutil.Process(pid)
        family = [root, *root.children(recursive=True)]
    except psutil.Error:
        return 0
    for process in family:
        try:
            memory = process.memory_full_info()
            total += getattr(memory, "pss", 0) or memory.rss
        except (psutil.Error, OSError):  # it ended while it was looked at
            continue
    return total


def help_seconds() -> float:
    """Wall seconds of `prefkit --help`, the best of a few: what other programs do at the same time should not count."""
    best = float("inf")
    for _ in range(HELP_RUNS):
        start = time.perf_counter()
        subprocess.run([sys.executable, "-m", "prefkit", "--help"], check=True, stdout=subprocess.DEVNULL)
        best = min(best, time.perf_counter() - start)
    return best


def machine() -> str:
    """The machine in a few words: cores that may be used, processor, memory."""
    name = platform.processor() or platform.machine()
    if Path("/proc/cpuinfo").is_file():
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
        name = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), name)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return f"{cores} cores of {name}, {psutil.virtual_memory().total / 1e9:.0f} GB of memory, {platform.system()}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the recipe and write RUN/bench.json. Returns the command's exit code; nothing is written where it failed."""
    parser = argparse.ArgumentParser(description="One run of a recipe, with its wall time and peak memory.")
    parser.add_argument("recipe", nargs="?", default="sql-gen", help="a shipped recipe or a YAML file")
    parser.add_argument("--set", dest="overrides", action="append", default=[], metavar="key=value", help="change a setting")
    parser.add_argument("--profile", help="cpu, gpu or smoke")
    parser.add_argument("--quick", action="store_true", help="the smoke profile")
    parser.add_argument("--run", type=Path, help="the run folder, which must be new (else the next free one below runs/)")
    parser.add_argument("--json", type=Path, help="write the same as bench.json into this file")
    given = parser.parse_args(arguments)
    profile = "smoke" if given.quick else given.profile
    try:
        folder = given.run or run_path(recipe.load(given.recipe, profile=profile, overrides=given.overrides).run_name, fresh=True)
    except PrefkitError as error:
        print(f"measured_run: {error}", file=sys.stderr)
        return 2
    if (folder / "manifest.json").exists():
        print(f"measured_run: {folder} holds a run already; what is done there would not be measured. Name a new folder.", file=sys.stderr)
        return 2
    command = [sys.executable, "-m", "prefkit", "recipe", given.recipe, "--run", str(folder)]
    command += ["--profile", profile] if profile else []
    command += [part for override in given.overrides for part in ("--set", override)]
    found = measure(command, folder)
    code = found.pop("code")
    if code:
        return code
    stages = {name: entry["seconds"] for name, entry in RunFolder(folder).manifest["stages"].items()}
    found |= {"stages": stages, "help_seconds": help_seconds(), "machine": machine()}
    RunFolder(folder).write_json("bench.json", found)
    if given.json:
        given.json.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    minutes, memory = found["seconds"] / 60, found["peak_memory_bytes"] / 1e9
    print(f"{folder}: {minutes:.1f} minutes, {memory:.2f} GB at most, help in {found['help_seconds']:.2f} s")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
