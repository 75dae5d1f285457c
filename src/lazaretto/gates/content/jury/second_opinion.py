"""The jury's score and a larger reader's as one, where such a reader is set up (``lazaretto deep setup``).

It is asked in doubt alone: about content that one look did not settle, where the jury is not sure of harm by itself.
The log-odds of both are added; weights and bars come from sources that neither had seen (``with_jury.json``, made by
``lab/benchmarks/fused_harm.py``). A text that fools one of the two can lower the sum, so each keeps its own bar:
content that one is sure of by itself is unsafe at any score of the other.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Protocol

import numpy as np

from lazaretto.cases.records import InputKind
from lazaretto.errors import MissingExtra, ModelError
from lazaretto.gates.content.jury.scorer import JuryScores, bar_for
from lazaretto.gates.content.jury.views import clean
from lazaretto.gates.content.records import PreparedContent
from lazaretto.models.deep import SecondReading, is_set_up, reader_for, shared_reader
from lazaretto.models.weight_files import read_fitted
from lazaretto.processor_time import left, until
from lazaretto.reading.text import reading_of

NUMBERS = Path(__file__).parents[3] / "models" / "weights" / "reader" / "with_jury.json"
_log = logging.getLogger(__name__)
_MOST_SECONDS = 10.0
"""Processor time for one content."""
_PAST = 0.001
"""Distance past a bar to which a score is lifted when a reader is sure."""
_FUSED = ("text", "image", "pair")
"""Heads of the jury that the sum was measured with."""


@dataclass(frozen=True, slots=True)
class Joint:
    """The fitted numbers."""

    reader: str
    offset: float
    jury: float
    """Weight of the jury's log-odds after the debate."""
    score: float
    """Weight of the reader's."""
    quick: float
    """Log-odds of one model of the jury alone below which one look settles a text, and nobody else is asked: lower than
    without the reader, which finds harm where the jury sees little."""
    settled: tuple[float, float]
    """Offset and weight of such a look that give the log-odds of both on average: texts with and without the reader are
    shown on one scale."""
    block: tuple[tuple[float, float], ...]
    """(share of harmless content called unsafe, log-odds of both from which on it is)."""
    alone: tuple[tuple[float, float], ...]
    """(the same share, the reader's own log-odds from which on it is sure by itself)."""
    allow: tuple[tuple[float, float], ...]
    """(share of harmful content called safe, log-odds of both below which it is)."""

    def odds(self, jury: float, score: float) -> float:
        """Log-odds of both: 0 is the best guess."""
        return self.offset + self.jury * jury + self.score * score

    def bars(self, false_alarms: float, misses: float) -> tuple[float, float]:
        """The log-odds below which content is allowed, and from which on it is unsafe, for these shares of errors."""
        return min(0.0, bar_for(self.allow, misses)), max(0.0, bar_for(self.block, false_alarms))

    def ruled(self, jury: float, score: float, false_alarms: float) -> float:
        """Log-odds of both, at least at the bar where the reader is sure by itself."""
        both = self.odds(jury, score)
        sure = score >= bar_for(self.alone, false_alarms)
        return max(both, self.bars(false_alarms, 0.5)[1] + _PAST) if sure else both


@cache
def joint(path: Path = NUMBERS) -> Joint:
    """The numbers that ship."""
    fields = read_fitted(path, "the jury beside a larger reader")
    for name in ("block", "alone", "allow"):
        fields[name] = tuple((float(rate), float(odds)) for rate, odds in fields[name])
    fields["settled"] = (float(fields["settled"][0]), float(fields["settled"][1]))
    return Joint(**fields)


def glance_numbers() -> Joint | None:
    """The numbers for one look where the reader is set up; None where it is not."""
    return joint() if is_set_up(joint().reader) else None


