"""The core of every adapter: ask the guard about a text, then hand on the text or a notice. Knows no framework.

It reads the forms that frameworks share: contents of chat messages, and JSON schemas of tools.

A text that was judged is not judged again while its item may be used; once it is held, readers get the notice.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import hashlib
import inspect
import logging
import re
import threading
import types
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import replace
from functools import partial
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from lazaretto.adapters.heard import heard_by
from lazaretto.errors import Forbidden
from lazaretto.external_stores.outbox import agrees
from lazaretto.external_stores.records import ExternalRecord, text_of
from lazaretto.gates.engine.decision import held_side_by_side, held_without_it
from lazaretto.guard import Guard
from lazaretto.guard.sync_guard import SyncGuard
from lazaretto.ingest.strings import (
    FEWEST_WORDS,
    ID,
    MOST_TOGETHER,
    Cleaned,
    cannot_carry_text,
    cleaned,
    joined,
    left_out,
    read_strings,
    words_of,
)
from lazaretto.kept_texts import KeptTexts, digest
from lazaretto.ledger.refs import check_ref
from lazaretto.names import MAX_NAME
from lazaretto.types import CLAIMED, Channel, Decision, Observation, Ref, Ruling, SourceClass

log = logging.getLogger("lazaretto")
T = TypeVar("T")
_KEPT = 10_000
"""Texts whose item is remembered, so that the same history is not judged before every model call."""
_KEPT_BYTES = 4 << 20
NOTICE = "[withheld by lazaretto"
_AT_WORK: ContextVar[str | None] = ContextVar("lazaretto_at_work", default=None)
_WRITING: ContextVar[tuple[SourceClass | str | None, tuple[str, ...] | None] | None] = ContextVar(
    "lazaretto_said", default=None
)
_CALLER: ContextVar[str] = ContextVar("lazaretto_caller", default="")
_FEWEST_WORDS = 4
"""Names of fewer words in all are too short for an order."""
_WORDS_OF_A_NAME = 3
"""A name of so many words may be half of a sentence."""


def notice(decision: Decision) -> str:
    """The notice in place of a held text: the item's id, and none of its words."""
    return f"{NOTICE}: {decision.ruling.label}, {decision.rule}, item {decision.item}]"


WITHHELD = object()
"""The answer of ``Border.kept`` for a value that must not be written at all."""


def _instead(decision: Decision) -> str | None:
    """The text in place of one that has to be rewritten; it is not judged yet."""
    return decision.replacement or None if decision.ruling is Ruling.REWRITE else None


def agent_name(name: object) -> str:
    """A framework's name for an agent, as the ledger takes it."""
    text = "".join(letter for letter in str(name or "") if letter.isprintable()).strip()
    return text[:MAX_NAME] or "agent"


@contextlib.contextmanager
def called_by(agent: object) -> Iterator[None]:
    """Inside stands a tool that an agent called. Another agent that is asked there is asked by that one, and not by the
    user, in any role that the framework gives the words."""
    token = _CALLER.set(agent_name(agent))
    try:
        yield
    finally:
        _CALLER.reset(token)


