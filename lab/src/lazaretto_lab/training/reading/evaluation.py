"""What a distilled trunk is worth on texts that it never saw, beside its teacher, the same training without a teacher,
the earlier trunk, and the screener and jury that ship.

    python -m lazaretto_lab.training.reading.evaluation store WORK lab/results/reading NAME   # raw scores of a training
    python -m lazaretto_lab.training.reading.evaluation tables lab/results                    # distilled.json
    python -m lazaretto_lab.training.reading.evaluation beside lab/results NAME               # NAME.json

``store`` writes what ``distil.py`` of today left (students that begin as screeners); ``NAME`` is ``begun`` for the
third trial, ``fourth`` for the fourth.

Bars are set on left-out texts of each reader itself (``screener.calibration``, ``jury.evaluation``). The screener was
tested on fewer written texts than the others: the public sources are the same.
"""

from __future__ import annotations

import gzip
import io
import json
import lzma
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lazaretto.models.minilm import minilm_tokenizer
from lazaretto_lab.metrics.detection import auc
from lazaretto_lab.training import written
from lazaretto_lab.training.jury import assembly
from lazaretto_lab.training.jury.evaluation import by_source, judge, scored_items
from lazaretto_lab.training.screener.bundle import read_rows
from lazaretto_lab.training.screener.calibration import FEWEST, WORK, _threshold, calibrate, counted, shifted
from lazaretto_lab.training.screener.train import LANGUAGES
from lazaretto_lab.training.screener.training import ORDERS, QUIET, TOOLS, task_of

READERS = ("student", "teacher", "plain")
FOLDERS = {"student": ".", "teacher": "teacher"}
BEGUN = ("student", "teacher")
"""Readers of the third and fourth trial; their teachers are screeners for orders and mpnet for risk."""
DOCUMENTS = ("bipia_email", "bipia_table", "bipia_code", "injecagent", "asb", "purplellama", "xquad_pairs")
"""Sources that test the same document with and without an order."""
RATES = ("0.01", "0.005")
Scored = Mapping[str, Mapping[str, NDArray[Any]]]


def store(work: Path, out: Path, trial: str) -> None:
    """``<trial>_orders.npz`` and ``<trial>_risk_<reader>.npz``; what a reader was not asked is not a number."""
    rows = {name: np.array(values) for name, values in read_rows(work).items()}
    found: dict[str, NDArray[Any]] = {name: rows[name] for name in ("label", "source", "language", "kind")}
    found["label"], found["short"] = found["label"].astype(np.uint8), short_lines(work)
    for reader in BEGUN:
        folder = work / FOLDERS[reader]
        for part in ("logit", "quiet"):
            value = np.full(len(rows["label"]), np.nan, np.float16)
            for path in sorted(folder.glob("*.json")):
                result = json.loads(path.read_text(encoding="utf-8"))
                if "logit" in result:
                    value[result["text"]] = result[part]
            found[f"{reader}_{part}"] = value
        (out / f"{trial}_risk_{reader}.npz").write_bytes((folder / "jury-scores.npz").read_bytes())
        (out / f"{trial}_plan_{reader}.json").write_bytes((folder / "plan.json").read_bytes())
    np.savez_compressed(out / f"{trial}_orders.npz", allow_pickle=False, **found)


def short_lines(work: Path) -> NDArray[np.bool_]:
    """Which tested texts are the written short lines, orders and honest ones."""
    tokenizer = minilm_tokenizer()
    lines = {tuple(tokenizer.encode(one.text, add_special_tokens=False).ids) for one in written.short()}
    with np.load(io.BytesIO(lzma.decompress((work / "held.npz.xz").read_bytes()))) as stored:
        ids, starts, owner = stored["ids"], stored["starts"], stored["owner"]
    found = np.zeros(int(owner.max()) + 1, bool)
    for window, text in enumerate(owner.tolist()):
        found[text] |= tuple(ids[starts[window] + 1 : starts[window + 1] - 1].tolist()) in lines
    return found


