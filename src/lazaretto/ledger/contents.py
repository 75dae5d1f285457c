"""Contents: pictures and other bytes, stored once for all tenants; items with exactly the same content."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Sequence
from typing import Protocol

import orjson
import sqlalchemy as sa

from lazaretto.errors import InputError, TooLarge
from lazaretto.ledger.chain import MAX_BODY
from lazaretto.ledger.schema import blob_refs, blobs, items
from lazaretto.types import Observation, SourceClass, plain

Content = tuple[bytes, SourceClass]
"""Digest of an item's content, and its source class."""


class _Items(Protocol):
    def items(self, *, ids: Sequence[str], any_state: bool, limit: int | None) -> list[Observation]:
        """The items of a ledger."""
        ...


def content_of(item: Observation) -> bytes:
    """Digest of an item's content: text, picture, fields, value and key."""
    parts = (item.text, item.image, item.fields, item.value, item.key)
    return hashlib.sha256(orjson.dumps(plain(parts))).digest()


class Contents:
    """The contents of those items that were asked for last. The callers' own lock keeps two threads apart."""

    def __init__(self, ledger: _Items) -> None:
        self._ledger = ledger
        self._known: dict[str, Content] = {}

    def of(self, ids: Collection[str]) -> dict[str, Content]:
        """The content of each item, without erased ones. Items that are not asked for are forgotten."""
        unread = [item for item in ids if item not in self._known]
        for read in self._ledger.items(ids=unread, any_state=True, limit=None) if unread else ():
            self._known[read.id] = content_of(read), read.source
        self._known = {item: self._known[item] for item in ids if item in self._known}
        return self._known


# Pictures and other bytes, stored once for all tenants, readable only by those who put them.


def check_blob(data: object) -> bytes:
    """``data`` as bytes that every store can take."""
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise InputError("data", f"is {type(data).__name__}, not bytes")
    if len(data) > MAX_BODY:
        raise TooLarge("data", len(data), MAX_BODY)
    return bytes(data)


def put(connection: sa.Connection, tenant: int, data: bytes) -> str:
    """Keep ``data`` for a tenant; its content address."""
    digest = hashlib.sha256(data).hexdigest()
    mark = "?" if connection.dialect.name == "sqlite" else "%s"
    # the reference first: a process that drops the blob's last reference meanwhile waits for this one, or sees it
    connection.exec_driver_sql(
        f"INSERT INTO lz_blob_refs (tenant, digest) VALUES ({mark}, {mark}) ON CONFLICT DO NOTHING", (tenant, digest)
    )
    connection.exec_driver_sql(
        f"INSERT INTO lz_blobs (digest, data) VALUES ({mark}, {mark}) ON CONFLICT DO NOTHING", (digest, data)
    )
    return digest


# made once: building the statement cost more than running it
_OWN_BLOB = (
    sa.select(blobs.c.data)
    .join(blob_refs, blob_refs.c.digest == blobs.c.digest)
    .where(blob_refs.c.tenant == sa.bindparam("tenant"), blobs.c.digest == sa.bindparam("digest"))
)


def get(connection: sa.Connection, tenant: int | None, digest: str) -> bytes | None:
    """The bytes at ``digest`` if this tenant put them."""
    data = connection.execute(_OWN_BLOB, {"tenant": tenant, "digest": digest}).scalar()
    return None if data is None else bytes(data)


def drop_unused(connection: sa.Connection, tenant: int, digests: Iterable[str]) -> None:
    """Take away a tenant's blobs that none of its items shows any more, and their bytes if no tenant is left."""
    for digest in set(digests):
        used = sa.select(items.c.id).where(items.c.tenant == tenant, items.c.image == digest).limit(1)
        if connection.execute(used).first() is not None:
            continue
        connection.execute(blob_refs.delete().where(blob_refs.c.tenant == tenant, blob_refs.c.digest == digest))
        others = sa.select(blob_refs.c.tenant).where(blob_refs.c.digest == blobs.c.digest)
        connection.execute(blobs.delete().where(blobs.c.digest == digest, ~sa.exists(others)))
