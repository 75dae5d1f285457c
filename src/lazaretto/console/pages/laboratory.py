"""The laboratory, where it is installed: experiments, how far they are, their tables and plots."""

from __future__ import annotations

import asyncio
from typing import Any

from lazaretto.console.laboratory import Shelf, installed_shelf
from lazaretto.console.web import HEADERS, Response, Visit, texts
from lazaretto.errors import InputError


async def laboratory(visit: Visit) -> Response:
    """Everything on the shelf."""
    shelf = await _shelf(visit)
    found: list[dict[str, Any]] = list(await asyncio.to_thread(shelf.experiments))
    return visit.page("laboratory.html", here="laboratory", found=found)


async def plot(visit: Visit) -> Response:
    """One plot."""
    shelf, number = await _shelf(visit), visit.path("number")
    if not number.isdigit():
        raise InputError("number", f"is {number!r}", "Give the number of a plot")
    drawn = await asyncio.to_thread(shelf.plot, visit.path("experiment"), int(number))
    return Response(drawn, 200, HEADERS, "image/png")


async def _shelf(visit: Visit) -> Shelf:
    if visit.desk.shelf is None:
        visit.desk.shelf = await asyncio.to_thread(installed_shelf)
    if visit.desk.shelf is None:
        raise InputError("laboratory", texts()["laboratory"]["missing"], "pip install lazaretto-lab")
    return visit.desk.shelf
