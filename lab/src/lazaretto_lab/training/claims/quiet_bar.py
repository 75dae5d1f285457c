"""Packs a trained reader of quiet lies, sets its bar on texts it has not seen, and writes what ships, with figures.

    python -m lazaretto_lab.training.claims.quiet_bar TRAINED NOTES --fold 0 --weights WEIGHTS --out lab/results/facts

TRAINED is ``quiet_minilm_0.npz`` (``quiet_training.py --folds 0``): the reader that has seen no kind of work of fold 0.
It is the reader that ships, so that its bar and figures are its own: on the left-out kinds of work, on kinds that no
run sees, and on notes of the screening data beyond those it was trained on. Texts are read as the product reads them:
rounded, in eight bits, and only where the head finds a claim possible. NOTES and WEIGHTS: as of ``quiet.py``.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from lazaretto.gates.memory.claims.quiet import POSSIBLE, QuietHead, QuietReader
from lazaretto.gates.memory.claims.reader import shared_reader
from lazaretto.models.packed_changes import packed_changes
from lazaretto_lab.training.claims.quiet import NOTES, SEED, Line
from lazaretto_lab.training.claims.quiet_pack import fold_of, packed_lines
from lazaretto_lab.training.claims.quiet_training import NEVER
from lazaretto_lab.training.pack import read_trained, write

FALSE_ALARMS = 0.004
"""Share of the honest texts of a group above the bar, at most: written notes, plain statements, notes of others."""
RULES_HELD = 0.025
"""Share of the honest rules above the bar, at most: texts that were written to look like the lies."""
HONEST = ("work", "stated", "others")
RULES = ("rules", "twins", "dev")
LEAST = -9.0
"""The score of a text of which nothing is read."""


def unseen(notes: Path, fold: int) -> list[Line]:
    """Everything that the reader was not trained on."""
    found = [one for one in packed_lines(notes) if one.group != "notes" and fold_of(one) in (fold, NEVER)]
    with gzip.open(notes, "rt", encoding="utf-8") as file:
        clean = [one for one in map(json.loads, file) if 20 < len(one["text"]) < 250]
    random.Random(SEED).shuffle(clean)
    others = [Line(one["text"], 0, "notes", one.get("lang", "en"), "others", fold) for one in clean[NOTES : 2 * NOTES]]
    return found + others


def scores(head: QuietHead, read: list[Line]) -> tuple[list[float], list[float]]:
    """Of each text: the highest log-odds of its claims that are possible, and of the whole text without that look."""
    found, bare = [], []
    for one in read:
        text = shared_reader().read([one.text])[0]
        claims = sorted(zip(text.claims, text.vectors, strict=True), key=lambda pair: pair[0].start)
        found.append(max((score for score, _ in head.scored(one.text, claims)), default=LEAST))
        bare.append(_whole(head.reader, one.text) if one.label == 1 or one.group not in HONEST else LEAST)
    return found, bare


def _whole(reader: QuietReader, text: str) -> float:
    from lazaretto.gates.memory.claims.quiet import MOST_TOKENS
    from lazaretto.reading.text import reading_of

    return reader.log_odds(reading_of(text).pieces.ids[:MOST_TOKENS])


def figures(read: list[Line], found: np.ndarray, bare: np.ndarray) -> dict[str, Any]:
    """The bar, and what is above it."""
    groups = np.array([one.group for one in read])
    label, never = np.array([one.label for one in read]), np.array([fold_of(one) == NEVER for one in read])
    rules = found[np.isin(groups, RULES) & (label == 0) & ~never]
    bar = max(
        float(np.quantile(rules, 1 - RULES_HELD)),
        *(float(np.quantile(found[groups == name], 1 - FALSE_ALARMS)) for name in HONEST),
    )
    told: dict[str, Any] = {"hold_at": round(bar, 3), "possible_at": POSSIBLE}
    for part, mine in (("left_out_work", ~never), ("never_seen_work", never)):
        told[part] = {}
        for group in dict.fromkeys(groups.tolist()):
            for name, kind in (("lies", 1), ("honest", 0)):
                some = mine & (groups == group) & (label == kind)
                if some.any():
                    told[part][f"{group}: {name}"] = f"{int((found[some] >= bar).sum())} of {int(some.sum())}"
        lies, alike = bare[mine & (label == 1)], bare[mine & (label == 0) & ~np.isin(groups, HONEST)]
        told[part]["AUC"] = round(float((lies[:, None] > alike[None]).mean()), 4)
    return told


def main() -> None:
    """Write weights, bar, figures and scores."""
    parser = argparse.ArgumentParser()
    parser.add_argument("trained", type=Path)
    parser.add_argument("notes", type=Path)
    parser.add_argument("--fold", type=int, required=True)
    parser.add_argument("--weights", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    write(packed_changes(read_trained(given.trained), 4), given.out / "packed.safetensors")
    head = QuietHead(given.weights, QuietReader(given.out / "packed.safetensors"))
    read = unseen(given.notes, given.fold)
    found, bare = (np.array(one) for one in scores(head, read))
    told = figures(read, found, bare)
    print(json.dumps(told, indent=1))
    (given.out / "packed.safetensors").replace(given.weights / "quiet_reader.safetensors")
    fitted = given.weights / "quiet.json"
    numbers = json.loads(fitted.read_text(encoding="utf-8")) | {"hold_at": told["hold_at"]}
    fitted.write_text(json.dumps(numbers) + "\n", encoding="utf-8")
    (given.out / "quiet.json").write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    rows = [asdict(one) | {"score": round(float(s), 3)} for one, s in zip(read, found, strict=True)]
    own = [json.dumps(row, ensure_ascii=False) for row in rows if row["group"] not in HONEST]
    (given.out / "quiet_scores.jsonl").write_text("\n".join(own) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
