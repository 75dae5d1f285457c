"""Any OpenAI-compatible endpoint as a chat model, through the official ``openai`` client over aiohttp.

Retries, pacing and the circuit breaker are ours: they also answer what no HTTP client sees, such as an empty answer or
a server without structured outputs. A failed request becomes a ``Completion`` with a fault, and every reported token is
counted. After a first success, first attempts send the client's headers again with another body; retries go through the
whole client (``decisions/models.md#0023``).
"""

from __future__ import annotations

import asyncio
import base64
import email.utils
import importlib
import os
import random
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import orjson
from pydantic import Field

from lazaretto.errors import InputError, MissingExtra
from lazaretto.models.protocol import Completion, Message, Request
from lazaretto.policy import CLOSED


class CircuitBreaker:
    """Opens after so many failures in a row, and lets one request try again after a pause."""

    def __init__(self, faults: int, pause_s: float) -> None:
        self._limit, self._pause = faults, pause_s
        self._failed = 0
        self._opened: float | None = None
        self._trying = False

    def refuses(self) -> bool:
        """Whether to fail at once. After the pause one caller is let through to find out."""
        if self._opened is None:
            return False
        if time.monotonic() - self._opened < self._pause or self._trying:
            return True
        self._trying = True
        return False

    def report(self, worked: bool) -> None:
        """Record whether an attempt worked."""
        self._trying = False
        if worked:
            self._failed, self._opened = 0, None
            return
        self._failed += 1
        if self._failed >= self._limit:
            self._opened = time.monotonic()


_RETRY_STATUS = frozenset({408, 409, 425, 429})
_MEDIA = ((b"\x89PNG", "image/png"), (b"\xff\xd8", "image/jpeg"), (b"GIF8", "image/gif"), (b"RIFF", "image/webp"))
LONGEST_WAIT_S = 20.0
"""The longest pause between two attempts, even where the server asks for more."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The address of a model, with timeouts and retries. A policy uses the same names."""

    __pydantic_config__ = CLOSED
    model: Annotated[str, Field(description="Name the endpoint knows, or a folder or GGUF file for a local model.")]
    base_url: Annotated[str, Field(description="Any OpenAI-compatible endpoint.")] = "https://api.openai.com/v1"
    api_key_env: Annotated[str, Field(description="Environment variable that holds the key.")] = "OPENAI_API_KEY"
    """The key itself never stands in a file. Unset: 'none' is sent (local servers)."""
    timeout_s: Annotated[float, Field(gt=0, description="Seconds for one attempt.")] = 60.0
    retries: Annotated[int, Field(ge=0, le=20, description="Attempts after the first.")] = 3
    backoff_s: Annotated[float, Field(ge=0, description="Seconds before the first retry; doubles.")] = 0.5
    """With jitter, up to ``LONGEST_WAIT_S``. A server's retry-after wins."""
    concurrency: Annotated[int, Field(ge=1, description="Requests under way at once.")] = 64
    breaker_faults: Annotated[int, Field(ge=1, description="Failures in a row that open the circuit.")] = 20
    breaker_pause_s: Annotated[float, Field(ge=0, description="Seconds until an open circuit is tried again.")] = 15.0
    structured: Annotated[
        Literal["json_schema", "json_object", "off"], Field(description="How the answer's schema is passed on.")
    ] = "json_schema"
    """Falls back by itself when the server refuses."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Further keys of the request body, such as seed or reasoning_effort."""

    def __post_init__(self) -> None:
        if self.structured not in ("json_schema", "json_object", "off"):
            raise InputError("structured", f"{self.structured!r} is unknown", "Use json_schema, json_object or off")
        if self.concurrency < 1 or self.retries < 0 or self.timeout_s <= 0:
            raise InputError("endpoint", "concurrency, retries and timeout must be positive", "See docs/moderation.md")


class _Failure(Exception):
    """One attempt that failed; ``counts``: whether the breaker counts it against the endpoint."""

    def __init__(self, problem: str, retry: bool, wait: float | None = None, counts: bool = True) -> None:
        super().__init__(problem)
        self.problem, self.retry, self.wait, self.counts = problem, retry, wait, counts


@dataclass(slots=True)
class _Connections:
    """The client of one event loop. Its sockets belong to that loop: no other may use them."""

    http: Any
    client: Any
    slots: asyncio.Semaphore
    worked: dict[str, Any] | None = None
    """Address and headers of a request that was answered."""
    held: AsyncGenerator[None] | None = None