def beside(results: Path, trial: str = "begun") -> dict[str, Any]:
    """Students that begin as screeners, their teachers, and what ships."""
    lines = gzip.decompress((results / "jury" / "left_out_items.jsonl.gz").read_bytes()).splitlines()
    examples, folder = [json.loads(line) for line in lines], results / "reading"
    with np.load(folder / f"{trial}_orders.npz") as stored:
        scores = {name: stored[name] for name in stored.files}
    with np.load(results / "screener" / "left_out_scores.npz") as stored:
        shipped = {name: stored[name] for name in stored.files}
    several = {reader: scored_by_source(scores, f"{reader}_logit") for reader in BEGUN}
    files = {reader: folder / f"{trial}_risk_{reader}.npz" for reader in BEGUN}
    files["jury"] = results / "jury" / "left_out_scores.npz"
    with np.load(results / "orders" / "both_scores.npz") as stored:
        both = {name: stored[name] for name in stored.files}
    short = np.char.startswith(both["group"], "short")
    return {
        "orders": {**{reader: orders(one) for reader, one in several.items()},
                   "screener": orders(scored_by_source(shipped, "logit"))},
        "short lines": {
            **{reader: _short(scores, scores["short"], f"{reader}_logit", one) for reader, one in several.items()},
            "screener": _short(both, short, "screener", scored_by_source(shipped, "logit")),
        },
        "risk": {name: risk(file, examples) for name, file in files.items()},
        "AUC of mean logits": {name: risk_together([file], examples) for name, file in files.items()},
    }  # fmt: skip


def _short(rows: Mapping[str, NDArray[Any]], here: NDArray[np.bool_], logit: str, scored: Scored) -> dict[str, Any]:
    bars = calibrate(scored, LANGUAGES, 1.0)
    picked = {name: rows[name][here] for name in ("label", "language")} | {"logit": rows[logit][here].astype(float)}
    moved = {**picked, "logit": shifted(picked, bars["shift"])}
    shares = {rate: {"recall": _past(moved, 1, bars["thresholds"][rate]),
                     "false alarms": _past(moved, 0, bars["thresholds"][rate])} for rate in RATES}  # fmt: skip
    return {
        "orders": int(picked["label"].sum()),
        "honest": int((picked["label"] == 0).sum()),
        "AUC": _auc(moved),
        **shares,
    }


def scored_by_source(stored: Mapping[str, NDArray[Any]], logit: str) -> dict[str, dict[str, NDArray[Any]]]:
    """Scores as the calibration reads them, without texts that nobody scored."""
    asked = ~np.isnan(stored[logit].astype(np.float64))
    columns = {name: stored[name][asked] for name in ("label", "language", "kind")}
    columns["logit"], source = stored[logit][asked].astype(np.float64), stored["source"][asked]
    return {name: {k: v[source == name] for k, v in columns.items()} for name in dict.fromkeys(source.tolist())}


def orders(scored: Scored) -> dict[str, Any]:
    """Bars, AUC and shares past the bars: of public sources of orders, of documents, and of written work."""
    bars = calibrate(scored, LANGUAGES, 1.0)
    known = {name: _known(rows, bars["shift"]) for name, rows in scored.items() if task_of(name) == ORDERS}
    both = {name: rows for name, rows in known.items() if 0 < rows["label"].sum() < len(rows["label"])}
    public = {name: rows for name, rows in known.items() if not name.startswith(WORK)}
    result: dict[str, Any] = {
        "thresholds": bars["thresholds"],
        "public AUC": _auc(_joined(public.values())),
        "mean AUC": _mean([_auc(rows) for name, rows in both.items() if name in public]),
        "mean recall by bars of public sources": public_recall(scored),
        "mean recall": {rate: _mean_recall(public.values(), bars["thresholds"][rate]) for rate in RATES},
        "documents AUC": _mean([_auc(rows) for name, rows in both.items() if name in DOCUMENTS]),
        "written AUC": _auc(_joined([rows for name, rows in known.items() if name.startswith(WORK)])),
        "sources": {
            name: {"auc": _auc(rows), "recall": _past(rows, 1, bars["thresholds"]["0.01"]),
                   "false alarms": _past(rows, 0, bars["thresholds"]["0.01"])}
            for name, rows in both.items()
        },
    }  # fmt: skip
    work = _joined([rows for name, rows in known.items() if name.startswith("written_")])
    result["written by language"] = {
        language: {
            "honest": int((work["label"][here] == 0).sum()),
            "orders": int((work["label"][here] == 1).sum()),
            **{rate: {"recall": _past(_picked(work, here), 1, bars["thresholds"][rate]),
                      "false alarms": _past(_picked(work, here), 0, bars["thresholds"][rate])} for rate in RATES},
        }
        for language in sorted(set(work["language"].tolist()))
        for here in [work["language"] == language]
    }  # fmt: skip
    for task, name in ((QUIET, "quiet lies AUC"), (TOOLS, "tools AUC")):
        several = [_known(rows, {}) for source, rows in scored.items() if task_of(source) == task]
        result[name] = _auc(_joined(several)) if several else None
    return result


