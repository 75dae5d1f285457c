"""Screens text memories: marks the stretches that order an agent about, and says how sure it is.

One pass of all-MiniLM-L6-v2 with a small adapter marks every token; the risk of a text comes from its most suspicious
stretch, so a short order in a long document is not averaged away. What the model was not made for (a language other
than English) gets a wide interval and goes to a person: it does not guess.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lazaretto.errors import MissingExtra, ModelUnavailable
from lazaretto.gates.memory.text_views import View, views
from lazaretto.models.language import language_of
from lazaretto.models.minilm import WINDOW_TOKENS, Encoder, Tokens, split_heads, window_texts

WEIGHTS = Path(__file__).parents[2] / "models" / "weights" / "screener"
TOP_TOKENS = 6
"""As in training: the logit of a window is the mean of its most suspicious tokens."""
MAX_WINDOWS = 64
"""A text of more than about eight thousand tokens is sampled evenly, and its interval says so."""
_SPAN_LOGIT = 0.0


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch that reads like an order."""

    start: int
    end: int
    text: str
    logit: float
    view: str
    """Which reading of the text it stands in."""


@dataclass(frozen=True, slots=True)
class Screening:
    """What the screener makes of one text."""

    risk: float
    """Calibrated probability that the text carries a foreign order."""
    interval: tuple[float, float]
    logit: float
    language: str
    """``en``, or the code of a language the model does not know."""
    spans: tuple[Span, ...]
    whole: bool
    """False when the text was too long to read completely."""

    @property
    def known_language(self) -> bool:
        """Whether the model was made for this text."""
        return self.language == "en"


@dataclass(frozen=True, slots=True)
class Calibration:
    """From logit to probability, measured on corpora the model had not seen when it scored them."""

    logits: tuple[float, ...]
    """Knots, rising."""
    risk: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    thresholds: dict[str, float]
    """False-positive rate (as a string) -> logit above which to act."""

    def at(self, logit: float) -> tuple[float, float, float]:
        """Risk and its interval."""
        return tuple(float(np.interp(logit, self.logits, curve)) for curve in (self.risk, self.low, self.high))  # type: ignore[return-value]

    def threshold(self, false_positive_rate: float) -> float:
        """The logit that held this false-positive rate on unseen benign text; between measured rates, the stricter."""
        rates = sorted(float(r) for r in self.thresholds)
        chosen = max((r for r in rates if r <= false_positive_rate + 1e-12), default=rates[0])
        return self.thresholds[str(chosen)]


class TextScreener:
    """Loads once, screens many."""

    def __init__(self, weights: Path = WEIGHTS) -> None:
        arrays, self.calibration = _load(weights)
        adapter, head = split_heads(arrays)
        self._head, self._bias = head["weight"].reshape(-1), float(head["bias"][0])
        self._encoder = Encoder(adapter)

    def screen(self, texts: Sequence[str]) -> list[Screening]:
        """One screening per text, in order."""
        read = [views(text) for text in texts]
        flat = [view for several in read for view in several]
        windows = window_texts([v.text for v in flat], MAX_WINDOWS, stride=WINDOW_TOKENS // 2)
        states = iter(self._encoder.token_states([w.ids for several in windows for w in several]))
        marked = [[(w, next(states) @ self._head + self._bias) for w in several] for several in windows]
        results, position = [], 0
        for text, several in zip(texts, read, strict=True):
            mine = list(zip(several, marked[position : position + len(several)], strict=True))
            position += len(several)
            results.append(self._judge(text, mine))
        return results

    def _judge(self, text: str, mine: list[tuple[View, list[tuple[Tokens, NDArray[np.float32]]]]]) -> Screening:
        logit = max(_pooled(marks) for _, several in mine for _, marks in several)
        risk, low, high = self.calibration.at(logit)
        spans = tuple(s for view, several in mine for s in _spans(view, several))
        whole = all(len(several) < MAX_WINDOWS for _, several in mine)
        language = language_of(text)
        if language != "en":
            risk, low, high, spans = 0.5, 0.0, 1.0, ()  # no opinion
        elif not whole:
            high = 1.0
        return Screening(risk, (min(low, risk), max(high, risk)), logit, language, spans[:8], whole)


def _pooled(marks: NDArray[np.float32]) -> float:
    inner = marks[1:]
    if len(inner) == 0:
        return -math.inf
    top = np.partition(inner, -min(TOP_TOKENS, len(inner)))[-TOP_TOKENS:]
    return float(top.mean())


def _spans(view: View, several: list[tuple[Tokens, NDArray[np.float32]]]) -> list[Span]:
    """Runs of suspicious tokens as stretches of the view's text, overlapping windows merged."""
    best: dict[tuple[int, int], float] = {}
    for tokens, marks in several:
        for (start, end), mark in zip(tokens.offsets, marks.tolist(), strict=True):
            if end > start and mark > _SPAN_LOGIT:
                best[(start, end)] = max(mark, best.get((start, end), -math.inf))
    spans: list[Span] = []
    run: list[tuple[int, int, float]] = []
    for (start, end), mark in [*sorted(best.items()), ((10**12, 10**12), 0.0)]:
        if run and start - run[-1][1] > 3:
            first, last = run[0][0], run[-1][1]
            if len(run) >= 3:
                mean = sum(m for _, _, m in run) / len(run)
                spans.append(Span(view.offset + first, view.offset + last, view.text[first:last], mean, view.name))
            run = []
        run.append((start, end, mark))
    return sorted(spans, key=lambda s: -s.logit)


def _load(weights: Path) -> tuple[dict[str, NDArray[np.floating[Any]]], Calibration]:
    try:
        from safetensors.numpy import load_file
    except ImportError:
        raise MissingExtra("the text-memory screener", "gates") from None
    try:
        arrays = load_file(weights / "screener.safetensors")
        calibration = json.loads((weights / "calibration.json").read_text(encoding="utf-8"))
    except OSError as error:
        raise ModelUnavailable(f"the screener's weights are not in {weights}: {error}") from None
    curves = {name: tuple(calibration[name]) for name in ("logits", "risk", "low", "high")}
    return dict(arrays), Calibration(**curves, thresholds=calibration["thresholds"])


@cache
def shared_screener() -> TextScreener:
    """One screener per process."""
    return TextScreener()
