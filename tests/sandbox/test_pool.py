"""Workers die, hang, get lost, and lose their parent: every job is answered once, and no process is left."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from prefkit.errors import IsolationUnavailable
from prefkit.sandbox import pool as pool_file
from prefkit.sandbox.job import SqlJob
from prefkit.sandbox.limits import SqlLimits
from prefkit.sandbox.pool import WorkerPool

ROOT = Path(__file__).resolve().parents[2]
ENDLESS = "WITH RECURSIVE r(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM r) SELECT count(*) FROM r"
STALL = "SELECT sum(instr(a.body || a.body, substr(b.body, 1, 30000) || 'b')) FROM long a, long b, long c"


def job(shop: Path, sql: str, timeout_s: float = 1.0) -> SqlJob:
    return SqlJob(sql, ((str(shop), "1"),), SqlLimits(timeout_s))


def answers(pool: WorkerPool, jobs: list[SqlJob], meanwhile: Callable[[int], None] = lambda done: None) -> dict[int, str]:
    """Submit all, and collect position -> status; each job must be answered exactly once."""
    for i, one in enumerate(jobs):
        one.tag = i
        pool.submit(one)
    found: dict[int, str] = {}
    while len(found) < len(jobs):
        for done, answer in pool.pump(0.2):
            assert done.tag not in found
            found[done.tag] = answer.last.status
            meanwhile(len(found))
    return found


def alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    status = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True).stdout.strip()
    return bool(status) and not status.startswith("Z")


def gone_within(pids: list[int], seconds: float) -> bool:
    end = time.monotonic() + seconds
    while any(alive(pid) for pid in pids) and time.monotonic() < end:
        time.sleep(0.02)
    return not any(alive(pid) for pid in pids)


def test_all_jobs_are_answered_by_two_workers(shop: Path) -> None:
    with WorkerPool(2) as pool:
        found = answers(pool, [job(shop, "SELECT count(*) FROM sale" if i % 3 else "nonsense") for i in range(300)])
        assert len(pool._workers) == 2
        assert pool.executions == 300
    assert found == {i: "ok" if i % 3 else "error" for i in range(300)}


def test_killed_workers_are_replaced_and_nothing_is_lost(shop: Path) -> None:
    with WorkerPool(2) as pool:

        def kill_one(done: int) -> None:
            if done % 40 == 0 and pool._workers[0].ready:
                os.kill(pool._workers[0].process.pid, signal.SIGKILL)

        found = answers(pool, [job(shop, f"SELECT {i} FROM sale") for i in range(400)], kill_one)
        assert set(found.values()) == {"ok"}
        assert pool.replaced >= 1


def test_a_slow_neighbour_changes_no_verdict(shop: Path) -> None:
    with WorkerPool(2) as pool:
        jobs = [job(shop, STALL if i in (3, 17) else "SELECT 1", timeout_s=0.2) for i in range(40)]
        found = answers(pool, jobs)
    assert found == {i: "timeout" if i in (3, 17) else "ok" for i in range(40)}


def test_a_job_that_kills_its_worker_each_time_is_given_up(shop: Path) -> None:
    with WorkerPool(1) as pool:
        poison, after = job(shop, ENDLESS, timeout_s=5.0), job(shop, "SELECT 1")
        pool.submit(poison)
        pool.submit(after)
        found: dict[str, str] = {}
        end = time.monotonic() + 60
        while len(found) < 2 and time.monotonic() < end:
            for worker in pool._workers:
                if worker.ready and worker.jobs and worker.jobs[0] is poison:
                    os.kill(worker.process.pid, signal.SIGSEGV if poison.attempts else signal.SIGKILL)
            for done, answer in pool.pump(0.02):
                assert isinstance(done, SqlJob)
                found[done.sql] = f"{answer.last.status}: {answer.last.reason}"
        assert found == {ENDLESS: "crash: the engine died (SIGSEGV)", "SELECT 1": "ok: "}


def test_a_stopped_worker_is_killed_by_the_wall_clock(shop: Path) -> None:
    with WorkerPool(1) as pool:
        assert pool.run(job(shop, "SELECT 1")).last.status == "ok"
        stopped = pool._workers[0].process.pid
        os.kill(stopped, signal.SIGSTOP)
        begun = time.monotonic()
        answer = pool.run(job(shop, "SELECT 2", timeout_s=0.05))
        assert answer.last.rows == [(2,)]  # run again, alone
        assert 1.0 < time.monotonic() - begun < 60.0
        assert not alive(stopped)


def test_killed_soon_after_the_deadline(shop: Path) -> None:
    with WorkerPool(1) as pool:
        pool.run(job(shop, "SELECT 1"))
        spent = pool.run(job(shop, STALL, timeout_s=0.3)).cpu_s
    assert spent < 0.3 + 0.1 + 0.1  # the deadline, what is allowed after it, and the start of the worker that confirmed it


def test_results_larger_than_a_pipe(shop: Path) -> None:
    with WorkerPool(2) as pool:
        long_query = "SELECT body FROM long LIMIT 30 -- " + "x" * 90_000
        for _ in range(3):
            found = answers(pool, [job(shop, long_query) for _ in range(12)])
            assert set(found.values()) == {"ok"}


def test_closing_leaves_no_process(shop: Path) -> None:
    pool = WorkerPool(2)
    answers(pool, [job(shop, "SELECT 1") for _ in range(20)])
    pids = [worker.process.pid for worker in pool._workers]
    pool.submit(job(shop, ENDLESS, 60.0))
    pool.pump(0.0)
    pool.close()
    assert len(pids) == 2 and not any(alive(pid) for pid in pids)


def test_replacing_many_workers_leaks_nothing(shop: Path) -> None:
    def descriptors() -> int:
        return len(os.listdir("/dev/fd"))

    with WorkerPool(1) as pool:
        pool.run(job(shop, "SELECT 1"))
        before = descriptors()
        killed = []
        for _ in range(15):
            killed.append(pool._workers[0].process.pid)
            os.kill(killed[-1], signal.SIGKILL)
            assert pool.run(job(shop, "SELECT 1")).last.status == "ok"
        assert descriptors() <= before + 1
        killed.append(pool._workers[0].process.pid)
    for pid in killed:  # not even a zombie; other tests of this process may have children of their own
        with pytest.raises(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)


PARENT = textwrap.dedent(
    """
    import os, sys, threading, time
    from prefkit.sandbox.limits import SqlLimits
    from prefkit.sandbox.pool import WorkerPool
    from prefkit.sandbox.job import SqlJob
    path, how, sql = sys.argv[1:]

    def begin():
        global pool
        pool = WorkerPool(2)
        for _ in range(2):
            pool.submit(SqlJob(sql, ((path, "1"),), SqlLimits(timeout_s=1000.0)))
        while not all(worker.ready for worker in pool._workers):
            pool.pump(0.1)

    if how == "thread":
        thread = threading.Thread(target=begin)
        thread.start()
        thread.join()
        time.sleep(0.7)
    else:
        begin()
    if how == "fork" and os.fork() == 0:
        print(os.getpid(), "child", flush=True)
        time.sleep(60)
        os._exit(0)
    time.sleep(0.2)
    print(*[worker.process.pid for worker in pool._workers], flush=True)
    time.sleep(60)
    """
)


@pytest.mark.parametrize("sql", [ENDLESS, STALL], ids=["steps", "no steps"])
@pytest.mark.parametrize("how", ["plain", "thread", "fork"])
def test_no_worker_survives_its_parents_sigkill(shop: Path, how: str, sql: str) -> None:
    """Also when a thread that has ended started the workers, and when a forked child still holds the pipes."""
    command = [sys.executable, "-c", PARENT, str(shop), how, sql]
    parent = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert parent.stdout is not None
    child = None
    try:
        line = parent.stdout.readline().split()
        if "child" in line:
            child, line = int(line[0]), parent.stdout.readline().split()
        pids = [int(pid) for pid in line]
        assert len(pids) == 2 and all(alive(pid) for pid in pids)
        parent.kill()
        parent.wait()
        assert gone_within(pids, 2.0)
    finally:
        parent.kill()
        parent.wait()
        parent.stdout.close()
        if child is not None:
            os.kill(child, signal.SIGKILL)


def test_a_forked_child_does_not_end_its_parents_workers(shop: Path) -> None:
    with WorkerPool(1) as pool:
        pool.run(job(shop, "SELECT 1"))
        child = os.fork()
        if child == 0:
            pool.close()
            os._exit(0)
        os.waitpid(child, 0)
        assert pool.run(job(shop, "SELECT 1")).last.status == "ok"
        assert pool.replaced == 0


def test_workers_started_in_a_thread_work_on(shop: Path) -> None:
    pools: list[WorkerPool] = []

    def begin() -> None:
        pools.append(WorkerPool(1))
        pools[0].run(job(shop, "SELECT 1"))

    thread = threading.Thread(target=begin)
    thread.start()
    thread.join()
    time.sleep(0.1)
    with pools[0] as pool:
        assert pool.run(job(shop, "SELECT 1")).last.status == "ok"
        assert pool.replaced == 0


def test_a_worker_that_cannot_start_says_why(shop: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("prefkit.sandbox.launch.ROOT", str(tmp_path))
    with WorkerPool(2) as pool, pytest.raises(IsolationUnavailable, match="No module named 'prefkit'"):
        pool.run(job(shop, "SELECT 1"))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "no-python"))
    with WorkerPool(1) as pool, pytest.raises(IsolationUnavailable, match="no-python"):
        pool.run(job(shop, "SELECT 1"))


def test_a_worker_has_limits_and_no_environment(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PREFKIT_TEST_SECRET", "secret")
    with WorkerPool(1) as pool:
        pool.run(job(shop, "SELECT 1"))
        pid = pool._workers[0].process.pid
        if sys.platform != "linux":
            pytest.skip("reads /proc")
        assert os.getsid(pid) == pid
        if os.geteuid() == 0:  # the process is not dumpable: only root sees these
            assert b"secret" not in Path(f"/proc/{pid}/environ").read_bytes()
        limits = {name: resource.prlimit(pid, getattr(resource, f"RLIMIT_{name}")) for name in ("AS", "CORE", "FSIZE", "NOFILE", "NPROC")}
        assert limits == {"AS": (1 << 30,) * 2, "CORE": (0, 0), "FSIZE": (0, 0), "NOFILE": (256, 256), "NPROC": (0, 0)}
        assert "NoNewPrivs:\t1" in Path(f"/proc/{pid}/status").read_text()


def test_a_worker_starts_quickly_and_from_the_standard_library_alone() -> None:
    code = f"import sys; sys.path.append({str(ROOT)!r}); import prefkit.sandbox.sqlite_worker; print(*sorted(sys.modules))"
    times = []
    for _ in range(5):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        out = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True).stdout
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    assert min(times) < 0.06, times
    foreign = {name.partition(".")[0] for name in out.split()} - sys.stdlib_module_names - {"prefkit", "__main__"}
    assert not {name for name in foreign if not name.startswith("_")}


def test_workers_make_way_for_fresh_ones_without_a_loss(shop: Path) -> None:
    """A worker that ends by itself (as after many jobs, or memory run out) costs nothing but its replacement."""
    greedy = "SELECT a.body FROM long a, long b, long c ORDER BY b.body"
    with WorkerPool(2) as pool:
        found = answers(pool, [job(shop, greedy if i % 10 == 0 else "SELECT 1", timeout_s=10.0) for i in range(30)])
    assert found == {i: "limit" if i % 10 == 0 else "ok" for i in range(30)}


def test_pipes_are_kept_short(shop: Path) -> None:
    with WorkerPool(1) as pool:
        for _ in range(50):
            pool.submit(job(shop, "SELECT 1"))
        assert len(pool._workers[0].jobs) == pool_file.DEPTH
        assert pool.backlog == 50 - pool_file.DEPTH
        pool.drop_queued()
        assert pool.backlog == 0
