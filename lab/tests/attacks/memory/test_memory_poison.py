"""Poison keeps to its definitions."""

from __future__ import annotations

import numpy as np
import pytest

from lazaretto.errors import InputError
from lazaretto_lab.attacks.memory import CAMOUFLAGE_COSINE, Memories, camouflage, collusion, instruction, schedule
from lazaretto_lab.attacks.memory.craft import INSTRUCTION_TAGS

VOCABULARY = ("town", "road", *INSTRUCTION_TAGS)


@pytest.fixture
def honest() -> Memories:
    rng = np.random.default_rng(0)
    tags = np.full((40, 5), -1)
    tags[:, 0] = rng.integers(0, 2, 40)
    draw = lambda n: rng.normal(0, 0.5, (40, n)).astype(np.float32)  # noqa: E731
    return Memories(draw(12), draw(8), draw(4), tags)


def test_camouflage_keeps_the_cosine_and_turns_the_action(honest: Memories) -> None:
    vectors = honest.embedded(VOCABULARY)
    made = camouflage(honest, honest.action, vectors, VOCABULARY, np.random.default_rng(1))
    near = (made.memories.embedded(VOCABULARY) * vectors).sum(1)
    assert (near >= CAMOUFLAGE_COSINE - 1e-5).all()
    np.testing.assert_allclose(near, made.cosine, atol=1e-5)
    moved = np.linalg.norm(made.memories.action - honest.action, axis=1)
    assert np.median(moved) > 0.5


def test_a_centre_that_is_too_far_keeps_its_honest_action(honest: Memories) -> None:
    elsewhere = -honest.embedded(VOCABULARY)
    made = camouflage(honest, honest.action, elsewhere, VOCABULARY, np.random.default_rng(1))
    assert (made.cosine == -1).all()
    np.testing.assert_array_equal(made.memories.action, honest.action)


def test_instructions_stand_in_tags_and_oppose_the_right_action(honest: Memories) -> None:
    made = instruction(honest, honest.action, VOCABULARY, np.random.default_rng(1)).memories
    assert (made.tags[:, 2:4] >= 2).all() and (made.tags[:, 2] != made.tags[:, 3]).all()
    assert ((made.action * honest.action).sum(1) < 0).all()
    honest_length = np.linalg.norm(honest.action, axis=1)
    np.testing.assert_allclose(np.linalg.norm(made.action, axis=1), np.maximum(honest_length, 0.5), rtol=1e-4)


def test_colluders_agree(honest: Memories) -> None:
    group = np.repeat(np.arange(10), 4)
    made = collusion(honest, honest.action, group, np.random.default_rng(1)).memories
    for g in range(10):
        assert np.ptp(made.action[group == g], axis=0).max() == 0
        assert np.ptp(made.tags[group == g], axis=0).max() == 0
        assert np.ptp(made.state[group == g], axis=0).max() > 0


def test_the_schedule_spreads_types_evenly_and_keeps_groups_together() -> None:
    plan = schedule(3000, (10, 60), 12, (("I", "II", "III"), ("C1", "C2", "C3")), seed=5)
    assert len(plan.round) == 3000 and (np.diff(plan.round) >= 0).all()
    assert plan.round.min() >= 10 and plan.round.max() < 60
    shares = np.bincount(plan.kind, minlength=4)[1:] / 3000
    np.testing.assert_allclose(shares, 1 / 3, atol=0.04)
    for group in np.unique(plan.group[plan.kind == 3])[:50]:
        rows = plan.group == group
        assert len(set(zip(plan.round[rows], plan.team[rows], strict=True))) == 1
    total = sum(plan.of_round(r).stop - plan.of_round(r).start for r in range(70))
    assert total == 3000


def test_types_without_a_road_are_refused() -> None:
    with pytest.raises(InputError, match="III needs C3"):
        schedule(10, (0, 5), 2, (("III",), ("C1",)), seed=0)
