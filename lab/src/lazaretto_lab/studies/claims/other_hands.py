"""Facts by hands that wrote nothing for this project: what the relation models make of them, and what is held.

    python -m lazaretto_lab.studies.claims.other_hands rows DATA lab/results/facts/other_hands/rows.jsonl.gz
    python -m lazaretto_lab.studies.claims.other_hands figures lab/results/facts/other_hands/rows.jsonl.gz

A development judge, from public sets that no relation model was trained on (DATA is the folder of them, and no text of
them is kept): BEAM (project notes and dialogue memories), SituatedQA (dated facts), LoCoMo (observations of dialogues,
beside annotated questions with their answer and with the answer to a like question), StrategyQA (the facts of one
question) and tau-bench (two customers' records). A row is a case: its pairs of claims as the gate meets them, each
with what every model says, so that other rules can be counted on the same rows. Who may change what is no part of it.
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import json
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lazaretto.gates.memory.claims.comparison import another_value_across, gives_another_value, meeting
from lazaretto.gates.memory.claims.extraction import Claim, claims_of
from lazaretto.gates.memory.claims.judge import LEAST_COSINE, MOST_PAIRS
from lazaretto.gates.memory.claims.pairs import DOUBT_FROM, LEAST_APART, LEAST_DOUBTED
from lazaretto.gates.memory.claims.relation import (
    WEIGHTS,
    DeepRelationModel,
    RelationModel,
    shared_relation_model,
)
from lazaretto.models.minilm import claim_minilm
from lazaretto_lab.metrics.intervals import wilson_interval
from lazaretto_lab.studies.claims.left_out import auc
from lazaretto_lab.training.claims.facts_data import dialogue_pairs

POISON, HONEST = ("poison",), ("same", "compatible", "unrelated")
MOST = {"poison": 120, "same": 80, "compatible": 100, "unrelated": 30, "update": 40}
"""Cases of a source and group."""
_LABELS = {"contradiction_poison": "poison", "legit_update": "update", "unrelated": "unrelated"}
_TOGETHER = 16
_WORD = re.compile(r"[a-z0-9]+")
_SMALL = frozenset(
    [
        "a",
        "an",
        "the",
        "of",
        "in",
        "on",
        "at",
        "to",
        "for",
        "and",
        "her",
        "his",
        "their",
        "she",
        "he",
        "they",
        "is",
        "was",
        "by",
        "with",
        "from",
    ]
)


@dataclass(frozen=True)
class Case:
    """What is known, and what comes next."""

    source: str
    group: str
    """poison | same | compatible | unrelated | update."""
    kind: str
    known: tuple[str, ...]
    new: str


def _scenarios(data: Path, name: str) -> Iterator[Case]:
    with gzip.open(data / "claims" / f"facts_{name}.jsonl.gz", "rt", encoding="utf-8") as file:
        for row in map(json.loads, file):
            group = _LABELS.get(row["label"]) or ("same" if row["subtype"] == "agree" else "compatible")
            yield Case(name, group, row["subtype"], tuple(m["text"] for m in row["memories"]), row["new"]["text"])


def _words(text: str) -> set[str]:
    return set(_WORD.findall(text.lower())) - _SMALL


def _locomo(data: Path, rng: random.Random) -> Iterator[Case]:
    """An observation that has the answer to a question, beside the question with that answer or with another's."""
    for dialogue in json.loads((data / "locomo" / "locomo8.json").read_text(encoding="utf-8")):
        told: dict[str, str] = {}
        by_speaker: dict[str, list[str]] = {}
        for session in dialogue["observation"].values():
            for speaker, several in session.items():
                for text, place in several:
                    by_speaker.setdefault(speaker, []).append(text)
                    for one in place if isinstance(place, list) else [place]:
                        told.setdefault(one, text)
        asked = [one for one in dialogue["qa"] if one["category"] in (1, 2, 4) and "answer" in one]
        for one in asked:
            answer = str(one["answer"])
            seen = [told[place] for place in one["evidence"] if place in told]
            if len(seen) != 1 or not _words(answer) <= _words(seen[0]):
                continue
            begins = one["question"].split()[:2]
            others = [str(o["answer"]) for o in asked if o["question"].split()[:2] == begins]
            others = [o for o in others if not _words(o) & _words(f"{seen[0]} {answer} {one['question']}")]
            yield Case("locomo", "same", "answer", (seen[0],), f"{one['question']} {answer}.")
            if others:
                yield Case("locomo", "poison", "another answer", (seen[0],), f"{one['question']} {rng.choice(others)}.")
        for texts in by_speaker.values():
            for old, new in _nearest(texts):
                yield Case("locomo", "compatible", "nearest of one person", (old,), new)


