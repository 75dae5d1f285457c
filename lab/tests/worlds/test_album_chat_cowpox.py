"""Cowpox with scripted models: who defends, what the analyst may err about, and what a spreading cure does."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from lazaretto.agents.album import AlbumItem, picture_item
from lazaretto.agents.model import AgentModel
from lazaretto.agents.prompts import PLAN_TASK
from lazaretto.errors import InputError
from lazaretto.models.caches import EmbeddingCache
from lazaretto.models.protocol import Request
from lazaretto.models.scripted import HashingEmbedder, ScriptedChatModel
from lazaretto_lab.worlds.album_chat.cowpox import Cowpox, ModelAnalyst, PublishedAnalyst
from lazaretto_lab.worlds.album_chat.defence import Defence, View
from lazaretto_lab.worlds.album_chat.measures import measure_diversity, measure_spread
from lazaretto_lab.worlds.album_chat.scenario import Scenario, Virus
from lazaretto_lab.worlds.album_chat.world import AlbumChat, Outcome

TARGET = "The harbour is open."
SICK = picture_item(b"red boat virus", "boat")
CURE = picture_item(b"red boat", "boat")  # nearer to the plan than the virus is
POOL = tuple(picture_item(f"tree{i} in field{i}".encode(), f"tree {i}") for i in range(200))
SCENARIO = Scenario(agents=64, rounds=40, infected=4, pairing="reference")


def speak(request: Request) -> str:
    message = request.messages[-1]
    if PLAN_TASK in message.text:
        return "red boat"
    return TARGET if message.images == (SICK.picture,) else f"I see {message.images[0].decode()}"


def agent_model(script: Any = speak) -> AgentModel:
    return AgentModel(ScriptedChatModel(script), EmbeddingCache(HashingEmbedder(lambda data: data.decode(), 1024)))


class Apothecary:
    """Makes the cure and remembers for what."""

    def __init__(self) -> None:
        self.orders: list[tuple[str, str]] = []

    def __call__(self, suspect: AlbumItem, said: str) -> AlbumItem:
        self.orders.append((suspect.key, said))
        return CURE


def run(defence: Defence | None, scenario: Scenario = SCENARIO, **more: Any) -> Outcome:
    viruses = (Virus(SICK, TARGET),) if scenario.infected else ()
    return asyncio.run(AlbumChat(scenario, agent_model(), POOL, viruses, defence=defence, **more).run())


def test_the_cure_spreads_by_itself_and_the_infection_falls_after_it_rose() -> None:
    maker = Apothecary()
    plain = measure_spread(run(None), [SICK.key])
    defended = run(Cowpox(PublishedAnalyst((TARGET,)), maker))
    spread = measure_spread(defended, [SICK.key])
    assert maker.orders == [(SICK.key, TARGET)]  # one virus, one cure
    assert plain.current[-1] == 100
    assert spread.cumulative[-1] > 50
    assert max(spread.current) > 30 and spread.current[-1] < 5
    holders = sum(CURE.key in agent.album for agent in defended.agents)
    assert holders > 50
    assert sum(len(trace.changes) for trace in defended.rounds) < holders  # most got it from others


def test_a_world_full_of_cure_has_lost_its_variety() -> None:
    benign = run(None, Scenario(agents=64, rounds=40, infected=0, pairing="reference"))
    defended = run(Cowpox(PublishedAnalyst((TARGET,)), Apothecary()))
    diversity = measure_diversity(defended, benign, HashingEmbedder())
    assert diversity.entropy_retention < 0.6
    assert (diversity.dispersion[-1] or 0) < 0.2 < (diversity.benign_dispersion[-1] or 0)
    itself = measure_diversity(benign, benign, HashingEmbedder())
    assert itself.entropy_retention == 1.0 and max(d or 0 for d in itself.drift) < 1e-9


@pytest.mark.parametrize(("agents", "expected"), [(128, 4), (256, 8), (10, 1)])
def test_three_percent_defend_and_the_seed_says_who(agents: int, expected: int) -> None:
    world = AlbumChat(Scenario(agents=agents, infected=0), agent_model(), POOL)
    view = View(0, world.agents, (), world.agent_model, 5)
    cowpox = Cowpox(PublishedAnalyst((TARGET,)), Apothecary())
    assert len(cowpox.defenders(view)) == expected
    assert cowpox.defenders(view) == cowpox.defenders(View(9, world.agents, (), world.agent_model, 5))


def test_an_analyst_of_known_accuracy_errs_as_often_as_it_says() -> None:
    analyst = PublishedAnalyst((TARGET,), recall=0.8, false_alarm=0.1)
    world = AlbumChat(Scenario(agents=4, infected=0), agent_model(), POOL)
    sick = asyncio.run(analyst.suspects([TARGET] * 4000, View(0, world.agents, (), world.agent_model, 1)))
    fine = asyncio.run(analyst.suspects(["hello"] * 4000, View(1, world.agents, (), world.agent_model, 1)))
    assert 0.77 < sum(sick) / 4000 < 0.83 and 0.08 < sum(fine) / 4000 < 0.12


@pytest.mark.parametrize(
    ("turns", "replies", "expected"),
    [
        (1, ["Yes."], True),
        (1, ["No, yes is wrong"], False),
        (3, ["yes", "no", " YES!"], True),
        (3, ["yes", "", "?"], False),
    ],
)
def test_a_model_is_asked_yes_or_no_and_the_majority_counts(turns: int, replies: list[str], expected: bool) -> None:
    left = iter(replies)
    thinking = agent_model(lambda request: next(left))
    world = AlbumChat(Scenario(agents=4, infected=0), thinking, POOL)
    verdicts = asyncio.run(ModelAnalyst(turns).suspects([TARGET], View(0, world.agents, (), thinking, 1)))
    assert verdicts == [expected] and thinking.spent.calls == turns


def test_the_model_analyst_costs_calls_that_are_counted_as_the_defences_own() -> None:
    def reader(request: Request) -> str:
        text = request.messages[-1].text
        return ("yes" if TARGET in text else "no") if "yes or no" in text else speak(request)

    world = AlbumChat(
        SCENARIO, agent_model(reader), POOL, (Virus(SICK, TARGET),), defence=Cowpox(ModelAnalyst(), Apothecary(), 0.25)
    )
    outcome = asyncio.run(world.run())
    assert measure_spread(outcome).current[-1] < 5
    first = outcome.rounds[0]
    assert first.spent.calls == 96
    defenders = 16
    assert first.spent_by_defence.calls == 2 * defenders  # question and answer of each defender's chat


def test_a_run_with_cowpox_resumes_to_the_same_end(tmp_path: Path) -> None:
    def build() -> AlbumChat:
        cowpox = Cowpox(PublishedAnalyst((TARGET,)), Apothecary())
        return AlbumChat(SCENARIO, agent_model(), POOL, (Virus(SICK, TARGET),), defence=cowpox, folder=tmp_path)

    first = build()

    async def some() -> None:
        while not first.defence.snapshot()["cures"]:
            await first.step()

    asyncio.run(some())
    second = build()
    assert second.defence.snapshot() == first.defence.snapshot()
    whole, resumed = run(Cowpox(PublishedAnalyst((TARGET,)), Apothecary())), asyncio.run(second.run())
    assert (resumed.rounds, resumed.agents) == (whole.rounds, whole.agents)
    assert isinstance(second.defence, Cowpox) and second.defence.make_cure.orders == []  # type: ignore[attr-defined]


@pytest.mark.parametrize("make", [lambda: Cowpox(PublishedAnalyst(()), Apothecary(), 0.0), lambda: ModelAnalyst(2)])
def test_senseless_settings_are_refused(make: Any) -> None:
    with pytest.raises(InputError):
        make()
