"""A crew that is poisoned through mem0: python examples/crew_mem0.py"""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path
from typing import Any

os.environ.setdefault("MEM0_TELEMETRY", "False")

from poisoned_notes import NOTES, main

from lazaretto import SyncGuard

try:
    from mem0 import Memory

    from lazaretto.adapters.mem0 import guard_memory
except ImportError:
    raise SystemExit("this example needs mem0: pip install 'lazaretto[gates,mem0]'") from None


class Embedder:
    """Numbers that depend on the text: no model is needed to list memories."""

    def embed(self, text: str, memory_action: str | None = None) -> list[float]:
        """Eight of them."""
        return [byte / 255 + 0.01 for byte in hashlib.sha256(text.encode()).digest()[:8]]

    def embed_batch(self, texts: list[str], memory_action: str | None = None) -> list[list[float]]:
        """For each text."""
        return [self.embed(text) for text in texts]


def run(guard: SyncGuard | None) -> list[str]:
    """A scout adds its notes; the clerk is given all memories of the user."""
    with tempfile.TemporaryDirectory() as folder:
        config: dict[str, Any] = {
            "vector_store": {
                "provider": "qdrant",
                "config": {"path": str(Path(folder) / "vectors"), "embedding_model_dims": 8},
            },
            "llm": {"provider": "openai", "config": {"api_key": "none"}},
            "embedder": {"provider": "openai", "config": {"api_key": "none"}},
            "history_db_path": str(Path(folder) / "history.db"),
        }
        memory = Memory.from_config(config)
        memory.embedding_model = Embedder()
        if guard is not None:
            memory = guard_memory(guard, memory, agent="scout")
        for note in NOTES:
            memory.add(note, user_id="mia", infer=False)
        return [str(one["memory"]) for one in memory.get_all(filters={"user_id": "mia"}, top_k=50)["results"]]


if __name__ == "__main__":
    main("mem0", run)