class Border:
    """One guard at the doors of a framework, for one agent unless a call names another."""

    def __init__(
        self,
        guard: Guard | SyncGuard,
        agent: str | None = "agent",
        *,
        source: SourceClass | str | None = None,
        acting: Callable[[], str | None] = lambda: None,
    ) -> None:
        """``agent``: None where ``acting`` names the agent of each call; ``source``: of memories."""
        self.guard = guard.guard if isinstance(guard, SyncGuard) else guard
        self._agent, self._source, self._acting = agent, source, acting
        self._judged: OrderedDict[tuple[str, ...], tuple[str, bool]] = OrderedDict()
        """The item of a text, and whether it was rewritten."""
        self._replacements: KeptTexts[str] = KeptTexts(_KEPT_BYTES, len)
        """Texts that are handed on in place of rewritten ones; where it is missing, the text is judged again."""
        self._passed: KeptTexts[bool] = KeptTexts(_KEPT_BYTES, lambda _: 200)
        """Texts that may be read side by side."""
        self._lock = threading.Lock()

    @property
    def agent(self) -> str:
        """The acting agent: the named one, else the one that the framework reports."""
        return agent_name(self._agent or _AT_WORK.get() or self._acting())

    def wait(self, work: Callable[..., Awaitable[T]], *arguments: Any, **named: Any) -> T:
        """Wait for one of the calls below in synchronous code, also inside a running event loop."""

        who, writing, caller = self.agent, _WRITING.get(), _CALLER.get()  # known in this thread alone

        async def waited() -> T:
            _AT_WORK.set(who)
            _WRITING.set(writing)
            _CALLER.set(caller)
            return await work(*arguments, **named)

        return self.guard.run(waited())

    @contextlib.contextmanager
    def writing(
        self, *, source: SourceClass | str | None = None, parents: Sequence[str] | None = None
    ) -> Iterator[None]:
        """Memories written inside come from this source and were made from these items (``guard.remember``)."""
        token = _WRITING.set((source, None if parents is None else tuple(parents)))
        try:
            yield
        finally:
            _WRITING.reset(token)

    # texts on their way

    async def tool(self, text: str, *, agent: str | None = None, name: str = "", answer: Any = None) -> str:
        """A tool's result, or a notice. ``name`` is the tool's, ``answer`` the whole result as data."""
        if not name:
            return await self._read(text, Channel.TOOL, agent, None)
        details = {"answer": answer} if self.guard.policy.actions else {}
        return await self._read(text, Channel.TOOL, agent, None, tool=agent_name(name), **details)

    async def answered(self, value: Any, name: str, *, agent: str | None = None, dialect: str = "plain") -> Any:
        """A tool's result of any shape, with notices in place of held parts."""
        data = _as_data(value) if self.guard.policy.actions else None
        return await self.cleaned(
            value, partial(self.tool, agent=agent, name=name, answer=data), agent=agent, dialect=dialect
        )

    async def document(self, text: str, *, agent: str | None = None) -> str:
        """A page or passage that an agent is about to read, or a notice."""
        return await self._read(text, Channel.DOCUMENT, agent, None)

    async def message(self, text: str, *, sender: str, receiver: str) -> str:
        """A message from one agent to another, or a notice."""
        who, to = agent_name(sender), agent_name(receiver)
        known = await self._known(("message", who, to, text))
        if known is not None or not text.strip():
            return text if known is None else known
        decision = await self.guard.exchange(text, sender=who, receiver=to)
        if (instead := _instead(decision)) is not None:
            made = await self.guard.exchange(instead, sender=who, receiver=to, parents=[decision.item])
            decision = made if made.allowed else decision
        return self._answer(("message", who, to, text), text, decision, instead)

    async def system(self, text: str, *, agent: str | None = None) -> str:
        """An instruction of the operator, or a notice."""
        heard_by(self.guard).note(text)
        return await self._read(text, Channel.MESSAGE, agent, SourceClass.SYSTEM)

    async def user(self, text: str, *, agent: str | None = None) -> str:
        """A message of a user, or a notice; inside a tool it is a message of the agent that called the tool."""
        if caller := _CALLER.get():
            return await self.message(text, sender=caller, receiver=self.agent if agent is None else agent)
        heard_by(self.guard).note(text)
        return await self._read(text, Channel.MESSAGE, agent, SourceClass.DIRECT_USER)

    async def said(self, text: str, *, agent: str | None = None) -> str:
        """A model's answer before it is acted on, or a notice."""
        if self.guard.policy.actions:
            self.guard.actions.has_said(self.agent if agent is None else agent_name(agent), text)
        return await self._read(text, Channel.MESSAGE, agent, SourceClass.MODEL_INFERENCE)

    async def earlier(self, text: str, *, agent: str | None = None) -> str:
        """A text shown to a model as its own earlier answer, or a notice.

        Where the policy has a table ``[actions]``, an answer that the guard did not see is read like a document: a
        history may come from anywhere.
        """
        who = self.agent if agent is None else agent_name(agent)
        if not self.guard.policy.actions or self.guard.actions.said_before(who, text):
            return await self._read(text, Channel.MESSAGE, who, SourceClass.MODEL_INFERENCE)
        return await self._read(text, Channel.DOCUMENT, who, SourceClass.MODEL_INFERENCE)

    async def of_history(self, text: str, *, role: str, agent: str | None = None, earlier: bool = True) -> str:
        """Words of a user or operator in a history, or a notice. Where the policy has a table ``[actions]``, those that
        were not read here when they were new are read like a document. Without ``earlier`` they may be of the present
        turn: then only words count as such that a guarded history showed before."""
        heard = heard_by(self.guard)
        if self.guard.policy.actions and (earlier or heard.was_stored(text)) and not await heard.has(self.guard, text):
            heard.note_stored(text)
            return await self.stored(text, agent=agent)
        return await (self.user if role == "user" else self.system)(text, agent=agent)

    async def stored(self, text: str, *, agent: str | None = None) -> str:
        """Words of a user or operator in a stored history which were not read here when they were new, or a notice."""
        return await self._read(text, Channel.DOCUMENT, agent, SourceClass.AGENT_MESSAGE)

    async def picture(self, image: bytes, *, agent: str | None = None) -> str | None:
        """A notice for a picture that is held; None for one that may be shown."""
        who = self.agent if agent is None else agent_name(agent)
        key = ("image", who, hashlib.sha256(image).hexdigest())
        known = await self._known(key)
        if known is None:
            decision = await self.guard.check(agent=who, image=image)
            known = self._answer(key, "", decision)
        return known or None

    async def _read(
        self, text: str, channel: Channel, agent: str | None, source: SourceClass | str | None, **details: Any
    ) -> str:
        who = self.agent if agent is None else agent_name(agent)
        begun = self.guard.actions.begun.get(who, "")  # a new task: texts are read again for it
        key = (channel.value, f"{source} {details.get('tool', '')}", who, begun, text)
        known = await self._known(key)
        if known is not None or not text.strip():
            return text if known is None else known
        decision = await self.guard.check(text, agent=who, channel=channel, source=source, **details)
        if (instead := _instead(decision)) is not None:  # without the secret it may pass, if nothing else is wrong
            made = await self.guard.check(instead, agent=who, channel=channel, source=source, parents=[decision.item])
            decision = made if made.allowed else decision
        if "tool" in details:  # the same answer is read again where a history names no tool
            self._answer((channel.value, f"{source} ", who, begun, text), text, decision, instead)
        return self._answer(key, text, decision, instead)

    async def _known(self, key: tuple[str, ...]) -> str | None:
        """The answer for a text judged before, by the state of its item now; None where it was not judged."""
        with self._lock:
            item, rewritten = self._judged.get(_digest(key), ("", False))
        instead = self._replacements.get(digest(*_digest(key)))  # asked before it is judged: ``put`` needs it
        if not item or (rewritten and instead is None):
            return None
        state = await asyncio.to_thread(self.guard.ledger.state, item)
        if state.visible and instead is not None:
            return instead
        if state.visible:
            return key[-1] if key[0] != "image" else ""
        return f"{NOTICE}: held since, item {item}]"

    def _answer(self, key: tuple[str, ...], text: str, decision: Decision, instead: str | None = None) -> str:
        """``instead``: the replacement that was judged for a text that has to be rewritten."""
        if not decision.allowed and decision.rule.startswith("fail:"):
            return notice(decision)  # a gate failed: it is asked again the next time
        with self._lock:
            self._judged[_digest(key)] = decision.item, instead is not None
            while len(self._judged) > _KEPT:
                self._judged.popitem(last=False)
        if instead is not None:
            self._replacements.put(digest(*_digest(key)), instead)
        return (text if instead is None else instead) if decision.allowed else notice(decision)

    # calls on their way

    async def may_call(
        self,
        tool: str,
        arguments: Any,
        *,
        agent: str | None = None,
        description: object = "",
        schema: Any = None,
    ) -> str | None:
        """None where a tool may be called now, else the notice. Without a table ``[actions]`` in the policy every call
        is allowed."""
        if not self.guard.policy.actions:
            return None
        who = self.agent if agent is None else agent_name(agent)
        known = schema if isinstance(schema, Mapping) else None
        made = await self.guard.authorize(
            agent_name(tool), arguments, agent=who, description=str(description or ""), schema=known
        )
        return None if made.allowed else made.notice

    # values of any shape

    async def cleaned(
        self, value: Any, judge: Callable[[str], Awaitable[str]], *, agent: str | None = None, dialect: str = "plain"
    ) -> Any:
        """The value with a notice in place of each held part; the value itself where nothing is held."""
        return (await self.clean(value, judge, agent=agent, dialect=dialect)).value

    async def clean(
        self, value: Any, judge: Callable[[str], Awaitable[str]], *, agent: str | None = None, dialect: str = "plain"
    ) -> Cleaned:
        """As ``cleaned``, with the list of changes. Every string is read; unreadable parts are withheld."""

        async def names(words: str) -> str:
            return words if await self.together(words, agent=agent) else f"{NOTICE}: names in it are held]"

        return await cleaned(
            value, judge, picture=partial(self.picture, agent=agent), leave_out=left_out(dialect), names=names
        )

    async def names(self, *names: Any, agent: str | None = None) -> bool:
        """Whether names, such as keys of records, may be used; they are judged where they can carry a text."""
        texts = [str(name) for name in names if not cannot_carry_text(str(name), ID)]
        text = " ".join(texts)
        words = [word for name in names for word in words_of(str(name))]
        if len(words) >= FEWEST_WORDS and not await self.together(" ".join(words), agent=agent):
            return False
        return not text.strip() or await self.document(text, agent=agent) == text

    async def together(self, *texts: str, agent: str | None = None) -> bool:
        """Whether texts may be read side by side, each of which may be read by itself."""
        text = _within(texts)
        return await self._passes(text, agent) or await self.document(text, agent=agent) == text

    async def _passes(self, text: str, agent: str | None) -> bool:
        """Whether a text made of texts that are on record may be read. Nothing is recorded of it."""
        who = self.agent if agent is None else agent_name(agent)
        key = digest("together", who, text)
        if not text.strip() or self._passed.get(key):
            return True
        allowed = not held_side_by_side(await self.guard.screen(text, agent=who, channel=Channel.DOCUMENT))
        if allowed:
            self._passed.put(key, True)
        return allowed

    async def beside(self, value: Any, *, agent: str | None = None) -> bool:
        """Whether the parts of a value beside its texts may be kept: keys, letters in a row, escaped texts."""
        known, reading = set(text_of(value).split("\n")), read_strings(value)
        keys = [part.text for part in reading.texts if part.is_key and part.text not in known]
        values = joined(tuple(part for part in reading.texts if not part.is_key)).split("\n")
        lines = [" ".join(keys) if len(" ".join(keys).replace("_", " ").split()) >= _FEWEST_WORDS else ""]
        lines += [line for line in values if line not in known]
        text = "\n".join(line for line in lines if line.strip())
        return reading.whole and (not text or await self.document(text, agent=agent) == text)

    async def _may_stand(self, where: Ref, value: Any, agent: str) -> bool:
        """Whether a record's name and the parts beside its text may be used."""
        return (
            await self.names(where.namespace, where.key, agent=agent)
            and await self.beside(value, agent=agent)
            and await self._named(where, value, agent)
        )

    async def _named(self, where: Ref, value: Any, agent: str) -> bool:
        """Whether a record may stand under its names: they and its texts may say something together. A text that is
        held by itself is judged as the record's own."""
        text, texts = text_of(value), read_strings(value).texts
        name = _spoken(f"{where.namespace} {where.key}")
        spoken = tuple(replace(part, text=_spoken(part.text)) if part.is_key else part for part in texts)
        wholes = [f"{name}: {_within([text])}"] if len(words_of(name)) >= _WORDS_OF_A_NAME else []
        if any(part.is_key and len(words_of(part.text)) >= _WORDS_OF_A_NAME for part in texts):
            wholes.append(_within([joined(spoken)]))
        for whole in wholes:
            if not await self._passes(whole, agent) and await self._passes(text, agent):
                return await self.document(whole, agent=agent) == whole
        return True

    # memories in the framework's own store

    async def keep(self, ref: Ref | Sequence[str], value: Any, *, claimed: object = None) -> bool:
        """Whether a value may be written under a ref as it is. One without any text has nothing to judge.

        The writer is the border's agent. ``claimed`` is a name that the record gives its writer: nobody vouches for it,
        so it makes no other voice and no owner, and only tells apart who may not change whose words.
        """
        return (await self._keep(ref, value, claimed, rewrite=False)) is not WITHHELD

    async def kept(self, ref: Ref | Sequence[str], value: Any, *, claimed: object = None) -> Any:
        """The value that may be written under a ref: as it is, with texts rewritten, or ``WITHHELD``."""
        return await self._keep(ref, value, claimed, rewrite=True)

    async def _keep(self, ref: Ref | Sequence[str], value: Any, claimed: object, *, rewrite: bool) -> Any:
        where, who = check_ref(ref), self.agent
        principal = _principal(who, claimed)
        if not await self._may_stand(where, value, who):
            log.warning("a memory was not stored: its name, or something beside its text, is held: %s", where.system)
            return WITHHELD
        if not text_of(value).strip():
            return value if await self.forget(where, claimed=claimed) else WITHHELD
        source, parents = _WRITING.get() or (None, None)
        origin: dict[str, Any] = {"agent": who, "principal": principal, "source": source or self._source}
        decision = await self.guard.remember(ref=where, value=value, parents=parents, **origin)
        if rewrite and decision.ruling is Ruling.REWRITE:
            made = await self._without(value, who)
            if made != value:
                also = [*(parents or ()), decision.item]
                again = await self.guard.remember(ref=where, value=made, parents=also, **origin)
                if again.allowed:
                    log.warning("a memory was stored with parts removed: %s %s", where.system, decision.rule)
                    return made
                log.warning("a memory was not stored: %s %s", tuple(where), held_without_it(decision, again))
                return WITHHELD
        if not decision.allowed:
            log.warning("a memory was not stored: %s %s", tuple(where), notice(decision))
        return value if decision.allowed else WITHHELD

    async def _without(self, value: Any, who: str) -> Any:
        """A value with every text rewritten that has to be."""

        async def judge(text: str) -> str:
            found = await self.guard.screen(text, agent=who, channel=Channel.MEMORY, source=self._source)
            instead = _instead(found)
            return text if instead is None else instead

        return await self.cleaned(value, judge, agent=who)

    async def forget(self, ref: Ref | Sequence[str], *, claimed: object = None) -> bool:
        """Whether a record may be deleted: it is the agent's own or has no owner. The guard notes the deletion."""
        where, who = check_ref(ref), self.agent
        try:
            await self.guard.stores.forget(where, agent=who, principal=_principal(who, claimed))
        except Forbidden as error:
            log.warning("a memory was not deleted: %s", error)
            return False
        return True

    async def readable(self, records: Sequence[tuple[Ref, Any]], *, agent: str | None = None) -> set[Ref]:
        """The records that the agent may read; they are recorded as read.

        A record that was never judged, or was changed since, is judged first, as an untrusted document.
        """
        who = self.agent if agent is None else agent_name(agent)
        records = [(ref, value) for ref, value in records if await self._may_stand(ref, value, who)]
        with_text = [(ref, value) for ref, value in records if text_of(value).strip()]
        silent = {ref for ref, value in records if not text_of(value).strip()}
        if not with_text:
            return silent
        source = SourceClass.UNTRUSTED_DOCUMENT
        found = [ExternalRecord(ref, value, source=source) for ref, value in with_text]
        imported = await self.guard.stores.import_records(found, agent=who)
        for ref, why in imported.refused:
            log.warning("a record cannot be judged and is not shown: %s: %s", tuple(ref), why)
        refused, most = {ref for ref, _ in imported.refused}, self.guard.policy.limits.max_results
        asked = [ref for ref, _ in with_text if ref not in refused]
        shown: set[Ref] = set()
        for start in range(0, len(asked), most):
            recalled = await self.guard.recall(agent=who, items=asked[start : start + most])
            judged = await asyncio.to_thread(self._items, [item.id for item in recalled])
            # an older version may be allowed here while the store holds a newer, held one
            shown |= {ref for ref, value in with_text if ref in judged and agrees(judged[ref], value)}
        return silent | shown

    def _items(self, ids: Sequence[str]) -> dict[Ref, Observation]:
        return {item.ref: item for item in self.guard.ledger.items(ids=ids, limit=None) if item.ref is not None}


