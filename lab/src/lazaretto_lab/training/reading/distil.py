"""One lease: six teachers (mpnet-base), six students (MiniLM) that learn from them, and what all say of left-out texts.

    python -m lazaretto_lab.training.reading.distil WORK OUT [--seconds 1000]

Needs torch and numpy alone, the folder that ``prepare.py`` wrote, and ``mpnet.npz`` in it (``reader.trunks``). Seats 0
to 4 leave a split out, seat 5 ships. Two more seats of the student have no teacher and read no text without labels:
what they lack is what distilling adds. Changes are rounded to eight bits before anything is scored. Every stage leaves
its files in ``OUT`` when it ends; states of the trainings lie in ``WORK``, and one that was cut goes on from there.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from lazaretto_lab.training.reading import trunk as trunks
from lazaretto_lab.training.reading.batches import Batches
from lazaretto_lab.training.reading.scores import SPLITS, score_orders, score_risky
from lazaretto_lab.training.reading.training import Progress, Teacher, train
from lazaretto_lab.training.reading.trunk import Plan, Trunk
from lazaretto_lab.training.screener import training as screener

SEATS = (*range(SPLITS), SPLITS)
PLAIN = (0, 2)
"""Splits that a student without a teacher leaves out, too."""
TEACHER = Plan(
    steps=1100, orders=96, quiet=24, tools=24, risky=96, tokens=16384, rank=16, rate=5e-4, head_rate=1e-3, vectors=0.0,
    pooled_dropout=0.1, averaged=0.995, seed=3,
)  # fmt: skip
STUDENT = Plan(steps=4000, transfer=160, seed=1)
_TEACHER_SHARE, _SCORING_SHARE = 0.38, 0.05
Tell = Callable[[str], None]


def main() -> None:
    """Both trainings and all scores."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seconds", type=float, default=1000.0)
    parser.add_argument("--teacher", default="{}", help="changes to the teacher's plan, as JSON")
    parser.add_argument("--student", default="{}", help="changes to the student's plan, as JSON")
    given = parser.parse_args()
    started = time.monotonic()

    def tell(words: str) -> None:
        print(f"[{time.monotonic() - started:6.1f}] {words}", flush=True)

    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.set_num_threads(2)
    torch.set_float32_matmul_precision("high")
    given.out.mkdir(parents=True, exist_ok=True)
    teacher_plan = replace(TEACHER, seconds=given.seconds * _TEACHER_SHARE, **json.loads(given.teacher))
    teacher = _teachers(given.work, given.out / "teacher", teacher_plan, device, tell)
    left = given.seconds - (time.monotonic() - started) - given.seconds * _SCORING_SHARE
    student_plan = replace(STUDENT, seconds=left, **json.loads(given.student))
    _students(given.work, given.out, student_plan, teacher, tell)
    tell("done")


def _teachers(work: Path, out: Path, plan: Plan, device: str, tell: Tell) -> Trunk:
    batches = Batches(work, plan, SEATS)
    tell(f"{batches.risky.count} risky and harmless texts on {device}")
    trunk = Trunk(trunks.mpnet(work / "mpnet.npz", device), plan, device, len(SEATS))
    at = train(trunk, batches, lambda words: tell(f"teachers: {words}"), path=work / "teachers.pt")
    trunk.round()
    out.mkdir(parents=True, exist_ok=True)
    if not (out / "jury-scores.npz").exists():
        tell(f"teachers: {at.step} steps; scoring")
        np.savez(out / "trunk.npz", **trunk.packed(SPLITS))  # type: ignore[arg-type]
        _scores(trunk, batches, work, out, {k: k for k in range(SPLITS)}, at)
    tell("teachers: scored")
    return trunk


def _students(work: Path, out: Path, plan: Plan, taught_by: Trunk, tell: Tell) -> None:
    splits = (*SEATS, *PLAIN)
    with torch.no_grad():
        merged = taught_by.merged()
    teacher = Teacher(taught_by, merged, (*SEATS, *(-1 for _ in PLAIN)))
    batches = Batches(work, plan, splits)
    frozen = trunks.minilm(work / "minilm.safetensors", taught_by.device)
    trunk = Trunk(frozen, plan, taught_by.device, len(splits))
    at = train(trunk, batches, lambda words: tell(f"students: {words}"), teacher, work / "students.pt")
    trunk.round()
    np.savez(out / "trunk.npz", **trunk.packed(SPLITS))  # type: ignore[arg-type]
    tell(f"students: {at.step} steps; scoring")
    _scores(trunk, batches, work, out, {k: k for k in range(SPLITS)}, at)
    plain = out / "plain"
    plain.mkdir(exist_ok=True)
    _scores(trunk, batches, work, plain, {k: len(SEATS) + n for n, k in enumerate(PLAIN)}, at)
    for k in range(SPLITS):
        np.savez(out / f"trunk-{k}.npz", **trunk.packed(k))  # type: ignore[arg-type]


def _scores(trunk: Trunk, batches: Batches, work: Path, out: Path, seats: Mapping[int, int], at: Progress) -> None:
    families: Mapping[str, int] = json.loads((work / "families.json").read_text())
    told: dict[str, Any] = {"plan": asdict(trunk.plan), "steps": at.step, "seconds": round(at.spent, 1)}
    (out / "plan.json").write_text(json.dumps({**told, "losses": at.losses}, indent=1))
    chosen = {family: seats[split] for family, split in families.items() if split in seats}
    score_orders(trunk, screener.Held(work / "held.npz.xz"), chosen, out)
    score_risky(trunk, batches.risky, batches.judged, seats, at.step, out)


if __name__ == "__main__":
    main()
