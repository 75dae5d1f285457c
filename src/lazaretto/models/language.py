"""The language of a text, sentence by sentence: a model must not judge a text that it cannot read."""

from __future__ import annotations

import hashlib
import math
import re
import threading
import unicodedata
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lazaretto.errors import MissingExtra
from lazaretto.models.built import built, source_of
from lazaretto.processor_time import is_over

_READ = 4_000
"""Characters looked at: a language shows in its first page."""
_SURE, _ONE_LANGUAGE = 0.7, 0.9
_NO_LANGUAGE = ("en", "zxx", "und")
_NEAR_ENGLISH = ("pcm",)
"""Short English is taken for Nigerian Pidgin."""
_LAST_LATIN = "\u024f"

MOST_PIECES = 2_000
"""The most sentences of one text whose language is found: more than any model here reads."""
_PIECE_WORDS = 16
"""Words; a longer sentence is split into parts, since it may change its language half-way."""
_LEAST_LETTERS, _LEAST_WORDS = 20, 4
"""Of a piece in Latin letters; a shorter one goes with its neighbour."""
_LEAST_SIGNS = 8
"""Letters of one run that are a sentence in scripts without spaces: names and places are shorter."""
_LEAST_OTHER = (3, 9)
"""Words and letters of one run that are a sentence in other scripts."""
_MOST_NAMED = 50
"""Stretches in other scripts whose language is named."""
_MANY_OTHER, _MANY_SIGNS = 60, 12
"""Letters beyond Latin ones, and signs of scripts without spaces, that are a text, however they are cut up."""
_MOST_OF_NAME = 3
"""Words of a name."""
_LISTS = re.compile(r"[,;\n]")
_JOINED_WORDS = re.compile(r"(?<![^\W\d])[^\W\d_]+(?:_[^\W\d_]+){4,}")
"""A sentence whose words are joined; names in code have fewer."""
_OWN_SHARE = 0.1
_OWN_SHARE_OF_SHORT = 0.02
"""A piece is in another language when all that a model knows are less likely together than this."""
_FEW_WORDS, _OWN_WORDS = 6, 0.6
"""So many words within a piece are surely in a known language when these are together more likely than this."""
_SHORT = 40
"""Letters; the language of a shorter piece is less certain."""

_LATIN_EXTRA = "\u1e00-\u1eff\ufb00-\ufb06\uff21-\uff3a\uff41-\uff5a"
_RUN = re.compile(rf"[^\W\d_A-Za-z\u00aa-\u024f{_LATIN_EXTRA}]+")
"""Letters beyond Latin ones, without a break."""
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
)
_BETWEEN_RUNS = re.compile(r"[\s\d\W_]*\Z")
_WORD = re.compile(r"\S+")
_ENDS = re.compile(r"[.!?;:…]+[\"'”’)\]]*\Z")
_CODE = re.compile(r"^-|[{}<>=|\\$#*_/@\[\]]|\d|\w\(|\.\w|[a-z][A-Z]")