def _principal(who: str, claimed: object) -> str | None:
    """The principal behind a write of an agent; None: its own process alone."""
    name = agent_name(claimed) if claimed else who
    return None if name == who else f"{CLAIMED}{who}/{name}"


def _as_data(value: Any) -> Any:
    """A tool's answer as plain data: objects by the texts in them."""
    if isinstance(value, (str, Mapping, list, tuple)):
        return value
    texts = [part.text for part in read_strings(value).texts if not part.is_key]
    return texts[0] if len(texts) == 1 else texts


def _spoken(name: str) -> str:
    """A name in words."""
    return re.sub(r"[\W_]+", " ", name).strip()


def _within(texts: Sequence[str]) -> str:
    """Texts side by side, no longer than one text may be: of long ones their beginnings and ends. Each was judged whole
    by itself, and a sentence over two of them stands where they meet."""
    several = [text for text in texts if text.strip()]
    if sum(map(len, several)) <= MOST_TOGETHER:
        return "\n".join(several)
    half = MOST_TOGETHER // (2 * len(several))
    return "\n".join(text if len(text) <= 2 * half else f"{text[:half]}\n{text[-half:]}" for text in several)


def _digest(key: tuple[str, ...]) -> tuple[str, ...]:
    return (*key[:-1], hashlib.sha256(key[-1].encode("utf-8", "surrogatepass")).hexdigest())


