"""The remembering chat model: computed once, sampled never, and whole after a crash."""

from __future__ import annotations

import asyncio
from pathlib import Path

from lazaretto.models.memo import MemoChat, request_key
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
    memo = MemoChat(counting())
    assert texts(memo, ask("a"), ask("b"), ask("a")) == ["answer 1", "answer 2", "answer 1"]
    assert texts(memo, ask("b"), ask("c")) == ["answer 2", "answer 3"]
    assert memo.computed == 3
    assert texts(memo, ask("a"), ask("b")) == ["answer 1", "answer 2"]
    assert memo.chat.batches == [2, 1]  # type: ignore[attr-defined]


def test_everything_that_decides_an_answer_is_part_of_its_name() -> None:
    different = [ask("a"), ask("b"), ask("a", b"x"), ask("a", b"y"), ask("a", tokens=8), ask("a", temperature=0.5)]
    assert len({request_key(request) for request in different}) == len(different)
    assert request_key(ask("a", b"x")) == request_key(ask("a", b"x"))


def test_sampled_answers_and_failures_are_asked_again() -> None:
    memo = MemoChat(counting())
    warm = ask("a", temperature=1.0)
    assert texts(memo, warm, warm) == ["answer 1", "answer 2"]
    assert texts(memo, warm) == ["answer 3"]
    assert [c.fault for c in asyncio.run(memo.complete([ask("fail"), ask("fail")]))] == ["gone", "gone"]
    assert texts(memo, ask("fail")) == [""]
    assert memo.computed == 5


def test_a_folder_keeps_answers_and_a_torn_batch_is_dropped_whole(tmp_path: Path) -> None:
    first = MemoChat(counting(), tmp_path)
    texts(first, ask("a"), ask("b"))
    texts(first, ask("c"), ask("d"))
    second = MemoChat(counting(), tmp_path)
    assert texts(second, ask("d"), ask("a")) == ["answer 4", "answer 1"] and second.computed == 4
    file = tmp_path / "completions.jsonl"
    file.write_bytes(file.read_bytes()[:-5])
    torn = MemoChat(counting(), tmp_path)
    assert torn.computed == 2
    assert texts(torn, ask("a"), ask("c"), ask("d")) == ["answer 1", "answer 1", "answer 2"]
    assert MemoChat(counting(), tmp_path).computed == 4


def test_answers_known_before_are_used_and_not_taken_over(tmp_path: Path) -> None:
    first = MemoChat(counting())
    texts(first, ask("a"), ask("b"))
    second = MemoChat(counting(), tmp_path, before=first.known)
    assert texts(second, ask("b"), ask("new"), ask("a")) == ["answer 2", "answer 1", "answer 1"]
    assert second.computed == 1 and list(second.known) == [request_key(ask("new"))]
    assert texts(MemoChat(counting(), tmp_path), ask("b")) == ["answer 1"]
