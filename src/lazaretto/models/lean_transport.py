"""A small HTTP/1.1 transport for the ``openai`` SDK: the SDK keeps its interface, each call costs a third of the CPU.

Why hand-written where httpx2 ships a transport: measured with ``benchmarks/debate_engine.py``, the stock transport
takes about 1.1 ms of CPU per request, most of it in layers that a plain POST with a plain JSON answer never needs.
This one knows exactly that case (keep-alive, TLS, content-length, chunked, close-delimited), and hands everything
else (proxies, HTTP/2, streaming uploads) to the stock one by not being chosen. Import it only when the ``openai``
extra is there.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from typing import Any, cast

import httpx2

Answer = tuple[int, list[tuple[bytes, bytes]], bytes]
"""Status, headers with lower-case names, body."""

MAX_BODY = 16 * 1024 * 1024
"""A chat completion past this size is refused; it is a fault of the server, not an answer."""


class _Connection(asyncio.Protocol):
    """One keep-alive connection: one request at a time."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.closed = False
        self.reused = False
        self.touched = False
        self._waiter: asyncio.Future[Answer] | None = None
        self._reset()

    def _reset(self) -> None:
        self._buffer = bytearray()
        self._status = 0
        self._headers: list[tuple[bytes, bytes]] = []
        self._length: int | None = None
        self._chunked = False
        self._body_start = -1
        self._keep = True
        self.touched = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True
        waiter = self._waiter
        if waiter is None or waiter.done():
            return
        if exc is None and self._body_start >= 0 and self._length is None and not self._chunked:
            waiter.set_result((self._status, self._headers, bytes(self._buffer[self._body_start :])))
        else:
            waiter.set_exception(
                httpx2.RemoteProtocolError("the server closed the connection before its answer was complete")
            )

    def data_received(self, data: bytes) -> None:
        self.touched = True
        waiter = self._waiter
        if waiter is None or waiter.done():
            self.close()  # bytes nobody asked for: never let them answer the next request
            return
        self._buffer += data
        try:
            body = self._parse()
        except (ValueError, IndexError) as error:
            self.close()
            waiter.set_exception(httpx2.RemoteProtocolError(f"not an HTTP answer: {error}"))
            return
        if body is not None:
            if not self._keep:
                self.close()
            waiter.set_result((self._status, self._headers, body))

    def _parse(self) -> bytes | None:
        """The body once it is complete."""
        buffer = self._buffer
        if self._body_start < 0:
            end = buffer.find(b"\r\n\r\n")
            if end < 0:
                if len(buffer) > 65536:
                    raise ValueError("endless header")
                return None
            self._read_head(bytes(buffer[:end]))
            self._body_start = end + 4
            if 100 <= self._status < 200:  # an interim answer: the real one follows
                del buffer[: end + 4]
                self._body_start, self._headers = -1, []
                return self._parse()
        if len(buffer) > MAX_BODY:
            raise ValueError(f"answer larger than {MAX_BODY} bytes")
        if self._chunked:
            return _dechunk(buffer, self._body_start)
        if self._length is None:
            return None
        stop = self._body_start + self._length
        return bytes(buffer[self._body_start : stop]) if len(buffer) >= stop else None

    def _read_head(self, head: bytes) -> None:
        lines = head.split(b"\r\n")
        version, status = lines[0].split(b" ", 2)[:2]
        if not version.startswith(b"HTTP/1."):
            raise ValueError("unknown protocol version")
        self._status = int(status)
        self._keep = version != b"HTTP/1.0"
        for line in lines[1:]:
            name, _, value = line.partition(b":")
            key, value = name.strip().lower(), value.strip()
            self._headers.append((key, value))
            if key == b"content-length":
                self._length = int(value)
            elif key == b"transfer-encoding" and b"chunked" in value.lower():
                self._chunked = True
            elif key == b"connection" and b"close" in value.lower():
                self._keep = False
        if self._status in (204, 304):
            self._length = 0

    async def send(self, payload: bytes) -> Answer:
        """Send one request and wait for its whole answer."""
        assert self.transport is not None
        self._reset()
        self._waiter = asyncio.get_running_loop().create_future()
        self.transport.write(payload)
        try:
            return await self._waiter
        finally:
            self._waiter = None

    def close(self) -> None:
        self.closed = True
        if self.transport is not None:
            self.transport.close()


