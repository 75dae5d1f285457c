"""The proxy itself: what a model is about to read is screened, what it answers is audited before the agent acts on it.

A stream is held back until it is whole and judged: no word of an answer that is refused reaches the agent. Meanwhile
comments keep the connection alive. What this proxy does not understand it does not pass on.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import orjson

from lazaretto.api.access import Caller, Door, Key, KeyFile
from lazaretto.api.border import Border
from lazaretto.api.conversations import Judged, Passage, judge
from lazaretto.api.proxy.dialects import DIALECTS, Dialect
from lazaretto.api.proxy.passages import Json, Slot
from lazaretto.errors import Forbidden, InputError, LazarettoError, MissingExtra
from lazaretto.guard import Guard
from lazaretto.identity import Identity, Kind
from lazaretto.types import Channel, SourceClass

try:
    import httpx
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response, StreamingResponse
    from starlette.routing import Route
except ImportError:
    raise MissingExtra("the proxy", "proxy") from None

log = logging.getLogger("lazaretto")
AGENT, NAMESPACE = "x-lazaretto-agent", "x-lazaretto-namespace"
CONVERSATION, KEY = "x-lazaretto-conversation", "x-lazaretto-key"
OPEN = "open"
"""How the principal of a proxy without keys is called."""
PASSED = ("/v1/models", "/v1/embeddings", "/v1/messages/count_tokens")
"""What is passed through as it is: it gives an agent nothing to act on."""
MOST_ANSWER_BYTES = 32_000_000
ALIVE_S = 5.0
"""Between two comments on a stream that is held back."""
_NOT_PASSED = frozenset(
    {
        "host", "content-length", "connection", "keep-alive", "transfer-encoding", "te", "trailer", "upgrade",
        "proxy-authorization", "proxy-connection", "accept-encoding", "expect", AGENT, NAMESPACE, CONVERSATION, KEY,
    }
)  # fmt: skip
_BACK = ("content-type", "retry-after", "x-request-id", "request-id", "openai-processing-ms", "anthropic-version")


@dataclass(frozen=True, slots=True)
class ProxySettings:
    """Where the model is, and how patiently it is waited for."""

    upstream: str
    """Base URL without ``/v1``, for example ``https://api.openai.com``."""
    timeout_s: float = 600.0
    connect_s: float = 10.0
    agent: str = "agent"
    """Who speaks where no header says it."""


