"""A LangGraph crew that is poisoned through its own store, undefended and guarded: python examples/crew_langgraph.py"""

from __future__ import annotations

from typing import Annotated, Any, TypedDict

from poisoned_notes import NOTES, main

from lazaretto import SyncGuard

try:
    from langchain_core.messages import AIMessage, HumanMessage
    from langgraph.checkpoint.memory import InMemorySaver
    from langgraph.graph import END, START, StateGraph
    from langgraph.graph.message import add_messages
    from langgraph.store.base import BaseStore
    from langgraph.store.memory import InMemoryStore

    from lazaretto.adapters.langgraph import guard_checkpointer, guard_node, guard_store
except ImportError:
    raise SystemExit("this example needs LangGraph: pip install 'lazaretto[gates,langgraph]'") from None


class State(TypedDict):
    """What the crew hands on."""

    messages: Annotated[list[Any], add_messages]


def scout(state: State, *, store: BaseStore) -> dict[str, Any]:
    """Keeps what it was told, and hands over."""
    for number, note in enumerate(NOTES):
        store.put(("crew", "notes"), f"note-{number}", {"text": note})
    return {"messages": [AIMessage("The notes are filed.", name="scout")]}


def clerk(state: State, *, store: BaseStore) -> dict[str, Any]:
    """Reads every note; a model that believes what it reads would now act on them."""
    found = store.search(("crew", "notes"), limit=20)
    return {"messages": [AIMessage("\n".join(item.value["text"] for item in found), name="clerk")]}


def run(guard: SyncGuard | None) -> list[str]:
    """One run of the crew; with a guard, four of its parts are wrapped and nothing else changes."""
    store: BaseStore = InMemoryStore()
    saver: Any = InMemorySaver()
    clerk_node: Any = clerk
    if guard is not None:
        store = guard_store(guard, store, agent="scout")
        saver = guard_checkpointer(guard, saver, agent="crew")
        clerk_node = guard_node(guard, clerk, agent="clerk")
    graph = StateGraph(State)
    graph.add_node("scout", scout)
    graph.add_node("clerk", clerk_node)
    graph.add_edge(START, "scout")
    graph.add_edge("scout", "clerk")
    graph.add_edge("clerk", END)
    crew = graph.compile(store=store, checkpointer=saver)
    done = crew.invoke({"messages": [HumanMessage("File the notes, then act.")]}, {"configurable": {"thread_id": "1"}})
    return [str(done["messages"][-1].content)]


if __name__ == "__main__":
    main("LangGraph", run)
