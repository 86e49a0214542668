"""Files of a small Python project: which paths are allowed, and which would hide a standard module."""

from __future__ import annotations

import re
import sys
from typing import Any

from prefkit.verify.json_text import shown

MAX_FILES = 50
_MAX_TEXT = 1_000_000
_PATH = re.compile(r"(?:[\w-][\w.-]*/){0,6}[\w-][\w.-]*", re.ASCII)
_SPECIAL = frozenset({"sitecustomize", "usercustomize", "conftest", "prefkit", "pytest", "numpy", "pandas"})


def bad_path(path: str) -> bool:
    """Whether it is not a plain relative path of letters, digits, `_`, `-` and `.` that stays in its folder."""
    return not _PATH.fullmatch(path) or len(path) > 200 or ".." in path


def hides_module(path: str) -> bool:
    """Whether a file or folder at the top would be imported in place of a module of the standard library, or of one that judging uses."""
    top = path.partition("/")[0].partition(".")[0]
    return top in sys.stdlib_module_names or top in _SPECIAL


def read_files(value: Any) -> dict[str, str]:
    """From a task: {path: text}. Raises ValueError."""
    if not isinstance(value, dict) or len(value) > MAX_FILES:
        raise ValueError(f'"files" must be an object of up to {MAX_FILES} paths and texts, not {shown(value)}')
    for path, text in value.items():
        if not isinstance(text, str):
            raise ValueError(f'"files" must be an object of paths and texts; {path!r} has {shown(text)}')
        if bad_path(path):
            raise ValueError(f'"files" has a path that is not allowed: {path!r}')
    if sum(map(len, value.values())) > _MAX_TEXT:
        raise ValueError('"files" hold too much text')
    return value
