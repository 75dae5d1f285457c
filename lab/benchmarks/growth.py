"""Does a write cost the same however much the store holds? Processor time, at 1,000 to 1,000,000 memories.

A store is filled in batches through the ledger's own ``append``: each memory with its ruling, three in ten with a
parent, one in a thousand held. At every size a guard with the preset ``minimal`` is opened anew, as after a restart.
Measured are its first write, the writes after it (processor time and statements, the store's own included where it is
in this process), ``incidents()`` and ``held()`` the first time and after one more write, and the process's memory.

    python lab/benchmarks/growth.py                                # SQLite, up to 100,000
    python lab/benchmarks/growth.py --stores sqlite postgresql --sizes 1000 10000 100000 1000000 --write
    python lab/benchmarks/growth.py --memory 100000 --write        # one worker writes so many; its memory meanwhile
    python lab/benchmarks/growth.py --draw                         # the pictures of docs/scaling.md

Raw results go to lab/results/growth. On PostgreSQL the server's own processor time is not in the figures.
"""

from __future__ import annotations

import argparse
import asyncio
import ctypes
import gc
import random
import resource
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import orjson
import sqlalchemy as sa
from repairs_under_load import ROOT, stores

from lazaretto import Guard, Policy, kept_texts
from lazaretto.ledger import Ledger, seen_draft
from lazaretto.types import Channel, Draft, EventKind, Observation, SourceClass

RESULTS = ROOT / "lab" / "results" / "growth"
PICTURES = ROOT / "docs" / "pictures"
BATCH, WRITES, AGENTS, HELD_EVERY = 2_000, 60, 50, 1_000


def fill(url: str, start: int, stop: int) -> None:
    """Memories number ``start`` to ``stop``, as a guard would have recorded them."""
    rng, recent = random.Random(start), list[str]()
    with Ledger.open(url) as ledger:
        for first in range(start, stop, BATCH):
            drafts: list[Draft] = []
            for number in range(first, min(first + BATCH, stop)):
                parents = tuple(rng.sample(recent, 1)) if recent and rng.random() < 0.3 else ()
                text = f"Ship {number} lies at berth {rng.randrange(400)} with {rng.randrange(90)} crates of tea."
                made = Observation(
                    f"agent{number % AGENTS}", Channel.MEMORY, text, parents=parents, source=SourceClass.MODEL_INFERENCE
                )
                ruling = "quarantine" if number % HELD_EVERY == HELD_EVERY - 1 else "allow"
                body = {"ruling": ruling, "rule": "structure:form", "risk": 0.1, "interval": [0.0, 0.3], "verdicts": []}
                drafts += [seen_draft(made), Draft(EventKind.RULED, made.id, body=body)]
                recent = [*recent[-99:], made.id] if ruling == "allow" else recent
            ledger.append(drafts)


async def cost(call: Callable[[], Awaitable[object]]) -> float:
    """Milliseconds of processor."""
    began = time.process_time()
    await call()
    return (time.process_time() - began) * 1000


