"""How infectious pictures of each budget are: crafts them and measures alpha and beta on chats they never saw.

    PYTHONPATH=src:. python lab/benchmarks/attack_budgets.py --out runs/budgets --device cuda

Training and validation chats come from different personas, pictures and seeds. Writes ``table.json`` and the pictures.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import asdict
from pathlib import Path

import numpy as np

from lazaretto.agents.album import AlbumItem, picture_item
from lazaretto.agents.model import AgentModel
from lazaretto.agents.prompts import picture_title
from lazaretto.models.caches import EmbeddingCache
from lazaretto_lab.attacks.infectious.craft import Search
from lazaretto_lab.attacks.infectious.measure import measure
from lazaretto_lab.attacks.infectious.recorded_chats import TRAIN_PERSONAS, VALIDATION_PERSONAS, record_chats
from lazaretto_lab.attacks.infectious.settings import Budget, Craft
from lazaretto_lab.attacks.infectious.targets import TARGETS
from lazaretto_lab.pocket.eyes import pixels
from lazaretto_lab.pocket.gradients import PocketGradients
from lazaretto_lab.pocket.weights import FOLDER
from lazaretto_lab.training.pocket.evaluate import models_from
from lazaretto_lab.worlds.scenes.album import album_pool

BUDGETS = tuple(Budget("pixel", eps) for eps in (4, 8, 16, 32)) + tuple(Budget("border", h) for h in (6, 8, 10, 12))


def kept(count: int, seed: int) -> list[AlbumItem]:
    """Drawn pictures as albums hold them."""
    return [picture_item(p.data, picture_title(p.file_name)) for p in album_pool(count, seed)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--weights", type=Path, default=FOLDER)
    parser.add_argument("--backbone", type=Path)
    parser.add_argument("--text-encoder", type=Path)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--targets", default="marker-lantern,tool-transfer")
    parser.add_argument("--budgets", default=",".join(b.label for b in BUDGETS))
    parser.add_argument("--bases", default="0", help="which pictures of the pool of bases, by number")
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--restarts", type=int, default=3)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--chats", type=int, default=192)
    parser.add_argument("--validation", type=int, default=128)
    parser.add_argument("--seconds", type=float, default=1e9, help="stop crafting after this long")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    vlm, clip = models_from(options.weights, options.backbone, options.text_encoder, options.device)
    agent_model = AgentModel(vlm, EmbeddingCache(clip))
    models = PocketGradients(vlm, clip)
    training = record_chats(agent_model, kept(300, 11), options.chats, 1, TRAIN_PERSONAS)
    validation = record_chats(agent_model, kept(300, 22), options.validation, 2, VALIDATION_PERSONAS)
    numbers = [int(number) for number in options.bases.split(",")]
    bases, table, began = kept(max(numbers) + 1, 33), [], time.time()
    named = {b.label: b for b in BUDGETS}
    chosen = [named[label] for label in options.budgets.split(",")]
    for name in options.targets.split(","):
        for budget in chosen:
            for number in numbers:
                base = bases[number]
                if time.time() - began > options.seconds:
                    continue
                settings = Craft(name, budget, options.steps, options.restarts, options.batch, seed=number)
                started = time.time()
                search = Search(models, np.array(pixels(base.picture)), training, settings)
                for _ in search.run():
                    pass
                result = search.result()
                row: dict[str, object] = {"target": name, "budget": budget.label, "frame": budget.frame}
                row |= {"base": base.title, "alpha_train": result.alpha, "beta_train": result.beta}
                row["seconds"] = time.time() - started
                data = _png(result.pixels)
                (options.out / f"{name}-{budget.label}-{number}.png").write_bytes(data)
                virus = picture_item(data, base.title)
                for state in (False, True):
                    seen = asdict(measure(agent_model, virus, TARGETS[name], validation, infected=state))
                    row |= {f"{key}{'_infected' if state else ''}": value for key, value in seen.items()}
                table.append(row)
                print(
                    " ".join(f"{k}={v:.3f}" if isinstance(v, float) else f"{k}={v}" for k, v in row.items()), flush=True
                )
                (options.out / "table.json").write_text(json.dumps(table, indent=1) + "\n")


def _png(array: np.ndarray) -> bytes:
    from PIL import Image

    from lazaretto_lab.worlds.scenes.render import png_bytes

    return png_bytes(Image.fromarray(array))


if __name__ == "__main__":
    main()
