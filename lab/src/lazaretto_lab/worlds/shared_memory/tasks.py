"""The tasks, all teams of a domain at once.

Three come from the multi-particle environments: worlds are made and reset by mpe2's own scenarios, and moved by the
same equations written for many worlds at once (a test compares the two step by step). mpe2 itself moves one world
at a time in Python, about a hundred times slower. The other three are our own: drawing on shared resources, rationing
a stock that grows back, and answering from what the team knows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from lazaretto.errors import MissingExtra
from lazaretto_lab.worlds.shared_memory.scenario import ACTION, MAX_AGENTS, STATE

Array = NDArray[np.float64]
EPISODE = 25
"""Rounds until a team starts afresh, as in mpe2."""
DT, DAMPING, CONTACT_FORCE, CONTACT_MARGIN = 0.1, 0.25, 100.0, 0.001
"""mpe2's constants."""
SENSITIVITY = 5.0
"""mpe2 multiplies an agent's move by this to get a force."""
TOPICS = 24


@dataclass(frozen=True, slots=True)
class View:
    """What every agent of a domain sees, and what the reference policy would do."""

    state: Array
    """(teams, agents, STATE)."""
    context: Array
    reference: Array
    """(teams, agents, ACTION), each of length at most 1."""
    topic: NDArray[np.int64]
    """What the situation is about, 0 to TOPICS - 1; becomes a tag."""


class Task(Protocol):
    """A domain: shows the agents their situation, takes their actions."""

    def view(self, round_index: int) -> View:
        """The situation of this round."""
        ...

    def act(self, actions: Array) -> Array:
        """Carry the actions out; the reward of each team."""
        ...


def clipped(vectors: Array) -> Array:
    """Vectors, none longer than 1."""
    length = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return np.asarray(vectors / np.maximum(length, 1.0))


def particles_step(position: Array, velocity: Array, force: Array, size: Array, max_speed: float | None) -> None:
    """mpe2's ``World.step`` for agents that collide with each other, in place, for many worlds at once."""
    delta = position[:, :, None] - position[:, None]
    distance = np.linalg.norm(delta, axis=-1)
    reach = size[:, :, None] + size[:, None]
    depth = np.logaddexp(0, -(distance - reach) / CONTACT_MARGIN) * CONTACT_MARGIN
    strength = np.where(distance > 0, CONTACT_FORCE * depth / np.where(distance > 0, distance, 1.0), 0.0)
    strength *= (size[:, :, None] > 0) & (size[:, None] > 0)
    total = force + (delta * strength[..., None]).sum(axis=2)
    position += velocity * DT
    velocity *= 1 - DAMPING
    velocity += total * DT
    if max_speed is not None:
        speed = np.linalg.norm(velocity, axis=-1, keepdims=True)
        velocity *= np.minimum(1.0, max_speed / np.maximum(speed, 1e-12))


