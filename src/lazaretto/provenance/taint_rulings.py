"""Rulings of taint: items are held when an item they were made from is held, and released when it is released.

Holding follows a finding and may be called again after an interruption; it then goes on where it ended. ``log_acts``
logs these changes of recorded items, and those that repairs and labels make.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from lazaretto.ledger import Ledger
from lazaretto.policy import Policy
from lazaretto.provenance import carrying, taint
from lazaretto.provenance.graph import ProvenanceGraph
from lazaretto.types import MACHINE, Draft, EventKind, Observation, Ruling, Verdict, plain

Teach = Callable[[Observation, Ruling, tuple[Verdict, ...]], None]
"""Passes the outcome of an item, with the verdicts that count, to the gates that learn."""
acts = logging.getLogger("lazaretto.acts")
"""Logs each change that the guard makes to a recorded item by itself, with the reason; never an item's text."""


def log_acts(drafts: Sequence[Draft]) -> None:
    """A line for each thing that recorded events do: hold, release, cut loose, rewrite, propose, take back."""
    for draft in drafts:
        for line in _log_lines(draft):
            acts.info("%s", line)


def _log_lines(draft: Draft) -> list[str]:
    body = draft.body
    if draft.kind is EventKind.RULED:
        paths = [e["data"].get("held") for v in body.get("verdicts", ()) for e in v["evidence"] if e["kind"] == "path"]
        because = ", ".join(str(held) for held in dict.fromkeys(paths) if held)
        return [
            f"{draft.subject} is held ({body['ruling']}) by {body['rule']}{f', because of {because}' * bool(because)}"
        ]
    if draft.kind is EventKind.RELEASED:
        because = ", ".join(body.get(taint.BECAUSE) or ()) or str(body.get("rule") or body.get("receipt") or "")
        return [
            f"{draft.subject} is released by {body.get('by', 'a repair')}{f', because of {because}' * bool(because)}"
        ]
    if draft.kind is EventKind.WITHDRAWN:
        return [f"{draft.subject} is as it was before the decision {body['decision']}, which {body['by']} takes back"]
    if draft.kind is EventKind.UNDONE:
        restored = body.get("restored", {})
        return [f"{item} is as it was before the repair {draft.subject}, which is taken back" for item in restored]
    if draft.kind is EventKind.REPAIRED:
        plan = body["plan"]
        return [_step_line(step, plan, draft.subject) for step in plan["steps"]]
    if draft.kind is EventKind.NOTED and body.get("what") == "proposal":
        if "closed" in body:
            return [f"the proposal {draft.subject} is {body['closed']} by {body['by'] or 'the guard'}"]
        return [f"{len(body['steps'])} changes are proposed as {draft.subject}, because {body['origin']} is held"]
    return []


def _step_line(step: Mapping[str, Any], plan: Mapping[str, Any], receipt: str) -> str:
    detail = step.get("detail") or {}
    what = {
        "hide": "is hidden",
        "remove": "is removed",
        "show": "is shown",
        "replace": f"is rewritten as {(detail.get('replacement') or {}).get('id')}",
        "cut": f"is cut loose from {', '.join(detail.get('parents') or ())}",
    }[step["action"]]
    return (
        f"{step['item']} {what} by {plan['repair']} from {plan['origin']} ({plan['reason'] or '-'}), receipt {receipt}"
    )


