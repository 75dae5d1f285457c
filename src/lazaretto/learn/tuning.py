"""Tuning: counts the items that each rate of a gate would have held, and advises which rates to take."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lazaretto.errors import MissingExtra
from lazaretto.gates.engine.thresholds import Thresholds
from lazaretto.gates.protocol import Gate, Tunable
from lazaretto.learn.replay import JudgedItem, Replay, set_to
from lazaretto.policy import Policy, plugins
from lazaretto.types import Ruling

Changes = Mapping[tuple[str, str], float]
"""(gate, setting) -> value."""
Make = Callable[[str, Mapping[str, Any]], Gate | None]
"""The gate of a name, from its table of the policy; None where it is not installed."""
_ORDER = (("memory", "false_positive_rate", "review_rate"),)
"""Settings of a gate of which the first is never above the second."""


FEWEST = 100
"""The fewest items for which a share of one percent means something."""


@dataclass(frozen=True, slots=True)
class Offered:
    """A setting of a gate, and the values worth trying, the mildest first."""

    gate: str
    setting: str
    values: tuple[float, ...]
    now: float


@dataclass(frozen=True, slots=True)
class Counts:
    """The items that one setting would have held."""

    honest: int
    """Items held that nobody called harmful."""
    findings: int
    """Held items that a person called harmful."""
    unsure: int
    """Items that would have to be read again; they are counted by their recorded numbers."""


@dataclass(frozen=True, slots=True)
class SettingCounts:
    """One value of one setting, everything else as it is."""

    gate: str
    setting: str
    value: float
    now: bool
    counts: Counts


@dataclass(frozen=True, slots=True)
class Advice:
    """The settings to take."""

    changes: Changes
    """Empty: as it is."""
    counts: Counts
    reached: bool
    """Whether it is within the rate that was asked for."""


@dataclass(frozen=True, slots=True)
class Tuning:
    """The items that were replayed, the counts of each setting, and the advice."""

    honest: int
    """Items that nobody called harmful."""
    findings: int
    """Items that a person called harmful."""
    differing: int
    """Items that today's settings rule otherwise than they were ruled."""
    now: Counts
    rows: tuple[SettingCounts, ...]
    advice: Advice
    without_rate: tuple[tuple[str, int], ...]
    """Rules by which honest items are held even where every rate is at its mildest, with their number."""

    def rate(self, counts: Counts) -> float:
        """The share of honest items that is held."""
        return counts.honest / self.honest if self.honest else 0.0


def installed_gate(name: str, table: Mapping[str, Any]) -> Gate | None:
    """As of ``Make``: a gate that ships or that a package brings."""
    try:
        made: Gate = plugins.GATES.factory(name)(table)
    except (MissingExtra, ImportError):
        return None
    return made


