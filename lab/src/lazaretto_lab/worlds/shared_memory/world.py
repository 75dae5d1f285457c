"""The world: teams decide on what they retrieve, write down what they did, and meet what an attacker put among it.

Every decision blends the agent's own judgement with the actions of the nearest memories it may read, so a poisoned
memory changes what is done, is written down again by its victim, and travels on. Draws come from named streams: a
defended and an undefended run of one seed meet the same situations and the same attack schedule.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from lazaretto_lab.attacks.memory import schedule
from lazaretto_lab.attacks.memory.craft import Memories
from lazaretto_lab.worlds.shared_memory.adversary import Adversary, Chooser
from lazaretto_lab.worlds.shared_memory.log import AFFECTED, VOCABULARY, Log, empty_log, trimmed
from lazaretto_lab.worlds.shared_memory.pool import MemoryHits, Pool, keys_of
from lazaretto_lab.worlds.shared_memory.scenario import DOMAINS, MAX_AGENTS, Scenario
from lazaretto_lab.worlds.shared_memory.tasks import View, make_task

Floats = NDArray[np.float32]
Progress = Callable[[float, str], None]
_INSTRUCTION_RATE = 0.02
"""Share of honest memories that carry a word which instructions use."""
_FEEDBACK_ERROR = 0.05
"""Share of outcomes that are reported wrongly."""


@dataclass(frozen=True, slots=True)
class Writes:
    """What a defence sees of the memories written in one round: no truth, nothing of how they came to be."""

    ids: NDArray[np.int64]
    team: NDArray[np.int64]
    agent: NDArray[np.int64]
    memories: Memories
    parents: NDArray[np.int64]
    success: NDArray[np.bool_]
    """As the record claims."""
    reported: Floats
    """(teams, agents): how the decisions of this round really went, as the environment reports; NaN for none."""


@dataclass(frozen=True, slots=True)
class Rewriting:
    """Memories that say something else from now on; what was done with them before stays done."""

    ids: NDArray[np.int64]
    action: Floats
    """(n, ACTION): the actions they name now."""
    sources: NDArray[np.int64]
    """(n, ACTION): the memory from which each number was taken, so that poison in it is not lost from sight."""


@dataclass(frozen=True, slots=True)
class MendResult:
    """What a defence changes in memories that are already there."""

    hide: NDArray[np.int64]
    show: NDArray[np.int64]
    """Held before, and released now."""
    rewrite: Rewriting | None = None


class Screen(Protocol):
    """A defence: holds memories back when they are written, and mends those that are there."""

    def admit(self, writes: Writes) -> NDArray[np.bool_]:
        """True for each memory to hold back."""
        ...

    def mend(self, round_index: int) -> MendResult | None:
        """Called once per round, after the writes."""
        ...


@dataclass(slots=True)
class _Run:
    """The moving parts of one run."""

    scenario: Scenario
    pool: Pool
    log: Log
    rng: np.random.Generator
    shift: Floats
    """How poison moved each decision, as a vector."""
    slot: NDArray[np.int64]
    """Where in its team's pool each memory stands."""
    size: int = 0


def simulate(
    scenario: Scenario,
    screen: Screen | None = None,
    chooser: Chooser | None = None,
    progress: Progress = lambda share, note: None,
) -> Log:
    """Run a scenario. ``screen`` defends; ``chooser`` makes the attacker adaptive."""
    sizes = scenario.team_sizes()
    per = scenario.per_domain
    tasks = [
        make_task(domain, sizes[i * per : (i + 1) * per], np.random.default_rng([scenario.seed, 1, i]))
        for i, domain in enumerate(DOMAINS)
    ]
    ways = (scenario.kinds, scenario.axes)
    plan = schedule(scenario.poison_count, scenario.attacked, scenario.teams, ways, scenario.seed)
    log = empty_log(scenario.honest_memories + scenario.poison_count, scenario.rounds, scenario.teams, MAX_AGENTS)
    run = _Run(
        scenario,
        Pool(scenario),
        log,
        np.random.default_rng([scenario.seed, 2]),
        np.zeros_like(log.action),
        np.zeros_like(log.team),
    )
    adversary = Adversary(scenario, plan, chooser)
    alive = np.arange(MAX_AGENTS) < np.array(sizes)[:, None]
    failing = np.random.default_rng([scenario.seed, 3]).random(alive.shape) < scenario.node_failure
    for index in range(scenario.rounds):
        active = alive & ~failing if index >= scenario.rounds // 2 else alive
        view = _joined([task.view(index) for task in tasks])
        executed, found = _decide(run, view)
        moves = np.asarray(executed * active[..., None], dtype=np.float64)
        rewards = [task.act(moves[i * per : (i + 1) * per]) for i, task in enumerate(tasks)]
        log.reward[index] = np.concatenate(rewards)
        start = run.size
        decided = _record(run, index, view, active, (executed, found))
        where = adversary.strike(index, run.pool, log, run.size)
        run.size += len(where[0])
        where = (np.concatenate([decided[0], where[0]]), np.concatenate([decided[1], where[1]]))
        _store(run, slice(start, run.size), where, screen)
        if screen is not None:
            _mend(run, screen, index)
        if index % 20 == 0:
            progress(index / scenario.rounds, f"round {index}, {run.size:,} memories")
    return trimmed(log, run.size)


def _joined(views: list[View]) -> View:
    state, context, reference, topic = (
        np.concatenate([getattr(v, name) for v in views]) for name in ("state", "context", "reference", "topic")
    )
    return View(state, context, reference, topic)


