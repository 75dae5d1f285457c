"""Results about one claim, and about what its writer has read, are worked out once, however many claims it meets."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lazaretto.gates.memory.claims import occasions
from lazaretto.gates.memory.claims.comparison import differs_in_a_value_alone, meeting
from lazaretto.gates.memory.claims.extraction import read_claim
from lazaretto.gates.memory.claims.update_rule import PagesRead, only_a_stranger_named
from lazaretto.ledger import Ledger
from lazaretto.policy import DEFAULT_TRUST
from lazaretto.types import Channel, Observation

TEXTS = (
    "The committee met on Monday and approved the plan.", "The committee met on Tuesday and refused the plan.",
    "Invoices of Brightwater are paid to account DE44 4410 0000 1234 5678 90.", "Sample K7 showed 4 mg.",
    "Ticket 12 is open.", "Ticket 12 was closed.", "Anna Weber approves refunds.", "Tom Weber approves refunds.",
)  # fmt: skip


def test_a_claim_is_read_once_for_all_that_it_meets(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    class Counting:
        def search(self, text: str) -> Any:
            asked.append(text)
            return pattern.search(text)

        def __getattr__(self, name: str) -> Any:
            return getattr(pattern, name)

    pattern = occasions._PRESENT
    monkeypatch.setattr(occasions, "_PRESENT", Counting())
    claims = [read_claim(f"{text} Again.") for text in TEXTS]
    for old in claims:
        for new in claims:
            meeting(old, new, 0.8)
    assert asked and len(asked) == len(set(asked))


def test_no_result_depends_on_what_the_claim_met_before() -> None:
    def fresh(text: str) -> Any:
        return replace(read_claim(text))

    met = [fresh(text) for text in TEXTS]
    for _ in range(2):
        for n, old in enumerate(TEXTS):
            for m, new in enumerate(TEXTS):
                assert meeting(met[n], met[m], 0.8) is meeting(fresh(old), fresh(new), 0.8)
                assert differs_in_a_value_alone(met[n], met[m]) is differs_in_a_value_alone(fresh(old), fresh(new))
    assert met[0] == fresh(TEXTS[0])
    assert hash(met[0]) == hash(fresh(TEXTS[0]))


def test_pages_are_looked_up_once_and_only_where_a_value_is_new(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[Channel] = []
    items = Ledger.items

    def counting(self: Ledger, **asked: Any) -> Any:
        looked.append(asked["channel"])
        return items(self, **asked)

    monkeypatch.setattr(Ledger, "items", counting)
    item = Observation("ada", Channel.MEMORY, TEXTS[2])
    pages, trust = PagesRead(item, ledger), DEFAULT_TRUST.table()
    account, plain = read_claim(TEXTS[2]), read_claim(TEXTS[4])
    assert not only_a_stranger_named(item, account, plain, pages, trust)
    assert looked == []
    for _ in range(3):
        assert not only_a_stranger_named(item, plain, account, pages, trust)
    assert looked == [Channel.DOCUMENT, Channel.TOOL, Channel.MESSAGE]
