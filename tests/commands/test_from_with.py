"""The loop from deployment back to training, through the commands: ingest a log, then `recipe --from RUN --with INGESTED`."""

from __future__ import annotations

import json
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from prefkit import cli, pipeline, recipe, stages
from prefkit.context import load_task
from prefkit.hashing import hash_bytes
from prefkit.runfolder import RunFolder
from tests.commands.tiny import tiny_model

TRAIN = [(f"How many people are over {age}?", f"SELECT COUNT(*) FROM people WHERE age > {age}") for age in range(18, 42, 2)]
OTHERS = [
    ("validation", "Who is the oldest?", "SELECT name FROM people ORDER BY age DESC LIMIT 1"),
    ("test", "List all names.", "SELECT name FROM people"),
    ("test", "What is the mean age?", "SELECT AVG(age) FROM people"),
]
LOG: list[dict[str, Any]] = [
    {"question": "Ages and names, please", "answer": "SELECT name, age FROM people", "correction": "SELECT age, name FROM people"},
    {"question": "Who is called Ann?", "answer": "SELECT age FROM people", "correction": "SELECT name FROM people WHERE name = 'Ann'"},
    {"question": TRAIN[0][0], "answer": "SELECT COUNT(*) FROM people WHERE age < 18", "retry": TRAIN[0][1], "thumbs": "down"},
    {"question": "List all names.", "answer": "SELECT age FROM people", "correction": "SELECT name FROM people"},
]
SETTINGS = [
    "rollouts.max_new_tokens=6",
    "threads=1",
    "calibrate.steps=0",
    "track.wandb=off",
    "warm_start.rounds.0.batch=2",
    "warm_start.rounds.1.k=2",
    "evaluate.k=1",
]


def ingested(*more: str) -> Path:
    """Ingest LOG as the command does; the folder."""
    Path("log.jsonl").write_text("\n".join(map(json.dumps, LOG)) + "\n")
    assert cli.main(["ingest", "log.jsonl", "--task", "old", "--out", "new-data", *more]) == 0
    return Path("new-data")


@pytest.fixture
def old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunFolder:
    """What a finished run leaves of its model: its recipe and its adapter, which is random."""
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setenv("PREFKIT_CACHE", str(tmp_path / "cache"))
    with sqlite3.connect("my.sqlite") as connection:
        connection.executescript("CREATE TABLE people (name TEXT, age INTEGER); INSERT INTO people VALUES ('Ann', 31), ('Bob', 52);")
    connection.close()
    asked = [*(("train", *pair) for pair in TRAIN), *OTHERS]
    lines = [json.dumps({"split": split, "question": question, "sql": sql}) for split, question, sql in asked]
    Path("my.jsonl").write_text("\n".join(lines) + "\n")
    tiny_model(Path("tiny"))
    data = ["task.database=my.sqlite", "task.questions=my.jsonl"]
    chosen = recipe.load("sql-gen", profile="smoke", overrides=[*data, *SETTINGS], model="./tiny")
    run = RunFolder("old")
    run.write_text("recipe.yaml", chosen.to_yaml())
    run.describe(recipe="sql-gen", profile="smoke")
    torch.manual_seed(3)
    base = AutoModelForCausalLM.from_pretrained("tiny")
    config = LoraConfig(r=16, lora_alpha=32, target_modules="all-linear", init_lora_weights=False, task_type="CAUSAL_LM")
    get_peft_model(base, config).save_pretrained("old/adapter")
    return run


