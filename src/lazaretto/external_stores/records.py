"""The protocol of a caller's own store, and the records that cross between it and the ledger."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

import orjson

from lazaretto.errors import InputError, TooLarge
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


# The texts in a value of a caller's store, and how a new text gets back into it.

_SENTENCE = re.compile(r"[^.!?\n]+(?:[.!?]+|\n|$)\s*|[.!?\n]+\s*")


def texts_in(value: Any) -> Iterator[str]:
    """Every text in a value, keys of several words too: a model reads them all."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            if isinstance(key, str) and len(key.split()) > 1:
                yield key
            if isinstance(inner, (str, Mapping, list, tuple)):
                yield from texts_in(inner)
            elif inner is not None and not isinstance(inner, bool):
                yield f"{key}: {inner}"
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from texts_in(inner)
    elif value is not None and not isinstance(value, bool):
        yield str(value)


def text_of(value: Any) -> str:
    """The text by which a value is judged."""
    if isinstance(value, str):
        return value
    return "\n".join(text for text in texts_in(value) if text.strip())


def with_text(value: Any, text: str) -> Any:
    """A value with ``text`` in place of its own texts: each of these keeps the sentences that are left of it.

    One that says something which was nowhere in the value becomes ``{"text": ...}``.
    """
    if value is None or isinstance(value, str):
        return text
    left = _mapped(value, lambda old: "".join(s for s in _SENTENCE.findall(old) if s.strip() in text).strip())
    if _letters(text_of(left)) == _letters(text):
        return left
    facts = set(texts_in(_mapped(value, lambda _: "")))
    kept = "\n".join(line for line in text.split("\n") if line not in facts)
    return _mapped(value, lambda _: kept) if len(set(texts_in(value)) - facts) == 1 else {"text": kept}


def _letters(text: str) -> str:
    return "".join(text.split())


def _mapped(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {key: _mapped(inner, change) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_mapped(inner, change) for inner in value]
    return value


def check_value(value: Any, limit: int) -> Any:
    """A value as plain JSON data inside the limit."""
    try:
        raw = orjson.dumps(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(
            "value", f"is not plain JSON data: {error}", "Give text, numbers, lists and mappings"
        ) from None
    if len(raw) > limit:
        raise TooLarge("value", len(raw), limit, setting="limits.max_fields_bytes")
    return orjson.loads(raw)
