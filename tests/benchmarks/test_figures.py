"""The README's figures out of run folders whose truth is known."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from prefkit.errors import DataError
from prefkit.evaluate.suites import evaluation, ledger
from prefkit.runfolder import RunFolder
from prefkit.statistics import paired_interval

ROOT = Path(__file__).resolve().parents[2]
POLICIES = ("base", "references", "own_pairs", "calibrated")
N = {"test": 50, "unseen": 40}
# How many first answers are right, by seed and policy; of the first N questions of the split, so that what is right stays right.
GREEDY = {
    1: {"test": (2, 20, 24, 24), "unseen": (0, 4, 4, 4)},
    2: {"test": (2, 24, 26, 30), "unseen": (0, 6, 6, 8)},
}
SECONDS = {"rollouts-0": 60.0, "warm_start-0": 420.0, "evaluate": 120.0}


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "benchmarks" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


figures = load("figures")


def answers(greedy: dict[str, tuple[int, ...]]) -> list[dict[str, Any]]:
    """A first answer and two samples of each policy to each question; of the samples the first is right where the first answer is."""
    rows = []
    for split, counts in greedy.items():
        for policy, right in zip(POLICIES, counts, strict=True):
            for number in range(N[split]):
                row = {"policy": policy, "split": split, "example_id": f"{split}-{number:03d}", "database": "shop", "level": 1 + number % 5}
                score = float(number < right)
                status, reason = ("PASS", "same rows") if score else ("WRONG", "wrong rows")
                shown = {"status": status, "reason": reason, "question": "?", **dict.fromkeys(("gold", "completion", "sql"), "SELECT 1")}
                rows.append({**row, **shown, "kind": "greedy", "k": 0, "score": score})
                rows += [{**row, **shown, "kind": "sample", "k": k, "score": score if k == 0 else 0.0} for k in range(2)]
    return rows


def make_run(folder: Path, seed: int, profile: str = "cpu", full: dict[str, tuple[int, ...]] | None = None) -> Path:
    """A run folder of one seed; `full` makes evaluation-full/ beside its own evaluation."""
    run = RunFolder(folder)
    with run.lock():
        run.describe(recipe="sql-gen", profile=profile)
        for stage, seconds in SECONDS.items():
            run.begin(stage, "0")
            run.finish(stage, "0", [], {}, seconds, seed=seed)
        for where, greedy in (("", GREEDY[1 + (seed - 1) % 2]), ("evaluation-full/", full)):
            if greedy:
                rows = answers(greedy)
                run.write_json(f"{where}evaluation.json", evaluation(rows, N, 2, 1.0))
                run.write_json(f"{where}ledger.json", ledger(rows, {}))
                run.write_rows(f"{where}evaluation/answers.parquet", rows)
    return folder


def measured(*folders: Path) -> dict[str, Any]:
    return figures.figures([figures.read_run(folder) for folder in folders])


def gain(found: dict[str, Any], split: str, step: str, measure: str) -> dict[str, Any]:
    return next(entry for entry in found["ledger"] if (entry["split"], entry["step"], entry["measure"]) == (split, step, measure))


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    return make_run(tmp_path / "one", 1), make_run(tmp_path / "two", 2)


# Values


def test_scores_and_gains_are_those_of_the_runs_and_their_means(pair: tuple[Path, Path]) -> None:
    found = measured(*pair)
    scores = found["splits"]["test"]["scores"]
    assert [scores["calibrated"]["greedy"]["by_run"][label]["mean"] for label in ("seed 1", "seed 2")] == [24 / 50, 30 / 50]
    assert scores["calibrated"]["greedy"]["pooled"]["mean"] == pytest.approx(27 / 50)
    assert scores["calibrated"]["samples"]["pooled"]["mean"] == pytest.approx(27 / 100)
    total = gain(found, "test", "total", "greedy")
    assert total["by_run"]["seed 2"]["mean"] == pytest.approx(28 / 50)
    assert total["pooled"]["mean"] == pytest.approx(25 / 50)
    assert total["pooled"]["n"] == 50


def test_the_pooled_interval_is_paired_over_questions_not_over_answers(pair: tuple[Path, Path]) -> None:
    before = [float(number < 2) for number in range(50)]
    after = [((number < 24) + (number < 30)) / 2 for number in range(50)]
    pooled = gain(measured(*pair), "test", "total", "greedy")["pooled"]
    assert (pooled["low"], pooled["high"]) == pytest.approx((paired_interval(before, after).low, paired_interval(before, after).high))


def test_the_same_answers_from_three_seeds_are_no_more_evidence_than_from_one(tmp_path: Path) -> None:
    one = gain(measured(make_run(tmp_path / "a", 1)), "unseen", "total", "samples")["pooled"]
    three = gain(measured(*(make_run(tmp_path / f"{seed}", seed) for seed in (1, 3, 5))), "unseen", "total", "samples")["pooled"]
    assert three == pytest.approx(one)


def test_levels_hold_every_question_once(pair: tuple[Path, Path]) -> None:
    levels = measured(*pair)["splits"]["test"]["by_level"]
    assert list(levels) == ["1", "2", "3", "4", "5"]
    assert sum(level["questions"] for level in levels.values()) == 50
    mean = sum(level["greedy"]["final"]["mean"] * level["questions"] for level in levels.values()) / 50
    assert mean == pytest.approx(27 / 50)


def test_the_evaluation_on_all_questions_goes_before_the_run_s_own(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", 1, full={"test": (0, 10, 10, 40), "unseen": (0, 1, 1, 1)})
    found = measured(run)
    assert found["runs"][0]["full"]
    assert found["splits"]["test"]["scores"]["calibrated"]["greedy"]["pooled"]["mean"] == pytest.approx(40 / 50)


# Aims


def test_aims_say_what_holds_what_is_missed_and_by_how_much_and_what_was_not_measured(pair: tuple[Path, Path]) -> None:
    text = figures.page(measured(*pair)).replace("\u00a0", " ")
    lines = {line.split(" | ")[0].removeprefix("| "): line for line in text.splitlines() if line.startswith("| ")}
    assert "| +50.0 points | yes |" in lines["gain on test, first answers"]
    # 4 and 8 of 40 are 10 and 20 %: 15 points on average.
    assert "| +15.0 points | yes |" in lines["gain on unseen databases, first answers"]
    assert "| 10 minutes | yes |" in lines["the whole loop on two cores, slowest run"]
    assert lines["peak memory"].endswith("| not measured | – |")
    assert lines["smoke profile, whole loop"].endswith("| not measured | – |")


def test_an_aim_that_is_missed_says_by_how_much(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", 1)
    (run / "bench.json").write_text(json.dumps({"seconds": 1500.0, "peak_memory_bytes": 7_250_000_000, "help_seconds": 0.2}))
    found = {row["aim"]: row for row in measured(run)["aims"]}
    text = figures.page(measured(run)).replace("\u00a0", " ")
    assert not found["peak memory"]["held"]
    assert "| 7.25 GB | **no**, missed by 1.25 GB |" in text
    assert "| 25 minutes | **no**, missed by 5 minutes |" in text
    assert "| +10.0 points | **no**, missed by 2.0 points |" in text  # unseen: 4 of 40, wanted 12 points
    assert found["`prefkit --help`"]["held"]


def test_no_change_in_calibration_does_not_count_as_a_gain_of_samples(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", 1)  # calibrated answers as own_pairs does
    found = {row["aim"]: row for row in measured(run)["aims"]}
    assert found["calibration, sampled answers on test: lower bound"]["held"] is False
    assert found["calibration, first answers on test: lower bound"]["held"] is True
    text = figures.page(measured(run))
    assert "| Online calibration | seed 1 | no change | no change |" in text
    assert "| 0.0 points | **no**, it is just the bound |" in text


def test_a_smoke_run_counts_for_its_time_alone(pair: tuple[Path, Path], tmp_path: Path) -> None:
    smoke = make_run(tmp_path / "smoke", 1, profile="smoke")
    (smoke / "bench.json").write_text(json.dumps({"seconds": 100.0, "peak_memory_bytes": 3_000_000_000, "help_seconds": 0.2}))
    found = measured(*pair, smoke)
    assert next(row for row in found["aims"] if row["aim"] == "peak memory")["held"] is None, "the memory of a few questions is no run's"
    assert len(found["runs"]) == 2
    row = next(row for row in found["aims"] if row["aim"].startswith("smoke"))
    assert row["reached"] == pytest.approx(100.0)
    assert not row["held"]
    with pytest.raises(DataError, match="only runs of the smoke profile"):
        measured(smoke)


def test_runs_that_do_not_belong_together_are_refused(tmp_path: Path) -> None:
    first = make_run(tmp_path / "one", 1)
    with pytest.raises(DataError, match="two of the runs have seed 1"):
        measured(first, make_run(tmp_path / "again", 1))
    other = make_run(tmp_path / "full", 2, full=GREEDY[2])
    with pytest.raises(DataError, match="extent"):
        measured(first, other)


# The page and the file


def test_every_table_has_the_same_number_of_cells_in_each_line(pair: tuple[Path, Path]) -> None:
    blocks: list[list[int]] = [[]]
    for line in figures.page(measured(*pair)).splitlines():
        if line.startswith("|"):
            blocks[-1].append(line.count(" | "))
        elif blocks[-1]:
            blocks.append([])
    tables = [block for block in blocks if block]
    assert len(tables) >= 9
    assert all(len(set(block)) == 1 for block in tables)


def test_write_fills_the_block_and_nothing_else_and_can_be_repeated(pair: tuple[Path, Path], tmp_path: Path) -> None:
    readme, out = tmp_path / "README.md", tmp_path / "figures.json"
    readme.write_text("# before\n<!-- figures:begin -->\nold\n<!-- figures:end -->\nafter\n")
    arguments = [*map(str, pair), "--write", "--readme", str(readme), "--json", str(out)]
    assert figures.main(arguments) == 0
    once = readme.read_text(encoding="utf-8")
    assert once.startswith("# before\n<!-- figures:begin -->\n") and once.endswith("\n<!-- figures:end -->\nafter\n")
    assert "old" not in once
    assert "2 training runs (seed 1, seed 2)" in once
    assert figures.main(arguments) == 0
    assert readme.read_text(encoding="utf-8") == once
    assert json.loads(out.read_text())["runs"][1]["seed"] == 2


def test_a_file_without_the_marks_stays_as_it_is(pair: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    readme = tmp_path / "README.md"
    readme.write_text("no marks")
    assert figures.main([str(pair[0]), "--write", "--readme", str(readme)]) == 2
    assert "must hold <!-- figures:begin -->" in capsys.readouterr().err
    assert readme.read_text() == "no marks"


def test_without_runs_it_says_so_and_a_folder_that_is_none_is_a_message(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert figures.main([]) == 0
    assert "nothing to read" in capsys.readouterr().out
    assert figures.main([str(tmp_path)]) == 2
    assert "is no run folder" in capsys.readouterr().err


def test_the_readme_has_the_marks_once() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert text.count("<!-- figures:begin -->") == text.count("<!-- figures:end -->") == 1
    assert text.index("<!-- figures:begin -->") < text.index("<!-- figures:end -->")
