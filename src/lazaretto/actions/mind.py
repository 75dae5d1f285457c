"""The items that an agent has in mind: all it read since its task began, each with its trust along its lineage.

It follows the ledger, so every process knows the same. The sources of an item are in mind with it: a message that
passes on the user's words names the user's values.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from lazaretto.actions.listing import beside, longer_texts, speaks_of
from lazaretto.actions.values import (
    account_form,
    accounts_in,
    addresses_in,
    looks_like,
    numbers_in,
    plain_form,
    stands_in,
    value_form,
)
from lazaretto.ledger import Ledger
from lazaretto.policy import Policy
from lazaretto.provenance.graph import ProvenanceGraph
from lazaretto.reading.normalization import fold
from lazaretto.types import Observation, SourceClass

MOST_ITEMS = 10_000
"""Items whose words are kept per agent; of older ones only the lowest trust is."""
MOST_CHARACTERS = 100_000
"""Characters of one item that are searched for values."""
_MOST_SOURCES = 64
"""Items that one item was made from that are looked into, the nearest first."""
_TRUSTED = 0.6
_SENTENCES = re.compile(r"(?<=[a-z0-9])\.(?=[A-Z][a-z])")
"""A place where a person forgot the space between two sentences."""
_WORD = re.compile(r"[^\W_]+")
_MOST_LOOKED_AT = 256
"""Items that share a word with a value and are read for it, the most trusted first."""


@dataclass(frozen=True, slots=True)
class Known:
    """One item in mind."""

    id: str
    trust: float
    path: tuple[str, ...]
    """The path from the item back to the source that sets its trust."""
    source: SourceClass
    time: float
    text: str
    """The text in the form in which values are looked for."""
    raw_text: str
    """The text as it was written; only of a person's texts."""
    addresses: tuple[str, ...] = ()
    """For trusted items: the accounts, addresses and hosts in the text."""


