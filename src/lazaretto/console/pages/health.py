"""Policy and health: the gates of each channel, missing parts, and whether the record verifies."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Any

from lazaretto.console.web import Response, Visit
from lazaretto.installed import packages
from lazaretto.policy import Stage
from lazaretto.policy.presets import NAMES
from lazaretto.types import Channel


async def health(visit: Visit) -> Response:
    """The page; ``?verify=1`` also checks the whole chain."""
    guard = visit.guard
    checked = await asyncio.to_thread(guard.ledger.verify) if visit.query("verify") else None
    facts = await asyncio.to_thread(_facts, visit)
    return visit.page("health.html", here="health", checked=checked, **facts)


def _facts(visit: Visit) -> dict[str, Any]:
    guard = visit.guard
    channels = []
    for channel in Channel:
        rules = guard.policy.channels[channel]
        stages = [(Stage.of(stage).gates, Stage.of(stage).condition.gray) for stage in rules.stages]
        channels.append((channel.value, stages, rules.fail_mode.label, rules.timeout_s))
    return {
        "policy": guard.policy,
        "presets": NAMES,
        "gates": guard.gates(),
        "channels": channels,
        "trust": dataclasses.asdict(guard.policy.trust),
        "packages": packages(),
        "head": guard.ledger.head(),
        "store": guard.ledger.url,
        "not_run": visit.desk.activity.snapshot().not_run,
    }
