"""CrewAI: the storage backend of its memory, and hooks for tools and models.

CrewAI saves in the background and swallows errors, so nothing here raises: held content is left out and logged.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial, wraps
from typing import TYPE_CHECKING, Any

from lazaretto.adapters.border import NOTICE, WITHHELD, Border, agent_name, schema_of
from lazaretto.errors import LazarettoError, MissingExtra
from lazaretto.external_stores.records import Entry
from lazaretto.ingest.opening import still
from lazaretto.ingest.strings import ID, cannot_carry_text
from lazaretto.types import Ref

if TYPE_CHECKING:
    from lazaretto.guard import Guard
    from lazaretto.guard.sync_guard import SyncGuard

try:
    from crewai import hooks
    from crewai.memory.types import MemoryRecord
except ImportError:
    raise MissingExtra("the CrewAI adapter", "crewai") from None

log = logging.getLogger("lazaretto")
SYSTEM = "crewai"
Embed = Callable[[str], list[float]]
Hook = Callable[[Any], Any]
_UNJUDGED = f"{NOTICE}: it could not be judged]"
_REFUSED = f"{NOTICE}: it was not stored]"


def guard_storage(
    guard: Guard | SyncGuard, storage: Any, *, agent: str = "agent", embed: Embed | None = None, system: str = SYSTEM
) -> GuardedStorage:
    """The same storage backend behind the guard, for ``Memory(storage=...)``.

    ``agent`` is the writer and reader of every record that passes: give each agent of a crew a guarded storage of its
    own around the one they share. A record's ``source`` is what it says of itself, and makes nobody another voice.
    ``embed`` makes the vector of a record that a repair puts back; without it, such records stay due.
    """
    border = Border(guard, agent)
    border.guard.stores.join(system, StorageRecords(storage, embed))
    return GuardedStorage(storage, border, system)


class GuardedStorage:
    """A storage backend that asks before it writes and before it shows."""

    def __init__(self, storage: Any, border: Border, system: str = SYSTEM) -> None:
        self._storage, self._border, self._system = storage, border, system

    def __getattr__(self, name: str) -> Any:
        return getattr(self._storage, name)

    def _ref(self, record: MemoryRecord) -> Ref:
        return Ref(self._system, record.scope, record.id)

    async def _allowed(self, records: Sequence[MemoryRecord]) -> list[MemoryRecord]:
        kept = []
        for given in records:
            record = still(given)
            try:
                if not await self._beside(record):
                    log.warning("a memory was not stored: something beside its text is held: %s", self._system)
                elif (
                    await self._may_move(record)
                    and (content := await self._border.kept(self._ref(record), record.content, claimed=record.source))
                    is not WITHHELD
                ):
                    record.content = content  # unchanged or rewritten
                    kept.append(record)
                    continue
            except LazarettoError:
                log.exception("a memory could not be judged and is not stored: %s", record.id)
            _empty(given)
        return kept

    async def _shown(self, records: Sequence[MemoryRecord]) -> list[MemoryRecord]:
        try:
            records = [record for record in records if await self._beside(record)]
            shown = await self._border.readable([(self._ref(record), record.content) for record in records])
        except LazarettoError:
            log.exception("%d memories could not be judged and are not shown", len(records))
            return []
        return [record for record in records if self._ref(record) in shown]

    async def _may_move(self, record: MemoryRecord) -> bool:
        """Whether a record may stand in its scope: what stands under its id in another scope gives way to it."""
        found = self._storage.get_record(record.id)
        return found is None or found.scope == record.scope or await self._border.forget(self._ref(found))

    async def _beside(self, record: MemoryRecord) -> bool:
        """Whether the fields of a record beside its text may be used: categories, metadata, scope, source."""
        names = ("content", "embedding", "id", "created_at", "last_accessed", "importance", "private")
        rest = {name: value for name, value in vars(record).items() if name not in names}
        done = await self._border.clean(rest, self._border.document, dialect="langchain")
        return not done.changed

    def save(self, records: list[MemoryRecord]) -> None:
        """Save the records that are not held."""
        allowed = self._border.wait(self._allowed, records)
        if allowed:
            self._storage.save(allowed)

    async def asave(self, records: list[MemoryRecord]) -> None:
        """Save the records that are not held."""
        allowed = await self._allowed(records)
        if allowed:
            await self._storage.asave(allowed)

    def update(self, record: MemoryRecord) -> None:
        """Change a record; a held change is not written."""
        for allowed in self._border.wait(self._allowed, [record]):
            self._storage.update(allowed)

    def delete(self, *arguments: Any, **which: Any) -> int:
        """Delete the records that are meant and that the agent may delete; the guard notes which."""
        gone = self._border.wait(self._deletable, *arguments, **which)
        return int(self._storage.delete(record_ids=gone)) if gone else 0

    async def adelete(self, *arguments: Any, **which: Any) -> int:
        """Delete the records that are meant and that the agent may delete; the guard notes which."""
        gone = await self._deletable(*arguments, **which)
        return int(await self._storage.adelete(record_ids=gone)) if gone else 0

    async def _deletable(
        self,
        scope_prefix: str | None = None,
        categories: Sequence[str] | None = None,
        record_ids: Sequence[str] | None = None,
        older_than: Any = None,
        metadata_filter: Mapping[str, Any] | None = None,
    ) -> list[str]:
        """The ids of the records that all conditions mean, without those of other writers."""

        def is_meant(record: MemoryRecord) -> bool:
            metadata = record.metadata or {}
            return (
                (not record_ids or record.id in record_ids)
                and (not categories or any(name in record.categories for name in categories))
                and (older_than is None or record.created_at < older_than)
                and all(metadata.get(name) == value for name, value in (metadata_filter or {}).items())
            )

        if record_ids:
            found = [record for name in record_ids if (record := self._storage.get_record(name)) is not None]
        else:
            found = list(_records(self._storage, scope_prefix))
        return [record.id for record in found if is_meant(record) and await self._border.forget(self._ref(record))]

    def search(self, *arguments: Any, **named: Any) -> list[tuple[MemoryRecord, float]]:
        """Records that the agent may read."""
        return self._border.wait(self._hits, self._storage.search(*arguments, **named))

    async def asearch(self, *arguments: Any, **named: Any) -> list[tuple[MemoryRecord, float]]:
        """Records that the agent may read."""
        return await self._hits(await self._storage.asearch(*arguments, **named))

    async def _hits(self, found: list[tuple[MemoryRecord, float]]) -> list[tuple[MemoryRecord, float]]:
        found = still(list(found))
        shown = {record.id for record in await self._shown([record for record, _ in found])}
        return [(record, score) for record, score in found if record.id in shown]

    def get_record(self, record_id: str) -> MemoryRecord | None:
        """A record that may be read."""
        found = self._storage.get_record(record_id)
        return None if found is None else next(iter(self._border.wait(self._shown, still([found]))), None)

    def list_records(self, *arguments: Any, **named: Any) -> list[MemoryRecord]:
        """Records that may be read."""
        return self._border.wait(self._shown, still(self._storage.list_records(*arguments, **named)))

    def list_scopes(self, *arguments: Any, **named: Any) -> list[str]:
        """Names of scopes that may be read."""
        return self._border.wait(self._names, self._storage.list_scopes(*arguments, **named))

    def list_categories(self, *arguments: Any, **named: Any) -> dict[str, int]:
        """Names of categories that may be read, with their counts."""
        counts = self._storage.list_categories(*arguments, **named)
        return {name: counts[name] for name in self._border.wait(self._names, list(counts))}

    def get_scope_info(self, *arguments: Any, **named: Any) -> Any:
        """The information about a scope, without held names."""
        found = self._storage.get_scope_info(*arguments, **named)
        names = {part: self._border.wait(self._names, getattr(found, part)) for part in ("categories", "child_scopes")}
        return found.model_copy(update=names)

    async def _names(self, names: Sequence[str]) -> list[str]:
        try:
            return [name for name in names if await self._border.names(name)]
        except LazarettoError:
            log.exception("%d names could not be judged and are not shown", len(names))
            return []


def _empty(record: MemoryRecord) -> None:
    """Put a notice in a record that is not stored: CrewAI hands the same object back to its caller."""
    record.content, record.scope, record.source = _REFUSED, "/", None
    record.categories, record.metadata, record.embedding = [], {}, None
    record.id = record.id if cannot_carry_text(record.id, ID) else "withheld"


class StorageRecords:
    """A CrewAI storage backend, as repairs use it."""

    def __init__(self, storage: Any, embed: Embed | None) -> None:
        self._storage, self._embed = storage, embed

    def get(self, namespace: str, key: str) -> Any:
        """The text of a record; None when there is none."""
        found = self._storage.get_record(key)
        return None if found is None else found.content

    def put(self, namespace: str, key: str, value: Any) -> None:
        """Write a record with a vector of its text."""
        if self._embed is None:
            raise RuntimeError("no embed= was given to guard_storage, so no vector can be made for it")
        record = MemoryRecord(id=key, content=value, scope=namespace, embedding=self._embed(value))
        self.delete(namespace, key)
        self._storage.save([record])

    def delete(self, namespace: str, key: str) -> None:
        """Take a record away."""
        self._storage.delete(record_ids=[key])

    def list(self, namespace: str | None = None) -> Iterator[Entry]:
        """Every record, or those of one scope."""
        for record in _records(self._storage, namespace):
            if namespace in (None, record.scope):
                yield record.scope, record.id, record.content


def _records(storage: Any, scope_prefix: str | None) -> Iterator[MemoryRecord]:
    """The records of a storage backend below a scope, page by page."""
    start = 0
    while found := storage.list_records(scope_prefix=scope_prefix, limit=200, offset=start):
        yield from found
        start += 200


@contextmanager
def guarded_hooks(guard: Guard | SyncGuard, *, agent: str = "agent") -> Iterator[None]:
    """Inside the block, tool results and models' inputs and answers of every crew of this process are judged.

    CrewAI's hooks belong to the process, not to a crew. Where the policy has a table ``[actions]``, each call of a tool
    is asked about first; CrewAI itself tells the model that one was blocked, and the log says which and why.
    """
    border = Border(guard, agent)

    def who(context: Any) -> str:
        return agent_name(getattr(context.agent, "role", None) or border.agent)

    def closed(instead: Any) -> Callable[[Hook], Hook]:
        """CrewAI goes on where a hook raises; where one of ours does, the text it had to judge is withheld."""

        def made(hook: Hook) -> Hook:
            @wraps(hook)
            def safe(context: Any) -> Any:
                try:
                    return hook(context)
                except Exception:
                    log.exception("something could not be judged and is withheld")
                    return instead

            return safe

        return made

    @closed(False)
    def before_tool(context: Any) -> bool | None:
        details = {"description": getattr(context.tool, "description", ""), "schema": schema_of(context.tool)}
        refused = border.wait(
            border.may_call, context.tool_name, context.tool_input or {}, agent=who(context), **details
        )
        if refused is not None:
            log.warning("%s: %s", context.tool_name, refused)
        return None if refused is None else False

    @closed(_UNJUDGED)
    def after_tool(context: Any) -> str | None:
        name, result = who(context), context.tool_result
        judge = partial(border.tool, agent=name, name=context.tool_name, answer=result)
        done = border.wait(border.clean, result, judge, agent=name)
        return str(done.value) if done.changed else None

    @closed(False)
    def before_model(context: Any) -> None:
        for place, message in enumerate(context.messages):
            value = still(dict(message) if isinstance(message, Mapping) else message)
            role = value.get("role") if isinstance(value, dict) else getattr(value, "role", None)
            by = {"tool": border.tool, "assistant": border.earlier, "system": border.system}
            name, judge = who(context), by.get(str(role), border.document)
            done = border.wait(border.clean, value, partial(judge, agent=name), agent=name, dialect="openai-chat")
            instead = {"role": role, "content": done.whole}
            context.messages[place] = done.value if done.whole is None else instead

    @closed(_UNJUDGED)
    def after_model(context: Any) -> str | None:
        name, answer = who(context), context.response
        value = _of_json(answer)
        done = border.wait(
            border.clean, answer if value is None else value, partial(border.said, agent=name), agent=name
        )
        if not done.changed:
            return None
        return str(done.value) if value is None else json.dumps(done.value, ensure_ascii=False)

    hooks.register_before_tool_call_hook(before_tool)
    hooks.register_after_tool_call_hook(after_tool)
    hooks.register_before_llm_call_hook(before_model)
    hooks.register_after_llm_call_hook(after_model)
    try:
        yield
    finally:
        hooks.unregister_before_tool_call_hook(before_tool)
        hooks.unregister_after_tool_call_hook(after_tool)
        hooks.unregister_before_llm_call_hook(before_model)
        hooks.unregister_after_llm_call_hook(after_model)


def _of_json(answer: Any) -> Any:
    """The object of a structured answer; None for any other answer. Notices go inside the object, because CrewAI falls
    back to the unchanged answer where the changed one is no such object."""
    try:
        value = json.loads(answer) if isinstance(answer, str) else None
    except ValueError:
        return None
    return value if isinstance(value, (dict, list)) else None
