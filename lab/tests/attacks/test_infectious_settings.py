"""Budgets, targets and keys: what an attack may change, and under which name it is kept."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lazaretto.errors import InputError
from lazaretto_lab.attacks.infectious.settings import Budget, Craft
from lazaretto_lab.attacks.infectious.targets import TARGETS, target


@pytest.mark.parametrize(("published", "ours"), [(6, 4), (8, 5), (10, 7), (12, 8)])
def test_frames_keep_their_share_of_the_side(published: float, ours: int) -> None:
    assert Budget("border", published).frame == ours
    assert Budget("border", published).label == f"border-{published}"


def test_pixel_budgets_have_no_frame() -> None:
    assert Budget("pixel", 8).frame == 0


@pytest.mark.parametrize("kind, size", [("pixel", 0), ("pixel", 256), ("border", -1), ("border", 200), ("blur", 3)])
def test_impossible_budgets_are_refused(kind: str, size: float) -> None:
    with pytest.raises(InputError):
        Budget(kind, size)  # type: ignore[arg-type]


def test_targets_are_looked_up_by_name() -> None:
    assert target("marker-test") == TARGETS["marker-test"]
    with pytest.raises(InputError, match="marker-lantern"):
        target("anything else")
    with pytest.raises(InputError):
        Craft("anything else", Budget("pixel", 8))


def test_every_setting_changes_the_key() -> None:
    plain = Craft("marker-test", Budget("pixel", 8))
    others = [
        replace(plain, target="marker-gate"), replace(plain, budget=Budget("border", 8)), replace(plain, steps=7),
        replace(plain, restarts=2), replace(plain, batch=3), replace(plain, seed=1), replace(plain, augment=("jpeg",)),
        replace(plain, momentum=0.5), replace(plain, rule="sign"), replace(plain, infected_share=0.0),
    ]  # fmt: skip
    assert len({craft.key() for craft in (plain, *others)}) == 1 + len(others)
    assert plain.key("a") != plain.key("b") and plain.key("a") == plain.key("a")


@pytest.mark.parametrize(
    "change", [{"steps": 0}, {"restarts": 0}, {"batch": 0}, {"augment": ("blur",)}, {"rule": "newton"}]
)
def test_senseless_searches_are_refused(change: dict[str, object]) -> None:
    with pytest.raises(InputError):
        replace(Craft("marker-test", Budget("pixel", 8)), **change)  # type: ignore[arg-type]


def test_frames_take_sign_steps_unless_told_otherwise() -> None:
    frame, pixel = Craft("marker-test", Budget("border", 6)), Craft("marker-test", Budget("pixel", 8))
    assert frame.signed and not pixel.signed
    assert replace(pixel, rule="sign").signed and not replace(frame, rule="adam").signed
