"""What a caller may append: drafts are checked here, before anything touches the store."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from lazaretto.errors import InputError
from lazaretto.ledger.canon import SALT_BYTES, body_digest, check_name, check_time, decode_body, encode_body
from lazaretto.types import Channel, Draft, EventKind, MemoryFields, Observation, Ruling, SourceClass, plain

_CHANNELS = frozenset(c.value for c in Channel)
_SOURCES = frozenset(s.value for s in SourceClass)
_PLAIN: dict[str, str] = {word: word.value for word in (*Channel, *SourceClass)}
_RULINGS = frozenset(r.label for r in Ruling)
_SEEN_KEYS = frozenset({"channel", "text", "image", "fields", "parents", "source"})
_COLUMN_KEYS = ("id", "agent", "time", "namespace")
_SHA256 = re.compile(r"[0-9a-f]{64}")
# reaching for a member of an enum runs Python code in 3.11, and the checks run for every draft
_DERIVED = EventKind.DERIVED
_ERASED = EventKind.ERASED
_INFLUENCED = EventKind.INFLUENCED
_REPAIRED = EventKind.REPAIRED
_REPORTED = EventKind.REPORTED
_RETRIEVED = EventKind.RETRIEVED
_RULED = EventKind.RULED
_SEEN = EventKind.SEEN
_SENT = EventKind.SENT
_SUPERSEDED = EventKind.SUPERSEDED
_UNDONE = EventKind.UNDONE
_ABOUT_AN_ITEM = frozenset(
    {
        EventKind.RETRIEVED,
        EventKind.SENT,
        EventKind.DERIVED,
        EventKind.INFLUENCED,
        EventKind.RULED,
        EventKind.LABELLED,
        EventKind.APPEALED,
        EventKind.RELEASED,
        EventKind.SUPERSEDED,
    }
)


class Checked(NamedTuple):
    """A draft that may be appended, in the form in which it is stored; a tuple, because thousands are made at once."""

    kind: EventKind
    subject: str
    agent: str
    time: float
    body: Mapping[str, Any]
    raw: bytes
    salt: bytes
    digest: bytes


@dataclass(frozen=True, slots=True)
class Batch:
    """Drafts that are appended together, and what they take for granted."""

    drafts: tuple[Checked, ...]
    items: Mapping[str, str]
    """Items that must exist, each with the field that names it."""
    decisions: Mapping[str, str]
    """Decisions that must exist."""
    new: frozenset[str]
    """Items the batch brings; none of them may exist."""
    images: frozenset[str]
    """Blobs that the tenant must have put."""


def seen_draft(observation: Observation) -> Draft:
    """The event that records ``observation``; its id, agent and time stand in the event's own columns."""
    body: dict[str, Any] = {
        "channel": _PLAIN.get(observation.channel, observation.channel),
        "text": observation.text,
        "source": _PLAIN.get(observation.source, observation.source),
        "parents": list(observation.parents),
    }
    if observation.image is not None:
        body["image"] = observation.image
    if observation.fields is not None:
        body["fields"] = plain(observation.fields)
    return Draft(EventKind.SEEN, observation.id, observation.agent, body, observation.time)


def observation_of(
    namespace: str, subject: str, agent: str, time: float, body: Mapping[str, Any] | None
) -> Observation:
    """The observation that a SEEN event recorded; erased content comes back as no text from an untrusted source."""
    body = body or {"channel": Channel.MEMORY.value, "source": SourceClass.UNTRUSTED_DOCUMENT.value}
    fields = body.get("fields")
    return Observation(
        agent=agent,
        channel=Channel(body["channel"]),
        text=body.get("text", ""),
        image=body.get("image"),
        fields=None
        if fields is None
        else MemoryFields(
            state=tuple(fields.get("state", ())),
            context=tuple(fields.get("context", ())),
            action=tuple(fields.get("action", ())),
            tags=tuple(fields.get("tags", ())),
            meta=fields.get("meta", {}),
        ),
        parents=tuple(body.get("parents", ())),
        source=SourceClass(body["source"]),
        namespace=namespace,
        time=time,
        id=subject,
    )


