"""Orders with ``mpnet``: would its score and the screener's, added, do better than what the gates do? Left out.

    python lab/benchmarks/fused_orders.py             # seconds: nothing is trained or read, all scores are stored
    python lab/benchmarks/fused_orders.py --write     # also lab/results/orders/fused.json
    python lab/benchmarks/fused_orders.py --align PACK HELD    # makes lab/results/orders/both_scores.npz anew

Every score is of a model that had not seen the text's source; ``mpnet`` was run on three splits of five, and only their
texts count. ``PACK``: the folder that ``lazaretto_lab.training.reader.bundle`` writes; ``HELD``: the ``held.npz.xz`` of
the screener's training whose scores are stored (the tree at 06172cfd makes it). Texts that the two do not share are
left out: those written since, and languages that the screener does not read.

Three rules are compared, all with the screener's sure finds (its 1 % bar) held whatever the reader says:

- ``now``: the reader is asked about what reaches the screener's 5 % bar. It holds from its own 1 % bar on; what lies
  between the screener's 2 and 1 % bars waits, unless the reader clears it (below its 5 % bar).
- ``asked more``: the same, and the reader is asked from the screener's 10 % bar on (``faint_rate = 0.1``).
- ``sum``: asked from there on, too; held where a sum of both log-odds passes a bar. Weights are fitted without the
  text's split, both labels and all sources (up to 400 texts) alike.

``held`` is what is held or waits for a person. Bars of the sum are shown at several values; none was chosen.
"""

from __future__ import annotations

import argparse
import io
import json
import lzma
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from lazaretto.models.deep import measured_bar
from lazaretto_lab.metrics.detection import auc

RESULTS = Path(__file__).resolve().parents[1] / "results"
SCORES = RESULTS / "orders" / "both_scores.npz"
SCREENER = RESULTS / "orders" / "screener_calibration.json"
"""Bars and shifts of the screener whose scores are stored; it shipped until decision 0170."""
READER = "mpnet"
LANGUAGES = ("en", "de", "fr", "es", "it", "pt", "nl")
USER = "direct_user"
"""Kind of texts that users said to their assistant: orders by right."""
FEWEST = 50
BARS = (2.0, 2.4, 2.8, 3.2, 3.6)
Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]


def align(pack: Path, held: Path) -> None:
    """Both scores of every text that both were tested on."""
    from lazaretto.models.minilm import minilm_tokenizer
    from lazaretto_lab.training import written
    from lazaretto_lab.training.reader.training import rows_of
    from lazaretto_lab.training.screener import material

    group = {one.text: "statement" for one in material.stated()} | {one.text: "note" for one in written.notes()}
    group |= {one.text: "short order" if one.bad else "short honest" for one in written.short()}
    for one in written.planted():
        group |= {one.host: "host", one.text: "planted"}
    with np.load(RESULTS / "screener" / "left_out_scores.npz") as stored:
        screener = {name: stored[name] for name in stored.files}
    with np.load(io.BytesIO(lzma.decompress(held.read_bytes()))) as stored:
        ids, starts, owner = stored["ids"], stored["starts"], stored["owner"].tolist()
    place: dict[tuple[str, int, tuple[int, ...]], int] = {}
    for window, text in reversed(list(enumerate(owner))):  # the first window of the first of equal texts counts
        first = tuple(ids[starts[window] : starts[window + 1]].tolist())
        place[(str(screener["source"][text]), int(screener["label"][text]), first)] = text
    tests, found = rows_of(pack / "orders_test.jsonl.gz"), list[tuple[Any, ...]]()
    tokenizer = minilm_tokenizer()
    with np.load(RESULTS / "reader" / f"scores-{READER}.npz") as stored:
        for split in sorted({name.partition("/")[0] for name in stored.files}):
            rows = [tests[int(row)] for row in stored[f"{split}/orders"]]
            pieces = tokenizer.encode_batch([row["t"] for row in rows], add_special_tokens=False)
            for row, piece, score in zip(rows, pieces, stored[f"{split}/orders_score"][:, 0], strict=True):
                at = place.get((row["s"], row["y"], (101, *piece.ids[:254], 102)))
                if at is not None:
                    kind = USER if screener["kind"][at] == USER else group.get(row["t"], "")
                    about = (row["s"], row["l"], kind, int(split), row["y"])
                    found.append((*about, screener["logit"][at], score))
    names, columns = ("source", "language", "group", "split", "label", "screener", READER), zip(*found, strict=True)
    kinds = (str, str, str, np.uint8, np.uint8, np.float16, np.float16)
    SCORES.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(
        SCORES,
        allow_pickle=False,
        **{name: np.array(one, kind) for name, one, kind in zip(names, columns, kinds, strict=True)},
    )
    print(len(found), "texts have both scores")


