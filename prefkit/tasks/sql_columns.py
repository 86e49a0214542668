"""The columns of a database and values that occur in them, for whoever has to name others than a query does."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from prefkit.tasks.schema_text import connect, quoted, table_names

MOST_VALUES = 20
LONGEST_VALUE = 60


class Columns:
    """What stands in the SQLite files `databases`, the data instances of one schema. Names are those of the first; nothing is read before
    it is asked for. Names are found in any case, as SQLite finds them.

    Raises DatabaseError for a file that cannot be read.
    """

    def __init__(self, databases: Sequence[str | Path]) -> None:
        self.databases = list(databases)
        self._values: dict[tuple[str, str], tuple[str, ...]] = {}

    @cached_property
    def tables(self) -> dict[str, tuple[str, ...]]:
        """Table in lower case -> its columns in their order, as they are written in the schema."""
        connection = connect(self.databases[0])
        try:
            return {
                table.lower(): tuple(row[1] for row in connection.execute(f"PRAGMA table_info({quoted(table)})"))
                for table in table_names(connection)
            }
        finally:
            connection.close()

    def values(self, table: str, column: str) -> tuple[str, ...]:
        """At most `MOST_VALUES` different texts of a column over all instances, sorted; none where it holds no short text."""
        key = (table.lower(), column.lower())
        if key not in self._values:
            known = key[0] in self.tables and key[1] in map(str.lower, self.tables[key[0]])
            self._values[key] = tuple(sorted(self._read(*key))) if known else ()
        return self._values[key]

    def _read(self, table: str, column: str) -> set[str]:
        name, found = quoted(column), set()
        query = f"SELECT DISTINCT {name} FROM {quoted(table)} WHERE typeof({name}) = 'text' AND length({name}) <= ? LIMIT ?"
        for path in self.databases:
            connection = connect(path)
            try:
                found.update(value for (value,) in connection.execute(query, (LONGEST_VALUE, MOST_VALUES)))
            except sqlite3.Error:  # text that is not UTF-8 cannot stand in a query
                pass
            finally:
                connection.close()
        return found
