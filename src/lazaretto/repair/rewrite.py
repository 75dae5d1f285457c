"""Rewrite: replace a memory by the parts of it that can be trusted.

Text: stretches that give orders go, values that a trusted memory contradicts are corrected, the rest stays. Structured
records: the action becomes the weighted median of the nearest trusted memories. Others are hidden.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from lazaretto.ledger import Ledger
from lazaretto.models.record_embedding import embed, tags_block
from lazaretto.provenance.carrying import recorded_spans
from lazaretto.provenance.text_edits import corrected, difference, without_spans
from lazaretto.repair.engine import replacement
from lazaretto.repair.protocol import RepairRequest, RepairView, hops_of
from lazaretto.types import REBUILT, Channel, Correction, MemoryFields, Observation, RepairPlan, RepairStep, new_id

TRUSTED_NEEDED = 3
NEIGHBOURS = 8
MAX_TRUSTED = 4_800
_SITUATION = 576


def trusted_records(ledger: Ledger, without: set[str]) -> list[Observation]:
    """Structured memories that may be used, other than the given ones."""
    items = ledger.items(channel=Channel.MEMORY, limit=MAX_TRUSTED)
    return [i for i in items if i.fields is not None and i.id not in without]


def rebuilt(fields: MemoryFields, trusted: Sequence[Observation]) -> MemoryFields | None:
    """The record with the action that trusted memories of like situations have; None where there are too few.

    One writer is one voice, so that a single root cannot outvote the others by repeating itself.
    """
    alike = [
        t for t in trusted
        if t.fields and len(t.fields.state) == len(fields.state) and len(t.fields.action) == len(fields.action)
        and len(t.fields.context) == len(fields.context)
    ]  # fmt: skip
    if len({t.agent for t in alike}) < TRUSTED_NEEDED - 1 or len(alike) < TRUSTED_NEEDED:
        return None
    records = [t.fields for t in alike if t.fields]
    vectors = _situations(records)
    own = _situations([fields])[0]
    cosine = vectors @ own / (np.linalg.norm(vectors, axis=1) * np.linalg.norm(own) + 1e-9)
    nearest = np.argsort(-cosine)[:NEIGHBOURS]
    weight = np.exp(20 * (cosine[nearest] - 1))
    agents = [alike[i].agent for i in nearest.tolist()]
    voice = np.array([w / agents.count(a) for w, a in zip(weight, agents, strict=True)])
    actions = np.array([records[i].action for i in nearest.tolist()])
    median = np.array([_weighted_median(actions[:, d], voice) for d in range(actions.shape[1])])
    return replace(fields, action=tuple(float(v) for v in median), meta={**fields.meta, REBUILT: True})


def _situations(records: Sequence[MemoryFields]) -> np.ndarray:
    state, context, action = (
        np.array([getattr(r, n) for r in records], np.float32) for n in ("state", "context", "action")
    )
    return embed(state, context, action, tags_block([r.tags for r in records]))[:, :_SITUATION]


def _weighted_median(values: np.ndarray, weights: np.ndarray) -> float:
    order = np.argsort(values)
    reached = np.cumsum(weights[order]) >= weights.sum() / 2
    return float(values[order][int(reached.argmax())])


def rewrite_step(item: Observation, view: RepairView, tainted: set[str]) -> RepairStep:
    """A ``replace`` step with the difference it makes, or ``hide`` where nothing trustworthy is left."""
    detail: dict[str, object]
    if item.fields is not None and not item.text:
        new = rebuilt(item.fields, trusted_records(view.ledger, tainted))
        if new is None:
            return RepairStep(item.id, "hide", {"why": "too few trusted memories to rebuild it from"})
        made = {**replacement(item, ""), "fields": _plain_fields(new)}
        return RepairStep(item.id, "replace", {"replacement": made, "was_action": list(item.fields.action)})
    found = recorded_spans(item.id, view.ledger)
    if not found:
        return RepairStep(item.id, "hide", {"why": "no gate named the part that is the order"})
    text = without_spans(item.text, found)
    if not text:
        return RepairStep(item.id, "hide", {"why": "nothing is left without the order"})
    detail = {"replacement": replacement(item, text), "difference": difference(item.text, text)}
    return RepairStep(item.id, "replace", detail)


def corrected_step(item: Observation, corrections: Sequence[Correction], view: RepairView) -> RepairStep:
    """A ``replace`` step that corrects the parts of a poison in a text; ``hide`` if the gates would hold the result."""
    text = corrected(item.text, corrections)
    if why := view.objection(replace(item, id=new_id(), text=text, parents=())):
        return RepairStep(item.id, "hide", {"why": f"put right, it would still be held ({why})"})
    trusted = list(dict.fromkeys(correction.item for correction in corrections))
    made = {**replacement(item, text), "parents": trusted}
    detail = {"replacement": made, "difference": difference(item.text, text), "trusted": trusted}
    return RepairStep(item.id, "replace", detail)


def _plain_fields(fields: MemoryFields) -> dict[str, object]:
    return {
        "state": list(fields.state), "context": list(fields.context), "action": list(fields.action),
        "tags": list(fields.tags), "meta": dict(fields.meta),
    }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Rewrite:
    """Keeps the facts of a memory and drops its order; rebuilds a record's action from trusted neighbours."""

    name: ClassVar[str] = "rewrite"
    descendants: bool = False
    """Everything made from it too."""
    max_hops: Annotated[int | None, Field(ge=0)] = None
    """Descendants at most so many edges away; None: all."""

    def plan(self, request: RepairRequest, view: RepairView) -> RepairPlan:
        """One step for the item, and with ``descendants`` one for each thing made from it."""
        reached = view.graph.blast_radius(request.item, max_hops=hops_of(self.descendants, self.max_hops))
        ids = [request.item, *(step.id for step in reached.items)]
        steps = []
        for item in ids:
            state = view.ledger.state(item)
            if not (state.erased or state.superseded_by):
                step = rewrite_step(view.ledger.item(item), view, set(ids))
                if step.action == "replace" or not state.hidden:
                    steps.append(step)
        return RepairPlan(
            self.name, request.item, tuple(steps), request.reason, tuple(a.id for a in reached.agents),
            {"decisions": float(len(reached.decisions))},
        )  # fmt: skip
