"""What a run leaves behind: every memory with its truth, and the measures that follow from it."""

from __future__ import annotations

import dataclasses
import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import orjson
from numpy.typing import NDArray

from lazaretto.files import replacing
from lazaretto_lab.attacks.memory.craft import INSTRUCTION_TAGS, MAX_TAGS, Memories
from lazaretto_lab.worlds.shared_memory.scenario import ACTION, CONTEXT, DOMAINS, STATE, Scenario
from lazaretto_lab.worlds.shared_memory.tasks import TOPICS

OTHER_TAGS = ("verified", "retry", "tool:query", "safety:check")
VOCABULARY = (*DOMAINS, *(f"topic:{n}" for n in range(TOPICS)), *OTHER_TAGS, *INSTRUCTION_TAGS)
PARENTS = 5
AFFECTED = 0.1
"""A decision that poison moved by more than this counts as reached by it."""
VERSION = 3


@dataclass(slots=True)
class Log:
    """All memories of a run in the order of writing, as columns."""

    team: NDArray[np.int64]
    agent: NDArray[np.int64]
    round: NDArray[np.int64]
    state: NDArray[np.float32]
    context: NDArray[np.float32]
    action: NDArray[np.float32]
    tags: NDArray[np.int64]
    parents: NDArray[np.int64]
    """Rows of the memories it was made from, -1 for none."""
    weights: NDArray[np.float32]
    """How much each parent counted."""
    success: NDArray[np.bool_]
    """What the record says about its outcome; poison always claims success."""
    shared: NDArray[np.bool_]
    importance: NDArray[np.float32]
    """As the record claims, 0 to 1; no detector here looks at it."""
    held: NDArray[np.bool_]
    """Held back by the defence at the end of the run."""
    rewritten: NDArray[np.bool_]
    """Given another action by the defence."""
    # the truth, for measuring only
    reference: NDArray[np.float32]
    kind: NDArray[np.int64]
    """0 for honest memories, else the type of the poison."""
    axis: NDArray[np.int64]
    cosine: NDArray[np.float32]
    taint: NDArray[np.float32]
    """How far poison moved the action."""
    hops: NDArray[np.int64]
    """Edges from the nearest poison; -1 where none reached it."""
    reported: NDArray[np.float32]
    """(rounds, teams, agents): 1 where the agent's decision of the round succeeded, 0 where not, NaN for none."""
    reward: NDArray[np.float64]
    """(rounds, teams)."""

    def __len__(self) -> int:
        return len(self.team)

    @property
    def poisoned(self) -> NDArray[np.bool_]:
        """Which memories the attacker made."""
        return self.kind > 0

    @property
    def honest(self) -> NDArray[np.bool_]:
        """Memories that neither the attacker made nor poison moved into misbehaviour."""
        return ~self.poisoned & (self.taint <= AFFECTED)

    def memories(self, rows: NDArray[np.int64] | slice) -> Memories:
        """The fields of some rows."""
        return Memories(self.state[rows], self.context[rows], self.action[rows], self.tags[rows])

    def deviation(self) -> NDArray[np.float32]:
        """How far each action is from the reference policy."""
        return np.asarray(np.linalg.norm(self.action - self.reference, axis=1), dtype=np.float32)


def empty_log(size: int, rounds: int, teams: int, agents: int) -> Log:
    """Columns for at most so many memories."""

    def ints(*shape: int) -> NDArray[np.int64]:
        return np.full(shape, -1, dtype=np.int64)

    def floats(*shape: int) -> NDArray[np.float32]:
        return np.zeros(shape, dtype=np.float32)

    flags = [np.zeros(size, dtype=bool) for _ in range(4)]
    return Log(
        team=ints(size), agent=ints(size), round=ints(size),
        state=floats(size, STATE), context=floats(size, CONTEXT), action=floats(size, ACTION),
        tags=ints(size, MAX_TAGS), parents=ints(size, PARENTS), weights=floats(size, PARENTS),
        success=flags[0], shared=flags[1], held=flags[2], rewritten=flags[3], importance=floats(size),
        reference=floats(size, ACTION), kind=np.zeros(size, dtype=np.int64), axis=np.zeros(size, dtype=np.int64),
        cosine=np.full(size, np.nan, np.float32), taint=floats(size), hops=ints(size),
        reported=np.full((rounds, teams, agents), np.nan, np.float32), reward=np.zeros((rounds, teams)),
    )  # fmt: skip


