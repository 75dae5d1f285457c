"""A Microsoft Agent Framework crew that is poisoned through its history: python examples/crew_agent_framework.py"""

from __future__ import annotations

import asyncio
from typing import Any

from poisoned_notes import NOTES, main

from lazaretto import SyncGuard

try:
    from agent_framework import InMemoryHistoryProvider, Message

    from lazaretto.adapters.agent_framework import guard_history
except ImportError:
    raise SystemExit(
        "this example needs Microsoft Agent Framework: pip install 'lazaretto[gates,agent-framework]'"
    ) from None


async def crew(guard: SyncGuard | None) -> list[str]:
    """A scout's notes stand in the history that the clerk's model is shown."""
    history: Any = InMemoryHistoryProvider()
    scouts, clerks = history, history
    if guard is not None:
        scouts, clerks = guard_history(guard, history, agent="scout"), guard_history(guard, history, agent="clerk")
    state: dict[str, Any] = {}
    await scouts.save_messages("1", [Message("assistant", [note]) for note in NOTES], state=state)
    return [message.text for message in await clerks.get_messages("1", state=state)]


def run(guard: SyncGuard | None) -> list[str]:
    """One run of the crew."""
    return asyncio.run(crew(guard))


if __name__ == "__main__":
    main("Microsoft Agent Framework", run)
