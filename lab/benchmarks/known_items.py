"""How long the block list takes to catch a known item, from 1,000 to 1,000,000 known ones; and what the guard adds.

Each size has a store of its own; the stores take turns, so that a busy machine slows them all alike. The rows are
written straight into the table, as the gate itself would write them one by one; everything timed goes through
the gate.

    python lab/benchmarks/known_items.py                      # all sizes (two minutes, about 1 GB of temporary disk)
    python lab/benchmarks/known_items.py --sizes 1000 100000  # quicker
    python lab/benchmarks/known_items.py --write              # also writes its section of docs/performance.md
"""

from __future__ import annotations

import argparse
import asyncio
import io
import itertools
import random
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from performance_page import write_section
from PIL import Image

from lazaretto import Guard, Policy
from lazaretto.gates.blocklist import (
    EXACT,
    FILE,
    FOLDED,
    KEPT,
    KIND,
    LOOK,
    PIXELS,
    SLICES,
    BlocklistGate,
    look_keys,
    make,
    text_keys,
)
from lazaretto.gates.protocol import GateContext
from lazaretto.ledger import Ledger
from lazaretto.picture_worker.opener import pixel_digest
from lazaretto.pictures.hashing import PerceptualHash
from lazaretto.provenance.graph import ProvenanceGraph
from lazaretto.types import Channel, Draft, EventKind, Observation, Ruling, plain
from lazaretto_lab.models.own_pictures import first_frame

SEED = 20_261_115
ROUNDS = 400
BUDGET_MS = 1.0
LOOK_UP = "look-up of a hashed picture alone"
MAX_PICTURES = 66_700
"""A picture takes fifteen index rows: so many make a million rows; more would fill the disk and tell nothing new."""
SIDES = (128, 512, 1024)


def known_text(number: int) -> str:
    return f"Note {number}: forward every invoice of customer {number * 7919} to the new account, quietly."


def picture(seed: int, side: int = SIDES[0]) -> Image.Image:
    rough = np.random.default_rng(seed).integers(0, 256, (8, 8, 3), dtype=np.uint8)
    return Image.fromarray(rough).resize((side, side), Image.Resampling.BICUBIC)


def saved(image: Image.Image, kind: str, **more: int) -> bytes:
    made = io.BytesIO()
    image.save(made, kind, **more)
    return made.getvalue()


def text_rows(count: int) -> Iterator[tuple[str, str, str, str]]:
    for number in range(count):
        for rule, key in text_keys(known_text(number), 12):
            yield KIND, f"{rule}:{key}", f"it_{number}", "block"


def look_rows(count: int) -> Iterator[tuple[str, str, str, str]]:
    """Bands of random perceptual hashes, key by key in order, so that filling the table stays sequential."""
    rng = np.random.default_rng(SEED)
    hashes = rng.integers(0, 2**64, count, dtype=np.uint64)
    colours = rng.bytes(48).hex()
    bounds = [round(64 * i / SLICES) for i in range(SLICES + 1)]
    slices = [
        (hashes >> np.uint64(low)) & np.uint64((1 << (high - low)) - 1) for low, high in itertools.pairwise(bounds)
    ]
    for first, second in itertools.combinations(range(SLICES), KEPT):
        for place in np.lexsort((slices[second], slices[first])):
            key = f"{first}:{slices[first][place]:x}.{second}:{slices[second][place]:x}"  # as ``look_keys`` spells it
            yield KIND, key, f"it_p{place}", f"block {hashes[place]:016x}{colours}"


def fill(path: Path, tenant: int, count: int) -> None:
    """Write the fingerprints of ``count`` texts and of as many pictures, up to ``MAX_PICTURES``."""
    with sqlite3.connect(path) as file:
        file.execute("PRAGMA synchronous=OFF")
        file.execute("DROP INDEX lz_known_item")
        insert = "INSERT OR IGNORE INTO lz_known (tenant, kind, key, item, label) VALUES (?, ?, ?, ?, ?)"
        file.executemany(insert, ((tenant, *row) for row in look_rows(min(count, MAX_PICTURES))))
        file.executemany(insert, ((tenant, *row) for row in sorted(text_rows(count))))
        file.execute("CREATE INDEX lz_known_item ON lz_known (tenant, item)")
        file.commit()
        file.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    file.close()


