"""Landlock: what the rules name works, all else is refused, and signals stay inside where the kernel can do that."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from prefkit.sandbox import landlock

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.skipif(sys.platform != "linux" or landlock.abi() < 1, reason="this kernel has no Landlock")

START = f"""
import ctypes, os, signal, sys
sys.path.insert(0, {str(ROOT)!r})
from prefkit.sandbox import landlock
ctypes.CDLL(None).prctl(38, 1, 0, 0, 0)
def lock(*rules):
    landlock.restrict(landlock.ruleset(list(rules)))
def attempt(action, *arguments):
    try:
        action(*arguments)
        os.write(1, b"done\\n")
    except OSError as error:
        os.write(1, type(error).__name__.encode() + b"\\n")
"""


def run(code: str, *arguments: str) -> list[str]:
    """The lines that a program prints which locks itself in."""
    done = subprocess.run([sys.executable, "-c", START + code, *arguments], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_only_what_is_named_can_be_read_and_written(tmp_path: Path) -> None:
    for name in ("read", "write", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text("x")
    code = """
folder = sys.argv[1]
lock((folder + "/read", landlock.READ), (folder + "/write", landlock.WRITE))
for name in ("read", "write", "other"):
    attempt(open, f"{folder}/{name}/file")
for name in ("read", "write", "other"):
    attempt(open, f"{folder}/{name}/new", "w")
for name in ("read", "write", "other"):
    attempt(os.remove, f"{folder}/{name}/file")
attempt(os.listdir, folder)
attempt(os.rename, f"{folder}/write/new", f"{folder}/read/new")
"""
    held = "PermissionError"
    wanted = ["done", "done", held, held, "done", held, held, "done", held, held]
    assert run(code, str(tmp_path)) == [*wanted, held]
    assert (tmp_path / "read" / "file").exists() and (tmp_path / "other" / "file").exists()


def test_a_link_does_not_lead_out(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "secret").write_text("x")
    (tmp_path / "own" / "link").symlink_to(tmp_path / "secret")
    code = 'lock((sys.argv[1], landlock.WRITE))\nattempt(open, sys.argv[1] + "/link")'
    assert run(code, str(tmp_path / "own")) == ["PermissionError"]


def test_rules_hold_for_children_and_cannot_be_widened() -> None:
    code = """
lock(("/usr", landlock.READ))
wider = landlock.ruleset([("/usr", landlock.READ), ("/proc", landlock.READ)])
child = os.fork()
landlock.restrict(wider)
attempt(os.listdir, "/usr")
attempt(os.listdir, "/proc")
if child:
    os.waitpid(child, 0)
"""
    assert sorted(run(code)) == ["PermissionError", "PermissionError", "done", "done"]


@pytest.mark.skipif(landlock.abi() < landlock.SCOPED_SIGNALS_ABI, reason="Landlock of this kernel scopes no signals")
def test_signals_stay_inside() -> None:
    code = """
lock(("/", landlock.READ))
attempt(os.kill, os.getppid(), 0)
child = os.fork()
if child == 0:
    signal.pause()
attempt(os.kill, child, signal.SIGKILL)
"""
    assert run(code) == ["PermissionError", "done"]


@pytest.mark.skipif(landlock.abi() < 4, reason="Landlock of this kernel knows no TCP")
def test_tcp_is_refused() -> None:
    code = """
import socket
lock(("/", landlock.READ))
attempt(socket.socket().bind, ("127.0.0.1", 0))
attempt(socket.socket().connect, ("127.0.0.1", 9))
"""
    assert run(code) == ["PermissionError", "PermissionError"]


def test_what_is_hidden_cannot_be_read_while_what_stands_beside_it_can(tmp_path: Path) -> None:
    (tmp_path / "packages" / "good").mkdir(parents=True)
    (tmp_path / "packages" / "hidden").mkdir()
    (tmp_path / "outside").write_text("x")
    for name in ("good", "hidden"):
        (tmp_path / "packages" / name / "file").write_text("x")
    (tmp_path / "packages" / "link").symlink_to(tmp_path / "outside")
    rules = landlock.reading(str(tmp_path), [str(tmp_path / "packages" / "hidden"), str(tmp_path / "outside")])
    assert (str(tmp_path / "packages" / "good"), landlock.READ) in rules
    code = """
folder = sys.argv[1]
lock(*landlock.reading(folder, [folder + "/packages/hidden", folder + "/outside"]))
for name in ("packages/good/file", "packages/hidden/file", "packages/link", "outside"):
    attempt(open, f"{folder}/{name}")
attempt(os.listdir, folder + "/packages")
"""
    held = "PermissionError"
    assert run(code, str(tmp_path)) == ["done", held, held, held, "done"]


def test_a_path_that_is_not_there_is_left_out(tmp_path: Path) -> None:
    os.close(landlock.ruleset([(str(tmp_path / "nothing"), landlock.READ)]))
