"""The worst that one write can cost: hostile texts of 2 kB, 64 kB and 1 MB, and a write with many parents.

Honest writes stand beside them. Every text is written once to a fresh store with the default policy, after the models
were loaded; time by the clock and of the processor, and what was ruled.

    python lab/benchmarks/worst_write.py --label after --write

Run it with another version's ``src`` on PYTHONPATH for the figures before. Raw results go to lab/results/worst_write.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import codecs
import random
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import orjson

from lazaretto import Guard, Policy

RESULTS = Path(__file__).resolve().parents[1] / "results" / "worst_write"
LAYERS, WIDE = 6, 120
UNITS = {"letters and dots": "a.", "line breaks": "a\n", "names": "Ann ", "one word": "abcdefgh"}
HONEST = {
    "note": "The berth of the Marguerite is number nine until Thursday, says the harbour office.",
    "page": "The harbour office opens at nine. Ships that carry tea wait at berth four; crates are counted twice. "
    * 10,
}
LINES: list[dict[str, object]] = []
"""What was measured so far."""
PARENTS = "The wallet number of the harbour office changed to 4412 today, and the old one is closed."


def dense(size: int) -> str:
    """Signs that each are a token of their own, in no order that repeats."""
    rng = random.Random(size)
    return "".join(rng.choice("!#$%&()*+,-./:;<=>?@[]^_{|}~aeiou0123456789") for _ in range(size))


def disguised(size: int) -> str:
    """Sentences in as many disguises as there are, one after the other: each gives one more view of the text."""
    plain = prose(160)
    kinds = (
        base64.b64encode(plain.encode()).decode(), plain.encode().hex(), codecs.encode(plain, "rot13"), plain[::-1],
        " ".join(plain), plain.translate(str.maketrans("oieas", "01345")), plain.replace(" ", "_"),
        "".join(f"\\u{ord(c):04x}" for c in plain), " ".join(str(ord(c)) for c in plain), plain.replace("e", "е"),
    )  # fmt: skip
    text = "\n".join(kinds) + "\n"
    return (text * (size // len(text) + 1)).encode()[:size].decode(errors="ignore")


def prose(size: int) -> str:
    """Ordinary sentences, no two alike."""
    parts = (
        f"The office in Brightwater opens at {7 + n % 5} on May {n % 28 + 1}. Ship {n} waits at berth {n % 40}. "
        for n in range(size)
    )
    text = ""
    for part in parts:
        text += part
        if len(text) >= size:
            break
    return text[:size]


async def timed(guard: Guard, name: str, text: str, size: int, parents: list[str] | None = None) -> None:
    """One write."""
    wall, work = time.perf_counter(), time.process_time()
    said = await guard.remember(text, agent="mal", parents=parents)
    line = {
        "write": name, "size": size, "wall_s": round(time.perf_counter() - wall, 3),
        "processor_s": round(time.process_time() - work, 3), "ruling": said.ruling.label, "rule": said.rule,
    }  # fmt: skip
    print(line, flush=True)
    LINES.append(line)


def hostile(size: int) -> dict[str, str]:
    """Texts of a size that cost as much as we know how to make them cost."""
    repeated = {name: (unit * (size // len(unit) + 1))[:size] for name, unit in UNITS.items()}
    return {"prose": prose(size), "dense": dense(size), "disguised": disguised(size), **repeated}


async def measure(sizes: list[int], parents: int) -> None:
    """All of them, the honest ones first; each hostile text in a store of its own."""
    with tempfile.TemporaryDirectory() as folder:
        async with Guard.open(f"sqlite:///{folder}/texts.db") as guard:
            await guard.remember("It begins. Ignore what the harbour master says about the tide.", agent="ada")
            for name, text in HONEST.items():
                await timed(guard, f"honest {name}", text, len(text))
            for size in sizes:
                for name, text in hostile(size).items():
                    await timed(guard, name, text, size)
        if parents:
            await of_many_parents(f"sqlite:///{folder}/parents.db", parents)


async def of_many_parents(url: str, parents: int) -> None:
    """One short text that changes what is known, made from many notes, each of which was made from many."""
    policy = Policy.recommended()
    policy = replace(policy, limits=replace(policy.limits, max_parents=max(parents, policy.limits.max_parents)))
    async with Guard.open(url, Policy.minimal()) as quick:
        layer: list[str] = []
        for depth in range(LAYERS):
            layer = [
                (await quick.remember(f"Note {depth}.{n}: crates for berth {n}.", agent="ada", parents=layer)).item
                for n in range(max(WIDE, parents) if depth == LAYERS - 1 else WIDE)
            ]
    async with Guard.open(url, policy) as guard:
        await guard.remember("The wallet number of the harbour office is 9001.", agent="dana", source="direct_user")
        for number in range(30):  # until the claims of the notes are read in
            await guard.remember(f"The tide was {number} hands at noon.", agent="ada", parents=[])
        await timed(guard, f"{parents} parents", PARENTS, len(PARENTS), layer[:parents])


def main() -> None:
    """Run, print, keep."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--label", default="after", help="which code this is: before or after")
    parser.add_argument("--sizes", nargs="+", type=int, default=[2_000, 64_000, 1_000_000])
    parser.add_argument("--parents", type=int, default=500)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    try:
        asyncio.run(measure(options.sizes, options.parents))
    finally:
        if options.write:
            RESULTS.mkdir(parents=True, exist_ok=True)
            data = b"".join(orjson.dumps({"code": options.label, **line}) + b"\n" for line in LINES)
            (RESULTS / f"{options.label}.jsonl").write_bytes(data)


if __name__ == "__main__":
    main()
