"""The HTTP application: every call of the guard as one route, errors as JSON that names the field and the fix.

A server speaks for one namespace. Who may call what is decided by keys (``access``); what is too large, too slow or
sent to another host never gets here (``border``).
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Annotated, Any

import orjson

from lazaretto.api.access import Caller, Door, Forbidden, Key, Role
from lazaretto.api.bodies import CheckBody, ExchangeBody, LabelBody, PlanBody, RecallBody, RememberBody, ReportBody
from lazaretto.api.border import Border
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
from lazaretto.types import Decision, Draft, EventKind, RepairPlan, plain

try:
    from fastapi import Depends, FastAPI, Request, Response
    from fastapi.exceptions import RequestValidationError
except ImportError:
    raise MissingExtra("the HTTP server", "api") from None

log = logging.getLogger("lazaretto")
PLANNED = "plan_sha256"
"""What the ledger keeps of a plan that was handed out: nothing but what it must be when it comes back."""
_STATUS: tuple[tuple[type[LazarettoError], int], ...] = (
    (Forbidden, 403),
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


def build(guard: Guard, token: str | None = None, *, keys: Sequence[Key] = (), hosts: Sequence[str] = ()) -> FastAPI:
    """The application over a guard; the caller closes the guard.

    ``token`` is an admin's key; ``keys`` have roles. ``hosts``: names the server answers to.
    """
    app = FastAPI(
        title="Lazaretto",
        description="An immune system for multi-agent AI.",
        version="1",
        lifespan=partial(_tending, guard),
    )
    door = Door(guard.ledger.namespace, token, keys)
    app.add_middleware(Border, door=door, limits=guard.policy.limits, hosts=tuple(hosts))
    _add_errors(app)
    _add_watching(app, guard)
    _add_tracing(app, guard)
    _add_repairs(app, guard)
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


def _caller(request: Request) -> Caller:
    caller: Caller = request.scope["state"]["caller"]
    return caller


def _reviewer(request: Request) -> Caller:
    caller = _caller(request)
    caller.require(Role.REVIEWER)
    return caller


Anyone = Annotated[Caller, Depends(_caller)]
Reviewer = Annotated[Caller, Depends(_reviewer)]


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


def _add_watching(app: FastAPI, guard: Guard) -> None:
    @app.get("/healthz")
    async def health() -> Response:
        """Whether the store answers."""
        head = await asyncio.to_thread(guard.ledger.head)
        return answer({"ok": True, "events": head.seq})

    @app.post("/v1/check")
    async def check(body: CheckBody, caller: Anyone) -> Response:
        """Judge something an agent is about to read or say."""
        caller.speak_as(body.agent, body.source)
        asked = {"agent": body.agent, "channel": body.channel, "source": body.source, "parents": body.parents}
        return ruled(await guard.check(body.text, image=body.picture(), **asked))  # type: ignore[arg-type]

    @app.post("/v1/remember")
    async def remember(body: RememberBody, caller: Anyone) -> Response:
        """Judge and keep a memory."""
        caller.speak_as(body.agent, body.source)
        asked = {"agent": body.agent, "source": body.source, "parents": body.parents, "key": body.key}
        return ruled(await guard.remember(body.text, image=body.picture(), **asked))  # type: ignore[arg-type]

    @app.post("/v1/recall")
    async def recall(body: RecallBody, caller: Anyone) -> Response:
        """Memories an agent may use; the reading is recorded."""
        caller.speak_as(body.agent)
        return answer(
            await guard.recall(
                body.query, agent=body.agent, items=body.items, limit=body.limit, min_trust=body.min_trust
            )
        )

    @app.post("/v1/exchange")
    async def exchange(body: ExchangeBody, caller: Anyone) -> Response:
        """Judge a message or picture from one agent to another."""
        caller.speak_as(body.sender, body.source)
        sent = {"sender": body.sender, "receiver": body.receiver, "source": body.source, "parents": body.parents}
        return ruled(await guard.exchange(body.text, image=body.picture(), **sent))  # type: ignore[arg-type]

    @app.post("/v1/report")
    async def report(body: ReportBody, caller: Anyone) -> Response:
        """Record a decision of an agent and how it went."""
        caller.speak_as(body.agent)
        told = {"agent": body.agent, "success": body.success, "rests_on": body.rests_on}
        return answer({"decision": await guard.report(body.what, **told)})  # type: ignore[arg-type]

    @app.post("/v1/items/{item}/label")
    async def label(item: str, body: LabelBody, caller: Reviewer) -> Response:
        """A person's word on an item: harmful or benign. Whoever has a key of their own signs with its name."""
        by = body.by if caller.role is Role.ADMIN else caller.name
        return answer(await guard.label(item, body.label, by=by))  # type: ignore[arg-type]


