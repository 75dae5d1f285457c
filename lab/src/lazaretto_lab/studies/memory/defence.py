"""The memory gate inside the shared-memory world: the product's parts, driven by the world's rounds.

What is judged, when it is judged again, what is released and what is done with descendants is decided by the product
(``RecordReview``, ``RecheckSchedule``, ``contained``), which the guard drives in the same way through its ledger. Only
the rebuilding of an action stands here, because the world keeps actions as rows of numbers.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from lazaretto.gates.engine.recheck_queue import RecheckSchedule
from lazaretto.gates.memory.evidence import EvidenceTable, MemoryOrigins, selected, window_rows
from lazaretto.gates.memory.record_model import Look, RecordModel, RecordReview, Records, Scores, joined
from lazaretto.repair.contain import MIN_LIKENESS, contained, strategy
from lazaretto_lab.studies.memory.evidence import TRUST, Ints, disturbed, team_windows
from lazaretto_lab.training.records.baselines import Scorer
from lazaretto_lab.training.records.rivals import Rival
from lazaretto_lab.training.records.training import without_graph
from lazaretto_lab.worlds.shared_memory.log import VOCABULARY
from lazaretto_lab.worlds.shared_memory.scenario import ACTION, Scenario
from lazaretto_lab.worlds.shared_memory.world import MendResult, Rewriting, Writes

EVERY = 5
"""Rounds between passes."""
FAR = 1_000


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
    begins: int = 0
    """The round in which the gate comes: what was written before is all in use, and its first pass looks at it."""
    rebuild: bool = True
    """Without: what would be rewritten or reconciled is isolated."""
    by_descent: bool = False
    """Repair whatever was made from a caught memory by its distance, not only what looks bad itself: isolate within two
    hops, rewrite up to five, reconcile from six on, the last two where an independent other is heard in a like
    situation."""


class MemoryDefence:
    """A ``Screen`` for the world."""

    def __init__(self, model: RecordModel, scenario: Scenario, hold: float, options: Options | None = None) -> None:
        self._model, self._options = model, options or Options()
        self._rng = np.random.default_rng([scenario.seed, 22])
        self.windows = team_windows(scenario)
        self._review = RecordReview(self._scored, self.windows, hold)
        self._looks = RecheckSchedule()
        self._batches: deque[Records] = deque()
        self._action = np.zeros((scenario.honest_memories + scenario.poison_count, ACTION), np.float32)
        self.done: Counter[str] = Counter()
        """How many memories were held, isolated, rewritten, reconciled and released."""
        self.screened: list[tuple[Ints, NDArray[np.float32], NDArray[np.str_]]] = []
        """Per pass, of what was made from caught memories: hops, probability when judged anew, and what was done."""
        self._round = -1

    def admit(self, writes: Writes) -> NDArray[np.bool_]:
        """Score each write against what its team holds; hold it above the threshold."""
        vectors = disturbed(writes.memories.embedded(VOCABULARY), self._options.noise, self._rng)
        origin = MemoryOrigins(writes.team, writes.agent, writes.parents)
        batch = Records(writes.ids, origin, window_rows(vectors), writes.success)
        self.windows.record_outcomes(writes.reported)
        look = self._review.look(batch)
        self._round += 1
        if self._round < self._options.begins:
            look = replace(look, bad=np.zeros_like(look.bad))
        if isinstance(self._model, Rival):
            self._model.know(batch.ids, look.evidence)
        self._looks.wrote(batch.ids, ~look.bad)
        self._remember(batch, look)
        self._looks.failed(writes.parents[~writes.success])
        self._review.take(batch, look.bad, TRUST.own_credibility(look.evidence))
        self._action[writes.ids] = writes.memories.action
        if self._options.repair:
            self._batches.append(batch)
        self.done["held"] += int(look.bad.sum())
        return look.bad

    def mend(self, round_index: int) -> MendResult | None:
        """Look again: hold what slipped through, repair what was made from it, release what proves clean."""
        early = round_index < self._options.begins
        if early or not self._options.repair or round_index % EVERY or not self._batches:
            return None
        while self._batches[0].ids.max() < self._looks.oldest:
            self._batches.popleft()
        batch = joined([b[np.flatnonzero(self._looks.due(b.ids))] for b in self._batches])
        look = self._review.look(batch, again=True)
        self._remember(batch, look)
        kept = self._looks.admitted[batch.ids]
        caught, freed = np.flatnonzero(look.bad & kept), np.flatnonzero(~look.bad & ~kept)
        self._drop(batch[caught])
        self._looks.admitted[batch.ids[freed]] = True
        self._review.keep(batch, freed, TRUST.own_credibility(look.evidence))
        self.done["isolated"] += len(caught)
        self.done["released"] += len(freed)
        hidden, rewriting = self._descendants(batch, batch.ids[caught])
        self._looks.close_pass()
        hide, show = np.concatenate([batch.ids[caught], hidden]), batch.ids[freed]
        return MendResult(hide, show, rewriting) if len(hide) or len(show) or rewriting else None

    def _descendants(self, batch: Records, caught: Ints) -> tuple[Ints, Rewriting | None]:
        """Screen anew what was made from caught memories, by priority; repair by distance."""
        hops = self._traced(batch, caught)
        rows = np.flatnonzero((hops > 0) & (hops < FAR) & self._looks.admitted[batch.ids])
        if not len(rows):
            return np.zeros(0, dtype=np.int64), None
        part, hops = batch[rows], hops[rows]
        look = self._review.look(part, again=True)
        self._remember(part, look)
        fusion = self._model.fusion
        risk = np.interp(look.terms.fused, fusion.knots, fusion.risk)
        like = look.evidence.pairs[..., 4].max(1)
        plan = contained(hops, risk, look.evidence.conflict, look.bad, like, self._options.rewrite_near)
        if self._options.by_descent:
            far = np.array([strategy(h) for h in hops.tolist()], dtype=plan.dtype)
            plan = np.where((plan == "") & ((far == "isolate") | (like > MIN_LIKENESS)), far, plan)
        if not self._options.rebuild:
            plan[plan != ""] = "isolate"
        self.screened.append((hops, look.terms.fused, plan))
        hidden, rebuilt = np.flatnonzero(plan == "isolate"), np.flatnonzero((plan == "rewrite") | (plan == "reconcile"))
        self._drop(part[hidden])
        self.done["isolated"] += len(hidden)
        self.done.update(plan[rebuilt].tolist())
        rewriting = self._rebuilt(part[rebuilt], selected(look.evidence, rebuilt)) if len(rebuilt) else None
        return part.ids[hidden], rewriting

    def _traced(self, batch: Records, caught: Ints) -> Ints:
        """Edges from the nearest caught memory to each of the batch; ``FAR`` where there is no way."""
        distance = np.full(self._looks.count, FAR, dtype=np.int64)
        distance[caught] = 0
        if len(caught):
            for ids, parents in ((b.ids, b.origin.parents) for b in self._batches if b.ids.max() >= self._looks.recent):
                way = np.where(parents >= 0, distance[parents], FAR).min(1) + 1
                distance[ids] = np.minimum(distance[ids], way)
        return np.minimum(distance[batch.ids], FAR)

    def _rebuilt(self, part: Records, looked: EvidenceTable) -> Rewriting:
        """Each number of the action from the voice in the middle; the rebuilt memory itself speaks for nobody."""
        voice = np.where(looked.neighbours >= 0, looked.pairs[..., 4], 0.0)
        said = self._action[looked.neighbours]
        order = np.argsort(said, axis=1)
        heard = np.cumsum(np.take_along_axis(np.broadcast_to(voice[..., None], said.shape), order, 1), axis=1)
        middle = (heard >= heard[:, -1:] / 2).argmax(1)
        chosen = np.take_along_axis(order, middle[:, None], 1)[:, 0]
        sources = np.take_along_axis(looked.neighbours, chosen, 1)
        self._review.drop(part)
        self._looks.settled[part.ids] = True
        return Rewriting(part.ids, self._action[sources, np.arange(ACTION)], sources)

    def _remember(self, batch: Records, look: Look) -> None:
        self._review.remember(batch.ids, look.scores)
        self._looks.blame[batch.ids] = 0

    def _scored(self, looked: EvidenceTable) -> Scores:
        return self._model.score(without_graph(looked, self._options.use_graph))

    def _drop(self, part: Records) -> None:
        self._looks.admitted[part.ids] = False
        self._review.drop(part)


class ScorerDefence:
    """A ``Screen`` made of any scorer and its threshold: holds what scores above it, and does nothing else."""

    def __init__(
        self, score: Scorer, threshold: float, scenario: Scenario, with_evidence: bool, noise: float = 0.0
    ) -> None:
        self._score, self._threshold, self._noise = score, threshold, noise
        self._windows = team_windows(scenario) if with_evidence else None
        self._rng = np.random.default_rng([scenario.seed, 23])

    def admit(self, writes: Writes) -> NDArray[np.bool_]:
        """Hold what scores at least the threshold."""
        vectors = disturbed(writes.memories.embedded(VOCABULARY), self._noise, self._rng)
        if self._windows is None:
            return np.asarray(self._score(vectors, None) >= self._threshold)
        origin, brief = MemoryOrigins(writes.team, writes.agent, writes.parents), window_rows(vectors)
        self._windows.record_outcomes(writes.reported)
        looked = self._windows.evidence_for(brief, origin)
        held = np.asarray(self._score(vectors, looked) >= self._threshold)
        self._windows.record_use(origin, writes.success)
        rows = np.flatnonzero(~held & writes.success)
        if len(rows):
            self._windows.add(
                brief[rows], origin[rows], writes.ids[rows], TRUST.own_credibility(selected(looked, rows))
            )
        return held

    def mend(self, round_index: int) -> MendResult | None:
        """Nothing: these methods have no second look."""
        return None
