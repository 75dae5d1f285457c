"""The database behind the ledgers: how it is opened, how a transaction begins and ends, other processes in it.

An operator holds a ``Store``; a tenant holds a ``Ledger``, which shows one namespace of it.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
import selectors
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePath
from typing import Any, TypeVar, cast
from urllib.parse import quote

import platformdirs
import sqlalchemy as sa
from sqlalchemy import event, exc
from sqlalchemy.pool import QueuePool

from lazaretto.errors import InputError, LazarettoError, MissingExtra, StoreMissing, StoreUnavailable
from lazaretto.ledger import driver, migrations
from lazaretto.ledger.driver import is_transient, plain_store_errors
from lazaretto.ledger.schema import events, heads


class ChangeDetector:
    """A connection that never writes, so that every commit, by this process too, comes from another connection.

    SQLite's ``data_version`` then changes with each commit, and asking for it costs a look into shared memory.
    """

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._inherited: list[sqlite3.Connection] = []
        self._pid = 0
        self._generation = 0

    def version(self) -> tuple[int, int]:
        """Equal to an earlier answer only if nothing was committed in between."""
        with self._lock:
            connection = self._connection if self._pid == os.getpid() else None
            if connection is None:
                connection = self._connect()
            return self._generation, connection.execute("PRAGMA data_version").fetchall()[0][0]

    def _connect(self) -> sqlite3.Connection:
        if self._connection is not None:  # after a fork: the parent's, neither ours to use nor to close by losing it
            self._inherited.append(self._connection)
        pooled = self._engine.raw_connection()
        connection: sqlite3.Connection = cast(sqlite3.Connection, pooled.driver_connection)
        pooled.detach()
        self._connection, self._pid = connection, os.getpid()
        self._generation += 1  # the numbers of two connections do not compare
        return connection

    def close(self) -> None:
        """Give the connection back."""
        with self._lock:
            if self._connection is not None and self._pid == os.getpid():
                self._connection.close()
                self._connection = None


T = TypeVar("T")
BUSY_SECONDS = 60
"""How long a writer waits for the others before it gives up."""
CONNECT_SECONDS = 10
_SCRUB_MS = 200
"""How long an erasure waits for readers of the old state before it says that it is not finished."""

_WRITE, COMMITTED = "lazaretto_write", "lazaretto_committed"
"""Marks of a connection: that it writes; that it sees only committed data."""
_USED = "lazaretto_used"
_FRESH_S = 5.0
"""A connection that was used within this time is taken to be alive: asking would cost as much as the query
itself."""


_Selector: type[selectors.BaseSelector] = getattr(selectors, "PollSelector", selectors.SelectSelector)
"""For one look at one connection: the default one asks the system four times for that."""


class CommitUnsure(Exception):
    """The store failed while it committed: the work may or may not have been kept."""

    def __init__(self, result: Any, cause: exc.DBAPIError) -> None:
        super().__init__(str(cause))
        self.result, self.cause = result, cause


def default_url() -> str:
    """``LAZARETTO_STORE``, or one SQLite file in the user's data folder."""
    named = os.environ.get("LAZARETTO_STORE")
    if named:
        return named
    return f"sqlite:///{Path(platformdirs.user_data_dir('lazaretto')) / 'ledger.db'}"


