"""What a held item has tainted: a walk that reads many items at a time finds what reading link by link does."""

from __future__ import annotations

import random
from typing import Any

import pytest
from tests.statements import statements_of

from lazaretto.ledger import Ledger
from lazaretto.provenance import taint
from lazaretto.provenance.carrying import reused_content
from lazaretto.provenance.graph import ProvenanceGraph
from lazaretto.types import MACHINE, Channel, Draft, EventKind, Observation

WORDS = (
    "The harbour pays account DE8937040044",
    "Lunch is at noon today",
    "Ships wait for the tide",
    "Rope is stored below",
)


def crowd(ledger: Ledger, count: int, rng: random.Random) -> None:
    """Items that were made from, or influenced by, earlier ones; some repeat words of others, some are hidden."""
    for n in range(count):
        parents = tuple({f"i{rng.randrange(n)}" for _ in range(rng.randrange(2))}) if n else ()
        item = Observation("ann", Channel.MEMORY, f"{rng.choice(WORDS)}, note {n}.", id=f"i{n}", parents=parents)
        ledger.append_item(item)
        if n and rng.random() < 0.8:
            met = [f"i{n - 1}", *(f"i{rng.randrange(n)}" for _ in range(rng.randrange(2)))]
            ledger.append([Draft(EventKind.INFLUENCED, f"i{n}", "ann", {"sources": list(dict.fromkeys(met))})])
        if rng.random() < 0.1:
            ledger.append([Draft(EventKind.RULED, f"i{n}", body={"ruling": "block"})])
        if rng.random() < 0.1:
            ledger.append([Draft(EventKind.LABELLED, f"i{n}", body={"label": "benign", "by": "dana"})])


