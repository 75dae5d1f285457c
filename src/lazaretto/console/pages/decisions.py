"""What people decided, the newest first; chosen decisions are taken back, after one more look."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from lazaretto.console.item_view import ItemRow, rows
from lazaretto.console.web import Response, Visit, texts
from lazaretto.errors import InputError, LazarettoError
from lazaretto.learn.withdrawals import LabelDecision, Withdrawal

CHOSEN = "decision:"
"""How the name of a ticked box begins; the decision's number follows."""


async def decisions(visit: Visit) -> Response:
    """The list; those that the address names are ticked."""
    asked = set(visit.query("chosen").split("-"))
    found = await visit.guard.labels()
    known = await _rows(visit, found)
    lines = [(one, known[one.item], str(one.decision) in asked) for one in found if one.item in known]
    return visit.page("decisions.html", here="many", lines=lines)


async def take_back(visit: Visit) -> Response:
    """First what is about to be taken back, then, confirmed, each of them, the newest first."""
    numbers = _numbers(visit)
    if visit.form.get("sure") != "yes":
        found = [one for one in await visit.guard.labels() if one.decision in numbers and not one.taken_back]
        known = await _rows(visit, found)
        lines = [(one, known[one.item]) for one in found if one.item in known]
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
    said = words["done"].format(number=len(done), items=sum(len(one.restored) for one in done))
    left = [f"{item}: {why}" for one in done for item, why in one.left.items()]
    left += [note for one in done for note in one.notes]
    if left:
        said += " " + words["left"].format(number=len(left), first=left[0])
    if refused:
        said += " " + words["refused"].format(number=len(refused), first=f"{refused[0][0]}: {refused[0][1]}")
    return visit.to("/decisions", said)


def _numbers(visit: Visit) -> list[int]:
    """The chosen decisions, the newest first."""
    told = [name.removeprefix(CHOSEN) for name in visit.form if name.startswith(CHOSEN)]
    if not told:
        raise InputError("decision", "nothing is chosen", "Tick at least one")
    if not all(one.isascii() and one.isdigit() and len(one) < 16 for one in told):
        raise InputError("decision", "is not a number", "Go back and send it again")
    return sorted(map(int, told), reverse=True)


async def _rows(visit: Visit, found: Sequence[LabelDecision]) -> dict[str, ItemRow]:
    items = [one.item for one in found]
    return {row.seen.id: row for row in await asyncio.to_thread(rows, visit.guard, items)}
