"""A hearing beside busy processes: with N of them on the machine it should cost about N times, not more.

The memory gate and the content gate hear the same notes alone and beside 2, 5 and 10 processes that do nothing but
count. On C cores with N busy neighbours a fair share is C / (N + 1) of a core at worst, so the ratio is given beside
``max(1, (N + 1) / C)``. Models whose threads wait for one another by spinning are far above it: before the
thread policy a test of 6 seconds took over 300.

    python lab/benchmarks/busy_neighbours.py --write          # about 4 minutes on two cores
    python lab/benchmarks/busy_neighbours.py --short          # N = 0 and 2, a few notes

Raw times go to lab/results/busy_neighbours.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from lazaretto import SyncGuard

RESULTS = Path(__file__).resolve().parents[1] / "results" / "busy_neighbours"
NOTE = "Berth {n}: the ferry to the island leaves at {n} past nine, and the customs office closes at four on Fridays."


def hearings(guard: SyncGuard, notes: int, at: int) -> list[float]:
    """Seconds of each hearing."""
    times = []
    for number in range(notes):
        started = time.perf_counter()
        guard.check(NOTE.format(n=at + number) * 6, agent="ada", source="untrusted_document", channel="document")
        times.append(time.perf_counter() - started)
    return times


def main() -> None:
    """Measure, print, keep."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--neighbours", type=int, nargs="+", default=[0, 2, 5, 10])
    parser.add_argument("--notes", type=int, default=20)
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    cores, alone = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1, 0.0
    lines: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder, SyncGuard.open(f"sqlite:///{folder}/crew.db") as guard:
        hearings(guard, 2, 90_000)  # weights are loaded
        for busy in [0, 2] if options.short else options.neighbours:
            others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(busy)]
            try:
                times = hearings(guard, 3 if options.short else options.notes, busy * 1_000)
            finally:
                for other in others:
                    other.kill()
                    other.wait()
            median = float(np.median(times))
            alone = alone or median
            fair = max(1.0, (busy + 1) / cores)
            print(f"{busy:>2} neighbours, {cores} cores: {median:.3f} s, {median / alone:.1f} x (fair {fair:.1f} x)")
            lines.append({"neighbours": busy, "cores": cores, "fair": fair, "ratio": median / alone, "seconds": times})
    if options.write:
        RESULTS.mkdir(parents=True, exist_ok=True)
        (RESULTS / "hearings.jsonl").write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in lines))


if __name__ == "__main__":
    main()