def _nearest(texts: Sequence[str]) -> list[tuple[str, str]]:
    """Each text with its nearest."""
    vectors = np.asarray(claim_minilm().embed_texts(texts), np.float32)
    cosines = vectors @ vectors.T - 2 * np.eye(len(texts), dtype=np.float32)
    return [(texts[int(best)], texts[n]) for n, best in enumerate(cosines.argmax(1)) if texts[int(best)] != texts[n]]


def _strategyqa(data: Path) -> Iterator[Case]:
    """The facts that somebody gathered to answer one question hold together."""
    for row in json.loads((data / "agentpoison" / "strategyqa_dev.json").read_text(encoding="utf-8")):
        facts = row["facts"]
        if len(facts) > 1:
            yield Case("strategyqa", "compatible", "facts of one question", tuple(facts[:-1]), facts[-1])


def _tau_bench(data: Path) -> Iterator[Case]:
    """Two records of two reservations."""
    records: dict[str, str] = {}
    rows = json.loads((data / "tau_bench" / "airline_trajectories_100.json").read_text(encoding="utf-8"))
    for message in (one for row in rows for one in row["traj"] if one.get("role") == "tool"):
        text = str(message.get("content", ""))
        if text.startswith('{"reservation_id"'):
            row = json.loads(text)
            kept = ("reservation_id", "user_id", "origin", "destination", "cabin", "total_baggages", "insurance")
            records[row["reservation_id"]] = json.dumps({name: row[name] for name in kept if name in row})
    ordered = list(records.values())
    for old, new in itertools.pairwise(ordered):
        yield Case("tau_bench", "compatible", "two reservations", (old,), new)


def cases(data: Path, seed: int = 0) -> list[Case]:
    """All of them, at most ``MOST`` of a source's group."""
    rng = random.Random(seed)
    found = [*_scenarios(data, "beam"), *_scenarios(data, "situatedqa"), *_locomo(data, rng), *_strategyqa(data)]
    found += _tau_bench(data)
    left: dict[tuple[str, str], int] = {}
    kept = []
    for one in rng.sample(found, len(found)):
        key = (one.source, one.group)
        left[key] = left.get(key, MOST[one.group]) - 1
        if left[key] >= 0:
            kept.append(one)
    return sorted(kept, key=lambda one: (one.source, one.group))


def own_cases() -> list[Case]:
    """Our own pairs in the style of dialogues and facts of the world: development, they judge nothing."""
    return [Case(pair.work, pair.group, "own", (pair.old,), pair.new) for pair in dialogue_pairs()]


def _pairs(one: Case, vectors: dict[str, NDArray[np.float32]]) -> list[tuple[Claim, Claim, float, bool]]:
    """Pairs of claims that are near enough to be looked at, nearest first: old, new, cosine, partial."""
    news = claims_of(one.new)
    found = []
    for text in one.known:
        for old in claims_of(text):
            for new in news:
                cosine = float(vectors[old.text] @ vectors[new.text])
                if cosine >= LEAST_COSINE or another_value_across(old, new):
                    partial = len(news) > 1 and not new.record
                    partial = partial or (len(old.text) < len(text.strip()) and not old.record)
                    found.append((old, new, cosine, partial))
    return sorted(found, key=lambda pair: -pair[2])[:MOST_PAIRS]


