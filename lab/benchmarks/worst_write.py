"""The worst that one write can cost: hostile texts of 2 kB, 64 kB and 1 MB, and a write with many parents.

Honest writes stand beside them. Every text is written once to a fresh store with the default policy; time by the clock
and of the processor, and what was ruled. Models that only some texts need are loaded with the first of these: a text
of each kind is written before (``first``: what it costs in a new process), then the ones that are measured.

    python lab/benchmarks/worst_write.py --label after --write
    python lab/benchmarks/worst_write.py --label after --pages 60 --write   # honest pages of 2,000 characters alone
    python lab/benchmarks/worst_write.py --label unhurried --pages 60 --processor 40 --write   # with all the time

The pages are pieces of the descriptions of packages in this environment, from a foreign tool: real texts that are
dense with names, numbers and code. Said is how many wait for a person because there was no time to read them whole, and
what was ruled on each: with all the time in the world (``--processor``) others may be held, for other reasons.
Run it with another version's ``src`` on PYTHONPATH for the figures before. Raw results go to lab/results/worst_write.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import codecs
import importlib.metadata
import os
import random
import tempfile
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import orjson

from lazaretto import Guard, Policy
from lazaretto.processor_time import pace

RESULTS = Path(__file__).resolve().parents[1] / "results" / "worst_write"
LAYERS, WIDE, FIRST = 6, 120, 1_900
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


def pages(size: int, count: int) -> list[str]:
    """Pieces of what packages in this environment say about themselves, two of each at most."""
    bodies = {
        one.metadata["Name"]: (one.read_text("METADATA") or "").partition("\n\n")[2]
        for one in importlib.metadata.distributions()
    }
    pieces = [
        body[at : at + size]
        for _, body in sorted(bodies.items())
        for at in range(0, min(len(body) - size, 2 * size), size)
    ]
    random.Random(1).shuffle(pieces)
    return pieces[:count]


async def of_pages(size: int, count: int, processor_s: float) -> None:
    """Honest pages, one after the other, into one store."""
    spent, rules, each = list[float](), Counter[str](), list[str]()
    policy = Policy.recommended()
    memory = replace(policy.channels.memory, processor_s=processor_s or policy.channels.memory.processor_s)
    policy = replace(policy, channels=replace(policy.channels, memory=memory))
    with tempfile.TemporaryDirectory() as folder:
        async with Guard.open(f"sqlite:///{folder}/pages.db", policy) as guard:
            await guard.remember("It begins.", agent="ada")
            for number, text in enumerate(pages(size, count)):
                work = time.process_time()
                said = await guard.remember(text, agent=f"reader{number % 7}", source="tool_output_external")
                spent.append(time.process_time() - work)
                each.append(f"{said.ruling.label} {said.rule}")
                rules[each[-1]] += 1
    spent.sort()
    line = {
        "write": "honest pages", "size": size, "pages": len(spent), "median_s": round(spent[len(spent) // 2], 3),
        "worst_s": round(spent[-1], 3), "rules": dict(rules.most_common()),
        "no_time": sum(n for rule, n in rules.items() if rule.endswith(":too_long_to_read_whole")),
        "processor_s": memory.processor_s, "load": round(os.getloadavg()[0], 1), "pace": round(pace.now, 2),
        "each": each,
    }  # fmt: skip
    print(line, flush=True)
    LINES.append(line)


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
            for name, text in hostile(FIRST).items():
                await timed(guard, f"first {name}", text, FIRST)
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
    parser.add_argument("--pages", type=int, default=0, help="so many honest pages of the first size, nothing else")
    parser.add_argument(
        "--processor", type=float, default=0.0, help="seconds for each item, of --pages; 0: the policy's"
    )
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    try:
        if options.pages:
            asyncio.run(of_pages(options.sizes[0], options.pages, options.processor))
        else:
            asyncio.run(measure(options.sizes, options.parents))
    finally:
        if options.write:
            RESULTS.mkdir(parents=True, exist_ok=True)
            data = b"".join(orjson.dumps({"code": options.label, **line}) + b"\n" for line in LINES)
            name = f"{options.label}_pages" if options.pages else options.label
            (RESULTS / f"{name}.jsonl").write_bytes(data)


if __name__ == "__main__":
    main()
