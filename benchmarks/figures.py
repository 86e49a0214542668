"""The README's figures, out of run folders: scores by seed and over all seeds, the ledger, levels, costs, and aims beside what was reached.

    python benchmarks/figures.py runs/sql-gen-a runs/sql-gen-b runs/sql-gen-c runs/sql-gen-smoke --write

Each run with another seed is one folder. What `prefkit evaluate RUN` measured on all questions (RUN/evaluation-full/) is taken where it is
there, else the part that the run itself measured. A run of the smoke profile counts for its time alone. `RUN/bench.json`, which
benchmarks/measured_run.py writes, says wall time and peak memory.

Over all seeds, a question's value is its mean over the runs; intervals then draw questions, so runs that answer the same questions do not
count as more questions. How the seeds differ stands beside it, run by run.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))  # where this file is run as a script or loaded by a test

from _figures_page import fill, page

from prefkit.errors import DataError, PrefkitError
from prefkit.evaluate.suites import MEASURES, QuestionScores, by_question
from prefkit.report.source import stage_order
from prefkit.runfolder import RunFolder
from prefkit.statistics import Interval, mean_interval, paired_interval

README = Path(__file__).resolve().parent.parent / "README.md"
FULL = "evaluation-full/"
Figures = dict[str, Any]
Table = dict[tuple[str, str], dict[str, QuestionScores]]


@dataclass(frozen=True)
class Run:
    """One run as read. `label` names it in tables; `table` has the scores by (split, policy) and question."""

    label: str
    seed: int
    profile: str
    full: bool
    evaluation: dict[str, Any]
    ledger: dict[str, Any]
    table: Table
    seconds: dict[str, float]
    bench: dict[str, Any]

    @property
    def minutes(self) -> float:
        """Minutes of the whole loop: of the command where it was timed, else of its stages together."""
        return float(self.bench.get("seconds") or sum(self.seconds.values())) / 60


def read_run(folder: Path) -> Run:
    """Read one run folder. RunError where it has not been evaluated."""
    run = RunFolder.existing(folder)
    manifest = run.manifest
    where = FULL if run.file(f"{FULL}evaluation.json").is_file() else ""
    done = {name: entry for name, entry in manifest["stages"].items() if entry.get("status") == "done"}
    seeds = [entry["seed"] for entry in done.values() if entry.get("seed") is not None]
    return Run(
        label=f"seed {seeds[0]}" if seeds else run.path.name,
        seed=seeds[0] if seeds else 0,
        profile=manifest.get("profile") or "cpu",
        full=bool(where),
        evaluation=run.read_json(f"{where}evaluation.json"),
        ledger=run.read_json(f"{where}ledger.json"),
        table=by_question(run.read_rows(f"{where}evaluation/answers.parquet")),
        seconds={name: float(done[name]["seconds"]) for name in sorted(done, key=stage_order)},
        bench=run.read_json("bench.json") if run.file("bench.json").is_file() else {},
    )


def figures(runs: Sequence[Run]) -> Figures:
    """Everything that the tables say, as plain values. DataError where the runs cannot stand in one table."""
    measured = [run for run in runs if run.profile != "smoke"]
    if not measured:
        raise DataError("only runs of the smoke profile were given; they show that the loop works, not what it reaches. Give a whole run.")
    _check_alike(measured)
    policies, splits = measured[0].evaluation["policies"], measured[0].evaluation["splits"]
    result: Figures = {
        "runs": [_run_figures(run) for run in measured],
        "k": measured[0].evaluation["k"],
        "temperature": measured[0].evaluation["temperature"],
        "policies": policies,
        "splits": {split: {**splits[split], **_split_figures(measured, split, policies)} for split in splits},
        "ledger": [entry for split in splits for entry in _ledger_figures(measured, split, policies)],
        "stages": _mean_seconds(measured),
    }
    result["aims"] = aims(result, [run for run in runs if run.profile == "smoke"], runs)
    return result


def _check_alike(runs: Sequence[Run]) -> None:
    labels = [run.label for run in runs]
    if twice := next((label for label in labels if labels.count(label) > 1), None):
        raise DataError(f"two of the runs have {twice}; a table over seeds takes one run of each.")
    for name, values in {
        "profile": [run.profile for run in runs],
        "extent (all questions or a part)": [run.full for run in runs],
        "set of policies": [run.evaluation["policies"] for run in runs],
        "number of questions": [run.evaluation["splits"] for run in runs],
    }.items():
        if any(value != values[0] for value in values):
            said = ", ".join(f"{label}: {value}" for label, value in zip(labels, values, strict=True))
            raise DataError(f"the runs differ in their {name} ({said}); give runs that were measured alike.")


def _run_figures(run: Run) -> Figures:
    memory = run.bench.get("peak_memory_bytes")
    return {
        "label": run.label,
        "seed": run.seed,
        "profile": run.profile,
        "full": run.full,
        "minutes": run.minutes,
        "peak_memory_gb": memory / 1e9 if memory else None,
        "machine": run.bench.get("machine"),
    }


def _split_figures(runs: Sequence[Run], split: str, policies: Sequence[str]) -> Figures:
    scores = {policy: {measure: _score(runs, split, policy, measure) for measure in MEASURES} for policy in policies}
    levels = sorted({scores.level for run in runs for scores in run.table[split, policies[0]].values()})
    by_level = {level: _level(runs, split, level, (policies[0], policies[-1])) for level in levels}
    return {"scores": scores, "by_level": by_level}


def _score(runs: Sequence[Run], split: str, policy: str, measure: str) -> Figures:
    """The score of one policy in each run, and over all of them."""
    by_run = {run.label: run.evaluation["scores"][split][policy][measure] for run in runs}
    if len(runs) == 1:
        return {"pooled": by_run[runs[0].label], "by_run": by_run}
    return {"pooled": mean_interval(question_means(runs, split, policy, measure)).to_dict(), "by_run": by_run}


def _level(runs: Sequence[Run], split: str, level: str, ends: tuple[str, str]) -> Figures:
    result: Figures = {"questions": len(question_means(runs, split, ends[0], "greedy", level))}
    for measure in MEASURES:
        means = (question_means(runs, split, policy, measure, level) for policy in ends)
        result[measure] = {end: mean_interval(values).to_dict() for end, values in zip(("base", "final"), means, strict=True)}
    return result


def question_means(runs: Sequence[Run], split: str, policy: str, measure: str, level: str | None = None) -> list[float]:
    """For each question the mean of its value over the runs that have one, in the order of the questions' names."""
    values: dict[str, list[float]] = {}
    for run in runs:
        for name, scores in run.table[split, policy].items():
            value = scores.value(measure)
            if value is not None and level in (None, scores.level):
                values.setdefault(name, []).append(value)
    return [sum(values[name]) / len(values[name]) for name in sorted(values)]


