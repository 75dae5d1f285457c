"""Contain: the paper's whole remedy from one poisoned memory, chosen by distance and priority.

Priority R = 0.5 P + 0.3 spread + 0.2 conflict. Below 3 hops: isolate; below 6: rewrite from trusted items; from 6
on: reconcile, that is keep the parts that independent roots support and cut the edge to the rest.

Texts are re-derived at any distance where a trusted memory contradicts the poison: texts that repeat it are corrected,
others are cut loose (and come back if they were held for their descent alone), texts that only name a poisoned value
are listed. An item that rests on independent roots, or had only met the poison, is cut loose and stays unless it
carries something of the poison. Items that stay are listed in the plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from lazaretto.identity import OWN_WORDS
from lazaretto.ledger import Ledger
from lazaretto.ledger.reader import standing_events
from lazaretto.models.record_embedding import embed, tags_block
from lazaretto.provenance.carrying import poison_of, recorded_spans
from lazaretto.provenance.taint import held_for_taint
from lazaretto.provenance.text_edits import corrected, difference, without_spans
from lazaretto.repair.engine import replacement
from lazaretto.repair.protocol import RepairRequest, RepairView, hops_of
from lazaretto.types import (
    COPY_OF,
    REBUILT,
    Channel,
    Correction,
    EventKind,
    MemoryFields,
    Observation,
    RepairPlan,
    RepairStep,
    new_id,
    same_author,
)

ISOLATE_HOPS, REWRITE_HOPS = 3, 6
WEIGHTS = (0.5, 0.3, 0.2)
ACT_ABOVE = 0.75
MOST_SCREENED = 200
"""Items that one plan lets the gates look at again."""
MIN_LIKENESS = 0.2
"""A situation less like than this says nothing about how to rebuild an action."""
Ints = NDArray[np.int64]
Floats = NDArray[np.floating]


def priority(risk: float, spread: float, conflict: float) -> float:
    """R: how urgent it is to repair an item."""
    return WEIGHTS[0] * risk + WEIGHTS[1] * spread + WEIGHTS[2] * conflict


def spread_at(hops: int, deepest: int) -> float:
    """How far the poison has spread by an item: it grows with depth, from 0 at the origin to 1 where it got to."""
    return hops / deepest if deepest > 0 else 0.0


def strategy(hops: int) -> str:
    """The strategy for an item so many hops from the origin."""
    return "isolate" if hops < ISOLATE_HOPS else "rewrite" if hops < REWRITE_HOPS else "reconcile"


def contained(
    hops: Ints, risk: Floats, conflict: Floats, suspicious: NDArray[np.bool_], like: Floats, rewrite_near: bool = False
) -> NDArray[np.str_]:
    """The strategy for each structured memory that was made from a poisoned one: nothing (empty), ``isolate``,
    ``rewrite`` or ``reconcile``.

    ``risk`` and ``conflict`` come from judging it again without the poison, ``suspicious`` says whether that look alone
    would hold it, ``like`` is the likeness to the nearest situation of others: without any, nothing can be rebuilt.
    ``rewrite_near`` rebuilds at any distance.
    """
    deepest = int(hops.max())
    facts = zip(risk.tolist(), hops.tolist(), conflict.tolist(), strict=True)
    # The stored tables were measured with a spread that falls with depth; to change it is to measure them again.
    urgency = np.array([priority(r, 1.0 - h / (deepest + 1), c) for r, h, c in facts])
    plan = np.array(["rewrite" if rewrite_near else strategy(h) for h in hops.tolist()], dtype="<U9")
    act = (urgency > ACT_ABOVE) | suspicious
    act &= (plan != "reconcile") | (conflict > 0.5)  # memories that independent voices support stay
    plan[(plan != "isolate") & ~(like > MIN_LIKENESS)] = "isolate"
    plan[~act] = ""
    return plan


def recorded_risk(item: str, ledger: Ledger) -> float | None:
    """The risk of the newest ruling on an item."""
    risk = None
    for event in standing_events(ledger, (EventKind.RULED,), subject=item):
        if event.body is not None:
            risk = float(event.body.get("risk", 0.0))
    return risk


def called_benign(item: str, ledger: Ledger) -> bool:
    """Whether the last label on an item is benign; no repair of another item overturns that."""
    bodies = (event.body or {} for event in standing_events(ledger, (EventKind.LABELLED,), subject=item))
    labels = [body for body in bodies if COPY_OF not in body]
    return bool(labels) and labels[-1].get("label") == "benign"


def independent_share(item: str, tainted: set[str], view: RepairView) -> float:
    """The share of an item's roots that is not tainted; one root counts once."""
    lineage = view.graph.lineage(item)
    above = [step.id for step in lineage.items if step.id != item]
    roots = {root.id for root in view.ledger.items(ids=above, any_state=True, limit=None) if not root.parents}
    if not roots:
        return 0.0
    return sum(root not in tainted for root in roots) / len(roots)


