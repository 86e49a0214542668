"""Business rules: what each word of the vocabulary keeps and breaks, scores, rules files that are wrong, and hostile documents."""

from __future__ import annotations

import contextlib
import copy
import json
import tempfile
from decimal import Decimal
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prefkit.verify.arithmetic import NoValue, equations, value_of
from prefkit.verify.paths import MISSING, read_path, without
from prefkit.verify.rules import RulesCheck, RulesVerifier
from prefkit.verify.rules_file import Rules
from prefkit.verify.verdict import SCORED, Judgement, Status
from prefkit.verify.verifier import Source

RULES = """
tables:
  rates: {file: rates.csv}
  kinds:
    rows:
      - {code: 1, name: invoice}
      - {code: 2, name: receipt}
rules:
  - id: has
    message: Number, country and items are given.
    required: [number, country, items]
  - id: quantity
    message: Quantities are whole numbers from 1 to 100.
    each: items[*]
    all:
      - type: {path: quantity, is: integer}
      - range: {path: quantity, at_least: 1, at_most: 100}
  - id: row
    message: Each amount is quantity times price.
    each: items[*]
    agree: {left: amount, right: {product: [quantity, price]}}
  - id: net
    message: Net is the sum of the amounts.
    weight: 3
    agree: {left: net, right: {sum: "items[*].amount"}, tolerance: 0.005}
  - id: rate
    message: The rate is the country's.
    lookup: {path: country, table: rates, column: country, same: {vat.rate: rate}}
  - id: dates
    message: It is due no earlier than it is issued.
    date: {path: due, not_before: issued}
  - id: articles
    message: No article stands there twice.
    unique: items[*].sku
  - id: reverse
    message: A reverse charge needs a VAT number.
    if: {equals: {path: reverse_charge, value: true}}
    required: customer.vat_number
  - id: note
    message: The note is short.
    severity: warning
    optional: true
    length: {path: note, at_most: 10}
"""
GOOD: dict[str, Any] = {
    "number": "A-1", "country": "DE", "issued": "2025-01-01", "due": "2025-02-01",
    "items": [{"sku": "a", "quantity": 3, "price": 0.1, "amount": 0.3}, {"sku": "b", "quantity": 1, "price": 10, "amount": 10.0}],
    "net": 10.3, "vat": {"rate": 0.19},
}  # fmt: skip


def refused_or_read(folder: Path, rules: str, answer: str = "{}") -> RulesCheck:
    """The check of a line whose rules file holds this text, with a table beside it."""
    (folder / "rules.yaml").write_text(rules)
    (folder / "rates.csv").write_text("country,rate\nDE,0.190\nFR,0.20\n")
    return RulesVerifier().read({"verifier": "rules", "rules": "rules.yaml", "answer": answer}, "1", Source(folder, 2.0))


@cache
def compiled(rules: str) -> Rules:
    with tempfile.TemporaryDirectory() as folder:
        return refused_or_read(Path(folder), rules).rules


def judged(rules: str, answer: Any, timeout_s: float = 2.0) -> Judgement:
    """The judgement of one answer by rules as text; the verifier waits for nothing, so the generator ends at once."""
    verifier = RulesVerifier()
    check = RulesCheck("1", answer if isinstance(answer, str) else json.dumps(answer), compiled(rules), timeout_s)
    json.dumps(list(verifier.key(check)))
    steps = verifier.judge(check)
    with pytest.raises(StopIteration) as end:
        next(steps)
    return end.value.value


@pytest.fixture
def keeps() -> Any:
    """Whether a document keeps one rule, given as the YAML of its check and of what else stands in it; None where it does not apply."""

    def keeps(check: str, document: Any, **more: str) -> bool | None:
        lines = "".join(f"    {key.strip('_')}: {value}\n" for key, value in more.items())
        # Beside it a rule that always applies, so that one which does not can be told from one which is kept.
        rules = f"rules:\n  - id: x\n    message: The rule.\n{lines}    {check}\n  - {{id: y, message: A document., required: $}}\n"
        judgement = judged(rules, document)
        assert judgement.status in (Status.PASS, Status.WRONG), judgement
        if judgement.status is Status.WRONG:
            assert judgement.reason == "broken: x"
            assert judgement.score == 0.5
            return False
        probe = f"rules:\n  - id: x\n    message: The rule.\n{lines}    {check}\n"
        return None if judged(probe, document).reason == "no rule applies" else True

    return keeps


def test_a_document_that_keeps_all_rules_passes() -> None:
    for answer in (json.dumps(GOOD), f"<think>{{}}</think>Here:\n```json\n{json.dumps(GOOD, indent=1)}\n```", f"It is {json.dumps(GOOD)}."):
        judgement = judged(RULES, answer)
        assert (judgement.status, judgement.reason, judgement.points, judgement.feedback) == (Status.PASS, "all rules kept", 1.0, None)


