"""Which findings belong together, and where each group began.

Two findings are one incident when one is known by the other (the block list names it, one repair took both out, they
hold the same content), or when one was made from the other. Made from several, it belongs to those whose words or
picture it carries; where it carries none, to the parents its writer named, else to the nearest that it has most words
in common with. So two attacks that meet in one agent's reading stay two incidents.

What was found to be fine is not the cause of what still stands, nor the other way round, and neither are two findings
that contradict each other: a lie reads much like the truth it denies. What came from outside the crew, with no parent
named, was not made from what its bearer happened to have read inside.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from lazaretto.incidents.findings import Finding
from lazaretto.incidents.likeness import ORIGIN, carries, common_words, overlap, same_content
from lazaretto.ledger import Ledger
from lazaretto.provenance.graph import ProvenanceGraph
from lazaretto.provenance.origin import OUTSIDE
from lazaretto.types import Observation

MOST_PARENTS = 64
"""Ancestors of a finding that are compared with it, the nearest first."""


@dataclass(frozen=True, slots=True)
class Group:
    """The findings of one incident, in the order they were found, and what carries their content beside them."""

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

    def join(self, one: str, other: str) -> None:
        first, second = sorted((self.top(one), self.top(other)), key=self._rank.__getitem__)
        if first != second:
            self._parent[second] = first
            self._members[first] |= self._members.pop(second)
            self._against[first] |= self._against.pop(second)

    def contradict(self, one: str, other: str) -> bool:
        """Whether something in the set of one contradicts something in the other's."""
        first, second = self.top(one), self.top(other)
        against, members = self._against, self._members
        return bool(against[first] & members[second] or against[second] & members[first])


def group(findings: Mapping[str, Finding], ledger: Ledger, graph: ProvenanceGraph) -> list[Group]:
    """Every incident's findings, the one that was found first first."""
    sets = _Sets(findings)
    known = {one.id: one for one in ledger.items(ids=list(findings), hidden=True, limit=None)}
    by_content: dict[str, str] = {}
    for item, finding in findings.items():
        for other in finding.like:
            if other in findings:
                sets.join(item, other)
        content = same_content(known[item]) if item in known else ""
        if content:
            sets.join(item, by_content.setdefault(content, item))
    carriers: dict[str, list[str]] = {item: [] for item in findings}
    lineage = {item: [one.id for one in graph.sources(item, limit=MOST_PARENTS)] for item in findings if item in known}
    met = list(dict.fromkeys(one for above in lineage.values() for one in above))
    texts = {one.id: one for one in ledger.items(ids=met, hidden=True, limit=None)} if met else {}
    for item in findings:
        if item in known:
            above = lineage[item]
            if known[item].source in OUTSIDE and not known[item].parents:
                above = [one for one in above if one in texts and texts[one].source in OUTSIDE]
            carried = _most_alike_first([texts[one] for one in above if one in texts], known[item])
            unfound = [o for o in carried if o not in findings and o not in findings[item].against]
            carriers[item] = [o for o in unfound if carries(texts[o], known[item], ORIGIN)]
            for cause in carried or _causes(known[item], [one for one in above if one in findings], known):
                alike = cause in findings and findings[cause].innocent == findings[item].innocent
                if alike and not sets.contradict(item, cause):
                    sets.join(item, cause)
    groups: dict[str, list[str]] = {}
    for item in findings:
        groups.setdefault(sets.top(item), []).append(item)
    return [_made([findings[item] for item in members], carriers, graph) for members in groups.values()]


def _most_alike_first(above: Sequence[Observation], item: Observation) -> list[str]:
    """Those that carry an item's words or picture; what has more of its words in common is the likelier cause."""
    carried = [one for one in above if carries(one, item)]
    return [one.id for one in sorted(carried, key=lambda one: -overlap(one.text, item.text))]


def _causes(item: Observation, above: Sequence[str], known: Mapping[str, Observation]) -> Iterable[str]:
    """The findings that an item comes from though it carries nothing of them; ``above`` has the nearest first."""
    ready = [one for one in above if one in known]
    named = [one for one in ready if one in item.parents]
    return named or sorted(ready, key=lambda one: -common_words(known[one].text, item.text))[:1]


def _made(members: Sequence[Finding], carriers: Mapping[str, list[str]], graph: ProvenanceGraph) -> Group:
    ids = [finding.item for finding in members]
    beside = tuple(dict.fromkeys(one for item in ids for one in carriers[item]))
    guilty = [finding.item for finding in members if not finding.innocent] or ids
    return Group(tuple(ids), beside, _origin([*guilty, *beside], graph))


def _origin(infected: Sequence[str], graph: ProvenanceGraph) -> str:
    """Of the infected items the one that most of them come from; the earliest where several explain as many."""
    inside = set(infected)
    born = graph.births(infected)
    candidates = graph.roots_among(infected) or infected
    led_to = {item: sum(one.id in inside for one in graph.reach([item]).items) for item in candidates}
    return min(candidates, key=lambda item: (-led_to[item], born[item], item))
