"""Our own pairs for the relation model, and how its bars are chosen."""

from __future__ import annotations

import random

import numpy as np

from lazaretto_lab.studies.claims.bars import chosen_bar, held_alone, held_together
from lazaretto_lab.training.claims.own_pairs import label_of, part_of, varied
from lazaretto_lab.training.written import statements


def test_a_variant_changes_names_and_numbers_alike_in_both() -> None:
    old, new = varied("We pay Brightwater 4471 euros.", "To Brightwater go 9020 euros.", random.Random(3))
    assert "Brightwater" not in old + new
    assert set(old.split()) & set(new.split()) > {"euros."}
    old, new = varied("Pay Ada 40 euros.", "Ada gets forty.", random.Random(3), equal=True)
    assert "40" in old


def test_kinds_of_work_are_held_apart() -> None:
    assert [part_of("farm", True), part_of("hotel", False), part_of("bank", False)] == ["held", "cal", "train"]
    assert label_of("poison") != label_of("event") == label_of("compatible") != label_of("restatement")
    by_kind: dict[str, set[int]] = {}
    for one in statements():
        by_kind.setdefault(one.kind, set()).add(one.fold)
    assert all(len(folds) == 1 for folds in by_kind.values())


def test_the_bar_of_both_holds_no_honest_group_more_often_than_the_first_alone() -> None:
    rng = np.random.default_rng(0)
    rows = []
    for group, middle in (("poison", 1.5), ("event", -1.5), ("compatible", -1.5), ("restatement", -1.0)):
        for place in ("opposed", "apart", "same", "plain"):
            for x in rng.normal(middle, 1.0, 100) if place != "plain" or group == "poison" else ():
                first = 1 / (1 + np.exp(-rng.normal(middle / 2, 1.5)))
                rows.append({"group": group, "place": place, "first": first, "logits": [0.0, float(x), -9.0, 0.0]})
    alone, both = held_alone(rows), held_together(rows, chosen_bar(rows))
    honest = np.array([row["group"] != "poison" for row in rows])
    same = np.array([row["place"] == "same" for row in rows])
    assert both[honest].mean() <= alone[honest].mean()
    assert not both[same].any()
    assert both[~honest].mean() > alone[~honest].mean()
