"""The epidemic itself: rounds of chats over all agents, and many seeds, at once.

A round, synchronous as in the reference: the defence looks at albums; pairs are drawn; each questioner retrieves the
cure, the virus or something harmless from its album as it stands; symptoms show; the pictures arrive at the
answerers; defenders that recognised a symptom add a cure to their own album; agents that carried the virus recover
with chance gamma.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lazaretto.errors import InputError
from lazaretto_lab.worlds.epidemic.agents import Mask, Population
from lazaretto_lab.worlds.epidemic.pairing import Ids, Stream, random_pairs, reference_pairs, uniforms
from lazaretto_lab.worlds.epidemic.scenario import Scenario, check_seed

COUNTS = (
    "current",
    "cumulative",
    "carrying",
    "cured",
    "questioners_carrying",
    "virus_retrieved",
    "cure_retrieved",
    "flagged",
    "false_alarms",
    "virus_removed",
    "benign_removed",
)
"""What is counted in each round, for each seed."""


@dataclass(frozen=True, slots=True)
class Epidemic:
    """What happened: one integer array (seeds, rounds) for each name of ``COUNTS``."""

    scenario: Scenario
    seeds: tuple[int, ...]
    counts: dict[str, NDArray[np.int64]]

    def percent(self, name: str) -> NDArray[np.float64]:
        """A count as a percentage of all agents, (seeds, rounds)."""
        return 100.0 * self.counts[name] / self.scenario.agents


@dataclass(frozen=True, slots=True)
class Chats:
    """What happened in the pairs of one round; all arrays are (seeds, pairs), agents numbered over all seeds."""

    questioners: Ids
    answerers: Ids
    virus: Mask
    """The virus was retrieved."""
    cure: Mask
    """The cure was retrieved."""
    nothing: Mask | None
    """No picture arrives: the questioner's album was empty or the answerer refused. None where that cannot be."""
    asked: Mask
    """The question was the symptom."""
    answered: Mask
    """The answer was the symptom."""
    found: tuple[Mask, Mask] | None
    """A defending questioner, a defending answerer recognised it; None without defenders."""
    carrying: Mask
    """The questioner carried the virus."""


Pairs = list[tuple[Ids, Ids]]
"""Questioners and answerers of a round, for each seed."""

DRAW_AHEAD = 50_000
"""From so many agents on, the next round's pairs are drawn in a second thread while a round is played."""


def simulate(scenario: Scenario, seeds: Sequence[int]) -> Epidemic:
    """Run the scenario once per seed, all seeds side by side. A seed gives the same run whatever its company."""
    checked = _checked(seeds)
    if scenario.reference_pairing:
        drawn = [reference_pairs(seed, scenario.agents, scenario.rounds) for seed in checked]
        return _run(scenario, checked, (list(pairs) for pairs in zip(*drawn, strict=True)))

    def draw(round_: int) -> Pairs:
        return [random_pairs(seed, round_, scenario.agents)[:2] for seed in checked]

    if scenario.agents < DRAW_AHEAD:
        return _run(scenario, checked, map(draw, range(scenario.rounds)))
    return _run(scenario, checked, _ahead(draw, scenario.rounds))


def _ahead(draw: Callable[[int], Pairs], rounds: int) -> Iterator[Pairs]:
    with ThreadPoolExecutor(1) as thread:
        coming = thread.submit(draw, 0)
        for round_ in range(rounds):
            pairs = coming.result()
            if round_ + 1 < rounds:
                coming = thread.submit(draw, round_ + 1)
            yield pairs


def _checked(seeds: Sequence[int]) -> tuple[int, ...]:
    if not seeds:
        raise InputError("seeds", "none given", "Name at least one seed")
    return tuple(check_seed(seed) for seed in seeds)


def _run(scenario: Scenario, seeds: tuple[int, ...], pairing: Iterable[Pairs]) -> Epidemic:
    population = Population.start(scenario, len(seeds))
    counts = {name: np.zeros((len(seeds), scenario.rounds), dtype=np.int64) for name in COUNTS}
    for round_, drawn in enumerate(pairing):
        now = {name: array[:, round_] for name, array in counts.items()}
        carried = before_turn(scenario, population, seeds, round_, now)
        sides = zip(*drawn, strict=True)
        questioners, answerers = (np.stack(side) if len(side) > 1 else side[0][None] for side in sides)
        settle(population, chat(scenario, population, seeds, round_, questioners, answerers), now)
        after_turn(scenario, population, seeds, round_, carried, now)
    return Epidemic(scenario, seeds, counts)


Counts = dict[str, NDArray[np.int64]]
"""Name -> one number per seed, for the round that is being played."""


def before_turn(
    scenario: Scenario, population: Population, seeds: Sequence[int], round_: int, now: Counts
) -> Mask | None:
    """Let the defence act; returns who carries the virus into the turn (None when nobody will ask)."""
    if scenario.defence.active:
        for index, seed in enumerate(seeds):
            _defend(scenario, population, seed, round_, index, now)
    return population.virus.holds() if scenario.gamma > 0 else None


