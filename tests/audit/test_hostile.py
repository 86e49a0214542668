"""A run folder that somebody made to break the audit, and databases that are no longer what they were: messages, never a traceback."""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from faults import forge

from prefkit.audit.run import audit
from prefkit.cli import main
from prefkit.data.findings import Findings
from prefkit.errors import RunError
from prefkit.runfolder import RunFolder
from prefkit.verify.scheduler import Scheduler


@pytest.fixture(scope="module")
def scheduler() -> Iterator[Scheduler]:
    with Scheduler(workers=1) as scheduler:
        yield scheduler


@pytest.fixture
def checked(copied: Path, scheduler: Scheduler) -> Callable[[], Findings]:
    """Audit the copy; every disagreement can be shown."""

    def checked() -> Findings:
        findings = audit(copied, scheduler)
        assert all("\n" not in found.line() or found.what == "file" for found in findings.disagreements)
        json.dumps([found.to_dict() for found in findings.disagreements])
        return findings

    return checked


def named(findings: Findings, file: str, text: str = "") -> bool:
    return any(found.file.startswith(file) and text in found.line() for found in findings.disagreements)


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    assert main(["audit", str(tmp_path)]) == 2
    assert "no run folder" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["", "[]", '{"version": 1, "stages": 3}', "[" * 100_000, "{" * 3], ids=lambda text: text[:12])
def test_a_manifest_that_is_none_is_refused(text: str, copied: Path, scheduler: Scheduler) -> None:
    (copied / "manifest.json").write_text(text)
    with pytest.raises(RunError, match=r"manifest\.json"):
        audit(copied, scheduler)


@pytest.mark.parametrize(
    "rel", ["rollouts/rollouts-1.parquet", "verdicts/readiness.parquet", "pairs/round-1.parquet", "evaluation/answers.parquet"]
)
def test_broken_rows_are_named(rel: str, copied: Path, checked: Callable[[], Findings]) -> None:
    path = copied / rel
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    assert named(checked(), rel, "cannot be read")
    path.write_bytes(data[:400] + bytes(200) + data[600:])
    assert named(checked(), rel)


def test_columns_that_are_missing_or_of_another_type_are_named(copied: Path, checked: Callable[[], Findings]) -> None:
    run = RunFolder(copied)
    for rel, column, value in (("pairs/round-1.parquet", "chosen", "text"), ("verdicts/rollouts-1.parquet", "score", "high")):
        run.write_rows(rel, [{**row, column: value} for row in run.read_rows(rel)])
    rows = run.read_rows("evaluation/answers.parquet")
    run.write_rows("evaluation/answers.parquet", [{name: value for name, value in row.items() if name != "status"} for row in rows])
    forge(run)
    findings = checked()
    assert named(findings, "pairs/round-1.parquet", "column chosen")
    assert named(findings, "verdicts/rollouts-1.parquet", "column score")
    assert named(findings, "evaluation/answers.parquet", "no such column")


def test_nulls_where_there_must_be_values_are_named(copied: Path, checked: Callable[[], Findings]) -> None:
    run = RunFolder(copied)
    rows = run.read_rows("rollouts/rollouts-1.parquet")
    rows[3]["completion"] = None
    rows[5]["messages"][0] = None
    run.write_rows("rollouts/rollouts-1.parquet", rows)
    findings = checked()
    assert named(findings, "rollouts/rollouts-1.parquet", rows[3]["id"])
    assert named(findings, "rollouts/rollouts-1.parquet", rows[5]["id"])


@pytest.mark.parametrize(
    "edit",
    [
        lambda row: {**row, "turns": [{**turn, "tries": "none"} for turn in row["turns"]]},
        lambda row: {**row, "turns": [{**turn, "tries": [{"rollout": 1}]} for turn in row["turns"]]},
        lambda row: {**row, "turns": []},
        lambda row: {**row, "turns": [None]},
        lambda row: {**row, "fresh": [None, {"rollout": "a", "verdict": "b", "score": 1.0}]},
        lambda row: {**row, "fresh": ["a"]},
        lambda row: {**row, "labels": None},
        lambda row: {**row, "completion": []},
    ],
)
def test_trajectories_of_another_shape_are_named(edit: Callable[[Any], Any], copied: Path, checked: Callable[[], Findings]) -> None:
    run = RunFolder(copied)
    run.write_rows("trajectories/round-1.parquet", [edit(row) for row in run.read_rows("trajectories/round-1.parquet")])
    run.write_rows("trajectories/round-x.parquet", [{"id": "a"}])
    forge(run)
    findings = checked()
    assert named(findings, "trajectories/round-1.parquet") and named(findings, "trajectories/round-x.parquet")


