"""Letters that are written as something else: Braille, enclosed letters, flags, Morse, numbers, letters set apart.

Each reading gives the text back where it finds no English: flags, grids, dates and rows of marks stay what they are.
"""

from __future__ import annotations

import re
import string

from lazaretto.reading.english import IS_ENGLISH, english

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
    return read if english(read) > max(0.2, english(text)) else text


def from_morse(stretch: str) -> str:
    """The words of a stretch of Morse; empty where it says none, as a row of dashes does."""
    words = re.split(r"\s*[/|]\s*|\s{2,}", stretch.translate(_DOTS).strip())
    read = " ".join("".join(_LETTERS.get(sign, "") for sign in word.split()) for word in words)
    return read if english(read) >= IS_ENGLISH else ""


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
    return len(read) >= _FEWEST_LETTERS and english(read) >= IS_ENGLISH
