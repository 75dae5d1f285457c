"""Trains a relation model: low-rank changes to an encoder that reads two claims at once, and a head.

Needs torch and numpy alone, and runs as a script, so that it can be carried to a machine that has nothing else:

    python training.py INPUTS MINILM OUT --seconds 470
    python training.py INPUTS MINILM OUT --mpnet MPNET

INPUTS holds ``train.npz`` and ``scored.npz`` (``pairs.py`` writes them), MINILM and MPNET are the encoders' files. The
shipped weights come first, then one run per fold of the written texts and per source that is left out, as many as
the time allows; each writes the scores of what it had not seen.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

TOKENS_OLD, TOKENS_NEW = 72, 96
RELATIONS = 4
HIDDEN = 64
MATRICES = ("attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense",
            "intermediate.dense", "output.dense")  # fmt: skip
BERT_BEGIN, BERT_END = 101, 102
"""As the packs frame a text: they hold the word pieces of BERT."""
FOLDS = 5
FOLDED = ("written", "more", "notes", "days")
"""Sources that have a part for each fold of the kinds of work; ``more`` is made from others and scored by no run."""
LEFT_OUT: dict[str, tuple[str, ...]] = {
    "final": (),
    **{f"fold_{n}": tuple(f"{name}_{n}" for name in FOLDED) for n in range(FOLDS)},
    "conflictqa": ("conflictqa",),
    "poisonedrag": ("poisonedrag",),
    "templama": ("templama",),
    "pararel": ("pararel",),
    "templates": ("templates",),
}
"""Run -> sources it does not see; texts that come from one corpus leave together."""
NEVER = ("own_cal", "own_held")
"""Scored by every run, trained on by none."""
TOPICS = ("own_train", "more_own")
PEACEFUL = ("notes_", "days_")
WRITTEN = ("written_", "more_")


@dataclass(frozen=True)
class Trunk:
    """An encoder's shape, and where it differs from BERT."""

    width: int
    layers: int
    heads: int
    rate: float
    norm: float
    first_place: int = 0
    shift: int = 0
    """What a word's number is above that in BERT."""
    begin: int = BERT_BEGIN
    end: int = BERT_END
    names: Mapping[str, str] = field(default_factory=dict)
    """Its names for BERT's matrices."""

    def at(self, layer: int, matrix: str) -> str:
        """The name of a matrix of a layer."""
        return f"encoder.layer.{layer}.{self.names.get(matrix, matrix)}"


TRUNKS = {
    "minilm": Trunk(384, 6, 12, 1.2e-3, 1e-12),
    "mpnet": Trunk(
        768, 12, 12, 4e-4, 1e-5, first_place=2, shift=4, begin=0, end=2,
        names={
            "attention.self.query": "attention.attn.q", "attention.self.key": "attention.attn.k",
            "attention.self.value": "attention.attn.v", "attention.output.dense": "attention.attn.o",
            "attention.output.LayerNorm": "attention.LayerNorm",
        },
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Recipe:
    """Everything training depends on, besides the pairs."""

    rank: int = 32
    epochs: int = 5
    size: int = 160_000
    """Pairs of an epoch."""
    batch: int = 512
    blind: float = 0.2
    """Share of pairs whose features are hidden, so that the text alone must do."""
    smoothing: float = 0.08
    features: bool = True
    topics: float = 0.12
    """Share of what is drawn that is our own topics."""
    written: float = 0.4
    """The same of written statements."""
    peaceful: float = 0.12
    """The same of notes beside their nearest."""
    seed: int = 0
    drawn: int = 0
    """Another draw of the same texts: such trainings begin with the same matrices, so their weights can be averaged."""


def load_encoder(path: Path) -> dict[str, torch.Tensor]:
    """The encoder's arrays from a safetensors file, without the library, or from an .npz file (``reader.trunks``)."""
    if path.suffix == ".npz":
        with np.load(path) as arrays:
            plain = {name: arrays[name] for name in arrays if not name.startswith(("q8/", "scale/"))}
            for name in (one.removeprefix("q8/") for one in arrays if one.startswith("q8/")):
                plain[name] = arrays[f"q8/{name}"] * arrays[f"scale/{name}"][:, None]
            return {name.removeprefix("bert."): torch.from_numpy(one).float() for name, one in plain.items()}
    raw = path.read_bytes()
    size = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8 : 8 + size])
    kinds = {"F32": torch.float32, "F16": torch.float16, "I64": torch.int64, "BF16": torch.bfloat16}
    found = {}
    for name, about in header.items():
        if name != "__metadata__":
            start, end = about["data_offsets"]
            data = torch.frombuffer(bytearray(raw[8 + size + start : 8 + size + end]), dtype=kinds[about["dtype"]])
            found[name.removeprefix("bert.")] = data.reshape(about["shape"]).float()
    return found


