"""Personal data is told from other numbers by its check digits."""

from __future__ import annotations

from collections.abc import Callable

import pytest

pytest.importorskip("stdnum")
pytest.importorskip("phonenumbers")

from lazaretto import Guard, Ruling
from lazaretto.gates.personal import PersonalSettings, find_personal, make, without
from lazaretto.testing import check_gate

KINDS = PersonalSettings().kinds


@pytest.mark.parametrize(
    ("text", "data", "kind"),
    [
        ("Card 4111 1111 1111 1111, expires soon", "4111 1111 1111 1111", "card number"),
        ("pay from DE89 3704 0044 0532 0130 00 please", "DE89 3704 0044 0532 0130 00", "IBAN"),
        ("her number is 536-90-4399.", "536-90-4399", "social security number"),
        ("call +49 30 1234567 tomorrow", "+49 30 1234567", "telephone number"),
        ("write to jo.doe+x@mail.example.org.", "jo.doe+x@mail.example.org", "e-mail address"),
    ],
)
def test_what_is_personal_is_found_and_taken_out(text: str, data: str, kind: str) -> None:
    ((start, end, found),) = find_personal(text, KINDS)
    assert (text[start:end], found) == (data, kind)
    assert data not in without(text, [(start, end, found)]) and f"[{kind} removed]" in without(
        text, [(start, end, found)]
    )


@pytest.mark.parametrize(
    "text",
    [
        "Card 4111 1111 1111 1112",
        "order 1234567890123456 of 2026-05-04 10:20",
        "DE89 3704 0044 0532 0130 01 is mistyped",
        "000-12-3456 is nobody's",
        "build 3f9a1c2e7b4d5f60819a2b3c, version 1.2.3-4567",
        "@property def x(self): ...",
        "",
    ],
)
def test_other_numbers_are_left_alone(text: str) -> None:
    assert find_personal(text, KINDS) == []


async def test_the_gate_keeps_the_contract_and_offers_the_rest(open_guard: Callable[..., Guard]) -> None:
    await check_gate(make({}))
    guard = open_guard({"preset": "minimal", "channels": {"memory": {"stages": [["personal"]]}}})
    decision = await guard.remember("Jo: jo@mail.example, +49 30 1234567", agent="ada")
    assert decision.ruling is Ruling.REWRITE and "jo@mail.example" not in repr(decision)
    assert decision.replacement == "Jo: [e-mail address removed], [telephone number removed]"
    assert find_personal("jo@mail.example", ("IBAN",)) == []