_BEFORE_CLOCK = 16
"""Sentences between two checks of the clock."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """A part of a text in a language that a model does not know."""

    start: int
    end: int
    language: str
    """Its code; ``und`` where it is unknown."""
    latin: bool
    """Whether it is written in Latin letters."""
    sure: bool = True
    """False for names, titles and other fragments, which are too short for a sentence."""
    inner: tuple[tuple[int, int], ...] = ()
    """Where a few of its words are surely in a known language: a sentence may change its language half-way."""


def language_of(text: str) -> str:
    """``en`` unless the text is surely in another language; code, tables and fragments count as ``en``."""
    start = text[:_READ]
    letters = [c for c in start if c.isalpha()]
    if not letters:
        return "en"
    language, confidence = _identifier().classify(start)
    if sum(c > _LAST_LATIN for c in letters) > len(letters) / 2:  # mostly past the Latin letters: never English
        return str(language) if language not in _NO_LANGUAGE else "und"
    return str(language) if confidence >= _SURE and language not in _NO_LANGUAGE else "en"


def surely_in(text: str, language: str) -> bool:
    """Whether a sentence is in one language, and in no other."""
    ranked = _ranked(text)
    return ranked is not None and ranked[0][0][0] == language and ranked[0][0][1] >= _ONE_LANGUAGE


class Languages:
    """The languages of the sentences of one text, found once for all readers.

    ``until``: as of ``processor_time.is_over``. Sentences that there was no time for count as known, and ``whole`` is
    False: the caller has no time left to read them either, and reports that.
    """

    def __init__(self, text: str, until: float = math.inf) -> None:
        self._text, self.whole = text, True
        self._other = () if text.isascii() else _other_scripts(text)
        self._rest = _JOINED_WORDS.sub(lambda m: m[0].replace("_", " "), without(text, self._other))
        known: dict[str, _Ranked | None] = {}
        made: list[tuple[int, int, _Ranked | None]] = []
        for number, (start, end) in enumerate(_pieces(self._rest)):
            if number % _BEFORE_CLOCK == _BEFORE_CLOCK - 1 and is_over(until):
                self.whole = False
                break
            piece = self._rest[start:end]
            if piece not in known:  # equal sentences are ranked once
                known[piece] = _ranked(piece)
            made.append((start, end, known[piece]))
        self._pieces = tuple(made)

    @cached_property
    def main(self) -> str:
        """As ``language_of``."""
        return language_of(self._text)

    def unknown(self, known: Collection[str], until: float = math.inf) -> tuple[Stretch, ...]:
        """The parts of the text that are in none of the known languages, which are written in Latin letters.

        Names, addresses, code, tables and titles are in no language.
        """
        latin: list[Stretch] = []
        for number, (start, end, ranked) in enumerate(self._pieces):
            if number % _BEFORE_CLOCK == _BEFORE_CLOCK - 1 and is_over(until):
                self.whole = False
                break
            stretch = _in_another(self._rest, start, end, ranked, known)
            if stretch is None:
                continue
            if (
                latin
                and latin[-1].language == stretch.language
                and not self._rest[latin[-1].end : stretch.start].strip()
            ):
                latin[-1] = replace(latin[-1], end=stretch.end, inner=(*latin[-1].inner, *stretch.inner))
            else:
                latin.append(stretch)
        found = tuple(sorted((*self._other, *latin), key=lambda stretch: stretch.start))
        if not found and self.main not in known and _prose(self._text[:_READ]):
            return (Stretch(0, len(self._text), self.main, True, sure=False),)
        return found


def unknown_stretches(text: str, known: Collection[str]) -> tuple[Stretch, ...]:
    """As ``Languages.unknown``, for a text that is looked at once."""
    return Languages(text).unknown(known)


def without(text: str, stretches: Sequence[Stretch]) -> str:
    """The text with spaces where these stretches stand; offsets stay as they are."""
    parts, at = [], 0
    for stretch in sorted(stretches, key=lambda stretch: stretch.start):
        start = max(stretch.start, at)
        parts += [text[at:start], " " * (stretch.end - start)]
        at = max(at, stretch.end)
    return "".join((*parts, text[at:]))


def _other_scripts(text: str) -> tuple[Stretch, ...]:
    """Stretches in other scripts: runs of their letters with nothing but marks and spaces between them."""
    groups: list[list[tuple[int, int]]] = []
    for found in _RUN.finditer(text):
        start, end = found.span()
        before = groups[-1][-1] if groups else (0, 0)
        near = 0 < start - before[1] < 12 and _BETWEEN_RUNS.match(text, before[1], start)
        if groups and near and _script(text[start]) == _script(text[before[0]]):
            groups[-1].append((start, end))
        else:
            groups.append([(start, end)])
    letters = [sum(end - start for start, end in group) for group in groups]
    many = sum(letters) >= _MANY_OTHER or len(_UNSPACED.findall(text)) >= _MANY_SIGNS
    return tuple(
        _other(text, group, count, many, named=n < _MOST_NAMED)
        for n, (group, count) in enumerate(zip(groups, letters, strict=True))
    )


def _script(letter: str) -> str:
    if _UNSPACED.match(letter):
        return "unspaced"
    return unicodedata.name(letter, "none").partition(" ")[0]


def _other(text: str, runs: list[tuple[int, int]], letters: int, many: bool, *, named: bool) -> Stretch:
    start, end = runs[0][0], runs[-1][1]
    words = [text[a:b] for a, b in runs]
    unspaced = any(len(word) >= _LEAST_SIGNS and _UNSPACED.search(word) for word in words)
    names = all(word.istitle() for word in words) and _few_in_a_row(text, runs)
    sentence = len(words) >= _LEAST_OTHER[0] and letters >= _LEAST_OTHER[1] and not names
    language = str(_identifier().classify(text[start : min(end, start + _READ)])[0]) if named else "und"
    return Stretch(start, end, language if language not in _NO_LANGUAGE else "und", False, many or unspaced or sentence)


def _few_in_a_row(text: str, runs: list[tuple[int, int]]) -> bool:
    """Whether no more words follow each other than a name has: a capital makes no name of a verb."""
    count, last = 0, runs[0][1]
    for start, end in runs:
        count = 1 if _LISTS.search(text, last, start) else count + 1
        if count > _MOST_OF_NAME:
            return False
        last = end
    return True


def _pieces(text: str) -> Iterator[tuple[int, int]]:
    """Sentences in Latin letters: long ones in parts, short ones joined with the next."""
    made, piece, seen, words = 0, -1, 0, 0
    last = 0
    for found in _WORD.finditer(text):
        if piece >= 0 and "\n" in text[last : found.start()] and seen >= _LEAST_LETTERS and words >= _LEAST_WORDS:
            yield piece, last
            made, piece = made + 1, -1
        if made >= MOST_PIECES:
            return
        if piece < 0:
            piece, seen, words = found.start(), 0, 0
        letters = sum(c.isalpha() and c <= "\u1eff" for c in found[0])
        seen, words, last = seen + letters, words + (letters > 0), found.end()
        ended = words >= _PIECE_WORDS or _ENDS.search(found[0]) is not None
        if ended and seen >= _LEAST_LETTERS and words >= _LEAST_WORDS:
            yield piece, last
            made, piece = made + 1, -1
    if piece >= 0 and seen >= _LEAST_LETTERS and words >= _LEAST_WORDS:
        yield piece, last


_Ranked = tuple[list[tuple[str, float]], int]
"""Languages, each with its probability, and the number of letters they were found from."""


def _ranked(piece: str) -> _Ranked | None:
    """The possible languages of a piece; None where it is no sentence."""
    words = _words(piece)
    if len(words) < _LEAST_WORDS or not _prose(piece):
        return None
    prose = " ".join(words)
    return _identifier().rank(prose), sum(map(str.isalpha, prose))


def _in_another(text: str, start: int, end: int, ranked: _Ranked | None, known: Collection[str]) -> Stretch | None:
    if ranked is None:
        return None
    order, letters = ranked
    least = _OWN_SHARE if letters >= _SHORT else _OWN_SHARE_OF_SHORT
    if _own(order, known) >= least or order[0][0] in (*known, *_NEAR_ENGLISH):
        return None
    return Stretch(start, end, str(order[0][0]), True, inner=tuple(_known_words(text, start, end, known)))


def _known_words(text: str, start: int, end: int, known: Collection[str]) -> Iterator[tuple[int, int]]:
    places = [found.span() for found in _WORD.finditer(text, start, end)]
    for n in range(0, max(1, len(places) - _FEW_WORDS + 1), _FEW_WORDS // 2):
        first, last = places[n][0], places[min(n + _FEW_WORDS, len(places)) - 1][1]
        if _own(_identifier().rank(text[first:last]), known) >= _OWN_WORDS:
            yield first, last


def _own(ranked: Sequence[tuple[str, float]], known: Collection[str]) -> float:
    """The probability of all known languages together."""
    return sum(share for language, share in ranked if language in known or language in _NEAR_ENGLISH)


def _words(piece: str) -> list[str]:
    """Words of a language: no numbers, paths, commands or signs."""
    return [word for word in piece.split() if not _CODE.search(word) and any(map(str.isalpha, word))]


def _prose(piece: str) -> bool:
    """Whether a piece consists of sentences, not of names, an address, code or a table."""
    words, total = _words(piece), len(piece.split())
    plain = [word for word in words if not word[:1].isupper() or word.isupper()]
    titled = len(words) > _LEAST_WORDS and piece.count(",") * 5 < len(words)
    return len(words) * 2 >= total and (len(plain) * 5 >= total * 3 or len(plain) * 5 >= len(words) * 3 or titled)


@cache
def _identifier() -> Any:
    with _LOADING:
        return _load_identifier()


@cache
def _load_identifier() -> Any:
    try:
        import py3langid
        from py3langid.langid import MODEL_DIR, MODEL_FILE, LanguageIdentifier
        from py3langid.modelio import load_model
    except ImportError:
        raise MissingExtra("telling languages apart", "gates") from None
    file = MODEL_DIR / MODEL_FILE
    packed = hashlib.sha256(file.read_bytes()).digest()
    kept = built("languages", (packed, py3langid.__version__, source_of(__file__)), lambda: _unpacked(load_model(file)))
    moves, row = kept["moves"].data, kept["row"].data  # 40 MB that are not copied
    classes, output = kept["classes"].tobytes().decode().split("\n"), kept["output"].tolist()
    return LanguageIdentifier(kept["ptc"], kept["pc"], classes, moves, output, norm_probs=True, tk_row=row)


_LOADING = threading.Lock()
"""Several gates need it at once; one of them loads it."""


def _unpacked(model: tuple[Any, ...]) -> dict[str, NDArray[Any]]:
    """The identifier's model as arrays: unpacking it takes ten times as long as reading them."""
    ptc, pc, classes, moves, row, output = model
    names = np.frombuffer("\n".join(classes).encode(), np.uint8)
    numbers = {"moves": np.frombuffer(moves, f"u{moves.itemsize}"), "row": np.frombuffer(row, f"u{row.itemsize}")}
    return {"ptc": ptc, "pc": pc, "classes": names, "output": np.asarray(output, np.int32), **numbers}
