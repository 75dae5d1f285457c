"""The HTTP application: every call of the guard as one route, errors as JSON that names the field and the fix.

A server speaks for one namespace. Who may call what is decided by keys (``access``); what is too large, too slow, too
often or sent to another host never gets here (``border``). The routes are in ``routes``, one file per family.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial

from lazaretto.api.access import Door, Forbidden, Key
from lazaretto.api.answers import ERRORS, answer, fault
from lazaretto.api.border import CONSOLE, Border
from lazaretto.api.routes import agents, items, repairs, service, tracing
from lazaretto.console.app import console
from lazaretto.errors import (
    GuardClosed,
    InputError,
    LazarettoError,
    MissingExtra,
    ModelError,
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
except ImportError:
    raise MissingExtra("the HTTP server", "api") from None

log = logging.getLogger("lazaretto")
_STATUS: tuple[tuple[type[LazarettoError], int], ...] = (
    (Forbidden, 403),
    (UnknownItem, 404),
    (TooLarge, 413),
    (InputError, 422),
    (RepairRefused, 409),
    (StaleState, 409),
    (StoreError, 503),
    (GuardClosed, 503),
    (ModelError, 503),
    (MissingExtra, 501),
)
ROUTERS = (agents.router, items.router, tracing.router, repairs.router, service.router)


def create_app(
    guard: Guard, token: str | None = None, *, keys: Sequence[Key] = (), hosts: Sequence[str] = ()
) -> FastAPI:
    """The application over a guard; the caller closes the guard.

    ``token`` is an admin's key; ``keys`` have roles. ``hosts``: names the server answers to. Further routers and pages
    may be added to what is returned: they find the guard at ``app.state.guard``, and ``callers`` has who calls.
    """
    app = FastAPI(
        title="Lazaretto",
        description="An immune system for multi-agent AI.",
        version="1",
        lifespan=partial(_tending, guard),
        responses=ERRORS,
    )
    app.state.guard = guard
    app.state.door = Door(guard.ledger.namespace, token, keys)
    app.add_middleware(Border, door=app.state.door, limits=guard.policy.limits, hosts=tuple(hosts))
    _add_errors(app)
    for router in ROUTERS:
        app.include_router(router)
    app.mount(CONSOLE, console(guard, app.state.door))
    return app


@asynccontextmanager
async def _tending(guard: Guard, _: FastAPI) -> AsyncIterator[None]:
    """While the server runs, memories are judged again, in the background and in bounded steps."""
    task = asyncio.create_task(tend_forever(guard))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def tend_forever(guard: Guard) -> None:
    """One step at a time, whenever enough is new. What fails is logged, and tried again later."""
    rules = guard.policy.review
    while True:
        await asyncio.sleep(rules.interval_s)
        try:
            await guard.tend(news=rules.every)
        except GuardClosed:
            return
        except Exception:
            log.exception("memories could not be judged again")


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