def _add_tracing(app: FastAPI, guard: Guard) -> None:
    @app.get("/v1/items/{item}/blast-radius")
    async def blast_radius(item: str, _: Reviewer, history: bool = False) -> Response:
        """What the item reached: items, agents and decisions."""
        return answer(await asyncio.to_thread(lambda: guard.graph.blast_radius(item, history=history)))

    @app.get("/v1/items/{item}/lineage")
    async def lineage(item: str, _: Reviewer) -> Response:
        """What the item came from."""
        return answer(await asyncio.to_thread(guard.graph.lineage, item))

    @app.get("/v1/agents/{agent}/contacts")
    async def contacts(agent: str, _: Reviewer, since: float | None = None, until: float | None = None) -> Response:
        """Whom an agent read and who read it."""
        return answer(await asyncio.to_thread(guard.graph.contacts, agent, since, until))

    @app.post("/v1/tend")
    async def tend(_: Reviewer, limit: int | None = None) -> Response:
        """Judge memories again; the server also does it by itself."""
        return answer(await guard.tend(limit=limit))

    @app.get("/v1/suspects")
    async def suspects(_: Reviewer, limit: int = 10) -> Response:
        """What stands behind decisions that failed."""
        return answer(await guard.suspects(limit=limit))

    @app.get("/v1/ledger/verify")
    async def verify(_: Reviewer) -> Response:
        """Whether the chain holds."""
        return answer(await asyncio.to_thread(guard.ledger.verify))


def _add_repairs(app: FastAPI, guard: Guard) -> None:
    @app.post("/v1/repairs/plan")
    async def plan(body: PlanBody, caller: Reviewer) -> Response:
        """What a repair would do and cost; nothing is changed."""
        made = await guard.plan(body.item, make_repair(body.repair, body.options), reason=body.reason)
        noted = {PLANNED: plan_digest(made), "by": caller.name}
        await asyncio.to_thread(guard.ledger.append, [Draft(EventKind.NOTED, made.id, body=noted)])
        return answer(made)

    @app.post("/v1/repairs/apply")
    async def apply(body: RepairPlan, _: Reviewer) -> Response:
        """Do what a plan says, as a whole; it must be one that this server made, unaltered."""
        await asyncio.to_thread(_require_own, body, guard)
        return answer(await guard.apply(body))

    @app.post("/v1/repairs/{receipt}/undo")
    async def undo(receipt: str, _: Reviewer) -> Response:
        """Put everything back as it was before a repair."""
        return answer(await guard.undo(receipt))

    @app.get("/v1/repairs")
    async def receipts(_: Reviewer) -> Response:
        """Every repair, oldest first."""
        return answer(await guard.receipts())


def plan_digest(plan: RepairPlan) -> str:
    """What two plans share only when they are the same, word for word."""
    return hashlib.sha256(orjson.dumps(plain(plan), option=orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS)).hexdigest()


def _require_own(plan: RepairPlan, guard: Guard) -> None:
    """``RepairRefused`` for a plan that this store did not hand out, or that was altered since."""
    digest = plan_digest(plan)
    for event in guard.ledger.events(subject=plan.id, kinds=(EventKind.NOTED,)):
        if (event.body or {}).get(PLANNED) == digest:
            return
    raise RepairRefused(f"no plan {plan.id!r} like this was made here; ask for one with POST /v1/repairs/plan")
