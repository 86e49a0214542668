"""Verdicts a second: each verifier on one and two workers, against a plain subprocess for each answer and exec in this process.

    python benchmarks/verify.py [--quick] [--json FILE] [--only python sql …]

Every answer is another one, so nothing is answered from memory; golds are checked before the clock starts. An execution is one run of an
answer on one data instance, case list or input. CPU seconds are those of this process and of all below it. The latencies are those of one
answer at a time, from handing it over to its verdict. `exec` and `subprocess` have no isolation: they say what isolation costs. What an
engine needs that is not installed here is named, and its cases are left out; PostgreSQL runs on a cluster that is made for the purpose.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
from _timing import arguments, finish

from prefkit.errors import IsolationUnavailable
from prefkit.sandbox.probe import TIERS
from prefkit.sandbox.tiers import worker_tier
from prefkit.verify.scheduler import Scheduler
from prefkit.verify.verifier import Check, Source

Line = dict[str, Any]
SCHEMA = "CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT, kind TEXT, price REAL);"
TYPED = SCHEMA.replace("REAL", "DOUBLE PRECISION")
TOOLS = [
    {
        "name": "refund",
        "parameters": {
            "type": "object",
            "properties": {"order": {"type": "integer"}, "amount": {"type": "number"}, "note": {"type": "string"}},
            "required": ["order", "amount"],
        },
    }
]
RULES = """
rules:
  - {id: total, range: {path: total, at_least: 0}, message: The total is at least 0.}
