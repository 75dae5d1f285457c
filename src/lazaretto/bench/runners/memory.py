"""The memory gate as an experiment: one run of the shared-memory world, one method, before and after.

Settings: fields of the world's scenario (``rounds``, ``per_domain``, ``poison`` or ``ratio``, ``axes``, ...),
``method`` (``ours`` or a baseline's name), ``noise`` (on embeddings at test time), ``adaptive`` (versions that an
attacker who can query the detector tries per memory), ``peace`` (train under
attack, then guard a world without one) and the ablations ``contrast``, ``alphas``, ``use_graph``, ``repair``.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lazaretto.bench.context import Progress, RunContext
from lazaretto.bench.memory_adaptive import Adaptive
from lazaretto.bench.memory_defence import MemoryDefence
from lazaretto.bench.memory_evidence import Split, Walked, split_teams, walk
from lazaretto.errors import InputError
from lazaretto.gates.memory.evidence import joined, taken
from lazaretto.gates.memory.records import Fusion, RecordModel
from lazaretto.learn.records.baselines import Data, baseline
from lazaretto.learn.records.training import TrainingSettings, fit_fusion, train, without_graph
from lazaretto.metrics.detection import auc, confusion, recall_at_fpr
from lazaretto.metrics.intervals import bootstrap_interval
from lazaretto.worlds.shared_memory import DOMAINS, Log, Outcomes, Scenario, outcomes, simulate
from lazaretto.worlds.shared_memory.log import load_log, log_path, save_log

_OWN = {"method", "noise", "adaptive", "contrast", "alphas", "use_graph", "repair", "steps", "peace"}


def run(settings: Mapping[str, Any], seed: int, context: RunContext) -> Mapping[str, Any]:
    """One unit: simulate (or take the kept run), train, detect, and run the world again with the defence in it."""
    scenario = scenario_from({k: v for k, v in settings.items() if k not in _OWN}, seed)
    log = kept_log(scenario, context.workdir, _part(context.progress, 0.0, 0.3))
    walked = walk(log, scenario, progress=_part(context.progress, 0.3, 0.5))
    split = split_teams(scenario)
    before = outcomes(log, scenario, split.test)
    method = str(settings.get("method", "ours"))
    measures: dict[str, Any] = {f"{k}_before": v for k, v in dataclasses.asdict(before).items()}
    if method != "ours":
        return {**measures, **_judge_baseline(method, log, scenario, (walked, split), seed)}
    options = TrainingSettings(
        seed=seed, steps=int(settings.get("steps", 500)), contrast=float(settings.get("contrast", 0.3)),
        use_graph=bool(settings.get("use_graph", True)),
        alphas=tuple(settings.get("alphas", TrainingSettings().alphas)),
    )  # fmt: skip
    model = fit(log, walked, split, options)
    tested = walk(log, scenario, float(settings["noise"])) if settings.get("noise") else walked
    context.progress(0.65, "trained")
    looked = without_graph(tested.looked, options.use_graph)
    measures |= detection(log, model.score(looked).fused, model.fusion.threshold, scenario)
    measures["alpha"] = model.fusion.alpha
    if settings.get("peace"):
        scenario = dataclasses.replace(scenario, poison=0)
        before = outcomes(kept_log(scenario, context.workdir, context.progress), scenario, split.test)
    return measures | _defended(model, scenario, settings, before, context)


def scenario_from(settings: Mapping[str, Any], seed: int) -> Scenario:
    """The world's scenario from plain settings."""
    known = {f.name for f in dataclasses.fields(Scenario)} - {"seed"}
    unknown = sorted(set(settings) - known)
    if unknown:
        raise InputError("settings", f"unknown: {', '.join(unknown)}", f"Use: {', '.join(sorted(known | _OWN))}")
    values: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in settings.items()}
    if "ratio" in values:
        values.setdefault("poison", None)
    return Scenario(seed=seed, **values)


def kept_log(scenario: Scenario, workdir: Path, progress: Progress) -> Log:
    """The undefended run, simulated once and kept for all methods that are compared on it."""
    folder = Path(os.environ.get("LAZARETTO_WORLDS", workdir.parent / "worlds"))
    path = log_path(folder, scenario)
    if path.exists():
        return load_log(path)
    log = simulate(scenario, progress=progress)
    save_log(log, path)
    return log


def fit(log: Log, walked: Walked, split: Split, options: TrainingSettings) -> RecordModel:
    """Our detector, trained and fixed on its teams."""
    use = (log.poisoned | log.honest) & (log.round >= 20)
    rows = np.flatnonzero(use & np.isin(log.team, split.train))
    looked = joined([taken(walked.looked, rows), walked.cross])
    truth = np.concatenate([log.poisoned[rows], np.ones(len(walked.cross), dtype=bool)])
    model = RecordModel(train(looked, truth, options), Fusion())
    rows = np.flatnonzero(use & np.isin(log.team, split.validate))
    checked = without_graph(taken(walked.looked, rows), options.use_graph)
    return RecordModel(model.arrays, fit_fusion(model, checked, log.poisoned[rows], options))


