"""Frozen records that cross folders: what was seen, what was ruled, what was repaired.

Records never change, compare by content, and become plain JSON data with ``plain``.
"""

from __future__ import annotations

import dataclasses
import functools
import time as _time
import uuid
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Any, Literal, NamedTuple

from lazaretto.reasons import reasons_in_order, why_it_passed

MACHINE = "lazaretto"
"""The signer of automatic releases of items that proved clean; every other release is a person's."""
REBUILT = "rebuilt"
"""In the meta data of a structured memory: a repair made it."""
BY_PERSON = "person:"
"""Prefix of the rule of a person's ruling."""
COPY_OF = "copy_of"
"""In the body of a label or a release that was given together with another: the item that a person looked at.
It settles a waiting copy, and is no label of its own: it teaches nothing (a text that came a hundred times is one
lesson), excuses no copy from its sources, and a later look may overturn it."""


class Channel(StrEnum):
    """The road by which an item reached an agent."""

    MESSAGE = "message"
    MEMORY = "memory"
    IMAGE = "image"
    TOOL = "tool"
    DOCUMENT = "document"


class SourceClass(StrEnum):
    """The kind of source behind an item; the policy gives each class a trust in [0, 1]."""

    DIRECT_USER = "direct_user"
    MODEL_INFERENCE = "model_inference"
    TOOL_OUTPUT_INTERNAL = "tool_output_internal"
    TOOL_OUTPUT_EXTERNAL = "tool_output_external"
    UNTRUSTED_DOCUMENT = "untrusted_document"
    AGENT_MESSAGE = "agent_message"
    SYSTEM = "system"


class Ruling(IntEnum):
    """The handling of an item, mildest first, so that ``max`` picks the strictest."""

    ALLOW = 0
    WARN = 1
    REVIEW = 2
    REWRITE = 3
    QUARANTINE = 4
    BLOCK = 5

    @property
    def label(self) -> str:
        """The lower-case word used in files, on the wire and on screen."""
        return self.name.lower()

    @classmethod
    def from_label(cls, label: str) -> Ruling:
        """The ruling for a word such as ``"quarantine"``."""
        try:
            return cls[label.upper()]
        except KeyError:
            raise ValueError(f"{label!r} is not a ruling; use one of {', '.join(r.label for r in cls)}") from None

    @property
    def hook_action(self) -> str:
        """The agent-hooks word for this ruling: allow, transform or deny."""
        if self <= Ruling.WARN:
            return "allow"
        return "transform" if self is Ruling.REWRITE else "deny"


class EventKind(StrEnum):
    """The kinds of events. The set is closed: a reader may match on it exhaustively."""

    SEEN = "seen"  # an item entered: the observation itself
    RETRIEVED = "retrieved"  # an agent read an item
    SENT = "sent"  # an item was passed to an agent
    DERIVED = "derived"  # an item turned out to be derived from another (a late edge)
    INFLUENCED = "influenced"  # with `sources`: they probably shaped the subject; with `target`: the subject shaped it
    RULED = "ruled"  # the guard decided about an item
    REPORTED = "reported"  # an outcome: a decision an agent took, and how it went
    LABELLED = "labelled"  # a person labelled an item harmful or benign
    WITHDRAWN = "withdrawn"  # what a person decided about an item was taken back; names the events that count no longer
    APPEALED = "appealed"  # a person disputes a ruling
    REPAIRED = "repaired"  # a repair plan was applied; the body is its receipt, without texts
    UNDONE = "undone"  # a receipt was undone, wholly or in part: `restored` names the items
    RELEASED = "released"  # a held item may be used again
    SUPERSEDED = "superseded"  # an item replaces another, which no longer carries influence
    ERASED = "erased"  # content was removed for privacy; this is its tombstone
    NOTED = "noted"  # all other records: block list, claims, tasks, approvals, proposals, calibrations; see its body


class EdgeKind(StrEnum):
    """Typed edges of the provenance graph; each reads 'source KIND target'."""

    WRITTEN_BY = "written_by"  # item -> agent
    DERIVED_FROM = "derived_from"  # item -> item it was made from
    RETRIEVED_BY = "retrieved_by"  # item -> agent
    SENT_TO = "sent_to"  # item -> agent
    INFLUENCED = "influenced"  # item -> item or decision it shaped
    SUPERSEDES = "supersedes"  # item -> item it replaces


