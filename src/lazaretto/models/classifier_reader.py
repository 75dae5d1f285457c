"""A classifier that a user has, in a folder or on the hub, as a second reader for one question."""

from __future__ import annotations

import math
from collections.abc import Sequence

from lazaretto.models.deep.reader import SecondReading
from lazaretto.models.guard_model import GuardModel

MOST_CHARACTERS = 30_000
"""A longer text is not read whole."""
_EDGE = 1e-6


class ClassifierReader:
    """One model and the question it answers: its log-odds that the answer is yes."""

    def __init__(self, where: str, task: str, labels: Sequence[str] = (), model: GuardModel | None = None) -> None:
        """``where``: a folder, or ``hf:owner/name``. ``labels``: the classes that count as found."""
        self._model, self._task = model or GuardModel(where, harmful=labels), task
        self.name = self._model.name

    def read(self, text: str, most_seconds: float = 10.0) -> SecondReading:
        """The reading of the worst window."""
        found = self._model.score(text[:MOST_CHARACTERS])
        chance = min(max(found.risk, _EDGE), 1 - _EDGE)
        odds = math.log(chance / (1 - chance))
        order, harm = (odds, -math.inf) if self._task == "orders" else (-math.inf, odds)
        return SecondReading(order, harm, self.name, "", len(text) <= MOST_CHARACTERS, found.tokens)
