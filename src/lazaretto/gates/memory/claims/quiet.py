"""Quiet poison: a rule that weakens a control or sends the crew's things elsewhere, and contradicts nothing known.

A logistic head reads the claim's vector (all-MiniLM-L6-v2) and plain words (``quiet_words``); where it finds the claim
possible, the screener's head for quiet lies reads it too. A finding is no proof: it only asks for a person, and only
about sources that may not decide such things. A few lies are plain by their words (``plain_lies``).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from lazaretto.gates.memory.claims.extraction import Claim
from lazaretto.gates.memory.claims.plain_lies import is_plain_lie
from lazaretto.gates.memory.claims.quiet_words import moves_something, names_a_place, quiet_features
from lazaretto.gates.memory.text_screener import shared_screener
from lazaretto.ledger.vectors import Floats
from lazaretto.models.weight_files import read_weights
from lazaretto.processor_time import left

WEIGHTS = Path(__file__).parents[3] / "models" / "weights" / "claims"
SCREENER_SHARE = 1 / 3
"""Weight of a logit of the screener beside the log-odds of the words."""
SCREENER_ADDS = (-1.0, 3.0)
"""The most that the screener can take off and add. A claim that stays below the bar even so is not read again; one that
the words alone call a lie stays one."""
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


class QuietHead:
    """Loads once, reads many."""

    def __init__(self, weights: Path = WEIGHTS) -> None:
        arrays, fitted = read_weights(weights / "quiet.safetensors", weights / "quiet.json", "the head of quiet poison")
        self._weight = np.asarray(arrays["weight"], np.float64)
        self._bias, self._scale = float(fitted["bias"]), float(fitted["vector_scale"])
        self.hold_at = float(fitted["hold_at"])

    def score(self, claim: Claim, vector: Floats) -> float:
        """Log-odds that the claim weakens a control or sends something elsewhere, by its vector and words."""
        x = np.concatenate([np.asarray(vector, np.float64) * self._scale, quiet_features(claim)])
        return float(x @ self._weight) + self._bias

    def _by_both(self, claim: Claim, vector: Floats) -> float:
        score = self.score(claim, vector)
        least, most = SCREENER_ADDS
        if score < self.hold_at - most:
            return score
        if left() <= 0:  # no time to ask: a person does
            return score + most
        return score + min(most, max(least, SCREENER_SHARE * shared_screener().quiet_lie(claim.text)))

    def find(self, claims: Iterable[tuple[Claim, Floats]]) -> Quiet | None:
        """The claim that most needs a person; none where none does."""
        several = list(claims)
        plain = next((claim for claim, _ in several if is_plain_lie(claim.text)), None)
        if plain is not None:
            return Quiet(plain, WEAKENS, PLAIN)
        scored = ((self._by_both(claim, vector), claim) for claim, vector in several)
        best = max(scored, key=lambda pair: pair[0], default=None)
        if best is None or best[0] < self.hold_at:
            return None
        score, claim = best
        sent = names_a_place(claim) and moves_something(claim)
        return Quiet(claim, DESTINATION if sent else WEAKENS, 1 / (1 + math.exp(-score)))


@cache
def shared_quiet_head() -> QuietHead:
    """One per process."""
    return QuietHead()
