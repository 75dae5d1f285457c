"""LangGraph: a guarded store, a guarded checkpointer, guarded tools and guarded node inputs.

>>> store = guard_store(guard, InMemoryStore(), agent="crew")                          # doctest: +SKIP
>>> saver = guard_checkpointer(guard, InMemorySaver(), agent="crew")                   # doctest: +SKIP
>>> tools = ToolNode([search], **guarded_tools(guard, agent="scout"))                  # doctest: +SKIP
>>> graph.add_node("clerk", guard_node(guard, clerk, agent="clerk"))                   # doctest: +SKIP
"""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lazaretto.adapters.border import Border, agent_name
from lazaretto.adapters.content import cleaned_content
from lazaretto.errors import MissingExtra
from lazaretto.foreign.records import Entry
from lazaretto.types import Ref

if TYPE_CHECKING:
    from lazaretto.guard import Guard
    from lazaretto.sync_guard import SyncGuard

try:
    from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
    from langgraph.checkpoint.base import (
        BaseCheckpointSaver,
        ChannelVersions,
        Checkpoint,
        CheckpointMetadata,
        CheckpointTuple,
    )
    from langgraph.store.base import BaseStore, GetOp, Item, ListNamespacesOp, Op, PutOp, Result, SearchOp
    from langgraph.types import Command
except ImportError:
    raise MissingExtra("the LangGraph adapter", "langgraph") from None

SYSTEM = "langgraph"
_ROUNDS = 5
"""How often a search is asked again for more, where some of what it found is held."""


# the store


def guard_store(
    guard: Guard | SyncGuard, store: BaseStore, *, agent: str = "agent", system: str = SYSTEM
) -> GuardedStore:
    """The same store behind the guard: what is held is not written and not found, and repairs reach the store itself.

    Two stores of one crew need two names (``system``).
    """
    border = Border(guard, agent)
    border.guard.join(system, StoreRecords(store))
    return GuardedStore(store, border, system)


class GuardedStore(BaseStore):
    """A LangGraph store that asks before it writes and before it shows."""

    def __init__(self, store: BaseStore, border: Border, system: str = SYSTEM) -> None:
        self._store, self._border, self._system = store, border, system
        self.supports_ttl = store.supports_ttl
        self.ttl_config = store.ttl_config

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Every operation, reads before writes as LangGraph's own stores do it."""

        async def inner(wanted: Sequence[Op]) -> list[Result]:
            return self._store.batch(wanted) if wanted else []

        return self._border.wait(self._batch, list(ops), inner)

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Every operation, reads before writes as LangGraph's own stores do it."""

        async def inner(wanted: Sequence[Op]) -> list[Result]:
            return await self._store.abatch(wanted) if wanted else []

        return await self._batch(list(ops), inner)

    async def _batch(self, ops: list[Op], inner: Callable[[Sequence[Op]], Awaitable[list[Result]]]) -> list[Result]:
        results: list[Result] = [None] * len(ops)
        reads = [place for place, op in enumerate(ops) if not isinstance(op, PutOp)]
        for place, found in zip(reads, await inner([ops[place] for place in reads]), strict=True):
            results[place] = await self._shown(ops[place], found, inner)
        last = {(op.namespace, op.key): place for place, op in enumerate(ops) if isinstance(op, PutOp)}
        allowed = [op for place in sorted(last.values()) if isinstance(op := ops[place], PutOp) and await self._may(op)]
        await inner(allowed)
        return results

    async def _may(self, op: PutOp) -> bool:
        ref = Ref(self._system, ".".join(op.namespace), op.key)
        if op.value is None:
            return await self._border.forget(ref)
        return await self._border.keep(ref, op.value)

    async def _shown(self, op: Op, found: Result, inner: Callable[[Sequence[Op]], Awaitable[list[Result]]]) -> Result:
        if isinstance(op, GetOp):
            return found if isinstance(found, Item) and await self._readable([found]) else None
        if isinstance(op, ListNamespacesOp) or not isinstance(op, SearchOp) or not isinstance(found, list):
            return found
        shown = await self._readable(found)
        for _ in range(_ROUNDS):
            if len(shown) >= op.limit or len(found) < op.limit:
                break
            more = await inner([op._replace(offset=op.offset + len(found))])
            page = more[0] if isinstance(more[0], list) else []
            shown += await self._readable(page)
            found = [*found, *page]
            if len(page) < op.limit:
                break
        return shown[: op.limit]

    async def _readable(self, items: Sequence[Any]) -> list[Any]:
        refs = [(Ref(self._system, ".".join(item.namespace), item.key), item.value) for item in items]
        shown = await self._border.readable(refs)
        return [item for item, (ref, _) in zip(items, refs, strict=True) if ref in shown]


