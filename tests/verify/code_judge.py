"""Verifiers of code and mathematics driven straight over a pool of zygotes, without scheduler and cache; skipped where nothing isolates."""

from __future__ import annotations

import os
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from prefkit.errors import IsolationUnavailable
from prefkit.sandbox.job import Answer, CodeJob, CodeResult
from prefkit.sandbox.pool import WorkerPool
from prefkit.verify.verdict import Judgement, Status
from prefkit.verify.verifier import Once, Source, Unverifiable, Verifier, make

SOURCE = Source(Path("/"), 2.0)


class Judge:
    """Judges lines of `prefkit verify`. jobs: what was sent into the sandbox, newest last."""

    def __init__(self, pool: WorkerPool) -> None:
        self._pool = pool
        self._verifiers: dict[str, Verifier] = {}
        self.jobs: list[CodeJob] = []

    def __call__(self, verifier: str, **line: Any) -> Judgement:
        """The judgement of a line; what `read` refuses as unverifiable becomes one too. Raises ValueError for a line that is broken."""
        judge = self._verifiers.setdefault(verifier, make(verifier))
        try:
            check = judge.read(line, "1", SOURCE)
        except Unverifiable as error:
            return Judgement(Status.UNVERIFIABLE, str(error))
        assert judge.key(check) == judge.key(check)
        return self._drive(judge.judge(check))

    def run(self, job: CodeJob) -> CodeResult:
        """One job, again where the machine had no time for it."""
        for _ in range(3):
            result = self._pool.run(job).last
            if result.status != "infra":
                break
        return result

    def _drive(self, steps: Generator[Any, Any, Any]) -> Any:
        answer = None
        while True:
            try:
                step = steps.send(answer)
            except StopIteration as end:
                return end.value
            if isinstance(step, Once):
                answer = self._drive(step.begin())
            else:
                self.jobs.append(step)
                answer = Answer([self.run(step)])


def open_pool() -> WorkerPool:
    """A pool of one zygote, in tier A or else B; skips the test where neither is there."""
    reasons = []
    for tier in ("A", "B"):
        pool = WorkerPool(1, {"zygote": tier})
        try:
            ready = pool.run(CodeJob("program", {"language": "python", "code": "print(1)", "stdin": ""}, cpu_s=5.0)).last
        except (IsolationUnavailable, OSError) as error:
            reasons.append(f"{tier}: {error}")
        else:
            if ready.status == "ok":
                return pool
            reasons.append(f"{tier}: {ready.reason}")
        pool.close()
    if os.environ.get("PREFKIT_REQUIRE_ISOLATION"):
        pytest.fail(f"no isolation for code ({'; '.join(reasons)})")
    pytest.skip(f"no isolation for code here ({'; '.join(reasons)})")
