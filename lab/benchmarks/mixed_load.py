"""A mixed load with faults: workers are killed with SIGKILL, PostgreSQL as by a power cut. Nothing may be lost.

Several processes use one store at once: they write, read, exchange, label and repair. Each notes what was acknowledged
to it in a file of its own (fsync). Half of them live from the first minute to the last; of the others one is killed
and replaced every few seconds, and now and then the database server. At the end everything acknowledged must be in the
ledger, nothing may be there twice, the ledger must verify, no worker may have stood still for a minute, and none of
the lasting ones may have ended. The memory of each worker is noted with its age.

    python lab/benchmarks/mixed_load.py --write           # 10 minutes on each store
    python lab/benchmarks/mixed_load.py --stores postgresql --workers 2 4 --write
    python lab/benchmarks/mixed_load.py --short           # 40 seconds, SQLite
    python lab/benchmarks/mixed_load.py --alone 2000 --write    # what each kind of call takes as calls add up

Raw results go to lab/results/mixed_load.
"""

from __future__ import annotations

import argparse
import contextlib
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
from collections.abc import Callable
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


class Calls:
    """Random calls of one worker, one at a time; what was acknowledged goes to ``note``."""

    def __init__(self, guard: SyncGuard, seed: int, note: Callable[..., None]) -> None:
        self._guard, self._seed, self._note = guard, seed, note
        self._rng, self._number = random.Random(seed), 0
        self._mine: list[str] = []

    def one(self) -> str:
        """Make a call; returns of which kind it was."""
        self._number += 1
        rng, mine, me = self._rng, self._mine, f"w{self._seed}"
        text, choice = f"Worker {self._seed} saw ship {self._number} at berth {rng.randrange(99)}.", rng.random()
        if choice < 0.5 or len(mine) < 5:
            parents = rng.sample(mine, 1) if mine and rng.random() < 0.4 else None
            item = self._guard.remember(text, agent=me, parents=parents).item
            self._mine = [*mine[-_MINE:], item]
            self._note(wrote=item, text=text)
            return "write"
        if choice < 0.7:
            item = self._guard.exchange(text, sender=me, receiver="harbour").item
            self._note(wrote=item, text=text)
            return "exchange"
        if choice < 0.85:
            self._guard.recall("ship at the berth", agent=me, limit=5)
            return "recall"
        if choice < 0.95:
            chosen = mine.pop(rng.randrange(len(mine)))
            receipt = self._guard.repairs.apply(self._guard.repairs.plan(chosen, "isolate", reason="mixed load"))
            self._note(repaired=receipt.id)
            return "repair"
        self._guard.label(mine.pop(), "harmful", by="dana")
        return "label"


def work(url: str, notes: Path, seed: int) -> None:
    """One worker, until it is killed: random calls; what was acknowledged is written down, and that it lives."""
    with SyncGuard.open(url, Policy.minimal()) as guard, notes.open("a", encoding="utf-8") as acknowledged:

        def note(**facts: Any) -> None:
            acknowledged.write(json.dumps(facts) + "\n")
            acknowledged.flush()
            os.fsync(acknowledged.fileno())

        calls = Calls(guard, seed, note)
        while True:
            try:
                calls.one()
            except RepairRefused:
                pass  # somebody else changed it first
            except StoreError as error:
                note(away=type(error).__name__)
                time.sleep(0.2)
            notes.with_suffix(".alive").touch()


def alone(which: str, count: int) -> dict[str, Any]:
    """One worker with a store to itself: processor time of its calls by kind, for each tenth of them, and its memory;
    then the memory of a worker that opens the same store, around its first calls."""
    taken: list[dict[str, list[float]]] = [{} for _ in range(10)]
    memory = []
    with stores(which) as (url, _):
        with SyncGuard.open(url, Policy.minimal()) as guard:
            calls = Calls(guard, 0, lambda **_facts: None)
            for number in range(count):
                begun = time.process_time()
                with contextlib.suppress(RepairRefused):
                    kind = calls.one()
                    taken[number * 10 // count].setdefault(kind, []).append(1000 * (time.process_time() - begun))
                if number % (count // 10) == count // 10 - 1:
                    memory.append(round(_rss(os.getpid()), 1))
        command = [sys.executable, __file__, "--late", url]
        late = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    means = [{kind: round(sum(times) / len(times), 2) for kind, times in sorted(tenth.items())} for tenth in taken]
    return {"store": which, "calls": count, "processor_ms": means, "rss_mb": memory, "late_rss_mb": late}


def late_worker(url: str) -> dict[str, float]:
    """Memory of a worker that has just opened a store and makes its first calls."""
    before = _rss(os.getpid())
    with SyncGuard.open(url, Policy.minimal()) as guard:
        opened, calls = _rss(os.getpid()), Calls(guard, 1, lambda **_facts: None)
        for _ in range(60):
            with contextlib.suppress(RepairRefused):
                calls.one()
        found = {"before": before, "opened": opened, "after_60_calls": _rss(os.getpid())}
        return {name: round(size, 1) for name, size in found.items()}


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
            found = {item.id: item.text for item in ledger.items(limit=None, any_state=True)}
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
    return dict(Counter(found[1] for found in re.finditer(r"^((?:\w+\.)*[A-Z][a-z]\w+)(?:: |$)", told, re.MULTILINE)))


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
    if sys.argv[1:2] == ["--late"]:
        print(json.dumps(late_worker(sys.argv[2])))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--workers", nargs="+", type=int, default=[4])
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--stores", nargs="+", default=["sqlite", "postgresql"])
    parser.add_argument("--alone", type=int, metavar="CALLS", help="one worker, so many calls, nobody is killed")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    if options.alone:
        found = [alone(which, options.alone) for which in options.stores]
        print(*found, sep="\n")
        if options.write:
            _keep("alone", found)
        return
    lines = []
    runs = [("sqlite", 2)] if options.short else [(w, n) for w in options.stores for n in options.workers]
    for which, workers in runs:
        lines.append(run(which, 40.0 if options.short else options.seconds, workers))
        print({name: value for name, value in lines[-1].items() if not name.endswith("rss_mb")}, flush=True)
        if not lines[-1]["acknowledged"]:
            raise SystemExit("nothing was written: the machine is too slow for this load")
    if options.write:
        _keep("mixed_load", lines)


def _keep(name: str, lines: list[dict[str, Any]]) -> None:
    """Behind what earlier runs left: first contacts stay."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    with (RESULTS / f"{name}.jsonl").open("ab") as file:
        file.writelines(orjson.dumps(line) + b"\n" for line in lines)


if __name__ == "__main__":
    main()