class LowRank(nn.Module):
    """A frozen product plus a trainable low-rank change."""

    weight: torch.Tensor
    bias: torch.Tensor

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor, rank: int) -> None:
        super().__init__()
        kind = torch.bfloat16 if weight.is_cuda else weight.dtype  # else every pass would round the frozen weights anew
        self.register_buffer("weight", weight.to(kind))
        self.register_buffer("bias", bias.to(kind))
        self.down = nn.Parameter(torch.randn(rank, weight.shape[1]) / weight.shape[1] ** 0.5)
        self.up = nn.Parameter(torch.zeros(weight.shape[0], rank))

    def forward(self, x: Any) -> Any:
        return functional.linear(x, self.weight, self.bias) + functional.linear(
            functional.linear(x, self.down), self.up
        )


class Reader(nn.Module):
    """The encoder over a pair, and the head: [CLS], the mean of all states, and the features."""

    def __init__(self, base: dict[str, torch.Tensor], trunk: Trunk, rank: int, features: int) -> None:
        super().__init__()
        self.base, self.trunk = base, trunk
        self.products = nn.ModuleDict()
        for layer in range(trunk.layers):
            for matrix in MATRICES:
                name = trunk.at(layer, matrix)
                self.products[name.replace(".", "/")] = LowRank(base[f"{name}.weight"], base[f"{name}.bias"], rank)
        self.first = nn.Linear(2 * trunk.width + features, HIDDEN)
        self.last = nn.Linear(HIDDEN, RELATIONS)

    def states(self, ids: Any, mask: Any, *, plain: bool = False) -> Any:
        """Token states of texts in BERT's word pieces."""
        base, trunk = self.base, self.trunk
        if trunk.shift:
            moved = torch.where(ids == BERT_BEGIN, trunk.begin, ids + trunk.shift)
            ids = torch.where(ids == BERT_END, trunk.end, moved)

        def norm(x: Any, name: str) -> Any:
            return functional.layer_norm(x, (trunk.width,), base[f"{name}.weight"], base[f"{name}.bias"], trunk.norm)

        def product(x: Any, name: str) -> Any:
            if plain:
                return functional.linear(x, base[f"{name}.weight"], base[f"{name}.bias"])
            return self.products[name.replace(".", "/")](x)

        batch, length = ids.shape
        x = base["embeddings.word_embeddings.weight"][ids]
        if "embeddings.token_type_embeddings.weight" in base:
            x = x + base["embeddings.token_type_embeddings.weight"][0]
        places = base["embeddings.position_embeddings.weight"][trunk.first_place : trunk.first_place + length]
        x = functional.dropout(norm(x + places, "embeddings.LayerNorm"), 0.1, self.training and not plain)
        seen = mask[:, None, None, :]
        if "encoder.relative_attention_bias.weight" in base:
            apart = base["encoder.relative_attention_bias.weight"][_buckets(length).to(ids.device)].permute(2, 0, 1)
            seen = torch.where(seen, apart[None], torch.finfo(torch.bfloat16).min).to(
                torch.bfloat16 if torch.is_autocast_enabled() else apart.dtype
            )
        for layer in range(trunk.layers):
            q, k, v = (
                product(x, trunk.at(layer, f"attention.self.{n}")).view(batch, length, trunk.heads, -1).transpose(1, 2)
                for n in ("query", "key", "value")
            )
            y = functional.scaled_dot_product_attention(q, k, v, attn_mask=seen)
            y = product(y.transpose(1, 2).reshape(batch, length, -1), trunk.at(layer, "attention.output.dense"))
            y = functional.dropout(y, 0.1, self.training and not plain)
            x = norm(x + y, trunk.at(layer, "attention.output.LayerNorm"))
            y = functional.gelu(product(x, trunk.at(layer, "intermediate.dense")))
            y = functional.dropout(product(y, trunk.at(layer, "output.dense")), 0.1, self.training and not plain)
            x = norm(x + y, trunk.at(layer, "output.LayerNorm"))
        return x

    def forward(self, ids: Any, mask: Any, features: Any) -> Any:
        x = self.states(ids, mask)
        weight = mask.to(x.dtype)[..., None]
        mean = (x * weight).sum(1) / weight.sum(1)
        joined = torch.cat([x[:, 0].float(), mean.float(), features], 1)
        with torch.autocast(ids.device.type, enabled=False):
            return self.last(functional.gelu(self.first(joined)))

    def arrays(self) -> dict[str, np.ndarray]:
        """Adapter and head in the form in which they are shipped."""
        found: dict[str, Any] = {}
        for name, product in self.products.items():
            found[f"{name.replace('/', '.')}.weight.lora_a"] = product.down
            found[f"{name.replace('/', '.')}.weight.lora_b"] = product.up
        for name in ("first", "last"):
            layer = getattr(self, name)
            found[f"head.{name}.weight"], found[f"head.{name}.bias"] = layer.weight, layer.bias
        return {k: v.detach().float().cpu().numpy().astype(np.float16) for k, v in found.items()}


