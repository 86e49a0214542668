"""Where the databases of SQL checks are, and how they become something that a worker opens.

| engine   | a path                                          | schema text                               | a connection string             |
|----------|-------------------------------------------------|-------------------------------------------|---------------------------------|
| sqlite   | the file itself                                 | a file built from it by a worker          | is no path: refused             |
| duckdb   | a copy, in the one folder that the worker reads | the text, in that folder; run once to see | is no path: refused             |
| postgres | is no connection string: refused                | refused: it would need a role that writes | looked at by a worker, and used |

Where a database stands in a key, it is by what is in it: the hash of a file's bytes or of the text, and of PostgreSQL by the fingerprint of
all that the role can see there.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import logging
import os
import secrets
import shutil
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, Protocol

from prefkit.errors import DatabaseError
from prefkit.sandbox.dsn import Dsn, from_environment, is_dsn
from prefkit.sandbox.job import Answer, Job, SqlJob
from prefkit.sandbox.limits import SqlLimits
from prefkit.temporary import TemporaryFolder
from prefkit.verify.databases import Databases, SchemaText
from prefkit.verify.line_fields import beside, texts
from prefkit.verify.sql_jobs import DuckdbJob, Fingerprint, PostgresLook
from prefkit.verify.verifier import Once, Source

_BUILD_S = 10.0
_LOOKS = 2
_LOG = logging.getLogger("prefkit")

Named = str | SchemaText
"""How a check names a database."""


@dataclass(frozen=True, slots=True)
class Found:
    """A database of a check. place, stamp: as they stand in a job. problem: why it is no use. infra: the machine's fault."""

    place: str = ""
    stamp: str = ""
    problem: str = ""
    infra: bool = False


class Places(Protocol):
    """Finds the databases of one engine. Nothing in it raises but `read`."""

    @property
    def folder(self) -> str:
        """Of the files that a worker in isolation can read; "" where it is not in isolation."""
        ...

    def prepare(self) -> None:
        """Look anew at what may have changed."""
        ...

    def close(self) -> None: ...

    @staticmethod
    def read(line: dict[str, Any], source: Source) -> tuple[Named, ...]:
        """The databases that a line names. Raises ValueError that says what was expected, and shows no secret."""
        ...

    def ask(self, database: Named) -> Once | None:
        """What has to be asked before `content` and `kept` know; None where nothing has."""
        ...

    def content(self, database: Named) -> str:
        """What is in it, as it stands in keys."""
        ...

    def kept(self, database: Named) -> bool:
        """Whether a verdict on it still holds tomorrow."""
        ...

    def find(self, database: Named) -> Generator[Job | Once, Any, Found]:
        """Steps to the database, ready to run on."""
        ...


class _Files:
    """Files by path, and schema text. suffixes: of files beside a database that hold unfinished writes."""

    suffixes: tuple[str, ...] = ()

    def __init__(self) -> None:
        self._databases = Databases(self.suffixes)
        self._own = TemporaryFolder()

    @property
    def folder(self) -> str:
        return ""

    def prepare(self) -> None:
        self._databases.look_again()

    def close(self) -> None:
        self._own.close()

    @staticmethod
    def read(line: dict[str, Any], source: Source) -> tuple[Named, ...]:
        if ("schema" in line) == ("database" in line):
            raise ValueError('expected either "schema" (SQL text) or "database" (a path or a list of paths)')
        if "schema" in line:
            return tuple(map(SchemaText, texts(line, "schema")))
        names = texts(line, "database")
        if any(map(is_dsn, names)):  # and not in a message that says that there is no such file
            raise ValueError('"database" is a connection string, which needs "engine": "postgres"')
        return tuple(beside(source, name) for name in names)

    def ask(self, database: Named) -> Once | None:
        return None

    def content(self, database: Named) -> str:
        if isinstance(database, SchemaText):
            return f"schema {_hash(database)}"
        return self._databases.find(database).content

    def kept(self, database: Named) -> bool:
        """Not where a file is missing, whose name is no part of the key."""
        return isinstance(database, SchemaText) or not self._databases.find(database).problem

    def look(self, path: str) -> Found:
        """The file that a path names, and why it is no use where it is none."""
        database = self._databases.find(path)
        return Found(database.path, database.stamp, database.problem)

    def _once(self, schema: SchemaText, build: Callable[[SchemaText], Generator[SqlJob, Answer, Found]]) -> Once:
        return Once(
            ["schema", type(self).__name__, _hash(schema)],
            begin=lambda: build(schema),
            lost=lambda reason: Found(problem=reason, infra=True),
            again=lambda found: found.infra,
        )


class SqlitePlaces(_Files):
    """Files as they are; schema text built into one by a guarded worker."""

    suffixes = ("-wal", "-journal")

    def find(self, database: Named) -> Generator[Job | Once, Any, Found]:
        if isinstance(database, SchemaText):
            return (yield self._once(database, self._build))
        return self.look(database)

    def _build(self, schema: SchemaText) -> Generator[SqlJob, Answer, Found]:
        result = (yield SqlJob("", (), SqlLimits(timeout_s=_BUILD_S), script=schema.sql)).last
        if result.status != "ok":
            return _failed(result)
        path = self._own.path / f"{_hash(schema)}.sqlite"
        path.write_bytes(base64.b64decode(result.image))
        return Found(str(path), "built")


