"""What a policy that only observes would have held: item by item until a person gives a word, and day by day."""

from __future__ import annotations

import datetime
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from lazaretto.incidents.findings import REASONS, same_as, why_ruled, without_secrets
from lazaretto.incidents.incidents import SHOWN
from lazaretto.incidents.likeness import alike
from lazaretto.incidents.records import Held
from lazaretto.ledger import Ledger
from lazaretto.ledger.contents import Contents
from lazaretto.ledger.tail import Tail
from lazaretto.types import COPY_OF, MACHINE, Event, EventKind, Ruling

KINDS = (EventKind.RULED, EventKind.LABELLED, EventKind.RELEASED, EventKind.ERASED)
DAYS, SHARE, FEWEST = 7, 0.01, 100
"""Quiet: so many days, at most this share of honest items, of at least so many items."""


@dataclass(slots=True)
class _Flagged:
    """An item that was held, or would have been."""

    time: float
    ruling: str
    rule: str
    risk: float
    reasons: tuple[str, ...]
    only_observed: bool
    shown: str | None
    """What lists show in the place of its text; None: the text."""
    same: frozenset[str]
    """What the block list knows it as."""
    copy: bool = False
    """Whether it was settled with another that says the same."""
    harmful: bool | None = None
    """What a person said; None: nothing yet."""


@dataclass(frozen=True, slots=True)
class Day:
    """One day (UTC) in numbers."""

    day: str
    judged: int
    flagged: int
    """Held, or would have been."""
    harmful: int
    """Of these a person called so many harmful."""
    benign: int
    waiting: int
    """Of these nobody has said anything."""
    copies: int = 0
    """Of the benign ones so many say what another says, and were settled with it."""


@dataclass(frozen=True, slots=True)
class Readiness:
    """Whether it is quiet enough to let the policy hold things."""

    quiet: bool
    why: str
    judged: int
    honest_flagged: int
    waiting: int


class ObservedLog:
    """Follows one ledger. Safe to share between threads."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger, self._tail, self._lock = ledger, Tail(ledger, KINDS, anew=self._forget), threading.Lock()
        self._contents = Contents(ledger)
        self._forget()

    def _forget(self) -> None:
        self._condemned: set[str] = set()
        self._flagged: dict[str, _Flagged] = {}
        self._judged: Counter[str] = Counter()
        self._seen: set[str] = set()

    def would(self, limit: int | None = None) -> tuple[Held, ...]:
        """What would have been held and nobody has given a word on, the newest first; what says the same from such a
        source once."""
        with self._lock:
            self._follow()
            open_ones = {i: one for i, one in self._flagged.items() if one.only_observed and self._word(one) is None}
            every = sorted(open_ones, key=lambda item: (-open_ones[item].time, item))
            rows = alike({item: open_ones[item].rule for item in every}, self._contents)
        order = list(rows)[:limit]
        seen = {one.id: one for one in self._ledger.items(ids=order, hidden=True, limit=None)} if order else {}
        return tuple(
            Held(
                item, seen[item].agent, seen[item].channel.value, one.time, one.ruling, one.rule, one.risk,
                (seen[item].text if one.shown is None else one.shown)[:SHOWN], one.reasons, False,
                rows[item],
            )
            for item in order
            if item in seen and (one := open_ones[item])
        )  # fmt: skip

    def days(self) -> tuple[Day, ...]:
        """Every day on which something was judged, the newest first."""
        with self._lock:
            self._follow()
            flagged: dict[str, list[tuple[bool | None, bool]]] = {}
            for one in self._flagged.values():
                flagged.setdefault(_day(one.time), []).append((self._word(one), one.copy))
            return tuple(_counted(day, self._judged[day], flagged.get(day, ())) for day in sorted(self._judged)[::-1])

    def quiet(self, now: float | None = None) -> Readiness:
        """Whether the last days were quiet: everything flagged has a word, and few of it was honest."""
        since = _day((time.time() if now is None else now) - (DAYS - 1) * 86_400)
        days = [one for one in self.days() if one.day >= since]
        judged, waiting = sum(one.judged for one in days), sum(one.waiting for one in days)
        honest = sum(one.benign - one.copies + one.waiting for one in days)  # one text is one false alarm
        share = honest / max(1, judged - sum(one.harmful for one in days))
        why = ""
        if judged < FEWEST:
            why = f"only {judged} items were judged in {DAYS} days; {FEWEST} are needed"
        elif waiting:
            why = f"{waiting} items that would be held wait for a word: lazaretto held --would"
        elif share > SHARE:
            why = f"{honest} honest items would be held, {share:.1%}: lazaretto tune"
        return Readiness(not why, why, judged, honest, waiting)

    def _word(self, one: _Flagged) -> bool | None:
        """What a person said of it, or of what it is known as."""
        return True if one.harmful is None and not self._condemned.isdisjoint(one.same) else one.harmful

    def _follow(self) -> None:
        for event in self._tail.new():
            self._take(event)

    def _take(self, event: Event) -> None:
        body, item = event.body or {}, event.subject
        if event.kind is EventKind.RULED and body.get("runs") and item not in self._seen:
            self._seen.add(item)
            self._judged[_day(event.time)] += 1
            word = str(body.get("would") or body["ruling"])
            if Ruling.from_label(word) > Ruling.WARN:
                reasons = why_ruled({**body, "ruling": word})[:REASONS]
                rule, risk = str(body.get("rule", "")), float(body.get("risk", 0.5))
                only = body.get("would") is not None
                self._flagged[item] = _Flagged(
                    event.time, word, rule, risk, reasons, only, without_secrets(body), same_as(body)
                )
        elif event.kind is EventKind.LABELLED:
            harmful = body.get("label") == "harmful"
            (self._condemned.add if harmful else self._condemned.discard)(item)
            if item in self._flagged:
                self._flagged[item].harmful, self._flagged[item].copy = harmful, COPY_OF in body
        elif item in self._flagged and event.kind is EventKind.RELEASED and body.get("by") != MACHINE:
            self._flagged[item].harmful, self._flagged[item].copy = False, COPY_OF in body
        elif event.kind is EventKind.ERASED:
            self._flagged.pop(item, None)


def _day(moment: float) -> str:
    return datetime.datetime.fromtimestamp(moment, datetime.UTC).strftime("%Y-%m-%d")


def _counted(day: str, judged: int, flagged: Sequence[tuple[bool | None, bool]]) -> Day:
    words = Counter(word for word, _ in flagged)
    return Day(day, judged, len(flagged), words[True], words[False], words[None], flagged.count((False, True)))
