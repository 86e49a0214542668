"""ask, evaluate and export with real model processes, on a model of a few thousand random weights."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from prefkit import cli, recipe
from prefkit.runfolder import RunFolder
from tests.commands.tiny import tiny_model


def random_adapter(model: Path, folder: Path, seed: int) -> None:
    """A LoRA with weights that change what the model answers."""
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    torch.manual_seed(seed)
    base = AutoModelForCausalLM.from_pretrained(model)
    made = get_peft_model(base, LoraConfig(r=4, target_modules="all-linear", init_lora_weights=False, task_type="CAUSAL_LM"))
    made.save_pretrained(str(folder))


@pytest.fixture
def run(finished: RunFolder, monkeypatch: pytest.MonkeyPatch) -> RunFolder:
    """The finished run with a model and adapters that can be loaded."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    tiny_model(Path("tiny"))
    overrides = ["task.database=my.sqlite", "task.questions=my.jsonl", "rollouts.max_new_tokens=8", "threads=1"]
    chosen = recipe.load("sql-gen", profile="smoke", overrides=overrides, model="./tiny")
    finished.write_text("recipe.yaml", chosen.to_yaml())
    for seed, folder in enumerate(("warm_start/round-0/adapter", "warm_start/round-1/adapter")):
        random_adapter(Path("tiny"), finished.file(folder), seed)
    random_adapter(Path("tiny"), finished.file("adapter"), 1)
    return finished


def _last_json(capsys: pytest.CaptureFixture[str]) -> dict:
    return json.loads(capsys.readouterr().out)


def test_ask_evaluate_and_export_with_a_real_model(run: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["ask", "run", "Who is old?", "--json"]) == 0
    asked = _last_json(capsys)
    assert asked["database"] == "my" and asked["base"]["completion"] != asked["trained"]["completion"]

    assert cli.main(["evaluate", "run"]) == 0
    shown = capsys.readouterr().out
    assert "test: 2 of 2 questions" in shown and "written to run/evaluation-full" in shown
    full = RunFolder("run/evaluation-full")
    rows = full.read_rows("evaluation/answers.parquet")
    assert len(rows) == 4 * 2 * (1 + recipe.load("run").evaluate.k)
    # The final policy is the warm start's adapter here, which is asked once for both.
    same = [[row["completion"] for row in rows if row["policy"] == policy] for policy in ("own_pairs", "calibrated")]
    assert same[0] == same[1]
    assert not list(full.path.rglob("*.partial.jsonl"))
    before = full.file("evaluation.json").stat().st_mtime_ns
    assert cli.main(["evaluate", "run"]) == 0
    assert capsys.readouterr().out.startswith("nothing to do: run/evaluation-full")
    assert full.file("evaluation.json").stat().st_mtime_ns == before

    assert cli.main(["export", "run", "whole", "--merged"]) == 0
    capsys.readouterr()
    assert json.loads(Path("whole/config.json").read_text())["model_type"] == "llama"
    # The merged model alone answers what base and adapter answered together.
    chosen = recipe.load("run", model="./whole")
    run.write_text("recipe.yaml", chosen.to_yaml())
    assert cli.main(["ask", "run", "Who is old?", "--json"]) == 0
    assert _last_json(capsys)["base"]["completion"] == asked["trained"]["completion"]
