"""`prefkit export`: the adapter's folder and its card."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

import pytest
import yaml

from prefkit import cli, recipe
from prefkit.commands import card
from prefkit.evaluate import suites
from prefkit.runfolder import RunFolder


def _card(folder: str = "out") -> str:
    return Path(folder, "README.md").read_text(encoding="utf-8")


def test_an_adapter_is_exported_with_a_card(finished: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["export", "run", "out"]) == 0
    assert sorted(path.name for path in Path("out").iterdir()) == ["README.md", "adapter_config.json", "adapter_model.safetensors"]
    assert Path("out/adapter_model.safetensors").read_bytes() == b"adapter"
    assert json.loads(Path("out/adapter_config.json").read_text()) == {
        "base_model_name_or_path": "HuggingFaceTB/SmolLM2-135M-Instruct",
        "r": 16,
    }
    assert all(path.stat().st_mode & 0o444 == 0o444 for path in Path("out").iterdir())
    text = _card()
    metadata = yaml.safe_load(text.split("---")[1])
    assert metadata["base_model"] == "HuggingFaceTB/SmolLM2-135M-Instruct" and metadata["license"] == "apache-2.0"
    assert "| test, 2 of 2 | Base model | 0.0\u00a0% (0.0 to 65.8\u00a0%)" in text
    assert "| test, 2 of 2 | Final model | 100.0\u00a0% (34.2 to 100.0\u00a0%)" in text
    assert "people: name (Ann, Bob), age" in text and "seed 17" in text and "none of which was better on validation" in text
    assert "Apache-2.0" in text and "vllm serve" in text and "llama-server" in text
    assert "out/README.md" in capsys.readouterr().out


@pytest.mark.parametrize("merged", [False, True])
def test_the_card_loads_the_model_in_eight_lines_of_python(finished: RunFolder, merged: bool) -> None:
    text = card.text(finished, recipe.load("run"), "my-model", merged)
    code = re.search(r"```python\n(.*?)\n```", text, re.DOTALL)
    assert code is not None
    assert len(code[1].splitlines()) <= 8
    tree = ast.parse(code[1])
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert ("PeftModel" in names) is not merged and '"my-model"' in code[1]
    assert ("--lora-modules" in text) is not merged


def test_the_card_takes_the_whole_evaluation_where_there_is_one(finished: RunFolder, answers: list) -> None:
    finished.write_json("evaluation-full/evaluation.json", suites.evaluation(answers, {"test": 200}, 2, 1.0))
    finished.write_json("evaluation-full/ledger.json", suites.ledger(answers, {}))
    assert "| test, 2 of 200 |" in card.text(finished, recipe.load("run"), "x", False)


def test_backquotes_in_a_schema_do_not_end_the_prompt(finished: RunFolder) -> None:
    import sqlite3

    with sqlite3.connect("my.sqlite") as connection:
        connection.execute("CREATE TABLE t (x TEXT)")
        connection.execute("INSERT INTO t VALUES ('````')")
    text = card.text(finished, recipe.load("run"), "x", False)
    assert re.search(r"(?m)^`````text$", text) and re.search(r"(?m)^`````$", text)


def test_a_folder_that_is_used_is_left_alone(finished: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    Path("out").mkdir()
    Path("out/letter.txt").write_text("Dear Ann")
    assert cli.main(["export", "run", "out"]) == 2
    assert "is not empty" in capsys.readouterr().err
    assert [path.name for path in Path("out").iterdir()] == ["letter.txt"]


def test_a_run_without_an_adapter_says_how_to_go_on(finished: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    finished.file("adapter/adapter_model.safetensors").unlink()
    assert cli.main(["export", "run", "out"]) == 2
    assert "prefkit recipe run --resume" in capsys.readouterr().err and not Path("out").exists()


def test_nothing_is_left_of_an_export_that_fails(finished: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("the disk is full")

    monkeypatch.setattr("prefkit.commands.export.copy_adapter", fail)
    with pytest.raises(RuntimeError):
        cli.main(["export", "run", "out"])
    assert not Path("out").exists() and not list(Path().glob(".tmp-*"))
