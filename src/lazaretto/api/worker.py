"""One of several server processes: ``lazaretto serve --workers`` starts it, described by its environment.

Connections that have not sent a request yet hold up nobody (``WaitingConnection``).
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import orjson
from pydantic import TypeAdapter

from lazaretto.api.access import KeyFile
from lazaretto.api.app import DEFAULTS, ServerSettings, create_app
from lazaretto.errors import MissingExtra
from lazaretto.guard import Guard
from lazaretto.types import plain

ENVIRONMENT = "LAZARETTO_SERVE"
"""Variable with the description; the token has a variable of its own."""


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """Settings of a worker: its store and its behaviour."""

    store: str | None = None
    policy: str | None = None
    namespace: str | None = None
    keys: str | None = None
    access_log: bool = False
    server: ServerSettings = DEFAULTS

    def to_environment(self) -> str:
        """The description that a worker reads."""
        return orjson.dumps(plain(self)).decode()


def log_access() -> None:
    """Write the access log to standard error."""
    log = logging.getLogger("lazaretto.access")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(message)s"))
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    log.propagate = False


def log_acts() -> None:
    """Log on standard error the guard's own changes of recorded items; not with ``--quiet``."""
    above, log = logging.getLogger("lazaretto"), logging.getLogger("lazaretto.acts")
    if above.level >= logging.ERROR:
        return
    log.setLevel(logging.INFO)
    if not log.hasHandlers():
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
        log.addHandler(handler)


def app() -> FastAPI:
    """The application of this process, which closes its guard when it ends."""
    settings = TypeAdapter(WorkerSettings).validate_json(os.environ[ENVIRONMENT])
    if settings.access_log:
        log_access()
    log_acts()
    guard = Guard.open(settings.store, settings.policy, settings.namespace)
    keys = KeyFile(Path(settings.keys)) if settings.keys else ()
    made = create_app(guard, os.environ.get("LAZARETTO_TOKEN"), keys=keys, settings=settings.server)
    inner = made.router.lifespan_context

    @asynccontextmanager
    async def closing(application: FastAPI) -> AsyncIterator[None]:
        try:
            async with inner(application):
                yield
        finally:
            await asyncio.to_thread(guard.close)

    made.router.lifespan_context = closing
    return made


try:
    import h11
    from fastapi import FastAPI
    from uvicorn.protocols.http.h11_impl import H11Protocol
except ImportError:
    raise MissingExtra("the HTTP server", "api") from None

# Connections that have not sent a request yet hold up nobody.
#
# uvicorn counts every open connection for ``limit_concurrency`` and never ends one that sends its headers byte by byte:
# a few hundred of them, without any key, had everybody else answered with 503. Here a connection counts once its
# headers are there. Until then it has a few seconds, and where too many wait, the one that waits longest is closed.

HEADERS_S = 10.0
"""Seconds from the first byte, or from the connection, until the last header."""
MOST_WAITING = 256
"""Connections without a request under way, in one process."""

_waiting: WeakKeyDictionary[Any, dict[WaitingConnection, None]] = WeakKeyDictionary()
"""Waiting connections by server, the one that waits longest first."""


class WaitingConnection(H11Protocol):
    """One connection of a server."""

    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """The connection waits for its first request."""
        super().connection_made(transport)
        self._wait()
        self._start_timer()

    def data_received(self, data: bytes) -> None:
        """Some bytes: it counts as soon as they end the headers of a request, and before that request is begun."""
        if self._timer is None and self.conn.their_state is h11.IDLE:
            self._start_timer()  # of a connection that was kept alive
        super().data_received(data)
        self._settle()

    def handle_events(self) -> None:
        """A request that is about to begin is one of those that are counted."""
        self.connections.add(self)
        super().handle_events()
        self._settle()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone."""
        self._stop_timer()
        self._others().pop(self, None)
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        """The connection waits for its next request."""
        super().on_response_complete()
        self._settle()

    def _settle(self) -> None:
        if self.transport.is_closing():
            return
        if self.conn.their_state is h11.IDLE:
            self._wait()
        else:
            self._stop_timer()
            self._others().pop(self, None)

    def _wait(self) -> None:
        self.connections.discard(self)
        others = self._others()
        others.setdefault(self, None)
        if len(others) > MOST_WAITING:
            oldest = next(iter(others))
            others.pop(oldest)
            oldest.transport.abort()

    def _others(self) -> dict[WaitingConnection, None]:
        return _waiting.setdefault(self.server_state, {})

    def _start_timer(self) -> None:
        self._timer = self.loop.call_later(HEADERS_S, self._too_slow)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _too_slow(self) -> None:
        self._timer = None
        if self.conn.their_state is h11.IDLE:
            self.transport.abort()
