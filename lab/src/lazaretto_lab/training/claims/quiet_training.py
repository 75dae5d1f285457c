"""Trains a reader of quiet lies: low-rank changes to an encoder that reads one claim, and a head.

Needs torch and numpy alone, so that it can be carried to a machine that has nothing else:

    python -m lazaretto_lab.training.claims.quiet_training INPUTS OUT --minilm MINILM --mpnet MPNET --seconds 420
    python -m lazaretto_lab.training.claims.quiet_training INPUTS OUT --minilm MINILM --steps 0 600 --batch 0 64

INPUTS holds ``quiet_texts.npz`` (``quiet_pack.py`` writes it). Teachers on mpnet come first: one that has seen all that
may be seen, and one for each fold of the kinds of work. A student on MiniLM learns from the labels and from what its
teacher makes of texts without labels; a student of a fold has the teacher of that fold, so nothing of it was labelled.
Without MPNET a student learns from the labels alone: the second line takes about a quarter of an hour a student on two
cores. A student that was trained before (its file is in OUT) is not trained again.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from lazaretto_lab.training.claims.training import BERT_BEGIN, BERT_END, HIDDEN, TRUNKS, Reader, Trunk, load_encoder

FOLDS = 5
RANKS = {"minilm": 32, "mpnet": 16}
MOST_TOKENS = 126
NEVER = -2
"""Fold of a text that no run sees."""


@dataclass(frozen=True)
class Recipe:
    """Everything a run depends on, besides the texts."""

    steps: int
    batch: int
    rules: float = 0.6
    """Share of labelled texts that are lies and the rules beside them; the others are honest notes and statements."""
    taught: float = 0.0
    """Share of a batch without labels, for which the teacher's word counts."""
    parts: int = 1
    """A batch is read in so many parts, by length: less padding, which a processor would read as text."""
    company: float = 0.0
    """Share of the texts that stand beside an honest text."""
    smoothing: float = 0.05


class Texts:
    """A pack of texts on the device."""

    def __init__(self, path: Path, device: str) -> None:
        with np.load(path) as archive:  # an array is unpacked each time it is asked for
            data = {name: archive[name] for name in archive.files}
        self.lengths = data["lengths"].astype(np.int64)
        self.tokens = np.split(data["tokens"].astype(np.int64), np.cumsum(self.lengths)[:-1])
        self.label, self.fold, self.rule = data["label"].astype(np.int64), data["fold"].astype(int), data["rule"]
        self.weight = data["weight"].astype(np.float64)
        self.device = device

    def batch(self, several: Sequence[np.ndarray]) -> tuple[Any, Any]:
        """[CLS] text [SEP] for some texts, each as its tokens."""
        sizes = np.array([len(one) for one in several])
        ids = np.zeros((len(several), int(sizes.max()) + 2), np.int64)
        ids[:, 0] = BERT_BEGIN
        for row, one in zip(ids, several, strict=True):
            row[1 : len(one) + 1] = one
            row[len(one) + 1] = BERT_END
        mask = np.arange(ids.shape[1])[None, :] < sizes[:, None] + 2
        return torch.from_numpy(ids).to(self.device), torch.from_numpy(mask).to(self.device)

    def with_company(self, rows: np.ndarray, company: np.ndarray, share: float, rng: Any) -> list[np.ndarray]:
        """Tokens of some texts; a share of them stand before or after an honest text, as lies do that hide."""
        found = []
        for row in rows:
            mine = self.tokens[row]
            if len(company) and rng.random() < share:
                other = self.tokens[rng.choice(company)]
                if len(mine) + len(other) <= MOST_TOKENS:
                    mine = np.concatenate([mine, other] if rng.random() < 0.5 else [other, mine])
            found.append(mine)
        return found


class QuietReader(Reader):
    """The same encoder over one text; its head says how likely the text is a quiet lie."""

    def __init__(self, base: dict[str, torch.Tensor], trunk: Trunk, rank: int) -> None:
        super().__init__(base, trunk, rank, 0)
        self.last = nn.Linear(HIDDEN, 1)

    def logits(self, ids: Any, mask: Any) -> Any:
        """Of each text."""
        return self(ids, mask, torch.zeros((len(ids), 0), device=ids.device))[:, 0]


