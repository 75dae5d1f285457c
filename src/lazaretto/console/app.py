"""The console as an application of its own, to be mounted under ``/console``: doors, routes and errors."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from importlib import resources

from lazaretto.console.pages import incidents, learning, memories, queue, settings
from lazaretto.console.sessions import COOKIE, Entrance, Session
from lazaretto.console.web import HEADERS, NOBODY, OPERATOR, ROOT, Desk, Handler, Visit, html, read_form, texts
from lazaretto.errors import (
    GuardClosed,
    InputError,
    LazarettoError,
    MissingExtra,
    NotYours,
    RepairRefused,
    StoreError,
    UnknownItem,
)
from lazaretto.guard import Guard

try:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import RedirectResponse, Response
    from starlette.routing import Mount, Route
    from starlette.staticfiles import StaticFiles
    from starlette.types import Receive, Scope, Send
except ImportError:
    raise MissingExtra("the console", "api") from None

log = logging.getLogger("lazaretto")
_STATUS: tuple[tuple[type[LazarettoError], int], ...] = (
    (UnknownItem, 404),
    (NotYours, 403),
    (InputError, 422),
    (RepairRefused, 409),
    (StoreError, 503),
    (GuardClosed, 503),
)
Endpoint = Callable[[Request], Awaitable[Response]]

READ: tuple[tuple[str, Handler], ...] = (
    ("/", incidents.now),
    ("/live", incidents.live),
    ("/map", memories.show),
    ("/map/data", memories.data),
    ("/map/trace", memories.trace),
    ("/incidents", incidents.incidents),
    ("/incidents/{incident:path}", incidents.incident),
    ("/receipts/{receipt:path}", incidents.receipt),
    ("/queue", queue.queue),
    ("/many", queue.many),
    ("/decisions", learning.decisions),
    ("/proposals/{proposal:path}", queue.proposal),
    ("/calls/{token:path}", queue.call),
    ("/memories", memories.memories),
    ("/items/{item:path}", memories.item),
    ("/texts/{item:path}", memories.whole_text),
    ("/pictures/{digest}", memories.picture),
    ("/learning", learning.learning),
    ("/health", settings.health),
    ("/tune", settings.tune),
)
"""Pages for reviewers."""
WRITE: tuple[tuple[str, str, Handler], ...] = (
    ("/plan", "reviewer", incidents.plan),
    ("/apply/{plan:path}", "reviewer", incidents.apply),
    ("/undo/{receipt:path}", "reviewer", incidents.undo),
    ("/decide/{item:path}", "reviewer", queue.decide),
    ("/many", "reviewer", queue.decide_many),
    ("/decisions", "reviewer", learning.take_back),
    ("/appeal/{item:path}", "reviewer", queue.appeal),
    ("/calls/{token:path}", "reviewer", queue.answer_call),
    ("/accept/{proposal:path}", "reviewer", queue.accept),
    ("/dismiss/{proposal:path}", "reviewer", queue.dismiss),
    ("/learning/now", "reviewer", learning.learn_now),
    ("/learning/use", "admin", learning.use_cases),
    ("/learning/thresholds", "admin", learning.move_thresholds),
    ("/learning/revert", "admin", learning.revert_thresholds),
)
"""Forms, and who may send them."""


def console(guard: Guard, entrance: Entrance) -> Starlette:
    """The console over a guard, for callers that the entrance lets in; the caller mounts it under ``/console``."""
    desk = Desk(guard, entrance)
    folder = resources.files(__package__).joinpath("static")
    return Starlette(
        routes=[
            Route("/login", _login(desk), methods=["GET", "POST"]),
            Route("/logout", _logout(desk), methods=["POST"]),
            Mount("/static", _Static(directory=str(folder))),
            *(Route(path, _shown(desk, handler), methods=["GET"]) for path, handler in READ),
            *(Route(path, _sent(desk, role, handler), methods=["POST"]) for path, role, handler in WRITE),
            Route("/{rest:path}", _shown(desk, _nowhere), methods=["GET"]),
        ]
    )


class _Static(StaticFiles):
    """Files that ship with the package, under the same headers as the pages."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def with_headers(message: dict[str, object]) -> None:
            if message["type"] == "http.response.start":
                kept = {**HEADERS, "Cache-Control": "private, max-age=3600"}
                added = [(name.lower().encode(), value.encode()) for name, value in kept.items()]
                message = {**message, "headers": [*message["headers"], *added]}  # type: ignore[misc]
            await send(message)

        await super().__call__(scope, receive, with_headers)  # type: ignore[arg-type]