async def measure(url: str, size: int) -> dict[str, Any]:
    """What calls cost a guard that was just opened."""
    began = time.process_time()
    async with Guard.open(url, Policy.minimal()) as guard:
        opened, number, statements = (time.process_time() - began) * 1000, 0, 0

        def count(*_: object) -> None:
            nonlocal statements
            statements += 1

        sa.event.listen(guard.ledger._store.engine, "before_cursor_execute", count)

        def write() -> Awaitable[object]:
            nonlocal number
            number += 1
            return guard.remember(f"The tide at {size}.{number} was {number % 97} hands.", agent="ada")

        first = await cost(write)
        statements = 0
        writes = [await cost(write) for _ in range(WRITES)]
        per_write = statements / WRITES
        found, waits = await cost(guard.incidents), await cost(guard.held)
        again: dict[str, list[float]] = {"incidents": [], "held": []}
        for _ in range(5):
            await write()
            again["incidents"].append(await cost(guard.incidents))
            again["held"].append(await cost(guard.held))
        recalled = await cost(lambda: guard.recall("tea crates berth", agent="bob"))
        recalls = [await cost(lambda: guard.recall("tea crates berth", agent="bob")) for _ in range(5)]
        return {
            "size": size, "open_ms": opened, "first_write_ms": first, "write_ms": sorted(writes)[WRITES // 2],
            "writes_ms": writes, "statements": per_write, "incidents": len(await guard.incidents.all()),
            "first_incidents_ms": found, "incidents_ms": sorted(again["incidents"])[2], "first_held_ms": waits,
            "held_ms": sorted(again["held"])[2], "first_recall_ms": recalled, "recall_ms": sorted(recalls)[2],
            "peak_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        }  # fmt: skip


def grow(which: str, sizes: list[int], label: str) -> list[dict[str, Any]]:
    """One store, from size to size; each measured in a process of its own."""
    lines, before = [], 0
    with stores(which) as (url, _):
        for size in sizes:
            began = time.monotonic()
            fill(url, before, size)
            filled, before = time.monotonic() - began, size
            command = [sys.executable, __file__, "--measure", url, str(size)]
            told = orjson.loads(_output(command))
            lines.append({"store": which, "code": label, "fill_s": filled, **told})
            print({name: value for name, value in lines[-1].items() if name != "writes_ms"}, flush=True)
    return lines


def _output(command: list[str]) -> bytes:
    import subprocess

    return subprocess.run(command, check=True, capture_output=True).stdout.splitlines()[-1]


def rss() -> float:
    """Memory of this process now, in megabytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 1e6


async def keep_writing(count: int, preset: str) -> dict[str, Any]:
    """One worker that writes ``count`` memories: its memory meanwhile, and what Python itself holds at the end."""
    policy = Policy.minimal() if preset == "minimal" else Policy.recommended()
    points: list[tuple[int, float]] = []
    shares: list[tuple[int, float, float, float]] = []
    with tempfile.TemporaryDirectory() as folder:
        async with Guard.open(f"sqlite:///{folder}/crew.db", policy) as guard:
            for number in range(count):
                text = f"Ship {number} lies at berth {number * 7 % 400} with {number * 13 % 90} crates of tea."
                await guard.remember(text, agent=f"agent{number % AGENTS}", parents=[])
                if number % max(1, count // 50) == 0:
                    gc.collect()
                    points.append((number, rss()))
                    shares.append((number, kept_mb(), malloc_mb(), sqlite_mb()))
                    print(points[-1], shares[-1], sys.getallocatedblocks(), flush=True)
            gc.collect()
            points.append((count, rss()))
            shares.append((count, kept_mb(), malloc_mb(), sqlite_mb()))
            kept_texts.forget()
            gc.collect()
            forgotten = (kept_mb(), malloc_mb(), sqlite_mb())
            sizes = {"graph_items": guard.graph.stats()["items"], "rss_with_graph_mb": rss()}
    return {
        "preset": preset, "writes": count, "points": points, "kept_allocated_sqlite_mb": shares,
        "after_forgetting_mb": forgotten, **sizes,
    }  # fmt: skip


def kept_mb() -> float:
    """What caches of texts that were read say they keep."""
    return sum(one.bytes for one in kept_texts._kept) / 1e6


class _Mallinfo(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in ("arena", *"bcdefg", "used", "free", "top")]


def malloc_mb() -> float:
    """What the C library has handed out and not got back, Python's small objects aside; 0 without glibc."""
    try:
        ask = ctypes.CDLL(None).mallinfo2
    except AttributeError:
        return 0.0
    ask.restype = _Mallinfo
    return float(ask().used) / 1e6


def sqlite_mb() -> float:
    """What SQLite holds, the pages that each connection keeps above all (2 MB each); 0 where it cannot be asked."""
    found = [line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if "libsqlite3" in line]
    if not found:
        return 0.0
    ask = ctypes.CDLL(found[0]).sqlite3_memory_used
    ask.restype = ctypes.c_int64
    return float(ask()) / 1e6


async def what_python_holds(count: int, preset: str) -> list[str]:
    """Where what Python allocated in the second half of ``count`` writes stands, by line."""
    policy = Policy.minimal() if preset == "minimal" else Policy.recommended()
    with tempfile.TemporaryDirectory() as folder:
        async with Guard.open(f"sqlite:///{folder}/crew.db", policy) as guard:
            for number in range(count):
                if number == count // 2:
                    gc.collect()
                    tracemalloc.start(8)
                    before = tracemalloc.take_snapshot()
                await guard.remember(f"Ship {number} lies at berth {number * 7 % 400}.", agent="ada", parents=[])
            gc.collect()
            found = tracemalloc.take_snapshot().compare_to(before, "lineno")
    return [f"{one.size_diff / (count - count // 2):.0f} bytes a write: {one.traceback}" for one in found[:15]]


def draw() -> None:
    """The pictures of docs/scaling.md, from the stored results."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot as plt

    lines = [orjson.loads(line) for file in sorted(RESULTS.glob("growth*.jsonl")) for line in file.open("rb")]
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.4))
    for axis, name, title in (
        (axes[0], "write_ms", "one write"),
        (axes[1], "incidents_ms", "incidents() after a write"),
    ):
        for key in sorted({(line["store"], line["code"]) for line in lines}):
            rows = sorted((r["size"], r[name]) for r in lines if (r["store"], r["code"]) == key)
            axis.plot(
                *zip(*rows, strict=True), marker="o", ls="--" if key[1] == "before" else "-", label=", ".join(key)
            )
        axis.set(xscale="log", yscale="log", xlabel="memories in the store", ylabel="ms of processor", title=title)
        axis.legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(PICTURES / "growth.svg", metadata={"Date": None})
    runs = [orjson.loads(line) for file in sorted(RESULTS.glob("memory*.jsonl")) for line in file.open("rb")]
    if runs:
        figure, axes = plt.subplots(1, len(runs), figsize=(4.5 * len(runs), 3.2), squeeze=False)
        for axis, one in zip(axes[0], runs, strict=True):
            axis.plot(*zip(*one["points"], strict=True))
            axis.set(title=f"{one['preset']}, one worker", xlabel="writes", ylabel="MB resident", ylim=(0, None))
        figure.tight_layout()
        figure.savefig(PICTURES / "memory-of-a-worker.svg", metadata={"Date": None})


def main() -> None:
    """Run, print, keep."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stores", nargs="+", default=["sqlite"])
    parser.add_argument("--sizes", nargs="+", type=int, default=[1_000, 10_000, 100_000])
    parser.add_argument("--label", default="after", help="which code this is: before or after")
    parser.add_argument("--measure", nargs=2, metavar=("URL", "SIZE"), help=argparse.SUPPRESS)
    parser.add_argument("--memory", type=int, default=0, metavar="WRITES")
    parser.add_argument("--python", type=int, default=0, metavar="WRITES", help="what Python holds, by line")
    parser.add_argument("--preset", default="minimal", choices=["minimal", "recommended"])
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--draw", action="store_true")
    options = parser.parse_args()
    if options.draw:
        draw()
        return
    if options.measure:
        print(orjson.dumps(asyncio.run(measure(options.measure[0], int(options.measure[1])))).decode())
        return
    if options.python:
        print("\n".join(asyncio.run(what_python_holds(options.python, options.preset))))
        return
    if options.memory:
        lines, name = [asyncio.run(keep_writing(options.memory, options.preset))], f"memory_{options.preset}"
    else:
        lines = [line for which in options.stores for line in grow(which, options.sizes, options.label)]
        name = f"growth_{'_'.join(options.stores)}_{options.label}"
    if options.write:
        options.out.mkdir(parents=True, exist_ok=True)
        (options.out / f"{name}.jsonl").write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in lines))


if __name__ == "__main__":
    main()
