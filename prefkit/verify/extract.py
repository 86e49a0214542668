"""Find the query in a model's free text.

| where it may stand                        | rule                                                                                        |
|-------------------------------------------|---------------------------------------------------------------------------------------------|
| `<think>…</think>` and its like           | not part of the answer; a thought that never ends has no answer after it                    |
| fences, any label or none, also unclosed  | a block counts when it begins like a statement (comments and brackets before it are skipped) |
| several blocks                            | the last that parses; where none parses, the last                                           |
| no such block, `inline code`              | the same, for code spans                                                                    |
| plain text                                | from a place that begins like a query; of several the last that parses                      |
| prose after it                            | cut at the first semicolon, or else at the last line with which it still parses             |
| FROM t SELECT x, FROM t                   | a query where the engine is DuckDB; in plain text after a colon or empty line, in capitals   |

A second statement after the semicolon is kept, so that the verifier sees it (and says POLICY). An answer that begins in the middle of a
query (because the prompt ended in SELECT) is not completed. Statements that write are returned like any other: judging them is not
this file's work, and safety is the sandbox's.
"""

from __future__ import annotations

import re
from functools import lru_cache

from prefkit.sandbox.limits import MAX_SQL
from prefkit.sandbox.sql_tokens import OTHER_STATEMENTS, QUERIES, Token, leading_word, tokenize
from prefkit.verify.answer_text import after_label, fenced_parts, without_thoughts

_QUERIES = {
    "sqlite": QUERIES,
    "duckdb": QUERIES | {"FROM", "TABLE", "PIVOT", "UNPIVOT"},
    "postgres": QUERIES | {"TABLE"},
}
"""How a query may begin, by engine."""
_MORE_STATEMENTS = {
    "sqlite": OTHER_STATEMENTS,
    "duckdb": OTHER_STATEMENTS | {"COPY", "SET", "INSTALL", "LOAD", "CALL", "EXPORT", "IMPORT", "USE", "MERGE", "TRUNCATE", "SUMMARIZE"},
    "postgres": OTHER_STATEMENTS | {"COPY", "SET", "RESET", "LOAD", "CALL", "DO", "MERGE", "TRUNCATE", "GRANT", "REVOKE", "LOCK"},
}
"""How other statements begin: found, so that they can be refused."""
_KEYWORDS = QUERIES | OTHER_STATEMENTS | frozenset(
    {
        "FROM", "WHERE", "GROUP", "BY", "HAVING", "ORDER", "LIMIT", "OFFSET", "JOIN", "LEFT", "RIGHT", "FULL", "INNER", "OUTER",
        "CROSS", "NATURAL", "ON", "USING", "AS", "AND", "OR", "NOT", "IN", "IS", "NULL", "LIKE", "GLOB", "BETWEEN", "EXISTS", "CASE",
        "WHEN", "THEN", "ELSE", "DISTINCT", "ALL", "UNION", "INTERSECT", "EXCEPT", "ASC", "DESC", "NULLS", "FIRST", "LAST", "OVER",
        "PARTITION", "ROWS", "RANGE", "GROUPS", "UNBOUNDED", "PRECEDING", "FOLLOWING", "CURRENT", "ROW", "FILTER", "WINDOW",
        "RECURSIVE", "CAST", "COLLATE", "ESCAPE", "INDEXED", "MATERIALIZED", "MATCH", "REGEXP", "ISNULL", "NOTNULL", "EXCLUDE", "TIES",
        "NO", "OTHERS",
    }
)  # fmt: skip
_SPAN = re.compile(r"`([^`\n]+)`")
_LINE_START = re.compile(r'^[ \t]*(?:[-*>]\s+|\d+[.)]\s+)?(?:\w+:[ \t]*)?[*"]*(?=(?:SELECT|WITH|VALUES)\b)', re.IGNORECASE | re.MULTILINE)
_FROM_FIRST = re.compile(r"(?:\A|:[ \t]*\n|\n[ \t]*\n)[ \t]*(?=FROM\b)")
_CAPITALS = re.compile(r"\b(?:SELECT|WITH)\b")
_ANYWHERE = re.compile(r"\b(?:select|with)\b", re.IGNORECASE)
_WITH = re.compile(r"WITH\s+(?:RECURSIVE\s+)?[\w\"`\[\]]+\s*(?:\([^)]*\)\s*)?AS\s*(?:(?:NOT\s+)?MATERIALIZED\s*)?\(", re.IGNORECASE)
_JSON_STRING = re.compile(r'((?:[^"\\]|\\.)*)"', re.DOTALL)
_END_MARK = re.compile(r"<\|[^|<>\n]{1,40}\|>|</s>")
_MAX_TEXT = 4 * MAX_SQL
_MAX_TRIALS = 40