class Proxy:
    """Judges what passes, for the guards of some namespaces."""

    def __init__(
        self,
        guards: Mapping[str, Guard],
        settings: ProxySettings,
        keys: Sequence[Key] | KeyFile = (),
        client: httpx.AsyncClient | None = None,
    ) -> None:
        """The first guard's namespace is meant where no header names one."""
        self._guards, self._settings = dict(guards), settings
        self._doors = {name: Door(name, None, keys) for name in self._guards}
        self.open = all(door.open for door in self._doors.values())
        waits = httpx.Timeout(settings.timeout_s, connect=settings.connect_s)
        self.client = client or httpx.AsyncClient(
            base_url=settings.upstream.rstrip("/"), timeout=waits, follow_redirects=False, trust_env=False
        )

    def caller(self, authorization: str) -> Caller | None:
        """Who sent this key, to whichever namespace: what the border asks."""
        return next((found for door in self._doors.values() if (found := door.caller(authorization)) is not None), None)

    async def __call__(self, request: Request) -> Response:
        """One request of a crew."""
        path = request.url.path
        dialect = DIALECTS.get(path)
        if dialect is None or request.method != "POST":
            if path.startswith(PASSED):
                return await self._passed(request)
            return _json(
                DIALECTS["/v1/chat/completions"].fault(f"{path}: this proxy does not guard it", "not_guarded"), 404
            )
        try:
            return await self._guarded(request, dialect)
        except Forbidden as error:
            return _json(dialect.fault(str(error), "permission_error"), 403)
        except InputError as error:
            return _json(dialect.fault(str(error), "invalid_request_error"), 422)
        except LazarettoError as error:
            return _json(dialect.fault(str(error), "guard_unavailable"), 503)

    async def _guarded(self, request: Request, dialect: Dialect) -> Response:
        agent = request.headers.get(AGENT) or self._settings.agent
        guard, principal = self._guard(request, agent)
        conversation = request.headers.get(CONVERSATION, "")
        try:
            body = orjson.loads(await request.body())
        except orjson.JSONDecodeError:
            body = None
        if not isinstance(body, dict):
            raise InputError("body", "is not a JSON object", "Send what the endpoint expects")

        async def look(slots: Sequence[Slot]) -> list[Judged | None]:
            return await _judged(guard, slots, agent, conversation, principal)

        slots = list(dialect.asked(body))
        verdicts = await look(slots)
        withheld = 0
        for slot, verdict in zip(slots, verdicts, strict=True):
            if verdict is not None and verdict.allowed:
                continue
            if verdict is not None and verdict.replacement is None and slot.fatal:
                said = f"refused by {verdict.rule} ({verdict.item}): {verdict.reason}"
                return _json(dialect.fault(said, "content_refused"), 400)
            slot.put(_instead(verdict))
            withheld += 1
        headers = {"x-lazaretto-judged": str(len(slots)), "x-lazaretto-withheld": str(withheld)}
        if body.get("stream") is True:
            return await self._stream(request, dialect, body, look, headers)
        return await self._whole(request, dialect, body, look, headers)

    def _guard(self, request: Request, agent: str) -> tuple[Guard, str]:
        """The guard of the namespace that is named, if the key is for it and for the agent; and the principal."""
        named = request.headers.get(NAMESPACE, next(iter(self._guards)))
        if named not in self._guards:
            raise InputError(NAMESPACE, f"{named!r} is not served here", "Start the proxy with --also-namespace")
        caller = self._doors[named].caller(request.headers.get(KEY, ""))
        if caller is None:
            raise Forbidden(f"the key is not for the namespace {named!r}")
        who = Identity(Kind.PROXY, OPEN if self.open else caller.name, caller.agents, taken=caller.taken)
        who.speak_as(agent)
        return self._guards[named], who.principal(agent)

    async def _whole(
        self, request: Request, dialect: Dialect, body: Json, look: Look, headers: dict[str, str]
    ) -> Response:
        try:
            answer = await self._ask(request, orjson.dumps(body))
        except _Away as away:
            return _json(dialect.fault(str(away), away.code), away.status)
        said = _object(answer.content)
        if answer.status_code != 200 or said is None:
            if answer.status_code == 200:  # it cannot be judged
                return _json(
                    dialect.fault("the model's endpoint answered something else than JSON", "bad_upstream"), 502
                )
            return Response(answer.content, answer.status_code, {**_kept(answer), **headers})
        said = await _audited(dialect, said, look)
        return Response(orjson.dumps(said), 200, {**_kept(answer), **headers})

    async def _ask(self, request: Request, content: bytes) -> httpx.Response:
        """The whole answer, bounded."""
        async with self._upstream(request, content) as answer:
            read = bytearray()
            async for part in answer.aiter_bytes():
                read += part
                if len(read) > MOST_ANSWER_BYTES:
                    raise _Away("the model's endpoint answered too much", 502)
            headers = {name: value for name, value in answer.headers.items() if name in _BACK}
            return httpx.Response(answer.status_code, content=bytes(read), headers=headers)

    @asynccontextmanager
    async def _upstream(self, request: Request, content: bytes) -> AsyncIterator[httpx.Response]:
        headers = [(name, value) for name, value in request.headers.items() if name not in _NOT_PASSED]
        query = f"?{request.url.query}" if request.url.query else ""
        address = request.url.path + query
        try:
            async with self.client.stream(
                request.method, address, content=content, headers=[*headers, ("accept-encoding", "identity")]
            ) as answer:
                yield answer
        except httpx.TimeoutException:
            raise _Away("the model's endpoint took too long", 504) from None
        except httpx.HTTPError as error:
            raise _Away(f"the model's endpoint cannot be reached ({type(error).__name__})", 502) from None

    async def _passed(self, request: Request) -> Response:
        try:
            answer = await self._ask(request, await request.body())
        except _Away as away:
            return _json({"error": {"message": str(away), "type": "lazaretto", "code": away.code}}, away.status)
        return Response(answer.content, answer.status_code, _kept(answer))

    async def _stream(
        self, request: Request, dialect: Dialect, body: Json, look: Look, headers: dict[str, str]
    ) -> Response:
        sending = self._upstream(request, orjson.dumps(body))
        try:
            answer = await sending.__aenter__()
        except _Away as away:
            return _json(dialect.fault(str(away), away.code), away.status)
        if answer.status_code != 200:
            try:
                content = (await answer.aread())[:MOST_ANSWER_BYTES]
            finally:
                await sending.__aexit__(None, None, None)
            return Response(content, answer.status_code, {**_kept(answer), **headers})

        async def held() -> AsyncIterator[bytes]:
            try:
                work = asyncio.ensure_future(_held_back(dialect, answer, look, str(body.get("model", ""))))
                try:
                    while not work.done():
                        await asyncio.wait((work,), timeout=ALIVE_S)
                        if not work.done():
                            yield b": held until it is judged\n\n"
                    yield work.result()
                finally:
                    work.cancel()
            finally:
                await sending.__aexit__(None, None, None)  # also when the crew hangs up

        return StreamingResponse(held(), 200, headers, media_type="text/event-stream")


