"""The guard for synchronous code: every call of ``Guard``, waited for.

Each method is made from the coroutine method of the same name, with its signature and its documentation, so the two
cannot drift apart; a test holds that none is missing.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from lazaretto.gates.policy_gates import GateState
from lazaretto.gates.protocol import Gate
from lazaretto.guard import Guard
from lazaretto.policy import Policy

if TYPE_CHECKING:
    from lazaretto.agents.persona import Persona
    from lazaretto.foreign.records import ForeignStore
    from lazaretto.learn.foresight_setup import Calibration
    from lazaretto.ledger import Ledger
    from lazaretto.models.protocol import ChatModel, TextEmbedder
    from lazaretto.provenance.graph import ProvenanceGraph

P = ParamSpec("P")
R = TypeVar("R")


def _waited(method: Callable[Concatenate[Guard, P], Coroutine[Any, Any, R]]) -> Callable[Concatenate[SyncGuard, P], R]:
    """The synchronous form of a coroutine method of the guard."""

    @functools.wraps(method)
    def call(self: SyncGuard, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.guard.run(method(self.guard, *args, **kwargs))

    return call


class SyncGuard:
    """Watches what agents read, keep and say, for code without ``await``.

    It may be used by many threads at once, and inside a running event loop, which then stands still meanwhile.
    """

    def __init__(self, guard: Guard) -> None:
        """A synchronous view of a guard; closing either closes both."""
        self.guard = guard

    @classmethod
    def open(
        cls,
        store: str | None = None,
        policy: Policy | Mapping[str, Any] | str | Path | None = None,
        namespace: str | None = None,
        *,
        gates: Mapping[str, Gate] | None = None,
    ) -> SyncGuard:
        """A guard over the store at a URL (default: the policy's, else one SQLite file in the user's data folder)."""
        return cls(Guard.open(store, policy, namespace, gates=gates))

    @property
    def ledger(self) -> Ledger:
        """The record of everything."""
        return self.guard.ledger

    @property
    def graph(self) -> ProvenanceGraph:
        """Where items came from and whom they reached."""
        return self.guard.graph

    @property
    def policy(self) -> Policy:
        """What the guard goes by."""
        return self.guard.policy

    check = _waited(Guard.check)
    remember = _waited(Guard.remember)
    recall = _waited(Guard.recall)
    search = _waited(Guard.search)
    exchange = _waited(Guard.exchange)
    screen = _waited(Guard.screen)
    report = _waited(Guard.report)
    begin_task = _waited(Guard.begin_task)
    authorize = _waited(Guard.authorize)
    answer_action = _waited(Guard.answer_action)
    waiting_actions = _waited(Guard.waiting_actions)
    endorse = _waited(Guard.endorse)
    before_turn = _waited(Guard.before_turn)
    before_round = _waited(Guard.before_round)
    label = _waited(Guard.label)
    settle = _waited(Guard.settle)
    appeal = _waited(Guard.appeal)
    forget = _waited(Guard.forget)
    import_records = _waited(Guard.import_records)
    reconcile = _waited(Guard.reconcile)
    write_back = _waited(Guard.write_back)
    due_writes = _waited(Guard.due_writes)
    note_written = _waited(Guard.note_written)
    plan = _waited(Guard.plan)
    dry_run = _waited(Guard.dry_run)
    apply = _waited(Guard.apply)
    undo = _waited(Guard.undo)
    release = _waited(Guard.release)
    tend = _waited(Guard.tend)
    proposals = _waited(Guard.proposals)
    proposal = _waited(Guard.proposal)
    accept = _waited(Guard.accept)
    dismiss = _waited(Guard.dismiss)
    suspects = _waited(Guard.suspects)
    receipts = _waited(Guard.receipts)
    incidents = _waited(Guard.incidents)
    incident = _waited(Guard.incident)
    held = _waited(Guard.held)
    contacts_to_screen = _waited(Guard.contacts_to_screen)
    note_screened = _waited(Guard.note_screened)

    def gates(self) -> tuple[GateState, ...]:
        """Every gate that the policy names: on which channels it is asked, and whether it is there."""
        return self.guard.gates()

    def join(self, system: str, store: ForeignStore) -> None:
        """Let rulings and repairs reach a store of your own; see ``Guard.join``."""
        self.guard.join(system, store)

    def rehearse_with(
        self,
        calibration: Calibration | str | Path,
        embedder: TextEmbedder,
        personas: Sequence[Persona] | None = None,
        *,
        chat: ChatModel | None = None,
    ) -> None:
        """Set up ``before_turn``; see ``Guard.rehearse_with``."""
        self.guard.rehearse_with(calibration, embedder, personas, chat=chat)

    def close(self) -> None:
        """Let threads and store go."""
        self.guard.close()

    def __enter__(self) -> SyncGuard:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()
