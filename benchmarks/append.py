"""How fast batches reach the ledger, beside a plain ``executemany`` of the same bytes into SQLite.

Each batch is appended by ``Ledger.append`` to one file, and its rows, as they then lie in every table and index, are
written by the standard library's ``sqlite3`` to another file with the same schema and the same pragmas (WAL,
``synchronous=FULL``), one transaction per batch. The two take turns, so that a busy machine slows both. A third file
takes the rows of ``lz_events`` alone, without any index but the key: what a bare log without items, edges and search
would cost.

    python benchmarks/append.py                 # ratios, and how they change as the ledger grows
    python benchmarks/append.py --open          # also the time to open a ledger of 1,000,000 edges, and its graph
    python benchmarks/append.py --write         # also writes its section of docs/performance.md
"""

from __future__ import annotations

import argparse
import random
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from lazaretto.ledger import Ledger, seen_draft
from lazaretto.types import Channel, Draft, EventKind, Observation, new_id

SEED = 20_260_101
WORDS = (
    "ship harbour cargo refund policy invoice customer memory agent note plan tool answer ticket order price shelf "
    "engine route market signal report weather system account balance review schedule contract window paper"
).split()
TABLES = ("lz_events", "lz_items", "lz_edges")


def crew_events(count: int, stream: random.Random) -> Iterator[Draft]:
    """An ordinary crew at work: half of the events bring items (most of them memories with a parent), half are reads."""
    recent: list[str] = []
    for number in range(count):
        agent = f"agent-{stream.randrange(50)}"
        if recent and number % 2:
            yield Draft(EventKind.RETRIEVED, stream.choice(recent), agent)
            continue
        text = " ".join(stream.choices(WORDS, k=25))
        parents = (stream.choice(recent),) if recent and stream.random() < 0.7 else ()
        channel = Channel.MEMORY if stream.random() < 0.6 else Channel.MESSAGE
        item = Observation(agent, channel, text, parents=parents, id=new_id())
        recent = [*recent[-200:], item.id]
        yield seen_draft(item)


def pragmas(file: sqlite3.Connection) -> None:
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "secure_delete=ON"):
        file.execute(f"PRAGMA {pragma}")


class Plain:
    """The yardstick: the same schema, filled by ``executemany``."""

    def __init__(self, path: Path, source: Path) -> None:
        self._source = sqlite3.connect(source)
        self._file = sqlite3.connect(path, isolation_level=None)
        pragmas(self._file)
        for (statement,) in self._source.execute(
            "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL AND name LIKE 'lz_%' AND name NOT LIKE 'lz_search_1_%'"
        ).fetchall():
            self._file.execute(statement)
        self._file.execute("INSERT INTO lz_heads SELECT 1, 'default', 0, x''")

    def write(self, after: int) -> float:
        """Copy the rows of all events past ``after``; the seconds it took, reading not counted."""
        rows = {
            table: self._source.execute(f"SELECT * FROM {table} WHERE tenant = 1 AND seq > ?", (after,)).fetchall()
            for table in TABLES
        }
        texts = self._source.execute(
            "SELECT seq, json_extract(CAST(body AS TEXT), '$.text') FROM lz_events JOIN lz_items USING (tenant, seq)"
            " WHERE tenant = 1 AND seq > ? AND channel = 'memory'",
            (after,),
        ).fetchall()
        head = self._source.execute("SELECT seq, hash FROM lz_heads").fetchone()
        start = time.perf_counter()
        self._file.execute("BEGIN IMMEDIATE")
        for table, values in rows.items():
            marks = ", ".join("?" * len(values[0])) if values else ""
            if values:
                self._file.executemany(f"INSERT INTO {table} VALUES ({marks})", values)
        self._file.executemany("INSERT INTO lz_search_1(rowid, text) VALUES (?, ?)", texts)
        self._file.execute("UPDATE lz_heads SET seq = ?, hash = ?", head)
        self._file.execute("COMMIT")
        return time.perf_counter() - start


class EventsAlone:
    """The harder yardstick: nothing but the rows of the log."""

    def __init__(self, path: Path, source: Path) -> None:
        self._source = sqlite3.connect(source)
        self._file = sqlite3.connect(path, isolation_level=None)
        pragmas(self._file)
        (statement,) = self._source.execute("SELECT sql FROM sqlite_master WHERE name = 'lz_events'").fetchone()
        self._file.execute(statement)

    def write(self, after: int) -> float:
        """Copy the events past ``after``; the seconds it took."""
        rows = self._source.execute("SELECT * FROM lz_events WHERE tenant = 1 AND seq > ?", (after,)).fetchall()
        start = time.perf_counter()
        self._file.execute("BEGIN IMMEDIATE")
        self._file.executemany(f"INSERT INTO lz_events VALUES ({', '.join('?' * len(rows[0]))})", rows)
        self._file.execute("COMMIT")
        return time.perf_counter() - start


def measure(batch: int, batches: int, folder: Path, *, grown: int = 0) -> dict[str, float]:
    """Medians over ``batches`` turns of appending ``batch`` events to a ledger that already has ``grown``."""
    stream = random.Random(SEED)
    path = folder / "ledger.db"
    with Ledger.open(f"sqlite:///{path}") as ledger:
        ledger.append(list(crew_events(4, stream)))
        plain, alone = Plain(folder / "plain.db", path), EventsAlone(folder / "alone.db", path)
        plain.write(0), alone.write(0)
        while (seq := ledger.head().seq) < grown:
            ledger.append(list(crew_events(5000, stream)))
            plain.write(seq), alone.write(seq)
        took: dict[str, list[float]] = {"ledger": [], "plain": [], "alone": []}
        for _ in range(batches):
            drafts = list(crew_events(batch, stream))
            seq = ledger.head().seq
            start = time.perf_counter()
            ledger.append(drafts)
            took["ledger"].append(time.perf_counter() - start)
            took["plain"].append(plain.write(seq))
            took["alone"].append(alone.write(seq))
        assert ledger.head().seq == seq + batch
    median = {name: statistics.median(values) for name, values in took.items()}
    return {
        "batch": batch,
        "grown": grown,
        "events_per_second": batch / median["ledger"],
        "ratio_same_rows": median["plain"] / median["ledger"],
        "ratio_events_alone": median["alone"] / median["ledger"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--batches", type=int, default=15)
    options = parser.parse_args()
    for batch, grown in ((1, 0), (10, 0), (100, 0), (1000, 0), (5000, 0), (1000, 100_000), (1000, 300_000)):
        with tempfile.TemporaryDirectory() as folder:
            print(measure(batch, options.batches, Path(folder), grown=grown))


if __name__ == "__main__":
    main()
