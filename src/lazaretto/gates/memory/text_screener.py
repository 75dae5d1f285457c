"""Orders in text memories: marked by a model that says how sure it is, and by the words of four languages.

One pass of all-MiniLM-L6-v2 with a small adapter marks every token; the most suspicious stretch decides, so a short
order in a long document is not averaged away. Sentences in unknown languages are left out and named.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lazaretto.kept_texts import KeptTexts, digest
from lazaretto.models.language import Stretch, without
from lazaretto.models.minilm import Encoder, Tokens, split_heads
from lazaretto.models.weight_files import Arrays, read_weights
from lazaretto.processor_time import is_over, worked
from lazaretto.reading.text import chosen_windows, reading_of, shortened
from lazaretto.reading.views import View

WEIGHTS = Path(__file__).parents[2] / "models" / "weights" / "screener"
TOP_TOKENS = 6
"""As in training: the logit of a window is the mean of its most suspicious tokens."""
MOST_SECONDS = 3.0
"""Processor time of this thread for one text with all its readings, languages and windows. The most suspicious windows
are read first, and ``Screening.whole`` is false when some were not. Waiting on a busy machine does not count."""
MILD_AT = 4.0
"""Least sum of the logit for orders and of what both other heads find (``Screening.mild``): 2 of 1,384 honest notes of
the training's own lists reach it, and more of others."""
GRAY = 0.3
"""The risk from which on a text may be an order; it is never called free of orders."""
_KEPT_BYTES = 1 << 20
"""Memory for the logits of windows that were read last."""
_SPAN_LOGIT = 0.0
_END_OF_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+|(?<=[。！？])")
_MOST_AROUND = 160
"""Characters before and after a stretch among which its sentence is looked for."""
MOST_QUOTED = 160
"""Characters that a reason quotes."""
_ORDERS, _QUIET, _TOOLS = range(3)
"""Rows of the head, as in training."""
_AS_SEEN = ("entities", "unmasked", "plain")
"""Readings of the whole text as a reader sees it, the plainest first: unknown languages are looked for in these."""


@dataclass(frozen=True, slots=True)
class OrderSpan:
    """A stretch that reads like an order."""

    start: int
    end: int
    text: str
    logit: float
    view: str
    """The reading of the text that it stands in."""
    quote: str = ""
    """The sentences it stands in, for people, who cannot judge a fragment."""


@dataclass(frozen=True, slots=True)
class UnreadLanguage:
    """A part of the text in a language that the model was not made for."""

    start: int
    end: int
    text: str
    language: str
    latin: bool
    """Whether it is written in Latin letters."""
    sure: bool
    """False for a fragment: a name or a title, too short to say what language it is in."""


