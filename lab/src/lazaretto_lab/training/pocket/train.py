"""Trains pocket-clip and pocket-vlm and writes their weights.

    python -m lazaretto_lab.training.pocket.train --out weights --device cuda

Everything is drawn from named seeds. The backbone and the text encoder are read from their packages, or from folders
given with ``--backbone`` and ``--text-encoder``, and are never changed.
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import json
import math
import random
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor
from torch.nn import functional

from lazaretto_lab.pocket.backbone import Backbone
from lazaretto_lab.pocket.eyes import Eyes
from lazaretto_lab.pocket.networks import ClipHead, Language, LanguageSize
from lazaretto_lab.pocket.prefill import widen
from lazaretto_lab.pocket.speech import picture_prompt
from lazaretto_lab.pocket.tokenizer import PICTURE, WordTokenizer
from lazaretto_lab.pocket.vlm import PICTURE_BEFORE
from lazaretto_lab.pocket.weights import CLIP_FILE, VLM_FILE, WORDS_FILE
from lazaretto_lab.training.pocket.lessons import lesson, training_scene
from lazaretto_lab.training.pocket.text_tower import TextTower
from lazaretto_lab.worlds.scenes.render import render
from lazaretto_lab.worlds.scenes.scene import Scene

SEED = 20260
Example = tuple[list[int], list[int], int]
"""Prompt tokens (one picture token, not widened), said tokens with the end, picture index."""


def say(*words: object) -> None:
    print(f"[{time.strftime('%H:%M:%S')}]", *words, flush=True)


def training_scenes(count: int, seed: str) -> list[Scene]:
    rng = random.Random(seed)
    return [training_scene(rng) for _ in range(count)]


def _drawn(scenes: Sequence[Scene]) -> np.ndarray:
    return np.stack([np.asarray(render(scene), dtype=np.uint8) for scene in scenes])


def picture_features(scenes: Sequence[Scene], eyes: Eyes, pool: ProcessPoolExecutor) -> Tensor:
    """(n, 49, 768) in half precision on the device."""
    chunks = [scenes[i : i + 128] for i in range(0, len(scenes), 128)]
    half = torch.float16 if eyes.device != "cpu" else torch.float32
    return torch.cat([eyes.look(torch.from_numpy(raw)).to(half) for raw in pool.map(_drawn, chunks)])


def _taught(job: tuple[int, int, int, str, Path]) -> list[Example]:
    seed, count, scene_count, scene_seed, words_file = job
    words = WordTokenizer.load(words_file)
    scenes = training_scenes(scene_count, scene_seed)
    plain = [w for w in words.words if w.isalpha()]
    rng = random.Random(f"lessons:{seed}")
    out: list[Example] = []
    for _ in range(count):
        one = lesson(rng, scenes, plain)
        tokens = picture_prompt(words, one.request.messages[0].text, PICTURE_BEFORE, one.picture >= 0)
        out.append((list(tokens), [*words.encode(one.said), words.end], one.picture))
    return out


def train_clip(features: Tensor, texts: Tensor, steps: int, device: str) -> ClipHead:
    """Symmetric contrast of pictures and captions; captions repeated in a batch are not held against each other."""
    torch.manual_seed(SEED)
    head = ClipHead().to(device)
    optimiser = torch.optim.AdamW(head.parameters(), lr=1e-3, weight_decay=0.05)
    batch = min(1024, len(features))
    for step in range(steps):
        _set_rate(optimiser, 1e-3, step, steps)
        rows = torch.randint(len(features), (batch,), device=device)
        pictures, captions = head(features[rows].float()), texts[rows]
        logits = pictures @ captions.t() * head.scale.exp().clamp(max=50.0)
        same = captions @ captions.t() > 0.999
        same.fill_diagonal_(False)
        logits = logits.masked_fill(same, -1e4)
        goal = torch.arange(batch, device=device)
        loss = (functional.cross_entropy(logits, goal) + functional.cross_entropy(logits.t(), goal)) / 2
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        optimiser.step()
        if step % 200 == 0:
            say("clip", step, f"{loss.item():.3f}")
    return head.eval().requires_grad_(False)


def _set_rate(optimiser: torch.optim.Optimizer, peak: float, step: int, steps: int, warm: int = 200) -> None:
    rate = peak * min((step + 1) / warm, 0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * step / steps)))
    for group in optimiser.param_groups:
        group["lr"] = rate


def batches(examples: Sequence[Example], tokens: int, rng: random.Random) -> Iterator[list[Example]]:
    """Batches of about ``tokens`` tokens of similar length, in random order, for ever."""
    while True:
        order = sorted(
            range(len(examples)), key=lambda i: len(examples[i][0]) + 48 * (examples[i][2] >= 0) + rng.random() * 24
        )
        groups: list[list[int]] = [[]]
        for i in order:
            width = len(examples[i][0]) + 48 * (examples[i][2] >= 0) + 28
            if (len(groups[-1]) + 1) * width > tokens:
                groups.append([])
            groups[-1].append(i)
        rng.shuffle(groups)
        for group in groups:
            yield [examples[i] for i in group]


def language_loss(language: Language, batch: Sequence[Example], features: Tensor, words: WordTokenizer) -> Tensor:
    """Cross-entropy of what should be said, given the prompt."""
    device, picture = features.device, words.ids[PICTURE]
    rows = [widen(prompt, picture) + said for prompt, said, _ in batch]
    length = max(map(len, rows))
    table = torch.tensor([row + [0] * (length - len(row)) for row in rows])
    goal = torch.full_like(table, -100)
    for i, (row, (_, said, _)) in enumerate(zip(rows, batch, strict=True)):
        goal[i, len(row) - len(said) - 1 : len(row) - 1] = torch.tensor(said)
    table, goal = table.to(device, non_blocking=True), goal.to(device, non_blocking=True)
    shown = torch.tensor([index for _, _, index in batch if index >= 0], device=device)
    with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
        seen = language.see(features[shown].float()).flatten(0, 1) if len(shown) else None
        x = language.embed(table, seen, picture)
        positions = torch.arange(length, device=device).expand(len(rows), -1)
        hidden, _ = language.run(x, positions)
        spoken = goal >= 0
        return functional.cross_entropy(language.logits(hidden[spoken]).float(), goal[spoken])


def train_vlm(
    words: WordTokenizer, examples: Sequence[Example], features: Tensor, steps: int, seconds: float, batch_tokens: int
) -> Language:
    """Teaches the language model until the steps or the seconds are used up (the schedule follows what comes first)."""
    torch.manual_seed(SEED + 1)
    device = features.device
    language = Language(LanguageSize(len(words))).to(device)
    decay = [p for p in language.parameters() if p.dim() > 1]
    rest = [p for p in language.parameters() if p.dim() <= 1]
    optimiser = torch.optim.AdamW([{"params": decay, "weight_decay": 0.05}, {"params": rest, "weight_decay": 0.0}],
                                  lr=1e-3, betas=(0.9, 0.98), fused=device.type == "cuda")  # fmt: skip
    began, rng = time.time(), random.Random("batches")
    for step, batch in enumerate(batches(examples, batch_tokens, rng)):
        share = max(step / steps, (time.time() - began) / seconds)
        if share >= 1:
            break
        _set_rate(optimiser, 1.5e-3, round(share * 10_000) if step > 300 else step, 10_000, warm=300)
        loss = language_loss(language, batch, features, words)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(language.parameters(), 1.0)
        optimiser.step()
        if step % 250 == 0:
            say("vlm", step, f"{loss.item():.4f}", f"{share:.2f}")
    say("vlm done", step)
    return language.eval().requires_grad_(False)


def save(network: torch.nn.Module, path: Path) -> None:
    """Half precision, as shipped."""
    save_file({name: value.detach().half().cpu().contiguous() for name, value in network.state_dict().items()}, path)


def write_manifest(folder: Path) -> None:
    """sha256 of every file, as the loader checks it."""
    names = (CLIP_FILE, VLM_FILE, WORDS_FILE)
    hashes = {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in names}
    (folder / "manifest.json").write_text(json.dumps(hashes, indent=2) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument(
        "--words", type=Path, required=True, help="vocabulary made by lazaretto_lab.training.pocket.make_words"
    )
    parser.add_argument("--backbone", type=Path, help="EfficientNet-Lite0 weights; default: the package's")
    parser.add_argument("--text-encoder", type=Path, help="all-MiniLM-L6-v2 folder; default: the package's")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--scenes", type=int, default=100_000)
    parser.add_argument("--lessons", type=int, default=400_000)
    parser.add_argument("--clip-steps", type=int, default=2000)
    parser.add_argument("--vlm-steps", type=int, default=12_000)
    parser.add_argument("--vlm-seconds", type=float, default=200.0)
    parser.add_argument("--batch-tokens", type=int, default=49_152)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    words = WordTokenizer.load(options.words)
    words.save(options.out / WORDS_FILE)
    with ProcessPoolExecutor(options.workers) as pool:
        per_job = -(-options.lessons // (options.workers * 2))
        jobs = [(i, per_job, options.scenes, f"train:{SEED}", options.words) for i in range(options.workers * 2)]
        scenes = training_scenes(options.scenes, f"train:{SEED}")
        say("scenes", len(scenes))
        eyes = Eyes(_backbone(options.backbone), options.device)
        features = picture_features(scenes, eyes, pool)
        say("features", tuple(features.shape), features.dtype)
        taught = pool.map(_taught, jobs)
        texts = _text_tower(options.text_encoder, options.device).embed_texts([scene.caption for scene in scenes])
        head = train_clip(features, torch.from_numpy(texts).to(options.device), options.clip_steps, options.device)
        save(head, options.out / CLIP_FILE)
        examples = [example for chunk in taught for example in chunk]
    say("lessons", len(examples))
    gc.freeze()  # or every collection walks through hundreds of thousands of lists
    language = train_vlm(words, examples, features, options.vlm_steps, options.vlm_seconds, options.batch_tokens)
    save(language, options.out / VLM_FILE)
    write_manifest(options.out)


def _backbone(path: Path | None) -> Backbone:
    if path is None:
        from lazaretto_lab.pocket.weights import load_backbone

        return load_backbone()
    state = {k: v.float() for k, v in torch.load(path, map_location="cpu", weights_only=True).items()}
    return Backbone().load(state)


def _text_tower(folder: Path | None, device: str) -> TextTower:
    if folder is None:
        from lazaretto.models.minilm import minilm_folder

        folder = minilm_folder()
    return TextTower(folder, device)


if __name__ == "__main__":
    main()