PLANTED: dict[str, tuple[dict[str, Any], str, float]] = {
    "missing": ({"number": None}, "broken: has", 8 / 9),
    "blank": ({"number": " "}, "broken: has", 8 / 9),
    "sum": ({"net": 10.31}, "broken: net", 6 / 9),
    "within the tolerance": ({"net": 10.304}, "", 1),
    "a sum as text": ({"net": "10.3"}, "broken: net", 6 / 9),
    "country": ({"country": "XX"}, "broken: rate", 8 / 9),
    "rate": ({"vat": {"rate": 0.2}}, "broken: rate", 8 / 9),
    "no rate": ({"vat": {}}, "broken: rate", 8 / 9),
    "due before": ({"due": "2024-12-31"}, "broken: dates", 8 / 9),
    "due the same day": ({"due": "2025-01-01"}, "", 1),
    "a date that is none": ({"due": "2025-02-30"}, "broken: dates", 8 / 9),
    "a date in another form": ({"due": "1.2.2025"}, "broken: dates", 8 / 9),
    "condition": ({"reverse_charge": True}, "broken: reverse", 9 / 10),
    "condition kept": ({"reverse_charge": True, "customer": {"vat_number": "DE1"}}, "", 1),
    "condition that does not hold": ({"reverse_charge": 1}, "", 1),
    "a list that is none": ({"items": "x"}, "broken: quantity, row, net, articles", 3 / 9),
    "no items": ({"items": []}, "broken: net", 3 / 6),
    "an item": ({"items": [{"sku": "a", "quantity": 1.5, "price": 2, "amount": 3}], "net": 3}, "broken: quantity", 8 / 9),
    "an integer as 2.0": ({"items": [{"sku": "a", "quantity": 2.0, "price": 2, "amount": 4}], "net": 4}, "", 1),
    "true for 1": ({"items": [{"sku": "a", "quantity": True, "price": 2, "amount": 2}], "net": 2}, "broken: quantity, row", 7 / 9),
    "two of a kind": (
        {"items": [{"sku": "a", "quantity": 1, "price": 1, "amount": 1}] * 2, "net": 2}, "broken: articles", 8 / 9,
    ),
    "much": ({"number": "", "net": 0, "country": "", "due": "", "items": [{}]}, "broken: has, quantity, row, net and 3 more", 0),
}  # fmt: skip


@pytest.mark.parametrize("name", PLANTED)
def test_planted_faults_are_found_and_scored_by_weight(name: str) -> None:
    changes, reason, score = PLANTED[name]
    judgement = judged(RULES, copy.deepcopy(GOOD) | changes)
    assert judgement.reason == (reason or "all rules kept")
    assert judgement.status is (Status.WRONG if reason else Status.PASS)
    assert judgement.points == pytest.approx(score)


def test_warnings_count_neither_in_the_status_nor_in_the_score() -> None:
    judgement = judged(RULES, GOOD | {"note": "x" * 11})
    assert (judgement.status, judgement.reason, judgement.points) == (Status.PASS, "kept, with warnings: note", 1.0)
    assert judgement.feedback is not None
    assert "Warning: The note is short. (note has the length 11, more than 10)" in judgement.feedback
    both = judged(RULES, GOOD | {"note": "x" * 11, "net": 0})
    assert both.points == pytest.approx(6 / 9)


def test_feedback_lists_the_broken_rules_by_message_with_their_places() -> None:
    document = copy.deepcopy(GOOD)
    document["items"][1]["quantity"] = 101
    judgement = judged(RULES, document)
    assert judgement.feedback == (
        "The document breaks these rules:\n"
        "- Quantities are whole numbers from 1 to 100. (items[1].quantity is 101, more than 100)\n"
        "- Each amount is quantity times price. (items[1]: 10 is not 1010)"
    )
    rate = judged(RULES, GOOD | {"vat": {"rate": 0.2}}).feedback
    assert rate is not None and "0.19" not in rate


@pytest.mark.parametrize(
    ("answer", "status", "reason"),
    [
        ("", "WRONG", "no JSON in the answer"),
        ("The total is 12.", "WRONG", "no JSON in the answer"),
        ("5", "WRONG", "no JSON in the answer"),
        ('{"number": ', "WRONG", "not JSON: expecting value"),
        ('{"number": 1, "number": 2}', "POLICY", 'duplicate key: "number"'),
        ('{"net": NaN}', "POLICY", "number out of range: NaN"),
        ('{"net": 1e999999}', "POLICY", "number out of range"),
        ('{"a":' * 1000, "POLICY", "nested too deeply: more than 64 levels"),
        ("[" * 100_000, "POLICY", "nested too deeply: more than 64 levels"),
        ('{"a": "' + "x" * 300_000 + '"}', "POLICY", "answer too long: more than 200000 characters"),
    ],
)
def test_answers_without_a_document_that_can_be_judged(answer: str, status: str, reason: str) -> None:
    judgement = judged(RULES, answer)
    assert (str(judgement.status), judgement.reason, judgement.points) == (status, reason, 0.0)