def _buckets(length: int) -> Any:
    """How far apart two tokens are, as mpnet counts it: 16 steps to each side, growing with the distance."""
    places = torch.arange(length)
    distance = places[:, None] - places[None, :]
    away = distance.abs()
    far = 8 + (torch.log(away.clamp(min=1) / 8) / math.log(128 / 8) * 8).long()
    return torch.where(away < 8, away, far.clamp(max=15)) + (distance < 0) * 16


class Pairs:
    """A pack of pairs on the device."""

    def __init__(self, path: Path, device: str) -> None:
        data = np.load(path)
        ends = np.cumsum(data["lengths"].astype(np.int64))
        starts = ends - data["lengths"]
        self.tokens, self.starts, self.lengths = (
            data["tokens"].astype(np.int64),
            starts,
            data["lengths"].astype(np.int64),
        )
        self.old, self.new = data["old"].astype(np.int64), data["new"].astype(np.int64)
        self.label, self.source = data["label"].astype(np.int64), data["source"]
        self.names = [str(n) for n in data["names"]]
        self.where = data["where"]
        self.features = data["features"].astype(np.float32) / 100
        self.device = device
        width = int(self.lengths.max())
        table = np.zeros((len(starts), width), np.int64)
        for i, (s, n) in enumerate(zip(starts, self.lengths, strict=True)):
            table[i, :n] = self.tokens[s : s + n]
        self.table = torch.from_numpy(table).to(device)
        self.sizes = torch.from_numpy(self.lengths).to(device)
        self.device_old = torch.from_numpy(self.old).to(device)
        self.device_new = torch.from_numpy(self.new).to(device)
        self.device_label = torch.from_numpy(self.label).to(device)
        self.device_features = torch.from_numpy(self.features).to(device)
        self.total = np.minimum(self.lengths[self.old], TOKENS_OLD) + np.minimum(self.lengths[self.new], TOKENS_NEW) + 3

    def __len__(self) -> int:
        return len(self.old)

    def add_cosines(self, reader: Reader) -> None:
        """What the plain encoder makes of the two texts one by one: the index knows it anyway."""
        vectors = torch.zeros((len(self.table), reader.trunk.width), device=self.device)
        order = np.argsort(self.lengths)
        with torch.inference_mode(), torch.autocast(self.device, torch.bfloat16, enabled=self.device == "cuda"):
            for i in range(0, len(order), 2048 if self.device == "cuda" else 64):
                rows = torch.from_numpy(order[i : i + (2048 if self.device == "cuda" else 64)]).to(self.device)
                size = self.sizes[rows]
                width = int(size.max()) + 2
                ids = torch.zeros((len(rows), width), dtype=torch.long, device=self.device)
                place = torch.arange(width, device=self.device)[None, :]
                body = self.table[rows][:, : width - 2]
                ids[:, 1 : 1 + body.shape[1]] = body
                ids[:, 0] = 101
                ids[place == size[:, None] + 1] = 102
                mask = place < size[:, None] + 2
                x = reader.states(ids, mask, plain=True).float()
                mean = (x * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)
                vectors[rows] = functional.normalize(mean, dim=1)
        cosine = (vectors[self.device_old] * vectors[self.device_new]).sum(1, keepdim=True)
        self.device_features = torch.cat([self.device_features, cosine], 1)

    def batch(self, rows: np.ndarray) -> tuple[Any, Any, Any]:
        """[CLS] old [SEP] new [SEP], for some pairs."""
        pick = torch.from_numpy(rows).to(self.device)
        old, new = self.device_old[pick], self.device_new[pick]
        first, second = self.sizes[old].clamp(max=TOKENS_OLD), self.sizes[new].clamp(max=TOKENS_NEW)
        width = int(self.total[rows].max())
        place = torch.arange(width, device=self.device)[None, :].expand(len(rows), -1)
        in_old = place - 1
        in_new = place - 2 - first[:, None]
        ids = torch.zeros((len(rows), width), dtype=torch.long, device=self.device)
        ids[:, 0] = 101
        most = self.table.shape[1] - 1
        a = self.table[old].gather(1, in_old.clamp(0, most))
        b = self.table[new].gather(1, in_new.clamp(0, most))
        ids = torch.where((in_old >= 0) & (in_old < first[:, None]), a, ids)
        ids = torch.where((in_new >= 0) & (in_new < second[:, None]), b, ids)
        end = first[:, None] + second[:, None] + 2
        ids = torch.where((place == first[:, None] + 1) | (place == end), torch.full_like(ids, 102), ids)
        return ids, place <= end, self.device_features[pick]


