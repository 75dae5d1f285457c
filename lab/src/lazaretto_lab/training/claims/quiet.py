"""Fits the head of quiet poison on the vectors of claims, and says how it does on kinds of work it has not seen.

    python -m lazaretto_lab.training.claims.quiet NOTES --weights WEIGHTS --out lab/results/facts

WEIGHTS is src/lazaretto/models/weights/claims, NOTES is ``scr_clean_notes.jsonl.gz`` of the screening data: honest
notes that are no rules. Pages that people wrote for people (``real_pages``, the half that does not judge) are honest,
too. Nothing here is random but the order of the notes (a fixed seed). Five folds over kinds of work and packages; three
kinds of work are never fitted on. The bar is set on lies that were written for it, each in a fold that had not seen
its kind.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import random
import re
import zlib
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lazaretto.gates.memory.claims.extraction import claims_of, read_claim
from lazaretto.gates.memory.claims.quiet import FEATURES, quiet_features
from lazaretto.models.minilm import DIMENSION, claim_minilm
from lazaretto_lab.training import written
from lazaretto_lab.training.claims.facts_data import HELD_OUT, alone, topics, written_pairs
from lazaretto_lab.training.real_pages import judges, pages
from lazaretto_lab.training.screener import material

Floats = NDArray[np.float64]
SCALE, RIDGE_VECTOR, RIDGE_WORDS, FOLDS, NOTES, SEED = 4.0, 3.0, 0.3, 5, 1_500, 5
FOUND = 177 / 1736
"""Share of written lies above the bar, by words alone, in folds that had not seen their kinds of work: as many as the
head found that had not learnt documentation."""
HONEST = ("work", "stated")
_GUARDS = re.compile(
    r"\b(?:only|never|nobody|always|alone|not?|must|nur|nie|niemand|kein\w*|immer|seule?s?|jamais|personne|toujours|ne|"
    r"solo|nunca|nadie|siempre)\b", re.I
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Line:
    """One text, and whether it is quiet poison (1), not (0), or left out of the fit (-1)."""

    text: str
    label: int
    work: str
    language: str
    group: str
    fold: int = -1
    """Of a written text; others have that of their kind of work."""


def lines(notes: Path) -> list[Line]:
    """Everything that is fitted or scored."""
    found = [Line(a.text, int(a.lie), a.work, a.language, "lie" if a.lie else "honest") for a in alone()]
    for topic in topics():
        rule = bool(_GUARDS.search(topic.says)) or read_claim(topic.says).permission in ("require", "forbid")
        for text in topic.poison:
            told = dict(zip(FEATURES, quiet_features(read_claim(text)), strict=True))
            weakens = rule and any(told[name] for name in ("waive", "allow", "loosened", "anyone"))
            found.append(Line(text, 1 if weakens else -1, topic.work, topic.language, "P"))
        for group, texts in (("S", (topic.says,)), ("R", topic.again), ("C", topic.beside)):
            found += [Line(text, 0, topic.work, topic.language, group) for text in texts]
    for pair in (*written_pairs("events", "event"), *written_pairs("passages", "passage")):
        found += [Line(text, 0, pair.work, pair.language, pair.group) for text in (pair.old, pair.new)]
    with gzip.open(notes, "rt", encoding="utf-8") as file:
        clean = [one for one in map(json.loads, file) if 20 < len(one["text"]) < 250]
    random.Random(SEED).shuffle(clean)
    for one in written.rules():
        found.append(Line(one.text, int(one.bad), one.kind, one.language, "lies" if one.bad else "rules", one.fold))
    for group, several in zip(HONEST, (written.notes(), material.stated()), strict=True):
        found += [Line(one.text, 0, one.kind, one.language, group, one.fold) for one in several]
    return found + [
        Line(one["text"], 0, f"notes {n % FOLDS}", one.get("lang", "en"), "notes")
        for n, one in enumerate(clean[:NOTES])
    ]


def fitted(x: Floats, y: Floats, weight: Floats) -> Floats:
    """Ridge logistic regression by Newton's method; the last number is the bias."""
    x = np.concatenate([x, np.ones((len(x), 1))], axis=1)
    ridge = np.concatenate([np.full(DIMENSION, RIDGE_VECTOR), np.full(len(FEATURES), RIDGE_WORDS), [1e-6]])
    found = np.zeros(x.shape[1])
    for _ in range(12):
        p = 1 / (1 + np.exp(-x @ found))
        slope = x.T @ (weight * (p - y)) + ridge * found
        found -= np.linalg.solve((x * (weight * p * (1 - p))[:, None]).T @ x + np.diag(ridge), slope)
    return found


