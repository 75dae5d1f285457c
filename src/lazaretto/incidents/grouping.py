"""Groups findings into incidents, and finds where each group began.

Two findings are one incident when one is known by the other (the block list names it, one repair took both out, same
content), or when one was made from the other. A finding with several sources belongs to those whose words or picture it
carries; else to the parents its writer named, else to the nearest that it shares most words with. So two attacks that
meet in one agent's reading stay two incidents.

A finding that proved fine is never joined with one that stands, nor are two that contradict each other: a lie reads
much like the truth it denies. An item from outside, with no parent named, was not made from items its bearer had read.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from lazaretto.incidents.findings import ORIGIN, Finding, carries, common_words, overlap, same_content
from lazaretto.ledger import Ledger
from lazaretto.provenance.graph import ProvenanceGraph
from lazaretto.provenance.questions import OUTSIDE
from lazaretto.types import Observation

MOST_PARENTS = 64
"""Ancestors of a finding that are compared with it, the nearest first."""

NEAR = 2
"""Steps back that are read for all new findings together; most lead no further."""


@dataclass(frozen=True, slots=True)
class Group:
    """The findings of one incident, in the order they were found, and items that carry their content beside them."""

    findings: tuple[str, ...]
    carriers: tuple[str, ...]
    patient_zero: str


class _Sets:
    """Disjoint sets of ids, each known by the member that was found first."""

    def __init__(self, findings: Mapping[str, Finding]) -> None:
        self._rank = {item: place for place, item in enumerate(findings)}
        self._parent = {item: item for item in findings}
        self._members = {item: {item} for item in findings}
        self._against = {item: finding.against & findings.keys() for item, finding in findings.items()}

    def top(self, item: str) -> str:
        while self._parent[item] != item:
            self._parent[item] = self._parent[self._parent[item]]
            item = self._parent[item]
        return item

    def join(self, item: str, other: str) -> None:
        first, second = sorted((self.top(item), self.top(other)), key=self._rank.__getitem__)
        if first != second:
            self._parent[second] = first
            self._members[first] |= self._members.pop(second)
            self._against[first] |= self._against.pop(second)

    def contradict(self, item: str, other: str) -> bool:
        """Whether something in the set of one contradicts something in the other's."""
        first, second = self.top(item), self.top(other)
        against, members = self._against, self._members
        return bool(against[first] & members[second] or against[second] & members[first])


@dataclass(frozen=True, slots=True)
class _Traced:
    """The facts about one finding that do not depend on other findings: looked up once."""

    content: bytes
    """The same for the same content; empty for none."""
    above: tuple[str, ...]
    """Items that it may come from, nearest first."""
    carried: tuple[str, ...]
    """The items in ``above`` whose words or picture it carries, most alike first."""
    origins: frozenset[str]
    """The items in ``carried`` that it may have begun with, though nobody found them."""
    parents: frozenset[str]


