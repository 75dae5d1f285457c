"""mem0: its vector store behind the guard. Wrapping ``add`` would see the chat, not the facts that mem0 stores."""

from __future__ import annotations

import hashlib
import inspect
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from functools import partial, wraps
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlencode
from uuid import uuid4

from lazaretto.adapters.border import NOTICE, WITHHELD, Border, cleaned_content
from lazaretto.errors import MissingExtra
from lazaretto.external_stores.records import Entry
from lazaretto.ingest.opening import still
from lazaretto.kept_texts import KeptTexts, digest
from lazaretto.types import Ref

if TYPE_CHECKING:
    from lazaretto.guard import Guard
    from lazaretto.guard.sync_guard import SyncGuard

try:
    from mem0.vector_stores.base import VectorStoreBase
except ImportError:
    raise MissingExtra("the mem0 adapter", "mem0") from None

SYSTEM = "mem0"
_SCOPES = ("user_id", "agent_id", "run_id")
_KNOWN = ("data", *_SCOPES, "hash", "created_at", "updated_at", "actor_id")
"""The fact, and fields that mem0 itself writes: they are read where they are more than ids and dates."""
_WORDS = "text_lemmatized"
"""The words of a fact as mem0's search by keywords has them; newer versions write it."""
_REFUSED = f"{NOTICE}: it was not stored]"
_MOST_REFUSED = 10_000
"""The most refused facts that are remembered: mem0 goes on as if they had been stored."""
_TEXT_BYTES = 1 << 20


def guard_memory(guard: Guard | SyncGuard, memory: Any, *, agent: str = "agent", system: str = SYSTEM) -> Any:
    """The same ``Memory``, its facts behind the guard: held ones are neither stored nor found, nor shown in a fact's
    history or in the result of ``add``; repairs reach them. ``agent`` is the writer and reader of every fact; the user
    and agent of a fact tell facts apart, and make nobody another voice."""
    border, refused = Border(guard, agent), RefusedFacts()
    memory.llm = GuardedReader(memory.llm, border)

    def again(_: Any = None) -> None:
        _guard_stores(memory, border, refused, system)

    again()
    memory.reset = _followed(memory.reset, again)  # it opens new stores
    memory.add = _followed(memory.add, partial(_shown_result, border, refused))
    return memory


def _guard_stores(memory: Any, border: Border, refused: RefusedFacts, system: str) -> None:
    if not isinstance(memory.vector_store, GuardedVectors):
        border.guard.stores.join(system, VectorRecords(memory.vector_store, memory.embedding_model))
        memory.vector_store = GuardedVectors(memory.vector_store, border, refused, system, memory.embedding_model)
    if not isinstance(memory.db, GuardedHistory):
        memory.db = GuardedHistory(memory.db, border, refused)


def _followed(call: Any, after: Any) -> Any:
    """The same call, sync or async, whose result passes through ``after``."""
    if inspect.iscoroutinefunction(call):

        @wraps(call)
        async def waited(*arguments: Any, **named: Any) -> Any:
            return after(await call(*arguments, **named))

        return waited

    @wraps(call)
    def done(*arguments: Any, **named: Any) -> Any:
        return after(call(*arguments, **named))

    return done


class RefusedFacts:
    """Facts that were not stored, or not as they were: mem0 goes on as if they had been, and hands them back."""

    def __init__(self) -> None:
        self._facts: OrderedDict[bytes, bool] = OrderedDict()
        """Digest of id and fact: whether another text was stored in its place."""
        self._texts: KeptTexts[str] = KeptTexts(_TEXT_BYTES, len)

    def add(self, key: Any, fact: Any, instead: str | None = None) -> None:
        """Remember a refused fact, and the text stored in its place."""
        mark = digest(str(key), str(fact))
        self._facts[mark] = instead is not None
        if instead is not None and self._texts.get(mark) is None:  # asked first: put needs it
            self._texts.put(mark, instead)
        while len(self._facts) > _MOST_REFUSED:
            self._facts.popitem(last=False)

    def has(self, key: Any, fact: Any) -> bool:
        """Whether this text was refused under this id, or the text stored in its place was forgotten."""
        mark = digest(str(key), str(fact))
        return mark in self._facts and not (self._facts[mark] and self._texts.get(mark) is not None)

    def instead(self, key: Any, fact: Any) -> Any:
        """The text stored in place of this one under this id; the text itself where it was stored unchanged."""
        return self._texts.get(digest(str(key), str(fact))) or fact


