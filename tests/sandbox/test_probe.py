"""The probe says P where its canaries are held, and names what gets through where they are not."""

from __future__ import annotations

import pytest

from prefkit.sandbox import probe as probe_file
from prefkit.sandbox.probe import probe_sqlite


def test_all_canaries_are_held_here() -> None:
    probe = probe_sqlite()
    assert probe.tier == "P" and not probe.mend
    assert len(probe.evidence) >= 10 and all(item.held for item in probe.evidence)


def test_a_canary_that_gets_through_leaves_no_tier(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe_file, "_SQLITE", (("read a number", "SELECT 1", "policy"),))
    probe = probe_sqlite()
    assert probe.tier is None and "read a number" in probe.mend


def test_a_worker_that_cannot_start_leaves_no_tier(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("prefkit.sandbox.launch.ROOT", "/nowhere")
    probe = probe_sqlite()
    assert probe.tier is None and "prefkit" in probe.mend
