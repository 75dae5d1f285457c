"""Trains a reader: low-rank changes to a trunk, a mark per token for orders, one score for harm.

Needs torch, transformers, tokenizers and numpy alone, the folder that ``bundle.py`` and ``trunks.py`` wrote, and the
screener's ``training.py`` beside it (its sampler makes the texts with orders in them). It runs on a machine that has
neither the data nor this project:

    python training.py --pack PACK --trunk mpnet --split 0 --out OUT      # a split: scores of what it left out
    python training.py --pack PACK --trunk mpnet --split -1 --out OUT     # nothing left out: the weights that ship
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset

try:
    from lazaretto_lab.training.screener import training as screener
except ImportError:  # on a training machine, beside this file
    import screener_training as screener  # type: ignore[no-redef,import-not-found]

WINDOW = 256
MOST_WINDOWS = 4
KNOWN = {"en", "de", "fr", "es", "it", "pt", "nl", "hi-Latn"}
"""Languages for trunks whose word pieces are English."""
_END = re.compile(r"\n|[.!?。！？।] ?")


@dataclass(frozen=True, slots=True)
class Trunk:
    """How a trunk is built and trained."""

    kind: str
    layers: int
    width: int
    heads: int
    inner: int
    places: int
    begin: int
    end: int
    dash: str
    rank: int
    rate: float
    steps: int
    languages: frozenset[str] | None


TRUNKS = {
    "minilm": Trunk("bert", 6, 384, 12, 1536, 512, 101, 102, "-", 32, 1.5e-3, 1000, frozenset(KNOWN)),
    "mpnet": Trunk("mpnet", 12, 768, 12, 3072, 514, 0, 2, "-", 16, 5e-4, 1000, frozenset(KNOWN)),
    "e5": Trunk("bert", 12, 384, 12, 1536, 512, 0, 2, "▁-", 32, 1e-3, 1000, None),
}


def load_trunk(folder: Path, trunk: Trunk) -> tuple[Any, Any, NDArray[np.int32] | None]:
    """The trunk in full precision, its tokenizer, and which words were packed."""
    from tokenizers import Tokenizer
    from transformers import BertConfig, BertModel, MPNetConfig, MPNetModel

    with np.load(folder / "trunk.npz") as file:
        arrays = {name: file[name] for name in file.files}
    keep = arrays.pop("keep", None)
    state = dict(_unpacked(arrays))
    words = state["embeddings.word_embeddings.weight"].shape[0]
    sizes = {
        "vocab_size": words, "hidden_size": trunk.width, "num_hidden_layers": trunk.layers,
        "num_attention_heads": trunk.heads, "intermediate_size": trunk.inner, "max_position_embeddings": trunk.places,
    }  # fmt: skip
    if trunk.kind == "mpnet":
        model: Any = MPNetModel(MPNetConfig(**sizes, layer_norm_eps=1e-5), add_pooling_layer=False)
    else:
        model = BertModel(BertConfig(**sizes), add_pooling_layer=False)
    missing = model.load_state_dict(state, strict=False).missing_keys
    if [name for name in missing if "position_ids" not in name]:
        raise SystemExit(f"the trunk lacks {missing[:5]}")
    return model, Tokenizer.from_str(gzip.decompress((folder / "tokenizer.json.gz").read_bytes()).decode()), keep


def _unpacked(arrays: Mapping[str, NDArray[Any]]) -> Iterator[tuple[str, Any]]:
    for name, value in arrays.items():
        if name.startswith("q8/"):
            scale = arrays[f"scale/{name[3:]}"]
            yield name[3:], torch.from_numpy(value.astype(np.float32) * scale[:, None])
        elif name.startswith("q4/"):
            rows = value.reshape(len(value), -1, 18)
            scale = rows[:, :, :2].copy().view("<f2").astype(np.float32)
            nibbles = np.concatenate([rows[:, :, 2:] & 15, rows[:, :, 2:] >> 4], axis=2).astype(np.float32) - 8
            yield name[3:], torch.from_numpy((nibbles * scale).reshape(len(value), -1))
        elif not name.startswith("scale/"):
            yield name, torch.from_numpy(np.array(value, np.float32))


class LowRank(nn.Module):
    """A frozen product with a trained low-rank change."""

    def __init__(self, inner: nn.Linear, rank: int) -> None:
        super().__init__()
        self.inner = inner
        self.down = nn.Parameter(torch.randn(rank, inner.in_features) / inner.in_features**0.5)
        self.up = nn.Parameter(torch.zeros(inner.out_features, rank))

    def forward(self, x: Any) -> Any:
        """The product of x with weight + up @ down."""
        return self.inner(x) + functional.linear(functional.linear(x, self.down), self.up)


class Reader(nn.Module):
    """A trunk with two heads."""

    def __init__(self, trunk: Any, width: int, rank: int) -> None:
        super().__init__()
        for parameter in trunk.parameters():
            parameter.requires_grad_(False)
            if torch.cuda.is_available():  # else every pass would round the frozen weights anew
                parameter.data = parameter.data.bfloat16()
        self.changed: dict[str, LowRank] = {}
        for name, module in list(trunk.named_modules()):
            if isinstance(module, nn.Linear) and name.startswith("encoder."):
                parent = trunk.get_submodule(name.rpartition(".")[0])
                self.changed[name] = LowRank(module, rank)
                setattr(parent, name.rpartition(".")[2], self.changed[name])
        self.trunk, self.marks, self.harm = trunk, nn.Linear(width, 1), nn.Linear(width, 1)

    def forward(self, ids: Any, mask: Any) -> tuple[Any, Any]:
        """A logit per token (orders), and one per text (harm)."""
        states = self.trunk(input_ids=ids, attention_mask=mask).last_hidden_state
        seen = mask.unsqueeze(-1).to(states.dtype)
        mean = (states * seen).sum(1) / seen.sum(1)
        return self.marks(states).squeeze(-1).float(), self.harm(mean).squeeze(-1).float()

    def arrays(self) -> dict[str, NDArray[np.float16]]:
        """What was trained."""
        found = {}
        for name, change in self.changed.items():
            found[f"{name}.weight.lora_a"] = change.down.detach().half().cpu().numpy()
            found[f"{name}.weight.lora_b"] = change.up.detach().half().cpu().numpy()
        for name, head in (("marks", self.marks), ("harm", self.harm)):
            found[f"head.{name}.weight"] = head.weight.detach().half().cpu().numpy()
            found[f"head.{name}.bias"] = head.bias.detach().half().cpu().numpy()
        return found


class Texts:
    """Tokenizes for one trunk; words that were not packed are unknown."""

    def __init__(self, tokenizer: Any, keep: NDArray[np.int32] | None, trunk: Trunk) -> None:
        self._tokenizer = tokenizer
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        self._place = None
        if keep is not None:
            self._place = np.full(int(keep.max()) + 1, int(np.flatnonzero(keep == 3)[0]), np.int64)
            self._place[keep] = np.arange(len(keep))
        self.begin, self.end = (int(self._mapped([one])[0]) for one in (trunk.begin, trunk.end))
        self.dash = int(self._mapped([self._tokenizer.token_to_id(trunk.dash)])[0])

    def _mapped(self, ids: Sequence[int]) -> NDArray[np.int64]:
        found = np.array(ids, np.int64)
        return found if self._place is None else self._place[np.minimum(found, len(self._place) - 1)]

    def encode(self, texts: Sequence[str], empty: str = ".") -> list[tuple[NDArray[np.int64], list[tuple[int, int]]]]:
        """Ids and offsets of each text; ``empty`` in the place of no text."""
        got = self._tokenizer.encode_batch([text or empty for text in texts], add_special_tokens=False)
        return [(self._mapped(one.ids), one.offsets) for one in got]


def rows_of(path: Path) -> list[dict[str, Any]]:
    """Rows of a bundle file."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def make_material(pack: Path, texts: Texts, trunk: Trunk) -> Any:
    """The screener's material in this trunk's tokens."""
    settings = json.loads((pack / "splits.json").read_text())
    lines, contexts = rows_of(pack / "lines.jsonl.gz"), rows_of(pack / "contexts.jsonl.gz")
    if trunk.languages is not None:
        lines = [x for x in lines if x["l"] in trunk.languages]
        contexts = [x for x in contexts if x["l"] in trunk.languages]
    items = [*lines, *contexts]
    roles = ["order", "inside", "request", "clean", "note", "alone", "context"]
    sources, languages = sorted({x["s"] for x in items}), sorted({x["l"] for x in items})
    encoded = texts.encode([x["t"] for x in items])
    places: list[list[int]] = [[] for _ in lines]
    for context, (_, offsets) in zip(contexts, encoded[len(lines) :], strict=True):
        cuts = context["places"] or [m.end() for m in _END.finditer(context["t"])]
        ends = np.array([end for _, end in offsets] or [0])
        places.append(sorted({p for cut in cuts if (p := int(np.searchsorted(ends, cut, side="right"))) < 600}))
    names = {
        "role": roles, "source": sources, "language": languages, "weights": settings["weights"],
        "inside_weights": {**settings["inside"]},
    }  # fmt: skip
    cases = [x for x in rows_of(pack / "cases.jsonl.gz") if trunk.languages is None or x["l"] in trunk.languages]
    names["case_sources"] = sorted({x["s"] for x in cases})
    pieces = [p for x in cases for p in (x["t"][: x["a"]], x["t"][x["a"] : x["b"]], x["t"][x["b"] :], x["h"])]
    parts = [ids[-600:] if n % 4 == 0 else ids[:600] for n, (ids, _) in enumerate(texts.encode(pieces, empty=""))]
    flat = [ids[:600].astype(np.uint32) for ids, _ in encoded]
    starts = np.cumsum([0, *(len(x) for x in flat)], dtype=np.uint32)
    place_starts = np.cumsum([0, *(len(x) for x in places)], dtype=np.uint32)
    screener.DASH = texts.dash
    return screener.Material(
        {
            "ids": np.concatenate(flat),
            "starts": starts,
            "places": np.array([p for several in places for p in several], np.uint16),
            "place_starts": place_starts,
            "role": np.array([roles.index(x.get("role", "context")) for x in items], np.uint8),
            "source": np.array([sources.index(x["s"]) for x in items], np.uint8),
            "language": np.array([languages.index(x["l"]) for x in items], np.uint8),
            "names": np.frombuffer(json.dumps(names).encode(), np.uint8),
            "case_ids": np.concatenate(parts).astype(np.uint32),
            "case_starts": np.cumsum([0, *(len(x) for x in parts)], dtype=np.uint32),
            "case_about": np.array([[names["case_sources"].index(x["s"]), 1] for x in cases], np.uint8),
        }
    )


