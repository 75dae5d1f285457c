"""The memory gate: does this note, document or tool output try to order an agent about?

Who says something matters as much as what is said: the same order is a task when the user gives it, and poison when a
web page does. So orders from trusted source classes pass, and orders from anywhere else are held.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

from lazaretto.config import CLOSED, RulingWord, Share, read_settings
from lazaretto.gates.memory.text import Screening, TextScreener, shared_screener
from lazaretto.gates.protocol import GateContext
from lazaretto.types import Channel, Cost, Evidence, Observation, Ruling, SourceClass, Verdict

MEMORY_POISONING = "ASI06"
INTER_AGENT = "ASI07"


@dataclass(frozen=True, slots=True)
class MemorySettings:
    """The policy's ``[gates.memory]`` table."""

    __pydantic_config__ = CLOSED
    false_positive_rate: Annotated[
        Share, Field(description="Share of honest texts that may be held; measured on corpora left out of training.")
    ] = 0.01
    review_rate: Annotated[Share, Field(description="Share of honest texts that may be held or sent to a person.")] = (
        0.05
    )
    ruling: Annotated[RulingWord, Field(description="Ruling for a text above the first rate's threshold.")] = (
        Ruling.QUARANTINE
    )
    unknown_language: Annotated[
        RulingWord, Field(description="Ruling for text in a language the screener was not made for.")
    ] = Ruling.REVIEW
    may_order: Annotated[
        tuple[SourceClass, ...], Field(description="Source classes whose orders are tasks, not poison.")
    ] = (SourceClass.DIRECT_USER, SourceClass.SYSTEM)


class MemoryGate:
    """Screens what agents read and keep for foreign orders."""

    name = "memory"
    channels = frozenset({Channel.MEMORY, Channel.TOOL, Channel.DOCUMENT, Channel.MESSAGE})

    def __init__(self, settings: MemorySettings, screener: TextScreener) -> None:
        self.settings = settings
        self._screener = screener
        self._hold_at = screener.calibration.threshold(settings.false_positive_rate)
        self._ask_at = screener.calibration.threshold(settings.review_rate)

    async def examine(self, observation: Observation, context: GateContext) -> Verdict:
        """One pass over the text; the strongest order in it decides."""
        started = time.perf_counter()
        screening = (await asyncio.to_thread(self._screener.screen, [observation.text]))[0]
        return self.judge(observation, screening, (time.perf_counter() - started) * 1000)

    def judge(self, observation: Observation, screening: Screening, ms: float = 0.0) -> Verdict:
        """The verdict that a screening means for an item of this source."""
        ruling, rule = self._rule(observation, screening)
        risk, interval = screening.risk, screening.interval
        if rule == "trusted_order":  # an order, but not a foreign one
            risk, interval = min(risk, 0.1), (0.0, max(interval[1], 0.1))
        return Verdict(
            gate=self.name,
            subject=observation.id,
            ruling=ruling,
            risk=risk,
            interval=(min(interval[0], risk), interval[1]),
            rule=rule,
            evidence=_evidence(screening, rule, self._hold_at),
            taxonomy=_taxonomy(observation.channel) if ruling > Ruling.WARN else (),
            cost=Cost(ms=ms, calls=1),
        )

    def _rule(self, observation: Observation, screening: Screening) -> tuple[Ruling, str]:
        if not screening.known_language:
            return self.settings.unknown_language, "unknown_language"
        order = screening.logit > self._ask_at
        if order and observation.source in self.settings.may_order:
            return Ruling.ALLOW, "trusted_order"
        if screening.logit > self._hold_at:
            return self.settings.ruling, "foreign_order"
        if order:
            return Ruling.REVIEW, "possible_order"
        return (Ruling.ALLOW, "clean") if screening.whole else (Ruling.REVIEW, "too_long_to_read_whole")


def _taxonomy(channel: Channel) -> tuple[str, ...]:
    return (INTER_AGENT,) if channel is Channel.MESSAGE else (MEMORY_POISONING,)


def _evidence(screening: Screening, rule: str, hold_at: float) -> tuple[Evidence, ...]:
    if rule == "unknown_language":
        words = f"The text is in {screening.language!r}; the screener was made for English and does not guess."
        return (Evidence("measure", words, {"language": screening.language, "logit": round(screening.logit, 2)}),)
    if rule in ("clean", "too_long_to_read_whole"):
        words = "Nothing in it reads like an order to an agent." if rule == "clean" else "Only samples were read."
        return (Evidence("measure", words, {"logit": round(screening.logit, 2), "hold_at": round(hold_at, 2)}),)
    spans = screening.spans[:3]
    if not spans:
        words = "The text as a whole reads like an order to an agent."
        return (Evidence("measure", words, {"logit": round(screening.logit, 2), "hold_at": round(hold_at, 2)}),)
    return tuple(
        Evidence(
            "span",
            f"Reads like an order to an agent{_where(span.view)}: “{span.text[:160]}”",
            {"start": span.start, "end": span.end, "view": span.view, "logit": round(span.logit, 2)},
        )
        for span in spans
    )


def _where(view: str) -> str:
    return "" if view == "plain" else f" (once its disguise is off: {view})"


def make(settings: Mapping[str, Any]) -> MemoryGate:
    """The gate, from the policy's table; raises where the trained weights or their libraries are absent."""
    return MemoryGate(read_settings(MemorySettings, settings, key="gates.memory"), shared_screener())
