"""Drafts of events that a caller may append. They are checked here, before anything touches the store."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from lazaretto.errors import InputError
from lazaretto.ledger.chain import check_times, decode_body, encode_body
from lazaretto.ledger.refs import check_ref
from lazaretto.names import check_name, check_names, check_principal
from lazaretto.types import Channel, Draft, EventKind, MemoryFields, Observation, Ref, Ruling, SourceClass, plain

_CHANNELS = frozenset(c.value for c in Channel)
_SOURCES = frozenset(s.value for s in SourceClass)
_PLAIN: dict[str, str] = {word: word.value for word in (*Channel, *SourceClass)}
_RULINGS = frozenset(r.label for r in Ruling)
_SEEN_KEYS = frozenset(
    {"channel", "text", "image", "fields", "parents", "source", "key", "ref", "value", "principal", "tool", "claims"}
)
_COLUMNS = attrgetter("kind", "subject", "agent", "time")
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
_WITHDRAWN = EventKind.WITHDRAWN
_ABOUT_AN_ITEM = frozenset(
    {
        EventKind.RETRIEVED,
        EventKind.SENT,
        EventKind.DERIVED,
        EventKind.INFLUENCED,
        EventKind.RULED,
        EventKind.LABELLED,
        EventKind.WITHDRAWN,
        EventKind.APPEALED,
        EventKind.RELEASED,
        EventKind.SUPERSEDED,
    }
)


@dataclass(frozen=True, slots=True)
class Batch:
    """Drafts that may be appended together, as columns in their stored form, and the references they need."""

    kinds: Sequence[EventKind]
    subjects: Sequence[str]
    agents: Sequence[str]
    times: Sequence[float]
    bodies: Sequence[Mapping[str, Any]]
    """The input for the derived tables."""
    raws: Sequence[bytes]
    """The same bodies as the bytes that are hashed and stored."""
    items: Mapping[str, str]
    """Items that must exist, each with the field that names it."""
    decisions: Mapping[str, str]
    """Decisions that must exist."""
    new: frozenset[str]
    """Items the batch brings; none of them may exist."""
    images: frozenset[str]
    """Blobs that the tenant must have put."""

    @classmethod
    def of_ledger(cls, kind: EventKind, entries: Sequence[tuple[str, Mapping[str, Any]]], time: float) -> Batch:
        """Events that the ledger itself writes: one per subject, each with a body. The subjects are known to exist."""
        count, raws = len(entries), [encode_body(body) for _, body in entries]
        subjects, bodies = [subject for subject, _ in entries], [decode_body(raw) for raw in raws]
        nothing: frozenset[str] = frozenset()
        return cls([kind] * count, subjects, [""] * count, [time] * count, bodies, raws, {}, {}, nothing, nothing)


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
    if observation.key:
        body["key"] = observation.key
    if observation.ref is not None:
        body["ref"] = list(observation.ref)
    if observation.value is not None:
        body["value"] = plain(observation.value)
    if observation.principal:
        body["principal"] = observation.principal
    if observation.tool:
        body["tool"] = observation.tool
    return Draft(EventKind.SEEN, observation.id, observation.agent, body, observation.time)


def observation_of(
    namespace: str, subject: str, agent: str, time: float, body: Mapping[str, Any] | None
) -> Observation:
    """The observation that a SEEN event recorded; erased content comes back as no text from an untrusted source."""
    body = body or {"channel": Channel.MEMORY.value, "source": SourceClass.UNTRUSTED_DOCUMENT.value}
    fields, ref = body.get("fields"), body.get("ref")
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
        key=body.get("key", ""),
        ref=None if ref is None else Ref(*ref),
        value=body.get("value"),
        principal=body.get("principal", ""),
        tool=body.get("tool", ""),
    )


def check_drafts(drafts: Sequence[Draft], namespace: str) -> Batch:
    """Refuse drafts that cannot be recorded, naming the field; else return the batch in its stored form."""
    found_kinds, found_subjects, found_agents, found_times = zip(*map(_COLUMNS, drafts), strict=True)
    kinds = _check_kinds(found_kinds)
    subjects, times = check_names(found_subjects, "subject"), check_times(found_times)
    agents = _check_agents(found_agents, kinds)
    named = _References()
    bodies: list[Mapping[str, Any]] = []
    raws: list[bytes] = []
    for kind, subject, draft in zip(kinds, subjects, drafts, strict=True):
        body = draft.body
        if kind is _SEEN:
            body = _seen_body(draft, namespace)
            raw = encode_body(body)
            named.add_item(subject, body)
        elif kind is _RETRIEVED and type(body) is dict and not body:
            # the most frequent kind: it names nothing but its subject, and most reads carry no body at all
            raw = b"{}"
            if subject not in named.new:
                named.items[subject] = "subject"
        else:
            raw = encode_body(body)
            body = decode_body(raw)
            named.add_event(kind, subject, body)
        bodies.append(body)
        raws.append(raw)
    return Batch(
        kinds, subjects, agents, times, bodies, raws,
        named.items, named.decisions, frozenset(named.new), frozenset(named.images),
    )  # fmt: skip


class _References:
    """Collects the new items of a batch, and the references that must exist already."""

    def __init__(self) -> None:
        self.new: set[str] = set()
        self.images: set[str] = set()
        self.items: dict[str, str] = {}
        self.decisions: dict[str, str] = {}
        self._reported: set[str] = set()

    def add_item(self, subject: str, body: Mapping[str, Any]) -> None:
        """A new item, with a body that was checked."""
        new, items = self.new, self.items
        for parent in body.get("parents", ()):
            if parent not in new:
                items.setdefault(parent, "parents")
        if subject in new or subject in items:
            raise InputError("id", f"{subject!r} is brought twice, or named before it is brought")
        new.add(subject)
        image = body.get("image")
        if image is not None:
            self.images.add(image)

    def add_event(self, kind: EventKind, subject: str, body: Mapping[str, Any]) -> None:
        """Any other event."""
        if kind is _RULED and body.get("ruling") not in _RULINGS:
            words = ", ".join(sorted(_RULINGS))
            raise InputError("body.ruling", f"{body.get('ruling')!r} is not a ruling", f"Use {words}")
        for field, node, is_decision in references(kind, subject, body):
            if is_decision:
                if node not in self._reported:
                    self.decisions.setdefault(node, field)
            elif node not in self.new:
                self.items.setdefault(node, field)
        if kind is _REPORTED:
            self._reported.add(subject)


def _check_kinds(found: Sequence[Any]) -> Sequence[EventKind]:
    try:
        kinds = found if set(map(type, found)) == {EventKind} else [EventKind(kind) for kind in found]
    except ValueError as error:
        raise InputError("kind", str(error), f"Use {', '.join(EventKind)}") from None
    if _ERASED in kinds:
        raise InputError("kind", "an erased event cannot be appended by hand", "Call erase or erase_older_than")
    return kinds


def _check_agents(found: Sequence[Any], kinds: Sequence[EventKind]) -> Sequence[str]:
    """Only an event that brings an item needs an agent."""
    if "" not in found:
        return check_names(found, "agent")
    return [check_name(agent, "agent", empty=kind is not _SEEN) for agent, kind in zip(found, kinds, strict=True)]


def _seen_body(draft: Draft, namespace: str) -> Mapping[str, Any]:
    """The body of a SEEN event, checked: every later reader may rely on its shape."""
    body = draft.body
    if type(body) is not dict and not isinstance(body, Mapping):
        raise InputError("body", f"is {type(body).__name__}, not a mapping")
    if not body.keys() <= _SEEN_KEYS:
        body = _without_columns(draft, namespace)
    channel, source = body.get("channel"), body.get("source")
    if channel not in _CHANNELS:
        raise InputError("channel", f"{channel!r} is not a channel", f"Use {', '.join(sorted(_CHANNELS))}")
    if source not in _SOURCES:
        raise InputError("source", f"{source!r} is not a source", f"Use {', '.join(sorted(_SOURCES))}")
    if type(channel) is not str:  # the member of the enum: tables and bytes hold its word
        body = {**body, "channel": _PLAIN[channel]}
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
    if "key" in body:
        check_name(body["key"], "key", empty=True)
    if "principal" in body:
        check_principal(body["principal"])
    if "tool" in body:
        check_name(body["tool"], "tool")
    if body.get("ref") is not None:
        body = {**body, "ref": list(check_ref(body["ref"]))}
    if ("image" in body and image is None) or ("fields" in body and fields is None) or body.get("ref", ()) is None:
        return {key: value for key, value in body.items() if value is not None}
    return body


def _without_columns(draft: Draft, namespace: str) -> dict[str, Any]:
    """``draft.body`` without the fields of the event's own columns; a contradiction between the two is refused."""
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
    return [check_name(name, field) for name in value]


