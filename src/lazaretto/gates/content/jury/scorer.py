"""The trained models behind the jury's debaters: one pass gives both debaters their logits and quotes.

A logit is a mean of token scores. What a clause is worth is read: the text without it, and the clause by itself.
"""

from __future__ import annotations

import math
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

from lazaretto.cases.records import InputKind
from lazaretto.errors import ModelUnavailable
from lazaretto.gates.content.jury.views import (
    CLS,
    HEADS,
    PICTURE_IDS,
    SEP,
    WINDOW,
    JuryView,
    TokenWindow,
    content_views,
    windows,
    worst_lines,
)
from lazaretto.gates.content.records import PreparedContent, Role
from lazaretto.kept_texts import KeptTexts, digest
from lazaretto.models.minilm import Encoder, Pieces, split_heads
from lazaretto.models.weight_files import SHIPPED, read_arrays, read_checked, read_fitted
from lazaretto.processor_time import apart, is_over, left, until, worked
from lazaretto.reading.text import reading_of

MOST_WINDOWS = 32
"""Windows read of one view: a longer text is sampled evenly over its whole length."""
_AVERAGED, _WORST = 4, 2
"""The models were fitted on the mean of at most four windows; of more, the worst two count, lest length hide harm."""
MOST_SECONDS, HUGE_SECONDS = 5.0, 1.5
"""Processor time of this thread for one content, both models together, and for one that waits for a person anyway
because it is too long: no text keeps a gate busy, and a busy machine cuts nothing off. An unread part is reported."""
_FIRST = 0.7
"""The first model's share of it: enough for all its windows on a slow machine. What it finds clearly harmless, the
other does not read."""
_CHARACTERS = 200_000
"""Looked at of one text; the models read a part of them."""
_KEPT_BYTES = 4 << 20
"""Memory for contents that were read last, and again for single looks at them."""
_SENTENCE = re.compile(r"(?:[^.!?\n]|[.!?](?=\S))+[.!?]*\s*")
_CLAUSE = re.compile(r"(?:[^.!?;:,\n]|[.!?;:,](?=\S))+[.!?;:,]*\s*")
_WORD = re.compile(r"\S+")
_READ_APART = 4
"""Phrases for each side that are read by themselves, and left out of the rest, to say what they are worth."""
_PHRASE, _SHORT = 14, 3
"""Most words of a phrase, and fewest."""
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


@dataclass(frozen=True, slots=True)
class ErrorRates:
    """How often the jury may be wrong about content from sources it never saw; between the two lies the gray band."""

    false_alarms: float = 0.01
    """Share of harmless content that may be called unsafe."""
    misses: float = 0.15
    """Share of harmful content that may be called safe."""


