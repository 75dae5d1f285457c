"""Finds the held items, read by a writer, that a new text repeats. Looked up by the text, not item by item.

Held items are read once; numbers made of their values, phrases and words (``carrying.Marks``) are kept, sorted. The few
items that share something with a new text are read and compared, so the answer is the same. An item whose state changes
is read again, and once anything is erased, nothing is kept. Items that have no room in the index are read every time.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence

import numpy as np

from lazaretto.kept_texts import clear_when_forgotten
from lazaretto.ledger import Ledger
from lazaretto.ledger.driver import chunks
from lazaretto.ledger.item_state import CHANGING, changes_of
from lazaretto.ledger.tail import Tail
from lazaretto.provenance.carrying import Marks, marks_of_poison, marks_of_text, most_of, poisons_of, reused_content
from lazaretto.types import EventKind, Observation

MOST_MARKS = 250_000
"""Twelve bytes each; a text of fifty words has some eighty."""
MOST_ITEMS = 50_000
"""Items of which it is remembered whether they are held."""
_BEHIND = 2_000
"""Events after which forgetting everything is cheaper than following them."""
_AT_ONCE = 8


class HeldIndex:
    """Marks of items that may be held. Safe to share between threads; every call blocks."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self._tail = Tail(ledger, CHANGING, back=0)
        self._lock = threading.Lock()
        self._empty()
        clear_when_forgotten(self)

    def _empty(self) -> None:
        self._is_held: dict[str, bool] = {}
        self._numbers: dict[str, int] = {}
        """Numbers of the items whose marks are kept."""
        self._content: dict[int, int] = {}
        """By an item's number, the number of telling words with marks."""
        self._phrases = set[int]()
        """How many words the short texts among them have."""
        self._next = 0
        self._keys, self._owners = np.empty(0, np.int64), np.empty(0, np.int32)
        """The marks in order, and the number of the item that each is of."""

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._empty()

    def __len__(self) -> int:
        return len(self._numbers)

    def held(self, items: Sequence[str]) -> set[str]:
        """The given items that are held."""
        with self._lock:
            if not (items or self._is_held or self._numbers):  # nothing is asked, and nothing kept that may be erased
                return set()
            self._follow()
            if len(self._is_held) > MOST_ITEMS:
                self._empty()
            lacking = [item for item in items if item not in self._is_held]
            states = self.ledger.states(lacking)
            self._is_held.update((item, item in states and states[item].held) for item in lacking)
            return {item for item in items if self._is_held[item]}

    def repeated_by(self, observation: Observation, held: Sequence[str], named: int) -> dict[str, str]:
        """Held items that a new item repeats, each with the repeated part in words (for the first ``named``)."""
        with self._lock:
            unkept = self._take_in(held)
            shared = self._shared(marks_of_text(observation, self._phrases))
            near = [item for item in held if self._numbers.get(item) in shared]
        found = {item: why for item, poison in unkept.items() if (why := reused_content(observation, poison))}
        for chunk in chunks(near, _AT_ONCE):
            if len(found) >= named:
                found |= dict.fromkeys(chunk, "")
                continue
            poisons = poisons_of(chunk, self.ledger)
            found |= {item: why for item in chunk if (why := reused_content(observation, poisons[item]))}
        return {item: found[item] for item in held if item in found}

    def _follow(self) -> None:
        """Drop items that have changed since the last time."""
        head = self.ledger.head().seq
        if not (self._is_held or self._numbers) or head - self._tail.seq > _BEHIND:
            self._empty()
            self._tail.skip_to(head)
            return
        changed = set[str]()
        try:
            for event in self._tail.new():
                if event.kind is EventKind.ERASED:
                    self._empty()
                changed.add(event.subject)
                changed.update(item for item, _, _ in changes_of(event.kind, event.subject, event.body))
        finally:
            self._drop(changed)  # pages read count as read, also if the store fails at the next one

    def _drop(self, items: Iterable[str]) -> None:
        gone = list[int]()
        for item in items:
            self._is_held.pop(item, None)
            number = self._numbers.pop(item, None)
            if number is not None:
                gone.append(number)
                del self._content[number]
        if gone:
            kept = ~np.isin(self._owners, gone)
            self._keys, self._owners = self._keys[kept], self._owners[kept]

    def _take_in(self, held: Sequence[str]) -> dict[str, Observation]:
        """Keep the marks of items that are not known yet; returns the poison of those for which there is no room."""
        lacking = [item for item in held if item not in self._numbers]
        if not lacking:
            return {}
        poisons = poisons_of(lacking, self.ledger)
        made = {item: marks_of_poison(poison) for item, poison in poisons.items()}
        sizes = {item: len(marks.telling) + len(marks.words) for item, marks in made.items()}
        if self._keys.size + sum(sizes.values()) > MOST_MARKS:
            wanted = set(held)
            self._drop([item for item in self._numbers if item not in wanted])
        left, added = MOST_MARKS - self._keys.size, dict[str, Marks]()
        for item in sorted(made, key=sizes.__getitem__):
            left -= sizes[item]
            if left < 0:
                break
            added[item] = made[item]
        self._insert(added)
        return {item: poisons[item] for item in lacking if item not in added}

    def _insert(self, added: dict[str, Marks]) -> None:
        keys, owners = list[int](), list[int]()
        for item, marks in added.items():
            number, self._next = self._next, self._next + 1
            self._numbers[item], self._content[number] = number, len(marks.words)
            self._phrases |= {marks.phrase} - {0}
            own = [*marks.telling, *marks.words]
            keys += own
            owners += [number] * len(own)
        all_keys = np.concatenate([self._keys, np.array(keys, np.int64)])
        order = np.argsort(all_keys, kind="stable")
        self._keys = all_keys[order]
        self._owners = np.concatenate([self._owners, np.array(owners, np.int32)])[order]

    def _shared(self, asked: Marks) -> set[int]:
        """The numbers of items that share enough marks to be compared."""
        shared = set(self._owners_of(asked.telling).tolist())
        numbers, counts = np.unique(self._owners_of(asked.words), return_counts=True)
        pairs = zip(numbers.tolist(), counts.tolist(), strict=True)
        return shared | {number for number, count in pairs if most_of(count, self._content[number])}

    def _owners_of(self, marks: set[int]) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
        asked = np.fromiter(marks, np.int64, len(marks))
        starts, ends = (np.searchsorted(self._keys, asked, side) for side in ("left", "right"))
        there = ends > starts
        rows = zip(starts[there].tolist(), ends[there].tolist(), strict=True)
        return np.concatenate([self._owners[:0], *(self._owners[start:end] for start, end in rows)])