def _parse(url: str) -> sa.URL:
    usual = "Use sqlite:///file.db or postgresql://user@host/database"
    if not isinstance(url, (str, PurePath)):
        raise InputError("store", f"is {type(url).__name__}, not a store URL", usual)
    try:
        parsed = sa.make_url(str(url))
    except exc.ArgumentError:
        path = re.sub(r"^(?:sqlite|file):/{0,2}", "", str(url)).strip()
        near = f"Did you mean 'sqlite:///{path}'? " if path and path != ":memory:" else ""
        raise InputError("store", f"{str(url)!r} is not a store URL", f"{near}{usual}") from None
    if parsed.drivername in ("postgres", "postgresql", "postgresql+psycopg"):
        return parsed.set(drivername="postgresql+psycopg")
    if parsed.drivername in ("sqlite", "sqlite+pysqlite"):
        if not parsed.database or parsed.database.startswith((":memory:", "file:")):
            near = f"Did you mean 'sqlite:///{parsed.host}'? " if parsed.host else ""
            fix = f"{near}Use sqlite:///file.db: a ledger lives in a file"
            raise InputError("store", f"{str(url)!r} names no file", fix)
        return parsed
    raise InputError(
        "store", f"{parsed.drivername!r} is not a store this version knows", "Use sqlite:///... or postgresql://..."
    )


def _sqlite_engine(path: Path, *, create: bool, read_only: bool) -> sa.Engine:
    mode = "ro" if read_only else ("rwc" if create else "rw")
    address = f"file:{quote(str(path))}?mode={mode}"
    if read_only and not os.access(path.parent, os.W_OK) and not Path(f"{path}-wal").exists():
        address += "&immutable=1"  # read-only media: SQLite could not make its shared-memory file there

    if create and not read_only and not _there(path):
        _make_file(path)

    def connect() -> sqlite3.Connection:
        connection = sqlite3.connect(
            address, uri=True, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )
        try:
            connection.execute("PRAGMA synchronous=FULL")
            connection.execute("PRAGMA secure_delete=ON")
            if not read_only and connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
                connection.execute("PRAGMA journal_mode=WAL")
        except BaseException:
            connection.close()
            raise
        return connection

    engine = sa.create_engine("sqlite+pysqlite://", creator=connect, poolclass=QueuePool, pool_size=4, max_overflow=60)

    @event.listens_for(engine, "begin")
    def begin(connection: sa.Connection) -> None:
        # the driver's own transaction handling is off, so that a writer takes the lock at once and never upgrades
        writes = connection.get_execution_options().get(_WRITE)
        driver.read(connection, "BEGIN IMMEDIATE" if writes else "BEGIN", ())

    return engine


def _postgres_engine(url: sa.URL, *, read_only: bool) -> sa.Engine:
    try:
        import psycopg
    except ImportError:
        raise MissingExtra("PostgreSQL store", "postgres") from None
    engine = sa.create_engine(
        url,
        pool_size=16,  # as many as a guard has threads for the store: none is opened and closed for one statement
        max_overflow=48,
        pool_use_lifo=True,  # those that were used last are used first: they need no ping
        pool_timeout=BUSY_SECONDS,
        connect_args={"connect_timeout": CONNECT_SECONDS},
    )

    @event.listens_for(engine, "checkin")
    def note_use(_connection: Any, record: Any) -> None:
        record.info[_USED] = time.monotonic()

    @event.listens_for(engine, "checkout")
    def ping(connection: Any, record: Any, _proxy: Any) -> None:
        # a server that went away and came back costs no failed call
        fresh = time.monotonic() - record.info.get(_USED, math.inf) < _FRESH_S
        try:
            if fresh and _silent(connection):
                return
            connection.execute("SELECT 1")
            connection.rollback()
        except psycopg.Error:
            raise exc.InvalidatePoolError from None

    @event.listens_for(engine, "connect")
    def prepare(connection: Any, _record: Any) -> None:
        # acknowledged means durable, also if the server's own default is weaker
        connection.execute("SET synchronous_commit = on")
        connection.execute(f"SET lock_timeout = '{BUSY_SECONDS}s'")
        if read_only:  # the server refuses what goes past transact, as SQLite does
            connection.execute("SET default_transaction_read_only = on")
        connection.commit()

    return engine


def _silent(connection: Any) -> bool:
    """Whether nothing has come that nobody asked for: a server that went away has closed the connection."""
    with _Selector() as selector:
        selector.register(connection.fileno(), selectors.EVENT_READ)
        return not selector.select(0)