Row = tuple[NDArray[np.int64], NDArray[np.float32], float, int]
"""Ids, marks, label, task (0: orders, 1: harm)."""


class Batches(Dataset[Any]):
    """Both tasks in one batch. Batch ``step`` depends on seed and step alone."""

    def __init__(
        self,
        sampler: Any,
        harm: list[dict[str, Any]],
        ids: list[NDArray[np.uint32]],
        texts: Texts,
        size: int,
        steps: int,
        seed: int,
    ) -> None:
        self._sampler, self._ids, self._texts = sampler, ids, texts
        self._size, self._steps, self._seed = size, steps, seed
        count = Counter((row["s"], row["y"], row["l"]) for row in harm)
        p = np.array(
            [
                row["w"]
                * min(1.0, 400 / count[(row["s"], row["y"], row["l"])]) ** 0.5
                * (3 if row["c"] == "dev" else 1)
                for row in harm
            ]
        )
        self._label = np.array([row["y"] for row in harm], np.float32)
        self._cumulated = np.cumsum(p / p.sum())

    def __len__(self) -> int:
        return self._steps

    def __getitem__(self, step: int) -> list[tuple[NDArray[Any], ...]]:
        rng = np.random.default_rng((self._seed, step))
        rows: list[Row] = []
        for ids, marks, label in self._sampler.batch(rng, self._size):
            framed = ids.copy()
            framed[0], framed[-1] = self._texts.begin, self._texts.end
            rows.append((framed, marks, label, 0))
        for n in np.minimum(np.searchsorted(self._cumulated, rng.random(self._size)), len(self._ids) - 1):
            ids = self._ids[n].astype(np.int64)
            if len(ids) > WINDOW - 2:
                start = int(rng.integers(len(ids) - WINDOW + 3)) if rng.random() < 0.5 else 0
                ids = ids[start : start + WINDOW - 2]
            framed = np.concatenate([[self._texts.begin], ids, [self._texts.end]])
            rows.append((framed, np.zeros(len(framed), np.float32), float(self._label[n]), 1))
        rows.sort(key=lambda row: len(row[0]))
        cuts = (0, len(rows) // 2, len(rows) * 4 // 5, len(rows))
        return [_padded(rows[a:b]) for a, b in pairwise(cuts)]


def _padded(rows: Sequence[Row]) -> tuple[NDArray[Any], ...]:
    longest = -(-max(len(row[0]) for row in rows) // 8) * 8
    ids, mask = np.ones((len(rows), longest), np.int64), np.zeros((len(rows), longest), np.int64)
    marks = np.zeros((len(rows), longest), np.float32)
    for n, (tokens, marked, _, _) in enumerate(rows):
        ids[n, : len(tokens)], mask[n, : len(tokens)], marks[n, : len(tokens)] = tokens, 1, marked
    return ids, mask, marks, np.array([r[2] for r in rows], np.float32), np.array([r[3] for r in rows], np.int64)


def _loss(reader: Reader, part: Sequence[Any]) -> Any:
    ids, mask, marks, labels, task = part
    tokens, harm = reader(ids, mask)
    orders = task == 0
    loss = functional.binary_cross_entropy_with_logits(harm[~orders], labels[~orders], reduction="sum")
    if bool(orders.any()):
        inner = mask[orders].float()
        inner[:, 0] = 0
        token = functional.binary_cross_entropy_with_logits(tokens[orders], marks[orders], reduction="none")
        per_text = (token * inner).sum(1) / inner.sum(1).clamp(min=1)
        pooled = screener.pooled(tokens[orders], mask[orders])
        record = functional.binary_cross_entropy_with_logits(pooled, labels[orders], reduction="none")
        loss = loss + (per_text + record).sum()
    return loss


def train(reader: Reader, batches: Batches, trunk: Trunk, device: str, workers: int) -> None:
    """In place."""
    parameters = [p for p in reader.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(parameters, lr=trunk.rate, weight_decay=0.01, fused=device == "cuda")
    total = len(batches)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, trunk.rate, total_steps=total + 1, pct_start=0.08)
    loader: Any = DataLoader(batches, batch_size=None, shuffle=False, num_workers=workers, collate_fn=lambda x: x)
    began, losses = time.time(), list[Any]()
    for step, parts in enumerate(loader):
        optimizer.zero_grad()
        size = sum(len(part[0]) for part in parts)
        running = torch.zeros((), device=device)
        for part in parts:
            moved = [torch.from_numpy(one).to(device, non_blocking=True) for one in part]
            with torch.autocast(device, dtype=torch.bfloat16, enabled=device == "cuda"):
                loss = _loss(reader, moved) / size
            loss.backward()
            running += loss.detach()
        nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        schedule.step()
        losses.append(running)
        if (step + 1) % 100 == 0 or step + 1 == total:
            mean = float(torch.stack(losses[-100:]).mean())
            print(f"  step {step + 1}/{total}: loss {mean:.4f}, {time.time() - began:.0f} s", flush=True)


def score(reader: Reader, texts: Texts, rows: Sequence[str], device: str) -> NDArray[np.float32]:
    """(orders, harm) of each text: the largest over its windows."""
    windows, owner = list[NDArray[np.int64]](), list[int]()
    body = WINDOW - 2
    for n, (ids, _) in enumerate(texts.encode(rows)):
        starts = list(range(0, max(1, len(ids) - body // 2), body // 2)) if len(ids) > body else [0]
        for start in starts[:MOST_WINDOWS]:
            windows.append(np.concatenate([[texts.begin], ids[start : start + body], [texts.end]]))
            owner.append(n)
    found = np.full((len(rows), 2), -1e4, np.float32)
    order = sorted(range(len(windows)), key=lambda i: len(windows[i]))
    reader.eval()
    for i in range(0, len(order), 256):
        chunk = order[i : i + 256]
        made = _padded([(windows[j], np.zeros(len(windows[j]), np.float32), 0.0, 0) for j in chunk])
        given, mask = (torch.from_numpy(one).to(device) for one in made[:2])
        with torch.inference_mode(), torch.autocast(device, dtype=torch.bfloat16, enabled=device == "cuda"):
            tokens, harm = reader(given, mask)
            values = torch.stack([screener.pooled(tokens, mask), harm], 1).float().cpu().numpy()
        for j, value in zip(chunk, values, strict=True):
            found[owner[j]] = np.maximum(found[owner[j]], value)
    return found


def main() -> None:
    """One training."""
    parser = argparse.ArgumentParser()
    for name in ("pack", "out"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--trunk", choices=sorted(TRUNKS), required=True)
    parser.add_argument("--split", type=int, required=True)
    parser.add_argument("--steps", type=int, default=0)
    parser.add_argument("--size", type=int, default=96)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=4)
    given = parser.parse_args()
    trunk = TRUNKS[given.trunk]
    torch.manual_seed(given.seed)
    torch.set_float32_matmul_precision("high")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model, tokenizer, keep = load_trunk(given.pack / given.trunk, trunk)
    texts = Texts(tokenizer, keep, trunk)
    settings = json.loads((given.pack / "splits.json").read_text())
    out = set(settings["left_out"].get(str(given.split), ()))
    material = make_material(given.pack, texts, trunk)
    sampler = screener.Sampler(material, sorted(out), screener.Recipe(steps=given.steps or trunk.steps))
    harm = rows_of(given.pack / "harm.jsonl.gz")
    kept = [r for r in harm if r["s"] not in out and (given.split < 0 or r["fold"] != given.split)]
    if trunk.languages is not None:
        kept = [r for r in kept if r["l"] in trunk.languages]
    ids = [x[:1000].astype(np.uint32) for x, _ in texts.encode([r["t"] for r in kept])]
    print(f"{given.trunk} split {given.split}: {len(kept)} texts of harm, {len(out)} sources left out", flush=True)
    reader = Reader(model, trunk.width, trunk.rank).to(device).train()
    batches = Batches(sampler, kept, ids, texts, given.size, given.steps or trunk.steps, given.seed)
    train(reader, batches, trunk, device, given.workers)
    given.out.mkdir(parents=True, exist_ok=True)
    name = f"{given.trunk}-{'final' if given.split < 0 else given.split}-{given.seed}"
    if given.split < 0:
        np.savez(given.out / f"{name}.npz", allow_pickle=False, **reader.arrays())
        return
    tests = [(n, r) for n, r in enumerate(rows_of(given.pack / "orders_test.jsonl.gz")) if r["split"] == given.split]
    judged = [(n, r) for n, r in enumerate(harm) if r["fold"] == given.split]
    np.savez(
        given.out / f"{name}.npz",
        allow_pickle=False,
        orders=np.array([n for n, _ in tests]),
        orders_score=score(reader, texts, [r["t"] for _, r in tests], device),
        harm=np.array([n for n, _ in judged]),
        harm_score=score(reader, texts, [r["t"] for _, r in judged], device),
    )


if __name__ == "__main__":
    main()
