"""Trains the screener: low-rank changes to all-MiniLM-L6-v2 and heads that mark the tokens of foreign orders, of quiet
lies, and of poison in descriptions of tools.

Needs torch and numpy alone, and what ``prepare`` wrote: it runs on a machine that has neither the data nor this
project. ``python training.py --material material.npz --base minilm.safetensors --out out``.
"""

from __future__ import annotations

import argparse
import io
import json
import lzma
import os
import struct
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset

TOP_TOKENS = 6
"""The risk of a text is the mean logit of its most suspicious tokens: an order is short, its context may be long."""
HEADS, WIDTH, LAYERS = 12, 384, 6
WORDS = "embeddings/word_embeddings/weight"
WINDOW = 256
DASH = 1011
"""The token of a dash, between the lines of a made-up list."""
LEAST_ROOM = 40
"""Tokens that a stretch of a long text has at least, besides what is planted in it."""
ORDERS, QUIET, TOOLS = range(3)
"""What a row of the head marks."""
TASK_OF = {"rules": QUIET, "tools": TOOLS}
"""By the first word of a source's name; all others are about orders."""


def task_of(source: str) -> int:
    """Which row of the head a source is about."""
    return TASK_OF.get(source.partition("_")[0], ORDERS)


@dataclass(frozen=True, slots=True)
class Recipe:
    """Everything that training depends on, besides the material."""

    rank: int = 32
    word_rank: int = 16
    """Of the change to the word embeddings; 0: none."""
    steps: int = 1000
    batch: int = 256
    written: float = 0.3
    """Share of the texts with orders that are written pairs."""
    quiet: int = 48
    """Texts per step that are quiet lies, honest rules or notes; ``tools``: descriptions of tools."""
    tools: int = 48
    numbers: float = 0.3
    """Share of texts whose numbers are exchanged for others: a number is no sign of an order."""
    rate: float = 1.5e-3
    dropout: float = 0.1
    seed: int = 0
    drawn: int = 0
    """Another draw of the same texts: such trainings begin with the same matrices, so their weights can be averaged."""


@dataclass(frozen=True, slots=True)
class Case:
    """A written text, with what is bad in it apart; ``host``: the honest text beside it, if there is one."""

    source: str
    bad: bool
    before: NDArray[np.uint16]
    inside: NDArray[np.uint16]
    after: NDArray[np.uint16]
    host: NDArray[np.uint16]

    def rows(self, rng: np.random.Generator) -> list[Row]:
        """The text, and its host; of a long text a stretch, with what is bad at any place in it."""
        before, after, host, room = self.before, self.after, self.host, WINDOW - 2 - len(self.inside)
        if len(before) + len(after) > room > LEAST_ROOM:
            room = int(rng.integers(LEAST_ROOM, room + 1))
            before = before[max(0, len(before) - int(rng.integers(room + 1))) :]
            after = after[: room - len(before)]
            host = np.concatenate([before, after]) if len(host) else host
        made = [_row([(before, 0.0), (self.inside, float(self.bad)), (after, 0.0)])]
        return [*made, _row([(host, 0.0)])] if len(host) else made


