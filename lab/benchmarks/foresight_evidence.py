"""The evidence foresight has on each shipped attack picture and on benign ones, in spreads above the benign middle.

    python lab/benchmarks/foresight_evidence.py

Calibrates as the experiments do (kept in the cache folder). A benign picture is rehearsed in an album of ten, a virus
in an album of its own. Rehearsals are drawn with ``--seed``, so sums differ a little from seed to seed. Last comes the
share of what people say about it in a closer look that another of them repeats, once for a benign picture; for a virus
in how many of ``--looks`` closer looks this is at least half, as the gate counts it, of the first eight people alone,
by their descriptions alone, and word for word. The gate looks only at what is in doubt, here it looks at everything.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from lazaretto.agents.album import Album, AlbumItem
from lazaretto.agents.model import AgentModel
from lazaretto.agents.prompts import persona_pool
from lazaretto.agents.turn import AgentState, History
from lazaretto.gates.foresight.adapter import AgentModelBackend
from lazaretto.gates.foresight.gauge import repeated
from lazaretto.gates.foresight.monitor import CLOSER, MOST, PAIRED, MemoryMonitor
from lazaretto.models.caches import EmbeddingCache
from lazaretto_lab.harness.experiment import load_experiment
from lazaretto_lab.studies.foresight.calibration import Calibrator, MonitorOptions, monitor_defence
from lazaretto_lab.studies.outbreak.attack import viruses_for
from lazaretto_lab.studies.outbreak.components import pool_for
from lazaretto_lab.studies.outbreak.models import models_for, remembering
from lazaretto_lab.studies.outbreak.settings import OutbreakSettings, read_settings

BUDGET = 100.0
"""Model calls per agent and round: enough to rehearse everything."""


def shipped() -> dict[str, AlbumItem]:
    """The attack pictures of the experiments, under the titles they have there."""
    found: dict[str, AlbumItem] = {}
    for experiment in ("foresight/table1", "foresight/adaptive"):
        for row in load_experiment(experiment).expanded_rows():
            attack = row.settings.get("attack", {})
            if attack.get("picture"):
                found[attack["picture"]] = viruses_for(read_settings(row.settings))[0].album_item
    return found


def looked_at(monitor: MemoryMonitor, agents: list[AgentState], backend: AgentModelBackend, seed: int) -> None:
    """Rehearse everything these agents hold."""
    rng = random.Random(seed)
    for _ in range(20):
        asyncio.run(monitor.diagnose(agents, backend, rng))
        if all(reading.collapse is not None for reading in monitor.readings.values()):
            return


Shares = tuple[float, float, float, float]
"""What people repeat: as the gate counts it; the first eight, by descriptions alone, and word for word."""


def closer(
    monitor: MemoryMonitor, agents: Sequence[AgentState], backend: AgentModelBackend, seed: int
) -> dict[str, Shares]:
    """What people repeat about each memory that these agents hold."""
    found: dict[str, Shares] = {}
    rng = random.Random(seed)
    for agent in agents:
        held = [(album_item, agent) for album_item in agent.album]
        for (album_item, _), said in zip(held, asyncio.run(monitor.look_closer(held, backend, rng)), strict=True):
            eight, count = said[: CLOSER * PAIRED], monitor.repeated_share
            words = [one.text for one in eight]
            described = repeated(words, [one.speaker for one in eight], album_item.title)
            found[album_item.key] = (count(album_item, said), count(album_item, eight), described, repeated(words))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--benign", type=int, default=600, help="how many benign pictures are rehearsed")
    parser.add_argument("--looks", type=int, default=20, help="how many closer looks are taken at each virus")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    settings = OutbreakSettings(infected=0)
    chat, embedder = models_for(settings.models, notes=False)
    benign, viruses, people = pool_for(settings)[: options.benign], shipped(), persona_pool(60, 5)
    with tempfile.TemporaryDirectory() as folder:
        calibrator = Calibrator(chat, embedder, settings)
        monitor = monitor_defence(MonitorOptions(budget=BUDGET, curiosity=BUDGET), calibrator).monitor
        agent_model = AgentModel(remembering(chat, Path(folder)), EmbeddingCache(embedder))
        albums = [tuple(benign[i : i + 10]) for i in range(0, len(benign), 10)]
        albums += [(virus,) for virus in viruses.values()]
        agents = [AgentState(str(i), people[i % 60], Album(10, held), History()) for i, held in enumerate(albums)]
        backend = AgentModelBackend(agent_model)
        looked_at(monitor, agents, backend, options.seed)
        shares = closer(monitor, agents[: -len(viruses)], backend, options.seed)
        draws = range(options.seed, options.seed + options.looks)
        looks = [closer(monitor, agents[-len(viruses) :], backend, draw) for draw in draws]
    scales = monitor.scales
    print(f"limit {scales.infected:.2f}; strongest of {len(benign)} benign", end=" ")
    print(f"{max(monitor.score(k.key) for k in benign):.2f}")
    cosines = [1 - r.misnamed for k in benign if (r := monitor.readings[k.key]).misnamed is not None]
    lowest, middle, highest = np.quantile(cosines, (0, 0.5, 1))
    print(f"cosine of picture and title, benign: {lowest:.2f} to {highest:.2f}, middle {middle:.2f}")
    print(
        f"in doubt, benign: {sum(scales.in_doubt(monitor.readings[k.key]) for k in benign)}; repeated",
        end=" ",
    )
    highest_share = Counter(shares[k.key][0] for k in benign)
    print(", ".join(f"{share:.2f}: {count}" for share, count in sorted(highest_share.items())))
    for k in benign:
        if scales.in_doubt(r := monitor.readings[k.key]):
            print(f"  in doubt: {k.title}; pull {r.pull:.2f}, repeated {shares[k.key][0]:.2f}; {r.utterances[0]!r}")
    print(
        "| picture | pull | alike | beside | misnamed | sum | cosine to title | repeated | by eight | described "
        "| word for word |"
    )
    print("|---|" + "---:|" * 10)
    for name, virus in viruses.items():
        r = monitor.readings[virus.key]
        parts = (scales.pull(r.pull), scales.collapse(r.collapse), scales.beside(r.beside), scales.misnamed(r.misnamed))
        cosine = "" if r.misnamed is None else f"{1 - r.misnamed:.2f}"
        print(
            f"| {Path(name).stem} | "
            + " | ".join(f"{p:.1f}" for p in (*parts, monitor.score(virus.key)))
            + f" | {cosine} | "
            + " | ".join(f"{sum(look[virus.key][i] >= MOST for look in looks)} of {len(looks)}" for i in range(4))
            + " |"
        )


if __name__ == "__main__":
    main()
