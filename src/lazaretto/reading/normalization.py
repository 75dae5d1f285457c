"""How a text looks, apart from how it is written: the folding under which trivial edits vanish.

Cyrillic, Greek and Armenian letters that look Latin (``names.CONFUSABLE``) evade filters; NFKC folds the rest.
"""

from __future__ import annotations

import html
import re
import unicodedata

import orjson

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


_TAG = re.compile(r"</?[A-Za-z][^<>]{0,200}>")
_DATED = re.compile(
    r"[\W_]{0,8}(?:\d{4}-\d\d?-\d\d?|\d\d?[./]\d\d?[./](?:\d{4}|\d\d)?)?[ T,]{0,4}"
    r"(?:\d\d?:\d\d(?::\d\d)?(?: ?[ap]m\b)?)?"
)
_POLITE = frozenset(
    [
        "please", "pls", "thanks", "thank", "you", "thx", "cheers", "regards", "hi", "hello", "hey", "all", "fyi",
        "note", "reminder", "re", "fw", "fwd", "bitte", "danke", "hallo", "gracias", "hola", "merci", "bonjour",
    ]
)  # fmt: skip
"""Words before and behind a text that say nothing of its matter."""
_FIELDS = frozenset(
    [
        "note",
        "notes",
        "text",
        "message",
        "content",
        "body",
        "memo",
        "memory",
        "value",
        "data",
        "item",
        "input",
        "output",
    ]
)
_LED_IN = re.compile(r"\s*(?P<lead>[^\n?]{2,100}?)(?::|\s[-–—])\s+(?=\S)")
_AGREED = re.compile(
    r"\b(?:fyi|for (?:your )?info(?:rmation)?|reminder|p\.?s\b|update|"
    r"as (?:\w+ ){0,2}(?:agreed|discussed|decided|s(?:ays|aid)|t(?:ells|old)|mentioned|promised|announced)|"
    r"(?:the |our )?minutes|"
    r"zur info(?:rmation)?|wie (?:\S+ ){0,4}(?:besprochen|vereinbart|gesagt|beschlossen)|(?:laut )?protokoll|"
    r"comme (?:convenu|dit|discuté)|pour info(?:rmation)?|como (?:acordado|acordamos|dijimos|hablado)|"
    r"para (?:su|tu) información)\b", re.I
)  # fmt: skip
_DOUBTED = re.compile(
    r"n['’]t\b|\b(?:not|never|no|false|wrong|untrue|fake|scams?|fraud|spam|swindl\w*|phish\w*|warn\w*|beware|blocked|"
    r"held|myth|rumou?r|examples?|claim\w*|quot\w*|attack\w*|nicht|kein\w*|falsch\w*|betrug|achtung|faux|arnaque|"
    r"pas|falso|estafa|ojo|cuidado)\b", re.I
)  # fmt: skip
_MOST_POLITE, _MOST_WRAPPED = 4, 4
_MOST_BARED = 100_000


def fold_bare(text: str) -> str:
    """The folded text without its wrapping: tags, a field of an object, a date, words of politeness, words that say
    when and where it was agreed."""
    if len(text) > _MOST_BARED:
        return ""
    inner = _only_string(text) if text.lstrip()[:1] in ("{", "[", '"') else text
    plain = html.unescape(_TAG.sub(" ", inner))
    words = fold(plain[max(_dated(plain), _led_in(plain)) :]).split(" ")
    for _ in range(_MOST_POLITE):
        words = words[1:] if words[:1] and words[0] in _POLITE else words
        words = words[:-1] if words[-1:] and words[-1] in _POLITE else words
    return " ".join(words)


def _led_in(text: str) -> int:
    """Where a text goes on behind a clause that says when or where it was agreed, and doubts nothing."""
    match = _LED_IN.match(text)
    agreed = match is not None and _AGREED.search(match["lead"]) and not _DOUBTED.search(match["lead"])
    return match.end() if match is not None and agreed else 0


def _dated(text: str) -> int:
    """Where a text goes on behind a date or a time of day."""
    match = _DATED.match(text)
    return match.end() if match is not None and any(map(str.isdigit, match[0])) else 0


def _only_string(text: str) -> str:
    """The only string in an object, under a name that says nothing of it; the text itself where it is not so."""
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        return text
    for _ in range(_MOST_WRAPPED):
        if isinstance(value, str):
            return value
        if isinstance(value, dict) and len(value) == 1 and next(iter(value)).casefold() in _FIELDS:
            value = next(iter(value.values()))
        elif isinstance(value, list) and len(value) == 1:
            value = value[0]
        else:
            return text
    return text


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