def _shown_result(border: Border, refused: RefusedFacts, result: Any) -> Any:
    """The result of ``add``, with a notice for each fact that was not stored."""
    rows = result.get("results") if isinstance(result, dict) else result
    if not isinstance(rows, list):
        return result
    shown = [_row(row, refused) for row in rows]
    if not isinstance(result, dict):
        return shown
    others = {name: value for name, value in result.items() if name != "results"}
    others = border.wait(border.cleaned, others, border.document, dialect="langchain") if others else others
    return {"results": shown, **others}


def _row(row: Any, refused: RefusedFacts) -> Any:
    if not isinstance(row, dict):
        return row
    if not refused.has(row.get("id"), row.get("memory")):
        return {**row, "memory": refused.instead(row.get("id"), row["memory"])} if "memory" in row else row
    return {"id": row["id"], "memory": _REFUSED, "event": "NONE"}


def _scope(payload: Any) -> str:
    return urlencode([(name, str(payload[name])) for name in _SCOPES if payload.get(name)])


def _claimed(payload: Any) -> str:
    """The user and the agent of a fact, as the payload has them, no matter in which run."""
    return urlencode([(name, str(payload[name])) for name in _SCOPES[:2] if payload.get(name)])


class GuardedReader:
    """The model that describes pictures for mem0; held pictures are not shown to it. Texts pass: facts made from them
    are judged when they are stored."""

    def __init__(self, model: Any, border: Border) -> None:
        self._model, self._border = model, border

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    async def _shown(self, messages: Sequence[Any]) -> list[Any]:
        async def as_it_is(text: str) -> str:
            return text

        return [
            {**message, "content": await cleaned_content(self._border, message["content"], as_it_is)}
            if isinstance(message, dict) and isinstance(message.get("content"), list)
            else message
            for message in still(list(messages))
        ]

    def generate_response(self, messages: Sequence[Any], *arguments: Any, **named: Any) -> Any:
        """The model's answer; it does not see held pictures."""
        return self._model.generate_response(self._border.wait(self._shown, messages), *arguments, **named)


class GuardedHistory:
    """The history of facts: refused changes are not recorded, the rest is judged again when it is read."""

    def __init__(self, history: Any, border: Border, refused: RefusedFacts) -> None:
        self._history, self._border, self._refused = history, border, refused

    def __getattr__(self, name: str) -> Any:
        return getattr(self._history, name)

    def get_history(self, *arguments: Any, **named: Any) -> Any:
        """The rows, with notices in place of held texts."""
        return self._shown(self._history.get_history(*arguments, **named))

    def get_last_messages(self, *arguments: Any, **named: Any) -> Any:
        """The last messages, with notices in place of held texts: mem0's model reads them."""
        return self._shown(self._history.get_last_messages(*arguments, **named))

    def _shown(self, found: Any) -> Any:
        return self._border.wait(self._border.cleaned, still(found), self._border.document, dialect="langchain")

    def add_history(self, memory_id: Any, old_memory: Any, new_memory: Any, *arguments: Any, **named: Any) -> None:
        """Record a change that was made."""
        if not self._refused.has(memory_id, new_memory):
            stored = self._refused.instead(memory_id, new_memory)
            self._history.add_history(memory_id, old_memory, stored, *arguments, **named)

    def batch_add_history(self, records: Sequence[Any]) -> None:
        """Record changes that were made."""
        made = [
            {**record, "new_memory": self._refused.instead(record.get("memory_id"), record.get("new_memory"))}
            for record in records
            if not self._refused.has(record.get("memory_id"), record.get("new_memory"))
        ]
        if made:
            self._history.batch_add_history(made)