def check_drafts(drafts: Sequence[Draft], namespace: str) -> Batch:
    """Refuse what cannot be recorded, naming the field; else the batch in its stored form."""
    salts = os.urandom(SALT_BYTES * len(drafts))
    checked: list[Checked] = []
    new: set[str] = set()
    images: set[str] = set()
    items: dict[str, str] = {}
    decisions: dict[str, str] = {}
    reported: set[str] = set()
    for index, draft in enumerate(drafts):
        one = _check(draft, namespace, salts[index * SALT_BYTES : (index + 1) * SALT_BYTES])
        kind = one.kind
        if kind is _RETRIEVED:  # the most frequent kind names nothing but its subject
            if one.subject not in new:
                items[one.subject] = "subject"
        else:
            for field, node, is_decision in references(kind, one.subject, one.body):
                if is_decision:
                    if node not in reported:
                        decisions.setdefault(node, field)
                elif node not in new:
                    items.setdefault(node, field)
        if kind is _SEEN:
            if one.subject in new or one.subject in items:
                raise InputError("id", f"{one.subject!r} is brought twice, or named before it is brought")
            new.add(one.subject)
            image = one.body.get("image")
            if image is not None:
                images.add(image)
        elif kind is _REPORTED:
            reported.add(one.subject)
        checked.append(one)
    return Batch(tuple(checked), items, decisions, frozenset(new), frozenset(images))


def _check(draft: Draft, namespace: str, salt: bytes) -> Checked:
    kind = draft.kind
    if type(kind) is not EventKind:
        try:
            kind = EventKind(kind)
        except ValueError:
            raise InputError("kind", f"{kind!r} is not an event kind", f"Use {', '.join(EventKind)}") from None
    if kind is _ERASED:
        raise InputError("kind", "an erased event cannot be appended by hand", "Call erase or retain")
    subject = check_name(draft.subject, "subject")
    agent = check_name(draft.agent, "agent", empty=kind is not _SEEN)
    time = check_time(draft.time)
    body = _seen_body(draft, namespace) if kind is _SEEN else draft.body
    # most reads carry no body at all
    raw = encode_body(body) if body or type(body) is not dict else b"{}"
    stored = decode_body(raw)
    if kind is _RULED and stored.get("ruling") not in _RULINGS:
        raise InputError(
            "body.ruling", f"{stored.get('ruling')!r} is not a ruling", f"Use {', '.join(sorted(_RULINGS))}"
        )
    return Checked(kind, subject, agent, time, stored, raw, salt, body_digest(salt, raw))


def _seen_body(draft: Draft, namespace: str) -> Mapping[str, Any]:
    """The body of a SEEN event, checked: every later reader may rely on its shape."""
    body = draft.body
    if type(body) is not dict and not isinstance(body, Mapping):
        raise InputError("body", f"is {type(body).__name__}, not a mapping")
    if not body.keys() <= _SEEN_KEYS:
        body = _without_columns(draft, namespace)
    if body.get("channel") not in _CHANNELS:
        raise InputError("channel", f"{body.get('channel')!r} is not a channel", f"Use {', '.join(sorted(_CHANNELS))}")
    if body.get("source") not in _SOURCES:
        raise InputError("source", f"{body.get('source')!r} is not a source", f"Use {', '.join(sorted(_SOURCES))}")
    if not isinstance(body.get("text", ""), str):
        raise InputError("text", f"is {type(body['text']).__name__}, not text")
    parents = body.get("parents", ())
    if not isinstance(parents, (list, tuple)):
        raise InputError("parents", f"is {type(parents).__name__}, not a list of ids")
    for parent in parents:
        check_name(parent, "parents")
        if parent == draft.subject:
            raise InputError("parents", f"{parent!r} cannot be its own parent")
    image, fields = body.get("image"), body.get("fields")
    if image is not None and not (isinstance(image, str) and _SHA256.fullmatch(image)):
        raise InputError("image", "is not a sha256 in hex", "Pass what put_blob returned")
    if fields is not None and not isinstance(fields, Mapping):
        raise InputError("fields", f"is {type(fields).__name__}, not a mapping")
    if ("image" in body and image is None) or ("fields" in body and fields is None):
        return {key: value for key, value in body.items() if value is not None}
    return body


