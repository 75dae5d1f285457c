"""How a text looks, apart from how it is written: the folding under which trivial edits vanish.

Cyrillic, Greek and Armenian letters that look Latin (``names.CONFUSABLE``) evade filters; NFKC folds the rest.
"""

from __future__ import annotations

import re
import unicodedata

from lazaretto.names import CONFUSABLE as CONFUSABLE

INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e0fff]"
)
"""Characters that show nothing: zero width, direction marks, fillers, selectors, tags."""

_LATIN = re.compile("[A-Za-z]")
_GAP = re.compile(r"[\W_]+")


def fold(text: str) -> str:
    """The same string for texts that differ only in case, spacing, punctuation, look-alikes or invisible characters."""
    seen = unicodedata.normalize("NFKC", INVISIBLE.sub("", text))
    seen = INVISIBLE.sub("", seen)
    if _LATIN.search(seen):  # a text in one foreign alphabet disguises nothing
        seen = seen.translate(CONFUSABLE).casefold().translate(CONFUSABLE)
    return _GAP.sub(" ", seen.casefold()).strip()


_TYPED = str.maketrans(
    {
        **dict.fromkeys("\u2018\u2019\u201a\u201b\u2032", "'"),
        **dict.fromkeys("\u201c\u201d\u201e\u201f\u2033\u00ab\u00bb", '"'),
        **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015", "-"),
        **dict.fromkeys("\u00a0\u2002\u2003\u2005\u2007\u2009\u202f\t", " "),
        "\u2026": "...",
    }
)
"""Quotation marks, dashes and spaces as a typewriter has them."""
_SPACES = re.compile(r"(?<=\S) +")
_MARKS = "\"'.,;:!?()"


def same_but_for_typing(text: str) -> str:
    """The same string for texts that differ only in how they were typed; empty where hidden characters are in it.

    Kinds of quotation marks, dashes and spaces, capitals of plain words, empty lines and a full stop at the end are
    typing. Everything that could change the meaning is kept: every other mark, digits, line breaks, indentation,
    letters of another alphabet, and words with digits or marks inside (numbers, names of hosts, addresses) as they are.
    """
    if INVISIBLE.search(text):
        return ""
    lines = (
        _SPACES.sub(" ", line.translate(_TYPED)).rstrip() for line in unicodedata.normalize("NFC", text).split("\n")
    )
    kept = "\n".join(line for line in lines if line.strip())
    spoken = re.sub(r"\S+", lambda found: _uncapped(found.group()), kept)
    return spoken.rstrip().removesuffix(".")


def _uncapped(word: str) -> str:
    """A plain word in small letters; anything else as it is."""
    return word.lower() if word.strip(_MARKS).isalpha() else word
