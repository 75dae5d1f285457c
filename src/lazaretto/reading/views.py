"""Views of a text: its words with disguises taken off.

Base64, look-alike letters, zero-width characters, s p a c e d letters, words written backwards: each gives one more
view of the text, unless it is equal to one that is there. Readings that fit anything (shifted letters, backwards words)
count only where they turn letters that are no English into English.
"""

from __future__ import annotations

import base64
import binascii
import html
import math
import quopri
import re
import string
import unicodedata
import urllib.parse
import zlib
from collections.abc import Callable
from dataclasses import dataclass

from lazaretto.processor_time import is_over
from lazaretto.reading.encoded import (
    IS_ENGLISH,
    MORSE,
    WORD,
    common,
    drawn_letters,
    english,
    from_morse,
    is_words,
    letters_apart,
    put_together,
    sense,
    spelled_letters,
    unknown_words,
    with_marked_letters,
    without_noise,
)
from lazaretto.reading.long_texts import shortened
from lazaretto.reading.normalization import CONFUSABLE, INVISIBLE
from lazaretto.reading.spelling import spelled_right


@dataclass(frozen=True, slots=True)
class View:
    """One reading of a text."""

    name: str
    """plain, or the disguise that was taken off."""
    text: str
    offset: int = 0
    """Where in the original the decoded stretch begins; 0 for views of the whole."""


MAX_DECODED = 4
"""Decoded stretches that are views of their own; what further ones say is one more view, so that none is left out."""
MAX_DEPTH = 3
"""How often a decoded stretch is itself decoded."""
_LONGEST_SIGN = 3
"""Letters that one sign may stand for: those in brackets are three."""
_MOST_LINES = 5_000
"""Lines whose first letters are read as words."""

