"""A worker process that executes SQL on PostgreSQL: the protocol of sqlite_worker.py, JSON lines in and out.

    {"op": "run", "databases": [[DSN, stamp]…], "sql": …, "cpu": …, "rows": …, "bytes": …, "truncate": false}
    {"op": "fingerprint", "databases": [[DSN, stamp]…], "cpu": …}
    -> {"results": [{"status": …, …}…], "cpu": seconds, "wall": seconds, "peak": bytes}

`cpu` is the time limit, here on the wall clock: the work is the server's. The connection string comes over the pipe alone, and stands in
no result. `fingerprint` gives {"status": "ok", "fingerprint": hash of schema and rows, or "" where they are too many, "server": version}.
"""

from __future__ import annotations

import gc
import time
from collections import OrderedDict
from typing import Any

from prefkit.errors import DatabaseError
from prefkit.sandbox.json_pipe import keep_output, serve
from prefkit.sandbox.process_guard import die_with_parent, limit_process, resident_peak

MAX_OPEN = 4
"""Connections kept open, one for each DSN."""


def main(parent: int, by_signal: bool) -> None:
    """Serve until standard input ends. `parent` is the process id to die with; see process_guard.die_with_parent."""
    die_with_parent(parent, by_signal)
    keep_output()
    from prefkit.sandbox.postgres_client import psycopg

    limit_process()
    gc.disable()
    serve(PostgresWorker(), psycopg.__version__)


class PostgresWorker:
    """Keeps connections open between jobs. `dirty` is set when memory ran out: this process should not be used again."""

    def __init__(self) -> None:
        self.dirty = False
        self._open: OrderedDict[str, Any] = OrderedDict()

    def answer(self, job: dict[str, Any]) -> dict[str, Any]:
        wall, cpu = time.perf_counter(), time.process_time()
        results = []
        for dsn, _ in job["databases"]:
            results.append(self._once_more(job, dsn))
            if results[-1]["status"] != "ok":
                break
        spent = time.perf_counter() - wall
        return {"results": results, "cpu": time.process_time() - cpu, "wall": spent, "peak": resident_peak()}

    def _once_more(self, job: dict[str, Any], dsn: str) -> dict[str, Any]:
        """Again on a new connection where the old one is gone: the server may have been started anew meanwhile."""
        from prefkit.sandbox.postgres_client import Lost

        reason = ""
        for _ in range(2):
            try:
                return self._run(job, dsn)
            except Lost as error:
                reason = str(error)
                self._forget(dsn)
                if "terminated" in reason:
                    return {"status": "timeout", "reason": "time limit: wall clock"}
            except MemoryError:
                self.dirty = True
                self._forget(dsn)
                return {"status": "limit", "reason": "limit: memory"}
            except DatabaseError as error:
                return {"status": "infra" if "no connection" in str(error) else "database", "reason": str(error)}
        return {"status": "infra", "reason": f"connection lost: {reason}"[:300]}

    def _run(self, job: dict[str, Any], dsn: str) -> dict[str, Any]:
        connection = self._find(dsn)
        if job["op"] == "fingerprint":
            from prefkit.sandbox.postgres_fingerprint import fingerprint

            return fingerprint(connection, job["cpu"])
        return connection.run(job["sql"], job["cpu"], job["rows"], job["bytes"], job["truncate"])

    def _find(self, dsn: str) -> Any:
        from prefkit.sandbox.postgres_client import GuardedPostgres

        if dsn not in self._open:
            self._open[dsn] = GuardedPostgres(dsn)
            if len(self._open) > MAX_OPEN:
                self._open.popitem(last=False)[1].close()
        self._open.move_to_end(dsn)
        return self._open[dsn]

    def _forget(self, dsn: str) -> None:
        connection = self._open.pop(dsn, None)
        if connection is not None:
            connection.close()
