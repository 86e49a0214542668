"""Thumbs against verdicts, by hand."""

from __future__ import annotations

import pytest

from prefkit.data.agreement import Agreement


def test_kappa_and_its_interval_by_hand() -> None:
    # 20 / 5 / 10 / 15 of 50: seen (20+15)/50 = 0.7, chance 0.5 * 0.6 + 0.5 * 0.4 = 0.5, so kappa = 0.2 / 0.5.
    found = Agreement(20, 5, 10, 15)
    kappa = found.kappa()
    assert kappa is not None
    assert found.share == pytest.approx(0.7)
    assert kappa[0] == pytest.approx(0.4)
    # Variance after Fleiss, Cohen and Everitt, term by term: on the diagonal 0.4 (1 - 1.1 * 0.6)^2 + 0.3 (1 - 0.9 * 0.6)^2 = 0.10972;
    # beside it 0.36 (0.1 (0.6 + 0.5)^2 + 0.2 (0.4 + 0.5)^2)  = 0.10188; less (0.4 - 0.5 * 0.6)^2 = 0.01; over 50 * 0.25.
    variance = (0.4 * 0.34**2 + 0.3 * 0.46**2 + 0.36 * (0.1 * 1.1**2 + 0.2 * 0.9**2) - 0.01) / 12.5
    assert kappa[2] - kappa[0] == pytest.approx(1.959964 * variance**0.5, rel=1e-4)
    assert kappa[0] - kappa[1] == pytest.approx(kappa[2] - kappa[0])


@pytest.mark.parametrize(
    ("votes", "kappa"), [((10, 0, 0, 10), 1.0), ((0, 10, 10, 0), -1.0), ((25, 25, 25, 25), 0.0)], ids=["all", "none", "chance"]
)
def test_kappa_at_its_ends(votes: tuple[int, int, int, int], kappa: float) -> None:
    found = Agreement(*votes).kappa()
    assert found is not None
    assert found[0] == pytest.approx(kappa)
    assert -1 <= found[1] <= found[0] <= found[2] <= 1


def test_where_there_is_nothing_to_say() -> None:
    assert Agreement().to_dict() == {
        "up_pass": 0, "up_fail": 0, "down_pass": 0, "down_fail": 0, "n": 0, "share": None, "kappa": None,
    }  # fmt: skip
    assert Agreement(up_pass=7).kappa() is None, "one side that always says the same explains all"
    share = Agreement(up_pass=7).to_dict()["share"]
    assert share["mean"] == 1 and share["low"] == pytest.approx(0.6457, abs=1e-4)
