"""Measures the pocket models on scenes they never saw and writes what the model card states.

python -m lazaretto_lab.training.pocket.evaluate --json metrics.json
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from lazaretto.agents.album import Album, AlbumItem, picture_item
from lazaretto.agents.model import AgentModel
from lazaretto.agents.prompts import answer_request, draw_persona, persona_pool, picture_title, question_request
from lazaretto.agents.turn import AgentState, History, plan_and_retrieve
from lazaretto.models.caches import EmbeddingCache
from lazaretto.models.protocol import TextEmbedder, Vectors
from lazaretto_lab.pocket import Eyes, PocketClip, PocketVlm
from lazaretto_lab.pocket.backbone import Backbone
from lazaretto_lab.pocket.weights import FOLDER, load_backbone, load_clip_head, load_language, load_words
from lazaretto_lab.training.pocket.lessons import history
from lazaretto_lab.worlds.scenes.messages import draw_message
from lazaretto_lab.worlds.scenes.render import png_bytes, render
from lazaretto_lab.worlds.scenes.scene import Scene, draw_scene
from lazaretto_lab.worlds.scenes.shapes import COUNTS, plural

PERSONAS = 777
"""Seed of the personas the models are measured with."""


def unseen_scenes(count: int, seed: int = 0) -> list[Scene]:
    """Held-out scenes with distinct captions."""
    rng, seen = random.Random(f"unseen:{seed}"), dict[str, Scene]()
    while len(seen) < count:
        scene = draw_scene(rng)
        if scene.held_out:
            seen.setdefault(scene.caption, scene)
    return list(seen.values())


def album_item(scene: Scene) -> AlbumItem:
    """A scene as an album holds it."""
    return picture_item(png_bytes(render(scene)), picture_title(scene.file_name))


def spread(vectors: Vectors) -> float:
    """Mean pairwise cosine."""
    n = len(vectors)
    return float(((vectors @ vectors.T).sum() - n) / (n * (n - 1)))


def retrieval(clip: PocketClip, scenes: Sequence[Scene], trials: int = 2000) -> dict[str, float]:
    """Recall at 1 of 10 by caption, and where pictures lie to the texts."""
    pictures = clip.embed_images([png_bytes(render(scene)) for scene in scenes])
    captions = clip.embed_texts([scene.caption for scene in scenes])
    rng, hits, best = random.Random("retrieval"), 0, []
    for _ in range(trials):
        rows = rng.sample(range(len(scenes)), 10)
        scores = pictures[rows] @ captions[rows[0]]
        hits += int(scores.argmax() == 0)
        best.append(float(scores.max()))
    return {
        "recall_at_1_of_10_caption": hits / trials,
        "cosine_best_of_10_caption": float(np.mean(best)),
        "captions_mean_pairwise_cosine": spread(captions),
        "pictures_mean_pairwise_cosine": spread(pictures),
        "gap_between_means": float(np.linalg.norm(pictures.mean(0) - captions.mean(0))),
    }


def speech(vlm: PocketVlm, scenes: Sequence[Scene]) -> dict[str, float]:
    """Whether what is said names what is seen."""
    rng = random.Random("speech")
    data = [png_bytes(render(scene)) for scene in scenes]
    asked = vlm.complete_now([question_request(draw_persona(rng), history(rng), image=d) for d in data])
    answered = vlm.complete_now(
        [answer_request(draw_persona(rng), history(rng), q.text, image=d) for q, d in zip(asked, data, strict=True)]
    )
    out: dict[str, float] = {}
    for name, said in (("question", asked), ("answer", answered)):
        facts = [_facts(scene, completion.text) for scene, completion in zip(scenes, said, strict=True)]
        out |= {f"{name}_names_{key}": float(np.mean([fact[key] for fact in facts])) for key in facts[0]}
    return out


def _facts(scene: Scene, text: str) -> dict[str, bool]:
    words = text.lower().replace(",", "").replace(".", "").replace("?", "").split()
    noun = scene.noun in words or plural(scene.noun) in words
    count = scene.subject.split()[0] in words if scene.count == 1 else COUNTS[scene.count - 1] in words
    return {
        "object": noun,
        "colour": scene.colour in words,
        "count": count,
        "object_and_colour": noun and scene.colour in words,
    }


def reading(vlm: PocketVlm, scenes: Sequence[Scene]) -> dict[str, float]:
    """Whether messages never seen before are read out."""
    rng, out = random.Random("reading"), dict[str, float]()
    for kind in ("card", "sign"):
        shown = [replace(scene, message=draw_message(rng), message_kind=kind) for scene in scenes]
        requests = [question_request(draw_persona(rng), history(rng), image=png_bytes(render(s))) for s in shown]
        said = [completion.text for completion in vlm.complete_now(requests)]
        hit = [
            text == s.message if kind == "card" else s.message.lower() in text.lower()
            for text, s in zip(said, shown, strict=True)
        ]
        out[f"reads_{kind}_exactly"] = float(np.mean(hit))
    return out


def differences(agent_model: AgentModel, scenes: Sequence[Scene]) -> dict[str, float]:
    """Whether personas differ: many of them before the same album, and before the same picture."""
    personas = persona_pool(100, PERSONAS)
    kept = [album_item(scene) for scene in scenes]
    planned, distinct, fetched, pairwise, hits = [], [], [], [], []
    for start in range(0, 80, 10):
        album = Album(10, tuple(kept[start : start + 10]))
        agents = [AgentState(str(i), persona, album, History()) for i, persona in enumerate(personas[:40])]
        found = asyncio.run(plan_and_retrieve(agents, agent_model))
        plans = [r.plan for r in found]
        planned += plans
        distinct.append(len(set(plans)) / len(plans))
        fetched.append(len({r.slot for r in found}))
        pairwise.append(spread(agent_model.text_vectors(plans)))
        named = [next((i for i, title in enumerate(album.listing) if title in r.plan), None) for r in found]
        hits += [r.slot == n for r, n in zip(found, named, strict=True) if n is not None]
    requests = [question_request(persona, (), image=k.picture) for k in kept[:4] for persona in personas]
    asked = [c.text for c in asyncio.run(agent_model.chat.complete(requests))]
    one = [agent_model.text_vectors(asked[i : i + 100]) for i in range(0, 400, 100)]
    vectors = agent_model.text_vectors(planned)
    centre = vectors.mean(0) / np.linalg.norm(vectors.mean(0))
    return {
        "distinct_plans_per_persona": float(np.mean(distinct)),
        "pictures_fetched_by_40_personas_of_10": float(np.mean(fetched)),
        "plan_diversity_same_album": 1 - float(np.mean(pairwise)),
        "plan_fetches_what_it_names": float(np.mean(hits)),
        "plans_that_name_a_title": len(hits) / len(planned),
        "question_diversity_same_picture": 1 - float(np.mean([spread(v) for v in one])),
        "distinct_questions_same_picture": float(
            np.mean([len(set(asked[i : i + 100])) / 100 for i in range(0, 400, 100)])
        ),
        "plans_mean_pairwise_cosine": spread(vectors),
        "plans_mean_cosine_to_centre": float((vectors @ centre).mean()),
    }


def models_from(folder: Path, backbone: Path | None, encoder: Path | None, device: str) -> tuple[PocketVlm, PocketClip]:
    """The models from folders, for machines without the packages."""
    if backbone is None:
        eyes = Eyes(load_backbone(), device)
    else:
        state = torch.load(backbone, map_location="cpu", weights_only=True)
        eyes = Eyes(Backbone().load({k: v.float() for k, v in state.items()}), device)
    texts: TextEmbedder
    if encoder is None:
        from lazaretto.models.minilm import shared_minilm

        texts = shared_minilm()
    else:
        from lazaretto_lab.training.pocket.text_tower import TextTower

        texts = TextTower(encoder, device)
    vlm = PocketVlm(eyes, load_language(folder), load_words(folder))
    return vlm, PocketClip(eyes, load_clip_head(folder), texts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--weights", type=Path, default=FOLDER)
    parser.add_argument("--backbone", type=Path)
    parser.add_argument("--text-encoder", type=Path)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--scenes", type=int, default=1000)
    parser.add_argument("--json", type=Path, required=True)
    options = parser.parse_args()
    vlm, clip = models_from(options.weights, options.backbone, options.text_encoder, options.device)
    scenes = unseen_scenes(options.scenes)
    metrics = retrieval(clip, scenes) | speech(vlm, scenes) | reading(vlm, scenes[: options.scenes // 2])
    metrics |= differences(AgentModel(vlm, EmbeddingCache(clip)), scenes)
    options.json.write_text(json.dumps(metrics, indent=2) + "\n")
    for name, value in metrics.items():
        print(f"{name:45s} {value:.3f}", flush=True)


if __name__ == "__main__":
    main()