def detection(log: Log, scores: NDArray[Any], threshold: float, scenario: Scenario) -> dict[str, Any]:
    """Measures on test teams. Decisions that poison moved are neither poison nor honest, and left out."""
    test = np.isin(log.team, split_teams(scenario).test) & (log.poisoned | log.honest)
    test &= log.round >= scenario.quiet_rounds
    truth, values = log.poisoned[test], scores[test].astype(float)
    counts = confusion(truth, values >= threshold)
    domain = log.team[test] // scenario.per_domain
    accuracies = [confusion(truth[domain == d], values[domain == d] >= threshold).accuracy for d in range(len(DOMAINS))]
    found: dict[str, Any] = {
        "auc": auc(truth, values),
        "fpr": counts.fpr,
        "recall": counts.recall,
        "f1": counts.f1,
        "recall_1_percent": recall_at_fpr(truth, values),
        "benign_kept": 1 - counts.fpr,
        "accuracy_spread": float(np.ptp(accuracies) / 2),
        **_interval(truth, values),
    }
    for kind, name in ((1, "auc_type_1"), (2, "auc_type_2"), (3, "auc_type_3")):
        part = (log.kind[test] == 0) | (log.kind[test] == kind)
        if (log.kind[test] == kind).any():
            found[name] = auc(truth[part], values[part])
    camouflaged = log.cosine[log.kind == 2]
    if camouflaged.size:
        found["camouflage_cosine_min"] = float(camouflaged.min())
    return found


def _interval(truth: NDArray[np.bool_], values: NDArray[np.float64]) -> dict[str, float]:
    """Bootstrap of the AUC from its placements: the mean over poison of the share of honest memories below it."""
    honest = np.sort(values[~truth])
    places = (np.searchsorted(honest, values[truth]) + np.searchsorted(honest, values[truth], side="right")) / 2
    interval = bootstrap_interval(places / len(honest))
    return {"auc_low": interval.low, "auc_high": interval.high}


def _judge_baseline(method: str, log: Log, scenario: Scenario, seen: tuple[Walked, Split], seed: int) -> dict[str, Any]:
    walked, split = seen
    use = (log.poisoned | log.honest) & (log.round >= 20)

    def data(teams: NDArray[np.int64]) -> Data:
        rows = np.flatnonzero(use & np.isin(log.team, teams))
        return Data(walked.vectors[rows].astype(np.float32), taken(walked.looked, rows), log.poisoned[rows])

    scorer, threshold = baseline(method, data(split.train), data(split.validate), seed)
    test = np.flatnonzero(np.isin(log.team, split.test))
    scores = np.zeros(len(log))
    scores[test] = scorer(walked.vectors[test].astype(np.float32), taken(walked.looked, test))
    return detection(log, scores, threshold, scenario)


def _defended(
    model: RecordModel, scenario: Scenario, settings: Mapping[str, Any], before: Outcomes, context: RunContext
) -> dict[str, Any]:
    """The same world with the defence in it."""
    test = split_teams(scenario).test
    defence = MemoryDefence(model, scenario, repair=bool(settings.get("repair", True)))
    attacker = Adaptive(model, scenario, int(settings["adaptive"])) if settings.get("adaptive") else None
    if attacker is not None:
        attacker.watch(defence.windows)
    log = simulate(scenario, defence, attacker, _part(context.progress, 0.65, 1.0))
    after = outcomes(log, scenario, test)
    mine = np.isin(log.team, test) & (log.round >= scenario.quiet_rounds)
    found: dict[str, Any] = {f"{k}_after": v for k, v in dataclasses.asdict(after).items()}
    if log.poisoned.any():
        found["held_poison"] = float(log.held[mine & log.poisoned].mean())
        found["harm_of_poison"] = float(log.taint[mine & log.poisoned].mean())
        found["misbehaviour_drop"] = 1 - after.misbehaviour / before.misbehaviour
        found["coverage_drop"] = 1 - after.coverage / before.coverage if before.coverage else None
    found["honest_kept_live"] = float(1 - log.held[mine & log.honest].mean())
    found["reward_change"] = (after.reward - before.reward) / abs(before.reward)
    if attacker is not None:
        found["queries_per_poison"] = attacker.queries / max(attacker.made, 1)
    return found


def _part(progress: Progress, low: float, high: float) -> Progress:
    def report(share: float, note: str = "") -> None:
        progress(low + (high - low) * share, note)

    return report
