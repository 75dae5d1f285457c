"""Messages between an agent and a model, each part judged once: for the proxy and LiteLLM's guardrail call.

A conversation is sent whole with every call. A part that was judged before is not judged again, but whether it is held
*now* is looked up each time. A ruling that stands for a failed gate is not kept. A part that is sent again counts as
read again. One that was erased is judged anew each time and leaves no trace.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lazaretto.errors import InputError
from lazaretto.guard import Guard
from lazaretto.ingest.raw_input import id_once
from lazaretto.ingest.read_history import is_reading, principal_body
from lazaretto.types import Channel, Decision, Draft, EventKind, Ruling, SourceClass

_FAILED = "fail:"
"""Prefix of the rules of decisions that stand for a gate which did not answer."""
_TRIES = 8
"""Failures of one passage after each of which it is judged again at once; later ones wait for a pause."""
_PAUSE_S = 60.0


@dataclass(frozen=True, slots=True)
class Passage:
    """One text or picture on its way."""

    text: str = ""
    image: bytes | None = None
    channel: Channel = Channel.MESSAGE
    source: SourceClass | None = None
    tool: str | None = None
    """The directory of the policy that answered with it."""
    answer: Any = None
    """The directory's answer, without the text around it."""
    called_tool: str = ""
    """The tool that answered with it, which makes it no directory's answer. The first one stays on record."""

    def named(self, guard: Guard) -> str | None:
        """The tool for ``Guard.check``, which takes the answer of a directory for the crew's own."""
        if self.tool or not self.called_tool or guard.actions.settings.is_directory(self.called_tool):
            return self.tool
        return self.called_tool


@dataclass(frozen=True, slots=True)
class JudgedPassage:
    """The outcome for one passage."""

    item: str
    allowed: bool
    rule: str
    reason: str
    replacement: str | None = None
    """The text to pass on instead; None if nothing may be."""


async def judge(
    guard: Guard, passage: Passage, *, agent: str, conversation: str = "", principal: str | None = None
) -> JudgedPassage:
    """Judge and record a passage, or find how it stands where it was judged before in the same conversation."""
    try:
        decision = await _decision(guard, passage, agent, conversation, principal)
    except _ErasedError as erased:
        return await _without_trace(guard, passage, agent, principal, held=erased.held)
    reason = decision.reasons[0] if decision.reasons else decision.rule
    state = await asyncio.to_thread(guard.ledger.state, decision.item)
    if state.held and decision.allowed and guard.policy.mode != "observe":
        return JudgedPassage(decision.item, False, "held:since", "It was found harmful after it was first seen.")
    if decision.allowed or not (state.held or state.erased):
        if guard.policy.actions:
            await asyncio.to_thread(_read_again, guard, passage, agent, decision.item, principal)
        return JudgedPassage(decision.item, True, decision.rule, reason)
    instead = decision.replacement if decision.ruling is Ruling.REWRITE else None
    return JudgedPassage(decision.item, False, decision.rule, reason, instead)


async def has_heard(
    guard: Guard, passage: Passage, *, agent: str, conversation: str = "", principal: str | None = None
) -> bool:
    """Whether a passage was judged before in the same conversation as what it is now."""
    name = _name_of(passage, agent, conversation, principal)
    item = id_once(guard.ledger.namespace, _once(name, 0))
    return not await asyncio.to_thread(guard.ledger.unknown, [item])


class _ErasedError(Exception):
    """A passage was judged before, and its item was erased."""

    def __init__(self, held: bool) -> None:
        super().__init__()
        self.held = held
        """Whether it was held then."""


def held_when_erased(guard: Guard, item: str) -> bool | None:
    """Whether an item was held when it was erased; None where it was not erased."""
    erased = list(guard.ledger.events(subject=item, kinds=(EventKind.ERASED,)))
    return any((event.body or {}).get("held", False) for event in erased) if erased else None


async def _without_trace(
    guard: Guard, passage: Passage, agent: str, principal: str | None, *, held: bool
) -> JudgedPassage:
    """A passage whose item was erased: what was held stays outside, the rest passes if it would pass now."""
    if held and guard.policy.mode != "observe":
        return JudgedPassage("", False, "held:since", "It was held when it was erased.")
    decision = await guard.screen(
        passage.text, agent=agent, channel=passage.channel, image=passage.image, source=passage.source,
        principal=principal,
    )  # fmt: skip
    instead = decision.replacement if decision.ruling is Ruling.REWRITE else None
    reason = decision.reasons[0] if decision.reasons else decision.rule
    return JudgedPassage("", decision.allowed, decision.rule, reason, instead)


def _read_again(guard: Guard, passage: Passage, agent: str, item: str, principal: str | None) -> None:
    """Note that an agent is shown an item once more, where that is no longer in its mind: a conversation may go on for
    longer than ``actions.window_s``, or than the task in which it was first sent."""
    if guard.actions.has_in_mind(agent, item) or not is_reading(guard.ledger.item(item)):
        return
    listing = guard.actions.listing(passage.tool, passage.answer) if passage.tool is not None else None
    known = [] if listing is None else [guard.actions.listed_draft(item, agent, listing)]
    guard.ledger.append([Draft(EventKind.RETRIEVED, item, agent, principal_body(principal)), *known])


def read_kept(guard: Guard, items: Sequence[str], agent: str, principal: str | None) -> None:
    """Note that an agent is shown items that an endpoint kept, where they are not in its mind already."""
    body, asked = principal_body(principal), bool(guard.policy.actions)
    found = guard.ledger.items(ids=items, any_state=True, limit=None) if items else []
    new = [item.id for item in found if is_reading(item) and not (asked and guard.actions.has_in_mind(agent, item.id))]
    guard.ledger.append([Draft(EventKind.RETRIEVED, item, agent, body) for item in new])


async def _decision(guard: Guard, passage: Passage, agent: str, conversation: str, principal: str | None) -> Decision:
    """The decision about a passage, the recorded one where there is one; not one that a broken gate brought about."""
    name = _name_of(passage, agent, conversation, principal)
    began = time.time()
    for again in range(_TRIES + 1):
        number = again if again < _TRIES else int(began / _PAUSE_S) + _TRIES
        once = _once(name, number)
        try:
            decision = await guard.check(
                passage.text, agent=agent, channel=passage.channel, image=passage.image, source=passage.source,
                once=once, principal=principal, tool=passage.named(guard), answer=passage.answer,
            )  # fmt: skip
        except InputError as error:
            held = await asyncio.to_thread(held_when_erased, guard, id_once(guard.ledger.namespace, once))
            if error.field != "once" or held is None:
                raise
            raise _ErasedError(held) from None
        if decision.allowed or not decision.rule.startswith(_FAILED):
            break
        recorded = await asyncio.to_thread(guard.ledger.item, decision.item)
        if recorded.time >= began:
            break  # it failed just now
    return decision


def _name_of(passage: Passage, agent: str, conversation: str, principal: str | None) -> str:
    content = hashlib.sha256(passage.text.encode("utf-8", "surrogatepass") + b"\0" + (passage.image or b""))
    of: list[str] = [agent, conversation, passage.channel.value, passage.source or "", principal or ""]
    of += [] if passage.tool is None else [passage.tool, str(passage.answer)]
    # each part with its length, so that none can hold the next one
    return ":".join(f"{len(part)}:{part}" for part in ("passage", *of, content.hexdigest()[:40]))


def _once(name: str, number: int) -> str:
    return hashlib.sha256(f"{name}:{number}".encode("utf-8", "surrogatepass")).hexdigest()
