"""Removals from agents, as values: their newest entries, named memories, and chats in which one of those spoke."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from lazaretto.agents.album import AlbumItem
from lazaretto.agents.turn import AgentState
from lazaretto.names import old_argument

Alike = Callable[[AlbumItem, AlbumItem], bool]
"""Whether a memory is a near-duplicate of one that was removed."""


@dataclass(frozen=True, slots=True)
class SweepResult:
    """The result of a sweep."""

    cleaned: tuple[AgentState, ...]
    """Agents that held a copy, without it and without the chats in which it spoke."""
    lookalikes: tuple[str, ...]
    """Memories that look like a removed one: they are not removed, they are to be diagnosed first."""
    contacts: tuple[str, ...]
    """Agents that held a copy or hold a near-duplicate."""


@old_argument("sweep", "said", "sentences")
def sweep(
    agents: Sequence[AgentState], gone: Iterable[AlbumItem], alike: Alike | None = None, sentences: Iterable[str] = ()
) -> SweepResult:
    """Look through every album. ``sentences``: sentences of the removed memories, taken out of histories as well."""
    removed = {album_item.key: album_item for album_item in gone}
    spoken = frozenset(sentences)
    cleaned, contacts = [], []
    verdicts: dict[str, bool] = {}
    for agent in agents:
        after = purge(agent, removed, spoken)
        if after != agent:
            cleaned.append(after)
        for album_item in after.album if alike is not None else ():
            if album_item.key not in verdicts:
                verdicts[album_item.key] = alike is not None and any(
                    alike(album_item, removed_item) for removed_item in removed.values()
                )
        if len(after.album) < len(agent.album) or any(verdicts.get(k.key, False) for k in after.album):
            contacts.append(agent.id)
    return SweepResult(tuple(cleaned), tuple(key for key, near in verdicts.items() if near), tuple(contacts))


@old_argument("purge", "said", "sentences")
def purge(agent: AgentState, keys: Iterable[str], sentences: Iterable[str] = ()) -> AgentState:
    """The agent without these memories, and without chats in which one of these sentences was spoken."""
    spoken = frozenset(sentences)
    records = tuple(r for r in agent.history if r.question not in spoken and r.answer not in spoken)
    return replace(agent, album=agent.album.without(keys), history=replace(agent.history, records=records))


def roll_back(agent: AgentState, entries: int = 1) -> AgentState:
    """The agent without its newest memories and chat records."""
    return replace(agent, album=agent.album.rolled_back(entries), history=agent.history.rolled_back(entries))
