"""A mixed load with faults: workers are killed with SIGKILL, PostgreSQL as by a power cut. Nothing may be lost.

Several processes use one store at once: they write, read, exchange, label and repair. Each notes what was acknowledged
to it in a file of its own (fsync). Half of them live from the first minute to the last; of the others one is killed
and replaced every few seconds, and now and then the database server. At the end everything acknowledged must be in the
ledger, nothing may be there twice, the ledger must verify, no worker may have stood still for a minute, and none of
the lasting ones may have ended. The memory of each worker is noted with its age.

    python lab/benchmarks/mixed_load.py --write           # 10 minutes on each store
    python lab/benchmarks/mixed_load.py --stores postgresql --workers 2 4 --write
    python lab/benchmarks/mixed_load.py --short           # 40 seconds, SQLite

Raw results go to lab/results/mixed_load.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import orjson
from repairs_under_load import ROOT, stores

from lazaretto import LazarettoError, Policy, RepairRefused, StoreError, SyncGuard
from lazaretto.ledger import Ledger

RESULTS = ROOT / "lab" / "results" / "mixed_load"
STILL_S = 60.0
"""A worker that has not finished a call for so long hangs."""
_MINE = 500
"""Memories of its own that a worker goes back to."""


def work(url: str, notes: Path, seed: int) -> None:
    """One worker, until it is killed: random calls; what was acknowledged is written down, and that it lives."""
    rng, number = random.Random(seed), 0
    with SyncGuard.open(url, Policy.minimal()) as guard, notes.open("a", encoding="utf-8") as acknowledged:
        mine: list[str] = []

        def note(**facts: Any) -> None:
            acknowledged.write(json.dumps(facts) + "\n")
            acknowledged.flush()
            os.fsync(acknowledged.fileno())

        while True:
            number += 1
            text, choice = f"Worker {seed} saw ship {number} at berth {rng.randrange(99)}.", rng.random()
            try:
                if choice < 0.5 or len(mine) < 5:
                    parents = rng.sample(mine, 1) if mine and rng.random() < 0.4 else None
                    mine = [*mine[-_MINE:], guard.remember(text, agent=f"w{seed}", parents=parents).item]
                    note(wrote=mine[-1], text=text)
                elif choice < 0.7:
                    item = guard.exchange(text, sender=f"w{seed}", receiver="harbour").item
                    note(wrote=item, text=text)
                elif choice < 0.85:
                    guard.recall("ship at the berth", agent=f"w{seed}", limit=5)
                elif choice < 0.95:
                    chosen = mine.pop(rng.randrange(len(mine)))
                    receipt = guard.repairs.apply(guard.repairs.plan(chosen, "isolate", reason="mixed load"))
                    note(repaired=receipt.id)
                else:
                    guard.label(mine.pop(), "harmful", by="dana")
            except RepairRefused:
                pass  # somebody else changed it first
            except StoreError as error:
                note(away=type(error).__name__)
                time.sleep(0.2)
            notes.with_suffix(".alive").touch()


def start(url: str, folder: Path, seed: int) -> tuple[subprocess.Popen[bytes], Path]:
    """A worker with a file of its own."""
    notes = folder / f"worker{seed}.jsonl"
    command = [sys.executable, __file__, "--worker", url, str(notes), str(seed)]
    notes.with_suffix(".alive").touch()
    with (folder / "stderr.txt").open("ab") as errors:
        return subprocess.Popen(command, stderr=errors), notes


def run(which: str, seconds: float, workers: int) -> dict[str, Any]:
    """The load with its faults, and what is left of it."""
    rng, faults, hung, lasting = random.Random(17), Counter[str](), 0, workers // 2
    with tempfile.TemporaryDirectory() as name, stores(which) as (url, server):
        folder = Path(name)
        SyncGuard.open(url, Policy.minimal()).close()
        crew = [start(url, folder, seed) for seed in range(workers)]
        seed, ends = workers, time.monotonic() + seconds
        begun: dict[int, float] = {}
        memory: list[tuple[float, float]] = []
        lived: dict[int, list[tuple[float, float]]] = {number: [] for number in range(lasting)}
        restart_at = time.monotonic() + min(30.0, seconds / 3)
        while time.monotonic() < ends:
            time.sleep(rng.uniform(2.0, 12.0))
            for number, points in lived.items():
                points.append((seconds - (ends - time.monotonic()), _rss(crew[number][0].pid)))
            victim = rng.randrange(lasting, workers)
            process, notes = crew[victim]
            if process.poll() is not None:
                faults["ended by itself"] += 1
            elif not notes.exists() or not notes.stat().st_size:
                continue  # it is still starting
            process.send_signal(signal.SIGKILL)
            process.wait()
            faults["workers killed"] += 1
            crew[victim] = start(url, folder, seed)
            seed += 1
            memory += [
                (time.monotonic() - begun[one.pid], _rss(one.pid)) for one, _ in crew[lasting:] if one.pid in begun
            ]
            begun |= {one.pid: time.monotonic() for one, _ in crew if one.pid not in begun}
            hung += sum(time.time() - notes.with_suffix(".alive").stat().st_mtime > STILL_S for _, notes in crew)
            if server is not None and time.monotonic() > restart_at:
                server.kill()
                server.start()
                faults["server killed"] += 1
                restart_at = time.monotonic() + 30.0
        ended = sum(process.poll() is not None for process, _ in crew[:lasting])
        calls = [sum(1 for _ in notes.open()) for _, notes in crew[:lasting]]
        for process, _ in crew:
            process.kill()
            process.wait()
        said = [json.loads(line) for file in folder.glob("*.jsonl") for line in _whole_lines(file)]
        errors = _kinds_of_errors((folder / "stderr.txt").read_text())
        with Ledger.open(url) as ledger:
            found = {item.id: item.text for item in ledger.items(limit=None, hidden=True)}
            verified = ledger.verify()
        wrote = {line["wrote"]: line["text"] for line in said if "wrote" in line}
        texts = Counter(found.values())
        return {
            "store": which, "seconds": seconds, "workers": workers, **faults, "acknowledged": len(wrote),
            "repairs": sum("repaired" in line for line in said), "in_ledger": len(found),
            "lost": sum(found.get(item) != text for item, text in wrote.items()),
            "doubled": sum(count - 1 for count in texts.values()), "hung": hung, "verified": verified.ok,
            "lasting": lasting, "lasting_ended": ended, "lasting_notes": calls,
            "lasting_rss_mb": [[(round(age), round(size, 1)) for age, size in one] for one in lived.values()],
            "rss_mb": [(round(age), round(size, 1)) for age, size in memory if size],
            "store_away": sum("away" in line for line in said), "errors": errors,
        }  # fmt: skip


def _kinds_of_errors(told: str) -> dict[str, int]:
    """Which errors workers told of, and how often; what stands around them names places of this machine."""
    return dict(
        Counter(found[1] for found in re.finditer(r"^([\w.]+(?:Error|Unavailable|Refused)): ", told, re.MULTILINE))
    )


def _rss(pid: int) -> float:
    """Memory of a process now, in megabytes; 0 where it is gone."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6
    except (OSError, IndexError):
        return 0.0


