"""Records in a store of the caller's own that the server cannot reach: taken in, compared, and kept in step."""

from __future__ import annotations

from typing import Annotated

from lazaretto.api.answers import DueWriteAnswer, ImportedAnswer, NotedWrites, ReconciledAnswer, answer
from lazaretto.api.callers import Reviewer, TheGuard, claimed
from lazaretto.api.requests import MOST_AT_ONCE, ImportBody, ReconcileBody, WrittenBody
from lazaretto.errors import MissingExtra
from lazaretto.external_stores.records import ExternalRecord
from lazaretto.ledger.refs import check_ref
from lazaretto.types import Channel, Ref

try:
    from fastapi import APIRouter, Query, Response
except ImportError:
    raise MissingExtra("the HTTP server", "api") from None

router = APIRouter(prefix="/v1", tags=["records of your own store"])


@router.post("/records/import", response_model=ImportedAnswer)
async def import_records(body: ImportBody, guard: TheGuard, caller: Reviewer) -> Response:
    """Judge and record what your store holds already; what is known as it is costs nothing."""
    records = []
    for number, one in enumerate(body.records):
        said = claimed(caller, guard, one.agent or body.agent, one.source, Channel.MEMORY)
        parents = tuple(parent if isinstance(parent, str) else Ref(*parent) for parent in one.parents)
        ref = check_ref(one.ref, f"records[{number}].ref")
        records.append(ExternalRecord(ref, one.value, one.agent, said.source, parents, one.time, said.principal))
    done = await guard.stores.import_records(records, agent=body.agent)
    refused = [{"ref": ref, "reason": reason} for ref, reason in done.refused]
    items = [{"ref": ref, "item": item} for ref, item in done.items]
    return answer({"items": items, "held": done.held, "known": done.known, "refused": refused})


@router.post("/records/reconcile", response_model=ReconciledAnswer)
async def reconcile(body: ReconcileBody, guard: TheGuard, _: Reviewer) -> Response:
    """How your store and the ledger differ; send everything the namespace holds. Nothing is changed."""
    refs = [check_ref((body.system, body.namespace, one.key)) for one in body.records]
    entries = [(ref.namespace, ref.key, one.value) for ref, one in zip(refs, body.records, strict=True)]
    found = await guard.stores.reconcile(body.system, body.namespace, entries=entries)
    unknown, changed = ([one.ref for one in several] for several in (found.unknown, found.changed))
    differs = {"unknown": unknown, "changed": changed, "held": found.held, "missing": found.missing}
    return answer({"clean": found.clean, **differs, "same": found.same})


@router.get("/write-backs", response_model=list[DueWriteAnswer])
async def write_backs(
    guard: TheGuard,
    _: Reviewer,
    system: Annotated[str, Query(description="The store's name, as in `ref`.")],
    limit: Annotated[int, Query(ge=1, le=MOST_AT_ONCE)] = MOST_AT_ONCE,
) -> Response:
    """What your store has to be given so that it follows rulings and repairs: do it, then say so."""
    return answer(await guard.stores.due_writes(system, limit=limit))


@router.post("/write-backs/done", response_model=NotedWrites)
async def written(body: WrittenBody, guard: TheGuard, _: Reviewer) -> Response:
    """Say what was written, or why it could not be. May be sent again."""
    noted = 0
    for one in body.writes:
        noted += await guard.stores.note_written(one.ref, item=one.item, write=one.write, error=one.error)
    return answer({"noted": noted})
