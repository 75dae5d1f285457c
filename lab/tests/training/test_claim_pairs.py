"""Our own pairs for the relation model, and how its bars are chosen."""

from __future__ import annotations

import random

import numpy as np

from lazaretto_lab.studies.claims.bars import MOST, chosen_bar, held_together
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
    assert len({label_of(one) for one in ("poison", "event", "compatible", "restatement")}) == 4
    by_kind: dict[str, set[int]] = {}
    for one in statements():
        by_kind.setdefault(one.kind, set()).add(one.fold)
    assert len(by_kind) > 5 and all(len(folds) == 1 for folds in by_kind.values())


def test_the_bar_of_both_holds_no_honest_group_more_often_than_it_may() -> None:
    rng = np.random.default_rng(0)
    rows = []
    for group, middle in (("poison", 2.5), ("event", -2.5), ("compatible", -1.5), ("restatement", -1.0)):
        for place in ("opposed", "apart", "same", "plain"):
            for x in rng.normal(middle, 1.0, 100) if place != "plain" or group == "poison" else ():
                first = 1 / (1 + np.exp(-rng.normal(middle / 2, 1.5)))
                said = {"group": group, "place": place, "first": first, "cosine": 0.8}
                rows.append(said | {"logits": [0.0, float(x), -9.0, 0.0]})
    bar = chosen_bar(rows, "logits", 0.6)
    held, lower = (held_together(rows, one, "logits", 0.6) for one in (bar, bar - 0.01))
    group, same = np.array([row["group"] for row in rows]), np.array([row["place"] == "same" for row in rows])
    assert all(held[group == name].mean() <= most for name, most in MOST.items() if (group == name).any())
    assert any(lower[group == name].mean() > most for name, most in MOST.items() if (group == name).any())
    assert not held[same].any()
    assert held[group == "poison"].mean() > 0.5
    far = [row | {"cosine": 0.45} for row in rows]  # the gate reads no pair that meets in nothing from so far
    apart = np.array([row["place"] == "apart" for row in rows])
    assert held[apart].any() and not held_together(far, bar, "logits", 0.6)[apart].any()
