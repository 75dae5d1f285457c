"""Answers of the HTTP calls: JSON as ``types.plain`` writes records, and the schemas that describe it.

Most records are their own schema. Those that differ on the wire are described here; a test compares the two.
"""

from __future__ import annotations

from typing import Any, Literal

import orjson
from pydantic import BaseModel, Field

from lazaretto.errors import InputError, LazarettoError, MissingExtra
from lazaretto.types import (
    Channel,
    Cost,
    Decision,
    Evidence,
    GateRun,
    MemoryFields,
    RepairPlan,
    SourceClass,
    decision_data,
    plain,
)

try:
    from fastapi import Response
except ImportError:
    raise MissingExtra("the HTTP server", "api") from None

RulingWord = Literal["allow", "warn", "review", "rewrite", "quarantine", "block"]


def answer(data: Any, status: int = 200) -> Response:
    """Records as JSON."""
    return Response(orjson.dumps(plain(data), option=orjson.OPT_NON_STR_KEYS), status, media_type="application/json")


def ruled(decision: Decision) -> Response:
    """A decision, with the words a caller acts on spelled out."""
    return answer(decision_data(decision))


def fault(error: LazarettoError) -> dict[str, Any]:
    """An error as data: the problem and, for bad input, the field and how to mend it."""
    body: dict[str, Any] = {"error": type(error).__name__, "message": str(error)}
    if isinstance(error, InputError):
        body |= {"field": error.field, "fix": error.fix}
    return body


class Fault(BaseModel):
    """An error."""

    error: str
    message: str
    field: str | None = None
    fix: str | None = None


ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": Fault, "description": words}
    for status, words in (
        (400, "The request is not one"),
        (401, "No key, or a wrong one"),
        (403, "The key does not cover this call"),
        (404, "Unknown id"),
        (408, "The body took too long"),
        (409, "Refused: it does not fit what stands now"),
        (413, "Too large"),
        (421, "Not a host this server answers to"),
        (422, "Bad input"),
        (429, "Too many requests"),
        (501, "A part that is not installed"),
        (503, "The store or a model is away, or the server is full"),
    )
}
"""Answers that any call may give besides its own."""


class VerdictAnswer(BaseModel):
    """One gate's opinion."""

    gate: str
    subject: str
    ruling: RulingWord
    risk: float
    interval: tuple[float, float]
    rule: str
    evidence: list[Evidence]
    taxonomy: list[str]
    cost: Cost
    replacement: str | None


class DecisionAnswer(BaseModel):
    """The ruling on an item, the reasons, and the gates that really ran."""

    item: str
    ruling: RulingWord
    risk: float
    interval: tuple[float, float]
    rule: str
    verdicts: list[VerdictAnswer]
    runs: list[GateRun]
    cost: Cost
    replacement: str | None
    settled: list[str]
    would: RulingWord | None
    kept: str = Field(description="After rewrite by remember: id of the memory that was kept instead; else empty.")
    allowed: bool = Field(description="Whether the item may be used as it is.")
    complete: bool = Field(
        description="Whether every gate that the policy requires really ran, and the readers it asks."
    )
    action: Literal["allow", "transform", "deny"]
    reasons: list[str]


class RefAnswer(BaseModel):
    """The place of a record in a store of the caller's own."""

    system: str
    namespace: str
    key: str


class RecalledAnswer(BaseModel):
    """One memory that an agent may use."""

    id: str
    text: str
    image: str | None = Field(description="Content address of a picture: GET /v1/items/{id}/image has it.")
    agent: str
    source: SourceClass
    time: float
    trust: float
    score: float | None
    conflicts: list[str]
    ref: RefAnswer | None


class RecalledRefs(BaseModel):
    """The requested records that an agent may use."""

    memories: list[RecalledAnswer] = Field(description="In the order asked for, without held or deleted ones.")
    unknown: list[RefAnswer] = Field(description="Refs that nobody recorded: what stands there was not judged.")


class Forgotten(BaseModel):
    """The record that was deleted in the caller's own store."""

    forgotten: RefAnswer


class ImportedItem(BaseModel):
    """A record that is new here."""

    ref: RefAnswer
    item: str


class RefusedRecord(BaseModel):
    """A record that could not be read."""

    ref: RefAnswer
    reason: str


class ImportedAnswer(BaseModel):
    """The result of an import of records."""

    items: list[ImportedItem]
    held: list[RefAnswer] = Field(description="Those of them that are held: GET /v1/write-backs names them too.")
    known: int = Field(description="Records that were here already, as they are.")
    refused: list[RefusedRecord]


class ReconciledAnswer(BaseModel):
    """The differences between your store and the ledger."""

    clean: bool
    unknown: list[RefAnswer] = Field(description="In your store and not in the ledger: nobody judged them.")
    changed: list[RefAnswer] = Field(description="Something else stands there than what was judged.")
    held: list[RefAnswer] = Field(description="Held here, and still or again there.")
    missing: list[RefAnswer] = Field(description="In use here, and not in your store any more.")
    same: int


class DueWriteAnswer(BaseModel):
    """One write that your store has to be given."""

    ref: RefAnswer
    item: str
    write: Literal["put", "delete"]
    value: Any = Field(description="What to put; null for a deletion.")
    error: str = Field(description="Why the last try failed, as you reported it.")


class NotedWrites(BaseModel):
    """How many of the writes were news."""

    noted: int


class ScreenResults(BaseModel):
    """Decisions in the order of the request; an item that could not be read has an error instead."""

    results: list[DecisionAnswer | Fault]


