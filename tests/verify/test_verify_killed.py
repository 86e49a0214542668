"""`prefkit verify` killed in the middle: nothing of it runs on, and the same command ends with the same verdicts out of what it kept."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

SCHEMA = "CREATE TABLE t(x INTEGER); INSERT INTO t VALUES (1), (2);"
SURVIVE_S = 2.0
ENDLESS = "WITH RECURSIVE r(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM r) SELECT count(*) FROM r"


def lines() -> list[dict[str, Any]]:
    """Quick and slow answers of several kinds, right and wrong; those at the end run until they are stopped."""
    made: list[dict[str, Any]] = []
    for i in range(30):
        python = {"verifier": "python", "entry": "f", "cases": [[[1], 1 + i]], "timeout": 10}
        made += [
            {"verifier": "sql", "schema": SCHEMA, "gold": "SELECT x FROM t", "answer": f"SELECT x FROM t WHERE x > {i} - 1"},
            {**python, "answer": f"import time\ntime.sleep(0.05)\ndef f(x):\n    return x + {i}\n"},
            {"verifier": "program", "language": "bash", "answer": f"read x; sleep 0.05; echo {i}", "io": [["1\n", "7\n"]], "timeout": 10},
        ]
    endless = {"verifier": "sql", "schema": SCHEMA, "gold": "SELECT x FROM t", "timeout": 0.5}
    return [*made, *({**endless, "answer": f"{ENDLESS} WHERE x > {i}"} for i in range(4))]


def command(file: Path, cache: Path) -> list[str]:
    return [sys.executable, "-m", "prefkit", "verify", str(file), "--cache", str(cache), "--workers", "2"]


def statuses(output: str) -> list[tuple[str, str, str]]:
    return [(verdict["id"], verdict["status"], verdict["reason"]) for verdict in map(json.loads, output.splitlines())]


def test_killed_it_leaves_nothing_behind_and_goes_on_from_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = tmp_path / "temporary"
    own.mkdir()
    monkeypatch.setenv("TMPDIR", str(own))
    file, cache = tmp_path / "lines.jsonl", tmp_path / "cache.sqlite"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines()))
    undisturbed = subprocess.run(command(file, tmp_path / "other.sqlite"), capture_output=True, text=True, check=True).stdout
    if '"REFUSED"' in undisturbed:
        pytest.skip("no isolation for code here: `prefkit doctor` says why")

    killed = subprocess.Popen(command(file, cache), stdout=subprocess.PIPE, text=True)
    assert killed.stdout is not None
    assert killed.stdout.readline()
    begun = time.monotonic()
    while time.monotonic() - begun < 1.5:  # long enough for a batch of verdicts to reach the cache
        assert killed.stdout.readline(), "it ended before it could be killed"
    below = psutil.Process(killed.pid).children(recursive=True)
    assert len(below) >= 3
    os.kill(killed.pid, signal.SIGKILL)
    killed.communicate()
    _, alive = psutil.wait_procs(below, timeout=SURVIVE_S)
    assert [process for process in alive if process.status() != psutil.STATUS_ZOMBIE] == []

    again = subprocess.run(command(file, cache), capture_output=True, text=True, check=True).stdout
    assert statuses(again) == statuses(undisturbed)
    assert os.listdir(own) == []
    assert any(json.loads(line)["cached"] for line in again.splitlines())
