"""Taint: items made from a held item are held for a person, when written and when the source is found later.

Being *made from* a held item (a named parent) always taints. Having been *influenced* by one (its writer had read it)
taints only items that repeat something of it, so an agent that met poison goes on working.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from lazaretto.ledger import ItemState, Ledger
from lazaretto.ledger.driver import chunks
from lazaretto.ledger.reader import standing_events, without_taken_back
from lazaretto.provenance.carrying import HeldIndex, poison_of, poisons_of, reused_content
from lazaretto.provenance.graph import ProvenanceGraph
from lazaretto.types import COPY_OF, MACHINE, Decision, Event, EventKind, Evidence, Observation, Ruling, Verdict

TAINT = "taint"
"""Stands where a gate's name would, in verdicts and rules."""
FOR_DESCENT = ("taint:", "review:made_from_held")
"""Prefixes of rules that hold an item only for its descent."""
MADE_FROM, REPEATS, MET = "made_from_held", "repeats_held", "met_held"
_WORDS = (EventKind.RULED, EventKind.RELEASED, EventKind.LABELLED)
_NAMED = 4
"""Held items to which a verdict gives a sentence each."""
_LISTED = 20
"""And so many more whose ids it lists: an agent may have met thousands."""

BECAUSE = "because"
"""In the body of a release: the item whose own release set this one free, where no person looked at it."""

Carries = Callable[[Observation, Observation], str]
"""The part of a poison that an item carries, in words; empty for nothing."""


def on_writing(
    observation: Observation,
    influences: Sequence[str],
    index: HeldIndex,
    ruling: Ruling,
    echoed: Sequence[str] = (),
    rests_on: Collection[str] | None = None,
) -> tuple[Verdict | None, Mapping[str, ItemState]]:
    """The verdict of a new item's sources on it, and the states of those in ``rests_on`` (all of them by default), read
    now; the others are known from the index.

    ``echoed``: tainted items that it repeats nearly word for word, whether its writer had read them or not.
    """
    sources = dict.fromkeys((*observation.parents, *influences, *echoed))
    states = index.ledger.states(sources if rests_on is None else [item for item in sources if item in rests_on])
    if ruling is Ruling.ALLOW:
        return None, states
    others = index.held([item for item in sources if item not in states])
    held = [item for item in sources if item in others or (item in states and states[item].held)]
    if not held:
        return None, states
    parents = [item for item in held if item in observation.parents and not _rewritten(states[item])]
    if parents:
        causes = {item: f"It was made from {item}, which is held." for item in parents}
        return _verdict(observation.id, ruling, MADE_FROM, causes), states
    carried = index.repeated_by(observation, held, _NAMED)
    if carried:
        causes = {item: f"It repeats {why} of {item}, which its writer had read." for item, why in carried.items()}
        return _verdict(observation.id, ruling, REPEATS, causes), states
    same = [item for item in held if item in echoed]
    if same:
        causes = {item: f"It repeats {item}, which is held for what it was made from, word for word." for item in same}
        return _verdict(observation.id, ruling, REPEATS, causes), states
    causes = {item: f"Its writer had read {item}, which is held; nothing of it was found here." for item in held}
    return _verdict(observation.id, Ruling.ALLOW, MET, causes), states


def _rewritten(state: ItemState) -> bool:
    """Whether a gate gave a text to use instead: a writer that remembers it names the old item as its parent."""
    return state.ruling is Ruling.REWRITE and not state.hidden


def _verdict(item: str, ruling: Ruling, rule: str, causes: Mapping[str, str]) -> Verdict:
    """``causes``: held items, each with a sentence about their link with the item."""
    evidence = tuple(Evidence("path", words, {"held": held}) for held, words in list(causes.items())[:_NAMED])
    rest = list(causes)[_NAMED:]
    if rest:
        evidence += (Evidence("path", f"The same holds for {len(rest)} more.", {"more": rest[:_LISTED]}),)
    held = ruling > Ruling.WARN
    return Verdict(TAINT, item, ruling, 0.6 if held else 0.1, (0.0, 1.0), rule, evidence, ("ASI06",) if held else ())


