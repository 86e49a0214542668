"""The program verifier: what a program prints on standard output for what it is given on standard input.

| what happens                                               | status       | reason                                               |
|------------------------------------------------------------|--------------|------------------------------------------------------|
| no pairs; nothing is expected of any of them               | UNVERIFIABLE | no pairs … / every expected output is empty          |
| no program in the answer (see code_text.py)                | WRONG        | no code in the answer                                |
| it does not compile, fails, ends with another exit code    | CRASH        | does not compile / exit code 1 / the sandbox's words |
| its output is not the expected one (see output_compare.py) | WRONG        | wrong output / no output / wrong number of lines …   |
| too much time, memory, output …; what is forbidden         | TIMEOUT …    | the sandbox's words                                  |
| every pair agrees                                          | PASS         | same output                                          |

The pairs are tried in order, up to the first that is not right. The program sees its own input alone; what is expected never enters the
sandbox. The exit code must be 0. Feedback shows input and own output, never the expected one.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from prefkit.sandbox.job import CodeJob, CodeResult
from prefkit.verify.code_text import MAX_CODE, extract_program
from prefkit.verify.json_text import shown
from prefkit.verify.line_fields import must, timeout_of
from prefkit.verify.output_compare import VERSION, difference, lines_of
from prefkit.verify.python import NO_CODE
from prefkit.verify.values_compare import Tolerance
from prefkit.verify.verdict import Judgement, Status, status_of
from prefkit.verify.verifier import Source, Unverifiable, VerifierBase

LANGUAGES = ("c", "javascript", "bash", "python")
_MAX_PAIRS = 1_000
_SHOWN = 120


@dataclass(frozen=True, slots=True)
class ProgramCheck:
    """One answer to judge. io: (standard input, expected standard output). timeout_s: processor seconds for each pair."""

    kind: ClassVar[str] = "program"
    id: str
    answer: str
    language: str
    io: tuple[tuple[str, str], ...]
    exact: bool = False
    tolerance: Tolerance | None = None
    timeout_s: float = 2.0


class ProgramVerifier(VerifierBase):
    """Judges ProgramChecks."""

    kind: ClassVar[str] = "program"
    worker = "zygote"
    fields: ClassVar[tuple[str, ...]] = ("language", "io", "exact", "tolerance")

    def __init__(self) -> None:
        self.versions = {"judge": "program/1", "output": VERSION}

    def read(self, line: dict[str, Any], id: str, source: Source) -> ProgramCheck:
        """A line: {"answer": text, "language": "c" | "javascript" | "bash" | "python", "io": [["stdin", "stdout"]…], "exact": false,
        "tolerance": number or {"relative", "absolute"}, "timeout": seconds}."""
        language, io, exact = line.get("language"), line.get("io"), line.get("exact", False)
        if language not in LANGUAGES:
            raise must(line, "language", f"one of {', '.join(LANGUAGES)}")
        if not isinstance(exact, bool):
            raise must(line, "exact", "true or false")
        if not isinstance(io, list) or len(io) > _MAX_PAIRS:
            raise must(line, "io", f'a list of up to {_MAX_PAIRS} pairs ["standard input", "standard output"]')
        for number, pair in enumerate(io, 1):
            if not _is_pair(pair):
                raise ValueError(f'"io" must be a list of pairs of texts ["input", "output"]; pair {number} is {shown(pair)}')
        if not io:
            raise Unverifiable("no pairs of input and output")
        if not any(lines_of(expected) for _, expected in io):
            raise Unverifiable("every expected output is empty")
        tolerance = Tolerance.read(line["tolerance"]) if line.get("tolerance") is not None else None
        if exact and tolerance is not None:
            raise ValueError('"exact" and "tolerance" exclude each other')
        pairs = tuple((given, expected) for given, expected in io)
        return ProgramCheck(id, line["answer"], language, pairs, exact, tolerance, timeout_of(line, source))

    def key(self, check: ProgramCheck) -> Sequence[Any]:
        tolerance = None if check.tolerance is None else [check.tolerance.relative, check.tolerance.absolute]
        code = extract_program(check.answer, check.language)
        return [code, check.language, check.io, check.exact, tolerance, check.timeout_s]

    def judge(self, check: ProgramCheck) -> Generator[CodeJob, Any, Judgement]:
        """One job for each pair."""
        code = extract_program(check.answer, check.language)
        if code is None:
            return Judgement(Status.WRONG, NO_CODE, "There is no program in the answer.")
        if len(code) > MAX_CODE:
            return Judgement(Status.LIMIT, f"limit: program longer than {MAX_CODE} characters", "The program is far too long.")
        for given, expected in check.io:
            message = {"language": check.language, "code": code, "stdin": given}
            ran: CodeResult = (yield CodeJob("program", message, cpu_s=check.timeout_s)).last
            wrong = _judge_run(check, ran, given, expected)
            if wrong is not None:
                return wrong
        return Judgement(Status.PASS, "same output")


def _is_pair(pair: Any) -> bool:
    return isinstance(pair, list) and len(pair) == 2 and all(isinstance(text, str) for text in pair)


def _judge_run(check: ProgramCheck, ran: CodeResult, given: str, expected: str) -> Judgement | None:
    """The judgement where this pair is not right; None where it is."""
    for_input = f"For the input {_short(given)} the program" if given.strip() else "The program"
    if ran.status != "ok":
        status = status_of(ran.status)
        complaint = lines_of(ran.stderr)[-1:] or [""]
        text = f"{for_input} does not run to its end: {ran.reason}. {_cut(complaint[0])}".rstrip()
        return Judgement(status, ran.reason, None if status is Status.INFRA else text)
    if ran.exit != 0:
        return Judgement(Status.CRASH, f"exit code {ran.exit}", f"{for_input} ends with exit code {ran.exit}.")
    reason = difference(expected, ran.stdout, check.exact, check.tolerance)
    if reason is None:
        return None
    return Judgement(Status.WRONG, reason, f"{for_input} prints {_short(ran.stdout)}, which is wrong.")


def _short(text: str) -> str:
    return repr(text) if len(text) <= _SHOWN else repr(text[: _SHOWN - 1]) + "…"


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
