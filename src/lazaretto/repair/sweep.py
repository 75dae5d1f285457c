"""Sweep: what was removed in one place is looked for in all others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from lazaretto.agents.album import AlbumItem
from lazaretto.agents.turn import AgentState
from lazaretto.repair.protocol import RepairRequest, RepairView
from lazaretto.types import Observation, RepairPlan, RepairStep

Alike = Callable[[AlbumItem, AlbumItem], bool]
"""Whether a memory is a near-duplicate of one that was removed."""


@dataclass(frozen=True, slots=True)
class SweepResult:
    """What a sweep found."""

    cleaned: tuple[AgentState, ...]
    """Agents that held a copy, without it and without the chats in which it spoke."""
    lookalikes: tuple[str, ...]
    """Memories that look like a removed one: they are not removed, they are to be diagnosed first."""
    contacts: tuple[str, ...]
    """Agents that held a copy or hold a near-duplicate."""


def sweep(
    agents: Sequence[AgentState], gone: Iterable[AlbumItem], alike: Alike | None = None, said: Iterable[str] = ()
) -> SweepResult:
    """Look through every album. ``said``: sentences of the removed memories, taken out of histories as well."""
    removed = {album_item.key: album_item for album_item in gone}
    sentences = frozenset(said)
    cleaned, contacts = [], []
    verdicts: dict[str, bool] = {}
    for agent in agents:
        after = purge(agent, removed, sentences)
        if after != agent:
            cleaned.append(after)
        for album_item in after.album if alike is not None else ():
            if album_item.key not in verdicts:
                verdicts[album_item.key] = alike is not None and any(alike(album_item, one) for one in removed.values())
        if len(after.album) < len(agent.album) or any(verdicts.get(k.key, False) for k in after.album):
            contacts.append(agent.id)
    return SweepResult(tuple(cleaned), tuple(key for key, near in verdicts.items() if near), tuple(contacts))


def purge(agent: AgentState, keys: Iterable[str], said: Iterable[str] = ()) -> AgentState:
    """The agent without these memories, and without chats in which one of these sentences was spoken."""
    sentences = frozenset(said)
    records = tuple(r for r in agent.history if r.question not in sentences and r.answer not in sentences)
    return replace(agent, album=agent.album.without(keys), history=replace(agent.history, records=records))


@dataclass(frozen=True, slots=True)
class Sweep:
    """Removes every copy of an item's content, whoever holds it."""

    name: ClassVar[str] = "sweep"

    def plan(self, request: RepairRequest, view: RepairView) -> RepairPlan:
        """One ``remove`` step per visible copy: the same picture, or for texts the same words."""
        origin = view.ledger.item(request.item)
        copies = [o for o in view.ledger.items(limit=None) if _same(o, origin)]
        touched = dict.fromkeys([request.item] * (not view.ledger.state(request.item).hidden))
        touched.update(dict.fromkeys(o.id for o in copies))
        return RepairPlan(
            repair=self.name,
            origin=request.item,
            steps=tuple(RepairStep(item, "remove") for item in touched),
            reason=request.reason,
            agents=tuple(sorted({o.agent for o in copies})),
        )


def _same(one: Observation, origin: Observation) -> bool:
    if origin.image is not None:
        return one.image == origin.image
    return bool(origin.text.strip()) and one.image is None and one.text.split() == origin.text.split()
