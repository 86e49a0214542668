"""Cases of a Python task: arguments, and the value or the exception that is expected."""

from __future__ import annotations

import builtins
from dataclasses import dataclass
from typing import Any

from prefkit.verify.json_text import shown
from prefkit.verify.values_compare import expected_form

_MAX_CASES = 10_000
_FIELDS = {"args", "kwargs", "expected", "raises"}


@dataclass(frozen=True, slots=True)
class Case:
    """One call. args, kwargs, expected: canonical forms (see values_compare.py). raises: name of an exception, then nothing is returned."""

    args: list[Any]
    kwargs: dict[str, Any]
    expected: Any = None
    raises: str | None = None

    def call(self) -> dict[str, Any]:
        """What the answer's process is told: nothing of what is expected."""
        return {"args": self.args, "kwargs": self.kwargs}

    def key(self) -> list[Any]:
        return [self.args, self.kwargs, self.expected, self.raises]


def read_cases(value: Any) -> tuple[Case, ...]:
    """From a task: [[args…], expected] or {"args": […], "kwargs": {…}, "expected": value | "raises": name} each. Raises ValueError."""
    if not isinstance(value, list) or len(value) > _MAX_CASES:
        raise ValueError(f'"cases" must be a list of up to {_MAX_CASES} cases, not {shown(value)}')
    cases = []
    for number, case in enumerate(value, 1):
        try:
            cases.append(_case(case))
        except ValueError as error:
            raise ValueError(f"case {number}: {error}") from error
    return tuple(cases)


def _case(case: Any) -> Case:
    if isinstance(case, list) and len(case) == 2 and isinstance(case[0], list):
        return Case([expected_form(item) for item in case[0]], {}, expected_form(case[1]))
    if not isinstance(case, dict) or not case.keys() <= _FIELDS or ("expected" in case) == ("raises" in case):
        raise ValueError(
            f'expected [[arguments…], value] or {{"args": […], "kwargs": {{…}}, "expected": value or "raises": name}}, not {shown(case)}'
        )
    args, kwargs = case.get("args", []), case.get("kwargs", {})
    if not isinstance(args, list) or not isinstance(kwargs, dict):
        raise ValueError(f'"args" must be a list and "kwargs" an object, not {shown(args)} and {shown(kwargs)}')
    raises = case.get("raises")
    if "raises" in case and not (isinstance(raises, str) and raises.isidentifier()):
        raise ValueError(f'"raises" must be the name of an exception, not {shown(raises)}')
    forms = [expected_form(item) for item in args], {name: expected_form(item) for name, item in kwargs.items()}
    return Case(*forms, expected_form(case.get("expected")), raises)


def stands_for(raised: dict[str, Any], wanted: str) -> bool:
    """Whether what was raised is the wanted exception or derives from it. `raised` is data from outside: see candidate.describe.

    Above the first of Python's own exceptions its true bases count, not those that the data claims; below it, classes of the answer's own
    count by name, so that a task may ask for an exception that the answer defines, but not for Python's by a namesake.
    """
    bases = raised.get("bases")
    if not isinstance(bases, list):
        return False
    builtin = _exception(wanted)
    for name in bases[:4]:
        if not isinstance(name, str):
            return False
        if name.startswith("own "):
            if builtin is None and name.removeprefix("own ").rpartition(".")[2] == wanted:
                return True
            continue
        found = _exception(name)
        return found is not None and builtin is not None and issubclass(found, builtin)
    return False


def is_builtin(name: object) -> bool:
    """Whether it is the name of one of Python's own exceptions."""
    return isinstance(name, str) and _exception(name) is not None


def _exception(name: str) -> type[BaseException] | None:
    found = getattr(builtins, name, None)
    return found if isinstance(found, type) and issubclass(found, BaseException) else None
