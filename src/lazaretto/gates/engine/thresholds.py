"""Thresholds that people's labels moved: items at risks that people release again and again pass, items at risks that
they condemn wait for review.

A version is an event of the ledger and can be taken back. Cuts only turn ``review`` into ``warn`` or the reverse:
labels never let in an item that a gate quarantines or blocks.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from lazaretto.errors import InputError
from lazaretto.ledger import Ledger
from lazaretto.ledger.reader import Tail
from lazaretto.policy import LearnPolicy
from lazaretto.types import Draft, EventKind, Evidence, Ruling, Verdict, plain

SUBJECT = "thresholds"
_FRESH_S = 5.0
"""Time after which a guard looks for a newer version."""


@dataclass(frozen=True, slots=True)
class Cut:
    """The moved thresholds of one gate."""

    clears_up_to: float = 0.0
    """``review`` with at most this risk becomes ``warn``; 0: none does."""
    reviews_from: float | None = None
    """``allow`` or ``warn`` with at least this risk becomes ``review``; None: none does."""
    labels: int = 0
    """Count of labels it rests on."""


@dataclass(frozen=True, slots=True)
class ThresholdVersion:
    """One version of all cuts."""

    number: int
    cuts: Mapping[str, Cut]
    by: str = ""
    time: float = 0.0


NONE = ThresholdVersion(0, {})
"""As shipped: nothing is moved."""


class Thresholds:
    """The versions of one ledger, and the one in force. Safe to share between threads."""

    def __init__(self, ledger: Ledger, bounds: LearnPolicy | None = None) -> None:
        self._ledger, self._bounds = ledger, bounds or LearnPolicy()
        self._versions: list[ThresholdVersion] = [NONE]
        self._tail, self._due = Tail(ledger, (EventKind.NOTED,), subject=SUBJECT), 0.0
        self._lock = threading.Lock()

    def about(self, gate: str) -> bool:
        """Whether the policy lets this gate's line be moved."""
        return gate in self._bounds.gates

    def versions(self) -> tuple[ThresholdVersion, ...]:
        """Every version, oldest first; the last is in force."""
        with self._lock:
            self._follow()
            return tuple(self._versions)

    def moved(self, verdict: Verdict) -> Verdict:
        """A gate's verdict by the version in force, within the policy's bounds; the evidence names the moved ruling."""
        if not self.about(verdict.gate):
            return verdict
        with self._lock:
            if time.monotonic() >= self._due:
                self._follow()
            version = self._versions[-1]
        cut = version.cuts.get(verdict.gate)
        if cut is None:
            return verdict
        ruling = verdict.ruling
        if ruling is Ruling.REVIEW and verdict.risk <= min(cut.clears_up_to, self._bounds.clears_up_to):
            ruling, words = Ruling.WARN, "people released what was held at this risk"
        elif ruling <= Ruling.WARN and verdict.risk >= max(cut.reviews_from or 2.0, self._bounds.reviews_from):
            ruling, words = Ruling.REVIEW, "people condemned what was let in at this risk"
        if ruling is verdict.ruling:
            return verdict
        moved_by = Evidence("measure", f"{words} (thresholds {version.number})", {"was": verdict.ruling.label})
        return replace(verdict, ruling=ruling, evidence=(*verdict.evidence, moved_by))

    def set(self, cuts: Mapping[str, Cut], *, by: str) -> ThresholdVersion:
        """Put cuts in force as a new version."""
        with self._lock:
            self._follow()
            number = self._versions[-1].number + 1
            body = {"version": number, "cuts": plain(dict(cuts)), "by": by}
            self._ledger.append([Draft(EventKind.NOTED, SUBJECT, body=body)])
            self._follow()
            return self._versions[-1]

    def revert(self, to: int, *, by: str) -> ThresholdVersion:
        """Go back to an earlier version's cuts; 0 is as shipped."""
        known = {version.number: version for version in self.versions()}
        if to not in known:
            raise InputError("revert", f"there is no version {to}", f"Known: {', '.join(map(str, known))}")
        return self.set(known[to].cuts, by=by)

    def _follow(self) -> None:
        for event in self._tail.new():
            if event.body is not None:
                cuts = {str(gate): _cut(cut) for gate, cut in event.body.get("cuts", {}).items()}
                number = int(event.body.get("version", 0))
                self._versions.append(ThresholdVersion(number, cuts, str(event.body.get("by", "")), event.time))
        self._due = time.monotonic() + _FRESH_S


def _cut(body: Mapping[str, Any]) -> Cut:
    above = body.get("reviews_from")
    return Cut(
        float(body.get("clears_up_to", 0.0)), None if above is None else float(above), int(body.get("labels", 0))
    )
