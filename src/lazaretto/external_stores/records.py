"""The protocol of a caller's own store, and the records that cross between it and the ledger."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable
from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

from lazaretto.types import Ref, SourceClass

Entry = tuple[str, str, Any]
"""Namespace, key and value of one record."""


@runtime_checkable
class ExternalStore(Protocol):
    """A store of the caller's own, as repairs need it. Each method may be a coroutine.

    Values are plain JSON data. ``put`` and ``delete`` may be called again with the same arguments: after a failure
    nobody knows whether the first call arrived.
    """

    def get(self, namespace: str, key: str) -> Any | Awaitable[Any]:
        """The value of a record; None when there is none."""
        ...

    def put(self, namespace: str, key: str, value: Any) -> Awaitable[None] | None:
        """Write a record, also over an existing one."""
        ...

    def delete(self, namespace: str, key: str) -> Awaitable[None] | None:
        """Delete a record; a missing one is no error."""
        ...

    def list(self, namespace: str | None = None) -> Iterable[Entry] | Awaitable[Iterable[Entry]]:
        """Every record, or those of one namespace."""
        ...


@dataclass(frozen=True, slots=True)
class ExternalRecord:
    """One record of such a store, for ``guard.stores.import_records``."""

    ref: Ref
    value: Any
    """Plain JSON data; its texts are judged."""
    agent: str | None = None
    """The agent that wrote it, if known."""
    source: SourceClass | str | None = None
    parents: tuple[Ref | str, ...] = ()
    """Its parents: refs, or ids of items."""
    time: float | None = None
    principal: str | None = None
    """The proved principal behind it; None: your own process."""


@dataclass(frozen=True, slots=True)
class Imported:
    """The outcome of importing records."""

    items: tuple[tuple[Ref, str], ...] = ()
    """Ref and item of each that is new here."""
    held: tuple[Ref, ...] = ()
    """Refs of held items among them, which are to be removed from the other store."""
    known: int = 0
    """Records that were here already, as they are."""
    refused: tuple[tuple[Ref, str], ...] = ()
    """Records that could not be read, each with the reason."""


@dataclass(frozen=True, slots=True)
class DueWrite:
    """One write that a store of the caller's own still has to be given, so that it follows a ruling or a repair."""

    ref: Ref
    item: str
    """The item that has to stand there, or the one that has to go."""
    write: Literal["put", "delete"]
    value: Any = None
    """The value to put."""
    error: str = ""
    """Why the last try failed."""


@dataclass(frozen=True, slots=True)
class Reconciled:
    """The differences between a store and the ledger."""

    unknown: tuple[ExternalRecord, ...] = ()
    """Records in the store and not in the ledger: nobody judged them. ``guard.stores.import_records`` takes them."""
    changed: tuple[ExternalRecord, ...] = ()
    """Records whose value differs from the judged one."""
    held: tuple[Ref, ...] = ()
    """Records in the store that are held here: a write-back is due, or the caller put them back."""
    missing: tuple[Ref, ...] = ()
    """Records in the ledger and in use that are not in the store any more."""
    same: int = 0
    """How many agree."""

    @property
    def clean(self) -> bool:
        """Whether the two agree."""
        return not (self.unknown or self.changed or self.held or self.missing)
