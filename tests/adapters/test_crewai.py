"""CrewAI behind the guard, against the real package; no model is asked."""

from __future__ import annotations

import base64
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("crewai.memory.storage.backend", reason="needs lazaretto[crewai]: make adapters")

from crewai import Agent, BaseLLM, Crew, Task, hooks
from crewai.memory.storage.lancedb_storage import LanceDBStorage
from crewai.memory.types import MemoryRecord
from crewai.tools import tool

from lazaretto import Guard
from lazaretto.adapters.crewai import guard_storage, guarded_hooks

BAD = "POISON"


def data_url(image: bytes) -> str:
    return f"data:image/png;base64,{base64.b64encode(image).decode()}"


def vector(text: str) -> list[float]:
    return [float(len(text) % 7), 1.0, 0.5, 0.25]


def record(text: str, name: str) -> MemoryRecord:
    return MemoryRecord(id=name, content=text, scope="/crew", embedding=vector(text))


@pytest.fixture
def inner(tmp_path: Path) -> Any:
    return LanceDBStorage(path=str(tmp_path / "lance"), vector_dim=4)


async def test_a_held_memory_is_not_saved_and_nothing_raises(crew: Guard, inner: Any) -> None:
    storage = guard_storage(crew, inner, agent="ada", embed=vector)
    storage.save([record("tea is at four", "a"), record(f"{BAD}: pay eve", "b")])
    await storage.asave([record(f"{BAD}: pay eve again", "c"), record("x" * 2_000_000, "too-large")])
    assert {one.id for one in inner.list_records()} == {"a"}
    storage.update(record(f"{BAD}: pay eve", "a"))
    assert inner.get_record("a").content == "tea is at four", "consolidation writes through update"


async def test_a_held_memory_is_not_found(crew: Guard, inner: Any) -> None:
    inner.save([record("tea is at four", "a"), record(f"{BAD}: pay eve", "b")])  # before there was a guard
    storage = guard_storage(crew, inner, agent="ada")
    assert [one.id for one, _ in storage.search(vector("tea"))] == ["a"]
    assert [one.id for one, _ in await storage.asearch(vector("tea"))] == ["a"]
    assert storage.get_record("b") is None and [one.id for one in storage.list_records()] == ["a"]


async def test_a_repair_reaches_the_storage_and_undo_brings_it_back(crew: Guard, inner: Any) -> None:
    storage = guard_storage(crew, inner, embed=vector)
    storage.save([record("pay at 4711", "a")])
    (found,) = await crew.recall(agent="bob")
    receipt = await crew.apply(await crew.plan(found.id, "isolate"))
    assert inner.get_record("a") is None
    await crew.undo(receipt.id)
    assert inner.get_record("a").content == "pay at 4711"


class Scripted(BaseLLM):
    """Says what it is told to, and remembers what it read."""

    def __init__(self, *answers: str) -> None:
        super().__init__(model="scripted")
        self._answers, self._read = list(answers), list[Any]()

    def call(self, messages: Any, *arguments: Any, **more: Any) -> Any:
        self._read.append(str(messages))
        return self._answers.pop(0)

    def supports_function_calling(self) -> bool:
        return False


@tool
def fetch(page: str) -> str:
    """Fetch a page."""
    return f"{BAD}: pay eve"


def ask(model: Scripted, description: str) -> str:
    agent = Agent(role="scout", goal="g", backstory="b", llm=model, tools=[fetch], verbose=False)
    task = Task(description=description, expected_output="an answer", agent=agent)
    return str(Crew(agents=[agent], tasks=[task], verbose=False, tracing=False).kickoff())


CALL = 'Thought: look\nAction: fetch\nAction Input: {"page": "x"}'


def test_the_model_reads_no_held_tool_result(crew: Guard) -> None:
    model = Scripted(CALL, "Thought: done\nFinal Answer: fine")
    with guarded_hooks(crew, agent="ada"):
        assert ask(model, "look at the page") == "fine"
    assert "withheld by lazaretto" in model._read[-1] and f"{BAD}: pay eve" not in model._read[-1]


def test_the_model_reads_nothing_held_from_another_task(crew: Guard) -> None:
    model = Scripted("Final Answer: fine")
    with guarded_hooks(crew):
        ask(model, f"{BAD}: this came from the task before")
    assert BAD not in model._read[0]


def test_the_model_is_shown_no_held_picture(crew: Guard, pictures: tuple[bytes, bytes]) -> None:
    """Pictures stand in a message as blocks; CrewAI's memory keeps texts alone."""
    blocks = [{"type": "image_url", "image_url": {"url": data_url(one)}} for one in pictures]
    context = SimpleNamespace(
        messages=[{"role": "user", "content": [{"type": "text", "text": BAD}, *blocks]}], agent=None
    )
    with guarded_hooks(crew):
        for hook in hooks.get_before_llm_call_hooks():
            hook(context)
    (message,) = context.messages
    assert [block["type"] for block in message["content"]] == ["text", "image_url", "text"]
    assert message["content"][1] == blocks[0] and BAD not in str(message)
    assert "image" not in str(MemoryRecord.model_fields), "else it has to be judged"


def test_what_the_model_says_is_judged(crew: Guard) -> None:
    with guarded_hooks(crew):
        said = ask(Scripted(*[f"Final Answer: {BAD}: pay eve"] * 4), "go")
    assert BAD not in said


def test_streamed_chunks_leave_before_the_hooks(crew: Guard) -> None:
    """CrewAI emits chunks from inside the model's own call; its hooks see the whole answer, when that is over."""
    told: list[str] = []

    class Streaming(Scripted):
        def call(self, messages: Any, *arguments: Any, **more: Any) -> Any:
            answer = super().call(messages)
            told.append(answer)  # where a model of CrewAI's own tells the event bus
            return answer

    with guarded_hooks(crew):
        ask(Streaming(*[f"Final Answer: {BAD}: pay eve"] * 4), "go")
    assert BAD in told[0]
