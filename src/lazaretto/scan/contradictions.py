"""Contradictions within a store of which only the texts are known.

Pairs of claims that oppose each other in form (``claims.opposed``), if the relation model is sure. Claims wait on disk;
memory holds the vocabulary, and the claims about the same names and occasions.
"""

from __future__ import annotations

import hashlib
import sqlite3
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby

from lazaretto.errors import InputError
from lazaretto.gates.memory.claims.comparison import FEATURES, compared, differences
from lazaretto.gates.memory.claims.extraction import Claim, claims_of, read_claim
from lazaretto.gates.memory.claims.relation import shared_relation_model
from lazaretto.gates.memory.claims.values import STRONG
from lazaretto.models.minilm import claim_minilm

ALIKE = 0.6
"""Share of their content words that two claims must have in common."""
SURE = 0.8
"""Least probability, by the relation model, that both cannot hold."""
_MOST_PARTNERS = 8
"""Partners of one claim that are compared: templates fill stores with sentences that differ in a word."""
_MOST_IN_BLOCK = 400
"""Claims that share their rarest words, at most: beyond that they are a form, and no statement."""
_AT_ONCE = 256
_TABLES = """
PRAGMA journal_mode = OFF;
CREATE TABLE texts (number INTEGER PRIMARY KEY, digest BLOB UNIQUE);
CREATE TABLE claims (
  number INTEGER PRIMARY KEY, text INTEGER, about TEXT, words BLOB, quote BLOB, record BLOB, place BLOB, line INTEGER);
"""


@dataclass(frozen=True, slots=True)
class KeptClaim:
    """A claim, and where it stands."""

    text: int
    """Number of the text that makes it, in the order in which texts came."""
    quote: str
    record: str
    place: str
    line: int | None


@dataclass(frozen=True, slots=True)
class Contradiction:
    """Two claims that cannot both hold."""

    new: KeptClaim
    old: KeptClaim
    strength: float
    differs_in: str


class StoreClaims:
    """The claims of a store, in a temporary database that ends with the process; each text counts once."""

    def __init__(self) -> None:
        self._database = sqlite3.connect("")  # a file without a name, once it is larger than a small cache
        self._database.executescript(_TABLES)
        self.frequency: Counter[str] = Counter()
        """Frequency of each word, over all claims."""

    def add(
        self, digest: bytes, text: str, marks: Iterable[ClaimMark], record: str = "", place: str = "",
        line_of: Callable[[int], int | None] = lambda _start: None,
    ) -> None:  # fmt: skip
        """Keep the claims of a text; ``line_of`` tells on which line something stands."""
        try:
            fresh = self._database.execute("INSERT OR IGNORE INTO texts (digest) VALUES (?)", (digest,))
            if not fresh.rowcount:
                return
            for mark in marks:
                self.frequency.update(map(sys.intern, mark.words))
                texts = ("\n".join(mark.words), text[mark.start : mark.end], record, place)
                row = (fresh.lastrowid, mark.about, *map(_written, texts), line_of(mark.start))
                self._database.execute("INSERT INTO claims VALUES (NULL, ?, ?, ?, ?, ?, ?, ?)", row)
        except sqlite3.OperationalError as error:
            fix = "Free some room, name another folder with TMPDIR, or scan with --no-contradictions"
            raise InputError("scan", f"the claims to compare cannot be stored ({error})", fix) from None

    def __getitem__(self, number: int) -> KeptClaim:
        query = "SELECT text, quote, record, place, line FROM claims WHERE number = ?"
        text, quote, record, place, line = self._database.execute(query, (number,)).fetchone()
        return KeptClaim(text, _read(quote), _read(record), _read(place), line)

    def groups(self) -> Iterator[list[tuple[int, int, tuple[str, ...]]]]:
        """Number, text and words of the claims that are about the same, as they came; group after group."""
        rows = self._database.execute("SELECT about, number, text, words FROM claims ORDER BY about, number")
        for _, several in groupby(rows, lambda row: row[0]):
            yield [
                (number, text, tuple(map(sys.intern, _read(words).split("\n")))) for _, number, text, words in several
            ]

    def close(self) -> None:
        """Let the file go."""
        self._database.close()


def _written(text: str) -> bytes:
    """Names of files and texts may hold characters that are not Unicode."""
    return text.encode("utf-8", "surrogatepass")


