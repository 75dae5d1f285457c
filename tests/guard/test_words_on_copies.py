"""Random words, withdrawals, releases, erasures, new copies and second looks, compared with a plain model.

The model: a word is about a text. It counts while it was not taken back and nothing later was said of the same item. A
copy without a word of its own stands as the last word says that counts and was given for it, else as the gates say.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from lazaretto import Guard, Ruling
from lazaretto.errors import RepairRefused
from lazaretto.policy import DEFAULT_TRUST
from lazaretto.testing import ScriptedGate
from lazaretto.types import SourceClass

Open = Callable[..., Guard]
SOURCES = ("direct_user", "agent_message", "tool_output_external", "untrusted_document")
TEXTS = ("We moved to 12 Harbour Road.", "The crane moved to berth nine.")


@dataclass
class Word:
    """What a person said of an item, and for which others it was given."""

    seq: int
    item: str
    harmful: bool
    covers: set[str]
    own: bool = True
    receipt: str = ""
    withdrawn: bool = False


@dataclass
class Item:
    """One item, as the gates ruled on it last."""

    text: str
    trust: float
    ruling: Ruling
    ruled: int
    flagged: bool
    """Whether the gates hold it, or would."""
    erased: bool = False


@dataclass
class Model:
    """What has to be so."""

    items: dict[str, Item] = field(default_factory=dict)
    words: list[Word] = field(default_factory=list)

    def counts(self, word: Word) -> bool:
        later = [w for w in self.words if w.item == word.item and w.own and not w.withdrawn and w.seq > word.seq]
        return not word.withdrawn and not later

    def own(self, item: str) -> Word | None:
        return next((w for w in self.words if w.item == item and w.own and self.counts(w)), None)

    def word(self, item: str) -> Word | None:
        own = self.own(item)
        if own is not None:
            return own
        given = [w for w in self.words if item in w.covers and self.counts(w) and w.seq > self.items[item].ruled]
        return max(given, key=lambda w: w.seq, default=None)

    def visible(self, item: str) -> bool:
        word = self.word(item)
        held = self.items[item].ruling > Ruling.WARN if word is None else word.harmful
        return not held and not self.items[item].erased

    def waits(self, item: str) -> bool:
        one = self.items[item]
        return not one.erased and one.ruling > Ruling.WARN and self.word(item) is None

    def covered(self, item: str, harmful: bool) -> set[str]:
        mine = self.items[item]
        return {
            name
            for name, one in self.items.items()
            if name != item and one.text == mine.text and not one.erased and not self.own(name)
            if one.flagged
            if (one.trust <= mine.trust if harmful else one.trust >= mine.trust)
        }  # fmt: skip

    def alive(self) -> list[str]:
        return [name for name, one in self.items.items() if not one.erased]


class Story:
    """Does random things to a guard and the model alike."""

    def __init__(self, make: Callable[[], Guard], seed: int, blocklist: bool) -> None:
        self.make, self.guard, self.model = make, make(), Model()
        self.draw, self.blocklist = random.Random(seed), blocklist
        self.told: list[str] = []

    async def run(self, steps: int) -> None:
        trust = DEFAULT_TRUST.table()
        for source in (*SOURCES, *SOURCES[1:3]):
            await self.copy(TEXTS[0], source, trust)
        for _ in range(steps):
            kinds = ("label", "label", "label", "unlabel", "unlabel", "copy", "release", "undo", "erase", "one", "look")
            kind = self.draw.choice(kinds)
            if kind == "copy":
                await self.copy(self.draw.choice(TEXTS), self.draw.choice(SOURCES), trust)
            else:
                await getattr(self, kind)()
            if self.draw.random() < 0.1:
                self.guard.close()
                self.guard = self.make()
            await self.compare()
        assert self.guard.ledger.verify().ok

    async def copy(self, text: str, source: str, trust: dict[SourceClass, float]) -> None:
        made = await self.guard.remember(text, agent="ada", source=source, parents=[])
        self.told.append(f"copy {made.item} {source} {made.rule}")
        flagged = (made.would or made.ruling) > Ruling.WARN
        self.model.items[made.item] = Item(text, trust[SourceClass(source)], made.ruling, self.head(), flagged)

    def head(self) -> int:
        return self.guard.ledger.head().seq

    async def label(self) -> None:
        item, harmful = self.draw.choice(self.model.alive()), self.draw.random() < 0.5
        covers = self.model.covered(item, harmful)
        event = await self.guard.label(item, "harmful" if harmful else "benign", by="ana")
        self.told.append(f"{event.seq} label {item} {harmful=} {len(covers)}")
        self.model.words.append(Word(event.seq, item, harmful, covers))
        assert set((event.body or {}).get("copies", ())) == covers, self.told

    async def unlabel(self) -> None:
        words = [w for w in self.model.words if w.own and not w.receipt and not w.withdrawn]
        if not words:
            return
        word = self.draw.choice(words[-4:])
        erased = self.model.items[word.item].erased
        reached = [one for one in word.covers if not self.model.items[one].erased]
        may = self.model.counts(word) and (not erased or reached)
        self.told.append(f"{self.head()} unlabel {word.seq} {may=}")
        try:
            await self.guard.unlabel(word.seq, by="ana")
        except RepairRefused:
            assert not may, self.told
            return
        word.withdrawn = True

    async def one(self) -> None:
        """Take back what one copy was given alone."""
        rows = [one for one in await self.guard.labels(limit=10_000) if one.copy_of and not one.taken_back]
        rows = [one for one in rows if not self.model.items[one.item].erased]
        if rows:
            row = self.draw.choice(rows[:3])
            word = self.model.word(row.item)
            self.told.append(f"{self.head()} unlabel copy {row.decision} {row.item}")
            try:
                await self.guard.unlabel(row.decision, by="ana")
            except RepairRefused:
                return
            assert word is not None and row.item in word.covers, self.told
            word.covers.discard(row.item)

    async def release(self) -> None:
        item = self.draw.choice(self.model.alive())
        visible = self.model.visible(item)
        covers = {one for one in self.model.covered(item, False) if not self.model.visible(one)}
        try:
            receipt = await self.guard.release(item, by="ana")
        except RepairRefused:
            assert visible and not covers, self.told
            return
        self.told.append(f"{self.head()} release {item} {visible=} {len(covers)} {receipt.id}")
        self.model.words.append(Word(self.head(), item, False, covers, not visible, receipt.id))

    async def undo(self) -> None:
        words = [w for w in self.model.words if w.receipt and not w.withdrawn]
        if words:
            word = self.draw.choice(words)
            try:
                await self.guard.repairs.undo(word.receipt)
            except RepairRefused:
                return
            self.told.append(f"{self.head()} undo {word.receipt}")
            word.withdrawn = True

    async def erase(self) -> None:
        if self.draw.random() < 0.5 and len(self.model.alive()) > 3:
            item = self.draw.choice(self.model.alive())
            await self.guard.erase(item, reason="asked")
            self.told.append(f"{self.head()} erase {item}")
            self.model.items[item].erased = True

    async def look(self) -> None:
        done = await self.guard.recheck()
        self.told.append(f"{self.head()} look {done.held} {done.released}")
        for item in (*done.held, *done.released):
            assert self.model.own(item) is None, "a person's decision is never overturned"
            known = self.model.items[item]
            known.ruled, known.ruling = self.head(), self.guard.ledger.state(item).ruling or Ruling.ALLOW
            known.flagged = known.ruling > Ruling.WARN

    async def compare(self) -> None:
        model, states = self.model, self.guard.ledger.states(list(self.model.items))
        rows = await self.guard.held()
        listed = {item for one in rows for item in (one.id, *one.copies)}
        for item, one in model.items.items():
            word, state = model.word(item), states[item]
            assert state.visible is model.visible(item), (item, word, self.told)
            if word is None and not one.erased:
                assert state.ruling is one.ruling, (item, self.told)
            elif word is not None and word.harmful and not one.erased:
                assert state.ruling is Ruling.BLOCK, (item, self.told)
            condemned = any(w.harmful and model.counts(w) and model.items[w.item].text == one.text for w in model.words)
            if not (self.blocklist and condemned):
                assert (item in listed) is model.waits(item), (item, word, self.told)
            assert not (state.visible and item in listed), (item, self.told)


def maker(open_guard: Open, blocklist: bool, store: str = "", mode: str = "enforce") -> Callable[[], Guard]:
    def make() -> Guard:
        stages = [["blocklist"], ["orders"]] if blocklist else [["orders"]]
        policy = {
            "preset": "minimal",
            "mode": mode,
            "taint": {"ruling": "allow"},
            "channels": {"memory": {"stages": stages}},
        }
        gate = ScriptedGate(lambda one: Ruling.REVIEW if "moved" in one.text else Ruling.ALLOW, "orders")
        return open_guard(policy, gates={"orders": gate}, store=store)

    return make


@pytest.mark.parametrize("blocklist", [False, True])
@pytest.mark.parametrize("seed", range(10))
async def test_items_stand_as_the_words_say_that_count(open_guard: Open, seed: int, blocklist: bool) -> None:
    await Story(maker(open_guard, blocklist), seed, blocklist).run(30)


@pytest.mark.parametrize("seed", range(20, 24))
async def test_and_where_a_policy_only_observes(open_guard: Open, seed: int) -> None:
    await Story(maker(open_guard, False, mode="observe"), seed, False).run(30)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [100, 101, 102])
async def test_and_on_postgresql(open_guard: Open, postgres_url: str, seed: int) -> None:
    await Story(maker(open_guard, seed % 2 == 0, postgres_url), seed, seed % 2 == 0).run(30)
