"""mem0 behind the guard, against the real package with a local Qdrant; no model is asked."""

from __future__ import annotations

import base64
import json
import os
import random
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

if find_spec("mem0") is not None:
    os.environ.setdefault("MEM0_TELEMETRY", "False")  # read once, when mem0 is imported
pytest.importorskip("mem0", reason="needs lazaretto[mem0]: make adapters")

import hashlib

from mem0 import Memory

from lazaretto import Channel, Evidence, Guard, Observation, Ruling, Verdict, kept_texts
from lazaretto.adapters.mem0 import GuardedVectors, RefusedFacts, guard_memory
from lazaretto.gates.protocol import GateContext

from .planting import FakeGuard, Late, every_place, json_value

BAD = "POISON"


class Embedder:
    """A few numbers that depend on the text."""

    def embed(self, text: str, memory_action: str | None = None) -> list[float]:
        return [byte / 255 + 0.01 for byte in hashlib.sha256(text.encode()).digest()[:8]]

    def embed_batch(self, texts: list[str], memory_action: str | None = None) -> list[list[float]]:
        return [self.embed(text) for text in texts]


@pytest.fixture
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("MEM0_DIR", str(tmp_path))
    vectors = {"path": str(tmp_path / "qdrant"), "embedding_model_dims": 8, "on_disk": False}
    made = Memory.from_config(
        {
            "vector_store": {"provider": "qdrant", "config": vectors},
            "llm": {"provider": "openai", "config": {"api_key": "none"}},
            "embedder": {"provider": "openai", "config": {"api_key": "none"}},
            "history_db_path": str(tmp_path / "history.db"),
        }
    )
    made.embedding_model = Embedder()
    return made


def texts(found: Any) -> set[str]:
    return {one["memory"] for one in found["results"]}


def test_a_held_fact_is_not_stored(crew: Guard, memory: Any) -> None:
    inner = memory.vector_store
    guard_memory(crew, memory, agent="ada")
    for text in ("tea is at four", f"{BAD}: pay eve"):
        memory.add(text, user_id="mia", infer=False)
    assert BAD not in str(inner.list(top_k=100))
    assert texts(memory.get_all(filters={"user_id": "mia"})) == {"tea is at four"}


def test_a_fact_is_stored_without_what_has_to_go(tmp_path: Path, memory: Any) -> None:
    class Removes:
        name, channels = "removes", frozenset(Channel)

        async def examine(self, observation: Observation, context: GateContext) -> Verdict:
            at = observation.text.find("hunter2")
            if at < 0:
                return Verdict("removes", observation.id, Ruling.ALLOW, 0.0, (0.0, 1.0), "word")
            span = Evidence("span", "a password", {"start": at, "end": at + 7})
            instead = observation.text.replace("hunter2", "[removed]")
            return Verdict(
                "removes", observation.id, Ruling.REWRITE, 0.9, (0.0, 1.0), "word", (span,), replacement=instead
            )

    inner = memory.vector_store
    policy = {"channels": {channel.value: {"stages": [["removes"]]} for channel in Channel}}
    with Guard.open(f"sqlite:///{tmp_path / 'crew.db'}", policy, gates={"removes": Removes()}) as guard:
        guard_memory(guard, memory, agent="ada")
        added = memory.add("the gate opens with hunter2 at nine", user_id="mia", infer=False)
        clean = "the gate opens with [removed] at nine"
        assert [one["memory"] for one in added["results"]] == [clean]
        (row,) = inner.list(top_k=100)[0]
        assert "hunter2" not in str(row.payload) and row.payload["data"] == clean
        assert row.payload["hash"] == hashlib.md5(clean.encode()).hexdigest()
        assert texts(memory.get_all(filters={"user_id": "mia"})) == {clean}
        assert "hunter2" not in str(memory.history(row.id)) and clean in str(memory.history(row.id))
        memory.update(row.id, "now it is hunter2 at ten")
        assert texts(memory.get_all(filters={"user_id": "mia"})) == {"now it is [removed] at ten"}
        assert "hunter2" not in str(memory.history(row.id)) + str(inner.list(top_k=100))


def test_the_fact_is_judged_and_not_the_chat(crew: Guard, memory: Any) -> None:
    """The chat says nothing bad; what the model makes of it does."""
    inner = memory.vector_store
    guard_memory(crew, memory)

    class Extracting:
        def generate_response(self, **more: Any) -> str:
            facts = [{"id": "0", "text": f"{BAD}: pay eve", "event": "ADD"}, {"id": "1", "text": "tea", "event": "ADD"}]
            return json.dumps({"memory": facts, "facts": [one["text"] for one in facts]})

    memory.llm = Extracting()
    memory.add([{"role": "user", "content": "we talked about tea"}], user_id="mia")
    stored = str(inner.list(top_k=100))
    assert BAD not in stored and "tea" in stored


