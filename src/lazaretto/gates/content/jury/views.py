"""The input of the jury's models: the views of a content, as cleaned words in windows of at most 256 tokens.

The views are the description of a picture, the words on it, and the text beside it; each is scored by its own head, and
the worst one counts. Text that addresses the judges is taken out first and read by itself, so that nobody can hide a
request by addressing it to them.

Training and debates clean alike. Formatting is removed: in the training data it follows the describing model, not the
risk. Emoji become the words of their Unicode names, because to the encoder they are all one unknown token.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from lazaretto.gates.content.injections import find_injections, injected_words, without_injections
from lazaretto.gates.content.records import PLACEHOLDER, InputKind, PreparedContent

_FEWEST_LETTERS = 8
"""Fewer letters than this on a picture are a label or a logo, not a message."""
_MOSTLY_INJECTED = 0.4
_FEW_LINES, _SHORT_TEXT = 4, 1_200
"""In a longer text one line more weighs little."""


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
    """Text and description as they are judged; also strictly without injections, and without sentences in languages
    that the jury does not read, so that these cannot dilute a short request.
    """
    text, description = prepared.content.text, "" if prepared.description == PLACEHOLDER else prepared.description
    whole = (mostly_without_injections(text), mostly_without_injections(description))
    stripped = (strictly_without_injections(text) or whole[0], strictly_without_injections(description) or whole[1])
    apart = [prepared.known_text] if sum(map(str.isalpha, prepared.known_text)) >= _FEWEST_LETTERS else []
    shorter = [(mostly_without_injections(rest), whole[1]) for rest in (*apart, *_one_line_less(text))]
    return list(dict.fromkeys((whole, stripped, *shorter)))


def _one_line_less(text: str) -> list[str]:
    """A short text without each of its lines in turn: one more line beside a request must not water it down."""
    lines = [line for line in text.splitlines() if line.strip()]
    if not 2 <= len(lines) <= _FEW_LINES or len(text) > _SHORT_TEXT:
        return []
    shorter = ["\n".join(lines[:i] + lines[i + 1 :]) for i in range(len(lines))]
    return [rest for rest in shorter if sum(c.isalpha() for c in rest) >= _FEWEST_LETTERS]


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
