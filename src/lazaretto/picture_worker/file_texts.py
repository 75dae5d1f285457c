"""The texts of a picture's file beside its pixels, wherever they stand. It imports Pillow alone.

Pillow reads the usual fields. It keeps one text of several under one name, and stops at the first frame; so every
segment of the file that is no pixels is looked through for sentences, too.
"""

from __future__ import annotations

import html
import re
import zlib
from collections.abc import Iterable, Iterator
from typing import Any

from PIL import ExifTags, Image

MAX_TEXT = 100_000
"""Characters of text that are read out of one picture."""
MAX_TEXTS = 64
FEWEST_WORDS = 3
"""Fewer words than this in a file are a camera's name or a licence's, not a message."""
_FEWEST_LETTERS = 6
"""Letters of scripts that are written without blanks, from which on they are a message."""
_WORD = re.compile(r"[^\W\d_]{2,}")
_USER_COMMENT, _XP = 0x9286, range(0x9C9B, 0x9CA0)

Text = tuple[str, str]
"""Where it stands, and its words."""
Segment = tuple[str, bytes]
"""A name for people, and the bytes."""


def is_message(words: str) -> bool:
    """Whether words are enough to be a message, with any signs between them."""
    letters = sum(not sign.isascii() and sign.isalpha() for sign in words)
    return len(_WORD.findall(words)) >= FEWEST_WORDS or letters >= _FEWEST_LETTERS


def file_texts(image: Image.Image, data: bytes) -> tuple[tuple[Text, ...], bool]:
    """The texts of the file beside its pixels, each once, and whether these are all."""
    found: list[Text] = []
    left = MAX_TEXT
    for where, words in _all_texts(image, data):
        text = " ".join(words.replace("\0", " ").split())
        if not any(c.isalpha() for c in text) or any(text in other for _, other in found):
            continue
        if len(found) == MAX_TEXTS or len(text) > left:
            return tuple(found), False
        left -= len(text)
        found.append((where[:60], text))
    return tuple(found), True


def _all_texts(image: Image.Image, data: bytes) -> Iterator[Text]:
    known = list(_fields(image))
    yield from known
    for name, segment in segments(data, image.format or ""):
        for words in map(_without_tags, _sentences(segment)):
            if is_message(_less(words, known)):
                yield name, words


def _less(words: str, known: Iterable[Text]) -> str:
    """The words of a segment beside the sentences in fields that were read out of it."""
    for _, sentence in known:
        words = words.replace(sentence, " ") if is_message(sentence) else words
    return words


# The fields that Pillow knows.


def _fields(image: Image.Image) -> Iterator[Text]:
    for key, value in dict(getattr(image, "text", {})).items():
        yield f"PNG text {key}", _without_tags(str(value))
    for key in ("comment", "Comment"):
        if key in image.info:
            yield "comment", _decoded(image.info[key])
    if isinstance(image.info.get("xmp"), (bytes, str)):
        yield "XMP", _without_tags(_decoded(image.info["xmp"]))
    try:
        exif = image.getexif()
        tables = [dict(exif), *(dict(exif.get_ifd(ifd)) for ifd in (ExifTags.IFD.Exif, ExifTags.IFD.GPSInfo))]
    except Exception:  # damaged EXIF is no text
        return
    for table in tables:
        for tag, value in table.items():
            if isinstance(value, (str, bytes)):
                words = _exif_words(tag, value, exif.endian or "<")
                yield f"EXIF {ExifTags.TAGS.get(tag, f'{tag:#06x}')}", words


def _exif_words(tag: int, value: str | bytes, order: str) -> str:
    if isinstance(value, str):
        return value
    if tag in _XP:
        return value.decode("utf-16-le", "replace")
    if tag == _USER_COMMENT:
        body = value[8:]
        return _of_two_bytes(body, order) if value[:8] == b"UNICODE\0" else _decoded(body)
    words = _decoded(value)
    return words if words.isprintable() else ""


