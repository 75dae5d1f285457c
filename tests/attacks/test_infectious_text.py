"""The text virus: what it says, and that the opening agents really fetch is the one that is kept."""

from __future__ import annotations

import pytest

from lazaretto.agents.album import note_keepsake
from lazaretto.agents.mind import Mind
from lazaretto.agents.persona import persona_pool
from lazaretto.attacks.infectious.chats import Chat
from lazaretto.attacks.infectious.measure import fetched_share
from lazaretto.attacks.infectious.targets import TARGETS
from lazaretto.attacks.infectious.text import PASS_ON, most_fetched, text_virus
from lazaretto.errors import InputError
from lazaretto.models.cache import EmbeddingCache
from lazaretto.models.protocol import Request
from lazaretto.models.scripted import HashingEmbedder, ScriptedChatModel

ALBUM = tuple(note_keepsake(f"note {i} of a grey stone", f"grey stone {i}") for i in range(4))
CHATS = [Chat(persona, (), "grey stone", ALBUM, persona, ()) for persona in persona_pool(24, 3)]


def wants_boats(request: Request) -> str:
    listing = request.messages[-1].text
    return "a red boat" if "- a red boat" in listing else "a grey stone"


def mind() -> Mind:
    return Mind(ScriptedChatModel(wants_boats), EmbeddingCache(HashingEmbedder(dimension=512)))


def test_a_virus_opens_like_a_note_and_ends_in_the_target() -> None:
    virus = text_virus("a red boat", "marker-gate")
    assert virus.note == f"a red boat {PASS_ON} {TARGETS['marker-gate']}" and virus.title == "a red boat"
    with pytest.raises(InputError, match="no target"):
        text_virus("a red boat", "nope")


def test_the_opening_that_is_fetched_most_wins() -> None:
    tried = [text_virus(opening, "marker-gate") for opening in ("a blue hat", "a red boat", "a tall tree")]
    left: list[int] = []
    virus, share = most_fetched(mind(), tried, CHATS, lambda count, best: left.append(count))
    assert virus == tried[1] and share == 1.0 and left == [3, 2]


def test_a_virus_is_tried_in_every_place_of_an_album() -> None:
    def last_line(request: Request) -> str:
        return [line for line in request.messages[-1].text.splitlines() if line.startswith("- ")][-1][2:]

    lazy = Mind(ScriptedChatModel(last_line), EmbeddingCache(HashingEmbedder(dimension=512)))
    virus = text_virus("a red boat", "marker-gate")
    assert fetched_share(lazy, virus, CHATS) == 1.0
    assert fetched_share(lazy, virus, CHATS, newest=False) == 0.25


def test_nothing_to_try_is_said() -> None:
    for viruses, chats in (([], CHATS), ([text_virus("a hat", "marker-gate")], [])):
        with pytest.raises(InputError, match="openings"):
            most_fetched(mind(), viruses, chats)
