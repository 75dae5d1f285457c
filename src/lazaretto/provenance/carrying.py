"""Does one item carry something of another? A comparison of texts, pictures and records that says what it found.

It is what stands between an item that was *influenced* by poison and one that *repeats* it: an agent that had read a
forged account number is suspect, and its note is poison when the number, a sentence or most of the words are in it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

from lazaretto.kept_texts import remembered
from lazaretto.ledger import Ledger
from lazaretto.types import EventKind, Observation

RUN = 6
"""So many words in a row that two texts share are not chance."""
MOST = 0.6
"""The share of another text's content words from which a text repeats it."""
FEWEST = 4
"""Content words a text must have for their share to mean anything."""
_KEPT_BYTES = 1 << 19
"""Of what was made of texts that were compared last."""
_WORD = re.compile(r"\w+(?:['’]\w+)?")
_MOMENT = re.compile(r"(?:19|20)\d\d|\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}|\d{1,2}:\d\d(?::\d\d)?")
_PLAIN_ENDS = ".,;:!?\"'()[]{}<>“”‘’«»"
_COMMON_WORDS = """
about above after again against agent agents also although always among another because been before being
below between both cannot could does doing done down during each either else even ever every from further have
having here hers himself however into itself just like made make many more most much must myself never next
none note notes nothing once only other ours over please same shall should since some such than that their
them then there these they this those through under until upon used user using very want well were what when
where whether which while will with within without would your yours
"""
_COMMON = frozenset(_COMMON_WORDS.split())


def reused_content(item: Observation, poison: Observation) -> str:
    """What an item repeats of another, in words; empty when nothing of it was found."""
    if poison.image is not None and item.image == poison.image:
        return "the same picture"
    if poison.fields is not None and poison.fields == item.fields:
        return "the same record"
    if not item.text.strip() or not poison.text.strip():
        return ""
    return _shared(item.text, poison.text)


def _shared(text: str, poison: str) -> str:
    values = _values(text) & _values(poison)
    if values:
        return f"the value {min(values, key=lambda v: (-len(v), v))!r}"
    mine, theirs = _words(text), _words(poison)
    if len(theirs) < RUN and len(theirs) > 1 and _contains(mine, theirs):
        return f"the words {' '.join(theirs)!r}"
    runs = _runs(text) & _runs(poison)
    if runs:
        return f"the words {' '.join(min(runs))!r}"
    content = {w for w in theirs if len(w) > 3 and w not in _COMMON}
    common = content & set(mine)
    if len(content) >= FEWEST and len(common) >= MOST * len(content):
        return f"{len(common)} of its {len(content)} telling words"
    return ""


@remembered(_KEPT_BYTES, lambda words: 64 * len(words))
def _words(text: str) -> tuple[str, ...]:
    return tuple(_WORD.findall(unicodedata.normalize("NFKC", text).casefold()))


@remembered(_KEPT_BYTES, lambda runs: 200 * len(runs))
def _runs(text: str) -> frozenset[tuple[str, ...]]:
    spoken = tuple(word for word in _words(text) if not word.isdigit())  # dates are no phrases
    return frozenset(spoken[i : i + RUN] for i in range(len(spoken) - RUN + 1))


@remembered(_KEPT_BYTES, lambda values: 300 + 150 * len(values))
def _values(text: str) -> frozenset[str]:
    """Addresses, hosts and numbers long enough to mean one thing: what a poisoned fact is usually about."""
    found = (word.strip(_PLAIN_ENDS) for word in unicodedata.normalize("NFKC", text).casefold().split())
    return frozenset(word for word in found if _telling(word))


def _telling(word: str) -> bool:
    if "://" in word or re.fullmatch(r"\S+@\S+\.\w+", word):
        return True
    if _MOMENT.fullmatch(word):
        return False  # years, dates and times stand in every other note
    digits = sum(map(str.isdigit, word))
    return digits >= 4 or (digits >= 2 and len(word) >= 6 and any(map(str.isalpha, word)))


def _contains(words: tuple[str, ...], part: tuple[str, ...]) -> bool:
    return any(words[i : i + len(part)] == part for i in range(len(words) - len(part) + 1))


def recorded_spans(item: str, ledger: Ledger) -> list[tuple[int, int]]:
    """The stretches that the gates quoted when they ruled on an item."""
    return [
        span for event in ledger.events(subject=item, kinds=(EventKind.RULED,)) for span in quoted_spans(event.body)
    ]


def quoted_spans(ruled: object) -> Iterator[tuple[int, int]]:
    """The stretches that one ruling quotes."""
    verdicts = ruled.get("verdicts", ()) if isinstance(ruled, dict) else ()
    for verdict in verdicts:
        for one in verdict.get("evidence", ()):
            data = one.get("data", {})
            if one.get("kind") == "span" and data.get("view", "plain") == "plain" and "start" in data:
                yield int(data["start"]), int(data["end"])