DEFAULT_RATES = ErrorRates()
"""Content that is not clearly harmless by these rates is explained by reading it in parts."""


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
    """How far the log-odds move when the models are trained again: half of the interval."""
    block: tuple[tuple[float, float], ...] = ((0.01, 0.0),)
    """(share of harmless content called unsafe, log-odds from which on it is), measured on sources unknown to the
    models."""
    allow: tuple[tuple[float, float], ...] = ((0.1, 0.0),)
    """(share of harmful content called safe, log-odds below which it is)."""
    quick: float = -30.0
    """Below these log-odds of one model alone, a whole debate never ended above the bar for allowed."""

    def odds(self, role: Role, logit: float) -> float:
        """A model's logit, calibrated."""
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
    """Both debaters' models. Safe to share between threads; reading the same content twice costs once."""

    def __init__(self, folder: Path) -> None:
        manifest = read_fitted(folder / "jury.json", _MODEL)
        for role in _SEATS:  # before one of them clears a text that the other was never asked about
            read_checked(folder / f"{role.value}.safetensors", _MODEL)
        self._seats = _Seats(
            {
                role: _Stored(folder / f"{role.value}.safetensors", int(manifest["windows"][role.value]))
                for role in _SEATS
            }
        )
        self.settings = {head: _settings(fields) for head, fields in manifest["heads"].items()}
        self.version = str(manifest["version"])
        self._names = (tuple(manifest["hazards"]), tuple(manifest["contexts"]))
        self._in_hand: dict[bytes, _Turn] = {}
        self._lock = threading.Lock()
        self._known: KeptTexts[tuple[JuryScores | None]] = KeptTexts(_KEPT_BYTES, lambda kept: _size(kept[0]))
        self._looks: KeptTexts[_ViewScore] = KeptTexts(_KEPT_BYTES, lambda view: 2_000 + view.scores.nbytes * 4)

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
        """Load the model that looks at every text."""
        _ = self._seats[_SEATS[0]]

    def glance(self, prepared: PreparedContent, quick: float | None = None) -> float | None:
        """The risk by one model alone, where that is enough to call the content clearly harmless; else None.

        ``quick``: a lower bar than the model's own. What it read is not read again when the debate is held after all.
        """
        if len(prepared.content.text) > _CHARACTERS:
            return None
        with self._turn(_key(prepared)):
            end, views = until(_FIRST * left(MOST_SECONDS)), content_views(_bearable(prepared))
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

    def _glance(self, whole: JuryView, until: float, quick: float | None) -> float:
        """Log-odds of one model, or 0 when they are not low enough, or not all of it could be read."""
        settings, (view, text, picture) = self.settings[whole.head], self._tokens(whole)
        look = self._look(_SEATS[0], view, text.ids, picture.ids, until)
        odds = settings.odds(_SEATS[0], look.logit)
        bar = settings.quick if quick is None else min(quick, settings.quick)
        return odds if odds < bar and not look.cut else 0.0

    def _look(
        self, role: Role, view: JuryView, text: Sequence[int], picture: Sequence[int], until: float
    ) -> _ViewScore:
        key = digest(role.value, view.head, view.kind.value, view.text, view.picture, view.part)
        known = self._looks.get(key)
        if known is None:
            known = self._seats[role].look(view.kind, text, picture, HEADS.index(view.head), until)
            self._looks.put(key, known)
        return known

    def _tokens(self, whole: JuryView) -> tuple[JuryView, Pieces, Pieces]:
        view = replace(whole, text=_sampled(whole.text), picture=_sampled(whole.picture))
        return view, reading_of(view.text).pieces, reading_of(view.picture).pieces

    def _read(self, prepared: PreparedContent, until: float) -> JuryScores | None:
        """The worst of the views; where time runs out, the others are not read, and ``cut`` is set."""
        found, several = content_views(_bearable(prepared)), list[_Looked]()
        for place, view in enumerate(found):
            if several and is_over(until):
                break
            several.append(self._look_twice(view, worked() + max(0.0, until - worked()) / (len(found) - place)))
        several += [self._look_twice(v, until) for v in self._lines(prepared, several) if not is_over(until)]
        worst = max(several, key=lambda looked: looked.margin, default=None)
        cut = len(several) < len(found) or any(looked.cut for looked in several)
        cut |= len(prepared.content.text) > _CHARACTERS
        sampled = any(looked.sampled for looked in several)
        return None if worst is None else replace(self._scores(worst, until), cut=cut, sampled=sampled)

    def _lines(self, prepared: PreparedContent, several: Sequence[_Looked]) -> list[JuryView]:
        """The worst lines of a text that is in doubt, each by itself: other lines cannot water these down."""
        worst = max(several, key=lambda looked: looked.margin, default=None)
        allow, block = self.settings["text"].bars(DEFAULT_RATES.false_alarms, DEFAULT_RATES.misses)
        if worst is None or worst.view.head != "text" or not allow <= worst.margin < block:
            return []
        look = worst.looks[_SEATS[0]]
        return worst_lines(prepared.content.text, worst.view, worst.offsets[0], look.worst, look.scores)

    def _look_twice(self, whole: JuryView, until: float) -> _Looked:
        view, text, picture = self._tokens(whole)
        settings, now, looks = self.settings[view.head], worked(), dict[Role, _ViewScore]()
        # the other model has what the first one left of the time: all of it where the glance read this view already
        for role, end in zip(_SEATS, (now + _FIRST * (until - now), until), strict=True):
            looks[role] = self._look(role, view, text.ids, picture.ids, end)
        odds = {role: settings.odds(role, look.logit) for role, look in looks.items()}
        covered = all(look.tokens >= len(text.ids) for look in looks.values())
        sampled = not covered or max(len(whole.text), len(whole.picture)) > _CHARACTERS
        return _Looked(view, (text.offsets, picture.offsets), looks, odds, sampled)

    def _scores(self, looked: _Looked, until: float) -> JuryScores:
        view, looks, odds, settings = looked.view, looked.looks, looked.odds, self.settings[looked.view.head]
        # Strict speaks for the more worried of the two models and Loose for the milder one, whichever that is here.
        speaks = sorted(_SEATS, key=lambda role: -odds[role])
        named = {
            part: _head(self._seats[role], looks[role], part)
            for part, role in (("hazard", _SEATS[0]), ("context", _SEATS[1]))
        }
        hazards, contexts = (
            _named(self._names[0], _softmax(named["hazard"])),
            _named(self._names[1], sigmoid(named["context"])),
        )
        # Content for a person is explained by reading its parts; of other content shares of scores say enough.
        allowed = settings.bars(DEFAULT_RATES.false_alarms, DEFAULT_RATES.misses)[0]
        end = until if looked.margin >= allowed else -math.inf
        seats = {
            role: DebaterScore(
                looks[model].logit,
                odds[model],
                _spans(looked, model, self._seats[model], partial(settings.odds, model), end),
                hazards,
                contexts,
            )
            for role, model in zip(_SEATS, speaks, strict=True)
        }
        tokens = max(look.tokens for look in looks.values())
        return JuryScores(view.head, seats, tokens, looked.sampled, looked.cut, _words(view))