@dataclass(frozen=True, slots=True)
class MemoryFields:
    """The memory paper's structured record: state x, context u, action y, tags t, and meta data."""

    state: tuple[float, ...] = ()
    context: tuple[float, ...] = ()
    action: tuple[float, ...] = ()
    tags: tuple[str, ...] = ()
    meta: Mapping[str, Any] = field(default_factory=dict)


def new_id(prefix: str = "it") -> str:
    """A fresh id that sorts by the time it was made."""
    return f"{prefix}_{int(_time.time() * 1000):011x}{uuid.uuid4().hex[:13]}"


class Ref(NamedTuple):
    """The name under which a store of the caller's own keeps a record."""

    system: str
    """The store, for example ``langgraph``."""
    namespace: str
    """The namespace in it; empty if the store has none."""
    key: str


@dataclass(frozen=True, slots=True)
class Observation:
    """An item: one thing an agent read, kept or sent."""

    agent: str
    """The agent that wrote or brought it in."""
    channel: Channel
    """The road it came by."""
    text: str = ""
    image: str | None = None
    """Content address (sha256 hex) of a picture in the ledger's blob store."""
    fields: MemoryFields | None = None
    """Structured memory, where there is one."""
    parents: tuple[str, ...] = ()
    """Ids of the items it was derived from."""
    source: SourceClass = SourceClass.AGENT_MESSAGE
    namespace: str = "default"
    """The tenant it belongs to; nothing crosses namespaces."""
    time: float = field(default_factory=_time.time)
    """Seconds since the epoch, as the caller's clock had it."""
    id: str = field(default_factory=new_id)
    key: str = ""
    """The name under which the caller's own store keeps a memory, for example ``identity.role``; empty without one."""
    ref: Ref | None = None
    """The ref of the memory in a store of the caller's own, so that repairs reach it there."""
    value: Any = field(default=None, hash=False)
    """The value in that store, as JSON data; None if it is the text itself."""
    principal: str = ""
    """The proven identity behind the write, for example ``key:scout``; empty in old items: see ``principal_of``."""
    tool: str = ""
    """The tool that answered with it, as it was called; empty where that is not known, and in old items."""


PROCESS = "process:"
"""Prefix of a principal that the operator's own code vouches for: the agent's name follows."""


def principal_of(observation: Observation) -> str:
    """The principal behind a write. Items that record none were written by the operator's own process."""
    return observation.principal or f"{PROCESS}{observation.agent}"


OPERATOR, MCP = "operator:", "mcp:"
"""Prefixes of the two other principals for whose agent's name the operator vouches. A key may be for any name."""
CLAIMED = "claimed:"
"""Prefix of a principal with a name that nobody vouches for: the agent, a slash, and a name in the record."""
OPEN_PROXY = "proxy:open"
"""The principal of a proxy without keys."""


def key_behind(principal: str) -> str:
    """The key of a principal: writes with one key, through the proxy or directly, come from one writer."""
    return (
        "key:" + principal.removeprefix("proxy:")
        if principal.startswith("proxy:") and principal != OPEN_PROXY
        else principal
    )


def is_author(agent: str, principal: str, old_agent: str, old_principal: str) -> bool:
    """Whether a writer proved to be the one behind an earlier item: by the principal, or by a name that is vouched for.

    The name alone proves nothing: a key for any agent may use the name of an agent in another process.
    """
    if key_behind(principal) == key_behind(old_principal):
        return agent == old_agent or not principal.startswith(CLAIMED)
    return agent == old_agent and _vouches(principal, agent)


def _vouches(principal: str, agent: str) -> bool:
    """Whether the operator vouches for this name of an agent, and not merely for another caller that uses it."""
    if principal.startswith(OPERATOR):
        return principal.endswith(f"/{agent}")
    return principal in (f"{PROCESS}{agent}", f"{MCP}{agent}")


def claimed_name(item: Observation) -> str:
    """The name that a record gave its writer, beside the agent that is proved; empty where it gave none."""
    own = f"{CLAIMED}{item.agent}/"
    return item.principal.removeprefix(own) if item.principal.startswith(own) else ""


def same_author(new: Observation, old: Observation) -> bool:
    """``is_author`` of two items."""
    return is_author(new.agent, principal_of(new), old.agent, principal_of(old))


