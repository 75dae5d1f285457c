"""Trains the text-memory screener and measures it on what it never saw.

    lazaretto train screener prepare --data ../shared/data --work runs/screener
    lazaretto train screener train   --work runs/screener
    lazaretto train screener report  --work runs/screener
    lazaretto train screener average --data ../shared/data --work runs/averaged

``prepare`` writes lines, contexts and tested texts as token ids (on any machine that has the data). ``train`` needs
only those, torch and numpy; ``training.py`` runs by itself on a machine with a GPU, where a training takes about a
minute instead of an hour. Every fold leaves some sources out, trains on the rest and scores what was left out; the
scores are kept, so that the tables and the calibration can be made again without training. ``report`` writes
calibration.json and prints the tables of the model card. ``average`` makes what ships out of several
trainings. The weights see all sources but LoCoMo, whose licence allows evaluation alone.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import zlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lazaretto_lab.training.screener import training
from lazaretto_lab.training.screener.bundle import read_rows
from lazaretto_lab.training.screener.calibration import (
    USER,
    WORK,
    Scored,
    calibrate,
    counted,
    read_folds,
    shifted,
)
from lazaretto_lab.training.screener.leave_one_out import FOLDS

LANGUAGES = ("en", "de", "fr", "es", "it", "pt", "nl")
"""Those the calibration vouches for."""


def prepare(arguments: argparse.Namespace) -> None:
    """Write the material and the tested texts under the work folder."""
    from lazaretto_lab.training.screener.bundle import write_bundle

    write_bundle(arguments.data, arguments.work, arguments.seed, arguments.packages)


def train_all(arguments: argparse.Namespace) -> None:
    """Train and score every fold, then the final weights."""
    from lazaretto.models.minilm import minilm_folder

    base = arguments.base or minilm_folder() / "model.safetensors"
    command = [sys.executable, training.__file__, "--work", arguments.work, "--base", base, "--out", arguments.work]
    subprocess.run([*map(str, command), "--plan", arguments.plan], check=True)


def average(arguments: argparse.Namespace) -> None:
    """Average the members' weights, calibrate on their left-out scores and print the tables."""
    from lazaretto_lab.training.screener.averaged import write_average

    rows = write_average(arguments.data, arguments.work)
    names = ("label", "logit", "quiet", "language", "kind", "crc")
    scored = {
        source: {name: rows[name][rows["source"] == source] for name in names}
        for source in dict.fromkeys(rows["source"].tolist())
    }
    _report(scored, arguments.work, arguments.spread, {})


def report(arguments: argparse.Namespace) -> None:
    """Calibrate on the left-out scores and print the tables, screener beside TF-IDF."""
    from lazaretto_lab.training.screener.baseline import tfidf_scores

    scored = read_folds(arguments.work, arguments.variant)
    _keep(arguments.work)
    base: dict[str, NDArray[np.float64]] = {}
    for fold in FOLDS if arguments.baseline else ():
        base |= tfidf_scores(fold, arguments.work)
    _report(scored, arguments.work, arguments.spread, base)


def _report(scored: Scored, work: Path, spread: float, base: Mapping[str, NDArray[np.float64]]) -> None:
    """Write calibration.json and print the tables of the model card; ``base``: scores to print beside them."""
    calibration = calibrate(scored, LANGUAGES, spread)
    (work / "calibration.json").write_text(json.dumps(calibration, indent=1) + "\n")
    hold_at = calibration["thresholds"]["0.01"]
    print("| left out | texts (orders) | AUC | TF-IDF AUC | recall | FPR |\n|---|---|---|---|---|---|")
    for source, rows in scored.items():
        said_by = " (users' own words)" if (rows["kind"] == USER).any() else ""
        figures = _figures(rows["label"], rows["logit"], hold_at, base.get(source))
        print(f"| {source}{said_by} | {figures} |")
    print("\n| language | texts (orders) | AUC | TF-IDF AUC | recall | FPR |\n|---|---|---|---|---|---|")
    for language in LANGUAGES:
        parts = [(rows, counted(rows, [language])) for rows in scored.values()]
        label, logit = (np.concatenate([rows[name][mine] for rows, mine in parts]) for name in ("label", "logit"))
        print(f"| {language} | {_figures(label, logit, hold_at, None)} |")
    print("\n| written texts, left-out folds | 5 % | 2 % | 1 % |\n|---|---|---|---|")
    for group, logits in _written(scored, calibration["shift"]).items():
        shares = (f"{np.mean(logits > calibration['thresholds'][rate]):.1%}" for rate in ("0.05", "0.02", "0.01"))
        print(f"| {group}, {len(logits)} | {' | '.join(shares)} |")


