"""A process that dies at any write of a repair, of its undoing or of a calibration leaves all of it or nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lazaretto import Guard
from lazaretto.gates.engine.thresholds import Cut, Thresholds
from lazaretto.policy import LearnPolicy
from lazaretto.testing import ScriptedGate
from lazaretto.types import Ruling

POLICY = {"preset": "minimal", "channels": {"memory": {"stages": [["scripted", "blocklist"]]}}}
Open = Callable[..., Guard]
POISON = "The buoy at the northern pier is green since the storm."


class PowerCut(Exception):
    """The power went."""


def opened(open_guard: Open, store: str) -> Guard:
    gate = ScriptedGate(lambda o: Ruling.QUARANTINE if o.text == POISON else Ruling.ALLOW)
    return open_guard(POLICY, store=store, gates={"scripted": gate})


async def poisoned(guard: Guard) -> list[str]:
    """A held note, two that were made from it, and an honest one."""
    root = (await guard.remember(POISON, agent="eve", parents=[])).item
    first = (await guard.remember("Steer by green, says the buoy.", agent="ada", parents=[root])).item
    second = (await guard.remember("Course north by green.", agent="bob", parents=[first])).item
    return [root, first, second, (await guard.remember("Calm sea.", agent="ada", parents=[])).item]


def visible(guard: Guard, items: list[str]) -> list[bool]:
    states = guard.ledger.states(items)
    return [states[item].visible for item in items]


def cut(guard: Guard, monkeypatch: pytest.MonkeyPatch, after: int, written: bool) -> None:
    """The power goes with one of the next writes, before or after it is durable."""
    append, count = guard.ledger.append, 0

    def failing(*args: Any, **named: Any) -> Any:
        nonlocal count
        count += 1
        if count <= after:
            return append(*args, **named)
        if written:
            append(*args, **named)
        raise PowerCut

    monkeypatch.setattr(guard.ledger, "append", failing)


@pytest.mark.parametrize(("after", "written"), [(0, False), (0, True), (1, False)])
@pytest.mark.parametrize("repair", ["release", "undo", "contain"])
async def test_a_repair_is_whole_or_absent(
    store_url: str, open_guard: Open, monkeypatch: pytest.MonkeyPatch, repair: str, after: int, written: bool
) -> None:
    guard = opened(open_guard, store_url)
    items = await poisoned(guard)
    if repair == "undo":
        await guard.label(items[0], "benign", by="carol")
        receipt = await guard.repairs.apply(await guard.repairs.plan(items[0], "isolate", descendants=True))
    elif repair == "contain":
        await guard.label(items[0], "benign", by="carol")
    before = visible(guard, items)
    cut(guard, monkeypatch, after, written)
    try:
        if repair == "undo":
            await guard.repairs.undo(receipt.id)
        else:
            await guard.repairs.apply(await guard.repairs.plan(items[0], repair))
    except PowerCut:
        pass
    again = opened(open_guard, store_url)
    now = visible(again, items)
    await again.remember("Nothing new.", agent="ada", parents=[])  # the first call teaches what was left untold
    whole = {"release": [True] * 4, "undo": [True] * 4, "contain": [False, False, False, True]}[repair]
    assert now == (whole if written or after else before)
    known = (await again.remember(POISON + " ", agent="mallory", parents=[])).verdicts
    listed = any(v.gate == "blocklist" and v.ruling > Ruling.WARN for v in known)
    assert listed is not now[0], "what was removed stays out, what was brought back may come"
    assert again.ledger.verify().ok


@pytest.mark.parametrize("written", [False, True])
def test_a_calibration_is_whole_or_absent(
    store_url: str, open_guard: Open, monkeypatch: pytest.MonkeyPatch, written: bool
) -> None:
    guard = opened(open_guard, store_url)
    bounds = LearnPolicy(gates=("memory", "content"))
    cut(guard, monkeypatch, 0, written)
    cuts = {"memory": Cut(0.4, None, 5), "content": Cut(0.0, 0.6, 7)}
    with pytest.raises(PowerCut):
        Thresholds(guard.ledger, bounds).set(cuts, by="carol")
    version = Thresholds(opened(open_guard, store_url).ledger, bounds).versions()[-1]
    assert (version.number, dict(version.cuts)) == ((1, cuts) if written else (0, {}))
