"""The laboratory's shelf, where it is installed: the product never imports it, it introduces itself by entry point."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import entry_points
from typing import Any, Protocol

GROUP = "lazaretto.laboratory"
"""The entry point group; what is named ``shelf`` makes a ``Shelf`` when it is called."""


class Shelf(Protocol):
    """What was studied, and how it came out."""

    def experiments(self) -> Sequence[dict[str, Any]]:
        """Each with ``name``, ``title``, ``units``, ``done``, ``headings``, ``lines`` and the number of ``plots``."""
        ...

    def plot(self, name: str, number: int) -> bytes:
        """A plot of an experiment as PNG."""
        ...


def installed_shelf() -> Shelf | None:
    """The laboratory of this environment; None without one."""
    for point in entry_points(group=GROUP):
        if point.name == "shelf":
            shelf: Shelf = point.load()()
            return shelf
    return None


def is_installed() -> bool:
    """Whether there is a laboratory; nothing of it is loaded."""
    return any(point.name == "shelf" for point in entry_points(group=GROUP))
