"""From an event to the edges it adds to the provenance graph: one pure function that the store and the graph share.

An edge that would join a node to itself is never made. An event whose body was erased keeps only the edges that its
open columns (subject, agent) prove; the tombstone (``ERASED``) may carry the others in ``edges``, so that a trace
survives the removal of the content.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from lazaretto.types import Edge, EdgeKind, Event, EventKind

DECISION_PREFIX = "de_"
"""Ids of decisions start with this; it tells the two kinds of INFLUENCED targets apart."""

_NO_BODY: Mapping[str, Any] = {}

# reaching for a member of an enum runs Python code in 3.11, and these functions run for every event
_WRITTEN_BY = EdgeKind.WRITTEN_BY
_DERIVED_FROM = EdgeKind.DERIVED_FROM
_RETRIEVED_BY = EdgeKind.RETRIEVED_BY
_SENT_TO = EdgeKind.SENT_TO
_INFLUENCED = EdgeKind.INFLUENCED
_SUPERSEDES = EdgeKind.SUPERSEDES


def is_decision(node: str) -> bool:
    """Whether an id names a decision rather than an item."""
    return node.startswith(DECISION_PREFIX)


def _seen(event: Event, body: Mapping[str, Any]) -> Iterable[Edge]:
    yield Edge(event.subject, event.agent, _WRITTEN_BY, event.time)
    for parent in body.get("parents") or ():
        yield Edge(event.subject, parent, _DERIVED_FROM, event.time)


def _retrieved(event: Event, body: Mapping[str, Any]) -> Iterable[Edge]:
    yield Edge(event.subject, event.agent, _RETRIEVED_BY, event.time)


def _sent(event: Event, body: Mapping[str, Any]) -> Iterable[Edge]:
    yield Edge(event.subject, body.get("to", ""), _SENT_TO, event.time)


def _derived(event: Event, body: Mapping[str, Any]) -> Iterable[Edge]:
    yield Edge(event.subject, body.get("parent", ""), _DERIVED_FROM, event.time)


def _influenced(event: Event, body: Mapping[str, Any]) -> Iterable[Edge]:
    yield Edge(event.subject, body.get("target", ""), _INFLUENCED, event.time)


def _reported(event: Event, body: Mapping[str, Any]) -> Iterable[Edge]:
    yield Edge(event.subject, event.agent, _WRITTEN_BY, event.time)
    for item in body.get("rests_on") or ():
        yield Edge(item, event.subject, _INFLUENCED, event.time)


def _superseded(event: Event, body: Mapping[str, Any]) -> Iterable[Edge]:
    yield Edge(event.subject, body.get("old", ""), _SUPERSEDES, event.time)


def _erased(event: Event, body: Mapping[str, Any]) -> Iterable[Edge]:
    for kept in body.get("edges") or ():
        yield Edge(kept["source"], kept["target"], EdgeKind(kept["kind"]), float(kept["time"]))


_MAKERS: Mapping[EventKind, Callable[[Event, Mapping[str, Any]], Iterable[Edge]]] = {
    EventKind.SEEN: _seen,
    EventKind.RETRIEVED: _retrieved,
    EventKind.SENT: _sent,
    EventKind.DERIVED: _derived,
    EventKind.INFLUENCED: _influenced,
    EventKind.REPORTED: _reported,
    EventKind.SUPERSEDED: _superseded,
    EventKind.ERASED: _erased,
}


def edges_of(event: Event) -> tuple[Edge, ...]:
    """The edges that ``event`` adds, each once, in a fixed order; none for kinds that only change state."""
    maker = _MAKERS.get(event.kind)
    if maker is None:
        return ()
    body = event.body or _NO_BODY
    edges = [edge for edge in maker(event, body) if edge.source and edge.target and edge.source != edge.target]
    return tuple(edges) if len(edges) < 2 else tuple(dict.fromkeys(edges))
