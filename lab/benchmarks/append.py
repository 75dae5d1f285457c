"""How fast batches reach the ledger, beside a plain ``executemany`` of the same bytes into SQLite.

Each batch is appended by ``Ledger.append`` to one file, and its rows, as they then lie in every table and index, are
written by the standard library's ``sqlite3`` to another file with the same schema and the same pragmas (WAL,
``synchronous=FULL``), one transaction per batch. The two take turns, so that a busy machine slows both. A third file
takes the rows of ``lz_events`` alone, without any index but the key: what a bare log without items, edges and search
would cost.

    python lab/benchmarks/append.py                 # ratios, and how they change as the ledger grows
    python lab/benchmarks/append.py --write         # also writes its section of docs/performance.md

The time to open a ledger of 1,000,000 edges is measured by lab/benchmarks/graph.py.
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

from performance_page import write_section

from lazaretto.ledger import Ledger, seen_draft
from lazaretto.types import Channel, Draft, EventKind, Observation, new_id

SEED = 20_260_101
WORDS = [
    "ship",
    "harbour",
    "cargo",
    "refund",
    "policy",
    "invoice",
    "customer",
    "memory",
    "agent",
    "note",
    "plan",
    "tool",
    "answer",
    "ticket",
    "order",
    "price",
    "shelf",
    "engine",
    "route",
    "market",
    "signal",
    "report",
    "weather",
    "system",
    "account",
    "balance",
    "review",
    "schedule",
    "contract",
    "window",
    "paper",
]
TABLES = ("lz_events", "lz_items", "lz_edges")


class Clock:
    """Wall and processor time; the second is what is left when others keep the machine busy."""

    def __init__(self) -> None:
        self._wall, self._processor = time.perf_counter(), time.process_time()

    def read(self) -> tuple[float, float]:
        """Seconds of each since it was made."""
        return time.perf_counter() - self._wall, time.process_time() - self._processor


def crew_events(count: int, stream: random.Random) -> Iterator[Draft]:
    """An ordinary crew at work: half of the events bring items (most are memories with a parent), half are reads."""
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

    def write(self, after: int) -> tuple[float, float]:
        """Copy the rows of all events past ``after``; wall and processor seconds, reading not counted."""
        rows = {
            table: self._source.execute(f"SELECT * FROM {table} WHERE tenant = 1 AND seq > ?", (after,)).fetchall()
            for table in TABLES
        }
        texts = self._source.execute(
            "SELECT e.seq, json_extract(CAST(body AS TEXT), '$.text') FROM lz_events e JOIN lz_items i"
            " ON i.tenant = 1 AND i.id = e.subject WHERE e.tenant = 1 AND e.seq > ? AND e.kind = 'seen'"
            " AND i.channel = 'memory'",
            (after,),
        ).fetchall()
        head = self._source.execute("SELECT seq, hash FROM lz_heads").fetchone()
        clock = Clock()
        self._file.execute("BEGIN IMMEDIATE")
        for table, values in rows.items():
            if values:
                self._file.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(values[0]))})", values)
        self._file.executemany("INSERT INTO lz_search_1(rowid, text) VALUES (?, ?)", texts)
        self._file.execute("UPDATE lz_heads SET seq = ?, hash = ?", head)
        self._file.execute("COMMIT")
        return clock.read()


class EventsAlone:
    """The harder yardstick: nothing but the rows of the log."""

    def __init__(self, path: Path, source: Path) -> None:
        self._source = sqlite3.connect(source)
        self._file = sqlite3.connect(path, isolation_level=None)
        pragmas(self._file)
        (statement,) = self._source.execute("SELECT sql FROM sqlite_master WHERE name = 'lz_events'").fetchone()
        self._file.execute(statement)

    def write(self, after: int) -> tuple[float, float]:
        """Copy the events past ``after``; wall and processor seconds."""
        rows = self._source.execute("SELECT * FROM lz_events WHERE tenant = 1 AND seq > ?", (after,)).fetchall()
        clock = Clock()
        self._file.execute("BEGIN IMMEDIATE")
        self._file.executemany(f"INSERT INTO lz_events VALUES ({', '.join('?' * len(rows[0]))})", rows)
        self._file.execute("COMMIT")
        return clock.read()


def measure(batch: int, batches: int, folder: Path, *, grown: int = 0) -> dict[str, float]:
    """Medians over ``batches`` turns of appending ``batch`` events to a ledger that already has ``grown``."""
    stream = random.Random(SEED)
    path = folder / "ledger.db"
    with Ledger.open(f"sqlite:///{path}") as ledger:
        ledger.append(list(crew_events(4, stream)))
        plain, alone = Plain(folder / "plain.db", path), EventsAlone(folder / "alone.db", path)
        for yardstick in (plain, alone):
            yardstick.write(0)
        while (seq := ledger.head().seq) < grown:
            ledger.append(list(crew_events(5000, stream)))
            for yardstick in (plain, alone):
                yardstick.write(seq)
        took: dict[str, list[tuple[float, float]]] = {"ledger": [], "plain": [], "alone": []}
        for _ in range(batches):
            drafts = list(crew_events(batch, stream))
            seq = ledger.head().seq
            clock = Clock()
            ledger.append(drafts)
            took["ledger"].append(clock.read())
            took["plain"].append(plain.write(seq))
            took["alone"].append(alone.write(seq))
        assert ledger.head().seq == seq + batch
    wall = {name: statistics.median(one for one, _ in values) for name, values in took.items()}
    processor = {name: statistics.median(two for _, two in values) for name, values in took.items()}
    return {
        "batch": batch,
        "grown": grown,
        "events_per_second": batch / wall["ledger"],
        "us_per_event": processor["ledger"] / batch * 1e6,
        "same_rows": ratio(took, "plain", 0),
        "same_rows_processor": ratio(took, "plain", 1),
        "events_alone": ratio(took, "alone", 0),
        "events_alone_processor": ratio(took, "alone", 1),
    }


def ratio(took: dict[str, list[tuple[float, float]]], yardstick: str, clock: int) -> float:
    """The median, over the turns, of the yardstick's time divided by the ledger's: a busy moment slows both."""
    pairs = zip(took[yardstick], took["ledger"], strict=True)
    return statistics.median(theirs[clock] / ours[clock] for theirs, ours in pairs)


def section(results: list[dict[str, float]]) -> str:
    """The section of docs/performance.md."""
    lines = [
        "## Appending",
        "",
        "`python lab/benchmarks/append.py`: batches of a crew's events (half new items, half reads), beside a",
        "plain `executemany` of the same rows into the same tables and indexes, one durable transaction per batch.",
        "100 % would mean that checking, hashing, linking and deriving cost nothing. *Events alone* is the harder",
        "yardstick: the rows of the log only, without items, edges, indexes and search. Each percentage is a median",
        "over turns of the yardstick's time divided by the ledger's in the same turn, by the clock and (in brackets)",
        "in processor time.",
        "",
        "| batch | events before | events/s | CPU us per event | of the same rows (CPU) | of events alone (CPU) |",
        "|---:|---:|---:|---:|---:|---:|",
    ]
    lines += [
        f"| {int(one['batch']):,} | {int(one['grown']):,} | {one['events_per_second']:,.0f} "
        f"| {one['us_per_event']:,.1f} "
        f"| {one['same_rows']:.0%} ({one['same_rows_processor']:.0%}) "
        f"| {one['events_alone']:.0%} ({one['events_alone_processor']:.0%}) |"
        for one in results
    ]
    return "\n".join(lines)


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", type=int, default=21, help="turns per line of the table")
    parser.add_argument("--quick", action="store_true", help="small ledgers only")
    parser.add_argument("--write", action="store_true", help="renew the section of docs/performance.md")
    options = parser.parse_args()
    plan = [(1, 0), (10, 0), (100, 0), (1000, 0), (5000, 0)]
    results = []
    for batch, grown in plan if options.quick else [*plan, (1000, 50_000), (1000, 200_000)]:
        with tempfile.TemporaryDirectory() as folder:
            results.append(measure(batch, options.batches, Path(folder), grown=grown))
        print(" ".join(f"{name}={value:.2f}" for name, value in results[-1].items()), flush=True)
    print(section(results))
    if options.write:
        write_section("append", section(results))


if __name__ == "__main__":
    main()
