"""The memory gate inside the shared-memory world: holds what it finds, then repairs what that had touched.

It does not judge while there is too little to compare with. Recent memories, and what is held, are looked at again
every few rounds, with everything held so far no longer speaking; so is, however old, what decisions rested on that
failed. What had slipped through is isolated; what was made from it is screened anew and repaired by its distance from
it, as the repair ``contain`` does; what proves clean is released.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lazaretto.gates.memory.evidence import EvidenceTable, WindowRows, selected, window_rows
from lazaretto.gates.memory.record_model import RecordModel
from lazaretto.gates.memory.record_screener import MIN_MEMORIES, MIN_SUPPORT
from lazaretto.models.record_embedding import Floats
from lazaretto.repair.contain import ACT_ABOVE, priority, strategy
from lazaretto_lab.studies.memory.evidence import Ints, Origin, TeamWindows, disturbed
from lazaretto_lab.training.records.baselines import Scorer
from lazaretto_lab.training.records.training import without_graph
from lazaretto_lab.worlds.shared_memory.log import VOCABULARY
from lazaretto_lab.worlds.shared_memory.scenario import ACTION, Scenario
from lazaretto_lab.worlds.shared_memory.world import MendResult, Rewriting, Writes

EVERY, BACK = 5, 10
"""Rounds between re-evaluations, and how many rounds back they reach."""
HELD_BACK = 100
"""Rounds for which a held memory may still prove clean, and one in use is looked at again when uses of it fail."""
BLAMED = 2
"""Failed uses since the last look that ask for another."""
FAR = 1_000
MIN_LIKENESS = 0.2
"""A situation less like than this says nothing about how to rebuild an action."""


@dataclass(frozen=True, slots=True)
class _Batch:
    """Memories as the defence keeps them."""

    ids: Ints
    origin: Origin
    memories: WindowRows
    success: NDArray[np.bool_]
    """As the record claims; what failed is no evidence of what to do."""

    def __getitem__(self, rows: Ints) -> _Batch:
        return _Batch(self.ids[rows], self.origin[rows], self.memories[rows], self.success[rows])


@dataclass(frozen=True, slots=True)
class Options:
    """How a defence works."""

    repair: bool = True
    """Look again, repair and release; without, a memory is judged once."""
    rewrite_near: bool = False
    """Rebuild what was made from poison at any distance, instead of isolating it within three hops."""
    use_graph: bool = True
    """Without: the detector sees nothing that comes from other memories."""
    noise: float = 0.0
    """Disturbs embeddings at work."""


class MemoryDefence:
    """A ``Screen`` for the world."""

    def __init__(self, model: RecordModel, scenario: Scenario, hold: float, options: Options | None = None) -> None:
        self._model, self._hold, self._options = model, hold, options or Options()
        self._rng = np.random.default_rng([scenario.seed, 22])
        self.windows = TeamWindows(scenario)
        self._rounds: deque[_Batch] = deque(maxlen=HELD_BACK)
        most = scenario.honest_memories + scenario.poison_count
        self._admitted = np.zeros(most, dtype=bool)
        self._settled = np.zeros(most, dtype=bool)
        self._blame = np.zeros(most, dtype=np.int64)
        self._scores = np.full(most, np.nan)
        self._action = np.zeros((most, ACTION), np.float32)
        self.done: Counter[str] = Counter()
        """How many memories were held, isolated, rewritten, reconciled and released."""

    def admit(self, writes: Writes) -> NDArray[np.bool_]:
        """Score each write against what its team holds; hold it above the threshold."""
        origin = Origin(writes.team, writes.agent, writes.parents)
        vectors = disturbed(writes.memories.embedded(VOCABULARY), self._options.noise, self._rng)
        batch = _Batch(writes.ids, origin, window_rows(vectors), writes.success)
        self.windows.record_outcomes(writes.reported)
        looked = self.windows.evidence_for(batch.memories, origin)
        held = self._suspicious(looked, batch)
        self.windows.record_use(origin, writes.success)
        failed = writes.parents[~writes.success]
        np.add.at(self._blame, failed[failed >= 0], 1)
        self._keep(batch, np.flatnonzero(~held), looked)
        self._action[writes.ids] = writes.memories.action
        self._rounds.append(batch)
        self.done["held"] += int(held.sum())
        return held

    def mend(self, round_index: int) -> MendResult | None:
        """Look again: hold what slipped through, repair what was made from it, release what proves clean."""
        if not self._options.repair or round_index % EVERY or not self._rounds:
            return None
        batch = self._again()
        looked = self.windows.evidence_for(batch.memories, batch.origin, batch.ids)
        bad = self._suspicious(looked, batch)
        kept = self._admitted[batch.ids]
        caught, freed = batch.ids[bad & kept], np.flatnonzero(~bad & ~kept)
        self._drop(batch[np.flatnonzero(bad & kept)])
        self._keep(batch, freed, looked)
        self.done["isolated"] += len(caught)
        self.done["released"] += len(freed)
        hidden, rewriting = self._descendants(batch, caught)
        hide, show = np.concatenate([caught, hidden]), batch.ids[freed]
        return MendResult(hide, show, rewriting) if len(hide) or len(show) or rewriting else None

    def _again(self) -> _Batch:
        """What is due for another look: all of the last rounds, and of older ones what is held or blamed."""
        recent = len(self._rounds) - BACK
        fresh = ~self._settled
        due = (~self._admitted | (self._blame >= BLAMED)) & fresh
        parts = [b[np.flatnonzero((fresh if n >= recent else due)[b.ids])] for n, b in enumerate(self._rounds)]
        return _joined(parts)

    def _descendants(self, batch: _Batch, caught: Ints) -> tuple[Ints, Rewriting | None]:
        """Screen anew what was made from caught memories, by priority; repair by distance."""
        hops = self._traced(batch, caught)
        rows = np.flatnonzero((hops > 0) & (hops < FAR) & self._admitted[batch.ids])
        if not len(rows):
            return np.zeros(0, dtype=np.int64), None
        part, hops = batch[rows], hops[rows]
        looked = self.windows.evidence_for(part.memories, part.origin, part.ids)
        fusion = self._model.fusion
        risk = np.interp(self._fused(looked), fusion.knots, fusion.risk)
        deepest = int(hops.max())
        facts = zip(risk.tolist(), hops.tolist(), looked.conflict.tolist(), strict=True)
        urgency = np.array([priority(r, h, deepest, c) for r, h, c in facts])
        act = (urgency > ACT_ABOVE) | self._suspicious(looked, part)
        plan = np.array([strategy(h) for h in hops.tolist()])
        if self._options.rewrite_near:
            plan[:] = "rewrite"
        act &= (plan != "reconcile") | (looked.conflict > 0.5)  # what independent voices support stays
        rebuilt = np.flatnonzero(act & (plan != "isolate") & (looked.pairs[..., 4].max(1) > MIN_LIKENESS))
        hidden = np.setdiff1d(np.flatnonzero(act), rebuilt)
        self._drop(part[hidden])
        self.done["isolated"] += len(hidden)
        self.done.update(plan[rebuilt].tolist())
        rewriting = self._rebuilt(part[rebuilt], selected(looked, rebuilt)) if len(rebuilt) else None
        return part.ids[hidden], rewriting

    def _traced(self, batch: _Batch, caught: Ints) -> Ints:
        """Edges from the nearest caught memory to each of the batch; ``FAR`` where there is no way."""
        distance = np.full(len(self._admitted), FAR, dtype=np.int64)
        distance[caught] = 0
        if len(caught):
            for ids, parents in ((b.ids, b.origin.parents) for b in list(self._rounds)[-BACK:]):
                way = np.where(parents >= 0, distance[parents], FAR).min(1) + 1
                distance[ids] = np.minimum(distance[ids], way)
        return np.minimum(distance[batch.ids], FAR)

    def _rebuilt(self, part: _Batch, looked: EvidenceTable) -> Rewriting:
        """Each number of the action from the voice in the middle; the rebuilt memory itself speaks for nobody."""
        voice = np.where(looked.neighbours >= 0, looked.pairs[..., 4], 0.0)
        said = self._action[looked.neighbours]
        order = np.argsort(said, axis=1)
        heard = np.cumsum(np.take_along_axis(np.broadcast_to(voice[..., None], said.shape), order, 1), axis=1)
        middle = (heard >= heard[:, -1:] / 2).argmax(1)
        chosen = np.take_along_axis(order, middle[:, None], 1)[:, 0]
        sources = np.take_along_axis(looked.neighbours, chosen, 1)
        self._forget(part)
        self._settled[part.ids] = True
        return Rewriting(part.ids, self._action[sources, np.arange(ACTION)], sources)

    def _suspicious(self, looked: EvidenceTable, batch: _Batch) -> NDArray[np.bool_]:
        """Whether the score is above the threshold, half of it from the looks before: one odd look decides nothing."""
        sizes = np.array([w.size for w in self.windows.windows])
        informed = (sizes[batch.origin.team] >= MIN_MEMORIES) & (looked.support >= MIN_SUPPORT)
        fused, before = self._fused(looked), self._scores[batch.ids]
        self._scores[batch.ids] = np.where(np.isnan(before), fused, (before + fused) / 2)
        self._blame[batch.ids] = 0
        return np.asarray((self._scores[batch.ids] >= self._hold) & informed)

    def _fused(self, looked: EvidenceTable) -> Floats:
        return self._model.score(without_graph(looked, self._options.use_graph)).fused

    def _keep(self, batch: _Batch, rows: Ints, looked: EvidenceTable) -> None:
        self._admitted[batch.ids[rows]] = True
        speaking = rows[batch.success[rows]]
        if len(speaking):
            part = batch[speaking]
            self.windows.add(part.memories, part.origin, part.ids, selected(looked, speaking))

    def _drop(self, part: _Batch) -> None:
        self._admitted[part.ids] = False
        self._forget(part)

    def _forget(self, part: _Batch) -> None:
        for team, item in zip(part.origin.team.tolist(), part.ids.tolist(), strict=True):
            self.windows.windows[team].forget(item)


class ScorerDefence:
    """A ``Screen`` made of any scorer and its threshold: holds what scores above it, and does nothing else."""

    def __init__(
        self, score: Scorer, threshold: float, scenario: Scenario, with_evidence: bool, noise: float = 0.0
    ) -> None:
        self._score, self._threshold, self._noise = score, threshold, noise
        self._windows = TeamWindows(scenario) if with_evidence else None
        self._rng = np.random.default_rng([scenario.seed, 23])

    def admit(self, writes: Writes) -> NDArray[np.bool_]:
        """Hold what scores at least the threshold."""
        vectors = disturbed(writes.memories.embedded(VOCABULARY), self._noise, self._rng)
        if self._windows is None:
            return np.asarray(self._score(vectors, None) >= self._threshold)
        origin, brief = Origin(writes.team, writes.agent, writes.parents), window_rows(vectors)
        self._windows.record_outcomes(writes.reported)
        looked = self._windows.evidence_for(brief, origin)
        held = np.asarray(self._score(vectors, looked) >= self._threshold)
        self._windows.record_use(origin, writes.success)
        rows = np.flatnonzero(~held & writes.success)
        if len(rows):
            self._windows.add(brief[rows], origin[rows], writes.ids[rows], selected(looked, rows))
        return held

    def mend(self, round_index: int) -> MendResult | None:
        """Nothing: these methods have no second look."""
        return None


def _joined(parts: list[_Batch]) -> _Batch:
    def column(record: str, name: str) -> NDArray[np.generic]:
        return np.concatenate([getattr(getattr(p, record), name) for p in parts])

    return _Batch(
        np.concatenate([p.ids for p in parts]),
        Origin(*(column("origin", n) for n in ("team", "agent", "parents"))),  # type: ignore[arg-type]
        WindowRows(*(column("memories", n) for n in ("situation", "action", "short"))),  # type: ignore[arg-type]
        np.concatenate([p.success for p in parts]),
    )
