"""Google ADK: one plugin that sees every agent, tool and transfer of a runner, and a guarded memory service.

>>> Runner(app_name="crew", agent=root, session_service=sessions, plugins=[GuardPlugin(guard)],
...        memory_service=GuardedMemoryService(guard, InMemoryMemoryService()))         # doctest: +SKIP
"""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any

from lazaretto.adapters.border import NOTICE, Border, agent_name, called_by, schema_of
from lazaretto.errors import MissingExtra
from lazaretto.ingest.opening import still
from lazaretto.ingest.strings import ID, MOST_DEPTH, Cleaned, cannot_carry_text, read_strings

if TYPE_CHECKING:
    from lazaretto.guard import Guard
    from lazaretto.guard.sync_guard import SyncGuard

try:
    from google.adk.memory.base_memory_service import BaseMemoryService, SearchMemoryResponse
    from google.adk.models.llm_response import LlmResponse
    from google.adk.plugins.base_plugin import BasePlugin
    from google.genai import types
except ImportError:
    raise MissingExtra("the Google ADK adapter", "google-adk") from None

log = logging.getLogger("lazaretto")
Judge = Callable[[str], Awaitable[str]]
_ROLES = ("user", "model", None)
_MEMORIES = ("<PAST_CONVERSATIONS>", "</PAST_CONVERSATIONS>")
"""Around the memories that ADK's ``PreloadMemoryTool`` puts before a model; in some versions into its instruction."""
_LONG, _WORDS = 12, 3
"""Characters or words from which a value of a session's state is looked for in an instruction."""


async def cleaned_parts(border: Border, content: Any, judge: Judge, agent: str) -> Any:
    """A content with a notice for each text, picture or tool answer that is held; itself where nothing is."""
    if content is None:
        return content
    given = content.parts or []
    parts = [await _cleaned_part(border, part, judge, agent) for part in given]
    named = content.role in _ROLES or await border.names(content.role, agent=agent)
    if named and all(new is old for new, old in zip(parts, given, strict=True)):
        return content
    return types.Content(role=content.role if named else "user", parts=parts)


async def _without_held(border: Border, value: Any, judge: Judge, agent: str, kind: type[Any], **read: Any) -> Any:
    """An ADK model with the fields in ``read``, already judged; where another field is held, only with these."""
    rest = value.model_copy(update=dict.fromkeys(read))
    done = await border.clean(rest, judge, agent=agent, dialect="langchain")
    if done.changed:
        return kind(**read)
    return value if all(getattr(value, name) is part for name, part in read.items()) else value.model_copy(update=read)


async def _cleaned_part(border: Border, part: Any, judge: Judge, agent: str) -> Any:
    """A part with a notice in place of held content; every field counts, and unreadable ones are withheld."""
    how = partial(border.tool, agent=agent) if _from_tool(part) else judge
    if part.function_call is not None:
        how = partial(border.said, agent=agent)
    unsigned = part if _is_text(part.thought_signature) else part.model_copy(update={"thought_signature": None})
    done = await border.clean(unsigned, how, agent=agent)
    if not done.changed:
        return part
    given = part.function_response
    if given is not None:
        left = done.value.function_response.response if done.whole is None else None
        response = dict(left) if isinstance(left, dict) else {"result": done.whole or f"{NOTICE}: it is held]"}
        name = given.name if await border.names(given.name or "", agent=agent) else "tool"
        key = given.id if given.id and cannot_carry_text(given.id, ID) else None
        return types.Part(function_response=types.FunctionResponse(id=key, name=name, response=response))
    if part.text and done.whole is None and all(path == ("text",) for path, _ in done.changed):
        return types.Part(text=done.value.text)
    return types.Part(text=done.whole or _first(done, f"{NOTICE}: it is held]"))


def _pin(model: Any) -> None:
    """Put copies in place of all fields of an ADK model: a new model returned by a callback would end the callbacks of
    other plugins."""
    if model is not None:
        vars(model).update(vars(still(model)))


def _is_text(signature: bytes | None) -> bool:
    """Whether a signature, which should be opaque bytes for the model alone, is readable text."""
    try:
        return bool(signature) and (signature or b"").decode("utf-8").isprintable()
    except UnicodeDecodeError:
        return False


def _from_tool(part: Any) -> bool:
    return part.function_response is not None or part.code_execution_result is not None


