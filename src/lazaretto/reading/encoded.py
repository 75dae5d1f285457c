"""Encoded texts: words cut in pieces, letters written as something else, and the English that parts both from noise."""

from __future__ import annotations

import functools
import html
import itertools
import re
import string
import urllib.parse
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

from lazaretto.errors import MissingExtra, ModelUnavailable

# How much of a text is common English words: the sign that parts a guessed reading from noise.

WORD = re.compile(r"[a-z]+")
IS_ENGLISH = 0.4
"""Share of common words from which letters that were guessed are words."""
_LONGER, _FEWEST_LONGER, _MOSTLY = 4, 3, 0.75
"""Letters of a longer word; so many of them, and such a share of all letters, are words without a common one."""


@functools.cache
def common() -> frozenset[str]:
    """Three hundred words that make up half of any English text."""
    return frozenset(Path(__file__).with_name("common_words.txt").read_text(encoding="ascii").split())


def english(text: str) -> float:
    """The share of common English words."""
    words = WORD.findall(text.lower())
    return sum(word in common() for word in words) / len(words) if words else 0.0


@functools.cache
def _whole_words() -> frozenset[str]:
    """The longer words that the encoder knows whole: a writer who leaves the common ones out cannot leave these out,
    too. Empty where the encoder is not installed."""
    from lazaretto.models.minilm import minilm_tokenizer  # texts are folded without it, too

    try:
        pieces = minilm_tokenizer().get_vocab()
    except (MissingExtra, ModelUnavailable):
        return frozenset()
    return frozenset(piece for piece in pieces if len(piece) >= _LONGER and WORD.fullmatch(piece))


def is_words(text: str) -> bool:
    """Whether most letters of a text are in words, be they common ones or not; letters that were guessed never are."""
    words = WORD.findall(text.lower())
    longer = [word for word in words if word in _whole_words()]
    known = sum(map(len, longer)) + sum(len(word) for word in words if len(word) < _LONGER and word in common())
    return len(longer) >= _FEWEST_LONGER and known >= _MOSTLY * sum(map(len, words))


def unknown_words(text: str) -> str:
    """The rest of a text without its words."""
    return " ".join(
        word
        for word in text.split()
        if not all(map(_is_known, WORD.findall(word.lower()))) and WORD.search(word.lower())
    )


def _is_known(word: str) -> bool:
    return word in common() or word in _whole_words()


def sense(text: str) -> float:
    """How much of a text is words: the share of common ones, then that of all."""
    words = WORD.findall(text.lower())
    return english(text) + sum(map(_is_known, words)) / (len(words) or 1)


# Letters that are written as something else: Braille, enclosed letters, flags, Morse, numbers, letters set apart.
#
# Each reading gives the text back where it finds no English: flags, grids, dates and rows of marks stay what they are.

_SMALL = string.ascii_lowercase
_BLOCKS = (0x1F1E6, 0x1F150, 0x1F170, 0x1F130, 0x249C)
"""Where blocks of enclosed letters and of the letters of flags begin."""
_BRAILLE = dict(zip("⠁⠃⠉⠙⠑⠋⠛⠓⠊⠚⠅⠇⠍⠝⠕⠏⠟⠗⠎⠞⠥⠧⠺⠭⠽⠵", _SMALL, strict=True)) | {
    "⠀": " ", "⠂": ",", "⠲": ".", "⠆": ";", "⠒": ":", "⠖": "!", "⠦": "?", "⠤": "-", "⠄": "'", "⠠": "", "⠼": "#",
}  # fmt: skip
_CAPITALS = dict(zip("ᴀʙᴄᴅᴇꜰɢʜɪᴊᴋʟᴍɴᴏᴘǫʀꜱᴛᴜᴠᴡʏᴢ", _SMALL.replace("x", ""), strict=True))
_DRAWN = str.maketrans(
    {chr(block + at): letter for block in _BLOCKS for at, letter in enumerate(_SMALL)} | _BRAILLE | _CAPITALS
)
_IS_DRAWN = re.compile(f"[{''.join(map(chr, _DRAWN))}]")
_FEWEST_DRAWN = 8
_CODE = (
    ".- -... -.-. -.. . ..-. --. .... .. .--- -.- .-.. -- -. --- .--. --.- .-. ... - ..- ...- .-- -..- -.-- --.. "
    "----- .---- ..--- ...-- ....- ..... -.... --... ---.. ----. .-.-.- --..-- .--.-."
)
_LETTERS = dict(zip(_CODE.split(" "), _SMALL + string.digits + ".,@", strict=True))
_DOTS = str.maketrans("·•–—_", "..---")
MORSE = re.compile(r"(?:[.·•–—_-]{1,6}(?:[ /|]{1,4}|$)){12,}")
"""Signs of Morse, of several letters."""
_SPELLING_WORDS = (
    "alfa alpha bravo charlie delta echo foxtrot golf hotel india juliett juliet kilo lima mike november oscar papa "
    "quebec romeo sierra tango uniform victor whiskey whisky xray yankee zulu"
)
_SPELLED = dict(zip(_SPELLING_WORDS.split(), "aabcdefghijjklmnopqrstuvwwxyz", strict=True))
_SPELLING = re.compile(rf"\b(?:{'|'.join(_SPELLED)}|x-ray)(?:[ ,./|-]{{1,4}}(?:{'|'.join(_SPELLED)}|x-ray))+\b", re.I)
_NUMBER = r"(?:2[0-6]|1\d|0?\d)"
_NUMBERED = re.compile(rf"(?<![\w.-]){_NUMBER}(?:[-. ]{_NUMBER}){{0,30}}(?![\w-])")
_NUMBERS = re.compile(rf"{_NUMBERED.pattern}(?:\s{{0,3}}[/|,;_\s]\s{{0,3}}{_NUMBERED.pattern}){{3,400}}")
_APART = re.compile(r"(?<!\w)[^\W_](?:(?P<gap>[^\w\s]{1,2}|[ ])[^\W_](?:(?P=gap)[^\W_])*)(?!\w)")
"""Single letters with one and the same sign between them."""
_BETWEEN = re.compile(r"\W{0,4}(?:\b\w\b\W{0,4})?")
_FEWEST_WORDS = 3
_FEWEST_LETTERS = 12
"""Letters that are words by chance are fewer: a column of ones is a row of "a"."""


