"""The run folder: what is written is whole, what is done is known, one process writes, and a run that was killed goes on."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy
import pyarrow.parquet as parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prefkit.errors import DataError, RunError
from prefkit.runfolder import RunFolder, hash_file, hash_rows, hash_value, run_path

ROOT = Path(__file__).resolve().parent.parent
ROWS = [
    {"id": "a/1/0", "prompt_ids": [1, 2], "messages": [{"role": "user", "content": "How many?"}], "score": None, "wall_s": 0.1},
    {"id": "a/1/1", "prompt_ids": [1], "messages": [{"role": "user", "content": "Wie viele? é"}], "score": 1, "wall_s": 0.2, "extra": True},
]

scalars = st.none() | st.booleans() | st.integers(-(2**62), 2**62) | st.floats(allow_nan=False) | st.text()
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4), max_leaves=12)


def stage(run: RunFolder, name: str = "rollouts", inputs: str = "i", **figures: Any) -> dict[str, Any]:
    """One small stage with a Parquet, a JSON and an adapter folder."""
    run.begin(name, inputs)
    run.write_rows("rollouts/base-0.parquet", ROWS)
    run.write_json("evaluation.json", {"k": 4, "seconds": 3.2})
    with run.new_folder("warm_start/round-0/adapter") as folder:
        (folder / "adapter.bin").write_bytes(b"weights")
    return run.finish(name, inputs, ["rollouts/base-0.parquet", "evaluation.json", "warm_start"], figures, 1.5, seed=7)


# Hashes


@given(values, st.randoms())
def test_hash_of_a_value_does_not_depend_on_the_order_of_keys(value: Any, randomness: random.Random) -> None:
    def shuffled(item: Any) -> Any:
        if isinstance(item, dict):
            keys = list(item)
            randomness.shuffle(keys)
            return {key: shuffled(item[key]) for key in keys}
        return [shuffled(entry) for entry in item] if isinstance(item, list) else item

    assert hash_value(shuffled(value)) == hash_value(value)
    assert hash_value(json.loads(json.dumps(value))) == hash_value(value)


@given(values, values)
def test_different_values_have_different_hashes(left: Any, right: Any) -> None:
    same = json.dumps(left, sort_keys=True) == json.dumps(right, sort_keys=True)
    assert (hash_value(left) == hash_value(right)) is same


def test_hash_is_the_same_on_every_machine() -> None:
    assert hash_value({"b": [1, 2.5, None, True], "a": "é"}) == "0b8cc543e984d4d7398f5f603a4b91d358a2565f1d6b6a058565d662854e37cf"


def test_hash_takes_numpy_and_paths_and_refuses_sets() -> None:
    assert hash_value([numpy.int64(3), numpy.array([1.5]), Path("a/b")]) == hash_value([3, [1.5], "a/b"])
    with pytest.raises(TypeError, match="set"):
        hash_value({1, 2})


@given(st.lists(st.dictionaries(st.sampled_from(["id", "score", "wall_s", "seconds"]), st.integers(0, 3)), max_size=4), st.integers(4, 9))
def test_hash_of_rows_ignores_timings_and_nothing_else(rows: list[dict[str, int]], other: int) -> None:
    slower = [{**row, "wall_s": other, "cpu_s": other, "peak_mem": other, "seconds": other} for row in rows]
    assert hash_rows(slower) == hash_rows(rows)
    changed = [{**row, "score": other} for row in rows]
    assert (hash_rows(changed) == hash_rows(rows)) is (not rows)


def test_hash_of_rows_depends_on_their_order() -> None:
    assert hash_rows(ROWS) != hash_rows(ROWS[::-1])


def test_equal_runs_have_equal_hashes_whatever_they_took(tmp_path: Path) -> None:
    entries = []
    for name, delay in (("one", 0.1), ("two", 0.9)):
        run = RunFolder(tmp_path / name)
        run.write_rows("a.parquet", [{**row, "wall_s": delay, "cached": delay > 0.5} for row in ROWS])
        run.write_json("b.json", {"cost": {"seconds": delay, "tokens": 3}})
        entries.append(run.finish("s", "i", ["a.parquet", "b.json"], {}, delay)["outputs"])
    assert entries[0] == entries[1]
    RunFolder(tmp_path / "two").write_json("b.json", {"cost": {"seconds": 0.1, "tokens": 4}})
    assert hash_file(tmp_path / "two" / "b.json") != entries[0]["b.json"]


# Files


def test_rows_come_back_as_they_were_with_none_for_what_was_not_there(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    run.write_rows("rows.parquet", ROWS)
    assert run.read_rows("rows.parquet") == [{**ROWS[0], "extra": None}, ROWS[1]]
    assert parquet.read_table(tmp_path / "rows.parquet").column_names == ["id", "prompt_ids", "messages", "score", "wall_s", "extra"]
    run.write_rows("empty.parquet", [])
    assert run.read_rows("empty.parquet") == []
    run.write_rows("free.parquet", [{"versions": {}}, {"versions": None}])
    assert run.read_rows("free.parquet") == [{"versions": None}, {"versions": None}]


def test_a_column_with_two_types_is_refused_by_name_and_leaves_nothing(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    with pytest.raises(DataError, match="column score cannot be written"):
        run.write_rows("rows.parquet", [{"score": 1}, {"score": "one"}])
    assert list(tmp_path.iterdir()) == []


def test_hugging_face_datasets_reads_the_rows(tmp_path: Path) -> None:
    import datasets

    file = RunFolder(tmp_path).write_rows("pairs/round-0.parquet", [{"prompt": [{"role": "user", "content": "q"}], "chosen_ids": [1, 2]}])
    table = datasets.Dataset.from_parquet(str(file), cache_dir=str(tmp_path / "cache"))
    assert table[0] == {"prompt": [{"role": "user", "content": "q"}], "chosen_ids": [1, 2]}


def test_json_is_standard_json_also_with_broken_text(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    run.write_json("x.json", {"completion": "half a character \udce9, é", "n": numpy.float64(0.5)})
    assert json.loads((tmp_path / "x.json").read_text("utf-8")) == {"completion": "half a character \udce9, é", "n": 0.5}
    with pytest.raises(ValueError, match="not JSON compliant"):
        run.write_json("x.json", {"loss": float("nan")})
    assert run.read_json("x.json")["n"] == 0.5


def test_missing_and_broken_files_say_what_to_do(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    with pytest.raises(RunError, match=r"evaluation\.json is missing.*--resume"):
        run.read_json("evaluation.json")
    with pytest.raises(RunError, match=r"pairs\.parquet is missing.*--resume"):
        run.read_rows("pairs.parquet")
    (tmp_path / "evaluation.json").write_text("{")
    (tmp_path / "pairs.parquet").write_text("not parquet")
    with pytest.raises(RunError, match=r"evaluation\.json is broken"):
        run.read_json("evaluation.json")
    with pytest.raises(RunError, match=r"pairs\.parquet is broken"):
        run.read_rows("pairs.parquet")


@pytest.mark.parametrize("rel", ["../x", "/etc/passwd", "a/../../x", ""])
def test_paths_stay_in_the_folder(tmp_path: Path, rel: str) -> None:
    with pytest.raises(ValueError, match="inside a run folder"):
        RunFolder(tmp_path).write_text(rel, "x")


def test_a_failing_write_leaves_the_old_file_and_no_other(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    run.write_text("report.md", "old")
    with pytest.raises(TypeError):
        run.write_json("report.md", {"x": object()})
    with pytest.raises(RuntimeError), run.new_folder("adapter") as folder:
        (folder / "half").write_text("half")
        raise RuntimeError
    assert [path.name for path in tmp_path.iterdir()] == ["report.md"]
    assert (tmp_path / "report.md").read_text() == "old"


# The manifest


def test_a_stage_is_done_until_its_inputs_or_its_files_change(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    assert not run.is_done("rollouts", "i")
    entry = stage(run, tokens=12)
    assert run.is_done("rollouts", "i")
    assert set(entry["outputs"]) == {"rollouts/base-0.parquet", "evaluation.json", "warm_start/round-0/adapter/adapter.bin"}
    assert (entry["figures"], entry["seconds"], entry["seed"]) == ({"tokens": 12}, 1.5, 7)
    assert entry["versions"]["python"] == ".".join(str(part) for part in sys.version_info[:3])
    assert not run.is_done("rollouts", "other inputs")
    assert not run.is_done("verify", "i")
    for rel in entry["outputs"]:
        before = run.file(rel).read_bytes()
        for other in (
            before + b" ",
            before[:-1],
            bytes([before[0] ^ 1]) + before[1:],
            before[:-6] + bytes([before[-6] ^ 1]) + before[-5:],
            None,
        ):
            if other is None:
                run.file(rel).unlink()
            else:
                run.file(rel).write_bytes(other)
            assert not run.is_done("rollouts", "i"), (rel, other)
        run.file(rel).write_bytes(before)
        assert run.is_done("rollouts", "i")


def test_the_same_stage_twice_has_one_entry(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    run.describe(recipe="sql-gen")
    stage(run, tokens=1)
    stage(run, tokens=2)
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    assert (manifest["version"], manifest["recipe"], list(manifest["stages"])) == (1, "sql-gen", ["rollouts"])
    assert manifest["stages"]["rollouts"]["figures"] == {"tokens": 2}


def test_a_begun_stage_is_not_done_and_may_be_continued_with_the_same_inputs(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    stage(run)
    run.begin("rollouts", "new")
    assert not run.is_done("rollouts", "new")
    assert not run.is_done("rollouts", "i")
    assert run.unfinished("rollouts", "new")
    assert not run.unfinished("rollouts", "i")
    stage(run, inputs="new")
    assert not run.unfinished("rollouts", "new")


def test_checkpoints_of_other_inputs_are_gone_and_those_of_the_same_stay(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    run.begin("calibrate", "i")
    run.write_text("checkpoints/calibrate/step-4/adapter", "x")
    run.write_text("checkpoints/last", "4")
    run.begin("calibrate", "i", keep_steps=4, scratch=["checkpoints"])
    assert run.file("checkpoints/calibrate/step-4/adapter").exists()
    run.begin("calibrate", "new", scratch=["checkpoints/calibrate", "checkpoints/last", "never/there"])
    assert list(run.file("checkpoints").iterdir()) == []


def test_a_stage_without_its_output_does_not_finish(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    run.file("empty").mkdir()
    for rel in ("pairs.parquet", "empty"):
        with pytest.raises(RunError, match="without its output"):
            run.finish("pairs", "i", [rel], {}, 0.1)
    assert not run.is_done("pairs", "i")


def test_a_manifest_that_cannot_be_read_is_a_message(tmp_path: Path) -> None:
    for text, words in (("{", "cannot be read"), ('{"version": 9, "stages": {}}', "no manifest of this version"), ("[]", "no manifest")):
        (tmp_path / "manifest.json").write_text(text)
        with pytest.raises(RunError, match=words):
            RunFolder(tmp_path).is_done("x", "i")


def test_existing_refuses_what_is_no_run_and_names_the_runs_there(tmp_path: Path) -> None:
    stage(RunFolder(tmp_path / "sql-gen-1"))
    assert RunFolder.existing(tmp_path / "sql-gen-1").is_done("rollouts", "i")
    with pytest.raises(RunError, match=r"is no run folder.*sql-gen-1"):
        RunFolder.existing(tmp_path / "sql-gen-2")


def test_a_fresh_run_gets_the_next_name_and_the_newest_is_continued(tmp_path: Path) -> None:
    assert run_path("sql-gen-ab", tmp_path) == run_path("sql-gen-ab", tmp_path, fresh=True) == tmp_path / "sql-gen-ab"
    (tmp_path / "sql-gen-ab").mkdir()
    (tmp_path / "sql-gen-abc").mkdir()
    assert run_path("sql-gen-ab", tmp_path) == tmp_path / "sql-gen-ab"
    assert run_path("sql-gen-ab", tmp_path, fresh=True) == tmp_path / "sql-gen-ab-2"
    (tmp_path / "sql-gen-ab-2").mkdir()
    (tmp_path / "sql-gen-ab-10").mkdir()
    assert run_path("sql-gen-ab", tmp_path) == tmp_path / "sql-gen-ab-10"
    assert run_path("sql-gen-ab", tmp_path, fresh=True) == tmp_path / "sql-gen-ab-11"


# Lines


def test_metrics_of_a_stage_that_is_begun_again_are_superseded(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    run.log_metrics("pairs", 0, made=3)
    for step in (1, 2, 3):
        run.log_metrics("calibrate", step, reward=step / 10)
    run.begin("calibrate", "i", keep_steps=2)
    run.log_metrics("calibrate", 3, reward=0.9)
    assert [row["reward"] for row in run.read_metrics("calibrate")] == [0.1, 0.2, 0.9]
    run.begin("calibrate", "i")
    assert run.read_metrics() == [{"stage": "pairs", "step": 0, "made": 3}]


def test_metrics_that_are_not_finite_are_null_and_named(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    run.log_metrics("warm_start", 1, loss=float("nan"), grad_norm=float("inf"), lr=numpy.float32(0.5))
    text = (tmp_path / "metrics.jsonl").read_text()
    assert json.loads(text, parse_constant=lambda name: pytest.fail(name)) == {
        "stage": "warm_start", "step": 1, "loss": None, "grad_norm": None, "lr": 0.5, "not_finite": ["loss", "grad_norm"],
    }  # fmt: skip


@pytest.mark.parametrize("length", [0, 1, 40, 70_000, 200_000])
def test_a_torn_last_line_is_dropped_and_not_glued_to_the_next(tmp_path: Path, length: int) -> None:
    run = RunFolder(tmp_path)
    run.log_metrics("s", 1, text="x" * length)
    whole = (tmp_path / "metrics.jsonl").read_bytes()
    for cut in sorted({1, len(whole) // 2, len(whole) - 1}):
        (tmp_path / "metrics.jsonl").write_bytes(whole + whole[:cut])
        assert [row["step"] for row in run.read_metrics()] == [1]
        run.log_metrics("s", 2)
        assert [row["step"] for row in run.read_metrics()] == [1, 2]
        (tmp_path / "metrics.jsonl").write_bytes(whole[:cut])
        assert run.read_metrics() == []
        run.log_metrics("s", 3)
        assert [row["step"] for row in run.read_metrics()] == [3]


def test_a_broken_line_in_the_middle_is_a_message_with_its_number(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_text('{"stage": "a", "step": 1}\n{oops\n{"stage": "a", "step": 2}\n')
    with pytest.raises(RunError, match=r"metrics\.jsonl:2: broken line"):
        RunFolder(tmp_path).read_metrics()


# Processes

HOLDER = """
import sys, time
from prefkit.runfolder import RunFolder
with RunFolder(sys.argv[1]).lock():
    print("held", flush=True)
    time.sleep(60)
