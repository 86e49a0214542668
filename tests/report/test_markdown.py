"""The Markdown: the same figures as the page, and text that stays text."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prefkit.report.html_report import write
from prefkit.report.markdown import escape, fenced
from prefkit.runfolder import RunFolder


@pytest.fixture(scope="module")
def text(demo_run: RunFolder) -> str:
    return (write(demo_run).parent / "report.md").read_text("utf-8")


def rendered(text: str) -> str:
    mistune = pytest.importorskip("mistune", reason="mistune is not installed, so the Markdown was not rendered")
    return str(mistune.create_markdown(plugins=["table", "strikethrough", "url"], escape=False)(text))


def test_it_says_the_same_figures_as_the_page(demo_run: RunFolder, text: str) -> None:
    page = (demo_run.path / "report.html").read_text("utf-8")
    plain = text.replace("\\", "")
    for figures in re.findall(r'<td class="n">([+−][\d.]+) <span class="tag \w+">[\w ]+</span> <span class="sub">([^<]+)</span>', page):
        assert f"{figures[0]} ({figures[1]};" in plain
    for mean, interval in re.findall(r'<td>([\d.]+\s%)(?:<abbr[^>]*>†</abbr>)? <span class="sub">([^<]+)</span></td>', page):
        assert f"{mean} ({interval})" in plain


def test_every_section_and_table_is_whole(text: str) -> None:
    assert text.startswith("# Training helped\n\nImproved: on 120 test questions, ")
    for heading in ("What it cost", "What each step added", "Scores", "From questions to training rows", "How answers failed", "Curves",
                    "10 examples", "How to read this", "Versions and seeds"):  # fmt: skip
        assert f"\n## {heading}\n" in text
    for block in text.split("\n\n"):
        if block.startswith("|"):
            widths = {len(re.findall(r"(?<!\\)\|", line)) for line in block.strip().split("\n")}
            assert len(widths) == 1, block
    assert rendered(text).count("<table>") == len([block for block in text.split("\n\n") if block.startswith("|")])
    assert "None" not in text
    assert "{{" not in text


def test_hostile_text_makes_no_markup(build_run: Callable[..., RunFolder], hostile_answers: list[dict[str, Any]]) -> None:
    run = build_run(answers=hostile_answers)
    page = rendered((write(run).parent / "report.md").read_text("utf-8"))
    tags = set(re.findall(r"<(\w+)", page))
    assert tags <= {"h1", "h2", "h3", "p", "table", "thead", "tbody", "tr", "th", "td", "pre", "code", "ul", "li", "strong"}
    assert "<strong>bold" not in page
    assert page.count("<pre>") == 31


@given(st.text(max_size=60))
def test_any_text_in_a_cell_stays_one_cell_of_plain_text(text: str) -> None:
    page = rendered(f"| a | b |\n|---|---|\n| x{escape(text)}x | y |\n")
    assert page.count("<td") == 2
    assert set(re.findall(r"<(\w+)", page)) <= {"table", "thead", "tbody", "tr", "th", "td"}


@pytest.mark.parametrize(
    "text", ["http://evil.example", "https://x", "www.evil.example/a", "[a](b)", "![a](b)", "<b>x</b>", "`x`", "~~x~~", "$x$"]
)
def test_known_markup_is_disarmed(text: str) -> None:
    page = rendered(f"x {escape(text)} x")
    assert set(re.findall(r"<(\w+)", page)) == {"p"}


@given(st.text(alphabet="`~ab\n\r\u202e", max_size=40))
def test_no_text_ends_its_own_fence(text: str) -> None:
    page = rendered(f"{fenced(text)}\n\nafter\n")
    assert page.count("<pre>") == 1
    assert page.endswith("<p>after</p>\n")
