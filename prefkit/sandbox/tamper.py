"""Notice an answer that reaches for the tests beside which it runs.

| what the answer does                                                           | what is seen                             |
|--------------------------------------------------------------------------------|------------------------------------------|
| walks frames (sys._getframe, inspect, tb_frame, gi_frame), all threads' frames | audit event, from a file of the answer's |
| looks through the collector's objects, sets a trace or profile function        | audit event                              |
| changes a function's code                                                      | audit event                              |
| changes builtins, unittest, json, math … or any module that the tests import   | their contents differ afterwards         |

The process then ends at once with EXIT, which leaves no result. Audit hooks cannot be taken out again. This catches what models are known
to try, not everything: in one process, code that may run anything can in the end change anything. Verdicts of such tests say so by
`trust="in_process"`; values that are returned and compared elsewhere (`calls`) need no such guard.
"""

from __future__ import annotations

import builtins
import inspect
import json
import json.decoder
import json.encoder
import math
import operator
import os
import sys
import sysconfig
import unittest
from collections.abc import Callable
from types import FrameType
from typing import Any

EXIT = 86
"""Exit code of a process that was ended because of tampering."""

_WHOEVER = frozenset({"sys.settrace", "sys.setprofile"})
"""Also when the library does it: threading does, on an answer's behalf, and nothing else that an answer has a use for."""
_ALWAYS = frozenset(
    {"sys._getframe", "sys._current_frames", "sys._current_exceptions", "gc.get_objects", "gc.get_referrers", "gc.get_referents"}
    | {"sys.monitoring.register_callback"}
)
_FRAMES = frozenset({"tb_frame", "gi_frame", "cr_frame", "ag_frame", "f_code"})
_WATCHED = (
    builtins, math, operator, json, json.encoder, json.decoder, unittest, unittest.case, unittest.result, unittest.suite,
    unittest.TestCase, unittest.TestResult, unittest.TestSuite, unittest.BaseTestSuite, json.JSONEncoder, json.JSONDecoder,
)  # fmt: skip


class Guard:
    """Watches from `watch` on; `check` ends the process where a watched module or class is not as it was."""

    def __init__(self, modules: list[Any]) -> None:
        self._before = [(owner, {name: value for name, value in vars(owner).items() if _counts(name)}) for owner in (*_WATCHED, *modules)]
        self._end = os._exit

    def watch(self) -> None:
        sys.addaudithook(_hook(self._end))

    def check(self) -> None:
        for owner, before in self._before:
            now = vars(owner)
            if any(now.get(name, self) is not value for name, value in before.items()):
                self._end(EXIT)


def _counts(name: str) -> bool:
    """Private names change by themselves (caches, counters); `_` is what interactive tools set."""
    return not name.startswith("_") or (name.startswith("__") and name not in ("__warningregistry__", "__abstractmethods__"))


def _hook(end: Callable[[int], Any]) -> Callable[[str, tuple[Any, ...]], None]:
    paths = sysconfig.get_paths()
    library = tuple({paths[name] + os.sep for name in ("stdlib", "platstdlib", "purelib", "platlib")})
    library += (os.path.dirname(os.path.abspath(__file__)) + os.sep, "<frozen ")
    helper = inspect.__file__
    getframe = sys._getframe
    busy = False

    def from_answer() -> bool:
        """Whether the code that caused the event is the answer's, or inspect on its behalf."""
        frame: FrameType | None = getframe(2)
        while frame is not None and frame.f_code.co_filename == helper:
            frame = frame.f_back
        return frame is not None and not frame.f_code.co_filename.startswith(library)

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal busy
        if busy:
            return
        busy = True
        try:
            if event in _WHOEVER:
                guilty = True
            elif event in _ALWAYS:
                guilty = from_answer()
            elif event == "object.__getattr__":
                guilty = arguments[1] in _FRAMES and from_answer()
            elif event == "object.__setattr__":
                guilty = arguments[1] == "__code__" and from_answer()
            else:
                return
            if guilty:
                end(EXIT)
        finally:
            busy = False

    return hook