class Tuner:
    """Replays items under one setting after another."""

    def __init__(
        self, items: Sequence[JudgedItem], policy: Policy, thresholds: Thresholds, make: Make = installed_gate
    ) -> None:
        self._policy, self._thresholds, self._make = policy, thresholds, make
        made = {
            name: make(name, policy.gates.get(name, {})) for name in dict.fromkeys(n for n, _ in policy.gate_names())
        }
        self._gates = {name: gate for name, gate in made.items() if gate is not None}
        self._groups = self._folded(items)
        self._items = tuple(items)

    def offered(self) -> tuple[Offered, ...]:
        """Every rate of every gate that has some."""
        return tuple(Offered(gate, name, values, self._value(gate, name)) for gate, name, values in self._settings())

    def tune(self, target: float) -> Tuning:
        """Count every single setting, then find the nearest joint one within ``target`` that loses no finding."""
        now = self.counted({})
        rows = tuple(
            SettingCounts(
                gate, setting, value, self._value(gate, setting) == value, self.counted({(gate, setting): value})
            )
            for gate, setting, values in self._settings()
            for value in values
            if self.sound({(gate, setting): value})
        )
        honest = sum(not item.harmful for item in self._items)
        replay = self._replay({})
        differing = sum(
            (replay.ruled(item).ruling > Ruling.WARN) is not (item.ruled > Ruling.WARN) for item in self._items
        )
        advice = self._advice(now, honest, target)
        return Tuning(honest, len(self._items) - honest, differing, now, rows, advice, self._without_rate())

    def _without_rate(self) -> tuple[tuple[str, int], ...]:
        mildest = next(iter(self._ends()))
        replay, rules = self._replay(mildest), Counter[str]()
        for item in self._items:
            made = replay.ruled(item)
            if made.ruling > Ruling.WARN and not item.harmful:
                rules[made.rule] += 1
        return tuple(rules.most_common())

    # counting

    def counted(self, changes: Changes) -> Counts:
        """The items that these settings would have held; a setting that has this value already is no change."""
        changes = {setting: value for setting, value in changes.items() if value != self._value(*setting)}
        replay, gates = self._replay(changes), {gate for gate, _ in changes}
        honest = findings = unsure = 0
        for item, number in self._groups:
            made = replay.ruled(item, gates)
            held = made.ruling > Ruling.WARN
            honest += number * (held and not item.harmful)
            findings += number * (held and bool(item.harmful))
            unsure += number * (not made.sure)
        return Counts(honest, findings, unsure)

    def _replay(self, changes: Changes) -> Replay:
        policy = set_to(self._policy, changes)
        other = {gate: self._make(gate, policy.gates.get(gate, {})) for gate in {gate for gate, _ in changes}}
        gates = self._gates | {name: gate for name, gate in other.items() if gate is not None}
        return Replay(policy, gates, self._thresholds)

    def _folded(self, items: Sequence[JudgedItem]) -> list[tuple[JudgedItem, int]]:
        """Items that no setting tells apart, counted once with their number: most of a month is plainly harmless."""
        replays = [(self._replay(end), {gate for gate, _ in end}) for end in ({}, *self._ends())]
        groups: Counter[tuple[object, ...]] = Counter()
        first: dict[tuple[object, ...], JudgedItem] = {}
        for item in items:
            rulings = tuple(replay.ruled(item, gates) for replay, gates in replays)
            same = len({(made.ruling > Ruling.WARN, made.sure) for made in rulings}) == 1
            key = (item.harmful, rulings[0].ruling > Ruling.WARN, rulings[0].sure) if same else (item.observation.id,)
            groups[key] += 1
            first.setdefault(key, item)
        return [(first[key], number) for key, number in groups.items()]

    def _ends(self) -> Iterator[Changes]:
        """Every gate at its mildest and at its strictest: all settings between agree where these two agree."""
        for end in (0, -1):
            yield {(gate, setting): values[end] for gate, setting, values in self._settings()}

    # choosing

    def _advice(self, now: Counts, honest: int, target: float) -> Advice:
        """The smallest change that meets the target without losing a finding; where none does, the change that comes
        nearest to the target without losing one."""
        within = [(joint, counts) for joint, counts in self._joint() if counts.findings >= now.findings]
        reached = [(joint, counts) for joint, counts in within if counts.honest <= target * honest]
        if now.honest <= target * honest:
            return Advice({}, now, True)
        if reached:
            changes, counts = min(reached, key=lambda row: (row[1].unsure, self._steps(row[0]), row[1].honest))
            return Advice(changes, counts, True)
        changes, counts = min(within, key=lambda row: (row[1].honest, row[1].unsure, self._steps(row[0])))
        return Advice(changes if counts.honest < now.honest else {}, min(counts, now, key=lambda c: c.honest), False)

    def _joint(self) -> Iterator[tuple[Changes, Counts]]:
        """Every joint setting, those of a gate that count alike taken once."""
        each = [self._distinct(gate) for gate in dict.fromkeys(gate for gate, _, _ in self._settings())]
        for chosen in itertools.product(*each):
            changes = {key: value for part in chosen for key, value in part.items()}
            yield changes, self.counted(changes)

    def _distinct(self, gate: str) -> list[Changes]:
        """The joint settings of one gate, among those with the same answers the nearest to the present one."""
        offered = [(setting, values) for name, setting, values in self._settings() if name == gate]
        best: dict[tuple[object, ...], Changes] = {}
        for values in itertools.product(*(values for _, values in offered)):
            changes = {
                (gate, setting): value
                for (setting, _), value in zip(offered, values, strict=True)
                if value != self._value(gate, setting)
            }
            if not self.sound(changes):
                continue
            replay = self._replay(changes)
            answers = tuple(replay.answer_of(gate, item) for item, _ in self._groups)
            if answers not in best or self._steps(changes) < self._steps(best[answers]):
                best[answers] = changes
        return list(best.values())

    def _steps(self, changes: Changes) -> int:
        """The distance of a setting from the present one, in steps of the rates that are offered."""
        offered = {(gate, setting): values for gate, setting, values in self._settings()}
        total = 0
        for (gate, setting), value in changes.items():
            values, now = offered[gate, setting], self._value(gate, setting)
            total += max(1, sum(min(now, value) < rate <= max(now, value) for rate in values))
        return total

    def _settings(self) -> Iterator[tuple[str, str, tuple[float, ...]]]:
        for name, gate in self._gates.items():
            if isinstance(gate, Tunable):
                for setting, values in gate.rates.items():
                    falling = values[0] > values[-1]
                    yield name, setting, tuple(sorted({*values, self._value(name, setting)}, reverse=falling))

    def _value(self, gate: str, setting: str) -> float:
        made = self._gates[gate]
        return float(getattr(made.settings, setting)) if isinstance(made, Tunable) else 0.0

    def sound(self, changes: Changes) -> bool:
        """Whether settings of one gate agree with each other."""
        for gate, low, high in _ORDER:
            if gate in self._gates and {(gate, low), (gate, high)} & changes.keys():
                below, above = (changes.get((gate, name), self._value(gate, name)) for name in (low, high))
                if below > above:
                    return False
        return True
