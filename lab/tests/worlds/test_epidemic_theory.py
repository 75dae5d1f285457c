"""Theory against simulation: where the mean field holds, where it does not, and what the propositions say when
counted."""

from __future__ import annotations

import numpy as np
import pytest

from lazaretto_lab.metrics.diversity import mixture_entropy, mixture_entropy_bound
from lazaretto_lab.worlds.epidemic import Cure, Defence, Scenario, simulate
from lazaretto_lab.worlds.epidemic.mean_field import (
    album_mean_field,
    endemic_share,
    extinction_chance,
    mean_field,
    reproduction_number,
)


def carriers(scenario: Scenario, seeds: int = 6) -> np.ndarray:
    return simulate(scenario, range(seeds)).counts["carrying"].mean(axis=0) / scenario.agents


@pytest.mark.parametrize(("beta", "gamma"), [(1.0, 0.0), (0.6, 0.1), (0.9, 0.3)])
def test_with_long_albums_the_mean_field_is_right(beta, gamma) -> None:
    scenario = Scenario(6000, 300, 40, album=100, beta=beta, gamma=gamma)
    assert np.abs(carriers(scenario) - mean_field(0.05, beta, gamma, 40)).max() < 0.02


def test_with_short_albums_it_is_wrong_and_the_album_equation_right() -> None:
    for album, beta in ((2, 1.0), (4, 0.6), (3, 0.45)):
        scenario = Scenario(6000, 300, 30, album=album, beta=beta)
        simulated = carriers(scenario)
        assert np.abs(simulated - album_mean_field(scenario)).max() < 0.025
        assert np.abs(simulated - mean_field(0.05, beta, 0.0, 30)).max() > 0.08


def test_album_equation_becomes_the_papers_when_albums_are_endless_and_agents_many() -> None:
    scenario = Scenario(10**6, 10**4, 50, album=5000, beta=0.7, gamma=0.2)
    assert album_mean_field(scenario) == pytest.approx(mean_field(0.01, 0.7, 0.2, 50), abs=1e-5)


def test_extinction_at_and_below_the_threshold() -> None:
    for beta, gamma in ((0.5, 0.25), (0.4, 0.3)):  # beta <= 2 gamma
        assert endemic_share(beta, gamma) == 0.0
        assert mean_field(0.3, beta, gamma, 4000)[-1] < 0.003
        assert reproduction_number(beta, gamma, 10_000) <= 1.0 + 1e-12
    dying = simulate(Scenario(400, 100, 250, album=50, beta=0.4, gamma=0.3), range(10))
    assert dying.counts["carrying"][:, -1].max() == 0
    living = simulate(Scenario(400, 100, 250, album=50, beta=0.9, gamma=0.15), range(10))
    assert living.percent("carrying")[:, -100:].mean() / 100 == pytest.approx(endemic_share(0.9, 0.15), abs=0.03)


def test_proposition_one_is_monotone_only_from_below() -> None:
    beta, gamma = 0.9, 0.2
    assert endemic_share(beta, gamma) == pytest.approx(5 / 9)
    assert (np.diff(mean_field(0.1, beta, gamma, 60)) >= 0).all()
    assert (np.diff(mean_field(0.9, beta, gamma, 60)) <= 0).all()
    assert carriers(Scenario(2000, 1800, 40, album=60, beta=beta, gamma=gamma))[-1] == pytest.approx(5 / 9, abs=0.04)


def test_albums_have_a_threshold_of_their_own_without_any_recovery() -> None:
    assert reproduction_number(0.5, 0.0, 2) == 1.0 and reproduction_number(0.5, 1e-9, 2) == pytest.approx(1.0)
    dying = simulate(Scenario(1000, 50, 150, album=2, beta=0.35), range(8))
    assert reproduction_number(0.35, 0.0, 2) < 1 and dying.counts["carrying"][:, -1].max() == 0
    assert mean_field(0.05, 0.35, 0.0, 150)[-1] > 0.99  # what the paper's equation expects instead


@pytest.mark.slow
def test_small_outbreaks_die_as_often_as_the_branching_process_says() -> None:
    assert extinction_chance(1.0, 0.0, 2) == pytest.approx((3 - 5**0.5) / 2)
    assert extinction_chance(0.4, 0.3, 10) == pytest.approx(1.0, abs=1e-3)
    assert extinction_chance(1.0, 0.0, 2, infected=3) == pytest.approx(((3 - 5**0.5) / 2) ** 3)
    for album, beta, gamma in ((2, 1.0, 0.0), (4, 0.8, 0.05)):
        run = simulate(Scenario(200, 1, 30, album, beta=beta, gamma=gamma), range(20_000, 21_000))
        died = float((run.counts["carrying"][:, -1] == 0).mean())
        assert died == pytest.approx(extinction_chance(beta, gamma, album), abs=0.045)  # 3 standard errors


PICTURES = 40
PARTS = ({("scene", i): 1 / PICTURES for i in range(PICTURES)}, {"virus": 1.0}, {"cure": 1.0})


def retrieval_weights(run) -> np.ndarray:
    """Shares of harmless, virus and cure retrievals in each round of the first seed."""
    pairs = run.scenario.pairs
    virus, cure = run.counts["virus_retrieved"][0] / pairs, run.counts["cure_retrieved"][0] / pairs
    return np.stack([1 - virus - cure, virus, cure], axis=1)


def entropies(run) -> list[float]:
    return [mixture_entropy(weights, PARTS) for weights in retrieval_weights(run)]


def test_the_entropy_bound_is_met_exactly_because_the_parts_share_no_picture() -> None:
    run = simulate(Scenario(200, 8, 40, alpha=0.9, cure=Cure(6)), [3])
    own = [mixture_entropy([1.0], [part]) for part in PARTS]
    for weights, entropy in zip(retrieval_weights(run), entropies(run), strict=True):
        assert entropy == pytest.approx(mixture_entropy_bound(weights, own))


def test_a_spreading_cure_drives_entropy_to_that_of_the_cure_and_purification_to_that_of_the_benign() -> None:
    benign = float(np.log(PICTURES))
    cured = simulate(Scenario(200, 8, 64, cure=Cure(6)), [3])
    assert cured.percent("cumulative")[0, -1] > 90 and cured.percent("current")[0, -1] < 5
    assert entropies(cured)[-1] < 0.1 * benign
    purified = simulate(Scenario(200, 8, 64, defence=Defence(detection=0.9)), [3])
    assert purified.percent("cumulative")[0, -1] < 12
    assert entropies(purified)[-1] == pytest.approx(benign)
    undefended = simulate(Scenario(200, 8, 64), [3])
    assert entropies(undefended)[-1] < 0.1 * benign


def test_a_cure_that_is_not_always_retrieved_leaves_room_for_the_virus() -> None:
    """The limit of proposition 4.2 needs a cure that always wins: else virus and cure live side by side."""
    run = simulate(Scenario(400, 16, 120, cure=Cure(12, beta=0.7)), [3])
    assert run.percent("cured")[0, -1] > 90
    assert 5 < run.percent("current")[0, -30:].mean() < 60
