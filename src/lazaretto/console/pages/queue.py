"""The review queue: one item at a time with everything that helps to decide, or many at once, filtered and chosen."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from lazaretto.actions.records import Asked
from lazaretto.console.item_view import item_view, rows
from lazaretto.console.web import Response, Visit, texts
from lazaretto.errors import InputError, LazarettoError, UnknownItem
from lazaretto.guard import Guard
from lazaretto.guard.tool_calls import MOST_TOGETHER
from lazaretto.incidents.records import HeldItem
from lazaretto.types import Observation, SourceClass

LISTED = 100


async def queue(visit: Visit) -> Response:
    """The items that wait, and the item in hand: the requested one, else the first."""
    waiting, proposed = await visit.guard.held(limit=LISTED), await visit.guard.repairs.proposals()
    facts: dict[str, Any] = {"waiting": waiting, "proposed": proposed, "calls": await visit.guard.approvals.waiting()}
    asked = visit.query("item")
    here = next((place for place, held in enumerate(waiting) if asked == held.id or asked in held.copies), 0)
    if not waiting:
        return visit.page("queue.html", here="queue", view=None, place=0, **facts)
    view = await asyncio.to_thread(item_view, visit.guard, waiting[here].id)
    return visit.page("queue.html", here="queue", view=view, place=here, **facts)


async def call(visit: Visit) -> Response:
    """A call that an agent wants to make: its arguments, why a person is asked, one key to allow it and one not to."""
    token, waiting = visit.path("token"), await visit.guard.approvals.waiting()
    found = next((asked for asked in waiting if asked.token == token), None)
    if found is None:
        raise UnknownItem(token, visit.guard.ledger.namespace, "token")
    task = [
        asked
        for asked in waiting
        if asked.task and (asked.agent, asked.task) == (found.agent, found.task) and asked != found
    ]
    shown = [(asked, _given(asked)) for asked in (found, *reversed(task))][:MOST_TOGETHER]
    return visit.page("call.html", here="queue", found=found, shown=shown)


def _given(asked: Asked) -> dict[str, str]:
    """The arguments of a call as they are shown."""
    return {
        name: value if isinstance(value, str) else orjson.dumps(value).decode() for name, value in _arguments(asked)
    }


def _arguments(asked: Asked) -> list[tuple[str, Any]]:
    read = orjson.loads(asked.arguments)
    return list(read.items()) if isinstance(read, dict) else [("", asked.arguments)]


async def answer_call(visit: Visit) -> Response:
    """A person's decision on a call: once, for exactly this call; or on all calls of its task that the page showed."""
    agree, token = {"allow": True, "refuse": False}.get(visit.field("answer")), visit.path("token")
    if agree is None:
        raise InputError("answer", "is neither allow nor refuse", "Use the buttons")
    shown = visit.field("shown").split() if visit.form.get("all") else [token]
    signed = {"by": visit.session.name, "caller": visit.session.identity}
    asked = await visit.guard.approvals.answer_all(shown, agree, **signed)  # type: ignore[arg-type]
    message = texts()["call"]["allowed" if agree else "refused"]
    tools = ", ".join(dict.fromkeys(call.tool for call in asked))
    return visit.to("/queue", message.format(tool=tools, agent=asked[0].agent))


async def proposal(visit: Visit) -> Response:
    """A repair that looking again proposes: every item before and after, one key to do it and one to leave it."""
    found = await visit.guard.repairs.proposal(visit.path("proposal"))
    items = [found.proposal.origin, *(change.item for change in found.changes), *found.plan.left]
    known = {row.seen.id: row for row in await asyncio.to_thread(rows, visit.guard, items)}
    changed = [change for change in found.changes if change.action == "replace"]
    others = [change for change in found.changes if change.action != "replace"]
    listed = {change.item for change in found.changes}
    left = [(item, why) for item, why in found.plan.left.items() if item not in listed]
    facts: dict[str, Any] = {"found": found, "rows": known, "changed": changed, "others": others, "left": left}
    return visit.page("proposal.html", here="queue", **facts)


async def accept(visit: Visit) -> Response:
    """Apply the proposal that was shown."""
    name, signed = visit.path("proposal"), {"by": visit.session.name, "caller": visit.session.identity}
    receipt = await visit.guard.repairs.accept(name, seen=visit.field("seen"), **signed)  # type: ignore[arg-type]
    return visit.to(f"/receipts/{receipt.id}", texts()["proposal"]["applied"].format(receipt=receipt.id))


async def dismiss(visit: Visit) -> Response:
    """Leave everything as it is."""
    name = visit.path("proposal")
    await visit.guard.repairs.dismiss(name, by=visit.session.name, caller=visit.session.identity)
    return visit.to("/queue", texts()["proposal"]["dismissed"].format(proposal=name))


async def decide(visit: Visit) -> Response:
    """A person's decision on an item; then the next one."""
    item, label = visit.path("item"), visit.field("label")
    before = await visit.guard.held(limit=LISTED)
    signed = {"by": visit.session.name, "caller": visit.session.identity}
    event = await visit.guard.label(item, label, **signed)  # type: ignore[arg-type]  # other words: InputError
    message = texts()["queue"]["decided"].format(item=item, label=texts()["labels"][label])
    if copies := (event.body or {}).get("copies"):
        message += " " + texts()["queue"]["with_copies"].format(number=len(copies))
    if visit.form.get("back"):
        return visit.to(f"/items/{item}", message)
    return visit.to(f"/queue{_next(before, item)}", message)


async def appeal(visit: Visit) -> Response:
    """Dispute a ruling; it waits in the queue for a decision."""
    item, reason = visit.path("item"), visit.field("reason").strip()
    if not reason:
        raise InputError("reason", "is empty", "Say in a sentence why the ruling is wrong")
    if (await asyncio.to_thread(visit.guard.ledger.unknown, [item])) == (item,):
        raise UnknownItem(item, visit.guard.ledger.namespace)
    await visit.guard.appeal(item, reason, by=visit.session.name)
    return visit.to(f"/items/{item}", texts()["item"]["appealed"])


def _next(waiting: Sequence[HeldItem], item: str) -> str:
    """The next item of the queue, as it stood when an item was decided."""
    ids = [held.id for held in waiting]
    after = ids[ids.index(item) + 1 :][:1] if item in ids else []
    return f"?item={after[0]}" if after else ""


# Deciding on many at once: items that wait, or that a policy in observe mode would have held; filtered, chosen,
# confirmed with the lesson of the decision, then done.

MOST_LISTED = 200
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


async def decide_many(visit: Visit) -> Response:
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
        found: Sequence[HeldItem] = await asyncio.to_thread(visit.desk.observed.would, MOST_LISTED)
    else:
        found = await visit.guard.held(limit=MOST_LISTED)
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
