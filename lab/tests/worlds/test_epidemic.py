"""The epidemic is exact: the published rows to the last digit, and any scenario as the plain transcription has it."""

from __future__ import annotations

import importlib.util
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lazaretto.errors import InputError
from lazaretto_lab.metrics.infection import first_reaching
from lazaretto_lab.worlds.epidemic import Cure, Defence, Scenario, simulate
from lazaretto_lab.worlds.epidemic.agents import Slots
from lazaretto_lab.worlds.epidemic.pairing import Stream, random_pairs, uniforms
from lazaretto_lab.worlds.epidemic.world import COUNTS

_spec = importlib.util.spec_from_file_location("epidemic_oracle", Path(__file__).with_name("epidemic_oracle.py"))
assert _spec is not None and _spec.loader is not None
oracle = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(oracle)


def drawer(scenario: Scenario, seed: int):
    """The simulation's own random numbers, one at a time."""
    longest = max(scenario.agents, scenario.agents * scenario.album)

    @cache
    def row(stream: str, round_: int) -> np.ndarray:
        return uniforms(seed, Stream[stream], round_, longest)

    return lambda stream, round_, index: float(row(stream, round_)[index])


def assert_agrees(scenario: Scenario, seed: int) -> None:
    def pairs_of(round_: int):
        return list(zip(*(side.tolist() for side in random_pairs(seed, round_, scenario.agents)[:2]), strict=True))

    pairs = None if scenario.reference_pairing else pairs_of
    expected = oracle.transcribe(scenario, seed, pairs, drawer(scenario, seed))
    got = simulate(scenario, [seed])
    for name in COUNTS:
        assert got.counts[name][0].tolist() == [row[name] for row in expected], name


chances = st.one_of(st.sampled_from([0.0, 1.0]), st.floats(0.02, 0.98))
seeds = st.integers(0, 2**64 - 1)


@pytest.mark.parametrize(
    ("agents", "infected", "rounds", "cumulative", "first", "current", "first_current"),
    [
        (256, 1, 32, (23.05, 93.75, 99.61), (14, 15, 17), (14.06, 90.62, 99.22), (16, 16, 19)),
        (128, 4, 65, (63.28, 100.0, 100.0), (11, 12, 13), (53.12, 100.0, 100.0), (13, 13, 15)),
    ],
)
def test_published_rows_come_out_to_the_last_digit(
    agents, infected, rounds, cumulative, first, current, first_current
) -> None:
    run = simulate(Scenario(agents, infected, rounds, reference_pairing=True), [42])
    for name, values, rounds_reached in (("cumulative", cumulative, first), ("current", current, first_current)):
        curve = run.percent(name)[0]
        assert tuple(round(float(curve[r]), 2) for r in (8, 16, 24)) == values
        assert tuple(first_reaching(curve, t) for t in (85, 90, 95)) == rounds_reached


def test_three_hundred_seeds_give_the_known_means() -> None:
    one = simulate(Scenario(256, 1, 25, reference_pairing=True), range(300)).percent("cumulative")
    four = simulate(Scenario(128, 4, 25, reference_pairing=True), range(300)).percent("cumulative")
    assert [round(float(m), 1) for m in one.mean(axis=0)[[8, 16, 24]]] == [14.0, 84.5, 99.5]
    assert [round(float(m), 1) for m in four.mean(axis=0)[[8, 16, 24]]] == [63.7, 99.6, 100.0]
    assert round(float(one[:, 8].std(ddof=1)), 1) == 7.3
    assert round(float(four[:, 8].std(ddof=1)), 1) == 10.6


