"""Why an answer was wrong, as one of a few kinds that a reader can act on."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

NOT_SCORED = "not scored"
_BY_STATUS = {
    "TIMEOUT": "time limit",
    "LIMIT": "resource limit",
    "POLICY": "not allowed",
    "TAMPER": "tampering",
    "UNVERIFIABLE": NOT_SCORED,
    "INFRA": NOT_SCORED,
    "REFUSED": NOT_SCORED,
}
# The first words of a reason, as the verifiers and SQLite write them. They are matched from the start on, because what follows may quote
# the answer's own text.
_BY_REASON = (
    ("no SQL found", r"no sql|empty query"),
    ("no such column", r"no such column"),
    ("no such table", r"no such table"),
    ("no such function", r"no such function|wrong number of arguments"),
    ("ambiguous column", r"ambiguous column"),
    ("misused aggregate", r"misuse of"),
    ("syntax error", r"syntax error|near \"|incomplete input|unrecognized token"),
    ("wrong number of columns", r"wrong number of columns"),
    ("empty result", r"no rows"),
    ("wrong number of rows", r"wrong number of rows"),
    ("wrong rows", r"wrong rows"),
    ("wrong order", r"wrong order"),
)


def failure_kind(answer: Mapping[str, Any]) -> str | None:
    """The kind of one answer's failure from its status and reason; None where the answer is right."""
    status, reason = str(answer["status"]).upper(), str(answer.get("reason") or "").strip().lower()
    if status == "PASS":
        return None
    if status in _BY_STATUS:
        return _BY_STATUS[status]
    for kind, pattern in _BY_REASON:
        if re.match(pattern, reason):
            return kind
    return "wrong result" if status == "WRONG" else "other error"


def failure_counts(answers: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """How many answers failed in each way, the most frequent first; right answers are not in it."""
    kinds = Counter(kind for answer in answers if (kind := failure_kind(answer)) is not None)
    return dict(sorted(kinds.items(), key=lambda item: (-item[1], item[0])))
