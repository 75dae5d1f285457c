"""LangGraph: a guarded store, a guarded checkpointer, guarded tools and guarded node inputs.

>>> store = guard_store(guard, InMemoryStore())                                        # doctest: +SKIP
>>> saver = guard_checkpointer(guard, InMemorySaver())                                 # doctest: +SKIP
>>> tools = ToolNode([search], **guarded_tools(guard))                                 # doctest: +SKIP
>>> graph.add_node("clerk", guard_node(guard, clerk))                                  # doctest: +SKIP

The acting agent is the running node, by its name in the graph; ``agent=`` names another.
"""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from lazaretto.adapters.border import WITHHELD, Border, called_by
from lazaretto.adapters.langgraph_state import (
    acting_node,
    cleaned_message,
    cleaned_state,
    from_tool,
    is_followed,
    note_brought,
    note_history,
    note_input,
    note_written,
    runtime_config,
)
from lazaretto.errors import MissingExtra
from lazaretto.external_stores.records import Entry
from lazaretto.ingest.opening import still
from lazaretto.types import Ref, SourceClass

if TYPE_CHECKING:
    from lazaretto.guard import Guard
    from lazaretto.guard.sync_guard import SyncGuard

try:
    from langchain_core.messages import ToolMessage
    from langgraph.checkpoint.base import (
        BaseCheckpointSaver,
        ChannelVersions,
        Checkpoint,
        CheckpointMetadata,
        CheckpointTuple,
    )
    from langgraph.constants import START
    from langgraph.errors import GraphBubbleUp
    from langgraph.store.base import BaseStore, GetOp, Item, ListNamespacesOp, Op, PutOp, Result, SearchOp
    from langgraph.types import Command

    from lazaretto.adapters.langgraph_writers import GRAPH, SaverBorder
except ImportError:
    raise MissingExtra("the LangGraph adapter", "langgraph") from None

__all__ = ["cleaned_message", "guard_checkpointer", "guard_node", "guard_store", "guarded_tools"]
SYSTEM = "langgraph"
_GIVEN = {"source": "input"}
_MOST_TURNS = 1_000
"""The most turns of an older thread that are read for the inputs of the graph."""
_ROUNDS = 5
"""The most times a search is repeated for more hits, where some hits are held."""


# the store


def guard_store(
    guard: Guard | SyncGuard,
    store: BaseStore,
    *,
    agent: str | None = None,
    system: str = SYSTEM,
    source: SourceClass | str | None = None,
) -> GuardedStore:
    """The same store behind the guard: held values are not written and not found, and repairs reach the store itself.

    ``source``: the source class of written values, for example ``"tool_output_external"`` for a node that keeps web
    pages; without it, they are a model's conclusions. Two stores of one crew need two names (``system``).
    """
    border = Border(guard, agent, source=source, acting=acting_node)
    border.guard.stores.join(system, StoreRecords(store))
    return GuardedStore(store, border, system)


