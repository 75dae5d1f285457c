"""Claims with their vectors: read from texts, kept beside the ledger, and made up for where they are missing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from lazaretto.gates.memory.claims.extraction import Claim, claims_of, weightiest_first
from lazaretto.kept_texts import KeptTexts, digest
from lazaretto.ledger import Ledger
from lazaretto.ledger.vectors import ClaimRow, Floats
from lazaretto.models.minilm import DIMENSION
from lazaretto.processor_time import apart, left, worked
from lazaretto.reading.text import reading_of

_MOST_BYTES = 4 << 20
"""Memory for texts that were read last."""
_AT_ONCE = 32
_CATCHING_UP = 0.5
_BEFORE_CLOCK = 4
"""Claims that are read between two looks at the clock."""
_LOOKS = 16
"""Looks for missing claims between two questions where the ledger ends: each look begins where the last answer was."""
_CLAIM_BYTES = 1_000
"""Memory of a claim besides its text."""


@dataclass(frozen=True, slots=True)
class ReadText:
    """The claims of a text and their unit vectors, row by row."""

    claims: tuple[Claim, ...]
    vectors: Floats
    whole: bool = True
    """False when there was no time for all of its claims: the weightiest were read."""

    def size(self) -> int:
        """About how many bytes it takes."""
        return self.vectors.nbytes + sum(_CLAIM_BYTES + 4 * len(claim.text) for claim in self.claims)

    def rows(self) -> list[ClaimRow]:
        """As the ledger keeps them."""
        return [ClaimRow(c.start, c.end, v) for c, v in zip(self.claims, self.vectors, strict=True)]


class ClaimReader:
    """Reads texts and keeps what it read last, since a text is judged first and kept a moment later."""

    def __init__(self) -> None:
        self._recent: KeptTexts[ReadText] = KeptTexts(_MOST_BYTES, ReadText.size)
        self._caught_up: dict[tuple[str, str], int] = {}
        self._looks: Counter[tuple[str, str]] = Counter()

    def read(self, texts: Sequence[str]) -> list[ReadText]:
        """The claims of each text, with vectors: as many as there is time for, the weightiest first."""
        found = {text: known for text in dict.fromkeys(texts) if (known := self._recent.get(digest(text))) is not None}
        for text in dict.fromkeys(texts):
            if text not in found:
                found[text] = _read(text)
                self._recent.put(digest(text), found[text])
        return [found[text] for text in texts]

    def vector(self, text: str) -> Floats:
        """The unit vector of a text as a whole."""
        return reading_of(text).vector

    def knows(self, text: str) -> bool:
        """Whether a text was read a moment ago."""
        return self._recent.get(digest(text)) is not None

    def keep(self, ledger: Ledger, item: str, text: str) -> None:
        """Keep the claims of an item that was just recorded."""
        read = self.read([text])[0]
        if read.claims:
            ledger.keep_claims(item, read.rows())

    def catch_up(self, ledger: Ledger, seconds: float = _CATCHING_UP) -> bool:
        """Keep the claims of memories that have none: written by others, restored, or before there was an index.

        At most so long of this thread's processor at a time; False when some are left for the next time.
        """
        with apart():
            return self._catch_up(ledger, worked() + seconds)

    def _catch_up(self, ledger: Ledger, until: float) -> bool:
        key = (ledger.url, ledger.namespace)
        moves = self._looks[key] % _LOOKS == 0
        self._looks[key] += 1
        while True:
            head = ledger.head().seq if moves else 0
            missing = ledger.without_claims(after=self._caught_up.get(key, 0), limit=_AT_ONCE)
            if not missing:  # none up to there: next time only later items are asked for
                self._caught_up[key] = max(head, self._caught_up.get(key, 0))
                return True
            if ledger.read_only:
                return False
            moves = True
            texts = {
                memory.id: memory.text
                for memory in ledger.items(ids=[item for _, item in missing], any_state=True, limit=None)
            }
            for seq, item in missing:
                if texts.get(item):
                    self.keep(ledger, item, texts[item])
                self._caught_up[key] = seq
                if worked() > until:
                    return False


def _read(text: str) -> ReadText:
    claims = weightiest_first(claims_of(text))
    sentences = list(dict.fromkeys(claim.text for claim in claims))  # a repeated claim is read once
    rows: dict[str, Floats] = {}
    for first in range(0, len(sentences), _BEFORE_CLOCK):
        if rows and left() <= 0:
            break
        rows.update((sentence, reading_of(sentence).vector) for sentence in sentences[first : first + _BEFORE_CLOCK])
    kept = sorted((claim for claim in claims if claim.text in rows), key=lambda claim: claim.start)
    vectors = np.array([rows[claim.text] for claim in kept], np.float32).reshape(len(kept), DIMENSION)
    return ReadText(tuple(kept), vectors, len(kept) == len(claims))


@cache
def shared_reader() -> ClaimReader:
    """One per process."""
    return ClaimReader()