class AuditAnswer(BaseModel):
    """A debate's report."""

    id: str
    label: Literal["safe", "unsafe", "review"]
    risk: float
    interval: tuple[float, float]
    rule: str
    reasoning: str
    undecided: str
    """Why there is no ruling; empty where there is one."""
    taxonomy: list[str]
    evidence: list[Evidence]
    precedents: list[dict[str, Any]]
    transcript: list[dict[str, Any]]
    cost: dict[str, Any]
    faults: list[str]
    model_config = {"extra": "allow"}


class AuditResults(BaseModel):
    """Reports in the order of the request; an item that could not be read has an error instead."""

    results: list[AuditAnswer | Fault]


class ObservationAnswer(BaseModel):
    """An item: one thing an agent read, kept or sent."""

    agent: str
    channel: Channel
    text: str
    image: str | None
    fields: MemoryFields | None
    parents: list[str]
    source: SourceClass
    namespace: str
    time: float
    id: str
    key: str
    ref: Any = Field(description="What it is called in the crew's own store; null without one.")
    value: Any = Field(description="What that store keeps under this name; null without one.")
    principal: str = Field(description="Who proved to be behind the write; empty in items from before it was kept.")
    tool: str = Field(description="The tool that answered with it; empty where that is not known.")


class StateAnswer(BaseModel):
    """The present state of an item."""

    hidden: bool
    superseded_by: str | None
    erased: bool
    ruling: RulingWord | None


class ItemAnswer(BaseModel):
    """An item, its state, and its last ruling."""

    item: ObservationAnswer
    state: StateAnswer
    held: bool
    visible: bool


class ItemDetail(ItemAnswer):
    """An item with everything that was recorded about it."""

    trust: dict[str, Any]
    decision: dict[str, Any] | None = Field(description="The last ruling, as it was recorded.")
    events: list[dict[str, Any]]
    conflicts: list[str]


class Step(BaseModel):
    """One node of a trace."""

    id: str
    hops: int
    time: float


class BlastRadiusAnswer(BaseModel):
    """The reach of an item."""

    origin: str
    items: list[Step]
    agents: list[Step]
    decisions: list[Step]


class LineageAnswer(BaseModel):
    """The lineage of an item."""

    item: str
    items: list[Step]
    roots: list[str]
    writers: list[str]


class ContactAnswer(BaseModel):
    """One exposure between two agents."""

    agent: str
    item: str
    direction: Literal["in", "out"]
    time: float


class PreviewAnswer(BaseModel):
    """The effect of one step of a plan."""

    step: dict[str, Any]
    before: StateAnswer
    after: StateAnswer


class ProposalAnswer(BaseModel):
    """A repair that waits for a person."""

    id: str
    origin: str = Field(description="The item that was held late.")
    time: float
    reason: str
    actions: dict[str, str] = Field(description="Item -> what would be done to it, when it was proposed.")
    counts: dict[str, int]


class ChangeAnswer(BaseModel):
    """The change that a proposal would make to one item."""

    item: str
    action: str
    before: str
    after: str = Field(description="The new text; empty where the text stays or goes.")
    difference: str
    why: str


class ProposedAnswer(BaseModel):
    """A proposal as it would be done now."""

    proposal: ProposalAnswer
    changes: list[ChangeAnswer]
    left: dict[str, str] = Field(description="What stays in use, each with the reason.")
    seen: str = Field(description="Hand it back to apply exactly this.")


class ProposalDismissed(BaseModel):
    """A proposal that waits no longer."""

    dismissed: str


class ReceiptAnswer(BaseModel):
    """Proof of a repair, and the way back."""

    plan: RepairPlan
    before: dict[str, str]
    after: dict[str, str]
    cost: Cost
    time: float
    undone: bool = Field(description="Whether all of its steps were undone.")
    id: str
    foreign: list[dict[str, Any]] = Field(description="Records in the crew's own stores, and whether they follow.")
    by: str = Field(description="Who applied it; empty for the guard itself.")
    restored: list[str] = Field(description="Its items whose step was undone.")


class BeforeTurnAnswer(BaseModel):
    """Findings and actions of foresight before an agent spoke."""

    agent: str
    removed: list[str] = Field(description="The agent's items that are out of recall from now on.")
    forget: list[tuple[str, str]] = Field(
        description="Chats (the text heard, the reply) to take out of the agent's history."
    )
    unread: list[str] = Field(description="Suspicious items that could not be rehearsed.")
    waiting: list[str] = Field(description="Items that nobody has looked into yet; nothing speaks against them.")
    receipts: list[ReceiptAnswer]
    calls: int = Field(description="Model calls that were made.")
    would: list[str] = Field(description="In mode `observe`: what would have been removed.")
    reason: str
    clear: bool = Field(description="Whether everything the agent holds has been looked into.")


class Health(BaseModel):
    """Whether the server can work."""

    ok: bool
    events: int


class Whoami(BaseModel):
    """The caller as the server knows it."""

    name: str
    role: Literal["agent", "reviewer", "admin"]
    agents: list[str]
    sources: list[SourceClass] = Field(description="The sources that the caller may claim.")
    namespace: str
    open: bool = Field(description="Whether this server asks nobody for a key.")


class GateAnswer(BaseModel):
    """A gate that the policy names."""

    name: str
    channels: list[str] = Field(description="Where the policy asks for it.")
    ready: bool
    missing: str = Field(description="Why it does not run, and what brings it; empty where it does.")


class ReportAnswer(BaseModel):
    """The id of a recorded decision."""

    decision: str


class Settled(BaseModel):
    """The item that holds, and the one that does not."""

    kept: str
    ended: str


class VersionAnswer(BaseModel):
    """One version of the case library."""

    version: str
    live: bool
    cases: int
    parent: str
    reason: str
    time: float


class CasesAnswer(BaseModel):
    """The case library."""

    live: str
    versions: list[VersionAnswer]


class LiveVersion(BaseModel):
    """The version in use."""

    live: str
