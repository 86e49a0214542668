"""What a verifier is, and which there are.

A verifier judges the checks of one kind. Judging is a generator, so that many answers are under way at once: it yields what it waits for
(a job for the sandbox, or work that many checks share), is sent what came of it, and returns its judgement. It runs nothing of the answer
in this process.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol

from prefkit.sandbox.job import Job
from prefkit.verify.verdict import Judgement

VERIFIERS = {
    "sql": "prefkit.verify.sql_verifier:SqlVerifier",
    "python": "prefkit.verify.python:PythonVerifier",
    "program": "prefkit.verify.program:ProgramVerifier",
    "tool_calls": "prefkit.verify.tool_calls:ToolCallsVerifier",
    "math": "prefkit.verify.math:MathVerifier",
    "rules": "prefkit.verify.rules:RulesVerifier",
}
"""Kind -> module:class. Each is imported and made at first use."""


class Unverifiable(Exception):
    """A line of `prefkit verify` can be read, but its task cannot be judged by; the message says why."""


class Check(Protocol):
    """One answer to judge, with all that it takes to judge it. A frozen dataclass."""

    kind: ClassVar[str]

    @property
    def id(self) -> str: ...

    @property
    def answer(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Source:
    """Where a line of `prefkit verify` comes from. folder: of its file, for relative paths. timeout_s: where the line names none."""

    folder: Path
    timeout_s: float


@dataclass(frozen=True, slots=True)
class Once:
    """Work that many checks share (a gold to run, a database to build): done once, and kept.

    key: what decides the outcome, JSON-able. begin: its steps; what they return is what those who yield this are sent.
    save, load: how the outcome is kept in the cache file as text; save returns None for one that is not to be kept there.
    lost: the outcome where the steps fail, made of the reason. again: whether an outcome is the machine's fault, to be tried anew.
    """

    key: Sequence[Any]
    begin: Callable[[], Steps]
    lost: Callable[[str], Any]
    again: Callable[[Any], bool]
    save: Callable[[Any], str | None] = lambda _: None
    load: Callable[[str], Any] | None = None


Steps = Generator[Job | Once, Any, Any]
"""What judges: yields what it waits for, returns the outcome."""


class Verifier(Protocol):
    """Judges checks of one kind. `prepare` is called once for each `Scheduler.verify`, before its first check."""

    kind: ClassVar[str]
    worker: ClassVar[str | None]
    """The kind of worker that runs the answers, None where none does."""

    @property
    def versions(self) -> dict[str, str]:
        """Rules of judging ("judge") and engines: part of what decides a verdict."""
        ...

    def prepare(self) -> None: ...

    def read(self, line: dict[str, Any], id: str, source: Source) -> Check:
        """The check that a line asks for. Raises ValueError (what was expected) and Unverifiable."""
        ...

    def key(self, check: Any) -> Sequence[Any]:
        """All else that decides the verdict, JSON-able: answer, gold, limits, contents of files."""
        ...

    def data_hash(self, check: Any) -> str:
        """Hash of the contents of the data that the answer runs on; empty where there is none."""
        ...

    def trust(self, check: Any) -> str:
        """executed, in_process or model: see Verdict."""
        ...

    def kept(self, check: Any) -> bool:
        """Whether the verdict still holds tomorrow: not where it is about a file that is missing."""
        ...

    def judge(self, check: Any) -> Generator[Job | Once, Any, Judgement]: ...

    def close(self) -> None: ...


class VerifierBase:
    """What most verifiers have in common."""

    worker: ClassVar[str | None] = None

    def prepare(self) -> None:
        """Nothing to look at anew."""

    def data_hash(self, check: Any) -> str:
        return ""

    def trust(self, check: Any) -> str:
        return "executed"

    def kept(self, check: Any) -> bool:
        return True

    def close(self) -> None:
        """Nothing to let go of."""


def make(kind: str) -> Verifier:
    """The verifier of that kind. Raises KeyError for a kind that there is not."""
    module, _, name = VERIFIERS[kind].partition(":")
    return getattr(importlib.import_module(module), name)()