def test_the_last_object_of_the_surest_place_is_judged() -> None:
    rules = "rules:\n  - {id: a, message: A is 1., equals: {path: a, value: 1}}\n"
    for answer, right in [
        ('{"a": 2} no, rather {"a": 1}', True),
        ('{"a": 1} no, rather {"a": 2}', False),
        ('{"a": 2}\n```\n{"a": 1}\n```\nas in {"a": 3}', True),
        ('<answer>{"a": 1}</answer> {"a": 2}', True),
        ('{"a": 1} as said in [1]', True),
        ('[{"a": 1}]', False),
    ]:
        assert (judged(rules, answer).status is Status.PASS) == right, answer
    assert judged('rules:\n  - {id: a, message: All 1., equals: {path: "$[*].a", value: 1}}\n', '[{"a": 1}]').status is Status.PASS


def test_leaving_things_out_earns_nothing() -> None:
    assert judged(RULES, "{}").points == 0
    conditional = "rules:\n  - {id: a, message: A., if: {required: b}, required: a}\n"
    assert judged(conditional, "{}").reason == "no rule applies"
    assert judged(conditional, '{"b": 1, "a": 2}').reason == "all rules kept"


# The vocabulary

CASES: list[tuple[str, Any, bool | None]] = [
    ("required: a", {"a": 0}, True),
    ("required: a", {"a": False}, True),
    ("required: a", {"a": []}, True),
    ("required: a", {"a": None}, False),
    ("required: a", {"a": "\t"}, False),
    ("required: a.b", {"a": 5}, False),
    ("required: [a, b]", {"a": 1, "b": 1}, True),
    ("required: [a, b]", {"a": 1}, False),
    ("required: l[*].a", {"l": [{"a": 1}, {}]}, False),
    ("required: l[*].a", {"l": []}, None),
    ("required: l[*].a", {}, False),
    ("required: l[-1].a", {"l": [{}, {"a": 1}]}, True),
    ("required: '[\"a b\"]'", {"a b": 1}, True),
    ("type: {path: a, is: text}", {"a": ""}, True),
    ("type: {path: a, is: number}", {"a": 1.5}, True),
    ("type: {path: a, is: number}", {"a": True}, False),
    ("type: {path: a, is: number}", {"a": "1"}, False),
    ("type: {path: a, is: integer}", {"a": 10**300}, True),
    ("type: {path: a, is: integer}", {"a": 1e300}, True),
    ("type: {path: a, is: integer}", {"a": 0.5}, False),
    ("type: {path: a, is: boolean}", {"a": 0}, False),
    ("type: {path: a, is: [text, null]}", {"a": None}, True),
    ("type: {path: a, is: text}", {}, False),
    ("type: {path: a, is: object}", {"a": {}}, True),
    ("type: {path: a, is: list}", {"a": {}}, False),
    ("only: {path: $, keys: [a, b]}", {"a": 1}, True),
    ("only: {path: $, keys: [a, b]}", {"a": 1, "c": 1}, False),
    ("only: {path: l.*, keys: [a]}", {"l": [{"a": 1}, {"b": 1}]}, False),
    ("only: {path: a, keys: [a]}", {"a": 1}, False),
    ("equals: {path: a, value: [1, {b: null}]}", {"a": [1.0, {"b": None}]}, True),
    ("equals: {path: a, value: true}", {"a": 1}, False),
    ('equals: {path: a, value: "1"}', {"a": 1}, False),
    ("equals: {path: a, value: 0.10}", {"a": 0.1}, True),
    ("equals: {path: a, value: no}", {"a": "no"}, True),
    ("one_of: {path: a, values: [x, y, 3]}", {"a": 3.0}, True),
    ("one_of: {path: a, values: [x, y, 3]}", {"a": "X"}, False),
    ("range: {path: a, at_least: 0, at_most: 1}", {"a": 1}, True),
    ("range: {path: a, above: 0, below: 1}", {"a": 1}, False),
    ("range: {path: a, above: 0, below: 1}", {"a": 1e-300}, True),
    ("range: {path: a, at_most: b}", {"a": 0.3, "b": 0.3}, True),
    ("range: {path: a, at_most: b}", {"a": 0.3}, False),
    ("range: {path: a, at_most: {sum: [b, c]}}", {"a": 0.3, "b": 0.1, "c": 0.2}, True),
    ("range: {path: a, at_least: 0}", {"a": "1"}, False),
    ("range: {path: a, at_least: 0}", {"a": True}, False),
    ("range: {path: l.*, at_least: 0}", {"l": [1, 2, -1]}, False),
    ("range: {path: l.*, at_least: 0}", {"l": []}, None),
    ("length: {path: a, at_least: 2, at_most: 3}", {"a": "äöü"}, True),
    ("length: {path: a, at_least: 2}", {"a": [1]}, False),
    ("length: {path: a, at_least: 2}", {"a": 12}, False),
    ("pattern: {path: a, matches: '[A-Z]{2}-\\d+'}", {"a": "AB-12"}, True),
    ("pattern: {path: a, matches: '[A-Z]{2}-\\d+'}", {"a": "xAB-12"}, False),
    ("pattern: {path: a, matches: '[A-Z]{2}-\\d+'}", {"a": "AB-12\n"}, False),
    ("pattern: {path: a, matches: '\\d+'}", {"a": 12}, False),
    ("agree: {left: a, right: {sum: l.*}}", {"a": 0.3, "l": [0.1, 0.2]}, True),
    ("agree: {left: a, right: {sum: l.*}}", {"a": 0.3, "l": [0.1, 0.2, 1e-20]}, False),
    ("agree: {left: a, right: {sum: l.*}, tolerance: 1e-9}", {"a": 0.3, "l": [0.1, 0.2, 1e-20]}, True),
    ("agree: {left: a, right: b, tolerance: 0.01}", {"a": 1.00, "b": 1.01}, True),
    ("agree: {left: a, right: b, tolerance: 0.01}", {"a": 1.00, "b": 1.0100001}, False),
    ("agree: {left: a, right: {sum: l.*}}", {"a": 0, "l": []}, True),
    ("agree: {left: a, right: {sum: l.*}}", {"a": 0}, False),
    ("agree: {left: a, right: {sum: l.*}}", {"a": 0, "l": ["0"]}, False),
    ("agree: {left: a, right: {sum: {each: l.*, of: {product: [p, q]}}}}", {"a": 7, "l": [{"p": 2, "q": 3}, {"p": 1, "q": 1}]}, True),
    ("agree: {left: a, right: {sum: {each: l.*, of: {product: [p, $.f]}}}}", {"a": 6, "f": 2, "l": [{"p": 2}, {"p": 1}]}, True),
    ("agree: {left: a, right: {difference: [b, c]}}", {"a": 1, "b": 3, "c": 2}, True),
    ("agree: {left: a, right: {quotient: [b, c]}}", {"a": 1.5, "b": 3, "c": 2}, True),
    ("agree: {left: a, right: {quotient: [1, c]}}", {"a": 1.5, "c": 0}, False),
    ("agree: {left: {product: [a, 3]}, right: 1}", {"a": 0.3333333333333333}, False),
    ("agree: {left: {count: l.*}, right: n}", {"l": [1, 2], "n": 2}, True),
    ("agree: {left: {count: l.*.a}, right: n}", {"l": [{"a": 1}, {}], "n": 1}, True),
    ("agree: {left: {count: l.*}, right: n}", {"n": 0}, False),
    ("agree: {left: {greatest: l.*}, right: {least: l.*}}", {"l": [2, 2.0]}, True),
    ("agree: {left: {greatest: l.*}, right: 1}", {"l": []}, False),
    ("agree: {left: {average: l.*}, right: 1.5}", {"l": [1, 2]}, True),
    ("agree: {left: {rounded: {value: a, digits: 2}}, right: 2.68}", {"a": 2.675}, True),
    ("agree: {left: {rounded: {value: a, digits: 2}}, right: -2.68}", {"a": -2.675}, True),
    ("agree: {left: {rounded: {value: a}}, right: 3}", {"a": 2.5}, True),
    ("agree: {left: {rounded: {value: a}}, right: 2}", {"a": 2.49999}, True),
    ("date: {path: a}", {"a": "2024-02-29"}, True),
    ("date: {path: a}", {"a": "2023-02-29"}, False),
    ("date: {path: a}", {"a": "2024-2-9"}, False),
    ("date: {path: a}", {"a": " 2024-02-09"}, False),
    ("date: {path: a}", {"a": "２０２４-02-09"}, False),
    ("date: {path: a}", {"a": 20240209}, False),
    ("date: {path: a, format: '%d.%m.%Y'}", {"a": "09.02.2024"}, True),
    ("date: {path: a, after: 2024-01-01}", {"a": "2024-01-01"}, False),
    ("date: {path: a, not_before: 2024-01-01}", {"a": "2024-01-01"}, True),
    ("date: {path: a, before: b}", {"a": "2024-01-01", "b": "2024-01-02"}, True),
    ("date: {path: a, before: b}", {"a": "2024-01-01", "b": "soon"}, False),
    ("date: {path: a, before: b}", {"a": "2024-01-01"}, False),
    ("date: {path: a, not_after: b, format: '%d.%m.%Y'}", {"a": "01.02.2024", "b": "31.01.2024"}, False),
    ("date: {path: a, after: b, format: '%Y-%m-%dT%H:%M:%S%z'}", {"a": "2024-01-01T12:00:00+0200", "b": "2024-01-01T11:30:00+0100"}, False),
    ("unique: l.*.id", {"l": [{"id": 1}, {"id": "1"}, {"id": True}]}, True),
    ("unique: l.*.id", {"l": [{"id": 1}, {"id": 1.0}]}, False),
    ("unique: l.*.id", {"l": [{"id": 1}, {}]}, False),
    ("unique: l.*", {"l": [{"a": 1, "b": 2}, {"b": 2, "a": 1}]}, False),
    ("unique: {path: l.*, by: [a, b]}", {"l": [{"a": 1, "b": 2, "c": 0}, {"a": 1, "b": 3}]}, True),
    ("unique: {path: l.*, by: [a, b]}", {"l": [{"a": 1, "b": 2, "c": 0}, {"a": 1, "b": 2}]}, False),
    ("unique: l.*", {"l": []}, None),
    ("steps: {path: w, final: t}", {"w": ["3 * 4 = 12", "So: 12 + 0.5 = 12.5 EUR."], "t": 12.5}, True),
    ("steps: {path: w, final: t}", {"w": ["3 * 4 = 12", "So: 12 + 0.5 = 12.5 EUR."], "t": 12}, False),
    ("steps: {path: w, final: t}", {"w": ["3 * 4 = 13", "13 - 1 = 12"], "t": 12}, False),
    ("steps: {path: w}", {"w": "3 * 4 = 12\n12 / 5 = 2.4"}, True),
    ("steps: {path: w}", {"w": "3 * 4 = 12\n12 / 5 = 2.5"}, False),
    ("steps: {path: w, tolerance: 0.01}", {"w": ["10 / 3 = 3.33"]}, True),
    ("steps: {path: w}", {"w": ["10 / 3 = 3.33"]}, False),
    ("steps: {path: w}", {"w": ["I just know it."]}, False),
    ("steps: {path: w}", {"w": []}, False),
    ("steps: {path: w}", {}, False),
    ("steps: {path: w, final: t}", {"w": ["x = 5", "2 + 3 = 5"], "t": "5"}, True),
    ("steps: {path: w}", {"w": [{"expression": "2 * (3 + 1)", "result": 8}]}, True),
    ("steps: {path: w}", {"w": [{"expression": "2 * (3 + 1)", "result": 9}]}, False),
    ("steps: {path: w}", {"w": [{"expression": "__import__('os')", "result": 9}]}, False),
    ("steps: {path: w, expression: e, result: r}", {"w": [{"e": "1,200 × 19%", "r": "228"}]}, True),
    ("steps: {path: w}", {"w": [5]}, False),
    ("any: [required: a, required: b]", {"b": 1}, True),
    ("any: [required: a, required: b]", {}, False),
    ("all: [required: a, required: b]", {"b": 1}, False),
    ("not: {required: a}", {}, True),
    ("not: {required: a}", {"a": 1}, False),
]


