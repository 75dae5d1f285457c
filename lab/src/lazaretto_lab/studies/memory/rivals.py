"""The memory gate beside stronger detectors, all in the same place: same evidence, labels, thresholds, second looks.

Settings: fields of the world's scenario, ``method`` (``ours``, or a name of ``RIVALS``), ``without`` (types of poison
that neither training nor validation sees; the figures are then of these types), ``live`` (run the world again with the
method in it), ``temperature`` and ``contrast`` (of our contrastive loss), ``blind`` (share of training memories whose
embedding is hidden from ours) and ``noted`` (keep curves for figures).
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lazaretto.files import replacing
from lazaretto.gates.memory.evidence import EvidenceTable, concatenated, selected
from lazaretto.gates.memory.record_model import Fusion, RecordModel
from lazaretto_lab.harness.context import RunContext
from lazaretto_lab.harness.results import file_lock
from lazaretto_lab.metrics.detection import auc, confusion, recall_at_fpr, threshold_at_fpr, threshold_for_f1
from lazaretto_lab.studies.memory.defence import MemoryDefence
from lazaretto_lab.studies.memory.evidence import LogEvidence, collect_evidence, split_teams
from lazaretto_lab.studies.memory.runner import defended, part_of, scenario_from, stored_log
from lazaretto_lab.studies.memory.threshold import choose_hold_threshold
from lazaretto_lab.training.records.rivals import Agreement, Labelled, rival
from lazaretto_lab.training.records.training import TrainingSettings, fit_fusion, train
from lazaretto_lab.worlds.shared_memory import Log, Scenario, outcomes
from lazaretto_lab.worlds.shared_memory.log import log_path
from lazaretto_lab.worlds.shared_memory.scenario import KINDS

HONEST_RATE = 0.01
"""The share of held-out honest memories that the second rule for a threshold lets be held."""
AGREEMENT = 8.0
"""Weight of disagreement where it is added to a method's log-odds; chosen on a world of its own (seed 950)."""
SWEEP = tuple(round(0.05 * step, 2) for step in range(1, 20))
_OWN = {"method", "without", "live", "temperature", "contrast", "blind", "noted"}


@dataclasses.dataclass(frozen=True, slots=True)
class _Parts:
    """What a method may learn from, what fixes it, and what it is judged on."""

    base: EvidenceTable
    learned: Labelled
    checked: Labelled


def run(settings: Mapping[str, Any], seed: int, context: RunContext) -> Mapping[str, Any]:
    """One unit: a method learns, is fixed on validation teams, and is judged on test teams."""
    scenario = scenario_from({k: v for k, v in settings.items() if k not in _OWN}, seed)
    log = stored_log(scenario, context.workdir, part_of(context.progress, 0.0, 0.1))
    left_out = [KINDS.index(kind) + 1 for kind in settings.get("without", ())]
    parts = _parts(log, scenario, left_out, context.workdir)
    context.progress(0.3, "evidence")
    method = str(settings.get("method", "ours"))
    options = TrainingSettings(
        seed=seed,
        contrast=float(settings.get("contrast", TrainingSettings().contrast)),
        temperature=float(settings.get("temperature", TrainingSettings().temperature)),
        blind=float(settings.get("blind", 0.0)),
    )
    model: RecordModel
    if method == "ours":
        model = RecordModel(train(*parts.learned, options), Fusion())
    else:
        size = scenario.honest_memories + scenario.poison_count
        model = rival(method, parts.base, parts.learned, parts.checked, size, seed)
        options = dataclasses.replace(options, alphas=(0.0,))
    model = model.with_fusion(fit_fusion(model, *parts.checked, options))
    context.progress(0.6, "trained")
    measures = _judged(model, parts, log, scenario, left_out)
    if not settings.get("noted"):
        del measures["sweep_recall"], measures["sweep_fpr"]
    if settings.get("live"):
        split = split_teams(scenario)
        before = outcomes(log, scenario, split.test)
        model = choose_hold_threshold(model, log, scenario, split.validate)
        defence = MemoryDefence(model, scenario, model.fusion.hold)
        measures |= {f"{k}_before": v for k, v in dataclasses.asdict(before).items()}
        measures |= defended((defence, None), scenario, split.test, before, context)
        del measures["agents_after"]
    return measures


