"""A run of the shared-memory world as an ordinary ledger, so that trace, verify and the console can open it.

A main run has more than two hundred thousand memories; the ledger holds one team of each domain in full, which is what
a person looks at, and says so in its first event.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lazaretto.ledger import Ledger, seen_draft
from lazaretto.types import Channel, Draft, EventKind, MemoryFields, Observation, Ruling, SourceClass
from lazaretto_lab.worlds.shared_memory.log import VOCABULARY, Log
from lazaretto_lab.worlds.shared_memory.scenario import DOMAINS, Scenario

BATCH = 5_000


def write_ledger(path: Path, log: Log, scenario: Scenario, teams: NDArray[np.int64], note: Mapping[str, Any]) -> int:
    """Write the first of ``teams`` in each domain with rulings as they stood at the end; the number of memories."""
    for old in path.parent.glob(f"{path.name}*"):  # what an interrupted run left
        old.unlink()
    path.parent.mkdir(parents=True, exist_ok=True)
    domains = teams // scenario.per_domain
    shown = np.array([teams[domains == d][0] for d in range(len(DOMAINS)) if (domains == d).any()])
    rows = np.flatnonzero(np.isin(log.team, shown))
    about = {**note, "teams": shown.tolist(), "poisoned": [f"m{r}" for r in rows[log.poisoned[rows]].tolist()]}
    drafts = [Draft(EventKind.NOTED, "run", "bench", about, time=0.0)]
    for row in rows.tolist():
        drafts += _told(log, row)
    with Ledger.open(f"sqlite:///{path}") as ledger:
        for start in range(0, len(drafts), BATCH):
            ledger.append(drafts[start : start + BATCH])
    return len(rows)


def _told(log: Log, row: int) -> list[Draft]:
    """What the ledger says of one memory: that it was written, and that it was held where it was."""
    fields = MemoryFields(
        tuple(log.state[row].tolist()), tuple(log.context[row].tolist()), tuple(log.action[row].tolist()),
        tuple(VOCABULARY[t] for t in log.tags[row].tolist() if t >= 0), {"claims_success": bool(log.success[row])},
    )  # fmt: skip
    team = int(log.team[row])
    item = Observation(
        agent=f"team{team}.agent{int(log.agent[row])}", channel=Channel.MEMORY, fields=fields,
        parents=tuple(f"m{p}" for p in sorted(set(log.parents[row].tolist())) if p >= 0),
        source=SourceClass.MODEL_INFERENCE, time=float(log.round[row]), id=f"m{row}",
    )  # fmt: skip
    told = [seen_draft(item)]
    if log.held[row]:
        body = {"ruling": Ruling.QUARANTINE.label, "risk": 1.0, "rule": "memory:held_at_the_end"}
        told.append(Draft(EventKind.RULED, item.id, body=body, time=float(log.round[row])))
    return told
