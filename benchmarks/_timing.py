"""What the benchmarks share: cases measured in turns in one run, medians, and the embedded model with real prompts."""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import time
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

Case = Callable[[], float]
"""Does the work once and returns how many units of it were done."""


def arguments(about: str, rounds: int) -> argparse.ArgumentParser:
    """The options of every benchmark."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--quick", action="store_true", help="less work, one round: under a minute, to see that it runs")
    parser.add_argument("--rounds", type=int, default=rounds, help="how often each case is measured; medians are shown")
    parser.add_argument("--threads", type=int, default=1, help="threads of torch")
    parser.add_argument("--json", type=Path, help="write the figures into this file")
    return parser


def in_turns(cases: Mapping[str, Case], rounds: int, unit: str) -> dict[str, Any]:
    """Measure every case once in each round, so that what else the machine does falls on all of them alike.

    Returns for each case its units a second, round by round and the median, and its ratio to the first case: the median of the ratios
    within a round.
    """
    rates: dict[str, list[float]] = {name: [] for name in cases}
    for number in range(rounds):
        order = list(cases) if number % 2 == 0 else list(cases)[::-1]
        for name in order:
            start = time.perf_counter()
            done = cases[name]()
            rates[name].append(done / (time.perf_counter() - start))
    first = next(iter(cases))
    return {
        name: {
            f"{unit}_per_second": statistics.median(values),
            "rounds": values,
            "ratio": statistics.median(value / base for value, base in zip(values, rates[first], strict=True)),
        }
        for name, values in rates.items()
    }


def finish(name: str, settings: Mapping[str, Any], figures: Mapping[str, Any], file: Path | None) -> None:
    """Print a table of the figures, and save them."""
    print(f"{name}: {', '.join(f'{key} {value}' for key, value in settings.items())}")
    for case, values in figures.items():
        rate, unit = next((value, key) for key, value in values.items() if key.endswith("_per_second"))
        print(f"  {case:44s} {rate:9.2f} {unit.removesuffix('_per_second')}/s   x {values['ratio']:.2f}")
    save(name, settings, figures, file)


def save(name: str, settings: Mapping[str, Any], figures: Mapping[str, Any], file: Path | None) -> None:
    """Write the figures, where a file is named, with the machine and the versions."""
    if file:
        packages = {package: version(package) for package in ("torch", "transformers", "trl", "peft")}
        machine = {"processor": processor(), "cores": cores(), "system": platform.platform()}
        found = {"benchmark": name, "settings": dict(settings), "figures": dict(figures), "machine": machine, "versions": packages}
        file.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def processor() -> str:
    """The processor's name."""
    file = Path("/proc/cpuinfo")
    lines = file.read_text(encoding="utf-8", errors="replace").splitlines() if file.is_file() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.processor())


def quiet() -> None:
    """No bars and no look at the hub: the embedded model is local."""
    os.environ.update(HF_HUB_OFFLINE="1", TQDM_DISABLE="1", TOKENIZERS_PARALLELISM="false")
    import warnings

    from prefkit.train.training import quiet_datasets

    warnings.simplefilter("ignore")
    quiet_datasets()


def questions(count: int, databases: int = 4) -> list[dict[str, Any]]:
    """`count` training questions of the shipped dataset over some databases: messages, gold, database.

    Questions on one database stand together.
    """
    from prefkit.resources import cache_dir, dataset_path
    from prefkit.tasks.sql import SqlTask

    task = SqlTask.from_dataset(dataset_path("sql-gen"), cache_dir())
    examples = task.load("train")
    names = list(dict.fromkeys(example.database for example in examples))[:databases]
    each = -(-count // len(names))
    chosen = [example for name in names for example in [one for one in examples if one.database == name][:each]][:count]
    return [{"messages": task.prompt(example), "gold": example.golds[0], "database": example.database} for example in chosen]


def prompt_ids(tokenizer: Any, count: int, databases: int = 4) -> list[list[int]]:
    """Token ids of `count` prompts."""
    return [tokenizer.apply_chat_template(one["messages"], add_generation_prompt=True)["input_ids"] for one in questions(count, databases)]
