"""Tuning: earlier rulings computed again under other rates, advice on rates, and thresholds from people's labels."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import Any

from lazaretto.errors import MissingExtra, ModelError
from lazaretto.gates.blocklist import LOOK
from lazaretto.gates.engine.decision import (
    Examination,
    decide,
    decision_from_body,
    settles,
    why_not_needed,
    with_verdict,
)
from lazaretto.gates.engine.thresholds import Cut, Thresholds
from lazaretto.gates.protocol import BLOCKLIST, Gate, Tunable
from lazaretto.ledger import Ledger
from lazaretto.ledger.reader import standing_events
from lazaretto.policy import LearnPolicy, Policy, Stage, plugins
from lazaretto.types import COPY_OF, MACHINE, Decision, EventKind, GateRun, Observation, Ruling, RunStatus, Verdict

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


# Replay: earlier rulings computed again under other settings, from recorded numbers, without reading the items.

_TRUTH = {"harmful": True, "benign": False}


@dataclass(frozen=True, slots=True)
class JudgedItem:
    """One item with its first decision, and its label if a person gave one."""

    observation: Observation
    decision: Decision
    harmful: bool | None
    """The person's label; None: none."""

    @property
    def ruled(self) -> Ruling:
        """The ruling, or the one that would have been given in observe mode."""
        return self.decision.ruling if self.decision.would is None else self.decision.would


@dataclass(frozen=True, slots=True)
class Replayed:
    """The ruling that an item would have got."""

    ruling: Ruling
    sure: bool
    """False where the item would have to be read again; the ruling then rests on the recorded numbers alone."""
    rule: str = ""
    """``gate:rule`` that decided."""


def judged_items(ledger: Ledger, since: float = 0.0) -> tuple[JudgedItem, ...]:
    """Every item that gates judged since then, by its first ruling, with the last decision of people on it. A copy that
    was settled with another is left out: one text is one false alarm, or one finding."""
    first: dict[str, Decision] = {}
    labels: dict[str, bool] = {}
    copies: set[str] = set()
    for event in standing_events(ledger, (EventKind.RULED, EventKind.LABELLED, EventKind.RELEASED)):
        body = event.body or {}
        if event.kind is not EventKind.RULED:
            (copies.add if COPY_OF in body else copies.discard)(event.subject)
        if event.kind is EventKind.LABELLED and body.get("label") in _TRUTH:
            labels[event.subject] = _TRUTH[body["label"]]
        elif event.kind is EventKind.RELEASED and body.get("by") != MACHINE:
            labels[event.subject] = False
        elif event.kind is EventKind.RULED and body.get("runs") and event.time >= since and event.subject not in first:
            first[event.subject] = decision_from_body(body)
    for item, decision in first.items():
        if item not in labels and any(labels.get(known) for known in _known_as(decision)):
            labels[item] = True
    found = {item.id: item for item in ledger.items(ids=tuple(first), any_state=True, limit=None)} if first else {}
    return tuple(
        JudgedItem(found[item], decision, labels.get(item))
        for item, decision in first.items()
        if item in found and item not in copies
    )


def _known_as(decision: Decision) -> list[str]:
    """The known items that an item equals, where the block list alone held it."""
    matches = [v for v in decision.verdicts if v.gate == BLOCKLIST and f"{v.gate}:{v.rule}" == decision.rule]
    return [str(e.data["item"]) for v in matches if v.rule != LOOK for e in v.evidence if e.kind == "match"]


