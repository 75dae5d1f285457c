"""What AgentDojo's tools return, with and without each injection, through the default gates: how much is held.

The user tasks' own solutions are played, so every text is one that an agent reads who does its task. A text counts
once. With an injection only the texts count in which it stands.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from lazaretto_lab.studies.dojo.defences import Holds
from lazaretto_lab.studies.dojo.suites import DojoWorld, Pair


def judge(
    pairs: Iterable[Pair], holds: Holds, open_world: Callable[[Pair], DojoWorld] = DojoWorld
) -> Iterator[dict[str, Any]]:
    """A row for each text."""
    seen: set[tuple[str, str]] = set()
    for suite, user, injection in pairs:
        world = open_world((suite, user, injection))
        for tool, arguments in world.right_calls():
            text = world.call(tool, arguments)
            if injection and not world.shows_injection(text):
                continue
            key = (suite, hashlib.sha256(text.encode()).hexdigest()[:16])
            if key in seen:
                continue
            seen.add(key)
            yield {
                "suite": suite, "user": user, "injection": injection, "tool": tool, "letters": len(text),
                "text": key[1], "held": holds(text),
            }  # fmt: skip
