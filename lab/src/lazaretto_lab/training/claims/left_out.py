"""Joins the scores of the folds with what the gate knows of a pair, for the bars (``studies/claims/bars.py``).

    python -m lazaretto_lab.training.claims.left_out INPUTS lab/results/facts/relation_left_out.jsonl.gz \\
        --logits SCORES... --mpnet SCORES...

INPUTS is the folder that ``pairs.py`` wrote, SCORES are the files that ``training.py`` kept. A row is a pair of written
texts with the logits of the run that had left its kind of work out, or a pair of our own topics that no run trains on
with those of the final run; and the probability of a conflict by the first model, which was trained on no written text.
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lazaretto.gates.memory.claims.extraction import Claim, claims_of
from lazaretto.gates.memory.claims.relation import shared_relation_model
from lazaretto.models.minilm import claim_minilm
from lazaretto_lab.training.claims.facts_data import all_pairs
from lazaretto_lab.training.claims.own_pairs import group_of, place_of
from lazaretto_lab.training.claims.training import FOLDS
from lazaretto_lab.training.written import statements

EACH_NOTE = 3
"""Of the pairs of notes only every so many: there are more of them than of all others."""
_NEVER = ("far", "same", "two things")
_TOGETHER = 32


def unseen_logits(files: Sequence[Path]) -> dict[int, NDArray[np.float16]]:
    """Place of a pair in the pack -> its logits, by the run that left it out; of our own topics, which every run leaves
    out, by the final one."""
    found: dict[int, NDArray[np.float16]] = {}
    for run in ("final", *(f"fold_{fold}" for fold in range(FOLDS))):
        for path in files:
            with np.load(path) as scores:
                if f"{run}/rows" in scores:
                    left_out = zip(scores[f"{run}/rows"].tolist(), scores[f"{run}/logits"], strict=True)
                    found.update((row, logits) for row, logits in left_out if run == "final" or row not in found)
    return found


def rows_of(inputs: Path, readers: dict[str, dict[int, NDArray[np.float16]]]) -> list[dict[str, Any]]:
    """Every pair that the folds scored, as the gate would meet it."""
    about = {(one.first, one.second): (group_of(one), one.language) for one in statements()}
    about |= {(one.old, one.new): (one.group, one.language) for one in all_pairs(crossed=True)}
    told = [json.loads(line) for line in (inputs / "rows.jsonl").read_text(encoding="utf-8").splitlines()]
    told = [row for row in told if any(row["row"] in logits for logits in readers.values())]
    told = [row for row in told if not row["source"].startswith("notes_") or row["row"] % EACH_NOTE == 0]
    texts = list(dict.fromkeys(text for row in told for text in (row["old"], row["new"])))
    vectors = dict(zip(texts, np.asarray(claim_minilm().embed_texts(texts), np.float32), strict=True))
    found: list[dict[str, Any]] = []
    asked: list[tuple[Claim, Claim, float]] = []
    for row in told:
        old, new = claims_of(row["old"]), claims_of(row["new"])
        if not old or not new:
            continue
        group, language = about.get((row["old"], row["new"]), (row["source"].partition("_")[0], ""))
        cosine = float(vectors[row["old"]] @ vectors[row["new"]])
        one = {"source": row["source"], "group": group, "language": language,
               "place": place_of(old[0], new[0], cosine), "cosine": round(cosine, 3), "first": 0.0}  # fmt: skip
        for name, logits in readers.items():
            if row["row"] in logits:
                one[name] = [round(float(x), 2) for x in logits[row["row"]]]
        found.append(one)
        asked.append((old[0], new[0], cosine))
    read = [n for n, one in enumerate(found) if one["place"] not in _NEVER]
    for start in range(0, len(read), _TOGETHER):
        some = read[start : start + _TOGETHER]
        answers = shared_relation_model().compare([asked[n] for n in some])
        for n, related in zip(some, answers, strict=True):
            found[n]["first"] = round(related.conflict, 4)
    return found


def main() -> None:
    """Write the rows."""
    parser = argparse.ArgumentParser()
    parser.add_argument("inputs", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--logits", type=Path, nargs="+", required=True)
    parser.add_argument("--mpnet", type=Path, nargs="*", default=[])
    given = parser.parse_args()
    readers = {"logits": unseen_logits(given.logits), "mpnet": unseen_logits(given.mpnet)}
    rows = rows_of(given.inputs, readers)
    with gzip.open(given.out, "wt", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
    print(f"{len(rows)} pairs")


if __name__ == "__main__":
    main()