def is_one_voice(agent: str, principal: str, other_agent: str, other_principal: str) -> bool:
    """Whether two writers count as one voice: they share the principal or the agent's name."""
    return agent == other_agent or key_behind(principal) == key_behind(other_principal)


def same_voice(first: Observation, other: Observation) -> bool:
    """``is_one_voice`` of two items."""
    return is_one_voice(first.agent, principal_of(first), other.agent, principal_of(other))


@dataclass(frozen=True, slots=True)
class Evidence:
    """One reason for a verdict that a person can check."""

    kind: str
    """span | match | precedent | debate | path | measure | claim | fault."""
    summary: str
    """One sentence a person understands."""
    data: Mapping[str, Any] = field(default_factory=dict)
    """The facts behind it: offsets, ids, numbers."""

    @property
    def weighs(self) -> bool:
        """Whether it says only how a gate weighed the item: its scores, phrases and debate, which auditors read."""
        return self.kind == "debate" or "scores" in self.data or (self.kind == "span" and "part" in self.data)


UNHEARD = "unheard"
"""In an evidence's data: a reader that is set up and should have read the item, and did not, or not all of it."""


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of an answer."""

    ms: float = 0.0
    tokens: int = 0
    calls: int = 0

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.ms + other.ms, self.tokens + other.tokens, self.calls + other.calls)


@dataclass(frozen=True, slots=True)
class Verdict:
    """One gate's opinion of one item."""

    gate: str
    subject: str
    """Id of the item judged."""
    ruling: Ruling
    risk: float
    """Risk in [0, 1]; 1 is surely harmful."""
    interval: tuple[float, float]
    """The range in which the risk may lie; (0, 1): no idea."""
    rule: str
    """The name of the rule that decided."""
    evidence: tuple[Evidence, ...] = ()
    taxonomy: tuple[str, ...] = ()
    """OWASP ASI and MLCommons ids."""
    cost: Cost = Cost()
    replacement: str | None = None
    """The text to use instead, when the ruling is ``rewrite``."""


class RunStatus(StrEnum):
    """The outcome of a gate that the policy asked for."""

    RAN = "ran"
    SKIPPED = "skipped"  # earlier verdicts made it needless, or its stage is not for such items
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    OVER_BUDGET = "over_budget"
    MISSING = "missing"
    NOT_INSTALLED = "not_installed"  # the policy can do without it, and its packages are not there


@dataclass(frozen=True, slots=True)
class GateRun:
    """Proof that a gate ran, or the reason why it did not."""

    gate: str
    status: RunStatus
    ms: float = 0.0
    detail: str = ""


class NeitherTrueNorFalse:
    """A record that an ``if`` refuses, because every object of it would count as true.

    ``if guard.check(...)`` would let everything through; write ``if guard.check(...).allowed``.
    """

    __slots__ = ()

    def __bool__(self) -> bool:
        asked = "allowed" if hasattr(self, "allowed") else "ok"
        raise TypeError(f"a {type(self).__name__} is neither true nor false: ask for its .{asked}")