@contextmanager
def _committing_itself(connection: sa.Connection) -> Iterator[None]:
    """Every statement inside is a transaction of its own. Set on the driver: by SQLAlchemy's own way it takes longer
    than the statement."""
    raw: Any = connection.connection.dbapi_connection
    with driver.errors(connection, "autocommit"):
        raw.autocommit = True
    try:
        yield
    finally:
        try:
            raw.autocommit = False
        except Exception:  # it was lost, or is in no state to be used again
            connection.invalidate()


class Store:
    """One database with the ledgers of all its tenants; an operator holds it."""

    def __init__(self, engine: sa.Engine, url: sa.URL, *, read_only: bool) -> None:
        self.engine = engine
        self.address = url.render_as_string(hide_password=False)
        self.url = url.render_as_string(hide_password=True)
        """The URL, without the password."""
        self.read_only = read_only
        self.scrubbed = True
        """False while erased bytes may still lie in SQLite's log."""
        self._made: Path | None = None
        """The file that opening this store made."""
        self._pid = os.getpid()
        self._readers = engine.execution_options(**{COMMITTED: True})
        self._change_detector = ChangeDetector(engine) if engine.dialect.name == "sqlite" else None

    @classmethod
    def open(
        cls, url: str | None = None, *, create: bool = True, read_only: bool = False, upgrade: bool = True
    ) -> Store:
        """Open or create the store at ``url``; an old schema is upgraded, unless it is not to be or must not be."""
        parsed, made = _parse(url or default_url()), None
        if parsed.drivername.startswith("sqlite"):
            path = Path(parsed.database or "").expanduser().absolute()
            if not _there(path) and (read_only or not create):
                raise StoreMissing(parsed.render_as_string())
            if create and not read_only:
                _make_folder(path.parent)
                made = None if _there(path) else path
            parsed = parsed.set(drivername="sqlite", database=str(path))
            engine = _sqlite_engine(path, create=create, read_only=read_only)
        else:
            engine = _postgres_engine(parsed, read_only=read_only)
        store = cls(engine, parsed, read_only=read_only)
        store._made = made
        try:
            store._settle_schema(create=create, upgrade=upgrade)
        except BaseException:
            store.close()
            raise
        return store

    def _settle_schema(self, *, create: bool, upgrade: bool) -> None:
        with self.reading() as connection:
            present = migrations.applied_migrations(connection)
        if self.read_only:
            migrations.refuse_old(present, self.url)
        elif present is None and not create:
            raise StoreMissing(self.url)
        elif migrations.missing_migrations(present) and upgrade:
            self.upgrade()

    def upgrade(self) -> tuple[str, ...]:
        """Run the migrations this store lacks; returns their names. ``open`` does it by itself."""
        return tuple(step.name for step in self.transact(migrations.apply_migrations))

    @property
    def dialect(self) -> str:
        """``sqlite`` or ``postgresql``."""
        return self.engine.dialect.name

    def namespaces(self) -> tuple[str, ...]:
        """Every tenant of this store: for operators, never for tenants."""
        with self.reading() as connection:
            rows = connection.execute(sa.select(heads.c.namespace).order_by(heads.c.namespace))
            return tuple(row[0] for row in rows)

    def _after_fork(self) -> None:
        if os.getpid() != self._pid:  # the parent's connections are not ours to use or to close
            self.engine.dispose(close=False)
            self._pid = os.getpid()

    def _connect(self) -> sa.Connection:
        self._after_fork()
        return self.engine.connect()

    def version(self) -> tuple[int, int] | None:
        """Equal to an earlier answer only if nobody wrote in between; None where only reading can tell."""
        if self._change_detector is None:
            return None
        self._after_fork()
        try:
            return self._change_detector.version()
        except (sqlite3.Error, exc.SQLAlchemyError):
            return None  # the next read raises the error

    @contextmanager
    def reading(self, *, snapshot: bool = False) -> Iterator[sa.Connection]:
        """A connection for reading; with ``snapshot`` all its reads see one moment."""
        self._after_fork()
        with plain_store_errors(self.url), self._readers.connect() as connection:
            if snapshot:
                if self.dialect == "postgresql":
                    connection.execution_options(isolation_level="REPEATABLE READ")
                connection.begin()
                yield connection
            elif self.dialect == "postgresql":
                # a statement by itself sees one moment anyway: no BEGIN, no ROLLBACK, each a trip to the server
                with _committing_itself(connection):
                    yield connection
            else:
                yield connection

    def transact(self, work: Callable[[sa.Connection], T]) -> T:
        """Run ``work`` in one write transaction; when this returns, its writes are durable.

        A connection that turns out to be dead before the commit is replaced once. A failure of the commit itself
        leaves it open whether the work was kept: ``CommitUnsure``.
        """
        if self.read_only:
            raise StoreUnavailable(f"{self.url}: opened read-only")
        with plain_store_errors(self.url):
            try:
                return self._transact_once(work)
            except exc.DBAPIError as error:
                if not is_transient(error):
                    raise
                return self._transact_once(work)

    def _transact_once(self, work: Callable[[sa.Connection], T]) -> T:
        with self._connect() as connection:
            connection.execution_options(**{_WRITE: True})
            transaction = connection.begin()
            try:
                result = work(connection)
            except BaseException:
                _rollback(transaction)
                raise
            try:
                transaction.commit()
            except exc.DBAPIError as error:
                _rollback(transaction)
                raise CommitUnsure(result, error) from error
            return result

    def scrub(self) -> bool:
        """After an erasure: write SQLite's log into the file and empty it, so that the old bytes are nowhere left.

        Returns whether it could: a reader of the old state keeps the log. It is tried again with every
        write, and when the store is closed.
        """
        if self.dialect != "sqlite" or self.read_only:
            return True
        with plain_store_errors(self.url), self._connect() as connection:
            connection.execution_options(isolation_level="AUTOCOMMIT")
            connection.exec_driver_sql(f"PRAGMA busy_timeout={_SCRUB_MS}")
            try:
                busy = connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)").first()
            finally:
                connection.exec_driver_sql(f"PRAGMA busy_timeout={BUSY_SECONDS * 1000}")
        self.scrubbed = busy is None or busy[0] == 0
        return self.scrubbed

    def discard(self) -> None:
        """Close a store that came to nothing: the file that opening it made goes where nobody wrote an event to it."""
        unused = False
        if self._made is not None:
            with contextlib.suppress(LazarettoError), self.reading() as connection:
                unused = connection.execute(sa.select(events.c.seq).limit(1)).first() is None
        self.close()
        for ending in ("", "-wal", "-shm") if unused else ():
            Path(f"{self._made}{ending}").unlink(missing_ok=True)

    def close(self) -> None:
        """Give every connection back."""
        if not self.scrubbed:
            with contextlib.suppress(LazarettoError):
                self.scrub()
        if self._change_detector is not None:
            self._change_detector.close()
        self.engine.dispose(close=os.getpid() == self._pid)


def _rollback(transaction: sa.RootTransaction) -> None:
    try:
        transaction.rollback()
    except exc.DBAPIError:
        pass  # the server is gone, and the transaction with it


def _there(path: Path) -> bool:
    try:
        return path.exists()
    except OSError as error:  # a folder on the way may not be entered
        raise StoreUnavailable(
            f"{path} cannot be reached: {error.strerror}. Check the permissions of its folder, or name another store"
        ) from None


def _make_file(path: Path) -> None:
    """An empty file that its owner alone may read; SQLite gives its log the same permissions."""
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600))
    except OSError:
        pass  # SQLite says it better


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreUnavailable(f"the folder {folder} cannot be made: {error.strerror}") from error
