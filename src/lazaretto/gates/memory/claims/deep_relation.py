"""Pairs of claims that the small model may take for a conflict, read again by all-mpnet-base-v2 where it is set up.

``lazaretto deep setup`` fetches the encoder; the changes to it and the head ship with the package. It tells conflicts
from peaceful pairs much better than the small model (docs/models/claims.md), and costs ten times as much, so it is
asked only where the small model leaves a conflict possible.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np

from lazaretto.gates.memory.claims.comparison import compared
from lazaretto.gates.memory.claims.extraction import Claim
from lazaretto.gates.memory.claims.relation import (
    TOKENS_NEW,
    TOKENS_OLD,
    WEIGHTS,
    Related,
    RelationCalibration,
    answers,
)
from lazaretto.models.deep.base import is_set_up
from lazaretto.models.deep.network import Mpnet
from lazaretto.models.minilm import split_heads
from lazaretto.models.packed_changes import unpacked_changes
from lazaretto.models.weight_files import read_weights


class DeepRelation:
    """Reads pairs one by one."""

    def __init__(self, weights: Path = WEIGHTS) -> None:
        arrays, fitted = read_weights(
            weights / "relation_mpnet.safetensors", "calibration_mpnet.json", "the second reader of claims"
        )
        self.ask_at = float(fitted.pop("ask_at"))
        """The small model's probability of a conflict from which on this one is asked."""
        self.calibration = RelationCalibration(**fitted)
        changes, self._head = split_heads(unpacked_changes(arrays))
        self._network = Mpnet(changes)

    def compare(self, old: Claim, new: Claim, cosine: float) -> Related:
        """The relation of a pair, with the cosine of the two as the index has it."""
        net = self._network
        first, second = (
            net.tokenizer.encode(claim.text, add_special_tokens=False).ids[:most]
            for claim, most in ((old, TOKENS_OLD), (new, TOKENS_NEW))
        )
        states = net.states([net.begin, *first, net.end, *second, net.end])
        x = np.concatenate([states[0], states.mean(axis=0), [*compared(old, new), cosine]]).astype(np.float32)
        return answers(x[None], self._head, self.calibration.temperature, deep=True)[0]

    def asked_about(self, small: Sequence[Related]) -> list[int]:
        """Places of the pairs to read again, the likeliest conflicts first."""
        places = [place for place, one in enumerate(small) if one.conflict >= self.ask_at]
        return sorted(places, key=lambda place: -small[place].conflict)[:MOST_ASKED]


MOST_ASKED = 4
"""Pairs of one text that are read again, at most."""


def deep_relation() -> DeepRelation | None:
    """The reader, where its encoder is set up."""
    return _shared() if is_set_up("mpnet") else None


@cache
def _shared() -> DeepRelation:
    return DeepRelation()