def _drawn(texts: Texts, seen: np.ndarray, recipe: Recipe, rng: np.random.Generator) -> np.ndarray:
    """Labelled texts for one batch: lies, rules and others in their shares."""
    size = int(recipe.batch * (1 - recipe.taught))
    parts = []
    for mine, share in (
        ((texts.label == 1), recipe.rules / 2),
        ((texts.label == 0) & (texts.rule == 1), recipe.rules / 2),
        ((texts.label == 0) & (texts.rule == 0), 1 - recipe.rules),
    ):
        some = np.flatnonzero(seen & mine)
        weight = texts.weight[some]
        parts.append(rng.choice(some, max(1, int(size * share)), p=weight / weight.sum()))
    return np.concatenate(parts)


def train(
    texts: Texts, seen: np.ndarray, base: dict[str, torch.Tensor], name: str, recipe: Recipe, taught: Any, tag: str
) -> QuietReader:
    """A reader that has seen some of the texts; ``taught``: the teacher's logits of all, or None."""
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    trunk = TRUNKS[name]
    reader = QuietReader(base, trunk, RANKS[name]).to(texts.device).train()
    parameters = [p for p in reader.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(parameters, lr=trunk.rate, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, trunk.rate, total_steps=recipe.steps + 1, pct_start=0.1)
    labels = torch.from_numpy(texts.label).to(texts.device).float()
    free = np.flatnonzero(texts.fold != NEVER)
    honest = np.flatnonzero(seen & (texts.label == 0) & (texts.rule == 0))
    began, losses = time.monotonic(), []
    for step in range(recipe.steps):
        rows = _drawn(texts, seen, recipe, rng)
        known = len(rows)
        if taught is not None:
            rows = np.concatenate([rows, rng.choice(free, int(recipe.batch * recipe.taught))])
        optimizer.zero_grad(set_to_none=True)
        whole = 0.0
        read = texts.with_company(rows, honest, recipe.company, rng)
        order = np.argsort([len(one) for one in read], kind="stable")
        for part in np.array_split(order, recipe.parts):
            pick = torch.from_numpy(rows[part]).to(texts.device)
            ids, mask = texts.batch([read[n] for n in part])
            with torch.autocast(texts.device, torch.bfloat16, enabled=texts.device == "cuda"):
                logits = reader.logits(ids, mask).float()
            mine = torch.from_numpy(part < known).to(texts.device)
            target = labels[pick[mine]] * (1 - 2 * recipe.smoothing) + recipe.smoothing
            loss = functional.binary_cross_entropy_with_logits(logits[mine], target, reduction="sum") / known
            if taught is not None:
                teacher = taught[pick]
                near = functional.binary_cross_entropy_with_logits(logits, torch.sigmoid(teacher), reduction="sum")
                near = near + 0.05 * functional.smooth_l1_loss(logits, teacher, reduction="sum")
                loss = 0.5 * loss + near / len(rows)
            loss.backward()
            whole += float(loss.detach())
        nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        schedule.step()
        losses.append(whole)
        if (step + 1) % 50 == 0:
            mean = sum(losses[-50:]) / 50
            print(f"{tag}: step {step + 1}/{recipe.steps} loss {mean:.4f} {time.monotonic() - began:.0f} s", flush=True)
    return reader.eval()


def score(reader: QuietReader, texts: Texts) -> Any:
    """Logits of all texts."""
    found = torch.zeros(len(texts.lengths), device=texts.device)
    order, step = np.argsort(texts.lengths), 1024 if texts.device == "cuda" else 32
    with torch.inference_mode(), torch.autocast(texts.device, torch.bfloat16, enabled=texts.device == "cuda"):
        for i in range(0, len(order), step):
            rows = order[i : i + step]
            found[torch.from_numpy(rows).to(texts.device)] = reader.logits(
                *texts.batch([texts.tokens[n] for n in rows])
            ).float()
    return found.clone()


def told(tag: str, logits: np.ndarray, texts: Texts, mine: np.ndarray) -> None:
    """Print how well lies are told from rules among some texts."""
    lies = logits[mine & (texts.label == 1)]
    rules = logits[mine & (texts.label == 0) & (texts.rule == 1)]
    if len(lies) and len(rules):
        auc = (lies[:, None] > rules[None]).mean()
        at = (lies > np.quantile(rules, 0.97)).mean()
        print(f"{tag}: AUC {auc:.3f}, {at:.3f} at 3 % of {len(lies)} and {len(rules)}", flush=True)


def _kept(file: Path) -> dict[str, np.ndarray]:
    """Scores of the readers that were trained before."""
    if not file.exists():
        return {}
    with np.load(file) as archive:
        return {name: archive[name] for name in archive.files}


def run(
    inputs: Path, encoders: dict[str, Path], out: Path, seconds: float, recipes: dict[str, Recipe], folds: Sequence[int]
) -> None:
    """Teachers, then students, as many as the time allows; each writes its scores, and its weights."""
    began = time.monotonic()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.set_float32_matmul_precision("high")
    out.mkdir(parents=True, exist_ok=True)
    texts = Texts(inputs / "quiet_texts.npz", device)
    print(f"{len(texts.lengths)} texts, {(texts.label == 1).sum()} lies, {time.monotonic() - began:.0f} s", flush=True)
    scores, longest = dict[str, Any](), dict[str, float]()
    bases = {
        one: {k: v.to(device) for k, v in load_encoder(path).items() if v.is_floating_point()}
        for one, path in encoders.items()
    }
    labelled = texts.label >= 0
    kept = _kept(out / "quiet_scores.npz") if "mpnet" not in encoders else {}
    for name, fold in ((name, fold) for fold in folds for name in encoders):
        tag, started = f"{name}_{'final' if fold < 0 else fold}", time.monotonic()
        if tag in kept:
            continue
        if seconds - (started - began) < longest.get(name, 0.0) * 1.15:
            print(f"no time left for {tag}", flush=True)
            continue
        teacher = scores.get(tag.replace("minilm", "mpnet")) if name == "minilm" else None
        seen = (texts.label >= 0) & (texts.fold != NEVER) & ((texts.fold != fold) | (fold < 0))
        reader = train(texts, seen, bases[name], name, recipes[name], teacher, tag)
        scores[tag] = score(reader, texts)
        np.savez(out / f"quiet_{tag}.npz", **reader.arrays())  # type: ignore[arg-type]
        found = scores[tag].cpu().numpy()
        told(f"{tag} left out", found, texts, texts.fold == fold)
        told(f"{tag} never seen", found, texts, texts.fold == NEVER)
        kept[tag] = found[labelled].astype(np.float16)
        np.savez_compressed(out / "quiet_scores.npz", **kept)  # type: ignore[arg-type]
        longest[name] = max(longest.get(name, 0.0), time.monotonic() - started)
        print(f"{tag}: {time.monotonic() - started:.0f} s, {time.monotonic() - began:.0f} s in all", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("inputs", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--minilm", type=Path, required=True)
    parser.add_argument("--mpnet", type=Path)
    parser.add_argument("--seconds", type=float, default=420)
    parser.add_argument("--steps", type=int, nargs=2, default=(450, 900), help="of a teacher and of a student")
    parser.add_argument("--batch", type=int, nargs=2, default=(128, 384))
    parser.add_argument("--parts", type=int, default=1, help="a batch is read in so many parts, by length")
    parser.add_argument("--company", type=float, default=0.0, help="share of texts that stand beside an honest text")
    parser.add_argument("--folds", type=int, nargs="+", default=list(range(-1, FOLDS)), help="left out; -1: none")
    given = parser.parse_args()
    trunks = {"mpnet": given.mpnet, "minilm": given.minilm}
    taught = 0.5 if given.mpnet else 0.0
    recipes = {
        name: Recipe(steps, batch, taught=taught if name == "minilm" else 0.0, parts=given.parts, company=given.company)
        for name, steps, batch in zip(trunks, given.steps, given.batch, strict=True)
    }
    run(given.inputs, {n: path for n, path in trunks.items() if path}, given.out, given.seconds, recipes, given.folds)
