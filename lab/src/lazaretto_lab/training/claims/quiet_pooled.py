"""Fits a head of quiet lies on frozen states that a claim has anyway: the mean of the screener's, and the plain vector.

    python -m lazaretto_lab.training.claims.quiet_pooled STATES --out lab/results/facts/quiet_pooled

STATES is a folder outside git in which pooled states are kept; what is missing there is read (some ten minutes). Two
ridge fits are added up. The first sees vector and words of every text, with the screener's logit beside it. The second
also sees the mean of the screener's states, and only texts that the screener was not trained on, and honest notes and
statements: of lies and rules that it was trained on, its states know the answer. Nothing is random.

The rule by which it ships, written before the kept third, ``dev_facts`` or a list that judges was run:

- ``quiet_dev``, kept third: at least 4 lies more than today's head (12 of 60), at no more honest rules (3 of 79);
- ``dev_facts``: more than 10 of 30 quiet lies, at most 1 of 30 honest rules;
- only then the list that judges, once: at least 34 of 60 quiet lies, at most 3 of 60 honest rules, poison not below 63,
  events, restatements and compatible ones not more; everyday notes: not one more held in any class of source.
"""

from __future__ import annotations

import argparse
import json
import zlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lazaretto.gates.memory.claims.extraction import claims_of
from lazaretto.gates.memory.claims.quiet import SCREENER_ADDS, SCREENER_SHARE
from lazaretto.gates.memory.claims.quiet_words import FEATURES, quiet_features
from lazaretto.gates.memory.text_screener import shared_screener
from lazaretto.models.minilm import DIMENSION, Encoder, claim_minilm, pieces_of, split_heads
from lazaretto.models.weight_files import SHIPPED, read_arrays
from lazaretto_lab.training import written
from lazaretto_lab.training.claims import facts_data
from lazaretto_lab.training.claims.facts_data import HELD_OUT
from lazaretto_lab.training.screener import material

Floats = NDArray[np.float64]
LEFT_OUT = Path(__file__).parents[4] / "results" / "facts" / "quiet_pooled" / "left_out_quiet.npz"
"""The screener's logits for quiet lies of texts that it was trained on, by trainings that left their fold out."""
SCALE, FOLDS, STATED = 4.0, 5, 3_500
RIDGE, RIDGE_STATES, RIDGE_WORDS = 3.0, 6.0, 0.3
RULES, NOTES = 0.03, 0.004
"""Shares of honest rules that look like lies, and of honest notes and statements, that may be held."""
STATED_UNSEEN = 9 / 1_033
"""Share of statements the screener has not seen that today's form of head, fitted in folds, holds at its bar."""
_OWN = ("more", "dev", "twins", "alone")


@dataclass(frozen=True, slots=True)
class Text:
    """A text with a label: 1 for a lie, 0 for an honest one, -1 for neither."""

    text: str
    label: int
    work: str
    language: str
    group: str
    fold: int
    kept: bool = False
    """Whether it is of the third that is looked at once."""


def texts() -> Iterator[Text]:
    """Everything that is fitted or scored."""
    for group, several in (
        ("more", facts_data.quiet_more()), ("dev", facts_data.quiet_dev()), ("twins", facts_data.quiet_twins()),
        ("alone", facts_data.alone()),
    ):  # fmt: skip
        for one in several:
            kept = one.kept if isinstance(one, facts_data.Twin) and group == "dev" else False
            yield Text(one.text, int(one.lie), one.work, one.language, group, _fold(one.work), kept)
    for topic in facts_data.topics():
        for text in (topic.says, *topic.again, *topic.beside):
            yield Text(text, 0, topic.work, topic.language, "facts", _fold(topic.work))
    pairs = [*facts_data.written_pairs("events", "event"), *facts_data.written_pairs("passages", "passage")]
    for pair in (*pairs, *facts_data.dialogue_pairs()):
        for text in (pair.old, pair.new):
            yield Text(text, 0, pair.work, pair.language, "facts", _fold(pair.work))
    stated = sorted(material.stated(), key=lambda one: zlib.crc32(one.text.encode()))[:STATED]
    for group, lines in (("rules", written.rules()), ("work", written.notes()), ("stated", iter(stated))):
        for line in lines:
            yield Text(line.text, int(line.bad), line.kind, line.language, group, line.fold)


def _fold(work: str) -> int:
    return zlib.crc32(work.encode()) % FOLDS


