"""Find the program in a model's free text.

| where it may stand                          | rule                                                                                    |
|---------------------------------------------|-----------------------------------------------------------------------------------------|
| `<think>…</think>` and its like, end marks  | no part of the answer                                                                   |
| fences, any label or none, also unclosed    | blocks that parse and define something; of these the one that defines most of what the  |
|---------------------------------------------|-----------------------------------------------------------------------------------------|
| no block that parses                        | the last block labelled with the language, else the last                                |
| no fences                                   | the whole text where it parses; else the longest run of lines that begins like code and |
|---------------------------------------------|-----------------------------------------------------------------------------------------|
| a body that goes on from the task's `setup` | kept as it is where setup and text parse together                                       |
| other languages                             | the last block labelled with the language, else the last block, else the whole text     |
| several files                               | a block names its file in its label, in its first line's comment, or in the line above  |

Nothing is run, and nothing raises. Parsing is Python's own, on texts up to MAX_CODE characters.
"""

from __future__ import annotations

import ast
import re
import textwrap
import warnings
from collections.abc import Iterator
from functools import lru_cache

from prefkit.verify.answer_text import after_label, fenced_parts, without_thoughts
from prefkit.verify.fences import Block, blocks_by_line

MAX_CODE = 200_000
"""Characters of one program; more is refused before it is parsed."""

_END_MARK = re.compile(r"<\|[^|<>\n]{1,40}\|>|</s>")
_PYTHON = frozenset({"python", "py", "python3", "py3", "python2", "ipython", "sage"})
_LABELS = {
    "python": _PYTHON,
    "c": frozenset({"c", "c99", "c11", "gcc", "h"}),
    "javascript": frozenset({"javascript", "js", "node", "nodejs", "mjs", "jsx", "ecmascript"}),
    "bash": frozenset({"bash", "sh", "shell", "zsh"}),
}
_BEGIN = re.compile(
    r"^(?:def |class |async def |import |from [\w.]+ import|@\w|if __name__|[A-Za-z_]\w* *(?::[^=\n]+)?= ?[^=\s])", re.MULTILINE
)
_LIKE_CODE = re.compile(
    r"^[ \t]*(?:def \w+ *\(|class \w+ *[(:]|import \w|from [\w.]+ import |return\b|for \w+ in |while .*:)", re.MULTILINE
)
_PATH = re.compile(r"(?<![\w/.-])((?:[\w-]+/)*[\w-]+\.[a-z]{1,4})(?![\w/-])")
_MAX_TRIALS = 24
_DEEP = re.compile(r"[(\[{]{90}|(?:[-+~]|not ){1000}")


def extract_python(text: str, wanted: frozenset[str] = frozenset(), setup: str = "") -> str | None:
    """The Python program in `text`, or None where there is none. wanted: names that it should define. setup: code that stands before it.

    >>> extract_python("Sure:\\n```python\\ndef f():\\n    return 1\\n```\\nDone.")
    'def f():\\n    return 1\\n'
    """
    text = _cleaned(text)
    blocks = _blocks(text)
    if not blocks:
        return _unfenced(text, setup)
    best: tuple[int, bool] | None = None
    chosen = None
    for block in blocks:
        body = textwrap.dedent(block.body)
        tree = parsed(body)
        if tree is None and setup and parsed(f"{setup}\n{block.body}") is not None:
            body, tree = block.body, parsed(f"{setup}\n{block.body}")
        if tree is None or not _does_something(tree):
            continue
        rank = (len(defined(tree) & wanted), block.label in _PYTHON or not block.label)
        if best is None or rank >= best:
            best, chosen = rank, body
    return chosen if chosen is not None else _labelled(blocks, "python")


def extract_program(text: str, language: str) -> str | None:
    """The program of that language in `text`, or None where there is none."""
    if language == "python":
        return extract_python(text)
    text = _cleaned(text)
    blocks = _blocks(text)
    found = _labelled(blocks, language) if blocks else text
    return found if found and found.strip() else None


def extract_files(text: str) -> dict[str, str]:
    """Path -> text of each block that names its file; of several for one path the last."""
    return {path: textwrap.dedent(block.body) for block in _blocks(_cleaned(text)) if (path := _path_of(block))}


@lru_cache(maxsize=4096)
def parsed(code: str) -> ast.Module | None:
    """The syntax tree, or None where Python refuses it. Texts nested so deeply that a parser may run out of stack are refused unread."""
    if len(code) > MAX_CODE or _DEEP.search(code):
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def defined(tree: ast.Module) -> set[str]:
    """Names that the program's top level binds by def, class or assignment."""
    names: set[str] = set()
    for node in _top_level(tree.body):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign):
            names |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.add(node.target.id)
    return names


def _top_level(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    for node in body:
        yield node
        if isinstance(node, ast.If | ast.Try):
            yield from (inner for inner in ast.iter_child_nodes(node) if isinstance(inner, ast.stmt))


def _does_something(tree: ast.Module) -> bool:
    """Whether it is more than names, values and punctuation, which prose and printed output are too."""
    return any(not isinstance(node, ast.Expr) or isinstance(node.value, ast.Call | ast.Await | ast.Yield) for node in tree.body)


def _cleaned(text: str) -> str:
    text = without_thoughts(text[-2 * MAX_CODE :]).replace("\r\n", "\n")
    return _END_MARK.split(text, maxsplit=1)[0].encode("utf-8", "replace").decode()


def _blocks(text: str) -> list[Block]:
    """Fenced blocks by lines; where no line is a fence, those inside lines."""
    blocks, _ = blocks_by_line(text)
    if not blocks:
        for part in fenced_parts(text)[1::2]:
            label, rest = after_label(part)
            known = any(label in labels for labels in _LABELS.values())
            blocks.append(Block(label, rest.strip() if known else part.strip()) if known else Block("", part.strip()))
    return [block for block in blocks if block.body.strip()]


def _labelled(blocks: list[Block], language: str) -> str:
    named = [block for block in blocks if block.label in _LABELS[language]]
    return textwrap.dedent((named or blocks)[-1].body)


def _unfenced(text: str, setup: str) -> str | None:
    if not text.strip():
        return None
    tree = parsed(text)
    if tree is None and setup and parsed(f"{setup}\n{text}") is not None:
        return text
    dedented = textwrap.dedent(text)
    if tree is None and (tree := parsed(dedented)) is not None:
        text = dedented
    if tree is not None:
        return text if _does_something(tree) else None
    found = _run_of_lines(text)
    if found is not None:
        return found
    return text if _LIKE_CODE.search(text) else None


def _run_of_lines(text: str) -> str | None:
    """The longest part that begins like code at a line's start and parses, with the prose around it cut off."""
    for begin in [match.start() for match in _BEGIN.finditer(text)][:_MAX_TRIALS]:
        lines = text[begin:].split("\n")
        for end in range(len(lines), max(0, len(lines) - _MAX_TRIALS), -1):
            part = "\n".join(lines[:end])
            tree = parsed(part)
            if tree is not None and any(isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef) for node in tree.body):
                return part + "\n"
    return None


def _path_of(block: Block) -> str | None:
    first = block.body.lstrip("\n").partition("\n")[0]
    comment = first if first.lstrip()[:1] == "#" or first.lstrip()[:2] in ("//", "/*") else ""
    for place in (block.info, comment, block.before):
        if len(place) <= 120:
            paths = _PATH.findall(place)
            if len(paths) == 1:
                return paths[0]
    return None