"""

# Writes version after version.
WRITER = """
import sys
sys.path.insert(0, "tests")
import test_runfolder
run = test_runfolder.RunFolder(sys.argv[1])
with run.lock():
    n = run.read_json("n.json")["n"] if run.file("n.json").exists() else 0
    print("started", flush=True)
    while True:
        n += 1
        test_runfolder.write_version(run, n)
"""

# Kills forked writers, each after so many lines of Python.
SWEEPER = """
import sys
sys.path.insert(0, "tests")
import test_runfolder
test_runfolder.sweep(test_runfolder.Path(sys.argv[1]))
"""


def write_version(run: RunFolder, n: int) -> None:
    """A stage that writes one of each kind of file; every file of version `n` says so."""
    run.begin("work", str(n))
    for step in range(3):
        run.log_metrics("work", step, n=n, text="y" * 500)
    run.write_json("n.json", {"n": n, "text": "x" * 5000, "again": n})
    run.write_rows("rows.parquet", [{"n": n, "text": "z" * 100}] * 50)
    with run.new_folder("adapter") as folder:
        (folder / "a").write_text(str(n))
        (folder / "b").write_text(str(n))
    run.finish("work", str(n), ["n.json", "rows.parquet", "adapter"], {"n": n}, 0.0)


def look_at(run: RunFolder) -> int:
    """After a kill: every file is whole, what the manifest calls done is there, and writing goes on. Returns the newest version."""
    manifest, newest = run.manifest, 0
    assert list(manifest["stages"]) in ([], ["work"])
    entry = manifest["stages"].get("work", {"status": "begun", "inputs": "0"})
    if run.file("n.json").exists():
        value = run.read_json("n.json")
        newest = value["n"]
        assert value == {"n": newest, "text": "x" * 5000, "again": newest}
    if run.file("rows.parquet").exists():
        rows = run.read_rows("rows.parquet")
        assert len(rows) == 50
        assert len({row["n"] for row in rows}) == 1
    if run.file("adapter").exists():
        assert {file.name for file in run.file("adapter").iterdir()} == {"a", "b"}
        assert run.file("adapter/a").read_text() == run.file("adapter/b").read_text()
    if entry["status"] == "done":
        assert run.is_done("work", str(entry["figures"]["n"]))
        assert [(row["step"], row["n"]) for row in run.read_metrics("work")] == [(step, int(entry["inputs"])) for step in range(3)]
    if entry["status"] == "begun":
        assert {row["n"] for row in run.read_metrics("work")} <= {int(entry["inputs"])}
    with run.lock():
        assert not list(run.path.rglob(".tmp-*"))
    run.log_metrics("other", newest)
    assert run.read_metrics("other")[-1] == {"stage": "other", "step": newest}
    return newest


# Where files are opened, written, renamed and removed: what lies between two of these lines is a moment to die in.
STEPS = ("begin", "_supersede_metrics", "_append", "_set_entry", "write_rows", "finish")
PATHLIB = ("pathlib.py", "_local.py", "__init__.py")  # by version of Python
HANDLERS = {
    "files.py",
    *(("runfolder.py", name) for name in STEPS),
    *((file, name) for file in PATHLIB for name in ("write_bytes", "write_text")),
}


def sweep(path: Path) -> None:
    """Fork writers one after the other and kill each a little later in the stage than the one before; look after each."""
    write_version(RunFolder(path.with_name("first")), 1)  # what is imported late is imported here, not in each child
    run = RunFolder(path)
    lines = write_and_die(run, 1, after=None)
    for line in range(1, lines + 1):
        write_and_die(run, line + 1, after=line)
        look_at(run)
    print(lines)


def write_and_die(run: RunFolder, n: int, after: int | None) -> int:
    """Write version `n` in a child that kills itself after so many lines of handling files; returns the lines of one that lives."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        count = 0

        def trace(frame: Any, event: str, argument: Any) -> Any:
            nonlocal count
            file, function = os.path.basename(frame.f_code.co_filename), frame.f_code.co_name
            if file not in HANDLERS and (file, function) not in HANDLERS:
                return None
            count += event == "line"
            if count == after:
                os.kill(os.getpid(), signal.SIGKILL)
            return trace

        sys.settrace(trace)
        with run.lock():
            write_version(run, n)
        sys.settrace(None)
        os.write(writing, str(count).encode())
        os._exit(0)
    os.close(writing)
    said = os.read(reading, 32)
    os.close(reading)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code == 0 if after is None else code in (0, -signal.SIGKILL), code
    return int(said or 0)