class DuckdbPlaces(_Files):
    """Copies of files, and schema texts, in one folder: the isolation is made when a worker starts, and lets it read that and no more.

    A copy is named after its hash, so that what is judged on is what the key says, even where the file changes meanwhile.
    """

    suffixes = (".wal",)
    _folder = ""

    @property
    def folder(self) -> str:
        """A folder that any user may enter, since a worker may be one of its own, below one that nobody else may."""
        if not self._folder:
            folder = self._own.path / "files"
            folder.mkdir()
            folder.chmod(0o755)
            self._folder = str(folder)
        return self._folder

    def close(self) -> None:
        super().close()
        self._folder = ""

    def find(self, database: Named) -> Generator[Job | Once, Any, Found]:
        if isinstance(database, SchemaText):
            return (yield self._once(database, self._try))
        return self._copy(database)

    def _try(self, schema: SchemaText) -> Generator[SqlJob, Answer, Found]:
        result = (yield DuckdbJob("", (), SqlLimits(timeout_s=_BUILD_S), script=schema.sql, folder=self.folder)).last
        if result.status != "ok":
            return _failed(result)
        name = f"{_hash(schema)}.sql"
        with _new_file(f"{self.folder}/{name}") as file:
            file.write(schema.sql.encode("utf-8", "surrogatepass"))
        return Found(name, "text")

    def _copy(self, path: str) -> Found:
        known = self._databases.find(path)
        name = f"{known.content}.duckdb"
        if known.problem or os.path.exists(f"{self.folder}/{name}"):
            return Found(name, "copy", known.problem)
        try:
            with open(known.path, "rb") as source, _new_file(f"{self.folder}/{name}") as copy:
                shutil.copyfileobj(source, copy, 1 << 20)
                copy.flush()
                with open(copy.name, "rb") as written:
                    if hashlib.file_digest(written, "sha256").hexdigest() != known.content:
                        raise OSError("it changed meanwhile")
        except OSError as error:
            return Found(problem=f"database cannot be copied for its isolation: {path}: {error.strerror or error}", infra=True)
        return Found(name, "copy")


class PostgresPlaces:
    """Servers. A database there is looked at once between two calls of `prepare`: the role, the version, what the role can see."""

    folder = ""

    def __init__(self) -> None:
        self._seen: dict[Dsn, Fingerprint] = {}
        self._fresh: set[Dsn] = set()
        self._now = ""
        self.prepare()

    def prepare(self) -> None:
        self._fresh.clear()  # what was seen stays: checks may be under way
        self._now = secrets.token_hex(16)

    def close(self) -> None:
        """Connections are the workers'."""

    @staticmethod
    def read(line: dict[str, Any], source: Source) -> tuple[Named, ...]:
        if "schema" in line:
            raise ValueError(
                'PostgreSQL takes no "schema": text that makes tables needs a role that writes, and answers must not have one. '
                'Make a database of it (createdb, psql -f) and name that in "database"'
            )
        return tuple(map(_dsn, texts(line, "database")))

    def ask(self, database: Named) -> Once | None:
        dsn = _as_dsn(database)
        if dsn in self._fresh:
            return None
        return Once(
            ["look", self._now, hashlib.sha256(dsn.whole.encode("utf-8", "surrogatepass")).hexdigest()],
            begin=lambda: self._look(dsn),
            lost=lambda reason: self._note(dsn, Fingerprint("infra", reason)),
            again=lambda fingerprint: fingerprint.status == "infra",
        )

    def content(self, database: Named) -> str:
        dsn = _as_dsn(database)
        found = self._seen[dsn]
        return f"{dsn.place} {found.server} {found.hash or self._now}"

    def kept(self, database: Named) -> bool:
        """Only where all that the role can see has a hash."""
        return bool(self._seen[_as_dsn(database)].hash)

    def find(self, database: Named) -> Generator[Job | Once, Any, Found]:
        dsn = _as_dsn(database)
        found = self._seen[dsn]
        yield from ()
        if found.status != "ok":
            infra = found.status == "infra"
            return Found(problem=found.reason if infra else f"database cannot be read: {found.reason}", infra=infra)
        return Found(dsn, found.hash or self._now)

    def _look(self, dsn: Dsn) -> Generator[PostgresLook, Answer, Fingerprint]:
        found = Fingerprint("infra")
        for _ in range(_LOOKS):
            found = (yield PostgresLook(((dsn, ""),))).last
            if found.status != "infra":
                break
        return self._note(dsn, found)

    def _note(self, dsn: Dsn, found: Fingerprint) -> Fingerprint:
        if found.notes and found != self._seen.get(dsn):
            _LOG.warning("the role for %s %s; docs/verify-sql.md says what it needs", dsn.place, " and ".join(found.notes))
        self._seen[dsn] = found
        self._fresh.add(dsn)
        return found


def _dsn(text: str) -> Dsn:
    """Raises ValueError, which does not show the text: it may hold a password."""
    if text.startswith("$"):
        try:
            text = from_environment(text[1:]).whole
        except DatabaseError as error:
            raise ValueError(str(error)) from None
    if not is_dsn(text):
        raise ValueError('"database" of PostgreSQL is a connection string (postgresql://…), or $NAME of a variable that holds one')
    return Dsn(text)


def _as_dsn(database: Named) -> Dsn:
    if isinstance(database, SchemaText):
        raise TypeError("PostgreSQL takes connection strings alone")
    return database if isinstance(database, Dsn) else Dsn(database)


def _hash(schema: SchemaText) -> str:
    return hashlib.sha256(schema.sql.encode("utf-8", "surrogatepass")).hexdigest()


def _failed(result: Any) -> Found:
    reason = result.reason.removeprefix("schema fails: ")
    return Found(problem=f"schema fails: {reason}", infra=result.status == "infra")


@contextlib.contextmanager
def _new_file(path: str) -> Generator[Any, None, None]:
    """A file for workers of any user to read, which is there once it is whole. Raises OSError."""
    unfinished = f"{path}.new"
    try:
        with open(unfinished, "wb") as file:
            yield file
        os.chmod(unfinished, 0o644)
        os.rename(unfinished, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(unfinished)
        raise
