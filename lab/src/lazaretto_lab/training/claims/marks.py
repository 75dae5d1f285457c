"""Trains relation models that also learn which words are at odds: a student as ``distil`` has it, and the larger model.

Needs torch and numpy alone, like ``distil``, which it stands on:

    python -m lazaretto_lab.training.claims.marks INPUTS MINILM MPNET OUT --seconds 400

INPUTS holds ``train.npz`` and ``transfer.npz`` with what the teachers say of them (``taught.npz`` of ``distil``),
``marked.npz`` and ``marks.npz`` (``marked``), ``first.npz``, ``deep.npz`` and ``student.npz``. Every run reads the
pairs as before; of pairs of ``marked`` each word piece is asked, too, whether it is at odds with the other text. That
question has a layer of its own, which is not shipped. The runs that may ship come first, then two that leave a fold
and three public sources out, one with the marked pairs and one without.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from lazaretto_lab.training.claims.distil import (
    Bases,
    Floats,
    Student,
    _rate,
    adopt,
    shares,
    together,
    with_labels,
)
from lazaretto_lab.training.claims.training import (
    LEFT_OUT,
    NEVER,
    TOKENS_NEW,
    TOKENS_OLD,
    TRUNKS,
    Pairs,
    Reader,
    Recipe,
    Trunk,
    drawn,
    load_encoder,
    score,
    told,
)

SOURCES = ("poisonedrag", "conflictqa", "feversym")
WITHOUT = (*LEFT_OUT["fold_0"], "soft_0", "soft", "m_0", *SOURCES, *(f"m_{one}" for one in SOURCES))
"""What the runs that leave something out do not see; ``soft`` has pairs of every public source."""
MIN = 15
MARK_COUNTS, MARKED_WORDS = 0.4, 3.0
"""Weight of the marks' loss, and of a marked word piece against others."""


@dataclass(frozen=True)
class Run:
    """One training."""

    name: str
    trunk: str
    begins: str
    """The file it begins as."""
    rank: int
    rate: float
    share: float
    """Of the time."""
    without: tuple[str, ...] = ()
    marks: bool = True
    batch: int = Student.batch


RUNS = (
    Run("student", "minilm", "student", 64, 7e-4, 0.25),
    Run("larger", "mpnet", "deep", 14, 3e-4, 0.43, batch=384),
    Run("left_marks", "minilm", "first", 64, 1e-3, 0.16, WITHOUT),
    Run("left_plain", "minilm", "first", 64, 1e-3, 0.16, WITHOUT, marks=False),
)


class MarkedReader(Reader):
    """A reader that is also asked of every word piece whether it is at odds with the other text."""

    def __init__(self, base: dict[str, torch.Tensor], trunk: Trunk, rank: int, features: int) -> None:
        super().__init__(base, trunk, rank, features)
        self.mark = nn.Linear(trunk.width, 1)

    def both(self, ids: Any, mask: Any, features: Any) -> tuple[Any, Any]:
        """Logits of the relations, and of each word piece."""
        x = self.states(ids, mask)
        weight = mask.to(x.dtype)[..., None]
        mean = (x * weight).sum(1) / weight.sum(1)
        joined = torch.cat([x[:, 0].float(), mean.float(), features], 1)
        with torch.autocast(ids.device.type, enabled=False):
            return self.last(functional.gelu(self.first(joined))), self.mark(x.float())[..., 0]


class Marks:
    """Which word pieces of the marked pairs are at odds."""

    def __init__(self, inputs: Path, pairs: Pairs) -> None:
        with np.load(inputs / "marks.npz") as file:
            spans, self.sure = file["marks"].astype(np.int64), file["sure"].astype(np.float32)
        device = pairs.device
        self.spans = torch.from_numpy(spans).to(device)
        self.first = pairs.sizes[pairs.device_old].clamp(max=TOKENS_OLD)
        self.conflict = torch.zeros(len(pairs), device=device)
        """How surely the pair is a conflict: so much its marks count."""

    def loss(self, rows: Any, logits: Any, mask: Any) -> Any:
        """Mean over the word pieces of each pair, over all pairs."""
        spans, first = self.spans[rows], self.first[rows]
        place = torch.arange(logits.shape[1], device=logits.device)[None]
        in_old, in_new = place - 1, place - 2 - first[:, None]
        old = (in_old >= spans[:, :1]) & (in_old < spans[:, 1:2].clamp(max=TOKENS_OLD))
        new = (in_new >= spans[:, 2:3]) & (in_new < spans[:, 3:].clamp(max=TOKENS_NEW))
        conflict = self.conflict[rows][:, None]
        wanted = (old | new) * conflict
        each = functional.binary_cross_entropy_with_logits(logits.float(), wanted, reduction="none")
        each = each * mask * torch.where(old | new, MARKED_WORDS, 1.0)
        return (each.sum(1) / mask.sum(1)).mean()


