"""The math verifier: the final answer of a text against the gold, as mathematics. Compared inside the sandbox by math-verify (op_math.py).

| what happens                                                    | status       | reason                                         |
|-----------------------------------------------------------------|--------------|------------------------------------------------|
| no gold parses as a whole, or it is prose, has no value, leaves | UNVERIFIABLE | gold is not parsed / gold has no value /       |
| something to the reader (1, 2, …), takes too long               |              | gold has an ellipsis / gold takes too long     |
| no final answer in the text (see math_text.py)                  | WRONG        | no answer found                                |
| it does not parse, is prose, has no value                       | WRONG        | answer is not parsed / answer has no value     |
| it differs from every gold, or carries another unit             | WRONG        | wrong answer / wrong unit                      |
| it is too large to be worked out, or takes too long             | TIMEOUT      | time limit: a number too large / the sandbox's |
| it equals one of the golds                                      | PASS         | same value                                     |

Gold and answer are not exchangeable: `x = 5` answers a gold 5, but an inequality copied from the question does not answer a gold interval.
A gold that is a word and no mathematics (even, B, no solution) is compared as text. A gold pays nothing unless it parses by itself: where
the comparison fails altogether, the gold is tried alone, to tell whose fault it is.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from prefkit.sandbox.job import Answer, CodeJob, CodeResult
from prefkit.verify.line_fields import texts, timeout_of
from prefkit.verify.math_text import final_answer, has_ellipsis, is_prose, to_latex, unit_of, without_unit, word_of
from prefkit.verify.verdict import Judgement, Status, status_of
from prefkit.verify.verifier import Once, Source, Unverifiable, VerifierBase

VERSION = "math/1"
_PROBLEMS = {"not parsed": "is not parsed", "no value": "has no value", "too large": "takes too long"}


@dataclass(frozen=True, slots=True)
class MathCheck:
    """One answer to judge. answer: free text. golds: accepted answers, any one suffices. timeout_s: processor seconds for each gold."""

    kind: ClassVar[str] = "math"
    id: str
    answer: str
    golds: tuple[str, ...]
    timeout_s: float = 2.0


class MathVerifier(VerifierBase):
    """Judges MathChecks."""

    kind: ClassVar[str] = "math"
    worker = "zygote"
    fields: ClassVar[tuple[str, ...]] = ("gold",)

    def __init__(self) -> None:
        self.versions = {"judge": VERSION, **{name: _version(name) for name in ("math-verify", "latex2sympy2-extended", "sympy")}}

    def read(self, line: dict[str, Any], id: str, source: Source) -> MathCheck:
        """A line: {"gold": text or [texts], "answer": text, "timeout": seconds}."""
        golds = texts(line, "gold")
        if not self.versions["math-verify"]:
            raise ValueError("the math verifier needs math-verify: pip install 'prefkit[math]'")
        problems = [_problem_of_text(gold) for gold in golds]
        if all(problems):
            raise Unverifiable(str(problems[0]))
        return MathCheck(id, line["answer"], golds, timeout_of(line, source))

    def key(self, check: MathCheck) -> Sequence[Any]:
        return [final_answer(check.answer), check.golds, check.timeout_s]

    def judge(self, check: MathCheck) -> Generator[CodeJob | Once, Any, Judgement]:
        """One job for each gold, up to the first that agrees."""
        found = final_answer(check.answer)
        worst: Judgement | None = None
        problem = ""
        for gold in check.golds:
            problem = _problem_of_text(gold) or ""
            if not problem:
                judgement = yield from self._against(gold, found, check.timeout_s)
                if judgement.status is Status.PASS:
                    return judgement
                if judgement.status is Status.UNVERIFIABLE:
                    problem = judgement.reason
                else:
                    worst = judgement
        return worst if worst is not None else Judgement(Status.UNVERIFIABLE, problem)

    def _against(self, gold: str, found: str | None, timeout_s: float) -> Generator[CodeJob | Once, Any, Judgement]:
        """The judgement by one gold."""
        word = word_of(gold)
        if found is None or (word is not None and word == word_of(found)):
            if word is None:
                problem = yield self._gold(gold, timeout_s)
                if problem:
                    return Judgement(Status.INFRA if problem.startswith("worker") else Status.UNVERIFIABLE, problem)
            if found is None:
                return Judgement(Status.WRONG, "no answer found", "There is no final answer in the text.")
            return Judgement(Status.PASS, "same value")
        if word is not None and len(word) > 1:
            return Judgement(Status.WRONG, "wrong answer", f"The answer {_short(found)} is wrong.")
        latex = _latex(found)
        given = None if is_prose(latex) or has_ellipsis(found) else latex
        ran: Answer = yield _job(gold, given, timeout_s)
        judgement = _judge(ran.last, found, given is not None)
        if judgement.status not in (Status.PASS, Status.WRONG, Status.UNVERIFIABLE, Status.INFRA):
            problem = yield self._gold(gold, timeout_s)
            if problem:
                return Judgement(Status.UNVERIFIABLE, problem)
        if judgement.status is Status.PASS and _units_differ(gold, found):
            return Judgement(Status.WRONG, "wrong unit", f"The answer {_short(found)} has the wrong unit.")
        return judgement

    def _gold(self, gold: str, timeout_s: float) -> Once:
        """What is wrong with a gold by itself; "" where nothing is."""

        def alone() -> Generator[CodeJob | Once, Any, str]:
            ran: CodeResult = (yield _job(gold, None, timeout_s)).last
            if ran.status == "ok":
                return "" if _field(ran.value, "gold") == "ok" else _gold_problem(ran.value)
            return f"worker lost ({ran.reason})" if ran.status == "infra" else "gold takes too long"

        return Once(
            ["math gold", self.versions, gold, timeout_s],
            begin=alone,
            lost=lambda reason: f"worker lost ({reason})",
            again=lambda problem: problem.startswith("worker lost"),
            save=lambda problem: problem,
            load=lambda text: text,
        )


def _job(gold: str, answer: str | None, timeout_s: float) -> CodeJob:
    return CodeJob("math", {"gold": _latex(gold), "answer": answer}, cpu_s=timeout_s)


def _latex(text: str) -> str:
    return without_unit(to_latex(text))


def _judge(ran: CodeResult, found: str, is_mathematics: bool) -> Judgement:
    if ran.status != "ok":
        status = status_of(ran.status)
        return Judgement(status, ran.reason, None if status is Status.INFRA else "The answer takes too long to be worked out.")
    gold, answer, equal = (_field(ran.value, name) for name in ("gold", "answer", "equal"))
    if gold != "ok":
        return Judgement(Status.UNVERIFIABLE, _gold_problem(ran.value))
    if not is_mathematics or answer in ("not parsed", "no value"):
        return Judgement(
            Status.WRONG, f"answer {_PROBLEMS.get(str(answer), 'is not parsed')}", f"The answer {_short(found)} is not understood."
        )
    if equal is True:
        return Judgement(Status.PASS, "same value")
    if answer == "too large":
        return Judgement(Status.TIMEOUT, "time limit: a number too large", "The answer has a number that is too large to be worked out.")
    return Judgement(Status.WRONG, "wrong answer", f"The answer {_short(found)} is wrong.")


def _field(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, dict) else None


def _gold_problem(value: Any) -> str:
    return f"gold {_PROBLEMS.get(str(_field(value, 'gold')), 'is not parsed')}"


def _problem_of_text(gold: str) -> str | None:
    """What is wrong with a gold already as text."""
    if has_ellipsis(gold):
        return "gold has an ellipsis"
    return "gold is not parsed" if word_of(gold) is None and is_prose(_latex(gold)) else None


def _units_differ(gold: str, found: str) -> bool:
    units = unit_of(gold), unit_of(found)
    return None not in units and units[0] != units[1]


def _short(text: str) -> str:
    text = " ".join(text.split()).encode("utf-8", "backslashreplace").decode()
    return text if len(text) <= 80 else text[:79] + "…"


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""
