"""Recall of the published defence against beta^K: the arithmetic, and one run with scripted agents."""

from __future__ import annotations

import pytest

from lazaretto_lab.harness.experiment import load_experiment
from lazaretto_lab.studies.foresight.runner import TrialSettings, foretold


def test_what_beta_foretells() -> None:
    found = foretold([["v"] * 6, ["v", "v", "v", "x", "x", "x"], ["v"] * 6, ["v"] * 3 + ["x"] * 3], {"v"})
    assert found["beta"] == 0.75 and found["chats"] == 6 and found["all_fetched"] == 50.0
    assert found["beta_k"] == pytest.approx(100 * 0.75**6)
    assert found["own_beta_k"] == pytest.approx(100 * (2 + 2 * 0.5**6) / 4)
    assert foretold([], {"v"})["beta"] is None


@pytest.mark.parametrize("name", ["foresight/recall", "foresight/recall_small"])
def test_every_row_is_a_trial_of_bounded_cost(name: str) -> None:
    experiment = load_experiment(name)
    rows = {row.name: TrialSettings(**{**experiment.settings, **row.settings}) for row in experiment.rows}
    assert all(row.mode == "flp" or row.attacks[0].bank for row in rows.values())
    assert all(row.agents * (row.mode_settings.get("personas", 4) // 2) * 9 <= 15_000 for row in rows.values())  # calls
    personas = {row.mode_settings.get("personas", 4) for row in rows.values()}
    assert personas >= {2, 4, 8} and {row.album for row in rows.values()} >= {3, 5, 10}