@dataclass(slots=True)
class Spread:
    """Items that a held item has tainted, and items that only met it."""

    tainted: dict[str, Verdict] = field(default_factory=dict)
    """Visible items that are to be held, each with the reason."""
    met: dict[str, str] = field(default_factory=dict)
    """Visible items that were influenced and carry nothing that was found: why they stay."""


def spread_of(
    origins: Iterable[str],
    ledger: Ledger,
    graph: ProvenanceGraph,
    ruling: Ruling = Ruling.REVIEW,
    carries: Carries = reused_content,
    most: int | None = None,
) -> Spread:
    """Everything that came from ``origins``: tainted items, and items that only met them.

    An item derived from a tainted one is tainted. An influenced item is tainted when it repeats something of its
    source or of an origin; one that does not is followed further, because words may come back. ``most``: only the
    nearest, from so many on that may still be recalled.
    """
    starts = list(dict.fromkeys(origins))
    poisons = [*poisons_of(starts, ledger).values()]
    below = _Below(starts, ledger, graph, most)
    records = _Records(below, ledger)
    tainted: dict[str, Verdict | None] = dict.fromkeys(starts)
    met: dict[str, str] = {}
    unlike = set[str]()
    """Items that repeat nothing of an origin: another way to them matters only if it is tainted itself."""
    layer, enough = starts, _Enough(ledger, most)
    while layer:
        following: dict[str, None] = {}
        for parent, child, derived in below.rows(layer, tainted, unlike):
            ill = parent.id in tainted
            if child.id in tainted or (child.id in unlike and not ill):
                continue
            against = [*(() if child.id in unlike else poisons), *[parent] * ill]
            cause = _cause(child, parent, ill and derived, against, carries)
            if cause is None:
                unlike.add(child.id)
            spared = cause is not None and (_weighed(child) or records.excused(child.id))
            if cause is not None and not spared and not records.put_right(child.id, parent.id):
                rule, held, words = cause
                tainted[child.id] = _verdict(child.id, ruling, rule, {held: words})
                met.pop(child.id, None)
                following[child.id] = None
            elif child.id not in met:
                met[child.id] = _why_left(child, parent.id, cause is not None)
                following[child.id] = None
        layer = [] if enough.are(tainted, met) else list(following)
    states = ledger.states([*tainted, *met])
    return Spread(
        {item: verdict for item, verdict in tainted.items() if verdict is not None and states[item].visible},
        {item: why for item, why in met.items() if states[item].visible},
    )


