"""Trains one student of two teachers: the labelled pairs, and what the teachers say together of pairs without labels.

Needs torch and numpy alone, like ``training``, which it stands on:

    python -m lazaretto_lab.training.claims.distil INPUTS MINILM MPNET OUT --seconds 400

INPUTS holds ``train.npz`` and ``scored.npz`` (``pairs``), ``transfer.npz``, ``first.npz`` and ``deep.npz``
(``transfer``). The teachers are the first relation model before this one, and the larger one; a conflict is the mean of
their log-odds, as the gate takes it, and the rest is the first one's word. The student begins as the first one, which
has seen no written text. The run that ships comes first, then those that leave a fold out: neither its labelled pairs
nor any pair made of its texts.
"""

from __future__ import annotations

import argparse
import math
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from lazaretto_lab.training.claims.training import (
    LEFT_OUT,
    NEVER,
    RELATIONS,
    TRUNKS,
    Pairs,
    Reader,
    Recipe,
    drawn,
    load_encoder,
    score,
    told,
)

RUNS = ("final", "fold_0", "fold_1")
DEEP_COUNTS, DEEP_COUNTS_OPERATIONAL = 0.6, 0.3
"""Weight of the larger teacher; operational facts are what the first one knows best."""
OPERATIONAL = ("soft_ops", "templates")
Floats = NDArray[np.float32]
Bases = dict[str, dict[str, torch.Tensor]]


@dataclass(frozen=True)
class Student:
    """Everything the student depends on, besides its pairs."""

    rank: int = 64
    batch: int = 768
    steps: int = 6_000
    rate: float = 1e-3
    labelled: int = 90_000
    """Labelled pairs of an epoch."""
    soft: int = 130_000
    """The others."""
    taught: float = 0.25
    """Share of the teachers in what is to be said of a labelled pair."""
    plain: float = 0.35
    """How often a pair is drawn that the teachers find plainly peaceful, against others."""
    seed: int = 0


def adopt(reader: Reader, arrays: dict[str, NDArray[Any]]) -> Reader:
    """Give a reader the changes and the head of a trained one of at most its rank."""
    with torch.no_grad():
        product: Any
        for name, product in reader.products.items():
            at = f"{name.replace('/', '.')}.weight"
            down, up = (torch.from_numpy(arrays[f"{at}.{part}"].astype(np.float32)) for part in ("lora_a", "lora_b"))
            product.down[: len(down)] = down.to(product.down.device)
            product.up[:, : len(down)] = up.to(product.up.device)
        for layer, name in ((reader.first, "first"), (reader.last, "last")):
            layer.weight.copy_(torch.from_numpy(arrays[f"head.{name}.weight"].astype(np.float32)))
            layer.bias.copy_(torch.from_numpy(arrays[f"head.{name}.bias"].astype(np.float32)))
    return reader


def shares(logits: NDArray[Any], temperature: float) -> Floats:
    """Probabilities of the relations."""
    x = logits.astype(np.float32) / temperature
    x = np.exp(x - x.max(1, keepdims=True))
    return np.asarray(x / x.sum(1, keepdims=True), np.float32)


def together(first: Floats, deep: Floats, weight: NDArray[Any]) -> Floats:
    """What the teachers say of each pair, as ``relation.together`` joins them."""
    odds = []
    for one in (first, deep):
        conflict = np.clip(one[:, 1] + one[:, 2], 1e-4, 1 - 1e-4)
        odds.append(np.log(conflict / (1 - conflict)))
    conflict = 1 / (1 + np.exp(-((1 - weight) * odds[0] + weight * odds[1])))
    mine = np.clip(first[:, 1] + first[:, 2], 1e-6, 1 - 1e-6)
    scale = np.stack([(1 - conflict) / (1 - mine), conflict / mine, conflict / mine, (1 - conflict) / (1 - mine)], 1)
    joined = first * scale
    return np.asarray(joined / joined.sum(1, keepdims=True), np.float32)


def with_labels(labels: NDArray[Any], taught: Floats, share: float, smoothing: float) -> Floats:
    """What is to be said of labelled pairs: the label, and a share of what the teachers say. Where it is only known
    whether a pair is a conflict, the teachers say which of two relations it is."""
    found = np.full_like(taught, smoothing / RELATIONS)
    known = labels < RELATIONS
    found[known, labels[known]] += 1 - smoothing
    for label, either, other in ((RELATIONS, [0, 3], [1, 2]), (RELATIONS + 1, [1, 2], [0, 3])):
        mine = labels == label
        for several, mass in ((either, 1 - smoothing), (other, smoothing)):
            part = taught[mine][:, several] + 1e-4
            found[np.ix_(mine, several)] = mass * part / part.sum(1, keepdims=True)
    return np.asarray((1 - share) * found + share * taught, np.float32)


