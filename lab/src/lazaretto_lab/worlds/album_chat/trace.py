"""What happened, turn by turn: the records that figures are computed from, and their form as ledger events."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lazaretto.agents.album import AlbumItem
from lazaretto.agents.model import Usage
from lazaretto.agents.turn import AgentState
from lazaretto.ledger.drafts import seen_draft
from lazaretto.types import Channel, Draft, EventKind, Observation, SourceClass, plain
from lazaretto_lab.worlds.album_chat.agents import agent_id


@dataclass(frozen=True, slots=True)
class TurnTrace:
    """One turn as it is kept on disk."""

    questioner: int
    answerer: int
    key: str
    """Content that was retrieved and passed on; empty when the turn is void before that."""
    slot: int
    score: float
    plan: str
    question: str
    answer: str
    fault: str
    carried: bool
    """The questioner held a virus when it planned."""
    virus: int
    """Which virus was retrieved, by place; -1 for none."""
    asked_symptom: bool
    """The questioner said a target."""
    answered_symptom: bool
    """The answerer said a target."""

    @property
    def record(self) -> str:
        """The exchange as one line: what semantic measures embed."""
        return f"Q: {self.question} | A: {self.answer}"


ARRIVAL, OUTBREAK, MUTATION = "arrival", "outbreak", "mutation"
"""Why an album changed where no defence changed it: the agent found something new, a virus came in from outside, or one
that was handed on became the next of its kind."""
NO_DEFENCE = frozenset((ARRIVAL, OUTBREAK, MUTATION))


@dataclass(frozen=True, slots=True)
class ChangeTrace:
    """What a defence, or a find of its own, did to one agent."""

    agent: int
    reason: str
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    """Contents that came into or went out of its album, one entry per copy."""


@dataclass(frozen=True, slots=True)
class RoundTrace:
    """One round."""

    round_index: int
    turns: tuple[TurnTrace, ...]
    changes: tuple[ChangeTrace, ...] = ()
    spent: Usage = field(default_factory=Usage)
    """What the turns asked of the models."""
    spent_by_defence: Usage = field(default_factory=Usage)

    def to_json(self) -> dict[str, Any]:
        """The round as JSON data."""
        data: dict[str, Any] = plain(self)
        return data

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> RoundTrace:
        """The round that ``to_json`` wrote."""
        return cls(
            data["round_index"],
            tuple(TurnTrace(**turn) for turn in data["turns"]),
            tuple(
                ChangeTrace(c["agent"], c["reason"], tuple(c["added"]), tuple(c["removed"])) for c in data["changes"]
            ),
            Usage(**data["spent"]),
            Usage(**data["spent_by_defence"]),
        )

    @property
    def symptomatic(self) -> frozenset[int]:
        """Agents that said a target in this round."""
        asked = (t.questioner for t in self.turns if t.asked_symptom)
        answered = (t.answerer for t in self.turns if t.answered_symptom)
        return frozenset((*asked, *answered))


class LedgerWriter:
    """Writes rounds as ordinary events: an item is one content in one agent's hands, a message is one thing said.

    Time on these events is the round's number: contact tracing over a run then counts in rounds.
    """

    def __init__(self, run: str) -> None:
        self.run = run
        self._seen: set[str] = set()

    def item_id(self, agent: int, key: str) -> str:
        """The id of a content in an agent's album."""
        return f"it_{self.run}_{agent}_{key[:16]}"

    def opening(self, agents: Sequence[AgentState], note: Mapping[str, Any]) -> list[Draft]:
        """Everything the agents hold before round 0."""
        drafts = [Draft(EventKind.NOTED, self.mark("start"), body=dict(note), time=0.0)]
        for index, agent in enumerate(agents):
            for album_item in agent.album:
                drafts += self._seen_draft(index, album_item, (), SourceClass.UNTRUSTED_DOCUMENT, 0.0)
        return drafts

    def mark(self, name: str) -> str:
        """Subject of the note that every batch begins with: where it is there, the batch was written."""
        return f"run_{self.run}_{name}"

    def round_events(self, trace: RoundTrace, album_items: Mapping[str, AlbumItem]) -> list[Draft]:
        """One round, to be appended at once."""
        time = float(trace.round_index)
        body = {"round": trace.round_index, "symptomatic": sorted(trace.symptomatic), "changes": plain(trace.changes)}
        drafts = [Draft(EventKind.NOTED, self.mark(f"round_{trace.round_index}"), body=body, time=time)]
        for change in trace.changes:
            for key in dict.fromkeys(change.added):
                drafts += self._seen_draft(change.agent, album_items[key], (), SourceClass.SYSTEM, time)
        for place, turn in enumerate(trace.turns):
            if not turn.fault:
                drafts += self._turn_events(place, turn, album_items[turn.key], trace.round_index)
        return drafts

    def replay(self, agents: Sequence[AgentState], rounds: Iterable[RoundTrace]) -> None:
        """Learn from a resumed run's past which items are known already."""
        self._seen.update(self.item_id(i, k.key) for i, agent in enumerate(agents) for k in agent.album)
        for trace in rounds:
            self._seen.update(self.item_id(c.agent, key) for c in trace.changes for key in c.added)
            self._seen.update(self.item_id(t.answerer, t.key) for t in trace.turns if not t.fault)

    def _turn_events(self, place: int, turn: TurnTrace, album_item: AlbumItem, round_index: int) -> list[Draft]:
        time = float(round_index)
        asker, replier = agent_id(turn.questioner), agent_id(turn.answerer)
        shown, kept = self.item_id(turn.questioner, turn.key), self.item_id(turn.answerer, turn.key)
        asked, replied = (f"it_{self.run}_r{round_index}_{place}_{side}" for side in ("q", "a"))
        drafts = [
            Draft(EventKind.RETRIEVED, shown, asker, time=time),
            Draft(EventKind.SENT, shown, asker, {"to": replier}, time),
        ]
        if kept in self._seen:
            drafts.append(Draft(EventKind.DERIVED, kept, replier, {"parent": shown}, time))
        else:
            drafts += self._seen_draft(turn.answerer, album_item, (shown,), SourceClass.AGENT_MESSAGE, time)
        drafts += [
            seen_draft(_message(asked, asker, turn.question, (shown,), time)),
            Draft(EventKind.SENT, asked, asker, {"to": replier}, time),
            seen_draft(_message(replied, replier, turn.answer, (asked, kept), time)),
            Draft(EventKind.SENT, replied, replier, {"to": asker}, time),
        ]
        return drafts

    def _seen_draft(
        self, agent: int, album_item: AlbumItem, parents: tuple[str, ...], source: SourceClass, time: float
    ) -> list[Draft]:
        item = self.item_id(agent, album_item.key)
        if item in self._seen:
            return []
        self._seen.add(item)
        channel = Channel.MEMORY if album_item.is_note else Channel.IMAGE
        image = None if album_item.is_note else album_item.key
        text = album_item.note if album_item.is_note else album_item.title
        return [
            seen_draft(Observation(agent_id(agent), channel, text, image, None, parents, source, time=time, id=item))
        ]


def _message(item: str, agent: str, text: str, parents: tuple[str, ...], time: float) -> Observation:
    return Observation(
        agent, Channel.MESSAGE, text, parents=parents, source=SourceClass.MODEL_INFERENCE, time=time, id=item
    )
