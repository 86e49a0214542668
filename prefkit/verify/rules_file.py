"""A rules file: YAML, read and compiled whole before any answer is judged. Every mistake is named with file and line.

tables:                                  # optional; see rules_tables.py
  rates: {file: rates.csv}
rules:
  - id: total                            # letters, digits, . _ -
    message: The total is the sum of the items.
    severity: error                      # or warning; error where none is given
    weight: 2                            # of an error in the score; 1 where none is given
    if: {equals: {path: kind, value: invoice}}    # optional: a check that must be kept for the rule to apply
    each: items[*]                       # optional: the rule is about every item, with paths from there
    optional: true                       # optional: what is not there breaks nothing
    agree: {left: {sum: "items[*].amount"}, right: total, tolerance: 0.01}    # one check (see rules_checks.py)
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path as File

from prefkit.verify.paths import MISSING, Path
from prefkit.verify.rules_checks import BESIDE, SHOWN, SIMPLE, Check, Finding, all_of, any_of, holds, not_of
from prefkit.verify.rules_dates import compile_date
from prefkit.verify.rules_steps import compile_steps
from prefkit.verify.rules_tables import Table, compile_lookup, read_table
from prefkit.verify.rules_terms import Scope, not_there, path_of
from prefkit.verify.yaml_lines import Node, read_yaml

SEVERITIES = ("error", "warning")
_ID = re.compile(r"[\w.-]{1,80}")
_COMMON = ("id", "message", "severity", "weight", "if", "each", "optional")
_MAX_FILE = 2_000_000


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule. weight: what it counts in the score. each: the items that it is about. condition: where it applies."""

    id: str
    message: str
    check: Check
    severity: str = "error"
    weight: Fraction = Fraction(1)
    each: Path | None = None
    condition: Check | None = None
    optional: bool = False

    def judge(self, scope: Scope) -> Finding:
        """What the rule says of a document."""
        if self.each is None:
            return self._judge_one(scope)
        findings: list[Finding] = []
        for where, item in scope.find(self.each):
            if item is MISSING:
                findings.append(BESIDE if self.optional else Finding((not_there(where, item),)))
            else:
                findings.append(self._judge_one(scope.inside(where, item)))
        broken = [said for finding in findings for said in finding.broken]
        return Finding(tuple(broken[:SHOWN]), applies=any(finding.applies for finding in findings))

    def _judge_one(self, scope: Scope) -> Finding:
        # A condition asks what is there: what is missing makes it false, never passed over.
        if self.condition is not None and not holds(self.condition, scope):
            return BESIDE
        return self.check(replace(scope, optional=self.optional))


@dataclass(frozen=True, slots=True)
class Rules:
    """A rules file. digest: a hash of it and of its tables."""

    rules: tuple[Rule, ...]
    digest: str


def read_rules(path: File) -> Rules:
    """Read a rules file and the CSVs beside it. Raises ValueError that names the file, the line and what was expected."""
    try:
        if path.stat().st_size > _MAX_FILE:
            raise ValueError(f"{path.name} is larger than {_MAX_FILE} bytes")
        content = path.read_bytes()
    except OSError as error:
        raise ValueError(f"the rules file {path} cannot be read: {error.strerror or error}") from None
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(10) + 1
        raise ValueError(f"{path.name}:{line}: not UTF-8") from None
    root = read_yaml(text, path.name)
    tables = _tables(root, path.parent)
    digest = hashlib.sha256()
    for part in (content, *(table.content for table in tables.values())):
        digest.update(len(part).to_bytes(8, "big") + part)
    return Rules(compile_rules(root, tables), digest.hexdigest())


def compile_rules(root: Node, tables: Mapping[str, Table]) -> tuple[Rule, ...]:
    """Raises PlaceError."""
    fields = root.fields(("rules",), ("tables", "about"))
    rules: dict[str, tuple[Rule, int]] = {}
    for node in fields["rules"].items("rules"):
        rule = _rule(node, tables)
        if rule.id in rules:
            raise node.error(f"the id {rule.id} is given twice, first in line {rules[rule.id][1]}")
        rules[rule.id] = (rule, node.line)
    return tuple(rule for rule, _ in rules.values())


def _tables(root: Node, folder: File) -> dict[str, Table]:
    node = root.value.get("tables") if isinstance(root.value, dict) else None
    if node is None:
        return {}
    if not isinstance(node.value, dict):
        raise node.error("expected a name for each table")
    return {name: read_table(table, folder) for name, table in node.value.items()}


def _rule(node: Node, tables: Mapping[str, Table]) -> Rule:
    words = _words(tables)
    fields = node.fields(("id", "message"), (*_COMMON[2:], *words))
    checks = [name for name in fields if name in words]
    if len(checks) != 1:
        raise node.error(f"a rule has one check, found {', '.join(checks) or 'none'}; there is: {', '.join(words)}; all holds several")
    name = str(fields["id"].plain())
    if not _ID.fullmatch(name):
        raise fields["id"].error("an id has letters, digits and . _ - alone")
    weight = fields["weight"].number("a weight above 0") if "weight" in fields else 1
    if weight <= 0:
        raise fields["weight"].error("expected a weight above 0")
    severity = fields["severity"].choice(SEVERITIES) if "severity" in fields else "error"
    if severity == "warning" and "weight" in fields:
        raise fields["weight"].error("a warning does not count in the score, so it has no weight")
    return Rule(
        name,
        fields["message"].text("a message: what holds where the rule is kept"),
        words[checks[0]](fields[checks[0]]),
        severity,
        Fraction(weight),
        path_of(fields["each"]) if "each" in fields else None,
        _one_check(fields["if"], words) if "if" in fields else None,
        fields["optional"].flag() if "optional" in fields else False,
    )


def _words(tables: Mapping[str, Table]) -> dict[str, Callable[[Node], Check]]:
    """Every check there is, by its name."""
    words: dict[str, Callable[[Node], Check]] = {
        **SIMPLE,
        "date": compile_date,
        "steps": compile_steps,
        "lookup": lambda node: compile_lookup(node, tables),
        "all": lambda node: all_of([_one_check(item, words) for item in node.items("checks")]),
        "any": lambda node: any_of([_one_check(item, words) for item in node.items("checks")]),
        "not": lambda node: not_of(_one_check(node, words)),
    }
    return words


def _one_check(node: Node, words: Mapping[str, Callable[[Node], Check]]) -> Check:
    if not isinstance(node.value, dict) or len(node.value) != 1:
        raise node.error(f"expected one check: {', '.join(words)}")
    (name, inner), *_ = node.value.items()
    if name not in words:
        raise inner.error(f"unknown check {name}; there is: {', '.join(words)}")
    return words[name](inner)
