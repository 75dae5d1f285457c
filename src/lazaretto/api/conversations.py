"""What passes between an agent and a model, judged once each: shared by the proxy and by LiteLLM's guardrail call.

A conversation is sent whole with every call. What was judged and recorded before is not judged again; but whether it
is held *now* is looked up each time, because somebody may have found it harmful meanwhile.
"""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import dataclass

from lazaretto.guard import Guard
from lazaretto.types import Channel, Ruling, SourceClass


@dataclass(frozen=True, slots=True)
class Passage:
    """One text or picture on its way."""

    text: str = ""
    image: bytes | None = None
    channel: Channel = Channel.MESSAGE
    source: SourceClass | None = None


@dataclass(frozen=True, slots=True)
class Judged:
    """What became of it."""

    item: str
    allowed: bool
    rule: str
    reason: str
    replacement: str | None = None
    """What to pass on instead; None where nothing may be."""


async def judge(
    guard: Guard, passage: Passage, *, agent: str, conversation: str = "", principal: str | None = None
) -> Judged:
    """Judge and record a passage, or find how it stands where it was judged before in the same conversation."""
    content = hashlib.sha256(passage.text.encode("utf-8", "surrogatepass") + b"\0" + (passage.image or b""))
    who = "" if principal is None else f"{principal}:"
    kind = f"{passage.channel.value}:{passage.source or ''}"
    once = f"passage:{who}{agent}:{conversation}:{kind}:{content.hexdigest()[:40]}"
    decision = await guard.check(
        passage.text, agent=agent, channel=passage.channel, image=passage.image, source=passage.source,
        principal=principal, once=hashlib.sha256(once.encode("utf-8", "surrogatepass")).hexdigest(),
    )  # fmt: skip
    reason = decision.reasons[0] if decision.reasons else decision.rule
    if decision.allowed:
        state = await asyncio.to_thread(guard.ledger.state, decision.item)
        if state.held and guard.policy.mode != "observe":
            return Judged(decision.item, False, "held:since", "It was found harmful after it was first seen.")
        return Judged(decision.item, True, decision.rule, reason)
    instead = decision.replacement if decision.ruling is Ruling.REWRITE else None
    return Judged(decision.item, False, decision.rule, reason, instead)