class Grouper:
    """Sorts the findings of one ledger into incidents. Only new findings are looked up and compared."""

    def __init__(self, ledger: Ledger, graph: ProvenanceGraph) -> None:
        self._ledger, self._graph = ledger, graph
        self._traced: dict[str, _Traced] = {}
        self._shared: dict[tuple[str, str], float] = {}
        """Finding, and one that it may come from -> the share of their words that both have."""
        self._began: dict[tuple[str, ...], str] = {}

    def forget(self, items: AbstractSet[str]) -> bool:
        """Some items were erased, or are known to come from more: their facts are looked up again.

        Returns whether anything was known of them.
        """
        kept = {
            name: traced
            for name, traced in self._traced.items()
            if name not in items and items.isdisjoint(traced.above)
        }
        if len(kept) == len(self._traced):
            return False
        self._traced = kept
        self._shared = {pair: share for pair, share in self._shared.items() if items.isdisjoint(pair)}
        self._began.clear()
        return True

    def groups(self, findings: Mapping[str, Finding]) -> list[Group]:
        """Every incident's findings, the one that was found first first."""
        self._trace([item for item in findings if item not in self._traced])
        sets = _Sets(findings)
        by_content: dict[bytes, str] = {}
        for item, finding in findings.items():
            for other in finding.like:
                if other in findings:
                    sets.join(item, other)
            content = self._traced[item].content if item in self._traced else b""
            if content:
                sets.join(item, by_content.setdefault(content, item))
        carriers: dict[str, list[str]] = {item: [] for item in findings}
        for item, finding in findings.items():
            traced = self._traced.get(item)
            if traced is None:
                continue
            carriers[item] = [
                source
                for source in traced.carried
                if source not in findings and source not in finding.against and source in traced.origins
            ]
            for cause in traced.carried or self._causes(item, traced, findings):
                alike = cause in findings and findings[cause].innocent == finding.innocent
                if alike and not sets.contradict(item, cause):
                    sets.join(item, cause)
        beside = {carrier: None for some in carriers.values() for carrier in some}
        self._graph.read_ahead([item for item in (*findings, *beside) if item in self._traced or item in beside])
        groups: dict[str, list[str]] = {}
        for item in findings:
            groups.setdefault(sets.top(item), []).append(item)
        began, self._began = self._began, {}
        return [self._made([findings[item] for item in members], carriers, began) for members in groups.values()]

    def _trace(self, fresh: Sequence[str]) -> None:
        known = {seen.id: seen for seen in self._ledger.items(ids=fresh, any_state=True, limit=None)} if fresh else {}
        self._graph.read_ahead(list(known), back=True, max_hops=NEAR)
        lineage = {item: [step.id for step in self._graph.sources(item, limit=MOST_PARENTS)] for item in known}
        met = list(dict.fromkeys(source for above in lineage.values() for source in above))
        texts = {seen.id: seen for seen in self._ledger.items(ids=met, any_state=True, limit=None)} if met else {}
        for item, seen in known.items():
            above = [source for source in lineage[item] if source in texts]
            if seen.source in OUTSIDE and not seen.parents:
                above = [source for source in above if texts[source].source in OUTSIDE]
            carried = _most_alike_first([texts[source] for source in above], seen)
            origins = frozenset(source for source in carried if carries(texts[source], seen, ORIGIN))
            content = same_content(seen)
            digest = hashlib.sha256(content.encode()).digest() if content else b""
            self._traced[item] = _Traced(
                digest, tuple(above), tuple(carried), origins, frozenset(seen.parents) & frozenset(above)
            )

    def _causes(self, item: str, traced: _Traced, findings: Mapping[str, Finding]) -> Iterable[str]:
        """The findings that an item comes from though it carries nothing of them."""
        ready = [source for source in traced.above if source in findings]
        named = [source for source in ready if source in traced.parents]
        if named or len(ready) < 2:
            return named or ready
        unread = [source for source in ready if (item, source) not in self._shared]
        if unread:
            texts = {seen.id: seen.text for seen in self._ledger.items(ids=[item, *unread], any_state=True, limit=None)}
            self._shared |= {
                (item, source): common_words(texts.get(source, ""), texts.get(item, "")) for source in unread
            }
        return sorted(ready, key=lambda source: -self._shared[item, source])[:1]

    def _made(
        self, members: Sequence[Finding], carriers: Mapping[str, list[str]], began: Mapping[tuple[str, ...], str]
    ) -> Group:
        ids = [finding.item for finding in members]
        beside = tuple(dict.fromkeys(carrier for item in ids for carrier in carriers[item]))
        guilty = [finding.item for finding in members if not finding.innocent] or ids
        infected = (*guilty, *beside)
        zero = self._began[infected] = began.get(infected) or _origin(infected, self._graph)
        return Group(tuple(ids), beside, zero)


def _most_alike_first(above: Sequence[Observation], item: Observation) -> list[str]:
    """The items that carry an item's words or picture; the one with more words in common is the likelier cause."""
    carried = [source for source in above if carries(source, item)]
    return [source.id for source in sorted(carried, key=lambda source: -overlap(source.text, item.text))]


def _origin(infected: Sequence[str], graph: ProvenanceGraph) -> str:
    """The infected item that most of them come from; the earliest if several explain as many."""
    inside = set(infected)
    born = graph.births(infected)
    candidates = graph.roots_among(infected) or infected
    led_to = {item: sum(step.id in inside for step in graph.reach([item]).items) for item in candidates}
    return min(candidates, key=lambda item: (-led_to[item], born[item], item))
