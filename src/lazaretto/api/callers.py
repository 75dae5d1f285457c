"""Dependencies of every route: the guard, and the caller."""

from __future__ import annotations

from typing import Annotated

from lazaretto.api.access import Caller, Role
from lazaretto.errors import MissingExtra
from lazaretto.guard import Guard
from lazaretto.identity import WriterClaim
from lazaretto.ingest.raw_input import USUAL_SOURCE
from lazaretto.types import Channel, SourceClass

try:
    from fastapi import Depends, Header, Request
except ImportError:
    raise MissingExtra("the HTTP server", "api") from None


# async: FastAPI hands other functions to a thread
async def _guard(request: Request) -> Guard:
    guard: Guard = request.app.state.guard
    return guard


async def _caller(request: Request) -> Caller:
    caller: Caller = request.scope["state"]["caller"]
    return caller


async def _reviewer(request: Request) -> Caller:
    caller = await _caller(request)
    caller.require(Role.REVIEWER)
    return caller


async def _admin(request: Request) -> Caller:
    caller = await _caller(request)
    caller.require(Role.ADMIN)
    return caller


def claimed(
    caller: Caller, guard: Guard, agent: str, source: SourceClass | None = None, channel: Channel = Channel.MESSAGE
) -> WriterClaim:
    """The caller's claims about itself in a write, if it may make them; else ``Forbidden``."""
    return caller.identity.claim(agent, source, USUAL_SOURCE[channel], guard.policy.trust.table())


def signature(caller: Caller, by: str) -> str:
    """The name that signs: an admin may speak for others, everybody else signs with the name of their key."""
    return by if caller.role is Role.ADMIN and by else caller.name


TheGuard = Annotated[Guard, Depends(_guard)]
Anyone = Annotated[Caller, Depends(_caller)]
Reviewer = Annotated[Caller, Depends(_reviewer)]
Admin = Annotated[Caller, Depends(_admin)]
Once = Annotated[
    str | None,
    Header(
        alias="idempotency-key",
        max_length=200,
        description="A name of yours for this write: sent again with it, nothing is recorded twice.",
    ),
]
