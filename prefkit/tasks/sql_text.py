"""Queries and questions as text: when two say the same, and how hard a query is. Nothing is executed here."""

from __future__ import annotations

import re
from typing import Any

_TOKEN = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|\b\d+(?:\.\d+)?\b|\s+")
_LITERAL = re.compile(r"['\d]")
_DATE = re.compile(r"strftime\(|\b(?:date|datetime|julianday)\(|'\d{4}-\d{2}(?:-\d{2})?'", re.IGNORECASE)
_AGGREGATE = re.compile(r"\b(count|sum|avg|min|max|total|group_concat)\s*\(", re.IGNORECASE)
_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)?")


def normalised(sql: str) -> str:
    """The query in one spelling: one space between words, lower case outside quotes, no semicolon at the end.

    >>> normalised("SELECT  Name FROM t WHERE City = 'Bad  Ems';")
    "select name from t where city = 'Bad  Ems'"
    """
    text, end = "", 0
    bare = sql.strip().rstrip(";").strip()
    for match in _TOKEN.finditer(bare):
        text += bare[end : match.start()].lower() + (" " if match[0].isspace() else match[0])
        end = match.end()
    return text + bare[end:].lower()


def skeleton(sql: str) -> str:
    """The query with every literal masked: two queries of one skeleton differ in their literals only.

    >>> skeleton("SELECT name FROM products WHERE price > 20 LIMIT 3")
    'select name from products where price > ? limit ?'
    """

    def mask(match: re.Match[str]) -> str:
        if match[0].isspace():
            return " "
        return "?" if _LITERAL.match(match[0]) else match[0]

    return _TOKEN.sub(mask, sql.strip().rstrip(";").strip()).lower()


def query_forms(sql: str) -> set[str]:
    """What identifies a query's form with its columns: its skeleton, and the same without the names of tables before columns and without
    aliases, so that two ways of writing one form are seen to be the same.

    >>> query_forms("SELECT t.Name FROM Track AS t LIMIT 3") & query_forms("select name from track limit 5")
    {'select name from track limit ?'}
    """
    import sqlglot
    from sqlglot import expressions as exp
    from sqlglot.errors import SqlglotError

    forms = {skeleton(sql)}
    try:
        tree = sqlglot.parse_one(sql, read="sqlite")
    except SqlglotError:
        return forms

    def bare(node: Any) -> Any:
        if isinstance(node, exp.Literal):
            return exp.Placeholder()
        if isinstance(node, exp.Alias):
            return node.this.transform(bare)
        if isinstance(node, exp.Column):
            return exp.column(node.name.lower()) if node.name else node
        if isinstance(node, exp.Table):
            return exp.to_table(node.name.lower())
        return node

    return forms | {tree.transform(bare).sql("sqlite", identify=False).replace('"', "").lower()}


def words(question: str) -> list[str]:
    """The words and numbers of a question in lower case, without punctuation."""
    return _WORD.findall(question.lower())


def level_of(sql: str) -> int:
    """How hard a query is: 1 filter, 2 aggregate, 3 group, having, top, 4 joins, 5 subqueries, dates, NULL logic, compound queries.

    A query that SQLite takes but the parser does not is counted as 5, because it is out of the ordinary.
    """
    import sqlglot
    from sqlglot import expressions as exp
    from sqlglot.errors import SqlglotError

    try:
        tree = sqlglot.parse_one(sql, read="sqlite")
    except SqlglotError:
        return 5
    selects = list(tree.find_all(exp.Select))
    nullness = [node for node in tree.find_all(exp.Is) if isinstance(node.expression, exp.Null)]
    if len(selects) != 1 or tree.find(exp.SetOperation, exp.With, exp.Window) or nullness or _DATE.search(sql):
        return 5
    if tree.find(exp.Join):
        return 4
    if tree.find(exp.Group, exp.Having) or tree.find(exp.Limit):
        return 3
    return 2 if tree.find(exp.AggFunc) or _AGGREGATE.search(sql) else 1
