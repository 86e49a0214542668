"""A hash of all that a role can see in a PostgreSQL database: what a cached verdict rests on, as the bytes of a file are elsewhere."""

from __future__ import annotations

import hashlib
import time
from typing import Any

from prefkit.sandbox.postgres_role import quote

MAX_SIZE = 256 << 20
"""Bytes of tables beyond which no hash is taken; verdicts on such a database are not kept between runs."""

_TABLES = """
SELECT n.nspname, c.relname, c.relkind, pg_catalog.pg_total_relation_size(c.oid)
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'm', 'v', 'f') AND n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspname NOT LIKE 'pg\\_%'
  AND pg_catalog.has_schema_privilege(n.oid, 'USAGE') AND pg_catalog.has_table_privilege(c.oid, 'SELECT') ORDER BY 1, 2
"""
_COLUMNS = """
SELECT n.nspname, c.relname, a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod),
  CASE WHEN c.relkind = 'v' THEN pg_catalog.pg_get_viewdef(c.oid) END
FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_class c ON c.oid = a.attrelid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE a.attnum > 0 AND NOT a.attisdropped AND c.relkind IN ('r', 'p', 'm', 'v', 'f') AND n.nspname <> 'information_schema'
  AND n.nspname NOT LIKE 'pg\\_%' ORDER BY 1, 2, a.attnum
"""
_FUNCTIONS = """
SELECT n.nspname, p.proname, pg_catalog.md5(p.prosrc) FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace
WHERE n.nspname <> 'information_schema' AND n.nspname NOT LIKE 'pg\\_%' ORDER BY 1, 2, 3
"""
_SESSION = """
SELECT pg_catalog.current_setting('search_path'), d.datcollate, d.datctype, pg_catalog.pg_encoding_to_char(d.encoding)
FROM pg_catalog.pg_database d WHERE d.datname = pg_catalog.current_database()
"""
"""What else decides the result of a query: which schema a bare name is looked for in, and how text is sorted."""

# A sum over hashes of rows does not depend on the order in which they lie.
_ROWS = """
SELECT pg_catalog.count(*), pg_catalog.sum(pg_catalog.hashtextextended(t::text, 0)::numeric),
  pg_catalog.sum(pg_catalog.hashtextextended(t::text, 1)::numeric)
FROM ONLY {table} AS t
"""


def fingerprint(connection: Any, timeout_s: float) -> dict[str, Any]:
    """{"status": "ok", "fingerprint": 64 hex digits or "", "server": version, "notes": […]} of a GuardedPostgres."""

    def read(sql: str) -> list[tuple[str | None, ...]]:
        left = max(0.1, deadline - time.monotonic())
        result = connection.query(sql, left)
        if result["status"] != "ok":
            raise _NotTaken(result["reason"])
        return result["rows"]

    deadline = time.monotonic() + timeout_s
    digest = hashlib.sha256(connection.version.encode())
    reply = {"status": "ok", "fingerprint": "", "server": connection.version, "notes": list(connection.role.notes)}
    try:
        tables = read(_TABLES)
        if sum(int(size or 0) for *_, size in tables) > MAX_SIZE:
            return reply
        digest.update(repr([read(_SESSION), read(_COLUMNS), read(_FUNCTIONS)]).encode())
        for schema, table, kind, _ in tables:
            if kind == "f":
                return reply  # its rows lie elsewhere
            if kind in ("r", "m"):
                digest.update(repr([schema, table, read(_ROWS.format(table=f"{quote(str(schema))}.{quote(str(table))}"))]).encode())
    except _NotTaken:
        return reply
    return reply | {"fingerprint": digest.hexdigest()}


class _NotTaken(Exception):
    """It took too long, or something cannot be read."""
