"""A right that one process holds at a time: on both databases, when a process dies, and when a connection is cut."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import sqlalchemy as sa

from lazaretto.ledger import Ledger
from lazaretto.ledger.lease import Lease

HOLDER = """
import sys
from lazaretto.ledger import Ledger
with Ledger.open(sys.argv[1]) as ledger:
    assert ledger.lease("recheck").hold()
    print("held", flush=True)
    sys.stdin.read()
"""


def taken(lease: Lease, within: float = 30.0) -> bool:
    """Whether it can be taken; PostgreSQL ends the session of who let go a moment later."""
    end = time.monotonic() + within
    while not (held := lease.hold()) and time.monotonic() < end:
        time.sleep(0.01)
    return held


def test_one_holds_it_until_it_lets_go(store_url: str) -> None:
    with Ledger.open(store_url) as one, Ledger.open(store_url) as two:
        first, second = one.lease("recheck"), two.lease("recheck")
        assert first.hold() and first.hold() and not second.hold()
        first.release()
        assert taken(second) and not first.hold()
        second.release()
        second.release()
        assert taken(first) and not second.hold()
        first.release()


def test_other_rights_and_other_tenants_have_their_own(store_url: str) -> None:
    with Ledger.open(store_url, "ours") as ours, Ledger.open(store_url, "theirs") as theirs:
        held = [ours.lease("recheck"), ours.lease("webhooks"), theirs.lease("recheck")]
        assert [one.hold() for one in held] == [True, True, True]
        assert not ours.lease("webhooks").hold()
        for one in held:
            one.release()


def test_it_ends_with_its_process(store_url: str) -> None:
    command = [sys.executable, "-c", HOLDER, store_url]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == b"held\n"
        with Ledger.open(store_url) as ledger:
            lease = ledger.lease("recheck")
            assert not lease.hold()
            holder.send_signal(signal.SIGKILL)
            holder.wait(30)
            assert taken(lease), "nobody else gets what a dead process held"
            lease.release()


def test_who_lost_the_connection_does_not_go_on_as_if_it_held_it(postgres_url: str) -> None:
    with Ledger.open(postgres_url) as one, Ledger.open(postgres_url) as two:
        first, second = one.lease("recheck"), two.lease("recheck")
        assert first.hold() and not second.hold()
        with two._store.engine.connect() as other:
            cut = (
                "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND pid <> pg_backend_pid()"
            )
            assert other.execute(sa.text(cut)).scalars().all() == [True]
        assert taken(second) and not first.hold(), "the lock went with the connection"
        second.release()
        assert taken(first), "over a new connection"
        first.release()


def test_where_its_file_cannot_be_made_nobody_holds_it(tmp_path) -> None:  # type: ignore[no-untyped-def]
    with Ledger.open(f"sqlite:///{tmp_path / 'crew.db'}") as ledger:
        lease = ledger.lease("recheck")
        assert lease.hold()
        lease.release()
        (file,) = tmp_path.glob("crew.db.*.lease")
        assert file.stat().st_mode & 0o777 == 0o600
        file.unlink()
        file.mkdir()
        assert not lease.hold()
