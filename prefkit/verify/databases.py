"""Databases as checks name them: schema text, and files: where they lie, which version of them, and the hash of their bytes."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SchemaText:
    """SQL that makes a database: CREATE TABLE …; INSERT …"""

    sql: str


@dataclass(frozen=True, slots=True)
class Database:
    """path: absolute. stamp: tells versions of the file apart. content: SHA-256 of its bytes. problem: why it is no use."""

    path: str
    stamp: str = ""
    content: str = ""
    problem: str = ""


class Databases:
    """Finds database files. A file is looked at once between two calls of `look_again`, and read again only when it has changed."""

    def __init__(self, suffixes: tuple[str, ...]) -> None:
        """suffixes: of files beside a database that hold what is not yet in it."""
        self._suffixes = suffixes
        self._found: dict[str, Database] = {}
        self._looked: set[str] = set()

    def look_again(self) -> None:
        self._looked.clear()

    def find(self, path: str) -> Database:
        """The file's version and hash. Never raises: what cannot be read has a `problem`."""
        known = self._found.get(path)
        if known is not None and path in self._looked:
            return known
        self._looked.add(path)
        try:
            stat = os.stat(path)
            stamp = f"{stat.st_ino}-{stat.st_size}-{stat.st_mtime_ns}"
            if known is None or known.stamp != stamp:
                known = self._read(path, stamp)
        except (OSError, ValueError) as error:
            missing = isinstance(error, FileNotFoundError)
            known = Database(str(path), problem=f"database {'not found' if missing else 'cannot be read'}: {path}")
        self._found[path] = known
        return known

    def _read(self, path: str, stamp: str) -> Database:
        absolute = os.path.abspath(path)
        for suffix in self._suffixes:
            if os.path.exists(absolute + suffix) and os.path.getsize(absolute + suffix):
                # Read-only, and SQLite's immutable, the engine would not see what still stands there.
                problem = f"database has unfinished writes in {path}{suffix}: close the program that writes it"
                return Database(absolute, stamp, problem=problem)
        with open(absolute, "rb") as file:
            return Database(absolute, stamp, hashlib.file_digest(file, "sha256").hexdigest())
