"""What a query of DuckDB does, read off the tree that DuckDB's own parser makes of it (`json_serialize_sql`).

| in the tree                                 | what it means                                                              |
|---------------------------------------------|----------------------------------------------------------------------------|
| a statement that is not SELECT              | not a query                                                                |
| INSERT, UPDATE, DELETE, MERGE behind WITH   | not a query                                                                |
| SHOW, DESCRIBE, SUMMARIZE                   | not a query: the answer to a question is a SELECT                          |
| a table function outside READERS            | not allowed: some read files, take memory addresses or run text as a query |
| a volatile function that only draws numbers | uses random()                                                              |
| any other volatile function                 | not allowed: sequences, the log, sleeping                                  |
| now(), current_date, age(x) and their kin   | reads the clock                                                            |
| TABLESAMPLE, USING SAMPLE without a seed    | uses random()                                                              |

Which functions are volatile is the engine's own list (`duckdb_functions().stability`), so a function that a later version adds is refused
until it is known here.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from prefkit.sandbox.json_tree import objects

READERS = frozenset(
    {
        "generate_series", "range", "unnest", "repeat", "repeat_row", "json_each", "json_tree", "histogram", "histogram_values", "summary",
        "duckdb_columns", "duckdb_constraints", "duckdb_databases", "duckdb_indexes", "duckdb_keywords", "duckdb_schemas",
        "duckdb_sequences", "duckdb_tables", "duckdb_types", "duckdb_views", "pragma_table_info", "pragma_show", "pg_timezone_names",
        "icu_calendar_names", "values",
    }
)  # fmt: skip
"""Table functions that a query may use: they read the catalogue or make rows from their arguments."""

CLOCK = frozenset(
    {
        "now", "today", "current_date", "current_time", "current_timestamp", "localtime", "localtimestamp", "get_current_time",
        "get_current_timestamp", "current_localtime", "current_localtimestamp", "transaction_timestamp", "statement_timestamp",
        "clock_timestamp", "ago", "pg_conf_load_time", "pg_postmaster_start_time", "uuidv7",
    }
)  # fmt: skip
CLOCK_WORDS = frozenset({"current_date", "current_time", "current_timestamp", "localtime", "localtimestamp"})
"""Clock functions that are written without brackets. The tree has them as columns."""
RANDOM = frozenset(
    {
        "random", "uuid", "gen_random_uuid", "uuidv4", "txid_current", "current_connection_id", "current_query_id",
        "current_transaction_id", "reservoir_quantile",
    }
)  # fmt: skip
"""Functions that give another value each time, and do nothing else."""
_HARMLESS = frozenset({"error", "current_query", "stats", "vector_type"})
_OPENS_TEXT = frozenset({"query", "query_table", "json_execute_serialized_sql"})
_WRITING = {"INSERT_QUERY_NODE": "INSERT", "UPDATE_QUERY_NODE": "UPDATE", "DELETE_QUERY_NODE": "DELETE", "MERGE_QUERY_NODE": "MERGE"}


@dataclass(slots=True)
class Query:
    """What one query does. denied: why it may not run, or "". uses: "clock", "random". names: tables, views and functions that it names."""

    denied: str = ""
    uses: set[str] = field(default_factory=set)
    names: set[str] = field(default_factory=set)

    def deny(self, reason: str) -> None:
        self.denied = self.denied or reason


class Inspector:
    """Reads queries with the parser of one connection."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        listed = connection.execute(
            "SELECT DISTINCT function_name FROM duckdb_functions() WHERE stability = 'VOLATILE' AND function_type = 'scalar'"
        ).fetchall()
        self._volatile = {name for (name,) in listed} - RANDOM - CLOCK - _HARMLESS
        listed = connection.execute(
            "SELECT DISTINCT function_name FROM duckdb_functions() WHERE function_type = 'table' OR function_type = 'pragma'"
        ).fetchall()
        self._tables = {name for (name,) in listed} - READERS

    def read(self, sql: str) -> Query:
        """Raises ValueError with the parser's message where the text is no single SELECT, RecursionError where it is too deep."""
        text = self._connection.execute("SELECT json_serialize_sql(?)", [sql]).fetchone()[0]
        tree = json.loads(text)
        if tree.get("error"):
            raise ValueError(tree.get("error_message", "not a query"))
        query = Query()
        for node in objects(tree["statements"]):
            self._look(node, query)
        return query

    def _look(self, node: dict[str, Any], query: Query) -> None:
        kind = node.get("type")
        if not isinstance(kind, str):
            return
        if kind.endswith("_NODE"):
            self._look_at_statement(kind, query)
        elif kind == "SHOW_REF":
            query.deny("not a query: SHOW")
        elif kind == "BASE_TABLE":
            query.names.add(str(node.get("table_name", "")).lower())
        elif kind == "COLUMN_REF":
            names = node.get("column_names", [])
            if len(names) == 1 and str(names[0]).lower() in CLOCK_WORDS:
                query.uses.add("clock")
        if node.get("function_name"):
            self._look_at_function(str(node["function_name"]).lower(), node, query)
        sample = node.get("sample")
        if isinstance(sample, dict) and sample.get("seed", -1) == -1:
            query.uses.add("random")

    @staticmethod
    def _look_at_statement(kind: str, query: Query) -> None:
        if kind in _WRITING:
            query.deny(f"not a query: {_WRITING[kind]}")
        elif "QUERY_NODE" in kind:
            query.deny(f"not a query: {kind.removesuffix('_QUERY_NODE')}")

    def _look_at_function(self, name: str, node: dict[str, Any], query: Query) -> None:
        query.names.add(name)
        if name in _OPENS_TEXT or name in self._volatile or name in self._tables:
            query.deny(f"function not allowed: {name}")
        elif name in CLOCK or (name == "age" and len(node.get("arguments", node.get("children", []))) == 1):
            query.uses.add("clock")
        elif name in RANDOM:
            query.uses.add("random")
