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
import json
import subprocess
import sys
import tempfile
import warnings
from collections import Counter
from pathlib import Path

from lazaretto_lab.training.real_pages import judges, pages

REPOSITORY = Path(__file__).resolve().parents[2]
RESULTS = REPOSITORY / "lab" / "results" / "real_pages"


def main() -> None:
    """Check every page, print the held ones, and keep rows where asked."""
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
