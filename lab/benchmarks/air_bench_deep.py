"""AIR-Bench's development half with the larger reader, by scores of models that had not seen the item.

    python lab/benchmarks/air_bench_deep.py             # seconds: nothing is trained or read, all scores are stored
    python lab/benchmarks/air_bench_deep.py --write     # also lab/results/content/air_bench_deep.json

The shipped weights were trained on these items, so ``air_bench_gate.py`` flatters them. Here the jury's scores
(``lab/results/jury``) and the reader's (``lab/results/reader``) are each of the model that left the item's fold out;
``mpnet`` was run on three of five folds, and only their items count. Every number that is fitted (calibration, cuts,
weights of the sum) comes from the other folds. An item counts as called harmful

- ``jury``: at a risk of .5 or more, as on the model card;
- ``reader``: past the cut with the best F1 on the kind's items of the other folds;
- ``both``: the same for a weighted sum of both log-odds;
- ``other data``: the sum with weights and cut from the other sources alone, which are texts: nothing of AIR-Bench (but
  for the jury's own calibration, in which its items of the other folds are a third);
- ``as shipped`` (until decision 0110; now ``fused_harm.py`` tells): when it would be blocked, or is gray and then held
  by the reader's bar of 1 %; ``or open``: also what stays gray (the preset ``strict`` asks a person about it).
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from lazaretto_lab.metrics.detection import auc
from lazaretto_lab.studies.debate.air_bench import figures
from lazaretto_lab.studies.debate.held_out import development
from lazaretto_lab.training.jury.evaluation import Items, best_guess, best_threshold, judge, mixed

RESULTS = Path(__file__).resolve().parents[1] / "results"
KINDS = ("text", "image", "pair")
HOLD, CLEAR = "0.01", "0.05"
"""The bars of the gate ``second_reader`` by default."""
Floats = NDArray[np.float64]


def reader_scores(reader: str, items: Items) -> Floats:
    """Of each item the score for harm by the model that left its fold out; not a number where no such model was run."""
    found, known = np.full(len(items.rows), np.nan), development(None)[0]
    mine = {name: n for n, name in enumerate(items.id.tolist())}
    place = {int(row): mine[name] for row, name in zip(known.rows, known.id.tolist(), strict=True) if name in mine}
    with np.load(RESULTS / "reader" / f"scores-{reader}.npz") as stored:
        for name in stored.files:
            split, _, task = name.partition("/")
            if task != "harm":
                continue
            for row, score in zip(stored[name], stored[f"{name}_score"][:, 1], strict=True):
                here = place.get(int(row))
                if here is not None:
                    if items.fold[here] != int(split):
                        raise SystemExit(f"row {row} of split {split} lies in fold {items.fold[here]}")
                    found[here] = score
    return found


def logistic(features: Floats, labels: NDArray[np.int64], weights: Floats | None = None) -> tuple[float, Floats]:
    """Offset and slopes."""
    model = LogisticRegression(C=0.3).fit(features, labels, sample_weight=weights)
    return float(model.intercept_[0]), model.coef_[0]


def crossed(features: Floats, items: Items) -> NDArray[np.bool_]:
    """What lies past the cut, weights and cut from AIR-Bench's items of the other folds."""
    said = np.zeros(len(items.label), bool)
    for fold in np.unique(items.fold):
        inside, out = items.fold != fold, items.fold == fold
        offset, slopes = logistic(features[inside], items.label[inside])
        odds = offset + features @ slopes
        said[out] = odds[out] >= best_threshold(odds[inside], items.label[inside])
    return said


def from_other_data(features: Floats, dev: NDArray[np.bool_], items: Items) -> tuple[Floats, float]:
    """Slopes and cut from what is not AIR-Bench's: both labels count alike, sources by their size up to 400."""
    others = items.pick(~dev)
    weights = mixed(others)
    _, slopes = logistic(features[~dev], others.label, weights)
    return slopes, best_guess(features[~dev] @ slopes, others.label, weights)


def measured(reader: str) -> dict[str, Any]:
    """All of it."""
    items, _ = development(None)
    bars = json.loads((RESULTS / "reader" / f"{reader}.json").read_text())["harm"]["bars"]
    scores = reader_scores(reader, items)
    result: dict[str, Any] = {"reader": reader, "bars": {"hold": bars[HOLD], "clear": bars[CLEAR]}}
    learnt: tuple[Floats, float] | None = None
    for kind in KINDS:
        judged, score = judge(items, kind), scores[items.head == kind]
        known = ~np.isnan(score)
        features, mine = np.column_stack([judged.odds, score])[known], judged.items.pick(known)
        dev = mine.source == "dev"
        if kind == "text":
            learnt = from_other_data(features, dev, mine)
        if learnt is None:
            raise SystemExit("texts come first: they set the cut from other data")
        slopes, cut = learnt
        blocked, gray = judged.blocked[known][dev], judged.gray[known][dev]
        features, mine = features[dev], mine.pick(dev)
        odds, read = features.T
        held = blocked | (gray & (read > bars[HOLD]))
        said = {
            "jury": odds >= 0,
            "reader": crossed(features[:, 1:], mine),
            "both": crossed(features, mine),
            "other data": features @ slopes >= cut,
            "as shipped": held,
            "as shipped, or open": held | (gray & (read >= bars[CLEAR])),
        }
        truth, none = list(mine.label > 0), [False] * len(mine.label)
        result[kind] = {
            "items": len(truth),
            "harmful": sum(map(bool, truth)),
            "folds": np.unique(mine.fold).tolist(),
            "auc": {"jury": auc(mine.label > 0, odds), "reader": auc(mine.label > 0, read)},
            **{name: figures(truth, list(one), none) for name, one in said.items()},
        }
    return result


def main() -> None:
    """Print the table; store it with ``--write``."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reader", default="mpnet", choices=("mpnet", "e5", "minilm"))
    parser.add_argument("--write", action="store_true")
    asked = parser.parse_args()
    result = measured(asked.reader)
    print("| F1 (95 %) | " + " | ".join(f"{kind}, {result[kind]['items']} items" for kind in KINDS) + " |")
    print("|---|---|---|---|")
    for name in ("jury", "reader", "both", "other data", "as shipped", "as shipped, or open"):
        found = [result[kind][name] for kind in KINDS]
        cells = (f"{one['f1']:.3f} ({one['f1_low']:.3f} to {one['f1_high']:.3f})" for one in found)
        print(f"| {name} |", " | ".join(cells), "|")
    print({kind: result[kind]["auc"] for kind in KINDS})
    if asked.write:
        path = RESULTS / "content" / f"air_bench_deep{'' if asked.reader == 'mpnet' else '_' + asked.reader}.json"
        path.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