def drawn_letters(text: str) -> str:
    """Letters in circles and squares, letters of flags, small capitals and Braille as plain ones."""
    if text.isascii() or len(_IS_DRAWN.findall(text)) < _FEWEST_DRAWN:
        return text
    read = text.translate(_DRAWN)
    if english(read) > max(0.2, english(text)):
        return read
    own = " ".join(word.translate(_DRAWN) for word in text.split() if _IS_DRAWN.search(word))
    return read if _says_something(own) else text


def from_morse(stretch: str) -> str:
    """The words of a stretch of Morse; empty where it says none, as a row of dashes does."""
    words = re.split(r"\s*[/|]\s*|\s{2,}", stretch.translate(_DOTS).strip())
    read = " ".join("".join(_LETTERS.get(sign, "") for sign in word.split()) for word in words)
    return read if english(read) >= IS_ENGLISH or is_words(read) else ""


def spelled_letters(text: str) -> str:
    """Words of the spelling alphabet, and numbers of letters, as the letters that they stand for."""
    read = _SPELLING.sub(_from_words, text)
    return _NUMBERS.sub(_from_numbers, read)


def _from_words(match: re.Match[str]) -> str:
    parts = re.split(r"\s*[/|]\s*|,\s|\s{2,}", match[0].lower().replace("x-ray", "xray"))
    read = " ".join("".join(_SPELLED[word] for word in re.findall(r"[a-z]+", part)) for part in parts)
    return read if len(parts) >= _FEWEST_WORDS and _says_something(read) else match[0]


def _from_numbers(match: re.Match[str]) -> str:
    parts = re.split(r"\s*[/|,;_\n]\s*|\s{2,}", match[0])
    numbers = [[int(number) for number in re.findall(r"\d+", part)] for part in parts]
    for first in (1, 0):  # the number of "a"
        if all(first <= number < first + len(_SMALL) for row in numbers for number in row):
            read = " ".join("".join(_SMALL[number - first] for number in row) for row in numbers)
            if _says_something(read):
                return read
    return match[0]


def letters_apart(text: str) -> str:
    """Words whose letters were set apart by some sign, joined; several words have to stand one after the other."""
    parts, last, row = [], 0, list[re.Match[str]]()
    for match in (*_APART.finditer(text), None):
        if row and (match is None or not _BETWEEN.fullmatch(text, row[-1].end(), match.start())):
            if joined := _joined(text, row):
                parts += [text[last : row[0].start()], joined]
                last = row[-1].end()
            row = []
        if match is not None:
            row.append(match)
    return "".join((*parts, text[last:]))


def _joined(text: str, row: list[re.Match[str]]) -> str:
    """A row of words set apart as plain words; empty where these are none."""
    if len(row) < _FEWEST_WORDS:
        return ""
    words, last = list[str](), row[0].start()
    for match in row:
        words += [text[last : match.start()].strip(), match[0].replace(match["gap"], "")]
        last = match.end()
    read = " ".join(filter(None, words))
    return read if _says_something(read) else ""