"""


def main() -> None:
    parser = arguments(str(__doc__).splitlines()[0], rounds=3)
    parser.add_argument("--only", nargs="+", metavar="KIND", help="these alone")
    parser.add_argument("--seconds", type=float, default=4.0, help="about how long each case is measured in a round")
    given = parser.parse_args()
    if given.quick:
        given.rounds, given.seconds = 1, 0.4
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        cases, skipped = lines(Path(folder)), {}
        for name, make in (("duckdb", duckdb_line), ("postgres", postgres_line)):
            try:
                cases[f"sql on {name}, two instances"] = make(Path(folder), stack)
            except IsolationUnavailable as error:
                skipped[name] = str(error)
                print(f"left out: {name}: {error}")
        chosen = {name: case for name, case in cases.items() if not given.only or name.partition(",")[0] in given.only}
        figures = measure(chosen, cases["sql, two instances"], Path(folder), given.rounds, given.seconds)
    finish(
        "Verification",
        {"rounds": given.rounds, "seconds": given.seconds, "cores": len(os.sched_getaffinity(0)), "left_out": skipped},
        figures,
        given.json,
    )
    for name, values in figures.items():
        more = ", ".join(f"{key} {value:.4g}" for key, value in values.items() if key not in ("ratio", "rounds", "verdicts_per_second"))
        print(f"  {name:44s} {more}")


def lines(folder: Path) -> dict[str, Callable[[int], Line]]:
    """For each kind a function from a number to a line of `prefkit verify`; no two numbers give the same answer."""
    databases = [shop(folder / f"{number}.sqlite", number) for number in (1, 2)]
    (folder / "rules.yaml").write_text(RULES)
    source = '#include <stdio.h>\nint main(void) { int x; scanf("%d", &x); printf("%d\\n", x + 1); return 0; }\n'

    def program(language: str, code: str) -> Callable[[int], Line]:
        return lambda i: {"verifier": "program", "language": language, "answer": code, "io": [[f"{i}\n", f"{i + 1}\n"]]}

    return {
        "sql, two instances": sql_line("sqlite", databases),
        "python, returned values": lambda i: {
            "verifier": "python", "entry": "f", "cases": [[[1], 2 + i], [[2], 3 + i], [[-1], i]],
            "answer": f"def f(x):\n    return x + 1 + {i}\n",
        },
        "python, tests": lambda i: {
            "verifier": "python", "tests": [f"assert f(1) == {2 + i}", f"assert f(2) == {3 + i}"],
            "answer": f"def f(x):\n    return x + 1 + {i}\n",
        },
        "program, bash": program("bash", "read x; echo $((x + 1))\n"),
        "program, C compiled before": program("c", source),
        "program, javascript": program(
            "javascript", "let t = ''; process.stdin.on('data', d => t += d).on('end', () => console.log(parseInt(t) + 1));\n"
        ),
        "math": lambda i: {"verifier": "math", "gold": f"$\\frac{{{i}}}{{7}}$", "answer": f"The result is $\\boxed{{{2 * i}/14}}$."},
        "tool_calls": lambda i: {
            "verifier": "tool_calls", "tools": TOOLS, "accepted": [[{"name": "refund", "arguments": {"order": i, "amount": 2.5}}]],
            "answer": f'```json\n[{{"name": "refund", "arguments": {{"order": {i}, "amount": 2.5}}}}]\n```',
        },
        "rules": lambda i: {"verifier": "rules", "rules": "rules.yaml", "answer": f'{{"total": {i}}}'},
    }  # fmt: skip


def duckdb_line(folder: Path, stack: contextlib.ExitStack) -> Callable[[int], Line]:
    """As the line for SQLite, on DuckDB files. Raises IsolationUnavailable."""
    worker_tier("duckdb")
    import duckdb

    for number in (1, 2):
        connection = duckdb.connect(str(folder / f"{number}.duckdb"))
        connection.execute(f"{TYPED} {rows(number)}")
        connection.close()
    return sql_line("duckdb", ["1.duckdb", "2.duckdb"])


def postgres_line(folder: Path, stack: contextlib.ExitStack) -> Callable[[int], Line]:
    """The same on two databases of a cluster that lives as long as `stack`. Raises IsolationUnavailable."""
    worker_tier("postgres")
    sys.path.append(str(Path(__file__).resolve().parent.parent))
    from tests.sandbox.postgres_server import missing, started

    if reason := missing():
        raise IsolationUnavailable(reason)
    server = stack.enter_context(started(f"{TYPED} {rows(1)}"))
    server.admin("CREATE DATABASE other TEMPLATE shop", database="postgres")
    sql = f"DELETE FROM item; {rows(2)}; GRANT CONNECT ON DATABASE other TO prefkit_reader; REVOKE TEMPORARY ON DATABASE other FROM PUBLIC"
    server.admin(sql, database="other")
    return sql_line("postgres", [server.dsn().whole, server.dsn(database="other").whole])


def sql_line(engine: str, databases: list[str]) -> Callable[[int], Line]:
    return lambda i: {
        "verifier": "sql", "engine": engine, "database": databases, "gold": "SELECT name, price FROM item WHERE kind = 'a'",
        "answer": f"SELECT name, price FROM item WHERE kind = 'a' AND id > {-1 - i}",
    }  # fmt: skip


def rows(number: int) -> str:
    """The rows of one data instance, for any engine."""
    return "INSERT INTO item VALUES " + ", ".join(f"({i}, 'item {i * number}', '{'abc'[i % 3]}', {i * number / 4})" for i in range(1, 60))


def measure(
    cases: dict[str, Callable[[int], Line]], cached: Callable[[int], Line], folder: Path, rounds: int, seconds: float
) -> dict[str, dict[str, Any]]:
    """Every case in turn, round by round, so that what else the machine does falls on all alike. `cached`: the case of the cache."""
    found: dict[str, list[dict[str, float]]] = {}
    offset = 1
    for _ in range(rounds):
        for name, line in cases.items():
            for workers in (1, 2):
                rates, offset = verdicts(line, folder, workers, seconds, offset)
                found.setdefault(f"{name}, {workers} worker{'s' * (workers > 1)}", []).append(rates)
        for name, baseline in (("exec here, no isolation", by_exec), ("a plain subprocess each", by_subprocess)):
            found.setdefault(name, []).append({"verdicts_per_second": baseline(seconds)})
        found.setdefault("cache hits", []).append({"verdicts_per_second": cache_hits(cached, folder, seconds)})
    figures: dict[str, dict[str, Any]] = {}
    for name, runs in found.items():
        keys = runs[0].keys()
        figures[name] = {key: statistics.median(run[key] for run in runs) for key in keys}
        figures[name]["rounds"] = [run["verdicts_per_second"] for run in runs]
    plain = figures["a plain subprocess each"]["verdicts_per_second"]
    for values in figures.values():
        values["ratio"] = values["verdicts_per_second"] / plain
    return figures


def verdicts(line: Callable[[int], Line], folder: Path, workers: int, seconds: float, offset: int) -> tuple[dict[str, float], int]:
    """Rates of one case, and the first number that was not used."""
    with Scheduler(workers=workers) as scheduler:

        def check(i: int) -> Check:
            values = line(i)
            return scheduler.verifier(values["verifier"]).read(values, str(i), Source(folder, 2.0))

        for verdict in scheduler.verify([check(offset + i) for i in range(4 * workers)]):  # workers start, golds are run, C is compiled
            if verdict.status != "PASS":
                raise SystemExit(f"{line(offset)['verifier']} cannot be measured: {verdict.status}, {verdict.reason}; tiers are {TIERS}")
        offset += 4 * workers
        latencies = []
        end = time.perf_counter() + seconds / 4
        while time.perf_counter() < end:
            one = check(offset)
            start = time.perf_counter()
            next(iter(scheduler.verify([one])))
            latencies.append(time.perf_counter() - start)
            offset += 1

        def stream() -> Iterator[Check]:
            nonlocal offset
            end = time.perf_counter() + seconds
            while time.perf_counter() < end:
                yield check(offset)
                offset += 1

        before, cpu, start = scheduler.counts["executions"], cpu_seconds(), time.perf_counter()
        judged = [verdict.status for verdict in scheduler.verify(stream())]
        took, cpu = time.perf_counter() - start, cpu_seconds() - cpu
        if set(judged) != {"PASS"}:
            raise SystemExit(f"{line(offset)['verifier']}: right answers got {set(judged)}")
        executions = scheduler.counts["executions"] - before
    latencies.sort()
    return {
        "verdicts_per_second": len(judged) / took,
        "executions_per_s": executions / took,
        "verdicts_per_cpu_s": len(judged) / cpu,
        "p50_ms": 1000 * latencies[len(latencies) // 2],
        "p99_ms": 1000 * latencies[int(len(latencies) * 0.99)],
    }, offset


def cpu_seconds() -> float:
    """Processor seconds of this process and of all below it, those that have ended included."""
    total = 0.0
    for process in (psutil.Process(), *psutil.Process().children(recursive=True)):
        try:
            times = process.cpu_times()
        except psutil.Error:
            continue
        total += times.user + times.system + getattr(times, "children_user", 0.0) + getattr(times, "children_system", 0.0)
    return total


def cache_hits(line: Callable[[int], Line], folder: Path, seconds: float) -> float:
    """Verdicts a second out of a cache file, each check another one, in a scheduler that has judged none of them."""
    path, count = folder / "cache.sqlite", max(200, int(2000 * seconds))
    path.unlink(missing_ok=True)
    rates = []
    for _ in range(2):
        with Scheduler(workers=2, cache=path) as scheduler:
            values = line(1)
            verifier = scheduler.verifier(values["verifier"])
            checks = [verifier.read(line(i), str(i), Source(folder, 2.0)) for i in range(1, count + 1)]
            start = time.perf_counter()
            judged = list(scheduler.verify(checks))
            rates.append(len(judged) / (time.perf_counter() - start))
    if not all(verdict.cached for verdict in judged):
        raise SystemExit("the cache did not hold what was put into it")
    return rates[-1]


def by_exec(seconds: float) -> float:
    """Functions defined and called in this process: what any isolation is slower than."""
    done, start = 0, time.perf_counter()
    while (took := time.perf_counter() - start) < seconds:
        names: dict[str, Any] = {}
        exec(f"def f(x):\n    return x + 1 + {done}\n", names)
        assert [names["f"](x) for x in (1, 2, -1)] == [2 + done, 3 + done, done]
        done += 1
    return done / took


def by_subprocess(seconds: float) -> float:
    """A new interpreter for each answer, one after the other on each core."""
    done, start = 0, time.perf_counter()
    cores = len(os.sched_getaffinity(0))
    while (took := time.perf_counter() - start) < seconds:
        code = f"def f(x):\n    return x + 1 + {done}\nprint([f(x) for x in (1, 2, -1)])"
        running = [subprocess.Popen([sys.executable, "-I", "-S", "-c", code], stdout=subprocess.DEVNULL) for _ in range(cores)]
        done += sum(process.wait() == 0 for process in running)
    return done / took


def shop(path: Path, number: int) -> str:
    """A small database."""
    connection = sqlite3.connect(path)
    connection.executescript(f"{SCHEMA} {rows(number)};")
    connection.close()
    return str(path)


if __name__ == "__main__":
    main()
