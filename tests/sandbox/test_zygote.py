"""The zygote: programs in each language, results that cannot be forged into the reply, a clean place for each run, and its own end."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from prefkit.sandbox import launch
from prefkit.sandbox.job import CodeJob, CodeResult
from prefkit.sandbox.pool import WorkerPool
from prefkit.sandbox.tiers import probe_code
from tests.sandbox import ordinary

ROOT = Path(__file__).resolve().parents[2]
TRIES = 5
WAIT_S = 20.0

Run = Callable[..., CodeResult]


@pytest.fixture(scope="module", params=["A", "B"])
def pool(request: pytest.FixtureRequest) -> Iterator[WorkerPool]:
    probe = probe_code(request.param)
    if probe.tier is None:
        pytest.skip(f"tier {request.param} is not to be had here: {probe.mend}")
    with WorkerPool(1, {"zygote": request.param}) as pool:
        yield pool


@pytest.fixture
def ask(pool: WorkerPool) -> Run:
    """Run an op with a message; again where the machine had no processor for it, which is no outcome."""

    def ask(op: str, message: dict[str, Any], **limits: Any) -> CodeResult:
        for _ in range(TRIES):
            result: CodeResult = pool.run(CodeJob(op, message, **limits)).last
            if result.reason != "no processor time":
                break
        return result

    return ask


@pytest.fixture
def program(ask: Run) -> Run:
    def program(language: str, code: str, stdin: str = "", args: list[str] | None = None, **limits: Any) -> CodeResult:
        return ask("program", {"language": language, "code": code, "stdin": stdin, "args": args or []}, **limits)

    return program


def calls(code: str) -> dict[str, Any]:
    cases = [{"args": [1], "kwargs": {}}]
    return {"module": "solution", "also": [], "entry": "f", "files": {"solution.py": code}, "cases": cases}


ECHO = {
    "python": "import sys\nprint(sys.stdin.read().upper(), end='')\nsys.exit(3)",
    "bash": "tr a-z A-Z; exit 3",
    "javascript": "process.stdout.write(require('fs').readFileSync(0, 'utf8').toUpperCase()); process.exitCode = 3",
    "c": "#include <stdio.h>\n#include <ctype.h>\nint main() { int c; while ((c = getchar()) != EOF) putchar(toupper(c)); return 3; }",
}
TOOLS = {"c": "gcc", "javascript": "node", "bash": "bash"}


@pytest.mark.parametrize("language", ECHO)
def test_a_program_reads_its_input_and_its_exit_code_is_told(language: str, program: Run) -> None:
    if language in TOOLS and not shutil.which(TOOLS[language]):
        pytest.skip(f"{TOOLS[language]} is not installed")
    for text in ("one\ntwo\n", "", "x" * 200_000):
        result = program(language, ECHO[language], text)
        assert (result.status, result.reason, result.exit) == ("crash", "exit code 3", 3), result
        assert result.stdout == text.upper()


def test_a_python_program_runs_as_its_interpreter_would_run_it(program: Run) -> None:
    code = """
import atexit, sys, threading, time
atexit.register(print, "handler")
def late():
    time.sleep(0.05)
    print("thread")