def _keep(work: Path) -> None:
    """The left-out scores in one file, for whoever wants other tables: ``left_out_scores.npz``."""
    rows = read_rows(work)
    marks = {name: np.full(len(rows["label"]), np.nan) for name in ("logit", "quiet")}
    for fold in FOLDS:
        result = json.loads((work / f"{fold}.json").read_text(encoding="utf-8"))
        for name, values in marks.items():
            values[result["text"]] = result[name]
    np.savez_compressed(
        work / "left_out_scores.npz",
        allow_pickle=False,
        label=np.array(rows["label"], np.uint8),
        crc=np.array(rows["crc"], np.uint32),
        **{name: np.array(rows[name]) for name in ("source", "language", "kind")},
        **{name: values.astype(np.float16) for name, values in marks.items()},
    )


def _written(scored: Scored, shift: Mapping[str, float]) -> dict[str, NDArray[np.float64]]:
    """Logits of the written texts by what they are, each of the training that had not seen its kind of work."""
    from lazaretto_lab.training import written
    from lazaretto_lab.training.screener import material
    from lazaretto_lab.training.screener.days import day_texts

    group = {one.text: "plain statements" for one in material.stated()}
    group |= {one.text: f"honest notes ({one.language})" for one in written.notes()}
    group |= {one.text: "short orders" if one.bad else "short honest lines" for one in written.short()}
    for one in written.planted():
        english = "English" if one.language == "en" else "other languages"
        group |= {one.host: "honest hosts", one.text: f"planted orders ({english})"}
    for text in day_texts():
        kind = "honest texts" if text.kind == "honest" else "orders"
        english = "English" if text.language == "en" else "other languages"
        group[text.text] = f"{kind} of working days ({english})"
    found: dict[str, list[float]] = {}
    for source, rows in scored.items():
        if source.startswith(WORK):
            texts = {zlib.crc32(one.text.encode()): one.text for one in material.written_texts(source)}
            for crc, logit in zip(rows["crc"].tolist(), shifted(rows, shift).tolist(), strict=True):
                found.setdefault(group[texts[crc]], []).append(logit)
    return {name: np.array(found[name]) for name in sorted(found)}


def _figures(
    label: NDArray[np.int64], logit: NDArray[np.float64], hold_at: float, base: NDArray[np.float64] | None
) -> str:
    from lazaretto_lab.metrics.detection import auc

    order = label == 1
    both = order.any() and not order.all()
    area = f"{auc(order, logit):.3f}" if both else ""
    theirs = f"{auc(order, base):.3f}" if both and base is not None else ""
    caught = f"{np.mean(logit[order] > hold_at):.1%}" if order.any() else ""
    held = f"{np.mean(logit[~order] > hold_at):.1%}" if not order.all() else ""
    return f"{len(label)} ({order.sum()}) | {area} | {theirs} | {caught} | {held}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", choices=("prepare", "train", "report", "average"))
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--work", type=Path, default=Path("runs/screener"))
    parser.add_argument("--packages", type=Path, default=None, help="packages of MCP servers: honest descriptions")
    parser.add_argument("--base", type=Path, default=None, help="weights of all-MiniLM-L6-v2; default: the package's")
    parser.add_argument("--plan", default="", help="which runs; default: every fold, then final")
    parser.add_argument("--variant", default="", help="report another recipe than the default")
    parser.add_argument("--spread", type=float, default=1.0, help="how far a logit moves when trained again")
    parser.add_argument("--no-baseline", dest="baseline", action="store_false", help="leave TF-IDF out")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    {"prepare": prepare, "train": train_all, "report": report, "average": average}[arguments.step](arguments)


if __name__ == "__main__":
    main()
