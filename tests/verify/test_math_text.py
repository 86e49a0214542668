"""The final answer of a text, as LaTeX."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prefkit.verify.math_text import final_answer, has_ellipsis, is_prose, to_latex, unit_of, without_unit, word_of


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (r"So \boxed{\frac{1}{3}}.", r"\frac{1}{3}"),
        (r"First \boxed{1}, then it is \boxed{2}.", "2"),
        (r"\boxed{1} and \boxed{2}", "1, 2"),
        (r"\boxed{1}, \boxed{2} and \boxed{3}", "1, 2, 3"),
        (r"\fbox{7}", "7"),
        (r"\boxed 7", "7"),
        (r"\boxed{a\}b}", r"a\}b"),
        ("The answer is 42.", "42"),
        ("The answer is 3.14.", "3.14"),
        ("The final answer is $x=5$. I hope it is correct.", "x=5"),
        ("Answer: **73**", "73"),
        ("She makes $18.\n#### 18", "18"),
        ("The values are $a$ and $b$.", "a, b"),
        ("The value is $a$ and then $b$.", "b"),
        ("We get $a$. Then $b$.", "b"),
        (r"Thus \[ x = 3 \]", "x = 3"),
        ("✅ Final Answer: **73**", "73"),
        ("total 905\n\nthe number is **73**.\n\n---\n", "73"),
        ("There are 5 apples", "5"),
        ("I think there are 3 dogs and 4 cats.", None),
        ("It is **even**", "even"),
        ("1728 and 1331", "1728 and 1331"),
        ("<think>\\boxed{3}</think>4", "4"),
        ("<think>\\boxed{3}", None),
        ("", None),
        ("I do not know", None),
        ("9**9**9", "9**9**9"),
    ],
)
def test_final_answer(text: str, found: str | None) -> None:
    assert final_answer(text) == found


@pytest.mark.parametrize(
    ("text", "latex"),
    [
        ("$\\frac12$", "\\frac12"),
        ("\\(5\\)", "5"),
        ("**73**", "73"),
        ("73.", "73"),
        ("1,234,567", "1234567"),
        ("1{,}000", "1000"),
        ("1, 2", "1, 2"),
        ("2 1/4", "(2+\\frac{1}{4})"),
        ("-2 1/4", "-(2+\\frac{1}{4})"),
        ("x**2", "x^2"),
        ("3*4", "3\\cdot 4"),
        ("sqrt(x+(1))", "\\sqrt{x+(1)}"),
        ("9**9**9", "9^{9^{9}}"),
        ("2π", "2\\pi"),
        ("x ≤ 3", "x \\le  3"),
        ("28%", "28\\%"),
        ("28 percent", "28\\%"),
        ("$5", "5"),
        ("\\$5", "5"),
        ("€5", "5"),
        ("\\textbf{(B)} 12", "12"),
        ("\\mathrm{e}", "e"),
        ("\\text{13}", "13"),
        ("1 and 2", "1, 2"),
        ("−3", "-3"),
        ("\\boxed{7}", "7"),
    ],
)
def test_to_latex(text: str, latex: str) -> None:
    assert to_latex(text) == latex


@pytest.mark.parametrize(
    ("text", "word"),
    [("even", "even"), ("\\text{Even}", "even"), ("(B)", "b"), ("B", "b"), ("B.", "b"), ("no solution", "no solution"), ("x", None),
     ("5", None), ("(see the figure)", None), ("pi", None), ("x+1", None), ("\\textbf{(C)}", "c")],
)  # fmt: skip
def test_words(text: str, word: str | None) -> None:
    assert word_of(text) == word


def test_prose_and_ellipsis() -> None:
    assert is_prose("(see the figure)")
    assert is_prose("approximately")
    assert not is_prose("\\frac{abc}{2}")
    assert not is_prose("\\begin{pmatrix}1\\end{pmatrix}")
    assert has_ellipsis("1, 2, \\ldots, n")
    assert has_ellipsis("1, 2, ...")
    assert not has_ellipsis("1.5")


def test_units() -> None:
    assert unit_of("5 cm") == unit_of("5 centimeters") == unit_of("5\\text{ cm}") == "cm"
    assert unit_of("5 m^2") == "m2"
    assert unit_of("5m") is None
    assert unit_of("5x") is None
    assert without_unit("5 cm") == "5"
    assert without_unit("5m") == "5m"


MARKS = ["\\boxed{", "}", "$", "$$", "\\(", "\\)", "**", "answer is ", "1", "2/3", " ", "\n", ",", " and ", "x", "\\frac", "{"]
MARKS += ["<think>", "(", "\\text{", "%", "\ud800"]


@given(st.lists(st.sampled_from(MARKS), max_size=30).map("".join) | st.text(max_size=100))
@settings(max_examples=400, deadline=None)
def test_any_text_is_read(text: str) -> None:
    found = final_answer(text)
    assert found is None or found.strip()
    for reader in (to_latex, word_of, unit_of, is_prose, has_ellipsis):
        reader(text)
    if found is not None:
        without_unit(to_latex(found))


@pytest.mark.parametrize("piece", MARKS)
def test_long_texts_take_little_time(piece: str) -> None:
    begun = time.process_time()
    text = piece * (40_000 // len(piece))
    to_latex(final_answer(text) or "")
    assert time.process_time() - begun < 5.0
