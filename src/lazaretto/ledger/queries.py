"""Reading one tenant's events, items and edges back. Every query here is bound to a tenant."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any
from weakref import WeakKeyDictionary

import sqlalchemy as sa

from lazaretto.ledger import driver, search
from lazaretto.ledger.chain import EventRow, event_from
from lazaretto.ledger.drafts import observation_of
from lazaretto.ledger.driver import chunks
from lazaretto.ledger.effects import STRICTEST_SHOWN, EdgeColumns, EdgeEnd, ItemState, held_sql, visible_sql
from lazaretto.ledger.schema import blob_refs, blobs, edges, events, heads, items, known
from lazaretto.ledger.store import COMMITTED, Store
from lazaretto.types import Channel, Edge, EdgeKind, Event, EventKind, Observation, Ruling

_FIRST_PAGE, _LARGEST_PAGE = 64, 1000
_PAGE_BYTES = 1 << 20
"""Bytes of bodies in a page of events: bodies of repairs can be a thousand times longer than those of items."""
_EDGE_PAGE = 5_000
_MOST_IDS = 10_000  # in one statement: both databases take three times as many
_LAST = (1 << 63) - 1
_EDGE_KINDS = {kind.value: kind for kind in EdgeKind}
_VISIBLE = sa.text(visible_sql())
_TENANT = sa.select(heads.c.tenant).where(heads.c.namespace == sa.bindparam("namespace"))

_TENANTS: WeakKeyDictionary[sa.Engine, dict[str, int]] = WeakKeyDictionary()
"""The numbers of tenants, by the store they are in."""

# SQLite by itself would walk the whole chain to spare itself the sorting of a handful of rows
_BY_SUBJECT = (
    sa.text(
        f"SELECT {', '.join(column.name for column in events.c)} FROM lz_events INDEXED BY lz_events_subject"
        " WHERE tenant = :tenant AND subject = :subject AND seq > :after AND kind IN :kinds ORDER BY seq LIMIT :size"
    )
    .bindparams(sa.bindparam("kinds", expanding=True))
    .columns(*events.c)
)
_HELD = sa.text(f"SELECT id FROM lz_items WHERE tenant = :tenant AND ruling > {int(STRICTEST_SHOWN)} ORDER BY seq")


def tenant_of(connection: sa.Connection, namespace: str) -> int | None:
    """The number under which a namespace's rows stand; None when it has none yet. It never changes."""
    # an event that is not committed yet may never be: only those that readers see are remembered
    known = _TENANTS.setdefault(connection.engine, {}) if connection.get_execution_options().get(COMMITTED) else {}
    if namespace not in known:
        found = connection.execute(_TENANT, {"namespace": namespace}).scalar()
        if found is None:
            return None
        known[namespace] = int(found)
    return known[namespace]


@cache
def _events_query(of_kinds: bool, about_one: bool) -> sa.Select[Any]:
    """Events past one, in order. Made once: building a statement costs as much as running it."""
    query = sa.select(events).where(events.c.tenant == sa.bindparam("tenant"), events.c.seq > sa.bindparam("after"))
    if of_kinds:
        query = query.where(events.c.kind.in_(sa.bindparam("kinds", expanding=True)))
    if about_one:
        query = query.where(events.c.subject == sa.bindparam("about"))
    return query.order_by(events.c.seq).limit(sa.bindparam("size"))


@lru_cache(maxsize=256)
def _by_kind(kinds: tuple[str, ...], dialect: str, mark: str) -> str:
    """Events of some kinds past one, in order: each kind by its own index, merged; parameters are the tenant and the
    event for each kind, and then how many.

    Events of other kinds are never visited. ``kind IN (...)`` would walk the whole chain past ``after``, or sort.
    """
    names = ", ".join(column.name for column in events.c)
    table = "lz_events INDEXED BY lz_events_kind" if dialect == "sqlite" else "lz_events"
    each = (f"SELECT {names} FROM {table} WHERE tenant = {mark} AND kind = '{kind}' AND seq > {mark}" for kind in kinds)
    return f"{' UNION ALL '.join(each)} ORDER BY seq LIMIT {mark}"


