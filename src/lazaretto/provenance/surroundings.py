"""Edges of a long ledger, read only around the items asked about.

The graph begins empty at the ledger's head, takes in all that is appended, and reads older edges around the nodes that
a question meets, each once. The answers are the same: `tests/provenance` asks both ways.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from lazaretto.ledger.edges import EdgeColumns, EdgeEnd
from lazaretto.types import EdgeKind

WHOLE_UP_TO = 20_000
"""A ledger of at most so many events is read whole at once."""
MOST_NODES, MOST_LAYERS = 100_000, 2_000
"""A single walk that meets more than this reads the whole ledger: that is then the shorter way."""

_OWN = (EdgeKind.WRITTEN_BY, EdgeKind.DERIVED_FROM)
_INFLUENCED = (EdgeKind.INFLUENCED,)
_READ = (EdgeKind.RETRIEVED_BY, EdgeKind.SENT_TO)
_NAMED_BY_OTHERS = (EdgeKind.DERIVED_FROM, EdgeKind.INFLUENCED, EdgeKind.SUPERSEDES)


class EdgeReader(Protocol):
    """The part of a ledger that this module needs."""

    def edges_at(
        self, nodes: Iterable[str], *, end: EdgeEnd, kinds: Sequence[EdgeKind], until: int
    ) -> list[EdgeColumns]:
        """The edges of some kinds that begin or end at any of many nodes, of the events up to ``until``."""
        ...


class Surroundings:
    """The nodes whose edges were read, up to one event."""

    def __init__(self, ledger: EdgeReader, until: int) -> None:
        self._ledger, self._until = ledger, until
        self._back: set[str] = set()
        """Items whose sources and writers are known."""
        self._forward: set[str] = set()
        """Items that everything is known of."""
        self._agents: set[str] = set()
        """Agents whose reads are known."""

    def behind(self, items: Iterable[str]) -> Iterator[EdgeColumns]:
        """Writers of items, and the items these came from; those that were read before are left out."""
        fresh = [name for name in dict.fromkeys(items) if name not in self._back]
        if fresh:
            pages = [*self._at(fresh, "source", _OWN), *self._at(fresh, "target", _INFLUENCED)]
            self._back.update(fresh)  # only now: the store may fail
            yield from pages

    def around(self, items: Iterable[str]) -> Iterator[EdgeColumns]:
        """The same, and the items' children and readers."""
        fresh = [name for name in dict.fromkeys(items) if name not in self._forward]
        if fresh:
            pages = [*self._at(fresh, "source", tuple(EdgeKind)), *self._at(fresh, "target", _NAMED_BY_OTHERS)]
            self._back.update(fresh)
            self._forward.update(fresh)
            yield from pages

    def read_by(self, agents: Iterable[str]) -> Iterator[EdgeColumns]:
        """Items that agents read or were sent."""
        fresh = [name for name in dict.fromkeys(agents) if name not in self._agents]
        if fresh:
            pages = self._at(fresh, "target", _READ)
            self._agents.update(fresh)
            yield from pages

    def _at(self, nodes: list[str], end: EdgeEnd, kinds: Sequence[EdgeKind]) -> list[EdgeColumns]:
        return self._ledger.edges_at(nodes, end=end, kinds=kinds, until=self._until)