def _read(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogatepass")


def contradictions(kept: StoreClaims, step: Callable[[int], None] = lambda _: None) -> list[Contradiction]:
    """The pairs of a store that contradict each other, strongest first."""
    pairs = [pair for group in kept.groups() for pair in _candidates(kept, group)]
    pairs.sort(key=lambda pair: (pair[1], -pair[0]))
    found: list[Contradiction] = []
    for place in range(0, len(pairs), _AT_ONCE):
        part = [(kept[a], kept[b]) for a, b in pairs[place : place + _AT_ONCE]]
        claims = [(_claim(a), _claim(b)) for a, b in part]
        texts = list(dict.fromkeys(claim.text for pair in claims for claim in pair))
        vectors = dict(zip(texts, claim_minilm().embed_texts(texts), strict=True))
        asked = [(old, new, float(vectors[old.text] @ vectors[new.text])) for old, new in claims]
        answers = shared_relation_model().compare(asked, [(SURE,)] * len(asked))
        for (first, second), (old, new, _), answer in zip(part, asked, answers, strict=True):
            if answer.conflict >= SURE:
                found.append(Contradiction(second, first, round(answer.conflict, 3), differs_in(old, new)))
        step(len(part))
    return sorted(found, key=lambda pair: (-pair.strength, pair.new.text, pair.old.text))


def _claim(kept: KeptClaim) -> Claim:
    return read_claim(kept.quote.strip()[:600])


def _candidates(kept: StoreClaims, group: list[tuple[int, int, tuple[str, ...]]]) -> Iterator[tuple[int, int]]:
    """Pairs (older, newer) of a group that share enough words and oppose each other in form.

    Sets that share a part ``ALIKE`` of their words share one of their rarest (prefix filtering), so only those are
    looked at.
    """
    blocks: defaultdict[str, list[int]] = defaultdict(list)
    for at, (number, text, words) in enumerate(group):
        ordered = sorted(words, key=lambda word: (kept.frequency[word], word))
        rarest = ordered[: len(ordered) - int(-(-ALIKE * len(ordered) // 1)) + 1]
        near = {other for word in rarest for other in blocks.get(word, ())[-_MOST_IN_BLOCK:]}
        partners = 0
        mine, claim = frozenset(words), None
        for other in sorted(near, reverse=True):
            other_number, other_text, theirs = group[other]
            shared = len(mine.intersection(theirs))
            if other_text == text or shared < ALIKE * (len(mine) + len(theirs) - shared):
                continue
            claim = claim or _claim(kept[number])
            if opposed(_claim(kept[other_number]), claim):
                yield other_number, number
                partners += 1
                if partners == _MOST_PARTNERS:
                    break
        for word in rarest:
            blocks[word].append(at)


# The claims of a text as a scan keeps them, and when two of them oppose each other in form.
#
# Without provenance a correction looks like a lie, and most notes that differ are about different things. So only pairs
# count that say nearly the same words of the same names and cannot both hold: another account, address, amount or
# share, or the opposite permission or polarity.

_FEWEST_WORDS = 2
_EXACT = STRONG | {"money", "percent"}
_AMOUNTS = frozenset({"quantity", "time"})
"""Exact too where money, access or safety is concerned and every other word is the same: a dose, an opening hour."""
_TELLING = frozenset({"number", "quantity", "year", "date", "time", "reference"})
"""Kinds of values that distinguish occasions. A reference is a ticket, an order, a case."""


@dataclass(frozen=True, slots=True)
class ClaimMark:
    """A claim: its place, its words, and its subject."""

    start: int
    end: int
    words: tuple[str, ...]
    about: str
    """Stands for its names, and for the numbers, dates and references that always tell occasions apart: claims that
    differ in them are never opposed, so they are not even compared."""


def marks_of(text: str) -> tuple[ClaimMark, ...]:
    """The claims of a text, without questions and claims too short to be about one thing."""
    return tuple(
        ClaimMark(claim.start, claim.end, tuple(sorted(claim.subject)), _about(claim))
        for claim in claims_of(text)
        if len(claim.subject) >= _FEWEST_WORDS and not claim.text.rstrip().endswith("?")
    )


def opposed(old: Claim, new: Claim) -> bool:
    """Whether two claims of the same names oppose each other in a value of an exact kind, permission or polarity."""
    if _names(old) != _names(new):
        return False
    same_words = old.words == new.words
    exact = _EXACT | (_AMOUNTS if same_words and old.sensitive and new.sensitive else set())
    kinds = {difference.kind for difference in differences(old, new)}
    if kinds - exact or _occasions(old, exact) != _occasions(new, exact):
        return False  # another day, number or amount: another occasion
    if kinds:
        return same_words or len(old.words & new.words) >= 0.8 * len(old.words | new.words)
    features = dict(zip(FEATURES, compared(old, new), strict=True))
    return bool(features["permission_opposed"] or features["negation_differs"] or features["opposites"])


def _names(claim: Claim) -> frozenset[str]:
    return frozenset(v.norm for v in claim.values if v.kind == "name")


def _about(claim: Claim) -> str:
    """The same for two claims wherever ``opposed`` finds their names and occasions the same."""
    key = (sorted(_names(claim)), sorted(_occasions(claim, _EXACT | _AMOUNTS)))
    return hashlib.blake2b(repr(key).encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def _occasions(claim: Claim, exact: set[str] | frozenset[str]) -> set[tuple[str, str]]:
    """The numbers, dates and references of a claim that may tell occasions apart."""
    return {(v.kind, v.norm) for v in claim.values if v.kind in _TELLING and v.kind not in exact}


def differs_in(old: Claim, new: Claim) -> str:
    """The difference between two opposed claims."""
    kinds = [difference.kind for difference in differences(old, new)]
    if kinds:
        return ", ".join(kinds)
    return "permission" if old.permission != new.permission else "polarity"
