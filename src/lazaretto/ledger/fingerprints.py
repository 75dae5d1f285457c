"""Fingerprints of items that were ruled on before: the indexed table behind the block list."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from lazaretto.ledger.appending import chunks
from lazaretto.ledger.schema import known
from lazaretto.names import check_name


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """One fingerprint of one item."""

    kind: str
    """What was fingerprinted, for example ``text`` or ``image``."""
    key: str
    """The fingerprint itself."""
    item: str
    """The item it was taken from."""
    label: str
    """What was ruled on that item."""


def mark(
    connection: sa.Connection, tenant: int, fingerprints: Sequence[tuple[str, str]], item: str, label: str
) -> None:
    """Remember the fingerprints of an item; marking it again renews the label."""
    one = "?" if connection.dialect.name == "sqlite" else "%s"
    if fingerprints:
        connection.exec_driver_sql(
            f"INSERT INTO lz_known (tenant, kind, key, item, label) VALUES ({', '.join([one] * 5)})"
            " ON CONFLICT (tenant, kind, key, item) DO UPDATE SET label = excluded.label",
            [(tenant, check_name(kind, "kind"), check_name(key, "key"), item, label) for kind, key in fingerprints],
        )


def find(connection: sa.Connection, namespace: str, kind: str, keys: Sequence[str]) -> list[Fingerprint]:
    """The items a tenant knows under any of ``keys``: one statement, one index look-up each, however many are known."""
    one = "?" if connection.dialect.name == "sqlite" else "%s"
    found: list[Fingerprint] = []
    for chunk in chunks(dict.fromkeys(keys)):
        rows = connection.exec_driver_sql(
            f"SELECT kind, key, item, label FROM lz_known WHERE kind = {one}"
            f" AND tenant = (SELECT tenant FROM lz_heads WHERE namespace = {one})"
            f" AND key IN ({', '.join([one] * len(chunk))}) ORDER BY key, item",
            (kind, namespace, *chunk),
        )
        found.extend(Fingerprint(*row) for row in rows)
    return found


def forget(connection: sa.Connection, tenant: int, item: str) -> int:
    """Drop every fingerprint of an item; how many there were."""
    return connection.execute(known.delete().where(known.c.tenant == tenant, known.c.item == item)).rowcount
