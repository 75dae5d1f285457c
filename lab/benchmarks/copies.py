"""What a word costs whose text was held many times: giving it, taking it back, and giving the opposite one.

Copies of one text are held in a fresh SQLite store; then one of them is called benign, that is taken back, it is called
harmful and benign again. Seconds of processor for each call, and how many events the store holds in the end. What is
quarantined stands on the block list as well, which a benign word clears item by item.

    python lab/benchmarks/copies.py --label after --write

Run it with another version's ``src`` on PYTHONPATH for the figures before. Raw results go to lab/results/copies.
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import orjson

from lazaretto import Guard, Ruling
from lazaretto.testing import ScriptedGate

RESULTS = Path(__file__).resolve().parents[1] / "results" / "copies"
TEXT = "We have moved! Our new address is 12 Harbour Road from the first of May on."
POLICY = {"preset": "minimal", "channels": {"memory": {"stages": [["blocklist"], ["orders"]]}}}


async def measured(copies: int, ruling: Ruling) -> dict[str, Any]:
    """Seconds of processor of each call with so many copies beside the item, all ruled so."""
    gate = ScriptedGate(lambda _: ruling, "orders")
    with tempfile.TemporaryDirectory() as folder:
        guard = Guard.open(f"sqlite:///{folder}/l.db", POLICY, gates={"orders": gate})
        items = [(await guard.remember(TEXT, agent="ada")).item for _ in range(copies + 1)]
        row: dict[str, Any] = {"ruling": ruling.label, "copies": copies}

        async def timed(name: str, call: Any) -> Any:
            began = time.process_time()
            done = await call
            row[name] = round(time.process_time() - began, 3)
            return done

        said = await timed("benign", guard.label(items[0], "benign", by="ana"))
        row["reached"] = len(said.body.get("copies", ()))
        await timed("taken_back", guard.unlabel(said.seq, by="ana"))
        await timed("harmful", guard.label(items[0], "harmful", by="ana"))
        said = await timed("benign_after_harmful", guard.label(items[0], "benign", by="ana"))
        await timed("taken_back_again", guard.unlabel(said.seq, by="ana"))
        row["events"] = guard.ledger.head().seq
        guard.close()
    return row


def main() -> None:
    """Measure and print; ``--write`` keeps the rows."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--label", required=True)
    asked.add_argument("--copies", type=int, nargs="+", default=[20, 59, 99])
    asked.add_argument("--ruling", choices=("review", "quarantine"), default="quarantine")
    asked.add_argument("--commit", default="", help="of the code that is measured, where it is not that of this folder")
    asked.add_argument("--write", action="store_true")
    options = asked.parse_args()
    head = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False).stdout.strip()
    commit = options.commit or head
    ruling = Ruling.from_label(options.ruling)
    asyncio.run(measured(2, ruling))  # what is loaded once
    made = [asyncio.run(measured(count, ruling)) for count in options.copies]
    rows = [{"label": options.label, "commit": commit, **row} for row in made]
    lines = b"".join(orjson.dumps(row) + b"\n" for row in rows)
    print(lines.decode(), end="")
    if options.write:
        RESULTS.mkdir(parents=True, exist_ok=True)
        with (RESULTS / "copies.jsonl").open("ab") as file:
            file.write(lines)


if __name__ == "__main__":
    main()
