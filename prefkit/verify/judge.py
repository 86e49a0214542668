"""The judge: an answer rated by a model, on a rubric, where nothing can be executed. Off unless a line or the environment names a model.

| what happens                                            | status       | score            | reason                          |
|---------------------------------------------------------|--------------|------------------|---------------------------------|
| weighted mean of the marks reaches `pass_at`            | PASS         | the mean, 0 to 1 | rated 0.85                      |
| it does not                                             | WRONG        | the mean, 0 to 1 | rated 0.40                      |
| better than `other`, shown in either order              | PASS         | 1                | better than the other answer    |
| worse, in either order                                  | WRONG        | 0                | worse than the other answer     |
| neither, in either order                                | WRONG        | 0.5              | as good as the other answer     |
| the two orders give different choices                   | UNVERIFIABLE | none             | the judge contradicts itself: … |
| a reward model, which reads each answer by itself       | as above     | 1, 0, 0.5        | higher reward than …            |
| no answer                                               | WRONG        | 0                | no answer                       |
| no rating after all tries, or no reply that can be read | INFRA        | none             | the judge gave no rating: …     |
| a text too long to be judged                            | UNVERIFIABLE | none             | too long to be judged           |
| no model is named                                       | REFUSED      | none             | the judge is off: …             |

Every verdict says trust="model": it is an opinion. trust.require_one_kind refuses to mix such verdicts with executed ones unless the
recipe asks for it. How often the two orders disagree is counted from the reasons (judge_orders.Orders).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Lock
from typing import Any, ClassVar

from prefkit.errors import PrefkitError
from prefkit.verify.background import Background
from prefkit.verify.judge_endpoint import OFF, Endpoint, EndpointScorer
from prefkit.verify.judge_orders import judged_in_both_orders, judged_without_order
from prefkit.verify.judge_rubric import DEFAULT, Rubric, read_rubric
from prefkit.verify.judge_scorer import CannotJudge, Question, Scorer, ScorerUnavailable
from prefkit.verify.line_fields import beside, is_not, must, timeout_of
from prefkit.verify.verdict import Judgement, Status
from prefkit.verify.verifier import Source, VerifierBase

VERSION = "judge/1"
MAX_TEXT = 200_000
"""Characters of one text that is judged."""


@dataclass(frozen=True, slots=True)
class JudgeCheck:
    """One answer to judge. prompt: the task. other: an answer to compare with, or None. reference: a good answer, or "".

    model: whom to ask, where the verifier was given no scorer: an endpoint, or the folder of a reward model.
    """

    kind: ClassVar[str] = "judge"
    id: str
    answer: str
    prompt: str
    other: str | None = None
    reference: str = ""
    rubric: Rubric = DEFAULT
    model: Endpoint | Path | None = None


class JudgeVerifier(VerifierBase):
    """Judges JudgeChecks. scorer: the model, or None where each line names its own. threads: requests under way at once.

    open_reward_model: what makes a scorer of a folder (models.reward_model.RewardModel), for lines that name one.
    """

    kind: ClassVar[str] = "judge"
    fields: ClassVar[tuple[str, ...]] = ("prompt", "other", "reference", "rubric", "endpoint", "reward_model")

    def __init__(self, scorer: Scorer | None = None, threads: int = 8, open_reward_model: Callable[[Path], Scorer] | None = None) -> None:
        self.versions = {"judge": VERSION}
        self._scorer = scorer
        self._open_reward_model = open_reward_model
        self._named: dict[Endpoint | Path, Scorer] = {}
        self._threads = Background(threads)
        self._lock = Lock()

    def read(self, line: dict[str, Any], id: str, source: Source) -> JudgeCheck:
        """A line: {"prompt", "answer", "other", "reference": texts, "rubric": {…}, "endpoint": {…} or "reward_model": folder}.

        See read_rubric, Endpoint.read and Endpoint.from_environment. The line's "timeout" is that of one request, a minute without one.
        """
        texts: dict[str, str] = {}
        for name in ("prompt", "answer", "other", "reference"):
            value = line.get(name)
            if value is None and name in ("other", "reference"):
                continue
            if not isinstance(value, str):
                raise must(line, name, "text")
            texts[name] = value
        return JudgeCheck(id, rubric=read_rubric(line.get("rubric")), model=self._model(line, source), **texts)

    def _model(self, line: dict[str, Any], source: Source) -> Endpoint | Path | None:
        endpoint, folder = line.get("endpoint"), line.get("reward_model")
        if endpoint is not None and folder is not None:
            raise ValueError('expected either "endpoint" or "reward_model", found both')
        if folder is not None:
            return self._folder(folder, source)
        if endpoint is None and self._scorer is not None:
            return None
        found = Endpoint.read(endpoint) if endpoint is not None else Endpoint.from_environment()
        if found is None:
            raise ValueError(OFF)
        return replace(found, timeout_s=timeout_of(line, source)) if "timeout" in line else found

    def _folder(self, name: Any, source: Source) -> Path:
        """Raises ValueError where it is no reward model."""
        if not isinstance(name, str) or not name.strip():
            raise ValueError(f'"reward_model" names a folder{is_not(name)}')
        folder = Path(beside(source, name))
        if folder not in self._named:
            if self._open_reward_model is None:
                raise ValueError('"reward_model" is for `prefkit verify`; elsewhere, give the verifier its scorer')
            try:
                self._named[folder] = self._open_reward_model(folder)
            except PrefkitError as error:
                raise ValueError(str(error)) from error
        return folder

    def key(self, check: JudgeCheck) -> Sequence[Any]:
        identity = dict(self._scorer_of(check).identity)
        return [check.prompt, check.answer, check.other, check.reference, check.rubric.key(), identity]

    def trust(self, check: Any) -> str:
        return "model"

    def judge(self, check: JudgeCheck) -> Generator[Future[Judgement], Any, Judgement]:
        """Waits for the model in another thread, so that many requests are under way at once."""
        asked = self._threads.submit(self.decide, check)
        yield asked
        return asked.result()

    def close(self) -> None:
        self._threads.close()

    def decide(self, check: JudgeCheck) -> Judgement:
        """Ask now, in this thread."""
        if not check.answer.strip():
            return Judgement(Status.WRONG, "no answer", "There is no answer.")
        if any(len(text or "") > MAX_TEXT for text in (check.prompt, check.answer, check.other, check.reference)):
            return Judgement(Status.UNVERIFIABLE, "too long to be judged")
        try:
            return self._rated(check) if check.other is None else self._compared(check, check.other)
        except (ScorerUnavailable, PrefkitError) as error:
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
        if not scorer.sees_order:
            return judged_without_order(ahead)
        return judged_in_both_orders(ahead, scorer.prefer(Question(check.prompt, (other, check.answer), check.rubric, check.reference)))

    def _scorer_of(self, check: JudgeCheck) -> Scorer:
        if check.model is None:
            if self._scorer is None:
                raise ScorerUnavailable(OFF)
            return self._scorer
        with self._lock:
            if check.model not in self._named and isinstance(check.model, Endpoint):
                self._named[check.model] = EndpointScorer(check.model)
            return self._named[check.model]