@dataclass(frozen=True, slots=True)
class Decision(NeitherTrueNorFalse):
    """The guard's answer about one item: what to do, why, and which gates really ran."""

    item: str
    """Id of the item decided on."""
    ruling: Ruling
    risk: float
    interval: tuple[float, float]
    rule: str
    """``gate:rule`` of what decided, or ``fail:...`` when a gate was not able to."""
    verdicts: tuple[Verdict, ...] = ()
    runs: tuple[GateRun, ...] = ()
    cost: Cost = Cost()
    replacement: str | None = None
    settled: tuple[str, ...] = ()
    """``gate:rule`` of the verdicts that do not count: a later stage cleared them, or a person's decision overruled."""
    would: Ruling | None = None
    """The ruling that would have been given, if the policy only observes; None if it enforces."""
    kept: str = ""
    """After ``rewrite`` by ``remember``: id of the memory that was kept instead, the text without what had to go.
    Empty where there is none."""

    @property
    def allowed(self) -> bool:
        """Whether the item may be used as it is."""
        return self.ruling <= Ruling.WARN

    @property
    def complete(self) -> bool:
        """Whether every gate that the policy names for the channel ran, or was rightly skipped, and every reader that
        a gate asks read all of the item."""
        return all(r.status in (RunStatus.RAN, RunStatus.SKIPPED) for r in self.runs) and not self.unheard

    @property
    def unheard(self) -> tuple[str, ...]:
        """Notes of gates on readers that are set up and should have read the item, and did not, or not all of it."""
        every = (e for v in self.verdicts for e in v.evidence)
        return tuple(dict.fromkeys(e.summary for e in every if isinstance(e.data, Mapping) and UNHEARD in e.data))

    @property
    def active_verdicts(self) -> tuple[Verdict, ...]:
        """The verdicts that count: all but those in ``settled``."""
        return tuple(v for v in self.verdicts if f"{v.gate}:{v.rule}" not in self.settled)

    @property
    def standing(self) -> tuple[Verdict, ...]:
        """Old name of ``active_verdicts``; it goes in 0.3."""
        warnings.warn("decision.standing is now decision.active_verdicts", DeprecationWarning, stacklevel=2)
        return self.active_verdicts

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why, in sentences: the verdict that decided first, then the others; of a held item only those stricter than
        allow. Where it passes, one line says which gates looked; how they weighed it stays in ``verdicts``."""
        ruling = self.ruling if self.would is None else self.would
        passed, counting = ruling is Ruling.ALLOW, self.verdicts if ruling is Ruling.WARN else self.active_verdicts
        rows = [
            (f"{v.gate}:{v.rule}", v.ruling, [e.summary for e in v.evidence if not (passed and e.weighs)])
            for v in counting
        ]
        if not passed:
            return reasons_in_order(self.rule, rows, held=ruling > Ruling.WARN)
        looked = [run.gate for run in self.runs if run.status is RunStatus.RAN] or [v.gate for v in self.verdicts]
        cleared = [v.gate for v in self.verdicts if v.ruling > Ruling.ALLOW and v not in counting]
        return why_it_passed(self.rule, rows, looked=looked, cleared=cleared)


@dataclass(frozen=True, slots=True)
class Draft:
    """An event that is not in the ledger yet."""

    kind: EventKind
    subject: str
    """Id of the item, agent or receipt it is about."""
    agent: str = ""
    body: Mapping[str, Any] = field(default_factory=dict)
    time: float = field(default_factory=_time.time)


@dataclass(frozen=True, slots=True)
class Event:
    """One link of a namespace's chain."""

    namespace: str
    seq: int
    """1 for the first event of the namespace, without gaps."""
    kind: EventKind
    subject: str
    agent: str
    time: float
    body: Mapping[str, Any] | None
    """None when the content was erased."""
    prev: str
    """Hash of the event before it; 64 zeros for the first."""
    hash: str


@dataclass(frozen=True, slots=True)
class Edge:
    """One typed edge of the provenance graph. Node ids are plain; the kind says what stands at each end."""

    source: str
    target: str
    kind: EdgeKind
    time: float


@dataclass(frozen=True, slots=True)
class Head:
    """The end of a chain: keep it to prove later that nothing before it was changed or cut."""

    namespace: str
    seq: int
    hash: str


@dataclass(frozen=True, slots=True)
class Correction:
    """A stretch of a text that repeats what poison says, and the words of a trusted memory to put there."""

    start: int
    end: int
    new: str
    item: str
    """Id of the trusted memory."""
    plain: bool = True
    """Whether the text plainly makes the poisoned claim there. Where not, it only names the value, and stays as it
    is."""


@dataclass(frozen=True, slots=True)
class RepairStep:
    """One touch of one item."""

    item: str
    action: str
    """hide | show | replace | remove (hidden, as a copy of the poison) | cut. The block list learns the item that a
    repair starts from and all that it removes; others that it hides or replaces are reviewed when they come again."""
    detail: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RepairPlan:
    """The steps of a repair, before it is applied."""

    repair: str
    """Name of the repair, for example ``isolate``."""
    origin: str
    """The item it starts from."""
    steps: tuple[RepairStep, ...]
    reason: str = ""
    agents: tuple[str, ...] = ()
    """Agents that hold or have read the touched items."""
    price: Mapping[str, float] = field(default_factory=dict)
    """Its cost: items, agents, decisions that rest on them, benign items at risk, model calls; and how many
    items are ``left``."""
    left: Mapping[str, str] = field(default_factory=dict)
    """Items that came from those it touches and may still be recalled afterwards, each with the reason; the nearest
    if there are many, and of a plan that a receipt recorded only the first few."""
    id: str = field(default_factory=lambda: new_id("pl"))


