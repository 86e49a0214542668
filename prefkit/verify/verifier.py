"""What a verifier is, and which there are.

A verifier judges the checks of one kind. Judging is a generator, so that many answers are under way at once: it yields what it waits for
(a job for the sandbox, work that many checks share, a call in another thread), is sent what came of it, and returns its judgement. It runs
nothing of the answer in this process.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future
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
    "judge": "prefkit.verify.judge:JudgeVerifier",
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


Steps = Generator[Job | Once | Future[Any], Any, Any]
"""What judges: yields what it waits for, returns the outcome. Of a future it is told that it is done; the steps take its result."""


class Verifier(Protocol):
    """Judges checks of one kind. `prepare` is called once for each `Scheduler.verify`, before its first check."""

    kind: ClassVar[str]
    fields: ClassVar[tuple[str, ...]]
    """The fields of its lines, beside those that every line has (line_fields.COMMON)."""

    @property
    def worker(self) -> str | None:
        """The kind of worker that runs the answers, None where none does."""
        ...

    @property
    def versions(self) -> dict[str, str]:
        """Rules of judging ("judge") and engines: part of what decides a verdict."""
        ...

    def prepare(self) -> None: ...

    def read(self, line: dict[str, Any], id: str, source: Source) -> Check:
        """The check that a line asks for. Raises ValueError (what was expected) and Unverifiable."""
        ...

    def variant(self, check: Any) -> str:
        """Which verifier of this kind judges the check, where there are several (an engine of SQL); "" for this one."""
        ...

    def ask(self, check: Any) -> Once | None:
        """What has to be asked before the key is known, such as what stands in a database on a server; None where nothing has (any more).
        Once it is done, this says so."""
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

    def judge(self, check: Any) -> Generator[Job | Once | Future[Any], Any, Judgement]: ...

    def close(self) -> None: ...


class VerifierBase:
    """What most verifiers have in common."""

    worker: str | None = None
    fields: ClassVar[tuple[str, ...]] = ()

    def variant(self, check: Any) -> str:
        return ""

    def ask(self, check: Any) -> Once | None:
        return None

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
    """The verifier of that kind: a key of VERIFIERS, or one with a variant behind a colon, as "sql:duckdb". Raises KeyError for a kind that
    there is not."""
    kind, _, variant = kind.partition(":")
    module, _, name = VERIFIERS[kind].partition(":")
    verifier = getattr(importlib.import_module(module), name)
    return verifier(variant) if variant else verifier()
