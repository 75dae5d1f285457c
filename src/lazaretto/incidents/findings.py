"""Findings, read from the ledger's rulings, labels and repairs, and kept up by following its tail."""

from __future__ import annotations

import re
import threading
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from lazaretto.kept_texts import remembered
from lazaretto.ledger import Ledger, changes_of
from lazaretto.ledger.contents import Contents
from lazaretto.ledger.effects import restored_by
from lazaretto.ledger.history import changes_so_far
from lazaretto.ledger.reader import Tail, withdrawn
from lazaretto.provenance.taint import FOR_DESCENT
from lazaretto.reasons import reasons_in_order
from lazaretto.types import BY_PERSON, Event, EventKind, Observation, Ruling

KINDS = (
    EventKind.RULED,
    EventKind.LABELLED,
    EventKind.APPEALED,
    EventKind.RELEASED,
    EventKind.REPAIRED,
    EventKind.UNDONE,
    EventKind.ERASED,
    EventKind.SUPERSEDED,
)
BY_FAILURE, BY_TAINT = "fail:", "taint:"
UNDIRECTED = frozenset({"rollback"})
"""Repairs that remove the newest items, found or not."""
REASONS = 3


@dataclass(slots=True)
class Finding:
    """The ledger's record of one finding."""

    item: str
    seq: int
    """The event that found it first."""
    time: float
    rule: str
    risk: float | None
    settled: bool = False
    """Whether a person labelled or released it, or a repair took it out."""
    cleared: bool = False
    """Whether the last decision about it was benign."""
    withdrawn: bool = False
    """Whether it was cleared only by undoing the repair that found it: others of its incident may still accuse it."""
    like: set[str] = field(default_factory=set)
    """Other items that the event named: its copies, and items repaired with it."""
    against: set[str] = field(default_factory=set)
    """Other items that it contradicts, as a gate says: however alike they read, they are not of one origin."""

    @property
    def innocent(self) -> bool:
        """Whether it was found to be fine, not merely let go with a repair that was undone."""
        return self.cleared and not self.withdrawn


@dataclass(slots=True)
class Waiting:
    """A ruling that waits for a person."""

    time: float
    ruling: str
    rule: str
    risk: float
    reasons: tuple[str, ...]
    copies: frozenset[str] = frozenset()
    """The items it is a copy of, where it is held for that alone."""
    appealed: bool = False
    shown: str | None = None
    """The text that lists show instead of its own; None: its own."""


HIDES = ("secrets", "personal")
"""Gates whose findings no list repeats."""


def without_secrets(body: Mapping[str, Any]) -> str | None:
    """The text for lists if a gate found a secret in it: the text without the secret; None: no secret was found."""
    for verdict in body.get("verdicts") or ():
        if verdict["gate"] in HIDES and Ruling.from_label(verdict["ruling"]) > Ruling.WARN:
            return str(verdict.get("replacement") or "(a text with a secret in it)")
    return None