def _shown(desk: Desk, handler: Handler) -> Endpoint:
    """A page for visitors with a session; others are asked for a key."""

    async def endpoint(request: Request) -> Response:
        try:
            session, secret = await _session(desk, request)
        except StoreError as error:
            return html("login.html", 503, message=str(error))
        if session is None:
            return RedirectResponse(f"{ROOT}/login", 303, HEADERS)
        answer = await _answered(Visit(desk, request, session, {}), handler)
        if secret:
            _set_cookie(answer, request, secret)
        return answer

    return endpoint


def _sent(desk: Desk, role: str, handler: Handler) -> Endpoint:
    """A form: with a session, from a page of that session, by a caller whose role covers it."""

    async def endpoint(request: Request) -> Response:
        try:
            session, _ = await _session(desk, request, begin=False)
        except StoreError as error:
            return html("login.html", 503, message=str(error))
        if session is None:
            return RedirectResponse(f"{ROOT}/login", 303, HEADERS)

        async def checked(visit: Visit) -> Response:
            form = await read_form(request)
            if not session.vouched(form.get("csrf", "")):
                return visit.page("error.html", here="", status=403, message=texts()["error"]["forged"])
            if not session.covers(role):
                words = texts()["error"]["role"].format(name=session.name, role=session.role, needed=role)
                return visit.page("error.html", here="", status=403, message=words)
            visit.form = form
            return await handler(visit)

        return await _answered(Visit(desk, request, session, {}), checked)

    return endpoint


async def _answered(visit: Visit, handler: Handler) -> Response:
    """The handler's answer, or a page that explains the error."""
    try:
        return await handler(visit)
    except LazarettoError as error:
        status = next((code for kind, code in _STATUS if isinstance(error, kind)), 500)
        return visit.page("error.html", here="", status=status, message=str(error))
    except Exception:
        log.exception("a page of the console failed: %s", visit.request.url.path)
        return visit.page("error.html", here="", status=500, message=texts()["error"]["failed"])


async def _nowhere(visit: Visit) -> Response:
    return visit.page("error.html", here="", status=404, message=texts()["error"]["nowhere"])


async def _session(desk: Desk, request: Request, *, begin: bool = True) -> tuple[Session | None, str]:
    """The session of a request; a server without keys begins one by itself. With it the secret of a new cookie."""
    found = await asyncio.to_thread(desk.sessions.find, request.cookies.get(COOKIE, ""))
    if found is None and begin and desk.entrance.open:
        secret, found = desk.sessions.begin(*NOBODY)
        return found, secret
    return found, ""


def _set_cookie(answer: Response, request: Request, secret: str) -> None:
    secure = request.url.scheme == "https"
    answer.set_cookie(COOKIE, secret, path=ROOT, httponly=True, samesite="strict", secure=secure)


def _login(desk: Desk) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        if request.method == "GET":
            return html("login.html", message="")
        try:
            key = (await read_form(request)).get("key", "").strip()
        except InputError as error:
            return html("login.html", 422, message=str(error))
        caller = desk.entrance.caller(f"Bearer {key}") if key else None
        if caller is None:
            return html("login.html", 401, message=texts()["login"]["unknown"])
        if caller.role == "agent":
            return html("login.html", 403, message=texts()["login"]["agent"].format(name=caller.name))
        name = OPERATOR if desk.entrance.open else caller.name
        secret, _ = await asyncio.to_thread(desk.sessions.begin, name, caller.role, caller.identity, caller.key)
        answer = RedirectResponse(f"{ROOT}/", 303, HEADERS)
        _set_cookie(answer, request, secret)
        return answer

    return endpoint


def _logout(desk: Desk) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        secret = request.cookies.get(COOKIE, "")
        session = await asyncio.to_thread(desk.sessions.find, secret)
        if session is not None and session.vouched((await read_form(request)).get("csrf", "")):
            await asyncio.to_thread(desk.sessions.end, secret)
        answer = RedirectResponse(f"{ROOT}/login", 303, HEADERS)
        answer.delete_cookie(COOKIE, path=ROOT)
        return answer

    return endpoint
