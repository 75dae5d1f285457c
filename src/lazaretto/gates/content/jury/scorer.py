"""A content as the jury's debaters see it: one reading of its words gives both their logits and quotes.

What a clause is worth is read: the text without it, and the clause by itself.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lazaretto.gates.content.jury.views import (
    CLS,
    HEADS,
    PICTURE_IDS,
    SEP,
    JuryView,
    TokenWindow,
    content_views,
    windows,
)
from lazaretto.gates.content.records import InputKind, PreparedContent, Role
from lazaretto.kept_texts import KeptTexts, digest, namespace
from lazaretto.models.weight_files import read_checked, read_fitted
from lazaretto.processor_time import is_over, until, worked
from lazaretto.reading.text import reading_of
from lazaretto.reading.trunk import (
    FILE,
    JURY,
    PICTURES,
    WEIGHTS,
    OneReading,
    PictureNetworks,
    TextTrunk,
    WindowScores,
    shared_reading,
)

MOST_WINDOWS = 40
"""Windows read of one view, 8,300 tokens: a longer text is sampled evenly over its whole length."""
_AVERAGED, _WORST = 4, 2
"""The heads were fitted on the mean of at most four windows; of more, the worst two count, lest length hide harm."""
MOST_SECONDS, HUGE_SECONDS = 5.0, 1.5
"""Processor time of this thread for one content, and for one that waits for a person anyway because it is too long: no
text keeps a gate busy, and a busy machine cuts nothing off. An unread part is reported."""
_CHARACTERS = 200_000
"""Looked at of one text; a part of them is read."""
_KEPT_BYTES = 4 << 20
"""Memory for contents that were read last."""
_SENTENCE = re.compile(r"(?:[^.!?\n]|[.!?](?=\S))+[.!?]*\s*")
_CLAUSE = re.compile(r"(?:[^.!?;:,\n]|[.!?;:,](?=\S))+[.!?;:,]*\s*")
_WORD = re.compile(r"\S+")
_READ_APART = 4
"""Phrases for each side that are read by themselves, and left out of the rest, to say what they are worth."""
_PHRASE, _SHORT = 14, 3
"""Most words of a phrase, and fewest: a fragment explains nothing."""
_JOINING = (
    "after although and because before but for if or since so that then though unless until when where whereas which "
    "while who whose without"
)
_JOINTS, _LEADING = frozenset(_JOINING.split()), frozenset(("at", "by", "for", "from", "in", "of", "on", "to", "with"))
"""Words before which a long English clause may be parted, and those that go with them."""
_MODEL = "the embedded jury"
_BESIDE = ("reader/with_jury.json", "reader/languages.json", "reader/calibration.json")
"""Files read while an arbiter rules, where a failure would count as one arbiter's fault and not stop the gate."""
_SEATS = (Role.STRICT, Role.LOOSE)
_DESCRIBED = (InputKind.IMAGE.value, InputKind.PAIR.value)
"""Views with a picture's description: the trunk reads them less well than the networks that were trained for them."""


@dataclass(frozen=True, slots=True)
class ClauseSpan:
    """A clause and what a debater's logit owes it."""

    quote: str
    """The phrase, at most 400 characters."""
    part: str
    """text | description | read_text."""
    weight: float
    own: float = 0.0
    """The log-odds of risk of these words alone."""