def scored(read: list[Line], x: Floats) -> tuple[Floats, Floats]:
    """Log-odds of every line by a fit that has not seen its kind of work, and the weights that ship."""
    y = np.array([one.label for one in read], float)
    weight = np.array([{"lie": 3.0, "lies": 2.0, "rules": 2.0}.get(one.group, 1.0) for one in read])
    held = np.array([one.work in HELD_OUT for one in read])
    works = sorted({one.work for one in read if one.work not in HELD_OUT})
    fold = np.array(
        [-1 if one.work in HELD_OUT else one.fold if one.fold >= 0 else works.index(one.work) % FOLDS for one in read]
    )
    score = np.zeros(len(read))
    shipped = np.zeros(0)
    for number in (*range(FOLDS), -1):
        seen = (fold != number) & ~held & (y >= 0)
        shipped = fitted(x[seen], y[seen], weight[seen])
        score[fold == number] = x[fold == number] @ shipped[:-1] + shipped[-1]
    return score, shipped


def page_lines() -> list[Line]:
    """The claims of pages that people wrote for people, but for those that judge."""
    found = []
    for name, _, page in pages():
        if not judges(name):
            fold = zlib.crc32(name.encode()) // 2 % FOLDS
            found += [Line(claim.text, 0, name, "en", "pages", fold) for claim in claims_of(page)]
    return found


def main() -> None:
    """Fit, write weights and figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("notes", type=Path)
    parser.add_argument("--weights", type=Path)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    read = lines(given.notes) + page_lines()
    vectors = np.concatenate(
        [claim_minilm().embed_texts([one.text for one in read[i : i + 64]]) for i in range(0, len(read), 64)]
    )
    words = np.array([quiet_features(read_claim(one.text)) for one in read])
    score, shipped = scored(read, np.concatenate([vectors * SCALE, words], axis=1).astype(np.float64))
    groups = np.array([one.group for one in read])
    unseen = np.array([one.work not in HELD_OUT for one in read])
    bar = float(np.quantile(score[(groups == "lies") & unseen], 1 - FOUND))
    figures: dict[str, Any] = {"hold_at": round(bar, 4)}
    for part, held in (("unseen_work", False), ("held_out_work", True)):
        figures[part] = {}
        for group in dict.fromkeys(one.group for one in read):
            mine = np.array([one.group == group and (one.work in HELD_OUT) is held for one in read])
            if mine.any():
                figures[part][group] = f"{int((score[mine] > bar).sum())} of {int(mine.sum())}"
    print(json.dumps(figures, indent=1))
    if given.weights:
        from safetensors.numpy import save_file

        save_file({"weight": shipped[:-1].astype(np.float32)}, given.weights / "quiet.safetensors")
        told = {"bias": float(shipped[-1]), "vector_scale": SCALE, "hold_at": round(bar, 3)}
        (given.weights / "quiet.json").write_text(json.dumps(told) + "\n", encoding="utf-8")
        figures["sha256"] = hashlib.sha256((given.weights / "quiet.safetensors").read_bytes()).hexdigest()
    if given.out:
        given.out.mkdir(parents=True, exist_ok=True)
        (given.out / "quiet.json").write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
        rows = [asdict(one) | {"score": round(float(s), 3)} for one, s in zip(read, score, strict=True)]
        own = [json.dumps(row, ensure_ascii=False) for row in rows if row["group"] not in ("notes", "pages", *HONEST)]
        (given.out / "quiet_scores.jsonl").write_text("\n".join(own) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
