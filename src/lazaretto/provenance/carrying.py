"""Does one item carry something of another? A comparison of texts, pictures and records that names the shared part.

It tells items that were *influenced* by poison from those that *repeat* it: a note is poison when the forged number, a
sentence or most of the words are in it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, NamedTuple

from lazaretto.kept_texts import remembered
from lazaretto.ledger import Ledger
from lazaretto.ledger.driver import chunks
from lazaretto.types import EventKind, Observation, Ruling

RUN = 6
"""Words in a row that two texts do not share by chance."""
MOST = 0.6
"""The share of another text's content words from which a text repeats it."""
FEWEST = 4
"""Content words a text must have for their share to mean anything."""
_KEPT_BYTES = 1 << 19
"""Bytes for results on texts that were compared last."""
_RULINGS = 100
"""Items whose rulings are read at once: a ruling may name many others, and only its quotations are needed."""
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
    """The part of another item that this item repeats, in words; empty if none was found."""
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
    content = _content(poison)
    common = content & set(mine)
    if most_of(len(common), len(content)):
        return f"{len(common)} of its {len(content)} telling words"
    return ""


class Marks(NamedTuple):
    """Numbers that two items share if one repeats something of the other; the texts cannot be read from them."""

    telling: set[int]
    """One that is shared is enough: of a value, of words in a row, of a picture or a record."""
    words: set[int]
    """Marks of single words: the number of shared ones counts."""
    phrase: int = 0
    """Number of words, if the text is short enough to count as a whole; 0 for others."""


def marks_of_poison(poison: Observation) -> Marks:
    """Marks that identify a poison. An item that repeats it (``reused_content``) shares some of them."""
    words, content = _words(poison.text), _content(poison.text)
    telling, short = _marks(poison), 1 < len(words) < RUN
    if short:
        telling.add(hash(words))
    counted = {hash((word,)) for word in content} if len(content) >= FEWEST else set()
    return Marks(telling, counted, len(words) if short else 0)


def marks_of_text(item: Observation, phrases: Iterable[int]) -> Marks:
    """Marks of a new item, to look up among the marks of poisons, whose short texts have ``phrases`` words."""
    words = _words(item.text)
    telling = _marks(item)
    for count in phrases:
        telling.update(hash(words[i : i + count]) for i in range(len(words) - count + 1))
    return Marks(telling, {hash((word,)) for word in words})


def most_of(shared: int, content: int) -> bool:
    """Whether so many telling words that are shared are most of a poison's."""
    return content >= FEWEST and shared >= MOST * content


def _marks(item: Observation) -> set[int]:
    """Numbers of everything that is enough by itself, but for short texts."""
    # no word is empty, so none of these is a phrase
    made = {hash(("", "value", value)) for value in _values(item.text)} | {hash(run) for run in _runs(item.text)}
    if item.image is not None:
        made.add(hash(("", "picture", item.image)))
    if item.fields is not None:
        parts = (getattr(item.fields, field.name) for field in fields(item.fields))
        made.add(hash(("", "record", *map(_number_of, parts))))
    return made


def _number_of(value: Any) -> int:
    """The same for parts of records that are equal."""
    if isinstance(value, Mapping):
        return hash(frozenset((key, _number_of(part)) for key, part in value.items()))
    if isinstance(value, list | tuple):
        return hash(tuple(map(_number_of, value)))
    return hash(value)


@remembered(_KEPT_BYTES, lambda words: 64 * len(words))
def _words(text: str) -> tuple[str, ...]:
    return tuple(_WORD.findall(unicodedata.normalize("NFKC", text).casefold()))


def _content(text: str) -> set[str]:
    return {w for w in _words(text) if len(w) > 3 and w not in _COMMON}


@remembered(_KEPT_BYTES, lambda runs: 200 * len(runs))
def _runs(text: str) -> frozenset[tuple[str, ...]]:
    spoken = tuple(word for word in _words(text) if not word.isdigit())  # dates are no phrases
    return frozenset(spoken[i : i + RUN] for i in range(len(spoken) - RUN + 1))


@remembered(_KEPT_BYTES, lambda values: 300 + 150 * len(values))
def _values(text: str) -> frozenset[str]:
    """Addresses, hosts and numbers long enough to mean one thing: the usual subject of a poisoned fact."""
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
    return _spans([event.body for event in ledger.events(subject=item, kinds=(EventKind.RULED,))])


def _spans(rulings: Sequence[object]) -> list[tuple[int, int]]:
    """The stretches that rulings on one item quote, oldest first. If the last ruling removed parts of the text, only
    those: the rest of the text is the note that is kept."""
    last = rulings[-1] if rulings else None
    if isinstance(last, dict) and last.get("ruling") == Ruling.REWRITE.label:
        removed = list(quoted_spans(last, Ruling.REWRITE.label))
        if removed:
            return removed
    return [span for ruled in rulings for span in quoted_spans(ruled)]


def quoted_spans(ruled: object, by: str = "") -> Iterator[tuple[int, int]]:
    """The stretches that one ruling quotes; ``by``: only in verdicts that say this."""
    verdicts = ruled.get("verdicts", ()) if isinstance(ruled, dict) else ()
    for verdict in verdicts:
        if by and verdict.get("ruling") != by:
            continue
        for evidence in verdict.get("evidence", ()):
            data = evidence.get("data", {})
            if evidence.get("kind") == "span" and data.get("view", "plain") == "plain" and "start" in data:
                yield int(data["start"]), int(data["end"])


def poison_of(item: str, ledger: Ledger) -> Observation:
    """The part of a held item that is the poison: the stretches that gates quoted, else all of it."""
    return _poison(ledger.item(item), recorded_spans(item, ledger))


def poisons_of(items: Sequence[str], ledger: Ledger) -> dict[str, Observation]:
    """The same for several, in few statements."""
    spans: dict[str, list[tuple[int, int]]] = {}
    for some in chunks(items, _RULINGS):
        rulings: dict[str, list[object]] = {}
        for event in ledger.events_about(some, (EventKind.RULED,)):
            rulings.setdefault(event.subject, []).append(event.body)
        spans.update((item, _spans(bodies)) for item, bodies in rulings.items())
    found = ledger.items(ids=items, any_state=True, limit=None)
    return {item.id: _poison(item, spans.get(item.id, [])) for item in found}


def _poison(observation: Observation, spans: Sequence[tuple[int, int]]) -> Observation:
    quoted = "\n".join(observation.text[start:end] for start, end in sorted(spans))
    return replace(observation, text=quoted) if quoted.strip() else observation