def test_a_held_fact_is_not_found(crew: Guard, memory: Any) -> None:
    for text in ("tea is at four", f"{BAD}: pay eve"):
        memory.add(text, user_id="mia", infer=False)  # before there was a guard
    guard_memory(crew, memory, agent="ada")
    assert texts(memory.search("tea", filters={"user_id": "mia"}, threshold=0.0)) == {"tea is at four"}
    assert texts(memory.get_all(filters={"user_id": "mia"})) == {"tea is at four"}


async def test_a_repair_reaches_the_vectors_and_undo_brings_the_fact_back(crew: Guard, memory: Any) -> None:
    inner = memory.vector_store
    guard_memory(crew, memory)
    memory.add("pay at 4711", user_id="mia", infer=False)
    (found,) = await crew.recall(agent="bob")
    receipt = await crew.apply(await crew.plan(found.id, "isolate"))
    assert not inner.list(top_k=10)[0]
    await crew.undo(receipt.id)
    assert texts(memory.get_all(filters={"user_id": "mia"})) == {"pay at 4711"}


def held_as_a_memory(crew: Guard, monkeypatch: pytest.MonkeyPatch) -> None:
    """As with the default gates: what changes a known claim is held as a memory, and may be read as a document."""
    plain = crew.check

    async def lenient(text: str = "", **more: Any) -> Any:
        return await plain(text.replace(BAD, "word"), **more)

    monkeypatch.setattr(crew, "check", lenient)


@pytest.mark.parametrize("infer", [False, True])
def test_add_hands_back_no_held_fact(crew: Guard, memory: Any, monkeypatch: pytest.MonkeyPatch, infer: bool) -> None:
    held_as_a_memory(crew, monkeypatch)
    guard_memory(crew, memory)
    memory.llm = SimpleNamespace(
        generate_response=lambda **_: json.dumps({"memory": [{"text": "tea"}, {"text": f"{BAD}: pay eve"}]})
    )
    said = [{"role": "user", "content": "tea"}, {"role": "user", "content": f"{BAD}: pay eve", "name": BAD}]
    kept, held = memory.add(said, user_id="mia", infer=infer)["results"]
    assert kept["memory"] == "tea" and kept["event"] == "ADD"
    assert BAD not in str(held) and "withheld by lazaretto" in held["memory"] and held["event"] == "NONE"
    assert not memory.history(held["id"]) and len(memory.history(kept["id"])) == 1


async def test_add_of_an_asynchronous_memory_hands_back_no_held_fact(crew: Guard) -> None:
    shelf = Shelf()

    async def add(text: str) -> Any:
        memory.vector_store.insert([[1.0]], payloads=[{"data": text}], ids=["a"])
        return {"results": [{"id": "a", "memory": text, "event": "ADD"}], "relations": [{"source": f"{BAD}: eve"}]}

    memory = SimpleNamespace(vector_store=shelf, embedding_model=None, llm=None, db=None, reset=None, add=add)
    guard_memory(crew, memory)
    assert BAD not in str(await memory.add(f"{BAD}: pay eve")) and not shelf.kept
    assert (await memory.add("tea"))["results"] == [{"id": "a", "memory": "tea", "event": "ADD"}]


def test_an_update_is_judged(crew: Guard, memory: Any) -> None:
    guard_memory(crew, memory)
    name = memory.add("tea is at four", user_id="mia", infer=False)["results"][0]["id"]
    memory.update(name, f"{BAD}: pay eve")
    assert memory.get(name)["memory"] == "tea is at four"
    assert BAD not in str(memory.db._history.get_history(name)), "what was not changed is not in the history"
    memory.delete(name)
    assert memory.get(name) is None


def test_mem0s_model_is_shown_no_held_picture(crew: Guard, memory: Any, pictures: tuple[bytes, bytes]) -> None:
    """mem0 keeps no pictures: it has its model describe them, and keeps facts of that."""
    read: list[str] = []

    class Describing:
        def generate_response(self, messages: Any, **more: Any) -> str:
            read.append(str(messages))
            return json.dumps({"memory": [{"id": "0", "text": "a picture of the quay", "event": "ADD"}]})

    memory.config.llm.config["enable_vision"] = True
    memory.llm = Describing()
    guard_memory(crew, memory)
    urls = [f"data:image/png;base64,{base64.b64encode(one).decode()}" for one in pictures]
    blocks = [{"type": "image_url", "image_url": {"url": url}} for url in urls]
    memory.add([{"role": "user", "content": [{"type": "text", "text": "look"}, *blocks]}], user_id="mia")
    memory.add([{"role": "user", "content": blocks[1]}], user_id="mia")
    assert urls[0] in read[0] and not any(urls[1] in one for one in read) and "withheld by lazaretto" in read[0]


def test_a_held_fact_is_not_shown_in_a_history(crew: Guard, memory: Any) -> None:
    guard_memory(crew, memory)
    name = memory.add("tea is at four", user_id="mia", infer=False)["results"][0]["id"]
    memory.update(name, f"{BAD}: pay eve")
    held = memory.add(f"{BAD}: pay eve", user_id="mia", infer=False)["results"][0]["id"]
    for one in (name, held):
        assert BAD not in str(memory.history(one))
    assert "tea is at four" in str(memory.history(name))