def taught_of(inputs: Path, bases: Bases, pack: Pairs) -> Floats:
    """What the two teachers say together of the marked pairs."""
    said = {}
    for teacher, trunk in (("first", "minilm"), ("deep", "mpnet")):
        arrays = _arrays(inputs / f"{teacher}.npz")
        rank = next(len(one) for name, one in arrays.items() if name.endswith(".lora_a"))
        width = pack.device_features.shape[1]
        reader = adopt(Reader(bases[trunk], TRUNKS[trunk], rank, width).to(pack.device), arrays).eval()
        said[teacher] = shares(score(reader, pack, np.arange(len(pack))), float(arrays["temperature"]))
    return together(said["first"], said["deep"], np.full(len(pack), 0.6, np.float32))


def _arrays(path: Path) -> dict[str, NDArray[Any]]:
    with np.load(path) as file:
        return {name: file[name] for name in file.files}


def targets_of(inputs: Path, packs: dict[str, Pairs], bases: Bases, marks: Marks) -> dict[str, torch.Tensor]:
    """What is to be said of every pair of each pack."""
    taught: dict[str, Floats] = {name: one.astype(np.float32) for name, one in _arrays(inputs / "taught.npz").items()}
    taught["train"] = with_labels(packs["train"].label, taught["train"], Student.taught, Recipe.smoothing)
    of_marked = taught_of(inputs, bases, packs["marked"])
    by_label = with_labels(packs["marked"].label, of_marked, 0.0, Recipe.smoothing)
    sure = (marks.sure * (1 - Student.taught))[:, None]
    taught["marked"] = sure * by_label + (1 - sure) * of_marked
    device = packs["train"].device
    targets = {name: torch.from_numpy(np.asarray(one, np.float32)).to(device) for name, one in taught.items()}
    marks.conflict = targets["marked"][:, 1:3].sum(1)
    return targets


def _epoch(
    packs: dict[str, Pairs], seen: dict[str, NDArray[Any]], weight: NDArray[Any], student: Student,
    rng: np.random.Generator,
) -> list[tuple[str, NDArray[Any]]]:  # fmt: skip
    """Batches of one epoch, each of one pack and of texts of like length."""
    rows = {
        "train": drawn(packs["train"], seen["train"], Recipe(size=student.labelled), rng),
        "transfer": rng.choice(seen["transfer"], min(student.soft, len(seen["transfer"])), replace=False, p=weight),
    }
    if len(seen["marked"]):
        rows["marked"] = rng.permutation(seen["marked"])
    found = []
    for name, some in rows.items():
        ordered = some[np.argsort(packs[name].total[some] + rng.random(len(some)) * 12)]
        starts = range(0, max(1, len(ordered) - student.batch + 1), student.batch)
        found += [(name, ordered[at : at + student.batch]) for at in starts]
    return [found[n] for n in rng.permutation(len(found))]


