"""OpenAI Agents SDK: guarded run configuration, model, session and tools.

>>> config = guard_run_config(guard)                                                    # doctest: +SKIP
>>> session = guard_session(guard, SQLiteSession("crew"), agent="clerk")                # doctest: +SKIP
>>> agent = Agent("clerk", model=guard_model(guard, model, agent="clerk"),
...               tools=[guard_tool(guard, fetch)])                                     # doctest: +SKIP
>>> await Runner.run(agent, "pay the invoices", session=session, run_config=config)     # doctest: +SKIP
"""

from __future__ import annotations

import copy
import inspect
import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from lazaretto.adapters.border import NOTICE, Border, agent_name
from lazaretto.adapters.schemas import schema_of
from lazaretto.errors import MissingExtra
from lazaretto.ingest.left_out import ID, cannot_carry_text
from lazaretto.ingest.still import still

if TYPE_CHECKING:
    from lazaretto.guard import Guard
    from lazaretto.guard.sync_guard import SyncGuard

try:
    from agents.run import CallModelData, ModelInputData
    from agents.tool_context import ToolContext
    from openai.types.responses import Response, ResponseCompletedEvent, ResponseOutputMessage, ResponseOutputText

    from agents import (
        FunctionTool,
        Model,
        ModelResponse,
        RunConfig,
        SessionABC,
        ToolGuardrailFunctionOutput,
        ToolInputGuardrail,
    )
except ImportError:
    raise MissingExtra("the OpenAI Agents adapter", "openai-agents") from None


_BROUGHT = ("output", "outputs", "results", "error", "tools")
"""Fields of an item in which something comes from outside."""
_PLACE = ("item_id", "output_index", "content_index", "summary_index")
"""Fields of an event that say which text it goes on with."""
_ECHO: dict[str, Any] = {"instructions": None, "prompt": None, "tools": []}
_BY_ROLE = {"user": Border.user, "system": Border.system, "developer": Border.system, "assistant": Border.said}


async def cleaned_item(border: Border, item: Any, agent: str | None = None, *, earlier: bool = False) -> Any:
    """An input item with a notice for what is held in it; every field of it counts. ``earlier``: it comes from a
    history."""
    item = still(item)
    if not isinstance(item, Mapping):
        return await border.cleaned(item, partial(border.user, agent=agent), agent=agent)
    role, kind = item.get("role"), str(item.get("type", ""))
    brought = kind.endswith("_output") or any(item.get(key) for key in _BROUGHT)
    judge = border.tool if brought else _BY_ROLE.get(str(role), Border.said).__get__(border)
    if earlier and role == "assistant" and not brought:
        judge = border.earlier
    done = await border.clean(dict(item), partial(judge, agent=agent), agent=agent, dialect="openai-responses")
    if done.whole is None:
        return done.value
    if "call_id" in item and kind.endswith("_output"):
        return {"type": kind, "call_id": item["call_id"], "output": done.whole}
    return {"role": role if role in _BY_ROLE else "assistant", "content": done.whole}


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
        told = given.instructions and await border.system(given.instructions, agent=agent)
        items = [await cleaned_item(border, item, agent, earlier=True) for item in given.input]
        return replace(given, input=items, instructions=told)

    return replace(config, call_model_input_filter=judged)


def guard_tool(guard: Guard | SyncGuard, tool: FunctionTool, *, agent: str = "agent") -> FunctionTool:
    """The same tool behind the guard: what it returns is copied and judged, and the copy is its result, with notices
    where something in it is held. A guardrail of the SDK could only allow or refuse what the tool still holds."""
    border, made = Border(guard, agent), copy.copy(tool)
    inner = made.on_invoke_tool

    async def judged(context: ToolContext[Any], arguments: str) -> Any:
        who = agent_name(context.agent.name) if context.agent is not None else None
        returned = still(await inner(context, arguments))
        return await border.answered(returned, tool.name, agent=who)

    made.on_invoke_tool = judged
    return made


