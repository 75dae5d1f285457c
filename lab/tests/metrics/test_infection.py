"""Infection and purification figures on cases that can be worked out by hand."""

from __future__ import annotations

import math

import pytest

from lazaretto_lab.metrics.infection import (
    activation,
    cumulative_percent,
    current_percent,
    first_reaching,
    infection_summary,
)
from lazaretto_lab.metrics.purification import Purification, purification


def test_infection_curves() -> None:
    symptomatic = [{1}, {1, 2}, set(), {3}]
    assert current_percent(symptomatic, 4) == [25.0, 50.0, 0.0, 25.0]
    assert cumulative_percent(symptomatic, 4) == [25.0, 50.0, 50.0, 75.0]
    assert first_reaching([10, 85, 80], 85) == 1 and first_reaching([10, 84], 85) is None
    shares = activation([1, 0, 0], [2, 3, 0])
    assert shares[:2].tolist() == [0.5, 0.0] and math.isnan(shares[2])


def test_infection_summary_says_none_for_what_did_not_happen() -> None:
    summary = infection_summary([0.0] * 9 + [90.0], [0.0] * 8 + [50.0, 20.0])
    assert summary["cumulative_8"] == 0.0 and summary["cumulative_16"] is None
    assert summary["first_cumulative_85"] == 9 and summary["first_current_85"] is None
    assert summary["current_peak"] == 50.0 and summary["current_end"] == 20.0


def test_purification() -> None:
    one = purification([True, True, False, False, False, False], [True, False, False, False])
    assert one == Purification(2, 1, 4, 3)
    assert (one.elimination, one.retention) == (0.5, 0.75)
    assert one.harmonic == pytest.approx(0.6)
    assert (one + Purification(2, 0, 0, 0)).elimination == 0.75
    assert Purification(0, 0, 5, 5).figures()["elimination"] is None
    assert Purification(1, 1, 1, 0).harmonic == 0.0