class Replay:
    """Rules again under one policy."""

    def __init__(self, policy: Policy, gates: Mapping[str, Gate], thresholds: Thresholds) -> None:
        """``gates``: installed gates of the policy, made from its tables; ``thresholds``: those learnt from labels."""
        self._policy, self._thresholds = policy, thresholds
        self._gates: dict[str, Tunable] = {name: gate for name, gate in gates.items() if isinstance(gate, Tunable)}

    def ruled(self, item: JudgedItem, changed: Iterable[str] = ()) -> Replayed:
        """The ruling of this policy; ``changed``: gates whose settings differ from those at the time of judging."""
        rules, other = self._policy.channels[item.observation.channel], set(changed)
        recorded = {verdict.gate: verdict for verdict in item.decision.verdicts}
        runs = {run.gate: run for run in item.decision.runs}
        verdicts, made, settling, sure = list[Verdict](), list[GateRun](), set[str](), True
        for stage in map(Stage.of, rules.stages):
            spared = why_not_needed(stage, rules, item.observation, verdicts, made)
            if spared:
                made += [GateRun(name, RunStatus.SKIPPED, detail=spared) for name in stage.gates]
                continue
            if settles(stage):
                settling.update(stage.gates)
            earlier = tuple(verdicts)
            for name in stage.gates:
                verdict, run = recorded.pop(name, None), runs.get(name)
                if verdict is None:
                    sure &= run is not None and run.status is not RunStatus.SKIPPED
                    made.append(run if run is not None else GateRun(name, RunStatus.SKIPPED))
                    continue
                again = self._again(item.observation, verdict, earlier)
                sure &= again is not None or name not in other
                verdicts.append(again or verdict)
                made.append(run or GateRun(name, RunStatus.RAN))
        decision = decide(
            item.observation.id, Examination(tuple(verdicts), tuple(made), frozenset(settling)), rules, 0.0
        )
        named = {name for name, _ in self._policy.gate_names()}
        for verdict in recorded.values():
            if verdict.gate not in named:  # a verdict on its parents, or of the owner of its record
                decision = with_verdict(decision, verdict)
        return Replayed(decision.ruling, sure, decision.rule)

    def answer_of(self, gate: str, item: JudgedItem) -> tuple[Ruling, str] | None:
        """Ruling and rule of one gate, where its recorded numbers are enough; else None."""
        verdict = next((verdict for verdict in item.decision.verdicts if verdict.gate == gate), None)
        earlier = tuple(v for v in item.decision.verdicts if v.gate != gate)
        made = None if verdict is None else self._again(item.observation, verdict, earlier)
        return None if made is None else (made.ruling, made.rule)

    def _again(self, observation: Observation, verdict: Verdict, earlier: tuple[Verdict, ...]) -> Verdict | None:
        gate = self._gates.get(verdict.gate)
        if gate is None:
            return None
        try:
            made = gate.ruled_again(observation, verdict, earlier, self._policy.trust)
        except ModelError:
            return None
        return None if made is None else self._thresholds.moved(made)


def set_to(policy: Policy, changes: Mapping[tuple[str, str], float]) -> Policy:
    """The policy with other settings of gates: (gate, setting) -> value."""
    tables = {gate: dict(table) for gate, table in policy.gates.items()}
    for (gate, setting), value in changes.items():
        tables.setdefault(gate, {})[setting] = value
    return replace(policy, gates=tables)


# The picture of a tuning: honest items and findings that each setting would have held. One SVG, no library.

_WIDE, _HIGH, _EDGE, _LEGEND = 820, 420, 56, 250
_COLOURS = ("#2563eb", "#c2410c", "#15803d", "#7c3aed", "#b45309", "#0e7490")


def draw(tuning: Tuning, target: float) -> str:
    """The picture as SVG."""
    lines: dict[tuple[str, str], list[SettingCounts]] = {}
    for row in tuning.rows:
        lines.setdefault((row.gate, row.setting), []).append(row)
    widest = max([target, *(tuning.rate(row.counts) for row in tuning.rows), tuning.rate(tuning.now)]) * 1.1 or 0.01
    parts = [*_frame(tuning, widest, target)]
    for number, ((gate, setting), rows) in enumerate(lines.items()):
        colour = _COLOURS[number % len(_COLOURS)]
        places = [_place(tuning, row.counts, widest) for row in rows]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.5" opacity="0.6"/>')
        for row, (x, y) in zip(rows, places, strict=True):
            words = f"{gate} {setting} {row.value:g}: {_summary(tuning, row.counts)}"
            parts.append(
                f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}"><title>{escape(words)}</title></circle>'
            )
        y = _EDGE + 22 * (number + 2)
        parts.append(f'<circle cx="{_WIDE - _LEGEND + 14}" cy="{y - 4}" r="4" fill="{colour}"/>')
        parts.append(_text(_WIDE - _LEGEND + 26, y, f"{gate} {setting}"))
    parts += _marked(tuning, tuning.now, widest, "now", "#111827", _EDGE)
    if tuning.advice.changes:
        parts += _marked(tuning, tuning.advice.counts, widest, "advised", "#dc2626", _EDGE + 22)
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDE} {_HIGH}" font-family="sans-serif" '
        f'font-size="13">\n<rect width="{_WIDE}" height="{_HIGH}" fill="#ffffff"/>\n{body}\n</svg>\n'
    )


def _place(tuning: Tuning, counts: Counts, widest: float) -> tuple[float, float]:
    right, low = _WIDE - _LEGEND, _HIGH - _EDGE
    share = counts.findings / tuning.findings if tuning.findings else 0.0
    return _EDGE + (right - _EDGE) * tuning.rate(counts) / widest, low - (low - _EDGE) * share


