"""A moderation model of the user's own as the judge: its number is the risk, the policy's bars make the outcome."""

from __future__ import annotations

import time
from dataclasses import dataclass

from lazaretto.gates.content.arbitration import CONFIRMED, DEFAULT, IN_DOUBT, RULES, UNDECIDED, label_for
from lazaretto.gates.content.records import PLACEHOLDER, DebateState, Finding, Role, RoleCost
from lazaretto.models.guard_model import GuardModel
from lazaretto.processor_time import in_thread


@dataclass(frozen=True, slots=True)
class ClassifierArbiter:
    """Rules by one model's number. Nothing is known of how well it is calibrated: the bars are the user's."""

    model: GuardModel
    allow_below: float = 0.3
    unsafe_from: float = 0.7

    async def decide(self, debate: DebateState) -> Finding:
        """The finding; a picture without words is undecided, because the model reads text alone."""
        started, prepared = time.perf_counter(), debate.prepared
        words = prepared.words
        if prepared.fault or not words:
            why = prepared.fault or "the picture has no description and no words on it"
            if prepared.description != PLACEHOLDER and not prepared.fault:
                why = "there is nothing to judge"
            return Finding(label_for(DEFAULT), 0.5, UNDECIDED, RULES[UNDECIDED], undecided=why)
        found = await in_thread(self.model.score, words)
        ms = (time.perf_counter() - started) * 1000.0
        gray = self.allow_below <= found.risk < self.unsafe_from
        rule = CONFIRMED if found.risk >= (0.5 if gray else self.unsafe_from) else DEFAULT
        reasoning = (
            f"{RULES[IN_DOUBT if gray else rule]} {self.model.name} says {found.label} with {found.risk:.2f}. "
            f"Allowed below {self.allow_below:.2f}, unsafe from {self.unsafe_from:.2f}."
        )
        cost = RoleCost(Role.ARBITER, self.model.name, calls=1, prompt_tokens=found.tokens, ms=ms)
        return Finding(
            label_for(rule),
            found.risk,
            IN_DOUBT if gray else rule,
            reasoning,
            (0.0, 1.0),
            prepared.notices,
            role_cost=cost,
            gray=gray,
        )
