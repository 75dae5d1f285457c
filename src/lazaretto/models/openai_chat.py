"""Any OpenAI-compatible endpoint as a chat model, through the official ``openai`` SDK.

The SDK builds, signs and sends requests; retries, pacing and the circuit breaker are ours, so that a request that
fails becomes a ``Completion`` with a fault instead of an exception, and every token the server reports is counted.
With the lean transport, once the SDK has made a request that worked, later first attempts repeat the head it wrote with
another body; every retry goes through the SDK again (``decisions/0013-lean-transport.md`` has the figures).
"""

from __future__ import annotations

import asyncio
import base64
import os
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import orjson

from lazaretto.errors import InputError, MissingExtra
from lazaretto.models.protocol import Completion, Message, Request

if TYPE_CHECKING:
    from lazaretto.models.lean_transport import LeanTransport

_JSON = {"content-type": "application/json"}
_RETRY_STATUS = frozenset({408, 409, 425, 429})
_MEDIA = ((b"\x89PNG", "image/png"), (b"\xff\xd8", "image/jpeg"), (b"GIF8", "image/gif"), (b"RIFF", "image/webp"))


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a model is, and how patiently it is asked."""

    model: str
    base_url: str = "https://api.openai.com/v1"
    api_key_env: str = "OPENAI_API_KEY"
    """Name of the environment variable that holds the key; keys never stand in files. Unset: 'none' is sent (local
    servers).
    """
    timeout: float = 60.0
    """Seconds for one attempt."""
    retries: int = 3
    """Attempts after the first."""
    backoff: float = 0.5
    """Seconds before the first retry; doubles, with jitter, up to ``backoff_cap``. A server's retry-after wins."""
    backoff_cap: float = 20.0
    concurrency: int = 64
    """Requests under way at once."""
    breaker_faults: int = 20
    """Consecutive failed attempts after which the circuit opens."""
    breaker_pause: float = 15.0
    """Seconds an open circuit refuses before it lets one request try."""
    structured: str = "json_schema"
    """json_schema | json_object | off: how a request's schema is passed on. Falls back by itself when the server
    refuses.
    """
    transport: str = "lean"
    """lean | stock: stock knows proxies and HTTP/2."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Further keys of the request body, such as seed or reasoning_effort."""

    def __post_init__(self) -> None:
        if self.structured not in ("json_schema", "json_object", "off"):
            raise InputError("structured", f"{self.structured!r} is unknown", "Use json_schema, json_object or off")
        if self.transport not in ("lean", "stock"):
            raise InputError("transport", f"{self.transport!r} is unknown", "Use lean or stock")
        if self.concurrency < 1 or self.retries < 0 or self.timeout <= 0:
            raise InputError("endpoint", "concurrency, retries and timeout must be positive", "See docs/moderation.md")


class Breaker:
    """Stops asking an endpoint that keeps failing, and lets one request try again after a pause."""

    def __init__(self, faults: int, pause: float) -> None:
        self._limit, self._pause = faults, pause
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
        """What became of an attempt."""
        self._trying = False
        if worked:
            self._failed, self._opened = 0, None
            return
        self._failed += 1
        if self._failed >= self._limit:
            self._opened = time.monotonic()


class _Failure(Exception):
    """One attempt that failed; ``counts`` says whether it speaks against the endpoint (and so for the breaker)."""

    def __init__(self, problem: str, retry: bool, wait: float | None = None, counts: bool = True) -> None:
        super().__init__(problem)
        self.problem, self.retry, self.wait, self.counts = problem, retry, wait, counts