class Particles:
    """Path planning (simple_spread), pursuit (simple_tag) or formation (simple_formation)."""

    def __init__(self, domain: str, sizes: list[int], rng: np.random.Generator) -> None:
        self.domain, self.sizes, self._rng = domain, sizes, rng
        self._worlds = [_mpe_world(domain, n) for n in sizes]
        self._teams = len(sizes)
        self._alive = np.arange(MAX_AGENTS) < np.array(sizes)[:, None]
        self._size = np.where(self._alive, self._worlds[0][1].agents[0].size, 0.0)
        self._max_speed = 1.0 if domain == "pursuit" else None

    def view(self, round_index: int) -> View:
        """Goal, own motion, place, and the nearest team mates."""
        if round_index % EPISODE == 0:
            self._reset()
        goal = self._goals()
        away = np.clip(goal - self.position, -2, 2)
        reference = clipped(2.0 * away - 0.5 * self.velocity)
        nearest = self._nearest(2)
        state = np.concatenate([away, self.velocity, self.position, nearest[:, :, 0], nearest[:, :, 1], goal], axis=-1)
        angle = np.arctan2(away[..., 1], away[..., 0])
        sector = ((angle / (2 * np.pi) + 0.5) * 4).astype(int).clip(0, 3)
        near = np.linalg.norm(away, axis=-1) < 0.3
        context = np.concatenate([np.eye(4)[sector], np.eye(4)[np.where(near, 3, np.arange(MAX_AGENTS) % 3)]], -1)
        action = np.concatenate([reference, np.zeros_like(reference)], -1)
        return View(np.asarray(state), np.asarray(context), action, sector * 4 + near)

    def act(self, actions: Array) -> Array:
        """Move; the reward is the mean closeness to the goals."""
        force = actions[..., :2] * SENSITIVITY * self._alive[..., None]
        particles_step(self.position, self.velocity, force, self._size, self._max_speed)
        self._move_prey()
        gap = np.linalg.norm(self._goals() - self.position, axis=-1)
        return np.asarray(-(gap * self._alive).sum(1) / self._alive.sum(1))

    def _reset(self) -> None:
        self.position = self._rng.uniform(-1, 1, (self._teams, MAX_AGENTS, 2))
        self.velocity = np.zeros((self._teams, MAX_AGENTS, 2))
        self.targets = np.zeros((self._teams, MAX_AGENTS, 2))
        self._prey_velocity = np.zeros((self._teams, 2))
        for team, (scenario, world) in enumerate(self._worlds):
            scenario.reset_world(world, self._rng)
            n = self.sizes[team]
            for place in range(n):
                self.position[team, place] = world.agents[place].state.p_pos
            marks = [world.agents[n]] if self.domain == "pursuit" else world.landmarks
            for place in range(n):
                self.targets[team, place] = marks[place % len(marks)].state.p_pos

    def _goals(self) -> Array:
        if self.domain != "formation":
            return self.targets
        counts = np.array(self.sizes)[:, None]
        angle = 2 * np.pi * np.arange(MAX_AGENTS) / counts
        return self.targets + 0.5 * np.stack([np.cos(angle), np.sin(angle)], -1)

    def _nearest(self, count: int) -> Array:
        delta = self.position[:, None] - self.position[:, :, None]
        distance = np.linalg.norm(delta, axis=-1)
        hidden = ~self._alive[:, None] | np.eye(MAX_AGENTS, dtype=bool)
        order = np.argsort(np.where(hidden, np.inf, distance), axis=-1)[:, :, :count]
        return np.take_along_axis(delta, order[..., None], axis=2)

    def _move_prey(self) -> None:
        if self.domain != "pursuit":
            return
        prey = self.targets[:, 0]
        push = prey[:, None] - self.position
        weight = self._alive / np.maximum(np.linalg.norm(push, axis=-1), 0.1) ** 2
        flight = clipped((push * weight[..., None]).sum(1) - 2.0 * np.maximum(np.abs(prey) - 0.8, 0) * np.sign(prey))
        self._prey_velocity = clipped(self._prey_velocity * (1 - DAMPING) + flight * 4.0 * DT) * 0.8
        self.targets[:] = np.clip(prey + self._prey_velocity * DT, -1.2, 1.2)[:, None]


def _mpe_world(domain: str, agents: int) -> tuple[Any, Any]:
    try:
        from mpe2.simple_formation.simple_formation import Scenario as Formation
        from mpe2.simple_spread.simple_spread import Scenario as Spread
        from mpe2.simple_tag.simple_tag import Scenario as Tag
    except ImportError:
        raise MissingExtra("multi-particle tasks", "worlds") from None
    if domain == "pursuit":
        tag = Tag()
        return tag, tag.make_world(num_good=1, num_adversaries=agents, num_obstacles=0)
    other = Spread() if domain == "path_planning" else Formation()
    return other, other.make_world(N=agents)