@pytest.mark.parametrize(("check", "document", "kept"), CASES, ids=range(len(CASES)))
def test_every_word_of_the_vocabulary(check: str, document: Any, kept: bool | None, keeps: Any) -> None:
    assert keeps(check, document) is kept


def test_optional_rules_pass_over_what_is_not_there(keeps: Any) -> None:
    for check in ("range: {path: a, at_least: 1}", "date: {path: a}", "type: {path: a, is: text}", "steps: {path: a}",
                  "agree: {left: a, right: 5}", "range: {path: b, at_most: a}", "unique: a.*"):  # fmt: skip
        assert keeps(check, {"b": 1}, optional="true") is None
        assert keeps(check, {"b": 1}) is False
    assert keeps("range: {path: a, at_least: 1}", {"a": None}, optional="true") is None
    assert keeps("range: {path: a, at_least: 1}", {"a": 0}, optional="true") is False
    assert keeps("agree: {left: {sum: l.*.a}, right: 3}", {"l": [{"a": 3}, {}]}, optional="true") is True
    assert keeps("agree: {left: {sum: l.*.a}, right: 0}", {}, optional="true") is None


def test_each_looks_at_every_item_from_its_own_place(keeps: Any) -> None:
    rule = {"each": "orders[*]", "_if": "{equals: {path: kind, value: sale}}"}
    check = "agree: {left: total, right: {sum: [net, $.fee]}}"
    document = {"fee": 1, "orders": [{"kind": "sale", "net": 2, "total": 3}, {"kind": "gift", "net": 2, "total": 0}]}
    assert keeps(check, document, **rule) is True
    document["orders"].append({"kind": "sale", "net": 2, "total": 2})
    assert keeps(check, document, **rule) is False
    assert keeps(check, {"fee": 1, "orders": []}, **rule) is None
    assert keeps(check, {"fee": 1}, **rule) is False
    assert keeps("required: x", {"orders": {"a": {"x": 1}, "b": {}}}, each="orders.*") is False


