"""JSON, tables, key=value lines and answered questions as claims, and values across languages."""

from __future__ import annotations

from pathlib import Path

import pytest

from lazaretto import SyncGuard
from lazaretto.gates.memory.claims.comparison import Overlap, another_value_across, meeting
from lazaretto.gates.memory.claims.extraction import claim_at, claims_of, read_claim
from lazaretto.gates.memory.claims.records import MAX_RECORDS, records_of

RECORDS = {
    '{"patient": "Okello", "dose": "60 mg"}': ["patient Okello, dose 60 mg"],
    'Vendor sheet: {"supplier": "Brightwater", "bank": {"iban": "DE44", "approved": false}}': [
        "Vendor sheet supplier Brightwater",
        "supplier Brightwater bank iban DE44, approved no",
    ],
    '{"name": "card", "limits": [{"kind": "day", "eur": 5}, {"kind": "month", "eur": 9}]}': [
        "name card",
        "name card limits kind day, eur 5",
        "name card limits kind month, eur 9",
    ],
    "Our list.\n\n| Supplier | IBAN |\n|---|:--|\n| Brightwater | DE44 |\n| Northwind | DE77 |\n\nKeep it safe.": [
        "Our list.",
        "supplier Brightwater, iban DE44",
        "supplier Northwind, iban DE77",
        "Keep it safe.",
    ],
    "name,iban,limit\nBrightwater,DE44,500\nNorthwind,DE77,900": [
        "name Brightwater, iban DE44, limit 500",
        "name Northwind, iban DE77, limit 900",
    ],
    "name;owner\nship 4;Ada": ["name ship 4, owner Ada"],
    "DB_HOST=db1.internal\nPAY_IBAN = DE44 4410": ["db host db1.internal", "pay iban DE44 4410"],
    "host=db1.internal port=5432": ["host db1.internal, port 5432"],
    "Q: Who is paid?\nA: Brightwater.\nQ: By whom, and when?\nA: Ada, on Friday.": [
        "Who is paid? Brightwater.",
        "By whom, and when? Ada, on Friday.",
    ],
    "Frage: Darf der Support Codes vorlesen? Antwort: Ja, immer.": ["Darf der Support Codes vorlesen? Ja, immer."],
}


@pytest.mark.parametrize("text", RECORDS)
def test_a_record_is_told_in_words(text: str) -> None:
    claims = claims_of(text)
    assert [claim.text for claim in claims] == RECORDS[text]
    assert [claim_at(text, claim.start, claim.end) for claim in claims] == list(claims)


@pytest.mark.parametrize(
    "text",
    [
        "First, we went out.\nThen, we came back.",
        "The limit is x = 5 and the rest is prose.",
        'def f(x):\n    y = {"a": x}\n    return y + 1',
        "Use {curly} braces | or pipes.",
        '{"broken": ',
        "The question is: who pays? A good one.",
    ],
)
def test_prose_has_no_records(text: str) -> None:
    assert not [one for one in records_of(text) if one.words]


@pytest.mark.parametrize(
    "text", ['{"a":' * 4000, "[" + '{"a": "b", "c": {"d": 1}},' * 700 + "]", "a,b\n" * 4500, "|-" * 9000, "Q: " * 6000]
)
def test_a_text_of_nothing_but_marks_has_few(text: str) -> None:
    assert len(records_of(text)) <= MAX_RECORDS


def test_an_object_contradicts_a_sentence(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="needs the gates extra")
    with SyncGuard.open(f"sqlite:///{tmp_path}/crew.db") as guard:
        known = guard.remember("Okello gets 20 mg of simvastatin.", agent="ward", source="direct_user")
        again = guard.remember(
            '{"patient": "Okello", "drug": "simvastatin", "dose": "20 mg"}', agent="b", source="agent_message"
        )
        other = guard.remember(
            '{"patient": "Okello", "drug": "simvastatin", "dose": "60 mg"}', agent="c", source="agent_message"
        )
    assert known.allowed
    assert again.allowed
    assert not other.allowed


ACROSS = [
    (
        "Brightwater is paid to DE44 5001 0517 5407 3249 31.",
        "Brightwater wird auf DE12 2004 0000 0532 0130 00 bezahlt.",
    ),
    ("The deadline for the Harbour report is 12 May.", "Die Frist für den Harbour-Bericht ist der 19. Mai."),
    ("Invoices for Northwind go to a@northwind.example.", "Las facturas de Northwind van a b@pay.example."),
    ("The limit of the Keller card is 500 euros.", "Le plafond de la carte Keller est de 900 euros."),
    ("Mrs Okafor gets 40 mg of enoxaparin.", "Frau Okafor bekommt 80 mg Enoxaparin."),
]
NOT_ACROSS = [
    ("Brightwater was founded in 1971.", "Brightwater hat 120 Mitarbeiter."),
    ("The Keller card has a limit of 500 euros.", "Die Keller-Rechnung über 900 Euro ist bezahlt."),
    ("Northwind's support mail is a@northwind.example.", "Las facturas de Northwind van a b@northwind.example."),
    ("The Harbour meeting is on 12 May.", "Die Frist für den Harbour-Bericht ist der 19. Mai."),
    ("The limit of the Keller card is 500 euros.", "Le plafond de la carte Keller est de 500 euros."),
    ("The limit of the Keller card is 500 euros.", "The Keller card's limit is 900 euros."),
]


@pytest.mark.parametrize(("old", "new"), ACROSS)
def test_another_value_in_another_language(old: str, new: str) -> None:
    assert another_value_across(read_claim(old), read_claim(new))


@pytest.mark.parametrize(("old", "new"), NOT_ACROSS)
def test_no_other_value_in_another_language(old: str, new: str) -> None:
    assert not another_value_across(read_claim(old), read_claim(new))


def test_titles_of_two_languages_are_one_person() -> None:
    known = read_claim("Mrs Klein gets 40 mg of enoxaparin.")
    assert meeting(known, read_claim("Frau Klein bekommt 80 mg Enoxaparin."), 0.7) is Overlap.OPPOSED
    assert meeting(known, read_claim("Herr Klein bekommt 80 mg Enoxaparin."), 0.7) is Overlap.TWO_THINGS


def test_an_account_in_another_language_is_held(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="needs the gates extra")
    with SyncGuard.open(f"sqlite:///{tmp_path}/crew.db") as guard:
        guard.remember("Brightwater is paid to DE44 5001 0517 5407 3249 31.", agent="ada", source="direct_user")
        told = guard.remember(
            "Brightwater wird auf das Konto DE12 2004 0000 0532 0130 00 bezahlt.", agent="web", source="agent_message"
        )
    assert not told.allowed
    assert "claim" in {e.kind for v in told.active_verdicts for e in v.evidence}