class GuardedStore(BaseStore):
    """A LangGraph store that asks before it writes and before it shows."""

    def __init__(self, store: BaseStore, border: Border, system: str = SYSTEM) -> None:
        self._store, self._border, self._system = store, border, system
        self.supports_ttl = store.supports_ttl
        self.ttl_config = store.ttl_config

    def writing(
        self, *, source: SourceClass | str | None = None, parents: Sequence[str] | None = None
    ) -> AbstractContextManager[None]:
        """Source and parents of the values that are put inside a ``with``.

        ``with store.writing(source="tool_output_external", parents=[page.item]): store.put(...)``
        """
        return self._border.writing(source=source, parents=parents)

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
        ops = [still(op) if isinstance(op, PutOp) else op for op in ops]
        results: list[Result] = [None] * len(ops)
        reads = [place for place, op in enumerate(ops) if not isinstance(op, PutOp)]
        for place, found in zip(reads, await inner([ops[place] for place in reads]), strict=True):
            results[place] = await self._shown(ops[place], found, inner)
        last = {(op.namespace, op.key): place for place, op in enumerate(ops) if isinstance(op, PutOp)}
        puts = [op for place in sorted(last.values()) if isinstance(op := ops[place], PutOp)]
        await inner([made for put in puts if (made := await self._allowed(put)) is not None])
        return results

    async def _allowed(self, op: PutOp) -> PutOp | None:
        """The write that may be done, rewritten where needed; None where it must not be done."""
        ref = Ref(self._system, ".".join(op.namespace), op.key)
        if op.value is None:
            return op if await self._border.forget(ref) else None
        kept = await self._border.kept(ref, op.value)
        return None if kept is WITHHELD else op if kept is op.value else op._replace(value=kept)

    async def _shown(self, op: Op, found: Result, inner: Callable[[Sequence[Op]], Awaitable[list[Result]]]) -> Result:
        found = still(found)
        if isinstance(op, GetOp):
            return found if isinstance(found, Item) and await self._readable([found]) else None
        if isinstance(op, ListNamespacesOp) and isinstance(found, list):
            return [name for name in found if isinstance(name, tuple) and await self._border.names(*name)]
        if not isinstance(op, SearchOp) or not isinstance(found, list):
            return found
        shown = await self._readable(found)
        for _ in range(_ROUNDS):
            if len(shown) >= op.limit or len(found) < op.limit:
                break
            more = await inner([op._replace(offset=op.offset + len(found))])
            page = still(more[0]) if isinstance(more[0], list) else []
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
    """A LangGraph store, as repairs use it."""

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
                yield from (
                    (".".join(item.namespace), item.key, item.value) for item in found if item.namespace == name
                )
                start += page

    def _namespaces(self) -> Iterator[tuple[str, ...]]:
        start = 0
        while names := self._store.list_namespaces(limit=500, offset=start):
            yield from names
            start += 500


# the checkpointer


def guard_checkpointer(
    guard: Guard | SyncGuard, saver: BaseCheckpointSaver[Any], *, agent: str | None = None
) -> GuardedSaver:
    """The same checkpointer behind the guard: a state is judged when it is saved and when it is resumed.

    It also sees the graph's input at every turn, and so which messages are the user's. A text is recorded under the
    node that wrote it, and under ``graph`` where no node is known or two wrote the same; ``agent`` names one agent for
    all.
    """
    return GuardedSaver(saver, SaverBorder(guard, agent, acting=lambda: acting_node() or GRAPH))