def _says_something(read: str) -> bool:
    return len(read) >= _FEWEST_LETTERS and (english(read) >= IS_ENGLISH or is_words(read))


# Encoded words that were cut in pieces: over lines, list items, cells, strings that are added up, groups of letters.
#
# Pieces that stand one after the other are put together and decoded. Noise is no answer, so pieces may be looked for
# freely: ordinary words that are put together do not decode to words.

_QUOTED = re.compile(r"(?P<mark>[\"'`])(?P<piece>[A-Za-z0-9+/_-]{2,200}={0,2})(?P=mark)(?!\s{0,3}:)")
_BESIDE = re.compile(
    r"[\s,+.;()\[\]\\&|:=]{0,12}(?:[\"'][^\"'\n]{1,20}[\"']\s{0,3}:\s{0,3})?(?:[A-Za-z_]\w{0,20}\s{0,3}(?:\+?=|:|\()\s{0,3}){0,2}"
)
"""Between two quoted pieces: signs, and a name that the second is given to."""
_OF_LINE = re.compile(
    r"[ \t>|*•#-]{0,12}(?:(?:[A-Za-z_]{1,20}[ _-]{0,2})?\d{0,4}[ \t]{0,3}[:=|,;.)\]-]{1,2}[ \t]{0,3})?"
    r"(?P<piece>[A-Za-z0-9+/_-]{2,200}={0,2})[ \t|,;\\]{0,6}"
)
"""A line that is a piece, behind a bullet, a mark of quotation, a number or a cell with a number."""
_GROUPED = re.compile(r"(?<!\S)[A-Za-z0-9+/_-]{2,40}(?: [A-Za-z0-9+/_-]{1,40}){3,}={0,2}(?!\S)")
_FEWEST_MIXED = 5
"""Groups of any length that look encoded: so many are no names and numbers in a sentence."""
_TOKEN = re.compile(r"(?<![A-Za-z0-9+/_=-])[A-Za-z0-9+/_-]{8,200}(?:={1,2}(?![A-Za-z0-9]))?(?![A-Za-z0-9+/_-])")
_REST = re.compile(r"(?<![A-Za-z0-9+/_-])[A-Za-z0-9+/_-]{2,200}={0,2}")
_MIXED = re.compile(r"[a-z][A-Z0-9]|[0-9][A-Za-z]")
_FEWEST = 3
_MOST = 2_000
"""Pieces of one row that are put together."""
_SKIPPED = 3
"""Words on either side of a row that may be something else, less one: a name, a word of thanks."""
_MOST_ROWS = 200
"""Rows of one text that are tried."""
_LEAST = 24
"""Characters of all pieces together."""


def put_together(text: str, decode: Callable[[str], str], readable: Callable[[str], bool]) -> Iterator[tuple[str, int]]:
    """The words of rows of pieces, put together and decoded, and where each row begins."""
    found: dict[str, int] = {}
    for start, pieces in itertools.islice(itertools.chain(_rows(text), _of_one_length(text)), _MOST_ROWS):
        plain = next((words for part in _parts(pieces) if (words := _decoded(part, decode)) and readable(words)), "")
        if plain and not any(plain in other for other in found):
            found = {other: at for other, at in found.items() if other not in plain} | {plain: start}
    yield from found.items()


def _parts(pieces: list[str]) -> Iterator[list[str]]:
    """A row, and the row without some words at its beginning or end that may be no pieces."""
    for skipped in range(_SKIPPED):
        for left_out in range(_SKIPPED):
            if len(part := pieces[skipped : len(pieces) - left_out][:_MOST]) >= _FEWEST:
                yield part


def _of_one_length(text: str) -> Iterator[tuple[int, list[str]]]:
    """Words of one length that look encoded, with anything between them, and the shorter one behind the last."""
    lengths = defaultdict[int, list[re.Match[str]]](list)
    for match in itertools.islice(_TOKEN.finditer(text), _MOST):
        lengths[len(match[0])].append(match)
    for several in sorted(lengths.values(), key=len, reverse=True)[:_SKIPPED]:
        if len(several) < _FEWEST or sum(_MIXED.search(match[0]) is not None for match in several) < _FEWEST:
            continue
        pieces = [match[0] for match in several]
        yield several[0].start(), pieces
        behind = itertools.islice(_REST.finditer(text, several[-1].end()), 2 * _SKIPPED)
        yield from ((several[0].start(), [*pieces, rest[0]]) for rest in behind if len(rest[0]) < len(pieces[0]))


