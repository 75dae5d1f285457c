"""Prints how much of each room the tests reach: ``python tools/coverage_by_room.py coverage.json``.

The file is coverage's JSON report (``make coverage`` writes it). Fails where a room is below the least share.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from pathlib import Path

PRODUCT = Path("src/lazaretto")
LEAST = 85.0


def by_room(report: dict) -> dict[str, tuple[int, int]]:
    """Reached and all statements of each room."""
    reached: Counter[str] = Counter()
    every: Counter[str] = Counter()
    for name, file in report["files"].items():
        parts = Path(name).with_suffix("").parts
        room = parts[parts.index(PRODUCT.name) + 1]
        reached[room] += file["summary"]["covered_lines"]
        every[room] += file["summary"]["num_statements"]
    return {room: (reached[room], count) for room, count in sorted(every.items()) if count}


def main() -> None:
    """Print the table; exit 1 where a room is below the least share."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("report", type=Path, help="coverage's JSON report")
    parser.add_argument("--least", type=float, default=LEAST, help=f"least share of a room in percent, default {LEAST}")
    options = parser.parse_args()
    rooms = by_room(json.loads(options.report.read_text()))
    for room, (reached, count) in rooms.items():
        print(f"{100 * reached / count:6.1f} %  {reached:6} of {count:6}  {room}")
    low = [room for room, (reached, count) in rooms.items() if 100 * reached / count < options.least]
    if low:
        sys.exit(f"below {options.least:g} %: {', '.join(low)}")


if __name__ == "__main__":
    main()
