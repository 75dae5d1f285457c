"""Pages that people wrote for people: how many of them the default guard holds when an agent reads them.

    python lab/benchmarks/real_pages.py                     # print
    python lab/benchmarks/real_pages.py --write LABEL       # a row for each page in lab/results/real_pages/LABEL.jsonl

The pages are descriptions of the installed packages (up to three pages of 1,500 characters of each: the first, one from
the middle, the last) and docstrings of the standard library, read as a stranger's document. None was written for this
project, and none is stored: a row has the name, the number of the page and a sha256. Packages whose name has an odd
CRC-32 may be looked at; the others judge.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import importlib.metadata
import inspect
import json
import subprocess
import sys
import tempfile
import warnings
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
RESULTS = REPOSITORY / "lab" / "results" / "real_pages"
PAGE, SHORTEST, MOST_OF_ONE, MOST_DOCSTRINGS = 1_500, 200, 3, 200
QUIET = ("antigravity", "this", "idlelib", "turtledemo")
"""Modules that do something when they are imported."""


def pages() -> Iterator[tuple[str, int, str]]:
    """Name, number and text of each page."""
    for found in sorted(importlib.metadata.distributions(), key=lambda one: one.metadata["Name"].lower()):
        name = found.metadata["Name"].lower()
        text = str(found.metadata.get_payload() or found.metadata["Description"] or "")
        cut = [text[at : at + PAGE].strip() for at in range(0, len(text), PAGE)]
        long = [page for page in cut if len(page) >= SHORTEST]
        several = dict.fromkeys((0, len(long) // 2, len(long) - 1)) if long else ()
        if not name.startswith("lazaretto"):
            yield from ((name, number, long[number]) for number in [*several][:MOST_OF_ONE])
    yield from docstrings()


def docstrings() -> Iterator[tuple[str, int, str]]:
    """Long docstrings of the standard library, evenly from all modules."""
    found = []
    for name in sorted(sys.stdlib_module_names):
        if name.startswith("_") or name in QUIET:
            continue
        try:
            module = importlib.import_module(name)
        except ImportError:
            continue
        for part, value in [("", module), *vars(module).items()]:
            if part and not ((inspect.isfunction(value) or inspect.isclass(value)) and value.__module__ == name):
                continue
            text = inspect.getdoc(value) or ""
            if len(text) >= SHORTEST:
                found.append((f"python: {name}.{part}", 0, text[:PAGE]))
    yield from found[:: max(1, len(found) // MOST_DOCSTRINGS)]


def judges(name: str) -> bool:
    """Whether the pages of a package judge; the others may be looked at."""
    return zlib.crc32(name.encode()) % 2 == 0


def main() -> None:
    """Check every page, print what is held, and keep rows where asked."""
    from lazaretto import SyncGuard

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", metavar="LABEL")
    parser.add_argument("--show", action="store_true", help="Print held pages that may be looked at.")
    given = parser.parse_args()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        read = list(pages())
    rows, held = [], Counter[str]()
    with tempfile.TemporaryDirectory() as folder, SyncGuard.open(f"sqlite:///{folder}/crew.db") as guard:
        for number, (name, page, text) in enumerate(read, 1):
            made = guard.check(text, agent="ada", channel="document", source="untrusted_document")
            digest = hashlib.sha256(text.encode()).hexdigest()
            rows.append({"name": name, "page": page, "sha256": digest, "ruling": made.ruling.label, "rule": made.rule})
            if not made.allowed:
                held[f"{'judges' if judges(name) else 'looked at'}: {made.rule}"] += 1
                if given.show and not judges(name):
                    print(f"\n{name} {page} {made.rule}: {' / '.join(made.reasons)[:300]}")
            if number % 50 == 0:
                print(f"\r{number} of {len(read)}", end="", file=sys.stderr, flush=True)
    for kind in (True, False):
        mine = sum(judges(name) is kind for name, _, _ in read)
        count = sum(several for rule, several in held.items() if rule.startswith("judges" if kind else "looked at"))
        print(f"{'pages that judge' if kind else 'pages that may be looked at'}: {count} of {mine} held")
    print(json.dumps(held, indent=1, sort_keys=True))
    if given.write:
        RESULTS.mkdir(parents=True, exist_ok=True)
        commit = subprocess.run(
            ["git", "describe", "--always", "--dirty"], cwd=REPOSITORY, capture_output=True, text=True
        )
        first = {"list": "real_pages", "commit": commit.stdout.strip(), "rows": len(rows)}
        lines = [json.dumps(row) for row in (first, *rows)]
        (RESULTS / f"{given.write}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