def train(
    packs: dict[str, Pairs], seen: dict[str, NDArray[Any]], targets: dict[str, torch.Tensor], marks: Marks,
    reader: MarkedReader, run: Run, student: Student, seconds: float, keep: Path,
) -> int:  # fmt: skip
    """Train a reader for as many steps as the time allows; how many there were."""
    rng = np.random.default_rng(student.seed)
    device = packs["train"].device
    reader.train()
    parameters = [p for p in reader.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(parameters, lr=run.rate, weight_decay=0.01, fused=device == "cuda")
    conflict = targets["transfer"][torch.from_numpy(seen["transfer"]).to(device)][:, 1:3].sum(1).cpu().numpy()
    weight = np.where(conflict < 0.06, student.plain, 1.0)
    weight /= weight.sum()
    began, step, losses = time.monotonic(), 0, []
    kept, done = began, 0.0
    while done < 1:
        for name, rows in _epoch(packs, seen, weight, student, rng):
            done = max(step / student.steps, (time.monotonic() - began) / seconds)
            if done >= 1:
                break
            for group in optimizer.param_groups:
                group["lr"] = run.rate * _rate(done)
            ids, mask, features = packs[name].batch(rows)
            features = features * (torch.rand(len(rows), 1, device=device) >= Recipe.blind)
            with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
                logits, pieces = reader.both(ids, mask, features)
            pick = torch.from_numpy(rows).to(device)
            loss = -(targets[name][pick] * functional.log_softmax(logits.float(), 1)).sum(1).mean()
            if name == "marked" and run.marks:
                loss = loss + MARK_COUNTS * marks.loss(pick, pieces, mask)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(parameters, 1.0)
            optimizer.step()
            step += 1
            if step % 20 == 0:  # and waits for the device, so that the clock is right
                losses.append(float(loss.detach()))
            if step % 200 == 0:
                spent = time.monotonic() - began
                print(f"  step {step}, loss {np.mean(losses[-10:]):.4f}, {spent:.0f} s", flush=True)
            if not run.without and time.monotonic() - kept > 40:
                kept = time.monotonic()
                np.savez(keep, **reader.arrays())  # type: ignore[arg-type]
    reader.eval()
    return step


def marked_most(reader: MarkedReader, pairs: Pairs, rows: NDArray[Any]) -> NDArray[np.float16]:
    """The surest mark of each pair."""
    found = np.zeros(len(rows), np.float16)
    order = np.argsort(pairs.total[rows])
    step = 1024 if pairs.device == "cuda" else 64
    with torch.inference_mode(), torch.autocast(pairs.device, torch.bfloat16, enabled=pairs.device == "cuda"):
        for at in range(0, len(order), step):
            part = order[at : at + step]
            ids, mask, features = pairs.batch(rows[part])
            _, pieces = reader.both(ids, mask, features)
            found[part] = pieces.float().masked_fill(~mask, -50).amax(1).cpu().numpy()
    return found


def keep_run(
    reader: MarkedReader, run: Run, packs: dict[str, Pairs], results: dict[str, NDArray[Any]], out: Path
) -> None:
    """Write a run's weights and what it says of pairs that it has not seen."""
    if not run.without:
        np.savez(out / f"{run.name}.npz", **reader.arrays())  # type: ignore[arg-type]
        (out / f"{run.name}_part.npz").unlink(missing_ok=True)
    source = np.array(packs["train"].names)[packs["train"].source]
    some = [one for one in (*run.without, *NEVER) if not one.startswith(("more_", "soft", "m_"))]
    rows = np.flatnonzero(np.isin(source, some))
    results[f"{run.name}/rows"] = rows.astype(np.int32)
    results[f"{run.name}/logits"] = score(reader, packs["train"], rows)
    results[f"{run.name}/marks"] = marked_most(reader, packs["train"], rows)
    for other in ("dev", "scored"):
        every = np.arange(len(packs[other]))
        results[f"{run.name}/{other}"] = score(reader, packs[other], every)
        results[f"{run.name}/{other}_marks"] = marked_most(reader, packs[other], every)
    label = packs["train"].label[rows]
    told(run.name, results[f"{run.name}/logits"], label, np.isin(source[rows], NEVER))
    for name in SOURCES if run.without else ():
        mine = source[rows] == name
        told(f"{run.name}, {name}", results[f"{run.name}/logits"][mine], label[mine], np.zeros(mine.sum(), bool))
    np.savez_compressed(out / "scores.npz", **results)  # type: ignore[arg-type]


def main_run(inputs: Path, encoders: dict[str, Path], out: Path, seconds: float, student: Student) -> None:
    """The runs of ``RUNS``, each in its share of the time; each writes what it has at once."""
    began = time.monotonic()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.set_float32_matmul_precision("high")
    out.mkdir(parents=True, exist_ok=True)
    bases = {
        one: {k: v.to(device) for k, v in load_encoder(path).items() if v.is_floating_point()}
        for one, path in encoders.items()
    }
    packs = {name: Pairs(inputs / f"{name}.npz", device) for name in ("train", "transfer", "marked", "scored", "dev")}
    plain = Reader(bases["minilm"], TRUNKS["minilm"], 1, 1).to(device).eval()
    for pack in packs.values():
        pack.add_cosines(plain)
    print(f"read after {time.monotonic() - began:.0f} s", flush=True)
    marks = Marks(inputs, packs["marked"])
    targets = targets_of(inputs, packs, bases, marks)
    print(f"taught after {time.monotonic() - began:.0f} s", flush=True)
    source = {name: np.array(packs[name].names)[packs[name].source] for name in ("train", "transfer", "marked")}
    results: dict[str, NDArray[Any]] = {}
    for place, run in enumerate(RUNS):
        left = seconds - (time.monotonic() - began) - 4 * (len(RUNS) - place)
        limit = left * run.share / sum(one.share for one in RUNS[place:])
        if limit < MIN:
            print(f"no time left for {run.name}", flush=True)
            continue
        seen = {one: np.flatnonzero(~np.isin(source[one], (*run.without, *NEVER))) for one in source}
        if not run.marks:
            seen["marked"] = seen["marked"][:0]
        torch.manual_seed(student.seed)
        width = packs["train"].device_features.shape[1]
        reader = MarkedReader(bases[run.trunk], TRUNKS[run.trunk], run.rank, width).to(device)
        adopt(reader, _arrays(inputs / f"{run.begins}.npz"))
        mine = replace(student, batch=min(run.batch, student.batch))
        steps = train(packs, seen, targets, marks, reader, run, mine, limit, out / f"{run.name}_part.npz")
        keep_run(reader, run, packs, results, out)
        print(f"{run.name}: {steps} steps, {time.monotonic() - began:.0f} s in all", flush=True)


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
    main_run(given.inputs, {"minilm": given.minilm, "mpnet": given.mpnet}, given.out, given.seconds, chosen)