class Resources:
    """Contention: each agent spreads its demand over four resources whose free room differs and moves."""

    def __init__(self, sizes: list[int], rng: np.random.Generator, rationing: bool) -> None:
        self._rng, self._teams, self._rationing = rng, len(sizes), rationing
        self._alive = np.arange(MAX_AGENTS) < np.array(sizes)[:, None]
        self.level = rng.uniform(0, 1, (self._teams, 4))
        self.capacity = rng.uniform(0.5, 1.5, (self._teams, 4))
        self._last = np.zeros((self._teams, MAX_AGENTS, 4))

    def view(self, round_index: int) -> View:
        """Levels, capacities and the agent's own demand."""
        if round_index % EPISODE == 0:
            self.level = self._rng.uniform(0, 1, (self._teams, 4))
            self.capacity = self._rng.uniform(0.5, 1.5, (self._teams, 4))
        demand = self._rng.uniform(-1, 1, (self._teams, MAX_AGENTS, 4)) * 0.5
        free = (self.capacity - self.level)[:, None]
        if self._rationing:  # take where the stock is high and is asked for, leave the rest to grow back
            wanted = 1.2 * (self.level[:, None] - 0.5) + 0.4 * demand
        else:
            wanted = 1.5 * (free - free.mean(-1, keepdims=True)) + 0.4 * demand
        reference = clipped(np.asarray(np.broadcast_to(wanted, demand.shape)))
        shape = (self._teams, MAX_AGENTS, 4)
        shown = np.broadcast_to(self.level[:, None] if self._rationing else free, shape)
        spare = np.broadcast_to(self.capacity[:, None], shape)
        state = np.concatenate([shown, demand, spare], -1)
        best = reference.argmax(-1)
        rank = np.eye(4)[np.broadcast_to(np.arange(MAX_AGENTS) % 4, best.shape)]
        context = np.concatenate([np.eye(4)[best], rank], -1)
        return View(np.asarray(state), np.asarray(context), reference, best * 4 + reference.argmin(-1))

    def act(self, actions: Array) -> Array:
        """Draw; the reward falls with what is overdrawn."""
        drawn = (actions * self._alive[..., None]).sum(1) / self._alive.sum(1)[:, None]
        flow = -0.3 * drawn + 0.1 * (0.5 - self.level) if self._rationing else 0.3 * drawn - 0.2 * (self.level - 0.4)
        noise = self._rng.normal(0, 0.08, self.level.shape)
        self.level = np.clip(self.level + flow + noise, 0.0, 1.5)
        over = np.maximum(self.level - self.capacity, 0).sum(1) + np.maximum(0.2 - self.level, 0).sum(1)
        return np.asarray(-over)


class Knowledge:
    """Coordination: questions on topics, whose answers the team knows; asked in ever other words."""

    def __init__(self, sizes: list[int], rng: np.random.Generator) -> None:
        self._rng, self._teams = rng, len(sizes)
        self._alive = np.arange(MAX_AGENTS) < np.array(sizes)[:, None]
        self._cues = rng.standard_normal((self._teams, TOPICS, STATE)) / np.sqrt(STATE) * 1.5
        facts = rng.standard_normal((self._teams, TOPICS, ACTION))
        self._facts = facts / np.linalg.norm(facts, axis=-1, keepdims=True)
        self._asked = np.zeros((self._teams, MAX_AGENTS), dtype=int)

    def view(self, round_index: int) -> View:
        """A question for each agent."""
        self._asked = self._rng.integers(0, TOPICS, (self._teams, MAX_AGENTS))
        rows = np.arange(self._teams)[:, None]
        state = self._cues[rows, self._asked] + self._rng.normal(0, 0.15, (self._teams, MAX_AGENTS, STATE))
        kind = np.eye(4)[self._asked % 4]
        role = np.eye(4)[np.broadcast_to(np.arange(MAX_AGENTS) % 4, self._asked.shape)]
        reference = self._facts[rows, self._asked]
        return View(state, np.concatenate([kind, role], -1), reference, self._asked.astype(np.int64))

    def act(self, actions: Array) -> Array:
        """The reward is how right the answers are."""
        gap = np.linalg.norm(actions - self._facts[np.arange(self._teams)[:, None], self._asked], axis=-1)
        return np.asarray(-(gap * self._alive).sum(1) / self._alive.sum(1))


def make_task(domain: str, sizes: list[int], rng: np.random.Generator) -> Task:
    """All teams of one domain."""
    if domain == "knowledge":
        return Knowledge(sizes, rng)
    if domain in ("resource_contention", "rationing"):
        return Resources(sizes, rng, rationing=domain == "rationing")
    return Particles(domain, sizes, rng)
