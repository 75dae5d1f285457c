"""What an agent has in mind: everything it read since its task began, each with its trust along lineage.

It follows the ledger, so it is right whichever process recorded the reading. What a thing was made from is in mind with
it: a message that passes on the user's words names the user's values, whoever passes it on.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from lazaretto.actions.values import accounts_in, addresses_in, numbers_in, plain_form, stands_in
from lazaretto.ledger import Ledger
from lazaretto.policy import Policy
from lazaretto.provenance.graph import ProvenanceGraph
from lazaretto.types import Observation, SourceClass

MOST_ITEMS = 10_000
"""Items whose words are kept per agent; of older ones only the lowest trust is."""
MOST_CHARACTERS = 100_000
"""Of one item that are searched for values."""
_MOST_SOURCES = 64
"""Items that one item was made from that are looked into, the nearest first."""
_TRUSTED = 0.6
_MOST_LOOKED_AT = 256
"""Items that share a word with a value and are read for it, the most trusted first."""


@dataclass(frozen=True, slots=True)
class Known:
    """One item in mind."""

    id: str
    trust: float
    path: tuple[str, ...]
    """From the item back to the source that sets its trust."""
    source: SourceClass
    time: float
    text: str
    """In the form in which values are looked for."""
    said: str
    """As it was written; only of what a person said."""
    addresses: tuple[str, ...] = ()
    """Of what is trusted: the accounts, addresses and hosts it names."""


class Mind:
    """What one agent has in mind. Not safe to share between threads: the caller holds a lock."""

    def __init__(self, ledger: Ledger, graph: ProvenanceGraph, policy: Policy, held: set[str]) -> None:
        """``held``: items that are held now, kept up by the caller; what is held is trusted by nobody."""
        self._ledger, self._graph, self._policy, self._held = ledger, graph, policy, held
        self._table = policy.trust.table()
        self._read: dict[str, Known] = {}
        self._behind: dict[str, Known] = {}
        self._words: dict[str, set[str]] = {}
        self._accounts: dict[str, set[str]] = {}
        self._waiting: dict[str, None] = {}
        self._lowest_dropped: Known | None = None

    # what comes in

    def add(self, items: Iterable[str]) -> None:
        """Items that the agent read; they are looked into when something is asked."""
        self._waiting.update(dict.fromkeys(item for item in items if item not in self._read))

    def relearn(self) -> None:
        """Look into everything again: what something was made from has changed."""
        self._waiting = {**dict.fromkeys(self._read), **self._waiting}
        self._read, self._behind, self._words, self._accounts = {}, {}, {}, {}

    def settle(self) -> None:
        """Take in what waits."""
        if not self._waiting:
            return
        fresh = list(self._waiting)
        self._waiting = {}
        states = self._ledger.states(fresh)
        self._held.update(item for item in fresh if item in states and states[item].held)
        fresh = [item for item in fresh if item in states]
        behind = self._sources(fresh)
        self._read.update(self._looked_into(fresh))
        lifted = [item for item in behind if item not in self._read and item not in self._behind]
        least = min((one.trust for one in self._read.values()), default=0.0)
        self._behind.update(self._looked_into(lifted, least))  # what is trusted no more names nobody's value
        while len(self._read) > MOST_ITEMS:
            self._drop(next(iter(self._read)))

    def _sources(self, items: list[str]) -> list[str]:
        found: dict[str, None] = {}
        for item in items:
            found.update(dict.fromkeys(step.id for step in self._graph.sources(item, limit=_MOST_SOURCES)))
        return list(found)

    def _looked_into(self, items: list[str], above: float = -1.0) -> dict[str, Known]:
        trusts = self._graph.trusts(items, self._table)
        trusted = [item for item in items if trusts[item].value > above]
        known: dict[str, Known] = {}
        for one in self._ledger.items(ids=trusted, hidden=True, limit=None) if trusted else ():
            trust = trusts[one.id]
            known[one.id] = self._known(one, trust.value, trust.path)
            self._index(known[one.id], one)
        return known

    def _known(self, one: Observation, trust: float, path: tuple[str, ...]) -> Known:
        text = one.text[:MOST_CHARACTERS]
        said = text if one.source is SourceClass.DIRECT_USER else ""
        addresses = tuple(addresses_in(text)) if trust >= _TRUSTED else ()
        return Known(one.id, trust, path, one.source, one.time, plain_form(text), said, addresses)

    def _index(self, known: Known, one: Observation) -> None:
        for word in words_in(known.text):
            self._words.setdefault(word, set()).add(known.id)
        for account in accounts_in(one.text[:MOST_CHARACTERS]):
            self._accounts.setdefault(account, set()).add(known.id)

    def _drop(self, item: str) -> None:
        gone = self._read.pop(item)
        if self._lowest_dropped is None or gone.trust < self._lowest_dropped.trust:
            self._lowest_dropped = gone
        for index in (self._words, self._accounts):
            for word in [word for word, owners in index.items() if item in owners]:
                index[word].discard(item)

    # what is asked

    def __len__(self) -> int:
        return len(self._read)

    def trust_of(self, known: Known) -> float:
        """The trust of an item now."""
        return 0.0 if known.id in self._held else known.trust

    def least_trusted(self) -> tuple[float, Known | None]:
        """The lowest trust in mind and the item that sets it. Nothing in mind: the model is on its own."""
        everything = [*self._read.values(), *([self._lowest_dropped] if self._lowest_dropped else [])]
        if not everything:
            return self._table[SourceClass.MODEL_INFERENCE], None
        lowest = min(everything, key=lambda one: (self.trust_of(one), one.id))
        return self.trust_of(lowest), lowest

    def weakest(self, count: int) -> list[str]:
        """The least trusted items in mind."""
        return [one.id for one in heapq.nsmallest(count, self._read.values(), key=lambda k: (self.trust_of(k), k.id))]

    def requests(self, least: float) -> list[Known]:
        """What people asked for, of those that are trusted enough; the newest first."""
        people = [one for one in self._everything().values() if one.said and self.trust_of(one) >= least]
        return sorted(people, key=lambda one: -one.time)

    def find(self, form: str, account: str) -> list[Known]:
        """Items that name a value, the most trusted first."""
        everything, found = self._everything(), dict[str, None]()
        words = words_in(form)
        if account:  # as a whole: the beginning of an account is another account
            found.update(dict.fromkeys(sorted(self._accounts.get(account, ()))))
        elif words:
            owners: Collection[str] = min((self._words.get(word, frozenset()) for word in words), key=len)
            near = (
                heapq.nlargest(_MOST_LOOKED_AT, owners, key=lambda item: self.trust_of(everything[item]))
                if owners
                else []
            )
            found.update(dict.fromkeys(item for item in near if stands_in(form, everything[item].text)))
        known = [everything[item] for item in found if item in everything]
        return sorted(known, key=lambda one: (-self.trust_of(one), one.time, one.id))

    def addresses(self, least: float) -> list[str]:
        """The accounts, addresses and hosts that trusted items name."""
        trusted = (one for one in self._everything().values() if one.addresses and self.trust_of(one) >= least)
        return list(dict.fromkeys(address for one in trusted for address in one.addresses))

    def find_number(self, number: float) -> list[Known]:
        """Items that name an amount, the most trusted first."""
        known = [one for one in self._everything().values() if number in numbers_in(one.text)]
        return sorted(known, key=lambda one: (-self.trust_of(one), one.time, one.id))

    def _everything(self) -> Mapping[str, Known]:
        return {**self._behind, **self._read}


def words_in(text: str) -> set[str]:
    """The words and numbers of a text."""
    return {*_words(text)}


def _words(text: str) -> list[str]:
    return "".join(c if c.isalnum() else " " for c in text).split()