class GuardedSaver(BaseCheckpointSaver[Any]):
    """A checkpointer that puts a notice in place of each held part of a state."""

    def __init__(self, saver: BaseCheckpointSaver[Any], border: SaverBorder) -> None:
        super().__init__(serde=saver.serde)
        self._saver, self._border = saver, border

    @property
    def config_specs(self) -> list[Any]:
        """The ones of the wrapped saver."""
        return self._saver.config_specs

    def get_next_version(self, current: Any, channel: None) -> Any:
        """Calls the wrapped saver."""
        return self._saver.get_next_version(current, channel)

    def with_allowlist(self, extra_allowlist: Collection[tuple[str, ...]]) -> GuardedSaver:
        """A clone whose saver takes more types."""
        clone = copy.copy(self)
        clone._saver = self._saver.with_allowlist(extra_allowlist)
        clone.serde = clone._saver.serde
        return clone

    async def _clean(self, config: Any, checkpoint: Checkpoint, given: bool = False) -> Checkpoint:
        before = still(checkpoint["channel_values"])
        if given and START in before:
            note_input(self._border, config, before[START])
        values = await cleaned_state(self._border, before, config=config)
        return {**checkpoint, "channel_values": values}

    async def _clean_writes(
        self, config: Any, writes: Sequence[tuple[str, Any]], task_path: str = ""
    ) -> Sequence[tuple[str, Any]]:
        if task_path.endswith(START):
            note_input(self._border, config, [value for _, value in writes])
        with self._border.writer(task_path, [value for _, value in writes], config):
            return [
                (channel, await cleaned_state(self._border, still(value), config=config)) for channel, value in writes
            ]

    async def _clean_metadata(self, metadata: Any) -> Any:
        return await self._border.cleaned(still(metadata), self._border.document, dialect="langchain")

    async def _clean_tuple(self, found: CheckpointTuple | None, older: bool = False) -> CheckpointTuple | None:
        """``older``: another process may have written it."""
        if found is None:
            return None
        if older:
            note_history(self._border, found.config, found.checkpoint["channel_values"])
        writes = found.pending_writes
        if writes is not None:
            writes = [
                (task, channel, await cleaned_state(self._border, still(value), config=found.config))
                for task, channel, value in writes
            ]
        done = await self._clean(found.config, found.checkpoint)
        metadata = await self._clean_metadata(found.metadata)
        return found._replace(checkpoint=done, pending_writes=writes, metadata=metadata)

    def put(
        self, config: Any, checkpoint: Checkpoint, metadata: CheckpointMetadata, new_versions: ChannelVersions
    ) -> Any:
        """Save a state, with notices in place of held parts."""
        done = self._border.wait(self._clean, config, checkpoint, metadata.get("source") == "input")
        return self._saver.put(config, done, self._border.wait(self._clean_metadata, metadata), new_versions)

    async def aput(
        self, config: Any, checkpoint: Checkpoint, metadata: CheckpointMetadata, new_versions: ChannelVersions
    ) -> Any:
        """Save a state, with notices in place of held parts."""
        done = await self._clean(config, checkpoint, metadata.get("source") == "input")
        return await self._saver.aput(config, done, await self._clean_metadata(metadata), new_versions)

    def put_writes(self, config: Any, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = "") -> None:
        """Save the writes of a task, with notices in place of held parts."""
        done = self._border.wait(self._clean_writes, config, writes, task_path)
        self._saver.put_writes(config, done, task_id, task_path)

    async def aput_writes(
        self, config: Any, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Save the writes of a task, with notices in place of held parts."""
        done = await self._clean_writes(config, writes, task_path)
        await self._saver.aput_writes(config, done, task_id, task_path)

    def get_tuple(self, config: Any) -> CheckpointTuple | None:
        """A state, with notices in place of parts that are held now."""
        older, found = not is_followed(self._border, config), self._saver.get_tuple(config)
        if older:  # its own checkpoints hold its inputs
            for turn in self._saver.list(_whole_thread(config), filter=_GIVEN, limit=_MOST_TURNS):
                note_input(self._border, _whole_thread(config), turn.checkpoint["channel_values"].get(START))
        return self._border.wait(self._clean_tuple, found, older)

    async def aget_tuple(self, config: Any) -> CheckpointTuple | None:
        """A state, with notices in place of parts that are held now."""
        older, found = not is_followed(self._border, config), await self._saver.aget_tuple(config)
        if older:
            async for turn in self._saver.alist(_whole_thread(config), filter=_GIVEN, limit=_MOST_TURNS):
                note_input(self._border, _whole_thread(config), turn.checkpoint["channel_values"].get(START))
        return await self._clean_tuple(found, older)

    def list(
        self, config: Any, *, filter: dict[str, Any] | None = None, before: Any = None, limit: int | None = None
    ) -> Iterator[CheckpointTuple]:
        """States, with notices in place of parts that are held now."""
        for found in self._saver.list(config, filter=filter, before=before, limit=limit):
            shown = self._border.wait(self._clean_tuple, found)
            if shown is not None:
                yield shown

    async def alist(
        self, config: Any, *, filter: dict[str, Any] | None = None, before: Any = None, limit: int | None = None
    ) -> AsyncIterator[CheckpointTuple]:
        """States, with notices in place of parts that are held now."""
        async for found in self._saver.alist(config, filter=filter, before=before, limit=limit):
            shown = await self._clean_tuple(found)
            if shown is not None:
                yield shown

    def delete_thread(self, thread_id: str) -> None:
        """Calls the wrapped saver."""
        self._saver.delete_thread(thread_id)

    async def adelete_thread(self, thread_id: str) -> None:
        """Calls the wrapped saver."""
        await self._saver.adelete_thread(thread_id)

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Calls the wrapped saver."""
        self._saver.delete_for_runs(run_ids)

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Calls the wrapped saver."""
        await self._saver.adelete_for_runs(run_ids)

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Calls the wrapped saver."""
        self._saver.copy_thread(source_thread_id, target_thread_id)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Calls the wrapped saver."""
        await self._saver.acopy_thread(source_thread_id, target_thread_id)

    def prune(self, thread_ids: Sequence[str], **more: Any) -> None:
        """Calls the wrapped saver."""
        self._saver.prune(thread_ids, **more)

    async def aprune(self, thread_ids: Sequence[str], **more: Any) -> None:
        """Calls the wrapped saver."""
        await self._saver.aprune(thread_ids, **more)


def _whole_thread(config: Any) -> Any:
    inner = config.get("configurable") or {}
    return {"configurable": {"thread_id": inner.get("thread_id", ""), "checkpoint_ns": ""}}


# tools and nodes


def guarded_tools(guard: Guard | SyncGuard, *, agent: str | None = None) -> dict[str, Any]:
    """Arguments for ``ToolNode``: results of its tools, of any form, are judged before an agent reads them.

    Where the policy has a table ``[actions]``, each call is asked about first; one that may not be made is answered
    with a notice.
    """
    border = Border(guard, agent, acting=acting_node)

    async def clean(result: Any, name: str, config: Any) -> Any:
        result = still(result)
        note_brought(border, config, result)
        if isinstance(result, Command):
            return Command(
                graph=result.graph,
                update=await from_tool(border, result.update, name),
                resume=await from_tool(border, result.resume, name),
                goto=await from_tool(border, result.goto, name),
            )
        return await from_tool(border, result, name)

    async def readable_error(error: Exception) -> Exception:
        judged = await border.cleaned(error, border.tool)
        return error if judged is error else RuntimeError(str(judged))

    async def refused(request: Any) -> Any:
        """The message to the model where the last gate stops the call; None where it may be made."""
        call, tool = request.tool_call, getattr(request, "tool", None)
        details = {"description": getattr(tool, "description", ""), "schema": getattr(tool, "args", None)}
        details["schema"] = {"properties": details["schema"]} if details["schema"] else None
        notice = await border.may_call(call["name"], call.get("args") or {}, **details)
        return notice and ToolMessage(notice, tool_call_id=call.get("id") or "", name=call["name"], status="error")

    def wrap(request: Any, execute: Callable[[Any], Any]) -> Any:
        if (instead := border.wait(refused, request)) is not None:
            return instead
        try:
            with called_by(border.agent):
                result = execute(request)
        except GraphBubbleUp:
            raise
        except Exception as error:
            raise border.wait(readable_error, error) from None
        return border.wait(clean, result, request.tool_call["name"], runtime_config())

    async def awrap(request: Any, execute: Callable[[Any], Awaitable[Any]]) -> Any:
        if (instead := await refused(request)) is not None:
            return instead
        try:
            with called_by(border.agent):
                result = await execute(request)
        except GraphBubbleUp:
            raise
        except Exception as error:
            raise await readable_error(error) from None
        return await clean(result, request.tool_call["name"], runtime_config())

    return {"wrap_tool_call": wrap, "awrap_tool_call": awrap}


def guard_node(guard: Guard | SyncGuard, node: Callable[..., Any], *, agent: str | None = None) -> Callable[..., Any]:
    """A node that gets a judged state; messages from other agents in it are judged as exchanges between the two.

    LangGraph has no hook for handoffs (``Command``, ``Send``); they all end as the input of a node. A message of the
    user counts as the user's where it stood in the graph's input; one that a node wrote is that node's.
    """
    border = Border(guard, agent, acting=acting_node)

    async def clean(state: Any, config: Any) -> Any:
        return await cleaned_state(border, still(state), config=config, receiver=border.agent)

    def noted(written: Any, given: Any) -> Any:
        note_written(border, runtime_config(), written, border.agent, given)
        return written

    if inspect.iscoroutinefunction(node):

        @functools.wraps(node)
        async def guarded(state: Any, *arguments: Any, **named: Any) -> Any:
            given = await clean(state, runtime_config())
            return noted(await node(given, *arguments, **named), given)

        return guarded

    @functools.wraps(node)
    def waited(state: Any, *arguments: Any, **named: Any) -> Any:
        given = border.wait(clean, state, runtime_config())
        return noted(node(given, *arguments, **named), given)

    return waited
