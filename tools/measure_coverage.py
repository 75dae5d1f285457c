"""Runs the tests piece by piece with coverage measured, then prints how much of each room they reach.

    python tools/measure_coverage.py                     everything that was not measured yet
    python tools/measure_coverage.py tests/ledger ...    these pieces only
    python tools/measure_coverage.py --write FILE        the table as JSON, with pieces, seconds and commits, besides

A piece is a folder of tests, or all files beside the folders together. What it reached lies under ``build/coverage``,
and a piece that is there is not run again: delete the folder after a change (pieces of several commits are named).
Processes that tests start are counted, too, those that are ended without a farewell excepted. Tests that fail are
named, and the table is printed anyway.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "build" / "coverage"
SETTINGS = "[run]\nsource_pkgs = lazaretto\nparallel = true\npatch = subprocess, _exit\nsigterm = true\n"
SETTINGS += "[paths]\nproduct =\n    src/lazaretto\n    */src/lazaretto\n"


def pieces() -> dict[str, list[str]]:
    """Name of each piece -> what pytest is given."""
    found: dict[str, list[str]] = {}
    for folder in (ROOT / "tests", ROOT / "lab" / "tests"):
        at = folder.relative_to(ROOT)
        for inside in sorted(one for one in folder.iterdir() if any(one.rglob("test_*.py"))):
            if inside.is_dir():
                found[f"{at}/{inside.name}"] = [f"{at}/{inside.name}"]
        if beside := [str(file.relative_to(ROOT)) for file in sorted(folder.glob("test_*.py"))]:
            found[str(at)] = beside
    return found


def coverage(*words: str, data: Path) -> int:
    """One call of coverage's own command; its exit code."""
    environment = {**os.environ, "COVERAGE_FILE": str(data), "COVERAGE_RCFILE": str(FOLDER / "settings")}
    return subprocess.run([sys.executable, "-m", "coverage", *words], cwd=ROOT, env=environment).returncode


def commit() -> str:
    """The commit of the tree, with a mark where it was changed since."""
    said = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True)
    return said.stdout.strip() or "unknown"


def measure(name: str, given: list[str]) -> dict[str, Any]:
    """Run one piece, unless it is there; its exit code, seconds and commit."""
    made = FOLDER / name.replace("/", "-")
    if not (made / "done.json").exists():
        made.mkdir(parents=True, exist_ok=True)
        for left in made.glob("data.*"):  # of a run that was stopped
            left.unlink()
        print(f"== {name}", flush=True)
        workers = ("-n", os.environ.get("WORKERS", "2"), "--dist", "worksteal")
        began = time.monotonic()
        code = coverage("run", "-m", "pytest", "-q", *workers, *given, data=made / "data")
        told = {"code": code, "seconds": round(time.monotonic() - began), "commit": commit()}
        (made / "done.json").write_text(json.dumps(told))
    return dict(json.loads((made / "done.json").read_text()))


def main() -> int:
    """Measure what is missing, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pieces", nargs="*", help="folders of tests; all where none is named")
    parser.add_argument("--write", type=Path, help="also write the table here, as JSON")
    options = parser.parse_args()
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / "settings").write_text(SETTINGS)
    every = pieces()
    if unknown := set(options.pieces) - set(every):
        sys.exit(f"no piece: {', '.join(sorted(unknown))}; there are {', '.join(every)}")
    for name in options.pieces or every:
        measure(name, every[name])
    there = {
        name: measure(name, every[name]) for name in every if (FOLDER / name.replace("/", "-") / "done.json").exists()
    }
    data, report, table = FOLDER / "all", FOLDER / "report.json", FOLDER / "rooms.json"
    coverage("combine", "--keep", "--quiet", *map(str, sorted(FOLDER.glob("*/data.*"))), data=data)
    coverage("json", "--quiet", "-o", str(report), data=data)
    missing = [name for name in every if name not in there]
    words = [sys.executable, str(Path(__file__).with_name("coverage_by_room.py")), str(report), "--write", str(table)]
    words += ["--least", "0"] if missing else []  # what no test had the chance to reach is no fault
    code = subprocess.run(words).returncode
    failed = [name for name, told in there.items() if told["code"]]
    seconds, commits = (
        sum(told["seconds"] for told in there.values()),
        sorted({told["commit"] for told in there.values()}),
    )
    print(f"{len(there)} of {len(every)} pieces in {seconds} s, measured at {', '.join(commits)}")
    if missing:
        print(f"not measured: {', '.join(missing)}")
    if failed:
        print(f"tests failed in: {', '.join(failed)}")
    if options.write is not None and table.exists():
        options.write.write_text(
            json.dumps(json.loads(table.read_text()) | {"pieces": there, "missing": missing}, indent=1)
        )
    return code or int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
