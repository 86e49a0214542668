"""The abuse suite: what hostile programs try, as root and as an ordinary user, in both tiers, each with its verdict's status."""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from prefkit.sandbox.tiers import probe_code
from tests.sandbox import abuse, ordinary

ROOT = Path(__file__).resolve().parents[2]
TOOLS = {"c": "gcc", "javascript": "node", "bash": "bash"}
WHO = ("root", "user")


@functools.cache
def outcomes(who: str, tier: str) -> dict[str, dict[str, Any]]:
    """Every case's line of the suite, run as root or as the ordinary user."""
    if who == "root":
        argv = [sys.executable, str(Path(abuse.__file__)), tier, str(ROOT)]
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=300)
    else:
        python = ordinary.python_for_all()
        assert python is not None
        with ordinary.home() as folder:
            done = ordinary.run_as_user([python, "abuse.py", tier, str(folder)], folder)
    assert done.returncode == 0, done.stderr
    lines = map(json.loads, done.stdout.splitlines())
    return {line["name"]: line for line in lines}


def skip_where_impossible(who: str, tier: str) -> None:
    probe = probe_code(tier)
    if probe.tier is None:
        pytest.skip(f"tier {tier} is not to be had here: {probe.mend}")
    if who == "root" and os.geteuid() != 0:
        pytest.skip("not run as root")
    if who == "user" and ordinary.python_for_all() is None:
        pytest.skip("no Python that an ordinary user may run")


@pytest.mark.parametrize("tier", ["A", "B"])
@pytest.mark.parametrize("who", WHO)
@pytest.mark.parametrize("case", abuse.CASES, ids=lambda case: case.name)
def test_abuse(case: abuse.Case, who: str, tier: str) -> None:
    if tier not in case.tiers:
        pytest.skip("tier B has no file system of its own")
    if case.language in TOOLS and not shutil.which(TOOLS[case.language]):
        pytest.skip(f"{TOOLS[case.language]} is not installed")
    skip_where_impossible(who, tier)
    line = outcomes(who, tier)[case.name]
    assert line["status"] in case.want, line
    assert case.free_of not in line["output"]
    assert line["next"] == case.prints, line


@pytest.mark.parametrize("tier", ["A", "B"])
@pytest.mark.parametrize("who", WHO)
def test_nothing_is_left_when_the_suite_ends(who: str, tier: str, left_in_tmp: Callable[[str], list[str]]) -> None:
    skip_where_impossible(who, tier)
    assert outcomes(who, tier)
    left = [name for name in os.listdir("/proc") if name.isdecimal() and _is_sandbox(name)]
    assert not left
    assert [name for name in left_in_tmp("prefkit-*") if not name.startswith("prefkit-test-")] == []


def _is_sandbox(pid: str) -> bool:
    """A process of a zygote that this test run did not start on purpose: its parent is gone."""
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
        parent = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return False
    return b"prefkit.sandbox.zygote" in command and parent == 1
