"""Deciding on many at once: items that wait, or that a policy in observe mode would have held; filtered, chosen,
confirmed with the lesson of the decision, then done."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from lazaretto.console.web import Response, Visit, texts
from lazaretto.errors import InputError, LazarettoError
from lazaretto.guard import Guard
from lazaretto.incidents.records import HeldItem
from lazaretto.types import Observation, SourceClass

LISTED = 200
WAITING, WOULD = "held", "would"
CHOSEN = "item:"
"""Prefix of the name of a ticked box; the item's id follows."""
LABELS = ("benign", "harmful")


@dataclass(frozen=True, slots=True)
class Line:
    """One item of the list."""

    held: HeldItem
    source: SourceClass

    @property
    def gate(self) -> str:
        """The gate whose rule holds it."""
        return self.held.rule.partition(":")[0]

    def value(self, name: str) -> str:
        """The value that a filter compares."""
        values = {"gate": self.gate, "rule": self.held.rule, "source": self.source.value, "agent": self.held.agent}
        return values[name]


FILTERS = ("gate", "rule", "source", "agent")


@dataclass(frozen=True, slots=True)
class Lesson:
    """The effect of a decision on several items, and its lesson."""

    items: int
    """Chosen ones, and copies of them that one decision settles with them."""
    further: int
    """Items made from these that are held with them, or released with them."""
    gates: tuple[tuple[str, int], ...]
    """Gates whose line between warn and review these labels count for."""
    cases: int
    """The most of them that become cases of the library with each step of rechecking; 0: none."""


async def many(visit: Visit) -> Response:
    """The list, with filters; of a policy that only watches, also the days in numbers."""
    source = WOULD if visit.query("from") == WOULD else WAITING
    lines = await _lines(visit, source)
    chosen = {name: visit.query(name) for name in FILTERS}
    shown = [row for row in lines if all(not want or row.value(name) == want for name, want in chosen.items())]
    offered = {name: sorted({row.value(name) for row in lines}) for name in FILTERS}
    days: Sequence[Any] = ()
    quiet = None
    if source == WOULD:
        log = visit.desk.observed
        days, quiet = await asyncio.to_thread(lambda: (log.days()[:14], log.quiet()))
    facts: dict[str, Any] = {"lines": shown, "of": len(lines), "chosen": chosen, "offered": offered}
    decided = [number for number in visit.query("decided").split("-") if number.isascii() and number.isdigit()]
    facts |= {"days": days, "quiet": quiet, "decided": decided}
    return visit.page("many.html", here="many", source=source, **facts)


async def decide(visit: Visit) -> Response:
    """First the effect and the lesson of the decision, then, confirmed, the decision: item by item, by this person."""
    label, source = visit.field("label"), visit.form.get("from", WAITING)
    items = [name.removeprefix(CHOSEN) for name in visit.form if name.startswith(CHOSEN)]
    if label not in LABELS:
        raise InputError("label", f"is {label!r}", f"Use {' or '.join(LABELS)}")
    if not items:
        raise InputError("item", "nothing is chosen", "Tick at least one")
    if visit.form.get("sure") != "yes":
        known = {row.held.id: row for row in await _lines(visit, source)}
        lines = [known[item] for item in items if item in known]
        lesson = await asyncio.to_thread(_lesson, visit.guard, lines, label)
        return visit.page("many_look.html", here="many", source=source, label=label, lines=lines, lesson=lesson)
    done, refused, copies = list[int](), list[tuple[str, LazarettoError]](), 0
    for item in items:
        try:
            signed = {"by": visit.session.name, "caller": visit.session.identity}
            event = await visit.guard.label(item, label, **signed)  # type: ignore[arg-type]
            done.append(event.seq)
            copies += len((event.body or {}).get("copies", ()))
        except LazarettoError as error:
            refused.append((item, error))
    if not done:
        raise refused[0][1]
    message = texts()["many"]["done"].format(number=len(done) + copies, label=texts()["labels"][label])
    if refused:
        message += " " + texts()["many"]["refused"].format(
            number=len(refused), first=f"{refused[0][0]}: {refused[0][1]}"[:200]
        )
    decided = "-".join(map(str, done))
    return visit.to(f"/many?from={WOULD if source == WOULD else WAITING}&decided={decided}", message)


async def _lines(visit: Visit, source: str) -> list[Line]:
    if source == WOULD:
        found: Sequence[HeldItem] = await asyncio.to_thread(visit.desk.observed.would, LISTED)
    else:
        found = await visit.guard.held(limit=LISTED)
    read: Callable[[], list[Observation]] = lambda: visit.guard.ledger.items(  # noqa: E731
        ids=[waiting.id for waiting in found], any_state=True, limit=None
    )
    sources = {item.id: item.source for item in await asyncio.to_thread(read)} if found else {}
    return [Line(waiting, sources[waiting.id]) for waiting in found if waiting.id in sources]


def _lesson(guard: Guard, lines: Sequence[Line], label: str) -> Lesson:
    """The effect of labelling these items harmful or benign."""
    chosen = {item for row in lines for item in (row.held.id, *row.held.copies)}
    reached: set[str] = set()
    for item in chosen:
        reached.update(step.id for step in guard.graph.blast_radius(item, history=True).items)
    states = guard.ledger.states(tuple(reached - chosen)) if reached - chosen else {}
    moved = [state for state in states.values() if not state.erased and state.visible is (label == "harmful")]
    gates = Counter(row.gate for row in lines if row.gate in guard.policy.learn.gates)
    return Lesson(len(chosen), len(moved), tuple(gates.items()), guard.policy.learn.cases)