def relation_loss(logits: Any, labels: Any, smoothing: float) -> Any:
    """Cross-entropy; of a pair whose label is past the relations it is only known whether it is a conflict."""
    known = labels < RELATIONS
    loss = logits.new_zeros(len(labels))
    loss[known] = functional.cross_entropy(logits[known], labels[known], label_smoothing=smoothing, reduction="none")
    share = functional.log_softmax(logits, 1)
    for label, either in ((RELATIONS, [0, 3]), (RELATIONS + 1, [1, 2])):
        mine = labels == label
        other = [n for n in range(RELATIONS) if n not in either]
        right, wrong = torch.logsumexp(share[mine][:, either], 1), torch.logsumexp(share[mine][:, other], 1)
        loss[mine] = -(1 - smoothing) * right - smoothing * wrong
    return loss.mean()


def drawn(pairs: Pairs, rows: np.ndarray, recipe: Recipe, rng: np.random.Generator) -> np.ndarray:
    """The pairs of one epoch: public ones, and our own as often as their share asks for; ``recipe.size`` in all."""
    names = np.array(pairs.names)[pairs.source[rows]]

    def begins(several: tuple[str, ...]) -> Any:
        return np.any([np.char.startswith(names, one) for one in several], axis=0)

    topics, peaceful = np.isin(names, TOPICS), begins(PEACEFUL)
    written = begins(WRITTEN) & ~topics
    shares = ((topics, recipe.topics), (peaceful, recipe.peaceful), (written, recipe.written))
    parts = [*shares, (~topics & ~peaceful & ~written, 1 - sum(share for _, share in shares))]
    found = []
    for mine, share in parts:
        each, some = int(recipe.size * share), rows[mine]
        if len(some):
            found.append(np.concatenate([rng.permutation(some) for _ in range(each // len(some) + 1)])[:each])
    return np.concatenate(found)


def train(
    pairs: Pairs, rows: np.ndarray, base: dict[str, torch.Tensor], trunk: Trunk, recipe: Recipe, tag: str
) -> Reader:
    """A reader that has seen some of the pairs."""
    torch.manual_seed(recipe.seed)
    rng = np.random.default_rng(recipe.seed + recipe.drawn)
    device = pairs.device
    reader = Reader(base, trunk, recipe.rank, pairs.device_features.shape[1]).to(device).train()
    parameters = [p for p in reader.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(parameters, lr=trunk.rate, weight_decay=0.01, fused=device == "cuda")
    batches = len(drawn(pairs, rows, recipe, rng)) // recipe.batch
    steps = max(1, recipe.epochs * batches)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, trunk.rate, total_steps=steps + 1, pct_start=0.1)
    started = time.monotonic()
    for epoch in range(recipe.epochs):
        some = drawn(pairs, rows, recipe, rng)
        shuffled = some[np.argsort(pairs.total[some] + rng.random(len(some)) * 12)]
        losses = []
        for one in rng.permutation(batches):
            picked = shuffled[one * recipe.batch : (one + 1) * recipe.batch]
            ids, mask, features = pairs.batch(picked)
            hidden = torch.rand(len(picked), 1, device=device) < recipe.blind
            features = features * ~hidden if recipe.features else features * 0
            with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
                logits = reader(ids, mask, features)
            labels = pairs.device_label[torch.from_numpy(picked).to(device)]
            loss = relation_loss(logits.float(), labels, recipe.smoothing)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(parameters, 1.0)
            optimizer.step()
            schedule.step()
            losses.append(loss.detach())
        mean = float(torch.stack(losses).mean()) if losses else math.nan
        print(
            f"{tag}: epoch {epoch + 1}/{recipe.epochs} loss {mean:.4f} {time.monotonic() - started:.0f} s", flush=True
        )
    return reader.eval()


def score(reader: Reader, pairs: Pairs, rows: np.ndarray, features: bool = True) -> np.ndarray:
    """Logits of some pairs, in full order."""
    found = np.zeros((len(rows), RELATIONS), np.float16)
    order = np.argsort(pairs.total[rows])
    step = 1024 if pairs.device == "cuda" else 64
    with torch.inference_mode(), torch.autocast(pairs.device, torch.bfloat16, enabled=pairs.device == "cuda"):
        for i in range(0, len(order), step):
            part = order[i : i + step]
            ids, mask, told = pairs.batch(rows[part])
            found[part] = reader(ids, mask, told if features else told * 0).float().cpu().numpy()
    return found


def told(name: str, logits: np.ndarray, labels: np.ndarray, never: np.ndarray) -> None:
    """Print how well conflicts are told from peace among what a run had not seen."""
    share = np.exp(logits.astype(np.float32) - logits.max(1, keepdims=True))
    conflict = (share[:, 1] + share[:, 2]) / share.sum(1)
    bad = np.isin(labels, (1, 2, RELATIONS + 1))
    for what, mine in (("left out", ~never), ("own topics", never)):
        if (bad & mine).any() and (~bad & mine).any():
            auc = (conflict[bad & mine][:, None] > conflict[~bad & mine][None]).mean()
            bar = np.quantile(conflict[~bad & mine], 0.985)
            caught = (conflict[bad & mine] > bar).mean()
            print(f"{name}: {what}: AUC {auc:.3f}, {caught:.3f} at 1.5 % of {mine.sum()}", flush=True)


def run(
    inputs: Path, encoders: dict[str, Path], name: str, out: Path, seconds: float, only: list[str], recipe: Recipe
) -> None:
    """The runs of ``LEFT_OUT`` in order, until the time is up."""
    began = time.monotonic()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.set_float32_matmul_precision("high")
    out.mkdir(parents=True, exist_ok=True)
    trunk = TRUNKS[name]
    bases = {
        one: {k: v.to(device) for k, v in load_encoder(path).items() if v.is_floating_point()}
        for one, path in encoders.items()
    }
    train_pairs, scored = Pairs(inputs / "train.npz", device), Pairs(inputs / "scored.npz", device)
    plain = Reader(bases["minilm"], TRUNKS["minilm"], 1, 1).to(device).eval()
    train_pairs.add_cosines(plain)
    scored.add_cosines(plain)
    print(f"{len(train_pairs)} pairs, {len(scored)} to score, {time.monotonic() - began:.0f} s", flush=True)
    results: dict[str, np.ndarray] = {"cosine": scored.device_features[:, -1].cpu().numpy().astype(np.float16)}
    source = np.array(train_pairs.names)[train_pairs.source]
    longest = 0.0
    for left_out in only or list(LEFT_OUT):
        started = time.monotonic()
        if seconds - (started - began) < longest * 1.1:
            print(f"no time left for {left_out}", flush=True)
            break
        without = LEFT_OUT[left_out]
        seen = np.flatnonzero(~np.isin(source, (*without, *NEVER)))
        reader = train(train_pairs, seen, bases[name], trunk, recipe, left_out)
        if left_out == "final":
            np.savez(out / "relation.npz", **reader.arrays())  # type: ignore[arg-type]
        if not left_out.startswith("fold_"):
            results[f"{left_out}/scored"] = score(reader, scored, np.arange(len(scored)), recipe.features)
        left = np.flatnonzero(np.isin(source, [one for one in without if not one.startswith("more_")]))
        if not left_out.startswith("fold_"):
            left = left[:: max(1, len(left) // 4000)]
        left = np.concatenate([left, np.flatnonzero(np.isin(source, NEVER))])
        results[f"{left_out}/rows"] = left.astype(np.int32)
        results[f"{left_out}/logits"] = score(reader, train_pairs, left, recipe.features)
        told(left_out, results[f"{left_out}/logits"], train_pairs.label[left], np.isin(source[left], NEVER))
        np.savez_compressed(out / f"scores-{only[0] if only else 'all'}.npz", **results)  # type: ignore[arg-type]
        longest = max(longest, time.monotonic() - started)
        print(f"{left_out}: {time.monotonic() - started:.0f} s, {time.monotonic() - began:.0f} s in all", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("inputs", type=Path)
    parser.add_argument("minilm", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--mpnet", type=Path, help="train this encoder; cosines are still those of MiniLM")
    parser.add_argument("--seconds", type=float, default=465)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--epochs", type=int, default=Recipe.epochs)
    parser.add_argument("--rank", type=int, default=Recipe.rank)
    parser.add_argument("--batch", type=int, default=Recipe.batch)
    parser.add_argument("--written", type=float, default=Recipe.written)
    parser.add_argument("--drawn", type=int, default=Recipe.drawn)
    given = parser.parse_args()
    chosen = Recipe(rank=given.rank, epochs=given.epochs, batch=given.batch, written=given.written, drawn=given.drawn)
    files = {"minilm": given.minilm, **({"mpnet": given.mpnet} if given.mpnet else {})}
    run(given.inputs, files, list(files)[-1], given.out, given.seconds, given.only, chosen)