Look = Callable[[Sequence[Slot]], Any]


class _Away(Exception):
    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status
        self.code = "upstream_timeout" if status == 504 else "upstream_unavailable"


async def _judged(
    guard: Guard, slots: Sequence[Slot], agent: str, conversation: str, principal: str
) -> list[Judged | None]:
    """What becomes of each passage; None for what cannot be judged."""

    async def one(slot: Slot) -> Judged | None:
        if slot.passage is None:
            return None
        return await judge(guard, slot.passage, agent=agent, conversation=conversation, principal=principal)

    return list(await asyncio.gather(*map(one, slots)))


def _instead(verdict: Judged | None) -> str:
    if verdict is None:
        return "[withheld by Lazaretto: it could not be judged]"
    return verdict.replacement or f"[withheld by Lazaretto: {verdict.rule}, {verdict.item}]"


async def _audited(dialect: Dialect, said: Json, look: Look) -> Json:
    """The answer as the agent may have it."""
    slots = list(dialect.answered(said))
    for slot, verdict in zip(slots, await look(slots), strict=True):
        if verdict is not None and verdict.allowed:
            continue
        if slot.fatal or verdict is None or verdict.replacement is None:
            return dialect.withhold(said, _instead(None if verdict is None or slot.fatal else verdict))
        slot.put(verdict.replacement)
    return said


async def _held_back(dialect: Dialect, answer: httpx.Response, look: Look, model: str) -> bytes:
    """A stream, read to its end and judged; then all of it, or a notice, or an error."""
    raw = bytearray()
    try:
        async for part in answer.aiter_bytes():
            raw += part
            if len(raw) > MOST_ANSWER_BYTES:
                return dialect.fault_in_stream("the model's endpoint answered too much", "upstream_unavailable")
        events = _events(bytes(raw))
        if events is None or not dialect.finished(events):
            return dialect.fault_in_stream(
                "the model's stream broke off; what it had said is withheld", "broken_stream"
            )
        texts = dialect.streamed(events)
        slots = [
            Slot(Passage(one, channel=Channel.MESSAGE, source=SourceClass.MODEL_INFERENCE), lambda _: None)
            for one in texts
            if one.strip()
        ]
        for verdict in await look(slots):
            if not verdict.allowed:
                return dialect.as_stream(model, _instead(verdict))
    except (httpx.HTTPError, _Away) as error:
        log.warning("a stream broke off: %s", type(error).__name__)
        return dialect.fault_in_stream("the model's stream broke off; what it had said is withheld", "broken_stream")
    except LazarettoError as error:
        return dialect.fault_in_stream(str(error), "guard_unavailable")
    return bytes(raw)


def _events(raw: bytes) -> list[Json] | None:
    """The data of every event; None where one of them cannot be read, and so cannot be judged."""
    found = []
    for block in raw.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n\n"):
        lines = [line[5:].removeprefix(b" ") for line in block.split(b"\n") if line.startswith(b"data:")]
        data = b"\n".join(lines)
        if not data or data == b"[DONE]":
            continue
        event = _object(data)
        if event is None:
            return None
        found.append(event)
    return found


def _object(data: bytes) -> Json | None:
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError:
        return None
    return value if isinstance(value, dict) else None


def _kept(answer: httpx.Response) -> dict[str, str]:
    return {name: value for name, value in answer.headers.items() if name in _BACK}


def _json(data: Json, status: int) -> Response:
    return Response(orjson.dumps(data), status, media_type="application/json")


def create_proxy(
    guards: Mapping[str, Guard],
    settings: ProxySettings,
    *,
    keys: Sequence[Key] | KeyFile = (),
    hosts: Sequence[str] = (),
    client: httpx.AsyncClient | None = None,
) -> Starlette:
    """The proxy as an application; the caller closes the guards.

    ``keys``: those of a key file; a crew sends one as ``x-lazaretto-key``, beside what its endpoint wants.
    """
    proxy = Proxy(guards, settings, keys, client)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        await proxy.client.aclose()

    app = Starlette(routes=[Route("/{path:path}", proxy.__call__, methods=["GET", "POST"])], lifespan=lifespan)
    limits = next(iter(guards.values())).policy.limits
    app.add_middleware(Border, door=proxy, limits=limits, hosts=tuple(hosts), key_header=KEY)
    return app
