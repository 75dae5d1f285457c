"""Pairs that are read although they are taken for peaceful without a model (decision 0112)."""

from __future__ import annotations

from lazaretto.gates.memory.claims.comparison import Overlap, gives_another_value
from lazaretto.gates.memory.claims.extraction import Claim

LEAST_APART = 0.5
"""Claims with nothing in common are read like others from this cosine on (decision 0050: .6 for the first head)."""
LEAST_DOUBTED = 0.4
"""Such claims are doubted from this cosine on."""
MOST_DOUBTED = 6
"""Most doubted pairs of one text."""
DOUBT_FROM = 0.7
"""The conflict, by the first model, from which on the second reads such a pair."""


def is_doubtful(old: Claim, new: Claim, cosine: float, meets: Overlap) -> bool:
    """Whether two claims that no model would read are near enough to be read after all."""
    far = meets is Overlap.APART and LEAST_DOUBTED <= cosine < LEAST_APART
    return (far or meets is Overlap.SAME) and not gives_another_value(old, new)
