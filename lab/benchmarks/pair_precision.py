"""Pairs of claims as the gate reads them, beside all possible conflicts in full precision: passes and decisions.

    python lab/benchmarks/pair_precision.py DATA --most 600 --out lab/results/facts/pair_precision.json

The pairs are those of ``studies/claims/other_hands.py`` (DATA is its folder) and of own topics, so many cases of each.
``differs`` counts pairs with another answer to: is it a conflict, would a person look, does it agree.
"""

from __future__ import annotations

import argparse
import json
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from everyday import measured_commit
from facts_stages import pairs_of

from lazaretto.gates.memory.claims import relation
from lazaretto.gates.memory.claims.comparison import meeting
from lazaretto.gates.memory.claims.pairs import NearPair, PairModels, conflict_bar, is_gray_pair
from lazaretto.gates.memory.claims.relation import Related, RelationModel
from lazaretto.types import Channel, Observation
from lazaretto_lab.studies.claims.other_hands import Case, cases, rows_of


@contextmanager
def passes() -> Iterator[Counter[str]]:
    """Pairs that each model reads meanwhile, in eight bits and in full precision; nothing is known before."""
    found, plain = Counter[str](), RelationModel._compare
    models = {id(relation.shared_relation_model()): "first", id(relation.shared_second_model()): "second"}

    def counting(self: RelationModel, pairs: Sequence[Any], encoder: Any) -> list[Related]:
        full = encoder is vars(self).get("_full")
        found[f"{models[id(self)]}, {'full precision' if full else 'eight bits'}"] += len(pairs)
        return plain(self, pairs, encoder)

    for model in (relation.shared_relation_model(), relation.shared_second_model()):
        model._known.clear()
    RelationModel._compare = counting  # type: ignore[method-assign]
    try:
        yield found
    finally:
        RelationModel._compare = plain  # type: ignore[method-assign]


def near_pairs(several: Sequence[Case]) -> list[NearPair]:
    """The pairs of claims of some cases that could contradict each other."""
    rows, claims = rows_of(several)
    partial = [pair["partial"] for row in rows for pair in row["pairs"]]
    known = Observation(agent="keeper", channel=Channel.MEMORY, text="")
    pairs = [
        NearPair(new, old, known, cosine, cut, meeting(old, new, cosine))
        for (old, new, cosine), cut in zip(claims, partial, strict=True)
    ]
    return [pair for pair in pairs if pair.may_conflict]


def decided(pairs: Sequence[NearPair], models: PairModels) -> tuple[list[dict[str, bool]], dict[str, int]]:
    """What is decided of each pair, and what was read for it."""
    found = []
    with passes() as read:
        for pair, related in zip(pairs, models.answers(pairs), strict=True):
            at = models.bars_of(related)
            gray = is_gray_pair(pair) and related.conflict >= at.review_at
            found.append({"conflict": related.conflict >= conflict_bar(pair, at), "gray": gray})
        conflicts = dict(read)
        for row, related in zip(found, models.answers(pairs, agreement=True), strict=True):
            row["agrees"] = related.agrees >= models.bars_of(related).agree_at
    return found, conflicts


def measured(several: Sequence[Case]) -> dict[str, Any]:
    """Both ways of reading, side by side."""
    pairs = near_pairs(several)
    now, read = decided(pairs, PairModels())
    full, read_full = decided(pairs, PairModels(exact=True))
    differs = {name: sum(a[name] != b[name] for a, b in zip(now, full, strict=True)) for name in full[0]}
    counts = {name: sum(row[name] for row in full) for name in full[0]}
    return {"cases": len(several), "pairs": len(pairs), "full": read_full, "now": read, "in full": counts,
            "differs": differs}  # fmt: skip


def main() -> None:
    """Print the figures; keep them with ``--out``."""
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path)
    parser.add_argument("--most", type=int, default=600)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    draw = random.Random(0)
    own = [Case("own", one.group, one.work, (one.old,), one.new) for one in pairs_of("fitted")]
    parts = {"other hands": cases(given.data), "own topics": own}
    found: dict[str, Any] = {"commit": measured_commit()}
    found |= {name: measured(draw.sample(some, min(given.most, len(some)))) for name, some in parts.items()}
    text = json.dumps(found, indent=1)
    print(text)
    if given.out:
        given.out.write_text(f"{text}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