@dataclass(frozen=True, slots=True)
class Screening:
    """The result for one text."""

    risk: float
    """From 0 to 1, read off honest texts that the model had never seen: .3 is what one in twenty of them reaches, .6
    one in a hundred, .9 one in a thousand."""
    interval: tuple[float, float]
    logit: float
    language: str
    """Code of the text's language; ``en`` for code, tables and fragments."""
    known_language: bool
    """Whether the model was made for all languages of this text."""
    spans: tuple[OrderSpan, ...]
    whole: bool
    """False when the text was too long to read completely."""
    unread: tuple[UnreadLanguage, ...] = ()
    """Sentences in other languages."""
    mixed_logit: float | None = None
    """The logit of all that is in Latin letters, other languages included; None where there are none. The model was
    not made for it, so only a high one means something."""
    mild: float = -math.inf
    """Above 0 for an order in mild words, which the head for orders does not find alone: one window both has something
    in it that a description of a tool would not say and would weaken a control or send something away, by the heads for
    these, and with its logit it reaches ``MILD_AT``."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """From logit to risk, measured on corpora the model had not seen when it scored them."""

    thresholds: dict[str, float]
    """False-positive rate (as a string) -> logit above which to act."""
    logits: tuple[float, ...]
    """Knots, rising."""
    risk: tuple[float, ...]
    spread: float
    """How far a logit moves when the model is trained again: half of the interval."""
    languages: tuple[str, ...]
    """Languages in which it was measured to be good."""
    shift: Mapping[str, float] = field(default_factory=dict)
    """Language -> by how much honest notes of work read more like orders than English ones; a logit is taken down by
    it."""
    tools: Mapping[str, float] = field(default_factory=dict)
    """Bars for descriptions of tools: ``sign`` (one sign among others) and ``refuse`` (enough by itself)."""

    def at(self, logit: float) -> tuple[float, float, float]:
        """Risk and its interval."""
        ends = (logit, logit - self.spread, logit + self.spread)
        risk, low, high = (float(np.interp(end, self.logits, self.risk)) for end in ends)
        return risk, low, high

    def threshold(self, false_positive_rate: float) -> float:
        """The logit that held this false-positive rate on unseen benign text; between measured rates, the stricter."""
        rates = sorted(float(r) for r in self.thresholds)
        chosen = max((r for r in rates if r <= false_positive_rate + 1e-12), default=rates[0])
        return self.thresholds[str(chosen)]


_Marked = tuple[Tokens, NDArray[np.float32]]
"""A window, with a logit per head and token."""


class TextScreener:
    """Loads once, screens many."""

    def __init__(self, weights: Path = WEIGHTS) -> None:
        arrays, self.calibration = _load(weights)
        adapter, head = split_heads(arrays)
        self._heads, self._biases = head["weight"], head["bias"]
        self._encoder = Encoder(adapter, int8=True)
        self._read: KeptTexts[NDArray[np.float32]] = KeptTexts(_KEPT_BYTES, lambda marks: int(marks.nbytes))

    def screen(self, texts: Sequence[str], most_seconds: float = MOST_SECONDS) -> list[Screening]:
        """One screening per text, in order; at most so long for each."""
        return [self._screen(text, most_seconds) for text in texts]

    def _screen(self, text: str, most_seconds: float) -> Screening:
        until = worked() + most_seconds  # for all of it: readings, languages and windows, too
        part = shortened(text)
        if part is None:
            return self._screened(text, until)
        made = self._screened(part.text, until)
        at = part.in_whole
        spans = tuple(replace(span, start=at(span.start), end=at(span.end)) for span in made.spans)
        unread = tuple(replace(part, start=at(part.start), end=at(part.end)) for part in made.unread)
        return replace(made, whole=False, interval=(made.interval[0], 1.0), spans=spans, unread=unread)

    def _screened(self, text: str, until: float) -> Screening:
        readings, apart = reading_of(text).views(until), list[tuple[Stretch, ...]]()
        in_time = not is_over(until)
        for view in readings:
            if apart and is_over(until):
                break
            apart.append(reading_of(view.text).unknown(self.calibration.languages, until))
        in_time &= len(apart) == len(readings) and not is_over(until)
        readings = readings[: len(apart)]
        seen = next((n for name in _AS_SEEN for n, view in enumerate(readings) if view.name == name), 0)
        if not apart[seen]:  # it is foreign in its disguise alone
            apart = [() if view.name in _AS_SEEN else u for view, u in zip(readings, apart, strict=True)]
        unread = _unread(readings[seen].text, apart[seen])
        unread = unread and (_unread(readings[0].text, apart[0]) or unread)  # in the text's own words
        # scripts that the model does not know are taken out, languages in Latin letters are read apart
        read = [
            replace(v, text=without(v.text, [s for s in u if not s.latin]))
            for v, u in zip(readings, apart, strict=True)
        ]
        known = {view: _known(view, [s for s in u if s.latin]) for view, u in zip(read, apart, strict=True)}
        left = [view for view, u in zip(read, apart, strict=True) if not u or any(map(str.isalpha, view.text))]
        marked, whole = self._marked(left, until)
        whole &= in_time
        several = [(known[view], window, marks) for view, many in marked.items() for window, marks in many]
        language = reading_of(without(readings[seen].text, apart[seen])).language
        shift = self.calibration.shift.get(language, 0.0)
        logit = max((_pooled(win, marks[_ORDERS], mask) for mask, win, marks in several), default=-math.inf) - shift
        mixed = max((_pooled(win, marks[_ORDERS]) for mask, win, marks in several if mask is not None), default=None)
        mild = max((self._mild(win, marks, mask) for mask, win, marks in several), default=-math.inf)
        mild = min(mild, mild + logit - MILD_AT)
        spans = tuple(s for view, many in marked.items() for s in _spans(view, many))[:8]
        lowest = self.calibration.logits[0]
        if unread and math.isinf(logit):  # nothing in a known language is left: no opinion
            return Screening(0.5, (0.0, 1.0), lowest, unread[0].language, False, spans, whole, unread, mixed)
        risk, low, high = self.calibration.at(max(logit, lowest))
        interval = (low, high if whole and not unread else 1.0)
        return Screening(risk, interval, max(logit, lowest), language, not unread, spans, whole, unread, mixed, mild)

    def _mild(self, window: Tokens, marks: NDArray[np.float32], known: NDArray[np.bool_] | None) -> float:
        sign = self.calibration.tools.get("sign", math.inf)
        return min(_pooled(window, marks[_TOOLS], known) - sign, _pooled(window, marks[_QUIET], known))

    def quiet_lie(self, text: str) -> float:
        """The logit that a statement would weaken a control, or send something of the crew's to a new place."""
        return self._strongest(text, _QUIET)

    def poison_in_description(self, text: str) -> float:
        """The logit that the description of a tool has something in it that a tool need not say."""
        return self._strongest(text, _TOOLS)

    def _strongest(self, text: str, head: int) -> float:
        windows, _ = chosen_windows([View("plain", text)])
        return max((_pooled(window, self._marks(window)[head]) for _, window in windows), default=-math.inf)

    def _marks(self, window: Tokens) -> NDArray[np.float32]:
        """A logit per head and token, from one pass; a window that comes again is not read again."""
        key = digest(" ".join(map(str, window.ids)))
        marks = self._read.get(key)
        if marks is None:
            marks = self._heads @ self._encoder.token_states([window.ids])[0].T + self._biases[:, None]
            self._read.put(key, marks)
        return np.asarray(marks, np.float32)

    def _marked(self, readings: Sequence[View], until: float) -> tuple[dict[View, list[_Marked]], bool]:
        """Every window that there was time for, and whether these are all."""
        windows, whole = chosen_windows(readings, until=until) if readings else ([], True)
        marked: dict[View, list[_Marked]] = {}
        last = 0.0
        for view, window in windows:
            if marked and is_over(until, last):
                return marked, False
            began = worked()
            marked.setdefault(view, []).append((window, self._marks(window)))
            last = worked() - began
        return marked, whole