class StoreRecords:
    """A LangGraph store as repairs write to it."""

    def __init__(self, store: BaseStore) -> None:
        self._store = store

    def get(self, namespace: str, key: str) -> Any:
        """The value of a record; None when there is none."""
        found = self._store.get(tuple(namespace.split(".")), key)
        return None if found is None else found.value

    def put(self, namespace: str, key: str, value: Any) -> None:
        """Write a record; LangGraph's values are mappings."""
        self._store.put(tuple(namespace.split(".")), key, value if isinstance(value, dict) else {"text": value})

    def delete(self, namespace: str, key: str) -> None:
        """Take a record away."""
        self._store.delete(tuple(namespace.split(".")), key)

    def list(self, namespace: str | None = None) -> Iterator[Entry]:
        """Every record, namespace by namespace."""
        wanted = [tuple(namespace.split("."))] if namespace is not None else self._namespaces()
        for name in wanted:
            start, page = 0, 500
            while found := self._store.search(name, limit=page, offset=start):
                yield from ((".".join(one.namespace), one.key, one.value) for one in found if one.namespace == name)
                start += page

    def _namespaces(self) -> Iterator[tuple[str, ...]]:
        start = 0
        while names := self._store.list_namespaces(limit=500, offset=start):
            yield from names
            start += 500


# messages and state


async def cleaned_message(border: Border, message: BaseMessage, agent: str | None = None) -> BaseMessage:
    """A message with a notice for what is held in it; what an agent is about to do with tools is read too."""
    who = agent_name(message.name) if message.name else agent

    async def judge(text: str) -> str:
        if isinstance(message, ToolMessage):
            return await border.tool(text, agent=agent)
        if isinstance(message, AIMessage):
            return await border.said(text, agent=who)
        if isinstance(message, HumanMessage):
            return await border.user(text, agent=agent)
        return text if isinstance(message, SystemMessage) else await border.document(text, agent=agent)

    update: dict[str, Any] = {}
    content = await cleaned_content(border, message.content, judge, agent)
    if content != message.content:
        update["content"] = content
    if isinstance(message, AIMessage) and message.tool_calls:
        wanted = [await border.cleaned(call["args"], judge) for call in message.tool_calls]
        if any(new is not call["args"] for new, call in zip(wanted, message.tool_calls, strict=True)):
            held = next(text for text in map(str, wanted) if "withheld by lazaretto" in text)
            update |= {"tool_calls": [], "content": update.get("content", content) or f"[a tool call was {held}]"}
    return message.model_copy(update=update) if update else message


async def cleaned_state(border: Border, value: Any, agent: str | None = None) -> Any:
    """A state, or any part of one, with a notice for what is held in it."""
    if isinstance(value, BaseMessage):
        return await cleaned_message(border, value, agent)
    if isinstance(value, Mapping):
        done = {key: await cleaned_state(border, inner, agent) for key, inner in value.items()}
        return done if any(done[key] is not value[key] for key in done) else value
    if isinstance(value, list):
        parts = [await cleaned_state(border, inner, agent) for inner in value]
        return parts if any(new is not old for new, old in zip(parts, value, strict=True)) else value
    if isinstance(value, str):
        return await border.document(value, agent=agent)
    return value


