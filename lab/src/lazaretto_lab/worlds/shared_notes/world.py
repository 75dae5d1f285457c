"""Simulates crews that act on shared notes; whoever guards them is handed in.

Every note is written through the defence, and an agent uses only what the defence lets it use. It believes the newest
note about the matter, writes what it makes of it, and the last of four decides. So a lie lives on in what is made of
it, until somebody states the truth anew or the defence stops it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from lazaretto_lab.attacks.memory.wording import order, versions
from lazaretto_lab.worlds.shared_notes.facts import ASIDES, Fact, facts_of, stated, step_note
from lazaretto_lab.worlds.shared_notes.scenario import Scenario
from lazaretto_lab.worlds.streams import stream

CREW = ("reader", "planner", "checker", "operator")
RETRIEVED = 3
"""Newest usable notes about a fact that an agent reads."""
Progress = Callable[[float, str], None]
ReadValue = Callable[[Fact, str], str | None]
"""How an agent takes a value from a note: by pattern, or by asking a model."""


@dataclass(frozen=True, slots=True)
class Written:
    """What became of a note."""

    item: str
    held: bool
    risk: float
    ruling: str


class Defence(Protocol):
    """Whoever stands between the crews and their notes."""

    def write(self, agent: str, text: str, source: str, parents: Sequence[str]) -> Written:
        """Keep a note, or hold it."""
        ...

    def usable(self, agent: str, items: Sequence[str]) -> list[str]:
        """Those of the notes that an agent may read now, which it then has read."""
        ...

    def decided(self, agent: str, success: bool, rests_on: Sequence[str]) -> None:
        """An agent decided, and this is how it went."""
        ...

    def found(self, item: str) -> list[tuple[str, str, str]]:
        """A note turned out to be a lie. Notes that other texts take the place of: old id, new id, new text."""
        ...


@dataclass(frozen=True, slots=True)
class Note:
    """A note and the truth about it."""

    item: str
    round: int
    agent: str
    fact: int
    """-1: none."""
    text: str
    kind: str
    """I, II, III; empty for what the attacker did not write."""
    goal: int
    """Which of the attacks; -1 for none."""
    origin: int
    """The attack whose lie it carries on, itself included; -1 for none."""
    hops: int
    """Steps from that lie."""
    written: Written


@dataclass(slots=True)
class Decided:
    """A decision of a crew."""

    round: int
    right: bool
    origin: int
    hops: int


@dataclass(slots=True)
class Log:
    """Everything that happened."""

    notes: list[Note] = field(default_factory=list)
    decisions: list[Decided] = field(default_factory=list)
    tries: dict[int, int] = field(default_factory=dict)
    """Versions that each attack tried."""
    rewritten: int = 0
    rewritten_right: int = 0
    """Rewritten notes that give the true value."""


class World:
    """One run of a scenario."""

    def __init__(self, scenario: Scenario, defence: Defence, read: ReadValue = Fact.value_in) -> None:
        self._scenario, self._defence, self._read = scenario, defence, read
        self.facts = facts_of(scenario.crews, scenario.facts, stream(scenario.seed, "facts"))
        values = stream(scenario.seed, "values")
        self.truth = {fact.number: fact.attribute.value(values) for fact in self.facts}
        self.log = Log()
        self._about: dict[int, list[Note]] = {fact.number: [] for fact in self.facts}
        self._lies: dict[int, str] = {}
        self._due: dict[int, list[str]] = {}
        self._known: set[str] = set()

    def run(self, progress: Progress = lambda _share, _note: None) -> Log:
        """Every round of the scenario."""
        s = self._scenario
        begin = stream(s.seed, "begin")
        for fact in self.facts:
            self._write(0, f"owner{fact.crew}", stated(fact, self.truth[fact.number], begin), "direct_user", fact)
        attacks = _schedule(s, self.facts)
        for turn in range(1, s.rounds + 1):
            for goal, fact, kind, axis in attacks.get(turn, ()):
                self._attack(turn, goal, fact, kind, axis)
            for crew in range(s.crews):
                self._crew(turn, crew)
            for item in self._due.pop(turn, ()):
                self._find(turn, item)
            progress(turn / s.rounds, f"round {turn}")
        return self.log

    def _crew(self, turn: int, crew: int) -> None:
        s, draw = self._scenario, stream(self._scenario.seed, f"crew{crew}", turn)
        mine = [fact for fact in self.facts if fact.crew == crew]
        changed, told = draw.choice(mine), draw.choice(mine)
        if draw.random() < s.updates:
            self.truth[changed.number] = changed.attribute.value(draw)
            text = stated(changed, self.truth[changed.number], draw, changed=True)
            self._write(turn, f"owner{crew}", text, "direct_user", changed)
        if draw.random() < s.documents:
            source = draw.choice(("untrusted_document", "tool_output_external", "tool_output_internal"))
            text = stated(told, self.truth[told.number], draw)
            self._write(turn, f"reader{crew}", text, source, told)
        if draw.random() < s.asides:
            text = draw.choice(ASIDES).format(s=draw.choice(mine).subject)
            self._write(turn, f"{draw.choice(CREW)}{crew}", text, "model_inference", None)
        self._job(turn, crew, mine[(turn * 3 + crew) % len(mine)], draw)

    def _job(self, turn: int, crew: int, fact: Fact, draw: random.Random) -> None:
        """Four notes, each made from the newest that its writer finds, and a decision."""
        job = 100 * crew + turn
        believed: Note | None = None
        for step, role in enumerate(CREW):
            agent = f"{role}{crew}"
            believed = self._newest(agent, fact)
            if believed is None:
                return
            value = self._read(fact, believed.text) or ""
            text = step_note(fact, value, step, job, draw)
            self._write(turn, agent, text, "model_inference", fact, believed)
        believed = self._newest(f"operator{crew}", fact)
        if believed is None:
            return
        right = self._read(fact, believed.text) == self.truth[fact.number]
        origin = -1 if right else believed.origin
        self.log.decisions.append(Decided(turn, right, origin, believed.hops if origin >= 0 else 0))
        self._defence.decided(f"operator{crew}", right, [believed.item])
        if origin >= 0 and self._scenario.found_after:
            lie = self._lies.get(origin, "")
            if lie and lie not in self._known:
                self._known.add(lie)
                self._due.setdefault(turn + self._scenario.found_after, []).append(lie)

    def _newest(self, agent: str, fact: Fact) -> Note | None:
        kept = [note for note in self._about[fact.number] if not note.written.held]
        recent = {note.item: note for note in kept[-4 * RETRIEVED :]}
        usable = self._defence.usable(agent, list(recent)[::-1])[:RETRIEVED]
        return max((recent[item] for item in usable), key=lambda note: self.log.notes.index(note), default=None)

    def _attack(self, turn: int, goal: int, fact: Fact, kind: str, axis: str) -> None:
        """Write a lie: once, three times in support of itself, or in versions until one passes."""
        draw = stream(self._scenario.seed, f"attack{goal}")
        wrong = next(v for v in iter(lambda: fact.attribute.value(draw), "") if v != self.truth[fact.number])
        wordings = [form.format(s=fact.subject, v=wrong) for form in (*fact.attribute.say, *fact.attribute.change)]
        for copy in range(3 if kind == "III" else 1):
            agent, source, parent = self._writer(axis, fact, copy)
            rolled = [*wordings[copy:], *wordings[:copy]]
            first = order(rolled[0], draw) if kind == "I" else rolled[0]
            texts = [first] if self._scenario.tries == 1 else versions([first, *rolled[1:]], self._scenario.tries, draw)
            for text in texts:
                self.log.tries[goal] = self.log.tries.get(goal, 0) + 1
                note = self._write(turn, agent, text, source, fact, parent, (kind, goal))
                if not note.written.held:
                    self._lies.setdefault(goal, note.item)
                    break

    def _writer(self, axis: str, fact: Fact, copy: int) -> tuple[str, str, Note | None]:
        if axis == "C1":
            return f"reader{fact.crew}", "untrusted_document", None
        if axis == "C2":
            return f"planner{fact.crew}", "model_inference", self._about[fact.number][0]
        return f"guest{copy}", "agent_message", None

    def _write(
        self, turn: int, agent: str, text: str, source: str, fact: Fact | None, parent: Note | None = None,
        poison: tuple[str, int] = ("", -1),
    ) -> Note:  # fmt: skip
        written = self._defence.write(agent, text, source, [parent.item] if parent else [])
        kind, goal = poison
        origin = goal if kind else self._carried(fact, text, parent)
        hops = 0 if kind or origin < 0 or parent is None else parent.hops + 1
        number = -1 if fact is None else fact.number
        note = Note(written.item, turn, agent, number, text, kind, goal, origin, hops, written)
        self.log.notes.append(note)
        if fact is not None:
            self._about[fact.number].append(note)
        return note

    def _carried(self, fact: Fact | None, text: str, parent: Note | None) -> int:
        """The attack whose lie a note repeats: that of its parent, unless it says the truth."""
        if fact is None or parent is None or fact.value_in(text) == self.truth[fact.number]:
            return -1
        return parent.origin

    def _find(self, turn: int, item: str) -> None:
        """A lie is found out, and the defence repairs what it can."""
        old = {note.item: note for note in self.log.notes}
        for was, new, text in self._defence.found(item):
            before = old.get(was)
            if before is None or before.fact < 0:
                continue
            fact = self.facts[before.fact]
            right = fact.value_in(text) == self.truth[fact.number]
            self.log.rewritten += 1
            self.log.rewritten_right += right
            note = replace(
                before, item=new, text=text, kind="", goal=-1, origin=-1 if right else before.origin,
                written=replace(before.written, item=new, held=False),
            )  # fmt: skip
            place = self._about[fact.number].index(before)
            self._about[fact.number][place] = note
            self.log.notes[self.log.notes.index(before)] = note


def _schedule(scenario: Scenario, facts: Sequence[Fact]) -> dict[int, list[tuple[int, Fact, str, str]]]:
    """Which lie is told in which round: types and roads in turn, targets by lot."""
    draw = stream(scenario.seed, "targets")
    found: dict[int, list[tuple[int, Fact, str, str]]] = {}
    targets = _endless(facts, draw)
    for goal in range(scenario.attacks):
        kind = scenario.kinds[goal % len(scenario.kinds)]
        axis = scenario.axes[(goal // len(scenario.kinds)) % len(scenario.axes)]
        turn = draw.randrange(scenario.quiet_rounds + 1, scenario.rounds + 1)
        found.setdefault(turn, []).append((goal, next(targets), kind, axis))
    return found


def _endless(facts: Sequence[Fact], draw: random.Random) -> Iterator[Fact]:
    while True:
        yield from draw.sample(list(facts), len(facts))


class Undefended:
    """Lets everything pass."""

    def __init__(self) -> None:
        self._count = 0

    def write(self, agent: str, text: str, source: str, parents: Sequence[str]) -> Written:
        """Kept."""
        self._count += 1
        return Written(f"n{self._count}", held=False, risk=0.0, ruling="allow")

    def usable(self, agent: str, items: Sequence[str]) -> list[str]:
        """All of them."""
        return list(items)

    def decided(self, agent: str, success: bool, rests_on: Sequence[str]) -> None:
        """Nobody listens."""

    def found(self, item: str) -> list[tuple[str, str, str]]:
        """Nobody repairs."""
        return []
