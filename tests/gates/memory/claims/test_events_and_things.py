"""What is no contradiction by itself: two events, two readings, two things of a kind, the same said again. No model."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from lazaretto.gates.memory.claims.comparison import Overlap, meeting
from lazaretto.gates.memory.claims.extraction import read_claim
from lazaretto.gates.memory.claims.occasions import ClaimKind, kind, progress, said_again, two_events, two_of_a_kind
from lazaretto.gates.memory.claims.update_rule import at_stake

PAIRS: dict[str, list[tuple[str, str]]] = tomllib.loads(
    (Path(__file__).parents[3] / "data" / "claim_pairs.toml").read_text(encoding="utf-8")
)
NEAR = 0.9
"""A cosine at which everything is compared that can be."""


@pytest.mark.parametrize(
    ("text", "sort"),
    [
        ("Frau Klein rang on Monday.", ClaimKind.EVENT),
        ("The thermometer showed 19 degrees at 9:00.", ClaimKind.EVENT),
        ("Mrs Adler's temperature was 37.2 degrees at 8:00.", ClaimKind.EVENT),
        ("Power was out between 2 am and 3 am.", ClaimKind.EVENT),
        ("Frau Lang hat am Dienstag angerufen.", ClaimKind.EVENT),
        ("The account is GB29 9999 0001.", ClaimKind.STATE),
        ("The cache was moved to cache-2 on Monday.", ClaimKind.STATE),
        ("The manager was Ada.", ClaimKind.STATE),
        ("Refunds above 500 EUR need approval.", ClaimKind.RULE),
        ("Visitors may not enter.", ClaimKind.RULE),
        ("Anna liked the course.", ClaimKind.OPINION),
    ],
)
def test_a_claim_has_a_kind(text: str, sort: ClaimKind) -> None:
    assert kind(read_claim(text)) is sort


def test_events_of_the_development_pairs_cannot_conflict_and_states_can() -> None:
    met = [meeting(read_claim(old), read_claim(new), NEAR) for old, new in PAIRS["event"]]
    assert sum(one is Overlap.TWO_THINGS for one in met) >= 0.85 * len(met)
    states = [*PAIRS["poison"], *PAIRS["false_change"]]
    assert not [pair for pair in states if meeting(*map(read_claim, pair), NEAR) in (Overlap.TWO_THINGS, Overlap.SAME)]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Dr Weiss prescribed 5 mg of ramipril on Monday.", "Dr Weiss prescribed 50 mg of ramipril on Monday."),
        ("Lena ordered 20 chairs from Halden.", "Lena ordered 200 chairs from Halden."),
        ("Invoice 118 was paid on 3 May.", "Invoice 118 was not paid on 3 May."),
        ("James Rennell passed away in London.", "James Rennell passed away in Sydney."),
        ("The founder died in 1901.", "The founder died in 1934."),
        ("The model was run with capacity 1000.", "The model was run with capacity 1700."),
        ("Halden was paid to DE44 5001 0517 on 2 May.", "Halden was paid to DE99 1111 2222 on 9 May."),
        ("Who won the cup? Norway (2018).", "Who won the cup? Sweden (2018)."),
        ("Platform 4 is used for the Basel train.", "Platform 9 is used for the Basel train."),
        ("The red button stops the line.", "The green button stops the line."),
        ("Our VAT number is DE 811 907 980.", "Our VAT number is DE 500 111 222."),
        ("Line 3 runs every ten minutes.", "Line 5 no longer runs; line 3 now runs every hour."),
    ],
)  # fmt: skip
def test_one_event_or_one_slot_with_another_value_is_still_compared(old: str, new: str) -> None:
    assert meeting(read_claim(old), read_claim(new), NEAR) not in (Overlap.TWO_THINGS, Overlap.SAME)


@pytest.mark.parametrize(
    ("old", "new", "two"),
    [
        ("Boiler 2, 06:10 reading: 71 degrees.", "Boiler 2, 18:20 reading: 64 degrees.", True),
        ("Pumpe 4, Montag: 30 m³ gefördert.", "Pumpe 4, Freitag: Dichtung gewechselt.", True),
        ("Signing with Thandi: Saturday 3 pm.", "Signing with Thandi: Sunday 3 pm.", False),
        ("Gate code Monday: 4471.", "The gate code is 9020 on Tuesday.", False),
        ("Card limit in May: 500 euros.", "Card limit in June: 9,000 euros.", False),
        ("Halden, 2 May: DE44 5001 0517 5407.", "Halden, 9 May: DE99 1111 2222 3333.", False),
    ],
)
def test_two_entries_of_a_log_are_two_and_what_holds_is_none(old: str, new: str, two: bool) -> None:
    assert two_events(read_claim(old), read_claim(new)) is two


@pytest.mark.parametrize(
    ("old", "new", "two"),
    [
        ("Line 3 runs every ten minutes.", "Line 5 runs every fifteen minutes.", True),
        ("The winter timetable starts on 10 December.", "The summer timetable starts on 9 June.", True),
        ("Springfield in Illinois has 114,000 inhabitants.", "Springfield in Oregon has 62,000 inhabitants.", True),
        ("John Harris was a British painter born in 1791.", "John Harris is an Australian golfer born in 1953.", True),
        ("The warehouse closes at 18:00.", "The warehouse opens at 7:00.", True),
        ("The warehouse closes at 18:00.", "The warehouse shuts at 22:00.", False),
        ("John Harris was a painter born in 1791.", "John Harris was a painter born in 1801.", False),
        ("The queue holds 40 jobs in block A.", "The queue holds 70 jobs in block A today.", False),
        ("The limit 500 applies to cards in May.", "The limit 5000 applies to cards in June.", False),
    ],
)
def test_two_of_a_kind_are_told_by_their_opening(old: str, new: str, two: bool) -> None:
    assert two_of_a_kind(read_claim(old), read_claim(new)) is two


def test_saying_it_again_is_agreement_and_an_exception_is_not() -> None:
    known = read_claim("Ticket 412 is open.")
    assert meeting(known, read_claim("Ticket 412 is still open."), NEAR) is Overlap.SAME
    rule = read_claim("Refunds need approval.")
    assert said_again(rule, read_claim("Reminder: refunds still need approval."))
    assert not said_again(rule, read_claim("Refunds need approval, unless the customer is in a hurry."))
    assert meeting(known, read_claim("Ticket 412 is not open."), NEAR) is Overlap.OPPOSED


def test_work_goes_on_and_a_rule_does_not() -> None:
    assert progress(read_claim("Ticket 412 is open."), read_claim("Ticket 412 is closed."))
    assert progress(read_claim("The press release is a draft."), read_claim("The press release is final."))
    assert progress(read_claim("Queja 77: farola rota. Abierta."), read_claim("Queja 77: bombilla cambiada. Cerrada."))
    assert not progress(read_claim("Ticket 412 is open."), read_claim("Ticket 413 is closed."))
    assert not progress(read_claim("The valve must stay open."), read_claim("The valve must stay closed."))
    assert not progress(read_claim("Ticket 12 may only be closed by Ada."), read_claim("Ticket 12 is closed."))


def test_what_is_at_stake_lies_in_the_difference() -> None:
    for old, new in PAIRS["false_change"]:
        assert at_stake(read_claim(old), read_claim(new)), (old, new)
    for old, new in PAIRS["update"]:
        assert not at_stake(read_claim(old), read_claim(new)), (old, new)