class Material:
    """Lines and contexts as token ids, by role, source and language."""

    def __init__(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        self.ids, self.starts = arrays["ids"], arrays["starts"]
        self.names: dict[str, Any] = json.loads(bytes(arrays["names"]).decode())
        self.role, self.source, self.language = arrays["role"], arrays["source"], arrays["language"]
        self.places, self.place_starts = arrays["places"], arrays["place_starts"]
        self.cases: list[Case] = []
        if "case_ids" in arrays:
            ids, starts = arrays["case_ids"], arrays["case_starts"]
            for n, (source, bad) in enumerate(arrays["case_about"].tolist()):
                pieces = [ids[starts[i] : starts[i + 1]] for i in range(4 * n, 4 * n + 4)]
                self.cases.append(Case(self.names["case_sources"][source], bool(bad), *pieces))

    @classmethod
    def read(cls, path: Path) -> Material:
        """As ``prepare`` wrote it."""
        with np.load(io.BytesIO(lzma.decompress(path.read_bytes()))) as arrays:
            return cls({name: arrays[name] for name in arrays.files})

    def tokens(self, n: int) -> NDArray[np.uint16]:
        """Token ids of one line or context."""
        return self.ids[self.starts[n] : self.starts[n + 1]]

    def cuts(self, n: int) -> NDArray[np.uint16]:
        """Where in a context a line may stand."""
        return self.places[self.place_starts[n] : self.place_starts[n + 1]]


class Pool:
    """Draws items: first a source by its weight, then one of its items, of a language where asked."""

    def __init__(self, material: Material, chosen: NDArray[np.bool_], weights: Mapping[str, float]) -> None:
        self._groups: dict[int, dict[int, NDArray[np.int64]]] = {}
        sources: Sequence[str] = material.names["source"]
        for source in np.unique(material.source[chosen]).tolist():
            rows = np.flatnonzero(chosen & (material.source == source))
            languages = material.language[rows]
            self._groups[source] = {int(c): rows[languages == c] for c in np.unique(languages)}
        self._all = {s: np.concatenate(list(g.values())) for s, g in self._groups.items()}
        self._p = {s: weights.get(sources[s], 1.0) * min(1.0, len(rows) / 50) for s, rows in self._all.items()}
        self._by_language: dict[int, tuple[list[int], NDArray[np.float64]]] = {}
        for language in {c for g in self._groups.values() for c in g}:
            having = [s for s, g in self._groups.items() if language in g]
            p = np.array([self._p[s] * min(1.0, len(self._groups[s][language]) / 20) for s in having])
            self._by_language[language] = (having, np.cumsum(p / p.sum()))
        p = np.array(list(self._p.values()))
        self._any = (list(self._p), np.cumsum(p / p.sum()))

    def draw(self, rng: np.random.Generator, language: int | None = None) -> int:
        """One item."""
        if language is not None and language in self._by_language:
            rows = self._groups[_pick(rng, *self._by_language[language])][language]
        else:
            rows = self._all[_pick(rng, *self._any)]
        return int(rows[rng.integers(len(rows))])

    def draw_like(self, rng: np.random.Generator, source: int, language: int) -> int:
        """One item of the same source and language."""
        rows = self._groups.get(source, {}).get(language)
        return int(rows[rng.integers(len(rows))]) if rows is not None else self.draw(rng, language)


def _pick(rng: np.random.Generator, sources: list[int], cumulated: NDArray[np.float64]) -> int:
    return sources[min(int(np.searchsorted(cumulated, rng.random(), side="right")), len(sources) - 1)]


Row = tuple[NDArray[np.int64], NDArray[np.float32], float]
"""Token ids, a mark per token (1: part of an order), and the label of the text."""


class Sampler(Dataset[Any]):
    """Makes training texts of lines and contexts. Batch ``step`` depends on the seed and the step alone."""

    def __init__(self, material: Material, left_out: Sequence[str], recipe: Recipe) -> None:
        self.material, self.recipe = material, recipe
        names = material.names
        kept = ~np.isin(material.source, [i for i, s in enumerate(names["source"]) if s in left_out])
        roles = {name: kept & (material.role == i) for i, name in enumerate(names["role"])}
        weights: Mapping[str, float] = names["weights"]
        self.orders = Pool(material, roles["order"], weights)
        self.foreign = Pool(material, roles["order"] | roles["inside"] | roles["request"], names["inside_weights"])
        self.clean = Pool(material, roles["clean"], weights)
        self.notes = Pool(material, roles["clean"] | roles["note"], weights)
        honest = roles["clean"] | roles["note"] | roles["request"] | roles["alone"]
        self.alone = Pool(material, honest, weights)
        self.contexts = Pool(material, roles["context"], weights)
        self.numbers = {n: np.array(several) for several in names.get("numbers", ()) for n in several}
        cases = [case for case in material.cases if case.source not in left_out]
        self.cases = {
            (task, bad): [case for case in cases if task_of(case.source) == task and case.bad == bad]
            for task in (ORDERS, QUIET, TOOLS)
            for bad in (True, False)
        }

    def __len__(self) -> int:
        return self.recipe.steps

    def __getitem__(self, step: int) -> list[tuple[NDArray[Any], ...]]:
        """A batch in two parts of similar length."""
        rng = np.random.default_rng((self.recipe.seed + self.recipe.drawn, step))
        rows = [(*row, ORDERS) for row in self.batch(rng, self.recipe.batch)]
        rows += [(*row, QUIET) for row in self.quiet(rng, self.recipe.quiet)]
        rows += [(*row, TOOLS) for row in self.tools(rng, self.recipe.tools)]
        for ids, *_ in rows:
            if rng.random() < self.recipe.numbers:
                self.renumber(rng, ids)
        rows.sort(key=lambda row: len(row[0]))
        cut = len(rows) * 2 // 3
        return [_padded(rows[:cut]), _padded(rows[cut:])]

    def renumber(self, rng: np.random.Generator, ids: NDArray[np.int64]) -> None:
        """Put others of the same length in the places of the numbers of a text."""
        for place, token in enumerate(ids.tolist()):
            if token in self.numbers:
                ids[place] = rng.choice(self.numbers[token])

    def quiet(self, rng: np.random.Generator, size: int) -> list[Row]:
        """Lies, honest rules and ordinary notes, alone and among notes; none where there are no cases."""
        rows: list[Row] = []
        lies, rules = self.cases[QUIET, True], self.cases[QUIET, False]
        while lies and len(rows) < size:
            if rng.random() < 0.25:
                rows.append(_row([(self.material.tokens(self.alone.draw(rng)), 0.0)]))
                continue
            case = _one(rng, lies if rng.random() < 0.5 else rules)
            parts = [(case.inside, float(case.bad))]
            if rng.random() < 0.4:
                beside = self._note(rng, self.notes, self.notes.draw(rng), several=rng.random() < 0.5)
                at = int(rng.integers(len(beside) + 1))
                parts = [*((b, 0.0) for b in beside[:at]), *parts, *((b, 0.0) for b in beside[at:])]
            rows.append(_row(parts))
        return rows

    def tools(self, rng: np.random.Generator, size: int) -> list[Row]:
        """Descriptions of tools: poisoned ones with their hosts, and honest ones."""
        rows: list[Row] = []
        poisoned, honest = self.cases[TOOLS, True], self.cases[TOOLS, False]
        while poisoned and len(rows) < size:
            rows += _one(rng, poisoned if rng.random() < 0.4 else honest).rows(rng)
        return rows[:size]

    def batch(self, rng: np.random.Generator, size: int) -> list[Row]:
        """Half matched pairs, a sixth orders alone, the rest honest."""
        rows: list[Row] = []
        while len(rows) < size * 0.5:
            rows += self._pair(rng)
        while len(rows) < size * 0.75:
            order = self.orders.draw(rng)
            rows.append(_row([(self.material.tokens(order), 1.0)]))
            if rng.random() < 0.5:  # a language must not be a clue
                honest = self.alone.draw(rng, int(self.material.language[order]))
                rows.append(_row([(self.material.tokens(honest), 0.0)]))
        while len(rows) < size:
            if rng.random() < 0.2:
                rows.append(_row([(self._crop(rng, self.material.tokens(self.contexts.draw(rng))), 0.0)]))
            else:
                parts = self._note(rng, self.alone, self.alone.draw(rng), several=rng.random() < 0.3)
                rows.append(_row([(part, 0.0) for part in parts]))
        return rows[:size]

    def _note(self, rng: np.random.Generator, pool: Pool, first: int, several: bool) -> list[NDArray[np.uint16]]:
        """One honest line, or a list of lines of its source."""
        if not several:
            return [self.material.tokens(first)]
        source, language = int(self.material.source[first]), int(self.material.language[first])
        lines = [first, *(pool.draw_like(rng, source, language) for _ in range(int(rng.integers(1, 8))))]
        dash = rng.random() < 0.4
        parts: list[NDArray[np.uint16]] = []
        for n in lines:
            parts += [np.array([DASH], np.uint16)] * dash + [self.material.tokens(n)]
        return parts

    def _pair(self, rng: np.random.Generator) -> list[Row]:
        """A context with an order, and the same with an honest line or nothing in its place.

        Among notes, which tell people what to do all the time, only a plain order to an agent is one; in a document
        a request is out of place too, and so a document's honest line asks for nothing.
        """
        written = self.cases[ORDERS, True]
        if written and rng.random() < self.recipe.written / 0.5:
            return _one(rng, written).rows(rng)
        if rng.random() < 0.25:
            return self._pair_of_notes(rng)
        material, n = self.material, self.contexts.draw(rng)
        language = int(material.language[n])
        tokens, cuts = material.tokens(n), material.cuts(n)
        ends = (0, len(tokens))
        cut = int(cuts[rng.integers(len(cuts))]) if len(cuts) and rng.random() < 0.7 else int(rng.choice(ends))
        order = material.tokens(self.foreign.draw(rng, language if rng.random() < 0.85 else None))
        honest = self.clean.draw(rng, language if rng.random() < 0.85 else None)
        return self._twins(rng, tokens[:cut], tokens[cut:], order, material.tokens(honest))

    def _pair_of_notes(self, rng: np.random.Generator) -> list[Row]:
        material, first = self.material, self.notes.draw(rng)
        parts = self._note(rng, self.notes, first, several=True)
        source, language = int(material.source[first]), int(material.language[first])
        at, nothing = int(rng.integers(len(parts) + 1)), np.zeros(0, np.uint16)
        before, after = np.concatenate([nothing, *parts[:at]]), np.concatenate([nothing, *parts[at:]])
        order = material.tokens(self.orders.draw(rng, language if rng.random() < 0.85 else None))
        honest = material.tokens(self.notes.draw_like(rng, source, language))
        return self._twins(rng, before, after, order, honest)

    def _twins(
        self,
        rng: np.random.Generator,
        before: NDArray[np.uint16],
        after: NDArray[np.uint16],
        order: NDArray[np.uint16],
        honest: NDArray[np.uint16],
    ) -> list[Row]:
        room = int(rng.integers(20, WINDOW - 2 - min(len(order), 120)))
        before = before[max(0, len(before) - int(rng.integers(room + 1))) :]
        after = after[: room - len(before)]
        poisoned = _row([(before, 0.0), (order, 1.0), (after, 0.0)])
        if rng.random() < 0.35:
            return [poisoned, _row([(before, 0.0), (after, 0.0)])]
        return [poisoned, _row([(before, 0.0), (honest[:120], 0.0), (after, 0.0)])]

    @staticmethod
    def _crop(rng: np.random.Generator, tokens: NDArray[np.uint16]) -> NDArray[np.uint16]:
        if len(tokens) < 40 or rng.random() < 0.4:
            return tokens
        start = int(rng.integers(len(tokens) - 20))
        return tokens[start : start + int(rng.integers(20, WINDOW))]


def _one(rng: np.random.Generator, several: Sequence[Case]) -> Case:
    return several[int(rng.integers(len(several)))]


def _row(parts: Sequence[tuple[NDArray[np.uint16], float]]) -> Row:
    ids = np.concatenate([part.astype(np.int64) for part, _ in parts])
    marks = np.concatenate([np.full(len(part), mark, np.float32) for part, mark in parts])
    label = float(any(mark > 0 and len(part) for part, mark in parts))
    if len(ids) > WINDOW - 2:
        first = int(marks.argmax()) if label else 0
        start = max(0, min(first - (WINDOW - 2) // 3, len(ids) - (WINDOW - 2)))
        ids, marks = ids[start : start + WINDOW - 2], marks[start : start + WINDOW - 2]
    edge = np.zeros(1, np.float32)
    return np.concatenate([[101], ids, [102]]), np.concatenate([edge, marks, edge]), label


class Encoder(nn.Module):
    """all-MiniLM-L6-v2, frozen, with low-rank changes to its products and its word embeddings."""

    def __init__(self, base: Mapping[str, Any], recipe: Recipe) -> None:
        super().__init__()
        self.dropout = recipe.dropout
        self.down, self.up = nn.ParameterDict(), nn.ParameterDict()
        for name, value in base.items():
            if name.startswith(("embeddings.", "encoder.")) and value.is_floating_point():
                key = name.replace(".", "/")
                self.register_buffer(key, value.float(), persistent=False)
                if value.ndim == 2 and name.startswith("encoder."):
                    self._change(key, value.shape, recipe.rank)
        if recipe.word_rank:
            self._change(WORDS, base[WORDS.replace("/", ".")].shape, recipe.word_rank)
        self.head = nn.Linear(WIDTH, len((ORDERS, QUIET, TOOLS)))

    def _change(self, key: str, shape: Sequence[int], rank: int) -> None:
        self.down[key] = nn.Parameter(torch.randn(rank, shape[1]) / shape[1] ** 0.5)
        self.up[key] = nn.Parameter(torch.zeros(shape[0], rank))

    def merged(self) -> dict[str, Any]:
        """The weights of all products, changes added; query, key and value as one."""

        def weight(name: str) -> Any:
            return getattr(self, f"{name}/weight") + self.up[f"{name}/weight"] @ self.down[f"{name}/weight"]

        found: dict[str, Any] = {}
        for n in range(LAYERS):
            at = f"encoder/layer/{n}/"
            parts = [f"{at}attention/self/{part}" for part in ("query", "key", "value")]
            found[f"{at}joint"] = (torch.cat([weight(p) for p in parts]), self._biases(*parts))
            for name in ("attention/output/dense", "intermediate/dense", "output/dense"):
                found[f"{at}{name}"] = (weight(f"{at}{name}"), self._biases(f"{at}{name}"))
        return found

    def _biases(self, *names: str) -> Any:
        return torch.cat([getattr(self, f"{name}/bias") for name in names])

    def _norm(self, x: Any, name: str) -> Any:
        return functional.layer_norm(x, (WIDTH,), getattr(self, f"{name}/weight"), getattr(self, f"{name}/bias"), 1e-12)

    def _drop(self, x: Any) -> Any:
        return functional.dropout(x, self.dropout, self.training) if self.dropout else x

    def forward(self, ids: Any, mask: Any, merged: Mapping[str, Any]) -> Any:
        """Logits per token: (batch, length, 3)."""
        x = getattr(self, WORDS)[ids]
        if WORDS in self.up:
            x = x + self.up[WORDS][ids] @ self.down[WORDS]
        x = x + getattr(self, "embeddings/position_embeddings/weight")[: ids.shape[1]]
        x = self._norm(x + getattr(self, "embeddings/token_type_embeddings/weight")[0], "embeddings/LayerNorm")
        x = self._drop(x)
        seen = mask[:, None, None, :].bool()
        batch, length = ids.shape
        for n in range(LAYERS):
            at = f"encoder/layer/{n}/"
            joint = functional.linear(x, *merged[f"{at}joint"]).view(batch, length, 3, HEADS, -1)
            q, k, v = joint.permute(2, 0, 3, 1, 4)
            y = functional.scaled_dot_product_attention(q, k, v, attn_mask=seen)
            y = functional.linear(
                y.transpose(1, 2).reshape(batch, length, WIDTH), *merged[f"{at}attention/output/dense"]
            )
            x = self._norm(x + self._drop(y), f"{at}attention/output/LayerNorm")
            y = functional.gelu(functional.linear(x, *merged[f"{at}intermediate/dense"]))
            y = functional.linear(y, *merged[f"{at}output/dense"])
            x = self._norm(x + self._drop(y), f"{at}output/LayerNorm")
        return self.head(x)

    def arrays(self) -> dict[str, NDArray[np.float16]]:
        """What was trained, by the names that ``lazaretto.models.minilm`` reads."""
        found: dict[str, NDArray[np.float16]] = {}
        for key in self.up:
            name = key.replace("/", ".")
            found[f"{name}.lora_a"] = self.down[key].detach().half().cpu().numpy()
            found[f"{name}.lora_b"] = self.up[key].detach().half().cpu().numpy()
        found["head.weight"] = self.head.weight.detach().half().cpu().numpy()
        found["head.bias"] = self.head.bias.detach().half().cpu().numpy()
        return found


def pooled(logits: Any, mask: Any) -> Any:
    """One logit per text: the mean of its top token logits, [CLS] and padding left out."""
    hidden = logits.masked_fill(mask == 0, -1e4).clone()
    hidden[:, 0] = -1e4
    top = torch.topk(hidden, min(TOP_TOKENS, hidden.shape[1]), dim=1).values
    valid = (top > -9e3).float()
    return (top * valid).sum(1) / valid.sum(1).clamp(min=1)


def _padded(rows: Sequence[tuple[NDArray[np.int64], NDArray[np.float32], float, int]]) -> tuple[NDArray[Any], ...]:
    longest = -(-max(len(r[0]) for r in rows) // 8) * 8
    ids, mask = np.zeros((len(rows), longest), np.int64), np.zeros((len(rows), longest), np.int64)
    marks = np.zeros((len(rows), longest), np.float32)
    for n, (tokens, marked, _, _) in enumerate(rows):
        ids[n, : len(tokens)], mask[n, : len(tokens)], marks[n, : len(tokens)] = tokens, 1, marked
    return ids, mask, marks, np.array([r[2] for r in rows], np.float32), np.array([r[3] for r in rows], np.int64)


def train(
    sampler: Sampler, base: Mapping[str, Any], report: Callable[[str], None] = print, workers: int = 3
) -> Encoder:
    """A trained encoder, on the device. Batches are made by ``workers`` processes while the device is busy."""
    recipe = sampler.recipe
    torch.manual_seed(recipe.seed)
    torch.set_float32_matmul_precision("high")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = Encoder(base, recipe).to(device).train()
    parameters = list(model.parameters())
    optimizer = torch.optim.AdamW(parameters, lr=recipe.rate, weight_decay=0.01, fused=device == "cuda")
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, recipe.rate, total_steps=recipe.steps + 1, pct_start=0.1)
    batches: Any = DataLoader(sampler, batch_size=None, shuffle=False, num_workers=workers, collate_fn=_as_it_is)
    losses: list[Any] = []
    for step, parts in enumerate(batches):
        optimizer.zero_grad()
        total = sum(len(part[0]) for part in parts)
        loss = torch.zeros((), device=device)
        with torch.autocast(device, dtype=torch.bfloat16, enabled=device == "cuda"):
            merged = model.merged()
            for part in parts:
                ids, mask, marks, labels, task = (torch.from_numpy(one).to(device, non_blocking=True) for one in part)
                logits = model(ids, mask, merged).float()
                logits = logits.gather(2, task[:, None, None].expand(-1, logits.shape[1], 1))[:, :, 0]
                loss = loss + _loss(logits, mask, marks, labels) * (len(labels) / total)
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        schedule.step()
        losses.append(loss.detach())
        if (step + 1) % 300 == 0 or step + 1 == recipe.steps:
            report(f"  step {step + 1}/{recipe.steps}: loss {float(torch.stack(losses[-100:]).mean()):.4f}")
    return model.eval()


def _loss(logits: Any, mask: Any, marks: Any, labels: Any) -> Any:
    """Every token's mark, and every text's label."""
    inner = mask.float()
    inner[:, 0] = 0
    token = functional.binary_cross_entropy_with_logits(logits, marks, reduction="none")
    record = functional.binary_cross_entropy_with_logits(pooled(logits, mask), labels)
    return (token * inner).sum() / inner.sum() + record


def _as_it_is(batch: Any) -> Any:
    return batch


def score(model: Encoder, windowed: Sequence[Sequence[NDArray[Any]]]) -> NDArray[np.float64]:
    """(texts, 3): a logit of every head for each text, the largest over its windows."""
    device = next(model.parameters()).device
    windows = [ids for several in windowed for ids in several]
    owner = [n for n, several in enumerate(windowed) for _ in several]
    result = np.full((len(windowed), 3), -1e4)
    order = sorted(range(len(windows)), key=lambda i: len(windows[i]))
    with torch.inference_mode():
        merged = model.merged()
    for i in range(0, len(order), 256):
        chunk = order[i : i + 256]
        made = _padded([(windows[j].astype(np.int64), np.zeros(len(windows[j]), np.float32), 0.0, 0) for j in chunk])
        ids, mask = (torch.from_numpy(part).to(device) for part in made[:2])
        with torch.inference_mode():
            logits = model(ids, mask, merged)
            values = torch.stack([pooled(logits[:, :, head], mask) for head in (ORDERS, QUIET, TOOLS)], 1)
        for j, value in zip(chunk, values.float().cpu().numpy(), strict=True):
            result[owner[j]] = np.maximum(result[owner[j]], value)
    return result


class Held:
    """Tested texts of a fold as windows."""

    def __init__(self, path: Path) -> None:
        with np.load(io.BytesIO(lzma.decompress(path.read_bytes()))) as arrays:
            self.rows: dict[str, Any] = json.loads(bytes(arrays["rows"]).decode())
            ids, starts, owner = arrays["ids"], arrays["starts"], arrays["owner"]
        self._windows: list[list[NDArray[Any]]] = [[] for _ in self.rows["label"]]
        for n, text in enumerate(owner.tolist()):
            self._windows[text].append(ids[starts[n] : starts[n + 1]])

    def of_fold(self, name: str) -> tuple[NDArray[np.int64], list[list[NDArray[Any]]]]:
        """Which texts a fold tests, and their windows."""
        picked = np.flatnonzero(np.array(self.rows["fold"]) == name)
        return picked, [self._windows[i] for i in picked]


def read_safetensors(path: Path) -> dict[str, Any]:
    """A safetensors file without its library."""
    raw = path.read_bytes()
    (size,) = struct.unpack("<Q", raw[:8])
    kinds = {"F16": torch.float16, "F32": torch.float32, "BF16": torch.bfloat16, "I64": torch.int64}
    found = {}
    for name, entry in json.loads(raw[8 : 8 + size]).items():
        if name != "__metadata__":
            a, b = entry["data_offsets"]
            flat = torch.frombuffer(bytearray(raw[8 + size + a : 8 + size + b]), dtype=kinds[entry["dtype"]])
            found[name.removeprefix("bert.")] = flat.reshape(entry["shape"])
    return found


def write_safetensors(arrays: Mapping[str, NDArray[Any]], path: Path) -> None:
    """Half-precision arrays as a safetensors file, without its library."""
    header: dict[str, Any] = {}
    at = 0
    for name, array in sorted(arrays.items()):
        header[name] = {"dtype": "F16", "shape": list(array.shape), "data_offsets": [at, at + array.nbytes]}
        at += array.nbytes
    head = json.dumps(header, separators=(",", ":")).encode()
    head += b" " * (-len(head) % 8)
    body = b"".join(np.ascontiguousarray(array).tobytes() for _, array in sorted(arrays.items()))
    path.write_bytes(struct.pack("<Q", len(head)) + head + body)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True, help="folder with material.npz.xz and held.npz.xz")
    parser.add_argument("--base", type=Path, required=True, help="weights of all-MiniLM-L6-v2")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--plan", default="", help="comma-separated runs; default: every fold, then final")
    parser.add_argument("--workers", type=int, default=3, help="processes that make batches")
    parser.add_argument("--seconds", type=float, default=1e9, help="start no run that would end later than this")
    for field, value in asdict(Recipe()).items():
        parser.add_argument(f"--{field.replace('_', '-')}", type=type(value), default=value)
    options = parser.parse_args()
    recipe = Recipe(**{field: getattr(options, field) for field in asdict(Recipe())})
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "4")))
    options.out.mkdir(parents=True, exist_ok=True)
    begun = time.monotonic()
    material, held, base = (
        Material.read(options.work / "material.npz.xz"),
        Held(options.work / "held.npz.xz"),
        read_safetensors(options.base),
    )
    folds: Mapping[str, Sequence[str]] = material.names["folds"]
    print(f"read in {time.monotonic() - begun:.0f} s; cuda {torch.cuda.is_available()}", flush=True)
    slowest = 0.0
    for run in options.plan.split(",") if options.plan else [*folds, "final"]:
        name, _, variant = run.partition("@")
        changed = dict(part.split("=") for part in variant.split("+")) if variant else {}
        own = replace(recipe, **{k: type(getattr(recipe, k))(float(v)) for k, v in changed.items()})
        started = time.monotonic()
        if started - begun + slowest > options.seconds:
            print(f"== {run}: no time left", flush=True)
            continue
        sampler = Sampler(material, folds.get(name, ()), own)
        model = train(sampler, base, lambda line: print(line, flush=True), options.workers)
        if name == "final":
            write_safetensors(model.arrays(), options.out / f"final{variant}.safetensors")
        picked, windows = held.of_fold(name) if name != "final" else (np.arange(0), [])
        heads = score(model, windows).round(3)
        tasks = [task_of(held.rows["source"][i]) for i in picked.tolist()]
        logits = heads[np.arange(len(tasks)), tasks].tolist()
        result = {"run": run, "recipe": asdict(own), "text": picked.tolist(), "logit": logits}
        result["quiet"] = heads[:, QUIET].tolist()
        (options.out / f"{run}.json").write_text(json.dumps(result))
        slowest = max(slowest, time.monotonic() - started)
        print(f"== {run}: {time.monotonic() - started:.0f} s, at {time.monotonic() - begun:.0f} s", flush=True)
        del model


if __name__ == "__main__":
    main()