def taught_by(inputs: Path, bases: Bases, packs: dict[str, Pairs], out: Path) -> dict[str, Floats]:
    """What the teachers say together of every pair of each pack."""
    said: dict[str, dict[str, Floats]] = {name: {} for name in packs}
    for teacher, trunk in (("first", "minilm"), ("deep", "mpnet")):
        with np.load(inputs / f"{teacher}.npz") as file:
            arrays = {name: file[name] for name in file.files}
        rank = next(len(one) for name, one in arrays.items() if name.endswith(".lora_a"))
        width = next(iter(packs.values())).device_features.shape[1]
        device = next(iter(packs.values())).device
        reader = adopt(Reader(bases[trunk], TRUNKS[trunk], rank, width).to(device), arrays).eval()
        for name, pack in packs.items():
            said[name][teacher] = shares(score(reader, pack, np.arange(len(pack))), float(arrays["temperature"]))
    found = {}
    for name, pack in packs.items():
        source = np.array(pack.names)[pack.source]
        weight = np.where(np.isin(source, OPERATIONAL), DEEP_COUNTS_OPERATIONAL, DEEP_COUNTS)
        found[name] = together(said[name]["first"], said[name]["deep"], weight)
        conflict = found[name][:, 1] + found[name][:, 2]
        print(f"{name}: {len(pack)} pairs, conflict above .5 in {(conflict > 0.5).mean():.3f}", flush=True)
    np.savez_compressed(out / "taught.npz", **{k: v.astype(np.float16) for k, v in found.items()})  # type: ignore[arg-type]
    return found


def _epoch(
    packs: dict[str, Pairs], seen: dict[str, NDArray[Any]], weight: NDArray[Any], student: Student,
    rng: np.random.Generator,
) -> list[tuple[str, NDArray[Any]]]:  # fmt: skip
    """Batches of one epoch, each of one pack and of texts of like length."""
    rows = {
        "train": drawn(packs["train"], seen["train"], Recipe(size=student.labelled), rng),
        "transfer": rng.choice(seen["transfer"], min(student.soft, len(seen["transfer"])), replace=False, p=weight),
    }
    found = []
    for name, some in rows.items():
        ordered = some[np.argsort(packs[name].total[some] + rng.random(len(some)) * 12)]
        starts = range(0, max(1, len(ordered) - student.batch + 1), student.batch)
        found += [(name, ordered[at : at + student.batch]) for at in starts]
    return [found[n] for n in rng.permutation(len(found))]


def _rate(done: float) -> float:
    """Share of the highest rate: it rises for a twelfth of the way, then falls to nothing."""
    return done / 0.08 if done < 0.08 else 0.5 * (1 + math.cos(math.pi * (done - 0.08) / 0.92))


