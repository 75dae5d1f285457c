"""Every verdict on the development texts, to hold two versions of the readers beside each other.

    python lab/benchmarks/verdicts.py now.jsonl                              # verdicts of this tree
    PYTHONPATH=OTHER/src python lab/benchmarks/verdicts.py before.jsonl      # the same of another tree
    python lab/benchmarks/verdicts.py --compare before.jsonl now.jsonl [--write NAME]   # lab/results/reading_cost

Texts are the development notes and those written for training (``lazaretto_lab.training.written``), every ``--every``
th of them: as what a web page says, and pairs of facts as two memories of one store, the newer from a colleague. The
default policy judges; what is compared is the decision, and each gate's ruling, rule and risk (to two digits).
"""

from __future__ import annotations

import argparse
import json
import tempfile
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
RESULTS = HERE.parent / "results" / "reading_cost"
WRITTEN = HERE.parent / "src" / "lazaretto_lab" / "training" / "written"
NOTES = HERE.parents[1] / "tests" / "data" / "dev_work_notes.toml"
SHOWN = 40


def texts(every: int) -> Iterator[tuple[str, str]]:
    """(where it stands, text)."""
    for work, table in tomllib.loads(NOTES.read_text(encoding="utf-8")).items():
        for number, note in enumerate(table["notes"]):
            yield f"dev {work} {number}", note
    for file in sorted(WRITTEN.glob("*.jsonl")):
        if file.stem == "facts":
            continue
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines()):
            row = json.loads(line)
            said = row.get("text") or row.get("poisoned") or row.get("description")
            if number % every == 0 and isinstance(said, str):
                yield f"{file.stem} {number}", said


def facts(every: int) -> Iterator[tuple[str, str, str]]:
    """(where it stands, older text, newer text)."""
    for number, line in enumerate((WRITTEN / "facts.jsonl").read_text(encoding="utf-8").splitlines()):
        row = json.loads(line)
        if number % every == 0:
            yield f"facts {number}", row["first"], row["second"]


def told(decision: Any) -> dict[str, Any]:
    """What is compared of a decision."""
    gates = {
        one.gate: [one.ruling.label, one.rule, round(one.risk, 2)]
        for one in decision.verdicts
        if one.gate in ("memory", "content", "second_reader")
    }
    return {"ruling": decision.ruling.label, "rule": decision.rule, "gates": gates}


def verdicts(every: int) -> Iterator[dict[str, Any]]:
    """One row per text."""
    from lazaretto import SyncGuard

    with tempfile.TemporaryDirectory() as folder, SyncGuard.open(f"sqlite:///{folder}/crew.db") as guard:
        for name, text in texts(every):
            said = guard.check(text, agent="ada", channel="document", source="untrusted_document")
            yield {"name": name, **told(said)}
        for name, old, new in facts(every):
            first = guard.remember(old, agent=f"a {name}", source="direct_user")
            second = guard.remember(new, agent=f"b {name}", source="agent_message")
            yield {"name": f"{name} old", **told(first)}
            yield {"name": f"{name} new", **told(second)}


def compared(before: Path, after: Path) -> dict[str, Any]:
    """How many decisions differ, and which."""
    rows = [
        {row["name"]: row for row in map(json.loads, file.read_text(encoding="utf-8").splitlines())}
        for file in (before, after)
    ]
    both = [name for name in rows[0] if name in rows[1]]
    found: dict[str, Any] = {"texts": len(both)}
    for key in ("ruling", "rule"):
        found[f"other {key}"] = sum(rows[0][name][key] != rows[1][name][key] for name in both)
    other: Counter[str] = Counter()
    for name in both:
        left, right = (one[name]["gates"] for one in rows)
        for gate in {*left, *right}:
            a, b = left.get(gate), right.get(gate)
            other[f"{gate}: ruling or rule"] += (a and a[:2]) != (b and b[:2])
            other[f"{gate}: risk"] += bool(a and b and a[2] != b[2])
    found["gates"] = dict(other)
    found["which"] = [
        {"name": name, "before": rows[0][name], "after": rows[1][name]}
        for name in both
        if any(rows[0][name][key] != rows[1][name][key] for key in ("ruling", "rule"))
    ][:SHOWN]
    return found


def main() -> None:
    """Judge, or compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--every", type=int, default=4)
    parser.add_argument("--compare", action="store_true")
    parser.add_argument("--write", metavar="NAME")
    asked = parser.parse_args()
    if asked.compare:
        found = compared(*asked.files)
        print(json.dumps(found, indent=1))
        if asked.write:
            (RESULTS / f"{asked.write}.json").write_text(json.dumps(found, indent=1) + "\n")
        return
    with asked.files[0].open("w", encoding="utf-8") as file:
        for row in verdicts(asked.every):
            file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
