"""The W&B mirror: offline without a key, never a prompt, one run a stage, and no failure of it ends a stage."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from prefkit.report import wandb_report
from prefkit.report.wandb_report import TrackerWarning, mode, tracker
from prefkit.runfolder import RunFolder


@pytest.fixture(autouse=True)
def without_a_key(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [name for name in os.environ if name.startswith("WANDB_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    (tmp_path / "sql-gen-1a2b").mkdir()
    return RunFolder(tmp_path / "sql-gen-1a2b")


def offline_runs(run: RunFolder) -> list[Path]:
    return sorted(run.path.glob("wandb/offline-run-*"))


def test_a_tracker_that_is_off_does_not_even_import_wandb(run: RunFolder) -> None:
    code = (
        "import sys; from pathlib import Path; from prefkit.report.wandb_report import tracker; from prefkit.runfolder import RunFolder\n"
        f"with tracker(RunFolder({str(run.path)!r}), 'calibrate', {{}}, enabled=False) as t:\n"
        "    t.log(1, {'loss': 1.0}); t.summary({'a': 1}); t.page('report', Path('nowhere'))\n"
        "assert t.mode == 'disabled'\nassert 'wandb' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
    assert not (run.path / "wandb").exists()


def test_without_a_key_each_stage_is_an_offline_run_of_its_own_and_nothing_asks(run: RunFolder) -> None:
    """In a process of its own, with a terminal's worth of silence on its input: a prompt would block or show."""
    code = f"""
import warnings; warnings.simplefilter("error")
from pathlib import Path
from prefkit.report.wandb_report import tracker
from prefkit.runfolder import RunFolder
run = RunFolder({str(run.path)!r})
page = run.path / "page.html"; page.write_text("<p>whole page</p>")
for stage in ("warm_start-0", "calibrate"):
    with tracker(run, stage, {{"learning_rate": 1e-3}}) as mirror:
        assert mirror.mode == "offline", mirror.reason
        for step in (1, 3, 2):
            mirror.log(step, {{"loss": 1 / step}})
        mirror.summary({{"rows": 12}})
        mirror.page("report", page)
"""
    done = subprocess.run([sys.executable, "-c", code], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert len(offline_runs(run)) == 2
    opened = [next(r.run for r in whole_records(folder) if r.WhichOneof("record_type") == "run") for folder in offline_runs(run)]
    assert sorted((r.display_name, r.job_type, r.run_group) for r in opened) == [
        ("calibrate", "calibrate", run.path.name),
        ("warm_start-0", "warm_start", run.path.name),
    ]
    assert all(next(folder.glob("files/media/html/*.html")).read_text() == "<p>whole page</p>" for folder in offline_runs(run))


def test_every_logged_step_is_in_the_file_also_one_that_came_late(run: RunFolder) -> None:
    with tracker(run, "calibrate", {}) as mirror:
        for step in (1, 3, 2):
            mirror.log(step, {"loss": step / 4})
    found = []
    for record in whole_records(offline_runs(run)[0]):
        if record.WhichOneof("record_type") == "history":
            values = {item.key or ".".join(item.nested_key): item.value_json for item in record.history.item}
            found.append((values["stage_step"], values["loss"]))
    assert found == [("1", "0.25"), ("3", "0.75"), ("2", "0.5")]


def whole_records(folder: Path) -> list[Any]:
    """The records of an offline run up to its last one. W&B's own process writes them, on a busy machine a little after `finish`."""
    from wandb.proto.wandb_internal_pb2 import Record  # pyright: ignore[reportAttributeAccessIssue]

    records: list[Any] = []
    give_up = time.monotonic() + 60
    while time.monotonic() < give_up:
        records = [Record.FromString(data) for data in stored_records(next(folder.glob("*.wandb")))]
        if records and records[-1].WhichOneof("record_type") == "exit":
            return records
        time.sleep(0.1)
    raise AssertionError(f"W&B did not end its file within a minute: {len(records)} records")


def stored_records(file: Path) -> Iterator[bytes]:
    """The records of a .wandb file: a LevelDB log behind seven bytes of its own, read here as far as whole records in one block go."""
    data, place = file.read_bytes(), 7
    assert len(data) < 32768, "the reader knows one block only"
    while place + 7 <= len(data):
        _, length, kind = struct.unpack("<IHB", data[place : place + 7])
        assert kind == 1
        if place + 7 + length > len(data):
            return
        yield data[place + 7 : place + 7 + length]
        place += 7 + length


class Broken:
    """A W&B run that fails at everything."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def log(self, values: dict[str, Any]) -> None:
        self.calls.append("log")
        raise OSError("disk full")

    def finish(self, exit_code: int = 0) -> None:
        self.calls.append(f"finish {exit_code}")
        raise RuntimeError("no service")


def test_a_failing_mirror_warns_once_and_lets_the_stage_go_on(run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = Broken()
    monkeypatch.setattr(wandb_report, "_init", lambda *arguments: broken)
    with pytest.warns(TrackerWarning, match="disk full") as caught, tracker(run, "calibrate", {}) as mirror:
        for step in range(5):
            mirror.log(step, {"loss": 1.0})
    assert len(caught) == 1
    assert broken.calls == ["log", "finish 1"]


def test_a_mirror_that_cannot_start_is_a_warning(run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: Any) -> None:
        raise RuntimeError("api_key not configured")

    monkeypatch.setattr(wandb_report, "_init", fail)
    with pytest.warns(TrackerWarning, match="could not start offline"), tracker(run, "calibrate", {}) as mirror:
        assert mirror.mode == "disabled"
        mirror.log(1, {"loss": 1.0})


def test_an_online_start_that_fails_falls_back_to_offline_and_says_so(run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []

    def start(run: RunFolder, stage: str, config: dict[str, Any], chosen: str) -> Any:
        tried.append(chosen)
        if chosen == "online":
            raise TimeoutError("no answer")
        return type("Run", (), {"finish": lambda self, exit_code: tried.append(exit_code)})()

    monkeypatch.setattr(wandb_report, "_init", start)
    monkeypatch.setattr(wandb_report, "mode", lambda: ("online", "a key"))
    with pytest.warns(TrackerWarning, match="could not start online"), tracker(run, "calibrate", {}) as mirror:
        assert (mirror.mode, mirror.reason) == ("offline", "it could not start online")
    assert tried == ["online", "offline", 0]


def test_an_error_of_the_stage_passes_through_and_marks_the_mirror_failed(run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    codes: list[int] = []
    monkeypatch.setattr(wandb_report, "_init", lambda *a: type("Run", (), {"finish": lambda self, exit_code: codes.append(exit_code)})())
    with pytest.raises(KeyError, match="stage"), tracker(run, "calibrate", {}):
        raise KeyError("stage")
    assert codes == [1]


def test_the_environment_has_the_last_word(monkeypatch: pytest.MonkeyPatch) -> None:
    assert mode() == ("offline", "no key")
    monkeypatch.setenv("WANDB_API_KEY", "0" * 40)
    monkeypatch.setenv("WANDB_MODE", "offline")
    assert mode()[0] == "offline"
    monkeypatch.setenv("WANDB_MODE", "disabled")
    assert mode()[0] == "disabled"


class Refuses(BaseHTTPRequestHandler):
    """A server that is there and says no."""

    def do_HEAD(self) -> None:
        self.send_error(403)

    def log_message(self, format: str, *args: Any) -> None:
        pass


def test_online_needs_a_key_and_a_server_that_answers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    server = HTTPServer(("127.0.0.1", 0), Refuses)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("WANDB_BASE_URL", f"http://127.0.0.1:{server.server_port}")
    assert mode() == ("offline", "no key")
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login user password secret\n")
    (tmp_path / "netrc").chmod(0o600)
    assert mode()[0] == "online"
    server.shutdown()
    server.server_close()
    chosen, reason = mode()
    assert chosen == "offline"
    assert "does not answer" in reason
    assert "secret" not in reason


def test_a_server_that_hangs_costs_seconds_not_minutes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wandb_report, "PROBE_SECONDS", 0.3)
    monkeypatch.setenv("WANDB_API_KEY", "0" * 40)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("WANDB_BASE_URL", f"http://127.0.0.1:{silent.getsockname()[1]}")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert mode()[0] == "offline"
