"""A dataset's databases: SQL text -> SQLite files, built once for each text and shared by all runs."""

from __future__ import annotations

import hashlib
import os
import shutil
import sqlite3
import tempfile
from pathlib import Path

from prefkit.errors import DataError
from prefkit.tasks.names import INSTANCES


def database_names(folder: Path) -> list[str]:
    """The databases of the dataset in `folder`, in the order of their names."""
    if not (folder / "databases").is_dir():
        raise DataError(f"{folder} is no SQL dataset: it has no folder databases/.")
    return sorted(path.name for path in (folder / "databases").iterdir() if (path / "schema.sql").is_file())


def build_database(source: Path, instance: int, target: Path) -> None:
    """Build one data instance of the database whose SQL text lies in `source` into the new SQLite file `target`.

    Raises DataError where the SQL text is missing or fails.
    """
    connection = sqlite3.connect(target)
    try:
        fill(connection, source, instance)
        connection.execute("VACUUM")
    finally:
        connection.close()


def fill(connection: sqlite3.Connection, source: Path, instance: int) -> None:
    """Create the tables of `source` in an empty database and put in the rows of one data instance; foreign keys are checked."""
    rows = source / f"rows-{instance}.sql"
    try:
        connection.executescript((source / "schema.sql").read_text(encoding="utf-8"))
        connection.execute("PRAGMA foreign_keys = ON")
        connection.executescript(f"BEGIN;\n{rows.read_text(encoding='utf-8')}\nCOMMIT;")
    except (OSError, sqlite3.Error) as error:
        raise DataError(f"{source.name}, data instance {instance} cannot be built from {rows}: {error}") from error


def built_databases(folder: Path, cache: Path) -> dict[str, list[Path]]:
    """The SQLite files of every database of the dataset, one for each data instance; built on first use.

    They lie in cache/datasets/<name>-<first 16 hex digits of the SHA-256 of all SQL text>/, so other text never meets old files.
    Two processes may build at once: each builds its own folder, and the first to finish gives it the name.
    """
    names = database_names(folder)
    target = cache / "datasets" / f"{folder.name}-{text_hash(folder)[:16]}"
    if not target.is_dir():
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=".tmp-", dir=target.parent))
        try:
            for name in names:
                for instance in INSTANCES:
                    build_database(folder / "databases" / name, instance, temporary / f"{name}-{instance}.sqlite")
            temporary.chmod(0o755)
            _publish(temporary, target)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    return {name: [target / f"{name}-{instance}.sqlite" for instance in INSTANCES] for name in names}


def text_hash(folder: Path) -> str:
    """SHA-256 over the names and the SQL text of all databases of the dataset."""
    digest = hashlib.sha256()
    for name in database_names(folder):
        for file in ("schema.sql", *(f"rows-{instance}.sql" for instance in INSTANCES)):
            path = folder / "databases" / name / file
            if not path.is_file():
                raise DataError(f"{path} is missing: a database has schema.sql, rows-1.sql and rows-2.sql.")
            text = path.read_bytes()
            digest.update(f"{name}/{file} {len(text)}\n".encode() + text)
    return digest.hexdigest()


def _publish(temporary: Path, target: Path) -> None:
    from prefkit.files import sync

    for file in (*temporary.iterdir(), temporary):
        sync(file)
    try:
        os.rename(temporary, target)
    except OSError:
        # Another process was first; its files have the same content.
        if not target.is_dir():
            raise
