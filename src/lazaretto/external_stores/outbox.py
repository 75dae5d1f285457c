"""Records in callers' stores: imported with their known origins; rulings and repairs are written back to them.

There is no queue. Due writes follow from the ledger (``ledger/refs.py``), so nothing is lost when a process dies, and
writing twice does no harm. A store that is away is tried again by the next ``write_back``.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from lazaretto.errors import InputError, TooLarge, UnknownItem
from lazaretto.external_stores.records import (
    DueWrite,
    Entry,
    ExternalRecord,
    ExternalStore,
    Imported,
    Reconciled,
    text_of,
    with_text,
)
from lazaretto.ledger import Ledger
from lazaretto.ledger.refs import RefState, check_ref, ref_draft
from lazaretto.names import check_name
from lazaretto.types import Decision, Draft, Observation, Receipt, Ref, WrittenBack

log = logging.getLogger("lazaretto")
T = TypeVar("T")
TRIES = 3
_PAUSE_S = 0.05
_MAX_ERROR = 500
UNKNOWN_THERE = "another value stands there by now, which nobody judged"


class Outbox:
    """The stores of the caller's own that one guard writes to."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._stores: dict[str, ExternalStore] = {}

    def join(self, system: str, store: ExternalStore) -> None:
        """Write back to ``store`` every change of records under that system's name."""
        name = check_name(system, "system", printable=True)
        lacking = [name for name in ("get", "put", "delete", "list") if not callable(getattr(store, name, None))]
        if lacking:
            raise InputError("store", f"has no {lacking[0]}()", "Give an object with get, put, delete and list")
        self._stores[name] = store

    def note_deleted(self, ref: Ref, agent: str) -> None:
        """Record that the caller deleted a record; nothing is recorded of an unknown one."""
        state = self._ledger.ref_states([ref]).get(ref)
        if state is not None:
            self._ledger.append([ref_draft("deleted", state.newest, ref, by=agent)])

    async def take_out(self, item: Observation) -> None:
        """Delete the record of an item that is about to be erased from the joined store that keeps it. A record that
        has another value by now stays. An error of the store is raised."""
        store = None if item.ref is None else self._stores.get(item.ref.system)
        if store is None or item.ref is None:
            return
        _, namespace, key = item.ref
        if agrees(item, await _called(store.get, namespace, key)):
            await _tried(store.delete, namespace, key)

    async def restore(self, ref: Ref) -> None:
        """Put the version in a joined store that should stand there after another one was taken out."""
        state = (await asyncio.to_thread(self._ledger.ref_states, [ref])).get(ref)
        if state is not None and state.wanted and ref.system in self._stores:
            store = self._stores[ref.system]
            if await _called(store.get, ref.namespace, ref.key) is None:
                await asyncio.to_thread(self._ledger.append, [ref_draft("removed", state.wanted, ref)])
                await self._write(store, self._ledger.ref_states([ref])[ref])

    async def write_back(self) -> tuple[WrittenBack, ...]:
        """Make the due writes; one outcome for each record."""
        done: list[WrittenBack] = []
        for system, store in self._stores.items():
            for state in await asyncio.to_thread(self._ledger.refs_of, system, due=True):
                done.append(await self._write(store, state))
        return tuple(done)

    def due(self, system: str, limit: int) -> tuple[DueWrite, ...]:
        """Due writes of a store that the caller writes to, the longest known record first."""
        name = check_name(system, "system", printable=True)
        return tuple(map(self._due_write, self._ledger.refs_of(name, due=True)[:limit]))

    def note_written(self, ref: Ref, item: str, write: str, error: str = "") -> bool:
        """Record the caller's write, or failed write, to a store; False if that was known.

        It names the item that is there now. If another item should be there by now, that write is due next.
        """
        if write not in ("put", "delete"):
            raise InputError("write", f"is {write!r}", "Give 'put' or 'delete'")
        if self._ledger.item(item).ref != ref:
            raise InputError("item", f"{item} is not kept under {tuple(ref)}", "Give ref and item as they were due")
        if error:
            return self._note_failure(item, ref, error[:_MAX_ERROR])
        there = item if write == "put" else ""
        if self._ledger.ref_states([ref])[ref].there == there:
            return False
        self._ledger.append([ref_draft("stored" if there else "removed", item, ref)])
        return True

    async def reconcile(
        self, system: str, namespace: str | None = None, entries: Iterable[Entry] | None = None
    ) -> Reconciled:
        """The differences between a store and the ledger; nothing is changed on either side."""
        check_name(system, "system", printable=True)
        if entries is None:
            store = self._stores.get(system)
            if store is None:
                fix = "Call guard.stores.join(system, store) first, or give its entries"
                raise InputError("system", f"{system!r} is not joined", fix)
            entries = await _called(store.list, namespace)
        return await asyncio.to_thread(self._compare, system, namespace, entries)

    def with_outcomes(self, receipts: Sequence[Receipt]) -> tuple[Receipt, ...]:
        """Receipts with how the records they touch stand in the stores of the caller's own."""
        touched = {step.item for receipt in receipts for step in receipt.plan.steps}
        refs = self._refs_of(touched)
        if not refs:
            return tuple(receipts)
        states = self._ledger.ref_states(refs)
        outcomes: dict[str, WrittenBack] = {}
        for ref, items in refs.items():
            outcome = self._outcome(states[ref])
            outcomes |= dict.fromkeys(items, outcome)
        return tuple(_with_outcomes(receipt, outcomes) for receipt in receipts)

    def _refs_of(self, items: Collection[str]) -> dict[Ref, list[str]]:
        found: dict[Ref, list[str]] = {}
        for item in self._ledger.items(ids=list(items), any_state=True, limit=None) if items else ():
            if item.ref is not None:
                found.setdefault(item.ref, []).append(item.id)
        return found

    def _outcome(self, state: RefState) -> WrittenBack:
        if state.due:
            why = self._ledger.last_failure(state.ref)
            absent = "" if state.ref.system in self._stores else f"the store {state.ref.system!r} is not joined"
            return WrittenBack(state.ref, state.wanted or state.there, "due", why or absent)
        return WrittenBack(state.ref, state.wanted or state.newest, "put" if state.wanted else "deleted")

    def _due_write(self, state: RefState) -> DueWrite:
        why = self._ledger.last_failure(state.ref) or ""
        if not state.wanted:
            return DueWrite(state.ref, state.there, "delete", error=why)
        return DueWrite(state.ref, state.wanted, "put", value_of(self._ledger.item(state.wanted)), why)

    async def _write(self, store: ExternalStore, state: RefState) -> WrittenBack:
        ref, item = state.ref, state.wanted or state.there
        try:
            standing = await _called(store.get, ref.namespace, ref.key)
            if standing is not None and not await asyncio.to_thread(self._is_known, state, standing):
                raise InputError("value", UNKNOWN_THERE, "Import or reconcile the record, then it is written")
            if state.wanted:
                wanted = await asyncio.to_thread(self._ledger.item, state.wanted)
                await _tried(store.put, ref.namespace, ref.key, value_of(wanted))
            else:
                await _tried(store.delete, ref.namespace, ref.key)
        except Exception as error:
            why = f"{type(error).__name__}: {error}"[:_MAX_ERROR]
            log.warning("the record %s could not be written back and is still due: %s", tuple(ref), why)
            await asyncio.to_thread(self._note_failure, item, ref, why)
            return WrittenBack(ref, item, "due", why)
        draft = ref_draft("stored" if state.wanted else "removed", item, ref)
        await asyncio.to_thread(self._ledger.append, [draft])
        return WrittenBack(ref, item, "put" if state.wanted else "deleted")

    def _is_known(self, state: RefState, value: Any) -> bool:
        """Whether a value in a store is a version of the record that was judged. Another one belongs to nobody here."""
        ids = [item for item in {state.there, state.wanted, state.newest, state.owner} if item]
        versions = self._ledger.items(ids=ids, any_state=True, limit=None) if ids else []
        return any(agrees(item, value) for item in versions)

    def _note_failure(self, item: str, ref: Ref, why: str) -> bool:
        if self._ledger.last_failure(ref) == why:
            return False  # a store that stays away does not fill the ledger
        self._ledger.append([ref_draft("failed", item, ref, error=why)])
        return True

    def _compare(self, system: str, namespace: str | None, entries: Iterable[Entry]) -> Reconciled:
        unknown, changed, held, same = list[ExternalRecord](), list[ExternalRecord](), list[Ref](), 0
        known = {state.ref: state for state in self._ledger.refs_of(system)}
        wanted = [state.wanted for state in known.values() if state.wanted]
        ours = {item.id: item for item in self._ledger.items(ids=wanted, any_state=True, limit=None)} if wanted else {}
        seen: set[Ref] = set()
        for where, key, value in entries:
            ref = Ref(system, where, key)
            seen.add(ref)
            state = known.get(ref)
            if state is None:
                unknown.append(ExternalRecord(ref, value))
            elif state.wanted and agrees(ours[state.wanted], value):
                same += 1
            elif not state.wanted and agrees(self._ledger.item(state.newest), value):
                held.append(ref)
            else:
                changed.append(ExternalRecord(ref, value))
        inside = [state for state in known.values() if namespace is None or state.ref.namespace == namespace]
        missing = [state.ref for state in inside if state.wanted and state.ref not in seen]
        return Reconciled(tuple(unknown), tuple(changed), tuple(held), tuple(missing), same)


