"""A PydanticAI crew that is poisoned through its message history: python examples/crew_pydantic_ai.py

There is no adapter for PydanticAI: what it takes stands here, one capability for ``Agent(capabilities=[...])``. Text
that is streamed has left before the capability sees it; ``run`` instead of ``run_stream`` holds it back.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any

from poisoned_notes import NOTES, main
from pydantic_ai import Agent
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.messages import (
    BinaryContent,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    RetryPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel

from lazaretto import Guard, SyncGuard
from lazaretto.adapters.border import NOTICE, Border

Judge = Callable[[str], Awaitable[str]]


@dataclass
class Guarded(AbstractCapability[Any]):
    """Judges what a model reads (texts, tool results, pictures in the message) and what it answers."""

    guard: Guard | SyncGuard
    agent: str = "agent"

    def __post_init__(self) -> None:
        self.border = Border(self.guard, self.agent)

    async def before_model_request(self, ctx: Any, request_context: Any) -> Any:
        """Judge everything that the model is about to read."""
        messages = [await self._message(message, self.border.earlier) for message in request_context.messages]
        return replace(request_context, messages=messages)

    async def after_model_request(self, ctx: Any, *, request_context: Any, response: ModelResponse) -> ModelResponse:
        """Judge what the model answered; a held tool call is not made."""
        return await self._message(response, self.border.said)

    async def wrap_tool_execute(self, ctx: Any, *, call: Any, tool_def: Any, args: Any, handler: Any) -> Any:
        """Ask whether a tool may be called, where the policy has a table [actions]; judge what it returned."""
        about = {"description": tool_def.description, "schema": tool_def.parameters_json_schema}
        refused = await self.border.may_call(call.tool_name, args, **about)
        return refused or await self.border.answered(await handler(args), call.tool_name)

    async def _message(self, message: Any, own: Judge) -> Any:
        return replace(message, parts=[await self._part(part, own) for part in message.parts])

    async def _part(self, part: Any, own: Judge) -> Any:
        border = self.border
        if isinstance(part, UserPromptPart):
            return replace(part, content=await self._content(part.content))
        if isinstance(part, ToolReturnPart):
            return replace(part, content=await border.cleaned(part.content, border.tool))
        if isinstance(part, RetryPromptPart):
            return replace(part, content=await border.cleaned(part.content, border.tool))
        if isinstance(part, TextPart):
            return replace(part, content=await own(part.content))
        if isinstance(part, ToolCallPart):
            said = await border.said(f"{part.tool_name} {part.args}")
            return TextPart(said) if said.startswith(NOTICE) else part
        return part

    async def _content(self, content: Any) -> Any:
        if isinstance(content, str):
            return await self.border.user(content)
        parts: list[Any] = []
        for part in content:
            if isinstance(part, str):
                part = await self.border.user(part)
            elif isinstance(part, BinaryContent) and part.is_image:
                part = await self.border.picture(part.data) or part
            parts.append(part)
        return parts


def run(guard: SyncGuard | None) -> list[str]:
    """A scout's notes stand in the history; the clerk's model is shown all of them."""
    read: list[str] = []

    def clerk(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        read.extend(str(part.content) for message in messages for part in message.parts if isinstance(part, TextPart))
        return ModelResponse(parts=[TextPart("I have read the notes.")])

    agent = Agent(FunctionModel(clerk), capabilities=[Guarded(guard, "clerk")] if guard else [])
    history: list[ModelMessage] = [
        ModelRequest(parts=[UserPromptPart("What do you know?")]),
        ModelResponse(parts=[TextPart(note) for note in NOTES]),
    ]
    agent.run_sync("Act on the notes.", message_history=history)
    return read


if __name__ == "__main__":
    main("PydanticAI", run)
