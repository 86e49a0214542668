"""What a user's tables and columns are, read from the schema and the rows: names, categories, numbers, dates, keys, and who refers to whom.

| role     | what it is                                                                                       |
|----------|--------------------------------------------------------------------------------------------------|
| key      | in the primary key or a foreign key, or called …id, …key, …uuid                                  |
| label    | what a person calls a row by: its name or title, first and last name, else its key               |
| category | text of few different values that repeat, without NULLs; or a whole number of few values         |
| number   | a quantity: no key, no code, no year, at least two different values                            |
| date     | text that is a date, or a date with a time, in every row that has one                            |
| flag     | 0 and 1                                                                                          |
| text     | any other text                                                                                   |

Foreign keys are those that the schema declares; where it declares none at all, a column named like the key of one other table, whose
values all stand there, counts as one.
"""

from __future__ import annotations

import datetime
import re
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from prefkit.data.augment_words import plural, shared_prefix, singular, word_set, words_of
from prefkit.data.instance_columns import quoted, references
from prefkit.tasks.schema_text import as_written, connect, table_names

MOST_VALUES = 2_000
"""Different values of a column that are looked at."""
LONGEST_VALUE = 40
_KEYS = frozenset({"id", "ids", "key", "uuid", "guid", "rowid", "hash"})
_CODES = word_set(
    "code zip phone fax number no num isbn vin mcc extension ext year month day postal latitude longitude lat lng lon version level "
    "ms epoch timestamp mobile telephone"
)
_NAMES = ("name", "title", "label", "subject", "headline", "username")
_NO_LABEL = word_set("email mail phone fax address street url website homepage description notes note text comment password hash")
_SHORT = {
    "qty": "quantity", "amt": "amount", "desc": "description", "addr": "address", "dt": "date", "cust": "customer",
    "dept": "department", "emp": "employee", "txn": "transaction", "yr": "year", "pct": "percent", "dob": "date of birth",
}  # fmt: skip
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TIME = re.compile(r"[ T]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?")


@dataclass(frozen=True, slots=True)
class Column:
    """A column. sql: its name as a query writes it. said: as a person says it. kind: text, date, datetime, integer, real, flag or other.

    rows, nulls: over all data instances. distinct, filled: different values, and rows with any, of the first instance. values: (value,
    how often there), the commonest first, of the values that stand in every instance, at most about MOST_VALUES. unique: no value stands
    twice, in any instance.
    """

    table: str
    name: str
    sql: str
    said: str
    kind: str
    key: bool
    rows: int
    nulls: int
    distinct: int
    filled: int
    unique: bool
    values: tuple[tuple[object, int], ...]

    @property
    def scale(self) -> float:
        """Rows of the first instance for each row that `values` counts."""
        return self.filled / max(1, sum(count for _, count in self.values))

    @property
    def category(self) -> bool:
        few = 2 <= self.distinct <= 40 and 10 * self.distinct <= 6 * self.filled and not self.contact
        kinds = self.kind == "text" or (self.kind == "integer" and self.distinct <= 12)
        return few and kinds and not self.key and not self.nulls and all(sayable(value) for value, _ in self.values)

    @property
    def contact(self) -> bool:
        """Whether it says how to reach somebody, or is a code: nobody groups by it."""
        words = self.said.split(" ")
        return words[-1] in _CODES or bool(set(words) & _NO_LABEL)

    @property
    def number(self) -> bool:
        return self.kind in ("integer", "real") and not self.key and self.distinct >= 2 and self.said.split(" ")[-1] not in _CODES

    @property
    def date(self) -> bool:
        return self.kind in ("date", "datetime")

    @property
    def text(self) -> bool:
        return self.kind == "text" and not self.key


@dataclass(frozen=True, slots=True)
class Link:
    """A foreign key of one column. said: the parent as the child's column calls it (support rep), else the parent's own name."""

    child: str
    column: Column
    parent: str
    target: Column
    said: str


@dataclass(slots=True)
class Table:
    """A table. sql: its name as a query writes it. one, many: what a person calls a row, and several. label: see above; names: labels that
    stand in every instance, at most MOST_VALUES; key: its one key column, where it has one. rows: of the first instance."""

    name: str
    sql: str
    one: str
    many: str
    rows: int
    columns: list[Column]
    key: Column | None
    label: tuple[Column, ...] = ()
    unique_label: bool = False
    names: tuple[tuple, ...] = ()
    links: list[Link] = field(default_factory=list)

    @property
    def bridge(self) -> bool:
        """Whether it only joins two other tables: it has nothing of its own to ask about."""
        return len(self.links) >= 2 and all(column.key for column in self.columns)


