"""Repairs beside a stream of writes: are all of them applied, and how long does one take?

Two processes write memories at a given rate into the namespace in which a third plans, applies and undoes repairs of
several hundred items, one every few seconds. Before plans were held to the states of their own items, one writer at
20 a second refused every repair of 301 items.

    python lab/benchmarks/repairs_under_load.py --write           # both stores, 100 writes a second, about 5 minutes
    python lab/benchmarks/repairs_under_load.py --short           # SQLite, 5 repairs

Raw times go to lab/results/repairs_under_load.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from lazaretto import LazarettoError, Policy, SyncGuard

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "lab" / "results" / "repairs_under_load"
WRITERS = 2


@contextlib.contextmanager
def stores(which: str) -> Iterator[tuple[str, Any]]:
    """The URL of an empty store, and its server where it has one."""
    if which == "sqlite":
        with tempfile.TemporaryDirectory() as folder:
            yield f"sqlite:///{folder}/crew.db", None
        return
    sys.path.insert(0, str(ROOT))
    from conftest import PostgresServer

    server = PostgresServer()
    try:
        yield server.url(), server
    finally:
        server.close()


def write(url: str, number: int, rate: float, written: Any, stop: Any) -> None:
    """One writer in a process of its own, as another worker of a crew is; what is late is written at once."""
    with SyncGuard.open(url, Policy.minimal()) as guard:
        due = time.monotonic()
        while not stop.is_set():
            count = written.value
            guard.remember(f"The tide at {count} was {count * 7 % 97} hands.", agent=f"bob{number}")
            written.value += 1
            due += 1 / rate
            time.sleep(max(0.0, due - time.monotonic()))


def measure(url: str, rate: float, repairs: int, items: int, every: float) -> dict[str, Any]:
    """Times of repairs of ``items`` items each, ``every`` seconds apart, beside ``rate`` writes a second."""
    processes = multiprocessing.get_context("spawn")
    counts, stop = [processes.Value("i", 0) for _ in range(WRITERS)], processes.Event()
    refused, times = 0, []
    with SyncGuard.open(url, Policy.minimal()) as guard:
        root = guard.remember("The berth of the ferry is number nine.", agent="ada").item
        for number in range(items - 1):
            guard.remember(f"Note {number}: see the berth of the ferry.", agent=f"a{number % 20}", parents=[root])
        writers = [
            processes.Process(target=write, args=(url, number, rate / WRITERS, count, stop))
            for number, count in enumerate(counts)
        ]
        for writer in writers:
            writer.start()
        while not all(count.value for count in counts):
            time.sleep(0.05)
        begun, first = time.monotonic(), sum(count.value for count in counts)
        for number in range(repairs):
            time.sleep(max(0.0, begun + number * every - time.monotonic()))
            started = time.perf_counter()
            try:
                receipt = guard.repairs.apply(
                    guard.repairs.plan(root, "isolate", reason="beside writes", descendants=True)
                )
                times.append(time.perf_counter() - started)
                guard.repairs.undo(receipt.id)
            except LazarettoError as error:
                refused += 1
                print("refused:", error)
        lasted, last = time.monotonic() - begun, sum(count.value for count in counts)
        stop.set()
        for writer in writers:
            writer.join()
        sound = guard.ledger.verify().ok
        known = len(guard.ledger.items(limit=None, any_state=True))
    written = sum(count.value for count in counts)
    return {
        "rate_asked": rate, "rate_held": round((last - first) / lasted, 1), "items": items, "repairs": repairs,
        "every": every, "applied": len(times), "refused": refused, "verified": sound, "lost": items + written - known,
        "seconds": times,
    }  # fmt: skip


def main() -> None:
    """Measure, print, and keep the raw times."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=float, default=100.0)
    parser.add_argument("--repairs", type=int, default=40)
    parser.add_argument("--every", type=float, default=3.0, help="seconds from one repair to the next; 0: no rest")
    parser.add_argument("--items", type=int, default=301)
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    lines = []
    for which in ("sqlite",) if options.short else ("sqlite", "postgresql"):
        with stores(which) as (url, _):
            found = measure(url, options.rate, 5 if options.short else options.repairs, options.items, options.every)
        p50, p99 = (float(np.quantile(found["seconds"] or [np.nan], q)) for q in (0.5, 0.99))
        shown = {key: value for key, value in found.items() if key != "seconds"}
        print(which, shown, f"plan and apply: median {p50:.3f} s, p99 {p99:.3f} s")
        lines.append({"store": which, **found})
    if options.write:
        RESULTS.mkdir(parents=True, exist_ok=True)
        (RESULTS / "repairs.jsonl").write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in lines))


if __name__ == "__main__":
    main()
