"""A second data instance of a user's SQLite database: rows sampled with their keys intact, values shuffled within columns.

A query that is right by luck on one set of rows (COUNT(*) for COUNT(DISTINCT x), the last row for the largest) is found out on another.

1. Which rows stay: `instance_rows.py`; what a kept row refers to is kept.
2. Which columns are shuffled, and which only together: `instance_columns.py`. Their values are drawn from the whole table.
3. The copy: tables first, without triggers; then indexes, views and triggers; then SQLite's own checks of keys and pages.

The user's file is opened read-only. Its schema text is run, so it is treated as hostile: nothing but CREATE, no extension, no other file.
Values go from file to file inside SQLite and keep their type and bytes. The same file, share and seed give the same copy.
"""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from prefkit.data.instance_columns import Columns, Reference, columns_of, references
from prefkit.data.instance_rows import Rows, choose
from prefkit.errors import DatabaseError
from prefkit.files import replacing
from prefkit.sandbox.sql_tokens import tokenize
from prefkit.sandbox.sqlite_guard import read_only_uri
from prefkit.tasks.schema_text import connect, quoted

SHARE = 0.7
MAX_ROWS = 5_000_000
"""Most rows of a database: the keys of all of them are held in memory."""
LONGEST_VALUE = 64 << 20
_MAKES = frozenset(
    {
        sqlite3.SQLITE_CREATE_TABLE, sqlite3.SQLITE_CREATE_INDEX, sqlite3.SQLITE_CREATE_VIEW, sqlite3.SQLITE_CREATE_TRIGGER,
        sqlite3.SQLITE_INSERT, sqlite3.SQLITE_UPDATE, sqlite3.SQLITE_READ, sqlite3.SQLITE_SELECT, sqlite3.SQLITE_REINDEX,
        sqlite3.SQLITE_RECURSIVE,
    }
)  # fmt: skip
"""What making a table, an index, a view or a trigger asks leave for."""


@dataclass(frozen=True, slots=True)
class Table:
    """What became of one table.

    before, after: rows. orphans: rows left out because they refer to nothing, or to such a row. shuffled: groups of columns, each
    shuffled as one. kept: columns left as they are. problem: why nothing was shuffled although it should have been, or "".
    """

    name: str
    before: int
    after: int
    orphans: int
    shuffled: tuple[tuple[str, ...], ...]
    kept: tuple[str, ...]
    problem: str = ""


@dataclass(slots=True)
class _Source:
    """A table to be copied. place: the SQL name of the table that its rows are read from by `ident`, a name of its rowid."""

    name: str
    sql: str
    references: list[Reference]
    columns: Columns
    place: str = ""
    ident: str = "rowid"
    rowids: Sequence[int] = ()


def derive_instance(source: Path, target: Path, share: float = SHARE, seed: int = 0) -> list[Table]:
    """Write the second instance of `source` to the new file `target`, whole or not at all. Returns what became of each table.

    share: the least part of each table's rows that is kept, above 0 and up to 1. Raises DatabaseError for a file that cannot be read or
    has virtual tables, and for a target that is there already.
    """
    if not 0 < share <= 1:
        raise DatabaseError(f"the share of rows to keep is {share:g}; give a number above 0 and up to 1.")
    if target.exists():
        raise DatabaseError(f"{target} is there already; name a new file.")
    connect(source).close()  # says what is wrong with the file
    with replacing(target) as temporary, closing(_open(source, temporary)) as connection:
        try:
            tables = _fill(connection, source, share, seed)
            connection.execute("DETACH source")
            _check(connection, source, tables)
        except (sqlite3.Error, sqlite3.Warning) as error:
            raise DatabaseError(f"{source} cannot be copied: {error}.") from error
    return tables


def _open(source: Path, target: Path) -> sqlite3.Connection:
    """The new file as main, the user's attached for reading only."""
    connection = sqlite3.connect(target.absolute(), uri=True, isolation_level=None)
    try:
        uri = read_only_uri(str(source.resolve()))
        with closing(sqlite3.connect(uri, uri=True)) as reader:
            settings = {
                name: reader.execute(f"PRAGMA {name}").fetchone()[0] for name in ("encoding", "page_size", "user_version", "application_id")
            }
        for name, value in settings.items():
            connection.execute(f"PRAGMA {name} = '{value}'" if name == "encoding" else f"PRAGMA {name} = {int(value)}")
        # No journal beside a file that is thrown away where anything fails.
        for pragma in ("journal_mode=OFF", "synchronous=OFF", "temp_store=2", "trusted_schema=0", "foreign_keys=0"):
            connection.execute(f"PRAGMA {pragma}").fetchall()
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST_VALUE)
        connection.execute("ATTACH ? AS source", (uri,))
    except BaseException:
        connection.close()
        raise
    return connection