def test_tables_in_the_file_and_beside_it() -> None:
    head = RULES.partition("rules:\n")[0]

    def right(check: str, document: Any) -> bool:
        return judged(f"{head}rules:\n  - id: a\n    message: A.\n    {check}\n", document).status is Status.PASS

    by_code = "lookup: {path: c, table: kinds, column: code, same: {n: name}}"
    assert right(by_code, {"c": 1, "n": "invoice"})
    assert right(by_code, {"c": 1.0, "n": "invoice"})
    assert not right(by_code, {"c": 1, "n": "receipt"})
    assert not right(by_code, {"c": "1", "n": "invoice"})
    assert not right(by_code, {"c": True, "n": "invoice"})
    by_country = "lookup: {path: c, table: rates, column: country, same: {r: rate}}"
    assert right(by_country, {"c": "DE", "r": 0.19})
    assert right(by_country, {"c": "DE", "r": "0.190"})
    assert not right(by_country, {"c": "DE", "r": "0.19"})
    assert not right(by_country, {"c": "de", "r": 0.19})
    assert right("lookup: {path: r, table: rates, column: rate}", {"r": 0.2})
    assert right('lookup: {path: "l[*]", table: rates, column: country}', {"l": ["DE", "FR"]})
    assert not right('lookup: {path: "l[*]", table: rates, column: country}', {"l": ["DE", "IT"]})


