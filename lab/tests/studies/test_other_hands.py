"""The judge of facts by other hands counts as the gate does, from stored rows that hold no text."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lazaretto_lab.studies.claims.other_hands import BEFORE, DEEP, SHIPPED, figures, holds, read_rows

ROWS = Path(__file__).parents[2] / "results" / "facts" / "other_hands" / "rows.jsonl.gz"


def pair(meets: str, first: float, second: float, **more: Any) -> dict[str, Any]:
    """A pair of claims with what two models say of a conflict."""
    plain = {"meets": meets, "cosine": 0.8, "partial": False, "plain": False, "sensitive": False}
    return plain | {"first": [0.0, first, 0.0], "second": [0.0, second, 0.0]} | more


@pytest.mark.parametrize(
    ("one", "held"),
    [
        (pair("opposed", 0.7, 0.7), True),
        (pair("opposed", 0.19, 0.99), False),  # the second is not asked
        (pair("apart", 0.7, 0.7), False),
        (pair("apart", 0.9, 0.9, cosine=0.39), False),
        (pair("apart", 0.9, 0.9, cosine=0.45), True),
        (pair("same", 0.9, 0.9), True),
        (pair("same", 0.69, 0.99), False),
        (pair("same", 0.9, 0.9, partial=True), False),
        (pair("two things", 1.0, 1.0), False),
        (pair("apart", 0.95, 0.0, cosine=0.3, plain=True), True),
    ],
)
def test_a_pair_is_held_as_the_gate_has_it(one: dict[str, Any], held: bool) -> None:
    assert holds(one, SHIPPED) is held


def test_without_doubt_the_same_is_never_held() -> None:
    assert not holds(pair("same", 0.99, 0.99), BEFORE)


def test_bars_are_those_that_ship() -> None:
    weights = Path(__file__).parents[3] / "src" / "lazaretto" / "models" / "weights" / "claims"
    for name, rule in (("second", SHIPPED), ("deep", DEEP)):
        at = json.loads((weights / f"{name}.json").read_text(encoding="utf-8"))
        assert (at["conflict_at"], at["alike_at"], at["apart_at"]) == (rule.opposed, rule.alike, rule.apart)
        assert (at["partial_at"], at["doubt_at"], at["ask_at"]) == (rule.partial, rule.doubt_at, rule.ask_at)


def test_stored_figures_are_those_of_the_stored_rows() -> None:
    rows = read_rows(ROWS)
    stored = json.loads(ROWS.with_name("figures.json").read_text(encoding="utf-8"))
    assert figures(rows, SHIPPED) == stored["shipped"]
    assert figures(rows, replace(SHIPPED, opposed=0.99, alike=0.99)) != stored["shipped"]
    assert all(set(row) == {"source", "group", "kind", "pairs"} for row in rows)
