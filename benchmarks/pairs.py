"""Preference pairs of 200,000 rollouts: read, match, check, write, hash, each case in a process of its own; seconds and peak memory.

python benchmarks/pairs.py [--quick] [--json FILE]
"""

from __future__ import annotations

import json
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from _timing import arguments, finish

CASES = {
    "nearest": ("nearest", 8),
    "max_margin": ("max_margin", 8),
    "random": ("random", 8),
    "all_capped": ("all_capped", 8),
    "nearest, 256 answers to a question": ("nearest", 256),
}
"""Name -> strategy, answers to each question."""
END = 2


def main() -> None:
    parser = arguments(str(__doc__).splitlines()[0], rounds=3)
    parser.add_argument("--rollouts", type=int, default=200_000, help="answers in all")
    parser.add_argument("--prompt-tokens", type=int, default=400, help="tokens of a prompt")
    parser.add_argument("--measure", nargs=2, metavar=("FOLDER", "STRATEGY"), help="measure one case and print it (used by this script)")
    given = parser.parse_args()
    if given.measure:
        print(json.dumps(measure(Path(given.measure[0]), given.measure[1])))
        return
    if given.quick:
        given.rounds, given.rollouts = 1, 20_000
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in CASES}
    with tempfile.TemporaryDirectory() as folder:
        for k in sorted({k for _, k in CASES.values()}):
            make_answers(Path(folder) / str(k), given.rollouts, k, given.prompt_tokens)
        for _ in range(given.rounds):
            for name, (strategy, k) in CASES.items():
                command = [sys.executable, __file__, "--measure", str(Path(folder) / str(k)), strategy]
                done = subprocess.run(command, capture_output=True, text=True, check=True)
                found[name].append(json.loads(done.stdout))
    first = statistics.median(one["seconds"] for one in found[next(iter(CASES))])
    figures = {}
    for name, runs in found.items():
        seconds = statistics.median(one["seconds"] for one in runs)
        figures[name] = {
            "rollouts_per_second": given.rollouts / seconds, "ratio": first / seconds, "seconds": seconds,
            "cpu_seconds": statistics.median(one["cpu_seconds"] for one in runs),
            "peak_memory_bytes": max(one["peak_memory_bytes"] for one in runs), "pairs": runs[0]["pairs"], "rounds": runs,
        }  # fmt: skip
    finish("pairs", {"rollouts": given.rollouts, "prompt tokens": given.prompt_tokens, "rounds": given.rounds}, figures, given.json)
    for name, values in figures.items():
        took = f"{values['seconds']:9.1f} s ({values['cpu_seconds']:.1f} s of processor time)"
        print(f"  {name:44s} {took}   {values['peak_memory_bytes'] / 1e9:.2f} GB   {values['pairs']} pairs")


def measure(folder: Path, strategy: str) -> dict[str, Any]:
    """Make the pairs of one folder as the stage does, but for the model that tells the end token."""
    from prefkit.data import columns, pair_checks, pairs
    from prefkit.data.answer_rows import read_answers
    from prefkit.hashing import hash_bytes, hash_file
    from prefkit.runfolder import RunFolder
    from prefkit.tasks.base import Example

    start, cpu = time.perf_counter(), time.process_time()
    run, parts = RunFolder(folder), {}

    def lap(name: str) -> None:
        parts[name] = round(time.process_time() - cpu - sum(parts.values()), 2)

    rollouts, verdicts = read_answers(run, "rollouts-1")
    names = list(dict.fromkeys(row["example_id"] for row in rollouts))
    examples = [Example(name, "train", "shop", 1, f"question {name}?", "SELECT 1") for name in names]
    lap("read")
    rows, counts = pairs.own_pairs(examples, rollouts, verdicts, [], pairs.Settings(strategy, 2, 1024, END, 17))
    lap("match and check")
    held_out = [Example(f"t{n}", "test", "shop", 1, f"held out {n}?", f"SELECT a FROM b WHERE c = {n}") for n in range(1000)]
    counts |= pair_checks.leakage(rows, {example.id: example.question for example in examples}, held_out)
    pair_checks.warnings(counts)
    lap("leakage")
    file = run.write_rows("pairs/round-1.parquet", rows, columns.pairs())
    lap("write")
    for digest in (hash_file, hash_bytes):
        digest(file)
    lap("hash")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu
    return {"seconds": seconds, "cpu_seconds": cpu_seconds, "peak_memory_bytes": peak, "pairs": counts["pairs"], "cpu_of_parts": parts}


def make_answers(folder: Path, rollouts: int, k: int, prompt_tokens: int) -> None:
    """Rollouts and verdicts as a round of own answers leaves them: about two thirds of the answers to a question differ, four in ten are
    right, an answer has about 30 tokens, a prompt four characters a token."""
    import pyarrow
    import pyarrow.parquet as parquet

    for kind in ("rollouts", "verdicts"):
        (folder / kind).mkdir(parents=True)
    draw = random.Random(0)
    writers: list[Any] = [None, None]
    for first in range(0, rollouts // k, max(1, 4096 // k)):
        asked = range(first, min(first + max(1, 4096 // k), rollouts // k))
        answers = [answer for number in asked for answer in _answers(number, k, prompt_tokens, draw)]
        for place, kind in enumerate(("rollouts", "verdicts")):
            table = pyarrow.Table.from_pylist([answer[place] for answer in answers])
            writers[place] = writers[place] or parquet.ParquetWriter(folder / kind / "rollouts-1.parquet", table.schema)
            writers[place].write_table(table)
    for writer in writers:
        writer.close()


def _answers(number: int, k: int, prompt_tokens: int, draw: random.Random) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    text = f"question q{number}? " + "orders: id, customer_id -> customers.id, status (open, shipped)\n" * (prompt_tokens * 4 // 64)
    prompt = {"messages": [{"role": "user", "content": text}], "prompt_ids": [draw.randrange(3, 49_152) for _ in range(prompt_tokens)]}
    made = []
    for index in range(k):
        variant = draw.randrange(k)
        source = f"orders o{variant} JOIN customers c ON o{variant}.id = c.id"
        completion = f"SELECT name, COUNT(*) FROM {source} WHERE c.town = 't{number % 97}'"
        ids = [draw.randrange(3, 49_152) for _ in range(20 + variant % 20)] + [END]
        name, right = f"rollouts-1/q{number}/{index}", variant % 5 < 2
        rollout = {
            "id": name, "example_id": f"q{number}", "split": "train", "database": "shop", "level": 1, **prompt, "completion": completion,
            "completion_ids": ids, "logprobs": [-draw.random() for _ in ids], "ended": True, "k": index, "temperature": 1.0, "seed": 17,
            "model": "embedded", "turn": 0,
        }  # fmt: skip
        verdict = {
            "id": name, "status": "PASS" if right else "WRONG", "score": float(right), "reason": "wrong rows", "trust": "executed",
            "key": f"{number:032x}{variant:032x}",
        }  # fmt: skip
        made.append((rollout, verdict))
    return made


if __name__ == "__main__":
    main()
