"""An AutoGen crew that is poisoned through its memory: python examples/crew_autogen.py

There is no adapter for AutoGen: what it takes stands here, a memory behind the guard and a handler for
``SingleThreadedAgentRuntime(intervention_handlers=[...])``. Tools are plain functions, which
``lazaretto.adapters.plain.guard_tool`` wraps.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import Any

from poisoned_notes import NOTES, main
from pydantic import BaseModel

from lazaretto import Guard, SyncGuard
from lazaretto.adapters.border import Border, agent_name

try:
    from autogen_core import DefaultInterventionHandler, DropMessage, MessageContext
    from autogen_core.memory import (
        ListMemory,
        Memory,
        MemoryContent,
        MemoryMimeType,
        MemoryQueryResult,
        UpdateContextResult,
    )
    from autogen_core.model_context import UnboundedChatCompletionContext
    from autogen_core.models import SystemMessage
except ImportError:
    raise SystemExit("this example needs AutoGen: pip install 'lazaretto[gates]' autogen-agentchat") from None

log = logging.getLogger("lazaretto")


class GuardedMemory(Memory):
    """A memory that keeps and shows nothing held, and nothing but texts: of other contents nobody judges the whole.

    Each agent has its own around the memory that they share: who writes and who reads is on record, and what an agent
    is shown is in its mind when it calls a tool.
    """

    component_config_schema = BaseModel

    def __init__(self, guard: Guard | SyncGuard, memory: Memory, *, agent: str) -> None:
        self._border, self._memory = Border(guard, agent), memory

    async def _may(self, content: MemoryContent) -> bool:
        if not isinstance(content.content, str):
            log.warning("a memory that is no text is not judged and left out: %s", content.mime_type)
            return False
        return not (await self._border.clean(content, self._border.document)).changed

    async def add(self, content: MemoryContent, cancellation_token: Any = None) -> None:
        """Keep what is not held."""
        if await self._may(content):
            await self._memory.add(content, cancellation_token)

    async def query(self, query: Any, cancellation_token: Any = None, **more: Any) -> MemoryQueryResult:
        """What may be read."""
        found = await self._memory.query(query, cancellation_token, **more)
        return MemoryQueryResult(results=[one for one in found.results if await self._may(one)])

    async def update_context(self, model_context: Any) -> UpdateContextResult:
        """Tell a model what may be read."""
        found = await self.query("")
        if found.results:
            words = "\n".join(f"{number}. {one.content}" for number, one in enumerate(found.results, 1))
            await model_context.add_message(SystemMessage(content=f"Relevant memories:\n{words}"))
        return UpdateContextResult(memories=found)

    async def clear(self) -> None:
        """As the memory behind it does."""
        await self._memory.clear()

    async def close(self) -> None:
        """As the memory behind it does."""
        await self._memory.close()


class GuardedMessages(DefaultInterventionHandler):
    """Drops every message between agents in which some text is held."""

    def __init__(self, guard: Guard | SyncGuard) -> None:
        self._border = Border(guard)

    async def _judged(self, message: Any, sender: Any, receiver: str) -> Any:
        judge = partial(self._border.message, sender=agent_name(sender), receiver=receiver)
        return DropMessage if (await self._border.clean(message, judge)).changed else message

    async def on_send(self, message: Any, *, message_context: MessageContext, recipient: Any) -> Any:
        """From one agent to another."""
        return await self._judged(message, message_context.sender, agent_name(recipient))

    async def on_publish(self, message: Any, *, message_context: MessageContext) -> Any:
        """From one agent to whoever listens."""
        return await self._judged(message, message_context.sender, agent_name(message_context.topic_id))

    async def on_response(self, message: Any, *, sender: Any, recipient: Any) -> Any:
        """What an agent answers."""
        return await self._judged(message, sender, agent_name(recipient))


async def crew(guard: SyncGuard | None) -> list[str]:
    """A scout adds its notes; the clerk's model is shown all of them."""
    memory: Memory = ListMemory()
    scouts, clerks = memory, memory
    if guard is not None:
        scouts, clerks = GuardedMemory(guard, memory, agent="scout"), GuardedMemory(guard, memory, agent="clerk")
    for note in NOTES:
        await scouts.add(MemoryContent(content=note, mime_type=MemoryMimeType.TEXT))
    context = UnboundedChatCompletionContext()
    await clerks.update_context(context)
    return [str(message.content) for message in await context.get_messages()]


def run(guard: SyncGuard | None) -> list[str]:
    """One run of the crew."""
    return asyncio.run(crew(guard))


if __name__ == "__main__":
    main("AutoGen", run)
