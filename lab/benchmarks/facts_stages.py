"""Where own pairs of facts are won and lost: no claim, too far apart, told by a rule, or by the relation model.

    python lab/benchmarks/facts_stages.py held --out lab/results/facts/stages_held.jsonl
    python lab/benchmarks/facts_stages.py fitted
    python lab/benchmarks/facts_stages.py written

One row for each pair, as if the newer came from a source of less trust; ``quiet``: held as quiet poison.
"""

from __future__ import annotations

import argparse
import collections
import json
from pathlib import Path
from typing import Any

from lazaretto.gates.memory.claims.comparison import Overlap, another_value_across, meeting
from lazaretto.gates.memory.claims.extraction import claims_of
from lazaretto.gates.memory.claims.judge import LEAST_COSINE, ClaimJudge
from lazaretto.gates.memory.claims.pairs import NearPair
from lazaretto.gates.memory.claims.quiet import shared_quiet_head
from lazaretto.gates.memory.claims.update_rule import ChangeRule
from lazaretto.models.minilm import claim_minilm
from lazaretto.types import Channel, Observation
from lazaretto_lab.training.claims.facts_data import FactPair, all_pairs
from lazaretto_lab.training.written import statements

ANY_RULE = ChangeRule(2, 0.4, 0.8, 0.9, 0.5, 0, 0.6)
"""Who may change what is no part of this."""
_GROUPS = {"conflict": "poison", "restates": "restatement"}


def pairs_of(part: str) -> list[FactPair]:
    """The pairs of one part: own topics that no fit has seen, the others, or the statements of another hand."""
    if part == "written":
        return [
            FactPair(_GROUPS.get(one.relation, one.relation), one.kind, one.language, one.first, one.second)
            for one in statements()
        ]
    return [one for one in all_pairs() if one.held_out is (part == "held")]


def rows(pairs: list[FactPair]) -> list[dict[str, Any]]:
    """Every pair with the stage that settled it."""
    texts = list(dict.fromkeys(text for one in pairs for text in (one.old, one.new)))
    vectors = dict(zip(texts, claim_minilm().embed_texts(texts), strict=True))
    judge, head = ClaimJudge(ANY_RULE, announce_below=0.5), shared_quiet_head()
    found = []
    for one in pairs:
        row: dict[str, Any] = {"group": one.group, "work": one.work, "language": one.language}
        old, new = claims_of(one.old), claims_of(one.new)
        if not old or not new:
            found.append(row | {"stage": "no claim", "held": False, "quiet": False})
            continue
        cosine = float(vectors[one.old] @ vectors[one.new])
        meet = meeting(old[0], new[0], cosine)
        known = Observation(agent="keeper", channel=Channel.MEMORY, text=one.old)
        near = NearPair(new[0], old[0], known, cosine, False, meet)
        if cosine < LEAST_COSINE and not another_value_across(old[0], new[0]):
            told: dict[str, Any] = {"stage": "not near", "held": False}
        elif (doubted := judge._doubted([near])) and doubted[0].meeting is Overlap.OPPOSED:
            conflict = round(doubted[0].related.conflict, 3)
            told = {"stage": f"conflict, {meet.value}, read after all", "held": True, "conflict": conflict}
        elif not near.may_conflict:
            told = {"stage": f"rule: {meet.value}", "held": False}
        elif not judge._is_read_first(near):
            told = {"stage": "rule: meets in nothing and not near enough", "held": False}
        else:
            told = _read(judge, near)
        quiet = head.find([(new[0], vectors[one.new])]) is not None
        found.append(row | {"cosine": round(cosine, 3), "quiet": quiet} | told)
    return found


def _read(judge: ClaimJudge, near: NearPair) -> dict[str, Any]:
    """What the models make of a pair."""
    (compared,) = judge._related([near])
    held = judge._is_conflict(compared)
    stage = "conflict" if held else "under the bar" if compared.related.twice else "cleared by the first model"
    return {
        "stage": f"{stage}, {near.meeting.value}", "held": held, "conflict": round(compared.related.conflict, 3),
    }  # fmt: skip


def main() -> None:
    """Print the table; keep the rows with ``--out``."""
    parser = argparse.ArgumentParser()
    parser.add_argument("part", choices=("held", "fitted", "written"))
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    found = rows(pairs_of(given.part))
    for group in dict.fromkeys(row["group"] for row in found):
        mine = [row for row in found if row["group"] == group]
        either = sum(row["held"] or (row["quiet"] and group != "restatement") for row in mine)
        stages = dict(collections.Counter(row["stage"] for row in mine).most_common())
        print(f"{group}: {either} of {len(mine)} held, {sum(row['held'] for row in mine)} as conflicts; {stages}")
    if given.out:
        given.out.parent.mkdir(parents=True, exist_ok=True)
        given.out.write_text("\n".join(json.dumps(row) for row in found) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