@dataclass(frozen=True, slots=True)
class WrittenBack:
    """The outcome for one record that had to follow a ruling or a repair."""

    ref: Ref
    item: str
    """The item that stands there now or should, or the one that was taken away."""
    outcome: Literal["put", "deleted", "due"]
    error: str = ""
    """Why it is still due; it is tried again by the next repair and by ``guard.recheck``."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """Proof of a repair, and the way back."""

    plan: RepairPlan
    before: Mapping[str, str]
    """Item id -> hash of its state before."""
    after: Mapping[str, str]
    """Item id -> hash of its state after. Both are kept for auditors: undoing compares the states of the plan."""
    cost: Cost
    """Of planning: model calls, and the time to work out the states; not the time of the transaction."""
    time: float
    undone: bool = False
    """Whether all of its steps were undone."""
    id: str = field(default_factory=lambda: new_id("rc"))
    foreign: tuple[WrittenBack, ...] = ()
    """Records in stores of the caller's own that it touches, and whether they follow it by now."""
    by: str = ""
    """The person or caller that applied it; empty for the guard itself, and for code that names nobody."""
    restored: tuple[str, ...] = ()
    """Its items whose step was undone. When an item is released, the repairs made because of it are undone, except
    for items that were changed since."""


@dataclass(frozen=True, slots=True)
class BeforeTurn:
    """Findings and actions of foresight before an agent spoke."""

    agent: str
    removed: tuple[str, ...] = ()
    """Items that are out of recall from now on, the agent's own; copies elsewhere stand in the receipts."""
    forget: tuple[tuple[str, str], ...] = ()
    """Chats (text heard, reply) that the agent must take out of its history: a removed memory spoke in them."""
    unread: tuple[str, ...] = ()
    """Suspicious items that could not be rehearsed: the budget was spent, or the model failed."""
    waiting: tuple[str, ...] = ()
    """Items that nobody has looked into yet, and nothing speaks against; the budget reaches them in later turns."""
    receipts: tuple[Receipt, ...] = ()
    calls: int = 0
    """Model calls that were made."""
    would: tuple[str, ...] = ()
    """In mode ``observe``: the agent's items that would have been removed."""
    reason: str = ""
    """Its reason: ``foresight``, ``sweep``, ``history``, or ``rollback`` and ``bisect`` of mode ``flp``."""

    @property
    def clear(self) -> bool:
        """Whether everything the agent holds has been looked into."""
        return not self.unread and not self.waiting


@dataclass(frozen=True, slots=True)
class BeforeRound:
    """Findings and actions of foresight before several agents spoke."""

    turns: tuple[BeforeTurn, ...]
    """One for each that is about to speak, then one for each other agent that must change."""
    receipts: tuple[Receipt, ...] = ()
    calls: int = 0
    """Model calls that were made."""


_PLAIN = frozenset({str, int, float, bool, type(None)})


@functools.cache
def _field_names(record: type[Any]) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(record))


def plain(record: Any) -> Any:
    """A record as JSON data: enums become their words, sequences lists, mappings and named tuples dicts."""
    kind: Any = type(record)
    if kind in _PLAIN:  # most values of records
        return record
    if kind is tuple or kind is list:
        return [plain(v) for v in record]
    if isinstance(record, Ruling):
        return record.label
    if isinstance(record, StrEnum):
        return record.value
    if dataclasses.is_dataclass(record) and not isinstance(record, type):
        return {name: plain(getattr(record, name)) for name in _field_names(kind)}
    if isinstance(record, Mapping):
        return {str(k): plain(v) for k, v in record.items()}
    if isinstance(record, tuple) and hasattr(record, "_asdict"):
        return {name: plain(value) for name, value in record._asdict().items()}
    if isinstance(record, (Sequence, set, frozenset)) and not isinstance(record, (str, bytes, bytearray)):
        return [plain(v) for v in record]
    return record


def decision_data(decision: Decision) -> dict[str, Any]:
    """A decision as JSON data, alike everywhere: the record, and the words that a caller acts on spelled out."""
    words = {"allowed": decision.allowed, "complete": decision.complete, "action": decision.ruling.hook_action}
    return {**plain(decision), **words, "reasons": list(decision.reasons)}