# Rules files that are wrong

HEAD = "rules:\n  - id: a\n    message: x\n"
WRONG_FILES = {
    "rules.yaml:1: rules is missing": "about: x\n",
    "rules.yaml:1: expected a group with rules, tables, about": "- a\n",
    "rules.yaml:1: expected a list of rules, and not empty": "rules: []\n",
    "rules.yaml:3: not YAML: ": "rules:\n  - {id: a\n  - b]",
    "rules.yaml:4: id is given twice": HEAD + "    id: b\n",
    "rules.yaml:3: the id a is given twice, first in line 2": "rules:\n" + 2 * "  - {id: a, message: x, required: b}\n",
    "rules.yaml:2: message is missing": "rules:\n  - {id: a, required: b}\n",
    "rules.yaml:2: a rule has one check, found none": "rules:\n  - {id: a, message: x}\n",
    "rules.yaml:2: a rule has one check, found required, unique": "rules:\n  - {id: a, message: x, required: b, unique: c}\n",
    "rules.yaml:4: unknown key requires": HEAD + "    requires: b\n",
    "rules.yaml:5: unknown check sums": HEAD + "    all:\n      - sums: b\n",
    "rules.yaml:4: 'a..b' is no path": HEAD + "    required: a..b\n",
    "rules.yaml:4: expected one of error, warning": HEAD + "    severity: bad\n    required: b\n",
    "rules.yaml:4: expected a weight above 0": HEAD + "    weight: 0\n    required: b\n",
    "rules.yaml:5: a warning does not count": HEAD + "    severity: warning\n    weight: 2\n    required: b\n",
    "rules.yaml:3: expected a message": "rules:\n  - id: a\n    message:\n    required: b\n",
    "rules.yaml:2: an id has letters": "rules:\n  - {id: a b, message: x, required: b}\n",
    "rules.yaml:5: expected one of text, integer": HEAD + "    type:\n      is: string\n      path: b\n",
    "rules.yaml:4: expected one of at_least": HEAD + "    range: {path: b}\n",
    "rules.yaml:4: unknown key min": HEAD + "    range: {path: b, min: 1}\n",
    "rules.yaml:4: unknown operation add": HEAD + "    agree: {left: b, right: {add: [1, 2]}}\n",
    "rules.yaml:4: expected two terms, found 3": HEAD + "    agree: {left: b, right: {difference: [1, 2, 3]}}\n",
    "rules.yaml:4: l.* leads to several places": HEAD + "    agree: {left: b, right: l.*}\n",
    "rules.yaml:4: expected a tolerance, 0 or more": HEAD + "    agree: {left: b, right: c, tolerance: -1}\n",
    "rules.yaml:4: '(' is no regular expression": HEAD + "    pattern: {path: b, matches: '('}\n",
    "rules.yaml:4: 'soon' is no format of dates": HEAD + "    date: {path: b, format: soon}\n",
    "rules.yaml:4: '%Q' is no format of dates": HEAD + "    date: {path: b, format: '%Q'}\n",
    "rules.yaml:4: there are no tables": HEAD + "    lookup: {path: b, table: t, column: c}\n",
    "rules.yaml:2: nothing.csv cannot be read": "tables:\n  t: {file: nothing.csv}\nrules:\n  - {id: a, message: x, required: b}\n",
    "rules.yaml:2: expected either file": "tables:\n  t: {}\nrules:\n  - {id: a, message: x, required: b}\n",
    "rules.yaml:5: the columns of this row": "tables:\n  t:\n    rows:\n      - {a: 1}\n      - {b: 1}\nrules: []\n",
    "rules.yaml:6: expected one of country, rate": "tables:\n  t: {file: rates.csv}\n"
    + HEAD
    + "    lookup: {path: b, table: t, column: land}\n",
    "rules.yaml:2: the tag !!python/object/apply:os.system": "rules:\n  - !!python/object/apply:os.system ['true']\n",
    "rules.yaml:2: this value contains itself": "rules:\n  - &a [*a]\n",
    "rules.yaml:4: expected true or false": HEAD + "    optional: yes please\n    required: b\n",
}


