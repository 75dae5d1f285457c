"""An incident and its parts: plain records, all of them derived from the ledger."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from lazaretto.names import warn_old_name
from lazaretto.provenance.traces import OutbreakWindow

State = Literal["open", "contained", "cleared"]
STATES: tuple[State, ...] = ("open", "contained", "cleared")
Role = Literal["patient zero", "finding", "carrier", "reached"]


@dataclass(frozen=True, slots=True)
class IncidentItem:
    """One item of an incident."""

    id: str
    role: Role
    """``finding``: a gate, a repair or a person found it. ``carrier``: it carries a finding's content. ``reached``:
    something was made from one of these."""
    agent: str
    """The agent that wrote it."""
    time: float
    channel: str
    source: str
    text: str
    """Its text, cut to a length that a report can show."""
    image: str | None
    shown: bool
    """Whether recall may still return it."""
    standing: str
    """Its state: in recall, held, hidden, replaced, released, erased, or not a memory."""
    rule: str
    """The rule that found it, or that of its last ruling."""
    risk: float | None


@dataclass(frozen=True, slots=True)
class AgentReached:
    """An agent that wrote, read or was sent an item of the incident."""

    agent: str
    time: float
    """The time it first met one."""
    hops: int
    """0 for who brought patient zero in."""
    to_screen: bool
    """Whether nobody has looked at it since."""


@dataclass(frozen=True, slots=True)
class DecisionTouched:
    """A reported decision that rested on an item of the incident."""

    id: str
    agent: str
    time: float
    what: str
    success: bool | None


@dataclass(frozen=True, slots=True)
class TimelineEntry:
    """One thing that happened."""

    seq: int
    time: float
    kind: str
    """The event's kind."""
    subject: str
    agent: str
    says: str
    """A few words."""


@dataclass(frozen=True, slots=True)
class RepairDone:
    """A repair that touched the incident."""

    receipt: str
    repair: str
    time: float
    items: int
    undone: bool
    reason: str


@dataclass(frozen=True, slots=True)
class Incident:
    """Everything about one incident."""

    id: str
    """Made from the first item that was found, so it stays when more is."""
    state: State
    """``open``: an item that carries it is still in recall. ``contained``: none is, but not all of it is settled.
    ``cleared``: every finding was repaired, labelled or released, and items made from it were looked at again."""
    false_alarm: bool
    """Whether people released every finding."""
    title: str
    patient_zero: str
    """The item it began with, as far as the ledger tells."""
    brought_by: str
    """The agent that wrote it."""
    opened: float
    """The time at which its first item was seen."""
    found: float
    """The time of its first finding."""
    updated: float
    items: tuple[IncidentItem, ...]
    """Patient zero first, then findings and carriers in time order."""
    reached: tuple[IncidentItem, ...]
    """Other items made from these."""
    agents: tuple[AgentReached, ...]
    decisions: tuple[DecisionTouched, ...]
    reproduction: tuple[OutbreakWindow, ...]
    """Agents that each reached agent went on to reach, per stretch of time."""
    repairs: tuple[RepairDone, ...]
    timeline: tuple[TimelineEntry, ...]
    """Rulings, labels, appeals, repairs and releases, in order."""


@dataclass(frozen=True, slots=True)
class HeldItem:
    """An item that waits for a person."""

    id: str
    agent: str
    channel: str
    since: float
    ruling: str
    rule: str
    risk: float
    text: str
    reasons: tuple[str, ...]
    appealed: bool
    """Whether the ruling is disputed."""
    copies: tuple[str, ...] = ()
    """Others that wait and say exactly the same, from the same kind of source: one decision settles them all."""


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name != "Held":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        warn_old_name("lazaretto.incidents.records.Held", "HeldItem")
        return HeldItem
