"""One lease: teachers that each leave a family of sources out, and students that learn both tasks from them.

    python -m lazaretto_lab.training.reading.distil WORK OUT [--seconds 1000]

Needs torch and numpy alone, the folder that ``prepare.py`` wrote, and ``mpnet.npz`` in it (``reader.trunks``). A
student leaves out one family of orders and the fold of harm that goes with it; the last one leaves out nothing and
ships. Each begins as the screener that left out the same and is taught by it, and in risk by a mean of a jury and
mpnet (``teachers.py``). Changes are rounded to eight bits before anything is scored. Every stage leaves its files in
``OUT`` when it ends; states of the trainings lie in ``WORK``, and one that was cut goes on from there.
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

from lazaretto_lab.training.reading import teachers
from lazaretto_lab.training.reading import trunk as trunks
from lazaretto_lab.training.reading.batches import Batches
from lazaretto_lab.training.reading.scores import SPLITS, score_orders, score_risky
from lazaretto_lab.training.reading.training import Progress, train
from lazaretto_lab.training.reading.trunk import Plan, Trunk
from lazaretto_lab.training.screener import training as screener

STUDENT = Plan(
    steps=5000, risky=64, transfer=160, seed=1, written=0.15, rate=6e-4, head_rate=1.5e-3, vectors=0.0, taught_risk=4.0
)
_SHARES = {"screeners": 0.15, "juries": 0.08, "mpnet": 0.17, "scores": 0.04}
"""Of the time, at most; the students have the rest."""
Tell = Callable[[str], None]


def main() -> None:
    """All trainings and all scores."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seconds", type=float, default=1000.0)
    parser.add_argument("--plans", default="{}", help="changes to the plans by stage, as JSON")
    given = parser.parse_args()
    started = time.monotonic()

    def tell(words: str) -> None:
        print(f"[{time.monotonic() - started:6.1f}] {words}", flush=True)

    torch.set_num_threads(2)
    torch.set_float32_matmul_precision("high")
    plans = {name: json.loads(given.plans).get(name, {}) for name in ("screeners", "juries", "mpnet", "students")}
    taught_by = _teachers(given.work, given.out, given.seconds, plans, tell)
    left = given.seconds * (1 - _SHARES["scores"]) - (time.monotonic() - started)
    _students(given.work, given.out, replace(STUDENT, seconds=left, **plans["students"]), taught_by, tell)
    tell("done")


def _teachers(work: Path, out: Path, seconds: float, plans: Mapping[str, Any], tell: Tell) -> teachers.Teachers:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    families: Mapping[str, int] = json.loads((work / "families.json").read_text())
    several, first = list(families.values()), [list(families.values()).index(k) for k in range(SPLITS)]
    frozen = trunks.minilm(work / "minilm.safetensors", device)
    folder = out / "teacher"
    folder.mkdir(parents=True, exist_ok=True)
    time_of = {name: seconds * share for name, share in _SHARES.items()}

    plan = replace(teachers.SCREENER, seconds=time_of["screeners"], **plans["screeners"])
    batches = Batches(work, plan, range(len(several)))
    tell(f"{batches.risky.count} risky and harmless texts on {device}")
    orders = teachers.screeners(frozen, batches, work, device, lambda words: tell(f"screeners: {words}"))
    if not (folder / "xsafety.json").exists():
        chosen = {family: n for n, family in enumerate(families)}
        score_orders(orders, screener.Held(work / "held.npz.xz"), chosen, folder)
    jury_plan = replace(teachers.JURY, seconds=time_of["juries"], **plans["juries"])
    jury = teachers.juries(frozen, work, first, jury_plan, lambda words: tell(f"juries: {words}"))

    plan = replace(teachers.MPNET, seconds=time_of["mpnet"], **plans["mpnet"])
    batches = Batches(work, plan, [*first, len(several)])
    larger = Trunk(trunks.mpnet(work / "mpnet.npz", device), plan, device, SPLITS + 1)
    at = train(larger, batches, lambda words: tell(f"mpnet: {words}"), path=work / "mpnet.pt")
    if not (folder / "jury-scores.npz").exists():
        score_risky(larger, batches.risky, batches.judged, {k: k for k in range(SPLITS)}, at.step, folder)
        _write_plan(larger, at, folder)
    tell("teachers: scored")
    return teachers.Teachers.of(orders, jury, larger, (*several, SPLITS))


def _students(work: Path, out: Path, plan: Plan, taught_by: teachers.Teachers, tell: Tell) -> None:
    families: Mapping[str, int] = json.loads((work / "families.json").read_text())
    count = len(families)
    batches = Batches(work, plan, range(count + 1))
    begins = taught_by.orders
    trunk = Trunk(begins.frozen, plan, begins.device, count + 1)
    for seat in range(count + 1):
        given = {name: value[seat] for name, value in begins.changes.items()}
        trunk.take(seat, given | {n: v[seat] for n, v in begins.heads.items() if n.startswith("head.marks.")})
    at = train(trunk, batches, lambda words: tell(f"students: {words}"), taught_by, work / "students.pt")
    trunk.round()
    np.savez(out / "trunk.npz", **trunk.packed(count))  # type: ignore[arg-type]
    tell(f"students: {at.step} steps; scoring")
    _write_plan(trunk, at, out)
    score_orders(trunk, screener.Held(work / "held.npz.xz"), {name: n for n, name in enumerate(families)}, out)
    first = {k: list(families.values()).index(k) for k in range(SPLITS)}
    score_risky(trunk, batches.risky, batches.judged, first, at.step, out)
    for seat in range(count):
        np.savez(out / f"trunk-{seat}.npz", **trunk.packed(seat))  # type: ignore[arg-type]


def _write_plan(trunk: Trunk, at: Progress, out: Path) -> None:
    told: dict[str, Any] = {"plan": asdict(trunk.plan), "steps": at.step, "seconds": round(at.spent, 1)}
    (out / "plan.json").write_text(json.dumps({**told, "losses": at.losses}, indent=1))


if __name__ == "__main__":
    main()
