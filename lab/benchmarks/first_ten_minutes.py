"""What the default guard does in a new user's first ten minutes: 30 plain attacks, 60 benign notes, three installs.

    python lab/benchmarks/first_ten_minutes.py            # every level, each in a process of its own
    python lab/benchmarks/first_ten_minutes.py --level core
    python lab/benchmarks/first_ten_minutes.py --write    # also writes the table of the README

The lists (tests/data/first_ten_minutes.toml) were committed before any gate was run on them, and nothing is tuned on
them. Raw results go to lab/results/first_ten_minutes/LEVEL.json.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any

import install_levels

REPOSITORY = Path(__file__).resolve().parents[2]
LISTS = REPOSITORY / "tests" / "data" / "first_ten_minutes.toml"
RESULTS = REPOSITORY / "lab" / "results" / "first_ten_minutes"
START, END = "<!-- first ten minutes -->\n", "<!-- end -->\n"


def judge() -> list[dict[str, Any]]:
    """Every line of the lists through ``Guard.open()``, each by an agent of its own: none is made from another."""
    from lazaretto import SyncGuard

    lists = tomllib.loads(LISTS.read_text(encoding="utf-8"))
    rows = []
    with tempfile.TemporaryDirectory() as folder, SyncGuard.open(f"sqlite:///{folder}/crew.db") as guard:
        for group in ("attack", "benign"):
            for number, line in enumerate(lists[group], 1):
                name = f"{group}-{number}"
                if line["call"] == "remember":
                    decision = guard.remember(line["text"], agent=name)
                else:
                    decision = guard.check(line["text"], agent=name, channel=line.get("channel"))
                missing = sorted(run.gate for run in decision.runs if run.status.value not in ("ran", "skipped"))
                rows.append(
                    {
                        "id": name,
                        "kind": line.get("kind", "benign"),
                        "ruling": decision.ruling.label,
                        "held": not decision.allowed,
                        "rule": decision.rule,
                        "not_run": missing,
                    }
                )
    return rows


def counts(rows: list[dict[str, Any]]) -> dict[str, tuple[int, int]]:
    """Kind -> (held, of how many)."""
    found: dict[str, tuple[int, int]] = {}
    for row in rows:
        held, total = found.get(row["kind"], (0, 0))
        found[row["kind"]] = (held + row["held"], total + 1)
    return found


def table(results: dict[str, list[dict[str, Any]]]) -> str:
    """The README's table: what each install holds."""
    by_level = {level: counts(rows) for level, rows in results.items()}
    kinds = [kind for kind in next(iter(by_level.values())) if kind != "benign"]
    lines = ["| held of | " + " | ".join(f"`{install_levels.INSTALL[one]}`" for one in by_level) + " |"]
    lines += ["|---|" + "---|" * len(by_level)]
    attacks = {one: [sum(n) for n in zip(*(found[k] for k in kinds), strict=True)] for one, found in by_level.items()}
    lines += [f"| **30 attacks** | {' | '.join(f'**{attacks[one][0]}**' for one in by_level)} |"]
    for kind in kinds:
        total = next(iter(by_level.values()))[kind][1]
        lines += [f"| {kind} ({total}) | {' | '.join(str(found[kind][0]) for found in by_level.values())} |"]
    lines += [f"| **60 benign notes** | {' | '.join('**' + str(f['benign'][0]) + '**' for f in by_level.values())} |"]
    return "\n".join(lines) + "\n"


def stored() -> dict[str, list[dict[str, Any]]]:
    """The stored rows by level."""
    return {one: json.loads((RESULTS / f"{one}.json").read_text())["rows"] for one in install_levels.HIDDEN}


def main() -> None:
    """One level, or all of them and the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--level", choices=sorted(install_levels.HIDDEN))
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    if options.level is None:
        for level in install_levels.HIDDEN:
            subprocess.run([sys.executable, __file__, "--level", level], check=True)
        print(table(stored()))
        if options.write:
            page = REPOSITORY / "README.md"
            before, _, rest = page.read_text(encoding="utf-8").partition(START)
            page.write_text(before + START + table(stored()) + END + rest.partition(END)[2], encoding="utf-8")
        return
    install_levels.hide(options.level)
    RESULTS.mkdir(parents=True, exist_ok=True)
    result = {"install": install_levels.INSTALL[options.level], "rows": judge()}
    (RESULTS / f"{options.level}.json").write_text(f"{json.dumps(result, indent=1)}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
