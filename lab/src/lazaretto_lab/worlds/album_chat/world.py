"""The world: pairs are drawn, a defence may act, all pairs play one turn, everybody remembers, it is written down."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import orjson

from lazaretto.agents.album import AlbumItem
from lazaretto.agents.model import AgentModel
from lazaretto.agents.prompts import Persona
from lazaretto.agents.turn import AgentState, Turn, play, remember
from lazaretto.errors import InputError
from lazaretto.types import Draft, EventKind, plain
from lazaretto_lab.worlds.album_chat.agents import infect, populate
from lazaretto_lab.worlds.album_chat.checkpoint import Checkpoint
from lazaretto_lab.worlds.album_chat.defence import Change, Defence, NoDefence, View
from lazaretto_lab.worlds.album_chat.scenario import Scenario, Virus
from lazaretto_lab.worlds.album_chat.trace import (
    ARRIVAL,
    MUTATION,
    OUTBREAK,
    ChangeTrace,
    LedgerWriter,
    RoundTrace,
    TurnTrace,
)
from lazaretto_lab.worlds.streams import Pair, pairs_of_round, stream

if TYPE_CHECKING:
    from lazaretto.ledger import Ledger

Progress = Callable[[RoundTrace], None]


@dataclass(frozen=True, slots=True)
class Outcome:
    """A finished run."""

    scenario: Scenario
    rounds: tuple[RoundTrace, ...]
    agents: tuple[AgentState, ...]
    """Everybody at the end."""
    pictures_encoded: int
    """How many pictures went through the encoder."""
    contents_met: int
    """How many distinct pictures or notes ever were in an album."""


class AlbumChat:
    """One run of the world, from a scenario, a mind, a pool of album items, viruses and a defence."""

    def __init__(
        self,
        scenario: Scenario,
        agent_model: AgentModel,
        pool: Sequence[AlbumItem],
        viruses: Sequence[Virus] = (),
        *,
        defence: Defence | None = None,
        personas: Sequence[Persona] | None = None,
        ledger: Ledger | None = None,
        folder: Path | str | None = None,
    ) -> None:
        self.scenario, self.agent_model, self.viruses = scenario, agent_model, tuple(viruses)
        if scenario.mutates and len({virus.album_item.key for virus in viruses}) < 2:
            raise InputError("mutates", "one virus has nothing to become", "Give two or more viruses")
        if ledger is not None and scenario.mutates:
            raise InputError("mutates", "a ledger keeps what was handed on, which here becomes another", "Run without")
        self.defence = defence or NoDefence()
        self.agents = populate(scenario, pool, viruses, personas)
        self.rounds: list[RoundTrace] = []
        self.fingerprint = self._fingerprint()
        """Names the run: equal for equal scenario, population, viruses, models and defence."""
        self._places = {agent.id: place for place, agent in enumerate(self.agents)}
        self._album_items = {k.key: k for k in (*pool, *(v.album_item for v in viruses))}
        self._made: dict[str, AlbumItem] = {}
        self._pool = tuple(dict.fromkeys(pool))
        self._met = {k.key for agent in self.agents for k in agent.album}
        self._ledger, self._ledger_writer = ledger, LedgerWriter(self.fingerprint[:12])
        self._checkpoint = Checkpoint(folder, self.fingerprint) if folder is not None else None
        self._begin()

    async def run(self, progress: Progress | None = None) -> Outcome:
        """All rounds that are left."""
        while len(self.rounds) < self.scenario.rounds:
            trace = await self.step()
            if progress is not None:
                progress(trace)
        return Outcome(
            self.scenario, tuple(self.rounds), self.agents, self.agent_model.embedder.images_encoded, len(self._met)
        )

    async def step(self) -> RoundTrace:
        """One round: defence, turns, memory, defence again, and then the record of it."""
        index = len(self.rounds)
        reference = self.scenario.pairing == "reference"
        pairs = tuple(pairs_of_round(self.scenario.seed, self.scenario.agents, index, reference))
        start = self.agent_model.spent
        changes = self._outbreak(index)
        changes += self._apply(await self.defence.before_round(self._view(index, pairs)))
        defended = self.agent_model.spent
        carriers = [self._carries(agent) for agent in self.agents]
        turns = await play([(self.agents[q], self.agents[a]) for q, a in pairs], self.agent_model)
        played = self.agent_model.spent
        changes += self._remember(pairs, turns)
        changes += self._apply(await self.defence.after_round(self._view(index, pairs), turns))
        changes += self._arrivals(index)
        trace = RoundTrace(
            index,
            tuple(self._trace(pair, turn, carriers[pair[0]]) for pair, turn in zip(pairs, turns, strict=True)),
            tuple(changes),
            played - defended,
            (defended - start) + (self.agent_model.spent - played),
        )
        self._write(trace)
        return trace

    def item_id(self, agent: int, key: str) -> str:
        """The ledger's id of a content in an agent's album."""
        return self._ledger_writer.item_id(agent, key)

    def _view(self, index: int, pairs: tuple[Pair, ...]) -> View:
        return View(index, self.agents, pairs, self.agent_model, self.scenario.seed)

    def _carries(self, agent: AgentState) -> bool:
        return any(virus.album_item.key in agent.album for virus in self.viruses)

    def _remember(self, pairs: Sequence[Pair], turns: Sequence[Turn]) -> list[ChangeTrace]:
        agents, mutated = list(self.agents), []
        for (q, a), turn in zip(pairs, turns, strict=True):
            agents[q], agents[a] = remember(agents[q], agents[a], turn)
            if self.scenario.mutates and not turn.void and (handed := self._virus(turn)) >= 0:
                now = self.viruses[(handed + 1) % len(self.viruses)].album_item
                was, album = self.viruses[handed].album_item, agents[a].album
                agents[a] = replace(agents[a], album=album.replaced(len(album) - 1, now))
                self._met.add(now.key)
                mutated.append(ChangeTrace(a, MUTATION, (now.key,), (was.key,)))
        self.agents = tuple(agents)
        return mutated

    def _outbreak(self, index: int) -> list[ChangeTrace]:
        """Viruses that come in after the world has begun."""
        if not self.scenario.infected or index != self.scenario.arrives or not index:
            return []
        before, self.agents = self.agents, infect(self.scenario, self.agents, self.viruses)
        self._met.update(virus.album_item.key for virus in self.viruses)
        return [
            ChangeTrace(place, OUTBREAK, tuple(k.key for k in now.album if k.key not in was.album))
            for place, (was, now) in enumerate(zip(before, self.agents, strict=True))
            if was is not now
        ]

    def _apply(self, changes: Sequence[Change]) -> list[ChangeTrace]:
        agents, traces = list(self.agents), []
        for change in changes:
            place = self._places.get(change.state.id)
            if place is None:
                raise InputError("defence", f"{self.defence.name} changed an unknown agent {change.state.id!r}")
            before = Counter(k.key for k in agents[place].album)
            after = Counter(k.key for k in change.state.album)
            for album_item in change.state.album:
                if album_item.key not in self._album_items:
                    self._album_items[album_item.key] = self._made[album_item.key] = album_item
                self._met.add(album_item.key)
            agents[place] = change.state
            added, removed = tuple((after - before).elements()), tuple((before - after).elements())
            traces.append(ChangeTrace(place, change.reason, added, removed))
        self.agents = tuple(agents)
        return traces

    def _arrivals(self, index: int) -> list[ChangeTrace]:
        """What agents find by themselves: benign life in which new pictures enter."""
        if not self.scenario.arrivals:
            return []
        rng, agents, found = stream(self.scenario.seed, "arrivals", index), list(self.agents), []
        for place, agent in enumerate(agents):
            if rng.random() < self.scenario.arrivals:
                album_item = rng.choice(self._pool)
                agents[place] = replace(agent, album=agent.album.add(album_item))
                self._met.add(album_item.key)
                found.append(ChangeTrace(place, ARRIVAL, (album_item.key,)))
        self.agents = tuple(agents)
        return found

    def _trace(self, pair: Pair, turn: Turn, carried: bool) -> TurnTrace:
        got = turn.retrieval
        key = got.album_item.key if got.album_item is not None else ""
        return TurnTrace(
            *pair, key, got.slot, got.score, got.plan, turn.question, turn.answer, turn.fault, carried,
            self._virus(turn),
            asked_symptom=not turn.void and self._shows(turn.question),
            answered_symptom=not turn.void and self._shows(turn.answer),
        )  # fmt: skip

    def _virus(self, turn: Turn) -> int:
        """Which virus the turn showed, by place; -1 for none."""
        shown = turn.retrieval.album_item
        return next((n for n, v in enumerate(self.viruses) if shown is not None and v.album_item.key == shown.key), -1)

    def _shows(self, said: str) -> bool:
        return any(self.scenario.shows(said, virus.target) for virus in self.viruses)

    def _write(self, trace: RoundTrace) -> None:
        """Ledger first: its note of the round keeps a round that is played again from being written twice."""
        if self._ledger is not None:
            drafts = self._ledger_writer.round_events(trace, self._album_items)
            added = dict.fromkeys(key for change in trace.changes for key in change.added)
            self._append(self._ledger, drafts, added)
        if self._checkpoint is not None:
            self._checkpoint.save(trace, self.agents, tuple(self._made.values()), self.defence.snapshot())
        self.rounds.append(trace)

    def _append(self, ledger: Ledger, drafts: Sequence[Draft], contents: Iterable[str]) -> None:
        """Append a batch unless its mark, which is its first event, is there already; pictures go before it."""
        if next(ledger.events(kinds=[EventKind.NOTED], subject=drafts[0].subject, limit=1), None) is not None:
            return
        for key in contents:
            if not self._album_items[key].is_note:
                ledger.put_blob(self._album_items[key].picture)
        ledger.append(drafts)

    def _begin(self) -> None:
        start = self.agents
        saved = self._checkpoint.load(start, self._album_items) if self._checkpoint is not None else None
        if self._ledger is not None:
            facts = {"scenario": plain(self.scenario), "defence": self.defence.name, "fingerprint": self.fingerprint}
            self._append(self._ledger, self._ledger_writer.opening(start, facts), sorted(self._met))
        if saved is None:
            return
        self.rounds, self.agents = list(saved.rounds), saved.agents
        self._made = {album_item.key: album_item for album_item in saved.made}
        self._album_items.update(self._made)
        self._ledger_writer.replay(start, saved.rounds)
        self._met.update(key for trace in saved.rounds for change in trace.changes for key in change.added)
        self.defence.restore(saved.defence, self._album_items)

    def _fingerprint(self) -> str:
        scenario = plain(self.scenario)
        for later in ("arrivals", "arrives", "mutates"):  # the world is named as before there were these
            if not scenario[later]:
                del scenario[later]
        facts = {
            "scenario": scenario,
            "agents": [[plain(agent.persona), [(k.key, k.title) for k in agent.album]] for agent in self.agents],
            "viruses": [[virus.album_item.key, virus.album_item.title, virus.target] for virus in self.viruses],
            "models": [self.agent_model.chat.name, self.agent_model.embedder.name, self.agent_model.max_tokens],
            "defence": self.defence.name,
        }
        return hashlib.sha256(orjson.dumps(facts, option=orjson.OPT_SORT_KEYS)).hexdigest()
