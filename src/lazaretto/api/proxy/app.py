"""The proxy: screens a model's input, and audits its answer before the agent acts on it.

A stream is held back until all of it is judged; comments keep the connection alive. Parts that the proxy does not
understand are not passed on: only known paths, errors judged like answers, messages written again from their reading.
"""

from __future__ import annotations

import asyncio
import logging
import posixpath
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any
from urllib.parse import unquote

import orjson

from lazaretto.api.access import Caller, Door, Key, KeyFile
from lazaretto.api.proxy.auditing import ConversationAuditor, Refused
from lazaretto.api.proxy.dialects import Chat, Dialect, Messages, Responses
from lazaretto.api.proxy.passages import Json
from lazaretto.api.proxy.streams import events_of, read_object, strings_of, texts_of_stream, written
from lazaretto.api.request_limits import RequestLimits
from lazaretto.errors import Forbidden, InputError, LazarettoError, MissingExtra
from lazaretto.guard import Guard
from lazaretto.identity import Identity, ProvedBy
from lazaretto.ingest.strings import BASE64, ID, cannot_carry_text

log = logging.getLogger("lazaretto")
AGENT, NAMESPACE = "x-lazaretto-agent", "x-lazaretto-namespace"
CONVERSATION, KEY = "x-lazaretto-conversation", "x-lazaretto-key"
USER_SOURCE = "x-lazaretto-user-source"
OPEN = "open"
"""Name of the principal of a proxy without keys."""
MOST_ANSWER_BYTES = 32_000_000
ALIVE_S = 5.0
"""Between two comments on a stream that is held back."""
_NOT_PASSED = frozenset(
    {
        "host", "content-length", "connection", "keep-alive", "transfer-encoding", "te", "trailer", "upgrade",
        "proxy-authorization", "proxy-connection", "accept-encoding", "expect", "x-original-url",
        "x-rewrite-url", "x-http-method-override", "x-method-override",
        AGENT, NAMESPACE, CONVERSATION, KEY, USER_SOURCE,
    }
)  # fmt: skip
_BACK = ("retry-after", "x-request-id", "request-id", "openai-processing-ms", "anthropic-version")
_DATE = re.compile(r"[A-Z][a-z]{2}, \d{2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}:\d{2} GMT")
DIALECTS: Mapping[str, Dialect] = MappingProxyType(
    {dialect.path: dialect for dialect in (Chat(), Responses(), Messages())}
)


@dataclass(frozen=True, slots=True)
class ProxySettings:
    """The model's address, and how long to wait for it."""

    upstream: str
    """Base URL without ``/v1``, for example ``https://api.openai.com``."""
    timeout_s: float = 600.0
    connect_s: float = 10.0
    agent: str = "agent"
    """The agent, if no header names one."""


@dataclass(frozen=True, slots=True)
class _Call:
    """One request on its way."""

    request: Request
    path: str
    """The path as it is sent on."""
    dialect: Dialect
    body: Json
    auditor: ConversationAuditor
    headers: dict[str, str]

    @property
    def content(self) -> bytes:
        return orjson.dumps(self.body)


