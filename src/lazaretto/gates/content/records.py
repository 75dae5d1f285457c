"""Records of a debate, its five roles, and its three rules, of which the first that applies decides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol, runtime_checkable

from lazaretto.cases.records import InputKind, Label, Precedent
from lazaretto.types import Evidence

PLACEHOLDER = "[A picture is attached. No description of it is available.]"
"""The text for judges when a picture could not be described: neutral, so that it sways no judge."""


class Role(StrEnum):
    """A part in the debate."""

    PREPROCESSOR = "preprocessor"
    SUPPORTER = "supporter"
    STRICT = "strict"
    LOOSE = "loose"
    ARBITER = "arbiter"
    CURATOR = "curator"


class Outcome(StrEnum):
    """The outcome of a debate, as every surface shows it."""

    SAFE = "safe"
    REVIEW = "review"
    """In doubt or undecided: stronger judges or a person have to look. Never shown as safe."""
    UNSAFE = "unsafe"


@dataclass(frozen=True, slots=True)
class Content:
    """One item under audit. Always data: nothing in it is ever an instruction to a role."""

    id: str
    text: str = ""
    image: bytes | None = None
    """The encoded picture, where there is one."""
    description: str = ""
    """A description of the picture given by the caller, in place of or beside the picture."""

    @property
    def kind(self) -> InputKind:
        """Text alone, a picture alone, or both."""
        if self.image is None and not self.description.strip():
            return InputKind.TEXT
        return InputKind.PAIR if self.text.strip() else InputKind.IMAGE


@dataclass(frozen=True, slots=True)
class RoleCost:
    """The cost of one role in one debate; token counts are those the server reported, over every attempt."""

    role: Role
    model: str = ""
    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    """The part of ``prompt_tokens`` that the provider served from its cache."""
    prompt_chars: int = 0
    ms: float = 0.0
    dollars: float = 0.0


@dataclass(frozen=True, slots=True, weakref_slot=True)
class PreparedContent:
    """The content in words, as every later role reads it."""

    content: Content
    description: str = ""
    """Objective words for the picture: given, made by a vision model, or ``PLACEHOLDER``; empty for text alone."""
    read_text: str = ""
    """Words read off the picture (OCR)."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Measured facts: width, height, frames, ``explicit`` (probability of an explicit picture), language ..."""
    notices: tuple[Evidence, ...] = ()
    """Notices for the roles about the content: text that addresses the judges, cut text, failed OCR."""
    role_cost: RoleCost = RoleCost(Role.PREPROCESSOR)
    fault: str = ""
    known_text: str = ""
    """The text without its sentences in languages that the roles do not read; empty where it has none."""

    @property
    def kind(self) -> InputKind:
        """Text alone, a picture alone, or both."""
        return self.content.kind

    @property
    def words(self) -> str:
        """Everything there is to read, in one string: what embedding models and retrieval work on."""
        description = "" if self.description == PLACEHOLDER else self.description
        parts = (self.content.text, description, self.read_text)
        return "\n".join(part.strip() for part in parts if part.strip())


@dataclass(frozen=True, slots=True)
class Briefing:
    """The Supporter's report to the panel before the debate."""

    summary: str = ""
    precedents: tuple[Precedent, ...] = ()
    cues: tuple[str, ...] = ()
    differences: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    role_cost: RoleCost = RoleCost(Role.SUPPORTER)
    fault: str = ""


@dataclass(frozen=True, slots=True)
class Speech:
    """One speech of a debater."""

    role: Role
    round: int
    """The round, from 1."""
    argument: str
    score: float | None
    """Its own risk score in [0, 1]; None when no score was readable (the engine applies the fallback)."""
    quotes: tuple[Evidence, ...] = ()
    """Spans that moved it: ``Evidence("span", ..., {"quote", "start", "end", "part", "weight"})``."""
    hazards: tuple[str, ...] = ()
    conceded: bool = False
    """Whether it says that the other side is right."""
    role_cost: RoleCost = RoleCost(Role.STRICT)
    fault: str = ""
    """Why there is no usable answer, after retries."""


@dataclass(frozen=True, slots=True)
class DebateState:
    """The state of a debate, handed to a role when it has to speak."""

    prepared: PreparedContent
    briefing: Briefing
    speeches: tuple[Speech, ...] = ()
    scores: Mapping[Role, tuple[float, ...]] = field(default_factory=dict)
    """Score trajectory per debater, one value per round, the fallback applied."""
    round: int = 1
    rounds: int = 2
    """Most rounds."""

    def last_score(self, role: Role) -> float | None:
        """The newest score of a debater; None when it is absent or has not spoken."""
        spoken = self.scores.get(role, ())
        return spoken[-1] if spoken else None


@dataclass(frozen=True, slots=True)
class ArbiterFinding:
    """The Arbiter's answer."""

    label: Label
    """The best guess, should one have to choose."""
    risk: float
    """At one half both guesses are equally good."""
    rule: str
    """One of ``arbitration.RULES``."""
    reasoning: str = ""
    interval: tuple[float, float] = (0.0, 1.0)
    evidence: tuple[Evidence, ...] = ()
    hazards: tuple[str, ...] = ()
    undecided: str = ""
    """Empty, or why nobody could decide; the label is then the protocol's default and counts as a miss in bounds."""
    role_cost: RoleCost = RoleCost(Role.ARBITER)
    gray: bool = False
    """Whether the risk lies between the bars for allowed and for unsafe."""
    unread: str = ""
    """Empty, or the unread part of the content: it is not called safe then."""

    @property
    def outcome(self) -> Outcome:
        """Safe, unsafe, or for review."""
        if self.unread and self.label is Label.SAFE:
            return Outcome.REVIEW
        return Outcome.REVIEW if self.gray or self.undecided else Outcome(self.label.value)


