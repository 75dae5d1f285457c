"""The harbour's duty desk: what a person does with the guard while the drill runs.

After every round the desk has memories judged again, settles what was held, looks at decisions that went wrong,
hears complaints, and has every open incident repaired. It confirms or clears what the guard suspects, as somebody would
who looks the matter up; it never searches for a threat itself.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from lazaretto.errors import RepairRefused
from lazaretto.incidents.records import Incident
from lazaretto_lab.studies.drill.crew import NOTICED, Crew

SUSPECTS = 3
"""Suspects that the desk looks up after one round."""
READ = 8
"""Held items that it reads after one round."""
OFFICER = "duty-officer"
CONFIRMED = ("person:", "repair:")
"""How the rules begin of what a person or a rehearsal found."""


@dataclass
class Desk:
    """The person's side of one run."""

    crew: Crew
    looked_up: int = 0
    """Suspects that were looked up."""
    cleared: list[str] = field(default_factory=list)
    """Those of them that proved innocent."""
    explained: set[str] = field(default_factory=set)
    """Wrong decisions behind which something false was found."""
    released: list[str] = field(default_factory=list)
    """Honest items that the gates had held and the desk released."""
    complaints: dict[str, int] = field(default_factory=dict)
    """Threat -> round in which a person noticed it before any gate had."""
    repairs: int = 0

    async def after_round(self, number: int) -> None:
        """Everything that happens between two rounds."""
        guard = self.crew.guard
        while (await guard.recheck()).left:
            pass
        await self._read_held()
        await self._trace_failures()
        await self._hear_complaints(number)
        for incident in await guard.incidents.all():
            await self._repair(incident)

    async def _trace_failures(self) -> None:
        """Wrong decisions accuse what they rested on; the desk looks the suspects up, one after the other.

        The guard's suspects come first, then where the wrong decisions have their common origin, then what the newest
        of them rested on.
        """
        crew, guard = self.crew, self.crew.guard
        failed = [decision for decision in crew.failed if decision not in self.explained]
        if len(failed) < 2:
            return
        accused = [one.item for one in await guard.incidents.suspects(limit=100)]
        origin = guard.graph.patient_zero(failed, healthy=[*crew.good, *self.cleared]).item
        grounds = [one.id for one in guard.graph.rests_on(failed[-1]) if one.hops == 1]
        told = {*self.cleared, *crew.failed}
        fresh = [one for one in dict.fromkeys((*accused, origin, *grounds)) if one not in told and crew.visible([one])]
        for suspect in fresh[:SUSPECTS]:
            self.looked_up += 1
            if crew.carries.get(suspect) == "fact":
                self.explained.update(failed)
                await guard.label(suspect, "harmful", by=OFFICER)
                return
            self.cleared.append(suspect)
            await guard.label(suspect, "benign", by=OFFICER)

    async def _read_held(self) -> None:
        """Look at what waits for a person, and settle it."""
        crew, guard = self.crew, self.crew.guard
        for one in await guard.held(limit=READ):
            if one.id in crew.carries:
                await guard.label(one.id, "harmful", by=OFFICER)
            else:
                self.released.append(one.id)
                await guard.label(one.id, "benign", by=OFFICER)

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
        """Repair what was confirmed: from patient zero if the desk finds it guilty too, else from what was found."""
        crew, guard = self.crew, self.crew.guard
        confirmed = [one.id for one in incident.items if one.rule.startswith(CONFIRMED) and one.id in crew.carries]
        if incident.state == "cleared" or not confirmed:
            return
        origin = incident.patient_zero if incident.patient_zero in crew.carries else confirmed[0]
        if not any(not receipt.undone for receipt in incident.repairs):
            await self._try(origin, "contain", incident.id)
        now = await guard.incidents.one(incident.id)
        shown = [one.id for one in now.items if one.shown and one.id in crew.carries]
        if shown:
            await self._try(origin, "remove", now.id, items=shown)

    async def _try(self, item: str, repair: str, why: str, **options: object) -> None:
        guard = self.crew.guard
        try:
            await guard.repairs.apply(await guard.repairs.plan(item, repair, reason=f"incident {why}", **options))
            self.repairs += 1
        except RepairRefused:  # it already is as asked
            pass
