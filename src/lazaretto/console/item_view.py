"""Everything a page says about one item, gathered from the ledger, the graph and the claims."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lazaretto.gates.memory.claims.conflicts import conflicts_of, in_words
from lazaretto.guard import Guard
from lazaretto.ledger import ItemState
from lazaretto.ledger.reader import taken_back
from lazaretto.provenance.drawing.labels import showable
from lazaretto.provenance.traces import TraceStep, Trust
from lazaretto.types import Event, EventKind, Observation, Ruling, RunStatus

_SHOWN = (
    EventKind.RULED, EventKind.LABELLED, EventKind.WITHDRAWN, EventKind.APPEALED, EventKind.RELEASED, EventKind.ERASED,
)  # fmt: skip
NEAR = 40
"""Items of a lineage that a page lists."""
_VERSIONS = 50


@dataclass(frozen=True, slots=True)
class ItemRow:
    """An item in a list."""

    seen: Observation
    state: ItemState
    hops: int = 0
    trust: float | None = None

    @property
    def standing(self) -> str:
        """One word for its state; ``texts.toml`` explains it."""
        return self.state.word

    @property
    def rewritten(self) -> bool:
        """Whether it is held because of something that may not be shown: lists leave its text out."""
        return self.state.held and self.state.ruling is Ruling.REWRITE

    @property
    def veiled(self) -> bool:
        """Whether its content is blurred at first."""
        return self.state.held


@dataclass(frozen=True, slots=True)
class Story:
    """One event about an item: a ruling, label, appeal or release."""

    kind: str
    time: float
    ruling: str
    says: str
    by: str

    @classmethod
    def of(cls, event: Event) -> Story:
        """From the event; an erased one has no text."""
        body: Mapping[str, Any] = event.body or {}
        says = str(body.get("rule") or body.get("label") or body.get("reason") or "")
        return cls(event.kind.value, event.time, str(body.get("ruling", "")), says, str(body.get("by", "")))


@dataclass(frozen=True, slots=True)
class Reason:
    """One piece of evidence, in a sentence."""

    kind: str
    summary: str
    label: str = ""
    """The ruling on a precedent."""


@dataclass(frozen=True, slots=True)
class SpeechView:
    """One side's speech in a debate."""

    role: str
    round: str
    score: float
    argument: str
    quotes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ItemSources:
    """The items that an item came from, or that came from it."""

    stated: tuple[ItemRow, ...]
    """Sources that the writer named."""
    inferred: tuple[ItemRow, ...]
    """Sources that the guard inferred: the writer had read them, or the texts are alike."""


@dataclass(frozen=True, slots=True)
class ItemView:
    """One item, with all that is known about it."""

    row: ItemRow
    trust: Trust
    stories: tuple[Story, ...]
    """Rulings, labels, appeals and releases, in order."""
    reasons: tuple[Reason, ...]
    """Evidence of the last ruling by gates."""
    precedents: tuple[Reason, ...]
    speeches: tuple[SpeechView, ...]
    not_run: tuple[tuple[str, str], ...]
    """Gates that did not look at it, and why."""
    spans: tuple[tuple[int, int], ...]
    """Stretches of its text that evidence quotes."""
    sources: ItemSources
    made: ItemSources
    readers: tuple[str, ...]
    conflicts: tuple[ItemRow, ...]
    versions: tuple[ItemRow, ...]
    """Versions of the item, oldest first; only if there is more than one."""
    disputes: tuple[Story, ...]
    """Open appeals against the ruling."""


def rows(
    guard: Guard, ids: Sequence[str], *, hops: Mapping[str, int] | None = None, trust: bool = False
) -> list[ItemRow]:
    """Items by id, in that order; unknown ones are left out."""
    unique = list(dict.fromkeys(ids))
    if not unique:
        return []
    states = guard.ledger.states(unique)
    table = guard.policy.trust.table()
    return [
        ItemRow(
            seen,
            states[seen.id],
            (hops or {}).get(seen.id, 0),
            guard.graph.trust(seen.id, table).value if trust else None,
        )
        for seen in guard.ledger.items(ids=unique, any_state=True, limit=None)
        if seen.id in states
    ]


