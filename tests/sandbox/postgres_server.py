"""A throw-away PostgreSQL cluster for tests and benchmarks, on a socket in a temporary folder."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from prefkit.sandbox.dsn import Dsn
from prefkit.sandbox.postgres_role import right_role

PASSWORD = "correct-horse"


class Server:
    """A cluster of its own. `admin` runs SQL as superuser; `dsn` is the connection string of a role."""

    def __init__(self, folder: Path, programs: Path) -> None:
        self.folder = folder
        self._user = next((name for name in ("postgres", "nobody") if _exists(name)), None) if os.getuid() == 0 else None
        if self._user is not None:
            os.chown(folder, pwd.getpwnam(self._user).pw_uid, -1)
        data = folder / "data"
        self._run(programs / "initdb", "-D", data, "-A", "trust", "-U", "postgres", "-E", "UTF8", "--locale=C", "--no-sync")
        settings = ("listen_addresses=", "fsync=off", "shared_buffers=16MB", "max_connections=20", "autovacuum=off")
        options = [part for setting in settings for part in ("-c", setting)]
        self._log = (folder / "log").open("w")
        self._process = subprocess.Popen(
            [programs / "postgres", "-D", data, "-k", folder, *options],
            user=self._user, extra_groups=[] if self._user else None, cwd=folder,
            stdout=subprocess.DEVNULL, stderr=self._log,
        )  # fmt: skip
        import psycopg

        for _ in range(200):
            with contextlib.suppress(psycopg.OperationalError):
                self.admin("SELECT 1", database="postgres")
                return
            time.sleep(0.05)
        raise RuntimeError((folder / "log").read_text())

    def _run(self, *command: object) -> None:
        groups = [] if self._user else None
        subprocess.run(list(map(str, command)), user=self._user, extra_groups=groups, cwd=self.folder, check=True, capture_output=True)

    def stop(self) -> None:
        self._process.send_signal(signal.SIGINT)
        self._process.wait(30)
        self._log.close()

    def admin(self, sql: str, database: str = "shop") -> list[tuple]:
        import psycopg

        with psycopg.connect(self.dsn("postgres", database).whole, autocommit=True) as connection:
            cursor: Any = connection.execute(sql.encode())
            return cursor.fetchall() if cursor.description else []

    def dsn(self, role: str = "prefkit_reader", database: str = "shop", password: str = PASSWORD) -> Dsn:
        return Dsn(f"postgresql://{role}:{password}@/{database}?host={self.folder}")


def _exists(name: str) -> bool:
    with contextlib.suppress(KeyError):
        return bool(pwd.getpwnam(name))
    return False


def _programs() -> Path | None:
    found = [Path("/usr/lib/postgresql") / version / "bin" for version in ("18", "17", "16", "15", "14")]
    known = shutil.which("initdb")
    return next((path for path in [*([Path(known).resolve().parent] if known else []), *found] if (path / "initdb").exists()), None)


def missing() -> str:
    """Why there can be no cluster here, or ""."""
    if importlib.util.find_spec("psycopg") is None:
        return "the extra `postgres` is not installed"
    return "" if _programs() else "PostgreSQL's server programs (initdb, postgres) are not installed"


@contextlib.contextmanager
def started(schema: str) -> Iterator[Server]:
    """A server with the database `shop`, made by `schema`, and the role prefkit_reader, which may only read. Skips the test where there can
    be none."""
    if reason := missing():
        import pytest

        pytest.skip(reason)
    programs = _programs()
    assert programs is not None
    with tempfile.TemporaryDirectory(prefix="pg-", dir="/tmp") as folder:  # a socket's path must be short
        server = Server(Path(folder), programs)
        try:
            server.admin("CREATE DATABASE shop", database="postgres")
            server.admin(schema)
            for statement in right_role("shop").replace("…", PASSWORD).splitlines():
                server.admin(statement)
            yield server
        finally:
            server.stop()
