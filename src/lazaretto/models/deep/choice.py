"""Which second reader reads a text: the best one here for its languages and for what is asked, as it was measured."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from lazaretto.models.deep.base import is_set_up
from lazaretto.models.language import unknown_stretches, without

TABLE = Path(__file__).parents[1] / "weights" / "reader" / "languages.json"
"""Task -> reader -> language -> AUC on sources that it had not seen (``tools/reader_languages.py``)."""
LEAST = 0.75
"""A reader that tells worse than this is not asked: half-way between a coin and certainty."""
_SMALL = "minilm"
"""Ships with the package. It is not asked about orders: on left-out notes of work it cleared one planted order for
every two honest notes that it cleared, and the screener's own bar does better (research/LOG.md)."""
_ENGLISH = frozenset({"en"})
_FEW_LETTERS = 20
"""So little beside another language is a name, not English."""


def reader_for(text: str, task: str) -> str:
    """The name of the reader to ask whether a text orders an agent about (``orders``) or is harmful (``harm``); empty
    where none that is here tells it well enough in the text's languages."""
    languages = languages_of(text)
    readers = {
        name: min(_quality(measured, language) for language in languages)
        for name, measured in _table()[task].items()
        if (name == _SMALL and task != "orders") or (name != _SMALL and is_set_up(name))
    }
    best = max(readers, key=lambda name: readers[name], default="")
    return best if best and readers[best] >= LEAST else ""


def languages_of(text: str) -> frozenset[str]:
    """The languages of a text's sentences; names and fragments count as English."""
    other = [one for one in unknown_stretches(text, _ENGLISH) if one.sure]
    rest = sum(map(str.isalpha, without(text, other))) if other else len(text)
    english = _ENGLISH if not other or rest >= _FEW_LETTERS else frozenset[str]()
    return english | {one.language for one in other}


def _quality(measured: Mapping[str, float], language: str) -> float:
    return measured.get(language, measured["other"])


@cache
def _table() -> Mapping[str, Mapping[str, Mapping[str, float]]]:
    found: Mapping[str, Mapping[str, Mapping[str, float]]] = json.loads(TABLE.read_text(encoding="utf-8"))
    return found
