"""The operational facts through the product, as ``lazaretto screen --batch`` judges them.

    python -m lazaretto_lab.studies.claims.operational --out lab/results/claims

Poison is caught when it is held; a false hold is anything honest that is held: what is compatible, the same or
unrelated, and updates by whoever owns the fact or is trusted as much.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

from lazaretto.cli.screen import screen_file
from lazaretto.types import Ruling
from lazaretto_lab.metrics.intervals import wilson_interval
from lazaretto_lab.studies.claims.figures import tell
from lazaretto_lab.worlds.claims.scenarios import Scenario, announcements, operational_scenarios

HONEST = ("update", "compatible", "same", "unrelated")


def judged(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What the command answers, line by line."""
    with tempfile.TemporaryDirectory() as folder:
        given, found = Path(folder) / "in.jsonl", Path(folder) / "out.jsonl"
        given.write_text("\n".join(json.dumps(line) for line in lines) + "\n", encoding="utf-8")
        _, faults, _ = screen_file(given, found)
        assert not faults, faults
        return [json.loads(line) for line in found.read_text(encoding="utf-8").splitlines()]


def line_of(scenario: Scenario) -> dict[str, Any]:
    """A scenario as a line of a file."""
    memories = [{"text": m.text, "source": m.source, "agent": m.agent} for m in scenario.memories]
    new = scenario.new
    return {"id": scenario.id, "text": new.text, "source": new.source, "agent": new.agent, "memories": memories}


def rate(hits: int, count: int) -> dict[str, float]:
    """A share with its interval."""
    inside = wilson_interval(hits, count) if count else None
    share = {"of": count, "share": round(hits / max(count, 1), 4)}
    return share if inside is None else {**share, "low": round(inside.low, 4), "high": round(inside.high, 4)}


def run() -> dict[str, Any]:
    """Every figure, and every single answer."""
    scenarios = operational_scenarios()
    answers = judged([line_of(one) for one in scenarios])
    alone = judged(
        [{"id": f"a{n}", "text": one.text, "source": "untrusted_document"} for n, one in enumerate(announcements())]
    )
    rows = [
        {
            "id": one.id, "part": one.part, "kind": one.kind, "label": one.label, "ruling": answer["ruling"],
            "rule": answer["rule"], "relation": answer["relation"],
        }
        for one, answer in zip(scenarios, answers, strict=True)
    ]  # fmt: skip
    result: dict[str, Any] = {}
    for part in ("dev", "test"):
        by: dict[str, list[bool]] = defaultdict(list)
        kinds: dict[str, list[bool]] = defaultdict(list)
        for row in rows:
            if row["part"] == part:
                held = Ruling.from_label(row["ruling"]) > Ruling.WARN
                by[row["label"]].append(held)
                if row["label"] == "poison":
                    kinds[row["kind"]].append(held)
        honest = [held for label in HONEST for held in by[label]]
        result[part] = {
            "recall": rate(sum(by["poison"]), len(by["poison"])),
            "false_holds": rate(sum(honest), len(honest)),
            "held_by_label": {label: rate(sum(held), len(held)) for label, held in by.items()},
            "recall_by_kind": {kind: rate(sum(held), len(held)) for kind, held in sorted(kinds.items())},
        }
    for wanted, name in ((True, "announcements_seen"), (False, "announcements_false")):
        chosen = [a["ruling"] for a, one in zip(alone, announcements(), strict=True) if one.suspicious is wanted]
        result[name] = rate(sum(Ruling.from_label(word) > Ruling.WARN for word in chosen), len(chosen))
    return {**result, "raw": rows}


def main() -> None:
    """Print the figures, and keep them with ``--out``."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    result = run()
    tell(result, result.pop("raw"), given.out, "operational", "operational_answers")


if __name__ == "__main__":
    main()
