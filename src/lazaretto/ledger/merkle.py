"""A Merkle tree over a chain's events, as in RFC 6962: proofs of consistency in the logarithm of its length.

Nodes above whole blocks of events are kept (``lz_tree``) once the block is full, so the length of a chain says which
nodes there must be, and ``verify`` finds a missing one. Nodes inside a block are made from its events again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence

import sqlalchemy as sa

from lazaretto.errors import StoreDamaged
from lazaretto.ledger import driver

LOWEST = 6
"""The level of the lowest nodes that are kept."""
BLOCK = 1 << LOWEST
"""Events under one of them."""

Node = Callable[[int, int], bytes]
"""The hash of the whole subtree at a level (0: leaves) and place."""


def leaf(digest: bytes) -> bytes:
    """The leaf of an event, from its hash."""
    return hashlib.sha256(b"\0" + digest).digest()


def join(left: bytes, right: bytes) -> bytes:
    """The node above two."""
    return hashlib.sha256(b"\1" + left + right).digest()


def _split(size: int) -> int:
    """The largest power of two below ``size``."""
    return 1 << ((size - 1).bit_length() - 1)


def root(node: Node, start: int, end: int) -> bytes:
    """The hash of the leaves from ``start`` up to ``end``; ``start`` is a multiple of the power of two below."""
    size = end - start
    if size == 0:
        return hashlib.sha256().digest()
    if size & (size - 1) == 0:
        level = size.bit_length() - 1
        return node(level, start >> level)
    middle = start + _split(size)
    return join(root(node, start, middle), root(node, middle, end))


def prove(node: Node, old: int, new: int) -> list[bytes]:
    """Proof that the tree of ``new`` leaves begins with the tree of ``old`` leaves."""
    return [] if old in (0, new) else _prove(node, old, 0, new, True)


def _prove(node: Node, old: int, start: int, end: int, whole: bool) -> list[bytes]:
    size = end - start
    if old == size:
        return [] if whole else [root(node, start, end)]
    middle = _split(size)
    if old <= middle:
        return [*_prove(node, old, start, start + middle, whole), root(node, start + middle, end)]
    return [*_prove(node, old - middle, start + middle, end, False), root(node, start, start + middle)]


def consistent(old: int, new: int, old_root: bytes, new_root: bytes, proof: Sequence[bytes]) -> bool:
    """Whether ``proof`` shows that a tree with ``new_root`` only added to one with ``old_root`` (RFC 9162, 2.1.4.2)."""
    if old > new or old < 0:
        return False
    if old == new:
        return not proof and old_root == new_root
    if old == 0:
        return not proof
    path = [old_root, *proof] if old & (old - 1) == 0 else list(proof)
    if not path:
        return False
    first, last = old - 1, new - 1
    while first & 1:
        first, last = first >> 1, last >> 1
    small = big = path[0]
    for node in path[1:]:
        if last == 0:
            return False
        if first & 1 or first == last:
            small, big = join(node, small), join(node, big)
            while not first & 1 and first:
                first, last = first >> 1, last >> 1
        else:
            big = join(big, node)
        first, last = first >> 1, last >> 1
    return last == 0 and small == old_root and big == new_root


class Builder:
    """Whole subtrees as leaves come in; the verifier compares them with the stored ones."""

    def __init__(self) -> None:
        self.size = 0
        self._edge: list[tuple[int, bytes]] = []

    def add(self, digest: bytes) -> Iterator[tuple[int, int, bytes]]:
        """Level, place and hash of every subtree that this event completes, above the leaves."""
        level, hashed = 0, leaf(digest)
        self.size += 1
        while self._edge and self._edge[-1][0] == level:
            hashed = join(self._edge.pop()[1], hashed)
            level += 1
            yield level, (self.size >> level) - 1, hashed
        self._edge.append((level, hashed))

    def root(self) -> bytes:
        """The root over all leaves so far."""
        if not self._edge:
            return hashlib.sha256().digest()
        hashed = self._edge[-1][1]
        for _, left in reversed(self._edge[:-1]):
            hashed = join(left, hashed)
        return hashed


def kept_of(size: int) -> int:
    """How many of a chain's first events have their nodes in the store."""
    return size - size % BLOCK


def _whole(digests: Sequence[bytes]) -> bytes:
    """The node over so many events as fill a subtree, from their hashes."""
    row = [leaf(digest) for digest in digests]
    while len(row) > 1:
        row = list(map(join, row[::2], row[1::2]))
    return row[0]


def _over_events(connection: sa.Connection, tenant: int, level: int, place: int) -> bytes:
    """A node that is not kept, or not yet."""
    mark, start, count = driver.mark(connection), place << level, 1 << level
    find = f"SELECT hash FROM lz_events WHERE tenant = {mark} AND seq > {mark} AND seq <= {mark} ORDER BY seq"
    digests = [bytes(row[0]) for row in driver.read(connection, find, (tenant, start, start + count))]
    if len(digests) != count:
        raise StoreDamaged(
            f"one of the events {start + 1} to {start + count} is missing: run 'lazaretto ledger verify'"
        )
    return _whole(digests)


def stored_node(connection: sa.Connection, tenant: int) -> Node:
    """Nodes from the store; those inside of a block, from the events."""

    mark = driver.mark(connection)
    of_node = f"SELECT hash FROM lz_tree WHERE tenant = {mark} AND level = {mark} AND place = {mark}"

    def node(level: int, place: int) -> bytes:
        if level < LOWEST:
            return _over_events(connection, tenant, level, place)
        found = driver.read(connection, of_node, (tenant, level, place))
        if found:
            return bytes(found[0][0])
        if level == LOWEST:
            return _over_events(connection, tenant, level, place)
        return join(node(level - 1, 2 * place), node(level - 1, 2 * place + 1))

    return node


def extend(connection: sa.Connection, tenant: int, before: int, size: int) -> None:
    """Keep the nodes of every block that became full between two lengths of a chain, in the caller's transaction."""
    mark = driver.mark(connection)
    keep = (
        f"INSERT INTO lz_tree (tenant, level, place, hash) VALUES ({', '.join([mark] * 4)})"
        " ON CONFLICT (tenant, level, place) DO NOTHING"
    )
    node = stored_node(connection, tenant)
    for full in range(kept_of(before) >> LOWEST, kept_of(size) >> LOWEST):
        level, place, above = LOWEST, full, _over_events(connection, tenant, LOWEST, full)
        rows = [(tenant, level, place, above)]
        while place & 1:
            above, level, place = join(node(level, place - 1), above), level + 1, place >> 1
            rows.append((tenant, level, place, above))
        driver.write(connection, keep, rows)
