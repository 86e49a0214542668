"""`prefkit evaluate`: what its target is, when it has to run again, and its tables."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from prefkit import cli
from prefkit.commands import evaluate, scores
from prefkit.errors import ModelError, RunError
from prefkit.evaluate import suites
from prefkit.runfolder import RunFolder


def _job(target: str, **options: Any) -> evaluate.Job:
    nothing = dict.fromkeys(("task", "limit", "k", "model", "to"))
    return evaluate.job_of(SimpleNamespace(**{"target": target, **nothing, **options}))


def test_a_run_is_measured_with_all_its_policies_on_all_questions(finished: RunFolder) -> None:
    job = _job("run")
    assert [policy.name for policy in job.policies] == ["base", "references", "own_pairs", "calibrated"]
    assert job.policies[0].adapter is None and all(policy.model == "embedded" for policy in job.policies)
    assert Path(job.policies[3].adapter or "") == Path("run/warm_start/round-1/adapter")
    assert (job.recipe.limits.test, job.recipe.limits.unseen) == (None, None)
    assert job.folder == Path("run/evaluation-full")
    limited = _job("run", limit=7)
    assert limited.recipe.limits.test == 7 and limited.folder == Path("run/evaluation-7")
    more = _job("run", k=9)
    assert (more.recipe.evaluate.k, more.folder) == (9, job.folder)
    assert evaluate.identity(more) != evaluate.identity(job), "more samples are another evaluation"


def test_a_run_that_has_not_chosen_yet_is_a_message(finished: RunFolder) -> None:
    finished.file("select-final.json").unlink()
    with pytest.raises(RunError, match=r"select-final\.json is missing"):
        _job("run")


def test_an_adapter_is_measured_against_its_base(finished: RunFolder) -> None:
    job = _job("run/adapter", task="sql-gen")
    assert [(policy.name, policy.model) for policy in job.policies] == [("base", "embedded"), ("adapter", "embedded")]
    assert job.policies[1].adapter == str(Path("run/adapter").resolve())
    assert job.folder.parent == Path("runs") and job.folder.name.startswith("evaluate-adapter-")
    finished.write_json("adapter/adapter_config.json", {"base_model_name_or_path": "org/base"})
    assert _job("run/adapter", task="sql-gen").policies[0].model == "org/base"
    assert _job("run/adapter", task="sql-gen", model="org/other").recipe.model.name == "org/other"
    finished.write_json("adapter/adapter_config.json", {})
    with pytest.raises(ModelError, match="name it with --model"):
        _job("run/adapter", task="sql-gen")


def test_a_model_is_measured_against_the_recipes(finished: RunFolder) -> None:
    job = _job("org/model-1B", task="sql-gen")
    assert [(policy.name, policy.model) for policy in job.policies] == [("base", "embedded"), ("model", "org/model-1B")]
    assert job.folder.name.startswith("evaluate-model-1b-")
    assert [policy.name for policy in _job("embedded", task="sql-gen").policies] == ["base"]


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("embedded", "name a recipe whose task is asked with --task"),
        ("./nowhere", "there is no nowhere"),
        ("run/nowhere", "there is no run/nowhere"),
        ("run/warm_start", "neither a run folder"),
        ("/nowhere/at/all", "there is no /nowhere/at/all"),
    ],
)
def test_a_target_that_is_nothing_is_a_message(finished: RunFolder, target: str, said: str) -> None:
    with pytest.raises(RunError, match=said):
        _job(target)


def test_what_decides_the_result_is_content_and_settings(finished: RunFolder) -> None:
    before = evaluate.identity(_job("run"))
    assert evaluate.identity(_job("run")) == before
    assert evaluate.identity(_job("run", limit=1)) != before
    finished.file("warm_start/round-1/adapter/adapter_model.safetensors").write_bytes(b"other weights")
    assert evaluate.identity(_job("run")) != before


def test_the_tables_fit_a_terminal_of_80_columns(
    answers: list, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    rows = [{**row, "split": split, "level": level, "example_id": f"{level}-{row['example_id']}"}
            for row in answers for split in ("test", "unseen") for level in range(1, 6)]  # fmt: skip
    unjudged = {**rows[0], "example_id": "lost", "score": None, "status": "INFRA"}
    evaluation = suites.evaluation([*rows, unjudged], {"test": 200, "unseen": 150}, 2, 1.0)
    scores.show(evaluation, suites.ledger([*rows, unjudged], {}))
    shown = capsys.readouterr().out
    assert max(map(len, shown.splitlines())) <= 80
    assert "test: 11 of 200 questions" in shown and "unseen: 10 of 150 questions" in shown
    assert "Base model" in shown and "100.0\u00a0% (72.2 to 100.0\u00a0%)" in shown
    assert all(f"level {level}" in shown for level in range(1, 6))
    assert "1 answers could not be judged" in shown
    assert "Improved: on 10 test questions" in shown and "databases that training never saw" in " ".join(shown.split())


def test_report_is_written_again_from_the_runs_files(finished: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["report", "run"]) == 0
    assert capsys.readouterr().out == "run/report.html\nrun/report.md\n"
    first = finished.file("report.html").read_bytes()
    finished.file("report.html").unlink()
    assert cli.main(["report", "run"]) == 0
    assert finished.file("report.html").read_bytes() == first


def test_report_of_a_run_in_use_is_refused(finished: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    with finished.lock():
        assert cli.main(["report", "run"]) == 2
    assert "in use by process" in capsys.readouterr().err