def pooled_gain(runs: Sequence[Run], split: str, before: str, after: str, measure: str) -> Interval:
    """The paired gain over all runs: a question's difference is the mean of its differences in the runs that scored it both times."""
    pairs: dict[str, list[tuple[float, float]]] = {}
    for run in runs:
        old, new = run.table[split, before], run.table[split, after]
        for name in old.keys() & new.keys():
            first, second = old[name].value(measure), new[name].value(measure)
            if first is not None and second is not None:
                pairs.setdefault(name, []).append((first, second))
    means = [[sum(side) / len(side) for side in zip(*pairs[name], strict=True)] for name in sorted(pairs)]
    return paired_interval([first for first, _ in means], [second for _, second in means])


def _ledger_figures(runs: Sequence[Run], split: str, policies: Sequence[str]) -> Iterator[Figures]:
    steps = [(after, before, after) for before, after in pairwise(policies)]
    for step, before, after in [*steps, ("total", policies[0], policies[-1])]:
        for measure in MEASURES:
            wanted = (split, step, measure)
            found = {
                run.label: entry["gain"]
                for run in runs
                for entry in run.ledger["entries"]
                if (entry["split"], entry["step"], entry["measure"]) == wanted
            }
            pooled = pooled_gain(runs, split, before, after, measure).to_dict()
            yield {"split": split, "step": step, "measure": measure, "pooled": pooled, "by_run": found}