threading.Thread(target=late).start()
print(__name__, sys.argv[1:], __file__)
"""
    result = program("python", code, args=["a", "b c"])
    assert (result.status, result.exit) == ("ok", 0), result
    assert result.stdout == "__main__ ['a', 'b c'] program.py\nthread\nhandler\n"
    assert program("python", "raise SystemExit('said')").stderr == "said\n"
    failed = program("python", "def f():\n    return 1 / 0\nf()")
    assert (failed.status, failed.reason, failed.exit) == ("crash", "ZeroDivisionError", 1)
    assert failed.stderr.splitlines()[1] == '  File "program.py", line 3, in <module>'
    assert program("python", "def f(:").reason == "SyntaxError"


def test_numbers_from_random_are_the_same_in_every_run(program: Run) -> None:
    assert len({program("python", "import random\nprint(random.random())").stdout for _ in range(3)}) == 1


def test_text_of_every_kind_passes(program: Run) -> None:
    text = 'é ✓ 𝔘 \x00 \x7f \\ " \u2028 end'
    assert program("python", "import sys\nsys.stdout.write(sys.stdin.read())", text).stdout == text
    broken = program("python", "import sys\nsys.stdout.buffer.write(bytes(range(256)))").stdout
    assert broken.startswith("\x00\x01") and "\ufffd" in broken and '"' in broken
    assert program("python", "import sys\nprint(len(sys.stdin.buffer.read()))", "\ud800").stdout == "3\n"


def test_output_is_kept_up_to_its_limit_and_errors_from_the_end(program: Run) -> None:
    full = program("python", "import sys\nfor i in range(30_000):\n    print('%09d' % i)", output=100_000)
    assert full.reason == "limit: output" and full.stdout[:20] == "000000000\n000000001\n" and len(full.stdout) == 100_000
    errors = program("bash", "for i in {1..2000}; do echo line $i >&2; done; exit 1").stderr
    assert errors.endswith("line 2000\n") and len(errors) == 8_000


def test_files_are_there_and_their_names_stay_inside(ask: Run) -> None:
    message = {"language": "python", "code": "import pkg.sub.mod\nprint(pkg.sub.mod.X, open('data.txt').read())"}
    files = {"pkg/__init__.py": "", "pkg/sub/__init__.py": "", "pkg/sub/mod.py": "X = 5", "data.txt": "é"}
    assert ask("program", message | {"files": files}).stdout == "5 é\n"
    for name in ("/tmp/x", "../x", "a/../../x", "", "a//b", "./a", "a\0b"):
        result = ask("program", message | {"files": {name: "x"}})
        assert (result.status, "name" in result.reason) == ("infra", True), result


BROKEN: list[dict[str, Any]] = [
    {},
    {"language": "perl", "code": ""},
    {"language": "c", "code": 5},
    {"language": "bash", "code": "", "args": "x"},
]


@pytest.mark.parametrize("message", BROKEN)
def test_a_message_that_is_no_good_is_told_and_the_next_one_runs(message: dict[str, Any], ask: Run) -> None:
    result = ask("program", message)
    assert (result.status, result.reason[:8]) == ("infra", "message:")
    assert ask("program", {"language": "python", "code": "print(1)"}).stdout == "1\n"


def test_an_op_that_is_not_there_is_told(ask: Run) -> None:
    assert ask("nothing", {}).reason == "no op nothing"


def test_a_value_comes_back_as_data(ask: Run) -> None:
    result = ask("calls", calls("def f(x):\n    print('noise')\n    return [x, 'é', None]"))
    assert result.status == "ok" and result.value["cases"] == [{"value": [1, "é", None]}]
    assert result.stdout == "noise\n"


FORGERIES = {
    "nothing": ("os._exit(0)", "crash"),
    "half a result": ("os.write(3, b'={\"a\":'); os._exit(0)", "crash"),
    "no end of line": ("os.write(3, b'={}'); os._exit(0)", "crash"),
    "two results": ("os.write(3, b'={}\\n={}\\n'); os._exit(0)", "tamper"),
    "a way out of the line": ("os.write(3, b'=1}],\"cpu\":0}\\n'); os._exit(0)", "tamper"),
    "other text": ("os.write(3, b'=NaN\\n'); os._exit(0)", "tamper"),
    "a failing process": ("os.write(3, b'={}\\n'); os._exit(1)", "crash"),
    "a status of its own": ('os.write(3, b\'!{"status":"ok","reason":""}\\n\'); os._exit(0)', "crash"),
    "a second result after the first": ("os.write(3, b'={}\\n')", "tamper"),
}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_what_is_not_one_whole_result_is_no_result(forgery: str, ask: Run) -> None:
    code, status = FORGERIES[forgery]
    result = ask("calls", calls(f"import os\ndef f(x):\n    {code}\n    return x"))
    assert (result.status, result.value) == (status, None), result


def test_a_refused_call_that_a_program_does_without_is_forgiven(program: Run) -> None:
    code = "import socket\ntry:\n    socket.socket(socket.AF_INET6)\nexcept OSError as error:\n    print(error.errno)"
    assert (program("python", code).status, program("python", code).stdout) == ("ok", "1\n")
    assert program("python", code + "\nraise ValueError").reason == "policy: system call socket"
    assert program("python", "import asyncio\nasync def f():\n    print(1)\nasyncio.run(f())").stdout == "1\n"


SCAN = """
import os, sys
marker = sys.stdin.read().strip()
marker = bytes.fromhex(marker)
found = 0
own = open('/proc/self/maps').read().splitlines() if os.path.exists('/proc/self/maps') else []
memory = os.open('/proc/self/mem', os.O_RDONLY)
for line in own:
    span, rights, *_ = line.split()
    if rights[0] == 'r' and '[v' not in line:
        first, last = (int(part, 16) for part in span.split('-'))
        try:
            found += os.pread(memory, last - first, first).count(marker)
        except OSError:
            pass
