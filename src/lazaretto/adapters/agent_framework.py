"""Microsoft Agent Framework: middleware for models and tools, and a guarded history.

>>> Agent(client, middleware=guard_middleware(guard, agent="clerk"),
...       context_providers=[guard_history(guard, InMemoryHistoryProvider(), agent="clerk")])  # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from lazaretto.adapters.border import NOTICE, Border, called_by, data_of, schema_of
from lazaretto.adapters.heard import earlier_turns
from lazaretto.errors import MissingExtra
from lazaretto.ingest.opening import still
from lazaretto.ingest.strings import ID, cannot_carry_text

if TYPE_CHECKING:
    from lazaretto.guard import Guard
    from lazaretto.guard.sync_guard import SyncGuard

try:
    from agent_framework import (
        ChatContext,
        ChatMiddleware,
        ChatResponse,
        ChatResponseUpdate,
        Content,
        FunctionInvocationContext,
        FunctionMiddleware,
        HistoryProvider,
        Message,
        ResponseStream,
    )
except ImportError:
    raise MissingExtra("the Microsoft Agent Framework adapter", "agent-framework") from None


def _role(message: Message) -> str:
    return str(getattr(message.role, "value", message.role))


_ATTRIBUTION = "_attribution"
"""The property by which the framework marks messages of its context providers, histories among them."""


async def cleaned_message(
    border: Border, message: Message, *, earlier: bool = False, past: bool | None = None
) -> Message:
    """The message with a notice in place of each held part. ``earlier``: it may come from a history. ``past``: whether
    words of people in it are of an earlier turn; None: they are new."""
    role = _role(message)
    own = border.earlier if earlier else border.said
    by = {"user": border.user, "assistant": own, "tool": border.tool, "system": border.system}
    judge: Any = by.get(role, border.document)
    if past is not None and role in ("user", "system"):
        judge = partial(border.of_history, role=role, earlier=past)
    contents = [await _cleaned(border, content, judge) for content in message.contents]
    beside = {name: getattr(message, name) for name in ("author_name", "message_id", "additional_properties")}
    held = (await border.clean(beside, border.document, dialect="langchain")).changed
    if not held and all(new is old for new, old in zip(contents, message.contents, strict=True)):
        return message
    name, key = None if held else message.author_name, message.message_id
    key = key if key and cannot_carry_text(key, ID) else None
    return Message(role, contents, author_name=name, message_id=key)


async def _cleaned(border: Border, content: Content, judge: Callable[[str], Awaitable[str]]) -> Content:
    if content.type == "text" and content.text:
        judged = await judge(content.text)
        return (
            content
            if judged == content.text and not await _holds(border, content, "text")
            else Content.from_text(judged)
        )
    if content.type == "data" and str(content.media_type).startswith("image/"):
        image = data_of(content.uri)
        held = await border.picture(image) if image is not None else f"{NOTICE}: it is no picture]"
        if held is None and await _holds(border, content, "uri"):
            held = f"{NOTICE}: something beside a picture is held]"
        return content if held is None else Content.from_text(held)
    if content.type == "function_result" and content.items:
        items = [await _cleaned(border, item, border.tool) for item in content.items]
        beside = await _holds(border, content, "items", "result")
        if not beside and all(new is old for new, old in zip(items, content.items, strict=True)):
            return content
        return Content.from_function_result(_call(content), result=items)
    if content.type == "function_result":
        done = await border.clean(content.result, border.tool)
        if done.changed or await _holds(border, content, "result"):
            return Content.from_function_result(_call(content), result=done.value)
        return content
    if content.type == "function_call":
        done = await border.clean([content.name, content.arguments], border.said)
        held = done.whole or f"{NOTICE}: a call is held]"
        beside = bool(done.changed) or await _holds(border, content, "name", "arguments")
        return Content.from_text(held) if beside else content
    done = await border.clean(content.to_dict(exclude={"raw_representation"}), judge, dialect="langchain")
    return Content.from_text(done.whole or f"{NOTICE}: it is held]") if done.changed else content


def _call(content: Content) -> str:
    """The id of a call, where it is one."""
    key = str(content.call_id)
    return key if cannot_carry_text(key, ID) else "withheld"


async def _holds(border: Border, content: Content, *read: str) -> bool:
    """Whether a field beside those in ``read`` is held: annotations, errors, properties."""
    rest = content.to_dict(exclude={"raw_representation", *read})
    return bool((await border.clean(rest, border.document, dialect="langchain")).changed)


def guard_middleware(guard: Guard | SyncGuard, *, agent: str = "agent") -> list[Any]:
    """For ``Agent(middleware=...)``: judges inputs and answers of models, and results of functions."""
    border = Border(guard, agent)
    return [GuardChat(border), GuardFunctions(border)]


class GuardChat(ChatMiddleware):
    """Judges a model's input and answer; a stream is held back until all of it was judged."""

    def __init__(self, border: Border) -> None:
        self._border = border

    async def process(self, context: ChatContext, call_next: Callable[[], Awaitable[None]]) -> None:
        """Judge, ask, judge."""
        context.messages = await self._cleaned_input(still(list(context.messages)))
        await call_next()
        if isinstance(context.result, ChatResponse):
            await self._clean(context.result)
        elif context.result is not None:
            context.result = self._held_back(context.result)

    async def _cleaned_input(self, messages: Sequence[Message]) -> list[Message]:
        """The input of a model: a history, and the words of the present turn behind it. What the framework marks as a
        provider's is not the user's."""
        roles = [_role(message) for message in messages]
        earlier, last = earlier_turns(roles), len(roles) - 1 - roles[::-1].index("user") if "user" in roles else -1

        def past(place: int, message: Message) -> bool | None:
            if _ATTRIBUTION in message.additional_properties:
                return True
            return None if place == last else place in earlier

        return [
            await cleaned_message(self._border, message, earlier=True, past=past(place, message))
            for place, message in enumerate(messages)
        ]

    async def _clean(self, response: ChatResponse[Any]) -> bool:
        """Put notices in place of held parts of an answer; whether there were any."""
        answered = still(list(response.messages))
        done = [await cleaned_message(self._border, message) for message in answered]
        held = any(new is not old for new, old in zip(done, answered, strict=True))
        response.messages = done
        rest = response.to_dict(exclude={"messages", "raw_representation"})
        if (await self._border.clean(rest, self._border.said, dialect="langchain")).changed:
            response.additional_properties, response.response_id, response.conversation_id = {}, None, None
            held = True
        return held

    def _held_back(self, stream: Any) -> Any:
        async def judged() -> AsyncIterator[ChatResponseUpdate]:
            updates = [still(update) async for update in stream]
            response: ChatResponse[Any] = ChatResponse.from_updates(updates)
            rest = [update.to_dict(exclude={"contents", "raw_representation"}) for update in updates]
            beside = (await self._border.clean(rest, self._border.said, dialect="langchain")).changed
            if not await self._clean(response) and not beside:
                for update in updates:
                    yield update
                return
            for message in response.messages:
                yield ChatResponseUpdate(contents=message.contents, role=message.role, message_id=message.message_id)

        return ResponseStream(judged(), finalizer=ChatResponse.from_updates)


