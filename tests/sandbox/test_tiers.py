"""The probe of tiers A and B: one that holds says so with evidence, one that does not is refused by name, nothing goes down by itself."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from prefkit.errors import IsolationUnavailable
from prefkit.sandbox import launch, tiers
from prefkit.sandbox.launch import command
from prefkit.sandbox.tiers import code_tier, mend_for, probe_code
from tests.sandbox import ordinary


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """What one test found out or replaced is not another's."""
    yield
    launch._plan.cache_clear()


@pytest.fixture
def unprobed(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A probe that remembers nothing, so that what a test replaces is seen, and that forgets what it saw."""
    monkeypatch.setattr(tiers, "probe_code", tiers.probe_code.__wrapped__)
    launch._plan.cache_clear()
    return monkeypatch


def needs(tier: str) -> None:
    probe = probe_code(tier)
    if probe.tier is None:
        pytest.skip(f"tier {tier} is not to be had here: {probe.mend}")


@pytest.mark.parametrize("tier", ["A", "B"])
def test_every_canary_is_held_where_the_tier_is_in_force(tier: str) -> None:
    needs(tier)
    probe = probe_code(tier)
    assert probe.tier == tier and not probe.mend
    assert len(probe.evidence) >= 20 and all(item.held and item.outcome for item in probe.evidence)
    assert {"connect to this machine", "write outside", "fork without end"} <= {item.tried for item in probe.evidence}
    assert probe_code(tier) is probe


@pytest.mark.parametrize("tier", ["A", "B"])
def test_what_an_ordinary_user_gets(tier: str) -> None:
    needs(tier)
    python = ordinary.python_for_all()
    if python is None:
        pytest.skip("no Python that an ordinary user may run")
    code = f"from prefkit.sandbox.tiers import probe_code\np = probe_code('{tier}')\nprint(p.tier, p.mend)"
    with ordinary.home() as folder:
        done = ordinary.run_as_user([python, "-c", code], folder)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [tier]


def test_a_canary_that_gets_through_leaves_no_tier(unprobed: pytest.MonkeyPatch) -> None:
    needs("A")
    hole = tiers._Canary("add two numbers", "print(1 + 1)", lambda result: result.stdout != "2\n")
    unprobed.setattr(tiers, "_canaries", lambda bait: [hole])
    probe = tiers.probe_code("A")
    assert probe.tier is None and "add two numbers" in probe.mend


def test_a_file_that_appears_outside_leaves_no_tier(unprobed: pytest.MonkeyPatch) -> None:
    needs("A")

    def planted(bait: tiers._Bait) -> list[tiers._Canary]:
        Path(bait.folder, "planted").write_text("x")
        return []

    unprobed.setattr(tiers, "_canaries", planted)
    probe = tiers.probe_code("A")
    assert probe.tier is None and "write outside" in probe.mend
    assert any(not item.held and "planted" in item.outcome for item in probe.evidence)


def test_without_bwrap_there_is_no_tier_a_and_the_mend_is_named(unprobed: pytest.MonkeyPatch, tmp_path: Path) -> None:
    unprobed.setenv("PATH", str(tmp_path))
    probe = tiers.probe_code("A")
    assert probe.tier is None and "apt-get install bubblewrap" in probe.mend
    with pytest.raises(IsolationUnavailable, match="apt-get install bubblewrap"):
        command("zygote", "A")


def test_a_setuid_bwrap_is_refused(unprobed: pytest.MonkeyPatch, tmp_path: Path) -> None:
    copy = tmp_path / "bwrap"
    copy.write_text("#!/bin/sh\n")
    copy.chmod(0o4755)
    unprobed.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(IsolationUnavailable, match="setuid"):
        command("zygote", "A")


def test_a_bwrap_that_cannot_make_namespaces_is_told_in_its_own_words(unprobed: pytest.MonkeyPatch, tmp_path: Path) -> None:
    real = tmp_path / "bwrap"
    real.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n")
    real.chmod(0o755)
    tmp_path.chmod(0o755)
    for folder in tmp_path.parents:
        if folder.name.startswith("pytest-"):
            folder.chmod(0o755)
    unprobed.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    probe = tiers.probe_code("A")
    assert probe.tier is None
    assert "No permissions to create new namespace" in probe.mend and "unprivileged_userns" in probe.mend


def test_nobody_goes_down_a_tier_by_themselves(unprobed: pytest.MonkeyPatch, tmp_path: Path) -> None:
    needs("B")
    bash = shutil.which("bash")
    assert bash
    (tmp_path / "bash").symlink_to(bash)
    unprobed.setenv("PATH", str(tmp_path))
    with pytest.raises(IsolationUnavailable, match="min_isolation"):
        code_tier("A")
    assert code_tier("B") == "B"


def test_the_stronger_tier_is_taken_where_both_are_allowed() -> None:
    needs("A")
    assert code_tier() == code_tier("B") == code_tier("P") == "A"


def test_elsewhere_than_on_linux_code_cannot_run(unprobed: pytest.MonkeyPatch) -> None:
    unprobed.setattr(sys, "platform", "darwin")
    with pytest.raises(IsolationUnavailable, match="Linux"):
        code_tier("B")


def test_a_cause_without_a_known_mend_stays_as_it_is() -> None:
    assert mend_for("something odd") == "something odd"
    assert "lsm=" in mend_for("Landlock: Operation not supported")


def test_there_is_no_other_worker() -> None:
    for kind, tier in (("zygote", "P"), ("duckdb", "P"), ("sqlite", "A"), ("postgres", "B"), ("perl", "A")):
        with pytest.raises(ValueError, match="no worker"):
            command(kind, tier)
    with pytest.raises(ValueError, match="A or B"):
        probe_code("P")


LOOK = """
import os, sys
for place in ("", "/outside"):
    path = place + sys.argv[1] + "/prefkit/_datasets/gold"
    print(os.path.exists(path) and open(path).read())
import beside
print(beside.X)
"""
INSTALLED = f"""
import sys
sys.path.insert(0, sys.argv[1])
from prefkit.sandbox import launch
launch._packages = lambda kind: [sys.argv[1]]
from prefkit.sandbox.job import CodeJob
from prefkit.sandbox.pool import WorkerPool
for tier in sys.argv[2]:
    with WorkerPool(1, {{"zygote": tier}}) as pool:
        result = pool.run(CodeJob("program", {{"language": "python", "code": {LOOK!r}, "args": [sys.argv[1]]}})).last
        print(tier, result.status, result.stdout.split(), result.reason)
"""


def test_golds_that_ship_with_prefkit_are_not_in_the_sandbox(tmp_path: Path) -> None:
    """As in a wheel: the package stands among the installed ones, with its data sets beside it."""
    needs("A")
    tiers_here = "".join(tier for tier in "AB" if probe_code(tier).tier)
    with ordinary.home() as folder:
        (folder / "prefkit" / "_datasets").mkdir()
        (folder / "prefkit" / "_datasets" / "gold").write_text("gold")
        (folder / "beside.py").write_text("X = 7")
        folder.chmod(0o755)
        done = subprocess.run(
            [sys.executable, "-c", INSTALLED, str(folder), tiers_here], capture_output=True, text=True, check=False, timeout=60
        )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "A ok ['False', 'False', '7'] "
    assert lines[1:] in ([], ["B policy [] policy: permission denied"])