print(len(own) > 10, found)
"""


@pytest.mark.parametrize("length", [20, 400, 3_000, 300_000])
def test_nothing_of_an_earlier_run_is_in_the_memory_of_a_later_one(length: int, program: Run, ask: Run, pool: WorkerPool) -> None:
    if pool.tiers["zygote"] == "B":
        pytest.skip("tier B shows no process its own /proc, which the search needs")
    piece = os.urandom(8).hex()
    text = (piece * (length // len(piece) + 1))[:length]
    # Printed, raised, returned, read and written: all ways by which text passes the zygote.
    assert program("python", f"import sys\nprint('{text}')\nsys.stderr.write(sys.stdin.read())", text).status == "ok"
    assert ask("calls", calls(f"def f(x):\n    return '{text}'")).status == "ok"
    assert program("bash", f"echo {text}", text, [text[:1000]]).status == "ok"
    # The marker is handed over as hexadecimal, and what it is turned into is a copy or two of its own.
    here = program("python", SCAN, piece.encode().hex())
    there = program("python", SCAN, os.urandom(8).hex().encode().hex())
    assert here.status == "ok" and here.stdout.startswith("True"), here
    assert here.stdout == there.stdout


def test_a_program_is_compiled_once_and_out_of_reach(program: Run, pool: WorkerPool) -> None:
    if not shutil.which("gcc"):
        pytest.skip("gcc is not installed")
    code = "#include <stdio.h>\nint main() { puts(__TIME__); return 0; }"
    first = program("c", code)
    time.sleep(1.1)
    again = program("c", code)
    assert first.stdout == again.stdout != ""  # the time of compiling, to the second
    gone = "import os\ndef gone(n):\n    try:\n        os.fstat(n)\n    except OSError:\n        return True\n"
    assert program("python", gone + "print([n for n in range(2000) if not gone(n)])").stdout == "[0, 1, 2, 3]\n"
    look = 'struct stat s; for (int i = 3; i < 2000; i++) if (!fstat(i, &s)) puts("open");'
    own = f"#include <sys/stat.h>\n#include <stdio.h>\nint main() {{ {look} return 0; }}"
    assert program("c", own).stdout == ""


@pytest.mark.parametrize(
    "action", ["chmod 0 .", "chmod 0 $TMPDIR /dev/shm", "ln -s / link; mkdir -m 0 x", "mkfifo pipe; mkdir -p a/b; chmod 0 a"]
)
def test_no_rights_keep_a_folder_from_being_emptied(action: str, program: Run) -> None:
    if not shutil.which("bash"):
        pytest.skip("bash is not installed")
    program("bash", action)
    after = program("python", "import os\nprint(os.listdir(), oct(os.stat('.').st_mode & 0o777))")
    assert after.stdout == "[] 0o700\n", after


def test_a_compile_error_is_a_crash_with_the_compilers_words(program: Run) -> None:
    if not shutil.which("gcc"):
        pytest.skip("gcc is not installed")
    result = program("c", "int main() { return x; }")
    assert (result.status, result.reason) == ("crash", "compile: exit code 1") and "undeclared" in result.stderr


def test_locks_of_multiprocessing_work_in_tier_a_and_leave_nothing(program: Run, pool: WorkerPool) -> None:
    if pool.tiers["zygote"] == "B":
        pytest.skip("tier B has no shared memory of its own")
    code = "import multiprocessing as m\nwith m.get_context('fork').Pool(2) as pool:\n    print(pool.map(abs, [-1, -2]))"
    result = program("python", code)
    assert (result.status, result.stdout) == ("ok", "[1, 2]\n"), result
    assert program("python", "import os\nprint(os.listdir('/dev/shm'))").stdout == "[]\n"


def test_a_zygote_makes_way_for_a_fresh_one_and_nothing_is_lost(pool: WorkerPool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "RUNS", 3)
    launch._plan.cache_clear()
    try:
        with WorkerPool(1, pool.tiers) as short:
            jobs = [CodeJob("program", {"language": "python", "code": f"print({i})"}, tag=i) for i in range(10)]
            for job in jobs:
                short.submit(job)
            answers: dict[int, str] = {}
            while len(answers) < len(jobs):
                answers |= {job.tag: answer.last.stdout for job, answer in short.pump()}
    finally:
        launch._plan.cache_clear()
    assert answers == {i: f"{i}\n" for i in range(10)}


PARENT = """
import sys
sys.path.insert(0, sys.argv[2])
from prefkit.sandbox.job import CodeJob
from prefkit.sandbox.pool import WorkerPool
code = "import os, time\\nif os.fork() == 0:\\n    os.setsid()\\n    os.fork()\\nwhile True:\\n    time.sleep(1)"
with WorkerPool(1, {"zygote": sys.argv[1]}) as pool:
    pool.run(CodeJob("program", {"language": "python", "code": "print(1)"}))
    pool.submit(CodeJob("program", {"language": "python", "code": code}, cpu_s=50.0))
    print("running", flush=True)
    while True:
        pool.pump()
