"""Records in a store of the caller's own that the server cannot reach: taken in, compared, and kept in step."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response

from lazaretto.api.answers import ERRORS, DueWriteAnswer, ImportedAnswer, NotedWrites, ReconciledAnswer, answer
from lazaretto.api.callers import Reviewer, TheGuard, claimed
from lazaretto.api.requests import MOST_AT_ONCE, ImportBody, ReconcileBody, WrittenBody
from lazaretto.external_stores.records import ExternalRecord
from lazaretto.ledger.refs import check_ref
from lazaretto.types import Channel, Ref

router = APIRouter(prefix="/v1", tags=["records of your own store"], responses=ERRORS)


@router.post("/records/import", response_model=ImportedAnswer)
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


@router.post("/records/reconcile", response_model=ReconciledAnswer)
async def reconcile(body: ReconcileBody, guard: TheGuard, _: Reviewer) -> Response:
    """The differences between your store and the ledger; send everything the namespace holds. Nothing is changed."""
    refs = [check_ref((body.system, body.namespace, record.key)) for record in body.records]
    entries = [(ref.namespace, ref.key, record.value) for ref, record in zip(refs, body.records, strict=True)]
    found = await guard.stores.reconcile(body.system, body.namespace, entries=entries)
    unknown, changed = ([record.ref for record in several] for several in (found.unknown, found.changed))
    differs = {"unknown": unknown, "changed": changed, "held": found.held, "missing": found.missing}
    return answer({"clean": found.clean, **differs, "same": found.same})


@router.get("/write-backs", response_model=list[DueWriteAnswer])
async def write_backs(
    guard: TheGuard,
    _: Reviewer,
    system: Annotated[str, Query(description="The store's name, as in `ref`.")],
    limit: Annotated[int, Query(ge=1, le=MOST_AT_ONCE)] = MOST_AT_ONCE,
) -> Response:
    """Writes that bring your store in step with rulings and repairs: make them, then report them."""
    return answer(await guard.stores.due_writes(system, limit=limit))


@router.post("/write-backs/done", response_model=NotedWrites)
async def written(body: WrittenBody, guard: TheGuard, _: Reviewer) -> Response:
    """Report a write, or why it failed. May be sent again."""
    noted = 0
    for write in body.writes:
        noted += await guard.stores.note_written(write.ref, item=write.item, write=write.write, error=write.error)
    return answer({"noted": noted})
