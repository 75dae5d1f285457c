"""Seeks the viruses of the bank (8 base pictures x 4 sentences x 8 budgets) and measures each on chats it never saw.

    python lab/benchmarks/virus_bank.py runs/bank --device cuda --share 0/4 &  # four processes, a quarter each
    python lab/benchmarks/virus_bank.py runs/bank --device cuda --share 1/4 & ...
    python lab/benchmarks/virus_bank.py runs/bank --index                       # bank.json from what is there

Given again, it goes on: a virus that is there is not sought again, and an interrupted search goes on where it was.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import time
from dataclasses import asdict
from pathlib import Path

from lazaretto.agents.album import picture_item
from lazaretto.agents.model import AgentModel
from lazaretto.files import write_file
from lazaretto.models.embedding_cache import EmbeddingCache
from lazaretto_lab.attacks.infectious.measure import measure
from lazaretto_lab.attacks.infectious.picture_cache import crafted_picture
from lazaretto_lab.attacks.infectious.recorded_chats import TRAIN_PERSONAS, VALIDATION_PERSONAS, record_chats
from lazaretto_lab.attacks.infectious.settings import Craft
from lazaretto_lab.attacks.infectious.targets import target
from lazaretto_lab.studies.outbreak.attack import BASES, TRAINING_POOL
from lazaretto_lab.studies.outbreak.bank import BASE_PICTURES, entries, write_index
from lazaretto_lab.worlds.album_chat.pools import scene_pictures

VALIDATION_POOL = 22


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--share", default="0/1", help="which part of the work: number/of")
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--restarts", type=int, default=6)
    parser.add_argument("--batch", type=int, default=24)
    parser.add_argument("--chats", type=int, default=288)
    parser.add_argument("--validation", type=int, default=128)
    parser.add_argument("--pool", type=int, default=300, help="pictures that chats are recorded over")
    parser.add_argument("--only", default="", help="viruses with this text in their name")
    parser.add_argument("--minutes", type=float, default=1e9, help="begin no further virus after this long")
    parser.add_argument("--index", action="store_true", help="seek nothing, write bank.json")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    if not options.index:
        seek(options)
    rows = write_index(options.folder)
    parts = {part: [row["beta"] for row in rows if row["part"] == part] for part in ("design", "test")}
    for part, betas in parts.items():
        span = f", beta {min(betas):.2f} to {max(betas):.2f}" if betas else ""
        print(f"{part}: {len(betas)} viruses{span}")


def seek(options: argparse.Namespace) -> None:
    """Every virus of this share that is not there yet."""
    from lazaretto_lab.pocket.gradients import PocketGradients
    from lazaretto_lab.studies.outbreak.models import pocket_models

    began, (number, of) = time.monotonic(), map(int, options.share.split("/"))
    vlm, clip = pocket_models(options.device)
    agent_model, models = AgentModel(vlm, EmbeddingCache(clip)), PocketGradients(vlm, clip)
    pools = (scene_pictures(options.pool, seed) for seed in (TRAINING_POOL, VALIDATION_POOL))
    training = record_chats(agent_model, next(pools), options.chats, 1, TRAIN_PERSONAS)
    unseen = record_chats(agent_model, next(pools), options.validation, 2, VALIDATION_PERSONAS)
    bases = scene_pictures(max(BASE_PICTURES) + 1, BASES)
    for entry in [entry for entry in entries() if options.only in entry.name][number::of]:
        facts = options.folder / f"{entry.name}.json"
        if facts.is_file() or time.monotonic() - began > 60 * options.minutes:
            continue
        base = bases[entry.base]
        settings = Craft(entry.target, entry.budget, options.steps, options.restarts, options.batch, seed=entry.base)
        made = crafted_picture(models, base, training, settings, options.folder / "search")
        virus, said = picture_item(made.data, base.title), target(entry.target)
        row = {
            "name": entry.name, "part": entry.part, "base": entry.base, "title": base.title, "target": entry.target,
            "budget": entry.budget.label, "sha256": hashlib.sha256(made.data).hexdigest(),
            "search": [options.steps, options.restarts, options.batch, options.chats],
        }  # fmt: skip
        for state, end in ((False, ""), (True, "_infected")):
            seen = asdict(measure(agent_model, virus, said, unseen, infected=state))
            row |= {f"{key}{end}": value for key, value in seen.items()}
        write_file(options.folder / f"{entry.name}.png", made.data)
        write_file(facts, json.dumps(row))  # last: whoever finds it finds the picture too
        print(f"{entry.name}: alpha {row['alpha']:.2f} beta {row['beta']:.2f}", flush=True)


if __name__ == "__main__":
    main()