class Mind:
    """The items that one agent has in mind. Not safe to share between threads: the caller holds a lock."""

    def __init__(self, ledger: Ledger, graph: ProvenanceGraph, policy: Policy, held: set[str]) -> None:
        """``held``: items that are held now, kept up by the caller; held items have no trust."""
        self._ledger, self._graph, self._policy, self._held = ledger, graph, policy, held
        self._table = policy.trust.table()
        self._waiting: dict[str, None] = {}
        self._lowest_dropped: Known | None = None
        self._listed: dict[str, frozenset[str]] = {}
        self._lists: dict[str, set[str]] = {}
        self._spoken_of: dict[str, frozenset[str]] = {}
        self._clear()

    def _clear(self) -> None:
        self._known: dict[str, Known] = {}
        self._read: dict[str, None] = {}
        self._by_trust: list[tuple[float, str]] = []
        self._people: list[Known] = []
        self._looks: dict[str, list[tuple[str, Known]]] | None = None
        self._words: dict[str, set[str]] = {}
        self._accounts: dict[str, set[str]] = {}
        self._numbers: dict[float, set[str]] = {}
        self._longer: dict[str, str] = {}
        self._beside: dict[str, dict[str, tuple[str, ...]]] = {}

    # input

    def add(self, items: Iterable[str]) -> None:
        """Items that the agent read; they are looked into when something is asked."""
        self._waiting.update(dict.fromkeys(item for item in items if item not in self._read))

    def add_listed(self, item: str, values: frozenset[str], spoken_of: frozenset[str] = frozenset()) -> None:
        """Note a directory's answer: the item, its whole values by their fingerprints, and those of them that a longer
        text of the same answer speaks of."""
        self._listed[item], self._spoken_of[item] = values, spoken_of
        for value in values:
            self._lists.setdefault(value, set()).add(item)

    def relearn(self) -> None:
        """Look into everything again: the sources of an item have changed."""
        self._waiting = {**self._read, **self._waiting}
        self._clear()

    def settle(self) -> None:
        """Take in the items that wait."""
        if not self._waiting:
            return
        fresh, self._waiting = list(self._waiting), {}
        states = self._ledger.states(fresh)
        self._held.update(item for item in fresh if item in states and states[item].held)
        fresh = [item for item in fresh if item in states]
        behind = self._graph.sources_of(fresh, limit=_MOST_SOURCES)
        for known in self._looked_into(fresh):
            self._read[known.id] = None
            bisect.insort(self._by_trust, (known.trust, known.id))
        least = self._by_trust[0][0] if self._by_trust else 0.0
        self._looked_into([item for item in behind if item not in self._known], least)  # others name nobody's value
        while len(self._read) > MOST_ITEMS:
            self._drop(next(iter(self._read)))

    def _looked_into(self, items: list[str], above: float = -1.0) -> list[Known]:
        trusts = self._graph.trusts(items, self._table) if items else {}
        trusted = [item for item in items if trusts[item].value > above]
        found = self._ledger.items(ids=trusted, any_state=True, limit=None) if trusted else []
        return [self._index(item, trusts[item.id].value, trusts[item.id].path) for item in found]

    def _index(self, item: Observation, trust: float, path: tuple[str, ...]) -> Known:
        text = item.text[:MOST_CHARACTERS]
        raw_text = text if item.source is SourceClass.DIRECT_USER else ""
        addresses = tuple(addresses_in(text)) if trust >= _TRUSTED else ()
        form = plain_form(f"{text}\n{parted}" if (parted := _SENTENCES.sub(". ", raw_text)) != raw_text else text)
        known = Known(item.id, trust, path, item.source, item.time, form, raw_text, addresses)
        self._known[item.id] = known
        if raw_text:
            self._people.append(known)
        if addresses and self._looks is not None:
            for address in addresses:
                self._looks.setdefault(looks_like(address), []).append((address, known))
        for word in words_in(known.text):
            self._words.setdefault(word, set()).add(known.id)
        for account in accounts_in(text):
            self._accounts.setdefault(account, set()).add(known.id)
        for number in numbers_in(known.text):
            self._numbers.setdefault(number, set()).add(known.id)
        return known

    def _drop(self, item: str) -> None:
        del self._read[item]
        gone = self._known.pop(item)
        self._longer.pop(item, None)
        self._beside.pop(item, None)
        del self._by_trust[bisect.bisect_left(self._by_trust, (gone.trust, item))]
        if self._lowest_dropped is None or gone.trust < self._lowest_dropped.trust:
            self._lowest_dropped = gone
        self._people = [person for person in self._people if person.id != item]
        self._looks = None
        for word in words_in(gone.text):
            self._words[word].discard(item)
        for number in numbers_in(gone.text):
            self._numbers[number].discard(item)
        for owners in self._accounts.values():
            owners.discard(item)

    # queries

    def __len__(self) -> int:
        return len(self._read)

    def has_read(self, item: str) -> bool:
        """Whether an item is in mind as something that was read; of very much that was read, the oldest counts so
        too."""
        return item in self._read or len(self._read) >= MOST_ITEMS

    def trust_of(self, known: Known) -> float:
        """The trust of an item now."""
        return 0.0 if known.id in self._held else known.trust

    def trust_of_listed(self, known: Known, value: str) -> float | None:
        """How far a value is trusted in a directory's answer: as the crew's own where it is a whole value of it, as a
        stranger's if it stands in a longer text. None if the item is no directory's answer."""
        if known.id not in self._listed:
            return None
        if value not in self._listed[known.id] or len(known.path) > 1:
            return self.trust_in_words(known)
        own = 0.0 if known.id in self._held else self._table[SourceClass.TOOL_OUTPUT_INTERNAL]
        return max(self.trust_of(known), own)

    def trust_in_words(self, known: Known) -> float:
        """The trust of an item's longer texts; those in a directory's answer count as a stranger's."""
        trust = self.trust_of(known)
        return min(trust, self._table[SourceClass.TOOL_OUTPUT_EXTERNAL]) if known.id in self._listed else trust

    def listed_in(self, value: str) -> list[Known]:
        """Directories' answers of which a value, by its fingerprint, is a whole value."""
        return [self._known[item] for item in self._lists.get(value, ()) if item in self._known]

    def spoken_for(self, value: str, mark: str, below: float, repeats: Callable[[Known], bool]) -> Known | None:
        """The item that speaks of a value in running words, among less trusted items that do not only repeat their
        request; ``mark`` is its fingerprint."""
        for known in self.find(value_form(value), account_form(value)):
            if repeats(known):
                continue
            if known.id in self._listed:
                if mark in self._spoken_of[known.id]:
                    return known
            elif self.trust_of(known) < below and speaks_of(self._longer_texts(known), value):
                return known
        return self._spoken_for_by_name(value, mark, below)

    def _spoken_for_by_name(self, value: str, mark: str, below: float) -> Known | None:
        """The item that speaks of the thing behind a value by another name from a directory, if no person
        does. Look-alikes are forgiven: here they gain nothing."""
        form, names = value_form(value), dict[str, None]()
        for listed in self.listed_in(mark):
            if listed.id not in self._beside:
                self._beside[listed.id] = beside(self.words_of(listed.id))
            names |= dict.fromkeys(map(fold, self._beside[listed.id].get(form, ())))
        if not names or any(
            _says(fold(person.text), names) for person in self._people if self.trust_of(person) >= below
        ):
            return None
        for name in names:
            for item in min((self._words.get(word, set[str]()) for word in name.split()), key=len):
                known = self._known[item]
                if item in self._listed or self.trust_of(known) >= below:
                    continue
                if _says(fold(self._longer_texts(known)), [name]):
                    return known
        return None

    def _longer_texts(self, known: Known) -> str:
        if known.id not in self._longer:
            self._longer[known.id] = longer_texts(self.words_of(known.id))
        return self._longer[known.id]

    def known(self, item: str) -> Known | None:
        """An item, where it is in mind."""
        return self._known.get(item)

    def words_of(self, item: str) -> str:
        """An item as it was written."""
        if item in self._known and self._known[item].raw_text:
            return self._known[item].raw_text
        found = self._ledger.items(ids=[item], any_state=True, limit=None)
        return found[0].text[:MOST_CHARACTERS] if found else ""

    def trusted_with(self, words: Collection[str], least: float) -> list[Known]:
        """Items with all of some words, of those that are trusted enough; the newest first."""
        owners = sorted((self._words.get(word, set()) for word in words), key=len)
        both = set.intersection(*owners) if owners else set[str]()
        trusted = [known for item in both if self.trust_of(known := self._known[item]) >= least]
        return sorted(trusted, key=lambda known: (-known.time, known.id))

    def least_trusted(self) -> tuple[float, Known | None]:
        """The lowest trust in mind and the item that sets it. Nothing in mind: the model is on its own."""
        lowest = [self._known[item] for item in self.weakest(1)]
        lowest += [self._lowest_dropped] if self._lowest_dropped is not None else []
        if not lowest:
            return self._table[SourceClass.MODEL_INFERENCE], None
        weakest = min(lowest, key=lambda known: (self.trust_of(known), known.id))
        return self.trust_of(weakest), weakest

    def weakest(self, count: int) -> list[str]:
        """The least trusted items in mind."""
        few, many = sorted((self._held, self._read.keys()), key=len)
        held = [item for item in few if item in many]
        return list(dict.fromkeys([*held, *(item for _, item in self._by_trust[:count])]))[:count]

    def requests(self, least: float) -> list[Known]:
        """Requests of people that are trusted enough; the newest first."""
        people = [person for person in self._people if self.trust_of(person) >= least]
        return sorted(people, key=lambda person: -person.time)

    def find(self, form: str, account: str) -> list[Known]:
        """Items that name a value, the most trusted first."""
        if account:  # as a whole: the beginning of an account is another account
            return self._sorted(self._accounts.get(account, ()))
        words = words_in(form)
        if not words:
            return []
        owners: Collection[str] = min((self._words.get(word, frozenset()) for word in words), key=len)
        return [known for known in self._sorted(owners)[:_MOST_LOOKED_AT] if stands_in(form, known.text)]

    def find_number(self, number: float) -> list[Known]:
        """Items that name an amount, the most trusted first."""
        return self._sorted(self._numbers.get(number, ()))

    def _sorted(self, items: Iterable[str]) -> list[Known]:
        known = [self._known[item] for item in items]
        return sorted(known, key=lambda item: (-self.trust_of(item), item.time, item.id))

    def that_look_like(self, value: str, least: float) -> list[str]:
        """The accounts, addresses and hosts of trusted items that a reader takes for a value."""
        if self._looks is None:
            self._looks = {}
            for known in self._known.values():
                for address in known.addresses:
                    self._looks.setdefault(looks_like(address), []).append((address, known))
        found = self._looks.get(looks_like(value), ())
        return list(dict.fromkeys(address for address, known in found if self.trust_of(known) >= least))


def _says(text: str, names: Iterable[str]) -> bool:
    """Whether a text has one of some names, all of them folded."""
    return any(f" {name} " in f" {text} " for name in names)


def words_in(text: str) -> set[str]:
    """The words and numbers of a text."""
    return {*_WORD.findall(text)}
