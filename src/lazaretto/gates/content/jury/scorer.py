"""The trained models behind the jury's debaters: one pass over the content gives both debaters their logits and their
quotes.

A debater's logit is a mean of token scores, so every clause's share in it is exact: the quotes are not a guess made
afterwards.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lazaretto.errors import MissingExtra, ModelUnavailable
from lazaretto.gates.content.jury.lexicon import lexical_logits
from lazaretto.gates.content.jury.views import View, content_views
from lazaretto.gates.content.jury.windows import HEADS, WINDOW, Window, windows
from lazaretto.gates.content.records import InputKind, PreparedContent, Role
from lazaretto.models.minilm import Encoder, minilm_tokenizer, split_heads

MOST_WINDOWS = 32
"""Windows read of one view: a longer text is sampled evenly over its whole length."""
_AVERAGED, _WORST = 4, 2
"""The models were fitted on the mean of at most four windows; of more, the worst two count, lest length hide harm."""
_CHARACTERS = 400_000
_KEPT = 512
_CLAUSE = re.compile(r"[^.!?;\n]+[.!?;]*\s*")
_SEATS = (Role.STRICT, Role.LOOSE)


@dataclass(frozen=True, slots=True)
class Span:
    """A clause and its share in a debater's logit."""

    quote: str
    """At most 400 characters of it."""
    part: str
    """text | description | read_text."""
    weight: float


@dataclass(frozen=True, slots=True)
class DebaterScore:
    """What one debater made of the content before anyone spoke."""

    logit: float
    odds: float
    """The logit calibrated, the bag of words weighed in: its log-odds of risk."""
    spans: tuple[Span, ...]
    """Most against the content first."""
    hazards: Mapping[str, float]
    contexts: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class JuryScores:
    """What both debaters made of the worst view of the content."""

    head: str
    debaters: Mapping[Role, DebaterScore]
    tokens: int
    """What a debater read; each is charged for it."""
    sampled: bool
    """Whether parts of a very long text were skipped."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The fitted numbers of one head (see ``lab/src/lazaretto_lab/training/jury/train.py``)."""

    calibration: Mapping[str, tuple[float, float, float]]
    """Per debater: offset, weight of its own logit, weight of the bag of words."""
    debate: Mapping[str, tuple[float, float, float, float]]
    """Per debater, round 2: offset, weight of Strict's log-odds, of Loose's, of the precedents' evidence."""
    threshold: float
    spread: float
    """How far the log-odds move when the models are trained again: half of the interval."""


class JuryModels:
    """Both debaters' models. Safe to share between threads; reading the same content twice costs once."""

    def __init__(self, folder: Path) -> None:
        try:
            from safetensors.numpy import load_file
        except ImportError:
            raise MissingExtra("the embedded jury", "gates") from None
        manifest = json.loads((folder / "jury.json").read_text(encoding="utf-8"))
        for name, digest in manifest["sha256"].items():
            if hashlib.sha256((folder / name).read_bytes()).hexdigest() != digest:
                raise ModelUnavailable(f"{name} is not the file that jury.json describes")
        self._seats = {role: _seat(load_file(folder / f"{role.value}.safetensors"), manifest, role) for role in _SEATS}
        self.settings = {head: _settings(fields) for head, fields in manifest["heads"].items()}
        self.version = str(manifest["version"])
        self._names = (tuple(manifest["hazards"]), tuple(manifest["contexts"]))
        lexicon = load_file(folder / "lexicon.safetensors")
        self.lexicon = {name: np.asarray(values, np.float64) for name, values in lexicon.items()}
        self._lock = threading.Lock()
        self._known: OrderedDict[tuple[str, str, str], JuryScores | None] = OrderedDict()

    def read(self, prepared: PreparedContent) -> JuryScores | None:
        """Both debaters' view of the content; None when it holds nothing to read."""
        key = (prepared.content.text, prepared.description, prepared.read_text)
        with self._lock:
            if key not in self._known:
                self._known[key] = self._read(content_views(prepared))
                while len(self._known) > _KEPT:
                    self._known.popitem(last=False)
            self._known.move_to_end(key)
            return self._known[key]

    def _read(self, found: Sequence[View]) -> JuryScores | None:
        readings = [self._read_view(view) for view in found]
        return max(readings, key=self._margin, default=None)

    def _margin(self, reading: JuryScores) -> float:
        """How far past its head's threshold a reading is, before any debate."""
        limits = self.settings[reading.head]
        return float(np.mean([reading.debaters[role].odds for role in _SEATS])) - log_odds(limits.threshold)

    def _read_view(self, whole: View) -> JuryScores:
        view = replace(whole, text=_sampled(whole.text), picture=_sampled(whole.picture))
        tokenizer = minilm_tokenizer()
        text, picture = (tokenizer.encode(part, add_special_tokens=False) for part in (view.text, view.picture))
        column, settings = HEADS.index(view.head), self.settings[view.head]
        looks = {role: seat.look(view.kind, text.ids, picture.ids, column) for role, seat in self._seats.items()}
        lexical = 0.0
        if any(words for _, _, words in settings.calibration.values()):
            lexical = self._lexical(view, looks[_SEATS[0]], text.offsets)
        seats: dict[Role, DebaterScore] = {}
        for role, look in looks.items():
            offset, own, words = settings.calibration[role.value]
            seat = self._seats[role]
            seats[role] = DebaterScore(
                look.logit,
                offset + own * look.logit + words * lexical,
                _spans(view, look.worst, look.scores, (text.offsets, picture.offsets)),
                _named(self._names[0], _softmax(seat.heads["hazard.weight"] @ look.pooled + seat.heads["hazard.bias"])),
                _named(
                    self._names[1], sigmoid(seat.heads["context.weight"] @ look.pooled + seat.heads["context.bias"])
                ),
            )
        covered = all(look.tokens >= len(text.ids) for look in looks.values())
        sampled = not covered or max(len(whole.text), len(whole.picture)) > _CHARACTERS
        return JuryScores(view.head, seats, max(look.tokens for look in looks.values()), sampled)

    def _lexical(self, view: View, look: _ViewScore, offsets: Sequence[tuple[int, int]]) -> float:
        """The bag of words' logit: of the text's beginning and, where the text is long, of its worst window too."""
        texts = [view.text]
        if look.windows > _AVERAGED:
            first, last = look.worst.text
            texts.append(view.text[offsets[first][0] : offsets[last - 1][1]])
        return float(lexical_logits(texts, self.lexicon).max())


