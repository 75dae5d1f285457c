"""One form for each amount and time, however it is said, in four languages; and what only looks like one."""

from __future__ import annotations

import pytest

from lazaretto.gates.memory.claims.comparison import differences
from lazaretto.gates.memory.claims.extraction import read_claim
from lazaretto.gates.memory.claims.measures import NUMBER_WORDS, number_of, number_words, same_time
from lazaretto.gates.memory.claims.values import values_in


@pytest.mark.parametrize(
    ("words", "number"),
    [
        ("seventy-five", 75), ("two hundred and fifty", 250), ("a thousand", 1000), ("twenty two", 22), ("twelve", 12),
        ("fünfundsiebzig", 75), ("zweihundertfünfzig", 250), ("dreitausendfünfhundert", 3500), ("dreißig", 30),
        ("soixante-quinze", 75), ("quatre-vingt-dix-sept", 97), ("trois mille deux cents", 3200), ("vingt et un", 21),
        ("treinta y cinco", 35), ("veinticinco", 25), ("mil doscientos", 1200), ("ciento veinte", 120),
        ("doscientas", 200), ("trescientas diez", 310),
        ("two dozen", 24), ("dos docenas", 24), ("ein Dutzend", 12), ("anderthalb", 1.5), ("half", 0.5),
    ],
)  # fmt: skip
def test_a_number_in_words(words: str, number: float) -> None:
    assert number_of(words) == number


@pytest.mark.parametrize("word", ["", "tenant", "freight", "mildew", "undressed", "cinema"])
def test_a_word_that_begins_like_a_number_is_none(word: str) -> None:
    assert number_of(word) is None
    assert not values_in(word)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("It takes 90 minutes.", "It takes an hour and a half."), ("Rest for 14 days.", "Rest for two weeks."),
        ("Paper is up to 1.06 m wide.", "Paper is up to 106 cm wide."),
        ("Give 2.5 mg.", "Give half a 5 mg tablet, 0.0025 g."),
        ("Es dauert anderthalb Stunden.", "Es dauert 90 Minuten."), ("Eine Viertelstunde ziehen lassen.", "15 min."),
        ("Une heure et demie.", "90 minutes."), ("Dura hora y media.", "Dura 90 minutos."),
        ("Caben 24 bidones.", "Caben dos docenas de bidones."), ("Plus de 25 kg.", "Plus de vingt-cinq kilos."),
        ("A full day: 24 hours.", "One day."), ("Keep it for a fortnight.", "Keep it for 14 days."),
        ("Backup at 02:30.", "Backup at half past two."), ("Um 14:30 Uhr.", "Um halb drei."),
        ("Cierra a las 20:30.", "Cierra a las ocho y media de la tarde."),
        ("Open at 18:00.", "Open at six in the evening."),
    ],
)  # fmt: skip
def test_two_ways_of_saying_one_amount_do_not_differ(one: str, other: str) -> None:
    old, new = read_claim(one), read_claim(other)
    assert old.values and new.values and not differences(old, new)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("It takes 90 minutes.", "It takes three hours."), ("Rest for 14 days.", "Rest for one week."),
        ("Backup at 02:30.", "Backup at half past three."), ("Close at 18:00.", "Close at six in the morning."),
        ("Um 15:30 Uhr.", "Um halb drei."), ("Up to 1.06 m wide.", "Up to 160 cm wide."),
        ("Caben 24 bidones.", "Caben tres docenas de bidones."), ("Plus de 25 kg.", "Plus de trente-cinq kilos."),
    ],
)  # fmt: skip
def test_another_amount_in_other_words_differs(one: str, other: str) -> None:
    assert differences(read_claim(one), read_claim(other))


def test_an_hour_that_nobody_places_may_be_before_or_after_noon() -> None:
    assert same_time("~02:30", "14:30") and same_time("02:30", "~02:30") and not same_time("02:30", "14:30")
    assert not same_time("~02:30", "~03:30")


def test_a_page_of_number_words_is_read_in_time_that_grows_with_it() -> None:
    """Each place is looked at once: a long run of number words is no bomb."""
    text = "one thousand two hundred and " * 2_000
    assert len(number_words(text)) == 8_000
    assert len(values_in(text, most=5)) == 5
    assert NUMBER_WORDS