@pytest.mark.parametrize("message", WRONG_FILES)
def test_a_wrong_rules_file_is_refused_with_its_line(message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError) as refused:
        refused_or_read(tmp_path, WRONG_FILES[message])
    assert message.partition(":")[2].partition(": ")[2] in str(refused.value)
    assert str(refused.value).startswith(message.partition(": ")[0] + ":"), str(refused.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a,a\n1,2\n", "bad.csv:1: expected a line of column names"),
        ("", "bad.csv:1: expected a line"),
        ("a,b\n1,2\n1\n", "bad.csv:3: expected 2 cells"),
        ("a,b\n", "bad.csv:2: there are no rows"),
        ('a,b\n"1,2\n', "bad.csv:2: not CSV"),
    ],
)
def test_a_wrong_table_is_refused_with_its_line(content: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "bad.csv").write_text(content)
    with pytest.raises(ValueError, match=message):
        refused_or_read(tmp_path, "tables:\n  t: {file: bad.csv}\nrules:\n  - {id: a, message: x, required: b}\n")


@pytest.mark.parametrize("line", [{}, {"rules": 5}, {"rules": " "}, {"rules": "nothing.yaml"}, {"rules": "a\0b"}, {"rules": "."}])
def test_a_line_without_a_rules_file_is_refused(line: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(ValueError):
        RulesVerifier().read({"answer": "{}"} | line, "1", Source(tmp_path, 2.0))


def test_a_changed_file_or_table_changes_the_key_and_is_read_after_prepare(tmp_path: Path) -> None:
    rules = "tables:\n  t: {file: t.csv}\nrules:\n  - {id: a, message: A., lookup: {path: a, table: t, column: x}}\n"
    (tmp_path / "rules.yaml").write_text(rules)
    (tmp_path / "t.csv").write_text("x\n1\n")
    verifier, line, source = RulesVerifier(), {"rules": "rules.yaml", "answer": '{"a": 2}'}, Source(tmp_path, 2.0)
    keys = {json.dumps(list(verifier.key(verifier.read(line, "1", source))))}
    (tmp_path / "t.csv").write_text("x\n2\n")
    verifier.prepare()
    keys.add(json.dumps(list(verifier.key(verifier.read(line, "1", source)))))
    (tmp_path / "rules.yaml").write_text(rules + "# more\n")
    verifier.prepare()
    keys.add(json.dumps(list(verifier.key(verifier.read(line, "1", source)))))
    assert len(keys) == 3


# Hostile documents


def test_patterns_and_references_to_everything_come_to_an_end() -> None:
    rules = "rules:\n  - {id: a, message: A., pattern: {path: a, matches: '(([a-z])+.)+[A-Z]([a-z])+'}}\n"
    assert judged(rules, {"a": "a" * 2000}, timeout_s=0.2).status is Status.TIMEOUT
    assert judged(rules, {"a": "a" * 50_000}).status is Status.LIMIT
    rules = 'rules:\n  - {id: a, message: A., each: "l[*]", agree: {left: $.n, right: {count: "$.l[*]"}}}\n'
    assert judged(rules, {"n": 3, "l": [0] * 3}).status is Status.PASS
    assert judged(rules, {"n": 20_000, "l": [0] * 20_000}).status is Status.LIMIT


def test_huge_numbers_come_to_an_end() -> None:
    rules = "rules:\n  - {id: a, message: A., agree: {left: {product: l.*}, right: {sum: l.*}}}\n"
    assert judged(rules, {"l": [2, 2]}).status is Status.PASS
    assert judged(rules, {"l": [10**390 + i for i in range(450)]}).status is Status.WRONG
    rules = "rules:\n  - {id: a, message: A., steps: {path: w}}\n"
    for text in ("9^20^20 = 1", "(" * 400 + "=1", "1+" * 900 + "1=1", "= " * 900, "9" * 500 + "=1", "1/0=1", "1=1 " * 40_000):
        assert judged(rules, {"w": [text]}).status in (Status.WRONG, Status.LIMIT, Status.PASS), text


documents = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(st.characters(categories=None), max_size=6)
    | st.just("2025-01-01"),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["items", "net", "country", "vat", "rate", "due", "issued", "number", "sku", "quantity", "amount", "note"]),
            inner,
        )
    ),
    max_leaves=15,
)


@settings(max_examples=150, deadline=None)
@given(
    answer=documents.map(json.dumps)
    | st.text(st.characters(categories=None), max_size=80)
    | st.binary(max_size=60).map(lambda raw: raw.decode("utf-8", "surrogateescape"))
)
def test_every_answer_gets_a_verdict(answer: str) -> None:
    judgement = judged(RULES, answer)
    assert judgement.status in SCORED
    assert judgement.points is not None and 0 <= judgement.points < 1
    json.dumps([judgement.reason, judgement.feedback], ensure_ascii=False).encode("utf-8")


@settings(max_examples=100, deadline=None)
@given(st.lists(st.decimals(-1000, 1000, places=2), max_size=8), st.integers(-3, 3))
def test_sums_are_exact(amounts: list[Decimal], cents: int) -> None:
    total = sum(amounts, Decimal(cents) / 100)
    document = '{"total": %s, "amounts": [%s]}' % (total, ", ".join(map(str, amounts)))  # noqa: UP031
    judgement = judged("rules:\n  - {id: a, message: A., agree: {left: total, right: {sum: amounts.*}}}\n", document)
    assert (judgement.status is Status.PASS) == (cents == 0)


