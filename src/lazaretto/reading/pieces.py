"""Encoded words that were cut in pieces: over lines, list items, cells, strings that are added up, groups of letters.

Pieces that stand one after the other are put together and decoded. Noise is no answer, so pieces may be looked for
freely: ordinary words that are put together do not decode to words.
"""

from __future__ import annotations

import itertools
import re
from collections import defaultdict
from collections.abc import Callable, Iterator

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
_GROUPED = re.compile(r"(?<!\S)[A-Za-z0-9+/_-]{4,40}(?: [A-Za-z0-9+/_-]{2,40}){3,}={0,2}(?!\S)")
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
