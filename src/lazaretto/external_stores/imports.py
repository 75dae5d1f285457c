"""Records that others wrote, imported with their known origins."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable

from lazaretto.errors import InputError, TooLarge, UnknownItem
from lazaretto.external_stores.outbox import agrees
from lazaretto.external_stores.records import ExternalRecord, Imported
from lazaretto.ledger import Ledger
from lazaretto.ledger.refs import RefState, check_ref, ref_draft
from lazaretto.types import Decision, Ref

Judge = Callable[[ExternalRecord, tuple[str, ...]], Awaitable[Decision]]
"""Judges and records one record, given the items it was made from."""


class RecordImporter:
    """Takes records in, one after the other: the parents of a record must be known before it."""

    def __init__(self, ledger: Ledger, judge: Judge) -> None:
        self._ledger, self._judge = ledger, judge

    async def run(self, records: Iterable[ExternalRecord], in_store: Callable[..., Awaitable[bool]]) -> Imported:
        """Judge new and changed records; records that are already here, unchanged, are left alone."""
        items, held, refused, known = list[tuple[Ref, str]](), list[Ref](), list[tuple[Ref, str]](), 0
        for record in records:
            ref = check_ref(record.ref)
            if await in_store(self._is_known, ref, record):
                known += 1
                continue
            try:
                parents = tuple(self._item(parent) for parent in record.parents)
                decision = await self._judge(record, parents)
            except (InputError, TooLarge, UnknownItem) as error:
                refused.append((ref, str(error)))
                continue
            items.append((ref, decision.item))
            if not decision.allowed:
                held.append(ref)
        return Imported(tuple(items), tuple(held), known, tuple(refused))

    def _item(self, parent: Ref | str) -> str:
        if isinstance(parent, str):
            return parent
        ref = check_ref(parent, "parents")
        state = self._ledger.ref_states([ref]).get(ref)
        if state is None:
            raise InputError("parents", f"{tuple(ref)} is not known", "Import what a record was made from before it")
        return state.wanted or state.newest

    def _is_known(self, ref: Ref, record: ExternalRecord) -> bool:
        state = self._ledger.ref_states([ref]).get(ref)
        if state is None:
            return False
        if state.wanted:
            return agrees(self._ledger.item(state.wanted), record.value) and self._stands(state, state.wanted)
        held = self._ledger.state(state.newest).held
        return held and agrees(self._ledger.item(state.newest), record.value) and self._stands(state, state.newest)

    def _stands(self, state: RefState, item: str) -> bool:
        """Say that an item stands in the other store, where the ledger did not know that."""
        if state.there != item:
            self._ledger.append([ref_draft("stored", item, state.ref)])
        return True