def sayable(value: object) -> bool:
    """Whether a value can stand in a question as it is."""
    if not isinstance(value, str):
        return value is not None and not isinstance(value, bytes)
    return 0 < len(value) <= LONGEST_VALUE and value == value.strip() and value.isprintable() and '"' not in value


def read_tables(databases: Sequence[str | Path]) -> list[Table]:
    """The tables of a database that have rows in every data instance. Raises DatabaseError for a file that is none."""
    connections = [connect(path) for path in databases]
    try:
        names = table_names(connections[0])
        tables = _described(connections, names)
        declared = _declared_links(connections[0], tables)
        for link in declared or _guessed_links(connections, tables):
            tables[link.child].links.append(link)
        for table in tables.values():
            _label(connections, table)
        return list(tables.values())
    finally:
        for connection in connections:
            connection.close()


def _described(connections: Sequence[sqlite3.Connection], names: Sequence[str]) -> dict[str, Table]:
    cut = shared_prefix([words_of(name) for name in names])
    tables = {}
    for name in names:
        if not all(_count(connection, name) for connection in connections):
            continue
        one = singular(" ".join(_SHORT.get(word, word) for word in words_of(name)[cut:]))
        info = [row for row in connections[0].execute(f"PRAGMA table_xinfo({quoted(name)})") if row[6] != 1]
        in_keys = {row[1] for row in info if row[5]}
        in_keys.update(column for key in references(connections[0], name) for column in key.columns)
        prefix = shared_prefix([words_of(row[1]) for row in info])
        columns = [_column(connections, name, row[1], _said(row[1], prefix, one), row[1] in in_keys) for row in info]
        keys = [column for row, column in zip(info, columns, strict=True) if row[5]]
        if not keys:  # a table without a declared key: its first column, where that is one
            keys = [column for column in columns[:1] if column.unique and column.key]
        key = keys[0] if len(keys) == 1 else None
        sql = as_written(connections[0], name)
        tables[name] = Table(name, sql, one, plural(one), _count(connections[0], name), columns, key)
    return tables


def _said(name: str, prefix: int, table: str) -> str:
    words = [_SHORT.get(word, word) for word in words_of(name)[prefix:]]
    if len(words) > 1 and words[-1] in ("at", "ts") and not _participle(words[-2]):
        words = words[:-1]
    return f"{table} id" if words == ["id"] else " ".join(words)


def _participle(word: str) -> bool:
    return word.endswith("ed") or word in ("sent", "paid", "sold", "made", "born", "begun", "built", "left")


def _column(connections: Sequence[sqlite3.Connection], table: str, name: str, said: str, key: bool) -> Column:
    where = f"{quoted(name)} IS NOT NULL"
    rows = sum(_count(connection, table) for connection in connections)
    filled = [_count(connection, table, where) for connection in connections]
    distinct = [_one(connection, f"SELECT COUNT(DISTINCT {quoted(name)}) FROM {quoted(table)}") for connection in connections]
    values = _values(connections, table, name)
    return Column(
        table=table,
        name=name,
        sql=as_written(connections[0], name, table),
        said=said,
        kind=_kind([value for value, _ in values]),
        key=key or said.split(" ")[-1] in _KEYS,
        rows=rows,
        nulls=rows - sum(filled),
        distinct=distinct[0],
        filled=filled[0],
        unique=sum(filled) == rows and distinct == filled,
        values=values,
    )


def _values(connections: Sequence[sqlite3.Connection], table: str, name: str) -> tuple[tuple[object, int], ...]:
    """The values with their counts in the first instance, of those that stand in every instance; none where text is not UTF-8.

    Of too many, the commonest and an even spread.
    """
    column = quoted(name)
    counted = f"SELECT {column} AS v, COUNT(*) AS c FROM {quoted(table)} WHERE {column} IS NOT NULL GROUP BY 1"
    ranks = "row_number() OVER (ORDER BY c DESC, v) AS top, row_number() OVER (ORDER BY v) AS place, COUNT(*) OVER () AS n"
    chosen = f"n <= {MOST_VALUES} OR top <= {MOST_VALUES // 10} OR place % (n / {MOST_VALUES} + 1) = 0"
    listed = f"SELECT v, c FROM (SELECT v, c, {ranks} FROM ({counted})) WHERE {chosen} ORDER BY top"
    try:
        found = connections[0].execute(listed).fetchall()
        for other in connections[1:]:
            there = {value for (value,) in other.execute(f"SELECT DISTINCT {column} FROM {quoted(table)}")}
            found = [row for row in found if row[0] in there]
    except sqlite3.Error:
        return ()
    return tuple(found)


