"""When an item turns out to be fine, the repairs made because of it are taken back: item by item, unless an item was
changed since."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from lazaretto.ledger import ItemState, Ledger
from lazaretto.repair import engine
from lazaretto.types import Draft, Receipt

STAYS = frozenset({"release", "rollback"})
"""Repairs that do not follow from a suspicion against the item they start from."""


@dataclass(slots=True)
class TakenBack:
    """Events to append, and the states they rest on."""

    drafts: list[Draft] = field(default_factory=list)
    states: dict[str, ItemState] = field(default_factory=dict)
    """The states that the drafts were made for: append them with these or not at all."""
    shown: list[str] = field(default_factory=list)
    """Items that are usable again afterwards."""
    left: list[str] = field(default_factory=list)
    """Items that were changed since: they stay as they are."""
    receipts: list[str] = field(default_factory=list)
    """Repairs that are undone by it, wholly or in part."""
    by: str = ""


def taking_back(origins: Collection[str], ledger: Ledger, without: Collection[str] = (), by: str = "") -> TakenBack:
    """Events that take back every repair that started from these items; items in ``without`` stay as they are. ``by``
    is recorded."""
    found = TakenBack(by=by)
    touched = set(without)  # and by later repairs that stand
    for receipt in reversed(engine.receipts(ledger)):
        standing = {step.item for step in engine.standing_steps(receipt)}
        follows = receipt.plan.origin in origins and receipt.plan.repair not in STAYS
        if follows and standing - set(origins):  # the item itself is decided elsewhere
            _undo(receipt, touched, set(origins), ledger, found)
        else:
            touched |= standing
    return found


def _undo(receipt: Receipt, touched: set[str], origins: set[str], ledger: Ledger, found: TakenBack) -> None:
    steps = [step for step in engine.standing_steps(receipt) if step.item not in origins]
    now = ledger.states([item for step in steps for item in engine.undoing(step)])
    restored: dict[str, dict[str, Any]] = {}
    for step in steps:
        if step.item in touched or step.item in found.states or engine.changed_since(step, now):
            found.left.append(step.item)
            continue
        undone = engine.undoing(step)
        restored |= undone
        found.states |= {item: now[item] for item in undone}
        before = engine.states_before(receipt.plan)[step.item]
        if before.visible and not now[step.item].visible:
            found.shown.append(step.item)
    if not restored:
        return  # it still stands, and can be undone by hand
    found.receipts.append(receipt.id)
    found.drafts.append(engine.undone_draft(receipt.id, restored, found.by))
