"""What a text says once its disguises are taken off.

An order hidden in base64, in look-alike letters, between zero-width characters or in s p a c e d letters reaches the
agent all the same. Each disguise gives one more view of the text; a view equal to the text itself is left out, so plain
text costs nothing extra.
"""

from __future__ import annotations

import base64
import binascii
import re
import unicodedata
import urllib.parse
from dataclasses import dataclass

from lazaretto.gates.normalization import CONFUSABLE, INVISIBLE


@dataclass(frozen=True, slots=True)
class View:
    """One reading of a text."""

    name: str
    """plain | unmasked | joined | base64 | hex | percent."""
    text: str
    offset: int = 0
    """Where in the original the decoded stretch begins; 0 for views of the whole."""


MAX_DECODED = 8
"""Encoded stretches looked into per text: enough for any note, a bound for hostile ones."""
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{24,}={0,2}")
_HEX = re.compile(r"(?:[0-9a-fA-F]{2}[ ,:]?){16,}")
_PERCENT = re.compile(r"(?<![\w.~%-])[\w.~-]{0,60}(?:%[0-9a-fA-F]{2}[\w.~-]*){3,}")
_SPACED = re.compile(r"\b(?:\w[ .\-_*]){5,}\w\b")
_MIXED_WORD = re.compile(r"\w+")
_ASCII_LETTER = re.compile(r"[A-Za-z]")


def views(text: str) -> tuple[View, ...]:
    """The text itself first, then every other reading that differs from it."""
    found = [View("plain", text)]
    unmasked = _unmask(text)
    if unmasked != text:
        found.append(View("unmasked", unmasked))
    joined = _SPACED.sub(lambda m: re.sub(r"[ .\-_*]", "", m[0]), unmasked)
    if joined != unmasked:
        found.append(View("joined", joined))
    found += _decoded(unmasked)
    return tuple(found)


def _unmask(text: str) -> str:
    """Invisible characters gone, compatibility forms and look-alikes in mixed words as plain letters."""
    if text.isascii():
        return text
    seen = unicodedata.normalize("NFKC", INVISIBLE.sub("", text))
    return _MIXED_WORD.sub(lambda m: m[0].translate(CONFUSABLE) if _disguised(m[0]) else m[0], seen)


def _disguised(word: str) -> bool:
    """Latin letters and their foreign look-alikes in one word: no honest alphabet does that."""
    return _ASCII_LETTER.search(word) is not None and any(ord(c) in CONFUSABLE for c in word)


def _decoded(text: str) -> list[View]:
    found: list[View] = []
    for name, pattern, decode in (
        ("base64", _BASE64, _from_base64),
        ("hex", _HEX, _from_hex),
        ("percent", _PERCENT, urllib.parse.unquote),
    ):
        for match in pattern.finditer(text):
            if len(found) >= MAX_DECODED:
                return found
            plain = decode(match[0])
            if plain and plain != match[0] and _readable(plain):
                found.append(View(name, plain, match.start()))
    return found


def _from_base64(stretch: str) -> str:
    body = stretch.rstrip("=").replace("-", "+").replace("_", "/")
    try:
        return base64.b64decode(body + "=" * (-len(body) % 4), validate=True).decode("utf-8")
    except (binascii.Error, UnicodeDecodeError):
        return ""


def _from_hex(stretch: str) -> str:
    try:
        return bytes.fromhex(re.sub(r"[ ,:]", "", stretch)).decode("utf-8")
    except ValueError:
        return ""


def _readable(text: str) -> bool:
    """Words, not noise: mostly letters and spaces, and printable throughout."""
    letters = sum(c.isalpha() or c.isspace() for c in text)
    return len(text) >= 8 and letters >= 0.7 * len(text) and all(c.isprintable() or c in "\n\t\r" for c in text)
