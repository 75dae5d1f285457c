"""What the guard adds to its gates: one ``remember`` with the default policy, against the same gates asked by hand.

    python lab/benchmarks/guard_overhead.py            # prints the table
    python lab/benchmarks/guard_overhead.py --write    # also writes its section of docs/performance.md, and every
                                                       # single time to lab/results/guard_overhead

Guard and gates take turns on different texts of the same make (the jury remembers what it has read). By hand means: the
gates of one stage at once, stage after stage, on one event loop; no threads, no ledger, no decision.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import numpy as np
from performance_page import write_section

from lazaretto import Guard, Policy
from lazaretto.gates.protocol import Gate, GateContext, WarmUp
from lazaretto.policy import Stage, plugins
from lazaretto.types import Channel, Observation

RESULTS = Path(__file__).resolve().parents[1] / "results" / "guard_overhead"
WARM = 10
Taken = tuple[float, float]
"""Milliseconds by the clock, and of the processor."""


def note(number: int, words: int) -> str:
    """An ordinary note of so many words; no two are equal."""
    ends = ("is at berth nine", "waits for the crane", "was paid on Tuesday", "needs a new seal", "left with the tide")
    parts = [f"Order {number * 100 + n} of the {number}th list {ends[(number + n) % len(ends)]}." for n in range(99)]
    return " ".join(" ".join(parts).split()[:words])


async def timed(call: Callable[[], Awaitable[object]]) -> Taken:
    """How long a call takes."""
    wall, work = time.perf_counter(), time.process_time()
    await call()
    return (time.perf_counter() - wall) * 1000, (time.process_time() - work) * 1000


async def by_hand(stages: list[list[Gate]], context: GateContext, text: str) -> None:
    """The gates of the memory channel on one text."""
    observation = Observation("ada", Channel.MEMORY, text)
    for gates in stages:
        await asyncio.gather(*(gate.examine(observation, context) for gate in gates))


async def measure(policy: Policy, rounds: int, words: int) -> tuple[list[Taken], list[Taken]]:
    """(guard, gates alone), taking turns."""
    with tempfile.TemporaryDirectory() as folder:
        async with Guard.open(f"sqlite:///{Path(folder) / 'crew.db'}", policy) as guard:
            made = {name: plugins.GATES.factory(name)(policy.gates.get(name, {})) for name, _ in policy.gate_names()}
            for gate in made.values():
                if isinstance(gate, WarmUp):
                    gate.warm_up()
            stages = [[made[name] for name in Stage.of(stage).gates] for stage in policy.channels.memory.stages]
            context = GateContext(guard.ledger, guard.graph, {}, limits=policy.limits)
            whole, alone = [], []
            for n in range(rounds + WARM):
                mine, theirs = note(2 * n, words), note(2 * n + 1, words)
                whole.append(await timed(lambda text=mine: guard.remember(text, agent="ada")))  # type: ignore[misc]
                alone.append(await timed(lambda text=theirs: by_hand(stages, context, text)))  # type: ignore[misc]
    return whole[WARM:], alone[WARM:]


def row(name: str, words: int, whole: list[Taken], alone: list[Taken]) -> str:
    """One line: both by the clock at three percentiles, and the ratio of medians of processor time."""
    cells = []
    for taken in (whole, alone):
        cells.append(", ".join(f"{one:.1f}" for one in np.percentile([wall for wall, _ in taken], (50, 95, 99))))
    clock, work = (np.median([w[i] for w in whole]) / np.median([a[i] for a in alone]) for i in (0, 1))
    spent = np.median([work for _, work in whole])
    return f"| {name}, {words} words | {cells[0]} | {cells[1]} | {clock:.2f} | {work:.2f} | {spent:.1f} |"


def main() -> None:
    """Both presets, short and long notes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--write", action="store_true", help="renew the section of docs/performance.md")
    options = parser.parse_args()
    lines = [
        "## What the guard adds to its gates",
        "",
        f"`python lab/benchmarks/guard_overhead.py --write`: {options.rounds} calls of `remember` on SQLite and the",
        "same gates asked by hand, taking turns. Milliseconds by the clock: p50, p95, p99; then guard / gates, medians",
        "by the clock and of the processor. The guard adds a thread per gate, the decision, one durable transaction.",
        "",
        "| policy, note | `guard.remember` | gates alone | clock | processor | processor ms of `guard.remember` |",
        "|---|---|---|---|---|---|",
    ]
    taken = []
    for name in ("minimal", "recommended"):
        for words in (12, 100):
            policy: Policy = getattr(Policy, name)()
            whole, alone = asyncio.run(measure(policy, options.rounds, words))
            taken.append({"policy": name, "words": words, "remember": whole, "gates": alone})
            lines.append(row(name, words, whole, alone))
            print(lines[-1], flush=True)
    if options.write:
        RESULTS.mkdir(parents=True, exist_ok=True)
        (RESULTS / "times.json").write_text(json.dumps({"wall_and_processor_ms": taken}) + "\n")
        write_section("guard overhead", "\n".join(lines))


if __name__ == "__main__":
    main()
