"""How long it takes to find the nearest claims among 1,000, 100,000 and 1,000,000, in SQLite and PostgreSQL.

    python lab/benchmarks/claims_index.py --sizes 1000 100000 1000000 --out lab/results/claims/index.json

Vectors are made, not read: points around 2,000 topics, as far apart as sentences of one topic are. Beside times it
reports how often the true nearest claim was found, the memory per claim, and the bytes on disk per claim. On a machine
with other work the processor's time (``look_up_cpu_ms``) says more than the clock's.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from lazaretto.ledger import Ledger
from lazaretto.ledger.vectors import DIMENSION, ClaimRow
from lazaretto.types import Channel, Observation

PER_ITEM = 1_000
QUERIES = 300


def vectors_for(count: int, rng: np.random.Generator, topics: np.ndarray) -> np.ndarray:
    """Unit vectors around topics."""
    made = topics[rng.integers(0, len(topics), count)] + 0.9 * rng.standard_normal((count, DIMENSION), np.float32)
    return np.asarray(made / np.linalg.norm(made, axis=1, keepdims=True), np.float32)


def fill(ledger: Ledger, size: int, rng: np.random.Generator, topics: np.ndarray) -> np.ndarray:
    """So many claims, written past the encoder; returns some of them to ask for."""
    kept = []
    for start in range(0, size, 20_000):
        made = vectors_for(min(20_000, size - start), rng, topics)
        for place in range(0, len(made), PER_ITEM):
            note = Observation("ann", Channel.MEMORY, f"note {start + place}")
            ledger.append_item(note, claims=[ClaimRow(0, 4, one) for one in made[place : place + PER_ITEM]])
        kept.append(made[:: max(1, size // QUERIES // 2)][:QUERIES])
    return np.concatenate(kept)[:QUERIES]


def measure(url: str, size: int, seed: int = 0) -> dict[str, Any]:
    """One store of one size."""
    rng = np.random.default_rng(seed)
    topics = rng.standard_normal((2_000, DIMENSION)).astype(np.float32)
    with Ledger.open(url) as ledger:
        started = time.perf_counter()
        known = fill(ledger, size, rng, topics)
        filled = time.perf_counter() - started
        asked = known + 0.35 * rng.standard_normal(known.shape).astype(np.float32) / np.sqrt(DIMENSION)
        asked /= np.linalg.norm(asked, axis=1, keepdims=True)
        started = time.perf_counter()
        ledger.nearest_claims(asked[0].astype(np.float32))
        loading = time.perf_counter() - started
        times, looks, spent, index, hits = [], [], [], ledger._vectors, 0
        for vector, truth in zip(asked.astype(np.float32), known, strict=True):
            started = time.perf_counter()
            index.candidates(vector, 96)
            looks.append((time.perf_counter() - started) * 1000)
            started, worked = time.perf_counter(), time.thread_time()
            found = ledger.nearest_claims(vector, limit=6)
            times.append((time.perf_counter() - started) * 1000)
            spent.append((time.thread_time() - worked) * 1000)
            hits += bool(found) and abs(found[0].cosine - float(vector @ truth)) < 0.02
        with ledger._store.reading() as connection:
            size_sql = (
                "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()"
                if ledger._store.dialect == "sqlite"
                else "SELECT pg_total_relation_size('lz_claims')"
            )
            disk = int(connection.exec_driver_sql(size_sql).scalar() or 0)
        return {
            "store": ledger._store.dialect,
            "claims": size,
            "index_ms": {"p50": float(np.quantile(looks, 0.5)), "p99": float(np.quantile(looks, 0.99))},
            "look_up_ms": {"p50": float(np.quantile(times, 0.5)), "p99": float(np.quantile(times, 0.99))},
            "look_up_cpu_ms": {"p50": float(np.quantile(spent, 0.5)), "p99": float(np.quantile(spent, 0.99))},
            "found": hits / len(asked),
            "memory_bytes_per_claim": index.bytes_held / len(index),
            "disk_bytes_per_claim": disk / size,
            "loading_s": loading,
            "filling_s": filled,
        }


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--sizes", type=int, nargs="+", default=[1_000, 100_000])
    parser.add_argument("--postgres", default="", help="URL of an empty database; left out, SQLite alone is measured")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    rows = []
    for size in given.sizes:
        with tempfile.TemporaryDirectory() as folder:
            rows.append(measure(f"sqlite:///{folder}/ledger.db", size))
        print(json.dumps(rows[-1]), flush=True)
        if given.postgres:
            rows.append(measure(given.postgres.replace("{size}", str(size)), size))
            print(json.dumps(rows[-1]), flush=True)
        if given.out:
            given.out.parent.mkdir(parents=True, exist_ok=True)
            given.out.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
