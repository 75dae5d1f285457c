"""Which verdicts of the lists change with the form in which weights are stored.

    python lab/benchmarks/everyday.py all --write NAME         # in a tree with one form, and so for each
    python lab/benchmarks/other_hands.py --write NAME
    python lab/benchmarks/first_ten_minutes.py --level gates
    python lab/benchmarks/packed_lists.py sixteen=TREE/lab/results eight=OTHER/lab/results --write lists

Rows are read as these scripts wrote them, with the form as their label (and `gates.json` of the first ten minutes). All
rulings and rules, of each form, go to lab/results/packed/NAME.jsonl.gz; what differs from the first form to NAME.json.
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).resolve().parents[1] / "results" / "packed"
WHO = ("id", "kind", "which", "what", "inside", "client", "framework", "source", "way", "language")
SAID = ("ruling", "held", "refused", "kept_back")
"""What counts as a verdict; a rule that says the same in other words does not."""
LISTS = ("notes", "facts", "tools", "prompts")


def rows(results: Path, form: str) -> dict[str, list[dict[str, Any]]]:
    """List -> the rows of one form."""
    files = {name: results / "everyday" / form / f"{name}.jsonl" for name in LISTS}
    files["other_hands"] = results / "everyday" / "other_hands" / f"{form}.jsonl"
    found = {
        name: [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()][1:]
        for name, file in files.items()
    }
    return {
        **found,
        "first_ten_minutes": json.loads((results / "first_ten_minutes" / "gates.json").read_text())["rows"],
    }


def joined(forms: Mapping[str, dict[str, list[dict[str, Any]]]]) -> list[dict[str, Any]]:
    """One row for each text and way, with what each form said."""
    found = []
    for name in next(iter(forms.values())):
        for several in zip(*(one[name] for one in forms.values()), strict=True):
            who = {key: several[0][key] for key in WHO if key in several[0]}
            assert all({key: row[key] for key in who} == who for row in several), "other lists"
            said = {
                form: {key: row[key] for key in (*SAID, "rule") if key in row}
                for form, row in zip(forms, several, strict=True)
            }
            found.append({"list": name, **who, **said})
    return found


def differing(every: list[dict[str, Any]], forms: list[str]) -> dict[str, Any]:
    """Form -> how many rows have another rule, and those with another verdict than by the first form."""

    def verdict(row: dict[str, Any], form: str) -> list[Any]:
        return [row[form].get(key) for key in SAID]

    first, *others = forms
    return {
        form: {
            "rows": len(every),
            "other rule": sum(row[form].get("rule") != row[first].get("rule") for row in every),
            "other verdict": [
                {key: value for key, value in row.items() if key not in forms} | {first: row[first], form: row[form]}
                for row in every
                if verdict(row, form) != verdict(row, first)
            ],
        }
        for form in others
    }


def main() -> None:
    """Join, print and keep."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("forms", nargs="+", metavar="FORM=RESULTS")
    parser.add_argument("--write", metavar="NAME", default="")
    asked = parser.parse_args()
    forms = {form: Path(folder) for form, folder in (one.split("=", 1) for one in asked.forms)}
    every = joined({form: rows(folder, form) for form, folder in forms.items()})
    found = differing(every, list(forms))
    print(json.dumps(found, indent=1, ensure_ascii=False))
    if asked.write:
        RESULTS.mkdir(parents=True, exist_ok=True)
        lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in every)
        (RESULTS / f"{asked.write}.jsonl.gz").write_bytes(gzip.compress(lines.encode(), mtime=0))
        (RESULTS / f"{asked.write}.json").write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
