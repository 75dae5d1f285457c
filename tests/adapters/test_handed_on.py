"""A value that somebody still writes to while it is judged: what is handed on is what was judged, at every door.

The doors of frameworks in environments of their own are tried in those frameworks' tests.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from tests.adapters.planting import Late

from lazaretto.adapters.plain import guard_agent, guard_tool

pytest.importorskip("langgraph", reason="needs the langgraph extra")


def test_tools_and_agents() -> None:
    for wrap in (guard_tool, guard_agent):
        late = Late()
        late.handed_on(wrap(late, agent="ada")(lambda late=late: {"lines": late.lines})())  # type: ignore[operator]


def test_generators() -> None:
    late = Late()

    @guard_tool(late, agent="ada")  # type: ignore[arg-type]
    def parts() -> Any:
        yield "tea"
        yield {"lines": late.lines}
        yield "milk"

    found = list(parts())
    assert [found[0], found[2]] == ["tea", "milk"]
    late.handed_on(found)


async def test_generators_that_are_awaited() -> None:
    late = Late()

    @guard_agent(late, agent="ada")  # type: ignore[arg-type]
    async def parts() -> Any:
        yield {"lines": late.lines}

    late.handed_on([part async for part in parts()])


def test_nodes_and_tools_of_langgraph() -> None:
    from langchain_core.messages import HumanMessage, ToolMessage
    from langgraph.types import Command

    from lazaretto.adapters.langgraph import guard_node, guarded_tools

    call = SimpleNamespace(tool_call={"name": "look", "args": {}, "id": "call_1"}, tool=None)
    for made in (
        lambda lines: {"notes": lines},
        lambda lines: {"messages": [HumanMessage(lines)]},
        lambda lines: {"messages": [HumanMessage("tide number one", additional_kwargs={"more": lines})]},
    ):
        late = Late()
        late.handed_on(guard_node(late, lambda state: state, agent="ada")(made(late.lines)))  # type: ignore[arg-type]
    for answer in (
        lambda lines: Command(update={"notes": lines}),
        lambda lines: ToolMessage(lines, tool_call_id="call_1"),
        lambda lines: {"notes": lines},
    ):
        late = Late()
        wrap = guarded_tools(late, agent="ada")["wrap_tool_call"]  # type: ignore[arg-type]
        late.handed_on(wrap(call, lambda _, answer=answer, late=late: answer(late.lines)))


def test_checkpoints() -> None:
    from langgraph.checkpoint.base import empty_checkpoint
    from langgraph.checkpoint.memory import InMemorySaver

    from lazaretto.adapters.langgraph import guard_checkpointer

    config: Any = {"configurable": {"thread_id": "1", "checkpoint_ns": ""}}
    for where in ("checkpoint", "writes", "metadata"):
        late, inner = Late(), InMemorySaver()
        saver = guard_checkpointer(late, inner, agent="ada")  # type: ignore[arg-type]
        state = empty_checkpoint()
        state["channel_values"] = {"notes": late.lines if where == "checkpoint" else "tide number one"}
        state["channel_versions"] = {"notes": 1}
        metadata: Any = {"source": "loop", "step": 1, "more": late.lines if where == "metadata" else "tea"}
        there = saver.put(config, state, metadata, {"notes": 1})
        if where == "writes":
            saver.put_writes(there, [("notes", late.lines)], "task")
        late.handed_on(inner.get_tuple(there))


def test_stores() -> None:
    from langgraph.store.memory import InMemoryStore

    from lazaretto.adapters.langgraph import guard_store

    late, inner = Late(), InMemoryStore()
    guard_store(late, inner, agent="ada").put(("crew",), "k", {"text": "tide number one", "more": late.lines})  # type: ignore[arg-type]
    late.handed_on(inner.get(("crew",), "k").value)  # type: ignore[union-attr]


def test_models_of_langchain() -> None:
    pytest.importorskip("langchain", reason="needs the langchain extra")
    from langchain.agents.middleware import ModelRequest, ModelResponse
    from langchain_core.language_models import FakeListChatModel
    from langchain_core.messages import AIMessage, HumanMessage

    from lazaretto.adapters.langchain import GuardMiddleware

    late, read = Late(), list[Any]()
    middleware = GuardMiddleware(late, agent="clerk")  # type: ignore[arg-type]

    def answer(request: Any) -> Any:
        read.append(list(request.messages))
        late.lines[:] = ["tide number one"]
        return ModelResponse(result=[AIMessage(late.lines)], structured_response=None)

    request = ModelRequest(model=FakeListChatModel(responses=["tea"]), messages=[HumanMessage(late.lines)])
    late.handed_on(middleware.wrap_model_call(request, answer).result)
    late.handed_on(read)
