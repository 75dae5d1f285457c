"""Tables for looking items up: by name in the caller's own store, and by fingerprints of items ruled on before.

A row of ``refs`` rests on a ``SEEN`` event whose item has a ref, or a ``NOTED`` event about ``ref:ITEM``. Under a ref
should stand its newest version that may be shown, unless the caller deleted it; where another one is believed to stand
there, a write is *due*. The first writer owns a record.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import orjson
import sqlalchemy as sa

from lazaretto.errors import InputError
from lazaretto.ledger import driver
from lazaretto.ledger.driver import chunks
from lazaretto.ledger.effects import held_sql, visible_sql
from lazaretto.ledger.schema import known, refs
from lazaretto.names import check_name
from lazaretto.types import Draft, EventKind, Ref

ABOUT = "ref:"
"""Prefix of the subject of an event about an item in the caller's store."""
SEEN = "seen"
Outcome = Literal["stored", "removed", "deleted", "failed"]
"""Outcome for a record: the item is stored there, was removed, was deleted by the caller, or could not be written."""
_OUTCOMES = frozenset(get_args(Outcome))
Row = tuple[str, str, str, str, str, str]
"""Digest of the ref, the outcome (column ``told``), the item, and the ref's three parts."""


@dataclass(frozen=True, slots=True)
class RefState:
    """The state of one ref."""

    ref: Ref
    wanted: str
    """The item that should stand there; empty for nothing."""
    there: str
    """The item that is believed to stand there; empty for nothing."""
    newest: str
    """The item that was recorded last, in any state."""
    owner: str
    """The first item that was recorded there since the last deletion, one that is not held before others; its writer
    owns the record. Empty for nobody."""
    owner_held: bool
    """Whether that item is held: then nobody wrote there yet who may."""

    @property
    def due(self) -> bool:
        """Whether something has to be written back."""
        return self.wanted != self.there


SeenRecord = tuple[str, bool, str]
"""The record's owner, whether that item is held, and the item that should stand there. A ruling on another version
of the record depends on these."""


def seen_record(state: RefState | None) -> SeenRecord:
    """A record as it is seen now; that of one that nobody wrote is empty."""
    return ("", False, "") if state is None else (state.owner, state.owner_held, state.wanted)


def check_ref(ref: object, field: str = "ref") -> Ref:
    """A ref from a ``Ref`` or three texts: system, namespace (may be empty) and key."""
    if isinstance(ref, str) or not isinstance(ref, (tuple, list)) or len(ref) != 3:
        raise InputError(field, f"is {ref!r}, not (system, namespace, key)", "Give three texts")
    system, namespace, key = ref
    return Ref(
        check_name(system, f"{field}.system"),
        check_name(namespace, f"{field}.namespace", empty=True),
        check_name(key, f"{field}.key"),
    )


def digest_of(ref: Ref) -> str:
    """The key of a ref in the table: of one length, however long its parts are."""
    return hashlib.sha256(orjson.dumps(list(ref))).hexdigest()


def ref_draft(outcome: Outcome, item: str, ref: Ref, **more: Any) -> Draft:
    """The event that records the outcome for an item in the caller's store."""
    return Draft(EventKind.NOTED, ABOUT + item, body={"told": outcome, "ref": list(ref), **more})


def row_of(kind: EventKind, subject: str, body: Mapping[str, Any] | None) -> Row | None:
    """The row that an event makes; None for most events."""
    if body is None or "ref" not in body:
        return None
    if kind is EventKind.SEEN:
        outcome, item = SEEN, subject
    elif kind is EventKind.NOTED and subject.startswith(ABOUT):
        outcome, item = str(body.get("told")), subject.removeprefix(ABOUT)
        if outcome not in _OUTCOMES:
            raise ValueError(f"{subject!r} says {outcome!r} of a ref")
    else:
        return None
    parts = body["ref"]
    if not (isinstance(parts, (list, tuple)) and len(parts) == 3 and all(isinstance(part, str) for part in parts)):
        raise ValueError(f"{parts!r} is no ref")
    ref = Ref(*parts)
    return (digest_of(ref), outcome, item, *ref)


def drop(connection: sa.Connection, tenant: int, items: Iterable[str]) -> None:
    """Forget under which names erased items stood."""
    for chunk in chunks(items):
        connection.execute(refs.delete().where(refs.c.tenant == tenant, refs.c.item.in_(chunk)))


