"""What does a write cost an agent that has read N items which are held by now? Processor time and statements.

The items were read while they were in use and held afterwards, each with a ruling that quotes a stretch of it. The
agent then writes honest notes, each of which is compared with all of them. Measured are the first write of a guard
that was just opened, which has to read them, and those after it; and notes that repeat one of them.

    python lab/benchmarks/held_reads.py                                 # N = 10, 100, 1,000 on SQLite
    python lab/benchmarks/held_reads.py --label after --write

Raw results go to lab/results/held_reads, one file for each label.
"""

from __future__ import annotations

import argparse
import random
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import orjson
import sqlalchemy as sa

from lazaretto import Policy, SyncGuard
from lazaretto.ledger import Ledger, seen_draft
from lazaretto.types import Channel, Draft, EventKind, Observation, SourceClass

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "lab" / "results" / "held_reads"
WRITES = 40
WORDS = ("tea", "rope", "salt", "lamp", "crate", "sail", "timber", "copper", "barrel", "anchor", "canvas", "pepper")


def held_text(number: int) -> str:
    """A text of some 45 words, no two alike."""
    rng = random.Random(number)
    return f"Pay the keeper of shed {number} to account 77{number:06d}. " + " ".join(rng.choices(WORDS, k=35))


def fill(url: str, count: int) -> None:
    """So many items that the agent ``ada`` read and that were held afterwards."""
    with Ledger.open(url) as ledger:
        for first in range(0, count, 200):
            drafts: list[Draft] = []
            for number in range(first, min(first + 200, count)):
                text = held_text(number)
                made = Observation("bea", Channel.MEMORY, text, source=SourceClass.MODEL_INFERENCE)
                span = {"kind": "span", "summary": "x", "data": {"start": 0, "end": len(text), "view": "plain"}}
                verdict = {"gate": "structure", "rule": "form", "ruling": "quarantine", "evidence": [span]}
                body = {"ruling": "quarantine", "rule": "structure:form", "risk": 0.9, "verdicts": [verdict]}
                read = Draft(EventKind.RETRIEVED, made.id, "ada")
                drafts += [seen_draft(made), read, Draft(EventKind.RULED, made.id, body=body)]
            ledger.append(drafts)


def measure(count: int) -> dict[str, Any]:
    """Writes of an agent that has read ``count`` held items."""
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/store.db"
        fill(url, count)
        statements = 0

        def note(*_: object) -> None:
            nonlocal statements
            statements += 1

        with SyncGuard.open(url, Policy.minimal()) as guard:
            guard.remember("The watch begins.", agent="cid")  # what loads at the first write is not measured
            sa.event.listen(sa.Engine, "before_cursor_execute", note)

            def write(text: str, *, passes: bool) -> tuple[float, int]:
                began, before = time.process_time(), statements
                decision = guard.remember(text, agent="ada")
                took = (time.process_time() - began) * 1000
                assert decision.allowed is passes, decision
                return took, statements - before

            first = write("Ship 0 has left the eastern quay.", passes=True)
            honest = [write(f"Ship {n + 1} was painted green at noon.", passes=True) for n in range(WRITES)]
            repeats = [write(f"Note {n}: the number is 77{n % count:06d} now.", passes=False) for n in range(10)]
            sa.event.remove(sa.Engine, "before_cursor_execute", note)
    return {
        "held": count,
        "first_ms": round(first[0], 1),
        "first_statements": first[1],
        "write_ms": round(statistics.median(took for took, _ in honest), 2),
        "write_statements": statistics.median(number for _, number in honest),
        "repeating_ms": round(statistics.median(took for took, _ in repeats), 2),
        "repeating_statements": statistics.median(number for _, number in repeats),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="+", type=int, default=[10, 100, 1_000])
    parser.add_argument("--label", default="now")
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    rows = []
    for size in given.sizes:
        rows.append(measure(size))
        print(rows[-1], flush=True)
    if given.write:
        RESULTS.mkdir(parents=True, exist_ok=True)
        told = {"label": given.label, "store": "sqlite", "writes": WRITES, "rows": rows}
        (RESULTS / f"{given.label}.json").write_bytes(orjson.dumps(told, option=orjson.OPT_INDENT_2) + b"\n")


if __name__ == "__main__":
    main()
