"""The server itself: health, who calls, the policy and its gates, the record, the case library."""

from __future__ import annotations

import asyncio
import re
from typing import Any

from fastapi import APIRouter, Query, Request, Response

from lazaretto.api.answers import ERRORS, CasesAnswer, GateAnswer, Health, LiveVersion, Whoami, answer
from lazaretto.api.callers import Admin, Anyone, Reviewer, TheGuard, signature
from lazaretto.api.metrics import CONTENT_TYPE
from lazaretto.api.requests import RollbackBody
from lazaretto.cases.casebook import Casebook
from lazaretto.cases.records import Case
from lazaretto.gates.engine.thresholds import Thresholds
from lazaretto.ledger.verify import Verification
from lazaretto.types import Head, SourceClass, plain

router = APIRouter(tags=["service"], responses=ERRORS)
SECRETS = ("key", "apikey", "token", "password", "secret", "headers")
"""Settings whose values stay here, by the last word of their names; a key alone is none."""
_LOGIN = re.compile(r"://[^/@\s]+@")
_WORD = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z]+")
_ASKED = re.compile(r"([?&])([^?=&#\s]+)=([^&#\s]+)")
"""A name and its value in an address."""


@router.get("/healthz", response_model=Health)
async def health(guard: TheGuard) -> Response:
    """Whether the store answers."""
    head = await asyncio.to_thread(guard.ledger.head)
    return answer({"ok": True, "events": head.seq})


@router.get("/metrics", response_class=Response)
async def metrics(request: Request, _: Reviewer) -> Response:
    """Numbers for Prometheus."""
    return Response(await asyncio.to_thread(request.app.state.metrics.exposition), media_type=CONTENT_TYPE)


@router.get("/v1/whoami", response_model=Whoami)
async def whoami(request: Request, guard: TheGuard, caller: Anyone) -> Response:
    """The caller as the server knows it."""
    who, trust = caller.identity, guard.policy.trust.table()
    sources = [source for source in SourceClass if who.may_claim(source, trust)]
    data = {"name": caller.name, "role": caller.role, "agents": caller.agents, "sources": sources}
    return answer({**data, "namespace": guard.ledger.namespace, "open": request.app.state.door.open})


@router.get("/v1/policy", response_model=dict[str, Any])
async def policy(guard: TheGuard, _: Reviewer) -> Response:
    """The policy in force; secrets and the store's address are left out."""
    data = plain(guard.policy)
    data["store"] = guard.ledger.url
    return answer(_without_secrets(data))


@router.get("/v1/gates", response_model=list[GateAnswer])
async def gates(guard: TheGuard, _: Anyone) -> Response:
    """The gates that the policy names: where each is asked, and whether it is there."""
    return answer(guard.gates())


@router.get("/v1/thresholds", response_model=list[dict[str, Any]])
async def thresholds(guard: TheGuard, _: Reviewer) -> Response:
    """The thresholds between warn and review, as people's labels moved them: every version, the last one in force."""
    return answer(await asyncio.to_thread(lambda: Thresholds(guard.ledger, guard.policy.learn).versions()))


@router.get("/v1/ledger/head", response_model=Head)
async def head(guard: TheGuard, _: Reviewer) -> Response:
    """The end of the chain: keep it to prove later that nothing before it was changed."""
    return answer(await asyncio.to_thread(guard.ledger.head))


@router.get("/v1/ledger/verify", response_model=Verification)
async def verify(guard: TheGuard, _: Reviewer) -> Response:
    """Whether the chain holds."""
    return answer(await asyncio.to_thread(guard.ledger.verify))


@router.get("/v1/cases", response_model=CasesAnswer)
async def cases(guard: TheGuard, _: Reviewer) -> Response:
    """The versions of the case library that debates take precedents from."""

    def read() -> dict[str, Any]:
        book = Casebook(guard.ledger)
        rows = [
            {"version": v.name, "live": v.name == book.live, "cases": len(v.cases), "parent": v.parent,
             "reason": v.reason, "time": v.time}
            for v in book.versions()
        ]  # fmt: skip
        return {"live": book.live, "versions": rows}

    return answer(await asyncio.to_thread(read))


@router.get("/v1/cases/{version}", response_model=list[Case])
async def cases_of(
    version: str, guard: TheGuard, _: Reviewer, limit: int = Query(100, ge=1, le=1_000), after: int = Query(0, ge=0)
) -> Response:
    """The cases of one version, some at a time."""
    found = await asyncio.to_thread(lambda: Casebook(guard.ledger).cases(version))
    return answer(found[after : after + limit])


@router.post("/v1/cases/rollback", response_model=LiveVersion)
async def roll_back(body: RollbackBody, guard: TheGuard, caller: Admin) -> Response:
    """Go back to an earlier version of the case library."""
    by = signature(caller, body.by)
    return answer({"live": await asyncio.to_thread(lambda: Casebook(guard.ledger).roll_back(body.to, by=by))})


def _without_secrets(data: Any) -> Any:
    if isinstance(data, dict):
        return {name: "***" if _is_secret(name) and value else _without_secrets(value) for name, value in data.items()}
    if isinstance(data, list):
        return [_without_secrets(value) for value in data]
    if not isinstance(data, str):
        return data
    return _ASKED.sub(
        lambda part: f"{part[1]}{part[2]}=***" if _is_secret(part[2]) else part[0], _LOGIN.sub("://***@", data)
    )


def _is_secret(name: object) -> bool:
    """Whether a setting holds a secret, however its name is spelled: ``api_key``, ``apiKey``, ``client-secret``."""
    words = [word.casefold() for word in _WORD.findall(name)] if isinstance(name, str) else []
    return bool(words) and words[-1] in SECRETS and words != ["key"] and words[0] != "public"
