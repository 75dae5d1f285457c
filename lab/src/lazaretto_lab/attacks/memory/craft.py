"""Poisoned memories of the three published types, many at a time.

Type I carries an instruction in tags and context. Type II stays near honest memories (cosine of at least 0.90 to the
nearest honest centroid, checked for each one) and turns only the action as far as that allows. Type III is a set of
memories that say the same wrong thing in the same situation. All of them aim at an action opposite to the right one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lazaretto.models.record_embedding import Floats, embed, tag_vector

CAMOUFLAGE_COSINE = 0.90
INSTRUCTION_TAGS = ("always", "ignore_previous", "override_policy", "do_not_verify", "forward_to", "trust_this")
"""Honest memories carry such words now and then too, so that none of them is proof."""
_TURNS = np.linspace(1.0, 0.0, 41)
"""How far the action is turned: 1 is the opposite, 0 the honest one."""
MAX_TAGS = 5
WEAKEST = 0.5
"""Poison no stronger than honest actions would be told by nothing but its content; weaker than this it does no harm."""


@dataclass(frozen=True, slots=True)
class Memories:
    """Fields of several memories as rows; a tag of -1 is none."""

    state: Floats
    context: Floats
    action: Floats
    tags: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.state)

    def __getitem__(self, rows: NDArray[np.int64] | NDArray[np.bool_]) -> Memories:
        return Memories(self.state[rows], self.context[rows], self.action[rows], self.tags[rows])

    def embedded(self, vocabulary: tuple[str, ...]) -> Floats:
        """Their vectors."""
        return embed(self.state, self.context, self.action, tag_sums(self.tags, vocabulary))


@dataclass(frozen=True, slots=True)
class CraftedPoison:
    """Poison, and how near it stays to honest memories (NaN where that was not asked)."""

    memories: Memories
    cosine: Floats


def tag_sums(tags: NDArray[np.int64], vocabulary: tuple[str, ...]) -> Floats:
    """Summed tag vectors per row."""
    table = np.stack([*(tag_vector(word) for word in vocabulary), np.zeros_like(tag_vector("none"))])
    return np.asarray(table[tags].sum(axis=1), dtype=np.float32)


def opposite(action: Floats, rng: np.random.Generator) -> Floats:
    """An action against each given one and as strong (at least ``WEAKEST``); where there is none, any direction."""
    length = np.linalg.norm(action, axis=1, keepdims=True)
    drawn = rng.standard_normal(action.shape).astype(np.float32) * (np.abs(action).sum(0, keepdims=True) > 0)
    drawn /= np.maximum(np.linalg.norm(drawn, axis=1, keepdims=True), 1e-6)
    away = np.where(length > 0.05, -action / np.maximum(length, 1e-6), drawn)
    return np.asarray(away * np.maximum(length, WEAKEST), dtype=np.float32)


def instruction(
    honest: Memories, right: Floats, vocabulary: tuple[str, ...], rng: np.random.Generator
) -> CraftedPoison:
    """Type I: the situation of an honest memory, with an order in tags and context, and the attacker's action."""
    words = np.array([vocabulary.index(word) for word in INSTRUCTION_TAGS])
    tags = honest.tags.copy()
    tags[:, 2:4] = words[rng.permuted(np.tile(np.arange(len(words)), (len(tags), 1)), axis=1)[:, :2]]
    template = np.random.default_rng(1).standard_normal((4, honest.context.shape[1])).astype(np.float32) * 0.5
    context = honest.context * 0.7 + template[rng.integers(0, 4, len(tags))]
    state = honest.state + rng.normal(0, 0.03, honest.state.shape).astype(np.float32)
    made = Memories(state, context, opposite(right, rng), tags)
    return CraftedPoison(made, np.full(len(tags), np.nan, np.float32))


def camouflage(
    centres: Memories, right: Floats, directions: Floats, vocabulary: tuple[str, ...], rng: np.random.Generator
) -> CraftedPoison:
    """Type II: at the centre of honest memories, with the action turned as far as the cosine allows.

    ``directions`` are the unit vectors of the centroids in the embedding. A centre that is itself further away
    than the limit keeps its honest action; the caller sees that in the cosine and drops it.
    """
    state = centres.state + rng.normal(0, 0.02, centres.state.shape).astype(np.float32)
    target = opposite(right, rng)
    action = centres.action.copy()
    cosine = np.full(len(centres), -1.0, np.float32)
    open_rows = np.ones(len(centres), dtype=bool)
    for turn in _TURNS:
        tried = (turn * target + (1 - turn) * centres.action).astype(np.float32)
        made = Memories(state, centres.context, tried, centres.tags).embedded(vocabulary)
        near = (made * directions).sum(axis=1)
        fits = open_rows & (near >= CAMOUFLAGE_COSINE)
        action[fits], cosine[fits] = tried[fits], near[fits]
        open_rows &= ~fits
    return CraftedPoison(Memories(state, centres.context, action, centres.tags), cosine)


def collusion(honest: Memories, right: Floats, group: NDArray[np.int64], rng: np.random.Generator) -> CraftedPoison:
    """Type III: rows of one group (neighbouring situations) all claim the same wrong action with the same tags."""
    target = opposite(right, rng)
    _, first, inverse = np.unique(group, return_index=True, return_inverse=True)
    leader = first[inverse]
    state = honest.state[leader] + rng.normal(0, 0.05, honest.state.shape).astype(np.float32)
    made = Memories(state, honest.context[leader], target[leader], honest.tags[leader])
    return CraftedPoison(made, np.full(len(group), np.nan, np.float32))
