"""Trains the screener: low-rank changes to all-MiniLM-L6-v2 and a head that marks the tokens of foreign orders."""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lazaretto_lab.training.screener.corpora import Sample

Row = tuple[list[int], list[float], float]
"""Token ids, a mark per token (1: part of an order), and the label of the text."""
TOP_TOKENS = 6
"""The risk of a text is the mean logit of its most suspicious tokens: an order is short, its context may be long."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """Everything that training depends on, besides the samples."""

    rank: int = 16
    epochs: int = 3
    batch: int = 256
    rate: float = 2e-3
    window: int = 256
    seed: int = 0


def train(
    rows: Sequence[Row], minilm: Path, recipe: Recipe, report: Callable[[str], None] = print
) -> tuple[dict[str, NDArray[np.float32]], Any, Any]:
    """Adapter and head as arrays, and the trained (model, head) for scoring in place."""
    import torch
    from torch import nn

    torch.manual_seed(recipe.seed)
    torch.set_float32_matmul_precision("high")
    rng = random.Random(recipe.seed)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model, adapters = _adapted(minilm, recipe.rank)
    head = nn.Linear(384, 1)
    model.to(device).train()
    head.to(device)
    parameters = [*(p for a in adapters.values() for p in (a.down, a.up)), *head.parameters()]
    optimizer = torch.optim.AdamW(parameters, lr=recipe.rate, weight_decay=0.01)
    lengths = [len(row[0]) for row in rows]
    all_ids, all_mask, all_marks, all_labels = _tensors(rows, device)
    steps = recipe.epochs * (len(rows) // recipe.batch)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, recipe.rate, total_steps=steps + 1, pct_start=0.1)
    done = 0
    for epoch in range(recipe.epochs):
        losses = []
        for batch in _by_length(lengths, recipe.batch, rng):
            pick, width = torch.tensor(batch, device=device), max(lengths[i] for i in batch)
            ids, mask, marks = (t[pick, :width] for t in (all_ids, all_mask, all_marks))
            labels = all_labels[pick]
            logits = head(model(input_ids=ids, attention_mask=mask).last_hidden_state).squeeze(-1)
            token = nn.functional.binary_cross_entropy_with_logits(logits, marks, reduction="none")
            inner = mask.float()
            inner[:, 0] = 0
            token_loss = (token * inner).sum() / inner.sum()
            record_loss = nn.functional.binary_cross_entropy_with_logits(pooled(logits, mask), labels)
            loss = token_loss + record_loss
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(parameters, 1.0)
            optimizer.step()
            if done < steps:
                schedule.step()
            done += 1
            losses.append(loss.detach())
        report(f"epoch {epoch + 1}/{recipe.epochs}: loss {float(torch.stack(losses).mean()):.4f}")
    arrays: dict[str, NDArray[np.float32]] = {}
    for name, a in adapters.items():
        arrays[f"{name}.weight.lora_a"] = a.down.detach().float().cpu().numpy()
        arrays[f"{name}.weight.lora_b"] = a.up.detach().float().cpu().numpy()
    arrays["head.weight"] = head.weight.detach().float().cpu().numpy()
    arrays["head.bias"] = head.bias.detach().float().cpu().numpy()
    return arrays, model.eval(), head.eval()


def pooled(logits: Any, mask: Any) -> Any:
    """One logit per text: the mean of its top token logits, [CLS] and padding left out."""
    import torch

    hidden = logits.masked_fill(mask == 0, -1e4).clone()
    hidden[:, 0] = -1e4
    k = min(TOP_TOKENS, hidden.shape[1])
    top = torch.topk(hidden, k, dim=1).values
    valid = (top > -9e3).float()
    return (top * valid).sum(1) / valid.sum(1).clamp(min=1)


def _adapted(minilm: Path, rank: int) -> tuple[Any, dict[str, Any]]:
    import torch
    from safetensors.torch import load_file
    from torch import nn
    from transformers import BertConfig, BertModel

    class LowRank(nn.Module):
        """A frozen linear layer plus a trainable low-rank change."""

        def __init__(self, base: Any) -> None:
            super().__init__()
            self.base = base
            self.down = nn.Parameter(torch.randn(rank, base.in_features) / base.in_features**0.5)
            self.up = nn.Parameter(torch.zeros(base.out_features, rank))

        def forward(self, x: Any) -> Any:
            return self.base(x) + nn.functional.linear(nn.functional.linear(x, self.down), self.up)

    model: Any = BertModel(BertConfig.from_pretrained(minilm), add_pooling_layer=False)
    weights = {k: v.float() for k, v in load_file(minilm / "model.safetensors").items()}
    model.load_state_dict(weights, strict=False)
    model.requires_grad_(False)
    adapters: dict[str, Any] = {}
    for name, module in list(model.named_modules()):
        if isinstance(module, nn.Linear) and name.startswith("encoder"):
            parent = model.get_submodule(name.rpartition(".")[0])
            adapters[name] = LowRank(module)
            setattr(parent, name.rpartition(".")[2], adapters[name])
    return model, adapters


def encode_samples(samples: Sequence[Sample], minilm: Path, window: int) -> list[Row]:
    """Token ids, token marks and label of each sample; a window of a long text keeps the order inside."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(minilm / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    encoded = tokenizer.encode_batch([s.text for s in samples], add_special_tokens=False)
    body = window - 2
    rows: list[Row] = []
    for sample, got in zip(samples, encoded, strict=True):
        marks = np.zeros(len(got.ids), np.float32)
        for a, b in sample.spans:
            marks[[i for i, (s, e) in enumerate(got.offsets) if a < e and s < b]] = 1.0
        start = 0
        if len(got.ids) > body and sample.poisoned:
            first = int(marks.argmax())
            start = max(0, min(first - (zlib.crc32(sample.pair.encode()) % body) // 2, len(got.ids) - body))
        rows.append(
            (
                [101, *got.ids[start : start + body], 102],
                [0.0, *marks[start : start + body], 0.0],
                float(sample.poisoned),
            )
        )
    return rows


def _by_length(lengths: Sequence[int], batch: int, rng: random.Random) -> list[list[int]]:
    """Batches of similar length, so that little padding is computed, in random order."""
    order = sorted(range(len(lengths)), key=lambda i: lengths[i] + rng.random() * 16)
    batches = [order[i : i + batch] for i in range(0, len(order) - batch + 1, batch)]
    rng.shuffle(batches)
    return batches


def _tensors(rows: Sequence[Row], device: str) -> tuple[Any, Any, Any, Any]:
    import torch

    longest = max(len(r[0]) for r in rows)
    ids = torch.zeros((len(rows), longest), dtype=torch.long)
    mask = torch.zeros((len(rows), longest), dtype=torch.long)
    marks = torch.zeros((len(rows), longest))
    for n, (tokens, marked, _) in enumerate(rows):
        ids[n, : len(tokens)] = torch.tensor(tokens)
        mask[n, : len(tokens)] = 1
        marks[n, : len(tokens)] = torch.tensor(marked)
    labels = torch.tensor([r[2] for r in rows])
    return ids.to(device), mask.to(device), marks.to(device), labels.to(device)


def encode_windows(texts: Sequence[str], minilm: Path, window: int) -> list[list[list[int]]]:
    """Token ids of each text's windows, which overlap by half."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(minilm / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    body = window - 2
    windowed: list[list[list[int]]] = []
    for ids in (e.ids for e in tokenizer.encode_batch(list(texts), add_special_tokens=False)):
        starts = range(0, max(1, len(ids) - body // 2), body // 2) if len(ids) > body else [0]
        windowed.append([[101, *ids[s : s + body], 102] for s in starts])
    return windowed


def score(model: Any, head: Any, windowed: Sequence[Sequence[list[int]]]) -> NDArray[np.float64]:
    """One logit per text: the largest over its windows."""
    import torch

    device = next(head.parameters()).device
    windows: list[Row] = [(ids, [0.0] * len(ids), 0.0) for several in windowed for ids in several]
    owner = [n for n, several in enumerate(windowed) for _ in several]
    result = np.full(len(windowed), -1e4)
    order = sorted(range(len(windows)), key=lambda i: len(windows[i][0]))
    for i in range(0, len(order), 128):
        chunk = order[i : i + 128]
        ids_, mask, _, _ = _tensors([windows[j] for j in chunk], str(device))
        with torch.inference_mode():
            values = pooled(head(model(input_ids=ids_, attention_mask=mask).last_hidden_state).squeeze(-1), mask)
        for j, value in zip(chunk, values.tolist(), strict=True):
            result[owner[j]] = max(result[owner[j]], value)
    return result
