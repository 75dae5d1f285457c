"""A gate with one rate, whose numbers stand in the text: ``one=0.99``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from lazaretto import Ruling
from lazaretto.gates.protocol import MEASURED, GateContext, measured
from lazaretto.policy import TrustPolicy
from lazaretto.types import Channel, Evidence, Observation, Verdict


@dataclass
class Rate:
    """Settings of the scripted gate."""

    rate: float = 0.05


@dataclass
class Scored:
    """Holds a text whose number is above the line of its rate."""

    name: str
    settings: Rate
    channels: frozenset[Channel] = frozenset(Channel)
    read: list[str] = field(default_factory=list)
    rates: ClassVar[Mapping[str, tuple[float, ...]]] = {"rate": (0.01, 0.02, 0.05, 0.1)}

    async def examine(self, observation: Observation, context: GateContext) -> Verdict:
        self.read.append(observation.id)
        numbers = dict(part.split("=") for part in observation.text.split() if "=" in part)
        return self._ruled(observation.id, float(numbers.get(self.name, 0.0)))

    def ruled_again(
        self, observation: Observation, verdict: Verdict, earlier: Any, trust: TrustPolicy
    ) -> Verdict | None:
        numbers = measured(verdict)
        return None if numbers is None else self._ruled(observation.id, numbers["number"])

    def _ruled(self, item: str, number: float) -> Verdict:
        ruling = Ruling.QUARANTINE if number > 1 - self.settings.rate else Ruling.ALLOW
        told = Evidence("measure", "a number", {MEASURED: {"number": number}})
        return Verdict(self.name, item, ruling, number, (number, number), "scored", (told,))
