"""Foresight's data in the ledger: the events it reads, and the notes it keeps.

It reads talk about memories by speaker, meetings, each agent's last chats, and people's decisions. Its own readings are
notes on the items: they survive a restart, reach every process, and go when an item is erased.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict, defaultdict, deque
from collections.abc import Mapping, Sequence
from typing import Any

from lazaretto.agents.album import AlbumItem, note_item, picture_item
from lazaretto.agents.chat_agent import Exchange
from lazaretto.agents.prompts import HISTORY, picture_title
from lazaretto.errors import UnknownItem
from lazaretto.gates.foresight.community import Mode, MonitorMode
from lazaretto.gates.foresight.flp import FlpMode
from lazaretto.gates.foresight.gauge import MemoryEvidence
from lazaretto.ledger import Ledger
from lazaretto.ledger.reader import Tail
from lazaretto.types import Channel, Draft, Event, EventKind, Observation

WINDOW = 10_000
"""Events of talk that a newly opened guard reads back, and messages whose subject it remembers."""
IN_MIND = 5
"""Recalled memories that a message without parents may be about."""
SUBJECT = "foresight"
"""The subject of notes about the community as a whole."""
_TALK = (EventKind.SEEN, EventKind.SENT, EventKind.RETRIEVED, EventKind.INFLUENCED)
_DECIDED = (EventKind.NOTED, EventKind.LABELLED, EventKind.RELEASED, EventKind.UNDONE)

Message = tuple[int, str, str, tuple[str, ...]]
"""Number of the event, speaker, words, and the ids of the items it is about."""


class LedgerMemory:
    """Follows one ledger for one mode. ``fingerprint`` names calibration and models: others' readings are not ours."""

    def __init__(self, ledger: Ledger, mode: Mode, fingerprint: str) -> None:
        self._ledger, self._mode, self._fingerprint = ledger, mode, fingerprint
        self.rounds = 0
        """How often an agent was looked at."""
        self._tail = Tail(ledger, _TALK, back=WINDOW)
        self._decided = Tail(ledger, _DECIDED, anew=self._decide_anew)
        self._deciding_anew = False
        self._opening = True
        self._kept: dict[str, list[Any]] = {}
        self._state: dict[str, Any] = {}
        self._heard_from: dict[str, int] = {}
        self._item_of: dict[str, str] = {}
        self._about: OrderedDict[str, tuple[str, ...]] = OrderedDict()
        self._mind: dict[str, list[str]] = {}
        self._spoke: set[str] = set()
        self._incoming: dict[tuple[str, str], tuple[str, str]] = {}
        self._last_in: dict[str, str] = {}
        self._histories: defaultdict[str, deque[Exchange]] = defaultdict(lambda: deque(maxlen=HISTORY))

    def anew(self, mode: Mode) -> LedgerMemory:
        """The same as it began: the ledger is read again, which has nothing of erased items."""
        made = LedgerMemory(self._ledger, mode, self._fingerprint)
        made.rounds = self.rounds
        return made

    def follow(self) -> None:
        """Take in everything recorded since the last time, by this process or another."""
        for event in self._decided.new():
            if event.kind is not EventKind.NOTED:
                self._follow_people(event)
            elif not self._deciding_anew or (event.body or {}).get("removed"):  # readings stay as they are
                self._take_note(event, self._opening)
        self._opening = self._deciding_anew = False
        messages: dict[str, Message] = {}
        meetings: list[tuple[str, str]] = []
        for event in self._tail.new():
            self._follow_event(event, messages, meetings)
        self._mode.listen(self._talk(messages), meetings)

    def forget(self, agent: str, chats: Sequence[Exchange]) -> None:
        """Remove chats from an agent's history, the newest of several equal ones first."""
        kept = self._histories[agent]
        for chat in chats:
            for place in reversed(range(len(kept))):
                if kept[place] == chat:
                    del kept[place]
                    break

    def history(self, agent: str) -> Sequence[Exchange]:
        """The agent's last chats, as its messages tell."""
        return tuple(self._histories[agent])

    def album(self, agent: str, size: int) -> dict[str, AlbumItem]:
        """The newest memories that the agent may use, oldest first."""
        held = self._ledger.items(agent=agent, channel=Channel.MEMORY, limit=size)
        return {o.id: item for o in reversed(held) if (item := self.album_item(o)) is not None}

    def album_item(self, observation: Observation) -> AlbumItem | None:
        """An item as an album keeps it, with its title; None for what holds neither words nor a picture."""
        title = title_of(observation)
        if observation.image is not None:
            return picture_item(self._ledger.blob(observation.image), title)
        return note_item(observation.text, title) if observation.text.strip() else None

    def notes(self, items: Mapping[str, str], removed: Sequence[AlbumItem] = ()) -> list[Draft]:
        """New notes to keep. ``items`` names an item for each memory's key."""
        drafts: list[Draft] = []
        self._item_of.update(items)
        if isinstance(self._mode, MonitorMode):
            monitor = self._mode.monitor
            for key, reading in monitor.readings.items():
                row = reading.row()
                if key in items and self._kept.get(key) != row:
                    self._kept[key] = row
                    if key not in monitor.heard:
                        self._heard_from[key] = self._tail.seq
                    drafts.append(self._note(items[key], key=key, reading=row, heard_from=self._heard_from.get(key, 0)))
            drafts += [self._note(items[k.key], key=k.key, removed=True) for k in removed if k.key in items]
            # by item: the key of a short text would tell what it was, after it is erased
            urgent = sorted(self._item_of[key] for key in monitor.urgent if key in self._item_of)
            state: dict[str, Any] = {
                "urgent": urgent, "awaited": sorted(self._mode.awaited), "credit": monitor.credit,
            }  # fmt: skip
        else:
            state = dict(self._mode.snapshot())
        state["rounds"] = self.rounds
        if state != self._state:
            self._state = state
            drafts.append(self._note(SUBJECT, state=state))
        return drafts

    def _note(self, subject: str, **body: Any) -> Draft:
        return Draft(EventKind.NOTED, subject, body={"what": SUBJECT, "by": self._fingerprint, **body})

    def _take_note(self, event: Event, opening: bool) -> None:
        """Read a stored note: on opening every note; later, notes that another process wrote in the meantime."""
        body = event.body or {}
        if body.get("what") != SUBJECT or body.get("by") != self._fingerprint:
            return
        state, mode = body.get("state"), self._mode
        if state is not None and state != self._state:
            self._state = dict(state)
            self.rounds = max(self.rounds, state.get("rounds", 0))
            if isinstance(mode, MonitorMode):
                ours: tuple[set[str], set[str]] = (set(), set()) if opening else (mode.monitor.urgent, mode.awaited)
                mode.monitor.urgent, mode.awaited = ours[0] | self._urgent(state), ours[1] | set(state["awaited"])
                mode.monitor.credit = state["credit"]
            elif isinstance(mode, FlpMode):
                mode.restore(state, {})
        elif isinstance(mode, MonitorMode) and "reading" in body:
            key, row = body["key"], body["reading"]
            if self._kept.get(key) != row:
                self._kept[key], self._heard_from[key] = row, body.get("heard_from", 0)
                mode.monitor.readings[key] = reading = MemoryEvidence.of_row(row)
                if reading.collapse is not None and not opening:
                    mode.monitor.urgent.discard(key)  # another process has looked into it
        elif isinstance(mode, MonitorMode) and body.get("removed") and body["key"] not in mode.removed:
            self._recall_removed(event.subject, body["key"], mode)

    def _urgent(self, state: Mapping[str, Any]) -> set[str]:
        keys = self._keys_of(state["urgent"])
        self._item_of.update({key: item for item, key in keys.items()})
        return set(keys.values())

    def _recall_removed(self, item: str, key: str, mode: MonitorMode) -> None:
        try:
            album_item = self.album_item(self._ledger.item(item))
        except UnknownItem:  # its picture was erased
            return
        reading = mode.monitor.readings.get(key)
        if album_item is not None:
            mode.remember_removed(album_item, reading.utterances if reading else ())

    def _follow_event(self, event: Event, messages: dict[str, Message], meetings: list[tuple[str, str]]) -> None:
        body, agent = event.body or {}, event.agent
        if event.kind is EventKind.SEEN and body.get("channel") == Channel.MESSAGE.value:
            messages[event.subject] = (event.seq, agent, str(body.get("text", "")), tuple(body.get("parents", ())))
            if not body.get("parents"):
                messages[event.subject] = (*messages[event.subject][:3], self._likely_subject(agent))
            self._spoke.add(agent)
        elif event.kind is EventKind.INFLUENCED and body.get("target") in messages:
            seq, speaker, words, about = messages[body["target"]]
            messages[body["target"]] = (seq, speaker, words, (*about, event.subject)[-IN_MIND:])
        elif event.kind is EventKind.RETRIEVED:
            if agent in self._spoke:  # a new thought
                self._mind.pop(agent, None)
                self._spoke.discard(agent)
            self._mind[agent] = [*self._mind.get(agent, ()), event.subject][-IN_MIND:]
        elif event.kind is EventKind.SENT:
            self._sent(event.subject, agent, str(body.get("to", "")), messages, meetings)

    def _likely_subject(self, agent: str) -> tuple[str, ...]:
        """The items a message without parents is about: those its writer just recalled, else the last it was sent."""
        if agent in self._mind and agent not in self._spoke:
            return tuple(self._mind[agent])
        return (self._last_in[agent],) if agent in self._last_in else tuple(self._mind.get(agent, ()))

    def _sent(
        self, item: str, sender: str, to: str, messages: Mapping[str, Message], meetings: list[tuple[str, str]]
    ) -> None:
        if not to or to == sender:
            return
        meetings.append((sender, to))
        self._last_in[to] = item
        words = messages[item][2] if item in messages else ""
        if not words:
            return
        heard = self._incoming.pop((to, sender), None)
        if heard is None:
            self._incoming[sender, to] = (item, words)
            return
        for agent in (sender, to):
            self._histories[agent].append((heard[1], words))

    def _decide_anew(self) -> None:
        """A decision was taken back: read pardons and removals again."""
        self._deciding_anew = True
        if isinstance(self._mode, MonitorMode):
            self._mode.monitor.pardoned.clear()
            self._mode.removed.clear()

    def _follow_people(self, event: Event) -> None:
        """A memory that a person called benign or put back is not removed again; one called harmful may be."""
        if not isinstance(self._mode, MonitorMode):
            return
        body, pardoned, removed = event.body or {}, self._mode.monitor.pardoned, self._mode.removed
        labelled = event.kind is EventKind.LABELLED
        items = list(body.get("restored", ())) if event.kind is EventKind.UNDONE else [event.subject]
        for key in self._keys_of(items).values():
            if labelled and body.get("label") == "harmful":
                pardoned.discard(key)
            elif labelled or key in removed:
                pardoned.add(key)
                removed.pop(key, None)

    def _talk(self, messages: Mapping[str, Message]) -> list[tuple[str, dict[str, str]]]:
        """The talk about each content. A reply to a message is about the same items as that message."""
        wanted = {item for _, _, _, about in messages.values() for item in about if item not in messages}
        keys = self._keys_of(sorted(wanted - self._about.keys()))
        talk: list[tuple[str, dict[str, str]]] = []
        for message, (seq, speaker, words, about) in messages.items():
            named = dict.fromkeys(
                key for item in about for key in (self._about.get(item) or ((keys[item],) if item in keys else ()))
            )
            self._about[message] = tuple(named)
            if words.strip():
                talk += [(key, {speaker: words}) for key in named if seq > self._heard_from.get(key, 0)]
        while len(self._about) > WINDOW:
            self._about.popitem(last=False)
        return talk

    def _keys_of(self, items: Sequence[str]) -> dict[str, str]:
        """The content keys of those items that are memories or pictures."""
        found = self._ledger.items(ids=items, any_state=True, limit=None) if items else []
        return {o.id: key for o in found if (key := content_key(o))}


def content_key(observation: Observation) -> str:
    """The key of an item's content, as albums have it; "" for messages and for what holds nothing."""
    if observation.image is not None:
        return observation.image
    if observation.channel is Channel.MESSAGE or not observation.text.strip():
        return ""
    return hashlib.sha256(observation.text.encode()).hexdigest()


def title_of(observation: Observation) -> str:
    """The title of a memory: a title in its fields, the caption beside a picture, or its file's name."""
    meta = observation.fields.meta if observation.fields is not None else {}
    if isinstance(meta.get("title"), str):
        return str(meta["title"])
    if observation.image is None:
        return ""
    if observation.text.strip():
        return " ".join(observation.text.split())
    name = meta.get("file_name")
    return picture_title(name) if isinstance(name, str) else ""