_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{24,}={0,2}")
_HEX = re.compile(r"(?:(?:0x|\\x)?[0-9a-fA-F]{2}[ ,:;\r\n-]{0,2}){16,}")
_CALLS = re.compile(r"(?:\b(?:chr|char|unichr)\(\s?(?:0x[0-9a-f]{2}|\d{2,3})\s?\)[\s+.&|,]{0,4}){8,}", re.I)
_BASE85 = re.compile(r"[0-9A-Za-z!#$%&()*+;<=>?@^_`{|}~-]{30,}")
_PERCENT = re.compile(r"(?<![\w.~%-])[\w.~-]{0,60}(?:%[0-9a-fA-F]{2}[\w.~-]*){3,}")
_BINARY = re.compile(r"(?:[01]{8}[ ,]?){8,}")
_CODES = re.compile(r"(?:\b(?:1[0-2][0-9]|[3-9][0-9])\b[ ,;]+){8,}\b(?:1[0-2][0-9]|[3-9][0-9])\b")
_ESCAPES = re.compile(r"(?:\\u[0-9a-fA-F]{4}[ ]?){6,}")
_OCTAL = re.compile(r"(?:\\[0-3]?[0-7]{2}){8,}")
_BRACED = re.compile(r"(?:\\u\{[0-9a-fA-F]{1,6}\} ?){6,}")
_CSS = re.compile(r"(?:\\[0-9a-fA-F]{2,6} ){6,}")
_BASE64_LINES = re.compile(r"(?:^[ \t]*[A-Za-z0-9+/]{4,23}\r?\n){2,}[ \t]*[A-Za-z0-9+/]{2,23}={0,2}$", re.MULTILINE)
_BASE32 = re.compile(r"\b[A-Z2-7]{32,}={0,6}")
_ASCII85 = re.compile(r"<~[!-uz\s]{24,}~>")
_QUOTED = re.compile(r"(?:=(?:[0-9A-Fa-f]{2}|\r?\n)[\w ,.]{0,60}){8,}")
_PIECE = re.compile(r"^([^\n]{1,5})$", re.MULTILINE)
_QUOTED_PIECE = re.compile(r"[\[,]\s*\"([^\"\n]{1,5})\"(?=\s*[,\]])")
_NUMBERED = re.compile(r"^[ \t]*\d{1,4}[ \t]*[.,;:)|\t][ \t]*\"?(\w[^\s\"]*)\"?[ \t]*$", re.MULTILINE)
_HEX_ALONE = re.compile(r"[0-9a-fA-F]+")
_FEWEST_WIDE = 16
"""Bytes from which on a text may be in UTF-16."""
_MOST_INFLATED, _MOST_READ = 1_000_000, 100_000
"""Bytes that are looked at of what was compressed, and characters that are read of these: the most suspicious."""
_SPACED = re.compile(r"\b(?:\w[ .\-_*]){5,}\w\b")
_MIXED_WORD = re.compile(r"\w+")
_ASCII_LETTER = re.compile(r"[A-Za-z]")
_HUMPS = re.compile(r"\b(?:[A-Z]?[a-z]+)(?:[A-Z][a-z]*){3,}\b")
_GLUED = re.compile(r"\b[A-Za-z]+(?:[_.\-/+|][A-Za-z]+){4,}\b")
_LEET_RUN = re.compile(r"[A-Za-z013457@$!]{3,}")
_LEET_SIGN = re.compile(r"[013457@$!]")
_LETTERS, _LEET_DIGITS = string.ascii_letters, "013457@$!"
_LEET = str.maketrans("013457@$!", "oieastasi")
_TURNED = str.maketrans("ɐqɔpǝɟƃɓɥᴉıɾʞlɯuodbɹsʇnʌʍxʎz˙'¿¡∀ƎℲ⅁ſ˥ԀΛ⅄", "abcdefgghiijklmnopqrstuvwxyz.,?!AEFGJLPVY")
_UPSIDE_DOWN = re.compile("[ɐɔǝɟƃɥᴉɾʞɯɹʇʌʍʎ]")
_SHIFTS = [
    str.maketrans(string.ascii_lowercase, string.ascii_lowercase[by:] + string.ascii_lowercase[:by])
    for by in range(1, 26)
] + [str.maketrans(string.ascii_lowercase, string.ascii_lowercase[::-1])]
"""Alphabets shifted by some letters, and the one that runs backwards."""
_BREAK = re.compile(r"\\{1,4}[nrt](?![a-z])|\\{1,4}(?=[\"'])")
_BREAK_BEFORE_LETTER = re.compile(r"\\{1,4}[nrt](?=[a-z])")
_FEWEST_BREAKS = 3
"""Written breaks before small letters from which on they are read as such: a path or a formula has one or two."""
_SENTENCE = re.compile(r"[^\n.!?;:]+[\n.!?;:]*")


def views(text: str, until: float = math.inf) -> tuple[View, ...]:
    """The text itself first, then every other reading that differs from it; those there is no time for are left out.

    ``until`` is a moment of ``processor_time.worked``. Digits that stand for letters are read as these alone: what
    they say is judged, not that they are digits. In an object that was written out (``"…\\nReviews: …"``) a break is
    read as one: as part of the next word it would spoil both.
    """
    text = _BREAK.sub(_blank, text)
    found = [View("plain", _without_digits(text))]
    if len(_BREAK_BEFORE_LETTER.findall(text)) >= _FEWEST_BREAKS:
        text = _BREAK_BEFORE_LETTER.sub(_blank, text)
        _add(found, "written out", _without_digits(text))
    unmasked = _unmask(text)
    _add(found, "unmasked", _without_digits(unmasked))
    seen = html.unescape(html.unescape(unmasked)) if "&" in unmasked else unmasked
    bare = _without_digits(html.unescape(html.unescape(with_marked_letters(unmasked))))
    _add(found, "entities", bare)
    _add(found, "joined", _SPACED.sub(lambda m: re.sub(r"[ .\-_*]", "", m[0]), bare))
    decoded = _decoded(seen, MAX_DEPTH)
    decoded += [View("pieces", plain, at) for plain, at in put_together(seen, _from_pieces, _says)]
    decoded = [View(view.name, _unmask(view.text), view.offset) for view in decoded]
    for view in decoded[:MAX_DECODED]:
        _add(found, view.name, view.text, view.offset)
        _add(found, f"{view.name} rotated", _rotated(view.text), view.offset)
    if more := decoded[MAX_DECODED:]:
        _add(found, "several encodings", "\n".join(view.text for view in more), more[0].offset)
    for name, read in _READINGS:
        if is_over(until):
            break
        _add(found, name, read(bare))
    return tuple(view for view in found if view.text.strip()) or (View("plain", text),)