def _first(done: Cleaned, otherwise: str) -> str:
    """The first notice in a part."""
    texts = (part.text for part in read_strings(done.value).texts)
    return next((text for text in texts if text.startswith(NOTICE)), otherwise)


_OWN: ContextVar[Any] = ContextVar("lazaretto_own_result", default=None)
"""The copy of the tool's result in this call."""


class _Copying:
    """A tool's ``run_async`` that returns a copy, which the tool does not hold. A callback that returned one in the
    result's place would end the callbacks of other plugins and of the agent."""

    def __init__(self, tool: Any, run: Callable[..., Awaitable[Any]]) -> None:
        self.tool, self.run = tool, run

    async def __call__(self, **given: Any) -> Any:
        with called_by(getattr(given.get("tool_context"), "agent_name", None)):
            made = still(await self.run(**given))
        _OWN.set(made)
        return made


def _let_go_of_results(tool: Any) -> None:
    """Let a tool return copies from now on. Where it does not let us, ``after_tool_callback`` returns one."""
    known = getattr(tool, "run_async", None)
    if isinstance(known, _Copying):
        if known.tool is tool:
            return
        known = type(tool).run_async.__get__(tool)  # this tool is a copy of a tool that was wrapped before
    if known is not None:
        with suppress(AttributeError, TypeError):
            tool.run_async = _Copying(tool, known)


def _state_of(context: Any) -> list[str]:
    """The values in a session's state that are long enough to say something, or to name an account."""
    read: Any = getattr(getattr(context, "state", None), "to_dict", dict)
    texts = dict.fromkeys(str(value) for value in _values(read()))
    return [text for text in texts if len(text) >= _LONG or len(text.split()) >= _WORDS]


def _values(state: Any, depth: int = 0) -> Iterator[Any]:
    """Values of a state, and those inside them: an instruction may name each by its path."""
    for value in state.values() if isinstance(state, Mapping) and depth < MOST_DEPTH else ():
        yield value
        yield from _values(value, depth + 1)


def _brought(text: str, state: Sequence[str]) -> list[tuple[int, int]]:
    """The stretches of an instruction that are not its author's: memories, and values of the state."""
    begin, end = text.find(_MEMORIES[0]), text.rfind(_MEMORIES[1])
    found = [(begin, end if end > begin else len(text))] if begin >= 0 else []
    for value in state:
        found += [(match.start(), match.end()) for match in re.finditer(re.escape(value), text)]
    joined = list[tuple[int, int]]()
    for start, stop in sorted(found):
        if joined and start <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(stop, joined[-1][1])
        else:
            joined.append((start, stop))
    return joined


