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
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from lazaretto.adapters.border import NOTICE, Border, agent_name, called_by, schema_of
from lazaretto.adapters.heard import earlier_turns
from lazaretto.errors import MissingExtra
from lazaretto.ingest.opening import still
from lazaretto.ingest.strings import ID, cannot_carry_text

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
"""Fields of an item that hold content from outside."""
_PLACE = ("item_id", "output_index", "content_index", "summary_index")
"""Fields of an event that name the text it continues."""
_ECHO: dict[str, Any] = {"instructions": None, "prompt": None, "tools": []}
_BY_ROLE = {"user": Border.user, "system": Border.system, "developer": Border.system, "assistant": Border.said}


async def cleaned_item(
    border: Border, item: Any, agent: str | None = None, *, earlier: bool = False, past: bool | None = None
) -> Any:
    """An input item with a notice in place of each held part; every field counts. ``earlier``: it may come from a
    history. ``past``: whether words of people in it are of an earlier turn; None: they are new."""
    item = still(item)
    if not isinstance(item, Mapping):
        return await border.cleaned(item, partial(border.user, agent=agent), agent=agent)
    role, kind = item.get("role"), str(item.get("type", ""))
    brought = kind.endswith("_output") or any(item.get(key) for key in _BROUGHT)
    judge = border.tool if brought else _BY_ROLE.get(str(role), Border.said).__get__(border)
    if earlier and role == "assistant" and not brought:
        judge = border.earlier
    if past is not None and not brought and role in ("user", "system", "developer"):
        judge = partial(border.of_history, role=str(role), earlier=past)
    done = await border.clean(dict(item), partial(judge, agent=agent), agent=agent, dialect="openai-responses")
    if done.whole is None:
        return done.value
    if "call_id" in item and kind.endswith("_output"):
        return {"type": kind, "call_id": item["call_id"], "output": done.whole}
    return {"role": role if role in _BY_ROLE else "assistant", "content": done.whole}


async def _cleaned_input(border: Border, given: Sequence[Any], agent: str) -> list[Any]:
    """The input of a model: a history, and the words of the present turn behind it."""
    roles = [_role(item) for item in given]
    earlier, last = earlier_turns(roles), len(roles) - 1 - roles[::-1].index("user") if "user" in roles else -1
    return [
        await cleaned_item(border, item, agent, earlier=True, past=None if place == last else place in earlier)
        for place, item in enumerate(given)
    ]


def _role(item: Any) -> str:
    """The role of an item; calls and thoughts of the model name none, nor do results of tools."""
    found = still(item)
    if not isinstance(found, Mapping):
        return "user"
    kind = str(found.get("type", ""))
    return str(found.get("role") or ("tool" if kind.endswith("_output") else "assistant"))


def guard_run_config(guard: Guard | SyncGuard, config: RunConfig | None = None) -> RunConfig:
    """A run configuration that judges the input of every model of the run, after handoffs too.

    What an agent's model gives another agent (``Agent.as_tool``) comes with the role of a user; it counts as the first
    agent's message.
    """
    border, config = Border(guard), config or RunConfig()
    before = config.call_model_input_filter

    async def judged(data: CallModelData[Any]) -> ModelInputData:
        given: Any = data.model_data
        if before is not None:
            given = before(data)
            given = await given if inspect.isawaitable(given) else given
        agent = agent_name(data.agent.name)
        _note_callers(data.agent)
        instructions = given.instructions and await border.system(given.instructions, agent=agent)
        items = await _cleaned_input(border, given.input, agent)
        return replace(given, input=items, instructions=instructions)

    return replace(config, call_model_input_filter=judged)


class _Called:
    """A tool's function, with the agent that calls it on record."""

    def __init__(self, function: Any) -> None:
        self.function = function

    async def __call__(self, context: Any, arguments: str) -> Any:
        with called_by(getattr(getattr(context, "agent", None), "name", None)):
            return await self.function(context, arguments)


def _note_callers(agent: Any) -> None:
    """Let the tools of an agent say from now on which agent called them."""
    for tool in getattr(agent, "tools", None) or ():
        if isinstance(tool, FunctionTool) and not isinstance(tool.on_invoke_tool, _Called):
            tool.on_invoke_tool = _Called(tool.on_invoke_tool)


def guard_tool(guard: Guard | SyncGuard, tool: FunctionTool, *, agent: str = "agent") -> FunctionTool:
    """The same tool behind the guard: its result is copied and judged, and the copy is handed on, with notices in
    place of held parts. A guardrail of the SDK could only allow or refuse an object that the tool still holds."""
    border, made = Border(guard, agent), copy.copy(tool)
    inner = made.on_invoke_tool

    async def judged(context: ToolContext[Any], arguments: str) -> Any:
        who = agent_name(context.agent.name) if context.agent is not None else None
        with called_by(who or border.agent):
            returned = still(await inner(context, arguments))
        return await border.answered(returned, tool.name, agent=who)

    made.on_invoke_tool = judged
    return made


