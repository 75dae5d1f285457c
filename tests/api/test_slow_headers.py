"""Half-sent requests, without a key, take the server away from nobody."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from typing import Any

import pytest

uvicorn = pytest.importorskip("uvicorn", reason="needs the api extra")

from lazaretto.api import worker
from lazaretto.cli.serve import UVICORN


async def app(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


@pytest.fixture
async def server() -> AsyncIterator[Any]:
    """A server that takes four requests at once."""
    listener = socket.create_server(("127.0.0.1", 0))
    made = uvicorn.Server(uvicorn.Config(app, **{**UVICORN, "limit_concurrency": 4, "lifespan": "off"}))
    task = asyncio.create_task(made.serve(sockets=[listener]))
    while not made.started:
        await asyncio.sleep(0.01)
    made.port = listener.getsockname()[1]
    yield made
    made.should_exit = True
    await task


Line = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def connect(server: Any, data: bytes = b"") -> Line:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(data)
    await writer.drain()
    return reader, writer


async def status(line: Line, data: bytes = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n") -> int:
    reader, writer = line
    writer.write(data)
    head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 30)
    await reader.readexactly(2)
    return int(head.split()[1])


async def test_half_sent_requests_are_not_counted(server: Any) -> None:
    """Each used to count for ``limit_concurrency``: as many as that, and everybody else got 503."""
    half = [await connect(server, b"GET / HTTP/1.1\r\nhost:") for _ in range(12)]
    silent = [await connect(server) for _ in range(12)]
    await asyncio.sleep(0.1)
    kept = await connect(server)
    assert [await status(kept) for _ in range(3)] == [200] * 3, "kept alive"
    assert await status(half[0], b" x\r\n\r\n") == 200, "one that goes on is served"
    assert not server.server_state.connections
    for _, writer in (*half, *silent, kept):
        writer.close()


async def test_where_too_many_wait_the_one_that_waits_longest_goes(
    server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "MOST_WAITING", 5)
    half = [await connect(server, b"GET / HT") for _ in range(8)]
    assert [await asyncio.wait_for(reader.read(), 30) for reader, _ in half[:3]] == [b""] * 3
    assert await status(half[-1], b"TP/1.1\r\nhost: x\r\n\r\n") == 200
    assert await status(await connect(server)) == 200


async def test_headers_have_their_time_on_a_kept_connection_too(server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "HEADERS_S", 0.05)
    slow, kept = await connect(server, b"GET / HTTP/1.1\r\n"), await connect(server)
    assert await status(kept) == 200
    kept[1].write(b"GET / HTTP/1.1\r\nhos")
    for reader, _ in (slow, kept):
        assert await asyncio.wait_for(reader.read(), 30) == b""


async def test_requests_under_way_are_counted_as_before(server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    going = asyncio.Event()

    async def slow(scope: Any, receive: Any, send: Any) -> None:
        await going.wait()
        await app(scope, receive, send)

    monkeypatch.setattr(server.config, "loaded_app", slow)
    lines = [await connect(server, b"GET / HTTP/1.1\r\nhost: x\r\n\r\n") for _ in range(3)]
    await asyncio.sleep(0.2)
    assert len(server.server_state.connections) == 3
    late = await connect(server, b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
    head = await asyncio.wait_for(late[0].readuntil(b"\r\n\r\n"), 30)
    assert b" 503 " in head
    going.set()
    for reader, _ in lines:
        assert b" 200 " in await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 30)