def read_events(
    store: Store,
    namespace: str,
    *,
    after: int,
    kinds: Iterable[EventKind] | None,
    subject: str | None,
    limit: int | None,
) -> Iterator[Event]:
    """Events in order, page by page: a slow reader holds no transaction open, and long events fill no memory."""
    words = None if kinds is None else [EventKind(kind).value for kind in kinds]
    left, most = limit, _FIRST_PAGE
    page: Sequence[EventRow]
    while left is None or left > 0:
        size = most if left is None else min(left, most)
        with store.reading() as connection:
            tenant = tenant_of(connection, namespace)  # none has no events; asked all the same, a lost table is noticed
            if subject is not None and store.dialect == "sqlite":
                known = {"tenant": tenant, "after": after, "subject": subject, "size": size}
                chosen = [kind.value for kind in EventKind] if words is None else words
                page = connection.execute(_BY_SUBJECT, {**known, "kinds": chosen}).all()
            elif subject is None and words:
                each = tuple(dict.fromkeys(words))
                query = _by_kind(each, store.dialect, driver.mark(connection))
                page = driver.read(connection, query, (*(tenant, after) * len(each), size))
            else:
                given: dict[str, Any] = {"tenant": tenant, "after": after, "size": size}
                given |= {} if words is None else {"kinds": words}
                given |= {} if subject is None else {"about": subject}
                page = connection.execute(_events_query(words is not None, subject is not None), given).all()
        yield from (event_from(namespace, row) for row in page)
        if len(page) < size:
            return
        after = page[-1][1]
        left = None if left is None else left - len(page)
        most = _next_size(page)