def model(name: str, more: Path | None = None) -> RelationModel:
    """A relation model by its name; ``more``: another one, in a folder, in the first one's form."""
    if name == "more" and more is not None:
        return RelationModel(more / "relation.safetensors", more / "calibration.json")
    if name == "deep":
        return DeepRelationModel()
    return shared_relation_model() if name == "first" else RelationModel(
        WEIGHTS / "second.safetensors", WEIGHTS / "second.json"
    )  # fmt: skip


def rows_of(several: Sequence[Case]) -> tuple[list[dict[str, Any]], list[tuple[Claim, Claim, float]]]:
    """Every case with its pairs as the gate meets them, and the claims of all pairs in the same order."""
    texts = list(dict.fromkeys(c.text for one in several for t in (*one.known, one.new) for c in claims_of(t)))
    vectors = dict(zip(texts, np.asarray(claim_minilm().embed_texts(texts), np.float32), strict=True))
    found: list[dict[str, Any]] = []
    asked: list[tuple[Claim, Claim, float]] = []
    for one in several:
        pairs: list[dict[str, Any]] = []
        for old, new, cosine, partial in _pairs(one, vectors):
            pairs.append({
                "meets": meeting(old, new, cosine).value, "cosine": round(cosine, 3), "partial": partial,
                "plain": gives_another_value(old, new), "sensitive": old.sensitive or new.sensitive,
            })  # fmt: skip
            asked.append((old, new, cosine))
        found.append({"source": one.source, "group": one.group, "kind": one.kind, "pairs": pairs})
    return found, asked


def add(
    rows: Sequence[dict[str, Any]], asked: Sequence[tuple[Claim, Claim, float]], name: str, by: RelationModel
) -> None:
    """What a model says of each pair, ``[agrees, contradicts, updates]``, under its name."""
    told = [pair for row in rows for pair in row["pairs"]]
    order = sorted(range(len(asked)), key=lambda n: len(asked[n][0].text) + len(asked[n][1].text))
    for start in range(0, len(order), _TOGETHER):
        some = order[start : start + _TOGETHER]
        for n, related in zip(some, by.compare([asked[n] for n in some], at_once=True), strict=True):
            told[n][name] = [round(x, 4) for x in (related.agrees, related.contradicts, related.updates)]


def _log_odds(share: float) -> float:
    share = min(max(share, 1e-9), 1 - 1e-9)
    return float(np.log(share / (1 - share)))


@dataclass(frozen=True)
class Rule:
    """How what the models say becomes a hold."""

    first: str = "first"
    second: str = "second"
    weight: float = 0.6
    ask_at: float = 0.2
    opposed: float = 0.62
    alike: float = 0.67
    apart: float = 0.72
    partial: float = 0.85
    doubt_at: float = 0.85
    """Bar where a rule calls them the same, or they meet in nothing and are far apart (``claims.pairs``)."""


SHIPPED = Rule()
DEEP = Rule(second="deep", opposed=0.47, alike=0.52, apart=0.57, partial=0.8, doubt_at=0.8)
BEFORE = replace(SHIPPED, doubt_at=2.0)
BEFORE_DEEP = replace(DEEP, doubt_at=2.0)


def conflict(pair: dict[str, Any], rule: Rule) -> float:
    """What the two models say together of a pair; the first alone where it does not ask."""
    first = sum(pair[rule.first][1:])
    if pair["plain"] or first < rule.ask_at:
        return float(first)
    second = sum(pair[rule.second][1:])
    mean = (1 - rule.weight) * _log_odds(first) + rule.weight * _log_odds(second)
    return float(1 / (1 + np.exp(-mean)))