@dataclass(frozen=True, slots=True)
class Heard:
    """The reader's answer on a content that the jury was in doubt about."""

    reader: str
    jury: float
    """The jury's log-odds before it."""
    score: float = 0.0
    whole: bool = False
    cut: bool = False
    """Its time ended before it had read what it can read."""
    tokens: int = 0
    fault: str = ""
    """Why it has no answer; the jury then rules alone."""


class ReadsAgain(Protocol):
    """A second reader, such as ``DeepReader``."""

    name: str

    def has_time(self, text: str, seconds: float) -> bool:
        """Whether a first look can be had in so many seconds."""
        ...

    def read(self, text: str, most_seconds: float = 10.0) -> SecondReading:
        """Its reading of the text."""
        ...


@dataclass(frozen=True, slots=True)
class SecondOpinion:
    """Asks the larger reader."""

    reader: ReadsAgain | None = None
    """Another than the one that is set up, for tests."""

    def hear(self, prepared: PreparedContent, reading: JuryScores, jury: float, unsafe: float) -> Heard | None:
        """The reader's word; None where it is not asked.

        ``jury``: log-odds after the debate; ``unsafe``: those from which on the jury is sure by itself. Of a text with
        sentences in other languages the rest is read, and nothing is cleared by it: the gate ``second_reader`` is left
        to say what the whole is.
        """
        numbers = joint()
        if jury >= unsafe or reading.head not in _FUSED:
            return None
        texts = _texts(prepared, reading)
        if not texts or (self.reader is None and reader_for(texts[0], "harm") != numbers.reader):
            return None
        try:
            reader = self.reader or shared_reader(numbers.reader)
            heard = _read(reader, texts, Heard(numbers.reader, jury))
            return replace(heard, whole=heard.whole and "language" not in prepared.facts)
        except (ModelError, MissingExtra) as error:
            _say_silent(str(error))
            return Heard(numbers.reader, jury, fault=f"The second reader has no answer: {error}")


@cache
def _say_silent(why: str) -> None:
    """Log a warning once in a process for each reason: the operator who set a reader up expects its answers."""
    _log.warning("the jury rules alone, the second reader has no answer: %s", why)


def _read(reader: ReadsAgain, texts: Sequence[str], heard: Heard) -> Heard:
    """The worst of the texts, as far as the time lasts; with no time for the first there is no answer."""
    scores, tokens, whole = list[float](), 0, True
    for text in texts:
        if not reader.has_time(text, left()):
            whole = False
            break
        reading = reader.read(text, left(_MOST_SECONDS))
        scores.append(reading.harm)
        tokens, whole = tokens + reading.tokens, whole and reading.whole
    if not scores:
        return replace(heard, fault="There was not enough processor time left for the second reader.")
    return replace(heard, score=max(scores), whole=whole, cut=not whole, tokens=tokens)


def _texts(prepared: PreparedContent, reading: JuryScores) -> list[str]:
    """The texts for the reader: the text as it is and without its disguises, and the jury's worst view of it, so that
    lines which the jury reads past do not water the content down for the reader."""
    worst = reading.words
    if "language" in prepared.facts:
        return [clean(prepared.known_text)] if any(map(str.isalpha, prepared.known_text)) else []
    if prepared.kind is not InputKind.TEXT:
        return [worst] if worst else []
    plain = [view.text for view in reading_of(prepared.content.text).views(until())]
    return list(dict.fromkeys([*plain, worst] if worst and worst != clean(plain[0]) else plain))


def ruled_odds(heard: Heard, false_alarms: float, misses: float) -> tuple[float, tuple[float, float]] | None:
    """Log-odds and bars of both together; None where the jury rules alone: nobody answered, or the reader saw a part
    only and the sum would allow it."""
    if heard.fault:
        return None
    numbers = joint()
    odds, bars = numbers.ruled(heard.jury, heard.score, false_alarms), numbers.bars(false_alarms, misses)
    return None if not heard.whole and odds < bars[0] else (float(np.clip(odds, -9.0, 9.0)), bars)