@dataclass(frozen=True, slots=True)
class DebaterScore:
    """One debater's score of the content before the debate."""

    logit: float
    odds: float
    """The logit calibrated: its log-odds of risk."""
    spans: tuple[ClauseSpan, ...]
    """Most against the content first."""
    hazards: Mapping[str, float]
    contexts: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class JuryScores:
    """Both debaters' scores of the worst view of the content."""

    head: str
    debaters: Mapping[Role, DebaterScore]
    tokens: int
    """Tokens a debater read; each is charged for them."""
    sampled: bool
    """Whether parts of a very long text were skipped."""
    cut: bool = False
    """Whether there was no time for parts that would have been read."""
    words: str = ""
    """The words read, in the form for another reader."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The fitted numbers of one head (see ``lab/src/lazaretto_lab/training/jury/train.py``)."""

    calibration: Mapping[str, tuple[float, float]]
    """Per debater: offset, and weight of its own logit."""
    debate: Mapping[str, tuple[float, float, float, float]]
    """Per debater, round 2: offset, weight of Strict's log-odds, of Loose's, of the precedents' evidence. Fitted so
    that log-odds of zero are the best guess."""
    spread: float
    """How far the log-odds move when the trunk is trained again: half of the interval."""
    block: tuple[tuple[float, float], ...] = ((0.01, 0.0),)
    """(share of harmless content called unsafe, log-odds from which on it is), measured on sources unknown to the
    models."""
    allow: tuple[tuple[float, float], ...] = ((0.1, 0.0),)
    """(share of harmful content called safe, log-odds below which it is)."""
    quick: float = -30.0
    """Below these log-odds of Strict alone, a whole debate never ended above the bar for allowed."""

    def odds(self, role: Role, logit: float) -> float:
        """A debater's logit, calibrated."""
        offset, slope = self.calibration[role.value]
        return offset + slope * logit

    def bars(self, false_alarms: float, misses: float) -> tuple[float, float]:
        """The log-odds below which content is allowed, and from which on it is unsafe, for these shares of errors."""
        return min(0.0, bar_for(self.allow, misses)), max(0.0, bar_for(self.block, false_alarms))


