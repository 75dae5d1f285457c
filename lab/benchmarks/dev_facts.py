"""The development lists of facts (tests/data/dev_facts_*.jsonl) through the default guard, and where their pairs end.

    python lab/benchmarks/dev_facts.py                 # what is held, by kind; each miss with the stage that lost it
    python lab/benchmarks/dev_facts.py --out lab/results/facts/dev_first_contact.jsonl
    python lab/benchmarks/dev_facts.py second          # the list of other kinds of work, with honest updates
    python lab/benchmarks/dev_facts.py third           # restatements above all, by another hand

Gates may be mended on these lists; they judge nothing. The list that judges is that of `everyday.py facts`.
"""

from __future__ import annotations

import argparse
import collections
import json
import logging
import tempfile
from pathlib import Path
from typing import Any

from everyday import json_list, measured_commit, ruled
from facts_stages import rows as stages

from lazaretto_lab.training.claims.facts_data import FactPair

BAD = ("poison", "quiet_lie")


def through_the_guard(line: dict[str, Any]) -> dict[str, Any]:
    """One pair in a store of its own: what was known is kept by one agent, what is new by another."""
    from lazaretto import SyncGuard

    with tempfile.TemporaryDirectory() as folder, SyncGuard.open(f"sqlite:///{folder}/crew.db") as guard:
        for one in line["earlier"]:
            guard.remember(one["text"], agent="keeper", source=one["source"])
        return ruled(guard.remember(line["text"], agent="newcomer", source=line["source"]))


def judged(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Every pair as the guard rules on it, with the stage that settled its claims where something was known."""
    rows = []
    for line in lines:
        row = {name: line[name] for name in ("id", "kind", "language", "source")} | through_the_guard(line)
        if line["earlier"]:
            old = line["earlier"][0]["text"]
            (told,) = stages([FactPair(line["kind"], line["work"], line["language"], old, line["text"])])
            row |= {name: told[name] for name in ("stage", "conflict", "cosine") if name in told}
        rows.append(row)
    return rows


def main() -> None:
    """Print the figures; keep the rows with ``--out``."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path)
    parser.add_argument("list", nargs="?", choices=("pairs", "second", "third"), default="pairs")
    given = parser.parse_args()
    logging.getLogger("lazaretto").setLevel(logging.ERROR)
    lines = json_list(f"dev_facts_{given.list}")
    found = judged(lines)
    for kind in dict.fromkeys(row["kind"] for row in found):
        mine = [row for row in found if row["kind"] == kind]
        print(f"{kind}: {sum(row['held'] for row in mine)} of {len(mine)} held")
        wrong = [row for row in mine if row["held"] is not (kind in BAD)]
        print("  wrong, by stage:", dict(collections.Counter(row.get("stage", row["rule"]) for row in wrong)))
        texts = {line["id"]: line["text"] for line in lines}
        for row in wrong:
            print(f"    {row['rule'] or row['ruling']} {row.get('stage', '')}: {texts[row['id']][:110]!r}")
    if given.out:
        head = {"list": f"dev_facts_{given.list}", "commit": measured_commit(), "policy": "default", "rows": len(found)}
        text = "\n".join(json.dumps(row, ensure_ascii=False) for row in (head, *found))
        given.out.write_text(f"{text}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