def _dechunk(buffer: bytearray, position: int) -> bytes | None:
    parts: list[bytes] = []
    while True:
        end = buffer.find(b"\r\n", position)
        if end < 0:
            return None
        size = int(bytes(buffer[position:end]).split(b";")[0], 16)
        start = end + 2
        if size == 0:
            return b"".join(parts) if buffer.find(b"\r\n", start) >= 0 else None
        if len(buffer) < start + size + 2:
            return None
        parts.append(bytes(buffer[start : start + size]))
        position = start + size + 2


class LeanTransport(httpx2.AsyncBaseTransport):
    """Plain POSTs over kept-alive connections. One per event loop."""

    def __init__(self, *, idle: int = 256) -> None:
        self._idle_limit = idle
        self._idle: dict[tuple[str, str, int], deque[_Connection]] = {}
        self._tls: ssl.SSLContext | None = None
        self._pattern: tuple[tuple[str, str, int], bytes] | None = None

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request whose body is already in memory, and keep its head as the pattern for ``repeat``."""
        url = request.url
        origin = (url.scheme, url.host, url.port or (443 if url.scheme == "https" else 80))
        limits: dict[str, Any] = request.extensions.get("timeout", {})
        head = _head(request, url.raw_path)
        payload = b"%scontent-length: %d\r\n\r\n%s" % (head, len(request.content), request.content)
        status, headers, body = await self._ask(origin, payload, limits.get("connect"), limits.get("read"))
        if status < 300 and request.method == "POST":
            self._pattern = (origin, head)
        return httpx2.Response(status, headers=headers, content=body, request=request)

    @property
    def primed(self) -> bool:
        """Whether a request has succeeded whose head can be repeated."""
        return self._pattern is not None

    async def repeat(self, content: bytes, limit: float) -> Answer:
        """The last good request once more with another body: same address, same headers, as the SDK wrote them."""
        assert self._pattern is not None
        origin, head = self._pattern
        payload = b"%scontent-length: %d\r\n\r\n%s" % (head, len(content), content)
        return await self._ask(origin, payload, limit, limit)

    async def _ask(
        self, origin: tuple[str, str, int], payload: bytes, connect: float | None, read: float | None
    ) -> Answer:
        connection = await self._connect(origin, connect)
        try:
            try:
                answer = await self._exchange(connection, payload, read)
            except httpx2.RemoteProtocolError:
                if not connection.reused or connection.touched:
                    raise
                # a kept-alive connection that the server had already dropped: nothing was lost, ask on a fresh one
                connection = await self._connect(origin, connect, fresh=True)
                answer = await self._exchange(connection, payload, read)
        except BaseException:
            connection.close()
            raise
        self._give_back(origin, connection)
        return answer

    async def _exchange(self, connection: _Connection, payload: bytes, limit: float | None) -> Answer:
        try:
            async with asyncio.timeout(limit):
                return await connection.send(payload)
        except TimeoutError:
            raise httpx2.ReadTimeout(f"no answer within {limit} s") from None

    async def _connect(self, origin: tuple[str, str, int], limit: float | None, fresh: bool = False) -> _Connection:
        idle = self._idle.setdefault(origin, deque())
        while idle and not fresh:
            connection = idle.pop()
            if not connection.closed:
                connection.reused = True
                return connection
        scheme, host, port = origin
        if scheme == "https" and self._tls is None:
            self._tls = ssl.create_default_context()
        try:
            async with asyncio.timeout(limit):
                _, made = await asyncio.get_running_loop().create_connection(
                    _Connection, host, port, ssl=self._tls if scheme == "https" else None
                )
        except TimeoutError:
            raise httpx2.ConnectTimeout(f"no connection to {host}:{port} within {limit} s") from None
        except OSError as error:
            raise httpx2.ConnectError(f"cannot reach {host}:{port}: {error}") from None
        return made

    def _give_back(self, origin: tuple[str, str, int], connection: _Connection) -> None:
        idle = self._idle[origin]
        if connection.closed or len(idle) >= self._idle_limit:
            connection.close()
        else:
            idle.append(connection)

    async def aclose(self) -> None:
        """Close every idle connection."""
        for idle in self._idle.values():
            while idle:
                idle.pop().close()


_OWN = frozenset({b"accept-encoding", b"content-length", b"transfer-encoding"})
"""Headers that this transport decides: bodies travel uncompressed and with their length."""


def _head(request: httpx2.Request, path: bytes) -> bytes:
    lines = [request.method.encode() + b" " + path + b" HTTP/1.1"]
    lines.extend(name + b": " + value for name, value in request.headers.raw if name.lower() not in _OWN)
    return b"\r\n".join(lines) + b"\r\n"
