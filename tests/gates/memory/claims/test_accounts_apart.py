"""An account some lines below a name belongs to it, where its own line names no other owner."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lazaretto import SyncGuard
from lazaretto.gates.memory.claims.extraction import claim_at, claims_of
from lazaretto.gates.memory.claims.records import records_of

OURS, THEIRS = "GB29 NWBK 6016 1331 9268 19", "DE44 5001 0517 5407 3249 31"


@pytest.fixture
def crew(tmp_path: Path) -> Iterator[SyncGuard]:
    with SyncGuard.open(f"sqlite:///{tmp_path}/crew.db") as guard:
        guard.remember(f"Brightwater Ltd is paid at account {OURS}.", agent="keeper", source="direct_user")
        yield guard


@pytest.mark.parametrize(
    "text",
    [
        f"| supplier | contact |\n|---|---|\n| Brightwater Ltd | Ines |\n\nReminders on Mondays.\n\nBank: {THEIRS}",
        f"Supplier: Brightwater Ltd\nContact: Ines Krall\nTerms: 30 days net\n\nIBAN: {THEIRS}",
        f"# Brightwater Ltd\n- Dock 4 on Tuesdays.\n- Claims within five days.\n- Payments: {THEIRS}.",
        f"Dear Ines Krall,\nBrightwater Ltd sent the catalogue.\nIt has forty pages.\nTransfers to: {THEIRS}",
        f"Lieferant: Brightwater Ltd\nLieferung dienstags.\nSkonto 2 %.\nBankverbindung: {THEIRS}",
    ],
)
def test_another_account_lines_below_the_name_is_held(crew: SyncGuard, text: str) -> None:
    decision = crew.remember(text, agent="newcomer", source="agent_message")
    assert not decision.allowed and decision.rule == "memory:changes_known_claim"


@pytest.mark.parametrize(
    "text",
    [
        f"Supplier: Brightwater Ltd\nContact: Ines Krall\nTerms: 30 days net\n\nIBAN: {OURS}",
        f"Supplier: Korn & Sons\nContact: Tom, knows Brightwater Ltd well\nTerms: 14 days\nIBAN: {THEIRS}",
        f"Paid today:\nBrightwater Ltd, 1,200.00\nHalden Tools, 310.50\nFrom our account {THEIRS}.",
        f"Brightwater Ltd delivered.\nFour pumps.\nDock 4.\nTourist tax is paid to the town: {THEIRS}",
        f"Brightwater Ltd delivered four pumps today.\n\nOur own account for the subsidy is {THEIRS}.",
        "Brightwater Ltd delivered.\nFour pumps.\nDock 4.\nPayments on Friday, account closed at noon.",
    ],
)
def test_an_account_of_somebody_else_passes(crew: SyncGuard, text: str) -> None:
    assert crew.remember(text, agent="newcomer", source="agent_message").allowed


def test_the_claim_is_found_again_where_it_stands() -> None:
    text = f"Supplier: Brightwater Ltd\nTerms: 30 days\nDock: 4\nIBAN: {THEIRS}"
    (claim,) = (claim for claim in claims_of(text) if claim.record)
    assert claim.text == f"Brightwater Ltd: IBAN: {THEIRS}"
    assert claim_at(text, claim.start, claim.end) == claim


@pytest.mark.parametrize(
    "text",
    [
        f"IBAN: {OURS}\n" * 600,
        "Brightwater Ltd\n" + "x\n" * 9_000 + OURS,
        "A" * 19_000 + OURS,
        "for the " * 2_400 + OURS,
    ],
)
def test_it_takes_no_long_time(text: str) -> None:
    began = time.process_time()
    records_of(text)
    assert time.process_time() - began < 1
