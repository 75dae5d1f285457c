"""Prose in broken lines (mails, READMEs, comments) as if each paragraph stood on one line.

Where a line ends is up to the writer: a statement in short lines has to be the same claim as on one line. Lists,
tables and records keep their lines, for each of these is a statement by itself.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lazaretto.gates.memory.claims.values import COMMON
from lazaretto.kept_texts import remembered

_MARK = re.compile(r"[ \t]*(?:(?:>|#|//|;|%|--)[ \t]*)+")
"""Signs before each line of a quoted mail or a comment."""
_ITEM = re.compile(r"(?:[-*•+–][ \t]|\(?\w{1,3}[.)][ \t]|[|{}\[\]<]|```|~~~|=== *|---|#{1,6}[ \t])")
_KEY = re.compile(r"\w[\w./-]{0,20}(?: [\w./-]{1,15}){0,2}[ \t]*[:=](?:\s|\Z)")
_ENDED = re.compile(r"[.!?:;…|{}\[][\"”’»)*_]*\Z")
_LAST = re.compile(r"([^\W\d_]+)\W*\Z")
_LOWER_SHARE = 0.4
"""Of the lines that go on, so many begin with a small letter where prose was broken; in lists fewer do."""


@dataclass(frozen=True, slots=True)
class _Line:
    start: int
    """Behind the signs before it."""
    text: str


@remembered(4 << 20, lambda text: 200 + 4 * len(text))
def unbroken(text: str) -> str:
    """A text of the same length, with blanks in the place of the breaks inside paragraphs of prose, and of the signs
    that stand before each of their lines."""
    if "\n" not in text:
        return text
    letters = list(text)
    for paragraph in _paragraphs(text):
        going = [pair for pair in itertools.pairwise(paragraph) if _goes_on(*pair)]
        lower = sum(after.text[0].islower() for _, after in going)
        prose = lower > 0 and lower >= _LOWER_SHARE * len(going)
        for line, after in going:
            if prose or _leads_on(line.text):
                end = line.start + len(line.text)
                letters[end : after.start] = " " * (after.start - end)
    return "".join(letters)


def _paragraphs(text: str) -> Iterator[list[_Line]]:
    """Lines that stand together, without the signs that all of them begin with."""
    found: list[tuple[int, str]] = []
    at = 0
    for raw in text.splitlines(keepends=True):
        found.append((at, raw.rstrip()))
        at += len(raw)
    together: list[tuple[int, str]] = []
    for start, line in (*found, (at, "")):
        mark = _MARK.match(line)
        if line[mark.end() if mark else 0 :].strip():
            together.append((start, line))
        elif together:
            yield _without_marks(together)
            together = []


def _without_marks(lines: Sequence[tuple[int, str]]) -> list[_Line]:
    marks = [_MARK.match(line) for _, line in lines]
    kinds = {frozenset(mark[0].split()) if mark else frozenset() for mark in marks}
    marked = len(lines) > 1 and len(kinds) == 1 and all(marks)
    made = []
    for (start, line), mark in zip(lines, marks, strict=True):
        begin = mark.end() if marked and mark else len(line) - len(line.lstrip())
        made.append(_Line(start + begin, line[begin:]))
    return made


def _goes_on(line: _Line, after: _Line) -> bool:
    """Whether a line may be the middle of a sentence that goes on in the next one."""
    if not after.text or _ENDED.search(line.text) or _ITEM.match(after.text):
        return False
    return not (_KEY.match(line.text) and _KEY.match(after.text))


def _leads_on(line: str) -> bool:
    """Whether a line ends with a word that ends no statement: "to", "the", "is"."""
    last = _LAST.search(line)
    return last is not None and last[1].casefold() in COMMON
