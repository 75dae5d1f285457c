"""A Google ADK crew that is poisoned through its memory service: python examples/crew_google_adk.py"""

from __future__ import annotations

import asyncio
from typing import Any

from poisoned_notes import NOTES, main

from lazaretto import SyncGuard

try:
    from google.adk.events import Event
    from google.adk.memory.in_memory_memory_service import InMemoryMemoryService
    from google.genai import types

    from lazaretto.adapters.google_adk import GuardedMemoryService
except ImportError:
    raise SystemExit("this example needs Google ADK: pip install 'lazaretto[gates,google-adk]'") from None


async def crew(guard: SyncGuard | None) -> list[str]:
    """A scout's events go to memory; the clerk searches it with words that every note has."""
    memory: Any = InMemoryMemoryService()
    if guard is not None:
        memory = GuardedMemoryService(guard, memory)
    events = [
        Event(author="scout", id=f"e{n}", content=types.Content(role="model", parts=[types.Part(text=note)]))
        for n, note in enumerate(NOTES)
    ]
    await memory.add_events_to_memory(app_name="crew", user_id="mia", events=events, session_id="1")
    read: list[str] = []
    for note in NOTES:  # the service gives few hits for a query, so the clerk asks for one note at a time
        found = await memory.search_memory(app_name="crew", user_id="mia", query=note)
        read += [part.text or "" for one in found.memories for part in one.content.parts]
    return read


def run(guard: SyncGuard | None) -> list[str]:
    """One run of the crew."""
    return asyncio.run(crew(guard))


if __name__ == "__main__":
    main("Google ADK", run)
