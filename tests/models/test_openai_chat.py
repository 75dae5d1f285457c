"""The OpenAI-compatible client against an endpoint that behaves, and one that does not."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from lazaretto.errors import InputError
from lazaretto.models.openai_chat import Breaker, Endpoint, OpenAIChat
from lazaretto.models.protocol import Message, Request

pytest.importorskip("openai", reason="needs the openai extra")

ASK = Request((Message("system", "s"), Message("user", "You are the Strict debater.")), schema={"type": "object"})
FAST = {"backoff": 0.005, "backoff_cap": 0.02, "timeout": 0.5}
Answer = tuple[str, bytes, str]


async def _ask(url: str, model: str = "stub", request: Request = ASK, **options: Any) -> Any:
    chat = OpenAIChat(Endpoint(model, url, **{**FAST, **options}))
    try:
        return (await chat.complete([request]))[0]
    finally:
        await chat.aclose()


@pytest.mark.parametrize("transport", ["lean", "stock"])
async def test_answers_and_tokens_are_those_of_the_server(stub_url: str, transport: str) -> None:
    answer = await _ask(stub_url, transport=transport)
    assert answer.fault == ""
    assert json.loads(answer.text)["risk_score"] == 0.7
    assert answer.completion_tokens == len(answer.text) // 4
    assert answer.prompt_tokens > 0 and answer.cached_tokens == answer.prompt_tokens // 2
    assert answer.ms > 0


async def test_a_repeated_head_asks_the_same_as_the_sdk_does(stub_url: str) -> None:
    chat = OpenAIChat(Endpoint("stub", stub_url))
    first, second = [(await chat.complete([ASK]))[0] for _ in range(2)]
    await chat.aclose()
    assert (first.text, first.prompt_tokens) == (second.text, second.prompt_tokens)


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("stub-429", "slow down"),
        ("stub-500", "broken"),
        ("stub-garbage", "not a chat completion"),
        ("stub-half", "before its answer was complete"),
        ("stub-drop", "before its answer was complete"),
        ("stub-empty", "empty answer"),
        ("stub-nothing", "time"),
    ],
)
async def test_every_misbehaviour_ends_as_a_fault_that_says_what_happened(
    stub_url: str, model: str, words: str
) -> None:
    answer = await _ask(stub_url, model, retries=1, timeout=0.3)
    assert answer.text == ""
    assert words in answer.fault.lower()


@pytest.mark.parametrize(
    "model", ["stub-429-once", "stub-500-once", "stub-garbage-once", "stub-half-once", "stub-nothing-once"]
)
async def test_a_single_mishap_is_retried(stub_url: str, model: str) -> None:
    request = Request((Message("user", f"You are the Strict debater. {model}"),))
    answer = await _ask(stub_url, model, request, retries=2, timeout=0.3)
    assert answer.fault == ""
    assert json.loads(answer.text)["risk_score"] == 0.7


async def test_one_bad_request_does_not_take_others_down(stub_url: str) -> None:
    good, bad = OpenAIChat(Endpoint("stub", stub_url)), OpenAIChat(Endpoint("stub-500", stub_url, **FAST, retries=0))
    answers = await asyncio.gather(good.complete([ASK, ASK, ASK]), bad.complete([ASK]))
    await asyncio.gather(good.aclose(), bad.aclose())
    assert [a.fault for a in answers[0]] == ["", "", ""]
    assert answers[1][0].fault


async def test_nobody_listening_is_a_fault() -> None:
    answer = await _ask("http://127.0.0.1:9/v1", retries=1)
    assert "cannot reach" in answer.fault


async def test_the_circuit_opens_and_tries_again() -> None:
    breaker = Breaker(2, 0.05)
    breaker.report(False)
    assert not breaker.refuses()
    breaker.report(False)
    assert breaker.refuses()
    await asyncio.sleep(0.06)
    assert not breaker.refuses()  # one is let through
    assert breaker.refuses()  # and only one
    breaker.report(True)
    assert not breaker.refuses()


async def test_an_open_circuit_answers_at_once(stub_url: str) -> None:
    chat = OpenAIChat(Endpoint("stub-500", stub_url, **FAST, retries=0, breaker_faults=2, breaker_pause=60.0))
    faults = [(await chat.complete([ASK]))[0].fault for _ in range(4)]
    await chat.aclose()
    assert ["circuit" in f for f in faults] == [False, False, True, True]


async def _serve(answer: Callable[[str, bytes], Answer]) -> tuple[asyncio.Server, str, list[dict[str, Any]]]:
    """A tiny server whose answers a test writes."""
    seen: list[dict[str, Any]] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                length = int(head.lower().split("content-length: ")[1].split("\r\n")[0])
                body = await reader.readexactly(length)
                seen.append({"head": head, "body": json.loads(body)})
                status, content, headers = answer(head, body)
                writer.write(f"HTTP/1.1 {status}\r\n{headers}".encode() + b"\r\n" + content)
                await writer.drain()
                if "close" in headers or ("chunked" not in headers and "content-length" not in headers):
                    break
        except asyncio.IncompleteReadError:
            pass
        writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    return server, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", seen


def _body(text: str = "hello") -> bytes:
    usage = {"prompt_tokens": 7, "completion_tokens": 3}
    return json.dumps({"choices": [{"message": {"content": text}}], "usage": usage}).encode()


def _sized(body: bytes, status: str = "200 OK") -> Answer:
    return status, body, f"content-type: application/json\r\ncontent-length: {len(body)}\r\n"


async def _talk(
    answer: Callable[[str, bytes], Answer], request: Request = ASK, **options: Any
) -> tuple[Any, list[dict[str, Any]]]:
    server, url, seen = await _serve(answer)
    async with server:
        return await _ask(url, "m", request, **options), seen


async def test_chunked_and_close_delimited_answers_are_read() -> None:
    whole = _body("héllo")
    chunks = b"".join(f"{len(p):x}\r\n".encode() + p + b"\r\n" for p in (whole[:11], whole[11:])) + b"0\r\n\r\n"
    chunked, _ = await _talk(lambda h, b: ("200 OK", chunks, "transfer-encoding: chunked\r\n"))
    closed, _ = await _talk(lambda h, b: ("200 OK", whole, "connection: close\r\n"))
    assert chunked.text == closed.text == "héllo"
    assert (chunked.prompt_tokens, chunked.completion_tokens) == (7, 3)


async def test_a_forced_stream_counts_only_when_it_came_to_its_end() -> None:
    piece = (
        b'data: {"choices":[{"delta":{"content":"hel"}}]}\n\n'
        b'data: {"choices":[{"delta":{"content":"lo"}}],"usage":{"prompt_tokens":5}}\n\n'
    )
    head = "content-type: text/event-stream\r\nconnection: close\r\n"
    good, _ = await _talk(lambda h, b: ("200 OK", piece + b"data: [DONE]\n\n", head))
    half, _ = await _talk(lambda h, b: ("200 OK", piece, head), retries=1)
    assert (good.text, good.prompt_tokens) == ("hello", 5)
    assert "broke off" in half.fault


async def test_the_key_comes_from_the_environment_and_pictures_travel_as_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_KEY", "sk-test")
    request = Request((Message("user", "look", (b"\x89PNG....",)),))
    answer, seen = await _talk(lambda h, b: _sized(_body()), request, api_key_env="TEST_KEY", extra={"seed": 7})
    assert answer.text == "hello"
    assert "authorization: bearer sk-test" in seen[0]["head"].lower()
    parts = seen[0]["body"]["messages"][0]["content"]
    assert parts[1]["image_url"]["url"].startswith("data:image/png;base64,")
    assert seen[0]["body"]["seed"] == 7


async def test_a_server_without_structured_outputs_is_asked_more_plainly() -> None:
    def answer(head: str, body: bytes) -> Answer:
        form = json.loads(body).get("response_format", {}).get("type")
        if form is not None:
            return _sized(b'{"error":{"message":"response_format is not supported"}}', "400 Bad Request")
        return _sized(_body())

    got, seen = await _talk(answer)
    assert got.text == "hello"
    assert [s["body"].get("response_format", {}).get("type") for s in seen] == ["json_schema", "json_object", None]


async def test_a_wrong_key_is_not_retried() -> None:
    got, seen = await _talk(lambda h, b: _sized(b'{"error":{"message":"bad key"}}', "401 Unauthorized"))
    assert "bad key" in got.fault and len(seen) == 1


@pytest.mark.parametrize("content", [b"garbage\r\n\r\n", b"HTTP/9.9 hi\r\n\r\n", b"\x00" * 100_000])
async def test_something_that_is_not_http_is_a_fault(content: bytes) -> None:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(content)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    async with server:
        answer = await _ask(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", retries=1)
    assert answer.fault and not answer.text


async def test_a_dropped_idle_connection_costs_nothing() -> None:
    served = 0

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal served
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        await reader.readexactly(int(head.lower().split("content-length: ")[1].split("\r\n")[0]))
        served += 1
        status, body, headers = _sized(_body())
        writer.write(f"HTTP/1.1 {status}\r\n{headers}\r\n".encode() + body)
        await writer.drain()
        writer.close()  # keep-alive promised, connection dropped

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    async with server:
        chat = OpenAIChat(Endpoint("m", url, retries=0))
        texts = [(await chat.complete([ASK]))[0].text for _ in range(3)]
        await chat.aclose()
    assert texts == ["hello"] * 3 and served == 3


async def test_no_more_requests_are_under_way_than_allowed(stub_url: str) -> None:
    most = now = 0

    def counting(method: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def wrapped(*args: Any) -> Any:
            nonlocal most, now
            now += 1
            most = max(most, now)
            try:
                return await method(*args)
            finally:
                now -= 1

        return wrapped

    chat = OpenAIChat(Endpoint("stub", stub_url, concurrency=3))
    chat._attempt = counting(chat._attempt)  # type: ignore[method-assign]
    await chat.complete([ASK] * 20)
    await chat.aclose()
    assert most == 3


@pytest.mark.parametrize(
    "wrong", [{"structured": "yaml"}, {"transport": "carrier pigeon"}, {"concurrency": 0}, {"timeout": 0}]
)
def test_wrong_settings_are_named(wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        Endpoint("m", **wrong)
