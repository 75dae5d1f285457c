"""Forty audit reports and how well they explain themselves, before and after a change, read without knowing which.

    python lab/benchmarks/audit_reports.py make before     # on the code as it was
    python lab/benchmarks/audit_reports.py make after      # on the code as it is
    python lab/benchmarks/audit_reports.py sheet sheet.md  # all of them in one form, shuffled, under numbers
    python lab/benchmarks/audit_reports.py count           # every judgements_WHO.json beside the reports -> table

The texts (audit_reports.toml) are harmful, gray and honest, a third each. A reader answers for every report, from the
sheet, four questions with yes or no:

  spans       every quoted phrase is a phrase (no fragment), stands on the side where a sensible reader would put it,
              and none speaks for both sides
  precedents  every precedent that is listed is about the same kind of deed or question; none listed is a yes
  names       every hazard or OWASP number that is named fits the text; none named is a yes
  reason      the reason names the rule, the words it rests on, the precedent (or that there is none) and what would
              change the outcome, and contradicts none of it; a lawyer could sign it

The sheet shows the same fields in the same order for both, so that the form gives nothing away; the wording of a reason
may. Whether the outcome is right is not asked: that is measured elsewhere (docs/models/jury.md).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import tempfile
import tomllib
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
RESULTS = HERE.parent / "results" / "audit_reports"
QUESTIONS = ("spans", "precedents", "names", "reason")
SEED = 36


def texts() -> list[dict[str, str]]:
    """The forty."""
    found: list[dict[str, str]] = tomllib.loads((HERE / "audit_reports.toml").read_text(encoding="utf-8"))["text"]
    return found


async def made() -> list[dict[str, Any]]:
    """A report of each, by the jury that ships and the library that ships."""
    from lazaretto.cases.casebook import Casebook
    from lazaretto.gates.content.debate import DebateSettings, hold_debate, report_data
    from lazaretto.gates.content.gate import content_settings, live_library, make_panel
    from lazaretto.gates.content.records import Content
    from lazaretto.ledger import Ledger
    from lazaretto.policy import Policy

    policy = Policy.read(None)
    settings = content_settings(policy.gates.get("content", {}), "policy")
    with tempfile.TemporaryDirectory() as folder, Ledger.open(f"sqlite:///{folder}/cases.db") as ledger:
        panel = make_panel(settings, live_library(Casebook(ledger), settings.encoder), policy.limits)
    rows = []
    for one in texts():
        debate = DebateSettings(settings.rounds, settings.adaptive)
        report = report_data(await hold_debate(panel, Content(one["id"], one["text"]), debate))
        report.pop("cost")
        rows.append({**one, "report": report})
    return rows


def shown(text: str, report: dict[str, Any]) -> str:
    """One report in the form of the sheet."""
    sides: dict[str, list[str]] = {"risk": [], "benign": []}
    for row in report["evidence"]:
        if row["kind"] == "span":
            sides["risk" if row["data"]["weight"] > 0 else "benign"].append(row["data"]["quote"])
    lines = [f"text: {text}", f"outcome: {report['label']} by {report['rule']}"]
    lines += [f"quoted for {side}: {' | '.join(quotes) or '-'}" for side, quotes in sides.items()]
    lines += ["precedents: " + (" | ".join(f"[{p['label']}] {p['summary']}" for p in report["precedents"]) or "-")]
    lines += [f"names: {', '.join(report['taxonomy']) or '-'}", f"reason: {report['reasoning']}"]
    return "\n".join(lines)


def shuffled() -> list[tuple[str, str, str]]:
    """(which, id, report in the form of the sheet), in an order that only the seed knows."""
    found = [
        (which, row["id"], shown(row["text"], row["report"]))
        for which in ("before", "after")
        for row in json.loads((RESULTS / f"{which}.json").read_text())
    ]
    random.Random(SEED).shuffle(found)
    return found


def count(file: Path) -> dict[str, Any]:
    """One reader's answers of yes by question, before and after."""
    judged = json.loads(file.read_text())
    table: dict[str, dict[str, int]] = {
        which: dict.fromkeys((*QUESTIONS, "all four"), 0) for which in ("before", "after")
    }
    for number, (which, _, _) in enumerate(shuffled(), 1):
        answers = judged[str(number)]
        if set(answers) - set("spnr"):
            raise SystemExit(f"{number}: answers are letters of spnr, one for each yes")
        for letter, question in zip("spnr", QUESTIONS, strict=True):
            table[which][question] += letter in answers
        table[which]["all four"] += len(set(answers)) == len(QUESTIONS)
    return table


def main() -> None:
    """Make, show or count."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("make").add_argument("which", choices=("before", "after"))
    commands.add_parser("sheet").add_argument("path", type=Path)
    commands.add_parser("count")
    options = parser.parse_args()
    RESULTS.mkdir(parents=True, exist_ok=True)
    if options.command == "make":
        (RESULTS / f"{options.which}.json").write_text(json.dumps(asyncio.run(made()), indent=1) + "\n")
    elif options.command == "sheet":
        options.path.write_text(
            "\n\n".join(f"## {number}\n{text}" for number, (_, _, text) in enumerate(shuffled(), 1)) + "\n"
        )
    else:
        files = sorted(RESULTS.glob("judgements_*.json"))
        table = {file.stem.removeprefix("judgements_"): count(file) for file in files}
        (RESULTS / "table.json").write_text(json.dumps(table, indent=1) + "\n")
        print(json.dumps(table, indent=1))


if __name__ == "__main__":
    main()