def _blank(match: re.Match[str]) -> str:
    """As many spaces, with a line break at the end where one was meant."""
    return " " * (len(match[0]) - 1) + ("\n" if match[0][-1] in "nr" else " ")


def _add(found: list[View], name: str, text: str, offset: int = 0) -> None:
    """One more reading, unless it says nothing new."""
    if text and all(text != view.text for view in found):
        found.append(View(name, text, offset))


def _unmask(text: str) -> str:
    """Invisible characters gone, compatibility forms and look-alikes in mixed words as plain letters."""
    if text.isascii():
        return text
    text = drawn_letters(text)
    seen = unicodedata.normalize("NFKC", INVISIBLE.sub("", _without_heaps(text)).translate(_phrases(text)))
    return _MIXED_WORD.sub(lambda m: m[0].translate(CONFUSABLE) if _disguised(m[0]) else m[0], seen)


def _phrases(text: str) -> dict[int, str]:
    """Spaces for signs that stand for a whole phrase: read out, a text of them is eighteen times as long."""
    return {ord(c): " " for c in set(text) if len(unicodedata.normalize("NFKC", c)) > _LONGEST_SIGN}


def _without_heaps(text: str) -> str:
    """Marks above and below letters gone, where there are more of them than any language uses."""
    marks = sum(unicodedata.combining(c) > 0 for c in text)
    if marks * 3 < len(text) - marks:
        return text
    return "".join(c for c in text if not unicodedata.combining(c))


def _disguised(word: str) -> bool:
    """Latin letters and their foreign look-alikes in one word: no honest alphabet does that."""
    return _ASCII_LETTER.search(word) is not None and any(ord(c) in CONFUSABLE for c in word)


def _decoded(text: str, depth: int) -> list[View]:
    """The text of every encoded stretch, equal texts once."""
    found: dict[str, View] = {}
    for name, pattern, decode in _ENCODINGS:
        places: dict[str, int] = {}
        for match in pattern.finditer(text):
            places.setdefault(match[0], match.start())
        for stretch, start in places.items():
            plain = decode(stretch)
            if not plain or plain == stretch:
                continue
            inner = _decoded(plain, depth - 1) if depth > 1 else []
            for view in inner:
                found.setdefault(view.text, View(f"{name} {view.name}", view.text, start))
            own = _around(plain) if inner else plain
            if _readable(own):
                found.setdefault(own, View(name, own, start))
    return list(found.values())


def _around(text: str) -> str:
    """The words of a decoded text beside stretches that are decoded, too; empty where they are no sentence."""
    for _, pattern, decode in _ENCODINGS:
        text = pattern.sub(lambda m, read=decode: " " if _says(read(m[0])) else m[0], text)  # type: ignore[misc]
    return text if len(_LETTERS_OF_WORD.findall(text)) >= _FEWEST_AROUND else ""


def decoded_whole(text: str) -> str:
    """The words of a text that is nothing but one encoded stretch; empty for any other."""
    stretch = text.strip()
    if not _BASE64.fullmatch(stretch):
        return ""
    plain = _from_pieces(stretch)
    return plain if _readable(plain) else ""


def _without_digits(text: str) -> str:
    """The text with every stretch of code numbers that reads as words taken out; offsets stay as they are."""
    for _, pattern, decode in _ENCODINGS[:_DIGITS]:
        text = pattern.sub(lambda m, read=decode: " " * len(m[0]) if _says(read(m[0])) else m[0], text)  # type: ignore[misc]
    return without_noise(text, _from_base64, _says)


