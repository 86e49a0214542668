"""Verdict: what a verifier says about one answer."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any


class Status(StrEnum):
    """PASS and WRONG are about the answer's result, CRASH, TIMEOUT, LIMIT, POLICY and TAMPER about how it ran; all of these are scored.

    UNVERIFIABLE is the task's fault (its gold fails, is empty, ambiguous or reads the clock), INFRA the machine's (retried, never
    scored), REFUSED says that nothing was judged (a broken line, isolation that is missing).
    """

    PASS = "PASS"
    WRONG = "WRONG"
    CRASH = "CRASH"
    TIMEOUT = "TIMEOUT"
    LIMIT = "LIMIT"
    POLICY = "POLICY"
    TAMPER = "TAMPER"
    UNVERIFIABLE = "UNVERIFIABLE"
    INFRA = "INFRA"
    REFUSED = "REFUSED"


SCORED = frozenset({Status.PASS, Status.WRONG, Status.CRASH, Status.TIMEOUT, Status.LIMIT, Status.POLICY, Status.TAMPER})
"""Statuses with a score. The others have None, and make neither pair nor reward."""


_OF_OUTCOME = {
    "error": Status.CRASH, "crash": Status.CRASH, "policy": Status.POLICY, "timeout": Status.TIMEOUT, "limit": Status.LIMIT,
    "tamper": Status.TAMPER, "infra": Status.INFRA, "database": Status.UNVERIFIABLE,
}  # fmt: skip


def status_of(outcome: str) -> Status:
    """The status of an answer that did not run to its end, by what its worker said (see sandbox.job)."""
    return _OF_OUTCOME.get(outcome, Status.INFRA)


def score_of(status: Status) -> float | None:
    """1.0 for PASS, 0.0 for every other scored status, None where nothing was judged."""
    if status not in SCORED:
        return None
    return 1.0 if status is Status.PASS else 0.0


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a verifier says of one answer.

    reason: short and uniform, so that failures can be grouped. feedback: text for a correction turn, without anything of the gold.
    score: where a verifier gives partial ones; None is 1.0 for PASS and 0.0 for every other scored status.
    """

    status: Status
    reason: str
    feedback: str | None = None
    score: float | None = None

    @property
    def points(self) -> float | None:
        """The verdict's score."""
        return score_of(self.status) if self.score is None or self.status not in SCORED else self.score


@dataclass(frozen=True, slots=True)
class Verdict:
    """One answer judged.

    reason: short and uniform, so that failures can be grouped. feedback: text for a correction turn, without anything of the gold.
    trust: "executed", "in_process" or "model". tier: isolation in force (A, B, P; empty where nothing of the answer runs).
    cpu_s, wall_s: seconds of the answer's execution. peak_mem: most resident memory of the worker, bytes. cached: taken from an earlier
    judgement. key: hash of all that decides the verdict. versions: engine and judge. data_hash: of the contents of the data that the
    answer ran on (the databases); empty where there is none.
    """

    id: str
    status: Status
    score: float | None
    reason: str
    feedback: str | None = None
    trust: str = "executed"
    tier: str = "P"
    cpu_s: float = 0.0
    wall_s: float = 0.0
    peak_mem: int = 0
    cached: bool = False
    key: str = ""
    versions: dict[str, str] = field(default_factory=dict)
    data_hash: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON and Parquet."""
        return asdict(self) | {"status": str(self.status)}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Verdict:
        """The inverse of `to_dict`."""
        known: dict[str, Any] = values | {"status": Status(values["status"])}
        return cls(**known)
