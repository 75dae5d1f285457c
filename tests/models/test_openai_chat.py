"""The OpenAI-compatible client against an endpoint that behaves, and one that does not."""

from __future__ import annotations

import asyncio
import contextlib
import email.utils
import gc
import json
import threading
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from lazaretto.errors import InputError
from lazaretto.models.openai_chat import CircuitBreaker, Endpoint, OpenAIChat, _retry_after
from lazaretto.models.protocol import Message, Request

pytest.importorskip("openai", reason="needs the openai extra")

ASK = Request((Message("system", "s"), Message("user", "You are the Strict debater.")), schema={"type": "object"})
FAST = {"backoff_s": 0.005, "timeout_s": 0.5}
Answer = tuple[str, bytes, str]


async def _ask(url: str, model: str = "stub", request: Request = ASK, **options: Any) -> Any:
    chat = OpenAIChat(Endpoint(model, url, **{**FAST, **options}))
    try:
        return (await chat.complete([request]))[0]
    finally:
        await chat.aclose()


async def test_answers_and_tokens_are_those_of_the_server(stub_url: str) -> None:
    answer = await _ask(stub_url)
    assert answer.fault == ""
    assert json.loads(answer.text)["risk_score"] == 0.7
    assert answer.completion_tokens == len(answer.text) // 4
    assert answer.prompt_tokens > 0 and answer.cached_tokens == answer.prompt_tokens // 2
    assert answer.ms > 0


async def test_repeated_headers_ask_the_same_as_the_client_does() -> None:
    server, url, seen = await _serve(lambda h, b: _sized(_body()))
    async with server:
        chat = OpenAIChat(Endpoint("m", url))
        first, second = [(await chat.complete([ASK]))[0] for _ in range(2)]
        await chat.aclose()
    assert (first.text, first.prompt_tokens) == (second.text, second.prompt_tokens) == ("hello", 7)
    heads = [[line for line in s["head"].lower().splitlines() if not line.startswith("x-stainless")] for s in seen]
    assert sorted(heads[0]) == sorted(heads[1])  # but for what the client tells of itself
    assert seen[0]["body"] == seen[1]["body"]


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("stub-429", "slow down"),
        ("stub-500", "broken"),
        ("stub-garbage", "not a chat completion"),
        ("stub-half", "not completed"),
        ("stub-drop", "disconnected"),
        ("stub-empty", "empty answer"),
        ("stub-nothing", "time"),
    ],
)
async def test_every_misbehaviour_ends_as_a_fault_that_says_what_happened(
    stub_url: str, model: str, words: str
) -> None:
    answer = await _ask(stub_url, model, retries=1, timeout_s=0.3)
    assert answer.text == ""
    assert words in answer.fault.lower()


@pytest.mark.parametrize(
    "model", ["stub-429-once", "stub-500-once", "stub-garbage-once", "stub-half-once", "stub-nothing-once"]
)
async def test_a_single_mishap_is_retried(stub_url: str, model: str) -> None:
    request = Request((Message("user", f"You are the Strict debater. {model}"),))
    answer = await _ask(stub_url, model, request, retries=2, timeout_s=0.3)
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
    assert "cannot connect" in answer.fault.lower()


async def test_the_circuit_opens_and_tries_again() -> None:
    breaker = CircuitBreaker(2, 0.05)
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
    chat = OpenAIChat(Endpoint("stub-500", stub_url, **FAST, retries=0, breaker_faults=2, breaker_pause_s=60.0))
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


@pytest.mark.parametrize("repeated", [False, True], ids=["through the client", "repeated headers"])
@pytest.mark.parametrize("header", ["retry-after-ms: 150", "retry-after: 0.15"])
async def test_the_pause_that_a_server_asks_for_is_kept(header: str, repeated: bool) -> None:
    times: list[float] = []

    def answer(head: str, body: bytes) -> Answer:
        times.append(time.perf_counter())
        if len(times) == 1 + repeated:
            status, content, headers = _sized(b'{"error":{"message":"slow down"}}', "429 Too Many Requests")
            return status, content, f"{headers}{header}\r\n"
        return _sized(_body())

    server, url, _ = await _serve(answer)
    async with server:
        chat = OpenAIChat(Endpoint("m", url, **FAST))
        answers = [(await chat.complete([ASK]))[0] for _ in range(1 + repeated)]
        await chat.aclose()
    assert [a.fault for a in answers] == [""] * len(answers)
    assert times[-1] - times[-2] >= 0.15


def test_a_date_to_retry_after_is_understood() -> None:
    date = email.utils.format_datetime(datetime.now(UTC) + timedelta(seconds=9))
    assert 7 < (_retry_after({"retry-after": date}) or 0) <= 9
    assert _retry_after({"retry-after": "soon"}) is None


async def test_an_answer_that_drips_is_cut_off_in_time() -> None:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n")
        with contextlib.suppress(ConnectionError):
            while True:  # each byte comes well within any limit per packet
                writer.write(b" ")
                await writer.drain()
                await asyncio.sleep(0.02)

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    async with server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        answer = await _ask(url, retries=1, timeout_s=0.2)
    assert "time" in answer.fault and answer.ms < 5_000


async def test_a_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    server, url, seen = await _serve(lambda h, b: _sized(_body()))
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HTTP_PROXY", url.removesuffix("/v1"))
    async with server:
        chat = OpenAIChat(Endpoint("m", "http://models.invalid/v1", **FAST))
        answers = [(await chat.complete([ASK]))[0] for _ in range(2)]
        await chat.aclose()
    assert [a.text for a in answers] == ["hello", "hello"]
    assert all(s["head"].startswith("POST http://models.invalid/v1/chat/completions") for s in seen)


def test_one_model_serves_several_event_loops_and_leaves_nothing_open(
    stub_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    chat = OpenAIChat(Endpoint("stub", stub_url))
    for _ in range(2):
        assert asyncio.run(chat.complete([ASK]))[0].fault == ""
    del chat
    gc.collect()
    assert "Unclosed" not in caplog.text


def test_one_model_serves_event_loops_that_run_at_once(stub_url: str, caplog: pytest.LogCaptureFixture) -> None:
    """Each loop used to take the client away from the others: of 22 calls 3 were answered, and a thread hung."""
    chat = OpenAIChat(Endpoint("stub", stub_url, timeout_s=20.0, retries=0))
    answers: list[Any] = []

    async def ask() -> None:
        for _ in range(3):
            answers.extend(await chat.complete([ASK, ASK]))

    threads = [threading.Thread(target=asyncio.run, args=(ask(),), daemon=True) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    assert [a.fault for a in answers] == [""] * 48
    assert not chat._open, "a loop that ended leaves nothing behind"
    gc.collect()
    assert "Unclosed" not in caplog.text


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


async def test_a_dropped_idle_connection_costs_no_pause() -> None:
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
        chat = OpenAIChat(Endpoint("m", url, retries=1, backoff_s=20.0))
        answers = [(await chat.complete([ASK]))[0] for _ in range(3)]
        await chat.aclose()
    assert [a.text for a in answers] == ["hello"] * 3 and served == 3
    assert max(a.ms for a in answers) < 5_000  # no pause before the second attempt


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


@pytest.mark.parametrize("wrong", [{"structured": "yaml"}, {"concurrency": 0}, {"retries": -1}, {"timeout_s": 0}])
def test_wrong_settings_are_named(wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        Endpoint("m", **wrong)