def _fill(connection: sqlite3.Connection, source: Path, share: float, seed: int) -> list[Table]:
    entries = connection.execute("SELECT type, name, sql FROM source.sqlite_master WHERE sql IS NOT NULL ORDER BY rowid").fetchall()
    own = [(kind, name, sql) for kind, name, sql in entries if not name.lower().startswith("sqlite_")]
    tables = _tables(connection, source, [(name, sql) for kind, name, sql in own if kind == "table"])
    connection.execute("BEGIN")
    _make(connection, (sql for kind, _, sql in own if kind == "table"))
    rows = _rows(connection, tables)
    kept = choose(rows, share, seed)
    lost = choose(rows, 1, seed) if rows.lost else {table.name: range(len(table.rowids)) for table in tables}
    made = []
    for table in tables:
        numbers = kept[table.name]
        problem = _copy(connection, table, [table.rowids[number] for number in numbers], seed)
        everything = (*table.columns.kept, *(name for group in table.columns.groups for name in group))
        shuffled, left = ((), everything) if problem else (table.columns.groups, table.columns.kept)
        before = len(table.rowids)
        made.append(Table(table.name, before, len(numbers), before - len(lost[table.name]), shuffled, left, problem))
    # Triggers come last, so that none of them fires.
    for wanted in ("index", "view", "trigger"):
        _make(connection, (sql for kind, _, sql in own if kind == wanted))
    connection.execute("COMMIT")
    return made


def _tables(connection: sqlite3.Connection, source: Path, entries: Sequence[tuple[str, str]]) -> list[_Source]:
    """The tables with their keys and columns. Raises DatabaseError where there are none, or where one cannot be copied."""
    for name, sql in entries:
        words = [token.upper for token in tokenize(sql)[:3]]
        if "VIRTUAL" in words:
            mend = f'Derive from a copy without it: sqlite3 copy.sqlite "DROP TABLE {quoted(name)}".'
            raise DatabaseError(f"{source}: {name} is a virtual table (such as a full-text index), whose rows have no keys to keep. {mend}")
    if not entries:
        raise DatabaseError(f"{source} has no tables: fill it first, or name another file.")
    known = {name.lower(): name for name, _ in entries}
    keys = {name: references(connection, name, "source") for name, _ in entries}
    referred_to: dict[str, set[str]] = {name: set() for name, _ in entries}
    for name, found in keys.items():
        for key in found:
            if key.parent.lower() not in known:
                raise DatabaseError(f"{source}: {name} refers to the table {key.parent}, which is not there; mend the schema first.")
            if len(key.columns) != len(key.targets):
                raise DatabaseError(f"{source}: {name} refers to {key.parent}, which has no such key; mend the schema first.")
            referred_to[known[key.parent.lower()]].update(key.targets)
    tables = []
    for number, (name, sql) in enumerate(entries):
        own = [Reference(key.columns, known[key.parent.lower()], key.targets) for key in keys[name]]
        table = _Source(name, sql, own, columns_of(connection, name, sql, referred_to[name], "source"))
        _number(connection, table, number)
        tables.append(table)
    if (total := sum(len(table.rowids) for table in tables)) > MAX_ROWS:
        raise DatabaseError(f"{source} has {total} rows, more than {MAX_ROWS}; derive from a smaller copy of it.")
    return tables


def _number(connection: sqlite3.Connection, table: _Source, number: int) -> None:
    """Find out how rows are named: by rowid, or, where there is none, by that of a temporary copy in the order of the primary key."""
    info = connection.execute(f"PRAGMA source.table_xinfo({quoted(table.name)})").fetchall()
    names = {row[1].lower() for row in info}
    table.place = f"source.{quoted(table.name)}"
    table.ident = next((name for name in ("rowid", "_rowid_", "oid") if name not in names), "")
    if not table.ident:
        raise DatabaseError(f"{table.name} has columns called rowid, _rowid_ and oid, so that its rows cannot be told apart.")
    try:
        connection.execute(f"SELECT {table.ident} FROM {table.place} LIMIT 0")
    except sqlite3.OperationalError:  # WITHOUT ROWID
        key = sorted((row[5], row[1]) for row in info if row[5])
        stored = ", ".join(quoted(row[1]) for row in info if row[6] == 0)
        order = ", ".join(quoted(name) for _, name in key)
        connection.execute(f"CREATE TEMP TABLE prefkit_copy_{number} AS SELECT {stored} FROM {table.place} ORDER BY {order}")
        table.place = f"temp.prefkit_copy_{number}"
    table.rowids = [row[0] for row in connection.execute(f"SELECT {table.ident} FROM {table.place} ORDER BY 1")]


def _make(connection: sqlite3.Connection, statements: Iterable[str]) -> None:
    """Run schema text that may come from anyone."""

    def allow(action: int, _first: str | None, second: str | None, database: str | None, _by: str | None) -> int:
        if action == sqlite3.SQLITE_FUNCTION:
            return sqlite3.SQLITE_DENY if (second or "").lower() == "load_extension" else sqlite3.SQLITE_OK
        return sqlite3.SQLITE_OK if action in _MAKES and database in (None, "main") else sqlite3.SQLITE_DENY

    connection.set_authorizer(allow)
    try:
        for sql in statements:
            connection.execute(sql)
    finally:
        connection.set_authorizer(None)


