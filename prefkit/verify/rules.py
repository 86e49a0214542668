"""The rules verifier: does a JSON document keep the rules of a business.

| what happens                                              | status         | reason                                            |
|-----------------------------------------------------------|----------------|---------------------------------------------------|
| the rules file is wrong, or a table beside it             | REFUSED        | rules.yaml:12: unknown check sums; there is: …    |
| there is no JSON object or list in the answer             | WRONG          | no JSON in the answer                             |
| what stands there is broken                               | WRONG          | not JSON: …                                       |
| it breaks a rule of json_text.py                          | POLICY         | duplicate key: "total" / nested too deeply / …    |
| a rule of severity error is broken                        | WRONG          | broken: total, dates and 2 more                   |
| only warnings are broken                                  | PASS           | kept, with warnings: style                        |
| nothing is broken                                         | PASS           | all rules kept                                    |
| no rule applies to the document                           | WRONG          | no rule applies                                   |
| the rules cannot be held against it within the limits     | LIMIT, TIMEOUT | limit: steps of judging / time limit: pattern     |

Which JSON is judged: the whole text, or else the last object in tags, in fences, in prose (the first of these that has one); or else the
last list. The score is the weight of the rules of severity error that are kept, of those that apply: 1 where all are (PASS), less than 1
otherwise. Warnings count neither in the status nor in the score, so that no answer which breaks a rule is ever scored above one which keeps
them all; they stand in the reason and in the feedback. A rule whose condition does not hold, or that has nothing to look at, does not apply
and counts neither as kept nor as broken: leaving things out earns nothing.

What rules can say stands in rules_file.py, rules_checks.py and rules_terms.py. Nothing in them is a program, and numbers are exact.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from prefkit.verify.budget import Budget, BudgetSpent
from prefkit.verify.json_text import Document, places, uniform
from prefkit.verify.line_fields import beside, must, timeout_of
from prefkit.verify.rules_checks import Finding
from prefkit.verify.rules_file import Rule, Rules, read_rules
from prefkit.verify.rules_terms import Scope
from prefkit.verify.verdict import Judgement, Status
from prefkit.verify.verifier import Source, VerifierBase

VERSION = "rules/1"
_STEPS = 500_000
_NAMED, _TOLD = 4, 12
_NO_JSON = "no JSON in the answer"


@dataclass(frozen=True, slots=True)
class RulesCheck:
    """One answer to judge by rules. answer: free model text. rules: as `read_rules` gives them. timeout_s: processor seconds of judging."""

    kind: ClassVar[str] = "rules"
    id: str
    answer: str
    rules: Rules
    timeout_s: float = 2.0


class RulesVerifier(VerifierBase):
    """Judges RulesChecks. Nothing of an answer runs."""

    kind: ClassVar[str] = "rules"
    fields: ClassVar[tuple[str, ...]] = ("rules",)

    def __init__(self) -> None:
        self.versions = {"judge": VERSION}
        self._known: dict[str, Rules] = {}

    def prepare(self) -> None:
        """Look anew at the rules files, which may have changed."""
        self._known.clear()

    def read(self, line: dict[str, Any], id: str, source: Source) -> RulesCheck:
        """A line: {"rules": the path of a rules file, "answer": text, "timeout": seconds}. Raises ValueError, also where the
        file is wrong."""
        answer, rules = line.get("answer"), line.get("rules")
        if not isinstance(answer, str):
            raise must(line, "answer", "text")
        if not isinstance(rules, str) or not rules.strip() or "\n" in rules:
            raise must(line, "rules", "the path of a rules file")
        path = beside(source, rules)
        if path not in self._known:
            self._known[path] = read_rules(Path(path))
        return RulesCheck(id, answer, self._known[path], timeout_of(line, source))

    def key(self, check: RulesCheck) -> Sequence[Any]:
        return [check.answer, check.rules.digest, check.timeout_s]

    def judge(self, check: RulesCheck) -> Generator[Any, Any, Judgement]:
        """Waits for nothing."""
        yield from ()
        document = document_in(check.answer)
        if document is None:
            return Judgement(Status.WRONG, _NO_JSON, "There is no JSON document in the answer.")
        if document.problem:
            status = Status.POLICY if document.policy else Status.WRONG
            return Judgement(status, uniform(document.problem), f"The JSON document cannot be read: {document.problem}.")
        scope = Scope(document.value, Budget(_STEPS, check.timeout_s))
        try:
            findings = [(rule, rule.judge(scope)) for rule in check.rules.rules]
        except BudgetSpent as spent:
            return Judgement(spent.status, spent.reason, "The document takes too long to be checked.")
        return _judgement(findings)


def document_in(answer: str) -> Document | None:
    """The JSON document that an answer gives, with exact numbers; None where there is none. Never raises."""
    listed = broken = None
    for place in places(answer, exact=True):
        for document in reversed(place.documents):
            if document.problem:
                if document.policy and not isinstance(document.value, list):
                    return document
                broken = broken or document
            elif isinstance(document.value, dict):
                return document
            elif place.name != "prose":
                listed = listed or document
    return listed or broken


def _judgement(findings: list[tuple[Rule, Finding]]) -> Judgement:
    applying = [(rule, finding) for rule, finding in findings if finding.applies]
    errors = [(rule, finding) for rule, finding in applying if rule.severity == "error"]
    broken = [(rule, finding) for rule, finding in errors if finding.broken]
    warnings = [(rule, finding) for rule, finding in applying if rule.severity == "warning" and finding.broken]
    told = _told([*broken, *warnings])
    if not errors and any(rule.severity == "error" for rule, _ in findings):
        return Judgement(Status.WRONG, "no rule applies", "The document has nothing that the rules are about.")
    if broken:
        total = sum(rule.weight for rule, _ in errors)
        kept = total - sum(rule.weight for rule, _ in broken)
        return Judgement(Status.WRONG, f"broken: {_names(broken)}", told, float(kept / total))
    if warnings:
        return Judgement(Status.PASS, f"kept, with warnings: {_names(warnings)}", told)
    return Judgement(Status.PASS, "all rules kept")


def _names(broken: list[tuple[Rule, Finding]]) -> str:
    names = [rule.id for rule, _ in broken]
    return ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")


def _told(broken: list[tuple[Rule, Finding]]) -> str:
    """The rules that are broken, by their messages, with the places in the answer."""
    lines = [
        f"- {'Warning: ' if rule.severity == 'warning' else ''}{rule.message} ({'; '.join(finding.broken)})"
        for rule, finding in broken[:_TOLD]
    ]
    more = [f"- and {len(broken) - _TOLD} more"] if len(broken) > _TOLD else []
    return "\n".join(["The document breaks these rules:", *lines, *more])