class GuardPlugin(BasePlugin):
    """Judges messages of users, inputs and answers of models, and results of tools, for all agents of a runner.

    Partial answers of a stream are held back: they leave empty, and the whole answer comes when it was judged.
    """

    def __init__(self, guard: Guard | SyncGuard, name: str = "lazaretto") -> None:
        super().__init__(name)
        self._border = Border(guard)

    async def on_user_message_callback(self, *, invocation_context: Any, user_message: Any) -> Any:
        """Judge the user's message."""
        agent = agent_name(invocation_context.agent.name)

        async def judge(text: str) -> str:
            return await self._border.user(text, agent=agent)

        _pin(user_message)
        done = await cleaned_parts(self._border, user_message, judge, agent)
        return None if done is user_message else done

    async def before_model_callback(self, *, callback_context: Any, llm_request: Any) -> Any:
        """Judge the input of a model, which includes messages of other agents."""
        agent = agent_name(callback_context.agent_name)
        await self._judge_instruction(llm_request.config, agent, _state_of(callback_context))
        for place, content in enumerate(llm_request.contents):

            async def judge(text: str, by: Any = content.role) -> str:
                return await (self._border.earlier if by == "model" else self._border.document)(text, agent=agent)

            llm_request.contents[place] = await cleaned_parts(self._border, still(content), judge, agent)
        return None

    async def _judge_instruction(self, config: Any, agent: str, state: Sequence[str]) -> None:
        """Judge the system instruction. Memories and values of the session's state that ADK put into it are documents,
        not the operator's words: tools write them."""
        instruction = getattr(config, "system_instruction", None)
        if instruction is None:
            return

        async def judge(text: str) -> str:
            parts, last = list[str](), 0
            for begin, end in _brought(text, state):
                parts.append(await self._border.system(text[last:begin], agent=agent))
                parts.append(await self._border.document(text[begin:end], agent=agent))
                last = end
            return "".join([*parts, await self._border.system(text[last:], agent=agent)])

        config.system_instruction = await self._border.cleaned(still(instruction), judge, agent=agent)

    async def after_model_callback(self, *, callback_context: Any, llm_response: Any) -> Any:
        """Judge a model's answer; a part of a stream leaves empty."""
        agent = agent_name(callback_context.agent_name)
        if llm_response.partial:
            return LlmResponse(partial=True, content=types.Content(role="model", parts=[types.Part(text="")]))

        async def judge(text: str) -> str:
            return await self._border.said(text, agent=agent)

        _pin(llm_response)
        content = await cleaned_parts(self._border, llm_response.content, judge, agent)
        done = await _without_held(self._border, llm_response, judge, agent, LlmResponse, content=content)
        return None if done is llm_response else done

    async def before_tool_callback(self, *, tool: Any, tool_args: Any, tool_context: Any) -> Any:
        """Ask whether a tool may be called; where it may not, the model gets a notice as its result."""
        _OWN.set(None)
        _let_go_of_results(tool)
        agent = agent_name(tool_context.agent_name)
        details = {"description": getattr(tool, "description", ""), "schema": schema_of(tool)}
        refused = await self._border.may_call(tool.name, tool_args, agent=agent, **details)
        return None if refused is None else {"result": refused}

    async def after_tool_callback(self, *, tool: Any, tool_args: Any, tool_context: Any, result: Any) -> Any:
        """Judge a tool's result, and hand on the judged copy."""
        agent = agent_name(tool_context.agent_name)
        copied = result if _OWN.get() is result else still(result)
        done = await self._border.answered(copied, str(getattr(tool, "name", "tool")), agent=agent)
        if done is result:
            return None
        return done if isinstance(done, dict) else {"result": done}


class GuardedMemoryService(BaseMemoryService):
    """A memory service that keeps and finds nothing held.

    Its records have no refs, so a repair takes effect when they are read, and is not written back. ADK does not say who
    reads: ``agent`` is on record as the reader. A memory's author is what it says of itself.
    """

    def __init__(self, guard: Guard | SyncGuard, service: BaseMemoryService, *, agent: str = "agent") -> None:
        self._border, self._service = Border(guard, agent), service

    async def _clean(self, events: Sequence[Any]) -> list[Any]:
        done = []
        for event in still(list(events)):
            content = await self._cleaned(event.content)
            rest = event.model_copy(update={"content": None})
            if (await self._border.clean(rest, self._border.document, dialect="langchain")).changed:
                log.warning("an event was not kept: something beside its content is held")
            else:
                done.append(event if content is event.content else event.model_copy(update={"content": content}))
        return done

    async def _cleaned(self, content: Any) -> Any:
        return await cleaned_parts(self._border, content, self._border.document, self._border.agent)

    async def add_session_to_memory(self, session: Any) -> None:
        """Keep a session, without held content."""
        events = await self._clean(session.events)
        await self._service.add_session_to_memory(session.model_copy(update={"events": events}))

    async def add_events_to_memory(self, *, events: Sequence[Any], **more: Any) -> None:
        """Keep events, without held content."""
        await self._service.add_events_to_memory(events=await self._clean(events), **more)

    async def add_memory(self, *, memories: Sequence[Any], **more: Any) -> None:
        """Keep memories, without held ones."""
        await self._service.add_memory(memories=await self._shown(memories), **more)

    async def delete_memory(self, **more: Any) -> None:
        """Calls the wrapped service."""
        await self._service.delete_memory(**more)

    async def search_memory(self, *, app_name: str, user_id: str, query: str) -> SearchMemoryResponse:
        """The memories that may be read."""
        found = await self._service.search_memory(app_name=app_name, user_id=user_id, query=query)
        return SearchMemoryResponse(memories=await self._shown(found.memories))

    async def _shown(self, memories: Sequence[Any]) -> list[Any]:
        """Memories without any held part, in their content or in other fields."""
        shown = []
        for memory in still(list(memories)):
            rest = memory.model_copy(update={"content": None})
            beside = await self._border.clean(rest, self._border.document, dialect="langchain")
            if not beside.changed and await self._cleaned(memory.content) is memory.content:
                shown.append(memory)
        return shown