# the checkpointer


def guard_checkpointer(
    guard: Guard | SyncGuard, saver: BaseCheckpointSaver[Any], *, agent: str = "agent"
) -> GuardedSaver:
    """The same checkpointer behind the guard: a state is judged when it is saved and when it is resumed."""
    return GuardedSaver(saver, Border(guard, agent))


class GuardedSaver(BaseCheckpointSaver[Any]):
    """A checkpointer in whose states everything that is held gives way to a notice."""

    def __init__(self, saver: BaseCheckpointSaver[Any], border: Border) -> None:
        super().__init__(serde=saver.serde)
        self._saver, self._border = saver, border

    @property
    def config_specs(self) -> list[Any]:
        """Those of the saver behind it."""
        return self._saver.config_specs

    def get_next_version(self, current: Any, channel: None) -> Any:
        """As the saver behind it counts."""
        return self._saver.get_next_version(current, channel)

    def with_allowlist(self, extra_allowlist: Collection[tuple[str, ...]]) -> GuardedSaver:
        """A clone whose saver takes more types."""
        clone = copy.copy(self)
        clone._saver = self._saver.with_allowlist(extra_allowlist)
        clone.serde = clone._saver.serde
        return clone

    async def _clean(self, checkpoint: Checkpoint) -> Checkpoint:
        values = await cleaned_state(self._border, checkpoint["channel_values"])
        return checkpoint if values is checkpoint["channel_values"] else {**checkpoint, "channel_values": values}

    async def _clean_writes(self, writes: Sequence[tuple[str, Any]]) -> Sequence[tuple[str, Any]]:
        return [(channel, await cleaned_state(self._border, value)) for channel, value in writes]

    async def _clean_tuple(self, found: CheckpointTuple | None) -> CheckpointTuple | None:
        if found is None:
            return None
        writes = found.pending_writes
        if writes is not None:
            writes = [(task, channel, await cleaned_state(self._border, value)) for task, channel, value in writes]
        return found._replace(checkpoint=await self._clean(found.checkpoint), pending_writes=writes)

    def put(
        self, config: Any, checkpoint: Checkpoint, metadata: CheckpointMetadata, new_versions: ChannelVersions
    ) -> Any:
        """Save a state, without what is held."""
        return self._saver.put(config, self._border.wait(self._clean, checkpoint), metadata, new_versions)

    async def aput(
        self, config: Any, checkpoint: Checkpoint, metadata: CheckpointMetadata, new_versions: ChannelVersions
    ) -> Any:
        """Save a state, without what is held."""
        return await self._saver.aput(config, await self._clean(checkpoint), metadata, new_versions)

    def put_writes(self, config: Any, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = "") -> None:
        """Save what a task wrote, without what is held."""
        self._saver.put_writes(config, self._border.wait(self._clean_writes, writes), task_id, task_path)

    async def aput_writes(
        self, config: Any, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Save what a task wrote, without what is held."""
        await self._saver.aput_writes(config, await self._clean_writes(writes), task_id, task_path)

    def get_tuple(self, config: Any) -> CheckpointTuple | None:
        """A state, without what is held by now."""
        return self._border.wait(self._clean_tuple, self._saver.get_tuple(config))

    async def aget_tuple(self, config: Any) -> CheckpointTuple | None:
        """A state, without what is held by now."""
        return await self._clean_tuple(await self._saver.aget_tuple(config))

    def list(
        self, config: Any, *, filter: dict[str, Any] | None = None, before: Any = None, limit: int | None = None
    ) -> Iterator[CheckpointTuple]:
        """States, without what is held by now."""
        for found in self._saver.list(config, filter=filter, before=before, limit=limit):
            shown = self._border.wait(self._clean_tuple, found)
            if shown is not None:
                yield shown

    async def alist(
        self, config: Any, *, filter: dict[str, Any] | None = None, before: Any = None, limit: int | None = None
    ) -> AsyncIterator[CheckpointTuple]:
        """States, without what is held by now."""
        async for found in self._saver.alist(config, filter=filter, before=before, limit=limit):
            shown = await self._clean_tuple(found)
            if shown is not None:
                yield shown

    def delete_thread(self, thread_id: str) -> None:
        """As the saver behind it does."""
        self._saver.delete_thread(thread_id)

    async def adelete_thread(self, thread_id: str) -> None:
        """As the saver behind it does."""
        await self._saver.adelete_thread(thread_id)

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """As the saver behind it does."""
        self._saver.delete_for_runs(run_ids)

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """As the saver behind it does."""
        await self._saver.adelete_for_runs(run_ids)

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """As the saver behind it does."""
        self._saver.copy_thread(source_thread_id, target_thread_id)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """As the saver behind it does."""
        await self._saver.acopy_thread(source_thread_id, target_thread_id)

    def prune(self, thread_ids: Sequence[str], **more: Any) -> None:
        """As the saver behind it does."""
        self._saver.prune(thread_ids, **more)

    async def aprune(self, thread_ids: Sequence[str], **more: Any) -> None:
        """As the saver behind it does."""
        await self._saver.aprune(thread_ids, **more)


# tools and nodes


def guarded_tools(guard: Guard | SyncGuard, *, agent: str = "agent") -> dict[str, Any]:
    """Arguments for ``ToolNode``: what its tools return is judged before anybody reads it."""
    border = Border(guard, agent)

    async def clean(result: ToolMessage | Command[Any]) -> Any:
        if isinstance(result, ToolMessage):
            return await cleaned_message(border, result)
        return Command(
            graph=result.graph,
            update=await cleaned_state(border, result.update),
            resume=result.resume,
            goto=result.goto,
        )

    def wrap(request: Any, execute: Callable[[Any], Any]) -> Any:
        return border.wait(clean, execute(request))

    async def awrap(request: Any, execute: Callable[[Any], Awaitable[Any]]) -> Any:
        return await clean(await execute(request))

    return {"wrap_tool_call": wrap, "awrap_tool_call": awrap}


def guard_node(guard: Guard | SyncGuard, node: Callable[..., Any], *, agent: str) -> Callable[..., Any]:
    """A node that is handed a judged state: messages that other agents sent to it are exchanges between the two.

    LangGraph has no hook for handoffs (``Command``, ``Send``); they all end as the input of a node.
    """
    border = Border(guard, agent)

    async def clean(state: Any) -> Any:
        if not isinstance(state, Mapping):
            return await cleaned_state(border, state)
        done = {key: await cleaned_state(border, inner) for key, inner in state.items() if key != "messages"}
        if "messages" in state:
            done["messages"] = [await _received(border, message) for message in state["messages"]]
        return {key: done[key] for key in state}

    if inspect.iscoroutinefunction(node):

        @functools.wraps(node)
        async def guarded(state: Any, *arguments: Any, **named: Any) -> Any:
            return await node(await clean(state), *arguments, **named)

        return guarded

    @functools.wraps(node)
    def waited(state: Any, *arguments: Any, **named: Any) -> Any:
        return node(border.wait(clean, state), *arguments, **named)

    return waited


async def _received(border: Border, message: Any) -> Any:
    """A message as its receiver may read it; what another agent wrote came from that agent."""
    by = agent_name(message.name) if isinstance(message, AIMessage) and message.name else border.agent
    if by == border.agent:
        return await cleaned_state(border, message)

    async def judge(text: str) -> str:
        return await border.message(text, sender=by, receiver=border.agent)

    content = await cleaned_content(border, message.content, judge)
    return message if content == message.content else message.model_copy(update={"content": content})
