"""How fast the epidemic is: against its plain Python transcription, as it grows, in reference mode, and over Ray.

    python lab/benchmarks/epidemic.py             # prints the figures (about two minutes)
    python lab/benchmarks/epidemic.py --ray 2     # also spreads the largest run over Ray and compares bit by bit
    python lab/benchmarks/epidemic.py --write     # also writes its section of docs/performance.md

Both sides run in one process, one after the other, at the same sizes, on one thread. Times are CPU seconds, so that a
busy machine does not favour either; the largest run also states wall-clock time and peak memory, in a process of its
own.
"""

from __future__ import annotations

import argparse
import functools
import random
import subprocess
import sys
import time
from collections import deque
from pathlib import Path

import numpy as np
from performance_page import write_section

from lazaretto_lab.worlds.epidemic import Scenario, simulate
from lazaretto_lab.worlds.epidemic.agents import Population
from lazaretto_lab.worlds.epidemic.spread import simulate_on_ray

SIZES = (1_024, 4_096, 16_384, 65_536)
LARGE, ROUNDS, SEED = 1_000_000, 64, 1


def transcribe(agents: int, infected: int, rounds: int, album: int, seed: int) -> list[tuple[int, int]]:
    """The rules with alpha = beta = 1 in plain Python and nothing more: what a program written down directly would
    do."""
    random.seed(seed)
    albums = [deque([False] * album, maxlen=album) for _ in range(agents)]
    for agent in range(infected):
        albums[agent].append(True)
    ever: set[int] = set()
    history = []
    for _ in range(rounds):
        left = list(range(agents))
        pairs = []
        while len(left) > 1:
            questioner = left.pop(random.randrange(0, len(left)))
            pairs.append((questioner, left.pop(random.randrange(0, len(left)))))
        sick, arrivals = [], []
        for questioner, answerer in pairs:
            virus = True in albums[questioner]
            if virus:
                sick += (questioner, answerer)
            arrivals.append(virus)
        for (_, answerer), virus in zip(pairs, arrivals, strict=True):
            albums[answerer].append(virus)
        ever.update(sick)
        history.append((len(sick), len(ever)))
    return history


def cpu(work) -> float:
    """CPU seconds of one call."""
    started = time.process_time()
    work()
    return time.process_time() - started


def memory(field: str) -> float:
    """A figure of /proc/self/status in MiB; NaN where there is no such file."""
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith(field)), float("nan"))


def large_run() -> None:
    """The largest run, for a process of its own: prints CPU seconds, wall seconds, MiB before and at the peak, and
    the end."""
    before = memory("VmRSS")
    wall, started = time.perf_counter(), time.process_time()
    run = simulate(Scenario(LARGE, 1, ROUNDS), [SEED])
    used = time.process_time() - started, time.perf_counter() - wall
    print(*used, before, memory("VmHWM"), run.percent("cumulative")[0, -1])


def compare() -> tuple[list[str], float, float]:
    """Both sides at sizes where both run; the transcription's nanoseconds at its best size and at the largest."""
    lines = [
        "| agents | rounds | plain Python, ns | simulation, ns | times faster | reference pairing, ns | times faster |"
    ]
    lines.append("|---|---|---|---|---|---|---|")
    best = float("inf")
    for agents in SIZES:
        rounds = max(2, min(ROUNDS, 200_000 // agents))
        scenario = Scenario(agents, max(1, agents // 100), rounds)
        reference = Scenario(agents, max(1, agents // 100), rounds, reference_pairing=True)
        run = simulate(reference, [SEED])
        work = agents * rounds
        counted = list(zip(run.counts["current"][0].tolist(), run.counts["cumulative"][0].tolist(), strict=True))
        if transcribe(agents, scenario.infected, rounds, scenario.album, SEED) != counted:
            raise SystemExit("the two sides disagree")
        plainly = functools.partial(transcribe, agents, scenario.infected, rounds, scenario.album, SEED)
        slow = min(cpu(plainly) for _ in range(2)) / work
        fast = min(cpu(lambda s=scenario: simulate(s, [SEED])) for _ in range(5)) / work
        exact = min(cpu(lambda s=reference: simulate(s, [SEED])) for _ in range(2)) / work
        best = min(best, slow)
        figures = f"{slow * 1e9:,.0f} | {fast * 1e9:.1f} | {slow / fast:.0f} | {exact * 1e9:,.0f} | {slow / exact:.1f}"
        lines.append(f"| {agents:,} | {rounds} | {figures} |")
        print(lines[-1], flush=True)
    return lines, best * 1e9, slow * 1e9


def main() -> None:
    """Measure, print, and write when asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ray", type=int, default=0, help="also over so many Ray workers")
    parser.add_argument("--write", action="store_true", help="renew the section of docs/performance.md")
    parser.add_argument("--large-run", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.large_run:
        large_run()
        return
    lines, best, last = compare()
    command = [sys.executable, __file__, "--large-run"]
    used, wall, before, peak, end = map(float, subprocess.run(command, check=True, capture_output=True).stdout.split())
    each = used / (LARGE * ROUNDS) * 1e9
    state = Population.start(Scenario(LARGE, 1, ROUNDS)).bytes / 2**20
    clock = wall / (LARGE * ROUNDS) * 1e9
    lines += [
        "",
        f"One million agents, {ROUNDS} rounds, one infected: {used:.2f} CPU seconds in two threads, {wall:.2f} s by",
        f"the clock; {each:.1f} ns of CPU ({clock:.1f} ns by the clock) per agent and round. That is",
        f"**{last / each:.0f} times less CPU** than the transcription spends at {SIZES[-1]:,} agents ({last:,.0f} ns),",
        f"and {best / each:.0f} times less than at its best size above ({best:,.0f} ns; its list pops grow with the",
        f"number of agents). Peak memory {peak:.0f} MiB, of which {before:.0f} MiB before the run; the agents",
        f"themselves take {state:.1f} MiB. Cumulative infection at the end: {end:.2f} %.",
    ]
    if options.ray:
        scenario = Scenario(LARGE, 1, ROUNDS)
        started = time.perf_counter()
        spread = simulate_on_ray(scenario, SEED, options.ray)
        seconds = time.perf_counter() - started
        alone = simulate(scenario, [SEED])
        same = all(np.array_equal(spread.counts[name], alone.counts[name]) for name in alone.counts)
        lines.append(
            f"The same over {options.ray} Ray workers: {seconds:.1f} s with the start of Ray, "
            f"{'equal in every count of every round' if same else 'NOT EQUAL'}."
        )
    text = "\n".join(lines)
    print(text)
    if options.write:
        write_section("epidemic", f"## Epidemic\n\n{text}")


if __name__ == "__main__":
    main()
