"""Chance in named streams, and who meets whom.

Each purpose (pairing, personas, albums, infection, a defence) draws from its own stream, so a defended and an
undefended run meet the same pairs, and a run resumed at any round draws what it would have drawn.
"""

from __future__ import annotations

import random

from lazaretto_lab.worlds.epidemic.pairing import random_pairs, reference_pairs

Pair = tuple[int, int]
"""(questioner, answerer), by place in the world's list of agents."""


def stream(seed: int, name: str, round_index: int | None = None) -> random.Random:
    """A generator of its own for one purpose, and for one round of it when the purpose comes back every round."""
    place = "" if round_index is None else f":{round_index}"
    return random.Random(f"{name}:{seed}{place}")


def pairs_of_round(seed: int, agents: int, round_index: int, reference: bool) -> list[Pair]:
    """Who meets whom in a round: the same draws as the model-free epidemic makes, so that the two can be laid over
    each other. ``reference``: the pairs of the published runs (one generator, seeded once before round 0)."""
    if reference:
        *_, (questioners, answerers) = reference_pairs(seed, agents, round_index + 1)
    else:
        questioners, answerers, _ = random_pairs(seed, round_index, agents)
    return list(zip(questioners.tolist(), answerers.tolist(), strict=True))
