"""Parts of a conversation that an endpoint keeps and a request only names: ``previous_response_id``, ids of items.

The proxy notes in the ledger which answers passed here, with the items of their requests. An answer of its own may be
continued, as long as nothing in it is held; anything else that the endpoint keeps was read by nobody here.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterator, Sequence
from typing import Any

from lazaretto.api.conversations import held_when_erased, read_kept
from lazaretto.api.proxy.dialects import dicts
from lazaretto.api.proxy.passages import Json
from lazaretto.errors import InputError
from lazaretto.guard import Guard
from lazaretto.types import Draft, Event, EventKind

_PREFIX = "endpoint_keeps:"
_ENDED = (None, "completed", "incomplete")
"""States of an answer that has come to its end: what an answer in the background will say was not read."""
_MOST_TURNS = 4_000
"""Answers, and parts of them, that are followed back from one that is continued."""
_OPERATORS = ("prompt", "container")
"""Fields that name instructions and files which the operator keeps at the endpoint: stored prompts, skills."""
_FIX = "Send the conversation itself as 'input', or set proxy.kept_by_endpoint = \"pass\" in the policy"


async def before_it_is_sent(guard: Guard, body: Json, agent: str, principal: str) -> tuple[tuple[str, ...], str]:
    """The fields of a request that bring in what nobody here read, and an item on the way that is held now, or nothing.
    ``InputError`` for such a field where the policy does not let it pass."""
    unread = [field for field in _OPERATORS if body.get(field)]
    if not unread and not any(True for _ in _named(body)):
        return (), ""
    passes = guard.policy.proxy.kept_by_endpoint == "pass" or guard.policy.mode == "observe"
    named = {field: _subject(name) if name else "" for field, name in _named(body)}
    turns = await asyncio.to_thread(_turns, guard, [subject for subject in named.values() if subject])
    for field, subject in named.items():
        if subject not in turns and not passes:
            raise InputError(field, "names what the endpoint keeps and this proxy did not judge", _FIX)
        unread += [] if subject in turns else [field]
    items = list(dict.fromkeys(item for turn in turns.values() for item in (turn.body or {}).get("items", ())))
    others = any(turns[subject].agent != agent for subject in named.values() if subject in turns)
    if items and (guard.policy.actions or others):
        await asyncio.to_thread(read_kept, guard, items, agent, principal)
    return tuple(unread), await asyncio.to_thread(_held_now, guard, items)


def note_answer(guard: Guard, request: Json, answer: Any, agent: str, items: Sequence[str]) -> None:
    """Note an answer that passed, with the items of its request and of its own."""
    if not isinstance(answer, dict) or answer.get("status") not in _ENDED:
        return
    output = [*dicts(answer.get("output"))]
    kept = [] if request.get("store") is False else [answer.get("id"), *(item.get("id") for item in output)]
    names = [*kept, *(_sealed(item) for item in output if item.get("type") in _SEALED)]
    named = list(_named(request))
    if not all(name for _, name in named):
        return  # it goes on with a conversation that nobody read
    subjects = list(dict.fromkeys(_subject(name) for name in names if isinstance(name, str) and name))
    body = {"items": list(dict.fromkeys(items)), "before": [_subject(name) for _, name in named]}
    bodies = [body, *({"items": [], "before": subjects[:1]} for _ in subjects[1:])]  # the answer, and its parts
    notes = zip(subjects, bodies, strict=False)  # no name, no note
    guard.ledger.append([Draft(EventKind.NOTED, subject, agent, noted) for subject, noted in notes])


def _named(body: Json) -> Iterator[tuple[str, str]]:
    """The fields of a request that name what the endpoint keeps, each with the name of an answer or item, if any."""
    if (before := body.get("previous_response_id")) is not None:
        yield "previous_response_id", before if isinstance(before, str) else ""
    if body.get("conversation") is not None:
        yield "conversation", ""
    for place, message in enumerate(dicts(body.get("messages"))):
        if message.get("role") == "assistant" and _id_of(message.get("audio")):
            yield f"messages.{place}.audio", ""  # sound cannot be judged, so none was handed out here
    given = body.get("input")
    for place, item in enumerate(given if isinstance(given, list) else ()):
        if isinstance(item, dict) and item.get("type") in _SEALED:
            yield f"input.{place}", _sealed(item)
        if isinstance(item, dict) and _is_bare(item):
            name = item.get("id")
            yield f"input.{place}", name if isinstance(name, str) else ""


_SEALED = ("compaction", "compaction_summary")
"""Kinds of items that stand for a whole conversation, in a form that only the endpoint can read."""


def _sealed(item: Json) -> str:
    """The name under which such an item is noted: what it holds, and not its id."""
    content = item.get("encrypted_content")
    return f"sealed:{content}" if isinstance(content, str) and content else ""


def _id_of(value: Any) -> Any:
    return value.get("id") if isinstance(value, dict) else None


def _is_bare(item: Json) -> bool:
    """Whether an item only names one that the endpoint keeps, with any other field beside the id."""
    kind = item.get("type")
    if kind == "image_generation_call":
        return not item.get("result")
    return kind == "item_reference" or (kind is None and "id" in item and item.keys().isdisjoint(("role", "content")))


def _turns(guard: Guard, named: Sequence[str]) -> dict[str, Event]:
    """The notes of some answers and of those that they rest on, by subject; without those that rest on one which did
    not pass here, and without any where there are too many to look at."""
    found, waiting, asked = dict[str, Event](), set(named), set(named)
    while waiting and len(found) < _MOST_TURNS:
        notes = sorted(guard.ledger.events_about(waiting, (EventKind.NOTED,)), key=lambda event: event.seq)
        found |= {event.subject: event for event in notes}
        waiting = {before for event in notes for before in _before(event)} - asked
        asked |= waiting
    unread, before = (asked - found.keys()) | waiting, -1
    while before < len(unread):
        before = len(unread)
        for subject, event in reversed(found.items()):  # the earlier answers first
            if not unread.isdisjoint(_before(event)):
                unread.add(subject)
    return {subject: event for subject, event in found.items() if subject not in unread}


def _before(event: Event) -> tuple[str, ...]:
    return tuple((event.body or {}).get("before", ()))


def _held_now(guard: Guard, items: Sequence[str]) -> str:
    """The first of some items that is held now, or was when it was erased."""
    if not items or guard.policy.mode == "observe":
        return ""
    states = guard.ledger.states(items)
    held = (i for i, state in states.items() if state.held or (state.erased and held_when_erased(guard, i)))
    return next(held, "")


def _subject(name: str) -> str:
    return _PREFIX + hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:32]
