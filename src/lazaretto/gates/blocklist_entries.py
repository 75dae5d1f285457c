"""Entries of the block list: fingerprints of an item, the ruling, and the sources for which it holds.

A ruling of gates holds for sources that are trusted as little, or less. A person's label "harmful", a secret and a
virus picture hold for everybody. A person's label "benign" holds for its source and for more trusted ones.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lazaretto.ledger import Fingerprint, Ledger
from lazaretto.ledger.standing import standing_events
from lazaretto.picture_worker.opener import Opened
from lazaretto.reading.normalization import fold, fold_bare, same_but_for_typing
from lazaretto.reading.views import decoded_whole
from lazaretto.types import EventKind, Ruling, SourceClass

KIND = "blocklist"
"""The kind of our fingerprints in the ledger; a key is ``rule:fingerprint``, so that one look-up serves several."""
EXACT, NEAR, FOLDED = "text", "text_near", "text_folded"
FILE, SEEN, PIXELS, LOOK = "file", "picture", "pixels", "look"
VOUCHING = frozenset({NEAR, SEEN})
"""Fingerprints by which only a person's decision that something is fine is found again."""
EVERYBODY = "all"
SLICES = 6
KEPT = 2
Key = tuple[str, str]
"""Rule and fingerprint."""
Trust = Mapping[SourceClass, float]


@dataclass(frozen=True, slots=True)
class Entry:
    """One fingerprint of one item on the list."""

    item: str
    key: str
    ruling: Ruling
    whom: SourceClass | None
    """For sources trusted as little as this one or less; where a person cleared it, as much or more. None: for all."""
    look: str = ""
    """The perceptual hash, where it is one."""

    @property
    def cleared(self) -> bool:
        """Whether a person called it benign."""
        return self.ruling <= Ruling.WARN

    def holds_for(self, source: SourceClass, trust: Trust) -> bool:
        """Whether it says anything about an item of this source."""
        if self.whom is None:
            return True
        mine, theirs = trust[source], trust[self.whom]
        return mine >= theirs if self.cleared else mine <= theirs


def written(ruling: Ruling, whom: SourceClass | None, look: str = "") -> str:
    """The label in the ledger for a ruling and its scope."""
    label = f"{ruling.label}@{EVERYBODY if whom is None else whom.value}"
    return f"{label} {look}" if look else label


def read(known: Fingerprint, ledger: Ledger) -> Entry:
    """An entry as the ledger has it. An entry of an older version has no scope: its item gives it."""
    label, _, look = known.label.partition(" ")
    word, has_scope, scope = label.partition("@")
    ruling = Ruling.from_label(word)
    whom = _whom(scope) if has_scope else _whom_before(known.item, ruling, ledger)
    return Entry(known.item, known.key, ruling, whom, look)


def _whom(scope: str) -> SourceClass | None:
    return None if scope == EVERYBODY else SourceClass(scope)


def _whom_before(item: str, ruling: Ruling, ledger: Ledger) -> SourceClass | None:
    """The scope of an entry without one: all sources for a person's label "harmful", else its item's source.

    The source of a removed item is unknown: its entry holds for all but the user and the system, and clears the
    system alone.
    """
    state = ledger.states([item]).get(item)
    if state is None or state.erased:
        return SourceClass.TOOL_OUTPUT_INTERNAL if ruling > Ruling.WARN else SourceClass.SYSTEM
    labels = [event.body or {} for event in standing_events(ledger, (EventKind.LABELLED,), subject=item)]
    if ruling > Ruling.WARN and labels and labels[-1].get("label") == "harmful":
        return None
    return ledger.item(item).source


_TYPED_BY_HAND = 100_000
"""A longer text that differs in its typing is another text: people do not retype it."""


def text_keys(text: str, min_folded: int, beside: str = "") -> list[Key]:
    """The fingerprints of a text (with the picture beside it), the exact one first; a very short text has no other."""
    if not text:
        return []
    keys = [(EXACT, _digest(text, beside))]
    folded = fold(text)
    if len(folded) < min_folded:
        return keys
    near = same_but_for_typing(text) if len(text) <= _TYPED_BY_HAND else ""
    found = [*keys, *([(NEAR, _digest(near, beside))] if near else []), (FOLDED, _digest(folded, beside))]
    others = [bare for inner in (text, decoded_whole(text)) if len(bare := fold_bare(inner)) >= min_folded]
    return [*found, *((FOLDED, _digest(bare, beside)) for bare in dict.fromkeys(others) if bare != folded)]


def seen_key(picture: Opened) -> list[Key]:
    """The fingerprint of a picture's pixels and texts, in any encoding; none with more frames or unread texts."""
    if picture.frame_count != 1 or not picture.texts_whole:
        return []
    words = "\0".join(f"{where}\0{text}" for where, text in picture.texts)
    return [(SEEN, _digest(picture.digest, words) if words else picture.digest)]


def _digest(text: str, beside: str) -> str:
    return hashlib.sha256(f"{text}\0{beside}".encode() if beside else text.encode()).hexdigest()


def look_keys(hashed: int) -> Sequence[str]:
    """Index keys of a perceptual hash: every choice of two of its six slices, so that near hashes share one."""
    bounds = [round(64 * i / SLICES) for i in range(SLICES + 1)]
    slices = [(hashed >> low) & ((1 << (high - low)) - 1) for low, high in itertools.pairwise(bounds)]
    return [".".join(f"{i}:{slices[i]:x}" for i in chosen) for chosen in itertools.combinations(range(SLICES), KEPT)]
