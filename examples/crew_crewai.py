"""A CrewAI crew that is poisoned through its memory's storage: python examples/crew_crewai.py"""

from __future__ import annotations

import tempfile
from typing import Any

from poisoned_notes import NOTES, main

from lazaretto import SyncGuard

try:
    from crewai.memory.storage.lancedb_storage import LanceDBStorage
    from crewai.memory.types import MemoryRecord

    from lazaretto.adapters.crewai import guard_storage
except ImportError:
    raise SystemExit("this example needs CrewAI: pip install 'lazaretto[gates,crewai]'") from None


def vector(text: str) -> list[float]:
    """Numbers that depend on the text: no model is needed here."""
    return [float(len(text) % 7), 1.0, 0.5, 0.25]


def run(guard: SyncGuard | None) -> list[str]:
    """A scout saves its notes; the clerk recalls them all."""
    with tempfile.TemporaryDirectory() as folder:
        storage: Any = LanceDBStorage(path=folder, vector_dim=4)
        if guard is not None:
            storage = guard_storage(guard, storage, agent="scout", embed=vector)
        storage.save([MemoryRecord(content=note, scope="/crew", embedding=vector(note)) for note in NOTES])
        return [record.content for record, _ in storage.search(vector("notes"), limit=50)]


if __name__ == "__main__":
    main("CrewAI", run)
