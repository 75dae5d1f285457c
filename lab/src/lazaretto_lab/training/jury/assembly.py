"""Puts the jury together: trained seats, fitted numbers, and the figures that its model card quotes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lazaretto.gates.content.jury.scorer import Settings
from lazaretto.models.weight_files import packed_changes
from lazaretto_lab.metrics.detection import auc, confusion
from lazaretto_lab.metrics.intervals import bootstrap_interval
from lazaretto_lab.training.jury.bundle import FOLDS
from lazaretto_lab.training.jury.data import CONTEXTS, HAZARDS
from lazaretto_lab.training.jury.evaluation import SEATS, Items, Judged, by_source, f1, fit, judge, load_items
from lazaretto_lab.training.pack import read_trained, write

VERSION = "3"
WINDOW = 256
HEADS = ("text", "image", "pair")
FALSE_ALARMS, MISSES = 0.01, 0.15
"""The policy's default rates."""


def assemble_jury(work: Path, out: Path, seats: Sequence[str] = SEATS, job: str = "jury") -> dict[str, Any]:
    """Writes the seats and the manifest ``jury.json``: hashes, fitted numbers of every head, and what was measured.

    ``seats``: which of the trained ones are Strict and Loose.
    """
    for role, seat in zip(SEATS, seats, strict=True):
        write(packed_changes(read_trained(work / f"{job}-{seat}.npz"), 8), out / f"{role}.safetensors")
    items = load_items(work, seats, job)
    heads, measured = {}, dict[str, Any]()
    for head in HEADS:
        settings, judged = fit(items, head), judge(items, head, FALSE_ALARMS, MISSES)
        heads[head] = _plain(settings, _spread(items, head))
        measured[head] = _bench(judged)
        if head == "text":
            measured["sources"] = by_source(judged)
            measured["all sources"] = _macro(judged)
    heads["lettering"] = {**heads["text"], "quick": -30.0}
    measured["hazards"] = hazard_accuracy(work, seats, job)
    manifest = {
        "version": VERSION,
        "windows": dict.fromkeys(SEATS, WINDOW),
        "sha256": {
            f"{s}.safetensors": hashlib.sha256((out / f"{s}.safetensors").read_bytes()).hexdigest() for s in SEATS
        },
        "hazards": list(HAZARDS),
        "contexts": list(CONTEXTS),
        "heads": heads,
        "measured": measured,
    }
    (out / "jury.json").write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
    return manifest


def _plain(settings: Settings, spread: float) -> dict[str, Any]:
    return {
        "calibration": {k: [round(x, 5) for x in v] for k, v in settings.calibration.items()},
        "debate": {k: [round(x, 5) for x in v] for k, v in settings.debate.items()},
        "spread": round(spread, 4),
        "block": [[rate, round(odds, 4)] for rate, odds in settings.block],
        "allow": [[rate, round(odds, 4)] for rate, odds in settings.allow],
        "quick": round(settings.quick, 4),
    }


def _spread(items: Items, head: str) -> float:
    """How far two seats of one training lie apart, as 1.96 standard deviations: what training again would change."""
    here = items.logits[items.head == head]
    return float(1.96 * np.abs(here[:, 0] - here[:, 1]).mean() / np.sqrt(2))


def _bench(judged: Judged) -> dict[str, Any]:
    """AIR-Bench's items of one kind: F1 as earlier versions counted it, at even odds, and the three outcomes."""
    dev = judged.items.source == "dev"
    labels, odds, ruled = judged.items.label[dev], judged.odds[dev], judged.voted[dev]
    counts, rows = confusion(labels, ruled), np.column_stack([labels, ruled])
    interval = bootstrap_interval(rows, statistic=lambda r: f1(r[:, 0], r[:, 1] > 0))
    return {
        "items": len(labels),
        "precision": round(counts.precision, 4),
        "recall": round(counts.recall, 4),
        "f1": round(counts.f1, 4),
        "f1_interval": [round(interval.low, 4), round(interval.high, 4)],
        "auc": round(auc(labels, odds), 4),
        "f1 at even odds": round(f1(labels, odds >= 0), 4),
        "alone": {
            seat: {"f1": round(f1(labels, past[dev]), 4), "auc": round(auc(labels, margin[dev]), 4)}
            for seat, (past, margin) in judged.alone.items()
        },
        "harmless": _outcomes(judged, dev & (judged.items.label == 0)),
        "harmful": _outcomes(judged, dev & (judged.items.label == 1)),
    }


def _outcomes(judged: Judged, rows: Any) -> dict[str, float]:
    return {
        "blocked": round(float(judged.blocked[rows].mean()), 4),
        "gray": round(float(judged.gray[rows].mean()), 4),
    }


def _macro(judged: Judged) -> dict[str, Any]:
    """Means over foreign sources, and AUC of all of them together."""
    foreign = judged.items.source != "dev"
    found: dict[str, Any] = {"auc": round(auc(judged.items.label[foreign], judged.odds[foreign]), 4)}
    for name in ("harmless", "harmful"):
        rows = [row[name] for source, row in by_source(judged).items() if source != "dev" and name in row]
        found[name] = {key: round(float(np.mean([r[key] for r in rows])), 4) for key in ("blocked", "gray")}
        found[name]["most blocked" if name == "harmless" else "least caught"] = (
            max(r["blocked"] for r in rows if r["rows"] >= 70)
            if name == "harmless"
            else min(round(r["blocked"] + r["gray"], 4) for r in rows)
        )
        found[name]["sources"] = len(rows)
    return found


def hazard_accuracy(work: Path, seats: Sequence[str], job: str) -> dict[str, Any]:
    """How often Strict names AIR-Bench's own category of a risky development item, by models that did not see it."""
    examples = [json.loads(line) for line in (work / "examples.jsonl").read_text(encoding="utf-8").splitlines()]
    with np.load(work / f"{job}-scores.npz") as stored:
        names, single = [str(n) for n in stored["recipes"]], stored["single"].tolist()
        rows, logits = stored["named"], stored["hazard"].astype(np.float64)
    right: dict[str, list[tuple[bool, bool, bool]]] = {}
    for k in range(FOLDS):
        seat = logits[single.index(names.index(f"{seats[0]}:{k}"))]
        for line, row in zip(seat, rows, strict=True):
            e = examples[row]
            if e["fold"] == k and e["source"] == "dev" and e["label"] and e["hazard"] >= 0:
                order = np.argsort(-line)
                share = np.exp(line - line.max())
                named = bool((share / share.sum()).max() >= 0.35)
                first, third = bool(order[0] == e["hazard"]), bool(e["hazard"] in order[:3])
                right.setdefault(HAZARDS[e["hazard"]], []).append((first, third, named))
    table = {
        name: {"items": len(found), "first": round(np.mean([f for f, _, _ in found]).item(), 3),
               "among three": round(np.mean([t for _, t, _ in found]).item(), 3)}
        for name, found in sorted(right.items(), key=lambda item: -len(item[1]))
    }  # fmt: skip
    every = [f for found in right.values() for f in found]
    sure = [f for f in every if f[2]]
    table["all"] = {
        "items": len(every),
        "first": round(np.mean([f for f, _, _ in every]).item(), 3),
        "among three": round(np.mean([t for _, t, _ in every]).item(), 3),
        "named": round(len(sure) / max(1, len(every)), 3),
        "right when named": round(np.mean([f for f, _, _ in sure]).item(), 3),
    }
    return table
