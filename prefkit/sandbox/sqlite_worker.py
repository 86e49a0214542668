"""A worker process that executes SQL: jobs come as JSON lines on standard input, results leave as JSON lines on standard output.

Started by worker.py as `python -I -S -c …` with an empty environment; imports the standard library alone. One line out for each line in,
in order, so that after a death the first unanswered job is the one that was running.

    {"op": "run", "databases": [[path, stamp]…], "order": "", "sql": …, "steps": …, "cpu": …, "rows": …, "bytes": …, "truncate": false}
    {"op": "build", "script": "CREATE TABLE …", "cpu": …}
    -> {"results": [{"status": …, …}…], "cpu": seconds, "wall": seconds, "peak": bytes}
"""

from __future__ import annotations

import base64
import gc
import sqlite3
import time
from collections import OrderedDict
from typing import Any

from prefkit.sandbox.json_pipe import serve
from prefkit.sandbox.process_guard import die_with_parent, limit_cpu, limit_process, resident_peak
from prefkit.sandbox.sqlite_guard import GuardedDatabase, open_read_only
from prefkit.sandbox.sqlite_shadow import build_image, open_shadow

MAX_OPEN = 128
"""Databases kept open, shadows included."""


def main(parent: int, by_signal: bool) -> None:
    """Serve until standard input ends. `parent` is the process id to die with; see process_guard.die_with_parent."""
    die_with_parent(parent, by_signal)
    limit_process()
    gc.disable()  # results are trees: reference counts free them
    serve(SqliteWorker(), sqlite3.sqlite_version, _blob)


class SqliteWorker:
    """Keeps databases open between jobs. `dirty` is set when memory ran out: this process should not be used again."""

    def __init__(self) -> None:
        self.dirty = False
        self._open: OrderedDict[tuple[str, str, str], GuardedDatabase] = OrderedDict()
        self._peak = 0

    def answer(self, job: dict[str, Any]) -> dict[str, Any]:
        wall, cpu = time.perf_counter(), time.process_time()
        results = [_build(job)] if job["op"] == "build" else self._run(job)
        cpu = time.process_time() - cpu
        if cpu > 0.002 or not self._peak:
            self._peak = resident_peak()
        return {"results": results, "cpu": cpu, "wall": time.perf_counter() - wall, "peak": self._peak}

    def _run(self, job: dict[str, Any]) -> list[dict[str, Any]]:
        """One result for each database, up to the first that is not ok."""
        results = []
        for path, stamp in job["databases"]:
            limit_cpu(job["cpu"])
            try:
                result = self._run_one(job, path, stamp)
            except MemoryError:
                # Databases kept open count against the memory limit, so that is judged with this one alone.
                self._close_all()
                try:
                    result = self._run_one(job, path, stamp)
                except MemoryError:
                    result = {"status": "limit", "reason": "limit: memory"}
            finally:
                limit_cpu(0)
            self.dirty = self.dirty or result.get("reason") == "limit: memory"
            results.append(result)
            if result["status"] != "ok":
                break
        return results

    def _run_one(self, job: dict[str, Any], path: str, stamp: str) -> dict[str, Any]:
        key = (path, stamp, job["order"])
        database = self._open.get(key)
        if database is None:
            try:
                database = open_shadow(path, job["order"]) if job["order"] else open_read_only(path)
            except sqlite3.Error as error:
                return {"status": "database", "reason": str(error)}
            self._open[key] = database
            if len(self._open) > MAX_OPEN:
                self._open.popitem(last=False)[1].close()
        else:
            self._open.move_to_end(key)
        result = database.run(job["sql"], job["steps"], job["rows"], job["bytes"], job["truncate"])
        if not database.faithful:
            result["unfaithful"] = True
        return result

    def _close_all(self) -> None:
        for database in self._open.values():
            database.close()
        self._open.clear()


def _build(job: dict[str, Any]) -> dict[str, Any]:
    limit_cpu(job["cpu"])
    try:
        return {"status": "ok", "image": base64.b64encode(build_image(job["script"])).decode()}
    except (sqlite3.Error, sqlite3.Warning, ValueError) as error:
        return {"status": "error", "reason": str(error)[:300]}
    except MemoryError:
        return {"status": "limit", "reason": "limit: memory"}
    finally:
        limit_cpu(0)


def _blob(value: object) -> dict[str, str]:
    if isinstance(value, bytes):
        return {"blob": value.hex()}
    raise TypeError(f"not a value of SQLite: {type(value)}")
