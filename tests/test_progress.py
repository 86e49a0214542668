"""Progress: plain lines away from a terminal, a live view in one, honest rates, and a terminal that is given back after Ctrl-C."""

from __future__ import annotations

import io
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from prefkit.progress import LiveView, Meter, PlainView, Progress, duration, quiet, shown

ROOT = Path(__file__).resolve().parent.parent


class Clock:
    """Time that passes when told."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_rate_and_time_left_follow_the_last_half_minute() -> None:
    clock = Clock()
    meter = Meter("questions", 1000, clock)
    assert (meter.rate, meter.left) == (None, None)
    for _ in range(10):
        clock.now += 1
        meter.add(1)
    assert meter.rate == pytest.approx(1.0)
    for _ in range(60):
        clock.now += 1
        meter.add(10)
    assert meter.rate == pytest.approx(10.0)
    assert meter.left == pytest.approx((1000 - 610) / 10)
    clock.now += 9
    assert meter.left == pytest.approx((1000 - 610) / 10 - 9)
    meter.end()
    clock.now += 500
    assert meter.elapsed == pytest.approx(79)
    assert meter.rate == pytest.approx(610 / 79)


def test_plain_lines_come_at_the_start_every_ten_seconds_and_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, stream = Clock(), io.StringIO()
    monkeypatch.setattr(Meter.__init__, "__defaults__", (clock,))
    with Progress(PlainView(stream, clock=clock)) as progress:
        progress.stage("rollouts", 3, 9)
        with progress.task("questions", 100) as task:
            for _ in range(100):
                clock.now += 0.25
                task.advance(1, right=0.31)
    assert stream.getvalue().splitlines() == [
        "[3/9] rollouts",
        "[3/9] rollouts: questions 40/100, 4/s, 15 s left, right 0.31",
        "[3/9] rollouts: questions 80/100, 4/s, 5 s left, right 0.31",
        "[3/9] rollouts: questions 100/100, 4/s, took 25 s, right 0.31",
    ]


def test_no_terminal_means_plain_lines_on_standard_error() -> None:
    code = (
        "from prefkit.progress import Progress\n"
        "with Progress() as p:\n    p.stage('verify')\n    list(p.track([1, 2, 3], 'answers'))\n    p.say('all there')\n    print('result')"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "result\n"
    lines = done.stderr.splitlines()
    assert lines[0] == "verify"
    assert lines[1].startswith("verify: answers 3/3, ")
    assert lines[2] == "all there"
    assert "\x1b" not in done.stderr


def test_the_live_view_shows_stage_done_rate_and_figures() -> None:
    stream = io.StringIO()
    with Progress(LiveView(Console(file=stream, force_terminal=True, width=120))) as progress:
        progress.stage("calibrate", 7, 9)
        task = progress.task("steps")
        task.set_total(12)
        task.advance(3, reward=0.5)
        task.close()
        progress.say("[not markup]")
    text = stream.getvalue()
    assert "[7/9] calibrate: steps 3/12" in text
    assert "reward 0.5" in text
    assert "[not markup]" in text
    assert "\x1b[?25l" in text
    assert text.rindex("\x1b[?25h") > text.rindex("\x1b[?25l")


def test_ctrl_c_gives_the_terminal_back_and_is_not_swallowed() -> None:
    code = (
        "import time\nfrom prefkit.progress import Progress\n"
        "with Progress() as p:\n    p.stage('rollouts')\n    t = p.task('questions', 10)\n    t.advance(1)\n    time.sleep(60)\n"
    )
    leader, follower = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color"}
    process = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=follower, stderr=follower, stdin=follower, env=environment)
    os.close(follower)
    seen = b""
    try:
        while b"1/10" not in seen:
            seen += os.read(leader, 65536)
        process.send_signal(signal.SIGINT)
        while True:
            try:
                seen += os.read(leader, 65536)
            except OSError:  # the terminal's other end is closed: the process has ended
                break
        assert process.wait(30) == -signal.SIGINT
    finally:
        process.kill()
        os.close(leader)
    assert b"KeyboardInterrupt" in seen
    assert seen.rindex(b"\x1b[?25h") > seen.rindex(b"\x1b[?25l")
    assert seen.index(b"\x1b[?25h") < seen.index(b"KeyboardInterrupt")


def test_an_error_ends_what_is_open_and_comes_through() -> None:
    stream = io.StringIO()
    with pytest.raises(RuntimeError, match="boom"), Progress(PlainView(stream)) as progress:
        progress.task("questions", 4).advance(1)
        raise RuntimeError("boom")
    assert stream.getvalue().startswith("questions 1/4, ")


def test_a_closed_reader_does_not_end_the_run() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as stream:
        view = PlainView(stream)
        with Progress(view) as progress:
            progress.say("nobody reads this")
            assert list(progress.track([1, 2], "answers")) == [1, 2]
        # Closing the stream itself would raise for the same reason; hand it something that takes the rest.
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def test_quiet_shows_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    with quiet() as progress:
        progress.stage("verify", 1, 2)
        assert list(progress.track(iter("ab"), "answers")) == ["a", "b"]
        progress.say("nothing")
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.2, "0 s"), (59.4, "59 s"), (59.9, "1 min 00 s"), (125, "2 min 05 s"), (4320, "1 h 12 min")]
)
def test_durations_read_like_speech(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("value", "text"), [(3, "3"), (3.0, "3"), (0.31234, "0.312"), (1e-4, "0.0001"), (1234.5, "1234"), (float("nan"), "nan"), ("nf4", "nf4")]
)
def test_figures_have_three_digits_that_count(value: object, text: str) -> None:
    assert shown(value) == text