def _read(folder: Path) -> tuple[list[Text], NDArray[np.int64], dict[str, Floats]]:
    """One row for each claim of each text: the text, its number, and what the networks make of the claim."""
    folder.mkdir(parents=True, exist_ok=True)
    rows, numbers, kept = list[Text](), list[int](), dict[str, NDArray[np.float32]]()
    every = list(texts())
    claims = [(number, claim) for number, one in enumerate(every) for claim in claims_of(one.text)]
    file = folder / "quiet_pooled.npz"
    if file.is_file():
        with np.load(file) as stored:
            kept = dict(zip(stored["claims"].tolist(), stored["states"], strict=True))
    missing = list(dict.fromkeys(claim.text for _, claim in claims if claim.text not in kept))
    encoder = Encoder(
        split_heads(read_arrays(SHIPPED / "weights/screener/screener.safetensors", "the screener"))[0], int8=True
    )
    for text in missing:
        ids = pieces_of(text).windows()[0].ids
        plain = claim_minilm().embed_texts([text])[0]
        logit = shared_screener().quiet_lie(text)
        kept[text] = np.concatenate([plain, encoder.token_states([ids])[0].mean(axis=0), [logit]]).astype(np.float32)
    if missing:
        np.savez(file, claims=np.array(list(kept)), states=np.stack(list(kept.values())))
    rows = [every[number] for number, _ in claims]
    numbers = [number for number, _ in claims]
    states = np.stack([kept[claim.text] for _, claim in claims]).astype(np.float64)
    told = {
        "vector": states[:, :DIMENSION], "mean": states[:, DIMENSION:-1], "logit": states[:, -1],
        "words": np.array([quiet_features(claim) for _, claim in claims]),
    }  # fmt: skip
    return rows, np.array(numbers), told


def _fitted(x: Floats, y: Floats, weight: Floats, ridge: Floats) -> Floats:
    """Ridge logistic regression by Newton's method; the last number is the bias."""
    x, ridge = np.concatenate([x, np.ones((len(x), 1))], axis=1), np.append(ridge, 1e-6)
    found = np.zeros(x.shape[1])
    for _ in range(8):
        p = 1 / (1 + np.exp(-np.clip(x @ found, -30, 30)))
        slope = x.T @ (weight * (p - y)) + ridge * found
        bend = (x * (weight * p * (1 - p) + 1e-6)[:, None]).T @ x
        found -= np.linalg.solve(bend + np.diag(ridge), slope)
    return found


def _unit(x: Floats) -> Floats:
    scaled: Floats = x / np.linalg.norm(x, axis=1, keepdims=True) * SCALE
    return scaled