def _decoded(part: list[str], decode: Callable[[str], str]) -> str:
    whole = "".join(part).replace("=", "")
    if len(whole) < _LEAST:
        return ""
    if not (plain := decode(whole)) and any("=" in piece for piece in part[:-1]):  # each was encoded by itself
        plain = "".join(map(decode, part))
    return plain


def _rows(text: str) -> Iterator[tuple[int, list[str]]]:
    """Pieces that stand one after the other, and where they begin."""
    row: list[re.Match[str]] = []
    for match in (*_QUOTED.finditer(text), None):
        if row and (match is None or not _BESIDE.fullmatch(text, row[-1].end(), match.start())):
            if len(row) >= _FEWEST:
                yield row[0].start(), [found["piece"] for found in row]
            row = []
        if match is not None:
            row.append(match)
    yield from _rows_of_lines(text)
    for match in _GROUPED.finditer(text):
        groups = match[0].split(" ")
        for start in range(len(groups) - _FEWEST):
            size = len(groups[start])
            if size >= 4 and len(groups[start + 1]) == size == len(groups[start + 2]):
                yield match.start(), groups[start:]
                break
        else:
            if sum(_MIXED.search(group) is not None for group in groups) >= _FEWEST_MIXED:
                yield match.start(), groups


def _rows_of_lines(text: str) -> Iterator[tuple[int, list[str]]]:
    row: list[str] = []
    began = place = 0
    for line in (*text.splitlines(keepends=True), ""):
        match = _OF_LINE.fullmatch(line.rstrip("\r\n")) if line else None
        if match is not None:
            began = began if row else place
            row.append(match["piece"])
        else:
            if len(row) >= _FEWEST:
                yield began, row
            row = []
        place += len(line)


# Letters written as numbers, and noise: what no reader takes for words. A model that guesses at it finds orders there.

_MARKED = re.compile(
    r"(?:&(?:amp;){0,2}#(?:[xX][0-9a-fA-F]{1,6}|[0-9]{1,7})(?:;| |(?=&))){6,}|(?:%(?:25){0,3}[0-9a-fA-F]{2}){8,}"
)
"""Letters in the numbers of markup or of addresses, with nothing between them that can be read."""
_ENDED_BY_BLANK = re.compile(r"(#[xX]?[0-9a-fA-F]{1,7}) ")
_NOISE = re.compile(r"(?<![\w+/=-])[A-Za-z0-9+/]{40,}={0,2}(?![\w+/-])")
_HEX_ROW = re.compile(
    r"^[ \t]*(?:0x)?[0-9a-fA-F]{4,16}:?[ \t]{1,3}(?:[0-9a-fA-F]{2,8}[ ]{1,2}){3,32}(?:[0-9a-fA-F]{2,8}$)?", re.MULTILINE
)
"""A line of a hex dump: its place, and bytes."""
_DIGIT = re.compile(r"[0-9]")
_HEX_LETTER = re.compile(r"[a-fA-F]")
_DEEPEST = 4
"""How often letters may be written as numbers of numbers."""
_TURNS = re.compile(r"(?=[a-z][A-Z0-9]|[0-9][A-Za-z])")
_LEET = str.maketrans("01345", "oieas")
_FEWEST_TURNS, _MOST_VOWELS = 0.25, 0.3
"""Of noise: how often small letters, capitals and digits take turns, and the share of vowels, which words exceed."""


def with_marked_letters(text: str) -> str:
    """Letters that are written as numbers, in their place."""
    return _MARKED.sub(_letters_of, text) if "%" in text or "&" in text else text


def without_noise(text: str, decode: Callable[[str], str], readable: Callable[[str], bool]) -> str:
    """Blanks for letters written as numbers, which another view reads, and for bytes that are no words."""
    if "%" in text or "&" in text:
        text = _MARKED.sub(lambda m: " " * len(m[0]) if readable(_letters_of(m)) else m[0], text)
    text = _NOISE.sub(lambda m: " " * len(m[0]) if _is_noise(m[0]) and not decode(m[0]) else m[0], text)
    return _HEX_ROW.sub(lambda m: " " * len(m[0]) if _HEX_LETTER.search(m[0]) else m[0], text)


def _letters_of(match: re.Match[str]) -> str:
    read = _ENDED_BY_BLANK.sub(r"\1;", match[0])
    for _ in range(_DEEPEST):
        read = html.unescape(urllib.parse.unquote(read))
    return read


def _is_noise(stretch: str) -> bool:
    body = stretch.rstrip("=")
    vowels = sum(map(body.lower().translate(_LEET).count, "aeiou"))
    if not _DIGIT.search(body) or vowels > _MOST_VOWELS * len(body):
        return False
    return len(_TURNS.findall(body)) >= _FEWEST_TURNS * len(body)
