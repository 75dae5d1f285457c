"""An event's effects: the changes of items and the edges it adds, as pure functions that writer and verifier share.

No edge joins a node to itself. An erased event keeps the edges that its open columns prove; the tombstone
(``ERASED``) may carry the others in ``edges``, so that a trace survives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

from lazaretto.types import Edge, EdgeKind, Event, EventKind, Ruling

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


# The changes of items in an event: one pure function that the writer and the verifier share.

FIELDS = ("channel", "image", "hidden", "erased", "superseded_by", "ruling")
"""The columns of an item that events may change."""

CHANGING = frozenset(
    {
        EventKind.RULED,
        EventKind.RELEASED,
        EventKind.ERASED,
        EventKind.SUPERSEDED,
        EventKind.REPAIRED,
        EventKind.UNDONE,
        EventKind.WITHDRAWN,
    }
)
"""The kinds of events that may change an item."""

STRICTEST_SHOWN = Ruling.WARN
"""An item ruled more strictly than this is out of sight."""

Change = tuple[str, str, Any]
"""Item id, field, new value."""


@dataclass(frozen=True, slots=True)
class ItemState:
    """The present state of an item.

    ``hidden``: by a repair. ``held``: hidden, or ruled stricter than ``warn``. ``visible`` (usable, shown): neither
    held nor replaced nor erased.
    """

    hidden: bool = False
    """A repair took it out of sight."""
    superseded_by: str | None = None
    """The item that replaced it."""
    erased: bool = False
    """Its content was removed for privacy."""
    ruling: Ruling | None = None
    """The latest ruling; a release counts as ``allow``."""

    @property
    def held(self) -> bool:
        """Whether a repair or a ruling keeps it out of sight."""
        return self.hidden or (self.ruling is not None and self.ruling > STRICTEST_SHOWN)

    @property
    def visible(self) -> bool:
        """Whether recall and search may show it: not held, not replaced, not erased."""
        return not (self.held or self.erased or self.superseded_by is not None)

    @property
    def word(self) -> str:
        """erased, replaced, hidden, held, or use."""
        if self.erased:
            return "erased"
        if self.superseded_by is not None:
            return "replaced"
        if self.hidden:
            return "hidden"
        return "held" if self.held else "use"


def with_change(state: ItemState, field: str, value: Any) -> ItemState:
    """The state after one of the changes of ``changes_of``."""
    if field == "hidden":
        return replace(state, hidden=bool(value))
    if field == "erased":
        return replace(state, erased=bool(value))
    if field == "superseded_by":
        return replace(state, superseded_by=value)
    if field == "ruling":
        return replace(state, ruling=None if value is None else Ruling(value))
    return state


def visible_sql(table: str = "lz_items") -> str:
    """``ItemState.visible`` as a condition on the rows of ``table``, the name or alias of lz_items in the statement."""
    return (
        f"({table}.hidden = 0 AND {table}.erased = 0 AND {table}.superseded_by IS NULL"
        f" AND ({table}.ruling IS NULL OR {table}.ruling <= {int(STRICTEST_SHOWN)}))"
    )


def held_sql(table: str = "lz_items") -> str:
    """``ItemState.held`` as 1 or 0, in the same way."""
    strictest = int(STRICTEST_SHOWN)
    return f"(CASE WHEN {table}.hidden <> 0 OR COALESCE({table}.ruling, 0) > {strictest} THEN 1 ELSE 0 END)"


def changes_of(kind: EventKind, subject: str, body: Mapping[str, Any] | None) -> Iterator[Change]:
    """The changes that an event makes; an event whose body was erased makes none that need it."""
    if kind is EventKind.RELEASED:
        yield subject, "hidden", 0
        yield subject, "ruling", int(Ruling.ALLOW)
    elif kind is EventKind.ERASED:
        yield subject, "erased", 1
        yield subject, "image", None
        # the bodies with ruling and channel are gone too, so a replay could not know them
        yield subject, "ruling", None
        yield subject, "channel", (body or {}).get("channel", "")
        if (body or {}).get("held"):  # what was made from it stays held, as if its content were still here
            yield subject, "hidden", 1
    elif body is None:
        return
    elif kind is EventKind.RULED:
        yield subject, "ruling", int(Ruling.from_label(body["ruling"]))
    elif kind is EventKind.SUPERSEDED:
        yield body["old"], "superseded_by", subject
    elif kind is EventKind.REPAIRED:
        yield from _repair_changes(body)
    elif kind is EventKind.UNDONE:
        yield from _undo_changes(body)
    elif kind is EventKind.WITHDRAWN:
        yield from _undo_changes({"restored": {subject: body["was"]}})


def restored_by(event: Event) -> set[str]:
    """The items that an ``UNDONE`` event puts back as they were; a repair may be undone in part."""
    return {str(item) for item in (event.body or {}).get("restored") or ()}


def _repair_changes(receipt: Mapping[str, Any]) -> Iterator[Change]:
    for step in receipt.get("plan", {}).get("steps", ()):
        if step["action"] in ("hide", "remove"):
            yield step["item"], "hidden", 1
        elif step["action"] == "show":
            yield step["item"], "hidden", 0


def _undo_changes(body: Mapping[str, Any]) -> Iterator[Change]:
    """``restored`` maps an item to the fields as they were: any of ``hidden``, ``superseded_by`` and ``ruling``."""
    for item, fields in body.get("restored", {}).items():
        if "hidden" in fields:
            yield item, "hidden", int(bool(fields["hidden"]))
        if "superseded_by" in fields:
            yield item, "superseded_by", fields["superseded_by"]
        if "ruling" in fields:
            word = fields["ruling"]
            yield item, "ruling", None if word is None else int(Ruling.from_label(word))