class TaintRulings:
    """Holds and releases items that came from others, as a policy says. Every call blocks."""

    def __init__(
        self,
        ledger: Ledger,
        graph: ProvenanceGraph,
        policy: Policy,
        teach: Teach,
    ) -> None:
        """``teach`` passes the outcome of an item to the gates that learn."""
        self._ledger, self._graph, self._policy, self._teach = ledger, graph, policy, teach

    def hold_what_came_from(self, items: Sequence[str], fresh: Sequence[Draft] = ()) -> tuple[str, ...]:
        """Hold items made from items that are held by now, or repeating them; returns those not held before.

        ``fresh``: rulings of ``holding`` that were recorded already.
        """
        held: list[str] = []
        origins = [item for item, state in self._ledger.states(items).items() if state.held]
        self._follow_copies(fresh)
        while drafts := self.holding(origins):
            self._ledger.append(drafts)
            self.teach(drafts)
            held += [draft.subject for draft in drafts]
            self._follow_copies(drafts)
        return tuple(held)

    def _follow_copies(self, drafts: Sequence[Draft]) -> None:
        """Link items that repeat newly tainted ones, so that they are found next, and keep the tainted ones' marks."""
        ids = [draft.subject for draft in drafts]
        tainted = self._ledger.items(ids=ids, any_state=True, limit=None) if ids else []
        trust = self._policy.trust.table()
        drafts_made = carrying.marks(tainted)
        for item in tainted:
            for copy in carrying.copies(item, self._ledger, trust):
                drafts_made += carrying.links(copy, [item.id])
        if drafts_made:
            self._ledger.append(drafts_made)

    def hold_what_came_from_found(self, items: Sequence[str]) -> tuple[str, ...]:
        """As ``hold_what_came_from``, of those that were found themselves.

        An item held for its descent alone accuses no other: the next would be held for repeating an honest note.
        """
        return self.hold_what_came_from([item for item in items if not taint.held_for_taint(item, self._ledger)])

    def release_what_came_from(self, items: Sequence[str]) -> tuple[str, ...]:
        """Release items that are held only because these items were; returns the released ones."""
        drafts = self.releases_with(items)
        self._ledger.append(drafts)
        log_acts(drafts)
        return tuple(draft.subject for draft in drafts)

    def release_without_cause(self, items: Sequence[str]) -> tuple[str, ...]:
        """Release those of the items that are held only for what they came from, if nothing of that is held now."""
        free = [item for item in items if taint.held_for_nothing(item, self._ledger, self._graph)]
        drafts = [Draft(EventKind.RELEASED, item, body={"by": MACHINE, taint.BECAUSE: [item]}) for item in free]
        drafts += [draft for draft in self.releases_with(free) if draft.subject not in free] if free else []
        self._ledger.append(drafts)
        log_acts(drafts)
        return tuple(draft.subject for draft in drafts)

    def holding(self, items: Sequence[str]) -> list[Draft]:
        """The rulings on items that came from held ones, as many as one repair may touch."""
        ruling = self._policy.taint.ruling
        if ruling <= Ruling.WARN or self._policy.mode == "observe" or not items:
            return []
        found = list(taint.spread_of(items, self._ledger, self._graph, ruling).tainted.values())
        decisions = [taint.taint_decision(verdict) for verdict in found[: self._policy.repair.max_items]]
        return [Draft(EventKind.RULED, decision.item, body=plain(decision)) for decision in decisions]

    def on_return(self, item: str, without: Collection[int] = ()) -> list[Draft]:
        """The ruling on an item that comes back into use, where something that it was made from is held by now.

        ``without``: events about it that are taken back with that.
        """
        ruling = self._policy.taint.ruling
        if ruling <= Ruling.WARN or self._policy.mode == "observe":
            return []
        found = taint.today(self._ledger.item(item), self._ledger, self._graph, ruling, without)
        return [] if found is None else [Draft(EventKind.RULED, item, body=plain(taint.taint_decision(found)))]

    def hold_returned(self, items: Collection[str], fine: Collection[str] = ()) -> tuple[str, ...]:
        """Hold items that came back into use although an item that they were made from is held, other than those in
        ``fine``: a person decided about these just now. Returns the held ones."""
        back = [item for item, state in self._ledger.states(items).items() if state.visible] if items else []
        back = [item for item in back if taint.tainted_still(item, set(fine), self._ledger, self._graph)]
        drafts = [draft for item in back for draft in self.on_return(item)]
        if not drafts:
            return ()
        self._ledger.append(drafts)
        self.teach(drafts)
        held = [draft.subject for draft in drafts]
        return (*held, *self.hold_what_came_from(held, drafts))

    def releases_with(self, items: Sequence[str]) -> list[Draft]:
        """The release of items that are held only because these items were."""
        released = taint.released_with(items, self._ledger, self._graph)
        return [Draft(EventKind.RELEASED, item, body={"by": MACHINE, taint.BECAUSE: list(items)}) for item in released]

    def teach(self, drafts: Sequence[Draft]) -> None:
        """Pass rulings that were recorded to the gates that learn."""
        for draft in drafts:
            ruling = self._policy.taint.ruling
            found = Verdict(taint.TAINT, draft.subject, ruling, 0.6, (0.0, 1.0), str(draft.body["rule"]))
            self._teach(self._ledger.item(draft.subject), ruling, (found,))
        log_acts(drafts)
