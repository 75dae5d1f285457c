"""Foresight as a guard runs it: agents become values, a mode looks at them, and its findings go to the ledger.

Several tasks and processes may ask at once. Within one guard they take turns; others' readings come by the ledger.
"""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from lazaretto.agents.album import AlbumItem
from lazaretto.agents.chat_agent import ChatAgent, Exchange, Memory
from lazaretto.agents.model import AgentModel
from lazaretto.agents.turn import AgentState
from lazaretto.errors import InputError, UnknownItem
from lazaretto.gates.engine.one_at_a_time import OneAtATime
from lazaretto.gates.foresight.adapter import ForesightAgent, backend_for, state_of
from lazaretto.gates.foresight.community import Cleaning, Mode, Streams
from lazaretto.gates.foresight.ledger_memory import LedgerMemory, title_of
from lazaretto.kept_texts import clear_when_forgotten
from lazaretto.ledger import Ledger
from lazaretto.models.protocol import TextEmbedder
from lazaretto.names import check_name
from lazaretto.types import BeforeRound, BeforeTurn, Receipt

T = TypeVar("T")
InStore = Callable[..., Awaitable[Any]]
"""Runs a blocking call on the store beside the event loop."""
RemoveItem = Callable[[str, str, str, Mapping[str, Any]], Awaitable[Receipt | None]]
"""Repairs an item: its id, which repair, why, and options. None when there was nothing left to do."""


class Foresight:
    """One mode over one ledger, with what it needs to rehearse the crew."""

    def __init__(
        self,
        mode: Mode,
        memory: LedgerMemory,
        ledger: Ledger,
        embedder: TextEmbedder,
        in_store: InStore,
        *,
        model: AgentModel | None = None,
        album: int = 100,
    ) -> None:
        """``model`` and ``album`` (most memories) are for agents that are given by name."""
        self.mode, self.memory, self.embedder, self.model = mode, memory, embedder, model
        self.streams: Callable[[int], Streams] = _streams
        """Chance, by the number of the round."""
        self._ledger, self._in_store, self._album = ledger, in_store, album
        self._turns = OneAtATime("foresight")
        self._lock = threading.Lock()
        self._in_round, self._outdated = False, False
        clear_when_forgotten(self)

    def clear(self) -> None:
        """Forget chats, removed memories and readings, after the round in hand; they are read again from the ledger,
        which has nothing of erased items."""
        with self._lock:
            self._outdated = True
            self._start_anew()

    def _start_anew(self) -> None:
        if self._outdated and not self._in_round:
            self.mode = self.mode.anew()
            self.memory = self.memory.anew(self.mode)
            self._outdated = False

    @asynccontextmanager
    async def _round(self) -> AsyncIterator[None]:
        async with self._turns:
            with self._lock:
                self._in_round = True
            try:
                yield
            finally:
                with self._lock:
                    self._in_round = False
                    self._start_anew()

    async def before_round(
        self,
        speaking: Sequence[ForesightAgent | str],
        others: Sequence[ForesightAgent | str],
        remove: RemoveItem | None,
    ) -> BeforeRound:
        """Look at agents about to speak, and have memories removed that would speak through them; without ``remove``
        they are only reported."""
        async with self._round():
            await self._in_store(self.memory.follow)
            agents = [await self._agent(agent) for agent in (*speaking, *others)]
            names = [check_name(agent.name, "agent", printable=True) for agent in agents]
            if len(set(names)) < len(names):
                raise InputError("agent", f"{Counter(names).most_common(1)[0][0]!r} is given twice", "Give each once")
            albums = [dict(agent.album()) for agent in agents]
            titles = await self._in_store(self._titles, albums)
            looked_at = [state_of(agent, titles, album) for agent, album in zip(agents, albums, strict=True)]
            states = [state for state, _ in looked_at]
            items = {state.id: held for state, held in looked_at}
            backend = backend_for(agents, self.embedder)
            start = backend.calls
            spoken = names[: len(speaking)]
            cleaning = await self.mode.before_turns(states, spoken, backend, self.streams(self.memory.rounds))
            calls = backend.calls - start
            self.memory.rounds += 1
            an_item = {key: ids[0] for held in reversed(items.values()) for key, ids in held.items()}
            notes = self.memory.notes(an_item, cleaning.everywhere if remove is not None else ())
            await self._in_store(self._ledger.append, notes)  # before removing: a restart then finds it again for free
            gone = {s.id: _removed(s, cleaning.changed[s.id], items[s.id]) for s in states if s.id in cleaning.changed}
            receipts = await _remove(cleaning, gone, items, remove) if remove is not None else []
            turns = [
                _before_turn(state, items[state.id], cleaning, gone.get(state.id, ()))
                for state in states
                if state.id in spoken or state.id in cleaning.changed
            ]
            if remove is None:
                turns = [replace(turn, removed=(), would=turn.removed, forget=()) for turn in turns]
            for turn in turns:
                self.memory.forget(turn.agent, turn.forget)
            return BeforeRound(tuple(turns), tuple(receipts), calls)

    async def _agent(self, agent: ForesightAgent | str) -> ForesightAgent:
        if not isinstance(agent, str):
            return agent
        if self.model is None:
            fix = "Name a chat model in [gates.foresight.model] or give it to rehearse_with; or give an agent"
            raise InputError("agent", f"{agent!r} is a name alone", fix)
        album = await self._in_store(self.memory.album, check_name(agent, "agent", printable=True), self._album)
        return ChatAgent(agent, self.model, album, self.memory.history(agent))

    def _titles(self, albums: Sequence[Mapping[str, Memory]]) -> dict[str, str]:
        """Titles for pictures that bring none; an id that the ledger does not know is an error."""
        for item in self._ledger.unknown(list(dict.fromkeys(item for album in albums for item in album))):
            raise UnknownItem(item, self._ledger.namespace, "album")
        plain = [item for album in albums for item, memory in album.items() if isinstance(memory, bytes)]
        found = self._ledger.items(ids=plain, any_state=True, limit=None) if plain else []
        return {observation.id: title_of(observation) for observation in found}


