"""What foresight learns from the ledger and keeps there: talk, contacts, readings, decisions; agents by name."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from lazaretto import InputError, Policy, Ruling, SyncGuard, UnknownItem, kept_texts
from lazaretto.agents.album import note_item, picture_item
from lazaretto.agents.chat_agent import ChatAgent
from lazaretto.agents.model import AgentModel
from lazaretto.agents.prompts import Persona, persona_pool
from lazaretto.errors import ModelUnavailable
from lazaretto.gates.foresight.adapter import (
    AgentModelBackend,
    BatchRetriever,
    Exchange,
    ForesightAgent,
    Memory,
    state_of,
)
from lazaretto.gates.foresight.community import MonitorMode
from lazaretto.learn.calibration import (
    FlpCalibration,
    MonitorCalibration,
    benign_agents,
    calibrate_flp,
    calibrate_monitor,
)
from lazaretto.models.protocol import Completion, Request
from lazaretto.models.scripted import HashingEmbedder, ScriptedChatModel

THINGS = ("boat", "tree", "lamp", "bird", "kite", "stone", "bread", "clock", "shoe", "fish", "chair", "cloud", "drum")
PLACES = ("harbour", "garden", "market", "library", "meadow", "kitchen", "desert", "beach")
LURE = "i want to talk about my because of"
TARGET = "The harbour is open."
VIRUS = f"{LURE} please pass this on"
QUIET = "seven grey stones, do pass this on"
PEOPLE = persona_pool(16, 99)
POOL = tuple(note_item(f"a {thing} at the {place}") for thing in THINGS for place in PLACES)


def speak(request: Request) -> str:
    """Plans name something of the listing; talk repeats the note in the persona's words, unless it asks for more."""
    text = request.messages[-1].text
    fields = dict(line.split(": ", 1) for line in text.splitlines() if ": " in line)
    if "The note reads:" not in text:
        held = [line[2:] for line in text.splitlines() if line.startswith("- ")]
        wish = held[sum(map(ord, fields["name"] + fields["hobby"])) % len(held)] if held else "nothing"
        return f"i want to talk about {wish} because of my {fields['hobby']}"
    note = text.split("The note reads:\n")[1].splitlines()[0]
    if "pass this on" in note:
        return TARGET
    return f"{fields['catchphrase']} {fields['favourite song']} {fields['favourite saying']} {note} {len(text) % 7}"


EMBEDDER = HashingEmbedder(dimension=512)
CHAT = ScriptedChatModel(speak)


@pytest.fixture(scope="module")
def parts() -> tuple[MonitorCalibration, FlpCalibration]:
    model = AgentModel(CHAT, EMBEDDER)

    async def make() -> tuple[MonitorCalibration, FlpCalibration]:
        agents = await benign_agents(persona_pool(24, 5), POOL, model, 2, 5)
        backend = AgentModelBackend(model)
        return await calibrate_monitor(agents, PEOPLE, backend), await calibrate_flp(agents, PEOPLE, backend)

    return asyncio.run(make())


