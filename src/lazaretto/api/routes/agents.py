"""Calls for agents: judge, keep, recall, send, report."""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import APIRouter, Response

from lazaretto.api.access import Caller, Role
from lazaretto.api.answers import (
    ERRORS,
    AuditAnswer,
    AuditResults,
    BeforeTurnAnswer,
    DecisionAnswer,
    Forgotten,
    RecalledAnswer,
    RecalledRefs,
    ReportAnswer,
    ScreenResults,
    answer,
    fault,
    ruled,
)
from lazaretto.api.callers import Anyone, Once, TheGuard, claimed
from lazaretto.api.requests import (
    AuditBatch,
    AuditBody,
    BeforeTurnBody,
    CheckBody,
    ExchangeBody,
    ForgetBody,
    RecallBody,
    RecallRefsBody,
    RememberBatch,
    RememberBody,
    ReportBody,
    ScreenBatch,
    ScreenBody,
    decoded,
)
from lazaretto.errors import InputError, LazarettoError
from lazaretto.guard import Guard
from lazaretto.ledger.refs import check_ref
from lazaretto.types import Channel, Decision, SourceClass, decision_data, plain

router = APIRouter(prefix="/v1", tags=["agents"], responses=ERRORS)
AT_ONCE = 16
"""Items of a batch that are judged side by side."""
NOBODY = "unknown"
"""The agent of items that are only screened, where the key names none."""


@router.post("/check", response_model=DecisionAnswer)
async def check(body: CheckBody, guard: TheGuard, caller: Anyone, once: Once = None) -> Response:
    """Judge something an agent is about to read or say, and record both."""
    channel = body.channel or (Channel.IMAGE if body.image is not None and not body.text else Channel.MESSAGE)
    claim = claimed(caller, guard, body.agent, body.source, channel)
    source: SourceClass | None = claim.source
    if body.tool is not None and guard.actions.settings.is_directory(body.tool):
        claimed(caller, guard, body.agent, SourceClass.TOOL_OUTPUT_INTERNAL, channel)  # or it is refused
        source = body.source  # without a claim, the directory's answer decides
    decision = await guard.check(
        body.text,
        agent=claim.agent,
        channel=channel,
        image=body.picture(),
        source=source,
        parents=body.parents,
        once=_own(once, caller),
        principal=claim.principal,
        tool=body.tool,
    )
    return ruled(decision)


@router.post("/remember", response_model=DecisionAnswer)
async def remember(body: RememberBody, guard: TheGuard, caller: Anyone, once: Once = None) -> Response:
    """Judge and keep a memory."""
    return ruled(await _remembered(body, guard, caller, once))


@router.post("/remember/batch", response_model=ScreenResults)
async def remember_batch(body: RememberBatch, guard: TheGuard, caller: Anyone) -> Response:
    """Judge and keep memories, one after the other in their order, each as if it had been sent alone.

    Each memory counts for the next. A failed one has its error in its place, and the others are kept all the same.
    """
    results = []
    for item in body.items:
        try:
            results.append(decision_data(await _remembered(item, guard, caller, item.once)))
        except LazarettoError as error:
            results.append(fault(error))
    return answer({"results": results})


@router.post("/recall", response_model=list[RecalledAnswer])
async def recall(body: RecallBody, guard: TheGuard, caller: Anyone) -> Response:
    """Memories an agent may use; the reading is recorded."""
    caller.identity.speak_as(body.agent)
    found = await guard.recall(
        body.query,
        agent=body.agent,
        items=body.items,
        limit=body.limit,
        min_trust=body.min_trust,
        principal=caller.identity.principal(body.agent),
    )
    return answer(found)


@router.post("/recall/refs", response_model=RecalledRefs)
async def recall_refs(body: RecallRefsBody, guard: TheGuard, caller: Anyone) -> Response:
    """The records in your own store that an agent may use; the reading is recorded."""
    caller.identity.speak_as(body.agent)
    refs = [check_ref(ref, f"refs[{number}]") for number, ref in enumerate(body.refs)]
    found = await guard.recall(
        agent=body.agent, items=refs, min_trust=body.min_trust, principal=caller.identity.principal(body.agent)
    )
    return answer({"memories": found, "unknown": found.unknown})


@router.post("/forget", response_model=Forgotten)
async def forget(body: ForgetBody, guard: TheGuard, caller: Anyone) -> Response:
    """Say that an agent deleted a record in your own store: it is not recalled any more.

    An agent may forget its own records; a reviewer those of others too.
    """
    caller.identity.speak_as(body.agent)
    ref, behind = check_ref(body.ref), caller.identity.principal(body.agent)
    await guard.stores.forget(ref, agent=body.agent, principal=behind, by_right=caller.role is not Role.AGENT)
    return answer({"forgotten": ref})