_STATES = f"""
WITH chosen AS (SELECT ref, seq, told, item FROM lz_refs WHERE tenant = :tenant {{chosen}}),
gone AS (SELECT ref, MAX(seq) AS seq FROM chosen WHERE told = 'deleted' GROUP BY ref),
shown AS (
  SELECT chosen.ref, chosen.item, ROW_NUMBER() OVER (PARTITION BY chosen.ref ORDER BY chosen.seq DESC) AS place
  FROM chosen JOIN lz_items ON lz_items.tenant = :tenant AND lz_items.id = chosen.item
  LEFT JOIN gone ON gone.ref = chosen.ref
  WHERE chosen.told = 'seen' AND chosen.seq > COALESCE(gone.seq, 0) AND {visible_sql()}),
believed AS (
  SELECT ref, item, told, ROW_NUMBER() OVER (PARTITION BY ref ORDER BY seq DESC) AS place
  FROM chosen WHERE told IN ('stored', 'removed', 'deleted')),
firsts AS (
  SELECT chosen.ref, chosen.item, {held_sql("lz_items")} AS held,
    ROW_NUMBER() OVER (PARTITION BY chosen.ref ORDER BY {held_sql("lz_items")}, chosen.seq) AS place
  FROM chosen JOIN lz_items ON lz_items.tenant = :tenant AND lz_items.id = chosen.item
  LEFT JOIN gone ON gone.ref = chosen.ref
  WHERE chosen.told = 'seen' AND chosen.seq > COALESCE(gone.seq, 0)),
newest AS (
  SELECT ref, item, seq, ROW_NUMBER() OVER (PARTITION BY ref ORDER BY seq DESC) AS place
  FROM chosen WHERE told = 'seen')
SELECT lz_refs.system, lz_refs.namespace, lz_refs.key, COALESCE(shown.item, ''),
  CASE WHEN believed.told = 'stored' THEN believed.item ELSE '' END, newest.item, COALESCE(firsts.item, ''),
  COALESCE(firsts.held, 0)
FROM newest JOIN lz_refs ON lz_refs.tenant = :tenant AND lz_refs.ref = newest.ref AND lz_refs.seq = newest.seq
LEFT JOIN shown ON shown.ref = newest.ref AND shown.place = 1
LEFT JOIN believed ON believed.ref = newest.ref AND believed.place = 1
LEFT JOIN firsts ON firsts.ref = newest.ref AND firsts.place = 1
WHERE newest.place = 1 {{only}} ORDER BY newest.seq
"""
_DUE = "AND COALESCE(shown.item, '') <> CASE WHEN believed.told = 'stored' THEN believed.item ELSE '' END"


def states(connection: sa.Connection, tenant: int, wanted: Iterable[Ref]) -> dict[Ref, RefState]:
    """The states of some refs; unrecorded ones are left out."""
    statement = sa.text(_STATES.format(chosen="AND ref IN :refs", only="")).bindparams(
        sa.bindparam("refs", expanding=True)
    )
    found: dict[Ref, RefState] = {}
    for chunk in chunks(dict.fromkeys(digest_of(ref) for ref in wanted)):
        rows = connection.execute(statement, {"tenant": tenant, "refs": chunk})
        found.update((state.ref, state) for state in map(_state, rows))
    return found


def of_system(connection: sa.Connection, tenant: int, system: str, *, due: bool) -> Iterator[RefState]:
    """The states of all refs of a system, or only of those with a due write; oldest first."""
    statement = _STATES.format(chosen="AND system = :system", only=_DUE if due else "")
    rows = connection.execute(sa.text(statement), {"tenant": tenant, "system": system}).all()
    return map(_state, rows)


def last_failure(connection: sa.Connection, tenant: int, ref: Ref) -> int | None:
    """The event that says why the last try to write a ref back failed; None when it did not."""
    newest = sa.select(refs.c.seq, refs.c.told).where(refs.c.tenant == tenant, refs.c.ref == digest_of(ref))
    row = connection.execute(newest.where(refs.c.told != SEEN).order_by(refs.c.seq.desc()).limit(1)).first()
    return None if row is None or row[1] != "failed" else int(row[0])


def _state(row: Any) -> RefState:
    system, namespace, key, wanted, there, newest, owner, held = row
    return RefState(Ref(system, namespace, key), wanted, there, newest, owner, bool(held))


# Fingerprints of items that were ruled on before: the indexed table behind the block list.
#
# Every change is an event (``NOTED`` about ``known:ITEM``): the table can be replayed, verified and exported.

