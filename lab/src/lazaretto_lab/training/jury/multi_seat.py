"""Trains many seats of the embedded jury at once, on a machine that has nothing but torch, numpy and this file.

All seats share the frozen encoder and every batch, and differ in their low-rank adapters, their heads, and in how much
each example counts for them (0: held out). So a nested cross-validation of thirty-four seats costs about as much as
three seats one by one. What is trained is exactly what ``lazaretto.models.minilm`` merges: weight + b @ a.

Texts that address the judges are mixed into both labels, so that they carry no weight; descriptions are cut at random,
because in the public cases a cut description hints at the label. Beside the usual loss there is a ranking loss: in
every batch each unsafe text should stand above each safe one, whatever source either comes from.

    python multi_seat.py INPUT.npz PLAN.json MINILM.safetensors OUT
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn import functional

LAYERS, HEADS, SIZE = 6, 12, 384
RISKS = 4
"""Heads: text, image, pair, lettering."""
MATRICES = ("attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense",
            "intermediate.dense", "output.dense")  # fmt: skip
CLS, SEP, PICTURE = 101, 102, (3861, 1024)
PICTURE_SHARE = 120


@dataclass(frozen=True)
class Recipe:
    """What may differ between the seats of one training."""

    name: str
    unseen: tuple[int, ...] = ()
    """Folds this seat must not see."""
    scale: float = 1.0
    """Multiplies the adapter: under Adam, a learning rate of its own."""
    dev: float = 2.0
    text: float = 1.0
    image: float = 1.0
    pair: float = 1.0
    extra: float = 0.35
    """Weight of the foreign sources."""
    own: float = 0.6
    """Weight of look-alikes and twins."""
    given: float = 0.7
    """For picture cases: the share of the given label in the target; the rest is the seat's own current belief."""
    hazard: float = 0.2
    context: float = 0.2
    smoothing: float = 0.03
    rank: float = 0.3
    start: int = 1
    """Where its adapter starts from: seats with the same number start alike."""


CLASSES = ("dev", "text", "image", "pair", "extra", "own")
"""What an example's ``weight_class`` points to: the recipe's field that multiplies its trust."""


@dataclass(frozen=True)
class Plan:
    """What all seats of one training share."""

    seconds: float
    """Time for the training: the number of steps is set by the pace of the first ones."""
    most_steps: int = 1400
    rows: int = 96
    """Examples per step."""
    tokens: int = 3072
    """Tokens per pass: a step's examples are read in passes of similar length."""
    rank: int = 16
    rate: float = 1e-3
    head_rate: float = 2e-3
    decay: float = 0.01
    dropout: float = 0.1
    addressed: float = 0.12
    cut: float = 0.4
    window: int = 256
    seed: int = 1


class Data:
    """The tokenized examples; see ``bundle.py`` for who writes them."""

    def __init__(self, path: str, some: int = 0) -> None:
        with np.load(path) as stored:
            raw = {k: stored[k] for k in stored.files}
        count = len(raw["label"])
        self.count = count
        self.text = np.split(raw["text"].astype(np.int64), np.cumsum(raw["text_size"].astype(np.int64))[:-1])
        self.picture = np.split(raw["picture"].astype(np.int64), np.cumsum(raw["picture_size"].astype(np.int64))[:-1])
        self.addresses = np.split(raw["address"].astype(np.int64), np.cumsum(raw["address_size"].astype(np.int64))[:-1])
        self.kind, self.head, self.fold = raw["kind"], raw["head"].astype(np.int64), raw["fold"].astype(np.int64)
        self.label, self.noisy = raw["label"].astype(np.float32), raw["noisy"].astype(bool)
        self.hazard, self.contexts = raw["hazard"].astype(np.int64), raw["contexts"].astype(np.float32)
        self.known = raw["known"].astype(np.float32)
        self.trust, self.chance = raw["trust"].astype(np.float32), raw["chance"].astype(np.float32)
        self.weight_class = raw["weight_class"].astype(np.int64)
        self.chosen = np.arange(count)[::some] if some else np.arange(count)

    def weights(self, recipe: Recipe) -> np.ndarray:
        """How much each example counts for a seat whenever it is drawn."""
        factor = np.array([getattr(recipe, name) for name in CLASSES], np.float32)[self.weight_class]
        unseen = np.isin(self.fold, recipe.unseen) if recipe.unseen else np.zeros(self.count, bool)
        return np.where(unseen, 0.0, factor * self.trust / self.chance).astype(np.float32)


