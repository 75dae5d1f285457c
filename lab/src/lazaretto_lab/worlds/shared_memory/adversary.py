"""The attacker inside the world: reads what is shared, and puts its memories among the others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from lazaretto_lab.attacks.memory import CAMOUFLAGE_COSINE, CraftedPoison, Injection, camouflage, collusion, instruction
from lazaretto_lab.attacks.memory.craft import Memories
from lazaretto_lab.worlds.shared_memory.log import VOCABULARY, Log
from lazaretto_lab.worlds.shared_memory.pool import Pool
from lazaretto_lab.worlds.shared_memory.scenario import Scenario

Ints = NDArray[np.int64]
CLUSTERS = 8
SAMPLE = 240
HANDFUL = 5
REFRESH = 40
"""Rounds after which the attacker looks again where honest memories lie."""


class Chooser(Protocol):
    """An adaptive attacker's choice: other versions of its poison, tried against what it knows of the defence."""

    def choose(self, poison: Memories, right: NDArray[np.float32], where: tuple[Ints, ...]) -> Memories:
        """The versions to use; ``where`` are teams, agents and the parents they will name."""
        ...


@dataclass(slots=True)
class _Centres:
    """Where honest memories of a team lie."""

    memories: Memories
    right: NDArray[np.float32]
    directions: NDArray[np.float32]
    parents: Ints
    weights: NDArray[np.float32]


