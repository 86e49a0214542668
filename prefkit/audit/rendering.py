"""report.md and report.html against what the run's files give when they are rendered again, line by line."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

from prefkit import stages
from prefkit.audit.facts import Facts
from prefkit.audit.figures import EVALUATION
from prefkit.data.audit_read import MOST_JSON
from prefkit.data.findings import Problem

Row = dict[str, Any]
CARD = "pairs/README.md"
NAME = "prefkit-audit-name-of-the-run"
"""Stands for the run's name, which the folder may have had another of when its report was written."""
MOST_LINES = 20
"""Lines of one file that are listed; more than that is another report."""
_TAG = re.compile(r"<[^>]*>")


def check_report(facts: Facts, evaluation: Row, ledger: Row, figures: Mapping[str, Row]) -> None:
    """Render both again from the figures as they were computed again, and compare."""
    findings = facts.findings
    entry = facts.entries.get("report")
    if entry is None:
        findings.skip("report.md and report.html: the run has no finished report", 0)
        return
    if _other_writer(facts):
        findings.skip("report.md and report.html: another version of prefkit wrote them (`prefkit report RUN` writes them anew)", 0)
        return
    try:
        texts = _rendered(facts, evaluation, ledger, figures)
    except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError, IndexError, RecursionError) as error:
        # What the rows do not hold again is as it is written, by whomever.
        problem = f"cannot be shown: {type(error).__name__}: {error}"
        findings.row("report", "report.md", "", [("figures", "what a report is made of", problem)])
        return
    for file, text in texts.items():
        _compare(facts, file, text)


def check_card(facts: Facts, figures: Mapping[str, Row]) -> None:
    """pairs/README.md from the counts of pairs as they were computed again, and compared like a report."""
    names = [name for name in facts.entries if name.startswith("pairs-")]
    if facts.context is None or not names or CARD not in facts.entries[names[-1]]["files"]:
        return
    if _other_writer(facts):
        facts.findings.skip(f"{CARD}: another version of prefkit wrote it", 0)
        return
    entries = facts.entries_with(figures)
    try:
        _compare(facts, CARD, stages.card_of_pairs(facts.context, [entries[name]["figures"] for name in names]))
    except (KeyError, TypeError, ValueError, AttributeError) as error:  # what the rows do not hold again is as it is written, by whomever
        facts.findings.row("report", CARD, "", [("figures", "counts of pairs", f"cannot be shown: {type(error).__name__}: {error}")])


def _other_writer(facts: Facts) -> bool:
    """Whether the report's stage names another version of what writes reports."""
    from prefkit.report import html_report

    writer = (facts.entries.get("report") or {"figures": {}})["figures"].get("writer")
    return writer is not None and writer != html_report.writer()


def _rendered(facts: Facts, evaluation: Row, ledger: Row, figures: Mapping[str, Row]) -> dict[str, str]:
    from prefkit.report import html_report, markdown
    from prefkit.report.content import content
    from prefkit.report.source import Source

    manifest = copy.deepcopy({key: value for key, value in facts.reader.run.manifest.items() if key != "stages"})
    manifest["stages"] = facts.entries_with(figures)
    recipe = facts.reader.path("recipe.yaml")
    source = Source(
        name=NAME,
        evaluation=evaluation,
        ledger=ledger,
        answers=facts.answers[EVALUATION].judged,
        metrics=facts.metrics,
        manifest=manifest,
        recipe_text=recipe.read_text(encoding="utf-8", errors="replace") if recipe else "",
        trajectories=_trajectories(facts),
    )
    said = content(source)
    return {"report.md": markdown.render_markdown(said), "report.html": html_report.render_html(said)}


def _trajectories(facts: Facts) -> dict[int, list[Row]]:
    """The corrections of each round that is done, as they hold (see `report.source.trajectories`)."""
    numbers = [int(Path(rel).stem.rpartition("-")[2]) for rel in facts.trajectories if Path(rel).stem.startswith("round-")]
    return {number: facts.trajectories[f"trajectories/round-{number}.parquet"] for number in sorted(numbers)}


def _compare(facts: Facts, file: str, expected: str) -> None:
    path = facts.reader.path(file)
    if path is None:
        return
    if path.stat().st_size > MOST_JSON:
        facts.findings.row("report", file, "", [("file", "a report", f"{path.stat().st_size:,} bytes")])
        return
    written = path.read_text(encoding="utf-8", errors="replace").splitlines()
    wanted = _named(expected, written, facts.reader.run.path.resolve().name).splitlines()
    differing = list(_differences(written, wanted))
    facts.findings.checked["report"] += len(wanted)
    for number, problem in differing[:MOST_LINES]:
        facts.findings.add("report", file, f"line {number}", problem)
    if len(differing) > MOST_LINES:
        facts.findings.skip(f"further lines of {file} that differ", len(differing) - MOST_LINES)


def _named(expected: str, written: list[str], folder: str) -> str:
    """The expected text with the run's name in it as the report has it, where it has one in the right place; else the folder's."""
    for line in expected.splitlines():
        if NAME in line:
            pattern = re.compile("(.{1,300}?)".join(map(re.escape, line.split(NAME))))
            found = next((match[1] for one in written if (match := pattern.fullmatch(one))), None)
            if found is not None:
                return expected.replace(NAME, found)
    return expected.replace(NAME, folder)


def _differences(written: list[str], wanted: list[str]) -> Iterator[tuple[int, Problem]]:
    """(line, problem) for each line of the file that is not as it should be, that is missing, or that should not be there."""
    if written == wanted:
        return
    for tag, i, j, k, m in SequenceMatcher(None, written, wanted, autojunk=False).get_opcodes():
        if tag == "equal":
            continue
        for offset in range(max(j - i, m - k)):
            old = written[i + offset] if i + offset < j else None
            new = wanted[k + offset] if k + offset < m else None
            yield min(i + offset, max(len(written) - 1, 0)) + 1, (_about(old, new), _plain(old), _plain(new))


def _about(old: str | None, new: str | None) -> str:
    """What the line is about: its first words, so that a person finds the figure."""
    words = " ".join(_TAG.sub(" ", new or old or "").split())
    return f"line {words[:60]!r}" if words else "line"


def _plain(line: str | None) -> str | None:
    return line if line is None else line.strip()
