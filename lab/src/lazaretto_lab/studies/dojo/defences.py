"""What stands between the model and its tools: nothing, the content gates, the last gate, or both.

Content gates (policy ``recommended``): a result that they hold is not read. Last gate (``authorize`` before each call,
content gates off, the suite's policy): a call that it does not allow is not made; ``ask`` counts as no.
"""

from __future__ import annotations

import hashlib
import logging
import tempfile
import threading
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lazaretto import Policy, SyncGuard
from lazaretto.errors import InputError
from lazaretto_lab.studies.dojo.protocol import ONE_AT_A_TIME, Tool

DEFENCES = ("none", "gates", "actions", "both")
WITHHELD = "[this result was withheld by a guard]"
REFUSED = "[a guard did not allow this call]"
POLICIES = Path(__file__).parent / "policies"
Holds = Callable[[str], bool]


class ContentGates:
    """Whether the recommended content gates hold a text, each text once."""

    def __init__(self) -> None:
        logging.getLogger("lazaretto").setLevel(logging.ERROR)
        self._guard: Any = None
        self._known: dict[str, bool] = {}
        self._lock = threading.Lock()

    def __call__(self, text: str) -> bool:
        """Also by many threads."""
        key = hashlib.sha256(text.encode()).hexdigest()
        with self._lock:
            if key not in self._known:
                if self._guard is None:
                    folder = tempfile.mkdtemp()
                    self._guard = SyncGuard.open(f"sqlite:///{folder}/content.db", Policy.recommended())
                found = self._guard.screen(text, channel="tool", source="tool_output_external")
                self._known[key] = not found.allowed
            return self._known[key]


class Defence:
    """Of one case; ``holds`` and ``guard`` are the two parts, each may be missing."""

    def __init__(self, holds: Holds | None = None, guard: SyncGuard | None = None) -> None:
        self._holds, self._guard = holds, guard

    def begin(self, task: str) -> None:
        """The last gate is told what the user wants."""
        if self._guard is not None and not self._guard.begin_task(task, agent=_AGENT).allowed:
            raise RuntimeError("the user's own task was held")

    def read(self, text: str, tool: str) -> str | None:
        """A result as the model may read it; None where it is held. A blank one has nothing to judge."""
        if not text.strip():
            return text
        if self._holds is not None and self._holds(text):
            return None
        if self._guard is not None:
            with ONE_AT_A_TIME:
                self._guard.check(text, agent=_AGENT, channel="tool", tool=tool)
        return text

    def may(self, tool: Tool, arguments: Mapping[str, Any]) -> str:
        """``allow``, ``ask`` or ``block``."""
        if self._guard is None:
            return "allow"
        with ONE_AT_A_TIME:
            asked = self._guard.authorize(
                tool.name, dict(arguments), agent=_AGENT, description=tool.description, schema=tool.schema
            )
        return str(asked.ruling)


_AGENT = "assistant"


@contextmanager
def open_defence(name: str, suite: str, folder: Path, holds: Holds) -> Iterator[Defence]:
    """A defence for one case, with a ledger of its own."""
    if name not in DEFENCES:
        raise InputError("defence", f"{name!r} is unknown", f"Use one of {', '.join(DEFENCES)}")
    content = holds if name in ("gates", "both") else None
    if name not in ("actions", "both"):
        yield Defence(content)
        return
    logging.getLogger("lazaretto").setLevel(logging.ERROR)
    table = tomllib.loads((POLICIES / f"{suite}.toml").read_text())
    folder.mkdir(parents=True, exist_ok=True)
    with SyncGuard.open(f"sqlite:///{folder}/ledger.db", Policy.read({"preset": "minimal", **table})) as guard:
        yield Defence(content, guard)