FINGERPRINTS_ABOUT = "known:"
"""Prefix of the subject of an event that changes an item's fingerprints."""


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """One fingerprint of one item."""

    kind: str
    """The kind of content, for example ``text`` or ``image``."""
    key: str
    """The fingerprint itself."""
    item: str
    """The item it was taken from."""
    label: str
    """The ruling on that item."""


@dataclass(frozen=True, slots=True)
class FingerprintChange:
    """The change that one event makes to an item's fingerprints."""

    item: str
    label: str | None
    """None: they are forgotten."""
    keys: tuple[tuple[str, str], ...] = ()


def marked(keys: Sequence[tuple[str, str]], item: str, label: str) -> Draft:
    """The event by which (kind, key) fingerprints of an item are remembered; marking it again renews the label."""
    checked = [[check_name(kind, "kind"), check_name(key, "key")] for kind, key in keys]
    return Draft(EventKind.NOTED, FINGERPRINTS_ABOUT + item, body={"known": label, "keys": checked})


def forgotten(item: str) -> Draft:
    """The event by which every fingerprint of an item is dropped."""
    return Draft(EventKind.NOTED, FINGERPRINTS_ABOUT + item, body={"known": None, "keys": []})


def change_of(subject: str, body: Mapping[str, Any] | None) -> FingerprintChange | None:
    """The change in a ``NOTED`` event; None if the event is about something else, or was erased."""
    if body is None or not subject.startswith(FINGERPRINTS_ABOUT) or "known" not in body:
        return None
    label, keys = body["known"], body.get("keys", ())
    if not (label is None or isinstance(label, str)) or not all(_is_key(key) for key in keys):
        raise ValueError(f"{subject!r} is no change of a fingerprint")
    return FingerprintChange(subject.removeprefix(FINGERPRINTS_ABOUT), label, tuple((kind, key) for kind, key in keys))


def _is_key(key: Any) -> bool:
    return isinstance(key, (list, tuple)) and len(key) == 2 and all(isinstance(part, str) for part in key)


def write(connection: sa.Connection, tenant: int, change: FingerprintChange) -> None:
    """Bring the table in step with an event."""
    if change.label is None:
        forget(connection, tenant, change.item)
        return
    mark = driver.mark(connection)
    if change.keys:
        driver.write(
            connection,
            f"INSERT INTO lz_known (tenant, kind, key, item, label) VALUES ({', '.join([mark] * 5)})"
            " ON CONFLICT (tenant, kind, key, item) DO UPDATE SET label = excluded.label",
            [(tenant, kind, key, change.item, change.label) for kind, key in change.keys],
        )


def find(connection: sa.Connection, namespace: str, kind: str, keys: Sequence[str]) -> list[Fingerprint]:
    """The items a tenant knows under any of ``keys``: one statement, one index look-up each, however many are known."""
    mark = driver.mark(connection)
    found: list[Fingerprint] = []
    for chunk in chunks(dict.fromkeys(keys)):
        among, given = driver.among(connection, "key", chunk)
        rows = driver.read(
            connection,
            f"SELECT kind, key, item, label FROM lz_known WHERE kind = {mark}"
            f" AND tenant = (SELECT tenant FROM lz_heads WHERE namespace = {mark}) AND {among} ORDER BY key, item",
            (kind, namespace, *given),
        )
        found.extend(Fingerprint(*row) for row in rows)
    return found


def forget(connection: sa.Connection, tenant: int, item: str) -> int:
    """Drop every fingerprint of an item; how many there were."""
    return connection.execute(known.delete().where(known.c.tenant == tenant, known.c.item == item)).rowcount


def count(connection: sa.Connection, tenant: int | None, item: str) -> int:
    """How many fingerprints of an item are known."""
    query = sa.select(sa.func.count()).select_from(known).where(known.c.tenant == tenant, known.c.item == item)
    return int(connection.execute(query).scalar() or 0)


def unrecorded(connection: sa.Connection, tenant: int) -> list[tuple[str, dict[str, Any]]]:
    """The whole table as subjects and bodies of events: for stores that are older than these events."""
    rows = connection.execute(sa.select(known).where(known.c.tenant == tenant).order_by(known.c.item, known.c.key))
    grouped: dict[tuple[str, str], list[list[str]]] = {}
    for row in rows:
        grouped.setdefault((row.item, row.label), []).append([row.kind, row.key])
    return [(FINGERPRINTS_ABOUT + item, {"known": label, "keys": keys}) for (item, label), keys in grouped.items()]