def external_write_drafts(observation: Observation, decision: Decision) -> list[Draft]:
    """The events of an item that the caller writes to a store of its own if it is allowed."""
    return stored_anyway(observation, decision) if decision.allowed else []


def stored_anyway(observation: Observation, decision: Decision) -> list[Draft]:
    """The events of an item that is in a store of the caller's own already."""
    return [] if observation.ref is None else [ref_draft("stored", observation.id, observation.ref)]


def value_of(item: Observation) -> Any:
    """The value that the caller's store should keep of an item: as it was, with the item's text."""
    if item.value is None or text_of(item.value) == item.text:
        return item.text if item.value is None else item.value
    return with_text(item.value, item.text)


def agrees(item: Observation, value: Any) -> bool:
    """Whether a value is the judged one."""
    return bool(value_of(item) == value)


def _with_outcomes(receipt: Receipt, outcomes: Mapping[str, WrittenBack]) -> Receipt:
    mine = (outcomes[step.item] for step in receipt.plan.steps if step.item in outcomes)
    return replace(receipt, foreign=tuple(dict.fromkeys(mine)))


async def _called(method: Callable[..., Awaitable[T] | T], *arguments: Any) -> T:
    """A method of a store, in a thread of its own because it may block, and waited for where it is a coroutine."""
    if inspect.iscoroutinefunction(method):
        waited: T = await method(*arguments)
        return waited
    found = await asyncio.to_thread(method, *arguments)
    return await found if inspect.isawaitable(found) else found


async def _tried(method: Callable[..., Awaitable[None] | None], *arguments: Any) -> None:
    for left in reversed(range(TRIES)):
        try:
            return await _called(method, *arguments)
        except Exception:
            if not left:
                raise
            await asyncio.sleep(_PAUSE_S * (TRIES - left))


# Records that others wrote, imported with their known origins.

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
