"""Decisions of agents, recorded with the items they rest on."""

from __future__ import annotations

from collections.abc import Sequence

from lazaretto.errors import InputError
from lazaretto.guard.core import Core
from lazaretto.guard.recall import require_known
from lazaretto.ingest.read_history import met_by
from lazaretto.names import check_ids, check_name, check_principal
from lazaretto.types import Draft, EventKind, new_id


async def record_decision(
    core: Core, what: str, agent: str, success: bool | None, rests_on: Sequence[str] | None, principal: str | None
) -> str:
    """Record a decision and how it went; returns its id. See ``Guard.report``."""
    name = check_name(agent, "agent", printable=True)
    if not isinstance(what, str) or len(what) > core.policy.limits.max_text_bytes:
        raise InputError("what", "is not text, or past limits.max_text_bytes", "Say in a sentence what was decided")
    if success is not None and not isinstance(success, bool):
        raise InputError("success", f"is {success!r}", "Give True, False or None")
    if rests_on is None:
        items = await core.in_store_thread(core.recorder.before_decision, name)
    else:
        items = check_ids(rests_on, "rests_on", core.policy.limits.max_results)
    claimed: tuple[str, ...] = ()
    if principal is not None and rests_on is not None:
        await core.in_store_thread(require_known, core.ledger, items, "rests_on")
        met = await core.in_store_thread(met_by, check_principal(principal), name, items, core.ledger)
        items, claimed = met, tuple(item for item in items if item not in met)
    decision = new_id("de")
    body = {"what": what, "success": success, "rests_on": list(items)}
    body |= {"claimed": list(claimed)} if claimed else {}
    body |= {} if principal is None else {"principal": principal}
    await core.append(Draft(EventKind.REPORTED, decision, name, body))
    return decision