class OpenAIChat:
    """A chat model behind an OpenAI-compatible endpoint. Threads and event loops may share it: each loop has
    connections, and ``concurrency`` of them, of its own; the circuit breaker is one for all.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self.name = endpoint.model
        self.source = f"{endpoint.model} {endpoint.base_url} {dict(endpoint.extra)}"
        """All of the endpoint that decides an answer: a cache keeps answers by it."""
        self._structured = endpoint.structured
        self._length_key = "max_tokens"
        self._breaker = CircuitBreaker(endpoint.breaker_faults, endpoint.breaker_pause_s)
        self._open: dict[asyncio.AbstractEventLoop, _Connections] = {}

    async def complete(self, requests: Sequence[Request]) -> list[Completion]:
        """One completion per request, in order; failures are faults of their own request."""
        place = self._open.get(asyncio.get_running_loop()) or await self._connect()
        if len(requests) == 1:
            return [await self._one(requests[0], place)]
        return list(await asyncio.gather(*(self._one(request, place) for request in requests)))

    async def aclose(self) -> None:
        """Close the connections, those of other event loops too. The end of ``asyncio.run`` closes its own."""
        here = asyncio.get_running_loop()
        for loop in list(self._open):
            place = self._open.pop(loop, None)
            if place is None or place.held is None:
                continue
            if loop is here:
                await place.held.aclose()
            elif loop.is_running():
                asyncio.run_coroutine_threadsafe(_end(place.held), loop)

    async def _connect(self) -> _Connections:
        """A client for the event loop that runs here."""
        try:
            import aiohttp
            import openai
        except ImportError:
            raise MissingExtra("the OpenAI-compatible client", "openai") from None
        # from its third version on the client stands on httpx2, before that on httpx: the names are the same
        self._wire: Any = importlib.import_module("httpx2" if int(openai.__version__.split(".")[0]) >= 3 else "httpx")
        self._status_error, self._client_error = openai.APIStatusError, openai.APIError
        self._wire_errors = (self._wire.TransportError, aiohttp.ClientError, TimeoutError)
        self._dropped = (aiohttp.ServerDisconnectedError, ConnectionResetError, BrokenPipeError)
        for ended in [loop for loop in list(self._open) if loop.is_closed()]:
            self._open.pop(ended, None)
        loop, at = asyncio.get_running_loop(), self.endpoint
        http = openai.DefaultAioHttpClient(timeout=at.timeout_s)
        key = os.environ.get(at.api_key_env) or "none"
        client = openai.AsyncOpenAI(base_url=at.base_url, api_key=key, max_retries=0, http_client=http)
        place = self._open[loop] = _Connections(http, client, asyncio.Semaphore(at.concurrency))
        place.held = self._held(client, loop)
        await anext(place.held)
        return place

    async def _held(self, client: Any, loop: asyncio.AbstractEventLoop) -> AsyncGenerator[None]:
        """Keeps a client open for as long as its event loop lives: asyncio ends open generators before it closes a
        loop.
        """
        try:
            yield
        finally:
            self._open.pop(loop, None)
            await client.close()

    async def _one(self, request: Request, place: _Connections) -> Completion:
        started = time.perf_counter()
        problem = "never asked"
        async with place.slots:
            for attempt in range(self.endpoint.retries + 1):
                if self._breaker.refuses():
                    problem = f"the circuit to {self.endpoint.base_url} is open after repeated failures"
                    break
                try:
                    answer = await self._attempt(request, started, attempt == 0, place)
                    self._breaker.report(True)
                    return answer
                except _Failure as failure:
                    problem = failure.problem
                    self._breaker.report(not failure.counts)
                    if not failure.retry or attempt == self.endpoint.retries:
                        break
                    await asyncio.sleep(self._pause(attempt, failure.wait))
        return Completion("", ms=(time.perf_counter() - started) * 1000.0, fault=problem)

    def _pause(self, attempt: int, asked: float | None) -> float:
        if asked is not None:
            return min(asked, LONGEST_WAIT_S)
        ceiling = min(LONGEST_WAIT_S, self.endpoint.backoff_s * 2.0**attempt)
        return ceiling * (0.5 + random.random() / 2.0)

    async def _attempt(self, request: Request, started: float, first: bool, place: _Connections) -> Completion:
        body = orjson.dumps(self._body(request))
        try:
            async with asyncio.timeout(self.endpoint.timeout_s):  # the client's own limit is per packet
                worked = place.worked if first else None
                response = await (self._ask(place, body) if worked is None else self._again(place, worked, body))
        except self._wire_errors as error:
            raise self._broken(error, f"{type(error).__name__}: {str(error) or 'no answer in time'}") from None
        text, usage = _read(response.headers.get("content-type", ""), response.content)
        details = usage.get("prompt_tokens_details")
        return Completion(
            text,
            _count(usage.get("prompt_tokens")),
            _count(usage.get("completion_tokens")),
            _count(details.get("cached_tokens") if isinstance(details, dict) else 0),
            (time.perf_counter() - started) * 1000.0,
        )

    async def _ask(self, place: _Connections, body: bytes) -> Any:
        """A good response, through the whole client."""
        try:
            response = await place.client.post("/chat/completions", cast_to=self._wire.Response, content=body)
        except self._status_error as error:
            raise self._refused(int(error.status_code), str(error)[:300], error.response.headers) from None
        except self._client_error as error:
            raise self._broken(error, f"{error} ({error.__cause__})" if error.__cause__ else f"{error}") from None
        if not response.history:  # an answer that came without a redirect: its request can be repeated
            request = response.request
            fixed = [p for p in request.headers.raw if not p[0].lower().startswith((b"content-length", b"x-stainless"))]
            headers = self._wire.Headers(fixed)  # without the length, and without the client's description of itself
            place.worked = {"url": request.url, "headers": headers}
        return response

    async def _again(self, place: _Connections, worked: dict[str, Any], body: bytes) -> Any:
        """The same with the headers of a request that worked: the client's share of the cost is writing them."""
        response = await place.http.send(self._wire.Request("POST", **worked, content=body))
        if response.status_code >= 300:
            words = f"status {response.status_code}: {response.text[:300]}"
            raise self._refused(response.status_code, words, response.headers)
        return response

    def _broken(self, error: BaseException | None, words: str) -> _Failure:
        """An exchange that came to no answer. A kept connection that the server had dropped needs no pause."""
        while error is not None and not isinstance(error, self._dropped):
            error = error.__cause__
        return _Failure(words, True, None if error is None else 0.0)

    def _refused(self, status: int, words: str, headers: Mapping[str, str]) -> _Failure:
        """The failure for a refusal: retry after a pause, retry in another form, or give up."""
        if status in _RETRY_STATUS or status >= 500:
            return _Failure(words, True, _retry_after(headers), counts=status != 429)
        if status in (400, 422) and "response_format" in words and self._structured != "off":
            self._structured = "json_object" if self._structured == "json_schema" else "off"
            return _Failure(words, True, 0.0, counts=False)
        if status == 400 and "max_completion_tokens" in words and self._length_key == "max_tokens":
            self._length_key = "max_completion_tokens"
            return _Failure(words, True, 0.0, counts=False)
        return _Failure(words, False)

    def _body(self, request: Request) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": self.endpoint.model,
            "messages": [_message(message) for message in request.messages],
            self._length_key: request.max_tokens,
            "temperature": request.temperature,
            **self.endpoint.extra,
        }
        if request.schema is not None and self._structured == "json_schema":
            form = {"name": "answer", "strict": True, "schema": request.schema}
            body["response_format"] = {"type": "json_schema", "json_schema": form}
        elif request.schema is not None and self._structured == "json_object":
            body["response_format"] = {"type": "json_object"}
        return body


