"""Puts the jury together: trained seats, fitted numbers, and the figures that its model card quotes."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lazaretto.gates.content.jury.debaters import precedent_evidence
from lazaretto.gates.content.jury.scorer import sigmoid
from lazaretto.gates.content.library import CaseLibrary
from lazaretto.gates.content.records import Case, InputKind, Label
from lazaretto.models.minilm import fast_minilm
from lazaretto_lab.metrics.detection import auc
from lazaretto_lab.training.jury.data import CONTEXTS, HAZARDS, grouped, load_air_bench, without_overlap
from lazaretto_lab.training.jury.evaluation import (
    ARMS,
    SEATS,
    FittedHead,
    Floats,
    difference,
    f1,
    fit,
    nested,
    spread,
    summary,
)
from lazaretto_lab.training.jury.lexicon import fit_lexicons
from lazaretto_lab.training.jury.runs import FOLDS, FOREIGN, VARIANTS, labelled
from lazaretto_lab.training.jury.scores import Development, role_logits

VERSION = "2"
_LETTERING: Mapping[str, Any] = {
    "calibration": {"strict": [0.0, 1.0, 0.0], "loose": [0.0, 1.0, 0.0]},
    "debate": {"strict": [0.0, 0.5, 0.5, 0.0], "loose": [0.0, 0.5, 0.5, 0.0]},
    "threshold": 0.5,
}
"""Nobody voted on lettered pictures: the models' own odds stand, and both seats meet in the middle."""


def precedents_of(folder: Path, count: int = 3) -> dict[str, float]:
    """For each development item, what its nearest public cases say, found by the library the debate uses."""
    examples = grouped(load_air_bench(folder))
    dev = [e for e in examples if e.source == "dev"]
    cases = without_overlap([e for e in examples if e.source != "dev"], dev)
    library = CaseLibrary(
        (Case(Label.UNSAFE if e.label else Label.SAFE, e.text, e.description) for e in cases), fast_minilm()
    )
    found: dict[str, float] = {}
    for e in dev:
        words = "\n".join(part for part in (e.text, e.description) if part)
        found[e.id] = precedent_evidence(library.nearest(words, e.kind, count))
    return found


def lexicons_of(data: Path, folder: Path) -> dict[str, dict[str, float]]:
    """Fits the bags of words; writes the shipped one to ``folder`` and gives the cross-validated logits of texts."""
    from safetensors.numpy import save_file

    examples, numbers = labelled(data)
    weights, logits = fit_lexicons(examples, np.array(numbers), FOLDS)
    save_file(weights, folder / "lexicon.safetensors")
    return logits


def assemble_jury(development: Development, folder: Path) -> dict[str, Any]:
    """The manifest ``jury.json``: file hashes, fitted numbers of every head, and what was measured.

    ``folder`` holds the final seats of the chosen ways of training, and the bag of words.
    """
    heads: dict[str, Any] = {"lettering": dict(_LETTERING)}
    measured: dict[str, Any] = {"ways of training": _ways(development)}
    pooled: list[tuple[NDArray[np.int64], dict[str, NDArray[np.bool_]], dict[str, Floats]]] = []
    for kind in InputKind:
        ruled, margins = nested(development.folds(kind))
        here = development.pairs[development.final][kind]
        measured[kind.value] = _measured(here.labels, ruled, margins)
        measured[f"{kind.value}, shipped pair"] = _measured(here.labels, *nested([here] * FOLDS))
        pooled.append((here.labels, ruled, margins))
        fitted = fit(*here.pick(np.ones(len(here.labels), dtype=bool), None))
        heads[kind.value] = _head(fitted, spread(here, FOLDS))
    heads["lettering"]["spread"] = heads["text"]["spread"]
    labels = np.concatenate([labels for labels, _, _ in pooled])
    all_ruled = {arm: np.concatenate([ruled[arm] for _, ruled, _ in pooled]) for arm in ARMS}
    all_margins = {arm: np.concatenate([margins[arm] for _, _, margins in pooled]) for arm in ARMS}
    measured["all"] = _measured(labels, all_ruled, all_margins)
    measured["foreign"] = _foreign(development)
    hashes = {f"{part}.safetensors": _sha256(folder / f"{part}.safetensors") for part in (*SEATS, "lexicon")}
    return {
        "version": VERSION,
        "windows": {seat: VARIANTS[way].window for seat, way in zip(SEATS, development.final, strict=True)},
        "sha256": hashes,
        "hazards": list(HAZARDS),
        "contexts": list(CONTEXTS),
        "heads": heads,
        "measured": measured,
    }


def _ways(development: Development) -> dict[str, Any]:
    """F1 of each pair of ways had it been the only one, and which one each fold's inner folds chose."""
    alone = {}
    for pair, kinds in development.pairs.items():
        ruled = {kind: nested([scores] * FOLDS)[0]["debate"] for kind, scores in kinds.items()}
        alone[" + ".join(pair)] = {kind.value: round(f1(kinds[kind].labels, ruled[kind]), 4) for kind in kinds}
    chosen = [" + ".join(pair) for pair in development.by_fold]
    return {"F1 of each alone": alone, "chosen for each fold": chosen, "shipped": " + ".join(development.final)}


def _measured(
    labels: NDArray[np.int64], ruled: Mapping[str, NDArray[np.bool_]], margins: Mapping[str, Floats]
) -> dict[str, Any]:
    figures: dict[str, Any] = {arm: summary(labels, ruled[arm], margins[arm]) for arm in ARMS}
    figures["debate minus"] = {
        arm: {
            "f1": difference(f1, labels, ruled["debate"], ruled[arm]),
            "auc": difference(auc, labels, margins["debate"], margins[arm]),
        }
        for arm in ARMS
        if arm != "debate"
    }
    return figures


def _head(made: FittedHead, width: float) -> dict[str, Any]:
    return {
        "calibration": {k: [round(x, 5) for x in v] for k, v in made.calibration.items()},
        "debate": {k: [round(x, 5) for x in v] for k, v in made.debate.items()},
        "threshold": round(float(sigmoid(made.thresholds["debate"])), 5),
        "spread": round(width, 4),
    }


def _foreign(development: Development) -> dict[str, Any]:
    """Sets that the seats scoring them never saw a word of: the encoder alone, cut at even odds."""
    unseen = ",".join(map(str, FOREIGN.values()))
    logits = role_logits(development.logits, development.final)
    figures: dict[str, Any] = {}
    for source, fold in FOREIGN.items():
        rows = np.array([e.fold == fold for e in development.judged])
        labels = np.array([int(e.example.label) for e in development.judged if e.fold == fold])
        margins = np.mean([logits[f"{seat}:{unseen}"][rows] for seat in SEATS], axis=0)
        figures[source] = summary(labels, margins >= 0, margins)
    return figures


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
