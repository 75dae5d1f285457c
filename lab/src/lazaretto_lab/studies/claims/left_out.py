"""What the relation model makes of sources it had not seen: scenarios and pairs, beside two baselines.

    python -m lazaretto_lab.studies.claims.left_out INPUTS DATA SCORES... --out lab/results/claims

INPUTS is what ``training.claims.pairs`` wrote, SCORES the ``scores.npz`` of trainings. A scenario is scored by the run
that left its source out; BEAM, SituatedQA and the operational facts are in no training at all. Several score files may
be given: a run in a later one counts. Recall and false holds are at the bars that ship (``calibration.json``); poison
is given a source of lower trust, so that it is held whenever a conflict is seen, and updates come from their owner or
from a source of equal trust, so that none is held.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lazaretto.gates.memory.claims.comparison import FEATURES
from lazaretto.gates.memory.claims.relation import WEIGHTS
from lazaretto_lab.metrics.intervals import wilson_interval
from lazaretto_lab.studies.claims.figures import tell

Floats = NDArray[np.float64]
IN_TURN = ("pararel", "templama", "conflictqa", "poisonedrag")
NEVER = ("beam", "situatedqa", "operational_dev", "operational_test")
POISON, UPDATE = ("contradiction_poison", "poison"), ("legit_update", "update")
PEACEFUL = ("compatible", "unrelated", "same")
JUDGE_COSINE = 0.35
SHORT_TOKENS = 90
"""About 400 characters: a text that is not longer is one claim."""
NLI_RUNS = ("nli_written", "nli_scenes", "conflictqa", "templama", "pararel", "poisonedrag", "templates")


def shares(logits: NDArray[Any], temperature: float = 1.0) -> Floats:
    """Probabilities of the four relations."""
    x = logits.astype(np.float64) / temperature
    x = np.exp(x - x.max(axis=1, keepdims=True))
    return np.asarray(x / x.sum(axis=1, keepdims=True))


def auc(positive: Floats, negative: Floats) -> float:
    """Probability that a positive scores above a negative; ties count half."""
    both = np.concatenate([positive, negative])
    _, place, count = np.unique(both, return_inverse=True, return_counts=True)
    rank = (np.cumsum(count) - (count - 1) / 2)[place]
    n, m = len(positive), len(negative)
    return float((rank[:n].sum() - n * (n + 1) / 2) / (n * m))


def scenario_scores(pairs: Floats, where: NDArray[Any], cosine: Floats, count: int) -> Floats:
    """The surest conflict of each scenario, over the pairs of claims that are near enough to be compared."""
    best = np.zeros(count)
    near = cosine >= JUDGE_COSINE
    np.maximum.at(best, where[near, 0], pairs[near])
    return best


def fitted_temperature(logits: NDArray[Any], labels: NDArray[Any]) -> float:
    """The temperature with the best likelihood on pairs that were left out."""
    grid = np.linspace(0.6, 3.0, 49)
    rows = np.arange(len(labels))
    return float(min(grid, key=lambda t: -np.log(shares(logits, t)[rows, labels] + 1e-12).mean()))


def word_overlap(texts: list[tuple[list[str], str]]) -> Floats:
    """Baseline: the highest TF-IDF cosine of the new text to one of the memories."""
    tokens = [[_words(m) for m in memories] + [_words(new)] for memories, new in texts]
    seen = Counter(word for several in tokens for one in several for word in set(one))
    total = sum(len(several) for several in tokens)
    weight = {word: np.log(total / count) for word, count in seen.items()}

    def vector(words: list[str]) -> dict[str, float]:
        counted = Counter(words)
        made = {word: n * weight[word] for word, n in counted.items()}
        size = sum(v * v for v in made.values()) ** 0.5 or 1.0
        return {word: v / size for word, v in made.items()}

    def cosine(a: Mapping[str, float], b: Mapping[str, float]) -> float:
        return sum(v * b.get(word, 0.0) for word, v in a.items())

    return np.array([max(cosine(vector(one), vector(several[-1])) for one in several[:-1]) for several in tokens])


def _words(text: str) -> list[str]:
    return [w.strip(".,;:!?()\"'").casefold() for w in text.split()]


def run(inputs: Path, scores: list[Path], data: Path) -> dict[str, Any]:
    """Every figure, and the raw score of every scenario."""
    from lazaretto_lab.training.claims.pairs import read_rows
    from lazaretto_lab.worlds.claims.scenarios import operational_scenarios

    pack = np.load(inputs / "scored.npz")
    found = {name: value for path in scores for name, value in np.load(path).items()}
    scenarios = json.loads((inputs / "scenarios.json").read_text(encoding="utf-8"))
    source = np.array([one["source"] for one in scenarios])
    label = np.array([one["label"] for one in scenarios])
    cosine, where = found["cosine"].astype(np.float64), pack["where"]
    runs = {name.split("/")[0] for name in found if name.endswith("/scored")}
    at = json.loads((WEIGHTS / "calibration.json").read_text(encoding="utf-8"))
    temperature = at["temperature"]
    whole = where[:, 2] == 0
    short = np.zeros(len(scenarios), bool)
    short[where[whole, 0]] = pack["lengths"][pack["new"][whole]] < SHORT_TOKENS
    used = np.where(short[where[:, 0]], whole, ~whole)
    features = pack["features"].astype(np.float64) / 100
    bar = bars(features, cosine, at)
    bar = np.where(whole, bar, np.maximum(bar, at["partial_at"]))
    conflict, caught_all = np.zeros(len(scenarios)), np.zeros(len(scenarios))
    for name in (*IN_TURN, *NEVER):
        by = name if name in runs else "final"
        share = shares(found[f"{by}/scored"], temperature)
        mine = source == name
        likely = (share[:, 1] + share[:, 2]) * used
        conflict[mine] = scenario_scores(likely, where, cosine, len(scenarios))[mine]
        caught_all[mine] = scenario_scores((likely >= bar) * 1.0, where, cosine, len(scenarios))[mine]
    rule = features[:, 7] * np.maximum(features[:, 1], np.maximum(features[:, 10], features[:, 11]))
    by_rule = scenario_scores(rule, where, np.ones(len(rule)), len(scenarios))
    texts: list[tuple[list[str], str]] = []
    for name in (*IN_TURN, "beam", "situatedqa"):
        texts += [
            ([m["text"] for m in r["memories"]], r["new"]["text"]) for r in read_rows(data / f"facts_{name}.jsonl.gz")
        ]
    texts += [([m.text for m in one.memories], one.new.text) for one in operational_scenarios()]
    by_words = word_overlap(texts)
    left = [name for name in IN_TURN if name in runs]
    table = {}
    for name in (*IN_TURN, *NEVER):
        mine, bad, fine = source == name, np.isin(label, POISON), np.isin(label, PEACEFUL)
        row: dict[str, Any] = {
            "left_out_by": name if name in runs else "final (never trained on)" if name in NEVER else "SEEN"
        }
        for method, score in (("relation", conflict), ("values", by_rule), ("words", by_words)):
            row[f"auc_{method}"] = round(auc(score[mine & bad], score[mine & fine]), 4)
        caught, held = caught_all[mine & bad] > 0, caught_all[mine & fine] > 0
        row |= {"poison": len(caught), "recall": _rate(caught), "peaceful": len(held), "false_holds": _rate(held)}
        changes = mine & np.isin(label, UPDATE)
        if changes.any():  # from the owner or a source of equal trust: never held, whatever the words say
            row |= {"updates": int(changes.sum()), "updates_seen_as_conflict": _rate(caught_all[changes] > 0)}
        table[name] = row
    return {
        "temperature": temperature,
        "temperature_fitted_on_left_out_pairs": _temperature(found, np.load(inputs / "train.npz")),
        "macro_auc": {
            m: round(float(np.mean([table[n][f"auc_{m}"] for n in (*left, "beam", "situatedqa")])), 4)
            for m in ("relation", "values", "words")
        },
        "sources": table,
        "pairs": _pair_accuracy(found, np.load(inputs / "train.npz")),
        "raw": [
            [one["id"], one["label"], round(float(c), 4)] for one, c in zip(scenarios, conflict, strict=True)
        ],
    }  # fmt: skip


def _rate(hits: NDArray[np.bool_]) -> dict[str, float]:
    inside = wilson_interval(int(hits.sum()), len(hits))
    return {"share": round(float(hits.mean()), 4), "low": round(inside.low, 4), "high": round(inside.high, 4)}


def bars(features: Floats, cosine: Floats, at: Mapping[str, float]) -> Floats:
    """The conflict from which on each pair counts: ``comparison.meeting`` over the features of many pairs."""
    told = {name: features[:, place] for place, name in enumerate(FEATURES)}
    valued = (told["values_conflict"] + told["permission_opposed"] + told["opposites"]) > 0
    same_words = (told["names_conflict"] > 0) & (told["subject_jaccard"] >= 0.4)
    named = same_words | ((told["names_conflict"] > 0) & (told["names_shared"] > 0))
    opposed = ((valued | same_words) & (cosine >= 0.45)) | ((named | (told["negation_differs"] > 0)) & (cosine >= 0.6))
    return np.where(opposed, at["conflict_at"], np.where(cosine >= 0.7, at["alike_at"], at["apart_at"]))


def _temperature(found: Any, train: Any) -> float:
    logits, labels = [], []
    for name in NLI_RUNS:
        if f"{name}/rows" in found:
            label = train["label"][found[f"{name}/rows"]].astype(int)
            known = label < 4
            logits.append(found[f"{name}/logits"][known])
            labels.append(label[known])
    return fitted_temperature(np.concatenate(logits), np.concatenate(labels)) if logits else 1.0


def _pair_accuracy(found: Any, train: Any) -> dict[str, Any]:
    """Accuracy of the relation on single pairs of each source, by the run that left it out."""
    names = [str(n) for n in train["names"]]
    table: dict[str, Any] = {}
    for run_name in NLI_RUNS:
        if f"{run_name}/rows" not in found:
            continue
        rows = found[f"{run_name}/rows"]
        label, source = train["label"][rows].astype(int), train["source"][rows]
        guess = found[f"{run_name}/logits"].argmax(1)
        for number in np.unique(source):
            mine = (source == number) & (label < 4)
            common = Counter(label[mine].tolist()).most_common(1)[0][1] / max(1, int(mine.sum()))
            table[names[number]] = {
                "pairs": int(mine.sum()), "accuracy": round(float((guess == label)[mine].mean()), 4),
                "commonest": round(common, 4),
            }  # fmt: skip
    return table


def main() -> None:
    """Print the figures, and keep them with ``--out``."""
    parser = argparse.ArgumentParser()
    parser.add_argument("inputs", type=Path)
    parser.add_argument("data", type=Path)
    parser.add_argument("scores", type=Path, nargs="+")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    result = run(given.inputs, given.scores, given.data)
    tell(result, result.pop("raw"), given.out, "left_out", "left_out_scores")


if __name__ == "__main__":
    main()