class GuardFunctions(FunctionMiddleware):
    """Asks before a function is called, where the policy says so, and judges its result."""

    def __init__(self, border: Border) -> None:
        self._border = border

    async def process(self, context: FunctionInvocationContext, call_next: Callable[[], Awaitable[None]]) -> None:
        """Ask, call, judge. A call that may not be made is answered with a notice."""
        function = context.function
        given = context.arguments
        arguments = given if isinstance(given, Mapping) else given.model_dump(mode="json") if given is not None else {}
        refused = await self._border.may_call(
            function.name, dict(arguments), description=function.description, schema=schema_of(function)
        )
        if refused is not None:
            context.result = refused
            return
        with called_by(self._border.agent):
            await call_next()
        result = still(context.result)
        if isinstance(result, list):
            judge = partial(self._border.tool, name=function.name)
            context.result = [
                await _cleaned(self._border, part, judge)
                if isinstance(part, Content)
                else await self._border.answered(part, function.name)
                for part in result
            ]
        elif result is not None:
            context.result = await self._border.answered(result, function.name)


def guard_history(guard: Guard | SyncGuard, history: HistoryProvider, *, agent: str = "agent") -> GuardedHistory:
    """The same history behind the guard: held content is neither kept nor shown."""
    return GuardedHistory(history, Border(guard, agent))


class GuardedHistory(HistoryProvider):
    """A history that puts a notice in place of each held part of its messages."""

    def __init__(self, history: HistoryProvider, border: Border) -> None:
        super().__init__(
            history.source_id,
            load_messages=history.load_messages,
            store_inputs=history.store_inputs,
            store_context_messages=history.store_context_messages,
            store_context_from=history.store_context_from,
            store_outputs=history.store_outputs,
        )
        self._history, self._border = history, border

    async def get_messages(self, session_id: str | None, **more: Any) -> list[Message]:
        """The messages, with notices in place of parts that are held now."""
        found = await self._history.get_messages(session_id, **more)
        return [await cleaned_message(self._border, message, earlier=True, past=True) for message in still(list(found))]

    async def save_messages(self, session_id: str | None, messages: Sequence[Message], **more: Any) -> None:
        """Keep messages, with notices in place of held parts."""
        done = [
            await cleaned_message(self._border, message, past=_ATTRIBUTION in message.additional_properties or None)
            for message in still(list(messages))
        ]
        await self._history.save_messages(session_id, done, **more)
