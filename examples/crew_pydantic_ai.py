"""A PydanticAI crew that is poisoned through its message history: python examples/crew_pydantic_ai.py

There is no adapter for PydanticAI: what it takes stands here, one capability for ``Agent(capabilities=[...])``. Text
that is streamed has left before the capability sees it; ``run`` instead of ``run_stream`` holds it back.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any

from poisoned_notes import NOTES, main

from lazaretto import Guard, SyncGuard
from lazaretto.adapters.border import NOTICE, Border, called_by

try:
    from pydantic_ai import Agent
    from pydantic_ai.capabilities import AbstractCapability
    from pydantic_ai.messages import (
        BaseToolCallPart,
        BaseToolReturnPart,
        BinaryContent,
        ModelMessage,
        ModelRequest,
        ModelResponse,
        RetryPromptPart,
        SystemPromptPart,
        TextPart,
        ThinkingPart,
        UserPromptPart,
    )
    from pydantic_ai.models.function import AgentInfo, FunctionModel
except ImportError:
    raise SystemExit("this example needs PydanticAI: pip install 'lazaretto[gates]' pydantic-ai-slim") from None

Judge = Callable[[str], Awaitable[str]]
HELD = f"{NOTICE}: it is held]"
OF_MODELS = (TextPart, ThinkingPart, BaseToolCallPart)
"""Parts that stand in a model's answer."""


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
        if refused is not None:
            return refused
        with called_by(self.agent):  # an agent that is asked in there is asked by this one, and not by the user
            found = await handler(args)
        return await self.border.answered(found, call.tool_name)

    async def _message(self, message: Any, own: Judge) -> Any:
        parts = [await self._part(part, own) for part in message.parts]
        rest = {name: value for name, value in vars(message).items() if name != "parts"}
        if (await self.border.clean(rest, self.border.system, dialect="langchain")).changed:
            return type(message)(parts=parts)  # its instructions, or what its provider says of it
        return replace(message, parts=parts)

    async def _part(self, part: Any, own: Judge) -> Any:
        """A part with a notice in the place of what is held; every field of it counts."""
        border = self.border
        brought = isinstance(part, (BaseToolReturnPart, RetryPromptPart))
        asked = {UserPromptPart: border.user, SystemPromptPart: border.system}
        judge = border.tool if brought else asked.get(type(part), own)
        content = await self._content(part.content, judge) if hasattr(part, "content") else None
        rest = {name: value for name, value in vars(part).items() if name != "content"}
        if (await border.clean(rest, border.said, dialect="langchain")).changed:
            return TextPart(HELD) if isinstance(part, OF_MODELS) else UserPromptPart(HELD)
        return part if content is None or content is part.content else replace(part, content=content)

    async def _content(self, content: Any, judge: Judge) -> Any:
        if not isinstance(content, (list, tuple)):
            return await self._piece(content, judge)
        parts = [await self._piece(part, judge) for part in content]
        return content if all(new is old for new, old in zip(parts, content, strict=True)) else parts

    async def _piece(self, part: Any, judge: Judge) -> Any:
        if not (isinstance(part, BinaryContent) and part.is_image):
            return await self.border.cleaned(part, judge)
        held = await self.border.picture(part.data)
        rest = await self.border.clean({**vars(part), "data": None}, judge)
        return part if held is None and not rest.changed else held or HELD


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
