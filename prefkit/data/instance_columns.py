"""Which columns of a table may be shuffled, and which of them only together.

| column                                                           | what happens                                                |
|------------------------------------------------------------------|-------------------------------------------------------------|
| in the primary key, in a foreign key, or referred to by one      | kept: keys stay intact                                      |
| in a UNIQUE constraint or index of several columns               | shuffled together with the others of it                     |
| in a CHECK of several columns                                    | shuffled together with the others of it                     |
| in either of these beside a kept column                          | kept: a shuffle could break the constraint                  |
| in a UNIQUE index that is partial or over an expression          | kept                                                        |
| generated                                                        | computed again; in a constraint it stands for its sources   |
| any other                                                        | shuffled on its own, with its NULLs                         |

A place and its country are shuffled apart like any two columns: no constraint ties them, and a query that filters on one where the
question means the other is to be found out.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from prefkit.sandbox.sql_tokens import Token, tokenize, unquote
from prefkit.tasks.schema_text import quoted


@dataclass(frozen=True, slots=True)
class Reference:
    """A foreign key: `columns` of the table refer to `targets` of the table `parent`."""

    columns: tuple[str, ...]
    parent: str
    targets: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Columns:
    """The stored columns of a table, in their order: `kept` as they are, and `groups` that are shuffled, each as one."""

    kept: tuple[str, ...]
    groups: tuple[tuple[str, ...], ...]


def references(connection: sqlite3.Connection, table: str, schema: str = "main") -> list[Reference]:
    """The foreign keys of a table. One that names no columns of its parent means the parent's primary key."""
    found: dict[int, list[tuple]] = {}
    for row in connection.execute(f"PRAGMA {schema}.foreign_key_list({quoted(table)})"):
        found.setdefault(row[0], []).append(row)
    keys = []
    for number in sorted(found):
        rows = sorted(found[number], key=lambda row: row[1])
        targets = [row[4] for row in rows]
        if None in targets:
            targets = _primary_key(connection, rows[0][2], schema)
        keys.append(Reference(tuple(row[3] for row in rows), rows[0][2], tuple(targets)))
    return keys


def columns_of(connection: sqlite3.Connection, table: str, sql: str, referred_to: Iterable[str], schema: str = "main") -> Columns:
    """How the columns of a table are treated. sql: its CREATE TABLE. referred_to: its columns that foreign keys refer to."""
    info = connection.execute(f"PRAGMA {schema}.table_xinfo({quoted(table)})").fetchall()
    stored = [row[1] for row in info if row[6] == 0]
    names = {row[1].lower(): row[1] for row in info}
    tokens = tokenize(sql)
    sources = dict(zip([row[1] for row in info if row[6] in (2, 3)], _generated(tokens, names), strict=False))

    def plain(found: Iterable[str]) -> set[str]:
        """With generated columns replaced by what they are computed from."""
        todo, done = list(found), set()
        while todo:
            name = todo.pop()
            if name not in done:
                done.add(name)
                todo += sources.get(name, ())
        return done & set(stored)

    kept = plain(row[1] for row in info if row[5]) | {names[column.lower()] for column in referred_to if column.lower() in names}
    for key in references(connection, table, schema):
        kept |= plain(names[column.lower()] for column in key.columns if column.lower() in names)
    tied = [plain(found) for found in _checks(tokens, names)]
    tied += [plain([row[1]]) for row in info if row[6] in (2, 3) and row[3]]
    for found, whole in _unique(connection, table, names, schema):
        if whole:
            tied.append(plain(found))
        else:
            kept |= plain(found)
    return _grouped(stored, kept, tied)


def _grouped(stored: Sequence[str], kept: set[str], tied: Iterable[set[str]]) -> Columns:
    """Columns that a constraint ties are joined, directly or over others; a group that holds a kept column is kept."""
    group_of = {name: {name} for name in stored}
    for names in tied:
        joined = set().union(*(group_of[name] for name in names)) if names else set()
        group_of.update(dict.fromkeys(joined, joined))
    kept = {name for name in stored if group_of[name] & kept}
    groups = {id(group_of[name]): tuple(other for other in stored if other in group_of[name]) for name in stored if name not in kept}
    return Columns(tuple(name for name in stored if name in kept), tuple(groups.values()))


def _primary_key(connection: sqlite3.Connection, table: str, schema: str) -> list[str]:
    rows = [row for row in connection.execute(f"PRAGMA {schema}.table_info({quoted(table)})") if row[5]]
    return [row[1] for row in sorted(rows, key=lambda row: row[5])]


def _unique(connection: sqlite3.Connection, table: str, names: dict[str, str], schema: str) -> list[tuple[list[str], bool]]:
    """(columns, whether they are all that decides) of each unique index that is not the primary key."""
    found = []
    for _, index, unique, origin, partial in connection.execute(f"PRAGMA {schema}.index_list({quoted(table)})").fetchall():
        if not unique or origin == "pk":
            continue
        parts = [row for row in connection.execute(f"PRAGMA {schema}.index_xinfo({quoted(index)})") if row[5]]
        if partial or any(row[1] < 0 for row in parts):
            row = connection.execute(f"SELECT sql FROM {schema}.sqlite_master WHERE type = 'index' AND name = ?", (index,)).fetchone()
            found.append((_named(tokenize(row[0] or ""), names), False))
        else:
            found.append(([names[row[2].lower()] for row in parts], True))
    return found


def _checks(tokens: Sequence[Token], names: dict[str, str]) -> list[list[str]]:
    """The columns that each CHECK of a CREATE TABLE names."""
    return [_named(_bracket(tokens, i + 1), names) for i, token in enumerate(tokens) if token.upper == "CHECK"]


def _generated(tokens: Sequence[Token], names: dict[str, str]) -> list[list[str]]:
    """The columns that each generated column is computed from, in the order of the generated columns."""
    starts = [i for i, token in enumerate(tokens[:-1]) if token.upper == "AS" and token.depth == 1 and tokens[i + 1].text == "("]
    return [_named(_bracket(tokens, i + 1), names) for i in starts]


def _bracket(tokens: Sequence[Token], start: int) -> list[Token]:
    """The tokens between the bracket at `start` and the one that closes it."""
    if start >= len(tokens) or tokens[start].text != "(":
        return []
    depth = tokens[start].depth
    end = next((i for i in range(start + 1, len(tokens)) if tokens[i].text == ")" and tokens[i].depth == depth), len(tokens))
    return list(tokens[start + 1 : end])


def _named(tokens: Iterable[Token], names: dict[str, str]) -> list[str]:
    said = (unquote(token).lower() for token in tokens if token.kind in ("word", "name"))
    return list(dict.fromkeys(names[name] for name in said if name in names))
