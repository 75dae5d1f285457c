"""Rehearsals leave nothing behind, measures are those of the formulas, and odd agents are handled soundly."""

from __future__ import annotations

import asyncio
import math
import random
from dataclasses import replace
from typing import Any

import pytest

from lazaretto.agents.album import Album
from lazaretto.agents.prompts import persona_pool
from lazaretto.errors import InputError
from lazaretto.gates.foresight.adapter import AgentModelBackend, RehearsalBackend
from lazaretto.gates.foresight.flp import (
    FlpReading,
    FlpSettings,
    FlpThresholds,
    RehearsalResult,
    cast_of,
    infected,
    read,
    rehearse,
    take_readings,
)
from lazaretto.learn.calibration import FlpCalibration, calibrate_flp
from lazaretto.models.protocol import Completion

PEOPLE = persona_pool(16, 99)


def readings(agents: Any, agent_model: Any, settings: FlpSettings | None = None) -> Any:
    return asyncio.run(
        take_readings(agents, PEOPLE, settings or FlpSettings(), AgentModelBackend(agent_model), random.Random(1))
    )


def test_a_rehearsal_costs_eighteen_calls_and_changes_nobody(community: Any) -> None:
    before = tuple(community.agents)
    (played,) = asyncio.run(
        rehearse([before[0]], [PEOPLE[:4]], 3, AgentModelBackend(community.agent_model), random.Random(0))
    )
    assert community.agent_model.spent.calls == 18
    assert len(played.retrieved) == len(played.records) == 6
    assert community.agents == before and len(before[0].history) == 0
    assert isinstance(AgentModelBackend(community.agent_model), RehearsalBackend)


def test_the_same_seed_rehearses_the_same(community: Any) -> None:
    one, two = (
        asyncio.run(
            rehearse(
                community.agents[:3], [PEOPLE[:4]] * 3, 2, AgentModelBackend(community.agent_model), random.Random(5)
            )
        )
        for _ in range(2)
    )
    assert one == two


def test_measures_are_those_of_the_formulas(community: Any) -> None:
    backend = AgentModelBackend(community.agent_model)
    reading = read(RehearsalResult(("a", "a", "b", "b"), ("same words", "same words")), backend)
    assert reading.entropy == pytest.approx(math.log(2))
    assert reading.diversity == pytest.approx(0.0, abs=1e-6)
    assert read(RehearsalResult(), backend).entropy is None
    assert reading.drift(reading) == pytest.approx(0.0, abs=1e-6) and reading.drift(None) is None


def test_published_diagnosis_finds_the_carrier_and_spares_the_others(community: Any) -> None:
    calibration = asyncio.run(calibrate_flp(community.agents, PEOPLE, AgentModelBackend(community.agent_model)))
    sick = replace(community.agents[1], album=community.agents[1].album.replaced(4, community.virus))
    said = [
        infected(r, calibration.thresholds, FlpSettings())
        for r in readings([sick, *community.agents[2:]], community.agent_model)
    ]
    assert said[0] and sum(said[1:]) <= 1
    assert FlpCalibration.from_json(calibration.to_json()) == calibration


def test_both_measures_must_be_low() -> None:
    limits, both = FlpThresholds(0.0, 0.2, 0.4), FlpSettings()
    assert infected(FlpReading(0.0, 0.1), limits, both)
    assert not infected(FlpReading(0.7, 0.1), limits, both) and not infected(FlpReading(0.0, 0.5), limits, both)
    assert infected(FlpReading(0.7, 0.1), limits, replace(both, use_entropy=False))
    assert not infected(FlpReading(None, None), limits, both)


def test_an_empty_album_is_no_infection(community: Any) -> None:
    empty = replace(community.agents[0], album=Album(10))
    (reading,) = readings([empty], community.agent_model)
    assert reading.entropy is None and reading.faults
    assert not infected(reading, FlpThresholds(9.0, 9.0, 9.0), FlpSettings())


def test_an_album_of_copies_is_judged_by_what_is_said(community: Any) -> None:
    calibration = asyncio.run(calibrate_flp(community.agents, PEOPLE, AgentModelBackend(community.agent_model)))
    copies = replace(community.agents[0], album=Album(10, (community.pool[0],) * 10))
    (reading,) = readings([copies], community.agent_model)
    assert reading.entropy == 0.0
    said_varied = reading.diversity > calibration.thresholds.diversity
    assert infected(reading, calibration.thresholds, FlpSettings()) is not said_varied
    virus = replace(copies, album=Album(10, (community.virus,) * 10))
    assert infected(readings([virus], community.agent_model)[0], calibration.thresholds, FlpSettings())


def test_one_persona_plays_both_sides(community: Any) -> None:
    agent = community.agents[0]
    assert cast_of(agent, [agent.persona], FlpSettings(), random.Random(0)) == (agent.persona,) * 4
    (reading,) = readings([agent], community.agent_model, FlpSettings(personas=1))
    assert reading.entropy is not None and not reading.faults


def test_a_failing_model_is_a_fault_and_not_a_diagnosis(make_community: Any) -> None:
    broken = make_community(4, speak=lambda request: Completion("", fault="no model"))
    (reading, *_) = readings(broken.agents, broken.agent_model)
    assert reading.faults and not infected(reading, FlpThresholds(9.0, 9.0, 9.0), FlpSettings())
    with pytest.raises(InputError, match="no rehearsal"):
        asyncio.run(calibrate_flp(broken.agents, PEOPLE, AgentModelBackend(broken.agent_model)))


def test_nonsense_settings_are_refused() -> None:
    with pytest.raises(InputError):
        FlpSettings(personas=0)
    with pytest.raises(InputError):
        FlpSettings(use_entropy=False, use_diversity=False)