async def _remove(
    cleaning: Cleaning,
    gone: Mapping[str, tuple[str, ...]],
    items: Mapping[str, Mapping[str, Sequence[str]]],
    remove: RemoveItem,
) -> list[Receipt]:
    """Take out what the mode names: everywhere, or of one agent alone."""
    receipts: list[Receipt | None] = []
    swept: set[str] = set()
    for album_item in cleaning.everywhere:
        why = f"foresight: {_accused(cleaning, items, album_item)} would speak for it"
        for held in items.values():
            for item in held.get(album_item.key, ()):
                swept.add(item)
                receipts.append(await remove(item, "sweep", why, {}))
    for agent, ids in gone.items():
        left = [item for item in ids if item not in swept]
        if left:
            why = f"foresight: {cleaning.reasons[agent]} of {agent}"
            receipts.append(await remove(left[0], "remove", why, {"items": left}))
    return [receipt for receipt in receipts if receipt is not None]


def _accused(cleaning: Cleaning, items: Mapping[str, Mapping[str, Any]], album_item: AlbumItem) -> str:
    found = [agent for agent, why in cleaning.reasons.items() if why == "foresight" and album_item.key in items[agent]]
    return ", ".join(found[:3])


def _removed(before: AgentState, after: AgentState, items: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """Ids of what the agent no longer holds; of several copies the newest go first."""
    lost = Counter(k.key for k in before.album) - Counter(k.key for k in after.album)
    return tuple(item for key, count in lost.items() for item in items[key][-count:])


def _forgotten(before: AgentState, after: AgentState) -> tuple[Exchange, ...]:
    lost = Counter((r.question, r.answer) for r in before.history)
    lost -= Counter((r.question, r.answer) for r in after.history)
    return tuple(lost.elements())


def _before_turn(
    state: AgentState, items: Mapping[str, Sequence[str]], cleaning: Cleaning, removed: tuple[str, ...]
) -> BeforeTurn:
    after = cleaning.changed.get(state.id, state)
    unread, waiting = (
        tuple(item for key in found.get(state.id, ()) for item in items.get(key, ()))
        for found in (cleaning.unread, cleaning.waiting)
    )
    return BeforeTurn(
        state.id, removed, _forgotten(state, after), unread, waiting, reason=cleaning.reasons.get(state.id, "")
    )


def _streams(round_number: int) -> Streams:
    return partial(_stream, round_number)


def _stream(round_number: int, name: str) -> random.Random:
    return random.Random(f"foresight:{name}:{round_number}")