def _known(view: View, unknown: Sequence[Stretch]) -> NDArray[np.bool_] | None:
    """For each character, whether it is in a language that the model knows; None where all are."""
    if not unknown:
        return None
    mask = np.ones(len(view.text), dtype=np.bool_)
    for stretch in unknown:
        mask[stretch.start : stretch.end] = False
        for start, end in stretch.inner:
            mask[start:end] = True
    return mask


def _unread(text: str, unknown: Sequence[Stretch]) -> tuple[UnreadLanguage, ...]:
    """The parts that a person has to read; fragments only where there is nothing else."""
    sure = [stretch for stretch in unknown if stretch.sure]
    named = sure or ([] if any(map(str.isalpha, without(text, unknown))) else unknown)
    return tuple(
        UnreadLanguage(part.start, part.end, text[part.start : part.end], part.language, part.latin, part.sure)
        for part in named
    )


def _pooled(window: Tokens, marks: NDArray[np.float32], known: NDArray[np.bool_] | None = None) -> float:
    inner = marks[1:]
    if known is not None:
        inner = inner[[end > start and bool(known[start]) for start, end in window.offsets[1:]]]
    if len(inner) == 0:
        return -math.inf
    top = np.partition(inner, -min(TOP_TOKENS, len(inner)))[-TOP_TOKENS:]
    return float(top.mean())


def _spans(view: View, several: list[_Marked]) -> list[OrderSpan]:
    """Runs of suspicious tokens as stretches of the view's text, overlapping windows merged."""
    best: dict[tuple[int, int], float] = {}
    for tokens, marks in several:
        for (start, end), mark in zip(tokens.offsets, marks[_ORDERS].tolist(), strict=True):
            if end > start and mark > _SPAN_LOGIT:
                best[(start, end)] = max(mark, best.get((start, end), -math.inf))
    spans: list[OrderSpan] = []
    run: list[tuple[int, int, float]] = []
    for (start, end), mark in [*sorted(best.items()), ((10**12, 10**12), 0.0)]:
        if run and start - run[-1][1] > 3:
            first, last = run[0][0], run[-1][1]
            if len(run) >= 3:
                mean = sum(m for _, _, m in run) / len(run)
                words, quote = view.text[first:last], whole_sentences(view.text, first, last)
                spans.append(OrderSpan(view.offset + first, view.offset + last, words, mean, view.name, quote))
            run = []
        run.append((start, end, mark))
    return sorted(spans, key=lambda s: -s.logit)


def whole_sentences(text: str, start: int, end: int) -> str:
    """The stretch with the rest of the sentences it begins and ends in.

    As it is where that would be more than a reason shows: a long honest beginning must not push the order out of it.
    """
    ends = [found.end() for found in _END_OF_SENTENCE.finditer(text, max(0, start - _MOST_AROUND), start)]
    stop = _END_OF_SENTENCE.search(text, max(start, end - 1), end + _MOST_AROUND)
    first = ends[-1] if ends else 0 if start <= _MOST_AROUND else start
    last = stop.end() if stop else len(text) if len(text) - end <= _MOST_AROUND else end
    wide = text[first:last].strip()
    return wide if len(wide) <= MOST_QUOTED else text[start:end].strip()


def _load(weights: Path) -> tuple[Arrays, Calibration]:
    arrays, fitted = read_weights(
        weights / "screener.safetensors", weights / "calibration.json", "the text-memory screener"
    )
    logits, risk, languages = (tuple(fitted[name]) for name in ("logits", "risk", "languages"))
    shift, tools = (fitted.get(name, {}) for name in ("shift", "tools"))
    return arrays, Calibration(
        fitted["thresholds"], logits, risk, float(fitted["spread"]), languages, shift=shift, tools=tools
    )


@cache
def shared_screener() -> TextScreener:
    """One screener per process."""
    return TextScreener()
