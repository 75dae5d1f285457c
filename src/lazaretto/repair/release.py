"""Release: bring a held item back into recall, by choice with everything that is held and was made from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from lazaretto.errors import RepairRefused
from lazaretto.ledger import ItemState
from lazaretto.repair.protocol import RepairRequest, RepairView
from lazaretto.types import COPY_OF, EventKind, RepairPlan, RepairStep, Ruling


@dataclass(frozen=True, slots=True)
class Release:
    """Shows an item that a repair hid or a ruling held. Superseded and erased items stay away, and so does a text of
    which a part was removed: a release would hand out that part."""

    name: ClassVar[str] = "release"
    descendants: bool = False
    """Everything that is held and was made from it too."""
    copies: tuple[str, ...] = ()
    """Other items that say the same and are shown with it, if they are held."""

    def plan(self, request: RepairRequest, view: RepairView) -> RepairPlan:
        """One ``show`` step per held item. ``RepairRefused`` for a text of which a part was removed."""
        max_hops = None if self.descendants else 0
        # an isolated item carries nothing now, so the tree is looked up as it once was
        reached = view.graph.blast_radius(request.item, max_hops=max_hops, history=True)
        steps = []
        copies = self._same(request, view)
        items = tuple(dict.fromkeys((request.item, *(step.id for step in reached.items), *copies)))
        states = view.ledger.states(items)
        if _with_a_removed_part(request.item, states[request.item], view):
            raise RepairRefused(
                f"a part of {request.item} was removed from the text that is used instead, and a release would hand it "
                f"out. If nothing in it has to be hidden: lazaretto label {request.item} benign --by YOU; "
                f"else: lazaretto ledger erase {request.item} --reason WHY"
            )
        for item in items:
            state = states[item]
            if not (state.visible or state.erased or state.superseded_by or _with_a_removed_part(item, state, view)):
                steps.append(RepairStep(item, "show", {COPY_OF: request.item} if item in copies else {}))
        return RepairPlan(
            repair=self.name,
            origin=request.item,
            steps=tuple(steps),
            reason=request.reason,
            agents=tuple(agent.id for agent in reached.agents),
        )

    def _same(self, request: RepairRequest, view: RepairView) -> list[str]:
        """The ``copies`` that a label on the item would settle, too."""
        settled = view.copies(view.ledger.item(request.item)) if self.copies else ()
        return [copy for copy in self.copies if copy in settled]


def _with_a_removed_part(item: str, state: ItemState, view: RepairView) -> bool:
    """Whether a gate once removed a part of it: a later ruling does not make that part public."""
    if not state.held:
        return False
    ruled = view.ledger.events(subject=item, kinds=(EventKind.RULED,))
    return any((event.body or {}).get("ruling") == Ruling.REWRITE.label for event in ruled)
