"""Matched pairs are matched: the twin differs from the poisoned text by the attack and nothing else."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs the models extra")
pytest.importorskip("tokenizers", reason="needs the gates extra")

from lazaretto.errors import InputError
from lazaretto.models.minilm import minilm_tokenizer
from lazaretto_lab.training.screener import bundle, material
from lazaretto_lab.training.screener.calibration import calibrate, read_folds
from lazaretto_lab.training.screener.corpora import (
    BENIGN_SOURCES,
    PAIRED_SOURCES,
    TEST_LINES,
    TRAIN_LINES,
    load_source,
    poison,
)
from lazaretto_lab.training.screener.leave_one_out import FOLDS, held_out
from lazaretto_lab.training.screener.own_texts import LANGUAGES, own_text
from lazaretto_lab.training.screener.training import Material, Recipe, Sampler


@pytest.mark.parametrize("source", PAIRED_SOURCES)
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
    """No text of a fold's batches comes from a source that the fold leaves out."""
    made = [material.Line(f"line {n} of {source}", "order" if n % 2 else "clean", source)
            for n in range(8) for source in ("asb", "own")]  # fmt: skip
    around = [
        material.Context(f"Context {n} of {source}. Then more of it.", source)
        for n in range(4)
        for source in ("asb", "own")
    ]
    arrays = bundle._material(made, around)
    sampler = Sampler(Material(arrays), ("asb",), Recipe())
    words = minilm_tokenizer()
    rows = sampler.batch(np.random.default_rng(1), 200)
    texts = [words.decode(ids.tolist()) for ids, _, _ in rows]
    assert any("own" in text for text in texts) and not any("asb" in text for text in texts)
    for (ids, marks, label), text in zip(rows, texts, strict=True):
        ordered = words.decode(ids[marks > 0].tolist())
        assert bool(ordered) == bool(label) and ordered in text
        assert len(ids) == len(marks) and marks[0] == marks[-1] == 0


def test_the_same_seed_makes_the_same_batches() -> None:
    made = [material.Line(f"line {n}", role, "own") for n in range(60) for role in ("order", "clean", "request")]
    arrays = bundle._material(made, [material.Context("One. Two. Three. Four and five. Six.", "own")])
    one, other = (Sampler(Material(arrays), (), Recipe(batch=16))[3] for _ in range(2))
    assert all(
        np.array_equal(a, b) for left, right in zip(one, other, strict=True) for a, b in zip(left, right, strict=True)
    )


@pytest.mark.parametrize(
    "source", ["templates_dev", "xquad_pairs", "purplellama", "todo_comments_dev", "owasp_cheatsheets"]
)
def test_tested_texts_name_their_source(shared_data: Path, source: str) -> None:
    found = held_out(shared_data, source)
    assert len(found) > 100 and {sample.source for sample, _ in found} == {source}
    assert {language for _, language in found} <= material.KNOWN
    assert sum(source in sources for sources in FOLDS.values()) == 1


@pytest.mark.parametrize("language", LANGUAGES)
def test_own_texts_have_all_slots_filled(language: str) -> None:
    rng = random.Random(4)
    for kind in ("order", "note", "statement"):
        made = {own_text(language, kind, rng) for _ in range(80)}
        assert len(made) > 30 and not any("{" in text or "}" in text for text in made)


@pytest.mark.parametrize("longer", ["One. BAD! Two.", "One. Two. BAD!", "BAD! One. Two."])
def test_what_was_inserted_is_found(longer: str) -> None:
    start, end = material.inserted("One. Two.", longer)
    assert longer[start:end].strip() == "BAD!"


def test_poison_goes_to_the_nearest_boundary() -> None:
    text, (start, end) = poison("One. Two. Three.", "BAD.", 0.3)
    assert text == "One. BAD. Two. Three."
    assert text[start:end] == "BAD."


def test_wrong_names_are_clear_errors(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not a corpus"):
        load_source("nowhere", tmp_path, 0)
    with pytest.raises(InputError, match="does not exist"):
        load_source("asb", tmp_path, 0)
    with pytest.raises(InputError, match="train screener train"):
        read_folds(tmp_path)


def test_calibration_rises_and_holds_its_rates() -> None:
    rng = np.random.default_rng(5)
    label = np.repeat([0, 1], 4000)
    logit = rng.normal(label * 4 - 2, 1.5)
    kind = np.where(np.arange(8000) % 2, "note", "direct_user")
    rows = {"label": label, "logit": np.where(kind == "note", logit, 99), "kind": kind, "language": np.full(8000, "en")}
    made = calibrate({"pairs": rows, "written_0": rows, "stated_0": rows, "tools_0": rows}, ["en"], 0.5)
    assert made["risk"] == sorted(made["risk"]) and made["logits"] == sorted(made["logits"])
    honest = rows["logit"][(label == 0) & (kind == "note")]
    for rate, threshold in made["thresholds"].items():
        assert np.mean(honest > threshold) <= float(rate)
    assert np.interp(made["thresholds"]["0.05"], made["logits"], made["risk"]) == pytest.approx(0.3)
