"""The HTTP application: one route for every call of the guard; errors are JSON that names the field and the fix.

A server speaks for one namespace. Keys decide who may call what (``access``); ``request_limits`` refuses requests that
are too large, too slow, too many or sent to another host.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from importlib.resources import as_file, files
from typing import Any

from lazaretto.api.access import Door, Key, KeyFile
from lazaretto.api.answers import ERRORS, answer, fault
from lazaretto.api.metrics import AccessLog, Metrics
from lazaretto.api.request_limits import CONSOLE, RequestLimits
from lazaretto.api.routes import agents, compatible, items, service
from lazaretto.api.webhooks import Unreachable, Webhooks
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
    from fastapi.openapi.docs import get_swagger_ui_html
    from starlette.exceptions import HTTPException
    from starlette.responses import RedirectResponse
except ImportError:
    raise MissingExtra("the HTTP server", "api") from None

log = logging.getLogger("lazaretto")
LEASE = "background"
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
    agents.actions_router,
    compatible.router,
    compatible.router,
    items.router,
    agents.records_router,
    items.tracing_router,
    items.repairs_router,
    service.router,
)


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """Settings of a server, beside the policy."""

    hosts: tuple[str, ...] = ()
    """Names it answers to; none: any, or this machine's where it is open."""
    rate: float = 0.0
    """Requests a second that one key (or, on an open server, one address) may send on average; 0: any number."""
    fetch_images: bool = False
    """Whether pictures are fetched that a request only names; never from private addresses."""
    webhook: str = ""
    """Address that is notified of incidents; empty: none."""
    webhook_secret: str = ""
    webhook_private: bool = False
    """Whether that address may belong to the private network."""


DEFAULTS = ServerSettings()


def create_app(
    guard: Guard, token: str | None = None, *, keys: Sequence[Key] | KeyFile = (), settings: ServerSettings = DEFAULTS
) -> FastAPI:
    """The application over a guard; the caller closes the guard.

    ``token`` is an admin's key; ``keys`` have roles, and are followed where they are a file. Further routers and pages
    may be added to the returned application: they find the guard at ``app.state.guard``; ``callers`` has the caller.
    """
    metrics = Metrics()
    guard.watchers.add(metrics)
    webhooks = None
    if settings.webhook:
        webhooks = Webhooks(guard, settings.webhook, settings.webhook_secret, settings.webhook_private)
        webhooks.on_outcome = metrics.delivered
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
    app.mount(CONSOLE, console(guard, app.state.door))
    for router in ROUTERS:
        app.router.routes.extend(router.routes)  # include_router would build every route again, at the first request
    add_docs(app)

    @app.get("/", include_in_schema=False)
    async def front() -> Response:
        """People who open the address in a browser are led to the console."""
        return RedirectResponse(f"{CONSOLE}/", 307)

    return app


@asynccontextmanager
async def _background(guard: Guard, metrics: Metrics, webhooks: Webhooks | None, _: FastAPI) -> AsyncIterator[None]:
    """While the server runs, memories are judged again and webhooks sent, in bounded steps."""
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
        field, problem, fix = _malformed(error.errors()[0])
        body = {"error": "InputError", "message": f"{field}: {problem}", "field": field, "fix": fix}
        return answer(body, 422)

    @app.exception_handler(HTTPException)
    async def unrouted(request: Request, error: HTTPException) -> Response:
        message = "no such call: /docs lists them" if error.status_code == 404 else str(error.detail)
        if error.status_code == 405 and error.headers:
            message = f"{request.method} is not known here. Use {error.headers.get('Allow', 'another method')}"
        body = {"error": "NoSuchCall", "message": message}
        response = answer(body, error.status_code)
        response.headers.update(error.headers or {})
        return response


_SEND_JSON = "Send a JSON object, with content-type: application/json"


def _malformed(first: Mapping[str, Any]) -> tuple[str, str, str]:
    """The wrong field of a request, its fault, and the fix."""
    place = [str(part) for part in first["loc"] if part != "body"]
    if first["type"] == "json_invalid":
        return "body", f"is not JSON (at character {int(first['loc'][-1]) + 1})", _SEND_JSON
    field = ".".join(place) or "body"
    if first["type"] == "missing":
        return field, "is missing", "See /docs" if place else _SEND_JSON
    if not place and first["type"] in ("model_attributes_type", "model_type", "dict_type"):
        return field, "is not a JSON object", _SEND_JSON
    return field, "is no field of this call" if first["type"] == "extra_forbidden" else first["msg"], "See /docs"


ASSETS = {"swagger-ui-bundle.js": "text/javascript", "swagger-ui.css": "text/css", "favicon.png": "image/png"}
"""Files that the page needs; they come with the package fastapi-offline."""
CACHED = {"cache-control": "max-age=86400", "x-content-type-options": "nosniff"}


def add_docs(app: FastAPI) -> None:
    """The description of the calls at ``/docs``, from files of this machine: the browser asks no other host for it."""

    @app.get("/docs", include_in_schema=False)
    async def docs() -> Response:
        return get_swagger_ui_html(
            openapi_url="/openapi.json",
            title="Lazaretto",
            swagger_js_url="/docs/swagger-ui-bundle.js",
            swagger_css_url="/docs/swagger-ui.css",
            swagger_favicon_url="/docs/favicon.png",
        )

    @app.get("/docs/{name}", include_in_schema=False)
    async def asset(name: str) -> Response:
        if name not in ASSETS:
            return Response(status_code=404)
        with as_file(files("fastapi_offline") / "static" / name) as path:
            return Response(path.read_bytes(), media_type=ASSETS[name], headers=CACHED)


async def work_forever(guard: Guard, metrics: Metrics, webhooks: Webhooks | None = None) -> None:
    """One step at a time, whenever enough is new. A failed step is logged, and tried again later.

    Of all workers on one store only the one that holds the lease does anything; when it ends, the next takes over.
    """
    rules = guard.policy.review
    lease = guard.ledger.lease(LEASE)
    try:
        while True:
            await asyncio.sleep(rules.interval_s)
            try:
                if await asyncio.to_thread(lease.hold):
                    await _step(guard, metrics, webhooks)
            except GuardClosed:
                return
            except Exception:
                log.exception("the work in the background failed; it is tried again")
    finally:
        lease.release()


async def _step(guard: Guard, metrics: Metrics, webhooks: Webhooks | None) -> None:
    done = await guard.recheck(news=guard.policy.review.every)
    counts = {"looked": done.looked, "held": len(done.held), "released": len(done.released)}
    counts |= {"rewritten": len(done.rewritten), "proposed": len(done.proposed)}
    for outcome, count in counts.items():
        metrics.looked_again(outcome, count)
    if webhooks is not None:
        await webhooks.step()