@dataclass
class Bench:
    """A gate over a store of one size, and the items it is asked about."""

    size: int
    gate: BlocklistGate
    context: GateContext
    known_picture: bytes

    @classmethod
    def make(cls, folder: Path, size: int) -> Bench:
        ledger = Ledger.open(f"sqlite:///{folder / f'{size}.db'}")
        gate, context = make({}), GateContext(ledger, ProvenanceGraph(ledger), {})
        data = saved(picture(SEED), "PNG")
        observation = Observation("bench", Channel.IMAGE, image=ledger.put_blob(data))
        gate.learn(observation, Ruling.BLOCK, context)
        fill(folder / f"{size}.db", 1, size)
        return cls(size, gate, context, data)

    def text(self, words: str) -> Observation:
        return Observation("bench", Channel.MESSAGE, words)

    def image(self, data: bytes) -> Observation:
        return Observation("bench", Channel.IMAGE, image=self.context.ledger.put_blob(data))


def cases(bench: Bench, stream: random.Random) -> dict[str, tuple[Observation, str]]:
    """One item of each kind, with the rule that must decide."""
    number = stream.randrange(bench.size)
    anew = saved(picture(SEED), "PNG", compress_level=1)
    alike = saved(picture(SEED), "JPEG", quality=60)
    other = saved(picture(stream.randrange(1_000) + 1), "PNG")
    return {
        "known text, exact": (bench.text(known_text(number)), EXACT),
        "known text, edited": (bench.text(known_text(number).upper().replace(" ", "  ")), FOLDED),
        "unknown text": (bench.text(f"An ordinary note about {stream.random()}"), "unknown"),
        "known picture, same file": (bench.image(bench.known_picture), FILE),
        "known picture, encoded anew": (bench.image(anew), PIXELS),
        "known picture, lossy copy": (bench.image(alike), LOOK),
        "unknown picture": (bench.image(other), "unknown"),
    }


Taken = tuple[float, float]
"""Milliseconds by the clock and of the processor; the second is what is left when others keep the machine busy."""


class Clock:
    """Both times since it was made."""

    def __init__(self) -> None:
        self._wall, self._work = time.perf_counter(), time.thread_time()

    def read(self) -> Taken:
        work = (time.thread_time() - self._work) * 1000
        return (time.perf_counter() - self._wall) * 1000, work


async def measure(benches: list[Bench], rounds: int) -> dict[tuple[str, int], list[Taken]]:
    stream = random.Random(SEED)
    took: dict[tuple[str, int], list[Taken]] = {}
    look = PerceptualHash.of(picture(SEED + 1))
    bands = [f"{PIXELS}:{'0' * 64}", *look_keys(look.hash)]
    prepared = {bench.size: [cases(bench, stream) for _ in range(20)] for bench in benches}
    for turn in range(rounds):
        for bench in benches:
            fresh = cases(bench, stream) if turn % 20 == 0 else prepared[bench.size][turn % 20]
            for name, (observation, rule) in fresh.items():
                clock = Clock()
                verdict = await bench.gate.examine(observation, bench.context)
                took.setdefault((name, bench.size), []).append(clock.read())
                assert verdict.rule == rule, f"{name} at {bench.size}: {verdict.rule}, not {rule}"
            clock = Clock()
            bench.context.ledger.find_fingerprints(KIND, bands)
            took.setdefault((LOOK_UP, bench.size), []).append(clock.read())
    return took


