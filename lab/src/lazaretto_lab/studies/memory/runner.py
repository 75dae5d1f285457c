"""The memory gate as an experiment: one run of the shared-memory world, one method, before and after.

Settings: fields of the world's scenario (``rounds``, ``per_domain``, ``poison`` or ``ratio``, ``axes``, ...),
``method`` (``ours`` or a baseline's name), ``noise`` (on embeddings at test time), ``adaptive`` (versions that an
attacker who can query the detector tries per memory), ``peace`` (train under
attack, then guard a world without one), ``compare_peace`` (guard the same world without the attack as well, and say
what share of its harm the attack still does) and the ablations ``contrast``, ``alphas``, ``use_graph``, ``repair``,
``rewrite_near``. ``detector = "shipped"`` takes the weights that ship instead of training some, and ``through =
"guard"`` writes every memory of the test teams through a guard with a ledger; ``judged`` takes so many test teams of
each domain instead of all. Every unit leaves a ledger of its
defended run in its work folder.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lazaretto.errors import InputError
from lazaretto.gates.memory.evidence import EvidenceTable, concatenated, selected
from lazaretto.gates.memory.record_model import AT_WORK_RATE, Fusion, RecordModel, shared_model
from lazaretto_lab.harness.context import Progress, RunContext
from lazaretto_lab.harness.results import file_lock
from lazaretto_lab.metrics.detection import auc, confusion, recall_at_fpr
from lazaretto_lab.metrics.intervals import bootstrap_interval
from lazaretto_lab.studies.memory.adaptive import Adaptive
from lazaretto_lab.studies.memory.defence import MemoryDefence, Options, ScorerDefence
from lazaretto_lab.studies.memory.evidence import (
    LogEvidence,
    Split,
    collect_evidence,
    embeddings,
    first_of_each_domain,
    split_teams,
)
from lazaretto_lab.studies.memory.ledger import write_ledger
from lazaretto_lab.studies.memory.threshold import choose_hold_threshold
from lazaretto_lab.studies.memory.through_guard import GuardDefence
from lazaretto_lab.training.records.baselines import NEEDS_EVIDENCE, Data, baseline
from lazaretto_lab.training.records.training import TrainingSettings, fit_fusion, train, without_graph
from lazaretto_lab.worlds.shared_memory import DOMAINS, Log, Outcomes, Scenario, Screen, outcomes, simulate
from lazaretto_lab.worlds.shared_memory.log import agent_points, load_log, log_path, save_log

_ROC = np.arange(101) / 1000
"""False-positive rates of the ROC curve: every tenth of a per cent up to ten."""
_OWN = {"method", "noise", "adaptive", "contrast", "alphas", "use_graph", "repair", "rewrite_near", "steps", "peace"}
_OWN |= {"detector", "through", "judged", "compare_peace"}


def run(settings: Mapping[str, Any], seed: int, context: RunContext) -> Mapping[str, Any]:
    """One unit: simulate (or take the kept run), train, detect, and run the world again with the defence in it."""
    scenario = scenario_from({k: v for k, v in settings.items() if k not in _OWN}, seed)
    log = stored_log(scenario, context.workdir, part_of(context.progress, 0.0, 0.3))
    split = split_teams(scenario)
    if "judged" in settings:
        split = first_of_each_domain(split, scenario, int(settings["judged"]))
    before = outcomes(log, scenario, split.test)
    method = str(settings.get("method", "ours"))
    measures: dict[str, Any] = {f"{k}_before": v for k, v in dataclasses.asdict(before).items()}
    measures["agents_before"] = agent_points(log, scenario, split.test)
    noise = float(settings.get("noise", 0.0))
    if method != "ours":
        found, screen = _judge_baseline(method, log, scenario, noise)
        return measures | found | defended((screen, None), scenario, split.test, before, context)
    evidence = collect_evidence(log, scenario, progress=part_of(context.progress, 0.3, 0.5))
    options = TrainingSettings(
        seed=seed, steps=int(settings.get("steps", 500)), contrast=float(settings.get("contrast", 0.3)),
        use_graph=bool(settings.get("use_graph", True)),
        alphas=tuple(settings.get("alphas", TrainingSettings().alphas)),
    )  # fmt: skip
    shipped = settings.get("detector") == "shipped"
    if shipped:
        model = shared_model()
    else:
        model = fit(log, (evidence, collect_evidence(log, scenario, screened=True)), split, options)
    tested = collect_evidence(log, scenario, noise) if noise else evidence
    context.progress(0.65, "trained")
    looked = without_graph(tested.looked, options.use_graph)
    measures |= detection(log, model.score(looked).fused, model.fusion.threshold, scenario)
    measures["alpha"] = model.fusion.alpha
    del evidence, tested, looked  # half of what a main run holds in memory
    how = Options(
        bool(settings.get("repair", True)), bool(settings.get("rewrite_near", False)), options.use_graph, noise
    )
    if shipped:  # what a policy that says nothing gets
        hold = model.fusion.threshold_at(AT_WORK_RATE)
        model = model.with_fusion(dataclasses.replace(model.fusion, hold=hold))
    else:
        model = choose_hold_threshold(model, log, scenario, split.validate, dataclasses.replace(how, noise=0.0))
    measures |= {"threshold": model.fusion.threshold, "hold": model.fusion.hold}
    if settings.get("peace"):
        scenario = dataclasses.replace(scenario, poison=0)
        before = outcomes(stored_log(scenario, context.workdir, context.progress), scenario, split.test)
    if settings.get("through") == "guard":
        with GuardDefence(model, scenario, model.fusion.hold, context.workdir, split.test.tolist()) as guarded:
            measures |= defended((guarded, None), scenario, split.test, before, context)
        return measures | {f"{name}_by_defence": count for name, count in guarded.done.items()}
    defence = MemoryDefence(model, scenario, model.fusion.hold, how)
    tries = int(settings.get("adaptive", 0))
    attacker = Adaptive(model, scenario, tries, defence.windows) if tries else None
    measures |= defended((defence, attacker), scenario, split.test, before, context)
    measures |= {f"{name}_by_defence": count for name, count in defence.done.items()}
    if settings.get("compare_peace"):
        calm = dataclasses.replace(scenario, poison=0)
        after = outcomes(simulate(calm, MemoryDefence(model, calm, model.fusion.hold, how)), calm, split.test)
        measures |= _caused(measures, after.misbehaviour)
    return measures


def _caused(measures: Mapping[str, Any], calm: float) -> dict[str, float | None]:
    """What the attack causes over the guarded world without one, as a share of what it causes undefended."""
    undefended = measures["misbehaviour_before"] - calm
    share = (measures["misbehaviour_after"] - calm) / undefended if undefended > 0 else None
    return {"misbehaviour_calm": calm, "harm_share": share}


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


def stored_log(scenario: Scenario, workdir: Path, progress: Progress) -> Log:
    """The undefended run, simulated once and kept for all methods that are compared on it."""
    folder = Path(os.environ.get("LAZARETTO_WORLDS", workdir.parent / "worlds"))
    path = log_path(folder, scenario)
    with file_lock(path):
        if not path.exists():
            save_log(simulate(scenario, progress=progress), path)
    return load_log(path)


def fit(log: Log, evidences: tuple[LogEvidence, LogEvidence], split: Split, options: TrainingSettings) -> RecordModel:
    """Our detector, trained and fixed on its teams; ``evidences``: with nothing held back, and with most poison."""
    use = (log.poisoned | log.honest) & (log.round >= 20)
    looks, truths = [], []
    for evidence in evidences:
        places = np.flatnonzero((use & np.isin(log.team, split.train))[evidence.rows])
        looks += [selected(evidence.looked, places), evidence.cross]
        truths += [log.poisoned[evidence.rows[places]], np.ones(len(evidence.cross), dtype=bool)]
    model = RecordModel(train(concatenated(looks), np.concatenate(truths), options), Fusion())
    evidence, rows = evidences[0], np.flatnonzero(use & np.isin(log.team, split.validate))
    checked = without_graph(selected(evidence.looked, rows), options.use_graph)
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
        "roc": [float((values[truth] > bar).mean()) for bar in np.quantile(values[~truth], 1 - _ROC)],
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


def _judge_baseline(method: str, log: Log, scenario: Scenario, noise: float) -> tuple[dict[str, Any], ScorerDefence]:
    """What a comparison method finds, and the same method as a defence; ``noise`` is on what it is tested on."""
    split, contextual = split_teams(scenario), method in NEEDS_EVIDENCE

    def seen(disturbance: float) -> tuple[NDArray[np.float16], EvidenceTable | None]:
        if not contextual:
            return embeddings(log, disturbance, scenario.seed), None
        evidence = collect_evidence(log, scenario, disturbance)
        return evidence.vectors, evidence.looked

    def data(rows: NDArray[np.int64], view: tuple[NDArray[np.float16], EvidenceTable | None]) -> Data:
        vectors, looked = view
        return Data(vectors[rows].astype(np.float32), selected(looked, rows) if looked else None, log.poisoned[rows])

    calm = seen(0.0)
    use = (log.poisoned | log.honest) & (log.round >= 20)
    training, checking = (np.flatnonzero(use & np.isin(log.team, teams)) for teams in (split.train, split.validate))
    scorer, threshold = baseline(method, data(training, calm), data(checking, calm), scenario.seed)
    test = np.flatnonzero(np.isin(log.team, split.test))
    tested, scores = data(test, seen(noise) if noise else calm), np.zeros(len(log))
    scores[test] = scorer(tested.vectors, tested.looked)
    return detection(log, scores, threshold, scenario), ScorerDefence(scorer, threshold, scenario, contextual, noise)


def defended(
    sides: tuple[Screen, Adaptive | None],
    scenario: Scenario,
    test: NDArray[np.int64],
    before: Outcomes,
    context: RunContext,
) -> dict[str, Any]:
    """The same world with a defence in it, and with an adaptive attacker where there is one."""
    screen, attacker = sides
    log = simulate(scenario, screen, attacker, part_of(context.progress, 0.65, 1.0))
    after = outcomes(log, scenario, test)
    mine = np.isin(log.team, test) & (log.round >= scenario.quiet_rounds)
    found: dict[str, Any] = {f"{k}_after": v for k, v in dataclasses.asdict(after).items()}
    if log.poisoned.any():
        found["held_poison"] = float(log.held[mine & log.poisoned].mean())
        found["harm_of_poison"] = float(log.taint[mine & log.poisoned].mean())
        passed = mine & log.poisoned & ~log.held
        found["harm_of_passed"] = float(log.taint[passed].mean()) if passed.any() else None
        found["misbehaviour_drop"] = 1 - after.misbehaviour / before.misbehaviour
        found["coverage_drop"] = 1 - after.coverage / before.coverage if before.coverage else None
    found["agents_after"] = agent_points(log, scenario, test)
    honest = mine & log.honest
    found["honest_kept_live"] = float(1 - (log.held | log.rewritten)[honest].mean())
    found["reward_change"] = (after.reward - before.reward) / abs(before.reward)
    if attacker is not None:
        found["queries_per_poison"] = attacker.queries / max(attacker.made, 1)
        found["queries_needed"] = attacker.needed / attacker.passed if attacker.passed else None
        found["can_pass"] = attacker.passed / max(attacker.made, 1)
    note = {"scenario": dataclasses.asdict(scenario), "measures": found}
    found["in_ledger"] = write_ledger(context.workdir / "ledger.db", log, scenario, test, note)
    return found


def part_of(progress: Progress, low: float, high: float) -> Progress:
    def report(share: float, note: str = "") -> None:
        progress(low + (high - low) * share, note)

    return report