def test_a_log_trains_the_next_run(old: RunFolder, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    folder = ingested()
    said = capsys.readouterr().out
    assert "4 handled, 0 broken" in said and "2 examples" in said and "--from RUN --with new-data" in said

    # Stopped in its second stage, and resumed.
    take_history = stages.take_history

    def stopped(_: Any) -> dict[str, Any]:
        raise KeyboardInterrupt

    monkeypatch.setattr(stages, "take_history", stopped)
    command = ["recipe", "old", "--from", "old", "--with", str(folder), "--run", "next"]
    assert cli.main(command) == 130
    assert "--from old --with new-data --run next --resume" in capsys.readouterr().err
    monkeypatch.setattr(stages, "take_history", take_history)
    assert cli.main([*command, "--resume"]) == 0

    run = RunFolder("next")
    begun = [event["stage"] for event in run.read_events() if event["kind"] == "begin"]
    assert begun[:4] == ["start", "history", "history", "readiness"]
    assert begun[2:] == [stage.name for stage in pipeline.plan(recipe.load("next"))][1:]

    manifest = run.manifest
    weights = hash_bytes("old/adapter/adapter_model.safetensors")
    assert manifest["from"] == {"adapter": str(Path("old/adapter").absolute()), "sha256": weights}
    assert [one["folder"] for one in manifest["with"]] == [str(folder.absolute())]
    assert hash_bytes("next/start/adapter/adapter_model.safetensors") == weights
    chosen = recipe.load("next")
    assert chosen.model.adapter == str(Path("old/adapter").absolute()) and chosen.task.ingested == [str(folder.absolute())]

    # Round 0: the new questions, a quarter of the old references, and the pairs out of the log.
    pairs = run.read_rows("pairs/round-0.parquet")
    history = [row for row in pairs if row["source"] == "history"]
    assert {row["rejected"][0]["content"] for row in history} == {line["answer"] for line in LOG[:3]}
    assert all(row["chosen_ids"] and row["chosen_ids"][-1] == 0 and row["prompt_ids"] for row in history)
    rollouts = {row["example_id"] for row in run.read_rows("rollouts/rollouts-0.parquet")}
    new = {row["example_id"] for row in run.read_rows("rollouts/history.parquet") if row["split"] == "ingested"}
    assert new <= rollouts and len(rollouts) == len(new) + 1
    verdicts = {row["id"]: row["key"] for row in run.read_rows("verdicts/history.parquet")}
    assert all(verdicts[row[f"{side}_rollout"]] == row[f"{side}_verdict"] for row in history for side in ("chosen", "rejected"))

    # The earlier model is the base of the evaluation, and a candidate.
    found = run.read_json("evaluation.json")
    assert found["policies"][0] == "earlier" and "base" not in found["policies"]
    assert set(found["splits"]) == {"test"} and found["splits"]["test"]["questions"] == 2
    assert set(run.read_json("select-warm.json")["scores"]) == {"start", "round-0", "round-1"}
    assert "Model of the earlier run" in run.file("report.md").read_text("utf-8")
    assert run.manifest["stages"]["warm_start-0"]["figures"]["changed_share"] > 0

    assert cli.main(command) == 0
    assert "nothing to do" in capsys.readouterr().out


def test_the_content_of_both_is_part_of_the_inputs(old: RunFolder) -> None:
    folder = ingested()
    arguments = [f"model.adapter={Path('old/adapter').absolute()}", f"task.ingested={folder.absolute()}"]
    before = recipe.load("old", overrides=arguments)
    assert before.run_name != recipe.load("old").run_name

    def inputs() -> dict[str, str]:
        chosen = recipe.load("old", overrides=arguments)
        identity = pipeline.hash_value(pipeline.task_identity(load_task(chosen)))
        return {stage.name: pipeline.inputs_of(RunFolder("next"), stage, identity) for stage in pipeline.plan(chosen)}

    first = inputs()
    weights = Path("old/adapter/adapter_model.safetensors")
    weights.write_bytes(weights.read_bytes() + b" ")
    second = inputs()
    assert {name for name in first if first[name] != second[name]} == {"start"}, "the others follow from what it leaves"
    LOG.append({**LOG[0], "answer": "SELECT age FROM people"})
    try:
        ingested()
    finally:
        LOG.pop()
    third = inputs()
    assert {name for name in second if second[name] != third[name]} == set(second), "ids of questions come from the log"


def message(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert cli.main(["recipe", *arguments, "--dry-run"]) == 2
    error = capsys.readouterr().err
    assert "Traceback" not in error
    return error


def test_what_does_not_fit_is_refused_with_its_mend(old: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(ingested())
    capsys.readouterr()
    assert "is no run folder" in message(capsys, "old", "--from", "nowhere")
    assert "is no ingested folder" in message(capsys, "old", "--with", "old")
    assert "--set model.lora.rank=16" in message(capsys, "old", "--from", "old", "--set", "model.lora.rank=8")
    assert "prefkit recipe old --from old" in message(capsys, "old", "--from", "old", "--model", "./other").replace(
        str(Path.cwd()) + "/", ""
    )
    assert "trained the layers all-linear" in message(capsys, "old", "--from", "old", "--set", "model.lora.targets=[q_proj]")
    assert "would go on from its own adapter" in message(capsys, "old", "--from", "old", "--run", "old")
    own = "warm_start.rounds=[{source: own, k: 2}]"
    assert "--set warm_start.rounds.0.source=references" in message(capsys, "old", "--with", folder, "--set", own)

    # Another task, which holds out what the old run trained on, or what was ingested.
    text = Path("my.jsonl").read_text()
    Path("other.jsonl").write_text(text.replace('"split": "train"', '"split": "test"', 1))
    asked = f"task.questions={Path('other.jsonl').absolute()}"
    assert "old trained on 1 questions that this task holds out" in message(capsys, "old", "--from", "old", "--set", asked).replace(
        str(Path.cwd()) + "/", ""
    )
    Path("other.jsonl").write_text(text + json.dumps({"split": "test", "question": "who is called ANN", "sql": "SELECT 'Ann'"}) + "\n")
    assert "has 1 questions that this task holds out" in message(capsys, "old", "--with", folder, "--set", asked)

    shutil.copy("my.sqlite", "changed.sqlite")
    with sqlite3.connect("my.sqlite") as connection:
        connection.execute("INSERT INTO people VALUES ('Cid', 40)")
    connection.close()
    assert "other rows of the database my" in message(capsys, "old", "--with", folder)
    Path("old/adapter/adapter_model.safetensors").unlink()
    assert "no final adapter yet" in message(capsys, "old", "--from", "old")


def test_the_plan_says_what_a_run_goes_on_from(old: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    folder = ingested()
    capsys.readouterr()
    assert cli.main(["recipe", "old", "--from", "old", "--with", str(folder), "--dry-run"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "from the adapter" in said and "2 questions and 3 pairs out of the log log.jsonl train too" in said
    assert "start" in said and "history" in said


def test_a_bad_call_of_ingest_is_a_message(old: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["ingest", "nowhere.jsonl", "--task", "old"]) == 2
    assert "nowhere.jsonl: there is no such file" in capsys.readouterr().err
    Path("log.jsonl").write_text("{}\n")
    assert cli.main(["ingest", "log.jsonl", "--task", "olt"]) == 2
    assert cli.main(["ingest", "log.jsonl", "--task", "old", "--columns", "map.yaml"]) == 2
    assert "name an existing column map" in capsys.readouterr().err
