"""The shared-memory world: mpe2's physics, reproducibility, and poison that really changes actions."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

pytest.importorskip("mpe2", reason="needs the worlds extra")

from lazaretto.errors import InputError
from lazaretto_lab.worlds.shared_memory import Scenario, Writes, outcomes, simulate
from lazaretto_lab.worlds.shared_memory.log import load_log, log_path, save_log
from lazaretto_lab.worlds.shared_memory.tasks import SENSITIVITY, particles_step
from lazaretto_lab.worlds.shared_memory.world import MendResult

SMALL = Scenario(seed=3, rounds=50, per_domain=1, poison=None, ratio=0.12, quiet_rounds=20)


@pytest.fixture(scope="module")
def attacked():
    return simulate(SMALL)


def test_the_vectorised_physics_are_those_of_mpe2() -> None:
    from mpe2.simple_spread.simple_spread import Scenario as Spread

    spread = Spread()
    world = spread.make_world(N=4)
    rng = np.random.default_rng(5)
    spread.reset_world(world, rng)
    position = np.zeros((1, 8, 2))
    position[0, :4] = [a.state.p_pos for a in world.agents]
    position[0, 1] = world.agents[1].state.p_pos = position[0, 0] + 0.05  # so that two agents collide
    velocity, size = np.zeros((1, 8, 2)), np.zeros((1, 8))
    size[0, :4] = world.agents[0].size
    for _ in range(30):
        move = rng.uniform(-1, 1, (4, 2))
        for agent, u in zip(world.agents, move, strict=True):
            agent.action.u, agent.action.c = u * SENSITIVITY, np.zeros(2)
        world.step()
        force = np.zeros((1, 8, 2))
        force[0, :4] = move * SENSITIVITY
        particles_step(position, velocity, force, size, None)
        np.testing.assert_allclose(position[0, :4], [a.state.p_pos for a in world.agents], atol=1e-9)
        np.testing.assert_allclose(velocity[0, :4], [a.state.p_vel for a in world.agents], atol=1e-9)


def test_the_main_setting_has_the_published_size() -> None:
    main = Scenario()
    assert main.teams == 60
    assert {4, 5, 6, 7, 8} == set(main.team_sizes())
    assert abs(main.honest_memories + main.poison_count - 213_684) < 200
    assert main.poison_count == 12_000


def test_a_seed_gives_the_same_world_again(attacked) -> None:
    again = simulate(SMALL)
    for column in dataclasses.fields(attacked):
        np.testing.assert_array_equal(getattr(attacked, column.name), getattr(again, column.name))
    other = simulate(dataclasses.replace(SMALL, seed=4))
    assert not np.array_equal(other.action[:100], attacked.action[:100])


def test_poison_changes_what_is_done_and_travels(attacked) -> None:
    clean = simulate(dataclasses.replace(SMALL, poison=0))
    peace, war = outcomes(clean, SMALL), outcomes(attacked, SMALL)
    assert peace.coverage == 0 and peace.hops is None
    assert war.misbehaviour > peace.misbehaviour + 0.02
    assert war.max_hops >= 2
    assert attacked.poisoned.sum() == SMALL.poison_count


def test_hops_follow_the_parents(attacked) -> None:
    travelled = np.flatnonzero(attacked.hops > 0)[:200]
    assert len(travelled) > 20
    for row in travelled:
        parents = attacked.parents[row][(attacked.parents[row] >= 0) & (attacked.weights[row] >= 0.1)]
        above = attacked.hops[parents]
        assert attacked.hops[row] == above[above >= 0].min() + 1
    assert (attacked.hops[attacked.poisoned] == 0).all()


def test_honest_records_carry_no_mark_that_gives_poison_away(attacked) -> None:
    assert attacked.success[~attacked.poisoned].mean() > 0.7  # a claim of success is usual
    words = attacked.tags[~attacked.poisoned][:, 3] >= 0
    assert 0.005 < words.mean() < 0.05  # so are words that instructions use
    assert (attacked.parents[attacked.poisoned] >= 0).any(axis=1).mean() > 0.8  # poison cites sources too


class HoldAll:
    """Holds everything that a list of teams writes."""

    def __init__(self, teams: set[int]) -> None:
        self.teams, self.seen = teams, 0

    def admit(self, writes: Writes) -> np.ndarray:
        self.seen += len(writes.ids)
        return np.isin(writes.team, list(self.teams))

    def mend(self, round_index: int) -> MendResult | None:
        return None


def test_what_a_screen_holds_is_never_retrieved() -> None:
    screen = HoldAll({0})
    log = simulate(short := dataclasses.replace(SMALL, rounds=20, poison=0), screen)
    assert screen.seen == len(log) == short.honest_memories
    assert (log.parents[log.team == 0] == -1).all()
    assert (log.parents[log.team == 1] >= 0).any()


def test_logs_are_kept_whole(tmp_path, attacked) -> None:
    path = log_path(tmp_path, SMALL)
    assert path != log_path(tmp_path, dataclasses.replace(SMALL, seed=9))
    save_log(attacked, path)
    loaded = load_log(path)
    np.testing.assert_array_equal(loaded.action, attacked.action)
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("bad", [{"rounds": 0}, {"ratio": 0.7}, {"kinds": ("IV",)}, {"axes": ()}])
def test_impossible_scenarios_are_refused(bad) -> None:
    with pytest.raises(InputError):
        Scenario(**bad)