@dataclass(slots=True)
class _Turn:
    """Threads that want one content read."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    takers: int = 0


class JuryModels:
    """Both debaters' heads for texts, and their networks for pictures.

    Safe to share between threads; reading the same content twice costs once.
    """

    def __init__(self, folder: Path = WEIGHTS, pictures: Path = PICTURES) -> None:
        manifest, described = read_fitted(folder / JURY, _MODEL), read_fitted(pictures / JURY, _MODEL)
        for file in (folder / FILE, *(pictures / f"{role.value}.safetensors" for role in _SEATS)):
            read_checked(file, _MODEL)
        self._reading = shared_reading() if folder == WEIGHTS else OneReading(partial(TextTrunk, folder))
        self._pictures = OneReading(partial(PictureNetworks, pictures))
        heads = {**manifest["heads"], **{head: described["heads"][head] for head in _DESCRIBED}}
        self.settings = {head: _settings(fields) for head, fields in heads.items()}
        self.version = str(manifest["version"])
        self._names = (tuple(manifest["hazards"]), tuple(manifest["contexts"]))
        self._in_hand: dict[bytes, _Turn] = {}
        self._lock = threading.Lock()
        self._known: KeptTexts[tuple[JuryScores | None]] = KeptTexts(_KEPT_BYTES, lambda kept: _size(kept[0]))

    def read(self, prepared: PreparedContent) -> JuryScores | None:
        """Both debaters' view of the content; None when it holds nothing to read."""
        key = _key(prepared)
        with self._turn(key):
            known = self._known.get(key)
            if known is None:
                seconds = MOST_SECONDS if len(prepared.content.text) <= _CHARACTERS else HUGE_SECONDS
                known = (self._read(prepared, until(seconds)),)
                self._known.put(key, known)
            return known[0]

    def warm_up(self) -> None:
        """Load the trunk."""
        self._reading.warm_up()

    def glance(self, prepared: PreparedContent, quick: float | None = None) -> float | None:
        """Strict's log-odds, where they are enough to call the content clearly harmless; else None.

        ``quick``: a lower bar than its own. What it read is not read again when the debate is held after all.
        """
        if len(prepared.content.text) > _CHARACTERS:
            return None
        with self._turn(_key(prepared)):
            end, views = until(MOST_SECONDS), content_views(_bearable(prepared))
            risk = max((self._glance(view, end, quick) for view in views), default=0.0)
            return risk if views and risk < 0 else None

    @contextmanager
    def _turn(self, key: bytes) -> Iterator[None]:
        """A thread that reads the same content waits, and finds it read; no thread waits for another content."""
        with self._lock:
            turn = self._in_hand.setdefault(key, _Turn())
            turn.takers += 1
        try:
            with turn.lock:
                yield
        finally:
            with self._lock:
                turn.takers -= 1
                if not turn.takers:
                    self._in_hand.pop(key, None)

    def _glance(self, view: JuryView, until: float, quick: float | None) -> float:
        """Strict's log-odds, or 0 when they are not low enough, or not all of it could be read."""
        settings, look = self.settings[view.head], self._look(view, until)
        odds = settings.odds(_SEATS[0], look.logit(_SEATS[0]))
        bar = settings.quick if quick is None else min(quick, settings.quick)
        return odds if odds < bar and not look.cut else 0.0

    def _reader(self, view: JuryView) -> OneReading:
        return self._pictures if view.head in _DESCRIBED else self._reading

    def _look(self, whole: JuryView, until: float) -> _Look:
        """Read the windows of a view that there is time for, at least one, and those that were read already.

        From one to the next half of the text is skipped, and half of the rest: what was read is spread over all of it.
        """
        view = replace(whole, text=_sampled(whole.text), picture=_sampled(whole.picture))
        text, picture = reading_of(view.text).pieces, reading_of(view.picture).pieces
        reading = self._reader(view)
        every, read, last = windows(view.kind, text.ids, picture.ids, MOST_WINDOWS), dict[int, WindowScores](), 0.0
        for place in _spread(len(every)):
            ids = every[place].ids
            if read and is_over(until, last) and not reading.knows(ids):
                continue
            began = worked()
            read[place] = reading.window(ids)
            last = max(last, worked() - began)
        parts = tuple((every[place], read[place]) for place in sorted(read))
        sampled = sum(len(window.ids) for window, _ in parts) < len(text.ids)
        sampled |= max(len(whole.text), len(whole.picture)) > _CHARACTERS
        offsets = (text.offsets, picture.offsets)
        return _Look(view, offsets, parts, HEADS.index(view.head), sampled, len(read) < len(every))

    def _read(self, prepared: PreparedContent, until: float) -> JuryScores | None:
        """The worst of the views; where time runs out, the others are not read, and ``cut`` is set."""
        found, looks = content_views(_bearable(prepared)), list[_Look]()
        for place, view in enumerate(found):
            if looks and is_over(until):
                break
            looks.append(self._look(view, worked() + max(0.0, until - worked()) / (len(found) - place)))
        worst = max(looks, key=self._margin, default=None)
        cut = len(looks) < len(found) or any(look.cut for look in looks)
        cut |= len(prepared.content.text) > _CHARACTERS
        sampled = any(look.sampled for look in looks)
        return None if worst is None else replace(self._scores(worst, until), cut=cut, sampled=sampled)

    def _margin(self, look: _Look) -> float:
        """The mean log-odds of risk of a view, before any debate."""
        settings = self.settings[look.view.head]
        return float(np.mean([settings.odds(role, look.logit(role)) for role in _SEATS]))

    def _scores(self, look: _Look, until: float) -> JuryScores:
        settings, reading = self.settings[look.view.head], self._reader(look.view)
        odds = {role: settings.odds(role, look.logit(role)) for role in _SEATS}
        # Strict speaks for the more worried of the two heads and Loose for the milder one, whichever that is here.
        speaks = sorted(_SEATS, key=lambda role: -odds[role])
        hazards = _named(self._names[0], _softmax(look.worst(Role.STRICT)[1].mean("hazard")))
        contexts = _named(self._names[1], sigmoid(look.worst(Role.LOOSE)[1].mean("context")))
        seats = {
            role: DebaterScore(
                look.logit(head),
                odds[head],
                _spans(look, head, partial(settings.odds, head), reading, until),
                hazards,
                contexts,
            )
            for role, head in zip(_SEATS, speaks, strict=True)
        }
        tokens = sum(len(window.ids) for window, _ in look.parts)
        return JuryScores(look.view.head, seats, tokens, look.sampled, look.cut, _words(look.view))


