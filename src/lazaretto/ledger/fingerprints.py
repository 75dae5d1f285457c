"""Fingerprints of items that were ruled on before: the indexed table behind the block list.

Every change is an event (``NOTED`` about ``known:ITEM``): the table can be replayed, verified and exported.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from lazaretto.ledger import driver
from lazaretto.ledger.driver import chunks
from lazaretto.ledger.schema import known
from lazaretto.names import check_name
from lazaretto.types import Draft, EventKind

ABOUT = "known:"
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
    return Draft(EventKind.NOTED, ABOUT + item, body={"known": label, "keys": checked})


def forgotten(item: str) -> Draft:
    """The event by which every fingerprint of an item is dropped."""
    return Draft(EventKind.NOTED, ABOUT + item, body={"known": None, "keys": []})


def change_of(subject: str, body: Mapping[str, Any] | None) -> FingerprintChange | None:
    """The change in a ``NOTED`` event; None if the event is about something else, or was erased."""
    if body is None or not subject.startswith(ABOUT) or "known" not in body:
        return None
    label, keys = body["known"], body.get("keys", ())
    if not (label is None or isinstance(label, str)) or not all(_is_key(key) for key in keys):
        raise ValueError(f"{subject!r} is no change of a fingerprint")
    return FingerprintChange(subject.removeprefix(ABOUT), label, tuple((kind, key) for kind, key in keys))


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
    return [(ABOUT + item, {"known": label, "keys": keys}) for (item, label), keys in grouped.items()]
