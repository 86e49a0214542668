"""Find the program in free text."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prefkit.verify.code_text import extract_files, extract_program, extract_python, parsed

F = "def f(x):\n    return x + 1\n"
WANTED = frozenset({"f"})

FOUND = {
    "plain": F,
    "fence": f"Sure:\n```python\n{F}```\nDone.",
    "no label": f"```\n{F}```",
    "other label": f"```Py3\n{F}```",
    "tildes": f"~~~python\n{F}~~~",
    "unclosed": f"```python\n{F}",
    "one line": "```python\ndef f(x): return x + 1\n```",
    "windows": f"```python\r\n{F}```\r\n".replace("\n", "\r\n"),
    "output after it": f"```python\n{F}```\nOutput:\n```\n42\n```",
    "install before it": f"```bash\npip install x\n```\n```python\n{F}```",
    "usage after it": f"```python\n{F}```\nUse it:\n```python\nprint(f(1))\n```",
    "first try before it": f"```python\ndef f(x):\n    return x\n```\nBetter:\n```python\n{F}```",
    "broken last": f"```python\n{F}```\n```python\ndef f(x:\n```",
    "thought": f"<think>```python\ndef f(x): return 0\n```</think>\n```python\n{F}```",
    "prose around": f"Here is the function.\n\n{F}\nIt adds one to the number.",
    "indented fence": "1. Like this:\n   ```python\n   def f(x):\n       return x + 1\n   ```",
    "end mark": f"```python\n{F}```<|im_end|>\n```python\ndef f(x): return 0\n```",
}


@pytest.mark.parametrize("text", FOUND.values(), ids=FOUND.keys())
def test_found(text: str) -> None:
    code = extract_python(text, WANTED)
    assert code is not None
    assert ast.dump(ast.parse(code)) == ast.dump(ast.parse(F))


@pytest.mark.parametrize("text", ["", " \n", "I cannot do that.", "Sorry", "42", "<think>" + F, "(see above)"])
def test_none(text: str) -> None:
    assert extract_python(text, WANTED) is None


def test_code_that_does_not_parse_is_kept_for_its_error() -> None:
    assert extract_python("def f(:\n    return 1") == "def f(:\n    return 1"
    assert extract_python("```python\ndef f(:\n```") == "def f(:\n"


def test_marks_inside_the_code_do_not_end_it() -> None:
    code = "def f(x):\n    mark = '```'\n    return x + 1\n"
    assert extract_python(f"```python\n{code}```") == code


def test_a_body_goes_on_from_the_setup() -> None:
    setup = "def f(x):\n    '''Add one.'''\n"
    assert extract_python("    return x + 1\n", WANTED, setup) == "    return x + 1\n"


def test_programs_of_other_languages() -> None:
    assert extract_program("```c\nint main(){}\n```\n```bash\ngcc x.c\n```", "c") == "int main(){}\n"
    assert extract_program("```\nconsole.log(1)\n```", "javascript") == "console.log(1)\n"
    assert extract_program("echo 1", "bash") == "echo 1"
    assert extract_program(" ", "bash") is None


def test_files_are_named_in_label_comment_or_line_above() -> None:
    text = (
        "### `pkg/a.py`\n```python\nA = 1\n```\n"
        "```python pkg/b.py\nB = 1\n```\n"
        "```python\n# c.py\nC = 1\n```\n"
        "```python title=\"d.py\"\nD = 1\n```\n"
        "Now the output of everything:\n```\nnothing\n```"
    )  # fmt: skip
    assert {path: body.strip().rpartition("\n")[2] for path, body in extract_files(text).items()} == {
        "pkg/a.py": "A = 1", "pkg/b.py": "B = 1", "c.py": "C = 1", "d.py": "D = 1",
    }  # fmt: skip


PIECES = [
    "```",
    "```python\n",
    "~~~",
    "\n",
    "def f(x):",
    "    return x",
    "import",
    "<think>",
    "</think>",
    "'''",
    '"',
    "(",
    "[",
    "\x00",
    "\ud800",
    "é",
    "# a.py",
    "x =",
    "    ",
]


@given(st.lists(st.sampled_from(PIECES), max_size=25).map("".join) | st.text(max_size=200))
@settings(max_examples=300, deadline=None)
def test_any_text_gives_text_or_none(text: str) -> None:
    for found in (extract_python(text, WANTED), extract_program(text, "c")):
        assert found is None or found.strip()
    extract_files(text)


@pytest.mark.parametrize("piece", ["(", "-", "not ", "a.", "1+", "lambda:", "x=", "f()", "```\n", "{'a':", "if x:\n", "*", "x if "])
def test_hostile_nesting_is_refused_or_parsed(piece: str) -> None:
    text = piece * (60_000 // len(piece)) + "1"
    tree = parsed(text)
    assert tree is None or isinstance(tree, ast.Module)
    extract_python(text)
