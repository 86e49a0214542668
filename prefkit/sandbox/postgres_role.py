"""The role that a DSN logs in with: what it must not be able to do, and the SQL that makes a right one.

Settings are no limits on PostgreSQL, since a session can change its own; privileges are. So a role that could do harm is refused.

| the role                                                             | what follows                           |
|----------------------------------------------------------------------|----------------------------------------|
| is a superuser, may create roles or databases, replicate, bypass RLS | refused                                |
| is a member of a role that writes all data, reads or writes files of | refused                                |
| the server, or runs its programs                                     |                                        |
| may write some table, or owns one                                    | refused                                |
| may create objects in a schema, or temporary tables                  | a note: a SELECT alone cannot use it   |
| has no limit on temporary files                                      | a note: a large sort can fill the disk |
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

Query = Callable[[str], list[tuple[str | None, ...]]]
"""Runs a fixed query of this file and returns its rows as text."""

_POWERS = """
SELECT r.rolname, r.rolsuper, r.rolcreaterole, r.rolcreatedb, r.rolreplication, r.rolbypassrls, current_database()
FROM pg_catalog.pg_roles r WHERE r.rolname = current_user
"""
_MEMBERSHIPS = """
SELECT g.rolname FROM pg_catalog.pg_roles g WHERE g.rolname IN ('pg_write_all_data', 'pg_read_server_files', 'pg_write_server_files',
  'pg_execute_server_program', 'pg_signal_backend', 'pg_maintain', 'pg_create_subscription', 'pg_checkpoint')
  AND pg_catalog.pg_has_role(current_user, g.oid, 'MEMBER') ORDER BY 1
"""
_WRITABLE = """
SELECT n.nspname || '.' || c.relname FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspname NOT LIKE 'pg\\_toast%'
  AND (pg_catalog.pg_get_userbyid(c.relowner) = current_user
       OR pg_catalog.has_table_privilege(c.oid, 'INSERT') OR pg_catalog.has_table_privilege(c.oid, 'UPDATE')
       OR pg_catalog.has_table_privilege(c.oid, 'DELETE') OR pg_catalog.has_table_privilege(c.oid, 'TRUNCATE'))
ORDER BY 1 LIMIT 3
"""
_NOTES = """
SELECT CASE WHEN pg_catalog.has_database_privilege(current_database(), 'TEMPORARY') THEN 't' END,
  (SELECT pg_catalog.string_agg(nspname, ', ' ORDER BY nspname) FROM pg_catalog.pg_namespace
   WHERE pg_catalog.has_schema_privilege(oid, 'CREATE') AND nspname NOT LIKE 'pg\\_%'),
  pg_catalog.current_setting('temp_file_limit')
"""


@dataclass(frozen=True, slots=True)
class Role:
    """name, database: as the server knows them. problems: why the role is refused. notes: what is worth taking away from it."""

    name: str
    database: str
    problems: tuple[str, ...]
    notes: tuple[str, ...] = ()

    def refusal(self) -> str:
        """What is wrong and the SQL that mends it, or "" where the role will do."""
        if not self.problems:
            return ""
        return (
            f"the PostgreSQL role {self.name} could do harm: it {' and '.join(self.problems)}. "
            f"Make a role that can only read, as the owner of the database, and name it in the DSN:\n{right_role(self.database)}"
        )


def look(query: Query) -> Role:
    """Ask the server what the current role may do."""
    name, superuser, roles, databases, replication, bypass, database = query(_POWERS)[0]
    problems = [
        what
        for has, what in (
            (superuser, "is a superuser"),
            (roles, "may create roles"),
            (databases, "may create databases"),
            (replication, "may replicate"),
            (bypass, "bypasses row-level security"),
        )
        if has == "t"
    ]
    if superuser != "t":
        problems += [f"is a member of {row[0]}" for row in query(_MEMBERSHIPS)]
        writable = [str(row[0]) for row in query(_WRITABLE)]
        if writable:
            problems.append(f"may write or owns tables ({', '.join(writable)}{', …' if len(writable) == 3 else ''})")
    temporary, schemas, limit = query(_NOTES)[0]
    notes = ["may create temporary tables"] if temporary else []
    notes += [f"may create objects in {schemas}"] if schemas else []
    notes += ["has no limit on temporary files"] if limit == "-1" else []
    return Role(str(name), str(database), tuple(problems), tuple(notes))


def right_role(database: str, schema: str = "public", name: str = "prefkit_reader") -> str:
    """SQL for a superuser or the database's owner: a role that can read one schema and nothing else."""
    base, space, role = quote(database), quote(schema), quote(name)
    return "\n".join(
        (
            f"CREATE ROLE {role} LOGIN PASSWORD '…' NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS CONNECTION LIMIT 16;",
            f"GRANT CONNECT ON DATABASE {base} TO {role};",
            f"GRANT USAGE ON SCHEMA {space} TO {role};",
            f"GRANT SELECT ON ALL TABLES IN SCHEMA {space} TO {role};",
            f"REVOKE CREATE, TEMPORARY ON DATABASE {base} FROM PUBLIC;",
            f"REVOKE CREATE ON SCHEMA {space} FROM PUBLIC;",
            f"ALTER ROLE {role} SET default_transaction_read_only = on;",
            f"ALTER ROLE {role} SET statement_timeout = '60s';",
            f"ALTER ROLE {role} SET idle_in_transaction_session_timeout = '60s';",
            f"ALTER ROLE {role} SET temp_file_limit = '256MB';  -- by a superuser: the role itself cannot raise it",
        )
    )


def quote(name: str) -> str:
    """An identifier as SQL writes it."""
    return name if re.fullmatch(r"[a-z_][a-z0-9_]*", name) else '"' + name.replace('"', '""') + '"'