def test_pairs_without_texts_are_named(copied: Path, checked: Callable[[], Findings]) -> None:
    run = RunFolder(copied)
    for number, side in enumerate(("chosen", "rejected")):
        run.write_rows(f"pairs/round-{number}.parquet", [{**row, side: []} for row in run.read_rows(f"pairs/round-{number}.parquet")])
    forge(run)
    findings = checked()
    assert named(findings, "pairs/round-0.parquet", "chosen") and named(findings, "pairs/round-1.parquet", "rejected")


@pytest.mark.parametrize("value", [3, "x", [], [3], {}, {"sha256": 3}, [{"sha256": []}]])
def test_what_a_run_goes_on_from_may_have_any_shape(value: Any, copied: Path, checked: Callable[[], Findings]) -> None:
    run = RunFolder(copied)
    run.write_json("manifest.json", {**run.manifest, "from": value, "with": value})
    (copied / "recipe.yaml").write_text((copied / "recipe.yaml").read_text().replace("ingested: null", f"ingested: [{copied}/new-data]"))
    (copied / "new-data").mkdir()
    assert named(checked(), "recipe.yaml", "lies in the run folder")


@pytest.mark.parametrize("path", ["../../../../etc/passwd", "/etc/passwd", "../data/../shop.sqlite"])
def test_a_database_elsewhere_is_not_opened_and_the_rest_is_checked(path: str, copied: Path, checked: Callable[[], Findings]) -> None:
    text = (copied / "recipe.yaml").read_text()
    changed = re.sub(r"database:\n(?:  - .*\n)+|database:\n(?:    - .*\n)+", f"database: {path}\n", text)
    assert changed != text
    (copied / "recipe.yaml").write_text(changed)
    findings = checked()
    assert named(findings, "recipe.yaml", "data of the task")
    assert findings.checked["pairs"] and findings.checked["figures"] and not findings.checked["verdicts"]


def test_a_dataset_inside_the_run_folder_is_not_built(copied: Path, checked: Callable[[], Findings]) -> None:
    planted = copied / "data" / "databases" / "shop"
    planted.mkdir(parents=True)
    (planted / "schema.sql").write_text(f"ATTACH DATABASE '{copied}/written.sqlite' AS x; CREATE TABLE x.t (a);")
    text = (copied / "recipe.yaml").read_text()
    text = re.sub(r"dataset: .*\n", f"dataset: {copied / 'data'}\n", text)
    text = re.sub(r"database:\n(?: +- .*\n)+", "database: null\n", text)
    (copied / "recipe.yaml").write_text(re.sub(r"questions: .*\n", "questions: null\n", text))
    assert named(checked(), "recipe.yaml", "lies in the run folder")
    assert not (copied / "written.sqlite").exists()


def test_paths_and_links_out_of_the_folder_are_not_followed(copied: Path, tmp_path: Path, checked: Callable[[], Findings]) -> None:
    run = RunFolder(copied)
    manifest = run.manifest
    manifest["stages"]["pairs-0"]["files"]["../secret"] = {"size": 1, "sha256": "0"}
    run.write_json("manifest.json", manifest)
    shutil.move(copied / "evaluation.json", tmp_path / "elsewhere.json")
    (copied / "evaluation.json").symlink_to(tmp_path / "elsewhere.json")
    findings = checked()
    assert named(findings, "../secret", "leads out of the folder")
    assert named(findings, "evaluation.json", "link that leads out")


@pytest.mark.parametrize("rel", ["evaluation.json", "ledger.json", "readiness.json", "select-warm.json"])
def test_huge_and_deep_json_is_not_read(rel: str, copied: Path, checked: Callable[[], Findings]) -> None:
    with (copied / rel).open("wb") as file:
        file.truncate(70 << 20)
    assert named(checked(), rel, "more than prefkit ever writes")
    (copied / rel).write_text("[" * 200_000)
    assert named(checked(), rel, "cannot be read")
    (copied / rel).write_text('{"scores": {"a": {"value": "x"}}, "entries": 7}')
    assert named(checked(), rel)


HOSTILE = "\x1b[2J<script>alert(1)</script>\n{{ 7*7 }}"


def test_hostile_text_is_shown_harmlessly(copied: Path, capsys: pytest.CaptureFixture) -> None:
    run = RunFolder(copied)
    rows = run.read_rows("verdicts/rollouts-1.parquet")
    rows[0].update(status=HOSTILE, reason=HOSTILE)
    run.write_rows("verdicts/rollouts-1.parquet", rows)
    (copied / "metrics.jsonl").write_text(f"nothing\n[1]\n{json.dumps({'stage': HOSTILE, 'step': None, 'loss': 'x'})}\n")
    (copied / "report.md").write_bytes(b"\xff\xfe" + HOSTILE.encode())
    assert main(["audit", str(copied), "--workers", "1"]) == 1
    out = capsys.readouterr().out
    assert "\x1b" not in out and "metrics.jsonl, line 1" in out and rows[0]["id"] in out