# Paths and arithmetic


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("$", [("", {"a": [{"b": 1}, {"b": 2}, 3], "c d": {"x": 5}})]),
        ("a[0].b", [("a[0].b", 1)]),
        ("$.a[-1]", [("a[-1]", 3)]),
        ("a[*].b", [("a[0].b", 1), ("a[1].b", 2), ("a[2].b", MISSING)]),
        ("a.*.b", [("a[0].b", 1), ("a[1].b", 2), ("a[2].b", MISSING)]),
        ('["c d"].*', [('["c d"].x', 5)]),
        ("a[3]", [("a[3]", MISSING)]),
        ("a.b", [("a.b", MISSING)]),
        ("x[*]", [("x[*]", MISSING)]),
        ("a[*][*]", [("a[0][*]", MISSING), ("a[1][*]", MISSING), ("a[2][*]", MISSING)]),
    ],
)
def test_paths_lead_to_places(path: str, found: list[tuple[str, Any]]) -> None:
    assert list(read_path(path).find({"a": [{"b": 1}, {"b": 2}, 3], "c d": {"x": 5}})) == found


@pytest.mark.parametrize("path", ["", ".", "a.", ".a", "a..b", "a[", "a[]", "a[x]", "a b", "a[*]b", "$a", "a.$", "**", "a[1.5]", "a]"])
def test_what_is_no_path_is_refused(path: str) -> None:
    with pytest.raises(ValueError):
        read_path(path)


@settings(max_examples=150, deadline=None)
@given(documents, st.sampled_from(["items[*].sku", "net", "*.*", "items", "items[0]", "vat.rate", "items[-1].sku", "$[*]"]).map(read_path))
def test_without_takes_out_what_a_path_leads_to_and_nothing_else(document: Any, path: Any) -> None:
    gone = without(document, [path])
    places = [place for place, value in path.find(document) if value is not MISSING]
    assert (gone == document) == (not places)
    if isinstance(path.steps[-1], str):
        assert all(value is MISSING for _, value in path.find(gone))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1 + 2 * 3", 7), ("(1 + 2) * 3", 9), ("-2 ^ 2", -4), ("2 ** 3 ** 2", 512), ("2^-1", Fraction(1, 2)), ("- - 3", 3),
        ("10 / 4 / 5", Fraction(1, 2)), ("1,234,567.5", Fraction("1234567.5")), ("19% * 100", 19), ("$5 − 3 × 2", -1), (".5 + .5", 1),
        ("0.1+0.2", Fraction(3, 10)),
    ],
)  # fmt: skip
def test_arithmetic_has_its_value(text: str, value: Any) -> None:
    assert value_of(text) == value


@pytest.mark.parametrize(
    "text",
    ["", "1 +", "1 2", "1/0", "0^-1", "2^0.5", "2^21", "(" * 60 + "1" + ")" * 60, "(1", "1)", "x", "1e5", "__import__", "1,5", "9" * 101,
     "1" + "+1" * 1500, "(9^20)^20^20", "abs(1)", "1;2", "0x10", "1_000", "٣ + ١"],
)  # fmt: skip
def test_what_is_no_arithmetic_has_no_value(text: str) -> None:
    with pytest.raises(NoValue):
        value_of(text)


@pytest.mark.parametrize(
    ("text", "stated"),
    [
        ("3 * 4 = 12", [("12", "12")]),
        ("Step 1: 3*4 = 12, then 12+1=13.", [("12", "12"), ("13", "13")]),
        ("a = 2 + 3 = 5", [("None", "5"), ("5", "5")]),
        ("Step 2 3 * 4 = 13", [("12", "13")]),
        ("total = 5 EUR", [("None", "5")]),
        ("5 = 5", [("None", "5")]),
        ("x <= 5, y == 5, z != 5", []),
        ("2 + 2 = four", []),
        ("2 + 2 = 4,5", []),
        ("2 + 2 = 4, 5 more", [("4", "4")]),
        ("(2 + 2) × 3 = 12 (dozen)", [("12", "12")]),
        ("2^20^20 = 1", [("None", "1")]),
    ],
)
def test_equations_are_found_in_sentences(text: str, stated: list[tuple[str, str]]) -> None:
    assert [(str(equation.left), str(equation.right)) for equation in equations(text)] == stated


@settings(max_examples=200, deadline=None)
@given(st.text(st.sampled_from("0123456789+-*/^%()=., x×−$\n\ud800٣"), max_size=60))
def test_no_text_raises(text: str) -> None:
    equations(text)
    with contextlib.suppress(NoValue):
        value_of(text)


expressions = st.recursive(
    st.integers(0, 50).map(str),
    lambda inner: st.tuples(inner, st.sampled_from("+-*"), inner).map(lambda parts: f"({parts[0]} {parts[1]} {parts[2]})"),
    max_leaves=8,
)


@settings(max_examples=100, deadline=None)
@given(expressions)
def test_arithmetic_agrees_with_python(text: str) -> None:
    assert value_of(text) == eval(text)  # text of this test's own making
