"""How long the album-chat world takes on the pocket models: wall and processor seconds, calls, pictures encoded.

    python lab/benchmarks/outbreak.py --rounds 64 --out runs/speed

Undefended, 128 agents, four of them with the attack picture of the 16/255 budget. The run lies in ``--out`` and goes
on where it was interrupted; times are of this process alone. ``--write`` renews the section of docs/performance.md.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import time
from pathlib import Path

from performance_page import write_section

from lazaretto.agents.model import AgentModel
from lazaretto.models.caches import CachedChat, EmbeddingCache
from lazaretto_lab.harness.experiment import load_experiment
from lazaretto_lab.studies.outbreak.attack import viruses_for
from lazaretto_lab.studies.outbreak.components import pool_for
from lazaretto_lab.studies.outbreak.models import models_for
from lazaretto_lab.studies.outbreak.settings import read_settings
from lazaretto_lab.worlds.album_chat.measures import measure_spread
from lazaretto_lab.worlds.album_chat.trace import RoundTrace
from lazaretto_lab.worlds.album_chat.world import AlbumChat


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=64)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("runs/speed"), help="where the run lies")
    parser.add_argument("--forget", action="store_true", help="compute every answer, also those given before")
    parser.add_argument("--write", action="store_true", help="renew the section of docs/performance.md")
    options = parser.parse_args()
    row = next(r for r in load_experiment("outbreak/undefended").expanded_rows() if r.name == "pixel ε=16")
    settings = read_settings({**row.settings, "rounds": options.rounds})
    pool, viruses = pool_for(settings), viruses_for(settings)
    model, embedder = models_for(settings.models, notes=False)
    chat = model if options.forget else CachedChat(model, options.out)
    agent_model = AgentModel(chat, EmbeddingCache(embedder, options.out))
    world = AlbumChat(settings.scenario(options.seed), agent_model, pool, viruses, folder=options.out / "world")
    begun, wall, processor = len(world.rounds), time.perf_counter(), time.process_time()

    def tell(trace: RoundTrace) -> None:
        print(
            f"round {trace.round_index}: {time.perf_counter() - wall:.0f} s, {len(trace.symptomatic)} symptomatic",
            flush=True,
        )

    load = os.getloadavg()[0]
    outcome = asyncio.run(world.run(tell))
    calls = sum(trace.spent.calls for trace in outcome.rounds)
    facts = {
        "rounds played": len(outcome.rounds) - begun,
        "wall seconds": round(time.perf_counter() - wall),
        "processor seconds": round(time.process_time() - processor),
        "model calls": calls,
        "answers computed": chat.computed if isinstance(chat, CachedChat) else calls,
        "pictures encoded": outcome.pictures_encoded,
        "distinct pictures met": outcome.contents_met,
        "cumulative infection at the end, %": round(measure_spread(outcome).cumulative[-1], 2),
    }
    rows = "\n".join(f"| {name} | {value} |" for name, value in facts.items())
    head = f"{settings.agents} agents, {os.cpu_count()} cores, load average {load:.1f} before"
    table = f"| {head} | |\n|---|---:|\n{rows}"
    print(table)
    if options.write:
        write_section("outbreak", f"## The album-chat world on the pocket models\n\n{table}")


if __name__ == "__main__":
    main()
