"""The page: its figures against an independent count, its structure, and what hostile text can do to it (nothing)."""

from __future__ import annotations

import math
import random
import re
from collections import Counter
from collections.abc import Callable
from html.parser import HTMLParser
from typing import Any

import pytest
from scipy import stats

from prefkit.errors import RunError
from prefkit.report.content import content
from prefkit.report.html_report import render_html, write
from prefkit.report.source import read
from prefkit.runfolder import RunFolder

Build = Callable[..., RunFolder]
VOID = {"meta", "link", "br", "hr", "img", "input"}
FORBIDDEN = {"script", "iframe", "object", "embed", "form", "base", "img", "audio", "video"}


class Page(HTMLParser):
    """The page taken apart: tags with attributes, the text of every element that a test asks for, and the nesting."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.tables: list[dict[str, Any]] = []
        self.texts: dict[str, list[str]] = {}
        self.unclosed: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.unclosed += self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)
        if tag == "table":
            self.tables.append({"caption": "", "rows": [], "headers": []})
        if self._open.count("table") and tag == "tr":
            self.tables[-1]["rows"].append([])
        if self._open.count("table") and tag in ("td", "th"):
            self.tables[-1]["rows"][-1].append("")
            if tag == "th":
                self.tables[-1]["headers"].append(dict(attrs))
        if tag in ("pre", "p", "h1", "h2", "h3", "h4", "title", "desc", "dt", "dd", "style", "li"):
            self.texts.setdefault(tag, []).append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if not self._open or self._open.pop() != tag:
            self.unclosed.append(tag)

    def handle_data(self, data: str) -> None:
        for tag in set(self._open) & self.texts.keys():
            self.texts[tag][-1] += data
        if "table" in self._open:
            if "caption" in self._open:
                self.tables[-1]["caption"] += data
            elif "td" in self._open or "th" in self._open:
                self.tables[-1]["rows"][-1][-1] += data

    def table(self, caption: str) -> dict[str, list[str]]:
        """The rows of the table with this beginning of a caption, by their first cell, as words."""
        table = next(table for table in self.tables if table["caption"].startswith(caption))
        return {_words(row[0]): [_words(cell) for cell in row[1:]] for row in table["rows"] if row}


def _words(text: str) -> str:
    return " ".join(text.split())


@pytest.fixture(scope="module")
def page(demo_run: RunFolder) -> tuple[Page, list[dict[str, Any]], str]:
    text = write(demo_run).read_text("utf-8")
    return Page(text), demo_run.read_rows("evaluation/answers.parquet"), text


def share(answers: list[dict[str, Any]], split: str, policy: str, kind: str = "greedy") -> tuple[int, int]:
    marks = [a["score"] for a in answers if (a["split"], a["policy"], a["kind"]) == (split, policy, kind)]
    return int(sum(marks)), len(marks)


def test_the_scores_on_the_page_are_those_of_an_independent_count(page: tuple[Page, list[dict[str, Any]], str]) -> None:
    parsed, answers, _ = page
    for split, words in (("test", "test questions"), ("unseen", "questions on databases that training never saw")):
        table = parsed.table(f"Scores on the {words}")
        for policy, name in (("base", "Base model"), ("references", "After the references"), ("calibrated", "Final model")):
            right, n = share(answers, split, policy)
            bounds = stats.binomtest(right, n).proportion_ci(0.95, method="wilson")
            cell = table[name][0]
            assert _numbers(cell) == pytest.approx([100 * right / n, 100 * bounds.low, 100 * bounds.high], abs=0.0501)
            sampled, drawn = share(answers, split, policy, "sample")
            assert drawn == 8 * n
            assert _numbers(table[name][1])[0] == pytest.approx(100 * sampled / drawn, abs=0.0501)
            solved = {a["example_id"] for a in answers if (a["split"], a["policy"], a["kind"]) == (split, policy, "sample") and a["score"]}
            assert _numbers(table[name][2])[0] == pytest.approx(100 * len(solved) / n, abs=0.0501)


def test_the_gains_on_the_page_are_paired_and_independent_of_our_code(page: tuple[Page, list[dict[str, Any]], str]) -> None:
    parsed, answers, _ = page
    greedy = {(a["split"], a["policy"], a["example_id"]): a["score"] for a in answers if a["kind"] == "greedy"}
    chain = ("base", "references", "own_pairs", "calibrated")
    steps = {
        "Learning from references": chain[:2], "Learning from its own right and wrong answers": chain[1:3], "Online calibration": chain[2:],
        "Everything together": (chain[0], chain[-1]),
    }  # fmt: skip
    for split, words in (("test", "test questions"), ("unseen", "questions on databases that training never saw")):
        table = parsed.table(f"Ledger for the {words}")
        ids = [e for s, p, e in greedy if s == split and p == "base"]
        for name, (before, after) in steps.items():
            won = sum(greedy[split, after, e] > greedy[split, before, e] for e in ids)
            lost = sum(greedy[split, after, e] < greedy[split, before, e] for e in ids)
            n = len(ids)
            up, down = (won + 1) / (n + 2), (lost + 1) / (n + 2)
            half = stats.t.ppf(0.975, n - 1) * math.sqrt((up + down - (up - down) ** 2) / (n + 2))
            shown = _numbers(table[name][0])
            assert shown[:3] == pytest.approx([100 * (won - lost) / n, 100 * (up - down - half), 100 * (up - down + half)], abs=0.0501)
            assert shown[3:5] == [won, lost]
            contains = up - down - half <= 0 <= up - down + half
            assert ("nothing shown" in table[name][0]) == contains


def test_the_headline_holds_both_measures_with_their_intervals(page: tuple[Page, list[dict[str, Any]], str]) -> None:
    parsed, answers, _ = page
    lead = parsed.texts["p"][1]
    for kind, words in (("greedy", "of first answers (greedy) are right instead of"), ("sample", "of sampled answers instead of")):
        for policy in ("base", "calibrated"):
            right, n = share(answers, "test", policy, kind)
            assert f"{100 * right / n:.1f}"[:3] in lead
        assert words in lead
    assert lead.count("interval") == 2
    assert parsed.texts["h1"] == ["Training helped"]


def test_greedy_and_samples_always_stand_side_by_side(page: tuple[Page, list[dict[str, Any]], str]) -> None:
    parsed, _, text = page
    with_scores = [t for t in parsed.tables if re.match("Ledger|Scores|By level|By database", t["caption"])]
    assert len(with_scores) == 8
    for table in with_scores:
        headers = _words(" ".join(cell for row in table["rows"][:2] for cell in row))
        assert "First answer (greedy)" in headers
        assert "Sampled answers" in headers
    for name in re.findall(r'id="(gain|score)-greedy-(\d)-t"', text):
        assert f'id="{name[0]}-samples-{name[1]}-t"' in text


def test_levels_failures_and_cost_are_those_of_the_run(page: tuple[Page, list[dict[str, Any]], str]) -> None:
    parsed, answers, text = page
    level = parsed.table("By level: test questions")["Level 3"]
    ours = [a for a in answers if (a["split"], a["policy"], a["kind"], a["level"]) == ("test", "calibrated", "greedy", 3)]
    assert level[0] == f"{len(ours)}†"
    assert _numbers(level[2])[0] == pytest.approx(100 * sum(a["score"] for a in ours) / len(ours), abs=0.0501)
    wrong = [a for a in answers if (a["split"], a["policy"], a["kind"]) == ("test", "base", "greedy") and a["status"] == "CRASH"]
    columns = Counter(a["reason"] for a in wrong)["no such column: cutomers.nam"]
    assert f"no such column: {columns};" in text
    tiles = [_words(tile) for tile in parsed.texts["li"]]
    assert any(tile.startswith("14 min 55 s") for tile in tiles)  # 484.3 + 202.6 + 207.8 s
    assert any(tile.startswith("6,176") for tile in tiles)  # 3904 + 1504 + 768
    assert any(tile.startswith("18 min 48 s") for tile in tiles)
    counts = parsed.table("What each stage counted")
    assert counts["Adapter values that training changed"][0] == "99.8 %"
    assert "with at least one right answer: 54 (9.0\u00a0%)" in text


def test_examples_are_drawn_with_the_recipes_seed(page: tuple[Page, list[dict[str, Any]], str]) -> None:
    parsed, answers, text = page
    both = sorted({(a["split"], a["example_id"]) for a in answers})
    drawn = random.Random(7).sample(both, 10)
    final = {(a["split"], a["example_id"]): a for a in answers if a["policy"] == "calibrated" and a["kind"] == "greedy"}
    assert [t for t in parsed.texts["h3"] if t.endswith((".", "?"))] == [final[key]["question"] for key in drawn]
    assert parsed.texts["pre"][0:30:3] == [final[key]["gold"] for key in drawn]
    assert parsed.texts["pre"][2:30:3] == [final[key]["sql"] for key in drawn]
    assert "Drawn at random with seed 7 from all 200 evaluated questions" in text
    verdicts = [t for t in parsed.texts["h4"] if t.startswith("Final model")]
    assert [("✓ right" in v) for v in verdicts] == [final[key]["score"] == 1.0 for key in drawn]


def test_the_page_is_well_formed_and_everything_has_a_name(page: tuple[Page, list[dict[str, Any]], str]) -> None:
    parsed, _, text = page
    assert parsed.unclosed == []
    assert text.startswith("<!doctype html>")
    assert parsed.tables
    for table in parsed.tables:
        assert table["caption"].strip()
        assert table["headers"]
        assert all(header.get("scope") in ("col", "row", "colgroup", "rowgroup") for header in table["headers"])
    ids = [attributes["id"] for _, attributes in parsed.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    charts = [attributes for tag, attributes in parsed.tags if tag == "svg"]
    assert len(charts) >= 18
    for chart in charts:
        assert chart["role"] == "img"
        assert all(name in ids for name in str(chart["aria-labelledby"]).split())
    assert all(described.strip() for described in parsed.texts["desc"])
    anchors = [str(attributes["href"]) for tag, attributes in parsed.tags if tag == "a"]
    assert anchors
    assert all(anchor.removeprefix("#") in ids for anchor in anchors)


def test_the_page_loads_and_runs_nothing(page: tuple[Page, list[dict[str, Any]], str]) -> None:
    _assert_inert(page[2])
    assert "prefers-color-scheme: dark" in page[2]
    assert "default-src 'none'" in page[2]
    assert len(page[2]) < 400_000


def _assert_inert(text: str) -> None:
    parsed = Page(text)
    assert not {tag for tag, _ in parsed.tags} & FORBIDDEN
    assert [attributes["href"] for tag, attributes in parsed.tags if tag == "link"] == ["data:,"]
    for tag, attributes in parsed.tags:
        assert not [name for name in attributes if name.startswith("on")], tag
        assert "src" not in attributes
        assert "style" not in attributes
        assert not str(attributes.get("href") or "#").startswith(("http", "javascript", "//"))
    style = parsed.texts["style"]
    assert len(style) == 1
    assert not re.search(r"@import|url\(", style[0])


def test_hostile_text_is_shown_and_does_nothing(build_run: Build, hostile_answers: list[dict[str, Any]]) -> None:
    text = write(build_run(answers=hostile_answers)).read_text("utf-8")
    _assert_inert(text)
    parsed = Page(text)
    assert parsed.unclosed == []
    shown = parsed.texts["pre"][1]
    assert "<script>alert('x')</script> | `code`" in shown
    assert "⟨U+202E⟩esrever ⟨U+0000⟩ </pre></style> {{ 7*7 }}" in shown
    assert "\u202e" not in text
    assert "\x00" not in text
    # Every example has its three boxes, so no answer ended one early.
    assert len(parsed.texts["pre"]) == 31


def test_hostile_names_of_policies_databases_and_splits_are_text(build_run: Build, answers: list[dict[str, Any]]) -> None:
    bad = "x\"><svg onload=alert(1)>'"
    for row in answers:
        row["database"] = bad
        row["split"] = bad if row["split"] == "unseen" else row["split"]
        row["policy"] = bad if row["policy"] == "own_pairs" else row["policy"]
    text = write(build_run(answers=answers)).read_text("utf-8")
    _assert_inert(text)
    assert "<svg onload" not in text
    assert Page(text).unclosed == []


def test_learning_rate_0_is_no_change(build_run: Build, frozen_answers: list[dict[str, Any]]) -> None:
    run = build_run(answers=frozen_answers)
    text = write(run).read_text("utf-8")
    parsed = Page(text)
    assert parsed.texts["h1"] == ["No change"]
    assert parsed.texts["p"][1].startswith("No change: on 120 test questions")
    assert text.count("no change") > 10
    assert 'class="tag gain">gain' not in text
    assert "# No change\n" in (run.path / "report.md").read_text("utf-8")


def test_one_policy_alone_is_shown_without_a_gain(build_run: Build, answers: list[dict[str, Any]]) -> None:
    base = [row for row in answers if row["policy"] == "base"]
    text = write(build_run(answers=base, stages=False, metrics=False)).read_text("utf-8")
    parsed = Page(text)
    assert parsed.texts["h1"] == ["Scores of one model"]
    assert "no steps to compare" in text
    assert "The run recorded no costs." in text
    assert not [table for table in parsed.tables if table["caption"].startswith("Ledger")]
    assert parsed.unclosed == []
    assert len(parsed.table("By level: test questions")["Level 1"]) == 3


def test_part_of_a_gain_is_said_to_be_part(build_run: Build, answers: list[dict[str, Any]]) -> None:
    unmoved = {(r["example_id"], r["kind"], r["k"]): r for r in answers if r["split"] == "unseen" and r["policy"] == "base"}
    mixed = [r if r["split"] == "test" else {**unmoved[r["example_id"], r["kind"], r["k"]], "policy": r["policy"]} for r in answers]
    text = write(build_run(answers=mixed)).read_text("utf-8")
    assert Page(text).texts["h1"] == ["Training helped in part"]


def test_without_samples_the_greedy_figures_stand_alone_and_the_gap_shows(build_run: Build, answers: list[dict[str, Any]]) -> None:
    greedy = [row for row in answers if row["kind"] == "greedy"]
    parsed = Page(write(build_run(answers=greedy)).read_text("utf-8"))
    assert parsed.unclosed == []
    assert parsed.table("Scores on the test questions")["Base model"][1:] == ["–†", "–†"]
    assert parsed.table("Ledger for the test questions")["Everything together"][1] == "–"
    assert "sampled" not in parsed.texts["p"][1]
    assert parsed.texts["h1"] == ["Training helped"]


def test_few_questions_are_called_few(build_run: Build, answers: list[dict[str, Any]]) -> None:
    few = [row for row in answers if int(row["example_id"][-3:]) < 4]
    parsed = Page(write(build_run(answers=few)).read_text("utf-8"))
    notes = dict(zip(parsed.texts["dt"], parsed.texts["dd"], strict=True))
    assert "4 of the 200 test questions were asked. So few questions cannot show any gain reliably." in notes["Questions: test"]
    assert "a first impression" in notes["Questions: test"]
    assert "†" in parsed.table("Scores on the test questions")["Base model"][0]


def test_the_notes_say_what_the_figures_do_not(page: tuple[Page, list[dict[str, Any]], str]) -> None:
    parsed, _, _ = page
    notes = dict(zip(parsed.texts["dt"], parsed.texts["dd"], strict=True))
    assert "120 of the 200 test questions were asked" in notes["Questions: test"]
    assert "test: 6, unseen: 2" in notes["Databases"]
    assert "chosen by their score on validation questions" in notes["Choice of the model"]
    assert "another seed gives another model" in notes["One training run"]
    assert "holds 16 gains" in notes["Many intervals"]
    assert "Answers without a score" not in notes
    warm = parsed.table("Share right on validation questions; the choice went by first answers")
    assert warm["Warm start, round 1"] == ["47.0 %", "–", "✓ chosen"]
    assert parsed.table("Share right on 60 validation questions")["Step 12"] == ["46.5 %", "44.0 %", "✓ chosen"]


def test_answers_without_a_score_are_owned_up_to(build_run: Build, answers: list[dict[str, Any]]) -> None:
    for row in answers[:5]:
        row.update(status="INFRA", score=None, reason="worker lost (3 times)")
    text = write(build_run(answers=answers)).read_text("utf-8")
    notes = Page(text)
    assert (
        f"The verifier could not judge 5 of {len(answers)} answers"
        in dict(zip(notes.texts["dt"], notes.texts["dd"], strict=True))["Answers without a score"]
    )


def test_a_run_that_was_not_evaluated_has_no_report(build_run: Build) -> None:
    run = build_run()
    (run.path / "ledger.json").unlink()
    with pytest.raises(RunError, match=r"no ledger\.json yet.*--resume"):
        write(run)
    assert not (run.path / "report.html").exists()
    assert not (run.path / "report.md").exists()


def test_the_report_is_the_same_each_time(demo_run: RunFolder) -> None:
    assert render_html(content(read(demo_run))) == render_html(content(read(demo_run)))


def test_a_run_without_recipe_or_stages_takes_seed_0(build_run: Build) -> None:
    run = build_run(stages=False)
    (run.path / "recipe.yaml").write_text("seed: [broken", encoding="utf-8")
    assert read(run).seed == 0
    (run.path / "recipe.yaml").unlink()
    assert "seed 0" in write(run).read_text("utf-8")


def _numbers(cell: str) -> list[float]:
    """The figures of a cell before its p value, with their signs."""
    return [float(found.replace("\u2212", "-")) for found in re.findall(r"[+\u2212]?\d+(?:\.\d+)?", cell.split("p ")[0])]
