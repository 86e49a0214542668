"""The judge: an answer rated by a model, on a rubric, where nothing can be executed. Off unless a recipe or a line names a model.

| what happens                                            | status       | score            | reason                         |
|---------------------------------------------------------|--------------|------------------|--------------------------------|
| weighted mean of the marks reaches `pass_at`            | PASS         | the mean, 0 to 1 | rated 0.85                     |
| it does not                                             | WRONG        | the mean, 0 to 1 | rated 0.40                     |
| better than `other`, shown in either order              | PASS         | 1                | better than the other answer   |
| worse, in either order                                  | WRONG        | 0                | worse than the other answer    |
| neither, in either order                                | WRONG        | 0.5              | as good as the other answer    |
| the two orders give different choices                   | UNVERIFIABLE | none             | the judge contradicts itself … |
| no answer                                               | WRONG        | 0                | no answer                      |
| no rating after all tries, or no reply that can be read | INFRA        | none             | the judge gave no rating: …    |
| a text too long to be judged                            | UNVERIFIABLE | none             | too long to be judged          |

Every verdict says trust="model": it is an opinion. trust.require_one_kind refuses to mix such verdicts with executed ones unless the
recipe asks for it. How far position sways the judge is counted in `positions`.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from threading import Lock
from typing import Any, ClassVar

from prefkit.verify.judge_endpoint import Endpoint, EndpointScorer
from prefkit.verify.judge_rubric import DEFAULT, Rubric, read_rubric
from prefkit.verify.judge_scorer import CannotJudge, Choice, Question, Scorer, ScorerUnavailable
from prefkit.verify.verdict import Judgement, Status
from prefkit.verify.verifier import Source, VerifierBase

VERSION = "judge/1"
MAX_TEXT = 200_000
"""Characters of one text that is judged."""
_OPPOSITE: dict[Choice, Choice] = {"first": "second", "second": "first", "tie": "tie"}


@dataclass(frozen=True, slots=True)
class JudgeCheck:
    """One answer to judge. prompt: the task. other: an answer to compare with, or None. reference: a good answer, or "".

    endpoint: whom to ask, where the verifier was given no scorer.
    """

    kind: ClassVar[str] = "judge"
    id: str
    answer: str
    prompt: str
    other: str | None = None
    reference: str = ""
    rubric: Rubric = DEFAULT
    endpoint: Endpoint | None = None


@dataclass(slots=True)
class Positions:
    """What the two orders of pairs said. agreed: the same; first, second: the judge chose that place both times; half: tie in one order."""

    agreed: int = 0
    first: int = 0
    second: int = 0
    half: int = 0

    @property
    def pairs(self) -> int:
        return self.agreed + self.first + self.second + self.half

    @property
    def bias(self) -> float | None:
        """From -1 (always the second place) to 1 (always the first); 0 where place does not sway it, None without pairs."""
        return (self.first - self.second) / self.pairs if self.pairs else None

    def to_dict(self) -> dict[str, float | None]:
        counts = {"pairs": self.pairs, "agreed": self.agreed, "first": self.first, "second": self.second, "half": self.half}
        return counts | {"bias": self.bias}


class JudgeVerifier(VerifierBase):
    """Judges JudgeChecks. scorer: the model, or None where each line names its endpoint. threads: requests under way at once.

    positions: what both orders said, of the pairs that were asked here (a cached verdict asks nothing).
    """

    kind: ClassVar[str] = "judge"

    def __init__(self, scorer: Scorer | None = None, threads: int = 4) -> None:
        self.versions = {"judge": VERSION}
        self.positions = Positions()
        self._scorer = scorer
        self._of_endpoints: dict[Endpoint, Scorer] = {}
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="judge")
        self._asked: dict[JudgeCheck, Future[Judgement]] = {}
        self._lock = Lock()

    def read(self, line: dict[str, Any], id: str, source: Source) -> JudgeCheck:
        """A line: {"prompt", "answer", "other", "reference": texts, "rubric": {…}, "endpoint": {"url", "model", "key_env"}}.

        See read_rubric and Endpoint.read.
        """
        texts: dict[str, str] = {}
        for name in ("prompt", "answer", "other", "reference"):
            value = line.get(name)
            if value is None and name in ("other", "reference"):
                continue
            if not isinstance(value, str):
                raise ValueError(f'"{name}" must be text')
            texts[name] = value
        endpoint = Endpoint.read(line["endpoint"]) if line.get("endpoint") is not None else None
        if endpoint is None and self._scorer is None:
            raise ValueError('the judge is off: it needs an "endpoint" with "url" and "model"')
        return JudgeCheck(id, rubric=read_rubric(line.get("rubric")), endpoint=endpoint, **texts)

    def key(self, check: JudgeCheck) -> Sequence[Any]:
        identity = dict(self._scorer_of(check).identity)
        return [check.prompt, check.answer, check.other, check.reference, check.rubric.key(), identity]

    def trust(self, check: Any) -> str:
        return "model"

    def judge(self, check: JudgeCheck) -> Generator[Any, Any, Judgement]:
        """Waits for the model; `prefetch` lets many be under way meanwhile."""
        future = self._asked.pop(check, None)
        return future.result() if future is not None else self.decide(check)
        yield  # a generator that has nothing for a sandbox

    def prefetch(self, checks: Iterable[JudgeCheck]) -> None:
        """Begin to ask about checks whose verdicts are wanted soon and are in no cache."""
        for check in checks:
            if check not in self._asked:
                self._asked[check] = self._pool.submit(self.decide, check)

    def close(self) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)

    def decide(self, check: JudgeCheck) -> Judgement:
        """Ask now, in this thread."""
        if not check.answer.strip():
            return Judgement(Status.WRONG, "no answer", "There is no answer.")
        if any(len(text or "") > MAX_TEXT for text in (check.prompt, check.answer, check.other, check.reference)):
            return Judgement(Status.UNVERIFIABLE, "too long to be judged")
        try:
            return self._rated(check) if check.other is None else self._compared(check, check.other)
        except ScorerUnavailable as error:
            return Judgement(Status.INFRA, str(error))
        except CannotJudge as error:
            return Judgement(Status.UNVERIFIABLE, str(error))

    def _rated(self, check: JudgeCheck) -> Judgement:
        rating = self._scorer_of(check).rate(Question(check.prompt, (check.answer,), check.rubric, check.reference))
        status = Status.PASS if rating.score >= check.rubric.pass_at else Status.WRONG
        weak = [name for name, mark in sorted(rating.parts.items(), key=lambda part: part[1])[:2] if name in check.rubric.names]
        feedback = f"The answer is weak in {' and '.join(weak)}." if status is Status.WRONG and weak else None
        return Judgement(status, f"rated {rating.score:.2f}", feedback, rating.score)

    def _compared(self, check: JudgeCheck, other: str) -> Judgement:
        """Ask in both orders, where the order can be seen."""
        scorer = self._scorer_of(check)
        ahead = scorer.prefer(Question(check.prompt, (check.answer, other), check.rubric, check.reference))
        if scorer.sees_order:
            behind = scorer.prefer(Question(check.prompt, (other, check.answer), check.rubric, check.reference))
            self._count(ahead, behind)
            if behind != _OPPOSITE[ahead]:
                return Judgement(Status.UNVERIFIABLE, "the judge contradicts itself between orders")
        if ahead == "first":
            return Judgement(Status.PASS, "better than the other answer", None, 1.0)
        if ahead == "second":
            return Judgement(Status.WRONG, "worse than the other answer", "Another answer to the same task is better.", 0.0)
        return Judgement(Status.WRONG, "as good as the other answer", None, 0.5)

    def _count(self, ahead: Choice, behind: Choice) -> None:
        with self._lock:
            if behind == _OPPOSITE[ahead]:
                self.positions.agreed += 1
            elif ahead == behind == "first":
                self.positions.first += 1
            elif ahead == behind == "second":
                self.positions.second += 1
            else:
                self.positions.half += 1

    def _scorer_of(self, check: JudgeCheck) -> Scorer:
        if check.endpoint is None:
            if self._scorer is None:
                raise ScorerUnavailable("the judge is off: no model is named")
            return self._scorer
        with self._lock:
            return self._of_endpoints.setdefault(check.endpoint, EndpointScorer(check.endpoint))
