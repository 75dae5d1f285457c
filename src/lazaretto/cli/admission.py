"""The memory gate before the case library, asked through a guard: each answer stands in the record."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from lazaretto.cases.casebook import Admit
from lazaretto.cases.library import starter_cases
from lazaretto.cases.records import Case
from lazaretto.cli.context import CommandContext
from lazaretto.learn.automatic_cases import CURATOR, advice_of, why_refused, with_memory_gate
from lazaretto.types import Channel, SourceClass


@contextmanager
def guard_admission(context: CommandContext, *, enabled: bool = True) -> Iterator[Admit | None]:
    """Asks the tenant's guard about each case, for as long as the block lasts; None when not enabled."""
    if not enabled:
        yield None
        return
    policy, shipped = with_memory_gate(context.policy), frozenset(starter_cases())  # people have read what ships
    with context.open_guard(policy=policy, namespace=f"{context.namespace}.admission") as guard:

        def admit(case: Case) -> str:
            advice = advice_of(case)
            if not advice or case in shipped:
                return ""
            stranger = SourceClass.UNTRUSTED_DOCUMENT
            return why_refused(guard.check(advice, agent=CURATOR, channel=Channel.MEMORY, source=stranger))

        yield admit