def _whole_lines(file: Path) -> list[str]:
    """What was written to the end; a worker killed in the middle of a line had not been told yet that it was safe."""
    return [line for line in file.read_text(encoding="utf-8").splitlines(keepends=True) if line.endswith("\n")]


def main() -> None:
    """Run, print, keep."""
    if sys.argv[1:2] == ["--worker"]:
        try:
            work(sys.argv[2], Path(sys.argv[3]), int(sys.argv[4]))
        except LazarettoError as error:
            raise SystemExit(f"{type(error).__name__}: {error}") from None
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--workers", nargs="+", type=int, default=[4])
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--stores", nargs="+", default=["sqlite", "postgresql"])
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    lines = []
    runs = [("sqlite", 2)] if options.short else [(w, n) for w in options.stores for n in options.workers]
    for which, workers in runs:
        lines.append(run(which, 40.0 if options.short else options.seconds, workers))
        print({name: value for name, value in lines[-1].items() if not name.endswith("rss_mb")}, flush=True)
        if not lines[-1]["acknowledged"]:
            raise SystemExit("nothing was written: the machine is too slow for this load")
    if options.write:
        RESULTS.mkdir(parents=True, exist_ok=True)
        (RESULTS / "mixed_load.jsonl").write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in lines))


if __name__ == "__main__":
    main()
