"""The HTTP application: every call of the guard as one route, errors as JSON that names the field and the fix.

A server speaks for one namespace. Whoever may reach it may use it, unless a token is set; ``lazaretto serve`` refuses
to listen beyond this machine without one.
"""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Awaitable, Callable
from typing import Any

import orjson

from lazaretto.api.bodies import CheckBody, ExchangeBody, LabelBody, PlanBody, RecallBody, RememberBody, ReportBody
from lazaretto.errors import (
    GuardClosed,
    InputError,
    LazarettoError,
    MissingExtra,
    RepairRefused,
    StoreError,
    TooLarge,
    UnknownItem,
)
from lazaretto.guard import Guard
from lazaretto.repair.options import make_repair
from lazaretto.types import Decision, RepairPlan, plain

try:
    from fastapi import FastAPI, Request, Response
    from fastapi.exceptions import RequestValidationError
except ImportError:
    raise MissingExtra("the HTTP server", "api") from None

OPEN_PATHS = ("/healthz",)
"""What needs no token: a load balancer has none."""
_STATUS: tuple[tuple[type[LazarettoError], int], ...] = (
    (UnknownItem, 404),
    (TooLarge, 413),
    (InputError, 422),
    (RepairRefused, 409),
    (StoreError, 503),
    (GuardClosed, 503),
)


def answer(data: Any, status: int = 200) -> Response:
    """Records as JSON."""
    return Response(orjson.dumps(plain(data), option=orjson.OPT_NON_STR_KEYS), status, media_type="application/json")


def ruled(decision: Decision) -> Response:
    """A decision, with the words a caller acts on spelled out."""
    words = {"allowed": decision.allowed, "complete": decision.complete, "action": decision.ruling.hook_action}
    return answer({**plain(decision), **words, "reasons": list(decision.reasons)})


def build(guard: Guard, token: str | None = None) -> FastAPI:
    """The application over a guard; the caller closes the guard."""
    app = FastAPI(title="Lazaretto", description="An immune system for multi-agent AI.", version="1")
    _add_errors(app)
    _add_token(app, token)
    _add_watching(app, guard)
    _add_tracing(app, guard)
    _add_repairs(app, guard)
    return app


def _add_errors(app: FastAPI) -> None:
    @app.exception_handler(LazarettoError)
    async def refused(_: Request, error: LazarettoError) -> Response:
        status = next((code for kind, code in _STATUS if isinstance(error, kind)), 500)
        body = {"error": type(error).__name__, "message": str(error)}
        if isinstance(error, InputError):
            body |= {"field": error.field, "fix": error.fix}
        return answer(body, status)

    @app.exception_handler(RequestValidationError)
    async def malformed(_: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"] if part != "body") or "body"
        body = {"error": "InputError", "message": f"{field}: {first['msg']}", "field": field, "fix": "See /docs"}
        return answer(body, 422)


def _add_token(app: FastAPI, token: str | None) -> None:
    if token is None:
        return

    @app.middleware("http")
    async def authorise(request: Request, go_on: Callable[[Request], Awaitable[Response]]) -> Response:
        sent = request.headers.get("authorization", "").removeprefix("Bearer ")
        if request.scope["path"] not in OPEN_PATHS and not hmac.compare_digest(sent.encode(), token.encode()):
            message = "authorization: missing or wrong. Send 'Authorization: Bearer TOKEN'"
            return answer({"error": "Unauthorized", "message": message, "field": "authorization"}, 401)
        return await go_on(request)


def _add_watching(app: FastAPI, guard: Guard) -> None:
    @app.get("/healthz")
    async def health() -> Response:
        """Whether the store answers."""
        head = await asyncio.to_thread(guard.ledger.head)
        return answer({"ok": True, "events": head.seq})

    @app.post("/v1/check")
    async def check(body: CheckBody) -> Response:
        """Judge something an agent is about to read or say."""
        asked = {"agent": body.agent, "channel": body.channel, "source": body.source, "parents": body.parents}
        return ruled(await guard.check(body.text, image=body.picture(), **asked))  # type: ignore[arg-type]

    @app.post("/v1/remember")
    async def remember(body: RememberBody) -> Response:
        """Judge and keep a memory."""
        asked = {"agent": body.agent, "source": body.source, "parents": body.parents}
        return ruled(await guard.remember(body.text, image=body.picture(), **asked))  # type: ignore[arg-type]

    @app.post("/v1/recall")
    async def recall(body: RecallBody) -> Response:
        """Memories an agent may use; the reading is recorded."""
        return answer(await guard.recall(body.query, agent=body.agent, items=body.items, limit=body.limit))

    @app.post("/v1/exchange")
    async def exchange(body: ExchangeBody) -> Response:
        """Judge a message or picture from one agent to another."""
        sent = {"sender": body.sender, "receiver": body.receiver, "source": body.source, "parents": body.parents}
        return ruled(await guard.exchange(body.text, image=body.picture(), **sent))  # type: ignore[arg-type]

    @app.post("/v1/report")
    async def report(body: ReportBody) -> Response:
        """Record a decision of an agent and how it went."""
        told = {"agent": body.agent, "success": body.success, "rests_on": body.rests_on}
        return answer({"decision": await guard.report(body.what, **told)})  # type: ignore[arg-type]

    @app.post("/v1/items/{item}/label")
    async def label(item: str, body: LabelBody) -> Response:
        """A person's word on an item: harmful or benign."""
        return answer(await guard.label(item, body.label, by=body.by))  # type: ignore[arg-type]


def _add_tracing(app: FastAPI, guard: Guard) -> None:
    @app.get("/v1/items/{item}/blast-radius")
    async def blast_radius(item: str, history: bool = False) -> Response:
        """What the item reached: items, agents and decisions."""
        return answer(await asyncio.to_thread(lambda: guard.graph.blast_radius(item, history=history)))

    @app.get("/v1/items/{item}/lineage")
    async def lineage(item: str) -> Response:
        """What the item came from."""
        return answer(await asyncio.to_thread(guard.graph.lineage, item))

    @app.get("/v1/agents/{agent}/contacts")
    async def contacts(agent: str, since: float | None = None, until: float | None = None) -> Response:
        """Whom an agent read and who read it."""
        return answer(await asyncio.to_thread(guard.graph.contacts, agent, since, until))

    @app.get("/v1/ledger/verify")
    async def verify() -> Response:
        """Whether the chain holds."""
        return answer(await asyncio.to_thread(guard.ledger.verify))


def _add_repairs(app: FastAPI, guard: Guard) -> None:
    @app.post("/v1/repairs/plan")
    async def plan(body: PlanBody) -> Response:
        """What a repair would do and cost; nothing is changed."""
        return answer(await guard.plan(body.item, make_repair(body.repair, body.options), reason=body.reason))

    @app.post("/v1/repairs/apply")
    async def apply(body: RepairPlan) -> Response:
        """Do what a plan says, as a whole."""
        return answer(await guard.apply(body))

    @app.post("/v1/repairs/{receipt}/undo")
    async def undo(receipt: str) -> Response:
        """Put everything back as it was before a repair."""
        return answer(await guard.undo(receipt))

    @app.get("/v1/repairs")
    async def receipts() -> Response:
        """Every repair, oldest first."""
        return answer(await guard.receipts())