@router.post("/exchange", response_model=DecisionAnswer)
async def exchange(body: ExchangeBody, guard: TheGuard, caller: Anyone, once: Once = None) -> Response:
    """Judge a message or picture from one agent to another."""
    claim = claimed(caller, guard, body.sender, body.source)
    decision = await guard.exchange(
        body.text,
        sender=claim.agent,
        receiver=body.receiver,
        image=body.picture(),
        source=claim.source,
        parents=body.parents,
        once=_own(once, caller),
        principal=claim.principal,
    )
    return ruled(decision)


@router.post("/report", response_model=ReportAnswer)
async def report(body: ReportBody, guard: TheGuard, caller: Anyone) -> Response:
    """Record a decision of an agent and how it went."""
    caller.identity.speak_as(body.agent)
    behind = caller.identity.principal(body.agent)
    made = await guard.report(
        body.what, agent=body.agent, success=body.success, rests_on=body.rests_on, principal=behind
    )
    return answer({"decision": made})


@router.post("/before-turn", response_model=BeforeTurnAnswer)
async def before_turn(body: BeforeTurnBody, guard: TheGuard, caller: Anyone) -> Response:
    """Rehearse an agent's turn, and remove memories that would speak through it.

    The policy's `[gates.foresight]` must name a calibration and a model.
    """
    caller.identity.speak_as(body.agent)
    done = await guard.foresight.before_turn(body.agent, others=body.others)
    return answer({**plain(done), "clear": done.clear})


@router.post("/screen", response_model=DecisionAnswer)
async def screen(body: ScreenBody, guard: TheGuard, caller: Anyone) -> Response:
    """The gates' decision; nothing is recorded."""
    return ruled(await _screened(body, guard, caller))


@router.post("/screen/batch", response_model=ScreenResults)
async def screen_batch(body: ScreenBatch, guard: TheGuard, caller: Anyone) -> Response:
    """The gates' decision for each; nothing is recorded."""

    async def screened(item: ScreenBody) -> dict[str, Any]:
        return decision_data(await _screened(item, guard, caller))

    return answer({"results": await _each(body.items, screened)})


@router.post("/audit", response_model=AuditAnswer)
async def audit(body: AuditBody, guard: TheGuard, _: Anyone) -> Response:
    """Judge a text, a picture or both by debate, with reasons and precedents; nothing is recorded."""
    return answer(await _audited(body, guard))


@router.post("/audit/batch", response_model=AuditResults)
async def audit_batch(body: AuditBatch, guard: TheGuard, _: Anyone) -> Response:
    """Judge each by debate; nothing is recorded."""
    return answer({"results": await _each(body.items, lambda item: _audited(item, guard))})


async def _remembered(body: RememberBody, guard: Guard, caller: Caller, once: str | None) -> Decision:
    claim = claimed(caller, guard, body.agent, body.source, Channel.MEMORY)
    fields = None if body.fields is None else body.fields.model_dump()
    return await guard.remember(
        body.text,
        agent=claim.agent,
        image=body.picture(),
        fields=fields,
        source=claim.source,
        parents=body.parents,
        key=body.key,
        once=_own(once, caller),
        ref=body.ref,
        value=body.value,
        principal=claim.principal,
    )


def _own(once: str | None, caller: Caller) -> str | None:
    """The caller's name for a write, made distinct from names of other callers."""
    return None if once is None else f"{caller.name}:{once}"


async def _screened(body: ScreenBody, guard: Guard, caller: Caller) -> Decision:
    agent = caller.agents[0] if caller.agents else NOBODY
    claim = claimed(caller, guard, agent, body.source, body.channel)
    fields = None if body.fields is None else body.fields.model_dump()
    return await guard.screen(
        body.text,
        agent=claim.agent,
        channel=body.channel,
        image=decoded(body.image),
        fields=fields,
        source=claim.source,
        key=body.key,
        principal=claim.principal,
    )


async def _audited(body: AuditBody, guard: Guard) -> dict[str, Any]:
    return await guard.audit(body.text, image=decoded(body.image), description=body.description)


async def _each(items: Any, work: Any) -> list[dict[str, Any]]:
    """``work`` on every item, some at a time; an error stands in the place of its item."""
    room = asyncio.Semaphore(AT_ONCE)

    async def worked(item: Any) -> dict[str, Any]:
        async with room:
            try:
                done: dict[str, Any] = await work(item)
                return done
            except InputError as error:
                return fault(error)

    return list(await asyncio.gather(*map(worked, items)))
