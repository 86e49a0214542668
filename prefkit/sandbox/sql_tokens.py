"""SQLite's tokens, and what can be read off them without parsing.

SQLite's lexical rules are small and exact, so facts such as "has a top-level ORDER BY" are decided on tokens: a general SQL
parser knows many dialects and refuses queries that SQLite takes. Safety never rests on this file, that is the authorizer's.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_TOKEN = re.compile(
    r"""(?P<space>\s+|--[^\n]*|/\*.*?(?:\*/|\Z))
      |(?P<blob>[xX]'[^']*'?)
      |(?P<string>'(?:[^']|'')*'?)
      |(?P<name>"(?:[^"]|"")*"?|`(?:[^`]|``)*`?|\[[^\]]*\]?)
      |(?P<word>[^\W\d][\w$]*)
      |(?P<number>(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?\w*)
      |(?P<op>\|\||<<|>>|<=|>=|<>|!=|==|->>|->|.)""",
    re.VERBOSE | re.DOTALL,
)

# Atomic, so that a long run of comments cannot be split in exponentially many ways.
_LEADING = re.compile(r"(?>\s|;|\(|--[^\n]*(?:\n|\Z)|/\*.*?(?:\*/|\Z))*+([A-Za-z]+)(?=[\s(*\"'`\[;+-]|\Z)", re.DOTALL)

QUERIES = frozenset({"SELECT", "WITH", "VALUES"})
OTHER_STATEMENTS = frozenset(
    {
        "INSERT", "UPDATE", "DELETE", "REPLACE", "CREATE", "DROP", "ALTER", "ATTACH", "DETACH", "PRAGMA", "VACUUM", "REINDEX", "ANALYZE",
        "BEGIN", "COMMIT", "END", "ROLLBACK", "SAVEPOINT", "RELEASE", "EXPLAIN",
    }
)  # fmt: skip
DATE_FUNCTIONS = frozenset({"date", "time", "datetime", "julianday", "unixepoch", "strftime", "timediff"})
CLOCK_FUNCTIONS = frozenset({"current_date", "current_time", "current_timestamp"})
RANDOM_FUNCTIONS = frozenset({"random", "randomblob"})
_COMPARISONS = frozenset({"=", "==", "<>", "!=", "<", ">", "<=", ">=", "LIKE", "IS", "NOT", "GLOB"})


class Token(NamedTuple):
    """kind: blob, string, name (quoted), word, number, op. start, end: offsets. depth: open brackets. upper: text, words in capitals."""

    kind: str
    text: str
    start: int
    end: int
    depth: int
    upper: str


def tokenize(sql: str) -> list[Token]:
    """Tokens without white space and comments. Every text has tokens; what is no SQL comes out as single characters."""
    tokens = []
    depth = 0
    for match in _TOKEN.finditer(sql):
        kind = match.lastgroup or "op"
        if kind == "space":
            continue
        text = match[0]
        if text == ")":
            depth = max(0, depth - 1)
        tokens.append(Token(kind, text, match.start(), match.end(), depth, text.upper() if kind == "word" else text))
        if text == "(":
            depth += 1
    return tokens


def leading_word(text: str) -> str:
    """The first word in capitals, past white space, comments, brackets and semicolons, if it is followed as in a statement; else ""."""
    match = _LEADING.match(text)
    return match[1].upper() if match else ""


def unquote(token: Token) -> str:
    """The name or string that a token stands for, without its quotes."""
    text = token.text
    if token.kind not in ("name", "string") or len(text) < 2:
        return text
    close = "]" if text[0] == "[" else text[0]
    body = text[1:-1] if text.endswith(close) else text[1:]
    return body if close == "]" else body.replace(close * 2, close)


def reads_clock(sql: str) -> bool:
    """Whether a query reads the clock: CURRENT_DATE and its kin, the time value 'now', or a date function without a time value.

    'now' as a value that something is compared with (`state = 'now'`, `IN ('now')`) is data, not the clock.
    """
    lowered = sql.lower()
    if "now" not in lowered and "current_" not in lowered and "(" not in lowered:
        return False
    calls: list[str] = []
    tokens = tokenize(sql)
    for i, token in enumerate(tokens):
        before = tokens[i - 1] if i else None
        if token.text == "(":
            calls.append(before.text.lower() if before is not None and before.kind == "word" else "")
        elif token.text == ")":
            call = calls.pop() if calls else ""
            if call in DATE_FUNCTIONS and _lacks_time(tokens, i, call):
                return True
        elif token.kind == "word" and token.text.lower() in CLOCK_FUNCTIONS and (before is None or before.text != "."):
            return True
        elif token.kind in ("string", "name") and unquote(token).lower() == "now":
            call = calls[-1] if calls else ""
            compared = before is not None and (before.upper in _COMPARISONS or call == "in")
            if call in DATE_FUNCTIONS or (token.kind == "string" and not compared):
                return True
    return False


def _lacks_time(tokens: list[Token], close: int, call: str) -> bool:
    """Whether the call that ends at token `close` has no time value: `date()`, `strftime('%Y')`; SQLite then takes the clock."""
    if tokens[close - 1].text == "(":
        return True
    return call == "strftime" and close >= 2 and tokens[close - 1].kind == "string" and tokens[close - 2].text == "("