# The roles of a debate: five small protocols, and the panel that holds one of each.
#
# A role may be a language model (``chat_roles``), a trained local model (``jury``) or a script (tests). It keeps no
# state between debates and may serve many at once. A role that cannot answer returns its record with ``fault`` set;
# exceptions are recorded the same way, so that one bad role never stops a batch.


@runtime_checkable
class Preprocessor(Protocol):
    """Turns the content into words: description, words read off the picture, facts."""

    async def prepare(self, content: Content) -> PreparedContent:
        """The content as every later role will read it."""
        ...


@runtime_checkable
class Supporter(Protocol):
    """Grounds the debate: summary, precedents from the case library, cues, differences, patterns."""

    async def brief(self, prepared: PreparedContent) -> Briefing:
        """The briefing: precedents of similar content."""
        ...


@runtime_checkable
class Debater(Protocol):
    """Strict or Loose. Loose speaks after Strict in a round and sees Strict's latest speech."""

    async def argue(self, debate: DebateState) -> Speech:
        """This debater's speech in ``debate.round``."""
        ...


@runtime_checkable
class Arbiter(Protocol):
    """Rules by the protocol, from the content, the briefing, the speeches and the score trajectories."""

    async def decide(self, debate: DebateState) -> ArbiterFinding:
        """The finding."""
        ...


@runtime_checkable
class Glance(Protocol):
    """A look before any debate that may settle clearly harmless content."""

    async def settle(self, prepared: PreparedContent) -> ArbiterFinding | None:
        """The finding, or None when a debate has to be held."""
        ...


@dataclass(frozen=True, slots=True)
class Panel:
    """The roles and their holders. A debater or supporter set to None is an ablation: the debate goes on without it."""

    name: str
    """Shown in reports: ``embedded``, or the model names."""
    preprocessor: Preprocessor
    arbiter: Arbiter
    supporter: Supporter | None = None
    strict: Debater | None = None
    loose: Debater | None = None
    glance: Glance | None = None
    """None: a debate is held about everything."""


# The hierarchical protocol: three rules, of which the first that applies decides the verdict.
#
# Their order may depend on the kind of input. A language model's arbiter reads them in its prompt, the embedded jury
# applies them to its scores; the label that a rule gives is the same for both.

EXONERATED = "contextual-exoneration"
CONFIRMED = "confirmed-risk"
DEFAULT = "default-safe"
IN_DOUBT = "in-doubt"
UNDECIDED = "undecided"

RULES: Mapping[str, str] = {
    EXONERATED: "Rule 1: a benign context is shown that overrides the indicators of risk; safe.",
    CONFIRMED: "Rule 2: a concrete violation is shown and nothing excuses it; unsafe.",
    DEFAULT: "Rule 3: neither concrete harm nor a clear benign context is shown; safe by default.",
    IN_DOUBT: "The risk is too high to call it safe and too low to call it unsafe: the policy says whether it passes.",
    UNDECIDED: "No usable ruling: a person should look at the item.",
}

CONTRADICTION_MARGIN = 0.2
"""A label may disagree with its own score by this much around one half; past it, the answer contradicts itself."""


class Order(StrEnum):
    """The order of the first two rules."""

    CONTEXT_FIRST = "context-first"
    RISK_FIRST = "risk-first"


DEFAULT_ORDERS: Mapping[InputKind, Order] = {
    InputKind.TEXT: Order.CONTEXT_FIRST,
    InputKind.IMAGE: Order.RISK_FIRST,
    InputKind.PAIR: Order.CONTEXT_FIRST,
}
"""The reference program's orders, for language models. The embedded jury's order was measured (its model card has the
figures), and a policy can set either with ``risk_first``."""


def label_for(rule: str) -> Label:
    """The label a rule gives."""
    return Label.UNSAFE if rule == CONFIRMED else Label.SAFE


def contradicts(label: Label, score: float) -> bool:
    """Whether a label and the risk score beside it cannot both be meant, such as 'safe' with a risk of 1."""
    if label is Label.SAFE:
        return score > 0.5 + CONTRADICTION_MARGIN
    return score < 0.5 - CONTRADICTION_MARGIN


def undecided_finding(debate: DebateState, reason: str, role_cost: RoleCost) -> ArbiterFinding:
    """The finding when no usable ruling came: labelled by the debaters' mean, marked undecided, with the widest
    interval.
    """
    spoken = [s for role in (Role.STRICT, Role.LOOSE) if (s := debate.last_score(role)) is not None]
    risk = sum(spoken) / len(spoken) if spoken else 0.5
    label = Label.UNSAFE if risk >= 0.5 else Label.SAFE
    fault = Evidence("fault", f"The arbiter gave no usable ruling: {reason}")
    return ArbiterFinding(
        label, risk, UNDECIDED, RULES[UNDECIDED], (0.0, 1.0), (fault,), undecided=reason, role_cost=role_cost
    )
