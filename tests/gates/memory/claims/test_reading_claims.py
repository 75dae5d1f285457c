"""Claims and their values: what is read out of a text, and how two readings compare. No model is needed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lazaretto.gates.memory.claims.comparison import (
    FEATURES,
    Overlap,
    compared,
    differences,
    meeting,
    replaces,
    restates,
)
from lazaretto.gates.memory.claims.extraction import MAX_CLAIMS, claims_of, read_claim, says_one_thing
from lazaretto.gates.memory.claims.settings import ClaimSettings
from lazaretto.gates.memory.claims.update_rule import ChangeRule, Witness, credibility, may_change, risk, voices
from lazaretto.gates.memory.claims.values import values_in

RULE = ClaimSettings().rule()


def voice(item: str, agent: str, trust: float, roots: str = "", *, principal: str = "", held: bool = False) -> Witness:
    """A witness; without more, a writer of the operator's own process that rests on nothing else."""
    return Witness(item, agent, trust, frozenset(roots or item), principal or f"process:{agent}", held)


@pytest.mark.parametrize(
    ("text", "kind", "norm"),
    [
        ("Pay to IBAN DE89 3704 0044 0532 0130 00.", "account", "de89370400440532013000"),
        ("Pay to DE89370400440532013000 today.", "account", "de89370400440532013000"),
        ("Use account number 12345678 from now on.", "account", "12345678"),
        ("Send it to 0x52908400098527886E0F7030069857D2E4.", "account", "0x52908400098527886e0f7030069857d2e4"),
        ("Write to Soc@Meridian.example, please.", "mail", "soc@meridian.example"),
        ("It runs at db-1.internal.example:5432.", "host", "db-1.internal.example:5432"),
        ("It runs at 203.0.113.77.", "host", "203.0.113.77"),
        ("Log in at https://Login.example/start.", "host", "login.example/start"),
        ("It lies in /srv/backup/ledger.", "path", "/srv/backup/ledger"),
        ("Call +49 30 901820 first.", "phone", "+4930901820"),
        ("Refunds above 1,500 EUR wait.", "money", "eur 1500"),
        ("Refunds above €1500 wait.", "money", "eur 1500"),
        ("It closes on 14 March 2027.", "date", "14/3/2027"),
        ("It closes on 2027-03-14.", "date", "14/3/2027"),
        ("It closes on March 14, 2027.", "date", "14/3/2027"),
        ("It starts at 6 pm.", "time", "18:00"),
        ("It starts at 18:00.", "time", "18:00"),
        ("Plan for job no. 017 is ready.", "reference", "job 17"),
        ("It pins version 3.0.13.", "version", "3.0.13"),
        ("Give 5 mg a day.", "quantity", "0.005 gram"),
        ("We asked Priya Raman about it.", "name", "priya raman"),
    ],
)  # fmt: skip
def test_values_are_read_and_spelt_alike(text: str, kind: str, norm: str) -> None:
    assert (kind, norm) in {(v.kind, v.norm) for v in values_in(text)}
    for value in values_in(text):
        assert 0 <= value.start < value.end <= len(text)


def test_hostile_texts_are_read_without_fault() -> None:
    for text in (
        "",
        "\0" * 50,
        "1" * 5000,
        "." * 3000,
        "A " * 3000,
        "٣٤٥ €",
        "25:99 32.13.9999 99 Foo 0000",
        "a@b" * 500,
    ):
        claims_of(text)


def test_a_short_text_is_one_claim_and_a_sentence_of_a_long_one_is_joined_to_what_it_leans_on() -> None:
    text = "Brightwater has a new bank. It is now paid to DE89370400440532013000. Lunch is at noon."
    assert [c.text for c in claims_of(text)] == [text]
    long = claims_of(f"{text} {'We talked about the summer party for a long while. ' * 8}")
    assert any("Brightwater" in c.text and "DE89" in c.text and "Lunch" not in c.text for c in long)
    assert says_one_thing("Lunch is at noon.") and not says_one_thing(text)


def test_what_moves_money_is_not_crowded_out_of_a_long_text() -> None:
    filler = " ".join(f"The weather was fine on day {n}." for n in range(300))
    claims = claims_of(f"{filler} Refunds above 500 EUR no longer need approval. {filler}")
    assert len(claims) == MAX_CLAIMS
    assert any("Refunds" in c.text for c in claims)