class FindingLog:
    """Follows one ledger. Safe to share between threads; callers hold ``lock`` while they read."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger, self._tail, self._opened = ledger, Tail(ledger, KINDS, anew=self._read_anew), False
        self.lock = threading.RLock()
        self.version = 0
        """Grows whenever a finding is new or stands differently."""
        self.watched: Collection[str] = ()
        """Items whose events the reader wants to see."""
        self.touched: set[str] = set()
        """The watched items with events since the reader last emptied this."""
        self.erased: set[str] = set()
        """The same for those that were erased."""
        self._forget()

    def _forget(self) -> None:
        self.findings: dict[str, Finding] = {}
        """Findings by item, in the order they were found."""
        self.waiting: dict[str, Waiting] = {}
        self._taken: dict[str, dict[str, Waiting]] = {}
        """Receipt -> the rulings that waited until then, by item: undoing it brings them back to the queue."""
        self._copies: dict[str, set[str]] = {}
        """Item -> items held as copies of it: its outcome decides whether they wait for a person."""
        self.receipts: dict[str, Event] = {}
        self.repaired: dict[str, list[str]] = {}
        """Item -> the receipts of repairs that name it, oldest first."""
        self.restored: dict[str, set[str]] = {}
        self.cut: dict[str, int] = {}
        """Item -> the event that cut it loose from its sources."""

    def for_a_person(self) -> dict[str, Waiting]:
        """Items that wait for a decision, without copies of items that a person condemned or a repair took out."""
        return {item: waiting for item, waiting in self.waiting.items() if self.waits_for_a_person(item)}

    def waits_for_a_person(self, item: str) -> bool:
        """Whether one item waits for a decision."""
        waiting = self.waiting.get(item)
        return waiting is not None and not any(map(self._condemned, waiting.copies))

    def _condemned(self, item: str) -> bool:
        known = self.findings.get(item)
        return known is not None and known.settled and not known.cleared

    def follow(self) -> None:
        """Take in the events recorded since the last time."""
        if not self._opened:
            self._read_anew()
            self._opened = True
        for event in self._tail.new():
            self._follow(event)

    def _read_anew(self) -> None:
        """Read everything from the beginning, without events that were taken back."""
        self._forget()
        head, gone = self._ledger.head().seq, withdrawn(self._ledger)
        for event in changes_so_far(self._ledger, KINDS, head):
            if event.seq not in gone:
                self._follow(event)
        self.touched.update(self.watched)
        self.version += 1
        self._tail.skip_to(head)

    def _follow(self, event: Event) -> None:
        self._take(event)
        named = {event.subject, *(item for item, _, _ in changes_of(event.kind, event.subject, event.body))}
        if event.kind is EventKind.REPAIRED:
            named.update(str(step["item"]) for step in ((event.body or {}).get("plan") or {}).get("steps") or ())
        named.update(item for name in tuple(named) for item in self._copies.get(name, ()))
        self.touched.update(item for item in named if item in self.watched)
        if event.kind is EventKind.ERASED:
            self.erased.add(event.subject)
        if event.kind is EventKind.ERASED or not self.findings.keys().isdisjoint(named):
            self.version += 1

    def _take(self, event: Event) -> None:
        body = event.body or {}
        item = event.subject
        if event.kind is EventKind.RULED and event.body is not None:
            self._ruled(event, body)
        elif event.kind is EventKind.LABELLED and event.body is not None:
            self.waiting.pop(item, None)
            if body.get("label") == "harmful":
                self._found(event, item, f"{BY_PERSON}harmful", 1.0).settled = True
                self.findings[item].cleared = False
            else:
                self._clear(item)
        elif event.kind is EventKind.APPEALED and item in self.waiting:
            self.waiting[item].appealed = True
        elif event.kind is EventKind.RELEASED:
            self._take_out(item, str(body.get("receipt", "")))
            self._clear(item)
        elif event.kind is EventKind.ERASED:
            self.waiting.pop(item, None)
            for taken in self._taken.values():
                taken.pop(item, None)
            if item in self.findings:
                self.findings[item].settled = True
        elif event.kind is EventKind.REPAIRED and event.body is not None:
            self._repaired(event, body)
        elif event.kind is EventKind.UNDONE:
            self._undone(event, body)

    def _ruled(self, event: Event, body: Mapping[str, Any]) -> None:
        ruling, rule = Ruling.from_label(str(body["ruling"])), str(body.get("rule", ""))
        risk = float(body.get("risk", 0.5))
        if ruling <= Ruling.WARN:
            self.waiting.pop(event.subject, None)
            if event.subject in self.findings:
                self._clear(event.subject)
            return
        copies = same_as(body)
        again = is_known(rule)
        evidence = [piece for verdict in body.get("verdicts", ()) for piece in verdict.get("evidence", ())]
        if not rule.startswith(BY_PERSON):
            before = self.waiting.get(event.subject)
            since, appealed = (before.time, before.appealed) if before else (event.time, False)
            shown = without_secrets(body)
            waiting = Waiting(since, ruling.label, rule, risk, why_ruled(body)[:REASONS], copies, appealed, shown)
            self.waiting[event.subject] = waiting
            for copy in copies:
                self._copies.setdefault(copy, set()).add(event.subject)
        if ruling >= Ruling.QUARANTINE and not rule.startswith((BY_FAILURE, BY_TAINT)):
            finding = self._found(event, event.subject, rule, risk)
            finding.cleared = False
            finding.like.update(str(e["data"]["item"]) for e in evidence if _names_an_item(e))
            finding.against.update(str(i) for e in evidence if _contradicts(e) for i in e["data"].get("items") or ())
            finding.settled |= again and any(self.findings[i].settled for i in finding.like if i in self.findings)

    def _repaired(self, event: Event, body: Mapping[str, Any]) -> None:
        self.receipts[event.subject] = event
        plan = body.get("plan") or {}
        repair, origin = str(plan.get("repair", "")), str(plan.get("origin", ""))
        taken = {str(s["item"]): s["action"] for s in plan.get("steps") or () if s["action"] in ("hide", "remove")}
        for step in plan.get("steps") or ():
            self.repaired.setdefault(str(step["item"]), []).append(event.subject)
            if step["action"] == "cut":
                self.cut[str(step["item"])] = event.seq
        if not taken or repair in UNDIRECTED:
            return
        why = f"repair:{repair}"
        if origin in taken:
            self._found(event, origin, why, None)
        for item, action in taken.items():
            if item == origin or action == "remove":  # the others were only made from it
                finding = self._found(event, item, why, None)
                finding.like.add(origin)
            if item in self.findings:
                self.findings[item].settled, self.findings[item].cleared = True, False
            self._take_out(item, event.subject)

    def _undone(self, event: Event, body: Mapping[str, Any]) -> None:
        self.restored.setdefault(event.subject, set()).update(restored_by(event))
        for item, fields in body.get("restored", {}).items():
            before, word = self._taken.get(event.subject, {}).get(item), fields.get("ruling")
            mild = word is None or Ruling.from_label(word) <= Ruling.WARN
            if before is not None and not fields.get("hidden"):
                self.waiting[item] = before
            if item in self.findings and not fields.get("hidden") and mild:
                self._clear(item)
                self.findings[item].withdrawn = True

    def _take_out(self, item: str, receipt: str) -> None:
        before = self.waiting.pop(item, None)
        if before is not None and receipt:
            self._taken.setdefault(receipt, {})[item] = before

    def _found(self, event: Event, item: str, rule: str, risk: float | None) -> Finding:
        found = self.findings.get(item)
        if found is None:
            found = self.findings[item] = Finding(item, event.seq, event.time, rule, risk)
        return found

    def _clear(self, item: str) -> None:
        if item in self.findings:
            self.findings[item].settled = self.findings[item].cleared = True
            self.findings[item].withdrawn = False


def why_ruled(body: Mapping[str, Any]) -> tuple[str, ...]:
    """The sentences that explain a recorded ruling, those of the verdict that decided first; never none."""
    rule, ruling = str(body.get("rule", "")), Ruling.from_label(str(body["ruling"]))
    settled = body.get("settled") or ()
    verdicts = [
        (name, Ruling.from_label(v["ruling"]), [str(piece.get("summary", "")) for piece in v.get("evidence") or ()])
        for v in body.get("verdicts") or ()
        if (name := f"{v['gate']}:{v['rule']}") not in settled
    ]
    missing = [run for run in body.get("runs") or () if rule == f"fail:{run['gate']}:{run['status']}"]
    silent = [f"The gate {run['gate']} did not answer ({run['status']}): {run.get('detail') or '-'}" for run in missing]
    decided = [summary for name, _, summaries in verdicts if name == rule for summary in summaries]
    plainly = [] if silent or decided else [f"It was ruled {ruling.label} by {rule}, which gave no reason."]
    return tuple(dict.fromkeys([*silent, *plainly, *reasons_in_order(rule, verdicts, held=ruling > Ruling.WARN)]))


def is_known(rule: str) -> bool:
    """Whether a rule says: the same as something that was found before."""
    return rule.startswith(KNOWN) and not rule.endswith(":look")


def same_as(body: Mapping[str, Any]) -> frozenset[str]:
    """The items that the item of a recorded ruling is a copy of, if it is held for nothing else."""
    if not is_known(str(body.get("rule", ""))):
        return frozenset()
    evidence = (piece for verdict in body.get("verdicts") or () for piece in verdict.get("evidence") or ())
    return frozenset(str(piece["data"]["item"]) for piece in evidence if _names_an_item(piece))


def _names_an_item(evidence: Mapping[str, Any]) -> bool:
    return evidence.get("kind") == "match" and isinstance((evidence.get("data") or {}).get("item"), str)


def _contradicts(evidence: Mapping[str, Any]) -> bool:
    return evidence.get("kind") == "claim" and (evidence.get("data") or {}).get("relation") == "contradicts"


# Whether one text carries the content of another: shared runs of words, and nothing cleverer.

RUN = 3
"""Words of a run."""
CARRIES = 0.5
"""Share of the shorter text's runs that the longer one must hold."""
ORIGIN = 0.7
"""The same for something that nobody found and that may be where a finding began: honest notes share phrases, too."""
_KEPT_CHARS = 2_000
KNOWN = "blocklist:"
"""Prefix of the rules that only recognize an earlier finding."""
_ALONE = (*FOR_DESCENT, "records:")
_WORD = re.compile(r"\w+")


