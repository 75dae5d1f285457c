"""Decisions of people, the newest first; chosen ones are taken back, after a confirmation."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from lazaretto.console.item_view import ItemRow, rows
from lazaretto.console.web import Response, Visit, texts
from lazaretto.errors import InputError, LazarettoError
from lazaretto.learn.withdrawals import LabelDecision, Withdrawal

CHOSEN = "decision:"
"""Prefix of the name of a ticked box; the decision's number follows."""


async def decisions(visit: Visit) -> Response:
    """The list; those that the address names are ticked."""
    asked = set(visit.query("chosen").split("-"))
    found = await visit.guard.labels()
    known = await _rows(visit, found)
    lines = [(label, known[label.item], str(label.decision) in asked) for label in found if label.item in known]
    return visit.page("decisions.html", here="many", lines=lines)


async def take_back(visit: Visit) -> Response:
    """First the list of decisions to take back, then, confirmed, each of them, the newest first."""
    numbers = _numbers(visit)
    if visit.form.get("sure") != "yes":
        found = [label for label in await visit.guard.labels() if label.decision in numbers and not label.taken_back]
        known = await _rows(visit, found)
        lines = [(label, known[label.item]) for label in found if label.item in known]
        return visit.page("decisions_look.html", here="many", lines=lines)
    done, refused = list[Withdrawal](), list[tuple[int, LazarettoError]]()
    for number in numbers:
        try:
            done.append(await visit.guard.unlabel(number, by=visit.session.name, caller=visit.session.identity))
        except LazarettoError as error:
            refused.append((number, error))
    if not done:
        raise refused[0][1]
    words = texts()["decisions"]
    message = words["done"].format(number=len(done), items=sum(len(result.restored) for result in done))
    left = [f"{item}: {why}" for result in done for item, why in result.left.items()]
    left += [note for result in done for note in result.notes]
    if left:
        message += " " + words["left"].format(number=len(left), first=left[0])
    if refused:
        message += " " + words["refused"].format(number=len(refused), first=f"{refused[0][0]}: {refused[0][1]}")
    return visit.to("/decisions", message)


def _numbers(visit: Visit) -> list[int]:
    """The chosen decisions, the newest first."""
    chosen = [name.removeprefix(CHOSEN) for name in visit.form if name.startswith(CHOSEN)]
    if not chosen:
        raise InputError("decision", "nothing is chosen", "Tick at least one")
    if not all(number.isascii() and number.isdigit() and len(number) < 16 for number in chosen):
        raise InputError("decision", "is not a number", "Go back and send it again")
    return sorted(map(int, chosen), reverse=True)


async def _rows(visit: Visit, found: Sequence[LabelDecision]) -> dict[str, ItemRow]:
    items = [label.item for label in found]
    return {row.seen.id: row for row in await asyncio.to_thread(rows, visit.guard, items)}
