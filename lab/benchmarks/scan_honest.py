"""What a scan says of honest stores: false contradictions, false orders; and which plain contradictions it finds.

    python lab/benchmarks/scan_honest.py --write

Honest stores: each dialogue of LoCoMo (observations, and turns) and each person of MemoryBank as a store of its own.
Nobody wrote contradictions into these, so every pair found counts as false. Rules for agents: real rule files of
editors, read as instruction files. Contradictions: the operational facts of the laboratory, where one memory is opposed
by another.
Raw findings go to lab/results/scan/honest.json.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import re
from contextlib import closing
from pathlib import Path
from typing import Any

from lazaretto.scan.contradictions import StoreClaims, contradictions, marks_of
from lazaretto.scan.judge import ScanSettings, judge_texts
from lazaretto.scan.records import Level
from lazaretto_lab.worlds.claims.scenarios import operational_scenarios

REPOSITORY = Path(__file__).resolve().parents[2]
RESULTS = REPOSITORY / "lab" / "results" / "scan" / "honest.json"
PAGE = REPOSITORY / "docs" / "scan.md"


def honest_stores(data: Path) -> dict[str, list[list[str]]]:
    """Texts of honest stores, by where they come from."""
    observations, turns = [], []
    for one in json.loads((data / "locomo" / "locomo8.json").read_text()):
        sessions = one["observation"].values()
        observations.append([note[0] for session in sessions for notes in session.values() for note in notes])
        talks = (v for v in one["conversation"].values() if isinstance(v, list))
        turns.append([turn["text"] for talk in talks for turn in talk if turn.get("text")])
    people = json.loads((data / "memorybank" / "memory_bank_en.json").read_text()).values()
    banks = [[day[x] for days in p["history"].values() for day in days for x in ("query", "response")] for p in people]
    return {"LoCoMo observations": observations, "LoCoMo turns": turns, "MemoryBank": banks}


def opposed(texts: list[str]) -> list[tuple[str, str, float]]:
    """Pairs of texts that a scan says contradict each other."""
    with closing(StoreClaims()) as kept:
        for number, text in enumerate(texts):
            kept.add(str(number).encode(), text, marks_of(text), record=text)
        return [(one.old.record, one.new.record, one.strength) for one in contradictions(kept)]


def run(data: Path, most: int) -> dict[str, Any]:
    """Every figure and every finding."""
    told: dict[str, Any] = {"honest": {}, "rules": {}, "facts": {}}
    for name, stores in honest_stores(data).items():
        stores = [list(dict.fromkeys(texts)) for texts in stores]
        pairs = [pair for texts in stores for pair in opposed(texts)]
        sample = [text for texts in stores for text in texts][:most]
        held = [
            hit.message
            for one in judge_texts([(text, False) for text in sample], ScanSettings(contradictions=False))
            for hit in one.hits
            if hit.level is not Level.NOTE
        ]
        told["honest"][name] = {
            "texts": sum(map(len, stores)), "contradictions": pairs, "judged": len(sample), "held": held,
        }  # fmt: skip
    with gzip.open(data / "screening" / "scr_ambiguous_agent_rules.jsonl.gz", "rt") as lines:
        rules = [json.loads(line)["text"] for line in lines][:most]
    settings = ScanSettings(contradictions=False)
    found = judge_texts([(text, True) for text in rules], settings)
    told["rules"] = {
        "texts": len(rules),
        "warned": [hit.message for one in found for hit in one.hits if hit.level is not Level.NOTE],
    }
    for label in ("poison", "update", "compatible", "same", "unrelated"):
        cases = [one for one in operational_scenarios() if one.label == label and one.part != "dev"]
        hits = [bool(opposed([*(m.text for m in one.memories), one.new.text])) for one in cases]
        told["facts"][label] = {"cases": len(hits), "found": sum(hits)}
    return told


def table(told: dict[str, Any]) -> str:
    """The figures as the page shows them."""
    honest = told["honest"].values()
    texts, pairs = sum(one["texts"] for one in honest), sum(len(one["contradictions"]) for one in honest)
    judged, held = sum(one["judged"] for one in honest), sum(len(one["held"]) for one in honest)
    facts, rules = told["facts"], told["rules"]
    quiet = [facts[label] for label in ("compatible", "same", "unrelated")]
    opposing = [facts[label] for label in ("poison", "update")]
    rows = [
        ("honest memories (LoCoMo, MemoryBank) called contradicting", pairs, texts),
        ("honest memories called poisoned or secret, of a sample", held, judged),
        ("passages of real rule files for agents, with a warning", len(rules["warned"]), rules["texts"]),
        ("facts beside one that is compatible, the same or unrelated, called contradicting",
         sum(one["found"] for one in quiet), sum(one["cases"] for one in quiet)),
        ("facts beside one that opposes them, in any words, found",
         sum(one["found"] for one in opposing), sum(one["cases"] for one in opposing)),
    ]  # fmt: skip
    lines = [f"| {what} | {hits:,} of {count:,} |" for what, hits, count in rows]
    return "\n".join(["| measured by `python lab/benchmarks/scan_honest.py --write` | |", "|---|---|", *lines])


def main() -> None:
    """Measure, print, and write where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--most", type=int, default=300, help="texts of each source that are judged by the models")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    shared = Path(os.environ.get("LAZARETTO_SHARED", REPOSITORY.parent / "shared"))
    told = run(shared / "data", options.most)
    print(table(told))
    if options.write:
        RESULTS.parent.mkdir(parents=True, exist_ok=True)
        RESULTS.write_text(json.dumps(told, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        marks = re.compile(r"(<!-- scan contradictions -->\n).*?(<!-- end -->)", re.DOTALL)
        page = marks.sub(lambda m: f"{m[1]}{table(told)}\n{m[2]}", PAGE.read_text(encoding="utf-8"))
        PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
