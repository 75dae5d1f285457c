"""How open the open world is, is chosen by a rule from stored benign runs, once."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from lazaretto.errors import InputError
from lazaretto_lab.harness.context import Outcome
from lazaretto_lab.harness.experiment import load_experiment, units
from lazaretto_lab.harness.results import ResultFolder
from lazaretto_lab.harness.unit import finished
from lazaretto_lab.studies.outbreak import open_world
from lazaretto_lab.studies.outbreak.open_world import chosen, settle, settled_arrivals
from lazaretto_lab.studies.outbreak.settings import read_settings


def store(out: Path, slope: float, seeds: int | None = None) -> None:
    experiment = load_experiment("outbreak/benign")
    folder = ResultFolder(out, experiment.name)
    folder.path.mkdir(parents=True, exist_ok=True)
    for unit in units(experiment, seeds):
        kept = 0.1 + slope * unit.settings["arrivals"] + 0.01 * (unit.seed - 1)
        folder.write(finished(unit, Outcome.HELD, "", {"narrowed": kept}))


def test_the_nearest_chance_is_settled_and_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert chosen({0.1: 0.5, 0.2: 0.6, 0.3: 0.9}) == 0.2 and chosen({0.1: 0.57, 0.2: 0.59}) == 0.1
    place = tmp_path / "open_world.json"
    with pytest.raises(InputError, match="not settled"):
        settled_arrivals(place)
    store(tmp_path / "few", 2.0, seeds=1)
    with pytest.raises(InputError, match="1 of 3 seeds"):
        settle(tmp_path / "few", place)
    store(tmp_path / "runs", 2.0)
    assert settle(tmp_path / "runs", place) == 0.2 == settle(tmp_path / "runs", place)
    assert json.loads(place.read_text())["kept"]["0.5"] == pytest.approx(1.1)
    store(tmp_path / "other", 4.0)
    with pytest.raises(InputError, match="settled before"):
        settle(tmp_path / "other", place)
    monkeypatch.setattr(open_world.settled_arrivals, "__defaults__", (place,))
    assert read_settings({"arrivals": "settled"}).scenario(1).arrivals == 0.2


def test_the_command_says_what_is_missing(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "lazaretto_lab.studies.outbreak.open_world", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "no results" in done.stderr and "Traceback" not in done.stderr
