"""A rewritten text can be erased: no receipt keeps a copy of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from lazaretto import Guard
from lazaretto.repair import engine
from lazaretto.types import EventKind, RepairPlan, RepairStep, plain


def test_no_event_keeps_the_text_of_an_erased_replacement(guard: Guard) -> None:
    secret = "a rewritten secret"
    item = guard.run(guard.remember("an old secret", agent="ada")).item
    made = {**engine.replacement(guard.ledger.item(item), secret), "fields": {"meta": {"why": secret}}}
    detail: dict[str, Any] = {"replacement": made, "difference": f"-an old secret\n+{secret}"}
    drawn = RepairPlan("rewrite", item, (RepairStep(item, "replace", detail),))
    stamped = replace(drawn.steps[0], detail={**detail, "was": plain(guard.ledger.state(item))})
    receipt = guard.run(guard.repairs.apply(replace(drawn, steps=(stamped,))))
    new = detail["replacement"]["id"]
    assert guard.ledger.item(new).text == secret
    guard.ledger.erase(new, "asked to")
    guard.ledger.erase(item, "asked to")
    kept = [
        e
        for e in guard.ledger.events()
        if e.body is not None and (secret in str(e.body) or "an old secret" in str(e.body))
    ]
    assert [e.kind for e in kept] == []
    assert guard.ledger.verify().ok
    assert [e.kind for e in guard.ledger.events(subject=receipt.id)] == [EventKind.REPAIRED]