class OpenAIChat:
    """A chat model behind an OpenAI-compatible endpoint."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self.name = endpoint.model
        self._structured = endpoint.structured
        self._length_key = "max_tokens"
        self._breaker = Breaker(endpoint.breaker_faults, endpoint.breaker_pause)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._client: Any = None
        self._lean: LeanTransport | None = None
        self._slots = asyncio.Semaphore(endpoint.concurrency)

    async def complete(self, requests: Sequence[Request]) -> list[Completion]:
        """One completion per request, in order; failures are faults of their own request."""
        self._open()
        if len(requests) == 1:
            return [await self._one(requests[0])]
        return list(await asyncio.gather(*(self._one(request) for request in requests)))

    async def aclose(self) -> None:
        """Close the connections."""
        if self._client is not None:
            await self._client.close()
            self._client = None

    def _open(self) -> None:
        loop = asyncio.get_running_loop()
        if self._client is not None and self._loop is loop:
            return
        try:
            import httpx2
            import openai
        except ImportError:
            raise MissingExtra("the OpenAI-compatible client", "openai") from None
        limit, place = self.endpoint.timeout, self.endpoint
        self._lean = None
        if place.transport == "lean":
            from lazaretto.models.lean_transport import LeanTransport

            self._lean = LeanTransport(idle=place.concurrency)
            http = httpx2.AsyncClient(transport=self._lean, timeout=limit)
        else:
            size = httpx2.Limits(max_connections=place.concurrency, max_keepalive_connections=place.concurrency)
            http = httpx2.AsyncClient(limits=size, timeout=limit)
        key = os.environ.get(place.api_key_env) or "none"
        self._client = openai.AsyncOpenAI(
            base_url=place.base_url, api_key=key, max_retries=0, timeout=limit, http_client=http
        )
        self._plain, self._wire_error = httpx2.Response, httpx2.TransportError
        self._status_error, self._sdk_error = openai.APIStatusError, openai.APIError
        self._loop = loop
        self._slots = asyncio.Semaphore(place.concurrency)

    async def _one(self, request: Request) -> Completion:
        started = time.perf_counter()
        problem = "never asked"
        async with self._slots:
            for attempt in range(self.endpoint.retries + 1):
                if self._breaker.refuses():
                    problem = f"the circuit to {self.endpoint.base_url} is open after repeated failures"
                    break
                try:
                    answer = await self._attempt(request, started, attempt == 0)
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
            return min(asked, self.endpoint.backoff_cap)
        ceiling = min(self.endpoint.backoff_cap, self.endpoint.backoff * 2.0**attempt)
        return ceiling * (0.5 + random.random() / 2.0)

    async def _attempt(self, request: Request, started: float, first: bool) -> Completion:
        body = orjson.dumps(self._body(request))
        if first and self._lean is not None and self._lean.primed:
            kind, content = await self._again(self._lean, body)
        else:
            kind, content = await self._through_sdk(body)
        text, usage = _read(kind, content)
        details = usage.get("prompt_tokens_details")
        return Completion(
            text,
            _count(usage.get("prompt_tokens")),
            _count(usage.get("completion_tokens")),
            _count(details.get("cached_tokens") if isinstance(details, dict) else 0),
            (time.perf_counter() - started) * 1000.0,
        )

    async def _through_sdk(self, body: bytes) -> tuple[str, bytes]:
        """(content type, body) of a good answer."""
        try:
            response = await self._client.post(
                "/chat/completions", cast_to=self._plain, content=body, options={"headers": _JSON}
            )
        except self._status_error as error:
            raise self._refused(int(error.status_code), str(error)[:300], error.response.headers) from None
        except self._sdk_error as error:
            cause = error.__cause__
            raise _Failure(f"{error}" + (f" ({cause})" if cause else ""), retry=True) from None
        return response.headers.get("content-type", ""), response.content

    async def _again(self, lean: LeanTransport, body: bytes) -> tuple[str, bytes]:
        """The same, on the head that the SDK wrote before."""
        try:
            status, pairs, content = await lean.repeat(body, self.endpoint.timeout)
        except self._wire_error as error:
            raise _Failure(f"{type(error).__name__}: {error}", retry=True) from None
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in pairs}
        if status >= 300:
            raise self._refused(status, f"status {status}: {content[:300].decode('utf-8', 'replace')}", headers)
        return headers.get("content-type", ""), content

    def _refused(self, status: int, words: str, headers: Mapping[str, str]) -> _Failure:
        """What a refusal means: wait and retry, say it otherwise, or give up."""
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
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        value = headers.get(name)
        if value is not None:
            try:
                return max(0.0, float(value) * unit)
            except ValueError:
                continue  # an HTTP date: our own back-off is near enough
    return None
