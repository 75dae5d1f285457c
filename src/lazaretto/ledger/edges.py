"""From an event to the edges it adds to the provenance graph: one pure function for the store and the graph.

No edge joins a node to itself. An erased event keeps the edges that its open columns prove; the tombstone (``ERASED``)
may carry the others in ``edges``, so that a trace survives.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from lazaretto.types import Edge, EdgeKind, Event, EventKind

DECISION_PREFIX = "de_"
"""Ids of decisions start with this; it tells the two kinds of INFLUENCED targets apart."""

_NO_BODY: Mapping[str, Any] = {}

EdgeFields = tuple[str, str, str, float]
"""Source, target, kind, time: an edge as plain fields, because the record is more expensive to make."""


EdgeEnd = Literal["source", "target"]
"""The end of an edge."""


class EdgeColumns(NamedTuple):
    """Many edges at once, as columns of equal length."""

    sources: Sequence[str]
    targets: Sequence[str]
    words: Sequence[str]
    """The words of their kinds."""
    times: Sequence[float]


# plain words, because reaching for a member of an enum runs Python code in 3.11, and this runs for every event
_WRITTEN_BY = EdgeKind.WRITTEN_BY.value
_DERIVED_FROM = EdgeKind.DERIVED_FROM.value
_RETRIEVED_BY = EdgeKind.RETRIEVED_BY.value
_SENT_TO = EdgeKind.SENT_TO.value
_INFLUENCED = EdgeKind.INFLUENCED.value
_SUPERSEDES = EdgeKind.SUPERSEDES.value
_KINDS = {kind.value: kind for kind in EdgeKind}


def is_decision(node: str) -> bool:
    """Whether an id names a decision rather than an item."""
    return node.startswith(DECISION_PREFIX)


def _seen(subject: str, agent: str, time: float, body: Mapping[str, Any]) -> list[EdgeFields]:
    written = (subject, agent, _WRITTEN_BY, time)
    parents = body.get("parents")
    return [written, *[(subject, parent, _DERIVED_FROM, time) for parent in parents]] if parents else [written]


def _retrieved(subject: str, agent: str, time: float, body: Mapping[str, Any]) -> list[EdgeFields]:
    return [(subject, agent, _RETRIEVED_BY, time)]


def _sent(subject: str, agent: str, time: float, body: Mapping[str, Any]) -> list[EdgeFields]:
    return [(subject, body.get("to", ""), _SENT_TO, time)]


def _derived(subject: str, agent: str, time: float, body: Mapping[str, Any]) -> list[EdgeFields]:
    return [(subject, body.get("parent", ""), _DERIVED_FROM, time)]


def _influenced(subject: str, agent: str, time: float, body: Mapping[str, Any]) -> list[EdgeFields]:
    if "sources" in body:  # the subject is the target; the body lists all its sources
        return [(source, subject, _INFLUENCED, time) for source in body["sources"]]
    return [(subject, body.get("target", ""), _INFLUENCED, time)]


def _reported(subject: str, agent: str, time: float, body: Mapping[str, Any]) -> list[EdgeFields]:
    rested = [(item, subject, _INFLUENCED, time) for item in body.get("rests_on") or ()]
    return [(subject, agent, _WRITTEN_BY, time), *rested]


def _superseded(subject: str, agent: str, time: float, body: Mapping[str, Any]) -> list[EdgeFields]:
    return [(subject, body.get("old", ""), _SUPERSEDES, time)]


def _erased(subject: str, agent: str, time: float, body: Mapping[str, Any]) -> list[EdgeFields]:
    return [
        (kept["source"], kept["target"], EdgeKind(kept["kind"]).value, float(kept["time"]))
        for kept in body.get("edges") or ()
    ]


_MAKERS: Mapping[EventKind, Callable[[str, str, float, Mapping[str, Any]], list[EdgeFields]]] = {
    EventKind.SEEN: _seen,
    EventKind.RETRIEVED: _retrieved,
    EventKind.SENT: _sent,
    EventKind.DERIVED: _derived,
    EventKind.INFLUENCED: _influenced,
    EventKind.REPORTED: _reported,
    EventKind.SUPERSEDED: _superseded,
    EventKind.ERASED: _erased,
}


def edge_fields(
    kind: EventKind, subject: str, agent: str, time: float, body: Mapping[str, Any] | None
) -> Sequence[EdgeFields]:
    """The edges that an event adds, each once, in a fixed order; none for kinds that only change state."""
    maker = _MAKERS.get(kind)
    if maker is None:
        return ()
    made = maker(subject, agent, time, body or _NO_BODY)
    if len(made) == 1:  # the usual case, and the others are three times dearer
        source, target, _, _ = made[0]
        return made if source and target and source != target else ()
    return [edge for edge in dict.fromkeys(made) if edge[0] and edge[1] and edge[0] != edge[1]]


def edges_of(event: Event) -> tuple[Edge, ...]:
    """The same edges as records."""
    fields = edge_fields(event.kind, event.subject, event.agent, event.time, event.body)
    return tuple([Edge(source, target, _KINDS[word], time) for source, target, word, time in fields])
