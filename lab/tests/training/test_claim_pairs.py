"""Our own pairs for the relation model, and how its bars are chosen."""

from __future__ import annotations

import random

import numpy as np

from lazaretto_lab.studies.claims.bars import chosen_bars, conflicts, held
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


def test_bars_hold_what_they_may_and_catch_the_rest() -> None:
    rng = np.random.default_rng(0)
    rows = []
    for group, middle in (("poison", 2.0), ("event", -2.0), ("compatible", -2.0), ("restatement", -2.0)):
        for place in ("opposed", "apart", "same", "plain"):
            if place != "plain" or group == "poison":
                rows += [
                    {"group": group, "place": place, "logits": [0.0, float(x), -9.0, 0.0]}
                    for x in rng.normal(middle, 1.0, 100)
                ]
    bars = chosen_bars(rows, 1.0)
    caught = held(rows, conflicts(rows, 1.0), bars)
    honest = np.array([row["group"] != "poison" for row in rows])
    same = np.array([row["place"] == "same" for row in rows])
    assert caught[honest].mean() <= 0.015
    assert not caught[same].any()
    assert caught[~honest & ~same].mean() > 0.8