def holds(pair: dict[str, Any], rule: Rule) -> bool:
    """Whether a pair is held, as ``judge`` has it."""
    meets, first = pair["meets"], sum(pair[rule.first][1:])
    if meets == "two things":
        return False
    if pair["plain"] and meets != "same":
        return bool(first >= (0.93 if pair["partial"] else 0.6 if meets == "opposed" else 0.85))
    if meets == "same" or (meets == "apart" and pair["cosine"] < LEAST_APART):
        near = meets == "same" or pair["cosine"] >= LEAST_DOUBTED
        sure = first >= DOUBT_FROM and conflict(pair, rule) >= rule.doubt_at
        return bool(near and sure and not (pair["partial"] or pair["plain"]))
    bar = {"opposed": rule.opposed, "alike": rule.alike, "apart": rule.apart}[meets]
    bar = max(bar, rule.partial) if pair["partial"] else bar
    return bool(first >= rule.ask_at and conflict(pair, rule) >= bar)


def score(row: dict[str, Any], rule: Rule) -> float:
    """The surest conflict of a case among pairs that may conflict."""
    some = [conflict(p, rule) for p in row["pairs"] if p["meets"] not in ("same", "two things")]
    return max(some, default=0.0)


def figures(rows: Sequence[dict[str, Any]], rule: Rule) -> dict[str, Any]:
    """Held of each source's groups, AUC of poison against all honest cases of its source, and the mean of these."""
    found: dict[str, Any] = {}
    for source in dict.fromkeys(row["source"] for row in rows):
        mine = [row for row in rows if row["source"] == source]
        told: dict[str, Any] = {}
        for group in dict.fromkeys(row["group"] for row in mine):
            held = [any(holds(p, rule) for p in row["pairs"]) for row in mine if row["group"] == group]
            inside = wilson_interval(sum(held), len(held))
            told[group] = {
                "held": sum(held),
                "of": len(held),
                "low": round(inside.low, 3),
                "high": round(inside.high, 3),
            }
        bad, fine = (
            np.array([score(row, rule) for row in mine if row["group"] in groups]) for groups in (POISON, HONEST)
        )
        if len(bad):
            told["auc"] = round(auc(bad, fine), 4)
        found[source] = told
    found["macro_auc"] = round(float(np.mean([one["auc"] for one in found.values() if "auc" in one])), 4)
    return found


def read_rows(path: Path) -> list[dict[str, Any]]:
    """The rows of a file."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def main() -> None:
    """Write the rows, or print what they say at the bars that ship."""
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers(dest="command", required=True)
    write = commands.add_parser("rows")
    write.add_argument("data", type=Path)
    write.add_argument("out", type=Path)
    write.add_argument("--models", nargs="*", default=["first", "second", "deep"], help="added where rows are there")
    write.add_argument("--own", action="store_true", help="our own pairs in that style, in the place of DATA's")
    write.add_argument("--more", type=Path, help="a folder with another relation model and its calibration")
    write.add_argument("--name", default="more", help="what that one is called in the rows")
    show = commands.add_parser("figures")
    show.add_argument("rows", type=Path)
    show.add_argument("--out", type=Path)
    given = parser.parse_args()
    if given.command == "rows":
        rows, asked = rows_of(own_cases() if given.own else cases(given.data))
        if given.out.is_file():
            for row, before in zip(rows, read_rows(given.out), strict=True):
                for pair, known in zip(row["pairs"], before["pairs"], strict=True):
                    pair.update(known)
        for name in given.models:
            add(rows, asked, given.name if name == "more" else name, model(name, given.more))
        given.out.parent.mkdir(parents=True, exist_ok=True)
        with gzip.open(given.out, "wt", encoding="utf-8") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)
        return
    rows = read_rows(given.rows)
    rules = {"shipped": SHIPPED, "deep": DEEP, "before 0112": BEFORE, "before 0112, deep": BEFORE_DEEP}
    text = json.dumps({name: figures(rows, rule) for name, rule in rules.items()}, indent=1)
    print(text)
    if given.out:
        given.out.write_text(f"{text}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
