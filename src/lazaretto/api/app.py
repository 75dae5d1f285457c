"""The HTTP application: one route for every call of the guard; errors are JSON that names the field and the fix.

A server speaks for one namespace. Keys decide who may call what (``access``); ``request_limits`` refuses requests that
are too large, too slow, too many or sent to another host.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial

from lazaretto.api.access import Door, Key, KeyFile
from lazaretto.api.access_log import AccessLog
from lazaretto.api.answers import ERRORS, answer, fault
from lazaretto.api.background import work_forever
from lazaretto.api.metrics import Metrics
from lazaretto.api.outgoing import Unreachable
from lazaretto.api.pages import add_docs
from lazaretto.api.request_limits import CONSOLE, RequestLimits
from lazaretto.api.routes import actions, agents, compatible, items, records, repairs, service, tracing
from lazaretto.api.webhooks import Webhooks
from lazaretto.console.app import console
from lazaretto.errors import (
    Forbidden,
    GuardClosed,
    InputError,
    LazarettoError,
    MissingExtra,
    ModelError,
    NotYours,
    PictureWorkerFailed,
    RepairRefused,
    StaleState,
    StoreError,
    TooLarge,
    UnknownItem,
)
from lazaretto.guard import Guard

try:
    from fastapi import FastAPI, Request, Response
    from fastapi.exceptions import RequestValidationError
    from starlette.exceptions import HTTPException
    from starlette.responses import RedirectResponse
except ImportError:
    raise MissingExtra("the HTTP server", "api") from None

_STATUS: tuple[tuple[type[LazarettoError], int], ...] = (
    (Forbidden, 403),
    (NotYours, 403),
    (Unreachable, 422),
    (UnknownItem, 404),
    (TooLarge, 413),
    (InputError, 422),
    (RepairRefused, 409),
    (StaleState, 409),
    (StoreError, 503),
    (GuardClosed, 503),
    (PictureWorkerFailed, 503),
    (ModelError, 503),
    (MissingExtra, 501),
)
ROUTERS = (
    agents.router,
    actions.router,
    compatible.router,
    items.router,
    records.router,
    tracing.router,
    repairs.router,
    service.router,
)


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """How a server behaves, beside the policy."""

    hosts: tuple[str, ...] = ()
    """Names it answers to; none: any, or this machine's where it is open."""
    rate: float = 0.0
    """Requests a second that one key (or, on an open server, one address) may send on average; 0: any number."""
    fetch_images: bool = False
    """Whether pictures are fetched that a request only names; never from private addresses."""
    webhook: str = ""
    """Address that is told of incidents; empty: nobody is."""
    webhook_secret: str = ""
    webhook_private: bool = False
    """Whether that address may belong to one's own network."""


DEFAULTS = ServerSettings()


def create_app(
    guard: Guard, token: str | None = None, *, keys: Sequence[Key] | KeyFile = (), settings: ServerSettings = DEFAULTS
) -> FastAPI:
    """The application over a guard; the caller closes the guard.

    ``token`` is an admin's key; ``keys`` have roles, and are followed where they are a file. Further routers and pages
    may be added to what is returned: they find the guard at ``app.state.guard``, and ``callers`` has who calls.
    """
    metrics = Metrics()
    guard.watchers.add(metrics)
    webhooks = None
    if settings.webhook:
        webhooks = Webhooks(guard, settings.webhook, settings.webhook_secret, settings.webhook_private)
        webhooks.told = metrics.delivered
    app = FastAPI(
        title="Lazaretto",
        description="An immune system for multi-agent AI.",
        version="1",
        lifespan=partial(_background, guard, metrics, webhooks),
        responses=ERRORS,
        docs_url=None,
        redoc_url=None,
    )
    app.state.guard, app.state.metrics, app.state.fetch_images = guard, metrics, settings.fetch_images
    app.state.door = Door(guard.ledger.namespace, token, keys)
    limits, hosts, rate = guard.policy.limits, settings.hosts, settings.rate
    app.add_middleware(RequestLimits, door=app.state.door, limits=limits, hosts=hosts, rate=rate)
    app.add_middleware(AccessLog, metrics=metrics)
    _add_errors(app)
    app.mount(CONSOLE, console(guard, app.state.door))  # before the routers: a page then waits for none to be built
    for router in ROUTERS:
        app.include_router(router)
    add_docs(app)

    @app.get("/", include_in_schema=False)
    async def front() -> Response:
        """People who open the address in a browser are led to the console."""
        return RedirectResponse(f"{CONSOLE}/", 307)

    return app


@asynccontextmanager
async def _background(guard: Guard, metrics: Metrics, webhooks: Webhooks | None, _: FastAPI) -> AsyncIterator[None]:
    """While the server runs, memories are judged again and others told, in bounded steps."""
    task = asyncio.create_task(work_forever(guard, metrics, webhooks))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def _add_errors(app: FastAPI) -> None:
    @app.exception_handler(LazarettoError)
    async def refused(_: Request, error: LazarettoError) -> Response:
        return answer(fault(error), next((code for kind, code in _STATUS if isinstance(error, kind)), 500))

    @app.exception_handler(RequestValidationError)
    async def malformed(_: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"] if part != "body") or "body"
        body = {"error": "InputError", "message": f"{field}: {first['msg']}", "field": field, "fix": "See /docs"}
        return answer(body, 422)

    @app.exception_handler(HTTPException)
    async def unrouted(_: Request, error: HTTPException) -> Response:
        body = {"error": "NoSuchCall", "message": str(error.detail)}
        response = answer(body, error.status_code)
        response.headers.update(error.headers or {})
        return response
