"""Pairs with marks: what was exchanged is marked in both texts."""

from __future__ import annotations

import random

from lazaretto_lab.training.claims.marked import Exchange, marked
from lazaretto_lab.training.claims.own_pairs import CONFLICT
from lazaretto_lab.training.claims.templates import AGREES


def test_what_is_exchanged_is_marked_in_both_texts() -> None:
    old, new = "The pump holds 40 litres and stands in Bergen.", "In Bergen stands the pump, 40 litres."
    found = list(marked(old, new, "m_own", Exchange([old, new], random.Random(1))))
    assert (found[0].label, found[0].in_new) == (AGREES, (0, 0))
    conflicts = [one for one in found if one.label == CONFLICT]
    assert conflicts
    for one in conflicts:
        assert one.new[slice(*one.in_new)] not in old
        assert one.old[slice(*one.in_old)] in new