def words(text: str) -> list[str]:
    """The words of a text, without case and punctuation."""
    return _WORD.findall(text.casefold())


def overlap(first: str, second: str) -> float:
    """Share of the shorter text's runs of words that the other text holds, too; 0 for texts without words."""
    runs = [_kept_runs(text) if len(text) <= _KEPT_CHARS else _runs(words(text)) for text in (first, second)]
    shorter = min(map(len, runs))
    return len(runs[0] & runs[1]) / shorter if shorter else 0.0


def common_words(first: str, second: str) -> float:
    """Share of the shorter text's words that the other text holds, too."""
    bags = [set(words(text)) for text in (first, second)]
    shorter = min(map(len, bags))
    return len(bags[0] & bags[1]) / shorter if shorter else 0.0


def carries(item: Observation, other: Observation, share: float = CARRIES) -> bool:
    """Whether two items hold the same picture, or one text holds most of the other."""
    if item.image is not None and item.image == other.image:
        return True
    return bool(item.text and other.text) and overlap(item.text, other.text) >= share


def same_content(item: Observation) -> str:
    """A key that items of the same content share; empty for one without any."""
    if item.image is not None:
        return f"image:{item.image}"
    text = " ".join(words(item.text))
    return f"text:{text}" if text else ""


def alike(rules: Mapping[str, str], contents: Contents) -> dict[str, tuple[str, ...]]:
    """Groups items (with the rules that hold them) that one label settles together: one of each, with the others.

    It is the first that is held for a reason of its own, not as a copy of another.
    An item held for its descent, or for the record it changes, stands alone: a label on its content does not
    settle that.
    """
    content = contents.of(rules)
    first: dict[object, str] = {}
    rows: dict[str, list[str]] = {}
    for item, rule in rules.items():
        key: object = item if item not in content or rule.startswith(_ALONE) else content[item]
        rows.setdefault(first.setdefault(key, item), []).append(item)
    shown = (next((i for i in row if not rules[i].startswith(KNOWN)), row[0]) for row in rows.values())
    return {item: tuple(i for i in row if i != item) for item, row in zip(shown, rows.values(), strict=True)}


@remembered(4 << 20, lambda runs: 200 * len(runs))
def _kept_runs(text: str) -> frozenset[tuple[str, ...]]:
    """The runs of a text that is compared with many others."""
    return _runs(words(text))


def _runs(text_words: list[str]) -> frozenset[tuple[str, ...]]:
    size = min(RUN, len(text_words))
    return (
        frozenset(tuple(text_words[at : at + size]) for at in range(len(text_words) - size + 1))
        if text_words
        else frozenset()
    )
