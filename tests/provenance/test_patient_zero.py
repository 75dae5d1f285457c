"""What is known to be healthy tells the culprit from an innocent note that stands behind the same mistakes."""

from __future__ import annotations

from pathlib import Path

import pytest

from lazaretto.errors import UnknownItem
from lazaretto.ledger import Ledger
from lazaretto.provenance.graph import ProvenanceGraph
from lazaretto.types import Channel, Draft, EventKind, Observation


def test_a_note_behind_a_right_decision_is_the_less_likely_culprit(tmp_path: Path) -> None:
    with Ledger.open(f"sqlite:///{tmp_path / 'crew.db'}") as ledger:
        innocent = Observation("ada", Channel.MEMORY, "terms", time=1.0)
        poison = Observation("scout", Channel.MEMORY, "poison", time=2.0)
        child = Observation("ada", Channel.MEMORY, "summary", parents=(innocent.id, poison.id), time=3.0)
        for one in (innocent, poison, child):
            ledger.observe(one)
        for name, item in (("de_wrong", child), ("de_right", innocent)):
            ledger.append(
                [Draft(EventKind.REPORTED, name, "ada", {"what": "", "success": None, "rests_on": [item.id]})]
            )
        graph = ProvenanceGraph(ledger)
        assert graph.patient_zero(["de_wrong"]).item == innocent.id  # nothing speaks for either: the earlier
        assert graph.patient_zero(["de_wrong"], healthy=["de_right"]).item == poison.id
        assert graph.patient_zero(["de_wrong"], healthy=[innocent.id]).item == poison.id
        with pytest.raises(UnknownItem):
            graph.patient_zero(["de_wrong"], healthy=["de_never"])
