"""Seeks the viruses of the bank (8 base pictures x 4 sentences x 8 budgets) and measures each on chats it never saw.

    python lab/benchmarks/virus_bank.py runs/bank --device cuda --share 0/4 &  # four processes, a quarter each
    python lab/benchmarks/virus_bank.py runs/bank --device cuda --share 1/4 & ...
    python lab/benchmarks/virus_bank.py runs/bank --index                       # bank.json from what is there
    python lab/benchmarks/virus_bank.py runs/bank-wide --wide ...               # the same in the wide world

The viruses of a base picture, a sentence and one kind of budget are sought together, the test part first, in an order
that covers bases, sentences and kinds evenly wherever ``--minutes`` ends it. Given again, it goes on: a virus that is
there is not sought again.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import time
from dataclasses import asdict
from pathlib import Path

from lazaretto.agents.album import picture_item
from lazaretto.agents.model import AgentModel
from lazaretto.files import write_file
from lazaretto.models.caches import CachedChat, EmbeddingCache
from lazaretto_lab.attacks.infectious.measure import measure
from lazaretto_lab.attacks.infectious.recorded_chats import TRAIN_PERSONAS, VALIDATION_PERSONAS, record_chats
from lazaretto_lab.attacks.infectious.settings import Craft
from lazaretto_lab.attacks.infectious.targets import target
from lazaretto_lab.studies.outbreak.attack import BASES, TRAINING_POOL
from lazaretto_lab.studies.outbreak.bank import BASE_PICTURES, INDEX, BankEntry, searches, write_index
from lazaretto_lab.worlds.album_chat.pools import scene_pictures

VALIDATION_POOL = 22
BANDS = ((0.5, 0.8), (0.8, 0.9), (0.9, 0.98), (0.98, 1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--share", default="0/1", help="which part of the work: number/of")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--restarts", type=int, default=3)
    parser.add_argument("--batch", type=int, default=24)
    parser.add_argument("--chats", type=int, default=288)
    parser.add_argument("--validation", type=int, default=128)
    parser.add_argument("--pool", type=int, default=300, help="pictures that chats are recorded over")
    parser.add_argument("--part", choices=("design", "test", "both"), default="both")
    parser.add_argument("--only", default="", help="viruses with this text in their name")
    parser.add_argument("--minutes", type=float, default=1e9, help="begin no further search after this long")
    parser.add_argument("--wide", action="store_true", help="against pocket-clip with the gap of CLIP")
    parser.add_argument("--index", action="store_true", help="seek nothing, write bank.json")
    options = parser.parse_args()
    if not options.index:
        options.folder.mkdir(parents=True, exist_ok=True)
        seek(options)
        return
    rows = write_index(options.folder)
    for part in ("design", "test"):
        betas = [row["beta"] for row in rows if row["part"] == part]
        bands = [sum(low <= beta <= high for beta in betas) for low, high in BANDS]
        span = f", beta {min(betas):.2f} to {max(betas):.2f}; .5-.8, .8-.9, .9-.98, .98-1: {bands}" if betas else ""
        print(f"{part}: {len(betas)} viruses{span}")
    print(f"{INDEX} sha256 {hashlib.sha256((options.folder / INDEX).read_bytes()).hexdigest()}")


def seek(options: argparse.Namespace) -> None:
    """Every virus of this share that is not there yet."""
    import torch
    from PIL import Image

    from lazaretto_lab.attacks.infectious.craft_many import ManyBudgets
    from lazaretto_lab.pocket.gradients import PocketGradients
    from lazaretto_lab.studies.outbreak.models import pocket_models

    began, (number, of) = time.monotonic(), map(int, options.share.split("/"))
    vlm, clip = pocket_models(options.device, "wide" if options.wide else "")
    agent_model, models = AgentModel(CachedChat(vlm), EmbeddingCache(clip)), PocketGradients(vlm, clip)
    pools = (scene_pictures(options.pool, seed) for seed in (TRAINING_POOL, VALIDATION_POOL))
    training = record_chats(agent_model, next(pools), options.chats, 1, TRAIN_PERSONAS)
    unseen = record_chats(agent_model, next(pools), options.validation, 2, VALIDATION_PERSONAS)
    bases = scene_pictures(max(BASE_PICTURES) + 1, BASES)
    wanted = [[entry for entry in together if wants(options, entry)] for together in searches()]
    todo = [together for together in wanted if together][number::of]
    print(f"share {options.share}: {len(todo)} searches, ready after {time.monotonic() - began:.0f} s", flush=True)
    for together in todo:
        left = [entry for entry in together if not (options.folder / f"{entry.name}.json").is_file()]
        if not left or time.monotonic() - began > 60 * options.minutes:
            continue
        start, base, name = time.monotonic(), bases[left[0].base], left[0].target
        settings = Craft(
            name, left[0].budget, options.steps, options.restarts, options.batch, seed=left[0].base
        )  # fmt: skip
        torch.set_float32_matmul_precision("high")  # a search may be rough; what it finds is measured exactly
        search = ManyBudgets(models, models.pixels(base.picture), training, settings, [entry.budget for entry in left])
        found = search.run_all()
        torch.set_float32_matmul_precision("highest")
        each = (time.monotonic() - start) / len(left)
        for entry, made in zip(left, found, strict=True):
            buffer = io.BytesIO()
            Image.fromarray(made.pixels).save(buffer, format="PNG")
            data = buffer.getvalue()
            virus, said = picture_item(data, base.title), target(name)
            row = {
                "name": entry.name, "part": entry.part, "base": entry.base, "title": base.title, "target": name,
                "budget": entry.budget.label, "sha256": hashlib.sha256(data).hexdigest(), "seconds": round(each, 2),
                "search": [options.steps, options.restarts, options.batch, options.chats],
            }  # fmt: skip
            for state, end in ((False, ""), (True, "_infected")):
                seen = asdict(measure(agent_model, virus, said, unseen, infected=state))
                row |= {f"{key}{end}": value for key, value in seen.items()}
            write_file(options.folder / f"{entry.name}.png", data)
            write_file(options.folder / f"{entry.name}.json", json.dumps(row))  # last: who finds it finds the picture
            print(f"{entry.name}: alpha {row['alpha']:.2f} beta {row['beta']:.2f}, {each:.1f} s", flush=True)


def wants(options: argparse.Namespace, entry: BankEntry) -> bool:
    """Whether the virus is of the part and the name that were asked for."""
    return options.part in (entry.part, "both") and options.only in entry.name


if __name__ == "__main__":
    main()