@dataclass(frozen=True, slots=True)
class Contain:
    """Isolates near the origin, rewrites further out, reconciles beyond."""

    name: ClassVar[str] = "contain"
    max_hops: Annotated[int | None, Field(ge=0)] = None
    """Items at most so many edges away; None: all."""
    act_above: float = ACT_ABOVE
    """The priority from which an item is repaired and not only cut loose."""

    def plan(self, request: RepairRequest, view: RepairView) -> RepairPlan:
        """One step per item of the tree whose priority asks for one."""
        reached = view.graph.blast_radius(request.item, max_hops=self.max_hops)
        origin_risk = recorded_risk(request.item, view.ledger) or 1.0
        deepest = max((step.hops for step in reached.items), default=0)
        tainted = {request.item, *(step.id for step in reached.items)}
        poison = poison_of(request.item, view.ledger)
        put_right = view.correction(request.item, tainted) if reached.items else None
        ordered = bool(recorded_spans(request.item, view.ledger))
        states = view.ledger.states(tainted)
        origin = view.ledger.item(request.item)
        steps: list[RepairStep] = []
        left: dict[str, str] = {}
        screened = 0
        for item, hops in [(request.item, 0), *((step.id, step.hops) for step in reached.items)]:
            state = states[item]
            if state.erased or state.superseded_by:
                continue
            sources = {s: derived for s, derived in view.graph.came_from(item).items() if s in tainted}
            text = view.ledger.item(item)
            own_witness = not hops or _made_by_its_writer(text, origin)
            support = 0.0 if own_witness else independent_share(item, tainted, view)
            own = recorded_risk(item, view.ledger) or 0.0
            risk = max(own, origin_risk * (1 - support))
            urgency = priority(risk, spread_at(hops, deepest), 1 - support)
            vouched = bool(hops) and called_benign(item, view.ledger)
            wrong = put_right(text) if put_right and hops and not vouched and text.text else None
            plainly = [correction for correction in wrong or () if correction.plain]
            if wrong and not plainly:
                if state.visible:
                    left[item] = _named(text.text, wrong)
                continue
            if plainly:
                step = corrected_step(text, plainly, view)
                mark = {"priority": round(urgency, 3), "hops": hops, "strategy": "rederive"}
                if step.action == "replace" or not state.held:
                    steps.append(RepairStep(item, step.action, {**step.detail, **mark}))
                continue
            derived = any(sources.values())
            unsupported = not vouched and derived and wrong is None and (not support or urgency > self.act_above)
            alike = not unsupported and not vouched and bool(hops) and (wrong is None or ordered)
            carried = view.carries(text, poison) if alike else ""
            if hops and not unsupported and not vouched and not carried:
                screened += 1
                if screened <= MOST_SCREENED:
                    carried = view.objection(text)
                elif wrong is not None:
                    carried = "not looked at again"  # only judged items come back
            if not hops or unsupported or carried:
                out = state.held if hops else state.hidden  # an item that waits for a person need not be hidden too
                steps += _step(item, hops, urgency, out, tainted, view)
                continue
            frees = wrong is not None and held_for_taint(item, view.ledger)
            if sources:
                detail = {"parents": sorted(sources), "strategy": "dilute", **({"frees": True} if frees else {})}
                steps.append(RepairStep(item, "cut", detail))
            if state.visible or frees:
                left[item] = VOUCHED if vouched else _why_left(derived, support, wrong is not None)
        price = {
            "decisions": float(len(reached.decisions)),
            "rewritten": float(sum(s.action == "replace" for s in steps)),
        }
        return RepairPlan(
            self.name, request.item, tuple(steps), request.reason, tuple(a.id for a in reached.agents), price, left
        )


def _made_by_its_writer(item: Observation, origin: Observation) -> bool:
    """Whether who wrote the poison in their own words wrote this too: the other roots that they name prove nothing."""
    return origin.source in OWN_WORDS and same_author(item, origin)


VOUCHED = "a person called it benign: cut loose"


def _named(text: str, wrong: Sequence[Correction]) -> str:
    values = ", ".join(dict.fromkeys(repr(text[correction.start : correction.end]) for correction in wrong))
    return f"it names {values[:120]} and does not plainly repeat the poison: left as it is, look at it yourself"


_NO_WORDS = "no words of it were found here: cut loose; what says the same in other words is not seen, so read it"


def _why_left(derived: bool, support: float, compared: bool) -> str:
    if compared:
        return "it repeats nothing of what the poison says wrongly: cut loose"
    if derived:
        return f"{support:.0%} of what it rests on is independent, and {_NO_WORDS}"
    return f"its writer had only met the poison, and {_NO_WORDS}"


def _step(
    item: str, hops: int, urgency: float, hidden: bool, tainted: set[str], view: RepairView
) -> Sequence[RepairStep]:
    how = strategy(hops)
    mark = {"priority": round(urgency, 3), "hops": hops, "strategy": how}
    if how == "isolate":
        return () if hidden else (RepairStep(item, "hide", mark),)
    step = rewrite_step(view.ledger.item(item), view, tainted)
    if step.action == "hide" and hidden:
        return ()
    return (RepairStep(item, step.action, {**step.detail, **mark}),)


# Rewrite: replace a memory by the parts of it that can be trusted.
#
# Text: stretches that give orders go, values that a trusted memory contradicts are corrected, the rest stays.
# Structured records: the action becomes the weighted median of the nearest trusted memories. Others are hidden.

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