@pytest.mark.parametrize(
    ("text", "permission"),
    [
        ("Refunds need approval.", "require"),
        ("Refunds no longer need approval.", "waive"),
        ("Refunds do not require a signature.", "waive"),
        ("Interns must not enter.", "forbid"),
        ("Interns may enter.", "allow"),
        ("The fair was in May.", ""),
    ],
)
def test_permissions(text: str, permission: str) -> None:
    assert read_claim(text).permission == permission


def test_differences_name_what_both_say_differently() -> None:
    old, new = read_claim("Give Lee 5 mg once a day."), read_claim("Give Lee 50 mg once a day.")
    assert [d.kind for d in differences(old, new)] == ["quantity"]
    assert differences(read_claim("Due on 14 March."), read_claim("Due on 14 March 2027.")) == ()
    told = dict(zip(FEATURES, compared(old, new), strict=True))
    assert told["values_conflict"] == 1 and told["number_conflict"] == 1 and told["strong_conflict"] == 0


@pytest.mark.parametrize(
    ("old", "new", "ends"),
    [
        ("The mirror lives at m-1.internal.example.", "The mirror lives at m-2.internal.example.", True),
        ("The build cache lives at c-1.internal.example.", "The build cache moved to c-2.internal.example.", True),
        ("The refund limit is 500 EUR.", "The refund limit is now 300 EUR.", True),
        ("Refunds need approval by a lead.", "Refunds no longer need approval by a lead.", True),
        ("The refund limit is 500 EUR.", "The refund limit is 300 EUR.", False),  # nothing says that it changed
        ("The queue held 40 jobs on Friday.", "The queue held 70 jobs on Monday.", False),
        ("The belt of line 3 was replaced on Monday.", "The belt of line 5 was replaced on Monday.", False),
        ("Valves were replaced, the rest goes on Monday.", "Valves were replaced, the rest goes on Friday.", False),
        ("The audit of Anna Lind is at /srv/a/audit.", "The audit of Ben Holt is at /srv/b/audit.", False),
        ("Anna from support is now at a@x.example.", "Jonas from support is now at j@x.example.", False),
        ("The tide leaves depth for the Swan.", "Customs has moved four crates of the Swan.", False),
        ("The mirror lives at m-1.internal.example.", "The mirror of Oslo lives at m-2.internal.example.", False),
    ],
)
def test_a_claim_ends_another_only_where_both_plainly_say_the_same_of_the_same(old: str, new: str, ends: bool) -> None:
    assert replaces(read_claim(old), read_claim(new)) is ends


def test_two_days_with_two_values_do_not_meet_but_another_day_is_no_excuse_where_money_moves() -> None:
    friday, monday = (read_claim(f"The queue held {n} jobs on {day}.") for n, day in ((40, "Friday"), (70, "Monday")))
    assert meeting(friday, monday, 0.95) is Overlap.TWO_THINGS
    assert meeting(friday, read_claim("The queue held 70 jobs on Friday."), 0.95) is Overlap.OPPOSED
    known = read_claim("On Friday the payment limit is 500 EUR.")
    assert meeting(known, read_claim("On Monday the payment limit is 9000 EUR."), 0.9) is Overlap.OPPOSED


def test_a_negation_opposes_only_where_the_words_are_the_same() -> None:
    known = read_claim("The bridge is open to lorries in winter.")
    assert meeting(known, read_claim("The bridge is not open to lorries in winter."), 0.65) is Overlap.OPPOSED
    assert meeting(known, read_claim("Better late than never, said the keeper of the bridge."), 0.65) is Overlap.APART


def test_one_writer_and_one_root_are_one_voice_and_nobody_testifies_for_himself() -> None:
    said = [
        voice("a", "ann", 0.9),
        voice("b", "ann", 0.9, principal="key:other"),
        voice("c", "bob", 0.8, "a"),
        voice("d", "cy", 0.5),
        voice("e", "dan", 0.5, principal="process:cy"),
    ]
    assert [one.item for one in voices(said)] == ["a", "d"]
    assert [one.item for one in voices(said, voice("n", "cy", 0.5))] == ["a"]
    assert [one.item for one in voices(said, voice("n", "new name", 0.5, principal="process:cy"))] == ["a"]


