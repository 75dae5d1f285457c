"""Whether an item may be shown is said once, and Python and both databases read it alike."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from lazaretto.ledger import ItemState, Ledger
from lazaretto.types import Channel, Draft, EventKind, Observation, Ruling

Flags = tuple[bool, bool, bool, Ruling | None]
"""Hidden, superseded, erased, and the ruling."""


def every_combination() -> Iterator[Flags]:
    return product((False, True), (False, True), (False, True), (None, *Ruling))


def drafts_for(item: str, other: str, flags: Flags) -> list[Draft]:
    """Events that bring an item into a state: an undo may set every field but the content's own."""
    hidden, superseded, _, ruling = flags
    fields = {
        "hidden": hidden,
        "superseded_by": other if superseded else None,
        "ruling": None if ruling is None else ruling.label,
    }
    return [Draft(EventKind.UNDONE, "rc_1", "", {"restored": {item: fields}})]


def test_python_and_sql_agree_on_every_combination_of_flags(ledger: Ledger) -> None:
    combinations = list(every_combination())
    other = Observation("ann", Channel.MEMORY, "the word that replaces")
    ledger.append_item(other)
    items = [Observation("ann", Channel.MEMORY, f"harbour {n}") for n in range(len(combinations))]
    for item, flags in zip(items, combinations, strict=True):
        ledger.append_item(item)
        if flags[2]:
            ledger.erase(item.id, "a request")
        ledger.append(drafts_for(item.id, other.id, flags))
    states = {item.id: ledger.state(item.id) for item in items}
    for item, (hidden, superseded, erased, ruling) in zip(items, combinations, strict=True):
        assert states[item.id] == ItemState(hidden, other.id if superseded else None, erased, ruling)
    visible = {item for item, state in states.items() if state.visible}
    assert len(visible) == 3  # nothing set, and ruled nothing, allow or warn
    listed = {found.id for found in ledger.items(limit=None)} - {other.id}
    found = {hit.id for hit, _ in ledger.search("harbour", limit=1000)}
    assert listed == visible and found == visible
    assert ledger.stats()["visible_items"] == len(visible) + 1