def trimmed(log: Log, size: int) -> Log:
    """The log without unused rows."""
    whole = {"reported", "reward"}
    columns = {f.name: getattr(log, f.name) for f in dataclasses.fields(log)}
    return Log(**{name: c if name in whole else c[:size] for name, c in columns.items()})


@dataclass(frozen=True, slots=True)
class Outcomes:
    """What poison did to a run."""

    misbehaviour: float
    """Share of decisions further from the reference policy than the scenario's limit."""
    hops: float | None
    """Mean edges from poison to the decisions it reached; None when it reached none."""
    hops_with_origins: float | None
    """The same with the injected memories themselves counted as 0 edges, a second reading of the paper."""
    max_hops: int
    coverage: float
    """Share of decisions that poison moved."""
    agents_reached: float
    """Share of agents and periods of 50 rounds with at least one decision that poison moved."""
    reward: float


def outcomes(log: Log, scenario: Scenario, teams: NDArray[np.int64] | None = None) -> Outcomes:
    """The measures of a run (of some teams), over the rounds in which an attack is possible."""
    chosen = np.arange(scenario.teams) if teams is None else teams
    mine = np.isin(log.team, chosen)
    decided = mine & (log.kind == 0) & (log.round >= scenario.quiet_rounds)
    moved = decided & (log.hops > 0)
    hops = log.hops[moved]
    injected = int((mine & log.poisoned).sum())
    cells = log.round // 50 * 10_000 + log.team * 10 + log.agent
    return Outcomes(
        misbehaviour=float((log.deviation()[decided] > scenario.deviation).mean()),
        hops=float(hops.mean()) if hops.size else None,
        hops_with_origins=float(hops.sum() / (hops.size + injected)) if hops.size + injected else None,
        max_hops=int(hops.max()) if hops.size else 0,
        coverage=float(moved.sum() / decided.sum()),
        agents_reached=len(np.unique(cells[moved])) / len(np.unique(cells[decided])),
        reward=float(log.reward[scenario.quiet_rounds :, chosen].mean()),
    )


def agent_points(log: Log, scenario: Scenario, teams: NDArray[np.int64]) -> list[list[float]]:
    """For each agent of some teams: the share of its decisions that poison moved, and the share that misbehaved."""
    decided = np.flatnonzero(np.isin(log.team, teams) & (log.kind == 0) & (log.round >= scenario.quiet_rounds))
    _, agent = np.unique(log.team[decided] * 100 + log.agent[decided], return_inverse=True)
    wrong = log.deviation()[decided] > scenario.deviation
    shares = [np.bincount(agent, flags) / np.bincount(agent) for flags in (log.hops[decided] > 0, wrong)]
    return [[float(x), float(y)] for x, y in zip(*shares, strict=True)]


def log_path(folder: Path, scenario: Scenario) -> Path:
    """Where the undefended run of a scenario is kept."""
    body = orjson.dumps({"version": VERSION, **dataclasses.asdict(scenario)}, option=orjson.OPT_SORT_KEYS)
    return folder / f"shared-memory-{hashlib.sha256(body).hexdigest()[:16]}.npz"


def save_log(log: Log, path: Path) -> None:
    """Write a log as a whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as file:
        np.savez(file, **{f.name: getattr(log, f.name) for f in dataclasses.fields(log)})


def load_log(path: Path) -> Log:
    """A log that was saved."""
    with np.load(path) as stored:
        return Log(**{f.name: stored[f.name] for f in dataclasses.fields(Log)})
