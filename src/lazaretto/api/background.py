"""What a server does by itself: judge memories again, tell others of incidents. One worker of all does it."""

from __future__ import annotations

import asyncio
import logging

from lazaretto.api.metrics import Metrics
from lazaretto.api.webhooks import Webhooks
from lazaretto.errors import GuardClosed
from lazaretto.guard import Guard

log = logging.getLogger("lazaretto")
LEASE = "background"


async def work_forever(guard: Guard, metrics: Metrics, webhooks: Webhooks | None = None) -> None:
    """One step at a time, whenever enough is new. What fails is logged, and tried again later.

    Of all workers on one store only the one that holds the lease does anything; when it ends, the next takes over.
    """
    rules = guard.policy.review
    lease = guard.ledger.lease(LEASE)
    try:
        while True:
            await asyncio.sleep(rules.interval_s)
            try:
                if await asyncio.to_thread(lease.hold):
                    await _step(guard, metrics, webhooks)
            except GuardClosed:
                return
            except Exception:
                log.exception("the work in the background failed; it is tried again")
    finally:
        lease.release()


async def _step(guard: Guard, metrics: Metrics, webhooks: Webhooks | None) -> None:
    done = await guard.recheck(news=guard.policy.review.every)
    counts = {"looked": done.looked, "held": len(done.held), "released": len(done.released)}
    counts |= {"rewritten": len(done.rewritten), "proposed": len(done.proposed)}
    for outcome, count in counts.items():
        metrics.looked_again(outcome, count)
    if webhooks is not None:
        await webhooks.step()
