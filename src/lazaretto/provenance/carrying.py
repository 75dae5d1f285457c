"""Items that carry something of others: the shared part of two, held items that a text repeats, echoes.

It tells items that were *influenced* by poison from those that *repeat* it: a note is poison when the forged number,
a sentence or most of the words are in it.
"""

from __future__ import annotations

import hashlib
import re
import threading
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from lazaretto.kept_texts import clear_when_forgotten, remembered
from lazaretto.ledger import Ledger
from lazaretto.ledger.driver import chunks
from lazaretto.ledger.effects import CHANGING, changes_of
from lazaretto.ledger.reader import Tail
from lazaretto.ledger.refs import marked
from lazaretto.types import Channel, Draft, EventKind, Observation, Ruling, SourceClass

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


# Finds the held items, read by a writer, that a new text repeats. Looked up by the text, not item by item.
#
# Held items are read once; numbers made of their values, phrases and words (``carrying.Marks``) are kept, sorted. The
# few items that share something with a new text are read and compared, so the answer is the same. An item whose state
# changes is read again, and once anything is erased, nothing is kept. Items that have no room in the index are read
# every time.

MOST_MARKS = 250_000
"""Twelve bytes each; a text of fifty words has some eighty."""
MOST_ITEMS = 50_000
"""Items of which it is remembered whether they are held."""
_BEHIND = 2_000
"""Events after which forgetting everything is cheaper than following them."""
_AT_ONCE = 8