def item_view(guard: Guard, item: str) -> ItemView:
    """Blocks; ``UnknownItem`` for one that this crew does not have."""
    ledger, graph = guard.ledger, guard.graph
    seen, state = ledger.item(item), ledger.state(item)
    events = list(ledger.events(subject=item, kinds=_SHOWN))
    gone = taken_back(event for event in events if event.kind is EventKind.WITHDRAWN)
    counting = [event for event in events if event.seq not in gone]
    ruled = _last_by_gates(counting)
    verdicts = [verdict for verdict in ruled.get("verdicts") or () if isinstance(verdict, Mapping)]
    deciding = evidence_of(_in_order(ruled, verdicts))
    evidence = list(evidence_of(verdicts))
    trust = graph.trust(item, guard.policy.trust.table())
    reach = graph.blast_radius(item, history=True)
    return ItemView(
        row=ItemRow(seen, state, 0, trust.value),
        trust=trust,
        stories=tuple(map(Story.of, events)),
        reasons=tuple(
            reason
            for part in deciding
            if part.get("kind") not in ("precedent", "debate")
            for reason in (_reason(part), *_in_words(guard, part))
        ),
        precedents=tuple(_reason(part) for part in evidence if part.get("kind") == "precedent"),
        speeches=tuple(_speech(speech) for part in evidence for speech in speeches_of(part)),
        not_run=tuple(
            (str(run.get("gate", "")), str(run.get("status", "")))
            for run in ruled.get("runs") or ()
            if run.get("status") not in (RunStatus.RAN, RunStatus.SKIPPED)
        ),
        spans=tuple(quoted_spans(seen, verdicts)),
        sources=_origin(guard, graph.stated(item, back=True, limit=NEAR), graph.sources(item, limit=2 * NEAR)),
        made=_origin(guard, graph.stated(item, back=False, limit=NEAR), reach.items[: 2 * NEAR]),
        readers=tuple(step.id for step in reach.agents if step.hops == 1),
        conflicts=tuple(rows(guard, conflicts_of(ledger, [item])[item], trust=True)),
        versions=_versions(guard, item, state),
        disputes=tuple(map(Story.of, _disputes(counting))),
    )


def _origin(guard: Guard, stated: Sequence[TraceStep], every: Sequence[TraceStep]) -> ItemSources:
    """Every step, with the stated ones apart."""
    known = {step.id for step in stated}
    others = [step for step in every if step.id not in known][:NEAR]
    parts = (tuple(rows(guard, [s.id for s in part], hops={s.id: s.hops for s in part})) for part in (stated, others))
    return ItemSources(*parts)


def _disputes(events: Sequence[Event]) -> list[Event]:
    found: list[Event] = []
    for event in events:
        if event.kind is EventKind.APPEALED:
            found.append(event)
        elif event.kind in (EventKind.LABELLED, EventKind.RELEASED):
            found.clear()
    return found


def _last_by_gates(events: Sequence[Event]) -> Mapping[str, Any]:
    """The ruling to explain: the last by which gates held it, else the last by gates, else the last."""
    rulings = [event.body for event in events if event.kind is EventKind.RULED and event.body is not None]
    by_gates = [body for body in rulings if body.get("verdicts")]
    held = [body for body in by_gates if Ruling.from_label(str(body["ruling"])) > Ruling.WARN]
    return (held or by_gates or rulings or [{}])[-1]


