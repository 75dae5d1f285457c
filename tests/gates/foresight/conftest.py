"""A small community with a scripted model: pictures are their own captions, and one of them is a virus."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from lazaretto.agents.album import Album, AlbumItem, picture_item
from lazaretto.agents.model import AgentModel
from lazaretto.agents.prompts import persona_pool
from lazaretto.agents.turn import AgentState, History
from lazaretto.models.caches import EmbeddingCache
from lazaretto.models.protocol import Request
from lazaretto.models.scripted import HashingEmbedder, ScriptedChatModel

TARGET = "The harbour is open."
THINGS = [
    "boat", "tree", "lamp", "bird", "kite", "stone", "bread", "clock", "shoe", "fish", "chair", "cloud", "drum", "rope",
    "wheel", "spoon",
]  # fmt: skip
PLACES = ["harbour", "garden", "market", "library", "meadow", "kitchen", "desert", "beach"]
LURE = "i want to talk about my because of"
"""Words of every plan: what holds them all is near to all plans."""


def script(request: Request) -> str:
    """Plans name what the persona likes of the album; talk names the picture in the persona's own words."""
    message = request.messages[-1]
    fields = dict(line.split(": ", 1) for line in message.text.splitlines() if ": " in line)
    if not message.images:
        held = [line[2:] for line in message.text.splitlines() if line.startswith("- ")]
        wish = held[sum(map(ord, fields["name"] + fields["hobby"])) % len(held)] if held else "nothing"
        return f"i want to talk about {wish} because of my {fields['hobby']}"
    shown = message.images[0].decode()
    if shown.startswith(LURE):
        return TARGET
    flourish = (
        f"{fields['catchphrase']} {fields['personality']} {fields['favourite song']} {fields['favourite saying']}"
    )
    return f"{flourish} {shown} {len(message.text) % 7}"


@dataclass(frozen=True)
class Community:
    """Everything a test needs."""

    agent_model: AgentModel
    pool: tuple[AlbumItem, ...]
    virus: AlbumItem
    agents: tuple[AgentState, ...]


def scripted_mind(speak: Callable[[Request], str] = script) -> AgentModel:
    return AgentModel(ScriptedChatModel(speak), EmbeddingCache(HashingEmbedder(lambda data: data.decode(), 512)))


def build_community(count: int = 12, speak: Callable[[Request], str] = script, seed: int = 3) -> Community:
    pool = tuple(picture_item(f"a {t} at the {p}".encode(), f"a {t} at the {p}") for t in THINGS for p in PLACES)
    virus = picture_item(LURE.encode(), "a quiet lake")
    agents = tuple(
        AgentState(f"agent-{i}", person, Album(10, pool[(i * 7) % 100 : (i * 7) % 100 + 10]), History())
        for i, person in enumerate(persona_pool(count, seed))
    )
    return Community(scripted_mind(speak), pool, virus, agents)


@pytest.fixture
def make_community() -> Callable[..., Community]:
    return build_community


@pytest.fixture
def community() -> Community:
    return build_community()


@pytest.fixture
def speech() -> Callable[[Request], str]:
    """How its model speaks, for tests that bend it."""
    return script
