"""Quiet poison: a rule that weakens a control or sends the crew's things elsewhere, and contradicts nothing known.

A logistic head looks at the claim's vector (all-MiniLM-L6-v2) and at plain words (``quiet_words``). Where it finds the
claim possible, a reader that was trained for such lies reads it with the text around it. A finding is no proof: it only
asks for a person, and only about sources that may not decide such things. A few lies are plain by their words
(``plain_lies``).
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

import numpy as np

from lazaretto.gates.memory.claims.extraction import Claim
from lazaretto.gates.memory.claims.plain_lies import is_plain_lie
from lazaretto.gates.memory.claims.quiet_words import moves_something, names_a_place, quiet_features
from lazaretto.gates.memory.claims.relation import gelu
from lazaretto.kept_texts import KeptTexts, digest
from lazaretto.ledger.vectors import Floats
from lazaretto.models.minilm import Encoder, Pieces, split_heads
from lazaretto.models.weight_files import read_arrays, read_weights
from lazaretto.processor_time import apart, left
from lazaretto.reading.text import reading_of

WEIGHTS = Path(__file__).parents[3] / "models" / "weights" / "claims"
MOST_TOKENS = 126
"""As in training: the reader reads so many tokens at once."""
POSSIBLE = -3.0
"""Log-odds by vector and words below which a claim is not read (``training/claims/quiet_bar.py`` says how many lies
that loses)."""
UNREAD = -1.0
"""The same from which on a claim that there was no time to read goes to a person."""
_BEGIN, _END = 101, 102
_KEPT_BYTES, _ANSWER_BYTES = 256 << 10, 150
"""Memory for the answers to the last windows, and about the size of one."""
PLAIN = 0.95
"""The probability that is given for a lie that is plain by its words: of 19,454 honest texts written for training none
has such a sentence."""
WEAKENS, DESTINATION = "weakens_control", "new_destination"


@dataclass(frozen=True, slots=True)
class Quiet:
    """A claim that a person should see although nothing contradicts it."""

    claim: Claim
    rule: str
    """``weakens_control`` or ``new_destination``."""
    probability: float


class QuietReader:
    """Loads once, reads many windows; one that comes again is not read again."""

    def __init__(self, file: Path = WEIGHTS / "quiet_reader.safetensors") -> None:
        self._adapter, self._head = split_heads(read_arrays(file, "the reader of quiet poison"))
        self._known: KeptTexts[float] = KeptTexts(_KEPT_BYTES, lambda _: _ANSWER_BYTES)

    @cached_property
    def _encoder(self) -> Encoder:
        """Loaded with the first window; no item's time is spent on that."""
        with apart():
            return Encoder(self._adapter, even=True)

    def log_odds(self, tokens: Sequence[int]) -> float:
        """That there is quiet poison in a text of at most ``MOST_TOKENS`` word pieces."""
        key = digest(" ".join(map(str, tokens)))
        known = self._known.get(key)
        if known is None:
            states = self._encoder.token_states([(_BEGIN, *tokens, _END)])[0]
            pooled = np.concatenate([states[0], states.mean(axis=0)])
            hidden = gelu(self._head["first.weight"] @ pooled + self._head["first.bias"])
            known = float((self._head["last.weight"] @ hidden + self._head["last.bias"])[0])
            self._known.put(key, known)
        return known


class QuietHead:
    """Loads once, judges many texts."""

    def __init__(self, weights: Path = WEIGHTS, reader: QuietReader | None = None) -> None:
        arrays, fitted = read_weights(weights / "quiet.safetensors", weights / "quiet.json", "the head of quiet poison")
        self._weight = np.asarray(arrays["weight"], np.float64)
        self._bias, self._scale = float(fitted["bias"]), float(fitted["vector_scale"])
        self.hold_at = float(fitted["hold_at"])
        self.reader = reader or QuietReader(weights / "quiet_reader.safetensors")

    def possible(self, claim: Claim, vector: Floats) -> float:
        """Log-odds that the claim weakens a control or sends something elsewhere, by its vector and words."""
        x = np.concatenate([np.asarray(vector, np.float64) * self._scale, quiet_features(claim)])
        return float(x @ self._weight) + self._bias

    def find(self, text: str, claims: Iterable[tuple[Claim, Floats]]) -> Quiet | None:
        """The claim of a text that most needs a person; none where none does."""
        several = sorted(claims, key=lambda pair: pair[0].start)
        plain = next((claim for claim, _ in several if is_plain_lie(claim.text)), None)
        if plain is not None:
            return Quiet(plain, WEAKENS, PLAIN)
        best = max(self.scored(text, several), key=lambda pair: pair[0], default=None)
        if best is None or best[0] < self.hold_at:
            return None
        score, claim = best
        sent = names_a_place(claim) and moves_something(claim)
        return Quiet(claim, DESTINATION if sent else WEAKENS, 1 / (1 + math.exp(-score)))

    def scored(self, text: str, claims: Sequence[tuple[Claim, Floats]]) -> Iterator[tuple[float, Claim]]:
        """The log-odds of each claim that is possible, likeliest first; ``claims`` come in the order of the text."""
        rated = [(self.possible(claim, vector), n) for n, (claim, vector) in enumerate(claims)]
        pieces = reading_of(text).pieces if rated else Pieces((), ())
        spans = [_tokens_of(pieces, claim) for claim, _ in claims]
        for rating, n in sorted(rated, reverse=True):
            if rating < POSSIBLE:
                return
            windows = list(_windows(pieces, spans, n))
            if left() > 0:
                yield max(self.reader.log_odds(window) for window in windows), claims[n][0]
            elif rating >= UNREAD:  # no time to read it: a person does
                yield self.hold_at, claims[n][0]


def _tokens_of(pieces: Pieces, claim: Claim) -> tuple[int, int]:
    """The word pieces of a claim: the first, and the one after the last."""
    start = bisect_right([end for _, end in pieces.offsets], claim.start)
    return start, max(start + 1, bisect_left([start for start, _ in pieces.offsets], claim.end))


def _windows(pieces: Pieces, spans: Sequence[tuple[int, int]], n: int) -> Iterator[tuple[int, ...]]:
    """Word pieces of a claim with as many claims around it as are read at once; a long claim is several windows."""
    first, last = spans[n]
    if len(pieces.ids) <= MOST_TOKENS:
        first, last = 0, len(pieces.ids)
    for start in range(first, last - MOST_TOKENS, MOST_TOKENS // 2):
        yield pieces.ids[start : start + MOST_TOKENS]
    first = max(first, last - MOST_TOKENS)
    before, after = n - 1, n + 1
    while after < len(spans) and spans[after][1] - first <= MOST_TOKENS:
        last, after = max(last, spans[after][1]), after + 1
    while before >= 0 and last - spans[before][0] <= MOST_TOKENS:
        first, before = min(first, spans[before][0]), before - 1
    yield pieces.ids[first:last]


@cache
def shared_quiet_head() -> QuietHead:
    """One per process."""
    return QuietHead()
