"""Which memories are due for another look: the recent ones, what is held, and what decisions rested on that failed.

Time is counted in passes. A memory is looked at again by the next two passes after it was written; one that is held,
or that uses were blamed on, by the next twenty. What is settled (a person ruled on it, it was replaced or erased) is
never looked at again. Memories go by numbers in the order of writing.
"""

from __future__ import annotations

from collections import deque

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
LOOKS = 2
"""Passes that look again at every memory."""
HELD_LOOKS = 20
"""Passes for which a held memory may still prove clean, and one in use is looked at again when uses of it fail."""
BLAMED = 2
"""Failed uses since the last look that ask for another."""


class RecheckSchedule:
    """What is known of each memory that decides whether it is due."""

    def __init__(self, size: int = 1_024) -> None:
        self.admitted = np.zeros(size, dtype=bool)
        """In use: neither held nor taken out."""
        self.settled = np.zeros(size, dtype=bool)
        self.blame = np.zeros(size, dtype=np.int64)
        self.count = 0
        """Memories so far: the number of the next one."""
        self._starts: deque[int] = deque(maxlen=HELD_LOOKS)

    def wrote(self, ids: Ints, admitted: NDArray[np.bool_]) -> None:
        """New memories, and which of them may be used."""
        self.count = max(self.count, int(ids.max()) + 1)
        while self.count > len(self.admitted):
            for name in ("admitted", "settled", "blame"):
                old = getattr(self, name)
                setattr(self, name, np.concatenate([old, np.zeros_like(old)]))
        self.admitted[ids] = admitted

    def failed(self, parents: Ints) -> None:
        """A use of each of these failed; -1 is nobody."""
        np.add.at(self.blame, parents[parents >= 0], 1)

    @property
    def recent(self) -> int:
        """The first memory that every pass looks at."""
        return self._starts[-LOOKS] if len(self._starts) >= LOOKS else 0

    @property
    def oldest(self) -> int:
        """The first memory that any pass looks at."""
        return self._starts[0] if len(self._starts) == HELD_LOOKS else 0

    def due(self, ids: Ints) -> NDArray[np.bool_]:
        """Which of some memories the pass now looks at."""
        waiting = ~self.admitted[ids] | (self.blame[ids] >= BLAMED)
        return ~self.settled[ids] & ((ids >= self.recent) | (waiting & (ids >= self.oldest)))

    def close_pass(self, start: int | None = None) -> None:
        """A pass is over; memories from number ``start`` on (default: those to come) are the next ones' news."""
        self._starts.append(self.count if start is None else start)