class GuardedVectors(VectorStoreBase):
    """A vector store that asks before it writes and before it shows."""

    def __init__(
        self, store: Any, border: Border, refused: RefusedFacts, system: str = SYSTEM, embedder: Any = None
    ) -> None:
        """``embedder`` makes the vector of a rewritten fact; without it, facts that need a rewrite are not stored."""
        self._store, self._border, self._refused, self._system = store, border, refused, system
        self._embedder = embedder

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def _ref(self, key: Any, payload: Any) -> Ref:
        return Ref(self._system, _scope(payload), str(key))

    def _allowed(self, key: Any, vector: Any, payload: Any) -> tuple[Any, Any] | None:
        """Vector and payload that may be written, rewritten where needed; None where they must not be written."""
        if not payload:
            return vector, payload
        fact, claimed, ref = payload.get("data"), _claimed(payload), self._ref(key, payload)
        rest = {name: value for name, value in payload.items() if not fact or name != _WORDS}
        whole = self._border.wait(self._beside, key, payload)
        kept: Any = fact if whole else WITHHELD
        if fact and (whole or self._border.wait(self._beside, key, rest)):
            kept = self._border.wait(self._kept, ref, fact, claimed)
        if kept == fact and not whole:  # its keywords hold a text that the fact does not
            self._border.wait(self._border.forget, ref, claimed=claimed)
            kept = WITHHELD
        if kept is WITHHELD:
            self._refused.add(key, fact)
            return None
        if kept == fact:
            return vector, payload
        self._refused.add(key, fact, kept)
        made = {**rest, "data": kept, "hash": _hash(kept)} | ({_WORDS: _keywords(kept)} if _WORDS in payload else {})
        return self._embedder.embed(kept, "add"), made

    async def _kept(self, ref: Ref, fact: Any, claimed: str) -> Any:
        if self._embedder is None:
            return fact if await self._border.keep(ref, fact, claimed=claimed) else WITHHELD
        return await self._border.kept(ref, fact, claimed=claimed)

    async def _beside(self, key: Any, payload: Any) -> bool:
        """Whether the id and the fields of a payload beside its fact may be used."""
        rest = {name: value for name, value in payload.items() if name not in _KNOWN}
        done = await self._border.clean(rest, self._border.document, dialect="langchain")
        names = (key, *(payload.get(name, "") for name in _KNOWN[1:]))
        return not done.changed and await self._border.names(*names)

    def _shown(self, found: Any) -> Any:
        """The hits that may be read."""
        if not found:
            return found
        found = [
            hit for hit in still(list(found)) if not hit.payload or self._border.wait(self._beside, hit.id, hit.payload)
        ]
        full = [
            (self._ref(hit.id, hit.payload), hit.payload["data"]) for hit in found if (hit.payload or {}).get("data")
        ]
        shown = self._border.wait(self._border.readable, full)
        return [hit for hit in found if not (hit.payload or {}).get("data") or self._ref(hit.id, hit.payload) in shown]

    def insert(self, vectors: Sequence[Any], payloads: Any = None, ids: Any = None) -> Any:
        """Store the facts that are not held, and that take nothing away which stands under their ids."""
        if payloads is None and ids is None:
            return self._store.insert(vectors=vectors, payloads=payloads, ids=ids)
        given = still(list(payloads)) if payloads is not None else [None for _ in vectors]
        taken = ids is not None  # by a caller that may name ids of others
        allowed: dict[str, tuple[Any, Any, Any]] = {}
        for vector, payload, key in zip(vectors, given, ids or [str(uuid4()) for _ in vectors], strict=True):
            if taken and (str(key) in allowed or not self._may_move(key, payload or {})):
                self._refused.add(key, (payload or {}).get("data"))
            elif (made := self._allowed(key, vector, payload)) is not None:
                allowed[str(key)] = (*made, key)
        if allowed:
            some, texts, keys = (list(column) for column in zip(*allowed.values(), strict=True))
            self._store.insert(vectors=some, payloads=None if payloads is None else texts, ids=keys)

    def update(self, vector_id: Any, vector: Any = None, payload: Any = None) -> Any:
        """Change a fact; a held change is not written, nor one that takes another writer's fact to other ids."""
        payload = still(payload)
        if payload and not self._may_move(vector_id, payload):
            self._refused.add(vector_id, payload.get("data"))
            return
        made = self._allowed(vector_id, vector, payload)
        if made is not None:
            self._store.update(vector_id, vector=made[0], payload=made[1])

    def _may_move(self, key: Any, payload: Any) -> bool:
        """Whether a payload may stand under an id. A fact that stands there is asked for where the payload has another
        user, agent or run, or no fact."""
        found = self._store.get(key)
        if found is None or not found.payload or (payload.get("data") and _scope(found.payload) == _scope(payload)):
            return True
        return self._border.wait(self._border.forget, self._ref(key, found.payload), claimed=_claimed(payload))

    def search(self, query: Any, vectors: Any, top_k: int = 5, filters: Any = None) -> Any:
        """The hits that may be read."""
        return self._shown(self._store.search(query=query, vectors=vectors, top_k=top_k, filters=filters))

    def keyword_search(self, query: Any, top_k: int = 5, filters: Any = None) -> Any:
        """The hits that may be read."""
        return self._shown(self._store.keyword_search(query=query, top_k=top_k, filters=filters))

    def search_batch(self, queries: Any, vectors_list: Any, top_k: int = 1, filters: Any = None) -> Any:
        """The hits that may be read, for each query."""
        found = self._store.search_batch(queries, vectors_list, top_k=top_k, filters=filters)
        return [self._shown(hits) for hits in found]

    def get(self, vector_id: Any) -> Any:
        """A record that may be read."""
        found = self._store.get(vector_id)
        return next(iter(self._shown([found])), None) if found is not None else None

    def list(self, filters: Any = None, top_k: Any = None) -> Any:
        """The records that may be read, in the shape of the store's answer."""
        found = self._store.list(filters=filters, top_k=top_k)
        if isinstance(found, (tuple, list)) and found and isinstance(found[0], list):
            return type(found)([self._shown(found[0]), *found[1:]])
        return self._shown(found)

    def delete(self, vector_id: Any) -> Any:
        """Delete a fact of the agent, and say so to the guard."""
        found = self._store.get(vector_id)
        if found is not None and found.payload:
            ref = self._ref(vector_id, found.payload)
            if not self._border.wait(self._border.forget, ref):
                return None
        return self._store.delete(vector_id)

    def create_col(self, *arguments: Any, **named: Any) -> Any:
        """Calls the wrapped store."""
        return self._store.create_col(*arguments, **named)

    def list_cols(self) -> Any:
        """Calls the wrapped store."""
        return self._store.list_cols()

    def delete_col(self) -> Any:
        """Calls the wrapped store."""
        return self._store.delete_col()

    def col_info(self) -> Any:
        """Calls the wrapped store."""
        return self._store.col_info()

    def reset(self) -> Any:
        """Calls the wrapped store."""
        return self._store.reset()