def _decide(run: _Run, view: View) -> tuple[Floats, MemoryHits]:
    """The executed actions: own judgement and what was found, in the scenario's proportion."""
    settings, rng = run.scenario, run.rng
    found = run.pool.retrieve(keys_of(view.state, view.context))
    used = np.abs(view.reference).sum((0, 1)) > 0
    own = view.reference + rng.normal(0, settings.own_noise, view.reference.shape) * used
    flat = np.abs(view.reference[..., 2:]).sum(-1, keepdims=True) == 0  # two-dimensional tasks
    own[..., 2:] = np.where(flat, 0.0, own[..., 2:])
    explored = rng.standard_normal(own.shape)
    explored[..., 2:] = np.where(flat, 0.0, explored[..., 2:])
    explored /= np.linalg.norm(explored, axis=-1, keepdims=True)
    recalled = (found.weights[..., None] * found.action).sum(2)
    trusted = settings.reliance * found.weights.sum(-1, keepdims=True)
    executed = (1 - trusted) * own + settings.reliance * recalled
    wild = rng.random(own.shape[:2]) < settings.exploration
    return np.where(wild[..., None], explored, executed).astype(np.float32), found


def _record(
    run: _Run, index: int, view: View, active: NDArray[np.bool_], done: tuple[Floats, MemoryHits]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Write each active agent's memory into the log; returns the teams and slots they take."""
    settings, rng, log = run.scenario, run.rng, run.log
    executed, found = done
    team, agent = np.nonzero(active)
    rows = slice(run.size, run.size + len(team))
    log.team[rows], log.agent[rows], log.round[rows] = team, agent, index
    log.state[rows], log.context[rows] = view.state[active], view.context[active]
    log.action[rows], log.reference[rows] = executed[active], view.reference[active]
    other = rng.integers(0, 4, len(team)) + VOCABULARY.index("verified")
    word = rng.integers(0, 6, len(team)) + VOCABULARY.index("always")
    topic = VOCABULARY.index("topic:0") + view.topic[active]
    none = np.full(len(team), -1)
    said = np.where(rng.random(len(team)) < _INSTRUCTION_RATE, word, none)
    log.tags[rows] = np.stack([team // settings.per_domain, topic, other, said, none], 1)
    log.parents[rows, : settings.retrieved] = found.ids[active]
    log.weights[rows, : settings.retrieved] = found.weights[active]
    right = np.linalg.norm(executed - view.reference, axis=-1) <= settings.deviation
    feedback = right ^ (rng.random(right.shape) < _FEEDBACK_ERROR)
    log.reported[index] = np.where(active, feedback, np.nan)
    log.success[rows] = feedback[active]
    log.shared[rows] = rng.random(len(team)) < settings.shared
    log.importance[rows] = rng.beta(4, 4, len(team))
    taint = settings.reliance * (found.weights[..., None] * found.taint).sum(2)[active]
    moved = np.linalg.norm(taint, axis=1)
    carried = np.where((found.hops >= 0) & (found.weights >= 0.1), found.hops, 10_000).min(-1)[active]
    run.shift[rows], log.taint[rows] = taint, moved
    log.hops[rows] = np.where((moved > AFFECTED) & (carried < 10_000), carried + 1, -1)
    run.size = rows.stop
    return team, run.pool.new_slots(team, agent)


def _store(run: _Run, rows: slice, where: tuple[NDArray[np.int64], NDArray[np.int64]], screen: Screen | None) -> None:
    """Put a round's memories into the pool, unless the defence holds them."""
    log = run.log
    order = np.random.default_rng([run.scenario.seed, 4, rows.start]).permutation(rows.stop - rows.start)
    ids = np.arange(rows.start, rows.stop)[order]
    held = np.zeros(len(ids), dtype=bool)
    if screen is not None:
        index = int(log.round[rows.start])
        seen = Writes(
            ids, log.team[ids], log.agent[ids], log.memories(ids), log.parents[ids], log.success[ids],
            log.reported[index],
        )  # fmt: skip
        held = screen.admit(seen)
        log.held[ids] = held
    injected = log.kind[ids] > 0
    wrong = log.action[ids] - log.reference[ids]
    run.shift[ids] = np.where(injected[:, None], wrong, run.shift[ids])
    run.slot[ids] = where[1][order]
    _put(run, ids[~held])


def _put(run: _Run, ids: NDArray[np.int64]) -> None:
    """Make memories readable."""
    log = run.log
    run.pool.put(
        (log.team[ids], run.slot[ids]),
        ids,
        keys_of(log.state[ids], log.context[ids]),
        log.action[ids],
        (run.shift[ids], log.hops[ids]),
        (log.shared[ids], log.importance[ids]),
    )


def _mend(run: _Run, screen: Screen, index: int) -> None:
    mending = screen.mend(index)
    if mending is None:
        return
    log = run.log
    if len(mending.hide):
        run.pool.drop(log.team[mending.hide], mending.hide)
        log.held[mending.hide] = True
    if len(mending.show):
        _put(run, mending.show)
        log.held[mending.show] = False
    if mending.rewrite is not None:
        _rewrite(run, mending.rewrite)


def _rewrite(run: _Run, new: Rewriting) -> None:
    log, ids = run.log, new.ids
    run.shift[ids] = run.shift[new.sources, np.arange(new.action.shape[1])]
    from_poison = np.where(log.hops[new.sources] >= 0, log.hops[new.sources], 10_000).min(1)
    moved = np.linalg.norm(run.shift[ids], axis=1) > AFFECTED
    hops = np.where(moved & (from_poison < 10_000), from_poison + 1, -1)
    run.pool.put(
        (log.team[ids], run.slot[ids]),
        ids,
        keys_of(log.state[ids], log.context[ids]),
        new.action,
        (run.shift[ids], hops),
        (log.shared[ids], log.importance[ids]),
    )
    log.rewritten[ids] = True