def public_recall(scored: Scored) -> dict[str, float | None]:
    """The mean over public sources with orders, at bars that honest texts of public sources alone set."""
    public = [
        _known(rows, {}) for name, rows in scored.items() if task_of(name) == ORDERS and not name.startswith(WORK)
    ]
    honest = [one for rows in public if len(one := rows["logit"][rows["label"] == 0]) >= FEWEST]
    return {rate: _mean_recall(public, _threshold(honest, float(rate))) for rate in RATES}


def earlier_orders(folder: Path) -> dict[str, Any]:
    """The earlier trunk's scores of public sources: AUC, and recall by bars of public sources."""
    with np.load(folder / "order_scores.npz") as stored, np.load(folder / "order_items.npz") as items:
        rows = {name: items[name] for name in items.files}
        rows["logit"] = np.full(len(rows["label"]), np.nan)
        for name in stored.files:
            if name.endswith("/text"):
                rows["logit"][stored[name]] = stored[name.replace("/text", "/logit")]
    scored = scored_by_source(rows, "logit")
    known = {name: _known(one, {}) for name, one in scored.items()}
    both = {name: one for name, one in known.items() if 0 < one["label"].sum() < len(one["label"])}
    return {
        "public AUC": _auc(_joined(known.values())),
        "mean AUC": _mean([_auc(one) for one in both.values()]),
        "mean recall by bars of public sources": public_recall(scored),
        "documents AUC": _mean([_auc(one) for name, one in both.items() if name in DOCUMENTS]),
        "sources": {name: {"auc": _auc(one)} for name, one in both.items()},
    }


def together(first: Scored, second: Scored) -> dict[str, Any]:
    """Two readers with equal say, each divided by its bar of 1 %, on the public sources that tested both alike."""
    bars = [calibrate(one, LANGUAGES, 1.0)["thresholds"]["0.01"] for one in (first, second)]
    joined: dict[str, dict[str, NDArray[Any]]] = {}
    for name in first.keys() & second.keys():
        one, other = first[name], second[name]
        public = task_of(name) == ORDERS and not name.startswith(WORK)
        if public and all(np.array_equal(one[key], other[key]) for key in ("label", "language", "kind")):
            joined[name] = {**one, "logit": one["logit"] / bars[0] + other["logit"] / bars[1]}
    known = {name: _known(rows, {}) for name, rows in joined.items()}
    both = {name: rows for name, rows in known.items() if 0 < rows["label"].sum() < len(rows["label"])}
    return {
        "public AUC": _auc(_joined(known.values())),
        "mean AUC": _mean([_auc(rows) for rows in both.values()]),
        "mean recall by bars of public sources": public_recall(joined),
        "documents AUC": _mean([_auc(rows) for name, rows in both.items() if name in DOCUMENTS]),
        "sources": {name: {"auc": _auc(rows)} for name, rows in sorted(both.items())},
    }


