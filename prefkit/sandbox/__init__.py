"""Where candidate code runs: guarded worker processes, their limits, and the pool that replaces them.

    limits.py          what one execution may use
    sql_tokens.py      SQLite's tokens: find the clock, the top-level ORDER BY, prose in a query
    process_guard.py   inside a worker: rlimits, death with the parent, peak memory
    sqlite_guard.py    inside a worker: read-only connection, authorizer, step budget, caps on rows and bytes
    sqlite_shadow.py   inside a worker: the same data in another storage order, and databases built from schema text
    sqlite_worker.py   inside a worker: reads jobs as JSON lines, writes results as JSON lines
    worker.py          in the parent: one worker process and its pipes
    pool.py            in the parent: hands jobs to workers, kills at the deadline, judges again what was lost
    probe.py           which guards hold on this machine, found by running canaries

A worker imports the standard library alone, so that it starts in tens of milliseconds.
"""
