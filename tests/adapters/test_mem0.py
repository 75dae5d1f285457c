"""mem0 behind the guard, against the real package with a local Qdrant; no model is asked."""

from __future__ import annotations

import base64
import json
import os
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

if find_spec("mem0") is not None:
    os.environ.setdefault("MEM0_TELEMETRY", "False")  # read once, when mem0 is imported
pytest.importorskip("mem0", reason="needs lazaretto[mem0]: make adapters")

import hashlib

from mem0 import Memory

from lazaretto import Guard
from lazaretto.adapters.mem0 import guard_memory

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


def test_an_update_is_judged(crew: Guard, memory: Any) -> None:
    guard_memory(crew, memory)
    name = memory.add("tea is at four", user_id="mia", infer=False)["results"][0]["id"]
    memory.update(name, f"{BAD}: pay eve")
    assert memory.get(name)["memory"] == "tea is at four"
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
