"""AIR-Bench's development half through the content gate and, where it leaves a text gray, the second reader.

    python lab/benchmarks/air_bench_gate.py                      # prints F1 for text, image and pair
    python lab/benchmarks/air_bench_gate.py --write LABEL        # also writes it to lab/results/content
    python lab/benchmarks/air_bench_gate.py --limit 200          # a sample of each kind, for a look

The shipped weights were trained on these items, so F1 is flattered; ``air_bench_deep.py`` has it by models that had
not seen them. ``LAZARETTO_DEEP`` names the folder of the larger models. Pictures are given as their descriptions, which
the second reader reads too; in the product it reads no pictures. An item counts as called harmful when it would be held
or blocked (``called``), or when it is not cleared (``called or gray``: what a person would look at with the preset
``strict``).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from pathlib import Path
from typing import Any

from lazaretto.cases.library import starter_cases
from lazaretto.cases.records import Label
from lazaretto.gates.content.debate import hold_debate
from lazaretto.gates.content.gate import content_settings, make_panel, ready_library, verdict_of
from lazaretto.gates.second_reader import SecondReader, SecondReaderSettings, open_questions
from lazaretto.policy import Limits, Policy
from lazaretto.types import Channel, Observation, Ruling
from lazaretto_lab.studies.debate.air_bench import figures, items_of

RESULTS = Path(__file__).resolve().parents[1] / "results" / "content"
KINDS = ("text", "image", "pair")


def judge(kind: str, limit: int, preset: Policy) -> dict[str, Any]:
    """All items of a kind."""
    settings = content_settings(preset.gates.get("content", {}))
    panel, second = make_panel(settings, ready_library(starter_cases()), Limits()), SecondReader(SecondReaderSettings())
    truth, rows = list[bool](), list[dict[str, Any]]()
    started = time.process_time()
    for item in items_of(kind, "dev", limit, 0):
        content = item.content
        first = verdict_of(asyncio.run(hold_debate(panel, content, settings.debate)), settings)
        ruling, rule, reader = first.ruling, first.rule, ""
        tasks = open_questions([first])
        if tasks:
            words = " ".join(filter(None, (content.text, content.description)))
            again = second._read(Observation("air", Channel.DOCUMENT, words), tasks)
            reader = str(again.evidence[0].data.get("reader", "")) if again.evidence else ""
            if again.ruling > Ruling.ALLOW:
                ruling, rule = again.ruling, again.rule
            elif again.rule == "settled":
                ruling, rule = Ruling.ALLOW, again.rule
        truth.append(item.truth is Label.UNSAFE)
        rows.append({"first": first.ruling.label, "ruling": ruling.label, "rule": rule, "reader": reader})
    rank = [Ruling.from_label(row["ruling"]) for row in rows]
    alone = [Ruling.from_label(row["first"]) for row in rows]
    none = [False] * len(rows)
    return {
        "items": len(rows),
        "harmful": sum(truth),
        "gate alone": figures(truth, [one >= Ruling.REWRITE for one in alone], none),
        "called": figures(truth, [one >= Ruling.REWRITE for one in rank], none),
        "called or gray": figures(truth, [one > Ruling.ALLOW for one in rank], none),
        "asked again": sum(bool(row["reader"]) for row in rows),
        "readers": sorted({row["reader"] for row in rows} - {""}),
        "processor_ms": round((time.process_time() - started) * 1000 / max(1, len(rows)), 1),
        "rows": [{"truth": t, **row} for t, row in zip(truth, rows, strict=True)],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--limit", type=int, default=0)
    parser.add_argument("--kinds", nargs="+", default=list(KINDS), choices=KINDS)
    parser.add_argument("--write", metavar="LABEL")
    asked = parser.parse_args()
    result = {}
    print("| kind | items | F1 gate alone | F1 called | recall | false alarms | F1 called or gray | asked again |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|")
    for kind in asked.kinds:
        found = result[kind] = judge(kind, asked.limit, Policy.recommended())
        called = found["called"]
        cells = (
            found["items"],
            f"{found['gate alone']['f1']:.3f}",
            f"{called['f1']:.3f}",
            f"{called['recall']:.3f}",
            f"{called['fpr']:.3f}",
            f"{found['called or gray']['f1']:.3f}",
            f"{found['asked again']} ({', '.join(found['readers'])})",
        )
        print(f"| {kind} |", " | ".join(map(str, cells)), "|", flush=True)
    if asked.write:
        RESULTS.mkdir(parents=True, exist_ok=True)
        (RESULTS / f"air_bench_gate_{asked.write}.json").write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