def risk_together(scores: Sequence[Path], examples: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """AUC of the mean of both seats' logits, of several readers with equal say (each by its own spread)."""
    several = [scored_items(path, examples) for path in scores]
    means = [items.logits.mean(axis=1) for items in several]
    odds = np.sum([(one - one.mean()) / one.std() for one in means], axis=0)
    items = several[0]
    dev, text = items.source == "dev", items.head == "text"
    parts = {head: dev & (items.head == head) for head in assembly.HEADS} | {"all sources": ~dev & text}
    return {name: round(auc(items.label[here], odds[here]), 4) for name, here in parts.items()}


def _known(rows: Mapping[str, NDArray[Any]], shift: Mapping[str, float]) -> dict[str, NDArray[Any]]:
    return _picked({**rows, "logit": shifted(rows, shift)}, counted(rows, LANGUAGES))


def _picked(rows: Mapping[str, NDArray[Any]], here: NDArray[np.bool_]) -> dict[str, NDArray[Any]]:
    return {name: value[here] for name, value in rows.items()}


def _joined(several: Any) -> dict[str, NDArray[Any]]:
    listed = list(several)
    return {name: np.concatenate([rows[name] for rows in listed]) for name in listed[0]} if listed else {}


def _auc(rows: Mapping[str, NDArray[Any]]) -> float | None:
    if not rows or not 0 < rows["label"].sum() < len(rows["label"]):
        return None
    return round(auc(rows["label"].astype(np.int64), rows["logit"]), 4)


def _past(rows: Mapping[str, NDArray[Any]], label: int, bar: float) -> float | None:
    mine = rows["logit"][rows["label"] == label]
    return round(float((mine > bar).mean()), 4) if len(mine) else None


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return round(float(np.mean(known)), 4) if known else None


def _mean_recall(several: Any, bar: float) -> float | None:
    return _mean([_past(rows, 1, bar) for rows in several if (rows["label"] == 1).any()])


def risk(scores: Path, examples: Sequence[Mapping[str, Any]], only: Sequence[int] = ()) -> dict[str, Any]:
    """AIR-Bench by kind, and all other sources: AUC, and what is blocked and gray at the default rates.

    ``only``: the splits that a reader was scored on; then AUC alone, bars need all of them.
    """
    items = scored_items(scores, examples)
    if only:
        here = items.pick(np.isin(items.fold, only) & (items.head == "text"))
        odds = here.logits.mean(axis=1)
        dev = here.source == "dev"
        return {"AUC": {"dev": round(auc(here.label[dev], odds[dev]), 4),
                        "all sources": round(auc(here.label[~dev], odds[~dev]), 4)}}  # fmt: skip
    result: dict[str, Any] = {}
    for head in assembly.HEADS:
        judged = judge(items, head, assembly.FALSE_ALARMS, assembly.MISSES)
        result[head] = assembly._bench(judged)
        if head == "text":
            result["all sources"], result["sources"] = assembly._macro(judged), by_source(judged)
    return result


def tables(results: Path) -> dict[str, Any]:
    """All figures of what is stored under ``lab/results``."""
    lines = gzip.decompress((results / "jury" / "left_out_items.jsonl.gz").read_bytes()).splitlines()
    examples = [json.loads(line) for line in lines]
    folder, found = results / "reading", dict[str, Any]()
    with np.load(folder / "distilled_orders.npz") as stored:
        scores = {name: stored[name] for name in stored.files}
    with np.load(results / "screener" / "left_out_scores.npz") as stored:
        shipped = {name: stored[name] for name in stored.files}
    plain = np.isin(scores["source"], np.unique(scores["source"][~np.isnan(scores["plain_logit"].astype(np.float64))]))
    some = {name: value[plain] for name, value in scores.items()}
    student, screener = scored_by_source(scores, "student_logit"), scored_by_source(shipped, "logit")
    found["orders"] = {
        "student": orders(student),
        "teacher": orders(scored_by_source(scores, "teacher_logit")),
        "screener": orders(screener),
        "earlier trunk": earlier_orders(folder),
        "screener and student": together(screener, student),
        "student on two splits": orders(scored_by_source(some, "student_logit")),
        "plain on two splits": orders(scored_by_source(some, "plain_logit")),
    }
    files = {reader: folder / f"distilled_risk_{reader}.npz" for reader in READERS}
    files |= {"earlier trunk": folder / "risk_scores.npz", "jury": results / "jury" / "left_out_scores.npz"}
    splits = _splits(files["plain"])
    found["risk"] = {
        **{name: risk(files[name], examples) for name in ("student", "teacher", "earlier trunk", "jury")},
        **{f"{name} on two splits": risk(file, examples, splits) for name, file in files.items()},
    }
    pairs = (("jury",), ("student",), ("teacher",), ("jury", "student"), ("jury", "teacher"), ("student", "teacher"))
    found["AUC of mean logits"] = {
        " and ".join(names): risk_together([files[name] for name in names], examples) for names in pairs
    }
    return found


def _splits(scores: Path) -> list[int]:
    """The splits that were scored."""
    with np.load(scores) as stored:
        asked = ~np.isnan(stored["logits"].astype(np.float64)).all(axis=1)
        return sorted(
            {int(str(name).partition(":")[2]) for name, yes in zip(stored["recipes"], asked, strict=True) if yes}
        )


def main(task: str, *given: str) -> None:
    """``store``, ``tables`` or ``beside``, as told above."""
    if task == "store":
        store(Path(given[0]), Path(given[1]), given[2])
        return
    results = Path(given[0])
    name, made = ("distilled", tables(results)) if task == "tables" else (given[1], beside(results, given[1]))
    (results / "reading" / f"{name}.json").write_text(json.dumps(made, indent=1) + "\n")
    print(json.dumps(made, indent=1))


if __name__ == "__main__":
    main(*sys.argv[1:])