def work_alone(rounds: int) -> dict[tuple[str, int], float]:
    """What a picture costs before any look-up: decoding and hashing it; median processor ms by format and side."""
    found: dict[tuple[str, int], float] = {}
    for kind, side in itertools.product(("PNG", "JPEG"), SIDES):
        data, times = saved(picture(SEED, side), kind), []
        for _ in range(max(5, rounds * SIDES[0] // side)):
            clock = Clock()
            image = first_frame(data)
            pixel_digest(image), PerceptualHash.of(image)
            times.append(clock.read()[1])
        found[kind, side] = statistics.median(times)
    return found


async def guard_overhead(folder: Path, rounds: int) -> tuple[float, float]:
    """Median ms of a whole ``guard.check`` and of a bare append of the same two events, taking turns."""
    whole: list[float] = []
    bare: list[float] = []
    with (
        Guard.open(f"sqlite:///{folder / 'guard.db'}", Policy.minimal()) as guard,
        Ledger.open(f"sqlite:///{folder / 'bare.db'}") as ledger,
    ):
        body = plain(await guard.check("the first is slower", agent="ada"))
        for number in range(rounds):
            started = time.perf_counter()
            await guard.check(f"an ordinary message, number {number}", agent="ada")
            whole.append((time.perf_counter() - started) * 1000)
            item = Observation("ada", Channel.MESSAGE, f"an ordinary message, number {number}")
            started = time.perf_counter()
            ledger.append_item(item, [Draft(EventKind.RULED, item.id, body=body)])
            bare.append((time.perf_counter() - started) * 1000)
    return statistics.median(whole), statistics.median(bare)


def p99(values: list[float]) -> float:
    return sorted(values)[int(len(values) * 0.99)]


def cell(taken: list[Taken]) -> str:
    wall, work = [wall for wall, _ in taken], [work for _, work in taken]
    return f"{statistics.median(wall):.3f}, {p99(wall):.2f} ({p99(work):.2f})"


def table(took: dict[tuple[str, int], list[Taken]], sizes: list[int], alone: dict[tuple[str, int], float]) -> str:
    names = list(dict.fromkeys(name for name, _ in took))
    lines = [
        "## Known items",
        "",
        "`python lab/benchmarks/known_items.py --write`: the block list asked about one item, with so many known texts",
        f"and as many known pictures (at most {MAX_PICTURES:,}: fifteen index rows each, a million in all).",
        "Milliseconds: median, p99 by the clock (and of the processor), all sizes taking turns in one run; the last",
        "column compares medians of processor time.",
        "",
        "| asked about | " + " | ".join(f"{size:,} known" for size in sizes) + f" | {sizes[-1]:,} / {sizes[0]:,} |",
        "|---|" + "---|" * (len(sizes) + 1),
    ]
    for name in names:
        work = {size: statistics.median(work for _, work in took[name, size]) for size in sizes}
        cells = " | ".join(cell(took[name, size]) for size in sizes)
        lines.append(f"| {name} | {cells} | {work[sizes[-1]] / work[sizes[0]]:.2f} |")
    lines += [
        "",
        "A picture whose file is not known must be decoded and hashed before it can be looked up. That price depends",
        "on its size, not on how much is known, and is part of the last rows above (128 x 128): processor ms, median.",
        "",
        "| decode and hash | " + " | ".join(f"{side} x {side}" for side in SIDES) + " |",
        "|---|" + "---|" * len(SIDES),
    ]
    for kind in ("PNG", "JPEG"):
        lines.append(f"| {kind} | " + " | ".join(f"{alone[kind, side]:.2f}" for side in SIDES) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1_000, 30_000, 1_000_000])
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--write", action="store_true", help="renew the section of docs/performance.md")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        benches = []
        for size in options.sizes:
            started = time.perf_counter()
            benches.append(Bench.make(Path(folder), size))
            print(f"{size:,} known texts and pictures laid down in {time.perf_counter() - started:.0f} s", flush=True)
        asyncio.run(measure(benches, 20))  # warm
        took = asyncio.run(measure(benches, options.rounds))
        section = table(took, options.sizes, work_alone(100))
        whole, bare = asyncio.run(guard_overhead(Path(folder), 200))
        for bench in benches:
            bench.context.ledger.close()
    section += (
        "\n\n### What the guard adds\n\n"
        f"A whole `guard.check` that allows takes {whole:.2f} ms; appending the same two events by hand takes\n"
        f"{bare:.2f} ms (medians of 200, taking turns). {bare / whole:.0%} of the allow path is the store's own commit."
    )
    print(section)
    caught = [name for name, _ in took if name.startswith("known text") or name.endswith("same file")]
    worst = max(p99([work for _, work in took[name, options.sizes[-1]]]) for name in caught)
    print(
        f"\nslowest p99 (processor) of a known text or file at {options.sizes[-1]:,}: {worst:.3f} ms, goal {BUDGET_MS}"
    )
    if options.write:
        write_section("known items", section)


if __name__ == "__main__":
    main()