def _next_size(page: Sequence[EventRow]) -> int:
    """How many events to read after a page: as many as have a page's bytes if they are like these, and not many more
    than these at once, for they may be longer."""
    read = sum(len(row[-1] or b"") for row in page)
    return max(1, min(_LARGEST_PAGE, 4 * len(page), _PAGE_BYTES * len(page) // max(1, read)))


def _about(
    connection: sa.Connection, tenant: int | None, subjects: Sequence[str], kinds: Sequence[EventKind], last: bool
) -> Iterable[Any]:
    """Events of some kinds about many subjects, or the number of the last one about each. For the driver itself: the
    statement compiler takes longer than the store."""
    statement = _about_statement(connection.dialect.name, len(subjects), len(kinds), last)
    return driver.read(connection, statement, (tenant, *subjects, *(kind.value for kind in kinds)))


def _about_statement(dialect: str, subjects: int, kinds: int, last: bool) -> str:
    """The statement that uses the subjects' index."""
    mark = "?" if dialect == "sqlite" else "%s"
    table = "lz_events INDEXED BY lz_events_subject" if dialect == "sqlite" else "lz_events"
    what = "subject, MAX(seq)" if last else ", ".join(column.name for column in events.c)
    rest = " AND body IS NOT NULL GROUP BY subject" if last else ""
    about, of_kinds = (", ".join([mark] * count) for count in (subjects, kinds))
    return f"SELECT {what} FROM {table} WHERE tenant = {mark} AND subject IN ({about}) AND kind IN ({of_kinds}){rest}"


def events_about(
    connection: sa.Connection, namespace: str, subjects: Iterable[str], kinds: Sequence[EventKind]
) -> list[Event]:
    """Events of some kinds about any of many subjects, found by these."""
    tenant, found = tenant_of(connection, namespace), list[Event]()
    for chunk in chunks(dict.fromkeys(subjects)):
        found += [event_from(namespace, row) for row in _about(connection, tenant, chunk, kinds, last=False)]
    return found


def last_about(
    connection: sa.Connection, namespace: str, subjects: Iterable[str], kinds: Sequence[EventKind]
) -> dict[str, int]:
    """The number of the last event of some kinds about each of many subjects; erased ones do not count."""
    tenant, found = tenant_of(connection, namespace), dict[str, int]()
    for chunk in chunks(dict.fromkeys(subjects)):
        rows = _about(connection, tenant, chunk, kinds, last=True)
        found.update((subject, int(seq)) for subject, seq in rows)
    return found


def last_event(connection: sa.Connection, namespace: str) -> tuple[int, bytes] | None:
    """The number and hash of the last event; None where there is none."""
    find = f"SELECT seq, hash FROM lz_heads WHERE namespace = {driver.mark(connection)}"
    rows = driver.read(connection, find, (namespace,))
    return (int(rows[0][0]), bytes(rows[0][1])) if rows else None


def held_items(connection: sa.Connection, namespace: str) -> list[str]:
    """Ids of the items that a ruling holds, oldest first: by an index of these alone."""
    rows = connection.execute(_HELD, {"tenant": tenant_of(connection, namespace)})
    return [row[0] for row in rows]


def _edge_pages(store: Store, namespace: str, after: int, until: int) -> Iterator[Sequence[Any]]:
    """Rows of stored edges in order, page by page: seq, place, source, target, kind, time."""
    mark, place = "?" if store.dialect == "sqlite" else "%s", 1 << 30  # past every edge of the event ``after``
    query = (
        f"SELECT seq, place, source, target, kind, time FROM lz_edges WHERE tenant = {mark}"
        f" AND (seq, place) > ({mark}, {mark}) AND seq <= {mark} ORDER BY seq, place LIMIT {_EDGE_PAGE}"
    )
    while True:
        with store.reading() as connection:
            tenant = tenant_of(connection, namespace)
            page = driver.read(connection, query, (tenant, after, place, until))
        if page:
            yield page
        if len(page) < _EDGE_PAGE:
            return
        after, place = page[-1][0], page[-1][1]


def read_edges(store: Store, namespace: str, *, after: int) -> Iterator[tuple[int, Edge]]:
    """Every stored edge with the number of the event that made it, in order."""
    for page in _edge_pages(store, namespace, after, _LAST):
        for seq, _, source, target, kind, time in page:
            yield seq, Edge(source, target, _EDGE_KINDS[kind], time)


def read_edge_columns(store: Store, namespace: str, *, after: int, until: int) -> Iterator[EdgeColumns]:
    """The edges of the events past ``after`` up to ``until``, in order."""
    for page in _edge_pages(store, namespace, after, until):
        _, _, sources, targets, kinds, times = zip(*page, strict=True)
        yield EdgeColumns(sources, targets, kinds, times)


@lru_cache(maxsize=64)
def _edges_at(dialect: str, end: EdgeEnd, kinds: tuple[str, ...]) -> sa.TextClause:
    """Edges of some kinds at many nodes, in order, by the index of that end."""
    table = f"lz_edges INDEXED BY lz_edges_{end}" if dialect == "sqlite" else "lz_edges"
    # in words, not as parameters: the index leaves writers out, and is used only where the statement does, too
    words = ", ".join(f"'{kind}'" for kind in kinds)
    narrow = " AND kind <> 'written_by'" if end == "target" else ""
    return sa.text(
        f"SELECT source, target, kind, time FROM {table} WHERE tenant = :tenant AND {end} IN :nodes"
        f" AND kind IN ({words}){narrow} AND seq <= :until ORDER BY seq, place"
    ).bindparams(sa.bindparam("nodes", expanding=True))


def read_edges_at(
    connection: sa.Connection,
    namespace: str,
    nodes: Iterable[str],
    *,
    end: EdgeEnd,
    kinds: Sequence[EdgeKind],
    until: int,
) -> Iterator[EdgeColumns]:
    """The edges of some kinds that begin or end at any of many nodes, of events up to ``until``."""
    tenant = tenant_of(connection, namespace)
    query = _edges_at(connection.dialect.name, end, tuple(kind.value for kind in kinds))
    for chunk in chunks(nodes):
        rows = connection.execute(query, {"tenant": tenant, "nodes": chunk, "until": until}).all()
        if rows:
            yield EdgeColumns(*zip(*rows, strict=True))


def _observations(namespace: str, rows: Iterable[EventRow]) -> list[Observation]:
    found = []
    for row in rows:
        event = event_from(namespace, row)
        found.append(observation_of(namespace, event.subject, event.agent, event.time, event.body))
    return found


@cache
def _items_query(hidden: bool, of_agent: bool, of_channel: bool) -> sa.Select[Any]:
    tenant: sa.BindParameter[int] = sa.bindparam("tenant")
    query = (
        sa.select(events)
        .join(items, (items.c.tenant == events.c.tenant) & (items.c.seq == events.c.seq))
        .where(events.c.tenant == tenant, items.c.tenant == tenant)
        # not for items by their ids: these tempt PostgreSQL, as long as it has counted nothing, to walk all such events
        .where(events.c.kind == EventKind.SEEN.value, items.c.id == events.c.subject)
    )
    if not hidden:
        query = query.where(_VISIBLE)
    if of_agent:
        query = query.where(items.c.agent == sa.bindparam("writer"))
    if of_channel:
        query = query.where(items.c.channel == sa.bindparam("by"))
    return query


_BY_ID = (
    f"SELECT {', '.join(f'lz_events.{column.name}' for column in events.c)} FROM lz_events"
    " JOIN lz_items ON lz_items.tenant = lz_events.tenant AND lz_items.seq = lz_events.seq"
)


def _items_by_id(
    connection: sa.Connection, namespace: str, ids: Sequence[str], hidden: bool, columns: Mapping[str, str]
) -> Iterator[Observation]:
    """Items of these ids, in no order, that have the given words in some columns of lz_items."""
    tenant, mark = tenant_of(connection, namespace), driver.mark(connection)
    shown = "" if hidden else f" AND {visible_sql()}"
    words = "".join(f" AND lz_items.{name} = {mark}" for name in columns)
    for chunk in chunks(ids):
        among, given = driver.among(connection, "lz_items.id", chunk)
        query = f"{_BY_ID} WHERE lz_events.tenant = {mark} AND lz_items.tenant = {mark}{shown}{words} AND {among}"
        rows = driver.read(connection, query, (tenant, tenant, *columns.values(), *given))
        yield from _observations(namespace, (row for row in rows if row[2] == EventKind.SEEN.value))


def read_items(
    connection: sa.Connection,
    namespace: str,
    *,
    ids: Sequence[str] | None = None,
    agent: str | None = None,
    channel: Channel | None = None,
    hidden: bool = False,
    limit: int | None = None,
) -> list[Observation]:
    """A tenant's items: in the order of ``ids`` when given, else newest first; without ``hidden`` only visible ones."""
    word = None if channel is None else Channel(channel).value
    if ids is not None:
        wanted = tuple(dict.fromkeys(ids))
        columns = {name: value for name, value in (("agent", agent), ("channel", word)) if value is not None}
        found = {item.id: item for item in _items_by_id(connection, namespace, wanted, hidden, columns)}
        return [found[item] for item in wanted if item in found][:limit]
    given: dict[str, Any] = {"tenant": tenant_of(connection, namespace)}
    given |= {} if agent is None else {"writer": agent}
    given |= {} if word is None else {"by": word}
    query = _items_query(hidden, agent is not None, channel is not None)
    # with an agent its index is walked backwards, else the chain itself: no sort either way
    newest = events.c.seq.desc() if agent is None else items.c.seq.desc()
    return _observations(namespace, connection.execute(query.order_by(newest).limit(limit), given))


def read_copies(connection: sa.Connection, namespace: str, origin: Observation) -> list[Observation]:
    """Visible items with the same picture, found by its address; or memories with the same words, found by these."""
    tenant = tenant_of(connection, namespace)
    if tenant is None:
        return []
    if origin.image is not None:
        shown = sa.select(items.c.id).where(items.c.tenant == tenant, items.c.image == origin.image)
        ids = [row[0] for row in connection.execute(shown)]
        return read_items(connection, namespace, ids=ids)
    if not origin.text.strip():
        return []
    seqs = search.same_words(connection, tenant, origin.text)
    if seqs is None:
        found = read_items(connection, namespace, channel=Channel.MEMORY)
    else:
        named = (observations_at(connection, namespace, chunk).values() for chunk in chunks(seqs))
        found = read_items(connection, namespace, ids=[copy.id for part in named for copy in part])
    if origin.channel is not Channel.MEMORY:
        found += read_items(connection, namespace, channel=origin.channel)
    words = origin.text.split()
    return [item for item in found if item.image is None and item.text.split() == words]


def observations_at(connection: sa.Connection, namespace: str, seqs: Sequence[int]) -> dict[int, Observation]:
    """The items that the given SEEN events brought."""
    tenant = tenant_of(connection, namespace)
    rows = connection.execute(sa.select(events).where(events.c.tenant == tenant, events.c.seq.in_(seqs))).all()
    return {row[1]: item for row, item in zip(rows, _observations(namespace, rows), strict=True)}


def read_states(connection: sa.Connection, namespace: str, ids: Iterable[str]) -> dict[str, ItemState]:
    """The present states of items; those the tenant does not have are left out."""
    tenant, mark = tenant_of(connection, namespace), driver.mark(connection)
    found: dict[str, ItemState] = {}
    for chunk in chunks(dict.fromkeys(ids)):
        among, given = driver.among(connection, "id", chunk)
        query = f"SELECT id, hidden, superseded_by, erased, ruling FROM lz_items WHERE tenant = {mark} AND {among}"
        for item, hidden, superseded_by, erased, ruling in driver.read(connection, query, (tenant, *given)):
            word = None if ruling is None else Ruling(ruling)
            found[item] = ItemState(bool(hidden), superseded_by, bool(erased), word)
    return found


def known_items(connection: sa.Connection, namespace: str, ids: Sequence[str]) -> set[str]:
    """The members of ``ids`` that are items of the tenant: one statement for any number within a policy's limits."""
    found: set[str] = set()
    for chunk in chunks(dict.fromkeys(ids), _MOST_IDS):
        among, given = driver.among(connection, "lz_items.id", chunk)
        query = (
            "SELECT lz_items.id FROM lz_items JOIN lz_heads ON lz_heads.tenant = lz_items.tenant"
            f" WHERE lz_heads.namespace = {driver.mark(connection)} AND {among}"
        )
        found.update(row[0] for row in driver.read(connection, query, (namespace, *given)))
    return found


def count_all(connection: sa.Connection, namespace: str) -> dict[str, Any]:
    """How much a tenant holds, by kind."""
    tenant = tenant_of(connection, namespace)

    def count(table: sa.Table, *conditions: sa.ColumnElement[bool] | sa.TextClause) -> int:
        query = sa.select(sa.func.count()).select_from(table).where(table.c.tenant == tenant, *conditions)
        return int(connection.execute(query).scalar() or 0)

    kinds = connection.execute(
        sa.select(events.c.kind, sa.func.count()).where(events.c.tenant == tenant).group_by(events.c.kind)
    )
    sizes = connection.execute(
        sa.select(sa.func.count(), sa.func.coalesce(sa.func.sum(sa.func.length(blobs.c.data)), 0))
        .select_from(blob_refs)
        .join(blobs, blobs.c.digest == blob_refs.c.digest)
        .where(blob_refs.c.tenant == tenant)
    ).one()
    return {
        "namespace": namespace,
        "events": count(events),
        "kinds": dict(sorted((kind, number) for kind, number in kinds)),
        "items": count(items),
        "visible_items": count(items, _VISIBLE),
        "held_items": count(items, sa.text(f"{held_sql()} = 1")),
        "hidden_items": count(items, items.c.hidden == 1),
        "erased_items": count(items, items.c.erased == 1),
        "edges": count(edges),
        "known": count(known),
        "blobs": int(sizes[0]),
        "blob_bytes": int(sizes[1]),
    }
