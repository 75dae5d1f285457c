"""The memory gate at the door of the case library, introduced as a function.

What judges read of a case as guidance is its summary and its cues: those are what a poisoner would write, so those
are screened as a memory that some other agent wrote. The content of a case may be as harmful as it likes; that is
what a precedent is for.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from lazaretto.gates.content.casebook import Admit
from lazaretto.gates.content.records import Case
from lazaretto.types import Channel, Ruling, SourceClass

CURATOR = "case-curator"


@contextmanager
def guard_admission(
    store: str | None, policy: str | None, namespace: str, *, enabled: bool = True
) -> Iterator[Admit | None]:
    """Asks the tenant's guard about each case, for as long as the block lasts; None when not enabled."""
    if not enabled:
        yield None
        return
    from lazaretto.guard import Guard

    with Guard.open(store, policy, f"{namespace}.admission") as guard:

        def admit(case: Case) -> str:
            advice = "\n".join((case.summary, *case.cues)).strip()
            if not advice:
                return ""
            decision = guard.run(
                guard.check(advice, agent=CURATOR, channel=Channel.MEMORY, source=SourceClass.UNTRUSTED_DOCUMENT)
            )
            if decision.ruling < Ruling.QUARANTINE:
                return ""
            return f"{decision.ruling.label} by {decision.rule}"

        yield admit
