"""Items that a policy in observe mode would have held: one by one until a person labels them, and by day."""

from __future__ import annotations

import datetime
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from lazaretto.incidents.findings import REASONS, alike, same_as, why_ruled, without_secrets
from lazaretto.incidents.incidents import SHOWN
from lazaretto.incidents.records import HeldItem
from lazaretto.ledger import Ledger
from lazaretto.ledger.contents import Contents
from lazaretto.ledger.reader import Tail
from lazaretto.names import counted
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
    """The text for lists, in the place of its own; None: its own."""
    same: frozenset[str]
    """The items that the block list knows it as."""
    copy: bool = False
    """Whether it was settled with another of the same content."""
    harmful: bool | None = None
    """A person's label; None: none yet."""


@dataclass(frozen=True, slots=True)
class Day:
    """One day (UTC) in numbers."""

    day: str
    judged: int
    flagged: int
    """Held, or would have been."""
    harmful: int
    """Number of these that a person labelled harmful."""
    benign: int
    waiting: int
    """Number of these that nobody has labelled."""
    copies: int = 0
    """Number of the benign ones that are copies of another, and were settled with it."""


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

    def would(self, limit: int | None = None) -> tuple[HeldItem, ...]:
        """Items that would have been held and that nobody has labelled, the newest first; of the same content and
        source class only one."""
        with self._lock:
            self._follow()
            open_ones = {
                i: flagged
                for i, flagged in self._flagged.items()
                if flagged.only_observed and self._word(flagged) is None
            }
            every = sorted(open_ones, key=lambda item: (-open_ones[item].time, item))
            rows = alike({item: open_ones[item].rule for item in every}, self._contents)
        order = list(rows)[:limit]
        seen = (
            {observed.id: observed for observed in self._ledger.items(ids=order, any_state=True, limit=None)}
            if order
            else {}
        )
        return tuple(
            HeldItem(
                item, seen[item].agent, seen[item].channel.value, flagged.time, flagged.ruling, flagged.rule,
                flagged.risk,
                (seen[item].text if flagged.shown is None else flagged.shown)[:SHOWN], flagged.reasons, False,
                rows[item],
            )
            for item in order
            if item in seen and (flagged := open_ones[item])
        )  # fmt: skip

    def days(self) -> tuple[Day, ...]:
        """Every day on which something was judged, the newest first."""
        with self._lock:
            self._follow()
            flagged: dict[str, list[tuple[bool | None, bool]]] = {}
            for item in self._flagged.values():
                flagged.setdefault(_day(item.time), []).append((self._word(item), item.copy))
            return tuple(_counted(day, self._judged[day], flagged.get(day, ())) for day in sorted(self._judged)[::-1])

    def quiet(self, now: float | None = None) -> Readiness:
        """Whether the last days were quiet: everything flagged has a word, and few of it was honest."""
        since = _day((time.time() if now is None else now) - (DAYS - 1) * 86_400)
        days = [day for day in self.days() if day.day >= since]
        judged, waiting = sum(day.judged for day in days), sum(day.waiting for day in days)
        honest = sum(day.benign - day.copies + day.waiting for day in days)  # one text is one false alarm
        share = honest / max(1, judged - sum(day.harmful for day in days))
        why = ""
        if judged < FEWEST:
            why = f"only {judged} items were judged in {DAYS} days; {FEWEST} are needed"
        elif waiting:
            lists = {flagged.only_observed for flagged in self._flagged.values() if self._word(flagged) is None}
            commands = " and ".join(
                "lazaretto held --would" if observed else "lazaretto held" for observed in sorted(lists)
            )
            why = f"{counted(waiting, 'item')} without a word, held or to be held: {commands}"
        elif share > SHARE:
            why = f"{honest} honest items would be held, {share:.1%}: lazaretto tune"
        return Readiness(not why, why, judged, honest, waiting)

    def _word(self, flagged: _Flagged) -> bool | None:
        """A person's label on it, or on an item that it is known as."""
        return True if flagged.harmful is None and not self._condemned.isdisjoint(flagged.same) else flagged.harmful

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