def _defend(scenario: Scenario, population: Population, seed: int, round_: int, index: int, now: Counts) -> None:
    defence, virus, empty = scenario.defence, population.virus, population.empty
    assert empty is not None
    mine = slice(index * scenario.agents, (index + 1) * scenario.agents)
    carrying = virus.holds(mine)
    chance = np.where(carrying, defence.detection, defence.false_alarm)
    flagged = np.flatnonzero(uniforms(seed, Stream.FLAG, round_, scenario.agents) < chance)
    now["flagged"][index] = flagged.size
    now["false_alarms"][index] = flagged.size - np.count_nonzero(carrying[flagged])
    if not flagged.size:
        return
    ids = flagged + index * scenario.agents
    drawn = uniforms(seed, Stream.REMOVE, round_, ids.size * scenario.album).reshape(ids.size, -1)
    sick, gone = virus.unpack(ids), empty.unpack(ids)
    harmless = ~(sick | gone)
    if population.cure is not None:
        harmless &= ~population.cure.unpack(ids)
    sick_out, harmless_out = sick & (drawn < defence.purification), harmless & (drawn < defence.collateral)
    virus.pack(ids, sick & ~sick_out)
    empty.pack(ids, gone | sick_out | harmless_out)
    now["virus_removed"][index] = np.count_nonzero(sick_out)
    now["benign_removed"][index] = np.count_nonzero(harmless_out)


def chat(
    scenario: Scenario,
    population: Population,
    seeds: Sequence[int],
    round_: int,
    questioners: Ids,
    answerers: Ids,
    first: int = 0,
) -> Chats:
    """What these pairs retrieve and say. Reads the albums and changes nothing.

    Questioners and answerers are (seeds, pairs), agents numbered from 0 within each epidemic. ``first`` is the place
    of the first pair in the round, for whoever plays only a stretch of it.
    """

    def happens(stream: Stream, chance: float) -> Mask | bool:
        if chance in (0.0, 1.0):
            return chance == 1.0
        skip = first % 4  # a stretch may begin anywhere, the generator only at multiples of four
        count = questioners.shape[1] + skip
        return np.stack([uniforms(seed, stream, round_, count, first - skip)[skip:] for seed in seeds]) < chance

    asks, answers = questioners, answerers
    if len(seeds) > 1:
        offsets = np.arange(len(seeds))[:, None] * scenario.agents
        asks, answers = questioners + offsets, answerers + offsets
    carrying = population.virus.holds(asks)
    virus, cure = carrying & happens(Stream.RETRIEVE, scenario.beta), np.zeros(asks.shape, dtype=np.bool_)
    if population.cure is not None:  # the cure out-scores the virus
        cure = population.cure.holds(asks) & happens(Stream.CURE, scenario.cure.beta)
        virus &= ~cure
    asked, answered = virus & happens(Stream.ASK, scenario.alpha), virus & happens(Stream.ANSWER, scenario.alpha)
    nothing = population.empty.full(asks) if population.empty is not None else None
    defenders = scenario.agents - scenario.cure.defenders
    if scenario.immune:
        refused = virus & (answerers >= defenders - scenario.immune) & (answerers < defenders)
        answered &= ~refused
        nothing = refused if nothing is None else nothing | refused
    found = None
    if scenario.cure.defenders:
        symptom = asked | answered
        found = (
            symptom & (questioners >= defenders) & happens(Stream.FIND_ASKING, scenario.cure.detection),
            symptom & (answerers >= defenders) & happens(Stream.FIND_ANSWERING, scenario.cure.detection),
        )
    return Chats(asks, answers, virus, cure, nothing, asked, answered, found, carrying)


def settle(population: Population, chats: Chats, now: Counts) -> None:
    """Let the pictures arrive and the symptoms count."""
    for who, showed in ((chats.questioners, chats.asked), (chats.answerers, chats.answered)):
        population.ever[who[showed & ~population.ever[who]]] = True  # late in an outbreak hardly any are new
    now["current"] += _per_seed(chats.asked) + _per_seed(chats.answered)
    now["questioners_carrying"] += _per_seed(chats.carrying)
    now["virus_retrieved"] += _per_seed(chats.virus)
    now["cure_retrieved"] += _per_seed(chats.cure)
    if chats.nothing is None:
        population.receive(chats.answerers.ravel(), chats.virus.ravel(), chats.cure.ravel())
    else:
        some = ~chats.nothing
        population.receive(chats.answerers[some], chats.virus[some], chats.cure[some])
    for who, recognised in zip((chats.questioners, chats.answerers), chats.found or (), strict=False):
        makers = who[recognised]
        population.receive(makers, np.zeros(makers.size, dtype=np.bool_), np.ones(makers.size, dtype=np.bool_))


def _per_seed(mask: Mask) -> NDArray[np.int64]:
    """How many are true in each row; row by row, because counting along an axis is many times slower in NumPy."""
    return np.array([np.count_nonzero(row) for row in mask], dtype=np.int64)


def after_turn(
    scenario: Scenario, population: Population, seeds: Sequence[int], round_: int, carried: Mask | None, now: Counts
) -> None:
    """Recover, and count what the round left."""
    shape = (len(seeds), scenario.agents)
    if carried is not None:
        drawn = np.stack([uniforms(seed, Stream.RECOVER, round_, scenario.agents) for seed in seeds])
        population.virus.clear(np.flatnonzero(carried & (drawn < scenario.gamma).ravel()))
    now["cumulative"][:] = _per_seed(population.ever.reshape(shape))
    now["carrying"][:] = _per_seed(population.virus.holds().reshape(shape))
    if population.cure is not None:
        now["cured"][:] = _per_seed(population.cure.holds().reshape(shape))
