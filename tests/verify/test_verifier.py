"""Verifiers of any kind under one scheduler: what they yield is done, shared, kept; what they raise never counts as an answer's fault."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import pytest

from prefkit.errors import IsolationUnavailable
from prefkit.sandbox.job import SqlJob
from prefkit.sandbox.limits import SqlLimits
from prefkit.verify.scheduler import Scheduler
from prefkit.verify.sql import SqlCheck
from prefkit.verify.verdict import Judgement, Status
from prefkit.verify.verifier import VERIFIERS, Once, Source, VerifierBase, make


@dataclass(frozen=True, slots=True)
class LengthCheck:
    """As long as the gold?"""

    kind: ClassVar[str] = "length"
    id: str
    answer: str
    gold: str


@dataclass
class LengthVerifier(VerifierBase):
    """Measures the answer itself and, once for all, its gold by SQLite. `measured`: the golds that were run."""

    kind: ClassVar[str] = "length"
    worker = "sqlite"
    database: str = ""
    versions: dict[str, str] = field(default_factory=lambda: {"judge": "length/1"})
    measured: list[str] = field(default_factory=list)
    closed: bool = False

    def read(self, line: dict[str, Any], id: str, source: Source) -> LengthCheck:
        return LengthCheck(id, line["answer"], line["gold"])

    def key(self, check: LengthCheck) -> Sequence[Any]:
        return [check.answer, check.gold]

    def judge(self, check: LengthCheck) -> Generator[SqlJob | Once, Any, Judgement]:
        if check.answer == "raise":
            raise RuntimeError("planted")
        wanted = yield Once(
            ["length", check.gold],
            begin=lambda: self._measure(check.gold),
            lost=lambda reason: reason,
            again=lambda outcome: isinstance(outcome, str),
            save=str,
            load=int,
        )
        if isinstance(wanted, str):
            return Judgement(Status.INFRA, wanted)
        if len(check.answer) == wanted:
            return Judgement(Status.PASS, "same length")
        return Judgement(Status.WRONG, "another length", f"{len(check.answer)} characters", min(len(check.answer), wanted) / wanted)

    def _measure(self, gold: str) -> Generator[SqlJob, Any, int]:
        self.measured.append(gold)
        if gold == "lost":
            raise OSError("planted")
        answer = yield SqlJob(f"SELECT length('{gold}')", ((self.database, ""),), SqlLimits())
        return answer.last.rows[0][0]

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def lengths(shops: tuple[str, str]) -> LengthVerifier:
    return LengthVerifier(database=shops[0])


def test_shared_work_is_done_once_and_kept(lengths: LengthVerifier, tmp_path: Path) -> None:
    checks = [LengthCheck(str(i), "x" * (i % 7 + 1), f"gold{i % 3}") for i in range(200)]
    for run in range(2):
        with Scheduler(workers=2, cache=tmp_path / "cache.sqlite", verifiers=[lengths]) as scheduler:
            verdicts = list(scheduler.verify(checks))
            assert [verdict.id for verdict in verdicts] == [check.id for check in checks]
            assert [str(verdict.status) for verdict in verdicts] == ["PASS" if i % 7 == 4 else "WRONG" for i in range(200)]
            assert scheduler.counts["golds"] == (0 if run else 3)
        assert sorted(lengths.measured) == ["gold0", "gold1", "gold2"], "the second run reads them from the cache"
    with Scheduler(workers=1, cache=tmp_path / "cache.sqlite", verifiers=[lengths]) as scheduler:
        (verdict,) = scheduler.verify([LengthCheck("new", "y" * 5, "gold1")])
    assert (verdict.status, verdict.cached, len(lengths.measured)) == (Status.PASS, False, 3), "a new answer needs no gold run again"
    assert lengths.closed


def test_a_partial_score_is_the_verdicts_and_is_kept(lengths: LengthVerifier, tmp_path: Path) -> None:
    for cached in (False, True):
        with Scheduler(workers=1, cache=tmp_path / "cache.sqlite", verifiers=[lengths]) as scheduler:
            (verdict,) = scheduler.verify([LengthCheck("a", "xx", "gold")])
        assert (verdict.score, verdict.feedback, verdict.cached, verdict.tier) == (0.5, "2 characters", cached, "P")
        assert verdict.versions == {"judge": "length/1"}


def test_faults_of_a_verifier_lose_nothing_else(lengths: LengthVerifier) -> None:
    checks = [LengthCheck("a", "raise", "gold"), LengthCheck("b", "xxxx", "lost"), LengthCheck("c", "xxxx", "gold")]
    with Scheduler(workers=1, verifiers=[lengths]) as scheduler:
        for _ in range(2):
            found = [(str(verdict.status), verdict.score, verdict.reason) for verdict in scheduler.verify(checks)]
            assert found == [
                ("INFRA", None, "the verifier failed: RuntimeError: planted"),
                ("INFRA", None, "the verifier failed: OSError: planted"),
                ("PASS", 1.0, "same length"),
            ]
    assert lengths.measured.count("lost") == 2, "what failed is tried again"


def test_kinds_are_judged_side_by_side(lengths: LengthVerifier, shops: tuple[str, str]) -> None:
    checks = [LengthCheck(str(i), "xxxx", "gold") if i % 2 else SqlCheck(str(i), f"SELECT {i}", (f"SELECT {i}",), shops) for i in range(40)]
    with Scheduler(workers=2, verifiers=[lengths]) as scheduler:
        verdicts = list(scheduler.verify(checks))
    assert [(verdict.id, verdict.status) for verdict in verdicts] == [(str(i), Status.PASS) for i in range(40)]


def test_missing_isolation_refuses_and_judges_the_rest(
    lengths: LengthVerifier, shops: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LengthVerifier, "worker", "zygote")

    def none(least: str) -> str:
        raise IsolationUnavailable(f"no tier {least}: apt-get install bubblewrap")

    monkeypatch.setattr("prefkit.sandbox.tiers.code_tier", none)
    with Scheduler(workers=1, verifiers=[lengths]) as scheduler:
        refused, judged = scheduler.verify([LengthCheck("a", "x", "gold"), SqlCheck("b", "SELECT 1", ("SELECT 1",), shops)])
    assert (refused.id, refused.status, refused.score) == ("a", Status.REFUSED, None)
    assert refused.reason == "no tier A: apt-get install bubblewrap"
    assert judged.status is Status.PASS


@pytest.mark.parametrize("kind", VERIFIERS)
def test_every_verifier_that_is_named_is_there(kind: str) -> None:
    verifier = make(kind)
    assert verifier.kind == kind
    assert set(verifier.versions) >= {"judge"}
    with pytest.raises(ValueError):
        verifier.read({"answer": "x"}, "1", Source(Path(), 2.0))
    verifier.close()
