"""Public faults of other verifiers, and the golds of a public dataset. Skipped where PREFKIT_SHARED names no folder."""

from __future__ import annotations

import json
from pathlib import Path

from prefkit.sandbox.tiers import probe_code
from prefkit.verify.lines import verdicts_for_lines
from prefkit.verify.scheduler import Scheduler
from prefkit.verify.sql import SqlCheck

AMBIGUOUS = {"instruct_advanced_sqlite-041": "three drugs share the highest number of events, and LIMIT 1 takes one of them"}
"""Golds of defog that have more than one right result, and why a reader agrees."""


def test_every_case_gets_the_verdict_that_an_honest_verifier_gives(shared: Path, tmp_path: Path) -> None:
    cases = [case for case in _read(shared / "cases.jsonl") if case.get("verifier")]
    if not probe_code("A").tier:
        cases = [case for case in cases if case["verifier"] in ("sql", "tool_calls", "rules")]
    path = tmp_path / "cases.jsonl"
    path.write_text("\n".join(json.dumps(case) for case in cases))
    verdicts = list(verdicts_for_lines(path))
    assert len(cases) >= 12
    disagreements = {verdict["id"]: verdict for verdict, case in zip(verdicts, cases, strict=True) if verdict["status"] not in case["want"]}
    assert not disagreements


def test_every_gold_of_defog_matches_itself(shared: Path) -> None:
    checks = _defog(shared, "frozen_gold_sql")
    with Scheduler() as scheduler:
        verdicts = {verdict.id: verdict for verdict in scheduler.verify(checks)}
    assert len(verdicts) == len(checks) > 450
    unfit = {name.partition("/")[0]: verdict.reason for name, verdict in verdicts.items() if verdict.status != "PASS"}
    assert set(unfit.values()) <= {"gold is ambiguous: LIMIT cuts through ties"}, unfit
    assert set(unfit) == set(AMBIGUOUS)


def test_golds_of_defog_that_read_the_clock_are_unverifiable(shared: Path) -> None:
    checks = [check for check in _defog(shared, None) if "now" in check.golds[0].lower() or "current_" in check.golds[0].lower()]
    with Scheduler() as scheduler:
        assert len(checks) > 40
        assert {verdict.reason for verdict in scheduler.verify(checks)} == {"gold reads the clock"}


def _defog(shared: Path, frozen: str | None) -> list[SqlCheck]:
    """Each gold of each question as an answer to itself."""
    checks = []
    for row in _read(shared / "realdata" / "defog" / "questions.jsonl"):
        golds = (row.get(frozen) if frozen else None) or row["gold_sql"]
        database = str(shared / "realdata" / row["db_path"])
        checks += [SqlCheck(f"{row['id']}/{i}", gold, (gold,), (database,)) for i, gold in enumerate(golds)]
    return checks


def _read(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]