def _rows(connection: sqlite3.Connection, tables: Sequence[_Source]) -> Rows:
    """Every row, and which other rows it refers to, as SQLite compares their keys."""
    rows = Rows({table.name: len(table.rowids) for table in tables})
    by_name = {table.name: table for table in tables}
    numbers = {table.name: {rowid: number for number, rowid in enumerate(table.rowids)} for table in tables}
    for table in tables:
        for key in table.references:
            parent = by_name[key.parent]
            equal = " AND ".join(f"p.{quoted(to)} = c.{quoted(of)}" for of, to in zip(key.columns, key.targets, strict=True))
            filled = " AND ".join(f"c.{quoted(of)} IS NOT NULL" for of in key.columns)
            joined = f"{table.place} AS c LEFT JOIN {parent.place} AS p ON {equal}"
            for child, target in connection.execute(f"SELECT c.{table.ident}, p.{parent.ident} FROM {joined} WHERE {filled} ORDER BY 1"):
                row = (table.name, numbers[table.name][child])
                if target is None:
                    rows.lost.add(row)
                else:
                    rows.refer(row, (parent.name, numbers[parent.name][target]))
    return rows


def _copy(connection: sqlite3.Connection, table: _Source, rowids: Sequence[int], seed: int) -> str:
    """Put the rows `rowids` into the new table, each group of columns shuffled. Returns why they could not be, or ""."""
    groups = table.columns.groups
    draw = random.Random(f"prefkit instance {seed} {table.name}")
    shuffled = [_shuffled(connection, table, group, rowids, draw) for group in groups]
    try:
        _insert(connection, table, [rowids, *shuffled])
        return ""
    except sqlite3.IntegrityError as error:
        # A constraint that the schema's text does not show to be one of several columns.
        connection.execute(f"DELETE FROM main.{quoted(table.name)}")
        _insert(connection, table, [rowids] * (len(groups) + 1))
        return str(error)


def _insert(connection: sqlite3.Connection, table: _Source, picks: Sequence[Sequence[int]]) -> None:
    """Row n gets its kept columns from row picks[0][n] of the source, and those of group g from row picks[g + 1][n]."""
    connection.execute("DROP TABLE IF EXISTS temp.prefkit_picks")
    names = [f"g{number}" for number in range(len(picks))]
    connection.execute(f"CREATE TEMP TABLE prefkit_picks (n INTEGER PRIMARY KEY, {', '.join(names)})")
    marks = ", ".join("?" * (len(names) + 1))
    connection.executemany(f"INSERT INTO temp.prefkit_picks VALUES ({marks})", zip(range(len(picks[0])), *picks, strict=True))
    values = {name: f"own.{quoted(name)}" for name in table.columns.kept}
    for group, pick in zip(table.columns.groups, names[1:], strict=True):
        for name in group:
            values[name] = f"(SELECT other.{quoted(name)} FROM {table.place} AS other WHERE other.{table.ident} = picks.{pick})"
    columns, selected = ", ".join(map(quoted, values)), ", ".join(values.values())
    source = f"temp.prefkit_picks AS picks JOIN {table.place} AS own ON own.{table.ident} = picks.g0"
    connection.execute(f"INSERT OR ABORT INTO main.{quoted(table.name)} ({columns}) SELECT {selected} FROM {source} ORDER BY picks.n")


def _shuffled(
    connection: sqlite3.Connection, table: _Source, group: Sequence[str], rowids: Sequence[int], draw: random.Random
) -> Sequence[int]:
    """For each row that is kept, the row of the whole table that its values of a group of columns come from; none stands twice.

    Drawn from the whole table, and for each group anew, so that two columns do not keep the same counts. The share of NULLs is kept, to
    the row, where the group is one column.
    """
    empty: list[int] = []
    if len(group) == 1:
        empty = [
            row[0] for row in connection.execute(f"SELECT {table.ident} FROM {table.place} WHERE {quoted(group[0])} IS NULL ORDER BY 1")
        ]
    nulls = round(len(rowids) * len(empty) / max(1, len(table.rowids)))
    filled = sorted(set(table.rowids) - set(empty))
    nulls = max(nulls, len(rowids) - len(filled))
    order = draw.sample(empty, nulls) + draw.sample(filled, len(rowids) - nulls)
    draw.shuffle(order)
    return order if order != list(rowids) else [*order[1:], *order[:1]]


def _check(connection: sqlite3.Connection, source: Path, tables: Sequence[Table]) -> None:
    """What SQLite itself says of the copy. Raises DatabaseError where it finds a fault."""
    faults = [row[0] for row in connection.execute("PRAGMA integrity_check") if row[0] != "ok"]
    for table in tables:
        try:
            found = connection.execute(f"PRAGMA foreign_key_check({quoted(table.name)})").fetchall()
        except sqlite3.OperationalError as error:
            if "foreign key mismatch" not in str(error):
                raise
            continue  # the parent's columns are not unique, so SQLite cannot check the key; what it refers to was kept all the same
        faults += [f"{row[0]} refers to a row of {row[2]} that is not there" for row in found]
    if faults:
        raise DatabaseError(f"{source} cannot be copied with its keys intact: {faults[0]}.")
