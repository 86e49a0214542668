"""The pages on tool calls, rules, code, SQL and the judge: every example in them gives the verdict that stands below it."""

from __future__ import annotations

import contextlib
import json
import re
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from judge_server import Reply, Server, said, user_text

from prefkit.commands.verify import summary
from prefkit.sandbox.postgres_role import right_role
from prefkit.sandbox.tiers import probe_code
from prefkit.verify.judge_endpoint import KEY, MODEL, OFF, URL
from prefkit.verify.lines import verdicts_for_lines
from prefkit.verify.rules import RulesVerifier
from prefkit.verify.tool_calls import ToolCallsVerifier
from prefkit.verify.verdict import Judgement
from prefkit.verify.verifier import Source
from tests.sandbox.postgres_server import started

DOCS = Path(__file__).resolve().parents[2] / "docs"
VERIFIERS: dict[str, Any] = {"tool_calls": ToolCallsVerifier, "rules": RulesVerifier}
BLOCK = re.compile(r"^(?:`([\w.]+)`:\n)?```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def judged(line: dict[str, Any], folder: Path) -> Judgement | str:
    """What a line gives: a judgement, or why it is refused."""
    verifier = VERIFIERS[line["verifier"]]()
    try:
        check = verifier.read(line, line["id"], Source(folder, 2.0))
    except ValueError as error:
        return str(error)
    steps = verifier.judge(check)
    with pytest.raises(StopIteration) as end:
        next(steps)
    return end.value.value


def words(line: dict[str, Any], judgement: Judgement | str) -> str:
    if isinstance(judgement, str):
        return f"{line['id']} REFUSED {judgement}"
    score = f" {judgement.points:.2f}" if line["verifier"] == "rules" else ""
    return f"{line['id']} {judgement.status}{score} {judgement.reason}"


@pytest.mark.parametrize("page", ["verify-tool-calls", "verify-rules"])
def test_every_example_of_a_page_gives_what_stands_below_it(page: str, tmp_path: Path) -> None:
    blocks = BLOCK.findall((DOCS / f"{page}.md").read_text("utf-8"))
    for name, _, content in blocks:
        if name:
            (tmp_path / name).write_text(content, "utf-8")
    shown = 0
    feedback: set[str] = set()
    for (_, kind, content), (_, next_kind, expected) in zip(blocks, [*blocks[1:], ("", "", "")], strict=True):
        if kind != "jsonl":
            continue
        assert next_kind == "text", content[:80]
        lines = [json.loads(line) for line in content.splitlines()]
        judgements = [judged(line, tmp_path) for line in lines]
        assert [words(line, judgement) for line, judgement in zip(lines, judgements, strict=True)] == expected.splitlines()
        feedback |= {judgement.feedback for judgement in judgements if isinstance(judgement, Judgement) and judgement.feedback}
        shown += len(lines)
    assert shown >= 9
    assert [content for _, kind, content in blocks if kind == "feedback" and content.strip() not in feedback] == []


def test_every_example_of_the_page_on_code_gives_what_stands_below_it(tmp_path: Path) -> None:
    """These run in the sandbox, so they need a machine with tier A."""
    blocks = BLOCK.findall((DOCS / "verify-code.md").read_text("utf-8"))
    pairs = [(content, expected) for (_, kind, content), (_, _, expected) in pairwise(blocks) if kind == "jsonl"]
    if not probe_code("A").tier:
        pytest.skip(f"no tier A here: {probe_code('A').mend}")
    (tmp_path / "lines.jsonl").write_text("".join(content for content, _ in pairs), "utf-8")
    found = [f"{line['id']} {line['status']} {line['reason']}" for line in verdicts_for_lines(tmp_path / "lines.jsonl")]
    assert found == "".join(expected for _, expected in pairs).splitlines()
    assert len(found) >= 20


def stand_in(body: dict[str, Any]) -> Reply:
    """A judge that marks by a few words, as the page on the judge says."""
    text = user_text(body)
    answers = re.findall(r"ANSWER\]\n(.*?)\n\[", text, re.DOTALL)
    if len(answers) == 2:
        worth = [("14 days" in answer) + ("label" in answer) for answer in answers]
        better = "tie" if worth[0] == worth[1] else "first" if worth[0] > worth[1] else "second"
        return said(json.dumps({"reason": "", "better": "first" if "always takes the first" in text else better}))
    marks = {"correctness": 10 if "14 days" in answers[0] else 2, "completeness": 10 if "label" in answers[0] else 4}
    marks |= {"consistency": 9, "style": 8, "tone": 5}
    wanted = body["response_format"]["json_schema"]["schema"]["properties"]["scores"]["required"]
    return said(json.dumps({"reason": "", "scores": {name: marks[name] for name in wanted}}))


def test_every_example_of_the_page_on_the_judge_gives_what_stands_below_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (DOCS / "verify-judge.md").read_text("utf-8")
    blocks = BLOCK.findall(page)
    server = Server()
    server.respond = stand_in
    for name, value in ((URL, server.url), (MODEL, "stand-in"), (KEY, "sk-never-shown")):
        monkeypatch.setenv(name, value)
    shown, summaries = 0, []
    for (_, kind, content), (_, _, expected) in pairwise(blocks):
        if kind != "jsonl":
            continue
        (tmp_path / "lines.jsonl").write_text(content, "utf-8")
        verdicts = list(verdicts_for_lines(tmp_path / "lines.jsonl"))
        assert [judge_words(verdict) for verdict in verdicts] == expected.splitlines()
        assert "sk-never-shown" not in json.dumps(verdicts)
        statuses, reasons = (Counter(verdict[name] for verdict in verdicts) for name in ("status", "reason"))
        summaries.append(re.sub(r"; [\d.]+ \w+(?=\n|$)", "", summary(Counter(), statuses, reasons, 0.0), count=1))
        shown += len(verdicts)
    server.close()
    assert shown >= 12
    assert next(content.strip() for _, kind, content in blocks if kind == "summary") in summaries
    assert all(name in page for name in (URL, MODEL, KEY)) and all(name in OFF for name in (URL, MODEL, KEY))


def judge_words(verdict: dict[str, Any]) -> str:
    score = "" if verdict["score"] is None else f" {verdict['score']:.2f}"
    return f"{verdict['id']} {verdict['status']}{score} {re.sub(r'^line [0-9]+: ', '', verdict['reason'])}"


@pytest.mark.parametrize("section", ["SQLite", "DuckDB", "PostgreSQL"])
def test_every_example_of_the_page_on_sql_gives_what_stands_below_it(section: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each section needs what its engine does."""
    page = (DOCS / "verify-sql.md").read_text("utf-8")
    blocks = BLOCK.findall(page.partition(f"\n## {section}\n")[2].partition("\n## ")[0])
    ((lines, expected),) = ((content, text) for (_, kind, content), (_, _, text) in pairwise(blocks) if kind == "jsonl")
    (tmp_path / "lines.jsonl").write_text(lines, "utf-8")
    with contextlib.ExitStack() as stack:
        if section == "PostgreSQL":
            server = stack.enter_context(started(next(content for _, kind, content in blocks if kind == "sql")))
            monkeypatch.setenv("SHOP_DSN", server.dsn().whole)
        elif section == "DuckDB":
            pytest.importorskip("duckdb", reason="the extra `duckdb` is not installed")
            if not probe_code("A").tier:
                pytest.skip(f"no tier A here: {probe_code('A').mend}")
        found = [f"{line['id']} {line['status']} {line['reason']}" for line in verdicts_for_lines(tmp_path / "lines.jsonl")]
    assert found == expected.splitlines()


def test_the_page_on_sql_shows_the_role_that_is_asked_for() -> None:
    assert right_role("shop") in (DOCS / "verify-sql.md").read_text("utf-8")