def guard_tool_input(
    guard: Guard | SyncGuard, *, agent: str = "agent", description: str = ""
) -> ToolInputGuardrail[Any]:
    """A guardrail for ``function_tool(tool_input_guardrails=[...])``: asks whether the tool may be called now.

    A refused call is answered with a notice. Without a table ``[actions]`` in the policy every call is allowed.
    """
    border = Border(guard, agent)

    async def asked(data: Any) -> ToolGuardrailFunctionOutput:
        call = data.context
        try:
            given: Any = json.loads(call.tool_arguments or "{}")
        except ValueError:
            given = {"input": call.tool_arguments}
        tool = next((known for known in data.agent.tools if getattr(known, "name", None) == call.tool_name), None)
        details = {"description": description or getattr(tool, "description", ""), "schema": schema_of(tool)}
        refused = await border.may_call(str(call.tool_name), given, agent=agent_name(data.agent.name), **details)
        if refused is None:
            return ToolGuardrailFunctionOutput.allow()
        return ToolGuardrailFunctionOutput.reject_content(refused)

    return ToolInputGuardrail(guardrail_function=asked, name="lazaretto")


def guard_session(guard: Guard | SyncGuard, session: Any, *, agent: str = "agent") -> GuardedSession:
    """The same session behind the guard: held content is neither kept nor read again."""
    return GuardedSession(session, Border(guard, agent))


class GuardedSession(SessionABC):
    """A session that puts a notice in place of each held part of its items."""

    def __init__(self, session: Any, border: Border) -> None:
        self._session, self._border = session, border
        self.session_id = session.session_id
        self.session_settings = getattr(session, "session_settings", None)

    async def get_items(self, limit: int | None = None, **more: Any) -> list[Any]:
        """The items, with notices in place of parts that are held now."""
        found = await self._session.get_items(limit, **more)
        return [await cleaned_item(self._border, item, earlier=True, past=True) for item in found]

    async def add_items(self, items: list[Any], **more: Any) -> None:
        """Keep items, with notices in place of held parts."""
        await self._session.add_items([await cleaned_item(self._border, item) for item in items], **more)

    async def pop_item(self, **more: Any) -> Any:
        """Remove the newest item; returned with notices in place of parts that are held now."""
        item = await self._session.pop_item(**more)
        return item if item is None else await cleaned_item(self._border, item, earlier=True, past=True)

    async def clear_session(self, **more: Any) -> None:
        """Forget all items."""
        await self._session.clear_session(**more)


def guard_model(guard: Guard | SyncGuard, model: Model, *, agent: str = "agent") -> GuardedModel:
    """The same model behind the guard: its answers are judged before they are acted on; streams are held back."""
    return GuardedModel(model, Border(guard, agent))


class GuardedModel(Model):
    """A model whose answers are judged, and whose held tool calls are not made."""

    def __init__(self, model: Model, border: Border) -> None:
        self._model, self._border = model, border

    async def get_response(self, *arguments: Any, **named: Any) -> ModelResponse:
        """The model's answer, with notices in place of held parts."""
        response = await self._model.get_response(*arguments, **named)
        return replace(response, output=await self._cleaned(still(response.output)))

    async def stream_response(self, *arguments: Any, **named: Any) -> AsyncIterator[Any]:
        """The model's stream, once all of it was judged; of a held stream only its end, with notices."""
        events = [still(_without_echo(event)) async for event in self._model.stream_response(*arguments, **named)]
        if not await self._holds(events):
            for event in events:
                yield event
            return
        whole = getattr(events[-1], "response", None)
        output = await self._cleaned(whole.output) if whole is not None else []
        if whole is None or output is whole.output:  # the held part stood in the stream, not in its end
            output = [_message("withheld", f"{NOTICE}: a part of the stream is held]")]
        yield _end(output, whole)

    async def close(self) -> None:
        """Let the model go."""
        await self._model.close()

    def get_retry_advice(self, request: Any) -> Any:
        """The model's advice about a failure."""
        return self._model.get_retry_advice(request)

    async def _holds(self, events: list[Any]) -> bool:
        """Whether a part of a stream is held: its texts, each put together from the pieces, or any other field."""
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
        """An item of an answer; where a part of it is held, a message with the notice instead."""
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
    """An event without the request that an endpoint repeats in it: it is not read, and was not judged."""
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