@dataclass(frozen=True, slots=True)
class _ViewScore:
    """One seat's look at one view."""

    logit: float
    worst: Window
    scores: NDArray[np.float32]
    """Of the worst window's tokens."""
    pooled: NDArray[np.float32]
    """The worst window's mean state."""
    windows: int
    tokens: int


@dataclass(frozen=True, slots=True)
class _DebaterModel:
    """A debater's model."""

    encoder: Encoder
    heads: Mapping[str, NDArray[np.float32]]
    window: int
    """How many tokens it reads at once."""

    def look(self, kind: InputKind, text: Sequence[int], picture: Sequence[int], head: int) -> _ViewScore:
        """Read all windows, and keep what the worst ones say."""
        parts = windows(kind, text, picture, MOST_WINDOWS * WINDOW // self.window, self.window)
        states = self.encoder.token_states([part.ids for part in parts])
        scores = [s @ self.heads["risk.weight"][head] for s in states]
        logits = np.array([t.mean() for t in scores]) + self.heads["risk.bias"][head]
        order = np.argsort(-logits)[: _AVERAGED if len(logits) <= _AVERAGED else _WORST]
        worst = int(order[0])
        tokens = sum(len(part.ids) for part in parts)
        return _ViewScore(
            float(logits[order].mean()), parts[worst], scores[worst], states[worst].mean(axis=0), len(parts), tokens
        )


def _seat(stored: Mapping[str, NDArray[Any]], manifest: Mapping[str, Any], role: Role) -> _DebaterModel:
    adapter, heads = split_heads(stored)
    return _DebaterModel(Encoder(adapter, int8=True), heads, int(manifest["windows"][role.value]))


def _sampled(text: str) -> str:
    """A text of bearable length: a huge one keeps its head, its tail and even samples between."""
    if len(text) <= _CHARACTERS:
        return text
    pieces, size = 64, _CHARACTERS // 64
    starts = [i * (len(text) - size) // (pieces - 1) for i in range(pieces)]
    return " ".join(text[s : s + size] for s in starts)


def _spans(
    view: View,
    window: Window,
    scores: NDArray[np.float32],
    offsets: tuple[Sequence[tuple[int, int]], Sequence[tuple[int, int]]],
) -> tuple[Span, ...]:
    """Each clause's share in the window's logit, relative to an average clause of the same length."""
    average, found = float(scores.mean()), []
    blocks = (
        (view.text, view.part, window.text, window.text_at, offsets[0]),
        (view.picture, "description", window.picture, window.picture_at, offsets[1]),
    )
    for words, part, (first, last), at, places in blocks:
        if last <= first:
            continue
        begin, stop = places[first][0], places[last - 1][1]
        starts = np.array([place[0] for place in places[first:last]])
        for clause in _CLAUSE.finditer(words, begin, stop):
            left, right = np.searchsorted(starts, clause.span())
            if left < right:
                share = float((scores[at + left : at + right] - average).sum() / len(scores))
                found.append(Span(clause.group().strip()[:400], part, share))
    return tuple(sorted(found, key=lambda s: -s.weight))


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


def _settings(fields: Mapping[str, Any]) -> Settings:
    calibration = {k: (float(v[0]), float(v[1]), float(v[2])) for k, v in fields["calibration"].items()}
    debate = {k: (float(v[0]), float(v[1]), float(v[2]), float(v[3])) for k, v in fields["debate"].items()}
    return Settings(calibration, debate, float(fields["threshold"]), float(fields["spread"]))


@cache
def shipped_models() -> JuryModels:
    """The models that come with the package, loaded once."""
    folder = Path(str(resources.files("lazaretto.models"))) / "weights" / "jury"
    if not (folder / "jury.json").is_file():
        raise ModelUnavailable(
            "this installation has no jury weights; make them with lab/src/lazaretto_lab/training/jury/train.py"
        )
    return JuryModels(folder)