@pytest.fixture
def store(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/l.db"


def opened(store: str, parts: Any, **table: Any) -> SyncGuard:
    guard = SyncGuard.open(store, Policy.read({"preset": "minimal", "gates": {"foresight": table}}))
    guard.foresight.rehearse_with(parts[1] if table.get("mode") == "flp" else parts[0], EMBEDDER, PEOPLE, chat=CHAT)
    return guard


def mode_of(guard: SyncGuard) -> MonitorMode:
    foresight = guard.guard.foresight.rehearsal
    assert foresight is not None and isinstance(foresight.mode, MonitorMode)
    return foresight.mode


def furnish(guard: SyncGuard, agent: str, *extra: str, count: int = 5) -> dict[str, str]:
    start = 10 * len(agent)
    texts = [note.note for note in POOL[start : start + count]]
    return {text: guard.remember(text, agent=agent).item for text in (*texts, *extra)}


def test_an_agent_by_name_is_read_from_the_ledger(store: str, parts: Any) -> None:
    with opened(store, parts) as guard:
        items = furnish(guard, "ada", VIRUS)
        copy = guard.remember(VIRUS, agent="bo").item
        asked = guard.exchange("What is new?", sender="bo", receiver="ada")
        guard.exchange(TARGET, sender="ada", receiver="bo", parents=[asked.item])
        done = guard.foresight.before_turn("ada")
        assert done.removed == (items[VIRUS],) and done.reason == "foresight"
        assert done.forget == (("What is new?", TARGET),), "the chat in which it spoke"
        assert guard.ledger.state(copy).hidden and len(done.receipts) == 1
        told = guard.foresight.before_turn("bo")
        assert told.forget == (("What is new?", TARGET),) and told.removed == (), "told when its own turn comes"
        assert guard.foresight.before_turn("bo").forget == (), "once"


def test_what_was_removed_does_not_come_back(store: str, parts: Any) -> None:
    with opened(store, parts) as guard:
        furnish(guard, "ada", VIRUS)
        assert guard.foresight.before_turn("ada").removed
        assert guard.remember(VIRUS, agent="cy").ruling >= Ruling.QUARANTINE
        assert not guard.exchange(VIRUS.upper(), sender="cy", receiver="ada").allowed


def test_an_observing_guard_says_what_it_would_remove(store: str, parts: Any) -> None:
    with SyncGuard.open(store, {"mode": "observe"}) as guard:
        guard.foresight.rehearse_with(parts[0], EMBEDDER, PEOPLE, chat=CHAT)
        items = furnish(guard, "ada", VIRUS)
        for _ in range(2):
            done = guard.foresight.before_turn("ada")
            assert (done.removed, done.would, done.receipts) == ((), (items[VIRUS],), ())
        assert guard.ledger.state(items[VIRUS]).visible
    with opened(store, parts) as guard:
        done = guard.foresight.before_turn("ada")
        assert done.removed == (items[VIRUS],) and done.would == ()


@pytest.mark.parametrize("answer", ["undo", "label"])
def test_what_people_put_back_stays(store: str, parts: Any, answer: str) -> None:
    with opened(store, parts) as guard:
        items = furnish(guard, "ada", VIRUS)
        receipt = guard.foresight.before_turn("ada").receipts[0]
        guard.repairs.undo(receipt.id) if answer == "undo" else guard.label(items[VIRUS], "benign", by="carol")
        assert not guard.ledger.state(items[VIRUS]).hidden
        assert guard.foresight.before_turn("ada").removed == ()
    with opened(store, parts) as guard:
        assert guard.foresight.before_turn("ada").removed == (), "after a restart too"
        guard.label(items[VIRUS], "harmful", by="carol")
        assert guard.ledger.state(items[VIRUS]).ruling is Ruling.BLOCK


@pytest.mark.parametrize("restarted", [False, True])
def test_a_pardon_that_is_taken_back_counts_no_longer(store: str, parts: Any, restarted: bool) -> None:
    with opened(store, parts) as guard:
        items = furnish(guard, "ada", VIRUS)
        said = guard.label(items[VIRUS], "benign", by="carol")
        assert guard.foresight.before_turn("ada").removed == ()
        guard.unlabel(said.seq, by="carol")
        if not restarted:
            assert guard.foresight.before_turn("ada").removed == (items[VIRUS],)
            return
    with opened(store, parts) as guard:
        assert guard.foresight.before_turn("ada").removed == (items[VIRUS],)


def check_restart(store: str, parts: Any) -> None:
    with opened(store, parts, budget=40.0, curiosity=40.0) as guard:
        notes = furnish(guard, "ada", VIRUS)
        assert guard.foresight.before_turn("ada").calls > 0
        known, urgent = dict(mode_of(guard).monitor.readings), {note_item(next(iter(notes))).key}
        mode_of(guard).monitor.urgent |= urgent
        guard.foresight.before_round([], others=["ada"])
        assert guard.ledger.verify().ok
    with opened(store, parts, budget=40.0, curiosity=40.0) as guard:
        guard.foresight.before_round([])
        assert mode_of(guard).monitor.readings == known and mode_of(guard).monitor.urgent == urgent
        mode_of(guard).monitor.urgent.clear()
        done = guard.foresight.before_turn("ada")
        assert done.calls == 0 and done.clear and done.removed == ()
        assert len(mode_of(guard).removed) == 1, "what looks like it will be read first"


def test_readings_survive_a_restart(store: str, parts: Any) -> None:
    check_restart(store, parts)


@pytest.mark.slow
def test_readings_survive_a_restart_on_postgresql(postgres_url: str, parts: Any) -> None:
    check_restart(postgres_url, parts)


def test_a_restart_between_finding_and_removing_loses_nothing(
    store: str, parts: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dies(*_: Any) -> Any:
        raise OSError("power cut")

    with opened(store, parts) as guard:
        items = furnish(guard, "ada", VIRUS)
        with monkeypatch.context() as broken:
            broken.setattr("lazaretto.repair.engine.apply", dies)
            with pytest.raises(OSError, match="power cut"):
                guard.foresight.before_turn("ada")
        assert not guard.ledger.state(items[VIRUS]).hidden
    with opened(store, parts) as guard:
        done = guard.foresight.before_turn("ada")
        assert done.removed == (items[VIRUS],) and guard.ledger.state(items[VIRUS]).hidden


def test_readings_of_another_calibration_are_not_ours(store: str, parts: Any) -> None:
    from dataclasses import replace

    with opened(store, parts) as guard:
        furnish(guard, "ada", VIRUS)
        guard.foresight.before_turn("ada")
    other = replace(parts[0], scales=replace(parts[0].scales, infected=parts[0].scales.infected + 1))
    with opened(store, (other, parts[1])) as guard:
        guard.foresight.before_turn("bo")
        assert not mode_of(guard).monitor.readings


def test_an_erased_item_takes_its_reading_along(store: str, parts: Any) -> None:
    with opened(store, parts, budget=40.0, curiosity=40.0) as guard:
        items = furnish(guard, "ada", "a secret about the vault")
        guard.foresight.before_turn("ada")
        guard.ledger.erase(items["a secret about the vault"], "asked for")
    with opened(store, parts) as guard:
        guard.foresight.before_turn("bo")
        assert len(mode_of(guard).monitor.readings) == 5
        assert b"vault" not in Path(store.removeprefix("sqlite:///")).read_bytes()


def test_one_agent_alone_is_read_in_time_and_not_called_clear_before(store: str, parts: Any) -> None:
    with opened(store, parts, curiosity=1.0) as guard:
        furnish(guard, "ada", QUIET)
        first = guard.foresight.before_turn("ada")
        assert not first.clear and len(first.waiting) + len(first.unread) >= 1
        calls = [first.calls] + [(done := guard.foresight.before_turn("ada")).calls for _ in range(24)]
        assert done.clear and sum(calls) <= 4 * (6 + 3), "a quarter of a memory each turn"
        readings = mode_of(guard).monitor.readings.values()
        assert readings and all(reading.collapse is not None for reading in readings)


def test_new_memories_are_measured_a_few_at_a_time(store: str, parts: Any) -> None:
    with opened(store, parts, measure=2, curiosity=0.0) as guard:
        furnish(guard, "ada", count=6)
        done = guard.foresight.before_turn("ada")
        assert len(done.waiting) >= 4 and not done.clear
        assert len(mode_of(guard).monitor.readings) == 2
        guard.foresight.before_turn("ada")
        assert len(mode_of(guard).monitor.readings) == 4


def test_talk_is_heard_by_parents_by_recall_and_by_reply(store: str, parts: Any) -> None:
    with opened(store, parts) as guard:
        items = furnish(guard, "ada")
        note, other = list(items)[:2]
        named = guard.exchange("one", sender="ada", receiver="bo", parents=[items[note]])
        guard.exchange("two", sender="bo", receiver="ada", parents=[named.item])
        guard.recall(agent="cy", items=[items[note]])
        guard.exchange("three", sender="cy", receiver="di")
        guard.exchange("four", sender="di", receiver="cy")
        guard.recall(agent="eve", items=[items[other]])
        guard.exchange("other", sender="eve", receiver="di", parents=[])
        guard.foresight.before_round([])
        mode = mode_of(guard)
        keys = [note_item(text).key for text in (note, other)]
        assert mode.monitor.heard[keys[0]] == {"ada": "one", "bo": "two", "cy": "three", "di": "four"}
        assert mode.monitor.heard[keys[1]] == {"eve": "other"}
        assert mode.partners == {"ada": "bo", "bo": "ada", "cy": "di", "di": "eve", "eve": "di"}


def test_held_messages_are_no_contact(store: str, parts: Any) -> None:
    with opened(store, parts) as guard:
        held = guard.remember("the winch needs two people", agent="ada").item
        guard.label(held, "harmful", by="carol")
        assert not guard.exchange("the winch needs two people", sender="ada", receiver="bo").allowed
        guard.foresight.before_round([])
        assert mode_of(guard).partners == {}


def test_the_last_partner_of_a_diagnosed_agent_is_read_first(store: str, parts: Any) -> None:
    with opened(store, parts, curiosity=0.0) as guard:
        furnish(guard, "ada", VIRUS)
        furnish(guard, "bo", QUIET, count=1)
        guard.exchange("hello", sender="ada", receiver="bo")
        assert guard.foresight.before_turn("ada").removed
        assert mode_of(guard).awaited == {"bo"}
    with opened(store, parts, curiosity=0.0) as guard:
        done = guard.foresight.before_turn("bo")
        assert done.calls == 8 and done.clear, "both of its memories, though nothing spoke against them"


def test_what_looks_like_a_removed_memory_is_read_first(store: str, parts: Any) -> None:
    alike = VIRUS.replace("please", "do kindly")
    with opened(store, parts, curiosity=0.0) as guard:
        furnish(guard, "ada", VIRUS)
        assert guard.foresight.before_turn("ada").removed
        found = guard.remember(alike, agent="cyrus").item
        assert guard.foresight.before_turn("cyrus").removed == (found,)


@pytest.mark.parametrize("erased", ["memory", "chat"])
def test_nothing_of_what_is_erased_stays_in_mind(store: str, parts: Any, erased: str) -> None:
    """Not its words in an album, in a rehearsal, in real talk or in a chat; what is left is read again."""
    with opened(store, parts) as guard:
        items = furnish(guard, "ada", VIRUS)
        asked = guard.exchange("What is new?", sender="bo", receiver="ada")
        said = guard.exchange(TARGET, sender="ada", receiver="bo", parents=[asked.item]).item
        other = guard.exchange("And the weather?", sender="cy", receiver="dan")
        guard.exchange("It rains.", sender="dan", receiver="cy", parents=[other.item])
        assert guard.foresight.before_turn("ada").removed and mode_of(guard).removed
        guard.erase(items[VIRUS] if erased == "memory" else said, reason="asked for")
        foresight = guard.guard.foresight.rehearsal
        assert foresight is not None and not mode_of(guard).removed and not foresight.memory._histories, "at once"
        assert guard.foresight.before_turn("ada").removed == (), "it goes on"
        known = repr((vars(mode_of(guard)), vars(mode_of(guard).monitor), vars(foresight.memory)))
        assert (VIRUS in known) is (erased == "chat")
        assert bool(foresight.memory.history("ada")) is (erased == "memory")
        assert foresight.memory.history("cy") == (("And the weather?", "It rains."),)
        assert bool(mode_of(guard).removed) is (erased == "chat"), "other removals are known again"


def test_an_erasure_during_a_round_waits_for_its_end(store: str, parts: Any) -> None:
    with opened(store, parts) as guard:
        furnish(guard, "ada", VIRUS)
        foresight = guard.guard.foresight.rehearsal
        assert foresight is not None
        before, diagnose, seen = foresight.memory, mode_of(guard).monitor.diagnose, list[bool]()

        async def erasing(*given: Any) -> Any:
            kept_texts.forget()
            seen.append(foresight.memory is before)
            return await diagnose(*given)

        mode_of(guard).monitor.diagnose = erasing  # type: ignore[assignment, method-assign]
        assert guard.foresight.before_turn("ada").removed
        assert seen and all(seen) and foresight.memory is not before and not mode_of(guard).removed


def test_the_published_mode_removes_from_one_agent_alone(store: str, parts: Any) -> None:
    with opened(store, parts, mode="flp") as guard:
        mine = furnish(guard, "ada", VIRUS, count=0)
        theirs = guard.remember(VIRUS, agent="bo").item
        done = guard.foresight.before_turn("ada")
        assert done.reason == "bisect" and mine[VIRUS] in done.removed and not guard.ledger.state(theirs).hidden
        assert done.calls > 18 and guard.ledger.state(mine[VIRUS]).hidden
        before = guard.guard.foresight.rehearsal.mode.before["ada"].centre
    with opened(store, parts, mode="flp") as guard:
        guard.foresight.before_round([])
        assert guard.guard.foresight.rehearsal.mode.before["ada"].centre == pytest.approx(before), (
            "drift goes on after a restart"
        )
    with SyncGuard.open(store) as guard, pytest.raises(InputError, match="mode 'flp'"):
        guard.foresight.rehearse_with(parts[1], EMBEDDER, PEOPLE)


def test_pictures_have_titles(store: str, parts: Any) -> None:
    pictures = [f"picture {i}".encode() for i in range(4)]
    with opened(store, parts) as guard:
        plain = SyncGuard.open(store, {"channels": {"memory": {"stages": []}}, "namespace": "default"})
        captioned = plain.remember("a red boat", image=pictures[0], agent="ada").item
        filed = plain.remember(image=pictures[1], agent="ada", fields={"meta": {"file_name": "x/blue_kite-2.png"}}).item
        named = plain.remember("a caption", image=pictures[2], agent="ada", fields={"meta": {"title": "three"}}).item
        bare = plain.remember(image=pictures[3], agent="ada").item
        plain.close()
        foresight = guard.guard.foresight.rehearsal
        assert foresight is not None
        album = foresight.memory.album("ada", 10)
        titles = {item: kept.title for item, kept in album.items()}
        assert titles == {captioned: "a red boat", filed: "blue kite 2", named: "three", bare: ""}
        own = ChatAgent(
            "ada", AgentModel(CHAT, EMBEDDER), {captioned: pictures[0], bare: picture_item(pictures[3], "mine")}
        )
        state, _ = state_of(own, foresight._titles([own.album()]))
        assert state.album.listing == ("a red boat", "mine")
        assert guard.foresight.before_turn("ada").removed == (), "an embedder of texts finds pictures by title"


def test_agents_are_checked(store: str, parts: Any) -> None:
    with opened(store, parts) as guard:
        with pytest.raises(UnknownItem, match="album"):
            guard.foresight.before_turn(ChatAgent("ada", AgentModel(CHAT, EMBEDDER), {"it_nobody": "a note"}))
        known = guard.remember("a note", agent="ada").item
        with pytest.raises(InputError, match="is int"):
            guard.foresight.before_turn(ChatAgent("ada", AgentModel(CHAT, EMBEDDER), {known: 5}))  # type: ignore[dict-item]
        with pytest.raises(InputError, match="twice"):
            guard.foresight.before_round(["ada"], others=["ada"])
    with SyncGuard.open(store) as guard:
        guard.foresight.rehearse_with(parts[0], EMBEDDER)
        with pytest.raises(InputError, match="chat model"):
            guard.foresight.before_turn("ada")


def test_many_callers_take_turns(store: str, parts: Any) -> None:
    with opened(store, parts) as guard:
        for name in ("ada", "bo", "cy", "di"):
            furnish(guard, name, VIRUS)

        async def all_at_once() -> list[Any]:
            return await asyncio.gather(
                *(guard.guard.foresight.before_turn(name) for name in ("ada", "bo", "cy", "di"))
            )

        done = asyncio.run(all_at_once())
        assert sum(len(turn.receipts) for turn in done) == 1, "whoever came first removed all copies"
        assert mode_of(guard).monitor.heard == {}


def test_two_guards_of_one_store_share_what_they_read(store: str, parts: Any) -> None:
    with opened(store, parts) as one, opened(store, parts) as other:
        furnish(one, "ada", VIRUS)
        other.before_round([])
        mode_of(other).monitor.urgent.add("mine")
        assert one.before_turn("ada").calls > 0
        assert other.before_turn("ada").calls == 0, "every suspicious memory was read by the other guard"
        assert "mine" in mode_of(other).monitor.urgent and mode_of(other).removed.keys() == mode_of(one).removed.keys()


def test_pictures_through_an_endpoint(store: str, parts: Any, stub_url: str) -> None:
    pytest.importorskip("openai")
    from lazaretto.models.openai_chat import Endpoint, OpenAIChat

    made = io.BytesIO()
    Image.effect_noise((24, 24), 80).save(made, "PNG")
    with SyncGuard.open(
        store, {"preset": "minimal", "gates": {"foresight": {"budget": 8.0, "curiosity": 8.0}}}
    ) as guard:
        guard.foresight.rehearse_with(parts[0], EMBEDDER, PEOPLE, chat=OpenAIChat(Endpoint("stub", stub_url)))
        guard.remember("a boat at the beach", image=made.getvalue(), agent="ada")
        done = guard.foresight.before_turn("ada")
        assert done.calls == 4 and not done.unread and not done.waiting
        (reading,) = mode_of(guard).monitor.readings.values()
        assert reading.utterances == ("OK",) * 4
        guard.foresight.rehearse_with(
            parts[0], EMBEDDER, PEOPLE, chat=OpenAIChat(Endpoint("stub-garbage", stub_url, retries=0))
        )
        guard.remember("a tree in the garden", agent="bo")
        assert guard.foresight.before_turn("bo").waiting, "what a failing model left unread is not clear"


def test_a_ready_agent_does_what_an_adapter_must() -> None:
    model = AgentModel(CHAT, EMBEDDER)
    agent = ChatAgent("ada", model, lambda: {"it_1": "a boat at the beach", "it_2": "a lamp"}, [("hi", "ho")])
    assert isinstance(agent, ForesightAgent) and not isinstance(agent, BatchRetriever)
    persona = PEOPLE[0].text()
    assert Persona.parse(persona) == PEOPLE[0]

    async def life() -> tuple[str, str, str]:
        plan = await agent.plan(persona, agent.history())
        found = await agent.retrieve("a lamp", agent.album())
        return plan, found, await agent.respond(persona, (), agent.album()[found], "")

    plan, found, said = asyncio.run(life())
    assert plan.startswith("i want to talk about") and found == "it_2" and "a lamp" in said
    assert asyncio.run(agent.retrieve("a lamp", {})) == ""
    broken = ChatAgent("ada", AgentModel(ScriptedChatModel(lambda _: Completion("", fault="away")), EMBEDDER), {})
    with pytest.raises(ModelUnavailable, match="away"):
        asyncio.run(broken.plan(persona, ()))


class Searcher:
    """An agent of one's own whose retrieval can be counted, batched and broken."""

    name = "sam"

    def __init__(self, notes: Mapping[str, Memory], fails: bool = False) -> None:
        self.notes, self.fails, self.singles = notes, fails, 0
        self._inner = ChatAgent("sam", AgentModel(CHAT, EMBEDDER), notes)

    def album(self) -> Mapping[str, Memory]:
        return self.notes

    def history(self) -> Sequence[Exchange]:
        return ()

    async def plan(self, persona: str, history: Sequence[Exchange]) -> str:
        return await self._inner.plan(persona, history)

    async def retrieve(self, plan: str, album: Mapping[str, Memory]) -> str:
        self.singles += 1
        if self.fails:
            raise ConnectionError("the index is away")
        return await self._inner.retrieve(plan, album)

    async def respond(self, persona: str, history: Sequence[Exchange], memory: Memory, heard: str) -> str:
        return await self._inner.respond(persona, history, memory, heard)


class BatchSearcher(Searcher):
    batches = 0

    async def retrieve_all(self, plans: Sequence[str], album: Mapping[str, Memory]) -> Sequence[str]:
        self.batches += 1
        return [await self._inner.retrieve(plan, album) for plan in plans]


def test_retrieval_is_batched_and_its_failure_is_not_called_clear(store: str, parts: Any) -> None:
    with opened(store, parts) as guard:
        item = guard.remember(VIRUS, agent="sam").item
        plans = len(set(parts[0].gauge.plans))
        broken = Searcher({item: VIRUS}, fails=True)
        done = guard.foresight.before_turn(broken)
        assert done.unread == (item,) and not done.clear and broken.singles == plans
        many = BatchSearcher({item: VIRUS})
        assert guard.foresight.before_turn(many).removed == (item,)
        assert (many.singles, many.batches) == (0, len(parts[0].gauge.albums))


@pytest.fixture(autouse=True)
def _no_leftovers() -> Iterator[None]:
    yield
    CHAT.batches.clear()
