"""The harbour's duty desk: what a person does with the guard while the drill runs.

After every round the desk lets the guard tend its memory, looks at decisions that went wrong, hears complaints, and has
every open incident repaired. It confirms or clears what the guard suspects, as somebody would who looks the matter up;
it never searches for a threat itself.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from lazaretto.errors import RepairRefused
from lazaretto.incidents.records import Incident
from lazaretto_lab.studies.drill.crew import NOTICED, Crew

SUSPECTS = 3
"""Suspects that the desk looks up after one round."""
OFFICER = "duty-officer"


@dataclass
class Desk:
    """The person's side of one run."""

    crew: Crew
    looked_up: int = 0
    """Suspects that were looked up."""
    wrongly: int = 0
    """Those of them that proved innocent."""
    complaints: dict[str, int] = field(default_factory=dict)
    """Threat -> round in which a person noticed it before any gate had."""
    repairs: int = 0

    async def after_round(self, number: int) -> None:
        """Everything that happens between two rounds."""
        guard = self.crew.guard
        tend = getattr(guard, "tend", None)
        if tend is not None:
            await tend()
        await self._trace_failures()
        await self._hear_complaints(number)
        for incident in await guard.incidents():
            await self._repair(incident)

    async def _trace_failures(self) -> None:
        """Wrong decisions accuse what they rested on; the desk looks the suspects up, one after the other."""
        crew, guard = self.crew, self.crew.guard
        failed = [d for d in crew.failed if self._unexplained(d)]
        if len(failed) < 2:
            return
        cleared: list[str] = []
        for _ in range(SUSPECTS):
            suspect = guard.graph.patient_zero(failed, healthy=[*crew.good, *cleared]).item
            if suspect in failed or suspect in cleared:
                return
            self.looked_up += 1
            if crew.carries.get(suspect) == "fact":
                await guard.label(suspect, "harmful", by=OFFICER)
                return
            self.wrongly += 1
            cleared.append(suspect)

    def _unexplained(self, decision: str) -> bool:
        """Whether everything that the decision rested on is still in use."""
        below = [one.id for one in self.crew.guard.graph.rests_on(decision)]
        return len(self.crew.visible(below)) == len(below)

    async def _hear_complaints(self, number: int) -> None:
        """A post or a worm that many have met is noticed by somebody, if no gate found it before."""
        crew = self.crew
        for threat in ("post", "worm"):
            if threat in self.complaints or len(crew.hit[threat]) < NOTICED:
                continue
            met = [item for item, carried in crew.carries.items() if carried == threat]
            shown = crew.visible(met)
            if len(shown) == len(met):
                self.complaints[threat] = number
                await crew.guard.label(shown[-1], "harmful", by=OFFICER)

    async def _repair(self, incident: Incident) -> None:
        guard = self.crew.guard
        if incident.false_alarm or (incident.state == "cleared"):
            return
        touched = {receipt.receipt for receipt in incident.repairs if not receipt.undone}
        if not touched:
            await self._try(incident.patient_zero, "contain", incident.id)
        now = await guard.incident(incident.id)
        shown = [one.id for one in now.items if one.shown]
        if shown:
            await self._try(now.patient_zero, "remove", now.id, items=shown)

    async def _try(self, item: str, repair: str, why: str, **options: object) -> None:
        guard = self.crew.guard
        try:
            await guard.apply(await guard.plan(item, repair, reason=f"incident {why}", **options))
            self.repairs += 1
        except RepairRefused:  # it already is as asked
            pass