def references(kind: EventKind, subject: str, body: Mapping[str, Any]) -> Iterator[tuple[str, str, bool]]:
    """References that must exist before the event is valid: field, id, and whether it is a decision (else an item)."""
    if kind in _ABOUT_AN_ITEM:
        yield "subject", subject, False
    if kind is _SEEN:
        for parent in body.get("parents", ()):
            yield "parents", parent, False
    elif kind is _SENT:
        _id_at(body, "to")
    elif kind is _DERIVED:
        yield "body.parent", _other(subject, _id_at(body, "parent"), "body.parent"), False
    elif kind is _INFLUENCED and "sources" in body:
        for source in _ids_in(body["sources"], "body.sources"):
            yield "body.sources", _other(subject, source, "body.sources"), False
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
    elif kind is _WITHDRAWN:
        _check_withdrawal(body)


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


def _check_withdrawal(body: Mapping[str, Any]) -> None:
    gone, was = body.get("events"), body.get("was")
    if not isinstance(gone, list) or not all(type(seq) is int and seq > 0 for seq in gone):
        raise InputError("body.events", "is not a list of event numbers")
    if not isinstance(was, Mapping) or type(was.get("hidden")) is not bool:
        raise InputError("body.was", "must say how the item stood", "For example {'hidden': false, 'ruling': null}")
    if was.get("ruling") is not None and was["ruling"] not in _RULINGS:
        raise InputError("body.was", f"{was['ruling']!r} is not a ruling")


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