def _frame(tuning: Tuning, widest: float, target: float) -> list[str]:
    right, low = _WIDE - _LEGEND, _HIGH - _EDGE
    at = _EDGE + (right - _EDGE) * target / widest
    grid = 'stroke="#9ca3af" stroke-width="1"'
    return [
        _text(_EDGE, 24, f"{tuning.honest:,} honest items, {tuning.findings:,} findings: what would have been held"),
        f'<path d="M{_EDGE},{_EDGE} V{low} H{right}" fill="none" {grid}/>',
        f'<path d="M{at:.1f},{_EDGE} V{low}" {grid} stroke-dasharray="4 4"/>',
        _text(at + 4, _EDGE + 12, f"{target:.2%} asked for"),
        *(_text(_EDGE + (right - _EDGE) * part - 12, low + 18, f"{widest * part:.1%}") for part in (0.0, 0.5, 1.0)),
        *(_text(8, low - (low - _EDGE) * part + 4, f"{part:.0%}") for part in (0.0, 0.5, 1.0)),
        _text(_EDGE, low + 38, "share of honest items held (left is better); upwards: share of findings held"),
    ]


def _marked(tuning: Tuning, counts: Counts, widest: float, name: str, colour: str, legend_y: int) -> list[str]:
    x, y = _place(tuning, counts, widest)
    ring = f'r="8" fill="none" stroke="{colour}" stroke-width="2"'
    return [
        f'<circle cx="{x:.1f}" cy="{y:.1f}" {ring}><title>{name}: {_summary(tuning, counts)}</title></circle>',
        f'<circle cx="{_WIDE - _LEGEND + 14}" cy="{legend_y - 4}" {ring}/>',
        _text(_WIDE - _LEGEND + 28, legend_y, f"{name}: {_summary(tuning, counts)}"),
    ]


def _summary(tuning: Tuning, counts: Counts) -> str:
    return f"{tuning.rate(counts):.2%} honest, {counts.findings} of {tuning.findings}"


def _text(x: float, y: float, words: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" fill="#111827">{escape(words)}</text>'


# Thresholds from people's labels: only where the labels agree, and within the policy's bounds.

Judged = dict[str, list[tuple[float, bool]]]
"""Gate -> (risk, whether a person called it harmful) of the items that the gate did not quarantine."""


def judged(ledger: Ledger, gates: tuple[str, ...]) -> Judged:
    """People's labels of items that these gates let in or sent to a person; the last label of each counts."""
    rulings: dict[str, Mapping[str, tuple[float, Ruling]]] = {}
    truths: dict[str, bool] = {}
    for event in standing_events(ledger, (EventKind.RULED, EventKind.LABELLED)):
        body = event.body or {}
        if event.kind is EventKind.LABELLED and body.get("label") in _TRUTH:
            truths.pop(event.subject, None)
            if COPY_OF not in body:
                truths[event.subject] = _TRUTH[body["label"]]
        elif event.kind is EventKind.RULED and body.get("verdicts"):
            rulings[event.subject] = {
                str(v["gate"]): (float(v["risk"]), Ruling.from_label(str(v["ruling"])))
                for v in body["verdicts"]
                if v["gate"] in gates
            }
    found: Judged = defaultdict(list)
    for item, harmful in truths.items():
        for gate, (risk, ruling) in rulings.get(item, {}).items():
            if ruling <= Ruling.REVIEW:
                found[gate].append((risk, harmful))
    return dict(found)


def calibrate(ledger: Ledger, bounds: LearnPolicy) -> dict[str, Cut]:
    """The thresholds of gates that labels ask for; none where labels are few or contradict each other."""
    cuts = {}
    for gate, labelled in judged(ledger, bounds.gates).items():
        benign = sorted(risk for risk, harmful in labelled if not harmful)
        harmful = sorted(risk for risk, harmful in labelled if harmful)
        clear = max((r for r in benign if r <= bounds.clears_up_to and not (harmful and harmful[0] <= r)), default=0.0)
        if sum(risk <= clear for risk in benign) < bounds.min_labels:
            clear = 0.0
        ask = min((r for r in harmful if r >= bounds.reviews_from and not (benign and benign[-1] >= r)), default=None)
        if ask is not None and sum(risk >= ask for risk in harmful) < bounds.min_labels:
            ask = None
        if clear or ask is not None:
            cuts[gate] = Cut(round(clear, 4), None if ask is None else round(ask, 4), len(labelled))
    return cuts
