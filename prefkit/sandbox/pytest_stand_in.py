"""The part of pytest that tasks' test files use: raises, approx, fail, skip, param, mark.parametrize, skip and skipif.

Fixtures are not there: a test that asks for one is the task's fault, which the parent sees before anything runs.
"""

from __future__ import annotations

import math
import re
import types
from collections.abc import Callable
from typing import Any


class Skipped(AssertionError):
    """A skipped test was not run."""


class Raised:
    """What `raises` caught: .value, .type."""

    def __init__(self) -> None:
        self.value: BaseException | None = None
        self.type: type[BaseException] | None = None

    def match(self, pattern: str) -> bool:
        if not re.search(pattern, str(self.value)):
            raise AssertionError(f"{pattern!r} does not match {str(self.value)!r}")
        return True


class _Raises:
    def __init__(self, expected: Any, match: str | None) -> None:
        self._expected, self._match, self._info = expected, match, Raised()

    def __enter__(self) -> Raised:
        return self._info

    def __exit__(self, kind: Any, error: Any, trace: Any) -> bool:
        if kind is None:
            raise AssertionError("nothing was raised")
        if not issubclass(kind, self._expected):
            return False
        self._info.value, self._info.type = error, kind
        if self._match is not None:
            self._info.match(self._match)
        return True


class approx:
    """A number, a sequence or a dict of numbers that equals what is near it: relative 1e-6 or absolute 1e-12, unless told otherwise."""

    def __init__(self, expected: Any, rel: float | None = None, abs: float | None = None, nan_ok: bool = False) -> None:
        self._expected, self._nan_ok = expected, nan_ok
        self._rel = 1e-6 if rel is None and abs is None else rel or 0.0
        self._abs = 1e-12 if abs is None else abs

    def __eq__(self, other: object) -> bool:
        return self._near(self._expected, other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"approx({self._expected!r})"

    def _near(self, a: Any, b: Any) -> bool:
        if isinstance(a, dict):
            return isinstance(b, dict) and a.keys() == b.keys() and all(self._near(a[key], b[key]) for key in a)
        if hasattr(a, "__len__") and not isinstance(a, str | bytes):
            return hasattr(b, "__len__") and len(a) == len(b) and all(map(self._near, a, b))
        if not isinstance(a, int | float | complex) or isinstance(a, bool):
            return bool(a == b)
        if isinstance(a, float) and math.isnan(a):
            return self._nan_ok and isinstance(b, float) and math.isnan(b)
        return bool(a == b) or abs(a - b) <= max(self._rel * abs(a), self._abs)


def raises(expected: Any, *call: Any, match: str | None = None, **named: Any) -> Any:
    """A context manager, or a call: raises(ValueError, f, 1)."""
    block = _Raises(expected, match)
    if not call:
        return block
    with block as info:
        call[0](*call[1:], **named)
    return info


def fail(reason: str = "", pytrace: bool = True) -> None:
    raise AssertionError(reason)


def skip(reason: str = "", allow_module_level: bool = False) -> None:
    raise Skipped(reason)


class _Mark:
    """mark.parametrize and the skips; every other mark changes nothing."""

    def parametrize(self, names: Any, values: Any, ids: Any = None) -> Callable[[Any], Any]:
        listed = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
        rows = [row.values if isinstance(row, param) else row for row in values]
        sets = [dict(zip(listed, row if len(listed) > 1 or isinstance(row, _Row) else (row,), strict=True)) for row in rows]

        def mark(test: Any) -> Any:
            test.parameter_sets = [inner | outer for outer in sets for inner in getattr(test, "parameter_sets", [{}])]
            return test

        return mark

    def skip(self, reason: Any = "") -> Any:
        return self.skipif(True)(reason) if callable(reason) else self.skipif(True)

    def skipif(self, condition: object, reason: str = "") -> Callable[[Any], Any]:
        def mark(test: Any) -> Any:
            if condition:
                test.parameter_sets = []
            return test

        return mark

    def __getattr__(self, name: str) -> Any:
        def mark(*arguments: Any, **_: Any) -> Any:
            return arguments[0] if len(arguments) == 1 and callable(arguments[0]) else lambda test: test

        return mark


class _Row(tuple):
    """Values of one param(…), also where there is one name."""


class param:
    """One set of parameters with an id of its own."""

    def __init__(self, *values: Any, id: str | None = None, marks: Any = ()) -> None:
        self.values = _Row(values)


def parameters(test: Any) -> list[dict[str, Any]]:
    """The sets of parameters of a test: one empty set where it asks for none."""
    return getattr(test, "parameter_sets", [{}])


def module() -> types.ModuleType:
    """A fresh module `pytest`."""
    made = types.ModuleType("pytest")
    for name, value in {"raises": raises, "approx": approx, "fail": fail, "skip": skip, "param": param, "mark": _Mark()}.items():
        setattr(made, name, value)
    return made
