"""Where candidate code runs: worker processes in the isolation that they need, their limits, and the pool that replaces them.

In the parent
    job.py             what workers are asked to do, and what comes of it; limits.py: what one SQL execution may use
    pool.py            hands jobs to workers, kills at the deadline, judges again what was lost; worker.py: one worker and its pipes
    launch.py          the command lines of workers
    probe.py, tiers.py which guards and tiers hold on this machine, found by running canaries

On the way into tiers A and B
    enter.py           root given up, then bubblewrap; seccomp.py, syscalls.py: the system-call filter; landlock.py: files, network, signals

A worker for code
    zygote.py          forks once for each candidate; zygote_run.py: one run; zygote_child.py: in the child; zygote_wire.py: the bytes
    processes.py, scratch.py, compiled.py, json_check.py: its processes, folders, compiled programs, results that must be plain JSON
    op_program.py, op_python.py, op_math.py: what it can be asked; candidate.py, guarded_tests.py, pytest_stand_in.py, tamper.py
    values.py          Python values as canonical typed JSON

Workers for SQL
    sqlite_worker.py, sqlite_guard.py, sqlite_shadow.py, sql_tokens.py, process_guard.py
    duckdb_worker.py, duckdb_guard.py, duckdb_open.py, duckdb_query.py; isolated.py: how it locks itself in
    postgres_worker.py, postgres_client.py, postgres_role.py, postgres_plan.py, postgres_text.py, postgres_errors.py,
    postgres_fingerprint.py
    dsn.py             connection strings kept out of sight; sql_wire.py: values between worker and parent
    json_pipe.py       lines between them, and the loop that answers them; json_tree.py: an engine's trees

What runs inside a worker imports the standard library alone (and the engine, where there is one), so that it starts fast.
"""
