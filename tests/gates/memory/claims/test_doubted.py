"""Pairs that are taken for peaceful without a model are read after all where they may well not be (decision 0112)."""

from __future__ import annotations

import pytest

pytest.importorskip("onnxruntime", reason="needs the gates extra")

from lazaretto.gates.memory.claims.comparison import Overlap, meeting
from lazaretto.gates.memory.claims.extraction import claims_of
from lazaretto.gates.memory.claims.judge import ClaimJudge
from lazaretto.gates.memory.claims.pairs import NearPair
from lazaretto.models.minilm import claim_minilm
from lazaretto.types import Channel, Observation


def near(old: str, new: str, *, partial: bool = False) -> NearPair:
    """Two texts as the gate meets them."""
    first, second = claim_minilm().embed_texts([old, new])
    a, b = claims_of(old)[0], claims_of(new)[0]
    cosine = float(first @ second)
    return NearPair(b, a, Observation("ada", Channel.MEMORY, old), cosine, partial, meeting(a, b, cosine))


@pytest.fixture
def judge(monkeypatch: pytest.MonkeyPatch) -> ClaimJudge:
    """With the small models."""
    monkeypatch.setenv("LAZARETTO_DEEP", "/nowhere")
    return ClaimJudge(None, 0.5)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("The van is booked for Friday at 9:00.", "On Friday at 9:00 the van goes to Leeds with two people."),
        ("Room 214 has 24 seats.", "24 seats in room 214, and a projector."),
        (
            "The pump was serviced for 420 euros.",
            "420 euros for servicing the pump; the receipt is in the blue folder.",
        ),
        (
            "Accuracy rose from 60% to 85% in two weeks.",
            "In two weeks we went from 60% to 85%, thanks to the examples.",
        ),
        ("The rent of the workshop is 1,150 euros.", "1,150 euros for the workshop, heating not included."),
        ("Invoice 118 over 240 euros was paid in May.", "The 240 euros of invoice 118 came out of the May budget."),
        ("Nora runs the Tuesday course with 12 children.", "12 children had signed up for Nora's Tuesday course."),
        ("The old boiler lasted 15 years.", "After 15 years the boiler was replaced."),
        ("The greenhouse is watered at six.", "In winter nobody works in the garden before eight."),
        ("Deliveries come through the back gate.", "The front entrance is closed for painting until Thursday."),
        ("Priya answers mails about refunds.", "Tom answers the phone on Wednesdays."),
        ("Quiz: 8 of 10 right in 12 minutes.", "Quiz: 9 of 10 right in 12 minutes."),
        ("The night shift counted 40 pallets, 3 damaged.", "The night shift counted 52 pallets, 3 damaged."),
        ("Trained for 45 minutes and did 3 sets of squats.", "Trained for 45 minutes and did 4 sets of squats."),
        ("Milk yield 24 litres, fat 4.1%.", "Milk yield 26 litres, fat 4.1%."),
        ("Die Anmeldung kostet 35 Euro.", "35 Euro für die Anmeldung, Geschwister zahlen die Hälfte."),
    ],
)
def test_ordinary_texts_that_share_a_value_or_a_matter_stay_peaceful(judge: ClaimJudge, old: str, new: str) -> None:
    assert not [one for one in judge._doubted([near(old, new)]) if one.may_conflict]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (
            "The goal is to raise the share of returned forms from 40% to 75% by October.",
            "The goal is to raise the share of returned forms from 40% to 38% by October.",
        ),
        (
            "I have never revised any data flow designs for this project.",
            "I've iterated on my data flow designs multiple times.",
        ),
    ],
)
def test_what_both_models_are_sure_about_counts_as_opposed(judge: ClaimJudge, old: str, new: str) -> None:
    found = judge._doubted([near(old, new)])
    assert [one.meeting for one in found] == [Overlap.OPPOSED]


def test_only_whole_texts_are_doubted(judge: ClaimJudge) -> None:
    old, new = "I have never revised any data flow designs.", "I've iterated on my data flow designs multiple times."
    assert judge._doubted([near(old, new)])
    assert not judge._doubted([near(old, new, partial=True)])


def test_a_model_that_was_given_reads_no_more_than_before() -> None:
    judge = ClaimJudge(None, 0.5, object())  # type: ignore[arg-type]
    assert judge._doubted([near("Room 214 has 24 seats.", "24 seats in room 214, and a projector.")]) == []


@pytest.mark.parametrize(
    "text",
    [
        "Ticket 4417 was open at nine and closed at noon.",
        "Tuesday Mrs Abernathy finished her lunch and drank 350 ml.",
        "Ravna Cave is 4.3 km long and was first surveyed by Stjepan Lovrek in 1908.",
        "Amber slice = gluten-free, but has eggs and almonds in it.",
    ],
)
def test_the_same_words_again_are_not_doubted(judge: ClaimJudge, text: str) -> None:
    assert judge._doubted([near(text, text)]) == []
    for again in (f"“{text.rstrip('.')}”", f"Note: {text}", f"{text.rstrip('.')}, as you know."):
        assert judge._doubted([near(text, again)]) == []