# The content of a chat message as frameworks write it: a text, or a list of blocks with texts and pictures.

Judge = Callable[[str], Awaitable[str]]


async def cleaned_content(border: Border, content: Any, judge: Judge, agent: str | None = None) -> Any:
    """The content with a notice for each text or picture that is held; the content itself where nothing is.

    A picture is judged where its bytes are in the message; one that is only named by an address is not fetched.
    """
    done = await border.clean(content, judge, agent=agent, dialect="langchain")
    return content if not done.changed else done.value


def data_of(text: str | None) -> bytes | None:
    """The bytes in base64 or a data URL; None where there are none."""
    if text is None:
        return None
    try:
        return base64.b64decode(text.partition(",")[2] if text.startswith("data:") else text, validate=True) or None
    except (binascii.Error, ValueError):
        return None


# The JSON schema of a tool's arguments, wherever a framework keeps it: the last gate reads fixed words from it.


def schema_of(tool: Any) -> Mapping[str, Any] | None:
    """The JSON schema of the arguments of a framework's tool or a plain function; None where it has none."""
    if isinstance(tool, (types.FunctionType, types.MethodType)):
        return _of_function(tool)
    given = getattr(tool, "params_json_schema", None) or getattr(tool, "parameters", None)
    shape = getattr(getattr(tool, "args_schema", None), "model_json_schema", None)
    try:
        found = given() if callable(given) else given or (shape() if callable(shape) else None)
    except Exception:  # a framework that cannot describe its own tool: the arguments of the call are enough
        return None
    if isinstance(found, Mapping):
        return found
    return _of_function(tool.func) if callable(getattr(tool, "func", None)) else None


def _of_function(function: Callable[..., Any]) -> Mapping[str, Any] | None:
    try:
        names, hints = inspect.signature(function).parameters, get_type_hints(function)
    except (TypeError, ValueError, NameError):
        return None
    return {"properties": {name: _of_hint(hints.get(name)) for name in names}}


def _of_hint(hint: Any) -> dict[str, Any]:
    if get_origin(hint) is Literal:
        return {"enum": list(get_args(hint))}
    return {"type": "boolean"} if hint is bool else {}
