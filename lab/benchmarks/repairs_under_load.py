"""Repairs beside a stream of writes: are all of them applied, and how long does one take?

One thread writes memories at a given rate into the namespace in which repairs of several hundred items are planned,
applied and undone, one after another. Before plans were held to the states of their own items, one writer at 20 a
second refused every repair of 301 items.

    python lab/benchmarks/repairs_under_load.py --write           # both stores, 100 writes a second, about 4 minutes
    python lab/benchmarks/repairs_under_load.py --short           # SQLite, 5 repairs

Raw times go to lab/results/repairs_under_load.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from lazaretto import LazarettoError, Policy, SyncGuard

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "lab" / "results" / "repairs_under_load"


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


def measure(url: str, rate: float, repairs: int, items: int) -> dict[str, Any]:
    """Times of ``repairs`` repairs of ``items`` items each beside ``rate`` writes a second."""
    written, refused, stop = 0, 0, threading.Event()
    times: list[float] = []
    with SyncGuard.open(url, Policy.minimal()) as guard:
        root = guard.remember("The berth of the ferry is number nine.", agent="ada").item
        for number in range(items - 1):
            guard.remember(f"Note {number}: see the berth of the ferry.", agent=f"a{number % 20}", parents=[root])

        def write() -> None:
            nonlocal written
            due = time.monotonic()
            while not stop.is_set():
                guard.remember(f"The tide at {written} was {written * 7 % 97} hands.", agent="bob")
                written += 1
                due += 1 / rate
                time.sleep(max(0.0, due - time.monotonic()))

        writer = threading.Thread(target=write)
        writer.start()
        begun = time.monotonic()
        for _ in range(repairs):
            started = time.perf_counter()
            try:
                receipt = guard.apply(guard.plan(root, "isolate", reason="beside writes", descendants=True))
                times.append(time.perf_counter() - started)
                guard.undo(receipt.id)
            except LazarettoError as error:
                refused += 1
                print("refused:", error)
        lasted = time.monotonic() - begun
        stop.set()
        writer.join()
        sound = guard.ledger.verify().ok
        known = len(guard.ledger.items(limit=None, hidden=True))
    return {
        "rate_asked": rate, "rate_held": round(written / lasted, 1), "items": items, "repairs": repairs,
        "applied": len(times), "refused": refused, "verified": sound, "lost": items + written - known, "seconds": times,
    }  # fmt: skip


def main() -> None:
    """Measure, print, and keep the raw times."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=float, default=100.0)
    parser.add_argument("--repairs", type=int, default=100)
    parser.add_argument("--items", type=int, default=301)
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    lines = []
    for which in ("sqlite",) if options.short else ("sqlite", "postgresql"):
        with stores(which) as (url, _):
            found = measure(url, options.rate, 5 if options.short else options.repairs, options.items)
        p50, p99 = (float(np.quantile(found["seconds"] or [np.nan], q)) for q in (0.5, 0.99))
        shown = {key: value for key, value in found.items() if key != "seconds"}
        print(which, shown, f"plan and apply: median {p50:.3f} s, p99 {p99:.3f} s")
        lines.append({"store": which, **found})
    if options.write:
        RESULTS.mkdir(parents=True, exist_ok=True)
        (RESULTS / "repairs.jsonl").write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in lines))


if __name__ == "__main__":
    main()
