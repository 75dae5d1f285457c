"""Text memories as an experiment: clear words where data, folds or a peer are absent, and honest measures."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from lazaretto.errors import InputError
from lazaretto_lab.harness.context import RunContext
from lazaretto_lab.studies.memory.peers import PEERS, open_peer
from lazaretto_lab.training.screener.leave_one_out import FOLDS, family_of

pytest.importorskip("torch", reason="needs the models extra")
pytest.importorskip("tokenizers", reason="needs the gates extra")

from lazaretto_lab.studies.memory import texts as memory_texts


def test_absent_data_is_one_clear_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAZARETTO_SHARED", str(tmp_path))
    with pytest.raises(InputError, match="LAZARETTO_SHARED"):
        memory_texts.run({"source": "asb", "method": "shipped"}, 0, RunContext(tmp_path))


def test_every_source_is_left_out_with_its_family() -> None:
    for fold, sources in FOLDS.items():
        assert {family_of(s) for s in sources} == {fold}
    with pytest.raises(InputError, match="not tested"):
        family_of("nowhere")


def test_measures_of_a_yes_or_no_have_no_order() -> None:
    truth = np.array([True, True, False, False])
    said = np.array([0.5, -0.5, -0.5, -0.5])
    found = memory_texts._measures(truth, said, 0.0, ranked=False)
    assert found == {"texts": 4, "fpr": 0.0, "recall": 0.5}
    benign = memory_texts._measures(np.zeros(4, dtype=bool), said, 0.0, ranked=True)
    assert benign == {"texts": 4, "fpr": 0.25}
    scores = np.array([3.0, 2.0, 1.0, 0.0]).repeat(20)
    ranked = memory_texts._measures(truth.repeat(20), scores, 2.5, ranked=True)
    assert ranked["auc"] == 1.0 and ranked["recall"] == 0.5 and ranked["recall_1_percent"] == 1.0


def test_left_out_scores_need_their_folds(tmp_path: Path, shared_data: Path) -> None:
    settings = {"source": "reflexion", "method": "left out", "folds": str(tmp_path)}
    with pytest.raises(InputError, match="train screener"):
        memory_texts.run(settings, 0, RunContext(tmp_path))
    with pytest.raises(InputError, match="seeds"):
        memory_texts.run(settings, 1, RunContext(tmp_path))


@pytest.mark.slow
def test_the_shipped_screener_lets_benign_notes_pass(
    tmp_path: Path, shared_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = memory_texts.held_out(shared_data, "reflexion")[:12]
    monkeypatch.setattr(memory_texts, "held_out", lambda data, source: few)
    found = memory_texts.run({"source": "reflexion", "method": "shipped"}, 0, RunContext(tmp_path))
    assert found == {"texts": 12, "fpr": 0.0}


@pytest.mark.parametrize("name", PEERS)
def test_peers_are_named_where_they_are_absent(name: str) -> None:
    try:
        judge = open_peer(name)
    except InputError as error:
        assert f"pip install {name}" in str(error)
        return
    assert judge("The customer likes green tea.") in (True, False)


def test_unknown_peers_are_refused() -> None:
    with pytest.raises(InputError, match="agent-immune"):
        open_peer("nobody")
