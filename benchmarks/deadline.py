"""How long after its time limit an answer that never ends is gone: time until its result minus its limit.

    python benchmarks/deadline.py [--quick] [--json FILE]

Limits are processor seconds, so the figures hold for an otherwise idle machine only: what another program takes of the core counts as late.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable

from _timing import arguments, save

from prefkit.sandbox.job import CodeJob, Job
from prefkit.sandbox.pool import WorkerPool
from prefkit.sandbox.tiers import code_tier

LIMIT_S = 0.5
PYTHON = {
    "python, busy": "while True: pass",
    "python, one long operation": "sum(range(10 ** 12))",
    "python, ignores signals": "import signal\nfor s in {*range(1, 32)} - {9, 19}: signal.signal(s, signal.SIG_IGN)\nwhile True: pass",
}


def main() -> None:
    parser = arguments(str(__doc__).splitlines()[0], rounds=20)
    given = parser.parse_args()
    if given.quick:
        given.rounds = 2
    jobs: dict[str, Callable[[], Job]] = {name: lambda code=code: program("python", code) for name, code in PYTHON.items()}
    jobs["bash, busy"] = lambda: program("bash", "while :; do :; done")
    late: dict[str, list[float]] = {name: [] for name in jobs}
    with WorkerPool(1, {"zygote": code_tier("B")}) as pool:
        pool.run(program("python", "print(1)"))
        for _ in range(given.rounds):
            for name, job in jobs.items():
                answer = pool.run(job())
                if answer.last.status != "timeout":
                    raise SystemExit(f"{name}: {answer.last.status}, {answer.last.reason}")
                late[name].append(1000 * (answer.wall_s - LIMIT_S))
    figures = {name: {"p50_ms": statistics.median(values), "max_ms": max(values), "rounds": values} for name, values in late.items()}
    print(f"Milliseconds from the limit ({LIMIT_S} s) to the result, median and most of {given.rounds}:")
    for name, values in figures.items():
        print(f"  {name:44s} {values['p50_ms']:7.1f} {values['max_ms']:7.1f}")
    save("Killed after the deadline", {"rounds": given.rounds, "limit_s": LIMIT_S}, figures, given.json)


def program(language: str, code: str) -> CodeJob:
    return CodeJob("program", {"language": language, "code": code}, cpu_s=LIMIT_S)


if __name__ == "__main__":
    main()