def _parts(log: Log, scenario: Scenario, left_out: list[int], workdir: Path) -> _Parts:
    split = split_teams(scenario)
    use = (log.poisoned | log.honest) & (log.round >= 20) & ~np.isin(log.kind, left_out)
    looks, truths = [], []
    open_store, screened = (stored_evidence(log, scenario, held, workdir) for held in (False, True))
    for evidence in (open_store, screened):
        places = np.flatnonzero((use & np.isin(log.team, split.train))[evidence.rows])
        looks += [selected(evidence.looked, places), evidence.cross]
        truths += [log.poisoned[evidence.rows[places]], np.ones(len(evidence.cross), dtype=bool)]
    rows = np.flatnonzero(use & np.isin(log.team, split.validate))
    base = open_store.looked
    return _Parts(base, (concatenated(looks), np.concatenate(truths)), (selected(base, rows), log.poisoned[rows]))


def _judged(model: RecordModel, parts: _Parts, log: Log, scenario: Scenario, left_out: list[int]) -> dict[str, Any]:
    """Measures on test teams; with types left out, on these and honest memories alone."""
    test = np.isin(log.team, split_teams(scenario).test) & (log.poisoned | log.honest)
    test &= log.round >= scenario.quiet_rounds
    if left_out:
        test &= np.isin(log.kind, [0, *left_out])
    rows = np.flatnonzero(test)
    looked, truth, kind = selected(parts.base, rows), log.poisoned[rows], log.kind[rows]
    scores = model.score(looked)
    values, rates = scores.fused.astype(float), dict(model.fusion.by_rate)
    found: dict[str, Any] = {
        "auc": auc(truth, values),
        "recall_1_percent": recall_at_fpr(truth, values),
        "alpha": model.fusion.alpha,
        "auc_no_credibility": auc(truth, scores.neural.astype(float)),
        "auc_credibility": auc(truth, 1 - scores.credibility.astype(float)),
        "sweep_recall": [float((values[truth] >= bar).mean()) for bar in SWEEP],
        "sweep_fpr": [float((values[~truth] >= bar).mean()) for bar in SWEEP],
    }
    for rule, bar in (("f1", model.fusion.threshold), ("honest", rates[HONEST_RATE])):
        counts = confusion(truth, values >= bar)
        found |= {f"threshold_{rule}": bar, f"recall_{rule}": counts.recall, f"fpr_{rule}": counts.fpr}
        found |= {f"recall_{rule}_{name}": _share(values[kind == n + 1] >= bar) for n, name in enumerate(KINDS)}
    joined = _joined(model, looked)
    found["auc_joined"] = auc(truth, joined)
    checked = (parts.checked[1], _joined(model, parts.checked[0]))
    for rule, bar in (("f1", threshold_for_f1(*checked)), ("honest", threshold_at_fpr(*checked, HONEST_RATE))):
        counts = confusion(truth, joined >= bar)
        found |= {f"recall_{rule}_joined": counts.recall, f"fpr_{rule}_joined": counts.fpr}
    for n, name in enumerate(KINDS):
        part = (kind == 0) | (kind == n + 1)
        found[f"auc_{name}"] = auc(truth[part], values[part]) if (kind == n + 1).any() else None
    return found


def _joined(model: RecordModel, looked: EvidenceTable) -> NDArray[np.float64]:
    """The method's log-odds and, with a fixed weight, how little the neighbours agree."""
    fused = np.clip(model.score(looked).fused.astype(float), 1e-4, 1 - 1e-4)
    return np.asarray(np.log(fused / (1 - fused)) + AGREEMENT * Agreement(0, False).probability(looked))


def _share(flags: NDArray[np.bool_]) -> float | None:
    return float(flags.mean()) if flags.size else None


def stored_evidence(log: Log, scenario: Scenario, screened: bool, workdir: Path) -> LogEvidence:
    """The evidence of a kept run, collected once for all methods that are compared on it."""
    folder = Path(os.environ.get("LAZARETTO_WORLDS", workdir.parent / "worlds"))
    path = log_path(folder, scenario)
    path = path.with_name(f"{path.stem}-evidence-{'screened' if screened else 'open'}.npz")
    names = list(EvidenceTable.__dataclass_fields__)
    with file_lock(path):
        if not path.exists():
            made = collect_evidence(log, scenario, screened=screened)
            tables = {f"{t}_{n}": getattr(getattr(made, t), n) for t in ("looked", "cross") for n in names}
            with replacing(path) as file:
                np.savez(file, rows=made.rows, **tables)
    with np.load(path) as kept:
        looked, cross = (EvidenceTable(*(kept[f"{t}_{n}"] for n in names)) for t in ("looked", "cross"))
        return LogEvidence(kept["rows"], looked, cross, np.zeros((0, 0), np.float16))
