"""The items that still carry influence, as repairs left them.

- A superseded item carries none.
- A hidden (isolated) item carries none from then on; items that it had reached stay reached.
- A cut (pruned) edge carries none.
- Undoing a receipt, or releasing an item, gives the influence back.

States follow ``changes_of``, the rule of the store; only cuts, which are about an edge, are read here.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterator

from lazaretto.ledger.item_state import changes_of, restored_by
from lazaretto.types import Event, EventKind

STATE_KINDS = (
    EventKind.SUPERSEDED, EventKind.REPAIRED, EventKind.UNDONE, EventKind.RELEASED, EventKind.WITHDRAWN,
)  # fmt: skip
"""Events that change who carries influence; all others only add edges."""

NEVER, ALWAYS = -math.inf, math.inf


def _cuts_of(event: Event) -> Iterator[tuple[str, str]]:
    """The (parent, child) edges that a repair's steps cut."""
    plan = (event.body or {}).get("plan") or {}
    for step in plan.get("steps") or ():
        detail = step.get("detail") or {}
        if step["action"] == "cut":
            for parent in detail.get("parents") or filter(None, [detail.get("parent")]):  # one alone, in old receipts
                yield parent, step["item"]


class InfluenceState:
    """The state of influence per numbered item, changed by one event at a time in the ledger's order."""

    def __init__(self) -> None:
        self.carries_until = array("d")
        """Per item: the last moment at which it carries influence."""
        self.cuts: dict[int, set[int]] = {}
        """Item -> those of its children that a repair cut off from it."""
        self.hidden: dict[int, float] = {}
        """Items out of sight, and since when."""
        self.superseded: set[int] = set()
        """Items that others have replaced."""
        self._cuts_by_receipt: dict[str, list[tuple[int, int]]] = {}

    @property
    def stops_anything(self) -> bool:
        """Whether any repair stops anything at all."""
        return bool(self.hidden or self.superseded or self.cuts)

    def add_items(self, count: int) -> None:
        """Make room for more items, which carry influence until further notice."""
        self.carries_until.extend([ALWAYS] * count)

    def apply_event(self, event: Event, number: Callable[[str], int]) -> None:
        """Follow one event of ``STATE_KINDS``; ``number`` turns an item's id into its number."""
        for name, field, value in changes_of(event.kind, event.subject, event.body):
            item = number(name)
            if field == "hidden" and value:
                self.hidden.setdefault(item, event.time)
            elif field == "hidden":
                self.hidden.pop(item, None)
            elif field == "superseded_by":
                (self.superseded.discard if value is None else self.superseded.add)(item)
            self.carries_until[item] = NEVER if item in self.superseded else self.hidden.get(item, ALWAYS)
        if event.kind is EventKind.REPAIRED:
            self._cut(event.subject, [(number(parent), number(child)) for parent, child in _cuts_of(event)])
        elif event.kind is EventKind.UNDONE:
            self._undo_cuts(event.subject, {number(item) for item in restored_by(event)})

    def _cut(self, receipt: str, pairs: list[tuple[int, int]]) -> None:
        fresh = [(parent, child) for parent, child in pairs if child not in self.cuts.get(parent, ())]
        for parent, child in fresh:
            self.cuts.setdefault(parent, set()).add(child)
        if fresh:
            self._cuts_by_receipt[receipt] = fresh

    def _undo_cuts(self, receipt: str, restored: set[int]) -> None:
        pairs = self._cuts_by_receipt.pop(receipt, [])
        if stays := [pair for pair in pairs if pair[1] not in restored]:
            self._cuts_by_receipt[receipt] = stays
        for parent, child in pairs:
            if child not in restored:
                continue
            self.cuts[parent].discard(child)
            if not self.cuts[parent]:
                del self.cuts[parent]
