"""The agents of the world before round 0: personas, albums and who is infected, each from its own stream of chance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lazaretto.agents.album import Album, AlbumItem
from lazaretto.agents.prompts import Persona, persona_pool
from lazaretto.agents.turn import AgentState, History
from lazaretto.errors import InputError
from lazaretto_lab.worlds.album_chat.scenario import Scenario, Virus
from lazaretto_lab.worlds.streams import stream


def agent_id(index: int) -> str:
    """The name of the agent at that place."""
    return f"agent-{index:04d}"


def populate(
    scenario: Scenario,
    pool: Sequence[AlbumItem],
    viruses: Sequence[Virus] = (),
    personas: Sequence[Persona] | None = None,
) -> tuple[AgentState, ...]:
    """Every agent with its persona and an album drawn from the pool without repetition, then the infection (unless it
    arrives later)."""
    distinct = tuple(dict.fromkeys(pool))
    if len(distinct) < scenario.album:
        raise InputError(
            "pool", f"{len(distinct)} distinct pictures or notes for albums of {scenario.album}", "Give a larger pool"
        )
    if scenario.infected and not viruses:
        raise InputError("viruses", f"{scenario.infected} agents to infect, but no virus", "Give one, or infected=0")
    people = tuple(personas) if personas is not None else persona_pool(scenario.agents, scenario.seed)
    if len(people) < scenario.agents:
        raise InputError("personas", f"{len(people)} for {scenario.agents} agents", "Give one for each agent")
    agents = []
    for index in range(scenario.agents):
        shown = stream(scenario.seed, "albums", index).sample(distinct, scenario.album)
        album = Album(scenario.album, tuple(shown))
        agents.append(AgentState(agent_id(index), people[index], album, History(scenario.history)))
    return tuple(agents) if scenario.arrives else infect(scenario, agents, viruses)


def infect(scenario: Scenario, before: Sequence[AgentState], viruses: Sequence[Virus]) -> tuple[AgentState, ...]:
    """The agents after the viruses came in, which take turns where there are several."""
    agents = list(before)
    rng = stream(scenario.seed, "infection")
    if scenario.placement == "first":
        chosen = list(range(scenario.infected))
    else:
        chosen = rng.sample(range(scenario.agents), scenario.infected)
    for order, index in enumerate(chosen):
        agent, virus = agents[index], viruses[order % len(viruses)].album_item
        slot = 0 if scenario.placement == "first" else rng.randrange(scenario.album)
        if scenario.placement == "first" or not len(agent.album):
            album = agent.album.add(virus)
        else:
            album = agent.album.replaced(slot % len(agent.album), virus)  # a defence may have shortened it
        agents[index] = replace(agent, album=album)
    return tuple(agents)
