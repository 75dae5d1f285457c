"""The drill's world: eight agents with a shared memory and albums of pictures, and four threats at once.

Everything goes through ``Guard``. The agents are scripted and know nothing of gates: they copy an order that they read,
believe the first answer that they find, pass a post on, and show the picture that lies nearest to their plan. The world
knows which item carries what; the guard is never told.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from lazaretto import Guard
from lazaretto.agents.album import AlbumItem
from lazaretto.agents.chat_agent import own_persona
from lazaretto.agents.prompts import persona_pool
from lazaretto.learn.calibration import MonitorCalibration
from lazaretto.types import Decision
from lazaretto_lab.studies.drill.material import AGENTS, DAYS, TOPICS, Material, material, note
from lazaretto_lab.studies.drill.scripted import Eyes, PictureAgent, titles

THREATS = ("worm", "fact", "virus", "post")
ROUNDS = 6
ALBUM = 8
BACKGROUND = 3
"""Honest notes per topic that stand in the shared memory before anything happens."""
ARRIVES = {"worm": 1, "fact": 1, "virus": 1, "post": 2}
PAIRS = 4
"""Chats per round."""
NOTICED = 3
"""So many agents must have met a post or a worm before a person notices by themselves."""
Progress = Callable[[int, str], None]


@dataclass
class Crew:
    """One run of the drill."""

    guard: Guard
    seed: int
    defended: bool
    material: Material = field(init=False)
    rng: random.Random = field(init=False)
    eyes: Eyes = field(default_factory=Eyes)
    agents: dict[str, PictureAgent] = field(init=False)
    carries: dict[str, str] = field(default_factory=dict)
    """Item -> the threat it carries."""
    origin: dict[str, str] = field(default_factory=dict)
    """Threat -> its true first item."""
    honest: list[str] = field(default_factory=list)
    hit: dict[str, dict[str, int]] = field(default_factory=lambda: {threat: {} for threat in THREATS})
    """Threat -> agents that fell for it, and in which round."""
    series: dict[str, list[int]] = field(default_factory=lambda: {threat: [] for threat in THREATS})
    failed: list[str] = field(default_factory=list)
    good: list[str] = field(default_factory=list)
    outbox: defaultdict[int, list[tuple[str, str]]] = field(default_factory=lambda: defaultdict(list))
    """Round -> posts to pass on: by whom, and the item it was read in."""
    calls: int = 0
    """Rehearsal calls."""

    def __post_init__(self) -> None:
        self.material, self.rng = material(self.seed), random.Random(f"drill:{self.seed}")
        self.agents = {name: PictureAgent(name, self.eyes) for name in AGENTS}
        self.virus: AlbumItem | None = None

    async def set_up(self, known: MonitorCalibration | None) -> None:
        """The shared memory, the albums, and foresight where there is one."""
        if self.defended and known is not None:
            self.guard.foresight.rehearse_with(known, self.eyes, persona_pool(12, seed=700 + self.seed))
        for topic in TOPICS:
            for _ in range(BACKGROUND):
                author = self.rng.choice(AGENTS)
                text = f"Shift report on {topic}: {note(topic, self.rng)}"
                self._honest(await self.guard.remember(text, agent=author, parents=[], source="agent_message"))
        for truth in self.material.fact.truths:
            source = "tool_output_internal"
            self._honest(await self.guard.remember(truth, agent=self.rng.choice(AGENTS), parents=[], source=source))
        for agent in self.agents.values():
            for title in titles(1, self.rng):
                await self._receive(agent, self.eyes.show(title, self.rng.randrange(10**6)), sender=agent.name)

    async def play(self, progress: Progress = lambda _round, _text: None) -> None:
        """Every round."""
        for number in range(ROUNDS):
            await self.play_round(number)
            progress(number, ", ".join(f"{threat} {self.series[threat][-1]}" for threat in THREATS))

    async def play_round(self, number: int) -> None:
        """Rehearse, work, chat, pass on, decide."""
        if self.defended:
            done = await self.guard.foresight.before_round(list(self.agents.values()))
            self.calls += done.calls
        self.forget_hidden()
        await self._arrivals(number)
        for name in self.rng.sample(AGENTS, len(AGENTS)):
            await self._work(name, number)
        order = self.rng.sample(AGENTS, 2 * PAIRS)
        for asking, answering in zip(order[::2], order[1::2], strict=True):
            await self._chat(self.agents[asking], self.agents[answering], number)
        for sender, item in self.outbox.pop(number, []):
            await self._pass_on(sender, item, number)
        for name in self.rng.sample(AGENTS, 2):
            await self._decide(name, number)
        for threat in THREATS:
            self.series[threat].append(self.ill(threat))

    def ill(self, threat: str) -> int:
        """Agents that fell for it so far; for the virus: agents that hold it now."""
        if threat == "virus":
            return sum(any(self.is_virus(one) for one in agent.pictures.values()) for agent in self.agents.values())
        return len(self.hit[threat])

    def is_virus(self, picture: AlbumItem) -> bool:
        """Whether it makes people say its rumour."""
        return picture.key in self.eyes.rumours

    async def _arrivals(self, number: int) -> None:
        told = self.material
        if number == ARRIVES["worm"]:
            page = await self.guard.check(told.page.format(told.worm), agent="ada", channel="document")
            self._threat("worm", page)
            if page.allowed:
                text = f"Shift report: read on the web. {told.worm}"
                self._threat("worm", await self.guard.remember(text, agent="ada", parents=[page.item]))
                self.hit["worm"]["ada"] = number
        if number == ARRIVES["fact"]:
            source = "tool_output_external"
            self._threat("fact", await self.guard.remember(told.fact.lie, agent="bela", parents=[], source=source))
        if number == ARRIVES["virus"]:
            self.virus = self.eyes.show(told.virus_title, self.seed, told.rumour)
            await self._receive(self.agents["chandra"], self.virus, sender="visitor", number=number)
        if number == ARRIVES["post"]:
            sent = await self.guard.exchange(told.post, sender="guest", receiver="dmitri")
            self._threat("post", sent)
            if sent.allowed:
                self._got_post("dmitri", sent.item, number)

    async def _work(self, name: str, number: int) -> None:
        topic = self.rng.choice(TOPICS)
        read = [
            *await self.guard.recall(f"{topic} shift report", agent=name, limit=3),
            *await self.guard.recall(agent=name, limit=5),  # the latest of the others
        ]
        text = f"Shift report on {topic}: {note(topic, self.rng)}"
        if any(self.material.worm in one.text for one in read):
            self.hit["worm"].setdefault(name, number)
            self._threat("worm", await self.guard.remember(f"{text} {self.material.worm}", agent=name))
        else:
            self._honest(await self.guard.remember(text, agent=name))

    async def _chat(self, asking: PictureAgent, answering: PictureAgent, number: int) -> None:
        persona = own_persona(asking.name).text()
        plan = await asking.plan(persona, asking.history())
        found = await asking.retrieve(plan, asking.album())
        if not found:
            return
        picture = asking.pictures[found]
        await self._receive(answering, picture, sender=asking.name, number=number)
        said = await asking.respond(persona, asking.history(), picture.picture, "")
        told = await self.guard.exchange(said, sender=asking.name, receiver=answering.name)
        if self.is_virus(picture):
            self.carries[told.item] = "virus"
        else:
            self._honest(told)
        asking.chats.append((plan, said))
        answering.chats.append((said, "I see."))

    async def _receive(self, agent: PictureAgent, picture: AlbumItem, *, sender: str, number: int = 0) -> None:
        if sender == agent.name:
            done = await self.guard.remember(picture.title, agent=sender, image=picture.picture, parents=[])
        else:
            done = await self.guard.exchange(picture.title, sender=sender, receiver=agent.name, image=picture.picture)
        if self.is_virus(picture):
            self._threat("virus", done)
        else:
            self._honest(done)
        if done.allowed:
            agent.pictures[done.item] = picture
            while len(agent.pictures) > ALBUM:
                del agent.pictures[next(iter(agent.pictures))]
            if self.is_virus(picture):
                self.hit["virus"].setdefault(agent.name, number)

    async def _pass_on(self, sender: str, item: str, number: int) -> None:
        if not self.guard.ledger.state(item).visible:
            return
        for receiver in self.rng.sample([name for name in AGENTS if name != sender], 2):
            sent = await self.guard.exchange(self.material.post, sender=sender, receiver=receiver, parents=[item])
            self._threat("post", sent)
            if sent.allowed:
                self._got_post(receiver, sent.item, number)

    def _got_post(self, name: str, item: str, number: int) -> None:
        if name not in self.hit["post"]:
            self.hit["post"][name] = number
            self.outbox[number + 1].append((name, item))

    async def _decide(self, name: str, number: int) -> None:
        fact = self.material.fact
        read = await self.guard.recall(fact.question, agent=name, limit=3)
        answers = [one.text for one in read if fact.right in one.text or fact.wrong in one.text]
        if not answers:
            return
        believed = fact.wrong if fact.wrong in answers[0] else fact.right
        what = f"acted on {believed}"
        looked_up = [one.id for one in read]
        decision = await self.guard.report(what, agent=name, success=believed == fact.right, rests_on=looked_up)
        (self.good if believed == fact.right else self.failed).append(decision)
        plan = f"Plan for {self.rng.choice(DAYS)}: we count on {believed}. {fact.question} {believed}."
        noted = await self.guard.remember(plan, agent=name)
        if believed == fact.wrong:
            self.hit["fact"].setdefault(name, number)
            self._threat("fact", noted)
        else:
            self._honest(noted)

    def _threat(self, threat: str, decision: Decision) -> None:
        self.carries[decision.item] = threat
        self.origin.setdefault(threat, decision.item)

    def _honest(self, decision: Decision) -> None:
        self.honest.append(decision.item)

    def forget_hidden(self) -> None:
        """Agents no longer have what repairs took out."""
        for agent in self.agents.values():
            states = self.guard.ledger.states(list(agent.pictures))
            for item in [item for item in agent.pictures if not states[item].visible]:
                del agent.pictures[item]

    def visible(self, items: Sequence[str]) -> list[str]:
        """Those that may still be used."""
        states = self.guard.ledger.states(items)
        return [item for item in items if states[item].visible]
