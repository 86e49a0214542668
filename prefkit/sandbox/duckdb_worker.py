"""A worker process that executes SQL on DuckDB: the protocol of sqlite_worker.py, JSON lines in and out.

    {"op": "run", "databases": [[path, stamp]…], "order": "", "sql": …, "cpu": …, "rows": …, "bytes": …, "truncate": false}
    {"op": "build", "script": "CREATE TABLE …", "cpu": …}
    -> {"results": [{"status": …, …}…], "cpu": seconds, "wall": seconds, "peak": bytes}

Paths are relative to the one folder that this process can read. One that ends in `.sql` holds schema text; `build` says whether such text
runs. Values of rows stand as in sql_wire.py, and `types` names the columns' types. Processor time is the time limit: the query is
interrupted there, and SIGPROF ends the process where that does not help.

Runs in tier A or B alone: an engine that reads files, takes memory addresses and loads native code when it is asked to is not left with its
own settings as the only guard.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from prefkit.sandbox.duckdb_guard import GuardedDuckdb, failure
from prefkit.sandbox.isolated import leave_process_one, lock_in
from prefkit.sandbox.json_pipe import keep_output, serve
from prefkit.sandbox.process_guard import limit_cpu, limit_process, resident_peak

MEMORY = 3 << 29
"""Address space of a worker in bytes (RLIMIT_AS): 1.5 GiB, of which the engine's library and an open database take about half."""
MAX_OPEN = 16
"""Databases kept open; each may take duckdb_guard.MEMORY_LIMIT."""
GRACE_S = 0.5
"""Processor seconds between the interrupt and SIGPROF."""
OPEN_S = 10.0
"""Processor seconds for opening a database, which are not the query's."""
_LOOK_S = 0.01


def main(config: str, folder: str) -> None:
    """Serve until standard input ends. config: what launch.py says of the sandbox, as JSON. folder: of the database files."""
    plan = json.loads(config)
    leave_process_one()
    lock_in(plan, folder)
    sys.path.extend(plan["packages"])
    os.chdir(folder)
    keep_output()
    from prefkit.sandbox.duckdb_open import duckdb

    watch = CpuWatch()  # its thread has to begin before new processes and threads are forbidden
    limit_process(MEMORY)
    gc.disable()
    serve(DuckdbWorker(watch), duckdb.__version__)


class CpuWatch:
    """Calls `stop` once this process has used so many more seconds of the processor. One thread for the life of the process."""

    def __init__(self) -> None:
        self.fired = False
        self._deadline = 0.0
        self._stop: Callable[[], None] = lambda: None
        self._lock = threading.Lock()
        self._set = threading.Event()
        threading.Thread(target=self._run, daemon=True).start()

    def start(self, seconds: float, stop: Callable[[], None]) -> None:
        with self._lock:
            self.fired, self._stop = False, stop
            self._deadline = time.process_time() + seconds
        self._set.set()

    def clear(self) -> None:
        """After this, `stop` is not called any more."""
        self._set.clear()
        with self._lock:
            self._deadline = 0.0

    def _run(self) -> None:
        while True:
            self._set.wait()
            time.sleep(_LOOK_S)
            with self._lock:
                if self._deadline and time.process_time() >= self._deadline:
                    self.fired = True
                    self._stop()  # again and again, until the query has noticed


class DuckdbWorker:
    """Keeps databases open between jobs. `dirty` is set when memory ran out or the engine failed: this process should not be used again."""

    def __init__(self, watch: CpuWatch) -> None:
        self.dirty = False
        self._watch = watch
        self._open: OrderedDict[tuple[str, str, str], GuardedDuckdb] = OrderedDict()
        self._peak = 0

    def answer(self, job: dict[str, Any]) -> dict[str, Any]:
        wall, cpu = time.perf_counter(), time.process_time()
        results = [self._build(job)] if job["op"] == "build" else self._run(job)
        cpu = time.process_time() - cpu
        if cpu > 0.01 or not self._peak:
            self._peak = resident_peak()
        return {"results": results, "cpu": cpu, "wall": time.perf_counter() - wall, "peak": self._peak}

    def _run(self, job: dict[str, Any]) -> list[dict[str, Any]]:
        """One result for each database, up to the first that is not ok."""
        results = []
        for path, stamp in job["databases"]:
            result = self._run_one(job, path, stamp)
            if result.get("reason") == "limit: memory" and len(self._open) > 1:
                # Databases kept open count against the memory limit, so that is judged with this one alone.
                self._close_all()
                result = self._run_one(job, path, stamp)
            self.dirty = self.dirty or result.get("reason") == "limit: memory" or result["status"] == "crash"
            results.append(result)
            if result["status"] != "ok":
                break
        return results

    def _run_one(self, job: dict[str, Any], path: str, stamp: str) -> dict[str, Any]:
        limit_cpu(OPEN_S)
        try:
            database = self._find(path, stamp, job.get("order", ""))
            if isinstance(database, dict):
                return database
            limit_cpu(job["cpu"] + GRACE_S)
            self._watch.start(job["cpu"], database.interrupt)
            result = database.run(job["sql"], job["rows"], job["bytes"], job["truncate"])
        except MemoryError:
            result, database = {"status": "limit", "reason": "limit: memory"}, None
        finally:
            self._watch.clear()
            limit_cpu(0)
        if self._watch.fired and result["status"] != "ok":
            return {"status": "timeout", "reason": "time limit: processor time"}
        if result["status"] == "interrupted":
            return {"status": "infra", "reason": "interrupted"}
        return result | {"unfaithful": True} if database is not None and not database.faithful else result

    def _find(self, path: str, stamp: str, order: str) -> GuardedDuckdb | dict[str, Any]:
        """The open database, or the result that says why there is none."""
        from prefkit.sandbox.duckdb_open import SchemaError, open_database

        key = (path, stamp, order)
        database = self._open.get(key)
        if database is not None:
            self._open.move_to_end(key)
            return database
        # The engine gives every connection to one path the same instance: an older version of the file has to be let go first.
        for old in [known for known in self._open if known[0] == path and known[1] != stamp]:
            self._open.pop(old).close()
        try:
            database = open_database(path, order)
        except SchemaError as error:
            return {"status": "database", "reason": str(error)}
        except MemoryError:
            raise
        except Exception as error:
            result = failure(error)
            return result if result["status"] == "limit" else {"status": "database", "reason": result["reason"]}
        self._open[key] = database
        if len(self._open) > MAX_OPEN:
            self._open.popitem(last=False)[1].close()
        return database

    def _build(self, job: dict[str, Any]) -> dict[str, Any]:
        from prefkit.sandbox.duckdb_open import SchemaError, build

        limit_cpu(job["cpu"])
        try:
            build(job["script"]).close()
        except SchemaError as error:
            memory = "Out of Memory" in str(error)
            return {"status": "limit", "reason": "limit: memory"} if memory else {"status": "error", "reason": str(error)}
        except MemoryError:
            return {"status": "limit", "reason": "limit: memory"}
        finally:
            limit_cpu(0)
        return {"status": "ok"}

    def _close_all(self) -> None:
        for database in self._open.values():
            database.close()
        self._open.clear()
