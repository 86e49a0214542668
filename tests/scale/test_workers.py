"""The pool of processes: every batch once, errors as they were meant, and nobody left behind. The jobs are stand-ins without torch."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from prefkit.errors import GuardError, ModelError, RunError
from prefkit.scale.workers import Workers, plan_processes

# Python runs this file first in each worker: the job "answer" does what its arguments say, "warm_start" reports like a training.
STAND_INS = """
import os, sys, time, types

def answer(value=None, sleep=0.0, do=""):
    from prefkit.errors import ModelError
    time.sleep(sleep)
    print("noise on standard output")
    if do == "model error":
        raise ModelError("the model nobody/nothing cannot be loaded: no such thing")
    if do == "bug":
        return 1 / 0
    if do == "wait for file":
        while not os.path.exists(value):
            time.sleep(0.01)
    if do == "write file":
        open(value, "w").close()
    if do == "exit":
        os._exit(3)
    if do == "kill":
        os.kill(os.getpid(), 9)
    if do == "environment":
        return {name: os.environ.get(name) for name in ("RANK", "WORLD_SIZE", "OMP_NUM_THREADS", "MASTER_ADDR")}
    return [value, os.getpid()]

def run(report, steps, fail_on=None):
    from prefkit.errors import GuardError
    rank = int(os.environ.get("RANK", "0"))
    for step in range(1, steps + 1):
        report({"progress": step, "total": steps, "metrics": {"rank": rank}})
    if fail_on == rank:
        raise GuardError("the reference is not the start")
    time.sleep(0.2 * (1 - rank))
    return {"rank": rank}

for name, values in {"prefkit.models.rollout_job": {"answer": answer}, "prefkit.train.warm_start": {"run": run}}.items():
    module = types.ModuleType(name)
    vars(module).update(values)
    sys.modules[name] = module
