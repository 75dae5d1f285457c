"""The ready agent that is rehearsed: what it would look for, find and say, without changing anything."""

from __future__ import annotations

import pytest

from lazaretto.agents.album import note_item, picture_item
from lazaretto.agents.chat_agent import ChatAgent, as_album_item, own_persona
from lazaretto.agents.model import AgentModel
from lazaretto.agents.prompts import NOTE_ANSWER_TASK, NOTE_QUESTION_TASK, PLAN_TASK, persona_pool
from lazaretto.errors import ModelUnavailable
from lazaretto.models.caches import EmbeddingCache
from lazaretto.models.protocol import Completion, Request
from lazaretto.models.scripted import HashingEmbedder, ScriptedChatModel

ALBUM = {"it_1": "a grey stone", "it_2": "the red boat", "it_3": "an old tree"}


class Speaker:
    """Says by the task what it was asked for; keeps every request."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(self, request: Request) -> str:
        text = request.messages[-1].text
        self.asked.append("\n".join(message.text for message in request.messages))
        if PLAN_TASK in text:
            return "the red boat"
        return "Q" if NOTE_QUESTION_TASK in text else "A" if NOTE_ANSWER_TASK in text else "?"


def agent_of(script: object, **more: object) -> ChatAgent:
    chat = ScriptedChatModel(script)  # type: ignore[arg-type]
    return ChatAgent("ada", AgentModel(chat, EmbeddingCache(HashingEmbedder())), ALBUM, **more)  # type: ignore[arg-type]


async def test_it_plans_finds_asks_and_answers() -> None:
    said = Speaker()
    agent = agent_of(said)
    plan = await agent.plan("", [("hello", "good morning")])
    assert plan == "the red boat" and "good morning" in said.asked[-1]
    assert await agent.retrieve(plan, agent.album()) == "it_2"
    assert await agent.retrieve(plan, {}) == ""
    assert await agent.respond("", (), ALBUM["it_2"], "") == "Q"
    assert await agent.respond("", (), ALBUM["it_2"], "what do you see?") == "A"
    assert "what do you see?" in said.asked[-1] and agent.album() == ALBUM and agent.history() == ()


async def test_albums_and_histories_that_change_are_asked_for() -> None:
    album, history = dict(ALBUM), [("a", "b")]
    agent = ChatAgent("ada", agent_of(Speaker()).model, lambda: album, lambda: history)
    album["it_4"], history[0] = "a yellow door", ("c", "d")
    assert list(agent.album())[-1] == "it_4" and agent.history() == [("c", "d")]


async def test_a_given_persona_stands_in_the_place_of_its_own() -> None:
    said = Speaker()
    agent = agent_of(said)
    mine, other = own_persona("ada"), persona_pool(9, seed=3)[-1]
    assert agent.persona == mine == own_persona("ada") and other != mine
    await agent.respond("", (), "the red boat", "")
    await agent.respond(other.text(), (), "the red boat", "")
    assert mine["catchphrase"] in said.asked[0] and mine["catchphrase"] not in said.asked[1]
    assert other["catchphrase"] in said.asked[1]


async def test_a_model_that_fails_is_no_answer() -> None:
    agent = agent_of(lambda request: Completion("", fault="the endpoint is away"))
    with pytest.raises(ModelUnavailable, match="the endpoint is away"):
        await agent.plan("", ())
    with pytest.raises(ModelUnavailable, match="the endpoint is away"):
        await agent.respond("", (), "a grey stone", "hello")


def test_memories_become_what_an_album_keeps() -> None:
    kept = note_item("a note", "its title")
    assert as_album_item(kept, "another") is kept
    assert as_album_item("a note", "its title") == kept
    assert as_album_item(b"bytes", "a picture") == picture_item(b"bytes", "a picture")
