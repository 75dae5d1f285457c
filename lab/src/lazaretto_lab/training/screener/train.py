"""Trains the text-memory screener and measures it on what it never saw.

    lazaretto train screener prepare --data ../shared/data --work runs/screener
    lazaretto train screener train   --work runs/screener
    lazaretto train screener report  --work runs/screener --data ../shared/data

``prepare`` builds and tokenizes the samples (on any machine that has the data), ``train`` needs only what ``prepare``
wrote (a GPU helps: about a minute instead of an hour). Every fold leaves out one attack family and one benign corpus,
trains on the rest and scores what was left out; the scores are kept, so that every table and the calibration can be
made again without training. ``report`` writes calibration.json and prints the table of the model card, with a TF-IDF
baseline trained on the same samples. The shipped weights see all families; LoCoMo is never trained on: its licence
allows evaluation alone.
"""

from __future__ import annotations

import argparse
import gzip
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from lazaretto.files import write_file
from lazaretto_lab.training.screener.leave_one_out import FOLDS, TEST_SEED, TRAINABLE_BENIGN, tested_size, tfidf_scores
from lazaretto_lab.training.screener.training import Recipe, encode_samples, encode_windows, score, train


def prepare(arguments: argparse.Namespace) -> None:
    """Write the tokenized samples of every fold, and of the final training, under the work folder."""
    from lazaretto_lab.training.screener.corpora import ATTACK_FAMILIES, load_source
    from lazaretto_lab.training.screener.pairs import training_set

    minilm = _minilm(arguments)
    arguments.work.mkdir(parents=True, exist_ok=True)
    for left_out in (*FOLDS, None):
        families = [f for f in ATTACK_FAMILIES if f != left_out]
        benign = [b for b in TRAINABLE_BENIGN if left_out is None or b != FOLDS[left_out]]
        samples = training_set(arguments.data, families, benign, arguments.seed, arguments.size)
        held: dict[str, Any] = {}
        for source in (*ATTACK_FAMILIES[left_out], FOLDS[left_out]) if left_out else ():
            test = load_source(source, arguments.data, TEST_SEED, tested_size(source))
            held[source] = {
                "label": [int(s.poisoned) for s in test],
                "kind": [s.kind for s in test],
                "windows": encode_windows([s.text for s in test], minilm, arguments.window),
            }
        rows = [
            (ids, [int(m) for m in marks], label)
            for ids, marks, label in encode_samples(samples, minilm, arguments.window)
        ]
        with gzip.open(arguments.work / f"{left_out or 'final'}.json.gz", "wt", compresslevel=5) as file:
            json.dump({"rows": rows, "held": held}, file, separators=(",", ":"))
        print(f"{left_out or 'final'}: {len(rows)} samples", flush=True)


def train_all(arguments: argparse.Namespace) -> None:
    """Train and score every fold that has no scores yet, then the final weights."""
    from safetensors.numpy import save_file

    minilm, recipe = _minilm(arguments), Recipe(epochs=arguments.epochs, seed=arguments.seed, window=arguments.window)
    arguments.out.mkdir(parents=True, exist_ok=True)
    for name in ("final", *FOLDS):
        target = arguments.out / ("screener.safetensors" if name == "final" else f"fold_{name}.json")
        if target.exists():
            continue
        started = time.monotonic()
        with gzip.open(arguments.work / f"{name}.json.gz", "rt") as file:
            prepared = json.load(file)
        print(f"== {name}: read in {time.monotonic() - started:.0f} s", flush=True)
        arrays, model, head = train(prepared["rows"], minilm, recipe, lambda line: print(line, flush=True))
        if name == "final":
            save_file({k: v.astype(np.float16) for k, v in arrays.items()}, str(target))
        else:
            scored = {}
            for source, held in prepared["held"].items():
                logits = score(model, head, held.pop("windows")).round(4).tolist()
                scored[source] = {**held, "logit": logits}
            write_file(target, json.dumps(scored))
        print(f"== {name}: {time.monotonic() - started:.0f} s", flush=True)


def report(arguments: argparse.Namespace) -> None:
    """Calibrate on the left-out scores and print the table, screener beside TF-IDF."""
    from lazaretto_lab.training.screener.calibration import calibrate, read_folds

    scored = read_folds(arguments.work)
    calibration = calibrate(scored)
    (arguments.out / "calibration.json").write_text(json.dumps(calibration, indent=1) + "\n")
    base = {
        source: rows
        for left_out in FOLDS
        for source, rows in tfidf_scores(left_out, arguments.data, arguments.seed, arguments.size).items()
    }
    act_at = calibration["thresholds"]["0.01"]
    columns = (
        "left out",
        "AUC",
        "recall at 1 % FPR",
        "TF-IDF AUC",
        "TF-IDF recall",
        "recall / FPR at the 1 % threshold",
    )
    print(f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}")
    for source, rows in scored.items():
        label, logit = rows["label"] == 1, rows["logit"]
        operating = f"{np.mean(logit[~label] > act_at):.1%}"
        if not label.any():
            print(f"| {source} (benign, {len(label)}) | | | | | {operating} |")
            continue
        ours, theirs = _figures(label, logit), _figures(label, base[source])
        caught = f"{np.mean(logit[label] > act_at):.1%}"
        print(f"| {source} ({label.sum()} pairs) | {ours} | {theirs} | {caught} / {operating} |")


def _figures(label: np.ndarray, scores: np.ndarray) -> str:
    """AUC and recall at 1 % false positives, each with its bootstrap interval."""
    from lazaretto_lab.metrics.detection import auc, recall_at_fpr
    from lazaretto_lab.metrics.intervals import bootstrap_interval

    rows = np.column_stack([label, scores])
    area = bootstrap_interval(rows, statistic=lambda r: auc(r[:, 0] == 1, r[:, 1]), samples=500)
    caught = bootstrap_interval(rows, statistic=lambda r: recall_at_fpr(r[:, 0] == 1, r[:, 1]), samples=500)
    return (
        f"{area.value:.3f} [{area.low:.3f}, {area.high:.3f}] | {caught.value:.2f} [{caught.low:.2f}, {caught.high:.2f}]"
    )


def _minilm(arguments: argparse.Namespace) -> Path:
    if arguments.minilm is not None:
        return Path(arguments.minilm)
    from lazaretto.models.minilm import minilm_folder

    return minilm_folder()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", choices=("prepare", "train", "report"))
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--work", type=Path, default=Path("runs/screener"))
    parser.add_argument("--out", type=Path, default=None, help="where weights and scores go; default: the work folder")
    parser.add_argument("--minilm", type=Path, default=None, help="folder of all-MiniLM-L6-v2; default: the package's")
    parser.add_argument("--size", type=int, default=28000)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--window", type=int, default=256)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    arguments.out = arguments.out or arguments.work
    {"prepare": prepare, "train": train_all, "report": report}[arguments.step](arguments)


if __name__ == "__main__":
    main()