"""


@pytest.fixture
def workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Workers]:
    """A pool whose processes do the stand-in jobs; logs go to tmp_path/logs."""
    (tmp_path / "stand-ins").mkdir()
    (tmp_path / "stand-ins" / "sitecustomize.py").write_text(STAND_INS)
    root = str(Path(__file__).resolve().parents[2])
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path / "stand-ins"), root, os.environ.get("PYTHONPATH", "")]))
    return lambda processes=2: Workers(tmp_path / "logs", processes)


def test_every_batch_is_done_once_and_named_by_its_number(workers: Callable[..., Workers]) -> None:
    with workers() as pool:
        results = dict(pool.map("answer", ({"value": number, "sleep": 0.02 * (number % 3)} for number in range(12))))
        again = dict(pool.map("answer", [{"value": "again"}]))
    assert {number: result[0] for number, result in results.items()} == {number: number for number in range(12)}
    pids = {result[1] for result in results.values()}
    assert len(pids) == 2, "both processes work"
    assert again[0][0] == "again"
    assert again[0][1] in pids, "processes stay for the next job"
    assert not any(psutil.pid_exists(pid) for pid in pids), "and end with the pool"


def test_a_slow_batch_does_not_hold_up_the_others(workers: Callable[..., Workers], tmp_path: Path) -> None:
    file = str(tmp_path / "file")
    with workers() as pool:
        slow, last = {"do": "wait for file", "value": file}, {"do": "write file", "value": file}
        assert [number for number, _ in pool.map("answer", [slow, {}, {}, last])][:2] == [1, 2]


def test_batches_are_taken_as_processes_become_free(workers: Callable[..., Workers]) -> None:
    """So that what comes of one batch can decide about the next, and nothing is kept in memory before its time."""
    taken = []

    def batches() -> Any:
        for number in range(6):
            taken.append(number)
            yield {"value": number}

    with workers() as pool:
        for count, _ in enumerate(pool.map("answer", batches()), 1):
            assert len(taken) <= count + 2
        assert list(pool.map("answer", [])) == []


def test_an_error_for_the_user_keeps_its_class_and_its_words(workers: Callable[..., Workers]) -> None:
    with workers() as pool:
        with pytest.raises(ModelError, match=r"^the model nobody/nothing cannot be loaded: no such thing$"):
            list(pool.map("answer", [{}, {"do": "model error"}, {}]))
        assert dict(pool.map("answer", [{"value": 1}]))[0][0] == 1, "the pool can be used again"


def test_a_fault_of_the_program_is_named_with_its_trace(workers: Callable[..., Workers], tmp_path: Path) -> None:
    said = r"^ZeroDivisionError: division by zero \(the whole trace is in .*failure\.txt\)$"
    with workers() as pool, pytest.raises(RunError, match=said):
        list(pool.map("answer", [{"do": "bug"}]))
    assert "return 1 / 0" in (tmp_path / "logs/failure.txt").read_text()


@pytest.mark.parametrize(
    ("do", "message"), [("kill", r"was killed, most likely for want of memory; its log is .*worker-\d\.log"), ("exit", "ended with code 3")]
)
def test_a_lost_process_ends_the_run_with_the_mend(do: str, message: str, workers: Callable[..., Workers]) -> None:
    with workers() as pool:
        with pytest.raises(RunError, match=rf"model process \d {message}.*with --resume to continue"):
            list(pool.map("answer", [{"do": do}, {"sleep": 30}]))
        assert not children()


def test_a_process_killed_from_outside_ends_the_run_with_the_mend(workers: Callable[..., Workers]) -> None:
    with workers() as pool:
        results = pool.map("answer", [{}, {"sleep": 30}, {"sleep": 30}])
        next(results)
        os.kill(pool._running[1].pid, signal.SIGKILL)
        started = time.monotonic()
        with pytest.raises(RunError, match="model process 1 was killed"):
            next(results)
        assert time.monotonic() - started < 10
    assert not children()


def test_training_runs_in_all_processes_and_rank_0_reports(workers: Callable[..., Workers]) -> None:
    events: list[dict] = []
    with workers() as pool:
        result = pool.run_all("warm_start", {"steps": 3}, events.append)
    assert result == {"rank": 0}
    assert [event["progress"] for event in events] == [1, 2, 3]
    assert all(event["metrics"] == {"rank": 0} and event["total"] == 3 for event in events)


@pytest.mark.parametrize("rank", [0, 1])
def test_a_guard_in_any_rank_ends_the_training(rank: int, workers: Callable[..., Workers]) -> None:
    with workers() as pool, pytest.raises(GuardError, match="the reference is not the start"):
        pool.run_all("warm_start", {"steps": 1, "fail_on": rank}, lambda _event: None)
    assert not children()


def test_processes_know_their_ranks_and_share_out_the_cores(workers: Callable[..., Workers]) -> None:
    with workers() as pool:
        found = [result for _, result in pool.map("answer", [{"do": "environment", "sleep": 0.3}] * 2)]
    assert sorted(environment["RANK"] for environment in found) == ["0", "1"]
    assert all(environment["WORLD_SIZE"] == "2" and environment["MASTER_ADDR"] == "127.0.0.1" for environment in found)
    assert {environment["OMP_NUM_THREADS"] for environment in found} == {str(plan_processes(2)[1])}
    with workers(processes=1) as pool:
        (alone,) = [result for _, result in pool.map("answer", [{"do": "environment"}])]
    assert alone["RANK"] is None and alone["WORLD_SIZE"] is None, "one process is no group"


def test_what_jobs_print_goes_to_the_log(workers: Callable[..., Workers], tmp_path: Path) -> None:
    with workers(processes=1) as pool:
        list(pool.map("answer", [{}]))
        deadline = time.monotonic() + 5
        while "noise on standard output" not in (tmp_path / "logs/worker-0.log").read_text():
            assert time.monotonic() < deadline
            time.sleep(0.02)


def test_nobody_survives_a_killed_parent(workers: Callable[..., Workers], tmp_path: Path) -> None:
    workers()  # the stand-ins are in place
    code = (
        "import sys; from pathlib import Path; from prefkit.scale.workers import Workers\n"
        "pool = Workers(Path(sys.argv[1]), 2); results = pool.map('answer', [{}, {'sleep': 60}, {'sleep': 60}]); next(results)\n"
        "print(*[process.pid for process in pool._running], flush=True); next(results)"
    )
    parent = subprocess.Popen([sys.executable, "-c", code, str(tmp_path / "logs")], stdout=subprocess.PIPE, text=True)
    try:
        assert parent.stdout is not None
        pids = [int(pid) for pid in parent.stdout.readline().split()]
        assert len(pids) == 2
        assert all(map(alive, pids))
        os.kill(parent.pid, signal.SIGKILL)
        parent.wait()
        deadline = time.monotonic() + 10
        while any(map(alive, pids)):
            assert time.monotonic() < deadline, "model processes outlive the run"
            time.sleep(0.05)
    finally:
        parent.kill()
        parent.communicate()


def test_a_worker_whose_parent_died_before_it_began_ends_at_once() -> None:
    environment = {**os.environ, "PREFKIT_PARENT": str(os.getpid() + 1), "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    command = [sys.executable, "-m", "prefkit.scale.worker"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
    try:
        assert process.wait(30) == (1 if sys.platform == "linux" else 0)
    finally:
        process.kill()
        process.communicate()


def test_processes_are_one_a_gpu_or_one_a_core_up_to_four(monkeypatch: pytest.MonkeyPatch) -> None:
    for cores, visible, asked, expected in (
        (2, "", None, (2, 1)),
        (16, "", None, (4, 4)),
        (1, "", None, (1, 1)),
        (16, "0,1", None, (2, 8)),
        (2, "", 1, (1, 2)),
        (2, "", 4, (4, 1)),
    ):
        monkeypatch.setattr(os, "sched_getaffinity", lambda _pid, cores=cores: set(range(cores)), raising=False)
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        assert plan_processes(asked) == expected


def children() -> list[str]:
    """The command lines of this process's model processes that still run."""
    found = []
    for child in psutil.Process().children(recursive=True):
        try:
            line = " ".join(child.cmdline())
        except psutil.NoSuchProcess:
            continue
        if "prefkit.scale.worker" in line and alive(child.pid):
            found.append(line)
    return found


def alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
