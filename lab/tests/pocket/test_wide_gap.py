"""The wide world: texts farther from pictures, all in one direction, and benign retrieval as it was."""

from __future__ import annotations

import json

import numpy as np
import pytest

from lazaretto.errors import ModelUnavailable
from lazaretto.testing import HashingEmbedder
from lazaretto_lab.pocket.weights import FOLDER, WIDE_GAP_FILE, checked
from lazaretto_lab.pocket.wide_gap import WideGapTexts, widened
from lazaretto_lab.studies.outbreak.settings import ModelSettings
from lazaretto_lab.training.pocket.wide_gap import CLIP_GAP, discriminant, gap, moved, strength_for

RNG = np.random.default_rng(0)


def clouds() -> tuple[np.ndarray, np.ndarray]:
    """Texts that share a direction, pictures that do not."""
    pictures = RNG.normal(size=(200, 16))
    pictures[:, 0] = 0.01 * pictures[:, 0]
    texts = RNG.normal(size=(200, 16)) + 1.5 * np.eye(16)[0]
    return tuple(rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (texts, pictures))


def test_the_direction_tells_texts_from_pictures_and_leaves_their_order() -> None:
    texts, pictures = clouds()
    direction = discriminant(texts, pictures)
    assert abs(direction[0]) > 0.95
    strength = strength_for(texts, pictures, direction, CLIP_GAP)
    wide = moved(texts, direction, strength)
    assert gap(texts, pictures) < 0.7 and gap(wide, pictures) == pytest.approx(CLIP_GAP, abs=1e-3)
    assert np.mean((wide @ pictures.T).argmax(axis=1) == (texts @ pictures.T).argmax(axis=1)) > 0.95
    assert np.allclose(np.linalg.norm(wide, axis=1), 1)


def test_the_kept_gap_was_made_on_benign_life() -> None:
    made = json.loads(checked(WIDE_GAP_FILE).read_text())
    assert made["wide"]["gap"] == pytest.approx(CLIP_GAP, abs=1e-3) and made["narrow"]["gap"] < 0.5
    assert made["benign"]["fetch_the_same"] >= 0.97
    assert np.linalg.norm(made["direction"]) == pytest.approx(1, abs=1e-4)


def test_an_altered_gap_is_refused(tmp_path) -> None:  # type: ignore[no-untyped-def]
    for name in ("manifest.json", WIDE_GAP_FILE):
        (tmp_path / name).write_text((FOLDER / name).read_text())
    (tmp_path / WIDE_GAP_FILE).write_text((FOLDER / WIDE_GAP_FILE).read_text().replace("0.8701", "0.9701"))
    with pytest.raises(ModelUnavailable, match="altered"):
        widened(HashingEmbedder(dimension=384), tmp_path)


def test_texts_are_moved_and_named_apart() -> None:
    texts = HashingEmbedder(dimension=384)
    wide = widened(texts)
    assert isinstance(wide, WideGapTexts) and wide.name != texts.name and wide.dimension == 384
    near, far = texts.embed_texts(["bread", "boats"]), wide.embed_texts(["bread", "boats"])
    assert far[0] @ far[1] > near[0] @ near[1] + 0.2
    assert np.allclose(np.linalg.norm(far, axis=1), 1, atol=1e-5)


@pytest.mark.parametrize(("embedder", "expected"), [("pocket", ""), ("pocket:wide", "wide"), ("transformers:a/b", "")])
def test_attacks_and_cures_are_sought_against_the_gap_of_the_world(embedder: str, expected: str) -> None:
    assert ModelSettings(embedder=embedder).gap == expected
