"""A store that is away, full, read-only or damaged: a clear error, the process goes on, nothing recorded is lost."""

from __future__ import annotations

import builtins
import os
import sqlite3
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import exc

from lazaretto.errors import InputError, MissingExtra, StoreDamaged, StoreError, StoreUnavailable
from lazaretto.ledger import Ledger, queries, seen_draft
from lazaretto.types import Channel, Draft, EventKind, Observation


def note(text: str = "a note") -> Observation:
    return Observation("ann", Channel.MEMORY, text)


@pytest.mark.parametrize(
    "url",
    ["crew.db", "mysql://x/y", "oracle://x", "sqlite://", "sqlite:///:memory:", "postgresql+asyncpg://x/y", "://"],
)
def test_wrong_urls_are_refused(url: str) -> None:
    with pytest.raises(InputError) as caught:
        Ledger.open(url)
    assert caught.value.field == "store"


def test_a_missing_driver_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any, **more: Any) -> Any:
        if name == "psycopg":
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingExtra) as caught:
        Ledger.open("postgresql://nobody@localhost:1/none")
    assert caught.value.extra == "postgres"


def test_nothing_there(tmp_path: Path, empty_postgres_url: str) -> None:
    for url in (f"sqlite:///{tmp_path / 'none.db'}", empty_postgres_url):
        for options in ({"read_only": True}, {"create": False}):
            with pytest.raises(StoreUnavailable, match="no ledger"):
                Ledger.open(url, **options)
    assert not (tmp_path / "none.db").exists()
    with pytest.raises(StoreUnavailable):
        Ledger.open("postgresql://nobody:hidden-word@localhost:1/none")


def test_the_password_is_never_told() -> None:
    pytest.importorskip("psycopg", reason="needs the postgres extra")
    with pytest.raises(StoreUnavailable) as caught:
        Ledger.open("postgresql://nobody:hidden-word@localhost:1/none")
    assert "hidden-word" not in str(caught.value)


def test_files_that_are_no_ledger(tmp_path: Path) -> None:
    (tmp_path / "text.db").write_text("this is not a database, but it is long enough to be read as one. " * 20)
    with sqlite3.connect(tmp_path / "other.db") as other:
        other.execute("CREATE TABLE songs (name)")
    other.close()
    for name in ("text.db", "other.db"):
        before = (tmp_path / name).read_bytes()
        with pytest.raises(StoreDamaged):
            Ledger.open(f"sqlite:///{tmp_path / name}")
        assert (tmp_path / name).read_bytes()[100:] == before[100:]
    (tmp_path / "folder.db").mkdir()
    with pytest.raises(StoreUnavailable):
        Ledger.open(f"sqlite:///{tmp_path / 'folder.db'}")
    with pytest.raises(StoreUnavailable, match="cannot be made"):
        Ledger.open(f"sqlite:///{tmp_path / 'text.db' / 'deeper' / 'l.db'}")


def test_a_damaged_file_is_a_clear_error(tmp_path: Path) -> None:
    path = tmp_path / "l.db"
    with Ledger.open(f"sqlite:///{path}") as ledger:
        ledger.append([seen_draft(note())])  # the tables of a namespace are made by its first item
    tables = path.stat().st_size
    with Ledger.open(f"sqlite:///{path}") as ledger:
        ledger.append([seen_draft(note(f"{n} " * 50)) for n in range(300)])
    raw = bytearray(path.read_bytes())
    written = slice(tables, len(raw) - 4096, 7)
    raw[written] = bytes(len(raw[written]))
    path.write_bytes(raw)
    with Ledger.open(f"sqlite:///{path}") as ledger:
        found = ledger.verify()
        assert not found.ok and found.reason
        with pytest.raises(StoreDamaged):
            list(ledger.events())


def test_a_full_disk_loses_nothing(tmp_path: Path) -> None:
    with Ledger.open(f"sqlite:///{tmp_path / 'l.db'}") as ledger:
        ledger.append_item(note())

        def limit(connection: Any, _record: Any) -> None:
            connection.execute("PRAGMA max_page_count = 60")

        ledger._store.engine.dispose()
        sa.event.listen(ledger._store.engine, "connect", limit)
        recorded = 1
        with pytest.raises(StoreUnavailable, match="full"):
            for _ in range(500):
                ledger.append_item(note("word " * 400))
                recorded += 1
        sa.event.remove(ledger._store.engine, "connect", limit)
        ledger._store.engine.dispose()
        assert recorded > 1
        assert ledger.verify().ok and ledger.head().seq == recorded
        ledger.append_item(note("there is room again"))
        assert ledger.verify().checked == recorded + 1