def guard_tool_input(
    guard: Guard | SyncGuard, *, agent: str = "agent", description: str = ""
) -> ToolInputGuardrail[Any]:
    """A guardrail for ``function_tool(tool_input_guardrails=[...])``: asks whether the tool may be called now.

    A call that may not be made is answered with a notice. Nobody is asked where the policy has no table ``[actions]``.
    """
    border = Border(guard, agent)

    async def asked(data: Any) -> ToolGuardrailFunctionOutput:
        call = data.context
        try:
            given: Any = json.loads(call.tool_arguments or "{}")
        except ValueError:
            given = {"input": call.tool_arguments}
        tool = next((one for one in data.agent.tools if getattr(one, "name", None) == call.tool_name), None)
        told = {"description": description or getattr(tool, "description", ""), "schema": schema_of(tool)}
        refused = await border.may_call(str(call.tool_name), given, agent=agent_name(data.agent.name), **told)
        if refused is None:
            return ToolGuardrailFunctionOutput.allow()
        return ToolGuardrailFunctionOutput.reject_content(refused)

    return ToolInputGuardrail(guardrail_function=asked, name="lazaretto")


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
        found = await self._session.get_items(limit, **more)
        return [await cleaned_item(self._border, item, earlier=True) for item in found]

    async def add_items(self, items: list[Any], **more: Any) -> None:
        """Keep what was said, without what is held."""
        await self._session.add_items([await cleaned_item(self._border, item) for item in items], **more)

    async def pop_item(self, **more: Any) -> Any:
        """The newest item, taken away; with a notice for what is held in it by now."""
        item = await self._session.pop_item(**more)
        return item if item is None else await cleaned_item(self._border, item, earlier=True)

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
        return replace(response, output=await self._cleaned(still(response.output)))

    async def stream_response(self, *arguments: Any, **named: Any) -> AsyncIterator[Any]:
        """The model's stream, once all of it was judged; of a held one its end alone, without what is held."""
        events = [still(_without_echo(event)) async for event in self._model.stream_response(*arguments, **named)]
        if not await self._holds(events):
            for event in events:
                yield event
            return
        whole = getattr(events[-1], "response", None)
        output = await self._cleaned(whole.output) if whole is not None else []
        if whole is None or output is whole.output:  # what is held was said on its way there
            output = [_message("withheld", f"{NOTICE}: a part of the stream is held]")]
        yield _end(output, whole)

    async def close(self) -> None:
        """Let the model go."""
        await self._model.close()

    def get_retry_advice(self, request: Any) -> Any:
        """What the model says about a failure."""
        return self._model.get_retry_advice(request)

    async def _holds(self, events: list[Any]) -> bool:
        """Whether something is held in a stream: in what it says bit by bit, each text whole, or anywhere else."""
        bits: dict[tuple[str, ...], str] = {}
        rest: list[Any] = []
        for event in events:
            data = dict(vars(event))
            if isinstance(data.get("delta"), str):
                place = (event.type, *(str(data.get(name)) for name in _PLACE))
                bits[place] = bits.get(place, "") + data.pop("delta")
            rest.append(data)
        done = await self._border.clean([*bits.values(), *rest], self._border.said, dialect="openai-responses")
        return bool(done.changed)

    async def _cleaned(self, output: list[Any]) -> list[Any]:
        done = [await self._cleaned_output(item) for item in output]
        return output if all(new is old for new, old in zip(done, output, strict=True)) else done

    async def _cleaned_output(self, item: Any) -> Any:
        """An item of an answer; one in which anything is held gives way to a message that says so."""
        done = await self._border.clean(item, self._border.said, dialect="openai-responses")
        if not done.changed:
            return item
        name = str(getattr(item, "id", None) or getattr(item, "call_id", None) or "")
        name = name if name and cannot_carry_text(name, ID) else "withheld"
        if not isinstance(item, ResponseOutputMessage) or done.whole is not None:
            return _message(name, done.whole or f"{NOTICE}: a call of it is held]")
        parts = [part.text for part in done.value.content if isinstance(part, ResponseOutputText)]
        return _message(name, "\n".join(parts) or f"{NOTICE}: it is held]")


def _without_echo(event: Any) -> Any:
    """An event without what an endpoint repeats of the request: nobody reads it, and nobody judged it."""
    whole = getattr(event, "response", None)
    if whole is None:
        return event
    return event.model_copy(update={"response": whole.model_copy(update=_ECHO)})


def _end(output: list[Any], whole: Any) -> ResponseCompletedEvent:
    """The end of a stream, with its numbers and another output."""
    made = Response(
        id=getattr(whole, "id", "withheld"), created_at=getattr(whole, "created_at", 0.0),
        model=getattr(whole, "model", ""), object="response", output=output, parallel_tool_calls=False,
        tool_choice="auto", tools=[], usage=getattr(whole, "usage", None),
    )  # fmt: skip
    return ResponseCompletedEvent(type="response.completed", sequence_number=0, response=made)


def _message(name: str, text: str) -> ResponseOutputMessage:
    content = ResponseOutputText(type="output_text", text=text, annotations=[])
    return ResponseOutputMessage(id=name, type="message", role="assistant", status="completed", content=[content])
