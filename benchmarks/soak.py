"""Thousands of mixed hostile and plain answers: one verdict each, the same when judged again, nothing left behind, memory flat.

    python benchmarks/soak.py [--items 10000] [--quick] [--json FILE]

Verifies the items twice without a cache, in two orders. Exit code 1 where a verdict is missing or flips between scored statuses, where a
process or a file is left behind, or where this process or its workers grow.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil

from prefkit.errors import IsolationUnavailable
from prefkit.progress import Progress
from prefkit.verify.scheduler import Scheduler
from prefkit.verify.verdict import Verdict
from prefkit.verify.verifier import Check, Source

Line = dict[str, Any]
TIMEOUT_S = 0.5
MOST_OUT_OF_TIME = 0.1
"""Share of items that use their time up."""
GROWTH = 1.25
"""How much larger this process or a worker may be in the last quarter than in the second."""

_ENDLESS_SQL = "WITH RECURSIVE r(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM r) SELECT count(*) FROM r"
SQL = {
    "SELECT x FROM t": "PASS", "SELECT x + {i} + 1 FROM t": "WRONG", "SELECT nothing{i} FROM t": "CRASH", "DROP TABLE t; -- {i}": "POLICY",
    "ATTACH '/tmp/prefkit-soak-{i}' AS y": "POLICY", "VACUUM INTO '/tmp/prefkit-soak-{i}'": "POLICY", "no query {i}": "WRONG",
    "SELECT x FROM t, (SELECT {i}) ORDER BY random()": "POLICY", "SELECT hex(zeroblob(1000000000)), {i}": "LIMIT",
}  # fmt: skip
PYTHON = {
    "def f(x): return x + 1 + 0 * {i}": "PASS", "def f(x): return x + {i} + 2": "WRONG", "def f(x): raise ValueError({i})": "CRASH",
    "def f(x: broken {i}": "CRASH", "import os\ndef f(x): os._exit({i} % 2)": "CRASH", "def f(x): return [f(x)] * {i}": "CRASH",
    "import os, signal\ndef f(x): os.kill(os.getpid(), signal.SIGSEGV + 0 * {i})": "CRASH",
    "import socket\ndef f(x): socket.create_connection(('127.0.0.1', 9 + 0 * {i}))": "POLICY",
    "def f(x):\n    while True: print('x' * 100_000 + '{i}')": "LIMIT", "def f(x): return bytearray(1 << 40) + b'{i}'": "LIMIT",
    "import os\ndef f(x):\n    while True: os.fork(); {i}": "LIMIT|TIMEOUT",
    "import os\ndef f(x):\n    d = f'd{i}-{x}'; os.mkdir(d); open(d + '/f', 'w').close(); os.chmod(d, 0)\n    return x + 1": "PASS",
    "import os\ndef f(x):\n    if os.fork() == 0:\n        os.setsid()\n        while True: pass\n    return x + 1 + 0 * {i}": "PASS",
    "open('/usr/prefkit-soak-{i}', 'w')\ndef f(x): return x + 1": "POLICY|CRASH",
}  # fmt: skip
BASH = {"read x; echo $((x + 1)) # {i}": "PASS", "echo {i}{i}{i}": "WRONG", "exit 3 # {i}": "CRASH", "yes {i}": "LIMIT"}
_SQL = {"verifier": "sql", "schema": "CREATE TABLE t(x); INSERT INTO t VALUES (1), (2)", "gold": "SELECT x FROM t"}
_PYTHON = {"verifier": "python", "entry": "f", "cases": [[[1], 2], [[5], 6]]}
_BASH = {"verifier": "program", "language": "bash", "io": [["1\n", "2\n"]]}
SLOW = [
    _SQL | {"answer": f"{_ENDLESS_SQL}, (SELECT {{i}})"},
    _PYTHON | {"answer": "def f(x):\n    while True: {i}"},
    _PYTHON | {"answer": "import re\ndef f(x): return re.match('(a+)+$', 'a' * 40 + '!{i}')"},
    _PYTHON | {"answer": "import time\ndef f(x): time.sleep(100 + {i})"},
    _BASH | {"answer": "while :; do :; done # {i}"},
]


def main() -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--items", type=int, default=10_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="200 items")
    parser.add_argument("--json", type=Path, help="write the figures into this file")
    given = parser.parse_args()
    lines = list(items(200 if given.quick else given.items, given.seed))
    before = leftovers()
    verdicts: list[dict[str, Verdict]] = []
    figures: dict[str, Any] = {"items": len(lines), "workers": given.workers}
    for number in (1, 2):
        start = time.monotonic()
        found, sizes = judge(lines, given.workers, f"pass {number}")
        verdicts.append(found)
        figures[f"pass_{number}"] = {"seconds": round(time.monotonic() - start, 1), "grew": round(growth(sizes), 3)}
        lines = lines[::-1]
    time.sleep(2.0)
    figures["left_behind"] = sorted(leftovers() - before)
    first, second = verdicts
    figures["statuses"] = dict(Counter(str(verdict.status) for verdict in first.values()))
    figures["flipped"] = sorted(f"{id}: {first[id].status} -> {second[id].status}" for id in first if first[id].status != second[id].status)
    wanted = {line["id"]: line["want"] for line in lines}
    figures["unexpected"] = sorted(
        f"{id}: {verdict.status} ({verdict.reason}), wanted {wanted[id]}"
        for id, verdict in first.items()
        if str(verdict.status) not in wanted[id].split("|")
    )
    print(json.dumps(figures, indent=2))
    if given.json:
        given.json.write_text(json.dumps(figures, indent=2) + "\n")
    grew = max(figures["pass_1"]["grew"], figures["pass_2"]["grew"])
    return int(bool(figures["left_behind"] or figures["flipped"] or figures["unexpected"]) or (grew > GROWTH and not given.quick))


def items(count: int, seed: int) -> Iterator[Line]:
    """`count` lines of `prefkit verify` with the status that each must get, mixed by the seed; no two have the same answer."""
    draw = random.Random(seed)
    plain = [(base, text, want) for base, texts in ((_SQL, SQL), (_PYTHON, PYTHON), (_BASH, BASH)) for text, want in texts.items()]
    for number in range(count):
        if draw.random() < MOST_OUT_OF_TIME / 2:
            base = draw.choice(SLOW)
            text, want = base["answer"], "TIMEOUT"
        else:
            base, text, want = draw.choice(plain)
        answer = text.replace("{i}", str(number))
        yield {**base, "id": f"{number}", "answer": answer, "want": want, "timeout": TIMEOUT_S}


def judge(lines: list[Line], workers: int, name: str) -> tuple[dict[str, Verdict], list[int]]:
    """Verdicts by id, and now and then the bytes that this process and all below it hold."""
    sizes: list[int] = []
    with Scheduler(workers=workers) as scheduler, Progress() as progress:
        source = Source(Path.cwd(), TIMEOUT_S)

        def checks() -> Iterator[Check]:
            for line in lines:
                yield scheduler.verifier(line["verifier"]).read(line, line["id"], source)

        found: dict[str, Verdict] = {}
        for verdict in progress.track(scheduler.verify(checks()), name, len(lines)):
            if verdict.id in found:
                raise SystemExit(f"{verdict.id} got two verdicts")
            if str(verdict.status) == "REFUSED":
                raise IsolationUnavailable(verdict.reason)
            found[verdict.id] = verdict
            if len(found) % 50 == 0:
                sizes.append(tree_memory())
    if found.keys() != {line["id"] for line in lines}:
        raise SystemExit(f"{len(lines) - len(found)} items got no verdict")
    return found, sizes


def growth(sizes: list[int]) -> float:
    """The median of the last quarter over that of the second."""
    quarter = len(sizes) // 4
    if not quarter:
        return 1.0
    early, late = sorted(sizes[quarter : 2 * quarter]), sorted(sizes[-quarter:])
    return late[len(late) // 2] / early[len(early) // 2]


def tree_memory() -> int:
    total = 0
    for process in (psutil.Process(), *psutil.Process().children(recursive=True)):
        try:
            total += process.memory_info().rss
        except psutil.Error:
            continue
    return total


def leftovers() -> set[str]:
    """Processes below this one, and files of ours in temporary folders."""
    processes = {f"process {child.pid}: {child.name()} ({child.status()})" for child in psutil.Process().children(recursive=True)}
    folders = {tempfile.gettempdir(), "/tmp", "/dev/shm"}
    files = {f"file {folder}/{name}" for folder in folders if os.path.isdir(folder) for name in os.listdir(folder) if "prefkit" in name}
    return processes | files


if __name__ == "__main__":
    sys.exit(main())