@dataclass(frozen=True, slots=True)
class _ViewScore:
    """One seat's look at one view."""

    logit: float
    worst: TokenWindow
    scores: NDArray[np.float32]
    """Scores of the worst window's tokens."""
    pooled: NDArray[np.float32]
    """The worst window's mean state."""
    tokens: int
    cut: bool = False
    """Whether there was no time for all of its windows."""
    bias: float = 0.0
    """The number that the head adds to the mean of the scores."""


@dataclass(frozen=True, slots=True)
class _Looked:
    """Both seats' looks at one view."""

    view: JuryView
    offsets: tuple[Sequence[tuple[int, int]], Sequence[tuple[int, int]]]
    """The places of the tokens of its text and of its picture."""
    looks: Mapping[Role, _ViewScore]
    odds: Mapping[Role, float]
    sampled: bool

    @property
    def cut(self) -> bool:
        """Whether there was no time for all windows."""
        return any(look.cut for look in self.looks.values())

    @property
    def margin(self) -> float:
        """The mean log-odds of risk, before any debate."""
        return float(np.mean(list(self.odds.values())))


@dataclass(frozen=True, slots=True)
class _DebaterModel:
    """A debater's model."""

    encoder: Encoder
    heads: Mapping[str, NDArray[np.float32]]
    window: int
    """Tokens it reads at once."""

    def look(
        self, kind: InputKind, text: Sequence[int], picture: Sequence[int], head: int, until: float = math.inf
    ) -> _ViewScore:
        """Read the windows there is time for, at least one, and keep what the worst ones say.

        From one to the next half of the text is skipped, and half of the rest: what was read is spread over all of it.
        """
        every = windows(kind, text, picture, MOST_WINDOWS * WINDOW // self.window, self.window)
        read: dict[int, NDArray[np.float32]] = {}
        known: dict[tuple[int, ...], NDArray[np.float32]] = {}
        last = 0.0
        for place in _spread(len(every)):
            ids = every[place].ids
            if ids not in known:  # equal windows are read once
                began = worked()
                if read and is_over(until, last):
                    break
                known[ids] = self.encoder.token_states([ids])[0]
                last = worked() - began
            read[place] = known[ids]
        parts, states = [every[place] for place in sorted(read)], [read[place] for place in sorted(read)]
        scores = [s @ self.heads["risk.weight"][head] for s in states]
        logits = np.array([t.mean() for t in scores]) + self.heads["risk.bias"][head]
        order = np.argsort(-logits)[: _AVERAGED if len(logits) <= _AVERAGED else _WORST]
        worst = int(order[0])
        tokens = sum(len(part.ids) for part in parts)
        mean, cut = states[worst].mean(axis=0), len(read) < len(every)
        bias = float(self.heads["risk.bias"][head])
        return _ViewScore(float(logits[order].mean()), parts[worst], scores[worst], mean, tokens, cut, bias)

    def logit(self, ids: Sequence[int], head: int) -> float:
        """Of one window."""
        states = self.encoder.token_states([ids])[0]
        return float((states @ self.heads["risk.weight"][head]).mean() + self.heads["risk.bias"][head])


@dataclass(frozen=True, slots=True)
class _Stored:
    """The file of a debater's model."""

    file: Path
    window: int

    def load(self) -> _DebaterModel:
        adapter, heads = split_heads(read_arrays(self.file, _MODEL))
        return _DebaterModel(Encoder(adapter, int8=True), heads, self.window)


class _Seats:
    """The debaters' models, each loaded when it is first asked: most texts need one. No item's time is spent on it."""

    def __init__(self, stored: Mapping[Role, _Stored]) -> None:
        self._stored, self._loaded = stored, dict[Role, _DebaterModel]()
        self._lock = threading.Lock()

    def __getitem__(self, role: Role) -> _DebaterModel:
        with self._lock:
            if role not in self._loaded:
                with apart():
                    self._loaded[role] = self._stored[role].load()
            return self._loaded[role]


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
    return digest(prepared.content.text, prepared.description, prepared.read_text)


def _size(scores: JuryScores | None) -> int:
    """About how many bytes it takes."""
    several = scores.debaters.values() if scores is not None else ()
    words = 4 * len(scores.words) if scores is not None else 0
    return 500 + words + sum(2_000 + 4 * len(span.quote) for debater in several for span in debater.spans)


def _head(seat: _DebaterModel, look: _ViewScore, part: str) -> NDArray[np.float32]:
    return np.asarray(seat.heads[f"{part}.weight"] @ look.pooled + seat.heads[f"{part}.bias"], np.float32)


def _spans(
    looked: _Looked, role: Role, model: _DebaterModel, odds: Callable[[float], float], until: float
) -> tuple[ClauseSpan, ...]:
    """The phrases of the worst window that move its logit most, each side's last.

    What a phrase is worth is read: the window without it, and the phrase by itself. Shares of the tokens' scores choose
    which phrases are read so, and stand for them where there is no time.
    """
    window, head = looked.looks[role].worst, HEADS.index(looked.view.head)
    found = sorted(_shares(looked, role, odds), key=lambda share: -share[0].weight)
    if is_over(until):
        return tuple(span for span, _, _ in found)
    several = found if len(found) <= 2 * _READ_APART else [*found[:_READ_APART], *found[-_READ_APART:]]
    whole, made = model.logit(window.ids, head), []
    for span, begin, end in several:
        if not is_over(until):
            before = (CLS, *PICTURE_IDS) if span.part == "description" else (CLS,)
            alone = model.logit((*before, *window.ids[begin:end], SEP), head)
            left = model.logit((*window.ids[:begin], *window.ids[end:]), head) if len(found) > 1 else whole
            span = replace(span, weight=whole - left, own=odds(alone))
        made.append(span)
    return tuple(sorted(made, key=lambda span: -span.weight))


def _shares(looked: _Looked, role: Role, odds: Callable[[float], float]) -> Iterator[tuple[ClauseSpan, int, int]]:
    """Each phrase with its share in the worst window's logit, relative to an average phrase of the same length; and its
    place among the window's tokens."""
    view, look = looked.view, looked.looks[role]
    scores, window, average = look.scores, look.worst, float(look.scores.mean())
    blocks = (
        (view.text, view.part, window.text, window.text_at, looked.offsets[0]),
        (view.picture, "description", window.picture, window.picture_at, looked.offsets[1]),
    )
    for words, part, (first, last), at, places in blocks:
        if last <= first:
            continue
        begin, stop = places[first][0], places[last - 1][1]
        starts = np.array([place[0] for place in places[first:last]])
        for left_end, right_end in phrases(words, begin, stop):
            left, right = (int(place) for place in np.searchsorted(starts, (left_end, right_end)))
            if left < right:
                here = scores[at + left : at + right]
                share, own = float((here - average).sum() / len(scores)), odds(float(here.mean()) + look.bias)
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
    e = np.exp(x - x.max())
    return np.asarray(e / e.sum(), np.float32)


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
    """The models that come with the package, loaded once."""
    folder = SHIPPED / "weights" / "jury"
    for name in _BESIDE:
        read_checked(folder.parent / name, _MODEL)
    if not (folder / "jury.json").is_file():
        raise ModelUnavailable(
            "this installation has no jury weights; make them with lab/src/lazaretto_lab/training/jury/train.py"
        )
    return JuryModels(folder)
