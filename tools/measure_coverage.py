"""Runs the tests piece by piece with coverage measured, then prints how much of each room they reach.

    python tools/measure_coverage.py                     everything that was not measured yet
    python tools/measure_coverage.py tests/ledger ...    these pieces only

A piece is a folder of tests, or all files beside the folders together. What it reached lies under ``build/coverage``,
and a piece that is there is not run again: delete the folder after a change. Processes that tests start are counted,
too, those that are ended without a farewell excepted. Tests that fail are named, and the table is printed anyway.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

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


def measure(name: str, given: list[str]) -> bool:
    """Run one piece, unless it is there; whether its tests passed."""
    made = FOLDER / name.replace("/", "-")
    if not (made / "done").exists():
        made.mkdir(parents=True, exist_ok=True)
        for left in made.glob("data.*"):  # of a run that was stopped
            left.unlink()
        print(f"== {name}", flush=True)
        workers = ("-n", os.environ.get("WORKERS", "2"), "--dist", "worksteal")
        code = coverage("run", "-m", "pytest", "-q", *workers, *given, data=made / "data")
        (made / "done").write_text(str(code))
    return (made / "done").read_text() == "0"


def main() -> int:
    """Measure what is missing, and print the table."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / "settings").write_text(SETTINGS)
    every = pieces()
    if unknown := set(sys.argv[1:]) - set(every):
        sys.exit(f"no piece: {', '.join(sorted(unknown))}; there are {', '.join(every)}")
    failed = [name for name in sys.argv[1:] or every if not measure(name, every[name])]
    data, report = FOLDER / "all", FOLDER / "report.json"
    coverage("combine", "--keep", "--quiet", *map(str, sorted(FOLDER.glob("*/data.*"))), data=data)
    coverage("json", "--quiet", "-o", str(report), data=data)
    code = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("coverage_by_room.py")), str(report)]
    ).returncode
    if failed:
        print(f"tests failed in: {', '.join(failed)}")
    return code or int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