class HeldIndex:
    """Marks of items that may be held. Safe to share between threads; every call blocks."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self._tail = Tail(ledger, CHANGING, back=0)
        self._lock = threading.Lock()
        self._empty()
        clear_when_forgotten(self)

    def _empty(self) -> None:
        self._is_held: dict[str, bool] = {}
        self._numbers: dict[str, int] = {}
        """Numbers of the items whose marks are kept."""
        self._content: dict[int, int] = {}
        """By an item's number, the number of telling words with marks."""
        self._phrases = set[int]()
        """How many words the short texts among them have."""
        self._next = 0
        self._keys, self._owners = np.empty(0, np.int64), np.empty(0, np.int32)
        """The marks in order, and the number of the item that each is of."""

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._empty()

    def __len__(self) -> int:
        return len(self._numbers)

    def held(self, items: Sequence[str]) -> set[str]:
        """The given items that are held."""
        with self._lock:
            if not (items or self._is_held or self._numbers):  # nothing is asked, and nothing kept that may be erased
                return set()
            self._follow()
            if len(self._is_held) > MOST_ITEMS:
                self._empty()
            lacking = [item for item in items if item not in self._is_held]
            states = self.ledger.states(lacking)
            self._is_held.update((item, item in states and states[item].held) for item in lacking)
            return {item for item in items if self._is_held[item]}

    def repeated_by(self, observation: Observation, held: Sequence[str], named: int) -> dict[str, str]:
        """Held items that a new item repeats, each with the repeated part in words (for the first ``named``)."""
        with self._lock:
            unkept = self._take_in(held)
            shared = self._shared(marks_of_text(observation, self._phrases))
            near = [item for item in held if self._numbers.get(item) in shared]
        found = {item: why for item, poison in unkept.items() if (why := reused_content(observation, poison))}
        for chunk in chunks(near, _AT_ONCE):
            if len(found) >= named:
                found |= dict.fromkeys(chunk, "")
                continue
            poisons = poisons_of(chunk, self.ledger)
            found |= {item: why for item in chunk if (why := reused_content(observation, poisons[item]))}
        return {item: found[item] for item in held if item in found}

    def _follow(self) -> None:
        """Drop items that have changed since the last time."""
        head = self.ledger.head().seq
        if not (self._is_held or self._numbers) or head - self._tail.seq > _BEHIND:
            self._empty()
            self._tail.skip_to(head)
            return
        changed = set[str]()
        try:
            for event in self._tail.new():
                if event.kind is EventKind.ERASED:
                    self._empty()
                changed.add(event.subject)
                changed.update(item for item, _, _ in changes_of(event.kind, event.subject, event.body))
        finally:
            self._drop(changed)  # pages read count as read, also if the store fails at the next one

    def _drop(self, items: Iterable[str]) -> None:
        gone = list[int]()
        for item in items:
            self._is_held.pop(item, None)
            number = self._numbers.pop(item, None)
            if number is not None:
                gone.append(number)
                del self._content[number]
        if gone:
            kept = ~np.isin(self._owners, gone)
            self._keys, self._owners = self._keys[kept], self._owners[kept]

    def _take_in(self, held: Sequence[str]) -> dict[str, Observation]:
        """Keep the marks of items that are not known yet; returns the poison of those for which there is no room."""
        lacking = [item for item in held if item not in self._numbers]
        if not lacking:
            return {}
        poisons = poisons_of(lacking, self.ledger)
        made = {item: marks_of_poison(poison) for item, poison in poisons.items()}
        sizes = {item: len(marks.telling) + len(marks.words) for item, marks in made.items()}
        if self._keys.size + sum(sizes.values()) > MOST_MARKS:
            wanted = set(held)
            self._drop([item for item in self._numbers if item not in wanted])
        left, added = MOST_MARKS - self._keys.size, dict[str, Marks]()
        for item in sorted(made, key=sizes.__getitem__):
            left -= sizes[item]
            if left < 0:
                break
            added[item] = made[item]
        self._insert(added)
        return {item: poisons[item] for item in lacking if item not in added}

    def _insert(self, added: dict[str, Marks]) -> None:
        keys, owners = list[int](), list[int]()
        for item, marks in added.items():
            number, self._next = self._next, self._next + 1
            self._numbers[item], self._content[number] = number, len(marks.words)
            self._phrases |= {marks.phrase} - {0}
            own = [*marks.telling, *marks.words]
            keys += own
            owners += [number] * len(own)
        all_keys = np.concatenate([self._keys, np.array(keys, np.int64)])
        order = np.argsort(all_keys, kind="stable")
        self._keys = all_keys[order]
        self._owners = np.concatenate([self._owners, np.array(owners, np.int32)])[order]

    def _shared(self, asked: Marks) -> set[int]:
        """The numbers of items that share enough marks to be compared."""
        shared = set(self._owners_of(asked.telling).tolist())
        numbers, counts = np.unique(self._owners_of(asked.words), return_counts=True)
        pairs = zip(numbers.tolist(), counts.tolist(), strict=True)
        return shared | {number for number, count in pairs if most_of(count, self._content[number])}

    def _owners_of(self, marks: set[int]) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
        asked = np.fromiter(marks, np.int64, len(marks))
        starts, ends = (np.searchsorted(self._keys, asked, side) for side in ("left", "right"))
        there = ends > starts
        rows = zip(starts[there].tolist(), ends[there].tolist(), strict=True)
        return np.concatenate([self._owners[:0], *(self._owners[start:end] for start, end in rows)])


# A text that repeats a tainted item, nearly word for word, is tainted too, whether its writer had read it or not.
#
# A text that is held only for its sources looks harmless, so the same words under another name would pass. It is kept
# by a few hashes of its word pairs (MinHash) among the ledger's fingerprints; texts that share some are compared with
# it. A more trusted source may say the same.


def _digest(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=8).digest(), "big") >> 3


KIND = "taint"
"""The kind of these fingerprints in the ledger."""
SHORTEST = 40
"""Shortest text, in characters, that counts: many writers use the same shorter ones."""
ALIKE = 0.7
"""The share of word pairs that two texts have in common from which one repeats the other."""
_BANDS, _ROWS = 16, 2
_MOST_LETTERS, _MOST_WORDS = 20_000, 2_000
_CANDIDATES = 20
_COPIES = 8
_PRIME = np.uint64((1 << 61) - 1)
_SEEDS = np.array([[_digest(f"{kind}{i}")] for kind in "ab" for i in range(_BANDS * _ROWS)], np.uint64).reshape(
    2, -1, 1
)
_PLAIN_WORD = re.compile(r"\w+")
_CHANNELS = (Channel.MEMORY, Channel.MESSAGE)
_AGENTS_WORDS = (SourceClass.AGENT_MESSAGE, SourceClass.MODEL_INFERENCE)
Trust = Mapping[SourceClass, float]


