"""OpenAI Agents SDK: guarded run configuration, model, session and tool outputs.

>>> config = guard_run_config(guard)                                                    # doctest: +SKIP
>>> session = guard_session(guard, SQLiteSession("crew"), agent="clerk")                # doctest: +SKIP
>>> agent = Agent("clerk", model=guard_model(guard, model, agent="clerk"))              # doctest: +SKIP
>>> await Runner.run(agent, "pay the invoices", session=session, run_config=config)     # doctest: +SKIP
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lazaretto.adapters.border import NOTICE, Border, agent_name
from lazaretto.adapters.content import cleaned_content
from lazaretto.errors import MissingExtra

if TYPE_CHECKING:
    from lazaretto.guard import Guard
    from lazaretto.sync_guard import SyncGuard

try:
    from agents.run import CallModelData, ModelInputData
    from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

    from agents import Model, ModelResponse, RunConfig, SessionABC, ToolGuardrailFunctionOutput, ToolOutputGuardrail
except ImportError:
    raise MissingExtra("the OpenAI Agents adapter", "openai-agents") from None


async def cleaned_item(border: Border, item: Any, agent: str | None = None) -> Any:
    """An input item with a notice for what is held in it."""
    if not isinstance(item, Mapping):
        return item

    async def judge(text: str) -> str:
        if str(item.get("type", "")).endswith("_output"):
            return await border.tool(text, agent=agent)
        if item.get("role") == "assistant":
            return await border.said(text, agent=agent)
        return text if item.get("role") in ("system", "developer") else await border.user(text, agent=agent)

    done = dict(item)
    for field in ("content", "output"):
        if field in item:
            done[field] = await cleaned_content(border, item[field], judge, agent)
    return item if done == dict(item) else done


def guard_run_config(guard: Guard | SyncGuard, config: RunConfig | None = None) -> RunConfig:
    """A run configuration that judges what every model of the run is about to read, after handoffs too."""
    border, config = Border(guard), config or RunConfig()
    before = config.call_model_input_filter

    async def judged(data: CallModelData[Any]) -> ModelInputData:
        given: Any = data.model_data
        if before is not None:
            given = before(data)
            given = await given if inspect.isawaitable(given) else given
        agent = agent_name(data.agent.name)
        return replace(given, input=[await cleaned_item(border, item, agent) for item in given.input])

    return replace(config, call_model_input_filter=judged)


def guard_tool_output(guard: Guard | SyncGuard, *, agent: str = "agent") -> ToolOutputGuardrail[Any]:
    """A guardrail for ``function_tool(tool_output_guardrails=[...])``: what is held never becomes the tool's result."""
    border = Border(guard, agent)

    async def judged(data: Any) -> ToolGuardrailFunctionOutput:
        text = data.output if isinstance(data.output, str) else str(data.output)
        said = await border.tool(text, agent=agent_name(data.agent.name))
        return ToolGuardrailFunctionOutput.allow() if said == text else ToolGuardrailFunctionOutput.reject_content(said)

    return ToolOutputGuardrail(guardrail_function=judged, name="lazaretto")


def guard_session(guard: Guard | SyncGuard, session: Any, *, agent: str = "agent") -> GuardedSession:
    """The same session behind the guard: what is held is neither kept nor read again."""
    return GuardedSession(session, Border(guard, agent))


class GuardedSession(SessionABC):
    """A session in whose items everything that is held gives way to a notice."""

    def __init__(self, session: Any, border: Border) -> None:
        self._session, self._border = session, border
        self.session_id = session.session_id
        self.session_settings = getattr(session, "session_settings", None)

    async def get_items(self, limit: int | None = None, **more: Any) -> list[Any]:
        """What was said, without what is held by now."""
        return [await cleaned_item(self._border, item) for item in await self._session.get_items(limit, **more)]

    async def add_items(self, items: list[Any], **more: Any) -> None:
        """Keep what was said, without what is held."""
        await self._session.add_items([await cleaned_item(self._border, item) for item in items], **more)

    async def pop_item(self, **more: Any) -> Any:
        """The newest item, taken away."""
        return await self._session.pop_item(**more)

    async def clear_session(self, **more: Any) -> None:
        """Forget everything that was said."""
        await self._session.clear_session(**more)


def guard_model(guard: Guard | SyncGuard, model: Model, *, agent: str = "agent") -> GuardedModel:
    """The same model behind the guard: its answers are judged before anybody acts on them; streams are held back."""
    return GuardedModel(model, Border(guard, agent))


class GuardedModel(Model):
    """A model whose answers are judged, and whose held tool calls are not made."""

    def __init__(self, model: Model, border: Border) -> None:
        self._model, self._border = model, border

    async def get_response(self, *arguments: Any, **named: Any) -> ModelResponse:
        """The model's answer, without what is held."""
        response = await self._model.get_response(*arguments, **named)
        return replace(response, output=await self._cleaned(response.output))

    async def stream_response(self, *arguments: Any, **named: Any) -> AsyncIterator[Any]:
        """The model's stream, once all of it was judged; of a held one its end alone, without what is held."""
        events = [event async for event in self._model.stream_response(*arguments, **named)]
        cleaned = [await self._with_cleaned(event) for event in events]
        if all(new is old for new, old in zip(cleaned, events, strict=True)):
            for event in events:
                yield event
        else:
            yield cleaned[-1]

    async def close(self) -> None:
        """Let the model go."""
        await self._model.close()

    def get_retry_advice(self, request: Any) -> Any:
        """What the model says about a failure."""
        return self._model.get_retry_advice(request)

    async def _with_cleaned(self, event: Any) -> Any:
        response = getattr(event, "response", None)
        if event.type != "response.completed" or response is None:
            return event
        output = await self._cleaned(response.output)
        if output is response.output:
            return event
        return event.model_copy(update={"response": response.model_copy(update={"output": output})})

    async def _cleaned(self, output: list[Any]) -> list[Any]:
        done = [await self._cleaned_output(item) for item in output]
        return output if all(new is old for new, old in zip(done, output, strict=True)) else done

    async def _cleaned_output(self, item: Any) -> Any:
        if isinstance(item, ResponseFunctionToolCall):
            said = await self._border.said(f"{item.name} {item.arguments}")
            return _message(item.id or item.call_id, said) if said.startswith(NOTICE) else item
        if not isinstance(item, ResponseOutputMessage):
            return item
        parts = [part.text for part in item.content if isinstance(part, ResponseOutputText)]
        judged = [await self._border.said(part) for part in parts]
        return item if judged == parts else _message(item.id, "\n".join(judged))


def _message(name: str, text: str) -> ResponseOutputMessage:
    content = ResponseOutputText(type="output_text", text=text, annotations=[])
    return ResponseOutputMessage(id=name, type="message", role="assistant", status="completed", content=[content])
