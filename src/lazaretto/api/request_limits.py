"""The border of the server: requests that break a limit are refused before they are read. Plain ASGI.

A body is read here whole, within limits of size and time, and of memory for all requests together.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from typing import Any, Protocol

import orjson

from lazaretto.api.access import Caller
from lazaretto.policy import Limits

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

OPEN_PATHS = ("/", "/healthz", "/openapi.json", "/docs")
"""Paths that need no key: a load balancer and a browser have none."""
CONSOLE = "/console"
"""Path of the console; it asks for a key itself, on a page."""
OPEN_PREFIXES = ("/docs/", f"{CONSOLE}/")
LOCAL_HOSTS = ("localhost", "127.0.0.1", "::1")
BODY_SECONDS = 20.0
"""How long a caller may take to send its request."""
MOST_SENDERS = 10_000
"""Senders whose rate is remembered, the latest of them."""
BODIES_AT_ONCE = 4
"""Bodies of the largest size at once; smaller ones share the same room."""


def largest_body(limits: Limits) -> int:
    """The longest request within the policy's limits: a picture in base64, a text as JSON escapes it."""
    return limits.max_image_bytes * 4 // 3 + limits.max_text_bytes * 6 + limits.max_fields_bytes + 64_000


_READING = ("GET", "HEAD", "OPTIONS")
_OTHER_SITES = (b"cross-site", b"same-site")
"""Marks of browsers on a request from a page of another site, or of another port of this machine."""


class Doorkeeper(Protocol):
    """Finds the caller of a key: a ``Door``, or several."""

    open: bool

    def caller(self, authorization: str) -> Caller | None:
        """The caller who sent this header; None: unknown."""


class Rate:
    """Limits each sender to so many requests a second on average, with a burst of two seconds' worth."""

    def __init__(self, per_second: float) -> None:
        self._per_second, self._most = per_second, max(1.0, 2 * per_second)
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait(self, sender: str, now: float) -> float:
        """Seconds the sender has to wait; 0: none, and the request counts."""
        left, at = self._left.pop(sender, (self._most, now))
        left = min(self._most, left + (now - at) * self._per_second)
        waits = 0.0 if left >= 1 else (1 - left) / self._per_second
        self._left[sender] = (left if waits else left - 1, now)
        if len(self._left) > MOST_SENDERS:
            self._left.popitem(last=False)
        return waits


class RequestLimits:
    """Hosts, keys, rates and bodies, in this order."""

    def __init__(
        self,
        app: Application,
        door: Doorkeeper,
        limits: Limits,
        *,
        hosts: Sequence[str] = (),
        rate: float = 0.0,
        body_s: float = BODY_SECONDS,
        key_header: str = "",
    ) -> None:
        """``hosts``: names the server answers to; none: any. An open server answers to this machine's alone, because a
        web page may send a browser there under a name of its own. ``rate``: requests a second of one sender; 0: any.
        ``key_header``: where the key is, other than in ``authorization`` or ``x-api-key``."""
        self._app, self._door, self._body_s = app, door, body_s
        self._key_headers = (key_header.encode(),) if key_header else (b"authorization", b"x-api-key")
        self._rate = Rate(rate) if rate > 0 else None
        self._hosts = frozenset(hosts) or (frozenset(LOCAL_HOSTS) if door.open else frozenset())
        self._largest = largest_body(limits)
        self._room = self._largest * BODIES_AT_ONCE
        self._held = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = {name.lower(): value for name, value in scope["headers"]}
        refusal = self._refusal(scope, headers)
        if refusal is not None:
            await _answer(send, *refusal)
            return
        taken = 0
        try:
            body = bytearray()
            deadline = time.monotonic() + self._body_s
            while True:
                try:
                    message = await asyncio.wait_for(receive(), max(0.0, deadline - time.monotonic()))
                except TimeoutError:
                    await _answer(send, 408, "TooSlow", f"the body took longer than {self._body_s:g} s", "body")
                    return
                if message["type"] == "http.disconnect":
                    return
                part = message.get("body", b"")
                taken += len(part)
                self._held += len(part)
                if taken > self._largest:
                    await _answer(send, 413, "TooLarge", f"the body is past {self._largest:,} bytes", "body")
                    return
                if self._held > self._room:
                    await _answer(send, 503, "Busy", "too many large requests at once; try again", "body")
                    return
                body += part
                if not message.get("more_body", False):
                    break
            await self._app(scope, _replayed(bytes(body), receive), send)
        finally:
            self._held -= taken

    def _refusal(self, scope: Scope, headers: dict[bytes, bytes]) -> tuple[int, str, str, str] | None:
        host = _host(headers.get(b"host", b"").decode("latin-1"))
        if self._hosts and host not in self._hosts:
            return 421, "WrongHost", f"host: this server does not answer to {host!r}", "host"
        if scope["method"] not in _READING and headers.get(b"sec-fetch-site") in _OTHER_SITES:
            return 403, "OtherSite", "sec-fetch-site: a page of another site may not call this server", "sec-fetch-site"
        sent = next((headers[name] for name in self._key_headers if headers.get(name)), b"")
        caller = self._door.caller(sent.decode("latin-1"))
        if caller is None and not _is_open(scope["path"]):
            where = self._key_headers[0].decode()
            how = f"{where}: KEY" if self._key_headers[0] != b"authorization" else "Authorization: Bearer KEY"
            message = f"{where}: missing or wrong. Send '{how}'"
            return 401, "Unauthorized", message, "authorization"
        scope.setdefault("state", {})["caller"] = caller
        if self._rate is not None and scope["path"] not in OPEN_PATHS:
            address = (scope.get("client") or ("",))[0]
            wait = self._rate.wait(address if self._door.open or caller is None else caller.name, time.monotonic())
            if wait:
                return 429, "TooMany", f"too many requests; wait {wait:.3g} s", "rate"
        declared = headers.get(b"content-length", b"0")
        if not declared.isdigit():
            return 400, "InputError", "content-length: is not a number", "content-length"
        if int(declared) > self._largest:
            return 413, "TooLarge", f"the body is past {self._largest:,} bytes", "body"
        return None


def _is_open(path: str) -> bool:
    return path in OPEN_PATHS or path == CONSOLE or path.startswith(OPEN_PREFIXES)


def _host(header: str) -> str:
    """The name in a Host header, without the port."""
    if header.startswith("["):
        return header[1:].partition("]")[0]
    return header.rpartition(":")[0] if header.count(":") == 1 else header


def _replayed(body: bytes, receive: Receive) -> Receive:
    """The body as one message, then the messages that come after it."""
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def take() -> Message:
        return waiting.pop() if waiting else await receive()

    return take


async def _answer(send: Send, status: int, error: str, message: str, field: str) -> None:
    body = orjson.dumps({"error": error, "message": message, "field": field})
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    headers += [(b"retry-after", b"1")] if status in (429, 503) else []
    await send({"type": "http.response.start", "status": status, "headers": [*headers, (b"connection", b"close")]})
    await send({"type": "http.response.body", "body": body})