def train(
    packs: dict[str, Pairs], seen: dict[str, NDArray[Any]], targets: dict[str, torch.Tensor], reader: Reader,
    student: Student, seconds: float, keep: Path | None,
) -> int:  # fmt: skip
    """Train the reader for its steps, or as many as the time allows; how many there were."""
    torch.manual_seed(student.seed)
    rng = np.random.default_rng(student.seed)
    device = packs["train"].device
    reader.train()
    parameters = [p for p in reader.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(parameters, lr=student.rate, weight_decay=0.01, fused=device == "cuda")
    conflict = targets["transfer"][torch.from_numpy(seen["transfer"]).to(device)][:, 1:3].sum(1).cpu().numpy()
    weight = np.where(conflict < 0.06, student.plain, 1.0)
    weight /= weight.sum()
    began, step, losses, kept = time.monotonic(), 0, [], time.monotonic()
    done = 0.0
    while done < 1:
        for name, rows in _epoch(packs, seen, weight, student, rng):
            done = max(step / student.steps, (time.monotonic() - began) / seconds)
            if done >= 1:
                break
            for group in optimizer.param_groups:
                group["lr"] = student.rate * _rate(done)
            ids, mask, features = packs[name].batch(rows)
            features = features * (torch.rand(len(rows), 1, device=device) >= Recipe.blind)
            with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
                logits = reader(ids, mask, features)
            wanted = targets[name][torch.from_numpy(rows).to(device)]
            loss = -(wanted * functional.log_softmax(logits.float(), 1)).sum(1).mean()
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(parameters, 1.0)
            optimizer.step()
            step += 1
            if step % 20 == 0:  # and waits for the device, so that the clock is right
                losses.append(float(loss.detach()))
            if step % 400 == 0:
                spent = time.monotonic() - began
                print(f"  step {step}, loss {np.mean(losses[-20:]):.4f}, {spent:.0f} s", flush=True)
            if keep is not None and time.monotonic() - kept > 45:
                kept = time.monotonic()
                np.savez(keep, **reader.arrays())  # type: ignore[arg-type]
    reader.eval()
    return step


def run(inputs: Path, encoders: dict[str, Path], out: Path, seconds: float, student: Student) -> None:
    """Teachers first, then the runs of ``RUNS`` as far as the time goes; each writes what it has at once."""
    began = time.monotonic()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.set_float32_matmul_precision("high")
    out.mkdir(parents=True, exist_ok=True)
    bases = {
        one: {k: v.to(device) for k, v in load_encoder(path).items() if v.is_floating_point()}
        for one, path in encoders.items()
    }
    names = [name for name in ("train", "transfer", "scored", "dev") if (inputs / f"{name}.npz").is_file()]
    packs = {name: Pairs(inputs / f"{name}.npz", device) for name in names}
    plain = Reader(bases["minilm"], TRUNKS["minilm"], 1, 1).to(device).eval()
    for pack in packs.values():
        pack.add_cosines(plain)
    print(f"read after {time.monotonic() - began:.0f} s", flush=True)
    taught = taught_by(inputs, bases, {name: packs[name] for name in ("train", "transfer")}, out)
    bases.pop("mpnet")
    taught["train"] = with_labels(packs["train"].label, taught["train"], student.taught, Recipe.smoothing)
    targets = {name: torch.from_numpy(one).to(device) for name, one in taught.items()}
    with np.load(inputs / "first.npz") as file:
        first = {name: file[name] for name in file.files}
    print(f"taught after {time.monotonic() - began:.0f} s", flush=True)
    source = {name: np.array(packs[name].names)[packs[name].source] for name in ("train", "transfer")}
    results: dict[str, NDArray[Any]] = {}
    left = seconds - (time.monotonic() - began)
    runs = RUNS if left > 180 else RUNS[:2]
    steps = student.steps
    for place, name in enumerate(runs):
        left = seconds - (time.monotonic() - began) - 5
        limit = left / (len(runs) - place) - 6
        if limit < 25:
            print(f"no time left for {name}", flush=True)
            break
        fold = name.removeprefix("fold_")
        without = (*LEFT_OUT[name], *NEVER, f"soft_{fold}")
        seen = {one: np.flatnonzero(~np.isin(source[one], without)) for one in source}
        torch.manual_seed(student.seed)
        reader = Reader(
            bases["minilm"], TRUNKS["minilm"], student.rank, packs["train"].device_features.shape[1]
        ).to(device)  # fmt: skip
        now = Student(**{**student.__dict__, "steps": steps})
        steps = train(packs, seen, targets, adopt(reader, first), now, limit, out / "part.npz" if not place else None)
        rows = np.isin(source["train"], [one for one in without if not one.startswith(("more_", "soft_"))])
        _keep(reader, name, packs, np.flatnonzero(rows), results, out)
        print(f"{name}: {steps} steps, {time.monotonic() - began:.0f} s in all", flush=True)


def _keep(
    reader: Reader, name: str, packs: dict[str, Pairs], rows: NDArray[Any], results: dict[str, NDArray[Any]], out: Path
) -> None:
    """Write a run's weights and what it says of pairs that it has not seen."""
    if name == "final":
        np.savez(out / "student.npz", **reader.arrays())  # type: ignore[arg-type]
        (out / "part.npz").unlink(missing_ok=True)
    for other in ("scored", "dev"):
        if other in packs:
            results[f"{name}/{other}"] = score(reader, packs[other], np.arange(len(packs[other])))
    results[f"{name}/rows"] = rows.astype(np.int32)
    results[f"{name}/logits"] = score(reader, packs["train"], rows)
    source = np.array(packs["train"].names)[packs["train"].source[rows]]
    told(name, results[f"{name}/logits"], packs["train"].label[rows], np.isin(source, NEVER))
    np.savez_compressed(out / "scores.npz", **results)  # type: ignore[arg-type]


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("inputs", type=Path)
    parser.add_argument("minilm", type=Path)
    parser.add_argument("mpnet", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seconds", type=float, default=400)
    parser.add_argument("--steps", type=int, default=Student.steps)
    parser.add_argument("--batch", type=int, default=Student.batch)
    parser.add_argument("--labelled", type=int, default=Student.labelled)
    parser.add_argument("--soft", type=int, default=Student.soft)
    given = parser.parse_args()
    chosen = Student(batch=given.batch, steps=given.steps, labelled=given.labelled, soft=given.soft)
    run(given.inputs, {"minilm": given.minilm, "mpnet": given.mpnet}, given.out, given.seconds, chosen)
