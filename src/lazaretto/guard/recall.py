"""Recall: which memories an agent may use, by words and by meaning, and the record that it read them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from lazaretto import kept_texts
from lazaretto.errors import InputError, UnknownItem
from lazaretto.gates.engine.runner import GateSet
from lazaretto.gates.memory.claims.conflicts import conflicts_of
from lazaretto.ledger import Ledger
from lazaretto.ledger.refs import check_ref
from lazaretto.names import check_ids
from lazaretto.policy import Policy
from lazaretto.provenance.graph import ProvenanceGraph
from lazaretto.types import Channel, Draft, EventKind, Observation, Ref, SourceClass

_RANKS = 60.0
"""How little the first ranks stand out when two rankings are joined (reciprocal rank fusion)."""
ScoredMemory = tuple[Observation, float | None]
"""A memory, and how well it fits the query where there was one."""


@dataclass(frozen=True, slots=True)
class Recalled:
    """One memory that an agent may use."""

    id: str
    text: str
    image: str | None
    """Content address of a picture; ``guard.ledger.blob`` has the bytes."""
    agent: str
    """The agent that wrote it."""
    source: SourceClass
    time: float
    trust: float
    """Trust from 0 to 1: at most that of the least trusted item in the lineage."""
    score: float | None
    """The fit with the query; higher is better, None without a query."""
    conflicts: tuple[str, ...] = ()
    """Items that contradict it, held ones too, until a person settles it: do not rely on it unchecked."""
    ref: Ref | None = None
    """The ref in a store of your own."""


class Memories(tuple[Recalled, ...]):
    """The result of a recall: the memories, and the requested refs that nobody has recorded."""

    unknown: tuple[Ref, ...] = ()
    """Refs that were asked for and are not known here: nobody judged the records there."""


class Recaller:
    """Finds memories for the agents of one guard. Every call blocks."""

    def __init__(
        self,
        ledger: Ledger,
        graph: ProvenanceGraph,
        policy: Policy,
        gates: GateSet,
        hold_again: Callable[[Sequence[Observation]], Sequence[str]],
    ) -> None:
        """``hold_again`` holds those of some memories that would be held today, and says which."""
        self._ledger, self._graph, self._policy, self._gates = ledger, graph, policy, gates
        self._hold_again = hold_again

    def check(self, limit: int, min_trust: float) -> None:
        """``InputError`` for a limit or a trust that cannot be."""
        most = self._policy.limits.max_results
        if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= most:
            raise InputError("limit", f"is {limit!r}", f"Give 1 to {most}")
        if isinstance(min_trust, bool) or not isinstance(min_trust, (int, float)) or not 0 <= min_trust <= 1:
            raise InputError("min_trust", f"is {min_trust!r}", "Give a number from 0 to 1")

    def recall(
        self,
        reader: str,
        query: str | None,
        named: Sequence[str | Ref] | None,
        limit: int,
        min_trust: float,
        details: Mapping[str, str] | None = None,
    ) -> Memories:
        """The result of ``Guard.recall``, recorded as read by ``reader``; ``details`` is recorded with each reading."""
        items, unknown = (None, ()) if named is None else self._named(named)
        most = self._policy.limits.max_results
        recalled: list[Recalled] = []
        asked = limit
        while True:
            found = self._usable(query, items, asked)
            recalled = [memory for memory in self._recalled(self._newest(found)) if memory.trust >= min_trust]
            if items is not None or len(recalled) >= limit or len(found) < asked or asked >= most:
                break
            asked = min(most, asked * 4)  # some were trusted too little: look further down
        if items is None:
            del recalled[limit:]
        conflicts = conflicts_of(self._ledger, [memory.id for memory in recalled])
        recalled = [replace(memory, conflicts=conflicts[memory.id]) for memory in recalled]
        self._ledger.append([Draft(EventKind.RETRIEVED, memory.id, reader, dict(details or {})) for memory in recalled])
        memories = Memories(recalled)
        memories.unknown = unknown
        return memories

    def _named(self, named: Sequence[str | Ref]) -> tuple[list[str], tuple[Ref, ...]]:
        """The items that a caller names by id or by ref, and the refs that are not known."""
        if isinstance(named, str) or not isinstance(named, Sequence):
            raise InputError("items", f"is {type(named).__name__}, not a list of ids", "Give a list of ids or refs")
        refs = [check_ref(name, "items") for name in named if not isinstance(name, str)]
        states = self._ledger.ref_states(refs) if refs else {}
        found = [name if isinstance(name, str) else states.get(check_ref(name, "items")) for name in named]
        ids = [entry if isinstance(entry, str) else entry.wanted for entry in found if entry is not None]
        return [item for item in ids if item], tuple(dict.fromkeys(ref for ref in refs if ref not in states))

    def _newest(self, found: list[ScoredMemory]) -> list[ScoredMemory]:
        """Without overwritten versions: only the newest version of a ref counts."""
        refs = [o.ref for o, _ in found if o.ref is not None]
        if not refs:
            return found
        states = self._ledger.ref_states(refs)
        return [(o, score) for o, score in found if o.ref is None or states[o.ref].wanted == o.id]

    def _recalled(self, found: Sequence[ScoredMemory]) -> list[Recalled]:
        trusts = self._graph.trusts([o.id for o, _ in found], self._policy.trust.table())
        return [
            Recalled(o.id, o.text, o.image, o.agent, o.source, o.time, trusts[o.id].value, score, ref=o.ref)
            for o, score in found
        ]

    def _usable(self, query: str | None, items: Sequence[str] | None, limit: int) -> list[ScoredMemory]:
        """The memories a recall asks for. Those that would be held today are held now, and others move up."""
        found = self._find(query, items, limit)
        if self._hold_again([o for o, _ in found]):
            found = self._find(query, items, limit)
            gone = self._hold_again([o for o, _ in found])
            found = [(o, score) for o, score in found if o.id not in gone]
        return found

    def _find(self, query: str | None, items: Sequence[str] | None, limit: int) -> list[ScoredMemory]:
        if items is not None:
            ids = check_ids(items, "items", self._policy.limits.max_results, "limits.max_results")
            require_known(self._ledger, ids, "items")
            return [(o, None) for o in self._ledger.items(ids=ids, limit=None)]
        if query is not None:
            return list(self.search(query, limit))
        return [(o, None) for o in self._ledger.items(channel=Channel.MEMORY, limit=limit)]

    def search(self, query: str, limit: int) -> Sequence[tuple[Observation, float]]:
        """Memories by words, and by meaning if a gate knows it; those that both find come first."""
        finder = self._gates.finder()
        if finder is None:
            return self._ledger.search(query, limit=limit)
        by_words = self._ledger.search(query, limit=4 * limit)
        with kept_texts.reading():
            by_meaning = finder.find(query, self._ledger, 4 * limit)
        return fuse(by_words, self._ledger.items(ids=by_meaning, limit=None))[:limit]


def require_known(ledger: Ledger, items: Sequence[str], field: str) -> None:
    """``UnknownItem`` for the first id that this namespace does not know."""
    for item in ledger.unknown(items):
        raise UnknownItem(item, ledger.namespace, field)


def fuse(
    by_words: Sequence[tuple[Observation, float]], by_meaning: Sequence[Observation]
) -> list[tuple[Observation, float]]:
    """Two rankings as one: each gives an item 1 / (60 + its rank)."""
    found = {o.id: o for o in (*(o for o, _ in by_words), *by_meaning)}
    score = dict.fromkeys(found, 0.0)
    for ranking in ([o for o, _ in by_words], by_meaning):
        for rank, memory in enumerate(ranking, 1):
            score[memory.id] += 1 / (_RANKS + rank)
    return sorted(((found[item], value) for item, value in score.items()), key=lambda pair: -pair[1])