@lru_cache(maxsize=8192)
def extract_sql(text: str, engine: str = "sqlite") -> str | None:
    """The query in `text`, without its trailing semicolon, or None where there is none. Never raises; time is linear but for parsing.

    engine: "sqlite", "duckdb" or "postgres", whose dialect it is.

    >>> extract_sql("Here it is:\\n```sql\\nSELECT 1;\\n```\\nHope this helps!")
    'SELECT 1'
    """
    text = _END_MARK.split(without_thoughts(text[-_MAX_TEXT:]), maxsplit=1)[0]
    parts = fenced_parts(text)
    queries = _QUERIES[engine]
    statements = queries | _MORE_STATEMENTS[engine]
    blocks = [_label_and_body(part, statements) for part in parts[1::2]]
    found = _last_that_parses([body for _, body in blocks if leading_word(body) in statements], engine)
    if found is None and len(parts) == 1 and leading_word(text) in statements and _is_statement(text, engine):
        found = _without_prose_after(text, engine)
    if found is None:
        found = _last_that_parses([span for span in _SPAN.findall(text) if leading_word(span) in queries], engine)
    if found is None:
        # A block labelled as SQL is the answer even where it is none: its error says more than "no SQL".
        labelled = [body for label, body in blocks if "sql" in label and body.strip()]
        found = labelled[-1] if labelled else _from_prose("\n".join([*parts[0::2], *(body for _, body in blocks)]), engine)
    return _trim(found) if found else None


def _is_statement(text: str, engine: str) -> bool:
    """Whether text that begins with a statement's word is one. Sentences begin with a capital: what begins with select or SELECT is a
    query, however wrong what follows. From, Use and Set begin sentences too: there it has to be FROM, or to parse."""
    word = leading_word(text)
    if word in QUERIES | OTHER_STATEMENTS:
        return text.lstrip()[:4].islower() or not _is_prose(text)
    return not _is_prose(text) and (text.lstrip()[: len(word)].isupper() or _parses(_without_prose_after(text, engine), engine))


def _label_and_body(block: str, statements: frozenset[str]) -> tuple[str, str]:
    """What a fence holds: its label in small letters ("" without one) and the rest. The label may stand on the query's own line."""
    if leading_word(block) in statements:
        return "", block
    first, newline, rest = block.partition("\n")
    label, after = after_label(first)
    body = rest if newline and leading_word(after) not in statements else after + newline + rest
    return label, body


def _last_that_parses(blocks: list[str], engine: str) -> str | None:
    if len(blocks) <= 1:
        return blocks[0] if blocks else None
    return next((block for block in reversed(blocks) if _parses(block, engine)), blocks[-1])