def without_rights(work: Callable[[], str]) -> str:
    """What ``work`` says in a child process that is not root (for whom no file is read-only)."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            if os.geteuid() == 0:
                os.setgid(65534)
                os.setuid(65534)
            os.write(writer, work().encode())
        except BaseException as error:
            os.write(writer, f"failed: {error!r}".encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as told:
        said = told.read()
    os.waitpid(child, 0)
    return said


def test_a_read_only_file_and_folder() -> None:
    with tempfile.TemporaryDirectory() as name:  # not tmp_path: another user must be able to walk into it
        folder = Path(name)
        url = f"sqlite:///{folder / 'l.db'}"
        with Ledger.open(url) as ledger:
            ledger.append([Draft(EventKind.NOTED, "x")])
            ledger.verify()
        with Ledger.open(url, read_only=True) as ledger:
            ledger.head()

        def use() -> str:
            with Ledger.open(url, read_only=True) as reader:
                assert reader.verify().checked == 1
                with pytest.raises(StoreUnavailable) as caught, Ledger.open(url) as writer:
                    writer.append([Draft(EventKind.NOTED, "y")])
                assert reader.head().seq == 1
            return f"refused: {caught.value}"

        for file in folder.iterdir():
            file.chmod(0o444)
        folder.chmod(0o555)
        said = without_rights(use)
        folder.chmod(0o755)
        assert said.startswith("refused:"), said


def test_a_locked_file_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from lazaretto.ledger import store

    monkeypatch.setattr(store, "BUSY_SECONDS", 0.2)
    with Ledger.open(f"sqlite:///{tmp_path / 'l.db'}") as ledger:
        other = sqlite3.connect(tmp_path / "l.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreUnavailable, match="locked"):
            ledger.append([Draft(EventKind.NOTED, "x")])
        assert list(ledger.events()) == []
        other.execute("ROLLBACK")
        other.close()
        ledger.append([Draft(EventKind.NOTED, "x")])
        assert ledger.verify().checked == 1


@pytest.mark.slow
def test_a_server_that_goes_away_and_comes_back(postgres_server: Any, postgres_url: str) -> None:
    with Ledger.open(postgres_url) as ledger:
        ledger.append_item(note())
        postgres_server.stop()
        for call in (lambda: ledger.append_item(note()), ledger.head, lambda: list(ledger.events()), ledger.verify):
            with pytest.raises(StoreUnavailable):
                call()
        postgres_server.start()
        ledger.append_item(note())  # the pool's dead connections cost no failed call
        postgres_server.stop()
        postgres_server.start()
        assert ledger.head().seq == 2
        ledger.append_item(note())
        assert ledger.verify().checked == 3


class LostCommit:
    """Makes the next commits fail towards the caller, either before or after they really happened."""

    def __init__(self, ledger: Ledger, *, really: bool, times: int) -> None:
        self._really, self._left = really, times
        dialect = ledger._store.engine.dialect
        self._commit = dialect.do_commit
        dialect.do_commit = self  # type: ignore[method-assign]

    def __call__(self, connection: Any) -> None:
        if self._left <= 0:
            return self._commit(connection)
        self._left -= 1
        if self._really:
            self._commit(connection)
        raise sqlite3.OperationalError("the line went dead")


@pytest.mark.parametrize("really", [True, False])
@pytest.mark.parametrize("times", [1, 2, 3])
def test_an_unsure_commit_is_recorded_exactly_once(tmp_path: Path, really: bool, times: int) -> None:
    with Ledger.open(f"sqlite:///{tmp_path / 'l.db'}") as ledger:
        item = note()
        LostCommit(ledger, really=really, times=times)
        drafts = [seen_draft(item), Draft(EventKind.RETRIEVED, item.id, "bob")]
        for _ in range(4):
            try:
                events = ledger.append(drafts)
                break
            except StoreError:
                continue
        assert list(ledger.events()) == events and len(events) == 2
        assert ledger.verify().checked == 2


def test_every_database_error_becomes_ours() -> None:
    from lazaretto.ledger.driver import translate

    assert isinstance(translate(exc.TimeoutError("pool"), "u"), StoreUnavailable)
    assert isinstance(translate(exc.OperationalError("s", {}, Exception("gone")), "u"), StoreUnavailable)
    assert isinstance(translate(exc.IntegrityError("s", {}, Exception("twice")), "u"), StoreDamaged)


def test_a_forked_child_opens_its_own_connections(tmp_path: Path) -> None:
    with Ledger.open(f"sqlite:///{tmp_path / 'l.db'}") as ledger:
        ledger.append([Draft(EventKind.NOTED, "parent")])
        child = os.fork()
        if child == 0:
            code = 1
            try:
                ledger.append([Draft(EventKind.NOTED, "child")])
                code = 0
            finally:
                os._exit(code)
        assert os.waitpid(child, 0)[1] == 0
        ledger.append([Draft(EventKind.NOTED, "parent again")])
        assert [event.subject for event in ledger.events()] == ["parent", "child", "parent again"]
        assert ledger.verify().ok


def test_a_connection_lost_while_edges_are_read_is_a_store_that_is_away(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They were read past SQLAlchemy: the driver's own error ended a worker of the mixed load."""
    psycopg = pytest.importorskip("psycopg", reason="needs the postgres extra")
    host, name = postgres_url.split("host=")[1], postgres_url.split("@/")[1].split("?")[0]
    with Ledger.open(postgres_url) as ledger:
        ledger.append_item(note())
        assert len(list(ledger.edge_columns(after=0, until=9))) == 1, "and the tenant's number is known from now on"
        known = queries.tenant_of

        def cut_off(connection: sa.Connection, namespace: str) -> int | None:
            found = known(connection, namespace)
            with psycopg.connect(f"host={host} user=postgres dbname=postgres", autocommit=True) as admin:
                admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", (name,))
            return found

        with monkeypatch.context() as patch:
            patch.setattr(queries, "tenant_of", cut_off)
            with pytest.raises(StoreUnavailable):
                list(ledger.edge_columns(after=0, until=9))
        assert len(list(ledger.edge_columns(after=0, until=9))) == 1, "and it comes back"