def start(code: str, *arguments: str) -> subprocess.Popen[str]:
    """A process that runs `code`; returns once it has said its first line."""
    process = subprocess.Popen(
        [sys.executable, "-c", code, *arguments], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline().strip() in ("held", "started")
    return process


def kill(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGKILL)
    process.wait(30)
    assert process.stdout is not None
    process.stdout.close()


def test_a_second_process_is_refused_with_the_process_id_of_the_first_until_that_dies(tmp_path: Path) -> None:
    first = start(HOLDER, str(tmp_path))
    try:
        with pytest.raises(RunError, match=rf"in use by process {first.pid}\b"), RunFolder(tmp_path).lock():
            pass
    finally:
        kill(first)
    with RunFolder(tmp_path).lock(), pytest.raises(RunError, match=rf"in use by process {os.getpid()}\b"), RunFolder(tmp_path).lock():
        pass
    with RunFolder(tmp_path).lock():
        pass


def test_a_forked_child_that_lives_on_does_not_hold_the_lock(tmp_path: Path) -> None:
    code = HOLDER.replace("import sys, time", "import os, sys, time").replace(
        "    print(", "    child = os.fork()\n    child and print(child and "
    )
    code = code.replace('"held", flush=True)', '"held", flush=True)\n    child and print(child, flush=True)')
    parent = start(code, str(tmp_path))
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    try:
        kill(parent)
        os.kill(child, 0)  # it lives
        _lock_within(tmp_path, 20)  # on a busy machine the child may not have run yet since it was forked
    finally:
        os.kill(child, signal.SIGKILL)


def _lock_within(folder: Path, seconds: float) -> None:
    """Take the lock and give it back; the last refusal is raised once `seconds` have passed."""
    end = time.monotonic() + seconds
    while True:
        try:
            with RunFolder(folder).lock():
                return
        except RunError:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)


def kill_and_look(tmp_path: Path, times: int, seed: int) -> None:
    """Kill a writer at random moments of the clock."""
    delays, newest = random.Random(seed), 0
    for _ in range(times):
        process = start(WRITER, str(tmp_path))
        time.sleep(delays.uniform(0.02, 0.35))
        kill(process)
        now = look_at(RunFolder(tmp_path))
        assert now >= newest
        newest = now
    assert newest > 0


def test_a_writer_killed_at_random_moments_leaves_whole_files(tmp_path: Path) -> None:
    kill_and_look(tmp_path, times=6, seed=1)


def test_a_writer_killed_after_every_line_leaves_whole_files(tmp_path: Path) -> None:
    # In a process of its own, because it forks.
    done = subprocess.run([sys.executable, "-c", SWEEPER, str(tmp_path / "run")], cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 200


@pytest.mark.soak
def test_a_writer_killed_three_hundred_times_leaves_whole_files(tmp_path: Path) -> None:
    kill_and_look(tmp_path, times=300, seed=2)