class Adversary:
    """Carries out an injection schedule, round by round."""

    def __init__(self, scenario: Scenario, plan: Injection, chooser: Chooser | None) -> None:
        self._scenario, self._plan, self._chooser = scenario, plan, chooser
        self._rng = np.random.default_rng([scenario.seed, 5])
        self._sizes = np.array(scenario.team_sizes())
        self._centres: dict[int, tuple[int, _Centres]] = {}
        self._size = 0

    def strike(self, index: int, pool: Pool, log: Log, size: int) -> tuple[Ints, Ints]:
        """Append this round's poison to the log from row ``size`` on; the teams and slots it takes."""
        part = self._plan.of_round(index)
        team, kind, axis, group = (getattr(self._plan, n)[part] for n in ("team", "kind", "axis", "group"))
        if not len(team):
            return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
        self._size = size
        slots, anchors = self._anchors(team, pool, log)
        rows = np.arange(size, size + len(team))
        agent = np.where(axis == 2, log.agent[anchors], self._rng.integers(0, self._sizes[team]))
        lies = np.flatnonzero(kind == 3)
        agent[lies] = (group[lies] + np.arange(len(lies))) % self._sizes[team[lies]]  # each in another buffer
        log.parents[rows], log.weights[rows] = log.parents[anchors], log.weights[anchors]
        log.reference[rows] = log.reference[anchors]
        for number in (1, 2, 3):
            chosen = kind == number
            if not chosen.any():
                continue
            if number == 1:
                crafted = self._instruct(log, anchors[chosen])
            elif number == 2:
                crafted = self._hide_among(log, pool, (team[chosen], rows[chosen], index))
            else:
                crafted = self._collude(log, anchors[chosen], group[chosen], rows[chosen])
            self._write(log, rows[chosen], crafted, (team[chosen], agent[chosen]))
        log.team[rows], log.agent[rows], log.round[rows] = team, agent, index
        log.kind[rows], log.axis[rows], log.hops[rows] = kind, axis, 0
        log.success[rows] = True
        log.shared[rows], log.importance[rows] = True, 1.0  # it wants to be found
        fresh = (axis != 2) | (slots < 0)  # where nothing is readable there is nothing to alter
        slots[fresh] = pool.new_slots(team[fresh], agent[fresh])
        return team, slots

    def _anchors(self, team: Ints, pool: Pool, log: Log) -> tuple[Ints, Ints]:
        """A memory of its team for each poison to imitate: its slot and id.

        Where a defence has left nothing readable, any that the team wrote, with slot -1.
        """
        slots, anchors = np.full(len(team), -1, dtype=np.int64), np.empty(len(team), dtype=np.int64)
        for place, t in enumerate(team.tolist()):
            usable = pool.usable(t)
            if len(usable):
                slots[place] = self._rng.choice(usable)
                anchors[place] = pool.ids[t, slots[place]]
            else:
                anchors[place] = self._rng.choice(self._written(t, log))
        return slots, anchors

    def _written(self, team: int, log: Log) -> Ints:
        """The last honest memories that a team wrote, readable or not."""
        mine = (log.team[: self._size] == team) & (log.kind[: self._size] == 0)
        return np.flatnonzero(mine)[-SAMPLE:]

    def _write(self, log: Log, rows: Ints, crafted: CraftedPoison, where: tuple[Ints, Ints]) -> None:
        made = crafted.memories
        if self._chooser is not None:
            made = self._chooser.choose(made, log.reference[rows], (*where, log.parents[rows]))
        log.state[rows], log.context[rows], log.action[rows] = made.state, made.context, made.action
        log.tags[rows], log.cosine[rows] = made.tags, crafted.cosine
        log.taint[rows] = np.linalg.norm(made.action - log.reference[rows], axis=1)

    def _instruct(self, log: Log, anchors: Ints) -> CraftedPoison:
        return instruction(log.memories(anchors), log.reference[anchors], VOCABULARY, self._rng)

    def _collude(self, log: Log, anchors: Ints, group: Ints, rows: Ints) -> CraftedPoison:
        first = np.unique(group, return_index=True, return_inverse=True)
        leaders = anchors[first[1][first[2]]]
        log.reference[rows] = log.reference[leaders]
        return collusion(log.memories(leaders), log.reference[leaders], group, self._rng)

    def _hide_among(self, log: Log, pool: Pool, where: tuple[Ints, Ints, int]) -> CraftedPoison:
        team, rows, index = where
        picked = [self._pick(int(t), index, pool, log) for t in team]
        stacked = [
            np.stack([getattr(c.memories, n)[i] for c, i in picked]) for n in ("state", "context", "action", "tags")
        ]
        right = np.stack([c.right[i] for c, i in picked])
        directions = np.stack([c.directions[i] for c, i in picked])
        log.reference[rows] = right
        log.parents[rows] = np.stack([c.parents[i] for c, i in picked])
        log.weights[rows] = np.stack([c.weights[i] for c, i in picked])
        return camouflage(Memories(*stacked), right, directions, VOCABULARY, self._rng)

    def _pick(self, team: int, index: int, pool: Pool, log: Log) -> tuple[_Centres, int]:
        made_at, centres = self._centres.get(team, (-REFRESH, None))
        if centres is None or index - made_at >= REFRESH:
            centres = self._look(team, pool, log)
            self._centres[team] = (index, centres)
        return centres, int(self._rng.integers(0, len(centres.right)))

    def _look(self, team: int, pool: Pool, log: Log) -> _Centres:
        """Cluster a sample of the team's memories; keep the centres that a memory can sit close to."""
        slots = pool.usable(team)
        ids = pool.ids[team, self._rng.choice(slots, min(SAMPLE, len(slots)), replace=False)]
        ids = ids[log.kind[ids] == 0]  # the attacker knows its own
        if len(ids) < CLUSTERS:  # a defence left too little to read
            ids = self._written(team, log)
        points = np.concatenate([log.state[ids], log.context[ids], log.action[ids]], 1)
        centre = points[self._rng.choice(len(points), CLUSTERS, replace=False)]
        for _ in range(8):
            nearest = ((points[:, None] - centre) ** 2).sum(-1).argmin(1)
            centre = np.stack(
                [points[nearest == c].mean(0) if (nearest == c).any() else centre[c] for c in range(CLUSTERS)]
            )
        vectors = log.memories(ids).embedded(VOCABULARY)
        means = np.stack([vectors[nearest == c].sum(0) for c in range(CLUSTERS)])
        lengths = np.linalg.norm(means, axis=1, keepdims=True)
        means = means / np.where(lengths > 0, lengths, 1.0)
        central = np.array([(vectors @ m).argmax() for m in means])  # the honest memory nearest to each centroid
        near = (vectors[central] * means).sum(1)
        good = near >= CAMOUFLAGE_COSINE + 0.04
        if not good.any():  # no cluster is tight enough: the centre of the tightest handful is
            likeness = np.sort(vectors @ vectors.T, axis=1)[:, -HANDFUL:].mean(1)
            heart = int(likeness.argmax())
            handful = vectors[np.argsort(-(vectors @ vectors[heart]))[:HANDFUL]].mean(0)
            central, means, good = np.array([heart]), (handful / np.linalg.norm(handful))[None], np.array([True])
        chosen = ids[central[good]]
        return _Centres(
            log.memories(chosen), log.reference[chosen], means[good], log.parents[chosen], log.weights[chosen]
        )