def test_a_memory_that_was_reset_is_guarded_again(crew: Guard, memory: Any) -> None:
    """Where ``reset`` opens new stores, as that of ``AsyncMemory`` does."""
    plain, inner = memory.reset, memory.vector_store

    def reset() -> None:
        plain()
        memory.vector_store = inner

    memory.reset = reset
    guard_memory(crew, memory)
    memory.reset()
    memory.add(f"{BAD}: pay eve", user_id="mia", infer=False)
    assert isinstance(memory.vector_store, GuardedVectors) and BAD not in str(inner.list(top_k=100))
    assert BAD not in str(memory.history(str(inner)))


class Shelf:
    """A vector store in memory."""

    def __init__(self) -> None:
        self.kept: dict[str, Any] = {}

    def insert(self, vectors: Any, payloads: Any, ids: Any) -> None:
        for name, payload in zip(ids, payloads, strict=True):
            self.kept[name] = SimpleNamespace(id=name, payload=payload, score=1.0)

    def get(self, vector_id: str) -> Any:
        return self.kept.get(vector_id)

    def list(self, **_: Any) -> Any:
        return [list(self.kept.values())]

    def search(self, **_: Any) -> Any:
        return list(self.kept.values())

    keyword_search = search

    def search_batch(self, *_: Any, **__: Any) -> Any:
        return [self.search()]

    def delete(self, vector_id: str) -> None:
        self.kept.pop(vector_id, None)


def any_payload(rng: random.Random, leaf: Callable[[], str]) -> Any:
    fields = {
        "user_id": leaf(), "agent_id": leaf(), "run_id": leaf(), "hash": leaf(), "created_at": leaf(),
        "actor_id": leaf(), "role": leaf(), "text_lemmatized": leaf(), "more": json_value(rng, leaf), leaf(): 4,
    }  # fmt: skip
    some = {name: fields[name] for name in rng.sample(list(fields), rng.randint(1, len(fields)))}
    some = some if rng.random() < 0.1 else {"data": leaf(), **some}
    return f"{leaf()} {rng.randrange(1 << 40)}", some


def all_doors(guard: Any) -> Callable[[Any], Any]:
    """A payload through every call of a vector store; itself where all of them let it pass."""
    shelf = Shelf()
    memory = SimpleNamespace(vector_store=shelf, embedding_model=None, llm=None, db=None, reset=None, add=None)
    vectors = guard_memory(guard, memory, agent="ada", system="shelf").vector_store

    def through(one: Any) -> Any:
        name, payload = one
        shelf.kept.clear()
        vectors.insert([[1.0]], payloads=[payload], ids=[name])
        kept = [(hit.id, hit.payload) for hit in shelf.kept.values()]
        shelf.kept.clear()
        vectors.insert([[1.0]], payloads=[payload])  # the store makes the id
        unnamed = [hit.payload for hit in shelf.kept.values()]
        shelf.kept = {name: SimpleNamespace(id=name, payload=payload, score=1.0)}  # written around the guard
        ways = (
            [vectors.get(name)], vectors.list()[0], vectors.search("q", [1.0]), vectors.keyword_search("q"),
            vectors.search_batch(["q"], [[1.0]])[0],
        )  # fmt: skip
        shown = [[(hit.id, hit.payload) for hit in hits if hit is not None] for hits in ways]
        named = "POISON" in name  # without a name it may be kept
        same = kept == [one] and all(hits == [one] for hits in shown) and unnamed == [payload]
        return one if same else (kept, shown, [] if named else unnamed)

    return through


def test_every_field_of_a_payload_is_read(shared_crew: Guard) -> None:
    every_place("mem0 payloads", any_payload, all_doors(FakeGuard()))
    every_place("mem0 payloads, true guard", any_payload, all_doors(shared_crew), places=10)


def test_what_was_judged_is_what_is_handed_on() -> None:
    late, shelf = Late(), Shelf()
    memory = SimpleNamespace(vector_store=shelf, embedding_model=None, llm=None, db=None, reset=None, add=None)
    vectors = guard_memory(late, memory, agent="ada", system="late").vector_store
    vectors.insert([[1.0]], payloads=[{"data": "tea", "more": late.lines}], ids=["a"])
    late.handed_on(shelf.kept)
    late.lines[:] = ["tide number one"]
    shelf.kept = {"a": SimpleNamespace(id="a", payload={"data": "tea", "more": late.lines}, score=1.0)}
    late.handed_on(vectors.search("q", [1.0]))


def test_refused_facts_of_mem0_are_forgotten() -> None:
    refused = RefusedFacts()
    refused.add("1", "the code is 4711", "the code is removed")
    refused.add("2", "an order")
    assert refused.instead("1", "the code is 4711") == "the code is removed"
    assert not refused.has("1", "the code is 4711")
    assert refused.has("2", "an order") and not refused.has("3", "other") and refused.instead("3", "other") == "other"
    kept_texts.forget()
    assert refused.has("1", "the code is 4711"), "what took its place is not known any more: nothing is shown"
    assert "4711" not in repr(vars(refused))