def _without_columns(draft: Draft, namespace: str) -> dict[str, Any]:
    """``draft.body`` without what the event's own columns say; a contradiction between the two is refused."""
    body = dict(draft.body)
    for key, value in zip(_COLUMN_KEYS, (draft.subject, draft.agent, draft.time, namespace), strict=True):
        if key in body and body.pop(key) != value:
            raise InputError(f"body.{key}", f"differs from the event's own {value!r}")
    unknown = body.keys() - _SEEN_KEYS
    if unknown:
        raise InputError(
            "body", f"has unknown keys {sorted(map(str, unknown))}", f"Use {', '.join(sorted(_SEEN_KEYS))}"
        )
    return body


def _id_at(body: Mapping[str, Any], key: str) -> str:
    return check_name(body.get(key), f"body.{key}")


def _ids_in(value: object, field: str) -> list[str]:
    if not isinstance(value, list):
        raise InputError(field, f"is {type(value).__name__}, not a list of ids")
    return [check_name(one, field) for one in value]


def references(kind: EventKind, subject: str, body: Mapping[str, Any]) -> Iterator[tuple[str, str, bool]]:
    """What must exist for an event to make sense: field, id, and whether it is a decision rather than an item."""
    if kind in _ABOUT_AN_ITEM:
        yield "subject", subject, False
    if kind is _SEEN:
        for parent in body.get("parents", ()):
            yield "parents", parent, False
    elif kind is _SENT:
        _id_at(body, "to")
    elif kind is _DERIVED:
        yield "body.parent", _other(subject, _id_at(body, "parent"), "body.parent"), False
    elif kind is _INFLUENCED:
        target = _other(subject, _id_at(body, "target"), "body.target")
        yield "body.target", target, target.startswith("de_")
    elif kind is _SUPERSEDED:
        yield "body.old", _other(subject, _id_at(body, "old"), "body.old"), False
    elif kind is _REPORTED:
        for item in _ids_in(body.get("rests_on") or [], "body.rests_on"):
            yield "body.rests_on", item, False
    elif kind is _REPAIRED:
        for item in _repaired_items(body):
            yield "body.plan.steps", item, False
    elif kind is _UNDONE:
        for item in _restored_items(body):
            yield "body.restored", item, False


def _other(subject: str, node: str, field: str) -> str:
    if node == subject:
        raise InputError(field, f"{node!r} cannot stand at both ends")
    return node


def _repaired_items(body: Mapping[str, Any]) -> Iterator[str]:
    plan = body.get("plan")
    steps = plan.get("steps") if isinstance(plan, Mapping) else None
    if not isinstance(steps, list):
        raise InputError("body.plan.steps", "is missing", "The body of a REPAIRED event is a plain Receipt")
    for step in steps:
        if not isinstance(step, Mapping) or not isinstance(step.get("action"), str):
            raise InputError("body.plan.steps", "holds something that is not a repair step")
        yield check_name(step.get("item"), "body.plan.steps")


def _restored_items(body: Mapping[str, Any]) -> Iterator[str]:
    restored = body.get("restored", {})
    if not isinstance(restored, Mapping):
        raise InputError("body.restored", f"is {type(restored).__name__}, not a mapping of item to fields")
    for item, fields in restored.items():
        if not isinstance(fields, Mapping):
            raise InputError("body.restored", "must map each item to its fields", "For example {'hidden': false}")
        if fields.get("ruling") is not None and fields["ruling"] not in _RULINGS:
            raise InputError("body.restored", f"{fields['ruling']!r} is not a ruling")
        if fields.get("superseded_by") is not None:
            check_name(fields["superseded_by"], "body.restored")
        yield check_name(item, "body.restored")
