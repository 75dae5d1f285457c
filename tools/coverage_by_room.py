"""Prints how much of each room the tests reach: ``python tools/coverage_by_room.py coverage.json``.

The file is coverage's JSON report (``measure_coverage.py`` writes it). Fails where a room is below the least share.
Adapters whose framework is not installed here cannot be imported, let alone measured: they are named apart and count
nowhere.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

PRODUCT = Path("src/lazaretto")
LEAST = 85.0
LEAST_OF_A_FILE, SMALL = 75.0, 15
"""Files below this share are named, unless they have few statements. They fail nothing."""
FRAMEWORKS = {
    "agent_framework": "agent_framework",
    "crewai": "crewai",
    "google_adk": "google.adk",
    "mem0": "mem0",
    "openai_agents": "agents",
}
"""Adapters whose frameworks have environments of their own (``make adapters``), with the module each one needs."""


def installed(module: str) -> bool:
    """Whether a module can be imported here."""
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # the package around it is missing
        return False


def by_room(report: dict, apart: set[str]) -> dict[str, tuple[int, int]]:
    """Reached and all statements of each room, without the adapters named in ``apart``."""
    reached: Counter[str] = Counter()
    every: Counter[str] = Counter()
    for name, file in report["files"].items():
        parts = Path(name).with_suffix("").parts
        room, *inside = parts[parts.index(PRODUCT.name) + 1 :]
        if room == "adapters" and inside and inside[0] in apart:
            continue
        reached[room] += file["summary"]["covered_lines"]
        every[room] += file["summary"]["num_statements"]
    return {room: (reached[room], count) for room, count in sorted(every.items()) if count}


def low_files(report: dict, apart: set[str]) -> dict[str, tuple[int, int]]:
    """Reached and all statements of the files below the share that a file should have, the lowest first."""
    found = {}
    for name, file in report["files"].items():
        path = Path(name)
        reached, count = file["summary"]["covered_lines"], file["summary"]["num_statements"]
        if path.parent.name == "adapters" and path.stem in apart:
            continue
        if count >= SMALL and 100 * reached / count < LEAST_OF_A_FILE:
            found[name] = (reached, count)
    return dict(sorted(found.items(), key=lambda one: one[1][0] / one[1][1]))


def main() -> None:
    """Print the table; exit 1 where a room is below the least share."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("report", type=Path, help="coverage's JSON report")
    parser.add_argument("--least", type=float, default=LEAST, help=f"least share of a room in percent, default {LEAST}")
    parser.add_argument("--write", type=Path, help="also write the table here, as JSON")
    options = parser.parse_args()
    apart = {adapter for adapter, module in FRAMEWORKS.items() if not installed(module)}
    report = json.loads(options.report.read_text())
    rooms, low_ones = by_room(report, apart), low_files(report, apart)
    for room, (reached, count) in sorted(rooms.items(), key=lambda one: one[1][0] / one[1][1]):
        print(f"{100 * reached / count:6.1f} %  {reached:6} of {count:6}  {room}")
    for name, (reached, count) in low_ones.items():
        print(f"{100 * reached / count:6.1f} %  {reached:6} of {count:6}  a file below {LEAST_OF_A_FILE:g} %: {name}")
    if options.write is not None:
        told = {"rooms": rooms, "files below 75 %": low_ones, "not measured": sorted(apart)}
        options.write.write_text(json.dumps(told, indent=1) + "\n")
    if apart:
        print(f"not measured here, their frameworks are not installed (make adapters): {', '.join(sorted(apart))}")
    low = [room for room, (reached, count) in rooms.items() if 100 * reached / count < options.least]
    if low:
        sys.exit(f"below {options.least:g} %: {', '.join(low)}")


if __name__ == "__main__":
    main()