_Offsets = Sequence[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class _Look:
    """The windows of one view that were read."""

    view: JuryView
    offsets: tuple[_Offsets, _Offsets]
    """The places of the tokens of its text and of its picture."""
    parts: tuple[tuple[TokenWindow, WindowScores], ...]
    head: int
    sampled: bool
    """Whether parts of a very long text were skipped."""
    cut: bool
    """Whether there was no time for all of its windows."""

    def _logits(self, role: Role) -> NDArray[np.float32]:
        return np.array([read.of(role.value)[self.head].mean() for _, read in self.parts], np.float32)

    def logit(self, role: Role) -> float:
        """A debater's: the mean of few windows, of many that of the worst."""
        logits = np.sort(self._logits(role))[::-1]
        return float(logits[: _AVERAGED if len(logits) <= _AVERAGED else _WORST].mean())

    def worst(self, role: Role) -> tuple[TokenWindow, WindowScores]:
        """The window that a debater finds most risky."""
        return self.parts[int(self._logits(role).argmax())]


def _spread(count: int) -> list[int]:
    """The numbers below ``count``, each far from those before it."""
    bits = max(1, (count - 1).bit_length())
    turned = (int(f"{n:0{bits}b}"[::-1], 2) for n in range(1 << bits))
    return [n for n in turned if n < count]


def _bearable(prepared: PreparedContent) -> PreparedContent:
    """The content with a huge text sampled, before anything looks for disguises in it."""
    content = replace(prepared.content, text=_sampled(prepared.content.text))
    return replace(prepared, content=content, known_text=_sampled(prepared.known_text))


def _sampled(text: str) -> str:
    """A text of bearable length: a huge one keeps its head, its tail and even samples between."""
    if len(text) <= _CHARACTERS:
        return text
    pieces, size = 64, _CHARACTERS // 64 - 1
    starts = [i * (len(text) - size) // (pieces - 1) for i in range(pieces)]
    return " ".join(text[s : s + size] for s in starts)


def _words(view: JuryView) -> str:
    """A view in one string: how second readers are trained to read text and description."""
    return f"{view.text} [picture] {view.picture}".strip() if view.picture else view.text


def _key(prepared: PreparedContent) -> bytes:
    return digest(namespace(), prepared.content.text, prepared.description, prepared.read_text)


def _size(scores: JuryScores | None) -> int:
    """About how many bytes it takes."""
    several = scores.debaters.values() if scores is not None else ()
    words = 4 * len(scores.words) if scores is not None else 0
    return 500 + words + sum(2_000 + 4 * len(span.quote) for debater in several for span in debater.spans)


def _spans(
    look: _Look, role: Role, odds: Callable[[float], float], reading: OneReading, until: float
) -> tuple[ClauseSpan, ...]:
    """The phrases of the worst window that move its logit most: by what the window says without each, and what each
    says by itself, calibrated by ``odds``.

    Shares of its tokens' scores choose the phrases that are read so; where time runs out they stand for themselves.
    """
    window, read = look.worst(role)
    scores = read.of(role.value)[look.head]
    found = sorted(_shares(look, window, scores, odds), key=lambda s: -s[0].weight)
    several = found if len(found) <= 2 * _READ_APART else [*found[:_READ_APART], *found[-_READ_APART:]]
    made = []
    for span, begin, end in several:
        if not is_over(until):
            before = (CLS, *PICTURE_IDS) if span.part == "description" else (CLS,)
            alone = float(reading.window((*before, *window.ids[begin:end], SEP)).of(role.value)[look.head].mean())
            left = reading.window((*window.ids[:begin], *window.ids[end:])) if len(found) > 1 else read
            fall = float(scores.mean() - left.of(role.value)[look.head].mean())
            span = replace(span, weight=fall, own=odds(alone))
        made.append(span)
    return tuple(sorted(made, key=lambda s: -s.weight))


def _shares(
    look: _Look, window: TokenWindow, scores: NDArray[np.float32], odds: Callable[[float], float]
) -> Iterator[tuple[ClauseSpan, int, int]]:
    """Each phrase of a window with its share in the logit, relative to an average phrase of the same length, and its
    place among the window's tokens."""
    view, average = look.view, float(scores.mean())
    blocks = (
        (view.text, view.part, window.text, window.text_at, look.offsets[0]),
        (view.picture, "description", window.picture, window.picture_at, look.offsets[1]),
    )
    for words, part, (first, last), at, places in blocks:
        if last <= first:
            continue
        begin, stop = places[first][0], places[last - 1][1]
        starts = np.array([place[0] for place in places[first:last]])
        for left_end, right_end in phrases(words, begin, stop):
            left, right = (int(n) for n in np.searchsorted(starts, (left_end, right_end)))
            if left < right:
                here = scores[at + left : at + right]
                share, own = float((here - average).sum() / len(scores)), odds(float(here.mean()))
                span = ClauseSpan(words[left_end:right_end].strip()[:400], part, share, own)
                yield span, at + left, at + right


def phrases(words: str, begin: int, stop: int) -> list[tuple[int, int]]:
    """Places of the phrases of a text: clauses; a long one is parted before words that join, else in equal pieces.

    A piece of fewer than ``_SHORT`` words goes with its neighbour of the same sentence.
    """
    found: list[tuple[int, int]] = []
    for sentence in _SENTENCE.finditer(words, begin, stop):
        pieces: list[list[tuple[int, int]]] = []
        for clause in _CLAUSE.finditer(words, *sentence.span()):
            places = [word.span() for word in _WORD.finditer(words, *clause.span())]
            pieces += _parted(words, places) if len(places) > _PHRASE else [places]
        found += [(piece[0][0], piece[-1][1]) for piece in _joined([part for part in pieces if part])]
    return found


def _parted(words: str, places: list[tuple[int, int]]) -> list[list[tuple[int, int]]]:
    """A long clause in parts: before words that join, and parts that are still long in equal pieces."""
    parts: list[list[tuple[int, int]]] = [[]]
    for place in places:
        if words[slice(*place)].lower() in _JOINTS and len(parts[-1]) >= _SHORT:
            led = len(parts[-1]) > _SHORT and words[slice(*parts[-1][-1])].lower() in _LEADING
            parts.append([parts[-1].pop()] if led else [])  # "in which" is not parted
        parts[-1].append(place)
    found = []
    for part in _joined(parts):
        count = -(-len(part) // _PHRASE)
        found += [part[n * len(part) // count : (n + 1) * len(part) // count] for n in range(count)]
    return found


def _joined(pieces: list[list[tuple[int, int]]]) -> list[list[tuple[int, int]]]:
    """The pieces, each short one with the one before it; a short first one with the one after it."""
    made: list[list[tuple[int, int]]] = []
    for piece in pieces:
        if made and (len(piece) < _SHORT or len(made[-1]) < _SHORT):
            made[-1] = [*made[-1], *piece]
        else:
            made.append(piece)
    return made


def _named(names: Sequence[str], values: NDArray[np.float32]) -> dict[str, float]:
    return dict(zip(names, map(float, values), strict=True))


def _softmax(x: NDArray[np.float32]) -> NDArray[np.float32]:
    e: NDArray[np.float32] = np.exp(x - x.max())
    e /= e.sum()
    return e


def sigmoid(x: Any) -> Any:
    """Log-odds to probability."""
    return 1.0 / (1.0 + np.exp(-np.clip(x, -30.0, 30.0)))


def log_odds(p: float) -> float:
    """Probability to log-odds, the ends kept finite."""
    p = min(max(p, 1e-4), 1 - 1e-4)
    return float(np.log(p / (1 - p)))


def bar_for(points: Sequence[tuple[float, float]], rate: float) -> float:
    """The log-odds for a share of errors: between two measured shares on a straight line, past the last the last."""
    rates, odds = zip(*sorted(points), strict=True)
    return float(np.interp(np.log(rate), np.log(rates), odds))


def _settings(fields: Mapping[str, Any]) -> Settings:
    calibration = {k: (float(v[0]), float(v[1])) for k, v in fields["calibration"].items()}
    debate = {k: (float(v[0]), float(v[1]), float(v[2]), float(v[3])) for k, v in fields["debate"].items()}
    block, allow = (tuple((float(r), float(x)) for r, x in fields[name]) for name in ("block", "allow"))
    return Settings(calibration, debate, float(fields["spread"]), block, allow, float(fields["quick"]))


@cache
def shipped_models() -> JuryModels:
    """The heads that come with the package."""
    for name in _BESIDE:
        read_checked(WEIGHTS.parent / name, _MODEL)
    return JuryModels()