def _says(decoded: str) -> bool:
    return _readable(decoded) or bool(_decoded(decoded, MAX_DEPTH - 1))


def _from_base64(stretch: str) -> str:
    body = stretch.rstrip("=").replace("-", "+").replace("_", "/")
    plain = _plain_base64(body)
    if plain or not _readable(other := _plain_base64(body[::-1])):
        return plain
    return other


def _plain_base64(body: str) -> str:
    try:
        return _text_of(_inflated(base64.b64decode(body + "=" * (-len(body) % 4), validate=True)))
    except (binascii.Error, UnicodeDecodeError):
        return ""


def _text_of(data: bytes) -> str:
    """Bytes as text: UTF-16 where every second one is nothing, else UTF-8."""
    for name, nothing in (("utf-16-le", data[1::2]), ("utf-16-be", data[::2])):
        if len(data) >= _FEWEST_WIDE and nothing.count(0) > 0.8 * len(nothing):
            return data.decode(name)
    return data.decode("utf-8")


def _from_pieces(whole: str) -> str:
    return _from_hex(whole) if _HEX_ALONE.fullmatch(whole) else _from_base64(whole)


def _from_base85(stretch: str) -> str:
    try:
        plain = base64.b85decode(stretch).decode("utf-8")
    except ValueError:
        return ""
    return plain if _readable(plain) else ""


def _from_calls(stretch: str) -> str:
    codes = (int(code, 0) for code in re.findall(r"0x[0-9a-f]+|[1-9]\d*", stretch, re.I))
    return "".join(map(chr, codes))


def _inflated(data: bytes) -> bytes:
    """Bytes without their compression; other bytes as they are."""
    if data[:2] not in _COMPRESSED:
        return data
    try:
        found = zlib.decompressobj(wbits=47).decompress(data, _MOST_INFLATED)
    except zlib.error:
        return data
    if len(found) <= _MOST_READ:
        return found
    text = found[:-4].decode() + found[-4:].decode(errors="ignore")  # a letter may be cut at the end
    part = shortened(text, _MOST_READ)
    return (text if part is None else part.text).encode()


def _from_lines(stretch: str) -> str:
    return _from_base64("".join(stretch.split()))


def _from_base32(stretch: str) -> str:
    body = stretch.rstrip("=")
    try:
        return base64.b32decode(body + "=" * (-len(body) % 8)).decode("utf-8")
    except (binascii.Error, UnicodeDecodeError):
        return ""


def _from_ascii85(stretch: str) -> str:
    try:
        return base64.a85decode(stretch, adobe=True).decode("utf-8")
    except ValueError:
        return ""


def _from_quoted(stretch: str) -> str:
    try:
        return quopri.decodestring(stretch.encode()).decode("utf-8")
    except UnicodeDecodeError:
        return ""


def _from_octal(stretch: str) -> str:
    return bytes(int(code, 8) for code in stretch.split("\\")[1:]).decode("utf-8", "replace")


def _from_points(stretch: str) -> str:
    """Code points in hexadecimal after a backslash."""
    points = (int(code, 16) for code in re.findall(r"\\(?:u\{)?([0-9a-fA-F]+)", stretch))
    return "".join(chr(point) for point in points if point < 0x110000)


def _from_hex(stretch: str) -> str:
    try:
        return _text_of(_inflated(bytes.fromhex(re.sub(r"0x|\\x|[ ,:;\r\n-]", "", stretch))))
    except ValueError:
        return ""


def _from_binary(stretch: str) -> str:
    bits = re.sub(r"[ ,]", "", stretch)
    return bytes(int(bits[n : n + 8], 2) for n in range(0, len(bits) - 7, 8)).decode("utf-8", "replace")


def _from_codes(stretch: str) -> str:
    return "".join(chr(int(code)) for code in re.findall(r"\d+", stretch))