@pytest.mark.parametrize(
    "entry",
    [3, {"status": "done"}, {"status": "done", "figures": [], "files": {}, "outputs": {}, "versions": {}, "inputs": "", "seconds": "1"}],
)
def test_entries_of_another_shape_are_named(entry: Any, copied: Path, checked: Callable[[], Findings]) -> None:
    run = RunFolder(copied)
    manifest = run.manifest
    manifest["stages"]["pairs-0"] = entry
    run.write_json("manifest.json", manifest)
    assert named(checked(), "manifest.json", "pairs-0")


# The database


@pytest.fixture
def database(small_run: Path) -> Iterator[Path]:
    """The first data instance, put back afterwards."""
    path = small_run.parent / "shop-0.sqlite"
    data = path.read_bytes()
    yield path
    path.write_bytes(data)


def test_a_changed_database_is_one_finding_and_its_verdicts_are_found(database: Path, checked: Callable[[], Findings]) -> None:
    with sqlite3.connect(database) as connection:
        connection.execute("UPDATE item SET price = price + 3, stock = 0 WHERE id < 4")
    connection.close()
    findings = checked()
    assert [found.row for found in findings.disagreements if found.group == "databases"] == ["shop-0"]
    assert {found.what for found in findings.disagreements if found.group == "verdicts"} <= {"status", "score"}
    assert named(findings, "manifest.json", "inputs of every stage")


def test_a_missing_database_is_named_and_the_rest_is_checked(database: Path, checked: Callable[[], Findings]) -> None:
    database.unlink()
    findings = checked()
    assert named(findings, "recipe.yaml", str(database))
    assert findings.checked["pairs"] and findings.checked["figures"]
    assert not {found.file for found in findings.disagreements} & {"evaluation.json", "ledger.json"}


# The command


def test_the_command_says_what_was_checked_and_writes_it_down(small_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    assert main(["audit", str(small_run), "--workers", "1", "--json", str(tmp_path / "audit.json")]) == 0
    out = capsys.readouterr().out
    assert out.rstrip().endswith("everything that was checked agrees") and "not checked:" in out
    written = json.loads((tmp_path / "audit.json").read_text())
    assert written["agrees"] and written["disagreements"] == []
    assert written["checked"]["verdicts"]["checked"] == written["checked"]["verdicts"]["agree"] > 0
    assert any("processor time" in one["what"] for one in written["not_checked"])


def test_own_data_may_lie_elsewhere_by_now(small_run: Path, copied: Path, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    text = (copied / "recipe.yaml").read_text()
    (copied / "recipe.yaml").write_text(text.replace(str(small_run.parent), "/gone"))
    assert main(["audit", str(copied), "--workers", "1", "--sample", "9"]) == 1
    assert "/gone" in capsys.readouterr().out
    places = [small_run.parent / name for name in ("shop-0.sqlite", "shop-1.sqlite", "shop.jsonl")]
    given = ["--database", str(places[0]), "--database", str(places[1]), "--questions", str(places[2])]
    main(["audit", str(copied), "--workers", "1", "--json", str(tmp_path / "audit.json"), *given])
    written = json.loads((tmp_path / "audit.json").read_text())
    assert written["checked"]["verdicts"]["agree"] == written["checked"]["verdicts"]["checked"] > 0
    assert {found["file"] for found in written["disagreements"]} == {"report.md", "report.html"}, "which show the recipe's text"
    assert main(["audit", str(copied), "--database", "x"]) == 2


def test_a_sample_is_drawn_again_with_its_seed(small_run: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        assert main(["audit", str(small_run), "--workers", "1", "--sample", "20", "--seed", "5", "--json", str(tmp_path / name)]) == 0
    first, second = (json.loads((tmp_path / name).read_text()) for name in ("a", "b"))
    assert first["checked"] == second["checked"]
    executed = sum(first["checked"].get(group, {"checked": 0})["checked"] for group in ("verdicts", "answers", "references"))
    assert executed == 20
    assert any("not drawn" in one["what"] for one in first["not_checked"])


def test_an_audit_loads_no_training_library(small_run: Path) -> None:
    code = f"import sys\nfrom prefkit.cli import main\ncode = main(['audit', {str(small_run)!r}])\n"
    code += "print(code, [name for name in ('torch', 'transformers', 'trl', 'peft', 'datasets') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout.splitlines()[-1] == "0 []"


def test_an_audit_changes_nothing(small_run: Path, scheduler: Scheduler) -> None:
    def state() -> dict[Path, tuple[int, int]]:
        return {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in small_run.rglob("*")}

    before = state()
    audit(small_run, scheduler)
    assert state() == before
