"""Calls for agents: judge, keep, recall, send, report, act; and records of their own stores, kept in step."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Query, Response
from pydantic import Field

from lazaretto.actions.records import Asked, Authorization
from lazaretto.api.access import Caller, Role
from lazaretto.api.answers import (
    ERRORS,
    AuditAnswer,
    AuditResults,
    BeforeTurnAnswer,
    DecisionAnswer,
    DueWriteAnswer,
    Forgotten,
    ImportedAnswer,
    NotedWrites,
    RecalledAnswer,
    RecalledRefs,
    ReconciledAnswer,
    ReportAnswer,
    ScreenResults,
    answer,
    fault,
    ruled,
)
from lazaretto.api.callers import Anyone, Once, Reviewer, TheGuard, claimed, signature
from lazaretto.api.requests import (
    MOST_AT_ONCE,
    AuditBatch,
    AuditBody,
    BeforeTurnBody,
    Body,
    CheckBody,
    ExchangeBody,
    ForgetBody,
    ImportBody,
    RecallBody,
    RecallRefsBody,
    ReconcileBody,
    RememberBatch,
    RememberBody,
    ReportBody,
    ScreenBatch,
    ScreenBody,
    WrittenBody,
    decoded,
)
from lazaretto.errors import InputError, LazarettoError
from lazaretto.external_stores.records import ExternalRecord
from lazaretto.guard import Guard
from lazaretto.ledger.refs import check_ref
from lazaretto.types import Channel, Decision, Ref, SourceClass, decision_data, plain

# The last gate over HTTP: tasks, calls, and people's answers about them.

actions_router = APIRouter(prefix="/v1", tags=["actions"], responses=ERRORS)


class TaskBody(Body):
    """``POST /v1/tasks``."""

    text: str
    agent: str
    tools: Annotated[list[str], Field(description="Tools the task may need, names or patterns; none: any.")] = []  # noqa: RUF012
    source: SourceClass = SourceClass.DIRECT_USER


class AuthorizeBody(Body):
    """``POST /v1/authorize``."""

    tool: str
    arguments: dict[str, Any]
    agent: str
    description: str = ""
    schema_: Annotated[
        dict[str, Any] | None, Field(alias="schema", description="JSON schema of the tool's arguments.")
    ] = None
    task: Annotated[str | None, Field(description="Id of an earlier task than the agent's last.")] = None


class AnswerBody(Body):
    """``POST /v1/actions/{token}/answer``."""

    agree: bool
    by: str = ""


class EndorseBody(Body):
    """``POST /v1/endorse``."""

    value: str
    purpose: Annotated[str, Field(description="A tool, or a class of actions such as `pay`.")]
    by: str = ""


class Endorsed(Body):
    """The receipt of an endorsement."""

    receipt: str


@actions_router.post("/tasks", response_model=DecisionAnswer)
async def begin_task(body: TaskBody, guard: TheGuard, caller: Anyone) -> Response:
    """Give an agent a task; needs a key that may speak as the user."""
    claim = claimed(caller, guard, body.agent, body.source, Channel.MESSAGE)
    return ruled(await guard.begin_task(body.text, tools=body.tools, **plain(claim)))


@actions_router.post("/authorize", response_model=Authorization)
async def authorize(body: AuthorizeBody, guard: TheGuard, caller: Anyone) -> Response:
    """May this agent call this tool now? Recorded before it is answered."""
    caller.identity.speak_as(body.agent)
    made = await guard.authorize(
        body.tool, body.arguments, agent=body.agent, description=body.description, schema=body.schema_, task=body.task,
        principal=caller.identity.principal(body.agent),
    )  # fmt: skip
    return answer(made)


@actions_router.get("/actions/waiting", response_model=list[Asked])
async def waiting(guard: TheGuard, _: Reviewer) -> Response:
    """Calls that wait for a person, the newest first."""
    return answer(await guard.approvals.waiting())


@actions_router.post("/actions/{token}/answer", response_model=Asked)
async def answer_action(token: str, body: AnswerBody, guard: TheGuard, caller: Reviewer) -> Response:
    """A person's decision on a call that waits. Nobody agrees to a call of their own."""
    by = signature(caller, body.by)
    return answer(await guard.approvals.answer(token, body.agree, by=by, caller=caller.identity))


@actions_router.post("/endorse", response_model=Endorsed)
async def endorse(body: EndorseBody, guard: TheGuard, caller: Reviewer) -> Response:
    """Raise the trust of a value for one purpose. Nobody endorses a value that they brought in."""
    by = signature(caller, body.by)
    receipt = await guard.approvals.endorse(body.value, purpose=body.purpose, by=by, caller=caller.identity)
    return answer({"receipt": receipt})


# Records in a store of the caller's own that the server cannot reach: taken in, compared, and kept in step.

records_router = APIRouter(prefix="/v1", tags=["records of your own store"], responses=ERRORS)


@records_router.post("/records/import", response_model=ImportedAnswer)
async def import_records(body: ImportBody, guard: TheGuard, caller: Reviewer) -> Response:
    """Judge and record the records of your store; records that are already known cost nothing."""
    records = []
    for number, record in enumerate(body.records):
        claim = claimed(caller, guard, record.agent or body.agent, record.source, Channel.MEMORY)
        parents = tuple(parent if isinstance(parent, str) else Ref(*parent) for parent in record.parents)
        ref = check_ref(record.ref, f"records[{number}].ref")
        records.append(
            ExternalRecord(ref, record.value, record.agent, claim.source, parents, record.time, claim.principal)
        )
    done = await guard.stores.import_records(records, agent=body.agent)
    refused = [{"ref": ref, "reason": reason} for ref, reason in done.refused]
    items = [{"ref": ref, "item": item} for ref, item in done.items]
    return answer({"items": items, "held": done.held, "known": done.known, "refused": refused})


@records_router.post("/records/reconcile", response_model=ReconciledAnswer)
async def reconcile(body: ReconcileBody, guard: TheGuard, _: Reviewer) -> Response:
    """The differences between your store and the ledger; send everything the namespace holds. Nothing is changed."""
    refs = [check_ref((body.system, body.namespace, record.key)) for record in body.records]
    entries = [(ref.namespace, ref.key, record.value) for ref, record in zip(refs, body.records, strict=True)]
    found = await guard.stores.reconcile(body.system, body.namespace, entries=entries)
    unknown, changed = ([record.ref for record in several] for several in (found.unknown, found.changed))
    differs = {"unknown": unknown, "changed": changed, "held": found.held, "missing": found.missing}
    return answer({"clean": found.clean, **differs, "same": found.same})


@records_router.get("/write-backs", response_model=list[DueWriteAnswer])
async def write_backs(
    guard: TheGuard,
    _: Reviewer,
    system: Annotated[str, Query(description="The store's name, as in `ref`.")],
    limit: Annotated[int, Query(ge=1, le=MOST_AT_ONCE)] = MOST_AT_ONCE,
) -> Response:
    """Writes that bring your store in step with rulings and repairs: make them, then report them."""
    return answer(await guard.stores.due_writes(system, limit=limit))


@records_router.post("/write-backs/done", response_model=NotedWrites)
async def written(body: WrittenBody, guard: TheGuard, _: Reviewer) -> Response:
    """Report a write, or why it failed. May be sent again."""
    noted = 0
    for write in body.writes:
        noted += await guard.stores.note_written(write.ref, item=write.item, write=write.write, error=write.error)
    return answer({"noted": noted})


# Calls for agents: judge, keep, recall, send, report.

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
    return None if once is None else f"{caller.name.replace('%', '%25').replace(':', '%3A')}:{once}"


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
