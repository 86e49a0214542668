"""The whole loop, once on the embedded model in the smoke profile, and once with nothing to learn from."""

from __future__ import annotations

import html
import json
import os
import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from prefkit import pipeline, recipe
from prefkit.context import Context, load_task, task_identity
from prefkit.progress import quiet
from prefkit.recipe import Recipe
from prefkit.runfolder import RunFolder, hash_value

STAGES = [
    "readiness", "rollouts-0", "pairs-0", "warm_start-0", "rollouts-1", "corrections-1", "pairs-1", "warm_start-1", "select-warm",
    "rollouts-calibrate", "calibrate", "select-final", "evaluate", "report",
]  # fmt: skip
POLICIES = ["base", "references", "own_pairs", "calibrated"]


@pytest.fixture(scope="module", autouse=True)
def without_a_tracker_key() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("WANDB_")]:
            patch.delenv(name)
        patch.setenv("WANDB_MODE", "offline")
        yield


@pytest.fixture(scope="module")
def smoke() -> Recipe:
    return recipe.load("sql-gen", profile="smoke")


@pytest.fixture(scope="module")
def asked() -> list[str]:
    """Under which names `run` asked a policy, in order."""
    return []


@pytest.fixture(scope="module")
def run(smoke: Recipe, asked: list[str], tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """The run folder of the smoke profile, made once for this file."""
    folder = tmp_path_factory.mktemp("runs") / "smoke"
    answer = Context.answer

    def noted(self: Context, name: str, *rest: Any, **more: Any) -> Any:
        asked.append(name)
        return answer(self, name, *rest, **more)

    with quiet() as progress, pytest.MonkeyPatch.context() as patch:
        patch.setattr(Context, "answer", noted)
        return pipeline.run(smoke, folder, progress)


@pytest.mark.parametrize(
    ("overrides", "wanted"),
    [
        ([], ["corrections-1"]),
        (["corrections.turns=0"], []),
        (["corrections.references=true"], ["corrections-0", "corrections-1"]),
        (["corrections.references=true", "corrections.turns=0"], []),
    ],
    ids=lambda value: ",".join(value) if isinstance(value, list) else "",
)
def test_rounds_have_corrections_where_the_recipe_says_so(overrides: list[str], wanted: list[str]) -> None:
    plan = {stage.name: stage for stage in pipeline.plan(recipe.load("sql-gen", overrides=overrides))}
    assert [name for name in plan if name.startswith("corrections")] == wanted
    for index in range(2):
        assert (f"corrections-{index}" in plan[f"pairs-{index}"].reads) == (f"corrections-{index}" in wanted)


def test_every_stage_is_done_once_and_in_order(run: RunFolder, smoke: Recipe) -> None:
    assert [stage.name for stage in pipeline.plan(smoke)] == STAGES
    entries = run.manifest["stages"]
    assert list(entries) == STAGES
    for stage in pipeline.plan(smoke):
        entry = entries[stage.name]
        assert entry["status"] == "done" and entry["seed"] == smoke.seed and entry["seconds"] > 0
        assert entry["versions"]["trl"].startswith("1.16")
        for rel in stage.writes:
            assert any(file == rel or file.startswith(f"{rel}/") for file in entry["outputs"]), rel
            assert run.file(rel).exists()
    kinds = [(event["kind"], event["stage"]) for event in run.read_events() if "stage" in event]
    assert kinds == [(kind, name) for name in STAGES for kind in ("begin", "done")]


def test_the_folder_holds_results_and_no_scaffolding(run: RunFolder) -> None:
    there = {path.name for path in run.path.iterdir()}
    assert there >= {"recipe.yaml", "manifest.json", "metrics.jsonl", "events.jsonl", "evaluation.json", "ledger.json", "adapter"}
    assert there >= {"report.html", "report.md"}
    scraps = [path for path in run.path.rglob("*") if re.search(r"partial|checkpoint|\.tmp", path.name) and "wandb" not in path.parts]
    assert scraps == []
    assert sorted(path.name for path in run.file("adapter").iterdir()) == ["adapter_config.json", "adapter_model.safetensors"]
    assert recipe.load(run.path).configuration_hash() == recipe.load("sql-gen", profile="smoke").configuration_hash()


def test_every_question_has_its_answers_and_every_answer_its_verdict(run: RunFolder, smoke: Recipe) -> None:
    limits, rounds = smoke.limits, smoke.warm_start.rounds
    for name, questions, k in (
        ("readiness", limits.readiness, 4),
        ("rollouts-1", limits.own, rounds[1].k),
        ("rollouts-calibrate", limits.calibrate, 4),
    ):
        rows, verdicts = run.read_rows(f"rollouts/{name}.parquet"), run.read_rows(f"verdicts/{name}.parquet")
        assert questions is not None
        assert len(rows) == questions * k
        assert [row["id"] for row in rows] == [verdict["id"] for verdict in verdicts]
        assert all(len(row["logprobs"]) == len(row["completion_ids"]) <= smoke.rollouts.max_new_tokens for row in rows)
        assert len({verdict["key"] for verdict in verdicts}) > 1
    stages = ("rollouts-0", "rollouts-1", "rollouts-calibrate")
    parts = [{row["example_id"] for row in run.read_rows(f"rollouts/{name}.parquet")} for name in stages]
    assert not parts[0] & parts[1] and not parts[0] & parts[2] and not parts[1] & parts[2], "no question is used by two stages"


def test_pairs_name_what_they_came_from(run: RunFolder) -> None:
    stages = ("rollouts-0", "rollouts-1", "corrections-1")
    rollouts = {row["id"]: row for name in stages for row in run.read_rows(f"rollouts/{name}.parquet")}
    keys = {row["id"]: row["key"] for name in stages for row in run.read_rows(f"verdicts/{name}.parquet")}
    first = run.read_rows("pairs/round-0.parquet")
    assert first
    for row in first + run.read_rows("pairs/round-1.parquet"):
        for side in ("chosen", "rejected"):
            name = row[f"{side}_rollout"]
            if name is not None:
                assert rollouts[name]["example_id"] == row["example_id"]
                assert row[f"{side}_verdict"] == keys[name]
        assert row["chosen"] != row["rejected"] and row["chosen_ids"] != row["rejected_ids"]
        parts = ("rejected", "rejected_ids", "rejected_rollout", "rejected_verdict", "rejected_status")
        assert len({row[part] is None for part in parts}) == 1, "a whole rejected side or none"
    figures = run.manifest["stages"]["pairs-0"]["figures"]
    assert (figures["rows"], figures["pairs"]) == (len(first), sum(row["rejected"] is not None for row in first))
    assert {row["source"] for row in first} == {"reference"}
    assert "reference" not in {row["source"] for row in run.read_rows("pairs/round-1.parquet")}


def test_training_changed_the_adapter_and_left_its_curve(run: RunFolder, smoke: Recipe) -> None:
    figures = run.manifest["stages"]["warm_start-0"]["figures"]
    assert figures["changed_share"] > 0.4
    losses = [row["loss"] for row in run.read_metrics("warm_start-0") if "loss" in row]
    assert len(losses) == figures["steps"] > 0
    calibrated = run.manifest["stages"]["calibrate"]["figures"]
    assert calibrated["steps"] == smoke.calibrate.steps
    assert calibrated["start_difference"] < 1e-3
    steps = [row for row in run.read_metrics("calibrate") if "reward" in row]
    assert [row["step"] for row in steps] == list(range(1, smoke.calibrate.steps + 1))
    assert steps[0]["kl"] == pytest.approx(0, abs=1e-3)


def test_selection_and_evaluation_ask_each_adapter_once(run: RunFolder, asked: list[str], smoke: Recipe) -> None:
    warm, final = run.read_json("select-warm.json"), run.read_json("select-final.json")
    assert final["scores"]["warm_start"] == warm["scores"][warm["chosen"]], "known from the first selection"
    first, *steps = final["scores"]
    assert (first, len(steps), steps[-1]) == ("warm_start", smoke.select.candidates, f"step-{smoke.calibrate.steps}")
    expected = ["select-warm/round-0", "select-warm/round-1", *(f"select-final/{step}" for step in steps)]
    assert [name for name in asked if name.startswith("select")] == expected
    adapters = {"warm_start/round-0/adapter", warm["adapter"], final["kept"]}
    assert len([name for name in asked if name.startswith("evaluate/")]) == 1 + len(adapters)


def test_the_evaluation_is_of_every_policy_on_every_question(run: RunFolder, smoke: Recipe) -> None:
    answers = run.read_rows("evaluation/answers.parquet")
    questions = smoke.limits.test + smoke.limits.unseen  # type: ignore[operator]
    assert len(answers) == len(POLICIES) * questions * (1 + smoke.evaluate.k)
    assert {row["score"] for row in answers} <= {0, 1}
    found = run.read_json("evaluation.json")
    assert found["policies"] == POLICIES
    limits = {"test": smoke.limits.test, "unseen": smoke.limits.unseen}
    assert {split: part["questions"] for split, part in found["splits"].items()} == limits
    for policies in found["scores"].values():
        assert list(policies) == POLICIES
        for scores in policies.values():
            for measure in ("greedy", "samples", "pass_at_k"):
                assert 0 <= scores[measure]["low"] <= scores[measure]["mean"] <= scores[measure]["high"] <= 1
    ledger = run.read_json("ledger.json")
    assert {entry["step"] for entry in ledger["entries"]} == {"references", "own_pairs", "calibrated", "total"}
    assert all(-1 <= entry["gain"]["low"] <= entry["gain"]["mean"] <= entry["gain"]["high"] <= 1 for entry in ledger["entries"])


def test_the_report_says_what_the_files_say(run: RunFolder, smoke: Recipe) -> None:
    sentence = run.read_json("ledger.json")["headline"]["sentence"]
    page, text = run.file("report.html").read_text("utf-8"), run.file("report.md").read_text("utf-8")
    assert plain(sentence) in plain(text)
    assert plain(sentence) in plain(html.unescape(re.sub(r"<[^>]+>", "", page)))
    counts = (f"{smoke.limits.test} test questions", f"{smoke.limits.unseen} questions on databases")
    for said in (*counts, "Online calibration", str(smoke.seed)):
        assert said in text
    assert "<svg" in page
    assert not re.search(r"""(?:src|href)=["']https?://""", page), "the report asks nobody for anything"


def test_the_tracker_has_one_offline_run_a_stage_in_one_group(run: RunFolder) -> None:
    opened = [run_record(file) for file in run.path.glob("wandb/offline-run-*/run-*.wandb")]
    assert sorted((record.display_name, record.run_group) for record in opened) == sorted((name, run.path.name) for name in STAGES)


def run_record(file: Path) -> Any:
    """What a .wandb file says of its run. It is a LevelDB log behind seven bytes of its own, and this record stands at its beginning."""
    from wandb.proto.wandb_internal_pb2 import Record  # pyright: ignore[reportAttributeAccessIssue]

    data, place = file.read_bytes(), 7
    while True:
        _, length, kind = struct.unpack("<IHB", data[place : place + 7])
        assert kind == 1, "a whole record"
        record = Record.FromString(data[place + 7 : place + 7 + length])
        if record.WhichOneof("record_type") == "run":
            return record.run
        place += 7 + length


def test_the_same_command_again_does_nothing(run: RunFolder, smoke: Recipe) -> None:
    def state() -> dict[Path, tuple[int, bytes]]:
        files = [path for path in run.path.rglob("*") if path.is_file() and path.name != ".lock"]
        return {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in files}

    before = state()
    with quiet() as progress:
        pipeline.run(smoke, run.path, progress)
    after = state()
    assert after.keys() == before.keys()
    rewritten = {path.name for path in before if after[path][0] != before[path][0]}
    assert rewritten <= {"recipe.yaml", "manifest.json"}, "these two are written down again, and say the same"
    assert all(after[path][1] == before[path][1] for path in before)


@pytest.mark.parametrize(
    ("overrides", "again"),
    [
        ([], set()),
        (["track.wandb=off", "threads=1"], set()),
        (["limits.test=7"], {"readiness", "evaluate"}),
        (["limits.validation=5"], {"select-warm", "select-final"}),
        (["calibrate.steps=3"], {"calibrate"}),
        (["pairs.per_prompt=2"], {"pairs-0", "pairs-1"}),
        (["corrections.tries=3"], {"corrections-1"}),
        (["corrections.train=false"], {"pairs-1"}),
        (["seed=18"], set(STAGES) - {"report"}),
    ],
    ids=lambda value: ",".join(value) if isinstance(value, list) else "",
)
def test_a_changed_setting_runs_what_it_changes(overrides: list[str], again: set[str], run: RunFolder) -> None:
    """What follows on a stage runs again as well, once its results are other ones."""
    changed = recipe.load("sql-gen", profile="smoke", overrides=overrides)
    identity = hash_value(task_identity(load_task(changed)))
    plan = pipeline.plan(changed)
    assert {stage.name for stage in plan if not run.is_done(stage.name, pipeline.inputs_of(run, stage, identity))} == again


# Nothing to learn from


@pytest.fixture(scope="module")
def still(tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """A run with a learning rate of 0 everywhere, in one process, on a random model."""
    overrides = [
        "warm_start.rounds.0.learning_rate=0", "warm_start.rounds.1.learning_rate=0", "calibrate.learning_rate=0",
        "rollouts.max_new_tokens=8", "model.dtype=float32", "track.wandb=off", "limits.readiness=1", "limits.references=24",
        "limits.own=4", "calibrate.steps=1",
    ]  # fmt: skip
    settings = recipe.load("sql-gen", profile="smoke", overrides=overrides, model=str(tiny_folder))
    with quiet() as progress:
        return pipeline.run(settings, tmp_path_factory.mktemp("runs") / "still", progress, processes=1)


def test_a_learning_rate_of_0_is_reported_as_no_change(still: RunFolder) -> None:
    ledger = still.read_json("ledger.json")
    assert ledger["headline"]["verdict"] == "no change"
    assert ledger["headline"]["sentence"].startswith("No change: ")
    assert still.file("report.md").read_text("utf-8").startswith("# No change")
    assert "No change" in still.file("report.html").read_text("utf-8")
    for entry in ledger["entries"]:
        assert (entry["gain"]["low"], entry["gain"]["mean"], entry["gain"]["high"]) == (0, 0, 0)
        assert (entry["won"], entry["lost"]) == (0, 0)


def test_a_learning_rate_of_0_changes_no_weight_and_no_answer(still: RunFolder) -> None:
    from safetensors.numpy import load_file

    entries = still.manifest["stages"]
    assert entries["warm_start-0"]["figures"]["steps"] > 0
    assert all(entries[name]["figures"]["changed_share"] == 0 for name in ("warm_start-0", "warm_start-1", "calibrate"))
    weights = load_file(still.file("adapter/adapter_model.safetensors"))
    assert weights and not any(value.any() for name, value in weights.items() if "lora_B" in name)
    answers: dict[str, list[Any]] = {}
    for row in still.read_rows("evaluation/answers.parquet"):
        answers.setdefault(row["policy"], []).append((row["example_id"], row["kind"], row["k"], row["completion"]))
    assert list(answers) == POLICIES
    assert all(given == answers["base"] for given in answers.values())
    assert len({completion for *_, completion in answers["base"]}) > 3, "answers that are all alike would show nothing"


def test_the_tracker_can_be_off(still: RunFolder) -> None:
    assert not still.file("wandb").exists()
    assert json.loads(still.file("metrics.jsonl").read_text().splitlines()[0])["stage"] == "warm_start-0"


def plain(text: str) -> str:
    """Words without markup's spaces."""
    return re.sub(r"\s+", " ", text.replace("\u00a0", " ")).strip()