def _hash(fact: str) -> str:
    """The hash by which mem0 recognizes a fact."""
    return hashlib.md5(fact.encode(), usedforsecurity=False).hexdigest()


def _keywords(fact: str) -> str:
    try:
        from mem0.utils.lemmatization import lemmatize_for_bm25
    except ImportError:  # an older mem0 writes no such words of its own
        return fact
    return str(lemmatize_for_bm25(fact))


class VectorRecords:
    """A mem0 vector store, as repairs use it: they restore text and scope of a fact, not its other metadata."""

    def __init__(self, store: Any, embedder: Any) -> None:
        self._store, self._embedder = store, embedder

    def get(self, namespace: str, key: str) -> Any:
        """The text of a record; None when there is none."""
        found = self._store.get(key)
        return None if found is None else (found.payload or {}).get("data")

    def put(self, namespace: str, key: str, value: Any) -> None:
        """Write a record with a vector of its text."""
        payload = {"data": value, **dict(parse_qsl(namespace))}
        vector = self._embedder.embed(value, "add")
        self._store.insert(vectors=[vector], payloads=[payload], ids=[key])

    def delete(self, namespace: str, key: str) -> None:
        """Take a record away."""
        if self._store.get(key) is not None:
            self._store.delete(key)

    def list(self, namespace: str | None = None) -> Iterator[Entry]:
        """Every record, or those of one scope."""
        found = self._store.list(top_k=1_000_000)
        hits = found[0] if isinstance(found, (tuple, list)) and found and isinstance(found[0], list) else found
        for hit in hits or ():
            scope = _scope(hit.payload or {})
            if (hit.payload or {}).get("data") and namespace in (None, scope):
                yield scope, str(hit.id), hit.payload["data"]