class _Enough:
    """Whether so many items may still be recalled; asked again and again while they become more."""

    def __init__(self, ledger: Ledger, most: int | None) -> None:
        self._ledger, self._most, self._look_at = ledger, most, most
        self._visible: dict[str, bool] = {}

    def are(self, tainted: Collection[str], met: Collection[str]) -> bool:
        """Whether these are enough. Looks at them only where they may be."""
        count = len(tainted) + len(met)
        if self._most is None or self._look_at is None or count < self._look_at:
            return False
        fresh = [item for item in (*tainted, *met) if item not in self._visible]
        self._visible |= {item: state.visible for item, state in self._ledger.states(fresh).items()}
        lacking = self._most - sum(self._visible.values())
        self._look_at = count + max(lacking, self._most // 8)  # not after each of the last few
        return lacking <= 0


_AHEAD, _KEPT = 250, 1_000
"""Items of a walk that are read together, and that are kept while it goes on."""


class _Below:
    """Items that came from some items, link by link: read many at a time, in the order in which a walk meets them.
    Otherwise a chain of a thousand items would take a thousand statements, and a crowd all its texts."""

    def __init__(self, starts: Sequence[str], ledger: Ledger, graph: ProvenanceGraph, most: int | None) -> None:
        """``most``: about so many will be asked for, so that not all has to be walked at first."""
        self._starts, self._ledger, self._graph = starts, ledger, graph
        self._most = None if most is None else 2 * most
        self._next = 0
        self._read: dict[str, Observation] = {}
        self._look()

    def _look(self) -> None:
        descent, self._open = self._graph.descent(self._starts, most=self._most)
        self._children: dict[str, list[tuple[str, bool]]] = {}
        for parent, child, derived in descent:
            self._children.setdefault(parent, []).append((child, derived))
        self._order = list(dict.fromkeys((*self._starts, *(child for _, child, _ in descent))))
        self._places = {item: place for place, item in enumerate(self._order)}

    def next_from(self, item: str, count: int) -> list[str]:
        """An item and those that a walk meets after it."""
        place = self._places.get(item)  # none where a repair cut it off meanwhile
        return [item] if place is None else self._order[place : place + count]

    def rows(
        self, layer: Sequence[str], tainted: Collection[str], unlike: Collection[str]
    ) -> Iterator[tuple[Observation, Observation, bool]]:
        """Each of some items with each that came from it and may be tainted by it, and whether it was derived; derived
        ones come first."""
        while self._most is not None and not self._open.isdisjoint(layer):
            self._most *= 4
            self._look()
        rows = ((parent, child, derived) for parent in layer for child, derived in self._children.get(parent, ()))
        open_rows = (row for row in rows if row[1] not in tainted and (row[0] in tainted or row[1] not in unlike))
        left = sorted(open_rows, key=lambda row: not row[2])
        for some in chunks(left, _AHEAD):
            self._make_ready([item for row in some for item in row[:2]])
            yield from ((self._read[parent], self._read[child], derived) for parent, child, derived in some)

    def _make_ready(self, items: Sequence[str]) -> None:
        if all(item in self._read for item in items):
            return
        kept = self._read
        if len(kept) > _KEPT:
            kept = {item: kept[item] for item in items if item in kept}
        ahead = self._order[self._next : self._next + _AHEAD]
        self._next += _AHEAD
        lacking = [item for item in dict.fromkeys((*items, *ahead)) if item not in kept]
        self._read = kept | {item.id: item for item in self._ledger.items(ids=lacking, any_state=True, limit=None)}


_FIRST_ASKED, _MOST_ASKED = 8, 100
"""Items whose states and rulings are read at once, at first and later: a ruling may name many others."""


class _Records:
    """Events about items that a walk meets, which may excuse them. Read when an item is asked about, together with
    items that the walk meets next, more each time. Otherwise each link of a chain takes a few statements."""

    def __init__(self, below: _Below, ledger: Ledger) -> None:
        self._below, self._ledger = below, ledger
        self._size = _FIRST_ASKED
        self._excused: dict[str, bool] = {}
        self._ruled: dict[str, bool] = {}
        self._replaced_by: dict[str, str | None] = {}

    def excused(self, item: str) -> bool:
        """Whether a person spoke for it."""
        self._read(item)
        return self._excused[item]

    def put_right(self, item: str, source: str) -> bool:
        """Whether a repair put an item in the place of its source: its text was judged before it was brought in.

        Only repairs bring in items without a ruling.
        """
        self._read(item)
        if self._ruled[item]:
            return False
        if source not in self._replaced_by:
            some = [below for below in self._below.next_from(source, self._size) if below not in self._replaced_by]
            self._replaced_by |= {below: state.superseded_by for below, state in self._ledger.states(some).items()}
        return self._replaced_by[source] == item

    def _read(self, item: str) -> None:
        if item in self._excused:
            return
        some = [below for below in self._below.next_from(item, self._size) if below not in self._excused]
        self._size = min(2 * self._size, _MOST_ASKED)
        by_item: dict[str, list[Event]] = {below: [] for below in some}
        for event in self._ledger.events_about(some, (*_WORDS, EventKind.WITHDRAWN)):
            by_item[event.subject].append(event)
        for below, events in by_item.items():
            events.sort(key=lambda event: event.seq)
            self._excused[below] = _spoken_for(without_taken_back(events))
            self._ruled[below] = any(event.kind is EventKind.RULED for event in events)


def _cause(
    item: Observation, source: Observation, derived: bool, poisons: Sequence[Observation], carries: Carries
) -> tuple[str, str, str] | None:
    """Rule, held item and sentence for the taint of an item; None if nothing taints it."""
    if derived:
        return MADE_FROM, source.id, f"It was made from {source.id}, which is held."
    for poison in poisons:
        why = carries(item, poison)
        if why:
            return REPEATS, poison.id, f"It repeats {why} of {poison.id}, which had reached its writer."
    return None


def _why_left(item: Observation, parent: str, excused: bool) -> str:
    if _weighed(item):
        return "a record: the memory gate weighs it again, without held items among the evidence"
    return "a person spoke for it" if excused else f"influenced by {parent}, but repeats nothing of the held item"


def _weighed(item: Observation) -> bool:
    """Whether an item is a record alone: once it is written, evidence and not descent decides about it."""
    return item.fields is not None and not item.text


def _excused(item: str, ledger: Ledger, without: Collection[int] = ()) -> bool:
    """Whether a person spoke for the item, by other events than ``without``."""
    events = standing_events(ledger, _WORDS, subject=item)
    return _spoken_for(event for event in events if event.seq not in without)


def _spoken_for(events: Iterable[Event]) -> bool:
    """Whether a person labelled an item benign, or released it after it had been held for a taint, by those of its
    events that count."""
    was_tainted = released = benign = False
    for event in events:
        body = event.body or {}
        if COPY_OF in body:  # a label on its content, not on its descent
            continue
        if event.kind is EventKind.LABELLED:
            benign = body.get("label") == "benign"
        elif event.kind is EventKind.RULED:
            was_tainted = str(body.get("rule", "")).startswith(f"{TAINT}:")
        elif was_tainted and body.get("by") != MACHINE:
            released = True
    return benign or released


def today(
    observation: Observation, ledger: Ledger, graph: ProvenanceGraph, ruling: Ruling, without: Collection[int] = ()
) -> Verdict | None:
    """The taint of an item by its sources' state now; none where a person released it after a taint.

    ``without``: events about it that are about to be taken back.
    """
    sources = graph.came_from(observation.id)
    if _weighed(observation) or not sources or _excused(observation.id, ledger, without):
        return None
    made = replace(observation, parents=tuple(source for source, derived in sources.items() if derived))
    met = [source for source, derived in sources.items() if not derived]
    found, _ = on_writing(made, met, HeldIndex(ledger), ruling)
    gone = [] if found is not None and found.ruling > Ruling.WARN else _repeated_before(observation.id, met, ledger)
    if not gone:
        return found
    words = {item: f"It repeats {item}, which was held when it was erased." for item in gone}
    return _verdict(observation.id, ruling, REPEATS, words)


def _repeated_before(item: str, sources: Collection[str], ledger: Ledger) -> list[str]:
    """The sources that were erased while they were held, and that the last ruling on an item says it repeats: there is
    nothing left to compare it with."""
    states = ledger.states(sources) if sources else {}
    gone = [source for source, state in states.items() if state.erased and state.held]
    rulings = standing_events(ledger, (EventKind.RULED,), subject=item) if gone else ()
    last: Mapping[str, Any] = next(reversed([event.body or {} for event in rulings]), {})
    evidence = [e for v in last.get("verdicts", ()) if v["rule"] == REPEATS for e in v["evidence"]]
    named = {e["data"].get("held") for e in evidence if e["kind"] == "path"}
    return [source for source in gone if source in named]


def taint_decision(verdict: Verdict) -> Decision:
    """The ruling on an item whose source was found out after it was written."""
    rule = f"{TAINT}:{verdict.rule}"
    return Decision(verdict.subject, verdict.ruling, verdict.risk, verdict.interval, rule, (verdict,))


def released_with(items: Iterable[str], ledger: Ledger, graph: ProvenanceGraph) -> tuple[str, ...]:
    """Items held only for the taint of ``items``, which are held no longer; nearest first."""
    fine = dict.fromkeys(items)
    found: dict[str, None] = {}
    layer = list(fine)
    seen = set(layer)
    while layer:
        following = []
        for child in dict.fromkeys(child for _, child, _ in graph.children(layer)):
            if child in seen:
                continue
            seen.add(child)
            following.append(child)
            if held_for_taint(child, ledger) and not tainted_still(child, set(fine), ledger, graph):
                found[child] = fine[child] = None
        layer = following
    return tuple(found)


def held_for_taint(item: str, ledger: Ledger) -> bool:
    """Whether a taint is the only reason why an item is held."""
    if not ledger.state(item).held or ledger.state(item).hidden:
        return False
    alone = found = False
    for event in standing_events(ledger, _WORDS, subject=item):
        body = event.body or {}
        if event.kind is EventKind.RELEASED:
            found = False
        elif event.kind is EventKind.RULED:
            alone = _for_descent_alone(body)
            if not alone or body.get("runs"):  # it was judged, and not only found to be made from something held
                found = not alone and Ruling.from_label(str(body.get("ruling", "allow"))) > Ruling.WARN
    return alone and not found


def is_of_descent(event: Event) -> bool:
    """Whether an event holds or frees an item for what it was made from alone: nobody judged its content with it."""
    body = event.body or {}
    if event.kind is EventKind.RULED:
        return str(body.get("rule", "")).startswith(FOR_DESCENT) and not body.get("runs")
    return event.kind is EventKind.RELEASED and BECAUSE in body


def _for_descent_alone(body: Mapping[str, Any]) -> bool:
    others = [v for v in body.get("verdicts", ()) if not f"{v['gate']}:{v['rule']}".startswith(FOR_DESCENT)]
    return str(body.get("rule", "")).startswith(FOR_DESCENT) and not any(
        Ruling.from_label(v["ruling"]) > Ruling.WARN for v in others
    )


def held_for_nothing(item: str, ledger: Ledger, graph: ProvenanceGraph) -> bool:
    """Whether an item is held for its descent alone, and nothing of that is held any more."""
    return held_for_taint(item, ledger) and not tainted_still(item, set(), ledger, graph)


def tainted_still(item: str, fine: set[str], ledger: Ledger, graph: ProvenanceGraph) -> bool:
    """Whether another held item taints an item too."""
    sources = {source: derived for source, derived in graph.came_from(item).items() if source not in fine}
    held = [source for source, state in ledger.states(sources).items() if state.held]
    found = any(sources[s] or reused_content(ledger.item(item), poison_of(s, ledger)) for s in held)
    return found or bool(_repeated_before(item, held, ledger))


def of_clean_descent(items: Collection[str], fine: Collection[str], ledger: Ledger, graph: ProvenanceGraph) -> set[str]:
    """The items that were made from nothing held, except ``fine`` and each other."""
    clean = set(items)
    while tainted := {item for item in clean if tainted_still(item, {*fine, *clean}, ledger, graph)}:
        clean -= tainted
    return clean


def most_telling(
    text: Observation, read: Sequence[Observation], trust: Mapping[Any, float], limit: int
) -> tuple[str, ...]:
    """Of the items an agent read (oldest first), those most important for a text: repeated by it, least trusted, new.

    So reading other things afterwards pushes out nothing that shaped the text.
    """
    ranked = sorted(enumerate(read), key=lambda row: (not reused_content(text, row[1]), trust[row[1].source], -row[0]))
    kept = {item.id for _, item in ranked[:limit]}
    return tuple(item.id for item in read if item.id in kept)
