"""Old places of modules that the documentation named: they can be imported for one version more, with a warning."""

from __future__ import annotations

import importlib
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

MOVED = {
    "lazaretto.agents.persona": "lazaretto.agents.prompts",
    "lazaretto.gates.content.report": "lazaretto.gates.content.debate",
    "lazaretto.gates.content.settings": "lazaretto.gates.content.gate",
    "lazaretto.learn.folder_calibration": "lazaretto.learn.calibration",
    "lazaretto.models.embedding_cache": "lazaretto.models.caches",
    "lazaretto.models.local_chat": "lazaretto.models.own_networks",
    "lazaretto.provenance.drawing.export": "lazaretto.provenance.drawing.pictures",
    "lazaretto.repair.bisection": "lazaretto.gates.foresight.flp",
    "lazaretto.repair.isolate": "lazaretto.repair.short_repairs",
}
"""Old module -> the module in its place."""


class OldModules:
    """Finds the old places; asked only where no module of that name exists."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """The specification of an old place; None for any other name."""
        return ModuleSpec(name, OldModules()) if name in MOVED else None  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> None:
        """An empty module, as usual."""

    def exec_module(self, module: ModuleType) -> None:
        """Hand every name on to the module of today."""
        from lazaretto.names import warn_old_name

        old, today = module.__name__, importlib.import_module(MOVED[module.__name__])

        def handed_on(name: str) -> Any:
            found = getattr(today, name)
            if not name.startswith("__"):
                warn_old_name(old, today.__name__)
            return found

        module.__getattr__ = handed_on  # type: ignore[method-assign]


def install() -> None:
    """Have old places found from now on."""
    if OldModules not in sys.meta_path:
        sys.meta_path.append(OldModules)