@pytest.mark.parametrize(
    ("album", "cumulative", "current", "died"),
    [(2, 38.8, 24.9, 33), (4, 76.9, 68.2, 6), (6, 83.4, 76.0, 1), (10, 85.0, 77.9, 0)],
)
def test_album_sizes_give_the_known_table(album, cumulative, current, died) -> None:
    run = simulate(Scenario(256, 1, 17, album, reference_pairing=True), range(200))
    assert round(float(run.percent("cumulative")[:, 16].mean()), 1) == cumulative
    assert round(float(run.percent("current")[:, 16].mean()), 1) == current
    assert round(100 * float((run.counts["carrying"][:, 16] == 0).mean())) == died


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 70), st.integers(0, 9), st.integers(1, 14), st.integers(0, 2**70), st.data())
def test_reference_pairing_agrees_with_the_transcription(agents, infected, album, seed, data) -> None:
    rates = {name: data.draw(chances, name) for name in ("alpha", "beta", "gamma")}
    scenario = Scenario(agents, min(infected, agents), 8, album, **rates, reference_pairing=True)
    assert_agrees(scenario, seed % 2**64)


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 70), st.integers(1, 140), seeds, st.data())
def test_everything_at_once_agrees_with_the_transcription(agents, album, seed, data) -> None:
    infected = data.draw(st.integers(0, agents))
    immune = data.draw(st.integers(0, agents - infected))
    defenders = data.draw(st.integers(0, agents - infected - immune))
    scenario = Scenario(
        agents,
        infected,
        7,
        album,
        alpha=data.draw(chances),
        beta=data.draw(chances),
        gamma=data.draw(chances),
        immune=immune,
        defence=Defence(*(data.draw(chances) for _ in range(4))),
        cure=Cure(defenders, data.draw(chances), data.draw(chances)),
        reference_pairing=data.draw(st.booleans()),
    )
    assert_agrees(scenario, seed)


def test_larger_sizes_agree_with_the_transcription() -> None:
    for agents in (2048, 5001, 17_000):  # past the limits at which other code draws and pops
        assert_agrees(Scenario(agents, 3, 4, 3, reference_pairing=True), 7)


def test_a_seed_gives_the_same_run_whatever_its_company() -> None:
    scenario = Scenario(31, 2, 12, 4, alpha=0.7, beta=0.8, gamma=0.1, cure=Cure(3), defence=Defence(0.2, 0.5, 0.1, 0.3))
    together = simulate(scenario, [5, 9, 5])
    for index, seed in enumerate((5, 9, 5)):
        alone = simulate(scenario, [seed])
        assert all((together.counts[n][index] == alone.counts[n][0]).all() for n in COUNTS)


def test_a_defence_does_not_change_who_meets_whom() -> None:
    plain_run = simulate(Scenario(64, 4, 10), [3])
    guarded = simulate(Scenario(64, 4, 10, defence=Defence(detection=1e-12)), [3])
    assert (plain_run.counts["current"] == guarded.counts["current"]).all()
    assert simulate(Scenario(64, 4, 10, defence=Defence(detection=1.0)), [3]).counts["cumulative"].max() == 0


def test_nobody_infected_stays_clean_and_a_copy_leaves_after_as_many_receptions_as_slots() -> None:
    assert simulate(Scenario(10, 0, 20), [1]).counts["carrying"].max() == 0
    slots = Slots(1, 3)
    slots.push(np.array([0]), np.array([True]))
    for expected in (True, True, True, False):
        assert slots.holds()[0] == expected
        slots.push(np.array([0]), np.array([False]))


@given(st.integers(1, 200), st.lists(st.booleans(), min_size=1, max_size=300))
@settings(max_examples=60, deadline=None)
def test_slots_are_a_fifo_of_any_length(album, arrivals) -> None:
    slots, expected = Slots(2, album), [False] * album
    me = np.array([1])
    for arrived in arrivals:
        slots.push(me, np.array([arrived]))
        expected = [arrived, *expected[:-1]]
    assert slots.unpack(me)[0].tolist() == expected
    assert slots.full(me)[0] == all(expected)
    assert not slots.holds(np.array([0]))[0]
    slots.pack(me, ~slots.unpack(me))
    assert slots.unpack(me)[0].tolist() == [not e for e in expected]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"agents": 1}, "agents"),
        ({"agents": 0}, "agents"),
        ({"rounds": 0}, "rounds"),
        ({"album": 0}, "album"),
        ({"infected": -1}, "infected"),
        ({"infected": 200}, "infected"),
        ({"alpha": 1.5}, "alpha"),
        ({"beta": -0.1}, "beta"),
        ({"gamma": float("nan")}, "gamma"),
        ({"defence": Defence(detection=2.0)}, "defence detection"),
        ({"cure": Cure(defenders=-1)}, "defenders"),
        ({"agents": 2.5}, "agents"),
    ],
)
def test_bad_scenarios_are_refused_by_name(change, field) -> None:
    with pytest.raises(InputError) as caught:
        Scenario(**change)
    assert caught.value.field == field


@pytest.mark.parametrize("seed", [-1, 2**64])
def test_bad_seeds_are_refused(seed) -> None:
    with pytest.raises(InputError):
        simulate(Scenario(), [seed])
    with pytest.raises(InputError):
        simulate(Scenario(), [])
