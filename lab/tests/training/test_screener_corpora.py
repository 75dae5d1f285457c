"""Matched pairs are matched: the twin differs from the poisoned text by the attack and nothing else."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from lazaretto.errors import InputError
from lazaretto_lab.training.screener.calibration import calibrate, read_folds
from lazaretto_lab.training.screener.corpora import (
    ATTACK_FAMILIES,
    BENIGN_SOURCES,
    TEST_LINES,
    TRAIN_LINES,
    load_source,
    poison,
)
from lazaretto_lab.training.screener.pairs import training_set

SOURCES = [source for family in ATTACK_FAMILIES.values() for source in family]


@pytest.mark.parametrize("source", SOURCES)
def test_every_poisoned_text_has_a_clean_twin(shared_data: Path, source: str) -> None:
    samples = load_source(source, shared_data, seed=3, pairs=40)
    assert len(samples) == 80
    for poisoned, clean in zip(samples[0::2], samples[1::2], strict=True):
        assert (poisoned.poisoned, clean.poisoned) == (True, False)
        assert poisoned.pair == clean.pair
        start, end = poisoned.spans[0]
        attack = poisoned.text[start:end]
        assert attack
        assert attack not in clean.text
        around = poisoned.text[:start] + poisoned.text[end:]
        bare = next((clean.text.replace(line, "", 1) for line in TEST_LINES if line in clean.text), clean.text)
        assert "".join(around.split()) in ("".join(bare.split()), "".join(clean.text.split()))


def test_harmless_lines_of_tests_are_not_those_of_training() -> None:
    assert not set(TRAIN_LINES) & set(TEST_LINES)


@pytest.mark.parametrize("source", BENIGN_SOURCES)
def test_benign_traffic_is_benign(shared_data: Path, source: str) -> None:
    samples = load_source(source, shared_data, seed=3, pairs=50)
    assert len(samples) == 50
    assert not any(s.poisoned for s in samples)


def test_training_never_holds_what_is_left_out(shared_data: Path) -> None:
    kept = [f for f in ATTACK_FAMILIES if f != "asb"]
    text = "\n".join(s.text for s in training_set(shared_data, kept, ["tau_bench"], seed=0, size=600))
    attacks = [s.text[a:b] for s in load_source("asb", shared_data, seed=0) for a, b in s.spans]
    assert len(attacks) == 400
    assert not [attack for attack in attacks if attack in text]


def test_poison_goes_to_the_nearest_boundary() -> None:
    text, (start, end) = poison("One. Two. Three.", "BAD.", 0.3)
    assert text == "One. BAD. Two. Three."
    assert text[start:end] == "BAD."


def test_wrong_names_are_clear_errors(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not a corpus"):
        load_source("nowhere", tmp_path, 0)
    with pytest.raises(InputError, match="does not exist"):
        load_source("asb", tmp_path, 0)
    with pytest.raises(InputError, match="fold_"):
        read_folds(tmp_path)


def test_calibration_rises_and_holds_its_rates() -> None:
    rng = np.random.default_rng(5)
    label = np.repeat([0, 1], 2000)
    logit = rng.normal(label * 4 - 2, 1.5)
    made = calibrate({"pairs": {"label": label, "logit": logit}})
    assert made["risk"] == sorted(made["risk"])
    assert all(low <= risk <= high for low, risk, high in zip(made["low"], made["risk"], made["high"], strict=True))
    for rate, threshold in made["thresholds"].items():
        assert np.mean(logit[label == 0] > threshold) <= float(rate)