def decide(ledger: Ledger, count: int, rng: random.Random) -> None:
    """What people, repairs and the guard may have done to items since: rulings of taint, releases by both, labels of
    both kinds, items put in the place of others with and without a ruling, and all of it taken back here and there."""
    for n in rng.sample(range(count), count // 2):
        item, told = f"i{n}", list[int]()
        for _ in range(rng.randrange(1, 4)):
            draft = rng.choice(
                [
                    Draft(EventKind.RULED, item, body={"ruling": "review", "rule": "taint:repeats_held"}),
                    Draft(EventKind.RULED, item, body={"ruling": "allow", "rule": "memory:clean"}),
                    Draft(EventKind.RELEASED, item, body={"by": rng.choice(["dana", MACHINE])}),
                    Draft(EventKind.LABELLED, item, body={"label": rng.choice(["benign", "harmful"]), "by": "dana"}),
                ]
            )
            told += [event.seq for event in ledger.append([draft])]
        if rng.random() < 0.4:
            gone = rng.sample(told, rng.randrange(1, len(told) + 1))
            ledger.append(
                [Draft(EventKind.WITHDRAWN, item, body={"events": gone, "was": {"hidden": False}, "by": "dana"})]
            )
    for n in rng.sample(range(count), count // 6):
        text = f"{rng.choice(WORDS)}, put right {n}."
        ledger.append_item(Observation("ann", Channel.MEMORY, text, id=f"r{n}", parents=(f"i{n}",)))
        ledger.append([Draft(EventKind.SUPERSEDED, f"r{n}", "ann", {"old": f"i{n}"})])
        if rng.random() < 0.3:
            ledger.append([Draft(EventKind.RULED, f"r{n}", body={"ruling": "allow"})])
        if rng.random() < 0.5:
            text = f"{rng.choice(WORDS)}, after {n}."
            ledger.append_item(Observation("ann", Channel.MEMORY, text, id=f"a{n}", parents=(f"r{n}",)))


def put_right(item: str, source: str, ledger: Ledger) -> bool:
    """Whether a repair put it in the place of its source, asked about this one alone."""
    ruled = ledger.events(subject=item, kinds=(EventKind.RULED,), limit=1)
    return ledger.state(source).superseded_by == item and not any(True for _ in ruled)


def link_by_link(starts: list[str], ledger: Ledger, graph: ProvenanceGraph) -> tuple[set[str], set[str]]:
    """The same walk, plainly: what is tainted and what was met, of what may be recalled."""
    poisons = [ledger.item(one) for one in starts]
    tainted, met, layer = set(starts), set[str](), list(starts)
    while layer:
        following: dict[str, None] = {}
        rows = [row for one in layer for row in graph.children([one]) if row[1] not in tainted]
        for parent, child, derived in sorted(rows, key=lambda row: not row[2]):
            if child in tainted:
                continue
            ill, item = parent in tainted, ledger.item(child)
            caught = (ill and derived) or any(
                reused_content(item, poison) for poison in [*poisons, *([ledger.item(parent)] if ill else [])]
            )
            if caught and not taint._excused(child, ledger) and not put_right(child, parent, ledger):
                tainted.add(child)
                met.discard(child)
                following[child] = None
            elif child not in met:
                met.add(child)
                following[child] = None
        layer = list(following)
    visible = {item for item, state in ledger.states([*tainted, *met]).items() if state.visible}
    return (tainted - set(starts)) & visible, met & visible


SEEDS = [("sqlite", seed) for seed in range(6)] + [("postgresql", seed) for seed in range(2)]
"""The walk is one; its statements differ by database, and two crowds ask all of them."""


@pytest.mark.parametrize(("store_url", "seed"), SEEDS, indirect=["store_url"])
def test_it_finds_what_reading_link_by_link_finds(ledger: Ledger, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(taint, "_AHEAD", 7)
    monkeypatch.setattr(taint, "_KEPT", 11)
    monkeypatch.setattr(taint, "_FIRST_ASKED", 2)
    monkeypatch.setattr(taint, "_MOST_ASKED", 9)
    rng = random.Random(seed)
    crowd(ledger, 120, rng)
    decide(ledger, 120, rng)
    graph = ProvenanceGraph(ledger)
    for starts in (["i0"], ["i3", "i40"], ["i119"]):
        found = taint.spread_of(starts, ledger, graph)
        assert (set(found.tainted), set(found.met)) == link_by_link(starts, ledger, graph)
    assert taint.spread_of(["i0"], ledger, graph).met, "the crowd is no test where everything repeats"


class WalkedWhole(ProvenanceGraph):
    """Looks at everything that came from some items, however few are asked for."""

    def descent(self, items: Any, *, most: int | None = None) -> Any:
        return super().descent(items)


@pytest.mark.parametrize("seed", range(3))
def test_where_few_are_asked_for_the_same_are_found_without_walking_everything(ledger: Ledger, seed: int) -> None:
    rng = random.Random(seed)
    crowd(ledger, 90, rng)
    decide(ledger, 90, rng)
    graph, whole = ProvenanceGraph(ledger), WalkedWhole(ledger)
    for starts in (["i0"], ["i3", "i40"]):
        for most in (1, 2, 5, 20, 200):
            found, expected = (taint.spread_of(starts, ledger, one, most=most) for one in (graph, whole))
            assert list(found.tainted.items()) == list(expected.tainted.items())
            assert list(found.met.items()) == list(expected.met.items())


def test_a_long_chain_is_not_walked_to_its_end_where_few_are_asked_for(ledger: Ledger) -> None:
    chain(ledger, 60)
    rows, unlooked = ProvenanceGraph(ledger).descent(["i0"], most=10)
    assert len(rows) == 10 and unlooked == {"i10"}
    rows, unlooked = ProvenanceGraph(ledger).descent(["i0"], most=60)
    assert len(rows) == 59 and not unlooked


def chain(ledger: Ledger, length: int) -> None:
    for n in range(length):
        ledger.append_item(Observation("ann", Channel.MEMORY, f"{WORDS[n % 3 + 1]}, {n}.", id=f"i{n}"))
        if n:
            ledger.append([Draft(EventKind.INFLUENCED, f"i{n}", "ann", {"sources": [f"i{n - 1}"]})])


def test_a_long_chain_is_read_in_few_statements(ledger: Ledger) -> None:
    ledger.append_item(Observation("eve", Channel.MEMORY, "zebra umbrella", id="origin"))
    chain(ledger, 400)
    ledger.append([Draft(EventKind.INFLUENCED, "i0", "ann", {"sources": ["origin"]})])
    graph = ProvenanceGraph(ledger)
    graph.refresh()
    with statements_of(ledger._store) as seen:
        found = taint.spread_of(["origin"], ledger, graph)
    assert len(found.met) == 400 and len(seen) < 20


def test_a_long_chain_of_what_repeats_it_is_read_in_few_statements(ledger: Ledger) -> None:
    """Whether somebody spoke for an item, or a repair brought it in, was asked of each with statements of its own."""
    for n in range(400):
        ledger.append_item(Observation("ann", Channel.MEMORY, f"{WORDS[0]}, {n}.", id=f"i{n}"))
        ledger.append([Draft(EventKind.RULED, f"i{n}", body={"ruling": "allow"})])
        if n:
            ledger.append([Draft(EventKind.INFLUENCED, f"i{n}", "ann", {"sources": [f"i{n - 1}"]})])
    graph = ProvenanceGraph(ledger)
    graph.refresh()
    with statements_of(ledger._store) as seen:
        found = taint.spread_of(["i0"], ledger, graph)
    assert len(found.tainted) == 399 and len(seen) < 40


def test_the_nearest_are_enough_where_only_so_many_are_asked_for(ledger: Ledger) -> None:
    chain(ledger, 60)
    hidden = [f"i{n}" for n in range(5, 25)]
    ledger.append([Draft(EventKind.RULED, item, body={"ruling": "block"}) for item in hidden])
    found = taint.spread_of(["i0"], ledger, ProvenanceGraph(ledger), most=10)
    told = {*found.met, *found.tainted}
    assert {"i1", "i2", "i3", "i4", "i25"} <= told and 9 <= len(told) <= 12 and "i59" not in told
    everything = taint.spread_of(["i0"], ledger, ProvenanceGraph(ledger), most=1_000)
    assert len(everything.met) + len(everything.tainted) == 39