def _in_order(ruled: Mapping[str, Any], verdicts: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The verdicts of a ruling, the one that decided first; a verdict that allowed a held item explains nothing."""
    rule, held = str(ruled.get("rule", "")), Ruling.from_label(str(ruled.get("ruling", "allow"))) > Ruling.WARN
    rows = [(f"{v.get('gate')}:{v.get('rule')}", Ruling.from_label(str(v["ruling"])), v) for v in verdicts]
    rows = [row for row in rows if row[0] == rule or not held or row[1] > Ruling.ALLOW]
    return [v for _, _, v in sorted(rows, key=lambda row: (row[0] != rule, -row[1]))]


def _in_words(guard: Guard, evidence: Mapping[str, Any]) -> list[Reason]:
    """The conflict in words, with the text of the other item: read now, because the evidence does not keep it."""
    return [Reason("claim", words) for words in in_words(evidence, guard.ledger, guard.policy.trust.table())]


def _reason(evidence: Mapping[str, Any]) -> Reason:
    data = evidence.get("data") or {}
    return Reason(str(evidence.get("kind", "")), str(evidence.get("summary", "")), str(data.get("label", "")))


def _speech(speech: Mapping[str, Any]) -> SpeechView:
    quotes = tuple(str(quote) for quote in speech.get("quotes") or ())
    score = speech.get("score")
    number = float(score) if isinstance(score, (int, float)) else 0.0
    return SpeechView(
        str(speech.get("role", "")), str(speech.get("round", "")), number, str(speech.get("argument", "")), quotes
    )


def _versions(guard: Guard, item: str, state: ItemState) -> tuple[ItemRow, ...]:
    later: list[str] = []
    at = state.superseded_by
    while at is not None and at not in later and len(later) < _VERSIONS:
        later.append(at)
        at = guard.ledger.states([at])[at].superseded_by
    earlier = [
        str((event.body or {}).get("old", ""))
        for event in guard.ledger.events(subject=item, kinds=(EventKind.SUPERSEDED,))
    ]
    chain = [*(version for version in earlier if version), item, *later]
    return tuple(rows(guard, chain)) if len(chain) > 1 else ()


# Texts of agents, prepared for showing: as data, with hidden characters visible and evidence marked.

SHOWN = 4_000
"""Characters of one content that a page holds; the rest is one click away, as plain text."""
_KEPT = frozenset("\n\t")
_ODD = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of a content."""

    text: str
    kind: str = ""
    """``mark``: evidence quotes it; ``odd``: a character that does not show, spelled out; empty: plain."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A content, ready for a page."""

    pieces: tuple[Piece, ...]
    left: int
    """Characters that were not shown."""


def prepared(text: str, spans: Iterable[tuple[int, int]] = (), limit: int = SHOWN) -> Shown:
    """A content in pieces: marked where a span says so, hidden characters spelled out, cut at ``limit``."""
    cut, pieces = text[:limit], []
    at = 0
    for start, end in _joined(spans, len(cut)):
        pieces += _pieces(cut[at:start], "")
        pieces += _pieces(cut[start:end], "mark")
        at = end
    pieces += _pieces(cut[at:], "")
    return Shown(tuple(pieces), len(text) - len(cut))


def line(text: str, limit: int = 120) -> str:
    """A content on one line, for lists."""
    return showable(text[: 8 * limit], limit)


def quoted_spans(seen: Observation, verdicts: Sequence[Mapping[str, Any]]) -> list[tuple[int, int]]:
    """The places in an item's text that the evidence of recorded verdicts quotes."""
    found = []
    for evidence in evidence_of(verdicts):
        data = evidence.get("data") or {}
        quotes = [data.get("quote")] if evidence.get("kind") == "span" else []
        for speech in speeches_of(evidence):
            quotes += list(speech.get("quotes") or ())
        placed = [(seen.text.find(q), len(q)) for q in quotes if isinstance(q, str) and len(q) > 2]
        found += [(at, at + size) for at, size in placed if at >= 0]
        start, end = data.get("start"), data.get("end")
        plainly = data.get("view", "plain") == "plain" and not data.get("quote")
        if evidence.get("kind") == "span" and plainly and isinstance(start, int) and isinstance(end, int):
            found.append((start, end))
    return found


def evidence_of(verdicts: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """Every piece of evidence of recorded verdicts."""
    for verdict in verdicts:
        yield from verdict.get("evidence") or ()


def speeches_of(evidence: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The speeches, if a piece of evidence is a debate."""
    transcript = (evidence.get("data") or {}).get("transcript") if evidence.get("kind") == "debate" else ()
    return [speech for speech in transcript or () if isinstance(speech, Mapping)]


def _joined(spans: Iterable[tuple[int, int]], length: int) -> list[tuple[int, int]]:
    """Spans in order, inside the text, none overlapping another."""
    joined: list[tuple[int, int]] = []
    for start, end in sorted((max(0, s), min(e, length)) for s, e in spans):
        if start >= end:
            continue
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined


def _pieces(text: str, kind: str) -> list[Piece]:
    pieces, plain = [], ""
    for letter in text:
        if letter in _KEPT or unicodedata.category(letter) not in _ODD:
            plain += letter
            continue
        if plain:
            pieces.append(Piece(plain, kind))
            plain = ""
        pieces.append(Piece(f"U+{ord(letter):04X}", "odd"))
    return [*pieces, Piece(plain, kind)] if plain else pieces
