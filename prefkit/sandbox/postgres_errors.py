"""What an error of PostgreSQL says of the query, by its SQLSTATE (https://www.postgresql.org/docs/current/errcodes-appendix.html).

| code                       | status  | reason                                     |
|----------------------------|---------|--------------------------------------------|
| 25006, data-modifying WITH | policy  | not a query: writes / DELETE …             |
| 42501                      | policy  | permission denied for …                    |
| 42601 with two statements  | policy  | more than one statement                    |
| 57014                      | timeout | time limit: wall clock                     |
| 53100, 53400               | limit   | limit: temporary storage                   |
| 53200, 54000               | limit   | limit: memory                              |
| 54001                      | error   | too deeply nested                          |
| 53300, 57P…, 08…, 55P03    | infra   | the server's words                         |
| XX…                        | crash   | the database engine failed: …              |
| everything else            | error   | no such table: x, syntax error near "x", … |
"""

from __future__ import annotations

import re
from typing import Any

from prefkit.sandbox.sql_tokens import tokenize

_WRITES = ("INSERT", "UPDATE", "DELETE", "MERGE")
_UNIFORM = (
    ("42601", re.compile(r'syntax error at or near ("(?:[^"]|"")*")'), r"syntax error near \1"),
    ("42601", re.compile(r"syntax error at end of input"), "syntax error: incomplete input"),
    ("42P01", re.compile(r'relation "([^"]*)" does not exist'), r"no such table: \1"),
    ("42P01", re.compile(r'missing FROM-clause entry for table "([^"]*)"'), r"no such table: \1"),
    ("42703", re.compile(r'column "?([^"]*?)"? does not exist'), r"no such column: \1"),
    ("42702", re.compile(r'column reference "([^"]*)" is ambiguous'), r"ambiguous column name: \1"),
    ("42883", re.compile(r"function ([^(]*)\(.*\) does not exist"), r"no such function: \1"),
)


def result_of(code: str, message: str, sql: str) -> dict[str, Any]:
    """{"status": …, "reason": …} in the words that failures are grouped by, whatever the engine."""
    message = " ".join(message.split())[:300]
    if code == "57014":
        return {"status": "timeout", "reason": "time limit: wall clock"}
    if code == "25006" or "data-modifying statements" in message or "INTO is not allowed" in message:
        return {"status": "policy", "reason": f"not a query: {written(sql) or 'writes'}"}
    if message.startswith("bind message supplies"):
        return {"status": "error", "reason": "the query has parameters"}
    if code == "42501":
        return {"status": "policy", "reason": message}
    if code == "42601":
        if "multiple commands" in message:
            return {"status": "policy", "reason": "more than one statement"}
        word = written(sql)
        if word:
            return {"status": "policy", "reason": f"not a query: {word}"}
    if code in ("53100", "53400"):
        return {"status": "limit", "reason": "limit: temporary storage"}
    if code in ("53200", "54000"):
        return {"status": "limit", "reason": "limit: memory"}
    if code == "54001":
        return {"status": "error", "reason": "too deeply nested"}
    if code == "53300" or code == "55P03" or code.startswith(("57P", "08")):
        return {"status": "infra", "reason": message}
    if code.startswith("XX"):
        return {"status": "crash", "reason": f"the database engine failed: {message}"}
    return {"status": "error", "reason": _uniform(code, message)}


def written(sql: str) -> str:
    """The word of the statement that stands behind WITH …, where that writes; "" for a query."""
    tokens = tokenize(sql)
    for i, token in enumerate(tokens):
        opens = i == 0 or tokens[i - 1].text in ("(", ")")
        if token.kind == "word" and token.upper in _WRITES and opens:
            return token.upper
        if token.depth == 0 and token.upper == "INTO" and tokens[0].upper in ("SELECT", "WITH"):
            return "SELECT INTO"
    return ""


def _uniform(code: str, message: str) -> str:
    for known, pattern, words in _UNIFORM:
        found = pattern.search(message) if known == code else None
        if found:
            return found.expand(words)
    return message
