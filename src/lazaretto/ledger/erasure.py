"""Removing content for privacy: bodies and salts go, hashes and tombstones stay, so the chain still verifies.

What stays readable: the ids, agents, kinds and times of the events, and the edges between them.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any

import sqlalchemy as sa

from lazaretto.errors import InputError, UnknownItem
from lazaretto.ledger import contents, refs, search, vectors
from lazaretto.ledger.appending import insert_sql, lock_head, write_batch
from lazaretto.ledger.chain import EventRows, Linker, event_from
from lazaretto.ledger.drafts import Batch
from lazaretto.ledger.effects import edges_of, held_sql
from lazaretto.ledger.schema import edges, events, items
from lazaretto.types import Channel, Edge, Event, EventKind, plain

_WITH_CONTENT = (
    EventKind.SEEN,
    EventKind.RULED,
    EventKind.REPORTED,
    EventKind.LABELLED,
    EventKind.APPEALED,
    EventKind.NOTED,
)
"""Kinds of events whose body may quote the content to erase; the others name only ids."""
_RETENTION_REASON = "older than the retention limit"
RETAIN_CHUNK = 200


def erase_subjects(
    connection: sa.Connection,
    linker: Linker,
    namespace: str,
    subjects: Sequence[str],
    reason: str,
    *,
    by: str = "",
    keep_known: bool = False,
) -> EventRows:
    """Erase the content of items, decisions or cases, leaving one tombstone each, in the caller's transaction.

    ``by`` is recorded. ``keep_known``: their fingerprints stay, so that copies of harmful content are still caught.
    """
    head = lock_head(connection, namespace)
    assert head is not None
    tenant = head[0]
    texts: list[tuple[int, str]] = []
    images: set[str] = set()
    tombstones = []
    for subject in subjects:
        item = connection.execute(
            sa.select(items.c.channel, items.c.image, sa.literal_column(held_sql())).where(
                items.c.tenant == tenant, items.c.id == subject
            )
        ).first()
        named = [subject, refs.ABOUT + subject, vectors.ABOUT + subject]
        if not keep_known:
            named.append(refs.FINGERPRINTS_ABOUT + subject)
        about = _events_about(connection, tenant, namespace, named)
        if item is None and not any(map(_holds_content, about)):
            raise UnknownItem(subject, namespace)
        full = [event for event in about if event.body is not None]
        if not full:
            raise InputError("item", f"{subject!r} has no content left: it was erased before")
        if item is not None and item[1] is not None:
            images.add(item[1])
        texts.extend(_indexed(full))
        _remove_bodies(connection, tenant, full)
        if not keep_known:
            refs.forget(connection, tenant, subject)
        tombstones.append(
            _tombstone(subject, reason, by, full, *(("", False) if item is None else (item[0], bool(item[2]))))
        )
    linked = write_batch(
        connection, linker, namespace, head, Batch.of_ledger(EventKind.ERASED, tombstones, time.time())
    )
    search.drop(connection, tenant, texts)
    vectors.drop(connection, tenant, subjects)
    refs.drop(connection, tenant, subjects)
    contents.drop_unused(connection, tenant, images)
    return linked


def _events_about(connection: sa.Connection, tenant: int, namespace: str, subjects: Sequence[str]) -> list[Event]:
    """The events about ``subjects`` that may hold content, erased ones too."""
    rows = connection.execute(
        sa.select(events)
        .where(events.c.tenant == tenant, events.c.subject.in_(subjects))
        .where(events.c.kind.in_([kind.value for kind in _WITH_CONTENT]))
        .order_by(events.c.seq)
    )
    return [event_from(namespace, row) for row in rows]


def _holds_content(event: Event) -> bool:
    """Whether an event about something that is no item may be erased: a decision, or a case of the library."""
    noted = event.kind is EventKind.NOTED and (event.body is None or event.body.get("what") == "case")
    return event.kind is EventKind.REPORTED or noted


def _indexed(full: Iterable[Event]) -> list[tuple[int, str]]:
    return [
        (event.seq, event.body.get("text", ""))
        for event in full
        if event.body is not None and event.kind is EventKind.SEEN and event.body.get("channel") == Channel.MEMORY.value
    ]


def _without_body(event: Event) -> Event:
    return Event(
        event.namespace, event.seq, event.kind, event.subject, event.agent, event.time, None, event.prev, event.hash
    )


def _remove_bodies(connection: sa.Connection, tenant: int, full: Sequence[Event]) -> None:
    seqs = [event.seq for event in full]
    connection.execute(
        events.update().where(events.c.tenant == tenant, events.c.seq.in_(seqs)).values(body=None, salt=None)
    )
    connection.execute(edges.delete().where(edges.c.tenant == tenant, edges.c.seq.in_(seqs)))
    rows = [
        (tenant, event.seq, place, edge.source, edge.target, edge.kind.value, edge.time)
        for event in full
        for place, edge in enumerate(edges_of(_without_body(event)))
    ]
    if rows:
        connection.exec_driver_sql(insert_sql(edges, connection.dialect.name), rows)


def _tombstone(
    subject: str, reason: str, by: str, full: Sequence[Event], channel: str, held: bool
) -> tuple[str, dict[str, Any]]:
    """Subject and body of the ERASED event: the erased events, the edges that only their bodies held, the item's source
    class, by which what was made from it is trusted, and whether it was held: a client that sends it again must not
    profit from the erasure."""
    kept: dict[Edge, None] = {}
    for event in full:
        kept_edges = set(edges_of(_without_body(event)))
        kept.update(dict.fromkeys(edge for edge in edges_of(event) if edge not in kept_edges))
    body: dict[str, Any] = {
        "reason": reason,
        "events": [event.seq for event in full],
        "edges": [plain(edge) for edge in kept],
        "channel": channel,
        **next(({"source": event.body["source"]} for event in full if event.body and event.kind is EventKind.SEEN), {}),
        **({"by": by} if by else {}),
        **({"held": True} if held else {}),
    }
    return subject, body


def erase_before(connection: sa.Connection, linker: Linker, namespace: str, before: float, by: str = "") -> EventRows:
    """Erase some of the items and decisions recorded before a moment; an empty answer says that none is left."""
    head = lock_head(connection, namespace)
    assert head is not None
    ruled = events.alias()
    # a record of another store brings its own time; when it was first ruled on is known
    first_ruled = (
        sa.select(sa.func.min(ruled.c.time))
        .where(ruled.c.tenant == head[0], ruled.c.subject == events.c.subject)
        .where(ruled.c.kind == EventKind.RULED.value)
        .scalar_subquery()
    )
    old = connection.execute(
        sa.select(events.c.subject)
        .where(events.c.tenant == head[0], events.c.time < before, events.c.body.is_not(None))
        .where(events.c.kind.in_([EventKind.SEEN.value, EventKind.REPORTED.value]))
        .where(sa.func.coalesce(first_ruled, events.c.time) < before)
        .order_by(events.c.seq)
        .limit(RETAIN_CHUNK)
    )
    subjects = list(dict.fromkeys(row[0] for row in old))
    return (
        erase_subjects(connection, linker, namespace, subjects, _RETENTION_REASON, by=by, keep_known=True)
        if subjects
        else EventRows(namespace, [])
    )
