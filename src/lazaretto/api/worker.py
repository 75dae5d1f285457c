"""One of several server processes: ``lazaretto serve --workers`` starts it, described by its environment."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import orjson
from pydantic import TypeAdapter

from lazaretto.api.access import KeyFile
from lazaretto.api.app import DEFAULTS, ServerSettings, create_app
from lazaretto.errors import MissingExtra
from lazaretto.guard import Guard
from lazaretto.types import plain

try:
    from fastapi import FastAPI
except ImportError:
    raise MissingExtra("the HTTP server", "api") from None

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