class Proxy:
    """Judges requests and answers, for the guards of some namespaces."""

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
        """The caller who sent this key, for any namespace: the border asks this."""
        return next((found for door in self._doors.values() if (found := door.caller(authorization)) is not None), None)

    async def __call__(self, request: Request) -> Response:
        """One request of a crew."""
        path = guarded(request.url.path, request.method)
        if not path:
            if meant := passed(request.url.path, request.method):
                return await self._passed(request, meant)
            message = (
                f"{request.method} {request.url.path[:200]}: this proxy does not guard it; it knows {known_paths()}"
            )
            return _json(DIALECTS["/v1/chat/completions"].fault(message, "not_guarded"), 404)
        dialect = DIALECTS[path]
        try:
            return await self._guarded(request, path, dialect)
        except Forbidden as error:
            return _json(dialect.fault(str(error), "permission_error"), 403)
        except InputError as error:
            return _json(dialect.fault(str(error), "invalid_request_error"), 422)
        except LazarettoError as error:
            return _json(dialect.fault(str(error), "guard_unavailable"), 503)

    async def _guarded(self, request: Request, path: str, dialect: Dialect) -> Response:
        if not request.headers.get("content-type", "").lower().startswith("application/json"):
            return _json(dialect.fault("content-type is not application/json", "invalid_request_error"), 415)
        if not _silent_query(request):
            return _json(dialect.fault("the query says more than names and numbers", "invalid_request_error"), 400)
        body = read_object(await request.body())
        if body is None:
            raise InputError("body", "is not a JSON object", "Send what the endpoint expects")
        auditor = self._auditor(request, dialect)
        try:
            counts = await auditor.asked(body)
        except Refused as refused:
            return _json(dialect.fault(str(refused), "content_refused"), 400)
        headers = {"x-lazaretto-judged": str(counts.judged), "x-lazaretto-withheld": str(counts.withheld)}
        if counts.unread:
            headers["x-lazaretto-unread"] = ", ".join(counts.unread)
        call = _Call(request, path, dialect, body, auditor, headers)
        return await (self._stream(call) if body.get("stream") is True else self._whole(call))

    def _auditor(self, request: Request, dialect: Dialect) -> ConversationAuditor:
        """The auditor of the named namespace, if the key is for it and for the agent."""
        agent = request.headers.get(AGENT) or self._settings.agent
        named = request.headers.get(NAMESPACE, next(iter(self._guards)))
        if named not in self._guards:
            raise InputError(NAMESPACE, f"{named!r} is not served here", "Start the proxy with --also-namespace")
        caller = self._doors[named].caller(request.headers.get(KEY, ""))
        if caller is None:
            raise Forbidden(f"the key is not for the namespace {named!r}")
        who = Identity(ProvedBy.PROXY, OPEN if self.open else caller.name, caller.agents, taken=caller.taken)
        who.speak_as(agent)
        return ConversationAuditor(
            self._guards[named], dialect, agent, who.principal(agent), request.headers.get(CONVERSATION, ""),
            user_source=request.headers.get(USER_SOURCE, ""),
        )  # fmt: skip

    async def _whole(self, call: _Call) -> Response:
        known = strings_of(call.body)
        try:
            status, content, back = await self._ask(call.request, call.path, call.content)
        except _Away as away:
            return _json(call.dialect.fault(str(away), away.code), away.status)
        headers = {**back, **call.headers}
        if status != 200:
            return _json(await call.auditor.fault(content), status, headers)
        answer = read_object(content)
        if answer is None:  # it cannot be judged
            words = "the model's endpoint answered something else than JSON"
            return _json(call.dialect.fault(words, "bad_upstream"), 502)
        return _json(await call.auditor.answered(answer, known, call.body), 200, headers)

    async def _ask(self, request: Request, path: str, content: bytes) -> tuple[int, bytes, dict[str, str]]:
        """The whole answer, bounded: its status, its body, and headers that may be passed on."""
        async with self._upstream(request, path, content) as answer:
            return answer.status_code, await _read(answer), _kept(answer)

    @asynccontextmanager
    async def _upstream(self, request: Request, path: str, content: bytes) -> AsyncIterator[httpx.Response]:
        headers = [(name, value) for name, value in request.headers.items() if name not in _NOT_PASSED]
        query = f"?{request.url.query}" if request.url.query else ""
        try:
            async with self.client.stream(
                request.method, path + query, content=content, headers=[*headers, ("accept-encoding", "identity")]
            ) as answer:
                yield answer
        except httpx.TimeoutException:
            raise _Away("the model's endpoint took too long", 504) from None
        except httpx.HTTPError as error:
            raise _Away(f"the model's endpoint cannot be reached ({type(error).__name__})", 502) from None

    async def _passed(self, request: Request, path: str) -> Response:
        """Pass on a call whose answer an agent does not act on; of the answer, only parts that cannot carry text."""
        try:
            content = await request.body() if request.method == "POST" else b""
            status, answer, back = await self._ask(request, path, content)
        except _Away as away:
            return _json({"error": {"message": str(away), "type": "lazaretto", "code": away.code}}, away.status)
        body = read_object(answer)
        if body is None:
            return _json({"error": {"message": "the endpoint's answer is withheld", "type": "lazaretto"}}, 502)
        return _json(_silent(body), status, back)

    async def _stream(self, call: _Call) -> Response:
        known, sending = strings_of(call.body), self._upstream(call.request, call.path, call.content)
        try:
            answer = await sending.__aenter__()
        except _Away as away:
            return _json(call.dialect.fault(str(away), away.code), away.status)
        if answer.status_code != 200:
            try:
                content = await _read(answer)
            except _Away as away:
                return _json(call.dialect.fault(str(away), away.code), away.status)
            finally:
                await sending.__aexit__(None, None, None)
            fault = await call.auditor.fault(content)
            return _json(fault, answer.status_code, {**_kept(answer), **call.headers})

        async def held() -> AsyncIterator[bytes]:
            try:
                work = asyncio.ensure_future(_held_back(call, answer, known))
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

        return StreamingResponse(held(), 200, call.headers, media_type="text/event-stream")


class _Away(Exception):
    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status
        self.code = "upstream_timeout" if status == 504 else "upstream_unavailable"


async def _read(answer: httpx.Response) -> bytes:
    read = bytearray()
    async for part in answer.aiter_bytes():
        read += part
        if len(read) > MOST_ANSWER_BYTES:
            raise _Away("the model's endpoint answered too much", 502)
    return bytes(read)


