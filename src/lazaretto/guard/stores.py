"""Stores of the caller's own: records taken in, compared, and written back to when something is repaired."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from lazaretto.external_stores.outbox import RecordImporter, stored_anyway
from lazaretto.external_stores.records import DueWrite, Entry, ExternalRecord, ExternalStore, Imported, Reconciled
from lazaretto.guard.core import Core
from lazaretto.ingest.raw_input import RawInput
from lazaretto.ledger.refs import check_ref
from lazaretto.names import check_name, check_principal
from lazaretto.types import PROCESS, Channel, Decision, Ref, WrittenBack


class Stores:
    """``guard.stores``: stores of your own that rulings and repairs reach."""

    def __init__(self, core: Core) -> None:
        """Part of the guard with this core."""
        self._core = core

    def join(self, system: str, store: ExternalStore) -> None:
        """Let rulings and repairs reach the store that keeps the records of ``system``: they are written back to it.

        Held records are deleted there; rewritten or released ones are put there again. See ``write_back``.
        """
        self._core.outbox.join(system, store)

    async def forget(
        self, ref: Ref | Sequence[str], *, agent: str, principal: str | None = None, by_right: bool = False
    ) -> None:
        """Record that the agent deleted a record in a store of your own: it is not recalled any more.

        ``Forbidden`` for a record that belongs to another writer: ask before you delete it there. ``by_right``: the
        caller may delete it, no matter who owns it. ``principal``: as in ``check``.
        """
        by, gone = check_name(agent, "agent", printable=True), check_ref(ref)
        behind = f"{PROCESS}{by}" if principal is None else check_principal(principal)

        def work() -> None:
            if not by_right:
                self._core.owners.require_owner(gone, by, behind)
            self._core.outbox.note_deleted(gone, by)

        await self._core.in_store_thread(work)

    async def import_records(self, records: Iterable[ExternalRecord], *, agent: str) -> Imported:
        """Judge and record the records of a store of your own, with their known origins.

        ``agent`` counts as the writer of records that name none. Records that are already recorded cost nothing;
        records held here are removed there by the next ``write_back``.
        """
        writer = check_name(agent, "agent", printable=True)

        async def judge(record: ExternalRecord, parents: tuple[str, ...]) -> Decision:
            raw = RawInput(
                record.agent or writer, Channel.MEMORY, parents=parents, source=record.source, time=record.time,
                ref=record.ref, value=record.value, principal=record.principal,
            )  # fmt: skip
            return await self._core.judge_and_record(raw, stored_anyway, stands=True)

        return await RecordImporter(self._core.ledger, judge).run(records, self._core.in_store_thread)

    async def reconcile(
        self, system: str, namespace: str | None = None, *, entries: Iterable[Entry] | None = None
    ) -> Reconciled:
        """The differences between a store and the ledger; nothing is changed.

        The store is a joined one, or ``entries`` are all it holds: namespace, key and value of each record.
        """
        self._core.require_open()
        return await self._core.outbox.reconcile(system, namespace, entries)

    async def write_back(self) -> tuple[WrittenBack, ...]:
        """Make the due writes to joined stores; repairs, labels and ``recheck`` call it by themselves."""
        self._core.require_open()
        return await self._core.outbox.write_back()

    async def due_writes(self, system: str, *, limit: int = 256) -> tuple[DueWrite, ...]:
        """Due writes of a store that this process cannot reach; make them there, then call ``note_written``."""
        self._core.require_open()
        return await self._core.in_store_thread(self._core.outbox.due, system, limit)

    async def note_written(
        self, ref: Ref | Sequence[str], *, item: str, write: Literal["put", "delete"], error: str = ""
    ) -> bool:
        """Record that a due write was done elsewhere, or with ``error`` why it was not; False: that was known.

        May be called again. If the ruling changed in between, the write that follows from it is due next.
        """
        name = check_name(item, "item", printable=True)
        return await self._core.in_store_thread(self._core.outbox.note_written, check_ref(ref), name, write, error)
