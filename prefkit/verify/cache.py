"""Verdicts and checked golds kept in an SQLite file between runs. Several processes may use one file at the same time."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path

from prefkit.errors import DatabaseError

_SCHEMA = "CREATE TABLE IF NOT EXISTS entries (key BLOB PRIMARY KEY, payload TEXT NOT NULL) WITHOUT ROWID"
_BATCH, _SECONDS = 256, 1.0
_BUSY_S = 20.0


class Cache:
    """A persistent dictionary from bytes to text. Entries never change, so whoever writes first is right and nobody waits for a reader."""

    def __init__(self, path: Path) -> None:
        """Open the file, or make it. Raises DatabaseError where it is no cache."""
        self._path = path
        self._pending: dict[bytes, str] = {}
        self._written = time.monotonic()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(path, timeout=_BUSY_S, isolation_level=None)
            # A write-ahead log lets processes read while one writes; where the file system has none, SQLite keeps its journal.
            self._connection.execute("PRAGMA journal_mode=WAL")
            self._connection.execute("PRAGMA synchronous=NORMAL")
            self._connection.execute(_SCHEMA)
        except (sqlite3.Error, OSError) as error:
            raise DatabaseError(f"{path} cannot be used as a cache of verdicts: {error}. Delete it or name another file.") from error

    def get(self, key: bytes) -> str | None:
        pending = self._pending.get(key)
        if pending is not None:
            return pending
        row = self._connection.execute("SELECT payload FROM entries WHERE key = ?", (key,)).fetchone()
        return row[0] if row else None

    def put(self, key: bytes, payload: str) -> None:
        """Keep an entry. It reaches the file with the next batch, `flush` or `close`."""
        self._pending[key] = payload
        if len(self._pending) >= _BATCH or time.monotonic() - self._written > _SECONDS:
            self.flush()

    def flush(self) -> None:
        self._written = time.monotonic()
        if not self._pending:
            return
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            self._connection.executemany("INSERT OR IGNORE INTO entries VALUES (?, ?)", self._pending.items())
            self._connection.execute("COMMIT")
        except sqlite3.Error as error:
            raise DatabaseError(f"{self._path}: the cache of verdicts cannot be written: {error}") from error
        self._pending.clear()

    def close(self) -> None:
        try:
            self.flush()
        finally:
            self._connection.close()
