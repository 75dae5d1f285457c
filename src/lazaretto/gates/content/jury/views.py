"""The ways in which content can be read: each is scored by its own head, and the worst one counts.

These are the description of a picture, the words on it, and the text beside it. Text that addresses the judges is taken
out first and read by itself, so that nobody can hide a request by addressing it to them.
"""

from __future__ import annotations

from dataclasses import dataclass

from lazaretto.gates.content.injections import find_injections, injected_words, without_injections
from lazaretto.gates.content.jury.windows import clean
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
