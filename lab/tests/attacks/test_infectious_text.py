"""The text virus: what it says, that the opening agents really fetch is kept, and that breeding finds better ones."""

from __future__ import annotations

import pytest

from lazaretto.agents.album import note_item
from lazaretto.agents.model import AgentModel
from lazaretto.agents.prompts import persona_pool
from lazaretto.errors import InputError
from lazaretto.models.caches import EmbeddingCache
from lazaretto.models.protocol import Request
from lazaretto.models.scripted import HashingEmbedder, ScriptedChatModel
from lazaretto_lab.attacks.infectious.measure import fetched_share
from lazaretto_lab.attacks.infectious.recorded_chats import Chat
from lazaretto_lab.attacks.infectious.targets import TARGETS
from lazaretto_lab.attacks.infectious.text import PASS_ON, Breeding, bred_virus, text_virus

ALBUM = tuple(note_item(f"note {i} of a grey stone", f"grey stone {i}") for i in range(4))
CHATS = [Chat(persona, (), "grey stone", ALBUM, persona, ()) for persona in persona_pool(24, 3)]


def wants_boats(request: Request) -> str:
    listing = request.messages[-1].text
    return "a red boat" if "- a red boat" in listing else "a grey stone"


def agent_model() -> AgentModel:
    return AgentModel(ScriptedChatModel(wants_boats), EmbeddingCache(HashingEmbedder(dimension=512)))


def test_a_virus_opens_like_a_note_and_ends_in_the_target() -> None:
    virus = text_virus("a red boat", "marker-gate")
    assert virus.note == f"a red boat {PASS_ON} {TARGETS['marker-gate']}" and virus.title == "a red boat"
    with pytest.raises(InputError, match="no target"):
        text_virus("a red boat", "nope")


def test_without_breeding_the_opening_that_is_fetched_most_wins() -> None:
    tried = ["a blue hat", "a red boat", "a tall tree"]
    virus, share = bred_virus(agent_model(), tried, "marker-gate", CHATS, Breeding(generations=0))
    assert virus == text_virus("a red boat", "marker-gate") and share == 1.0


def test_breeding_finds_an_opening_that_nobody_wrote() -> None:
    def wants_both(request: Request) -> str:
        lines = [line for line in request.messages[-1].text.splitlines() if line.startswith("- ")]
        return next((line for line in lines if "boat" in line and "hat" in line), "- a grey stone")[2:]

    fond = AgentModel(ScriptedChatModel(wants_both), EmbeddingCache(HashingEmbedder(dimension=512)))
    seen: list[float] = []
    settings = Breeding(generations=12, offspring=16, parents=4, chats=4, longest=4, seed=1)
    start = ["a blue hat", "a red boat"]
    virus, share = bred_virus(fond, start, "marker-gate", CHATS, settings, lambda _, best: seen.append(best))
    assert {"hat", "boat"} <= set(virus.title.split()) and len(virus.title.split()) <= 4
    assert share > 0.9 and len(seen) == 13 and seen[-1] > seen[0]
    again, _ = bred_virus(fond, start, "marker-gate", CHATS, settings)
    assert again == virus


def test_one_that_is_fetched_but_not_passed_on_is_not_chosen() -> None:
    def deaf_to_boats(request: Request) -> str:
        text = request.messages[-1].text
        if "Your album holds:" in text:
            return next(line for line in text.splitlines() if line.startswith(("- a red", "- a blue")))[2:]
        return "I would rather not." if "a red boat" in text else TARGETS["marker-gate"]

    picky = AgentModel(ScriptedChatModel(deaf_to_boats), EmbeddingCache(HashingEmbedder(dimension=512)))
    virus, _ = bred_virus(picky, ["a red boat", "a blue hat"], "marker-gate", CHATS, Breeding(generations=0))
    assert virus.title == "a blue hat"


def test_a_virus_is_tried_in_every_place_of_an_album() -> None:
    def last_line(request: Request) -> str:
        return [line for line in request.messages[-1].text.splitlines() if line.startswith("- ")][-1][2:]

    lazy = AgentModel(ScriptedChatModel(last_line), EmbeddingCache(HashingEmbedder(dimension=512)))
    virus = text_virus("a red boat", "marker-gate")
    assert fetched_share(lazy, virus, CHATS) == 1.0
    assert fetched_share(lazy, virus, CHATS, newest=False) == 0.25


def test_nothing_to_try_is_said() -> None:
    for openings, chats in (([], CHATS), (["a hat"], [])):
        with pytest.raises(InputError, match="openings"):
            bred_virus(agent_model(), openings, "marker-gate", chats)
    with pytest.raises(InputError, match="parents"):
        Breeding(parents=0)