def _pairs(text: str) -> frozenset[str]:
    """The pairs of neighbouring words; of letters, where a text has few words."""
    start = unicodedata.normalize("NFKC", text[:_MOST_LETTERS])
    seen = "".join(c for c in start if unicodedata.category(c) != "Cf").casefold()
    words = _PLAIN_WORD.findall(seen)[:_MOST_WORDS]
    if len(words) < 4:
        letters = "".join(words)[:_MOST_WORDS]
        return frozenset(letters[i : i + 3] for i in range(len(letters) - 2))
    return frozenset(f"{first} {two}" for first, two in pairwise(words))


def keys_of(text: str) -> list[str]:
    """The fingerprints of a text; none for a short one."""
    pairs = _pairs(text) if len(text.strip()) >= SHORTEST else frozenset()
    if len(pairs) < 3:
        return []
    hashed = np.array([_digest(pair) for pair in pairs], np.uint64)
    with np.errstate(over="ignore"):
        least = ((hashed[None, :] * _SEEDS[0] + _SEEDS[1]) % _PRIME).min(axis=1)
    return [
        f"{band}:" + "-".join(f"{int(v):x}" for v in rows) for band, rows in enumerate(least.reshape(_BANDS, _ROWS))
    ]


def alike(text: str, other: str) -> bool:
    """Whether two texts are nearly the same, word for word."""
    ours, theirs = _pairs(text), _pairs(other)
    return bool(ours) and len(ours & theirs) >= ALIKE * len(ours | theirs)


def marks(items: Sequence[Observation]) -> list[Draft]:
    """The events by which tainted items are known again."""
    found = ((item, keys_of(item.text)) for item in items)
    return [marked([(KIND, key) for key in keys], item.id, KIND) for item, keys in found if keys]


def echoed(observation: Observation, ledger: Ledger, trust: Trust) -> tuple[str, ...]:
    """The tainted items, held now, that a new item repeats; none where it may say so by right."""
    if observation.channel not in _CHANNELS or not (keys := keys_of(observation.text)):
        return ()
    ids = list(dict.fromkeys(known.item for known in ledger.find_fingerprints(KIND, keys)))[:_CANDIDATES]
    if not ids:
        return ()
    states = ledger.states(ids)
    found = ledger.items(ids=[item for item in ids if item in states and states[item].held], any_state=True, limit=None)
    near = [item for item in found if alike(observation.text, item.text) and _no_more(observation, item, trust)]
    return tuple(item.id for item in near if not _originals(item, ledger))


def copies(item: Observation, ledger: Ledger, trust: Trust) -> tuple[str, ...]:
    """Memories in use that repeat an item which was just found to be tainted, and were written after it."""
    if not keys_of(item.text):
        return ()
    near = [memory for memory, _ in ledger.search(item.text, limit=_COPIES) if alike(memory.text, item.text)]
    if any(memory.time < item.time for memory in near):
        return ()  # the text is older than the tainted item: that one is the copy
    return tuple(memory.id for memory in near if memory.id != item.id and _no_more(memory, item, trust))


def links(item: str, found: Sequence[str]) -> list[Draft]:
    """The events that link items to those they repeat, so that they are released with them."""
    return [Draft(EventKind.INFLUENCED, source, body={"target": item}) for source in found]


def _originals(item: Observation, ledger: Ledger) -> list[str]:
    """Older memories in use with the same text: an item that repeats them repeats something honest."""
    return [
        memory.id
        for memory, _ in ledger.search(item.text, limit=_COPIES)
        if memory.time < item.time and alike(memory.text, item.text)
    ]


def _no_more(item: Observation, other: Observation, trust: Trust) -> bool:
    """Whether an item is trusted no more than another; agents' own words count alike."""
    return trust[item.source] <= max(trust[other.source], *(trust[source] for source in _AGENTS_WORDS))
