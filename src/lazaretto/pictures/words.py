"""The words of a picture: text in its file, codes, and lettering, also upside down.

Each is one more reading that the gates for text judge. Codes and lettering need the ``vision`` extra.
"""

from __future__ import annotations

import hashlib
import threading
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lazaretto.errors import MissingExtra
from lazaretto.kept_texts import KeptTexts
from lazaretto.picture_worker.file_texts import FEWEST_WORDS as FEWEST_WORDS
from lazaretto.picture_worker.file_texts import is_message, together
from lazaretto.picture_worker.opener import Opened
from lazaretto.pictures import frames_for_judges

LETTERING, TURNED, CODE = "lettering", "lettering upside down", "QR code"
SEVERAL = "several fields"
IN_PIXELS = frozenset({LETTERING, TURNED, CODE})
"""Readings of what the picture shows; the others are texts that its file carries."""
_CONFIDENCE = 0.5
_UPRIGHT = 0.9
"""Letters that stand upright are read with more confidence than this; below it they are turned and read again."""
_KEPT_BYTES = 4 << 20
"""Bytes of lettering that was read last."""
_LOCK = threading.Lock()
"""The OCR engine keeps state between its stages; one picture at a time goes through it."""


@dataclass(frozen=True, slots=True)
class PictureText:
    """Words of a picture, and where they stand."""

    view: str
    text: str


_seen: KeptTexts[tuple[PictureText, ...]] = KeptTexts(
    _KEPT_BYTES, lambda several: sum(200 + 4 * len(o.text) for o in several)
)


def file_readings(found: Opened) -> tuple[PictureText, ...]:
    """Sentences in EXIF, PNG text, XMP and comments, and what several fields say together."""
    several = [PictureText(where, words) for where, words in found.texts if is_message(words)]
    whole = together(found.texts)
    if is_message(whole) and [reading.text for reading in several] != [whole]:
        several.append(PictureText(SEVERAL, whole))
    return tuple(several)


def can_read_lettering() -> bool:
    """Whether what reads letters off pictures is installed."""
    return find_spec("rapidocr") is not None


def lettering(found: Opened) -> tuple[PictureText, ...]:
    """Letters and codes on the frames; a picture that goes from agent to agent is read once. Blocks, for seconds."""
    frames = frames_for_judges(found).frames
    key = hashlib.sha256(b"".join(frame.pixels for frame in found.frames)).digest()
    with _LOCK:
        known = _seen.get(key)
        if known is None:
            known = tuple(dict.fromkeys(text for frame in frames for text in (*_codes(frame), *_letters(frame))))
            _seen.put(key, known)
        return known


def _letters(frame: Any) -> list[PictureText]:
    upright = read_lettering(frame)
    if not upright or min(score for _, score in upright) >= _UPRIGHT:
        return _as_texts(LETTERING, upright)
    turned = read_lettering(frame.rotate(180))
    # some lines may stand this way and some the other: both are judged, without what neither could read
    return [*_as_texts(LETTERING, upright), *(_as_texts(TURNED, turned) if _mean(turned) > _mean(upright) else [])]


def _mean(lines: list[tuple[str, float]]) -> float:
    return sum(score for _, score in lines) / len(lines) if lines else 0.0


def _as_texts(view: str, lines: list[tuple[str, float]]) -> list[PictureText]:
    words = " ".join(line for line, score in lines if score >= _CONFIDENCE)
    return [PictureText(view, words)] if words else []


def read_lettering(frame: Any) -> list[tuple[str, float]]:
    """The lines on a picture in reading order, each with the engine's confidence."""
    pixels: NDArray[np.uint8] = np.asarray(frame)[:, :, ::-1]
    found = _ocr_engine()(np.ascontiguousarray(pixels), use_cls=False)
    return list(zip(found.txts, found.scores, strict=True)) if found.txts else []


def _codes(frame: Any) -> list[PictureText]:
    try:
        import zxingcpp
    except ImportError:
        raise MissingExtra("reading codes off pictures", "vision") from None
    return [PictureText(CODE, code.text) for code in zxingcpp.read_barcodes(np.asarray(frame)) if code.text.strip()]


@cache
def _ocr_engine() -> Any:
    try:
        from rapidocr import RapidOCR
    except ImportError:
        raise MissingExtra("reading words off pictures", "vision") from None
    # one thread: several would wait for one another on a busy machine
    threads = {f"EngineConfig.onnxruntime.{kind}_op_num_threads": 1 for kind in ("intra", "inter")}
    return RapidOCR(params={"Global.log_level": "error", **threads})
