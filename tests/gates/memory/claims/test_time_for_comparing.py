"""Comparing claims leaves time to whoever reads the text itself, and what is at stake is compared first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

pytest.importorskip("onnxruntime", reason="needs the gates extra")

from lazaretto.gates.memory.claims.comparison import Overlap
from lazaretto.gates.memory.claims.extraction import claims_of
from lazaretto.gates.memory.claims.judge import ClaimJudge
from lazaretto.gates.memory.claims.pairs import NearPair
from lazaretto.gates.memory.claims.relation import Related
from lazaretto.processor_time import ProcessorTime, given
from lazaretto.types import Channel, Observation


class Model:
    """Answers that nothing is opposed, and takes a second for every pair."""

    def __init__(self, whole: ProcessorTime) -> None:
        self.whole, self.read = whole, 0

    def compare(self, pairs: Sequence[Any], bars: Any = None) -> list[Related]:
        self.read += len(pairs)
        self.whole._left -= len(pairs)
        return [Related(0.1, 0.1, 0.1, 0.7)] * len(pairs)


@pytest.mark.parametrize(
    ("seconds", "due", "read"),
    [(40.0, 0, 20), (20.0, 0, 16), (20.0, 20, 20), (8.0, 20, 12), (8.0, 9, 9), (20.0, 3, 15)],
)
def test_a_quarter_of_the_time_is_for_others_and_a_quarter_more_for_what_is_at_stake(
    seconds: float, due: int, read: int
) -> None:
    old, new = claims_of("The gate opens at dawn.")[0], claims_of("The gate opens at noon.")[0]
    item = Observation("ada", Channel.MEMORY, old.text)
    pairs = [NearPair(new, old, item, 0.8, False, Overlap.OPPOSED)] * 20
    whole = ProcessorTime(seconds)
    model = Model(whole)
    judge = ClaimJudge(None, 0.5, model)  # type: ignore[arg-type]
    with given(whole):
        found = judge._related(pairs, due=due)
    assert model.read == len(found) == read
