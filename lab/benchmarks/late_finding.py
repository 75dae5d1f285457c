"""One honest note is found late: what `lazaretto recheck` and `lazaretto serve` do to a store by default, line by line.

A crew of ten writes honest notes; all of them had read the first one, five are made from it by name, six name the same
person. Then a person calls a web page harmful that says the same as the first note. The note is held late, because it
equals the page. Until now everything that came from it was cut loose or rewritten unasked; `--automatic apply` still
does that.

    python lab/benchmarks/late_finding.py --write                 # 500 notes, both databases, minimal gates
    python lab/benchmarks/late_finding.py --notes 229 --preset recommended --stores sqlite --write

What was done, with every line that was said about it, goes to lab/results/late_finding.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from lazaretto import SyncGuard

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "lab" / "results" / "late_finding"
ORIGIN = "For trouble with the north crane at night call Halvorsen."
AGENTS = tuple(f"agent{number}" for number in range(10))
PLACES = ("pier one", "pier two", "the mill", "the cold store", "the customs shed", "the ferry", "the canteen")
WORK = ("was swept", "has a new lamp", "is out of rope", "closes at six", "wants paint", "was inspected", "is free")
SAY = "is held", "is released", "is rewritten", "is cut loose", "proposed as", "is as it was"


@contextlib.contextmanager
def stores(which: str) -> Iterator[str]:
    """The URL of an empty store."""
    if which == "sqlite":
        with tempfile.TemporaryDirectory() as folder:
            yield f"sqlite:///{folder}/crew.db"
        return
    sys.path.insert(0, str(ROOT))
    from conftest import PostgresServer

    server = PostgresServer()
    try:
        yield server.url()
    finally:
        server.close()


def tell(guard: SyncGuard, notes: int) -> str:
    """The crew's day; returns the id of the note that is found late."""
    origin = guard.remember(ORIGIN, agent=AGENTS[0], source="agent_message", parents=[]).item
    for agent in AGENTS:
        guard.recall(agent=agent, items=[origin])
    for number in range(notes - 1):
        place, work = PLACES[number % len(PLACES)], WORK[number // len(PLACES) % len(WORK)]
        text = f"Day {number + 1}: {place} {work}."
        if number % 83 == 1:
            text = f"Day {number + 1}: Halvorsen says that {place} {work}."
        named = [origin] if number % 97 == 2 else None
        guard.remember(text, agent=AGENTS[number % len(AGENTS)], source="agent_message", parents=named)
    return origin


def find_late(guard: SyncGuard) -> None:
    """A person calls a page harmful that says what the first note says."""
    page = guard.check(ORIGIN, agent="reader", channel="document", source="untrusted_document")
    guard.label(page.item, "harmful", by="carol")


def picture(guard: SyncGuard) -> dict[str, tuple[str, bool, str | None, tuple[str, ...]]]:
    """Of every memory: its text, whether it may be recalled, what replaced it, what it was made from."""
    memories = guard.ledger.items(channel="memory", any_state=True, limit=None)  # type: ignore[arg-type]
    states = guard.ledger.states([one.id for one in memories])
    made = {one.id: tuple(sorted(guard.graph.came_from(one.id))) for one in memories}
    return {o.id: (o.text, states[o.id].visible, states[o.id].superseded_by, made[o.id]) for o in memories}


def compared(before: dict[str, Any], after: dict[str, Any], origin: str) -> dict[str, Any]:
    """What became of the memories."""
    usable = [item for item, row in before.items() if row[1]]
    held = [item for item in usable if not after[item][1] and after[item][2] is None]
    rewritten = [item for item in usable if after[item][2] is not None]
    cut = [item for item in usable if after[item][3] != before[item][3]]
    return {
        "notes": len(before), "usable_before": len(usable), "held": len(held), "held_of_which_the_note": origin in held,
        "rewritten": len(rewritten), "cut_loose": len(cut), "new_items": len(set(after) - set(before)),
        "texts_changed": sum(after[item][0] != before[item][0] for item in before),
    }  # fmt: skip


def run_recheck(environment: dict[str, str]) -> list[str]:
    """`lazaretto recheck` until nothing is left; what it says."""
    said: list[str] = []
    while True:
        command = [sys.executable, "-m", "lazaretto", "recheck", "--limit", "1000"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        said += done.stdout.splitlines()
        if "left 0" in done.stdout:
            return said


def decided(environment: dict[str, str]) -> bool:
    """Whether the server has come to proposing something, or must not."""
    with SyncGuard.open(environment["LAZARETTO_STORE"], {"preset": "minimal"}) as guard:
        return (
            bool(guard.repairs.proposals())
            or 'automatic = "ask"' not in Path(environment["LAZARETTO_POLICY"]).read_text()
        )


def run_serve(environment: dict[str, str], store: str, seconds: float) -> list[str]:
    """`lazaretto serve` until it has looked at everything; what it says on standard error."""
    with tempfile.TemporaryFile("w+") as errors:
        command = [sys.executable, "-m", "lazaretto", "serve", "--port", "0"]
        server = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=errors)
        try:
            deadline, quiet, size = time.monotonic() + seconds, 0, -1
            while (
                time.monotonic() < deadline and quiet < 4
            ):  # something was found, and four times nothing new: it is done
                time.sleep(10)
                now = os.fstat(errors.fileno()).st_size
                quiet, size = (quiet + 1, now) if now == size and now and decided(environment) else (0, now)
        finally:
            server.terminate()
            server.wait(60)
        errors.seek(0)
        return [line.rstrip("\n") for line in errors]


def measure(which: str, how: str, options: argparse.Namespace) -> dict[str, Any]:
    """One store, one way of looking again."""
    with stores(which) as url, tempfile.TemporaryDirectory() as folder:
        policy = Path(folder) / "policy.toml"
        policy.write_text(f'preset = "{options.preset}"\n[repair]\nautomatic = "{options.automatic}"\n')
        with SyncGuard.open(url, policy) as guard:
            origin = tell(guard, options.notes)
            find_late(guard)
            before = picture(guard)
        environment = {**os.environ, "LAZARETTO_STORE": url, "LAZARETTO_POLICY": str(policy), "COLUMNS": "300"}
        said = run_recheck(environment) if how == "recheck" else run_serve(environment, url, options.seconds)
        with SyncGuard.open(url, policy) as guard:
            after, proposed = picture(guard), guard.repairs.proposals()
            told = compared(before, after, origin)
            told["proposed"] = [one.counts for one in proposed]
            guard.label(origin, "benign", by="dana")
            back = compared(before, picture(guard), origin)
            told["verified"] = guard.ledger.verify().ok
        told["after_calling_it_fine"] = {name: back[name] for name in ("held", "rewritten", "cut_loose")}
        shown = [line for line in said if any(words in line for words in SAY) or line.startswith(("looked", "held"))]
        return {"store": which, "way": how, **told, "lines": len(shown), "said": shown}


def main() -> None:
    """Every store and way that was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--notes", type=int, default=500)
    parser.add_argument("--preset", default="minimal", choices=["minimal", "recommended"])
    parser.add_argument("--automatic", default="ask", choices=["hold", "ask", "apply"])
    parser.add_argument("--stores", default="sqlite,postgresql")
    parser.add_argument("--ways", default="recheck,serve")
    parser.add_argument("--seconds", type=float, default=300.0, help="Longest time that a server is given.")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    rows = []
    for which in options.stores.split(","):
        for how in options.ways.split(","):
            row = measure(which, how, options)
            rows.append(row)
            print(f"--- {which}, {how}:", {name: value for name, value in row.items() if name != "said"})
            for line in row["said"]:
                print(line)
    if options.write:
        RESULTS.mkdir(parents=True, exist_ok=True)
        file = RESULTS / f"{options.notes}_{options.preset}_{options.automatic}.json"
        told = {"notes": options.notes, "preset": options.preset, "automatic": options.automatic, "rows": rows}
        file.write_bytes(orjson.dumps(told, option=orjson.OPT_INDENT_2))
        print(f"wrote {file.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
