"""The second reader of texts: how far a text orders an agent about, and how far it is harmful, from one pass.

The text's languages and the question decide which reader is asked (``reader_for``). The meaning of a number was
measured on sources that the reader had not seen (``calibration.json``; docs/models/reader.md).
"""

from __future__ import annotations

import statistics
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lazaretto.errors import ModelUnavailable
from lazaretto.kept_texts import KeptTexts, digest
from lazaretto.models.deep.base import TRUNKS, find_changes, is_set_up
from lazaretto.models.deep.network import E5, Minilm, Mpnet, Network
from lazaretto.models.language import unknown_stretches, without
from lazaretto.models.weight_files import read_fitted, read_weights
from lazaretto.processor_time import apart, is_over, worked

# About what a window takes to read, by the windows that were read last.

KEPT = 7
"""Windows that are remembered, and texts in a row without time after which they are not."""
_EMPTY = 8
"""Tokens whose time a window takes that has none: a pass has a cost of its own, which a short window shows most."""


class WindowTimes:
    """The middle of the last few windows, so that a single slow one does not count; each scaled to the length asked
    for. Several texts in a row that are not read for want of time have all of it forgotten: a reader that was slow once
    would else never be tried again."""

    def __init__(self) -> None:
        self._rates: deque[float] = deque(maxlen=KEPT)
        self._not_read = 0

    def took(self, tokens: int, seconds: float) -> None:
        """A window of so many tokens was read."""
        self._rates.append(seconds / (tokens + _EMPTY))
        self._not_read = 0

    def seconds_for(self, tokens: int) -> float:
        """About what a window of so many tokens takes; 0 where none is remembered."""
        rates = tuple(self._rates)  # other threads read too
        return statistics.median(rates) * (tokens + _EMPTY) if rates else 0.0

    def not_read(self) -> None:
        """A window was not read because it would have taken too long."""
        self._not_read += 1
        if self._not_read >= KEPT:
            self._rates.clear()
            self._not_read = 0


WEIGHTS = Path(__file__).parents[1] / "weights" / "reader"
_MODEL = "the second reader"
WINDOW = 256
_STRIDE = 207
TOP_TOKENS = 6
"""As in training: the order score of a window is the mean of its most suspicious tokens."""
MOST_WINDOWS = 24
_KEPT_BYTES = 1 << 20
"""Of readings that were made last."""
_NETWORKS: Mapping[str, type[Any]] = {"minilm": Minilm, "mpnet": Mpnet, "e5": E5}


@dataclass(frozen=True, slots=True)
class SecondReading:
    """The second reader's answer about a text."""

    order: float
    """Log-odds that it orders an agent about."""
    harm: float
    """Log-odds that it is harmful."""
    reader: str
    """``minilm``, ``mpnet`` or ``e5``."""
    quote: str
    """Where it reads most like an order."""
    whole: bool
    """False when the text was too long to read completely."""
    tokens: int
    """Tokens read for this answer; 0 if it was kept from before."""


@cache
def _fitted() -> dict[str, Any]:
    return read_fitted(WEIGHTS / "calibration.json", _MODEL)


def _bar(bars: Mapping[str, float], rate: float) -> float:
    rates = sorted(map(float, bars))
    chosen = max((offered for offered in rates if offered <= rate + 1e-12), default=rates[0])
    return float(bars[str(chosen)])


def measured_bar(reader: str, task: str, rate: float) -> float:
    """``DeepReader.bar`` of a reader that ships, without loading it."""
    return _bar(_fitted()[reader][task], rate)