def _mean_seconds(runs: Sequence[Run]) -> dict[str, float]:
    names = dict.fromkeys(name for run in runs for name in run.seconds)
    return {name: sum(run.seconds.get(name, 0.0) for run in runs) / len(runs) for name in names}


def aims(found: Figures, smoke: Sequence[Run], runs: Sequence[Run]) -> list[Figures]:
    """The aims with what was reached: `bound` and `reached` in the aim's unit (shares for points), `held` None where not measured."""
    gains = {(entry["split"], entry["step"], entry["measure"]): entry["pooled"] for entry in found["ledger"]}

    def gain(split: str, step: str, measure: str, bound: str = "mean") -> float | None:
        return gains.get((split, step, measure), {}).get(bound)

    def base(split: str) -> float | None:
        return found["splits"].get(split, {}).get("scores", {}).get("base", {}).get("greedy", {}).get("pooled", {}).get("mean")

    memory = [run["peak_memory_gb"] for run in found["runs"] if run["peak_memory_gb"]]
    helps = [run.bench["help_seconds"] for run in runs if run.bench.get("help_seconds")]
    whole = [run["minutes"] for run in found["runs"]]
    calibrated = {measure: gain("test", "calibrated", measure, "low") for measure in MEASURES}
    return [
        _below("base model on test, first answers", "share", 0.10, base("test")),
        _below("base model on unseen databases, first answers", "share", 0.10, base("unseen")),
        _above("gain on test, first answers", "points", 0.35, gain("test", "total", "greedy")),
        _above("gain on unseen databases, first answers", "points", 0.12, gain("unseen", "total", "greedy")),
        _above("calibration, sampled answers on test: lower bound", "points", 0.0, calibrated["samples"], strict=True),
        _above("calibration, first answers on test: lower bound", "points", -0.03, calibrated["greedy"], strict=True),
        _below("the whole loop on two cores, slowest run", "minutes", 20.0, max(whole), strict=False),
        _below("peak memory", "GB", 6.0, max(memory, default=None)),
        _below("smoke profile, whole loop", "s", 90.0, max((60 * run.minutes for run in smoke), default=None)),
        _below("`prefkit --help`", "s", 0.3, max(helps, default=None)),
    ]


def _above(aim: str, unit: str, bound: float, reached: float | None, strict: bool = False) -> Figures:
    held = reached is not None and (reached > bound if strict else reached >= bound)
    sign = ">" if strict else "≥"
    return {"aim": aim, "unit": unit, "sign": sign, "bound": bound, "reached": reached, "held": None if reached is None else held}


def _below(aim: str, unit: str, bound: float, reached: float | None, strict: bool = True) -> Figures:
    held = reached is not None and (reached < bound if strict else reached <= bound)
    sign = "<" if strict else "≤"
    return {"aim": aim, "unit": unit, "sign": sign, "bound": bound, "reached": reached, "held": None if reached is None else held}


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables; with --write put them into the README. Exit code 2 with a message where the runs cannot be used."""
    parser = argparse.ArgumentParser(description="The README's figures, out of run folders.")
    parser.add_argument("runs", nargs="*", type=Path, help="run folders: one for each seed, and a smoke run for its time")
    parser.add_argument("--write", action="store_true", help="put the tables into the README, between its marks")
    parser.add_argument("--readme", type=Path, default=README, help="another file with the marks")
    parser.add_argument("--json", type=Path, help="write the figures as JSON into this file")
    parser.add_argument("--quick", action="store_true", help="changes nothing: nothing is measured here, runs are only read")
    given = parser.parse_args(arguments)
    if not given.runs:
        print("No run folder is given, so there is nothing to read: python benchmarks/figures.py RUN… [--write]")
        return 0
    try:
        found = figures([read_run(folder) for folder in given.runs])
        text = page(found)
        if given.write:
            fill(given.readme, text)
    except PrefkitError as error:
        print(f"figures: {error}", file=sys.stderr)
        return 2
    if given.json:
        given.json.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    print(text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
