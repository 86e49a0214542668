"""The one style of an SQL dataset's golds, which keeps the task learnable for a small model."""

from __future__ import annotations

import re

LONGEST = 200
_STRING = re.compile(r"'(?:[^']|'')*'")
_LOWER = re.compile(
    r"\b(select|from|where|join|on|and|or|group by|order by|having|limit|desc|count|sum|avg|min|max|in|not|is|null|like|between|distinct)\b"
)
_UNSTABLE = re.compile(r"\bdate\(|'now'|random\(|CURRENT_")


def style_faults(sql: str) -> list[str]:
    """Where a gold departs from the style: one line, capital keywords, no aliases, columns qualified exactly where there is a JOIN,
    no CTE, UNION, CASE or window, no clock.

    Raises sqlglot's errors for text that is no query.
    """
    import sqlglot
    from sqlglot import expressions as exp

    faults = []
    bare = _STRING.sub("''", sql)
    if "\n" in sql or ";" in bare or len(sql) > LONGEST:
        faults.append(f"more than one line, a semicolon, or over {LONGEST} characters")
    if lower := _LOWER.search(bare):
        faults.append(f"keyword in lower case: {lower[0]}")
    tree = sqlglot.parse_one(sql, read="sqlite")
    if tree.find(exp.Alias, exp.TableAlias):
        faults.append("alias")
    if tree.find(exp.With, exp.SetOperation, exp.Case, exp.Window):
        faults.append("CTE, UNION, CASE or window")
    if _UNSTABLE.search(sql):
        faults.append("clock or random")
    for select in tree.find_all(exp.Select):
        joined = bool(select.args.get("joins"))
        for column in select.find_all(exp.Column):
            if column.find_ancestor(exp.Select) is select and bool(column.table) != joined and not tree.find(exp.Exists):
                faults.append(f"column {column.sql()}: qualified exactly where there is a JOIN")
    return faults