def _from_prose(text: str, engine: str) -> str | None:
    """The query somewhere in text: of the places that begin like one, the last whose query parses.

    A place inside a query that parses is no beginning of its own. Small letters inside a line count only where there is nothing else.
    """
    clear = {match.end() for match in _LINE_START.finditer(text)} | {match.start() for match in _CAPITALS.finditer(text)}
    if engine == "duckdb":
        # Behind a SELECT it is that query's FROM, also where the query does not parse.
        clear |= {match.end() for match in _FROM_FIRST.finditer(text) if match.end() < min(clear, default=len(text))}
    for starts in (clear, {match.start() for match in _ANYWHERE.finditer(text)}):
        found, parsed, end = None, False, 0
        for start in sorted(starts)[:_MAX_TRIALS]:
            if start < end or _is_prose(text[start:]):
                continue
            candidate = _without_prose_after(_unwrap(text, start), engine)
            if _parses(candidate, engine):
                found, parsed, end = candidate, True, start + len(candidate)
            elif not parsed:
                found = candidate
        if found is not None:
            return found
    return None


def _unwrap(text: str, start: int) -> str:
    """The text from `start`, up to the closing mark where an opening one stands before it: bold, or a JSON string."""
    if text.endswith("**", 0, start):
        return text[start:].partition("**")[0]
    if text.endswith('"', 0, start) and (closed := _JSON_STRING.match(text, start)):
        return closed[1].replace("\\n", "\n").replace('\\"', '"').replace("\\\\", "\\")
    return text[start:]


def _is_prose(text: str) -> bool:
    """Whether text that begins with Select or With is a sentence: three plain words follow at once, or With without AS ( .

    A word in capitals is SQL, however wrong what follows.
    """
    word = leading_word(text)
    if word == "WITH" and _WITH.search(text[:2000]):
        return False
    if text.lstrip()[: len(word)].isupper():
        return False
    if word == "WITH":
        return True
    tokens = tokenize(text[:400])
    while tokens and tokens[0].text in "(;":
        tokens = tokens[1:]
    return _plain_words(tokens[1:4], 3)


def _plain_words(tokens: list[Token], count: int) -> bool:
    return len(tokens) >= count and all(token.kind == "word" and token.upper not in _KEYWORDS for token in tokens[:count])


def _without_prose_after(text: str, engine: str) -> str:
    """Cut what follows the query: after a semicolon unless another statement stands there, else by lines, where it reads like prose."""
    tokens = tokenize(text)
    for i, token in enumerate(tokens):
        if token.text == ";":
            rest = tokens[i + 1 :]
            if not rest or (rest[0].upper in _QUERIES[engine] | _MORE_STATEMENTS[engine] and not _plain_words(rest[1:4], 3)):
                return text
            return text[: token.end]
    if not any(_plain_words(tokens[i : i + 3], 3) for i in range(len(tokens) - 2)):
        return text
    ends = [match.start() for match in re.finditer(r"\n", text)]
    for end in reversed(ends[:_MAX_TRIALS]):
        if _parses(text[:end], engine):
            return text[:end]
    return text


def _parses(sql: str, engine: str) -> bool:
    """Whether sqlglot takes the text as the engine's; used to choose among candidates alone, since it refuses some that an engine takes."""
    import logging

    import sqlglot
    from sqlglot import errors, exp

    if len(sql) > 20_000:
        return False
    logging.getLogger("sqlglot").setLevel(logging.ERROR)
    try:
        statements = [statement for statement in sqlglot.parse(sql, read=engine) if statement is not None]
    except (errors.SqlglotError, RecursionError, ValueError, IndexError, AttributeError, TypeError):
        return False
    return bool(statements) and not any(isinstance(statement, exp.Command) for statement in statements)


def _trim(sql: str) -> str | None:
    """Without the semicolons, comments and white space at the end; None where nothing is left."""
    sql = sql.strip()
    if not sql.endswith("*/") and "--" not in sql.rpartition("\n")[2]:
        return sql.rstrip("; \t\r\n") or None
    tokens = tokenize(sql)
    while tokens and tokens[-1].text == ";":
        tokens.pop()
    return sql[: tokens[-1].end].strip() if tokens else None
