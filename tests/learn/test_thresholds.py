"""Labels move the line between warn and review: unanimous, bounded, versioned, revertible."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from lazaretto import Guard, Ruling
from lazaretto.errors import InputError
from lazaretto.gates.engine.thresholds import Cut, Thresholds
from lazaretto.learn.tuning import calibrate
from lazaretto.policy import LearnPolicy
from lazaretto.testing import ScriptedGate
from lazaretto.types import Observation, Verdict

BOUNDS = LearnPolicy(gates=("memory",), min_labels=3, clears_up_to=0.6, reviews_from=0.3)


def by_number(observation: Observation) -> Verdict:
    """The risk stands in the text; from 0.5 on it is held for review, from 0.9 on quarantined."""
    risk = float(observation.text.split()[-1])
    ruling = Ruling.QUARANTINE if risk >= 0.9 else Ruling.REVIEW if risk >= 0.5 else Ruling.ALLOW
    return Verdict("memory", observation.id, ruling, risk, (0.0, 1.0), "by_number")


@pytest.fixture
def guard(open_guard: Callable[..., Guard]) -> Guard:
    table: dict[str, Any] = {"channels": {"memory": {"stages": [["memory"]]}}}
    table["learn"] = {"gates": ["memory"], "min_labels": 3, "clears_up_to": 0.6, "reviews_from": 0.3}
    return open_guard(table, gates={"memory": ScriptedGate(by_number, "memory")})


async def said(guard: Guard, risk: float, label: str, count: int = 1) -> None:
    for _ in range(count):
        item = (await guard.remember(f"risk {risk}", agent="ada")).item
        await guard.label(item, label, by="carol")  # type: ignore[arg-type]


async def test_what_people_release_again_and_again_is_held_no_more(guard: Guard) -> None:
    await said(guard, 0.5, "benign", 2)
    assert calibrate(guard.ledger, BOUNDS) == {}, "two labels are few"
    await said(guard, 0.55, "benign")
    await said(guard, 0.8, "harmful")
    assert calibrate(guard.ledger, BOUNDS) == {"memory": Cut(0.55, None, 4)}
    book = Thresholds(guard.ledger, BOUNDS)
    book.set(calibrate(guard.ledger, BOUNDS), by="carol")
    guard._core.gates.contexts["memory"].thresholds._due = 0.0  # type: ignore[union-attr]  # as if five seconds had passed
    moved = await guard.remember("risk 0.54", agent="ada")
    assert moved.ruling is Ruling.WARN and "thresholds 1" in moved.reasons[-1]
    assert (await guard.remember("risk 0.58", agent="ada")).ruling is Ruling.REVIEW
    assert (await guard.remember("risk 0.95", agent="ada")).ruling is Ruling.QUARANTINE
    book.revert(0, by="dave")
    guard._core.gates.contexts["memory"].thresholds._due = 0.0  # type: ignore[union-attr]
    assert (await guard.remember("risk 0.54", agent="ada")).ruling is Ruling.REVIEW
    assert [one.number for one in book.versions()] == [0, 1, 2], "nothing is overwritten"
    with pytest.raises(InputError, match="no version 9"):
        book.revert(9, by="dave")


async def test_what_people_condemn_is_looked_at(guard: Guard) -> None:
    await said(guard, 0.4, "harmful", 3)
    await said(guard, 0.1, "benign", 3)
    assert calibrate(guard.ledger, BOUNDS)["memory"].reviews_from == 0.4


async def test_no_line_moves_past_the_bounds_or_against_a_label(guard: Guard) -> None:
    await said(guard, 0.7, "benign", 5)
    assert calibrate(guard.ledger, BOUNDS) == {}, "0.7 is past clears_up_to"
    await said(guard, 0.2, "harmful", 5)
    assert calibrate(guard.ledger, BOUNDS) == {}, "0.2 is below reviews_from"
    book = Thresholds(guard.ledger, BOUNDS)
    book.set({"memory": Cut(0.99, 0.01, 9)}, by="mallory")  # whoever wrote this event, the bounds hold
    verdict = by_number(Observation("ada", "memory", "risk 0.8"))  # type: ignore[arg-type]
    assert (
        book.moved(verdict) is verdict and book.moved(replace(verdict, gate="other", risk=0.1)).ruling is Ruling.REVIEW
    )
    assert book.moved(by_number(Observation("a", "memory", "risk 0.2"))).ruling is Ruling.ALLOW  # type: ignore[arg-type]
