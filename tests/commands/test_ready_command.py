"""prefkit ready: what it says of tasks and of models, by answers from a file and with real model processes."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from prefkit import cli
from prefkit.resources import dataset_path
from prefkit.runfolder import RunFolder
from tests.commands.test_tiny_model import random_adapter, tiny_model

Row = dict[str, Any]
DATABASES = ("shop", "hotel")  # one that training knows, one that it does not


def write_lines(file: Path, rows: list[Row]) -> None:
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))


def read_lines(file: Path) -> list[Row]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def copied(folder: Path, most: int = 60) -> Path:
    """The shipped dataset with two of its databases and at most `most` questions of each split."""
    source = dataset_path("sql-gen")
    for name in DATABASES:
        shutil.copytree(source / "databases" / name, folder / "databases" / name)
    for split in ("train", "validation", "test", "unseen"):
        rows = [row for row in read_lines(source / f"{split}.jsonl") if row["database"] in DATABASES]
        write_lines(folder / f"{split}.jsonl", rows[:: -(-len(rows) // most)])
    return folder


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty working folder, with a cache that the tests of this file share."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setenv("PREFKIT_CACHE", str(tmp_path_factory.getbasetemp() / "ready-cache"))
    return tmp_path


@pytest.fixture
def ready(place: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, Row]]:
    """Run the command on the dataset `data`: (exit code, what it showed, its JSON)."""

    def run(*arguments: str, data: Path) -> tuple[int, str, Row]:
        code = cli.main(["ready", "sql-gen", "--set", f"task.dataset={data}", "--json", "ready.json", *arguments])
        said = capsys.readouterr()
        shown = " ".join(said.out.split()) + said.err
        return code, shown, json.loads(Path("ready.json").read_text()) if Path("ready.json").is_file() else {}

    return run


def answers_of(data: Path, file: str, answer: Callable[[int, Row], list[str]], split: str = "validation") -> str:
    """Write a file of answers to all questions of a split; returns its name."""
    questions = read_lines(data / f"{split}.jsonl")
    write_lines(Path(file), [{"id": row["id"], "answers": answer(number, row)} for number, row in enumerate(questions)])
    return file


def mostly_right(number: int, row: Row) -> list[str]:
    """Four answers as a trained model gives them: most right, some of them in prose, some wrong, some broken."""
    wrong = ["SELECT COUNT(*) FROM customers", "SELECT nmae FROM customers", "SELECT (", "I am not sure."]
    return [wrong[(number + k) % 4] if (number * 7 + k * 3) % 10 < 4 else f"```sql\n{row['gold']}\n```" for k in range(4)]


def test_a_constant_answer_is_told_from_a_trained_model(place: Path, ready: Callable[..., tuple[int, str, Row]]) -> None:
    data = copied(place / "data")
    constant = answers_of(data, "constant.jsonl", lambda *_: ["SELECT 1"] * 4)
    trained = answers_of(data, "trained.jsonl", mostly_right)
    code, shown, said = ready("--answers", constant, data=data)
    assert code == 0 and shown.startswith("verdict choose a stronger model: none of ")
    assert "the same text: it does not read the question" in shown and "pass@4 0.0 % (0.0 to " in shown
    (figures,) = said["results"]
    assert figures["kinds"]["wrong result"] == figures["answers"] and figures["pass_at_1"] == 0

    code, shown, said = ready("--answers", trained, data=data)
    assert code == 0 and shown.startswith("verdict ready: ")
    (figures,) = said["results"]
    assert 0.5 < figures["pass_at_1"] < 0.7 < figures["pass_at_k"] and figures["signal_share"] > 0.5
    assert all(figures["kinds"][kind] for kind in ("right", "wrong result", "does not run", "does not parse", "no query"))
    assert figures["trivial"] and not any(right for right, _ in figures["trivial"].values())
    assert (figures["gold_faults"], figures["repeated_differ"], figures["planted_passed"] < 0.1 * figures["planted"]) == (0, 0, True)
    assert "after a warm start: not known: there is no run of this recipe" in shown

    # Both together: a table, and no model among them to begin with.
    code, shown, said = ready("--answers", constant, "--answers", trained, data=data)
    assert code == 0 and "begin with none of them" in shown and said["chosen"] is None
    assert [row["verdict"] for row in said["results"]] == ["choose a stronger model", "ready"]


def test_every_figure_has_its_answers_and_verdicts(place: Path, ready: Callable[..., tuple[int, str, Row]]) -> None:
    data = copied(place / "data", most=20)
    file = answers_of(data, "trained.jsonl", mostly_right)
    _, _, said = ready("--answers", file, data=data)
    (folder,) = Path("runs").iterdir()
    run = RunFolder(folder)
    verdicts = run.read_rows("verdicts/ready.parquet")
    assert [row["id"] for row in run.read_rows("rollouts/ready.parquet")] == [row["id"] for row in verdicts]
    assert sum(row["score"] == 1 for row in verdicts) == said["results"][0]["right"] > 0
    written = run.file("ready.json").stat().st_mtime_ns
    _, shown, again = ready("--answers", file, data=data)
    assert "nothing to do" in shown and again == said and run.file("ready.json").stat().st_mtime_ns == written
    # Other answers are other inputs.
    answers_of(data, "trained.jsonl", lambda number, row: [row["gold"]])
    _, shown, changed = ready("--answers", file, data=data)
    assert "nothing to do" not in shown and changed["results"][0]["pass_at_1"] == 1


def test_broken_golds_are_said_first_and_left_out(place: Path, ready: Callable[..., tuple[int, str, Row]]) -> None:
    data = copied(place / "data")
    broken = 0
    for split in ("train", "validation", "test", "unseen"):
        rows = read_lines(data / f"{split}.jsonl")
        for number, row in enumerate(rows):
            if number % 10 == 3:
                kinds = (row["gold"].replace("SELECT", "SELECT nmae,", 1), f"{row['gold']} LIMIT 0", "SELECT 1", row["gold"][:-4] + "(")
                row["gold"] = kinds[number // 10 % 4]
                broken += 1
        write_lines(data / f"{split}.jsonl", rows)
    file = answers_of(data, "trained.jsonl", mostly_right)
    code, shown, said = ready("--answers", file, data=data)
    assert code == 0 and shown.startswith(f"verdict fix the data: the golds of {broken} of ")
    (figures,) = said["results"]
    assert figures["gold_faults"] == broken and figures["left_out"] > 0
    assert figures["prompts"] == len(read_lines(data / "validation.jsonl")) - figures["left_out"]
    assert figures["first_gold_faults"][0] in shown


def test_twenty_questions_are_too_few(place: Path, ready: Callable[..., tuple[int, str, Row]]) -> None:
    data = copied(place / "data", most=5)
    file = answers_of(data, "trained.jsonl", mostly_right)
    code, shown, said = ready("--answers", file, data=data)
    (figures,) = said["results"]
    assert code == 0 and sum(figures["questions"].values()) <= 20
    assert shown.startswith("verdict too few questions: ") and "50 or more are wanted" in shown


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--answers", "nowhere.jsonl"], "there is no file nowhere.jsonl"),
        (["--answers", "bad.jsonl"], "bad.jsonl, line 1: the task has no question 'x'"),
        (["--model", "./nowhere"], "no model folder at"),
        (["--model", "unfinished"], "unfinished has no adapter yet"),
        (["--after", "1.5"], "--after 1.5: a pass rate is between 0 and 1"),
        (["--after", "nowhere"], "nowhere is no run folder"),
        (["--after", "unfinished"], "unfinished has no answers of a warm-started model"),
    ],
)
def test_a_mistake_is_a_message(arguments: list[str], said: str, place: Path, ready: Callable[..., tuple[int, str, Row]]) -> None:
    data = copied(place / "data", most=3)
    Path("bad.jsonl").write_text('{"id": "x", "answers": [""]}\n')
    RunFolder("unfinished").describe(recipe="sql-gen")
    code, shown, _ = ready(*arguments, data=data)
    assert code == 2 and said in shown
    assert not Path("runs").is_dir()


def test_own_questions_that_do_not_run_are_data_to_be_fixed(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import sqlite3

    with sqlite3.connect("my.sqlite") as connection:
        connection.executescript("CREATE TABLE people (name TEXT, age INTEGER); INSERT INTO people VALUES ('Ann', 31), ('Bob', 52);")
    Path("my.csv").write_text("question,sql\n" + "\n".join(f"Question {n}?,SELECT nmae FROM people" for n in range(3)) + "\n")
    own = ["--set", "task.database=my.sqlite", "--set", "task.questions=my.csv"]
    assert cli.main(["ready", "sql-gen", *own]) == 2
    said = capsys.readouterr().err
    assert said.startswith("prefkit: fix the data: ") and "no such column: nmae" in said
    assert cli.main(["ready", "sql-gen", *own[:2], "--set", "task.questions=none.csv"]) == 2
    assert "fix the data" not in capsys.readouterr().err


def test_models_are_asked_and_compared(place: Path, ready: Callable[..., tuple[int, str, Row]]) -> None:
    """With real processes: a model, its adapter, one whose window is too short, and a folder that holds no weights."""
    data = copied(place / "data", most=30)
    for name in ("tiny", "short"):
        tiny_model(Path(name))
    config = json.loads(Path("short/config.json").read_text())
    Path("short/config.json").write_text(json.dumps({**config, "max_position_embeddings": 300}))
    shutil.copytree("tiny", "broken")
    Path("broken/model.safetensors").write_bytes(b"these are no weights")
    random_adapter(Path("tiny"), Path("own/adapter"), 3)
    quick = ["--profile", "smoke", "--set", "rollouts.max_new_tokens=8", "--set", "threads=2", "--questions", "3", "--samples", "2"]
    models = [argument for name in ("tiny", "own/adapter", "short", "broken") for argument in ("--model", name)]
    code, shown, said = ready(*quick, *models, data=data)
    assert code == 2 and "prefkit: broken: the model " in shown
    tiny, adapter, short = said["results"]
    assert [one["kind"] for one in said["results"]] == ["model", "adapter", "model"]
    # An adapter was trained on some of train, so all are asked validation questions.
    assert {one["split"] for one in said["results"]} == {"validation"}
    for one in (tiny, adapter):
        assert (one["prompts"], one["answers"], one["context"], one["too_long"]) == (3, 6, 2048, 0)
        assert one["tokens_per_s"] > 0 and one["memory_gb"] > 0.05 and one["longest_prompt"] > 300
        # Fifteen questions on one database make seven pairs.
        assert [one[name]["n"] for name in ("gold_match", "needle_far", "needle_near")] == [7, 8, 8]
    assert adapter["parameters"] == tiny["parameters"] and adapter["gold_nats"] != tiny["gold_nats"]
    assert (short["verdict"], short["answers"], short["too_long"]) == ("choose a stronger model", 0, short["prompts_measured"])
    assert "longer than the 300 tokens that it attends to" in short["advice"]
    # Random weights do not know which query belongs to which question.
    assert tiny["verdict"] == adapter["verdict"] == "choose a stronger model" and said["chosen"] is None


def test_what_a_finished_run_showed_is_expected_again(place: Path, ready: Callable[..., tuple[int, str, Row]]) -> None:
    data = copied(place / "data", most=5)
    file = answers_of(data, "trained.jsonl", mostly_right)
    ready("--answers", file, data=data)
    (folder,) = Path("runs").iterdir()
    rows, verdicts = (RunFolder(folder).read_rows(f"{kind}/ready.parquet") for kind in ("rollouts", "verdicts"))
    from prefkit import recipe

    run = RunFolder("runs/sql-gen-1")
    run.write_text("recipe.yaml", recipe.load("sql-gen", overrides=[f"task.dataset={data}"]).to_yaml())
    run.describe(recipe="sql-gen")
    run.write_rows("rollouts/rollouts-calibrate.parquet", rows)
    run.write_rows("verdicts/rollouts-calibrate.parquet", verdicts)
    run.begin("rollouts-calibrate", "x")
    run.finish("rollouts-calibrate", "x", ["rollouts/rollouts-calibrate.parquet"], {}, 1.0)
    _, shown, said = ready("--answers", file, data=data)
    (figures,) = said["results"]
    assert figures["after"]["signal"] == figures["signal"]
    assert f"(from runs/sql-gen-1, stage rollouts-calibrate: {figures['right']} of {figures['answers']} answers" in shown
    # Another model's run is no evidence for this one; it can be named all the same, and a rate can be assumed.
    _, shown, _ = ready("--answers", file, "--set", "model.name=other/model", data=data)
    assert "after a warm start: not known" in shown
    _, shown, _ = ready("--answers", file, "--set", "model.name=other/model", "--after", "runs/sql-gen-1", data=data)
    assert "after a warm start: not known" not in shown
    _, shown, said = ready("--answers", file, "--after", "0.5", data=data)
    assert said["results"][0]["after"]["signal"]["mean"] == pytest.approx(1 - 2 * 0.5**8)
    assert "after a warm start: 99.2 % (at most, if each question is answered right 50 % of the time, as you assume)" in shown


def test_the_smallest_gains_are_those_of_all_questions_and_of_those_that_the_recipe_takes() -> None:
    from prefkit.commands.ready_show import gain_words, gains

    found = gains({"train": 900, "test": 200, "unseen": 50}, {"test": 120, "unseen": None})
    assert found["test"]["shows"] < found["test"]["taken_shows"] and found["unseen"]["taken"] == 50
    first, second = gain_words(found)
    assert (
        first == "200 test questions show a gain of 8.6 points or more; the 120 that this recipe takes, a gain of 12.0 points or more "
        "(four times out of five)"
    )
    assert second == "50 unseen questions show a gain of 22.1 points or more (four times out of five)"
    assert gain_words(gains({"train": 5}, {"test": 120})) == ["there are no held-out questions, so no gain can be shown"]