def _kind(values: Sequence[object]) -> str:
    if not values:
        return "other"
    if all(isinstance(value, int) for value in values):
        return "flag" if set(values) <= {0, 1} else "integer"
    if all(isinstance(value, int | float) for value in values):
        return "real"
    if not all(isinstance(value, str) for value in values):
        return "other"
    texts = [str(value) for value in values]
    if not all(map(_dated, texts)):
        return "text"
    return "datetime" if any(len(text) > 10 for text in texts) else "date"


def _dated(text: str) -> bool:
    """Whether a text is a date, with or without a time."""
    if not _DATE.fullmatch(text[:10]) or (len(text) > 10 and not _TIME.fullmatch(text[10:])):
        return False
    try:
        datetime.date.fromisoformat(text[:10])
    except ValueError:  # 30 February
        return False
    return True


def _declared_links(connection: sqlite3.Connection, tables: dict[str, Table]) -> list[Link]:
    by_name = {name.lower(): table for name, table in tables.items()}
    links = []
    for table in tables.values():
        for key in references(connection, table.name):
            parent = by_name.get(key.parent.lower())
            if parent is None or parent is table or len(key.columns) != 1 or len(key.targets) != 1:
                continue
            column, target = _find(table, key.columns[0]), _find(parent, key.targets[0])
            if column is not None and target is not None:
                links.append(Link(table.name, column, parent.name, target, _role(column, parent)))
    return links


def _guessed_links(connections: Sequence[sqlite3.Connection], tables: dict[str, Table]) -> list[Link]:
    links = []
    for table in tables.values():
        for column in table.columns:
            parents = [parent for parent in tables.values() if parent is not table and parent.key and _named_like(column, parent)]
            if len(parents) != 1 or column is table.key or not column.key:
                continue
            parent, target = parents[0], parents[0].key
            assert target is not None
            inside = f"{quoted(column.name)} NOT IN (SELECT {quoted(target.name)} FROM {quoted(parent.name)})"
            if target.unique and not any(_count(connection, table.name, inside) for connection in connections):
                links.append(Link(table.name, column, parent.name, target, _role(column, parent)))
    return links


def _named_like(column: Column, parent: Table) -> bool:
    """Whether a column is called like the key of a table: customer_id in both, or customer_id where customers has id."""
    assert parent.key is not None
    own = column.name.lower()
    return own == parent.key.name.lower() != "id" or (parent.key.name.lower() == "id" and column.said == f"{parent.one} id")


def _role(column: Column, parent: Table) -> str:
    words = column.said.split(" ")
    if len(words) > 1 and words[-1] in _KEYS | {"code", "no"}:
        words = words[:-1]
    role = " ".join(words)
    plain = role in parent.one or parent.one in role or role in _KEYS or column.said == role
    return parent.one if plain else role


def _label(connections: Sequence[sqlite3.Connection], table: Table) -> None:
    """Choose what a row is called by, and see whether no two rows are called the same."""
    texts = [column for column in table.columns if column.text and 10 * column.distinct >= 5 * table.rows]
    last = {name: [column for column in texts if column.said.split(" ")[-1] == name] for name in _NAMES}
    exact = [column for column in texts if column.said in ("name", f"{table.one} name")]
    people = [column for column in table.columns if column.said in ("first name", "last name") and column.text]
    found = exact[:1] or (sorted(people, key=lambda column: column.said) if len(people) == 2 else [])
    found = found or [column for name in _NAMES for column in last[name]][:1]
    found = found or [column for column in texts if column.unique and not set(column.said.split(" ")) & _NO_LABEL][:1]
    table.label = tuple(found) or ((table.key,) if table.key else ())
    if not table.label:
        return
    columns = ", ".join(quoted(column.name) for column in table.label)
    different = f"SELECT COUNT(*) FROM (SELECT DISTINCT {columns} FROM {quoted(table.name)})"
    listed = f"SELECT DISTINCT {columns} FROM {quoted(table.name)} LIMIT {MOST_VALUES}"
    names = [[row for row in connection.execute(listed) if all(map(sayable, row))] for connection in connections]
    everywhere = set.intersection(*map(set, names))
    table.names = tuple(row for row in names[0] if row in everywhere)
    filled = all(not column.nulls for column in table.label)
    table.unique_label = filled and all(_one(connection, different) == _count(connection, table.name) for connection in connections)


def _find(table: Table, name: str) -> Column | None:
    return next((column for column in table.columns if column.name.lower() == name.lower()), None)


def _count(connection: sqlite3.Connection, table: str, where: str = "1") -> int:
    return _one(connection, f"SELECT COUNT(*) FROM {quoted(table)} WHERE {where}")


def _one(connection: sqlite3.Connection, sql: str) -> int:
    with closing(connection.execute(sql)) as cursor:
        return cursor.fetchone()[0]