def _from_escapes(stretch: str) -> str:
    return "".join(chr(int(code, 16)) for code in re.findall(r"\\u([0-9a-fA-F]{4})", stretch))


_ENCODINGS: tuple[tuple[str, re.Pattern[str], Callable[[str], str]], ...] = (
    ("binary", _BINARY, _from_binary),
    ("codes", _CODES, _from_codes),
    ("codes", _CALLS, _from_calls),
    ("morse", MORSE, from_morse),
    ("escapes", _ESCAPES, _from_escapes),
    ("escapes", _BRACED, _from_points),
    ("escapes", _CSS, _from_points),
    ("octal", _OCTAL, _from_octal),
    ("hex", _HEX, _from_hex),
    ("base64", _BASE64, _from_base64),
    ("base64 in lines", _BASE64_LINES, _from_lines),
    ("base32", _BASE32, _from_base32),
    ("ascii85", _ASCII85, _from_ascii85),
    ("base85", _BASE85, _from_base85),
    ("quoted-printable", _QUOTED, _from_quoted),
    ("percent", _PERCENT, urllib.parse.unquote),
)


_COMPRESSED = (b"\x1f\x8b", b"\x78\x01", b"\x78\x5e", b"\x78\x9c", b"\x78\xda")
"""How gzip and zlib begin."""
_FEWEST_LISTED, _LISTED_ENGLISH = 5, 0.25
_ENGLISH_ALREADY = 0.25
"""Share of common words from which a sentence is English as it stands."""
_FEWEST_TURNED = 3
_DIGITS = 9
"""The first so many are numbers: no reader takes them for words."""


_LETTERS_OF_WORD = re.compile(r"[^\W\d_]{3,}")
_NO_WORDS = re.compile(r"[^\w\s]{4,}|\d{4,}")
"""Runs of marks and of digits."""
_FEWEST_AROUND = 3
"""Words that are a sentence beside a decoded stretch, or beside signs that cannot be printed."""


def _readable(text: str) -> bool:
    """Words, not noise: mostly letters and spaces, and printable.

    Runs of digits and marks do not count, nor a sign that cannot be printed where there are words around it: either
    could be put beside any words.
    """
    seen = "".join(c for c in text if c.isprintable() or c in "\n\t\r")
    if len(seen) < len(text) and len(_LETTERS_OF_WORD.findall(seen)) < _FEWEST_AROUND:
        return False
    if is_words(seen):
        return True
    seen = _NO_WORDS.sub("", seen)
    letters = sum(c.isalpha() or c.isspace() for c in seen)
    return len(seen) >= 8 and letters >= 0.7 * len(seen)


def _where_it_helps(text: str, read: Callable[[str], str]) -> str:
    """The text with those sentences read anew that are no English now and are English then, or those of their words
    that are none now: any words could stand between them."""

    def turned(match: re.Match[str]) -> str:
        sentence = match[0].strip()
        if english(sentence) < _ENGLISH_ALREADY and _may_turn(sentence):
            other = read(sentence)
            if english(other) >= IS_ENGLISH or is_words(other):
                return f"{other} "
        rest = unknown_words(sentence)
        return f"{other} " if _may_turn(rest) and is_words(other := read(rest)) else match[0]

    return _SENTENCE.sub(turned, text)


def _may_turn(text: str) -> bool:
    return len(WORD.findall(text.lower())) >= _FEWEST_TURNED and not is_words(text)


def _rotated(text: str) -> str:
    """Letters shifted back by as much as makes most sense."""

    def shifted(sentence: str) -> str:
        lower = sentence.lower()
        return max((lower.translate(turn) for turn in _SHIFTS), key=sense)

    return _where_it_helps(text, shifted)


def _backwards(text: str) -> str:
    if english(text) < _ENGLISH_ALREADY and english(text[::-1]) >= IS_ENGLISH:
        return text[::-1]

    def turned(sentence: str) -> str:
        whole = sentence[::-1]
        words = " ".join(word[::-1] for word in sentence.split())
        return max((whole, words), key=sense)

    return _where_it_helps(text, turned)