def _of_two_bytes(body: bytes, order: str) -> str:
    """Letters of two bytes in the order that their zeros show, else in that of the file around them."""
    if body[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return body.decode("utf-16", "replace")
    first, second = body[::2].count(0), body[1::2].count(0)
    big = first > second if first != second else order == ">"
    return body.decode("utf-16-be" if big else "utf-16-le", "replace")


def _decoded(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


_MARKUP = re.compile(r"<[^<>]{0,2000}>")
_TAG = re.compile(r"<[/?]?[\w:.-]+(?:\s+[\w:.-]+\s*=\s*(?:\"[^\"<>]*\"|'[^'<>]*'))*\s*[/?]?>")
_VALUE = re.compile(r"\s(?!xmlns)[\w:.-]+\s*=\s*(?:\"([^\"]*)\"|'([^']*)')")
_DATA = re.compile(r"<!\[CDATA\[|\]\]>|<!--|-->")
"""Marks of data that is no markup, and of remarks."""


def _without_tags(words: str) -> str:
    """The words of markup, those in its attributes too; what only looks like markup stays."""
    if "<" not in words:
        return words
    return html.unescape(_MARKUP.sub(_words_of_tag, _DATA.sub(" ", words)))


def _words_of_tag(match: re.Match[str]) -> str:
    if not _TAG.fullmatch(match[0]):
        return match[0]
    return " ".join(("", *filter(is_message, map("".join, _VALUE.findall(match[0]))), ""))


# Sentences in a segment of any kind.

_SHORTEST = 16
_SIGN = rb"[\x20-\x7e\t\r\n]|[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}"
_RUN = re.compile(rb"(?:%b){%d,}" % (_SIGN, _SHORTEST))
_MOSTLY = 0.7
"""Share of letters and blanks in a run that is no noise."""


def _sentences(segment: bytes) -> Iterator[str]:
    for run in (segment,) if _is_text(segment) else (match[0] for match in _RUN.finditer(segment)):
        words = run.decode("utf-8", "ignore")
        letters = sum(sign.isalpha() or sign.isspace() for sign in words)
        if is_message(words) and ("<" in words or letters >= _MOSTLY * len(words)):
            yield words


def _is_text(segment: bytes) -> bool:
    try:
        return all(sign.isprintable() or sign.isspace() for sign in segment.decode("utf-8"))
    except UnicodeDecodeError:
        return False


# The segments of a file that are no pixels and no numbers.


def segments(data: bytes, kind: str) -> Iterator[Segment]:
    """The segments that may carry text, by the file's own order; where it is damaged, they end."""
    walks = {"PNG": _of_png, "JPEG": _of_jpeg, "MPO": _of_jpeg, "GIF": _of_gif, "WEBP": _of_webp}
    walk = walks.get(kind)
    return walk(data) if walk else iter(())


_PNG_NUMBERS = frozenset(
    b"IHDR PLTE IDAT IEND tRNS cHRM gAMA iCCP sBIT sRGB cICP bKGD hIST pHYs sPLT tIME acTL fcTL fdAT".split()
)


def _of_png(data: bytes) -> Iterator[Segment]:
    place = 8
    while place + 12 <= len(data):
        length, kind = int.from_bytes(data[place : place + 4], "big"), data[place + 4 : place + 8]
        body = data[place + 8 : place + 8 + length]
        place += 12 + length
        if kind in (b"tEXt", b"zTXt", b"iTXt"):
            key, _, rest = body.partition(b"\0")
            yield "name of a PNG text", key.decode("latin-1").encode()
            yield f"PNG text {key.decode('latin-1')}", _png_words(kind, rest)
        elif kind not in _PNG_NUMBERS:
            yield f"PNG chunk {kind.decode('latin-1')}", body


def _png_words(kind: bytes, rest: bytes) -> bytes:
    """The words behind the name of a PNG text, in UTF-8."""
    if kind == b"tEXt":
        return rest.decode("latin-1").encode()
    if kind == b"zTXt":
        return _inflated(rest[1:]).decode("latin-1").encode()
    packed, _, (*beside, words) = rest[:1] == b"\1", rest[1:2], _fields_of(rest[2:], 3)
    return b"\n".join((*beside[1:], _inflated(words) if packed else words))


def _fields_of(rest: bytes, number: int) -> list[bytes]:
    several = rest.split(b"\0", number - 1)
    return [b""] * (number - len(several)) + several


def _inflated(data: bytes) -> bytes:
    """One more than is read, so that the rest is missed."""
    try:
        return zlib.decompressobj().decompress(data, MAX_TEXT + 1)
    except zlib.error:
        return b""


_ICC, _ICC_HEAD = 0xE2, b"ICC_PROFILE\0"
_STANDALONE = frozenset((0x01, *range(0xD0, 0xD9)))


def _of_jpeg(data: bytes) -> Iterator[Segment]:
    place = 2
    while place >= 0 and place + 4 <= len(data):
        if data[place] != 0xFF or data[place + 1] in (0x00, 0xFF):  # pixels, or filler
            place = data.find(b"\xff", place + 1)
            continue
        mark = data[place + 1]
        if mark in _STANDALONE or mark == 0xD9:
            place += 2
            continue
        length = max(2, int.from_bytes(data[place + 2 : place + 4], "big"))
        body = data[place + 4 : place + 2 + length]
        if mark == 0xFE:
            yield "comment", body
        elif 0xE0 <= mark <= 0xEF and not (mark == _ICC and body.startswith(_ICC_HEAD)):
            yield f"JPEG segment {mark:#x}", body
        place += 2 + length


def _of_gif(data: bytes) -> Iterator[Segment]:
    place = 13 + colour_table(data[10]) if len(data) > 13 else len(data)
    while place + 1 < len(data):
        block, label = data[place], data[place + 1]
        if block == 0x2C and place + 10 <= len(data):
            place += 11 + colour_table(data[place + 9])
        elif block == 0x21:
            place += 2
        else:
            return
        parts, began = list[bytes](), place
        while place < len(data) and data[place]:
            parts.append(data[place + 1 : place + 1 + data[place]])
            place += 1 + data[place]
        place += 1
        if block == 0x21 and label == 0xFF and b"XMP" in b"".join(parts[:1]):
            yield "XMP", data[began:place]  # a packet as it is, not in parts
        elif block == 0x21 and label != 0xF9:
            yield "comment" if label == 0xFE else "GIF text", b"".join(parts)


def colour_table(flags: int) -> int:
    """The bytes of a GIF's table of colours."""
    return 3 << ((flags & 7) + 1) if flags & 0x80 else 0


_WEBP_NUMBERS = frozenset((b"VP8 ", b"VP8L", b"VP8X", b"ALPH", b"ANIM", b"ANMF", b"ICCP"))


def _of_webp(data: bytes) -> Iterator[Segment]:
    place = 12
    while place + 8 <= len(data):
        kind, length = data[place : place + 4], int.from_bytes(data[place + 4 : place + 8], "little")
        if kind not in _WEBP_NUMBERS:
            yield f"WebP chunk {kind.decode('latin-1').strip()}", data[place + 8 : place + 8 + length]
        place += 8 + length + length % 2


def together(texts: Iterable[Text]) -> str:
    """The texts of several fields as one: a sentence may be cut over them. Empty for one field."""
    several = [words for _, words in texts]
    return "\n".join(several) if len(several) > 1 else ""
