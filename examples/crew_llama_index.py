"""A LlamaIndex crew that is poisoned through its memory and its documents: python examples/crew_llama_index.py

There is no adapter for LlamaIndex: what it takes stands here, a memory and a postprocessor behind the guard. Tools are
plain functions, which ``lazaretto.adapters.plain.guard_tool`` wraps.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from poisoned_notes import NOTES, main

from lazaretto import Guard, SyncGuard
from lazaretto.adapters.border import NOTICE, Border

try:
    from llama_index.core.base.llms.types import ChatMessage, ImageBlock, TextBlock
    from llama_index.core.bridge.pydantic import PrivateAttr
    from llama_index.core.memory import Memory
    from llama_index.core.postprocessor.types import BaseNodePostprocessor
    from llama_index.core.schema import NodeWithScore
except ImportError:
    raise SystemExit("this example needs LlamaIndex: pip install 'lazaretto[gates]' llama-index-core") from None

HELD = f"{NOTICE}: it is held]"


async def cleaned_message(border: Border, message: ChatMessage) -> ChatMessage:
    """A message with a notice in the place of what is held; every field of it counts, pictures too."""
    by = {"user": border.user, "assistant": border.earlier, "tool": border.tool, "system": border.system}
    judge, blocks = by.get(message.role.value, border.document), list[Any]()
    for block in message.blocks:
        if isinstance(block, ImageBlock) and block.image is not None:  # one that is only named is not fetched
            held = await border.picture(block.resolve_image().read())
            rest = await border.clean(block.model_copy(update={"image": None}), judge)
            block = block if held is None and not rest.changed else TextBlock(text=held or HELD)
        else:
            done = await border.clean(block, judge)
            text = done.value.text if done.changed and done.whole is None and isinstance(block, TextBlock) else HELD
            block = block if not done.changed else TextBlock(text=done.whole or text)
        blocks.append(block)
    beside = await border.clean(message.additional_kwargs, border.document, dialect="langchain")
    if not beside.changed and all(new is old for new, old in zip(blocks, message.blocks, strict=True)):
        return message
    return ChatMessage(role=message.role, blocks=blocks, additional_kwargs={} if beside.changed else beside.value)


class GuardedMemory(Memory):
    """A chat memory that keeps and shows a notice in the place of whatever is held."""

    _border: Border = PrivateAttr()

    @classmethod
    def behind(cls, guard: Guard | SyncGuard, *, agent: str, **settings: Any) -> GuardedMemory:
        """A memory with the settings of ``Memory.from_defaults``."""
        made: GuardedMemory = cls.from_defaults(**settings)  # type: ignore[assignment]
        made._border = Border(guard, agent)
        return made

    def shown_to(self, agent: str) -> GuardedMemory:
        """The same memory for another agent: what it is shown is in its own mind when it calls a tool."""
        view: GuardedMemory = self.model_copy()
        view._border = Border(self._border.guard, agent)
        return view

    async def _cleaned(self, messages: Sequence[ChatMessage]) -> list[ChatMessage]:
        return [await cleaned_message(self._border, message) for message in messages]

    async def aput(self, message: ChatMessage) -> None:
        """Keep a message, without what is held."""
        await super().aput(await cleaned_message(self._border, message))

    async def aput_messages(self, messages: list[ChatMessage]) -> None:
        """Keep messages, without what is held."""
        await super().aput_messages(await self._cleaned(messages))

    async def aset(self, messages: list[ChatMessage]) -> None:
        """Keep these messages alone, without what is held."""
        await super().aset(await self._cleaned(messages))

    async def aget(self, *arguments: Any, **named: Any) -> list[ChatMessage]:
        """What a model is to read, without what is held by now."""
        return await self._cleaned(await super().aget(*arguments, **named))

    async def aget_all(self, *arguments: Any, **named: Any) -> list[ChatMessage]:
        """Everything, without what is held by now."""
        return await self._cleaned(await super().aget_all(*arguments, **named))


class GuardedNodes(BaseNodePostprocessor):
    """Leaves out retrieved passages that are held: ``index.as_query_engine(node_postprocessors=[...])``."""

    _border: Border = PrivateAttr()

    def __init__(self, guard: Guard | SyncGuard, *, agent: str) -> None:
        super().__init__()
        self._border = Border(guard, agent)

    async def _shown(self, nodes: Sequence[NodeWithScore]) -> list[NodeWithScore]:
        """Those in which nothing is held: a passage is read with all that stands beside it, as a prompt may show it."""
        judge = self._border.document
        return [one for one in nodes if not (await self._border.clean(vars(one.node), judge)).changed]

    def _postprocess_nodes(self, nodes: list[NodeWithScore], query_bundle: Any = None) -> list[NodeWithScore]:
        return self._border.wait(self._shown, nodes)


async def crew(guard: SyncGuard | None) -> list[str]:
    """A scout leaves its notes in the chat memory; the clerk's model is shown all of them."""
    settings: dict[str, Any] = {"session_id": "crew", "token_limit": 40_000}
    scouts = GuardedMemory.behind(guard, agent="scout", **settings) if guard else Memory.from_defaults(**settings)
    clerks = scouts.shown_to("clerk") if isinstance(scouts, GuardedMemory) else scouts
    for note in NOTES:
        await scouts.aput(ChatMessage(role="assistant", content=note))
    return [str(message.content) for message in await clerks.aget()]


def run(guard: SyncGuard | None) -> list[str]:
    """One run of the crew."""
    return asyncio.run(crew(guard))


if __name__ == "__main__":
    main("LlamaIndex", run)
