"""The remembering chat model: computed once, sampled never, and whole after a crash."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from lazaretto.errors import StoreDamaged
from lazaretto.models.caches import CachedChat
from lazaretto.models.openai_chat import Endpoint, OpenAIChat
from lazaretto.models.protocol import ChatModel, Completion, Message, Request
from lazaretto.models.scripted import ScriptedChatModel


def ask(text: str, image: bytes = b"", temperature: float = 0.0, tokens: int = 9) -> Request:
    images = (image,) if image else ()
    return Request((Message("user", text, images),), max_tokens=tokens, temperature=temperature)


def counting() -> ScriptedChatModel:
    said = {"n": 0}

    def script(request: Request) -> str | Completion:
        said["n"] += 1
        if request.messages[0].text == "fail":
            return Completion("", fault="gone")
        return f"answer {said['n']}"

    return ScriptedChatModel(script)


def texts(chat: ChatModel, *requests: Request) -> list[str]:
    return [c.text for c in asyncio.run(chat.complete(requests))]


def test_equal_requests_are_computed_once_within_and_across_batches() -> None:
    memo = CachedChat(counting())
    assert texts(memo, ask("a"), ask("b"), ask("a")) == ["answer 1", "answer 2", "answer 1"]
    assert texts(memo, ask("b"), ask("c")) == ["answer 2", "answer 3"]
    assert memo.computed == 3
    assert texts(memo, ask("a"), ask("b")) == ["answer 1", "answer 2"]
    assert memo.chat.batches == [2, 1]  # type: ignore[attr-defined]


def test_sampled_answers_and_failures_are_asked_again() -> None:
    memo = CachedChat(counting())
    warm = ask("a", temperature=1.0)
    assert texts(memo, warm, warm) == ["answer 1", "answer 2"]
    assert texts(memo, warm) == ["answer 3"]
    assert [c.fault for c in asyncio.run(memo.complete([ask("fail"), ask("fail")]))] == ["gone", "gone"]
    assert texts(memo, ask("fail")) == [""]
    assert memo.computed == 5


def test_a_folder_keeps_answers_for_every_process_that_opens_it(tmp_path: Path) -> None:
    first, beside = CachedChat(counting(), tmp_path), CachedChat(counting(), tmp_path)
    assert texts(first, ask("a"), ask("b")) == ["answer 1", "answer 2"]
    assert texts(beside, ask("b"), ask("c"), ask("a")) == ["answer 2", "answer 1", "answer 1"]
    assert (first.computed, beside.computed) == (2, 1)
    assert texts(CachedChat(counting(), tmp_path), ask("c"), ask("fail")) == ["answer 1", ""]


def test_models_and_their_settings_never_share_answers(tmp_path: Path) -> None:
    first, second = (OpenAIChat(Endpoint("m", "http://127.0.0.1:9/v1", extra={"seed": n})) for n in (1, 2))
    assert first.name == second.name and first.source != second.source
    texts(CachedChat(counting(), tmp_path), ask("a"))
    other = CachedChat(ScriptedChatModel(lambda request: "mine", "another model"), tmp_path)
    assert texts(other, ask("a")) == ["mine"]


def test_a_file_that_is_no_store_is_named_with_the_way_out(tmp_path: Path) -> None:
    (tmp_path / "answers.db").write_bytes(b"not a database, but long enough to be taken for one" * 20)
    with pytest.raises(StoreDamaged, match=r"answers\.db.*delete it"):
        CachedChat(counting(), tmp_path)
