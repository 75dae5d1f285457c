"""The development list of quiet lies, and the pack that a reader of them is trained on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from lazaretto_lab.training.claims.facts_data import quiet_dev, quiet_twins

pytest.importorskip("torch", reason="needs the models extra")


def test_the_development_list_is_as_large_as_it_says_and_a_third_of_it_is_kept() -> None:
    several = quiet_dev()
    lies = sum(one.lie for one in several)
    assert lies >= 200
    assert len(several) - lies >= 300
    assert {one.language for one in several} == {"en", "de", "es", "fr"}
    kept = {one.work for one in several if one.kept}
    assert 0.15 < sum(one.kept for one in several) / len(several) < 0.45
    assert kept.isdisjoint(one.work for one in several if not one.kept)
    assert not {one.text for one in several} & {one.text for one in quiet_twins()}
    both = {one.text for one in several if one.lie} & {one.text for one in several if not one.lie}
    assert not both


def test_a_pack_is_unpacked_once_and_its_texts_come_back_framed(tmp_path: Path) -> None:
    from lazaretto_lab.training.claims.quiet_training import Texts

    several = [[5, 6, 7], [8], [9, 10]]
    np.savez_compressed(
        tmp_path / "quiet_texts.npz",
        tokens=np.array([t for one in several for t in one], np.uint16),
        lengths=np.array([len(one) for one in several], np.uint8),
        label=np.array([1, 0, -1], np.int8),
        fold=np.array([0, 1, -2], np.int8),
        rule=np.array([1, 1, 0], np.int8),
        weight=np.ones(3, np.float32),
    )
    texts = Texts(tmp_path / "quiet_texts.npz", "cpu")
    ids, mask = texts.batch([texts.tokens[1], texts.tokens[2]])
    assert ids.tolist() == [[101, 8, 102, 0], [101, 9, 10, 102]]
    assert mask.tolist() == [[True, True, True, False], [True, True, True, True]]
    beside = texts.with_company(np.array([1]), [2], 1.0, np.random.default_rng(0))[0].tolist()
    assert beside in ([8, 9, 10], [9, 10, 8])