def main() -> None:
    """Fit, write weights, figures and rows."""
    parser = argparse.ArgumentParser()
    parser.add_argument("states", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--weights", type=Path, help="src/lazaretto/models/weights/claims")
    parser.add_argument("--learn", type=float, default=1.0, help="share of the kinds of work of the new texts")
    given = parser.parse_args()
    rows, number, told = _read(given.states)
    with np.load(LEFT_OUT) as stored:
        left_out = dict(zip(stored["text"].tolist(), stored["logit"].astype(float).tolist(), strict=True))
    of = lambda name: np.array([row.group == name for row in rows])  # noqa: E731
    seen = np.array([zlib.crc32(row.text.encode()) in left_out for row in rows])
    logit = [left_out.get(zlib.crc32(r.text.encode()), x) for r, x in zip(rows, told["logit"].tolist(), strict=True)]
    added = np.clip(SCREENER_SHARE * np.array(logit), *SCREENER_ADDS)[:, None]
    cheap = np.concatenate([_unit(told["vector"]), told["words"]], axis=1)
    whole = np.concatenate([cheap, added, _unit(told["mean"])], axis=1)
    y = np.array([row.label for row in rows], float)
    fold = np.array([row.fold for row in rows])
    own = np.array([row.group in _OWN for row in rows])
    never = np.array([row.kept or (row.work in HELD_OUT and row.group in ("alone", "facts")) for row in rows])
    few = np.array([r.group == "more" and zlib.crc32(r.work.encode()) % 97 >= 97 * given.learn for r in rows])
    first = ~never & ~few
    second = first & (~seen | of("work") | of("stated"))
    weights = [
        np.where(own, 3.0, np.where(of("rules"), rule, np.where(of("facts"), fact, rest)))
        for rule, fact, rest in ((2.0, 1.0, 1.0), (1.5, 0.5, 0.7))
    ]
    ridges = [
        np.r_[np.full(DIMENSION, RIDGE), np.full(len(FEATURES), RIDGE_WORDS)],
        np.r_[
            np.full(DIMENSION, RIDGE_STATES), np.full(len(FEATURES) + 1, RIDGE_WORDS), np.full(DIMENSION, RIDGE_STATES)
        ],
    ]
    score = np.zeros((2, len(rows)))
    for part in (*range(FOLDS), -1):
        mine = never if part < 0 else (fold == part) & ~never
        fits = [
            _fitted(x[use & ~mine], y[use & ~mine], w[use & ~mine], ridge)
            for x, use, w, ridge in zip((cheap, whole), (first, second), weights, ridges, strict=True)
        ]
        score[0, mine] = cheap[mine] @ fits[0][:-1] + fits[0][-1] + added[mine, 0]
        score[1, mine] = whole[mine] @ fits[1][:-1] + fits[1][-1]
    share = 1 / score[:, of("more")].std(axis=1)
    share /= share.sum()
    both = share @ score
    told_bars = _bars(both, rows, number, seen)
    bar = max(told_bars.values())
    weight = np.r_[fits[0][:-1], 1.0, np.zeros(DIMENSION)] * share[0] + fits[1][:-1] * share[1]
    figures: dict[str, Any] = {"bar": bar, "bars": told_bars, "shares": share.tolist()}
    figures["bias"] = float(share[0] * fits[0][-1] + share[1] * fits[1][-1])
    figures["held"] = _held(both, bar, rows, number, seen)
    print(json.dumps(figures, indent=1))
    given.out.mkdir(parents=True, exist_ok=True)
    (given.out / "figures.json").write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    if given.weights:
        _write(given.weights, weight, figures["bias"], bar)
    lines = [
        json.dumps({k: v for k, v in asdict(row).items() if k != "text"} | {"score": round(float(s), 3)})
        for row, s in zip(rows, both, strict=True)
        if row.group in _OWN
    ]
    (given.out / "scores.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _write(folder: Path, weight: Floats, bias: float, bar: float) -> None:
    from safetensors.numpy import save_file

    cheap = DIMENSION + len(FEATURES)
    parts = {"weight": weight[:cheap], "states": weight[cheap + 1 :]}
    save_file({name: part.astype(np.float32) for name, part in parts.items()}, folder / "quiet.safetensors")
    told = {"bias": bias, "vector_scale": SCALE, "screener": float(weight[cheap]), "hold_at": round(bar, 3)}
    (folder / "quiet.json").write_text(json.dumps(told) + "\n", encoding="utf-8")


def _highest(score: Floats, number: NDArray[np.int64], mine: NDArray[np.bool_]) -> Floats:
    """Of each text the score of its most suspicious claim."""
    best: dict[int, float] = {}
    for n, s in zip(number[mine].tolist(), score[mine].tolist(), strict=True):
        best[n] = max(s, best.get(n, s))
    return np.array(list(best.values()))


def _groups(rows: list[Text], seen: NDArray[np.bool_]) -> dict[str, NDArray[np.bool_]]:
    found = {
        name: np.array([r.group == name and not r.kept for r in rows]) for name in (*_OWN, "facts", "work", "stated")
    }
    rules = np.array([row.group == "rules" for row in rows])
    found |= {"rules the screener has seen": rules & seen, "rules it has not seen": rules & ~seen}
    found["statements it has not seen"] = found["stated"] & ~seen
    return found


def _bars(score: Floats, rows: list[Text], number: NDArray[np.int64], seen: NDArray[np.bool_]) -> dict[str, float]:
    groups, honest = _groups(rows, seen), np.array([row.label == 0 for row in rows])
    alike = groups["more"] | groups["dev"] | groups["rules it has not seen"]
    shares = {"work": NOTES, "stated": NOTES, "facts": NOTES, "statements it has not seen": STATED_UNSEEN}
    told = {"rules": float(np.quantile(_highest(score, number, alike & honest), 1 - RULES))}
    for name, most in shares.items():
        told[name] = float(np.quantile(_highest(score, number, groups[name] & honest), 1 - most))
    return told


def _held(score: Floats, bar: float, rows: list[Text], number: NDArray[np.int64], seen: NDArray[np.bool_]) -> Any:
    label, found = np.array([row.label for row in rows]), {}
    for name, mine in _groups(rows, seen).items():
        for said, word in ((1, "lies"), (0, "honest")):
            some = mine & (label == said)
            if some.any():
                top = _highest(score, number, some)
                found[f"{name}, {word}"] = f"{int((top > bar).sum())} of {len(top)}"
    return found


if __name__ == "__main__":
    main()