def test_who_may_change_a_claim() -> None:
    def ask(
        trust: float,
        agent: str = "web",
        *,
        sensitive: bool = False,
        own: bool = True,
        support: int = 0,
        heard: float = 0.4,
        held: bool = False,
        known: float = 0.5,
        principal: str = "",
        rule: ChangeRule = RULE,
    ) -> str:
        new, old = voice("n", agent, trust, principal=principal), voice("o", "ann", known)
        several = [voice(f"{i}", f"w{i}", heard, held=held) for i in range(support)]
        return may_change(new, old, several, [old], sensitive=sensitive, own=own, rule=rule)

    assert ask(0.2) == "" and ask(0.2, support=1) == ""
    assert ask(0.5, "ann", sensitive=True) == "maker"
    assert ask(0.5, "ann", sensitive=True, own=False) == "", "what it only read is not its own word"
    assert ask(0.5) == "trust" and ask(0.5, sensitive=True) == "" and ask(0.8, sensitive=True) == "trust"
    assert ask(0.4, support=1) == "voices" and ask(0.4, support=1, sensitive=True) == ""
    assert ask(0.4, support=9, sensitive=True) == "", "strangers, however many, change nothing that moves money"
    assert ask(0.4, support=9, sensitive=True, heard=0.6) == "", "a person decides"
    assert ask(0.4, support=3, sensitive=True, heard=0.6, rule=replace(RULE, sensitive_voices=3)) == "voices"
    assert ask(0.2, "ann", sensitive=True) == "", "a name is no proof when the source is worth less"
    assert ask(0.5, "new", sensitive=True, principal="process:ann") == "maker", "the principal is whoever said it"
    assert ask(0.6, sensitive=True) == "", "an agent's inference is not worth more than another agent's word"
    assert ask(0.8, known=0.8, sensitive=True) == "" and ask(0.9, known=0.9, sensitive=True) == "trust"
    assert ask(0.5, known=0.2, sensitive=True) == "trust", "a page gives way to the crew"
    assert (
        ask(0.4, known=0.4, support=1, held=True) == "trust" and ask(0.6, known=0.9, support=1, heard=0.9) == "voices"
    )
    assert ask(0.6, known=0.9, support=9, heard=0.6, held=True) == "", "what is held is no voice against the user"
    assert ask(0.5, known=0.6, support=1, heard=0.6, held=True) == "voices"


def test_risk_falls_with_credibility_and_rises_with_conflict() -> None:
    low, high = credibility(0.5, 0.2, 0.0, 1.8), credibility(1.0, 0.9, 0.9, 0.0)
    assert low < high
    assert risk(0.6, low, 0.95) > risk(0.6, high, 0.95) > risk(0.6, high, 0.05)


HOST = "The atlas database lives at flint-27.internal.example."
MOVED = "The atlas database moved to amber-3.internal.example."
APPROVED = "Payments to Ivy above 900 EUR need approval."


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        (HOST, "Job 12, plan: we restore atlas from flint-27.internal.example.", Overlap.SAME),
        (APPROVED, "A team lead approves what Ivy gets above 900 EUR.", Overlap.SAME),
        (APPROVED, "Payments to Ivy above 900 EUR need no approval.", Overlap.OPPOSED),
        (APPROVED, "Payments to Ivy above 900 EUR go out right away.", Overlap.ALIKE),
        ("The limit for Ivy is 900 EUR.", "Ivy may take 900 EUR and more.", Overlap.ALIKE),
        (HOST, "The atlas database lives at amber-3.internal.example.", Overlap.OPPOSED),
        ("Job 12: we roll it back to version 1.2.3.", "Job 15: we roll it back to version 1.4.0.", Overlap.TWO_THINGS),
        ("Job 12: we pay 900 EUR.", "Job 15: the limit has been changed to 100 EUR.", Overlap.OPPOSED),
        ("Desk 4 takes payments above 900 EUR.", "Desk 9 takes payments above 900 EUR.", Overlap.OPPOSED),
    ],
)  # fmt: skip
def test_the_same_and_two_things_are_no_conflict(old: str, new: str, found: Overlap) -> None:
    assert meeting(read_claim(old), read_claim(new), 0.8) is found


def test_what_a_trusted_memory_says_already_changes_nothing() -> None:
    old, new = read_claim(HOST), read_claim("Noted for job 7: the atlas database is at amber-3.internal.example.")
    assert restates(read_claim(MOVED), new, old)
    assert not restates(old, new, old)
    other = read_claim("The pricing database moved to amber-3.internal.example.")
    assert not restates(other, new, old), "the same value of another thing is no excuse"