class Scored:
    """The texts, their groups, and the scores of both and of the sum."""

    def __init__(self) -> None:
        with np.load(SCORES) as stored:
            self.all = {name: stored[name] for name in stored.files}
        shift = json.loads(SCREENER.read_text())["shift"]
        self.label, self.group = self.all["label"] == 1, self.all["group"]
        language, source = self.all["language"], self.all["source"]
        self.screener = self.all["screener"].astype(float) - np.array([shift.get(one, 0.0) for one in language])
        self.reader = self.all[READER].astype(float)
        self.sum = self._sum()
        public = (self.group == "") & np.isin(language, LANGUAGES)
        english = language == "en"
        self.bad: dict[str, Mask] = {
            "short orders": self.group == "short order",
            "orders in documents, English": (self.group == "planted") & english,
            "orders in documents, others": (self.group == "planted") & ~english,
        }
        self.honest: dict[str, Mask] = {
            "short honest lines": self.group == "short honest",
            "notes, English": (self.group == "note") & english,
            "notes, others": (self.group == "note") & ~english,
            "statements": self.group == "statement",
            "documents": self.group == "host",
        }
        self.public_bad = {str(s): public & self.label & (source == s) for s in np.unique(source[public & self.label])}
        every = {str(s): public & ~self.label & (source == s) for s in np.unique(source[public & ~self.label])}
        self.public_honest = {name: mask for name, mask in every.items() if mask.sum() >= FEWEST}

    def _sum(self) -> Floats:
        split, known = self.all["split"], self.group != USER
        keys = np.char.add(np.char.add(self.all["source"], self.group), self.all["label"].astype(str))
        weight, features = np.zeros(len(keys)), np.column_stack([self.screener, self.reader])
        for key in np.unique(keys):
            weight[keys == key] = min(400, (keys == key).sum()) / (keys == key).sum()
        found = np.zeros(len(keys))
        for out in np.unique(split):
            inside = (split != out) & known
            balanced = weight.copy()
            for label in (True, False):
                balanced[inside & (self.label == label)] /= balanced[inside & (self.label == label)].sum()
            fitted = LogisticRegression(C=0.3).fit(
                features[inside], self.label[inside], sample_weight=1000 * balanced[inside]
            )
            found[split == out] = fitted.decision_function(features[split == out])
        return found

    def aucs(self) -> dict[str, dict[str, float]]:
        """Of each group of orders against what it is like; public sources without honest texts against all of them."""
        every = np.logical_or.reduce(list(self.public_honest.values()))
        documents = self.honest["documents"]
        english = self.all["language"] == "en"
        against = {
            "short orders": self.honest["short honest lines"],
            "orders in documents, English": documents & english,
            "orders in documents, others": documents & ~english,
        }
        pairs = {name: (self.bad[name], honest) for name, honest in against.items()}
        work = np.logical_or.reduce(list(self.honest.values()))
        pairs["short orders against all honest work"] = (self.bad["short orders"], work)
        pairs |= {name: (mask, self.public_honest.get(name, every)) for name, mask in self.public_bad.items()}
        found = {}
        for name, (bad, honest) in pairs.items():
            rows, several = bad | honest, {"screener": self.screener, READER: self.reader, "sum": self.sum}
            found[name] = {who: round(auc(bad[rows], score[rows]), 4) for who, score in several.items()}
        return found

    def shares(self, held: Mask, asked: Mask) -> dict[str, Any]:
        """What a rule holds of each group, and whom it asks about."""
        every = {**self.honest, "public sources": np.logical_or.reduce([*self.public_honest.values()])}
        return {
            "found": {name: round(float(held[mask].mean()), 4) for name, mask in self.bad.items()},
            "found, public sets": round(float(np.mean([held[mask].mean() for mask in self.public_bad.values()])), 4),
            "public sets": {name: round(float(held[mask].mean()), 4) for name, mask in self.public_bad.items()},
            "honest held": {name: round(float(held[mask].mean()), 4) for name, mask in self.honest.items()},
            "honest held, public sources": round(
                float(np.mean([held[mask].mean() for mask in self.public_honest.values()])), 4
            ),
            "honest asked": {name: round(float(asked[mask].mean()), 4) for name, mask in every.items()},
        }  # fmt: skip


def measured() -> dict[str, Any]:
    """All of it."""
    data, bars = Scored(), json.loads(SCREENER.read_text())["thresholds"]
    hold, clear = (measured_bar(READER, "orders", rate) for rate in (0.01, 0.05))
    sure, doubt = data.screener > bars["0.01"], data.screener > bars["0.02"]
    rules: dict[str, Any] = {"screener alone": data.shares(doubt, np.zeros(len(sure), bool))}
    for name, rate in (("now", "0.05"), ("asked more", "0.1"), ("always asked", "")):
        asked = data.screener > bars[rate] if rate else np.ones(len(sure), bool)
        held = sure | (asked & (data.reader > hold)) | (doubt & (data.reader >= clear))
        rules[name] = data.shares(held, asked & ~sure)
    asked = data.screener > bars["0.1"]
    rules |= {f"sum from {bar}": data.shares(sure | (asked & (data.sum > bar)), asked & ~sure) for bar in BARS}
    count = {name: int(mask.sum()) for name, mask in {**data.bad, **data.honest, **data.public_bad}.items()}
    return {"texts": count, "auc": data.aucs(), "rules": rules}


def main() -> None:
    """Print the figures; store them with ``--write``."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--align", type=Path, nargs=2, metavar=("PACK", "HELD"))
    parser.add_argument("--write", action="store_true")
    asked = parser.parse_args()
    if asked.align:
        align(*asked.align)
    result = measured()
    for name, row in result["auc"].items():
        print(f"AUC {name}: " + ", ".join(f"{who} {value:.3f}" for who, value in row.items()))
    for name, row in result["rules"].items():
        found = ", ".join(f"{group} {share:.3f}" for group, share in row["found"].items())
        honest = ", ".join(f"{group} {share:.4f}" for group, share in row["honest held"].items())
        print(f"{name}: {found}, public sets {row['found, public sets']:.3f}")
        print(f"    honest held: {honest}, public sources {row['honest held, public sources']:.4f}")
        print(f"    honest asked: {row['honest asked']}")
    if asked.write:
        (RESULTS / "orders").mkdir(exist_ok=True)
        (RESULTS / "orders" / "fused.json").write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