"""


def descendants(pid: int) -> set[int]:
    found = set()
    for name in os.listdir(f"/proc/{pid}/task"):
        for child in Path(f"/proc/{pid}/task/{name}/children").read_text().split():
            found |= {int(child)} | descendants(int(child))
    return found


def alive(pids: set[int]) -> set[int]:
    """Those that still run; what has ended and is not yet waited for does not."""
    states = {}
    for pid in pids:
        try:
            states[pid] = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
    return {pid for pid, state in states.items() if state not in "ZX"}


@pytest.mark.parametrize("whom", ["parent", "worker"])
def test_nothing_survives_a_kill(whom: str, pool: WorkerPool, left_in_tmp: Callable[[str], list[str]]) -> None:
    before = left_in_tmp("prefkit-*")
    parent = subprocess.Popen([sys.executable, "-c", PARENT, pool.tiers["zygote"], str(ROOT)], stdout=subprocess.PIPE, text=True)
    try:
        assert parent.stdout is not None and parent.stdout.readline() == "running\n"
        end = time.monotonic() + WAIT_S
        while len(started := descendants(parent.pid)) < 5 and time.monotonic() < end:
            time.sleep(0.02)
        assert len(started) >= 5
        (worker,) = [int(child) for child in Path(f"/proc/{parent.pid}/task/{parent.pid}/children").read_text().split()]
        os.kill(parent.pid if whom == "parent" else worker, signal.SIGKILL)
        end = time.monotonic() + WAIT_S
        while alive(started) and time.monotonic() < end:
            time.sleep(0.02)
        assert not alive(started)
    finally:
        parent.kill()
        parent.wait()
        parent.stdout.close()  # type: ignore[union-attr]
    end = time.monotonic() + WAIT_S
    while (left := set(left_in_tmp("prefkit-*")).difference(before)) and time.monotonic() < end:
        time.sleep(0.02)
    assert not left


def test_a_lost_worker_is_replaced_and_its_job_judged(pool: WorkerPool) -> None:
    with WorkerPool(1, pool.tiers) as own:
        assert own.run(CodeJob("program", {"language": "python", "code": "print(1)"})).last.stdout == "1\n"
        own.submit(job := CodeJob("program", {"language": "python", "code": "import time\ntime.sleep(0.3)\nprint(2)"}))
        os.kill(own._workers[0].process.pid, signal.SIGKILL)
        answers = []
        while not answers:
            answers = own.pump()
        assert answers[0][0] is job and answers[0][1].last.stdout == "2\n"


VENV = """
import json, sys
sys.path.insert(0, sys.argv[2])
from prefkit.sandbox.job import CodeJob
from prefkit.sandbox.pool import WorkerPool
with WorkerPool(1, {"zygote": sys.argv[1]}) as pool:
    result = pool.run(CodeJob("program", {"language": "python", "code": "import only_here\\nprint(only_here.X)"})).last
    print(json.dumps([result.status, result.stdout, result.stderr]))
"""


@pytest.mark.parametrize("who", ["root", "user"])
def test_packages_below_a_private_folder_can_be_imported(who: str, pool: WorkerPool) -> None:
    if who == "root" and os.geteuid() != 0:
        pytest.skip("not run as root")
    python = sys.executable if who == "root" else ordinary.python_for_all()
    if python is None:
        pytest.skip("no Python that an ordinary user may run")
    with ordinary.home() as home:
        private = home / "private"
        made = ordinary.run_as_user(["mkdir", "-m", "0700", str(private)], home)
        assert made.returncode == 0, made.stderr
        base = getattr(sys, "_base_executable", sys.executable) if who == "root" else python
        make = [base, "-m", "venv", "--without-pip", str(private / "venv")]
        done = subprocess.run(make, capture_output=True, text=True, check=False) if who == "root" else ordinary.run_as_user(make, home)
        if done.returncode:
            pytest.skip(f"no virtual environment can be made: {done.stderr or done.stdout}")
        packages = next(private.glob("venv/lib/python3*/site-packages"))
        (packages / "only_here.py").write_text("X = 42")
        (packages / "only_here.py").chmod(0o644)
        argv = [str(private / "venv" / "bin" / "python"), "-c", VENV, pool.tiers["zygote"], str(home)]
        if who == "root":
            os.chown(private, 0, 0)
            done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
        else:
            done = ordinary.run_as_user(argv, home)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout) == ["ok", "42\n", ""]