def _upside_down(text: str) -> str:
    if len(_UPSIDE_DOWN.findall(text)) < 4:
        return text
    return "\n".join(line.translate(_TURNED)[::-1] for line in text.splitlines())


def _leet(text: str) -> str:
    """Digits for letters read as these, in the whole text or, where that makes no more sense, line by line."""
    if not _LEET_SIGN.search(text):
        return text
    read = _without_leet(text)
    return read if read != text else "".join(map(_without_leet, text.splitlines(keepends=True)))


def _without_leet(text: str) -> str:
    mixed = 0

    def plain(word: re.Match[str]) -> str:
        nonlocal mixed
        last = min(max(map(word[0].rfind, some)) for some in (_LETTERS, _LEET_DIGITS))
        if last < 0:  # letters alone, or digits alone
            return word[0]

        def letters(run: re.Match[str]) -> str:
            nonlocal mixed
            if run.start() > last:
                return run[0]
            mixed += not run[0].isalpha()
            return run[0].translate(_LEET)

        return _LEET_RUN.sub(letters, word[0])

    read = re.sub(r"\S+", plain, text)
    return read if mixed >= 3 and english(read) > max(0.2, english(text)) else text


def _split_words(text: str) -> str:
    """Words that were written as one, apart; the rest of the text is in the plain view."""
    humps = (re.sub(r"(?<=[a-z])(?=[A-Z])", " ", match[0]).lower() for match in _HUMPS.finditer(text))
    glued = (re.sub(r"[_.\-/+|]", " ", match[0]) for match in _GLUED.finditer(text))
    found = [words for words in humps if english(words) >= IS_ENGLISH or is_words(words)]
    found += [words for words in glued if english(words) >= IS_ENGLISH]
    return ". ".join(found) if found else text


def _acrostic(text: str) -> str:
    """The first words, or first letters, of many lines."""
    lines = [line.split(None, 1) for line in text.splitlines() if line.strip()][:_MOST_LINES]
    if len(lines) < 5:
        return text
    words = " ".join(line[0] for line in lines)
    letters = "".join(line[0].lstrip("-*#>\"'(")[:1] for line in lines).lower()
    read = _segmented(letters)
    return next((view for view in (read, words) if view and english(view) >= 0.6), text)


def _listed(text: str) -> str:
    """Words, or pieces of words, that stand one to a line: numbered, or in quotation marks as in a list."""
    words = _NUMBERED.findall(text)
    if len(words) >= _FEWEST_LISTED and english(read := " ".join(words)) >= _LISTED_ENGLISH:
        return read
    for pieces in (_PIECE.findall(text), _QUOTED_PIECE.findall(text)):
        if len(pieces) >= 2 * _FEWEST_LISTED and english(read := "".join(pieces).replace("_", " ")) >= _LISTED_ENGLISH:
            return read
    return text


def _segmented(letters: str) -> str:
    """Letters without spaces as common words; empty where they are none."""
    best: list[tuple[int, int] | None] = [(0, 0), *([None] * len(letters))]
    """For each end: how good, and where its last word begins."""
    for end in range(1, len(letters) + 1):
        for start in range(max(0, end - 14), end):
            before, word = best[start], letters[start:end]
            if before is not None and word in common():
                taken = (before[0] + len(word) ** 2, start)
                best[end] = max(best[end] or taken, taken)
    words, end = list[str](), len(letters)
    while end and (last := best[end]) is not None:
        words.append(letters[last[1] : end])
        end = last[1]
    return " ".join(reversed(words))


_READINGS: tuple[tuple[str, Callable[[str], str]], ...] = (
    ("rotated", _rotated),
    ("backwards", _backwards),
    ("upside down", _upside_down),
    ("apart", letters_apart),
    ("spelled", spelled_letters),
    ("leet", _leet),
    ("split", _split_words),
    ("spelled right", spelled_right),
    ("acrostic", _acrostic),
    ("listed", _listed),
)
"""Readings of the whole text, tried in this order."""