class DeepReader:
    """One trunk with both heads."""

    def __init__(self, name: str) -> None:
        file = find_changes(name) if name in TRUNKS else WEIGHTS / f"{name}.safetensors"
        arrays, fitted = read_weights(file, WEIGHTS / "calibration.json", _MODEL)
        self.name, self._bars = name, fitted[name]
        self._known: KeptTexts[SecondReading] = KeptTexts(_KEPT_BYTES, lambda answer: 300 + 4 * len(answer.quote))
        self._network: Network = _NETWORKS[name](arrays)
        self._times = WindowTimes()
        self._marks, self._harm = (
            (arrays[f"head.{head}.weight"].reshape(-1), float(arrays[f"head.{head}.bias"][0]))
            for head in ("marks", "harm")
        )

    def has_time(self, text: str, seconds: float) -> bool:
        """Whether its first window can be read in so many seconds, by what the last ones took. After several texts for
        which there was no time it is tried again."""
        if seconds > self._times.seconds_for(min(WINDOW, 2 + len(text) // 4)) or self._known.get(digest(text)):
            return True
        self._times.not_read()
        return False

    def bar(self, task: str, rate: float) -> float:
        """The log-odds that this share of honest texts reaches; between measured rates, the stricter."""
        return _bar(self._bars[task], rate)

    def read(self, text: str, most_seconds: float = 10.0) -> SecondReading:
        """The strongest window decides, for each task by itself. Two gates that ask have it read once."""
        key = digest(text)
        known = self._known.get(key)
        if known is None:
            made = self._read(text, most_seconds)
            if made.whole:
                self._known.put(key, replace(made, tokens=0))
            return made
        return known

    def _read(self, text: str, most_seconds: float) -> SecondReading:
        until = worked() + most_seconds
        encoded = self._network.tokenizer.encode(text[: MOST_WINDOWS * WINDOW * 16], add_special_tokens=False)
        starts = list(range(0, max(1, len(encoded.ids) - (WINDOW - 2) + _STRIDE), _STRIDE))
        whole = len(starts) <= MOST_WINDOWS and len(text) <= MOST_WINDOWS * WINDOW * 16
        picked = (
            starts if whole else [starts[i] for i in np.linspace(0, len(starts) - 1, MOST_WINDOWS).round().astype(int)]
        )
        order, harm, quote, tokens = -np.inf, -np.inf, "", 0
        for n, start in enumerate(picked):
            ids = encoded.ids[start : start + WINDOW - 2]
            if n and is_over(until, self._times.seconds_for(len(ids) + 2)):
                whole = False
                break
            began = worked()
            states = self._network.states([self._network.begin, *ids, self._network.end])
            if not np.isfinite(states).all():  # the comparisons below would take it for the calmest of texts
                raise ModelUnavailable(f"{self.name} came to no numbers for a part of the text")
            marks = (states @ self._marks[0] + self._marks[1])[1:]
            value, tokens = _pooled(marks), tokens + len(ids) + 2
            if value > order:
                order, quote = value, _quote(text, encoded.offsets[start : start + len(ids)], marks)
            harm = max(harm, float(states.mean(axis=0) @ self._harm[0] + self._harm[1]))
            self._times.took(len(ids) + 2, worked() - began)
        return SecondReading(float(order), float(harm), self.name, quote, whole, tokens)


def _pooled(marks: NDArray[np.float32]) -> float:
    top = np.partition(marks, -min(TOP_TOKENS, len(marks)))[-TOP_TOKENS:]
    return float(top.mean())


def _quote(text: str, offsets: Sequence[tuple[int, int]], marks: NDArray[np.float32]) -> str:
    """The words around the most suspicious token."""
    if not offsets:
        return ""
    at = offsets[min(int(marks.argmax()), len(offsets) - 1)][0]
    start = max(text.rfind(end, 0, at) for end in (". ", "\n", "! ", "? ")) + 1
    return text[start:].strip()[:160]


@cache
def shared_reader(name: str) -> DeepReader:
    """One reader per process and trunk; ``ModelUnavailable`` where the trunk is not here. No item's time is spent on
    loading it."""
    with apart():
        return DeepReader(name)


TABLE = Path(__file__).parents[1] / "weights" / "reader" / "languages.json"
"""Task -> reader -> language -> AUC on sources that it had not seen (``tools/reader_languages.py``)."""
LEAST = 0.75
"""A reader that tells worse than this is not asked: half-way between a coin and certainty."""
SMALL = "minilm"
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
        if (name == SMALL and task != "orders") or (name != SMALL and is_set_up(name))
    }
    best = max(readers, key=lambda name: readers[name], default="")
    return best if best and readers[best] >= LEAST else ""


def languages_of(text: str) -> frozenset[str]:
    """The languages of a text's sentences; names and fragments count as English."""
    other = [stretch for stretch in unknown_stretches(text, _ENGLISH) if stretch.sure]
    rest = sum(map(str.isalpha, without(text, other))) if other else len(text)
    english = _ENGLISH if not other or rest >= _FEW_LETTERS else frozenset[str]()
    return english | {stretch.language for stretch in other}


def _quality(measured: Mapping[str, float], language: str) -> float:
    return measured.get(language, measured["other"])


@cache
def _table() -> Mapping[str, Mapping[str, Mapping[str, float]]]:
    return read_fitted(TABLE, _MODEL)
