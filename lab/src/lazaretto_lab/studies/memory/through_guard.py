"""The shared-memory world defended by the guard itself: every memory through ``remember``, every outcome through
``report``, every few rounds ``recheck``; one namespace per team in one SQLite store.

The vectorised ``MemoryDefence`` judges a whole round at once, against what was known before it; agents that call a
guard write one after the other, so ``OneByOne`` makes the vectorised one do the same. The two then decide alike, memory
by memory; a test holds them to it.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType

import numpy as np
from numpy.typing import NDArray

from lazaretto.gates.memory.gate import MemoryGate, MemorySettings
from lazaretto.gates.memory.record_model import AT_WORK_RATE, RecordModel
from lazaretto.guard import Guard
from lazaretto.guard.sync_guard import SyncGuard
from lazaretto.types import MemoryFields, SourceClass
from lazaretto_lab.studies.memory.defence import EVERY
from lazaretto_lab.worlds.shared_memory.log import VOCABULARY
from lazaretto_lab.worlds.shared_memory.scenario import Scenario
from lazaretto_lab.worlds.shared_memory.world import MendResult, Screen, Writes

POLICY = {
    "repair": {"automatic": "apply"},  # as the defence that it is compared with: nobody is asked
    "channels": {
        "memory": {"stages": [["structure"], ["blocklist"], ["memory"]], "timeout_s": 60.0, "budget_s": 600.0}
    },
}
MOST = 100_000
"""Memories that one ``recheck`` may look at: a whole pass in one step, as the vectorised defence takes it."""


class GuardDefence:
    """A ``Screen`` made of one guard per team."""

    def __init__(
        self, model: RecordModel, scenario: Scenario, hold: float, folder: Path, teams: Iterable[int] | None = None
    ) -> None:
        """``teams``: which are guarded (default: all); the others go undefended."""
        fusion = dataclasses.replace(model.fusion, hold=hold, by_rate=((AT_WORK_RATE, hold),))
        self._model, self._store = RecordModel(model.arrays, fusion), f"sqlite:///{folder / 'guard.db'}"
        for old in folder.glob("guard.db*"):  # what an interrupted run left
            old.unlink()
        self.guards = {team: self._open(team) for team in (range(scenario.teams) if teams is None else teams)}
        self._items: dict[int, str] = {}
        self._rows: dict[str, int] = {}
        self.done: Counter[str] = Counter()

    def _open(self, team: int) -> SyncGuard:
        gates = {"memory": MemoryGate(MemorySettings(), model=self._model)}
        return SyncGuard(Guard.open(self._store, POLICY, f"team{team}", gates=gates))

    def reopen(self) -> None:
        """Close every guard, and open it again from its ledger."""
        for team, guard in self.guards.items():
            guard.close()
            self.guards[team] = self._open(team)

    def admit(self, writes: Writes) -> NDArray[np.bool_]:
        """Report the round's outcomes, then write one memory after the other."""
        for team, guard in self.guards.items():
            row = writes.reported[team]
            for agent in np.flatnonzero(~np.isnan(row)).tolist():
                guard.report("acted", agent=f"agent{agent}", success=bool(row[agent]), rests_on=())
        held = np.array([self._remember(writes, place) for place in range(len(writes.ids))])
        self.done["held"] += int(held.sum())
        return held

    def _remember(self, writes: Writes, place: int) -> bool:
        memories, tags = writes.memories, writes.memories.tags[place].tolist()
        fields = MemoryFields(
            tuple(memories.state[place].tolist()), tuple(memories.context[place].tolist()),
            tuple(memories.action[place].tolist()), tuple(VOCABULARY[t] for t in tags if t >= 0),
            {"success": bool(writes.success[place])},
        )  # fmt: skip
        guard, row = self.guards.get(int(writes.team[place])), int(writes.ids[place])
        if guard is None:
            return False
        decision = guard.remember(
            agent=f"agent{int(writes.agent[place])}", fields=fields, source=SourceClass.MODEL_INFERENCE,
            parents=list(dict.fromkeys(self._items[p] for p in writes.parents[place].tolist() if p >= 0)),
        )  # fmt: skip
        self._items[row], self._rows[decision.item] = decision.item, row
        return not decision.allowed

    def mend(self, round_index: int) -> MendResult | None:
        """Let every guard look again."""
        if round_index % EVERY:
            return None
        rechecked = [guard.recheck(limit=MOST) for guard in self.guards.values()]
        rewritten = [item for one in rechecked for item in one.rewritten]  # its item is another one: out of reach here
        hide = self._numbers([item for one in rechecked for item in one.held] + rewritten)
        show = self._numbers([item for one in rechecked for item in one.released])
        self.done.update(isolated=len(hide), released=len(show), looked=sum(one.looked for one in rechecked))
        return MendResult(hide, show) if len(hide) or len(show) else None

    def _numbers(self, items: list[str]) -> NDArray[np.int64]:
        return np.array([self._rows[item] for item in items], dtype=np.int64)

    def __enter__(self) -> GuardDefence:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for guard in self.guards.values():
            guard.close()


class OneByOne:
    """A ``Screen`` that hands another one a round's memories one at a time, the outcomes with the first."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen

    def admit(self, writes: Writes) -> NDArray[np.bool_]:
        """Each memory against what is known when it comes."""
        none, held = np.full_like(writes.reported, np.nan), np.zeros(len(writes.ids), dtype=bool)
        for place in range(len(writes.ids)):
            row = np.array([place])
            one = Writes(
                writes.ids[row], writes.team[row], writes.agent[row], writes.memories[row], writes.parents[row],
                writes.success[row], none if place else writes.reported,
            )  # fmt: skip
            held[place] = self._screen.admit(one)[0]
        return held

    def mend(self, round_index: int) -> MendResult | None:
        """As the other one does."""
        return self._screen.mend(round_index)
