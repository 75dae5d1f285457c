"""Policy, health and rates: the gates of each channel, missing parts, and sliders that change nothing."""

from __future__ import annotations

import asyncio
import dataclasses
from dataclasses import dataclass
from typing import Any

from lazaretto.console.activity import DAYS, JudgedHistory
from lazaretto.console.web import Response, Visit
from lazaretto.errors import InputError
from lazaretto.installed import packages
from lazaretto.learn.tuning import Changes, Counts, Offered
from lazaretto.policy import Stage
from lazaretto.policy.presets import NAMES
from lazaretto.policy.written_out import edited
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


# Sliders for rates: what other settings would have held of the judged items. Dry: no page here changes anything.


@dataclass(frozen=True, slots=True)
class Slider:
    """One setting of one gate, with the counts of each value, all other settings as they are."""

    offered: Offered
    place: int
    """The chosen value's place."""
    counts: tuple[Counts, ...]

    @property
    def name(self) -> str:
        """Its name in the form."""
        return f"{self.offered.gate}.{self.offered.setting}"

    @property
    def now(self) -> int:
        """The present value's place."""
        return self.offered.values.index(self.offered.now)


async def tune(visit: Visit) -> Response:
    """The sliders where the address puts them, the counts for that, and, asked for, the lines of the policy."""

    def read() -> dict[str, Any]:
        history = visit.desk.histories.get(anew=bool(visit.query("anew")))
        sliders, changes = _sliders(visit, history)
        sound = history.tuner.sound(changes)
        then = history.tuner.counted(changes) if sound else None
        asked = bool(visit.query("lines")) and then is not None
        lines = edited("", {(f"gates.{gate}", name): value for (gate, name), value in changes.items()}) if asked else ""
        return {
            "sliders": sliders, "then": then, "history": history, "changes": changes, "days": DAYS, "lines": lines,
            "lost": history.now.findings - then.findings if then else 0,
        }  # fmt: skip

    try:
        facts = await asyncio.to_thread(read)
    except InputError as error:
        if error.field != "history":
            raise
        return visit.page("tune.html", here="health", few=str(error))
    return visit.page("tune.html", here="health", few="", **facts)


def _sliders(visit: Visit, history: JudgedHistory) -> tuple[list[Slider], Changes]:
    sliders: list[Slider] = []
    changes: dict[tuple[str, str], float] = {}
    for offered in history.tuner.offered():
        key = (offered.gate, offered.setting)
        given = visit.query(f"{offered.gate}.{offered.setting}")
        place = offered.values.index(offered.now)
        if given:
            if not (given.isascii() and given.isdigit() and int(given[:6]) < len(offered.values)):
                raise InputError(f"{offered.gate}.{offered.setting}", "is no place of this slider", "Move it again")
            place = int(given)
        if offered.values[place] != offered.now:
            changes[key] = offered.values[place]
        sliders.append(Slider(offered, place, history.counts[key]))
    return sliders, changes
