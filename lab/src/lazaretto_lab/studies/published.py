"""Every table that is published from stored results, by the name in its marks."""

from __future__ import annotations

from lazaretto_lab.harness.pages import PageTable
from lazaretto_lab.studies.crews import published as crews
from lazaretto_lab.studies.debate import published as debate
from lazaretto_lab.studies.dojo import published as dojo
from lazaretto_lab.studies.foresight import published as foresight
from lazaretto_lab.studies.memory import published as memory
from lazaretto_lab.studies.memory import published_late as late
from lazaretto_lab.studies.memory import published_rivals as rivals
from lazaretto_lab.studies.notes import published as notes
from lazaretto_lab.studies.outbreak import published as outbreak

TABLES: dict[str, PageTable] = {
    **outbreak.TABLES, **foresight.TABLES, **memory.TABLES, **late.TABLES, **rivals.TABLES, **notes.TABLES,
    **debate.TABLES, **crews.TABLES, **dojo.TABLES,
}  # fmt: skip