def compose(kind: int, text: np.ndarray, picture: np.ndarray, start: int, size: int) -> list[int]:
    """One window, as ``lazaretto.gates.content.jury.views.compose`` makes it."""
    if kind == 0:
        return [CLS, *text[start : start + size - 2].tolist(), SEP]
    if kind == 1:
        return [CLS, *PICTURE, *picture[start : start + size - 2 - len(PICTURE)].tolist(), SEP]
    room = size - 3 - len(PICTURE)
    words = text[start : start + max(room - PICTURE_SHARE, room - len(picture))].tolist()
    return [CLS, *words, SEP, *PICTURE, *picture[: room - len(words)].tolist(), SEP]


def augmented(data: Data, i: int, plan: Plan, rng: np.random.Generator) -> list[int]:
    """One window of an example: now and then cut, starting later, or with a sentence to the judges in it."""
    text, picture, kind = data.text[i], data.picture[i], int(data.kind[i])
    if kind == 2 and rng.random() < plan.cut and len(picture) > 40:
        picture = picture[: rng.integers(40, len(picture) + 1)]
    if rng.random() < plan.addressed:
        address = data.addresses[rng.integers(len(data.addresses))]
        if kind == 1:
            picture = np.concatenate([picture[: plan.window - 4 - len(address)], address])
        elif rng.random() < 0.5:
            text = np.concatenate([address, text])
        else:
            text = np.concatenate([text[: plan.window - 2 - len(address)], address])
    start = 0
    if kind == 0 and len(text) > plan.window and rng.random() < 0.3:
        start = int(rng.integers(0, len(text) - plan.window // 2 + 1))
    return compose(kind, text, picture, start, plan.window)


def windows(kind: int, text: np.ndarray, picture: np.ndarray, size: int, limit: int = 4) -> list[list[int]]:
    """As many windows as the long part needs, at most ``limit``; as ``jury.views.windows`` makes them."""
    room = size - 3 - len(PICTURE)
    step = {0: size - 2, 1: size - 2 - len(PICTURE), 2: max(room - PICTURE_SHARE, room - len(picture))}[kind]
    length = len(picture) if kind == 1 else len(text)
    if step >= length:
        return [compose(kind, text, picture, 0, size)]
    starts = [*range(0, length - step, step), length - step]
    if len(starts) > limit:
        starts = [starts[round(i * (len(starts) - 1) / (limit - 1))] for i in range(limit)]
    return [compose(kind, text, picture, s, size) for s in starts]


def pad(rows: Sequence[Sequence[int]], device: str) -> tuple[Any, Any]:
    """Token ids and their mask."""
    longest = max(map(len, rows))
    ids = np.zeros((len(rows), -(-longest // 16) * 16), dtype=np.int64)
    for line, row in zip(ids, rows, strict=True):
        line[: len(row)] = row
    tensor = torch.from_numpy(ids).to(device)
    return tensor, tensor != 0


class Seats:
    """One frozen encoder, stacked adapters and heads."""

    def __init__(self, frozen: Mapping[str, Any], recipes: Sequence[Recipe], plan: Plan, device: str) -> None:
        self.frozen, self.recipes, self.plan, self.device = frozen, tuple(recipes), plan, device
        self.precision = torch.bfloat16 if device == "cuda" else torch.float32
        count = len(recipes)
        made = [torch.Generator().manual_seed(1000 * plan.seed + r.start) for r in recipes]
        self.scale = torch.tensor([r.scale for r in recipes], device=device)[:, None, None]
        self.adapters: dict[str, Any] = {}
        for layer in range(LAYERS):
            for matrix in MATRICES:
                name = f"encoder.layer.{layer}.{matrix}.weight"
                out, into = frozen[name].shape
                first = torch.stack([torch.randn(plan.rank, into, generator=g) for g in made]) / into**0.5
                self.adapters[f"{name}.lora_a"] = first.to(device).requires_grad_()
                self.adapters[f"{name}.lora_b"] = torch.zeros(count, out, plan.rank, device=device).requires_grad_()
        self.heads: dict[str, Any] = {}
        for part, width in (("risk", RISKS), ("hazard", 16), ("context", 6)):
            weight = torch.stack([torch.randn(width, SIZE, generator=g) for g in made]) * 0.02
            self.heads[f"head.{part}.weight"] = weight.to(device).requires_grad_()
            self.heads[f"head.{part}.bias"] = torch.zeros(count, 1, width, device=device).requires_grad_()

    def merged(self) -> dict[str, Any]:
        """Every layer's weights with the adapters, as they are now, added: (seats, out, in)."""
        found = {}
        for layer in range(LAYERS):
            for matrix in MATRICES:
                name = f"encoder.layer.{layer}.{matrix}.weight"
                a, b = self.adapters[f"{name}.lora_a"], self.adapters[f"{name}.lora_b"]
                found[name] = (self.frozen[name][None] + (b * self.scale) @ a).to(self.precision)
        return found

    def pool(self, ids: Any, mask: Any, merged: Mapping[str, Any]) -> Any:
        """Mean token states: (seats, batch, 384)."""
        frozen, (batch, length), count = self.frozen, ids.shape, len(self.recipes)
        with torch.no_grad():
            x = frozen["embeddings.word_embeddings.weight"][ids]
            x = x + frozen["embeddings.position_embeddings.weight"][:length]
            x = x + frozen["embeddings.token_type_embeddings.weight"][0]
            x = self._norm(x.to(self.precision), "embeddings.LayerNorm").reshape(1, batch * length, SIZE)
        x = x.expand(count, -1, -1)
        seen = mask[None].expand(count, -1, -1).reshape(count * batch, 1, 1, length)
        for layer in range(LAYERS):
            at = f"encoder.layer.{layer}."
            parts = [self._affine(x, f"{at}attention.self.{p}", merged) for p in ("query", "key", "value")]
            q, k, v = (p.view(count * batch, length, HEADS, SIZE // HEADS).transpose(1, 2) for p in parts)
            y = functional.scaled_dot_product_attention(q, k, v, attn_mask=seen)
            y = y.transpose(1, 2).reshape(count, batch * length, SIZE)
            x = self._norm(
                x + self._affine(y, f"{at}attention.output.dense", merged), f"{at}attention.output.LayerNorm"
            )
            y = functional.gelu(self._affine(x, f"{at}intermediate.dense", merged))
            x = self._norm(x + self._affine(y, f"{at}output.dense", merged), f"{at}output.LayerNorm")
        share = (mask.float() / mask.sum(1, keepdim=True))[None, :, :, None]
        return (x.view(count, batch, length, SIZE).float() * share).sum(2)

    def _affine(self, x: Any, name: str, merged: Mapping[str, Any]) -> Any:
        bias = self.frozen[f"{name}.bias"].to(self.precision)
        return torch.baddbmm(bias[None, None], x, merged[f"{name}.weight"].transpose(1, 2))

    def _norm(self, x: Any, name: str) -> Any:
        weight, bias = (self.frozen[f"{name}.{part}"].to(self.precision) for part in ("weight", "bias"))
        return functional.layer_norm(x, (SIZE,), weight, bias, 1e-12)

    def read(self, pooled: Any) -> dict[str, Any]:
        """The heads' logits: name -> (seats, batch, width)."""
        return {
            part: pooled @ self.heads[f"head.{part}.weight"].transpose(1, 2) + self.heads[f"head.{part}.bias"]
            for part in ("risk", "hazard", "context")
        }

    def export(self, index: int) -> dict[str, np.ndarray]:
        """One seat as it is shipped, in half precision."""
        seat = {k: v[index].detach().float().cpu().numpy() for k, v in (self.adapters | self.heads).items()}
        for key in seat:
            if key.endswith(".lora_b"):
                seat[key] = seat[key] * self.recipes[index].scale
            if key.endswith(".bias"):
                seat[key] = seat[key][0]
        return {k: v.astype(np.float16) for k, v in seat.items()}


def draw(data: Data, rows: int, rng: np.random.Generator) -> Callable[[], np.ndarray]:
    """Positions for one step after another: in each round every example comes with its chance."""
    queue: list[int] = []

    def take() -> np.ndarray:
        while len(queue) < rows:
            come = data.chosen[rng.random(len(data.chosen)) < data.chance[data.chosen]]
            queue.extend(rng.permutation(come).tolist())
        taken = queue[:rows]
        del queue[:rows]
        return np.array(taken)

    return take


def train(seats: Seats, data: Data, tell: Callable[[str], None]) -> int:
    """Trains all seats together for the plan's time; gives the number of steps."""
    plan, device = seats.plan, seats.device
    torch.manual_seed(plan.seed)
    rng = np.random.default_rng(plan.seed)
    weights = torch.from_numpy(np.stack([data.weights(r) for r in seats.recipes])).to(device)
    drawn = torch.from_numpy(data.chance).to(device)
    mean = (weights * drawn).sum(1) / drawn.sum()
    tensors = {
        name: torch.from_numpy(getattr(data, name)).to(device)
        for name in ("head", "label", "noisy", "hazard", "contexts", "known")
    }
    optimizer = torch.optim.AdamW(
        [
            {"params": list(seats.adapters.values()), "lr": plan.rate, "weight_decay": plan.decay},
            {"params": list(seats.heads.values()), "lr": plan.head_rate, "weight_decay": plan.decay},
        ],
        fused=device == "cuda",
    )
    rates = (plan.rate, plan.head_rate)
    take, started, steps, step = draw(data, plan.rows, rng), time.monotonic(), plan.most_steps, 0
    measured = started
    while step < steps:
        if step == 15:
            measured = time.monotonic()
        if step in (40, 120, 300):
            pace = (time.monotonic() - measured) / (step - 15)
            left = plan.seconds - (time.monotonic() - started)
            steps = max(step + 20, min(plan.most_steps, step + int(left / pace)))
            tell(f"step {step}: {pace:.3f} s a step, {steps} steps in all")
        if time.monotonic() - started > plan.seconds * 1.15:
            tell(f"time is over at step {step} of {steps}")
            break
        slope = min((step + 1) / max(1.0, 0.06 * steps), max(0.02, 1 - step / steps))
        for group, rate in zip(optimizer.param_groups, rates, strict=True):
            group["lr"] = rate * slope
        chosen = take()
        ids = {int(i): augmented(data, int(i), plan, rng) for i in chosen}
        order = sorted(chosen.tolist(), key=lambda i: len(ids[i]))
        optimizer.zero_grad(set_to_none=True)
        merged = seats.merged()
        leaves = {k: v.detach().requires_grad_() for k, v in merged.items()}
        total = 0.0
        for part in passes(order, ids, plan.tokens):
            batch = torch.tensor(part, device=device)
            pooled = functional.dropout(seats.pool(*pad([ids[i] for i in part], device), leaves), plan.dropout)
            rows = {k: v[batch] for k, v in tensors.items()}
            loss = losses(seats, pooled, rows, weights[:, batch], mean * plan.rows, step > steps / 3)
            loss.sum().backward()
            total += float(loss.detach().mean()) if step % 50 == 0 else 0.0
        torch.autograd.backward(list(merged.values()), [leaf.grad for leaf in leaves.values()])
        clip_each(seats)
        optimizer.step()
        if step % 50 == 0:
            tell(f"step {step}/{steps}, loss {total:.3f}, {time.monotonic() - started:.0f} s")
        step += 1
    return step


def passes(order: Sequence[int], ids: Mapping[int, Sequence[int]], tokens: int) -> list[list[int]]:
    """Examples of similar length together, at most ``tokens`` padded tokens each."""
    found: list[list[int]] = []
    for i in order:
        if found and (len(found[-1]) + 1) * len(ids[i]) <= tokens:
            found[-1].append(i)
        else:
            found.append([i])
    return found


def losses(seats: Seats, pooled: Any, rows: Mapping[str, Any], weight: Any, total: Any, later: bool) -> Any:
    """One loss per seat."""
    out, count = seats.read(pooled), len(seats.recipes)
    logits = out["risk"].gather(2, rows["head"][None, :, None].expand(count, -1, 1))[:, :, 0]
    smoothing, given = each(seats, "smoothing")[:, None], each(seats, "given")[:, None]
    target = rows["label"][None] * (1 - 2 * smoothing) + smoothing
    if later:
        mixed = given * target + (1 - given) * torch.sigmoid(logits.detach())
        target = torch.where(rows["noisy"][None], mixed, target)
    miss = functional.binary_cross_entropy_with_logits(logits, target.expand_as(logits), reduction="none")
    loss = (miss * weight).sum(1) / total
    seen = (weight > 0).float()
    named = seen * (rows["hazard"] >= 0).float()[None]
    chosen = rows["hazard"].clamp(min=0)[None, :, None].expand(count, -1, 1)
    odds = functional.log_softmax(out["hazard"], 2).gather(2, chosen)[:, :, 0]
    share = len(rows["label"]) / seats.plan.rows
    loss = loss - share * each(seats, "hazard") * (odds * named).sum(1) / named.sum(1).clamp(min=4)
    known = seen * rows["known"][None]
    wrong = functional.binary_cross_entropy_with_logits(
        out["context"], rows["contexts"].expand(count, -1, -1), reduction="none"
    ).mean(2)
    loss = loss + share * each(seats, "context") * (wrong * known).sum(1) / known.sum(1).clamp(min=4)
    text = (rows["head"] == 0).float()[None]
    bad, good = weight * text * (rows["label"] > 0.5), weight * text * (rows["label"] < 0.5)
    gap = functional.softplus(logits[:, None, :] - logits[:, :, None])
    pairs = bad[:, :, None] * good[:, None, :]
    ranked = (gap * pairs).sum((1, 2)) / pairs.sum((1, 2)).clamp(min=1e-3)
    return loss + share * each(seats, "rank") * ranked


def each(seats: Seats, field: str) -> Any:
    """A recipe's number for every seat."""
    return torch.tensor([getattr(r, field) for r in seats.recipes], device=seats.device)


def clip_each(seats: Seats, most: float = 1.0) -> None:
    """Clips the gradient of each seat by its own norm, as if it were trained alone."""
    gradients = [p.grad for p in (*seats.adapters.values(), *seats.heads.values())]
    squares = torch.stack([g.flatten(1).pow(2).sum(1) for g in gradients]).sum(0)
    factor = (most / (squares.sqrt() + 1e-6)).clamp(max=1.0)
    for g in gradients:
        g.mul_(factor[:, None, None])


def score(seats: Seats, data: Data, until: float, tell: Callable[[str], None]) -> dict[str, np.ndarray]:
    """Risk logits (seats, examples), the mean over at most four windows, of every example some seat did not see; and
    the hazards' and contexts' logits of the first window. Adapters are rounded to half precision first."""
    with torch.no_grad():
        for tensor in (*seats.adapters.values(), *seats.heads.values()):
            tensor.copy_(tensor.half().float())
    places = []
    for i in data.chosen[data.fold[data.chosen] >= 0]:
        for n, w in enumerate(windows(int(data.kind[i]), data.text[i], data.picture[i], seats.plan.window)):
            places.append((int(i), n, w))
    places.sort(key=lambda p: (data.weight_class[p[0]] not in (0, 5), len(p[2])))
    count = len(seats.recipes)
    sums = np.zeros((count, data.count), np.float32)
    parts = np.zeros(data.count, np.float32)
    hazard = np.zeros((count, data.count, 16), np.float16)
    context = np.zeros((count, data.count, 6), np.float16)
    own = data.weight_class == 0
    own |= data.weight_class == 5
    begin = 0
    with torch.inference_mode():
        merged = seats.merged()
        while begin < len(places):
            stop = begin
            while stop < len(places) and (stop - begin + 1) * len(places[stop][2]) <= seats.plan.tokens * 2:
                stop += 1
            batch = places[begin : max(stop, begin + 1)]
            begin += len(batch)
            out = seats.read(seats.pool(*pad([p[2] for p in batch], seats.device), merged))
            risk, names, benign = (out[k].float().cpu().numpy() for k in ("risk", "hazard", "context"))
            for line, (i, n, _) in enumerate(batch):
                sums[:, i] += risk[:, line, data.head[i]]
                parts[i] += 1
                if n == 0 and own[i]:
                    hazard[:, i], context[:, i] = names[:, line], benign[:, line]
            if time.monotonic() > until:
                tell(f"scoring stopped: {begin} of {len(places)} windows")
                break
    scored = np.flatnonzero(parts > 0)
    unseen = np.stack([np.isin(data.fold, r.unseen) for r in seats.recipes])
    logits = np.where(unseen[:, scored], sums[:, scored] / parts[scored], np.nan)
    hazard[~unseen], context[~unseen] = 0, 0
    single = [n for n, r in enumerate(seats.recipes) if len(r.unseen) == 1]
    named = np.flatnonzero((parts > 0) & own)
    return {
        "rows": scored.astype(np.int32),
        "logits": logits.astype(np.float16),
        "named": named.astype(np.int32),
        "single": np.array(single, np.int32),
        "hazard": hazard[single][:, named] if single else hazard[:0],
        "context": context[single][:, named] if single else context[:0],
    }


def load_safetensors(path: str, device: str) -> dict[str, Any]:
    """The encoder's weights, without the safetensors package."""
    raw = Path(path).read_bytes()
    size = int.from_bytes(raw[:8], "little")
    found = {}
    for name, entry in json.loads(raw[8 : 8 + size]).items():
        if name == "__metadata__" or entry["dtype"] not in ("F16", "F32"):
            continue
        begin, end = (8 + size + at for at in entry["data_offsets"])
        values = np.frombuffer(raw[begin:end], np.float16 if entry["dtype"] == "F16" else np.float32)
        key = name.removeprefix("bert.")
        found[key] = torch.from_numpy(values.astype(np.float32).reshape(entry["shape"])).to(device)
    return found


def _named(tell: Callable[[str], None], name: str, words: str) -> None:
    tell(f"{name}: {words}")


def main(source: str, plans: str, encoder: str, out: str, some: int = 0) -> None:
    """Every training of the plan file, one after another, each with its results in files of its own."""
    started = time.monotonic()

    def tell(words: str) -> None:
        print(f"[{time.monotonic() - started:6.1f}] {words}", flush=True)

    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.set_num_threads(4)
    torch.backends.cuda.matmul.allow_tf32 = True
    data = Data(source, some)
    frozen = load_safetensors(encoder, device)
    tell(f"{data.count} examples on {device}, {len(frozen)} tensors")
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    for job in json.loads(Path(plans).read_text()):
        recipes = [Recipe(**{**r, "unseen": tuple(r.get("unseen", ()))}) for r in job["recipes"]]
        plan = Plan(**job["plan"])
        spent = time.monotonic() - started
        if spent + plan.seconds + job["scoring"] > job["until"]:
            shorter = job["until"] - spent - job["scoring"]
            if shorter < job.get("least", 60):
                tell(f"{job['name']}: left out, {shorter:.0f} s are too few")
                continue
            plan = Plan(**{**job["plan"], "seconds": shorter})
        seats = Seats(frozen, recipes, plan, device)
        steps = train(seats, data, partial(_named, tell, str(job["name"])))
        for index, recipe in enumerate(recipes):
            if not recipe.unseen and job.get("export", True):
                np.savez(folder / f"{job['name']}-{recipe.name}.npz", **seats.export(index))  # type: ignore[arg-type]
        found = score(seats, data, started + job["until"] + 20, tell)
        names = np.array([f"{r.name}:{','.join(map(str, r.unseen))}" for r in recipes])
        np.savez_compressed(folder / f"{job['name']}-scores.npz", recipes=names, steps=steps, **found)  # type: ignore[arg-type]
        tell(f"{job['name']}: done after {steps} steps")
        del seats, found
        if device == "cuda":
            torch.cuda.empty_cache()


if __name__ == "__main__":
    inputs, plan_file, weights, results = sys.argv[1:5]
    main(inputs, plan_file, weights, results, some=int(sys.argv[5]) if len(sys.argv) > 5 else 0)