async def _held_back(call: _Call, answer: httpx.Response, known: frozenset[str]) -> bytes:
    """A stream, read to its end and judged; then all of it, or a notice, or an error."""
    dialect = call.dialect
    try:
        raw = await _read(answer)
        events = events_of(raw)
        if events is None or not dialect.finished([event.data for event in events]):
            return dialect.fault_in_stream("the model's stream broke off; its text is withheld", "broken_stream")
        held = await call.auditor.streamed(
            texts_of_stream(events, dialect, known), [event.data for event in events], call.body
        )
        if held is not None:
            return dialect.as_stream(str(call.body.get("model", "")), held)
    except _Away as away:
        return dialect.fault_in_stream(str(away), away.code)
    except httpx.HTTPError as error:
        log.warning("a stream broke off: %s", type(error).__name__)
        return dialect.fault_in_stream("the model's stream broke off; its text is withheld", "broken_stream")
    except LazarettoError as error:
        return dialect.fault_in_stream(str(error), "guard_unavailable")
    return written(events, raw)


def _silent(value: Any) -> Any:
    """A value without the strings that could carry text."""
    if isinstance(value, dict):
        return {key: _silent(inner) for key, inner in value.items() if cannot_carry_text(key, ID) and _kept_of(inner)}
    return [_silent(inner) for inner in value if _kept_of(inner)] if isinstance(value, list) else value


def _kept_of(value: Any) -> bool:
    return not isinstance(value, str) or cannot_carry_text(value, ID) or cannot_carry_text(value, BASE64)


def _silent_query(request: Request) -> bool:
    """Whether a query carries no text: versions, ids and the like."""
    return all(
        cannot_carry_text(name, ID) and (not value or cannot_carry_text(value, ID))
        for name, value in request.query_params.multi_items()
    )


def _kept(answer: httpx.Response) -> dict[str, str]:
    """Headers of an answer that are passed on: ids, numbers and dates."""
    found = {name: answer.headers[name] for name in _BACK if name in answer.headers}
    return {name: value for name, value in found.items() if cannot_carry_text(value, ID) or _DATE.fullmatch(value)}


def _json(data: Json, status: int, headers: Mapping[str, str] | None = None) -> Response:
    return Response(orjson.dumps(data), status, headers, media_type="application/json")


def create_proxy(
    guards: Mapping[str, Guard],
    settings: ProxySettings,
    *,
    keys: Sequence[Key] | KeyFile = (),
    hosts: Sequence[str] = (),
    client: httpx.AsyncClient | None = None,
) -> Starlette:
    """The proxy as an application; the caller closes the guards.

    ``keys``: those of a key file; a crew sends one as ``x-lazaretto-key``, beside the headers its endpoint wants.
    """
    proxy = Proxy(guards, settings, keys, client)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        await proxy.client.aclose()

    app = Starlette(routes=[Route("/{path:path}", proxy.__call__, methods=["GET", "POST"])], lifespan=lifespan)
    limits = next(iter(guards.values())).policy.limits
    app.add_middleware(RequestLimits, door=proxy, limits=limits, hosts=tuple(hosts), key_header=KEY)
    return app


try:
    import httpx
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response, StreamingResponse
    from starlette.routing import Route
except ImportError:
    raise MissingExtra("the proxy", "proxy") from None

# The paths that the proxy knows. A request is sent on under the name in this table, never under its own.

GUARDED = ("/v1/chat/completions", "/v1/responses", "/v1/messages")
PASSED: Mapping[str, str] = MappingProxyType(
    {"/v1/models": "GET", "/v1/embeddings": "POST", "/v1/messages/count_tokens": "POST"}
)
"""Calls whose answers give an agent nothing to act on: only parts that cannot carry text are passed on."""
_ONE_MODEL = re.compile(r"/v1/models/[A-Za-z0-9][A-Za-z0-9._\-]*(?:[/:][A-Za-z0-9][A-Za-z0-9._\-]*){0,2}")
_MOST_DECODED = 5


def normal(path: str) -> str:
    """The path with escapes, dots and doubled slashes resolved; empty where that comes to no end."""
    for _ in range(_MOST_DECODED):
        plain = unquote(path).replace("\\", "/")
        if plain == path:
            made = posixpath.normpath("/" + re.sub(r"/+", "/", path).strip("/"))
            return made if made.isprintable() else ""
        path = plain
    return ""


def guarded(path: str, method: str) -> str:
    """The guarded path that is meant; empty where there is none."""
    meant = normal(path)
    return meant if method == "POST" and meant in GUARDED else ""


def passed(path: str, method: str) -> str:
    """The path that is meant and passed without judging; empty where there is none."""
    meant = normal(path)
    one_model = method == "GET" and _ONE_MODEL.fullmatch(meant)
    return meant if PASSED.get(meant) == method or one_model else ""


def known_paths() -> str:
    """All paths, for an error message."""
    return ", ".join((*(f"POST {path}" for path in GUARDED), *(f"{method} {path}" for path, method in PASSED.items())))
