"""The drill's table and picture in docs/drill.md, from the raw results in lab/results/drill.

    lazaretto drill --seeds 5 --out runs/drill-sqlite
    lazaretto drill --seeds 5 --store postgresql://... --out runs/drill-postgresql
    python lab/benchmarks/drill_page.py runs/drill-sqlite runs/drill-postgresql

The results of the folders that are given are stored first; without any, page and picture are made anew.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from lazaretto_lab.studies.drill.tables import load, markdown, plot, save

REPOSITORY = Path(__file__).resolve().parents[2]
RESULTS, PAGE = REPOSITORY / "lab" / "results" / "drill", REPOSITORY / "docs" / "drill.md"
PICTURE = REPOSITORY / "docs" / "pictures" / "drill_spread.svg"
FIRST, LAST = "| threat | runs |", "of them innocent.\n"
"""How the table and the sentence below it begin and end."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="*", help="output folders of `lazaretto drill`")
    for folder in parser.parse_args().folders:
        for row in load(folder / "results"):
            save(RESULTS, row)
    rows = load(RESULTS)
    text = PAGE.read_text(encoding="utf-8")
    start = text.index(FIRST)
    end = text.index(LAST, start) + len(LAST)
    PAGE.write_text(text[:start] + markdown(rows) + text[end:], encoding="utf-8")
    plot(rows, PICTURE)
    print(f"{len(rows)} runs: {PAGE.relative_to(REPOSITORY)}, {PICTURE.relative_to(REPOSITORY)}")


if __name__ == "__main__":
    main()