def _message(message: Message) -> dict[str, Any]:
    if not message.images:
        return {"role": message.role, "content": message.text}
    parts: list[dict[str, Any]] = [{"type": "text", "text": message.text}]
    for image in message.images:
        media = next((name for start, name in _MEDIA if image.startswith(start)), "image/png")
        url = f"data:{media};base64,{base64.b64encode(image).decode()}"
        parts.append({"type": "image_url", "image_url": {"url": url}})
    return {"role": message.role, "content": parts}


def _read(kind: str, content: bytes) -> tuple[str, dict[str, Any]]:
    """Text and usage of an answer; raises when it is not one."""
    if kind.startswith("text/event-stream"):
        return _read_stream(content.decode("utf-8", "replace"))
    try:
        body = orjson.loads(content)
        choice = body["choices"][0]
        text = choice["message"]["content"]
    except (orjson.JSONDecodeError, KeyError, IndexError, TypeError):
        raise _Failure("the server's answer is not a chat completion", retry=True) from None
    if not isinstance(text, str) or not text:
        refusal = choice["message"].get("refusal") if isinstance(choice["message"], dict) else None
        raise _Failure(f"empty answer{f' (refusal: {refusal})' if refusal else ''}", retry=True, counts=False)
    usage = body.get("usage")
    return text, usage if isinstance(usage, dict) else {}


def _read_stream(text: str) -> tuple[str, dict[str, Any]]:
    """An answer from a server that streams whether asked to or not; it counts only when it came to its end."""
    parts: list[str] = []
    usage: dict[str, Any] = {}
    done = False
    for line in text.splitlines():
        if not line.startswith("data:"):
            continue
        data = line[5:].strip()
        if data == "[DONE]":
            done = True
            break
        try:
            piece = orjson.loads(data)
            usage = piece.get("usage") or usage
            parts.extend(c["delta"].get("content") or "" for c in piece.get("choices", ()))
        except (orjson.JSONDecodeError, KeyError, AttributeError):
            raise _Failure("the stream holds something that is not a completion", retry=True) from None
    if not done:
        raise _Failure("the stream broke off before its end", retry=True)
    return "".join(parts), usage


def _count(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else 0


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that the server asks us to wait: a number, or a date."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            return max(0.0, float(headers[name]) * unit)
        except (KeyError, ValueError):
            continue
    try:
        return max(0.0, email.utils.parsedate_to_datetime(headers["retry-after"]).timestamp() - time.time())
    except (KeyError, ValueError):
        return None


async def _end(held: AsyncGenerator[None]) -> None:
    await held.aclose()
