"""Conversations in step: one batch for all that wait, the same batches every time, nobody left waiting."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from lazaretto.models.protocol import Completion, Message, Request
from lazaretto.models.scripted import ScriptedChatModel
from lazaretto_lab.models.request_batching import RequestBatcher


def ask(text: str) -> Request:
    return Request((Message("user", text),), max_tokens=5)


def echo() -> ScriptedChatModel:
    return ScriptedChatModel(lambda request: request.messages[0].text.upper())


async def talk(chorus: RequestBatcher, name: str, turns: int) -> list[str]:
    said = []
    for turn in range(turns):
        (answer,) = await chorus.complete([ask(f"{name}{turn}")])
        said.append(answer.text)
    return said


async def test_each_part_hears_its_own_answers_and_the_model_sees_one_batch_per_step() -> None:
    model = echo()
    chorus = RequestBatcher(model)
    told = await chorus.run_together([lambda n=n, t=t: talk(chorus, n, t) for n, t in (("a", 3), ("b", 1), ("c", 2))])
    assert told == [["A0", "A1", "A2"], ["B0"], ["C0", "C1"]]
    assert model.batches == [3, 2, 1]


async def test_alone_it_is_the_model_itself() -> None:
    model = echo()
    assert (await RequestBatcher(model).complete([ask("x"), ask("y")]))[1].text == "Y"
    assert await RequestBatcher(model).run_together([]) == [] and model.batches == [2]


async def test_a_part_that_fails_lets_the_others_end() -> None:
    chorus = RequestBatcher(echo())
    ended = []

    async def fails() -> None:
        await talk(chorus, "f", 1)
        raise ValueError("lost the thread")

    async def goes_on() -> None:
        ended.append(await talk(chorus, "g", 3))

    with pytest.raises(ValueError, match="lost the thread"):
        await asyncio.wait_for(chorus.run_together([fails, goes_on]), 5)
    assert ended == [["G0", "G1", "G2"]]


async def test_a_model_that_raises_raises_in_every_part() -> None:
    class Broken:
        name = "broken"

        async def complete(self, requests: Sequence[Request]) -> list[Completion]:
            raise RuntimeError("no model")

    chorus = RequestBatcher(Broken())
    with pytest.raises(RuntimeError, match="no model"):
        await asyncio.wait_for(chorus.run_together([lambda: talk(chorus, "a", 1), lambda: talk(chorus, "b", 1)]), 5)
