"""LangChain: one middleware for ``create_agent`` that judges before the model, after it, and after every tool."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lazaretto.adapters.border import Border
from lazaretto.adapters.langgraph import guarded_tools
from lazaretto.adapters.langgraph_state import StateReader, cleaned_message, earlier_messages, runtime_config
from lazaretto.errors import MissingExtra
from lazaretto.ingest.opening import still

if TYPE_CHECKING:
    from lazaretto.guard import Guard
    from lazaretto.guard.sync_guard import SyncGuard

try:
    from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
    from langgraph.constants import TAG_NOSTREAM
except ImportError:
    raise MissingExtra("the LangChain adapter", "langchain") from None


class GuardMiddleware(AgentMiddleware[Any, Any]):
    """Judges the model's input, its answers and the results of tools.

    Streams are held back: tokens leave a model before the answer can be judged, so with ``hold_back`` (the
    default) ``stream_mode="messages"`` shows no tokens of it; the judged answer comes with the updates.
    """

    def __init__(self, guard: Guard | SyncGuard, *, agent: str = "agent", hold_back: bool = True) -> None:
        super().__init__()
        self._border, self._hold_back = Border(guard, agent), hold_back
        wrappers = guarded_tools(guard, agent=agent)
        self._wrap_tool, self._awrap_tool = wrappers["wrap_tool_call"], wrappers["awrap_tool_call"]

    async def _before(self, request: ModelRequest[Any], config: Any) -> ModelRequest[Any]:
        reader = StateReader(self._border, config, self._border.agent)
        given = still(list(request.messages))
        earlier = earlier_messages(given)
        messages = [await self._read(message, reader, place in earlier) for place, message in enumerate(given)]
        more: dict[str, Any] = {"messages": messages}
        if request.system_message is not None:
            system = still(request.system_message)
            more["system_message"] = await cleaned_message(self._border, system, self._border.system)
        if self._hold_back:
            more["model"] = request.model.model_copy(update={"tags": [*(request.model.tags or []), TAG_NOSTREAM]})
        return request.override(**more)

    async def _read(self, message: Any, reader: StateReader, earlier: bool) -> Any:
        """A message as the model may read it; messages from tools were judged as such already."""
        return await cleaned_message(self._border, message, await reader.judge(message, True, earlier))

    async def _after(self, response: ModelResponse[Any]) -> ModelResponse[Any]:
        judged = [
            await cleaned_message(self._border, message, self._border.said) for message in still(list(response.result))
        ]
        data = still(response.structured_response)
        if data is not None:
            data = await self._border.cleaned(data, self._border.said)
        return replace(response, result=judged, structured_response=data)

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        """Judge the model's input and its answer."""
        return self._border.wait(self._after, handler(self._border.wait(self._before, request, runtime_config())))

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        """Judge the model's input and its answer."""
        return await self._after(await handler(await self._before(request, runtime_config())))

    def wrap_tool_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        """Judge a tool's result."""
        return self._wrap_tool(request, handler)

    async def awrap_tool_call(self, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        """Judge a tool's result."""
        return await self._awrap_tool(request, handler)
