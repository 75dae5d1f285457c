"""The guard for synchronous code: every call of ``Guard`` and its parts, waited for.

Each method is made from the coroutine method of the same name, signature and documentation included.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar

from lazaretto.errors import InputError
from lazaretto.gates.engine.runner import GateState
from lazaretto.gates.protocol import Gate
from lazaretto.guard.foresight import Rehearsals
from lazaretto.guard.guard import Guard
from lazaretto.guard.old_names import OldNames
from lazaretto.guard.people_calls import IncidentBook
from lazaretto.guard.repairs import Repairs
from lazaretto.guard.stores import Stores
from lazaretto.guard.tool_calls import Approvals
from lazaretto.incidents.records import Incident, State
from lazaretto.names import warn_old_name
from lazaretto.policy import Policy

if TYPE_CHECKING:
    from lazaretto.actions.authority import Authority
    from lazaretto.agents.prompts import Persona
    from lazaretto.external_stores.records import ExternalStore
    from lazaretto.gates.foresight.foresight import Foresight
    from lazaretto.guard.telemetry import Watchers
    from lazaretto.learn.calibration import Calibration
    from lazaretto.ledger import Ledger
    from lazaretto.models.protocol import ChatModel, TextEmbedder
    from lazaretto.provenance.graph import ProvenanceGraph

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")
T = TypeVar("T")
Own = TypeVar("Own", covariant=True)


class _Waiting(Generic[Own]):
    """The synchronous face of ``Own``, whose calls run on the guard's own event loop."""

    def __init__(self, own: Own, guard: Guard) -> None:
        """``own`` is the guard or a part of it."""
        self._own, self.guard = own, guard


def _waited(
    method: Callable[Concatenate[S, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[_Waiting[S], P], R]:
    """The synchronous form of a coroutine method."""

    @functools.wraps(method)
    def call(self: _Waiting[S], /, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.guard.run(method(self._own, *args, **kwargs))

    return call


class SyncRepairs(_Waiting[Repairs]):
    """``guard.repairs``, waited for."""

    plan = _waited(Repairs.plan)
    dry_run = _waited(Repairs.dry_run)
    apply = _waited(Repairs.apply)
    undo = _waited(Repairs.undo)
    receipts = _waited(Repairs.receipts)
    proposals = _waited(Repairs.proposals)
    proposal = _waited(Repairs.proposal)
    accept = _waited(Repairs.accept)
    dismiss = _waited(Repairs.dismiss)


class SyncIncidents(_Waiting[IncidentBook]):
    """``guard.incidents``, waited for."""

    all = _waited(IncidentBook.all)
    open = _waited(IncidentBook.open)
    one = _waited(IncidentBook.one)
    suspects = _waited(IncidentBook.suspects)
    contacts = _waited(IncidentBook.contacts)
    note_screened = _waited(IncidentBook.note_screened)

    def __call__(self, state: State | None = None, *, limit: int | None = None) -> tuple[Incident, ...]:
        """The old name of ``all``."""
        warn_old_name("guard.incidents()", "guard.incidents.all()")
        return self.all(state, limit=limit)


class SyncStores(_Waiting[Stores]):
    """``guard.stores``, waited for."""

    forget = _waited(Stores.forget)
    import_records = _waited(Stores.import_records)
    reconcile = _waited(Stores.reconcile)
    write_back = _waited(Stores.write_back)
    due_writes = _waited(Stores.due_writes)
    note_written = _waited(Stores.note_written)

    def join(self, system: str, store: ExternalStore) -> None:
        """Let rulings and repairs reach a store of your own; see ``Stores.join``."""
        self._own.join(system, store)


class SyncRehearsals(_Waiting[Rehearsals]):
    """``guard.foresight``, waited for."""

    before_turn = _waited(Rehearsals.before_turn)
    before_round = _waited(Rehearsals.before_round)

    @property
    def rehearsal(self) -> Foresight | None:
        """The setting for rehearsals."""
        return self._own.rehearsal

    def rehearse_with(
        self,
        calibration: Calibration | str | Path,
        embedder: TextEmbedder,
        personas: Sequence[Persona] | None = None,
        *,
        chat: ChatModel | None = None,
    ) -> None:
        """Set up ``before_turn``; see ``Rehearsals.rehearse_with``."""
        self._own.rehearse_with(calibration, embedder, personas, chat=chat)


class SyncApprovals(_Waiting[Approvals]):
    """``guard.approvals``, waited for."""

    answer = _waited(Approvals.answer)
    answer_all = _waited(Approvals.answer_all)
    waiting = _waited(Approvals.waiting)
    endorse = _waited(Approvals.endorse)


class SyncGuard(_Waiting[Guard], OldNames):
    """Watches what agents read, keep and say, for code without ``await``.

    It may be used by many threads at once, and inside a running event loop, which then stands still meanwhile.
    """

    def __init__(self, guard: Guard) -> None:
        """A synchronous view of a guard; closing either closes both."""
        if not isinstance(guard, Guard):
            raise InputError("guard", f"is {type(guard).__name__}, not a Guard", "Give a URL to SyncGuard.open")
        super().__init__(guard, guard)
        self.repairs = SyncRepairs(guard.repairs, guard)
        self.incidents = SyncIncidents(guard.incidents, guard)
        self.stores = SyncStores(guard.stores, guard)
        self.foresight = SyncRehearsals(guard.foresight, guard)
        self.approvals = SyncApprovals(guard.approvals, guard)

    @classmethod
    def open(
        cls,
        store: str | None = None,
        policy: Policy | Mapping[str, Any] | str | Path | None = None,
        namespace: str | None = None,
        *,
        gates: Mapping[str, Gate] | None = None,
    ) -> SyncGuard:
        """A guard over the store at a URL (default: the policy's, else one SQLite file in the user's data folder).

        ``policy`` is a ``Policy``, the name of a preset (``"strict"``), a mapping with the same keys as the file, or
        the path of a TOML file.
        """
        return cls(Guard.open(store, policy, namespace, gates=gates))

    @property
    def ledger(self) -> Ledger:
        """The record of everything."""
        return self.guard.ledger

    @property
    def graph(self) -> ProvenanceGraph:
        """The provenance graph: lineage and reach of items."""
        return self.guard.graph

    @property
    def policy(self) -> Policy:
        """The guard's policy."""
        return self.guard.policy

    @property
    def actions(self) -> Authority:
        """The check before a tool is called."""
        return self.guard.actions

    @property
    def watchers(self) -> Watchers:
        """The watchers; each is notified of every decision, recall, repair and undone repair."""
        return self.guard.watchers

    check = _waited(Guard.check)
    remember = _waited(Guard.remember)
    recall = _waited(Guard.recall)
    search = _waited(Guard.search)
    exchange = _waited(Guard.exchange)
    screen = _waited(Guard.screen)
    report = _waited(Guard.report)
    begin_task = _waited(Guard.begin_task)
    authorize = _waited(Guard.authorize)
    held = _waited(Guard.held)
    release = _waited(Guard.release)
    label = _waited(Guard.label)
    labels = _waited(Guard.labels)
    unlabel = _waited(Guard.unlabel)
    settle = _waited(Guard.settle)
    appeal = _waited(Guard.appeal)
    audit = _waited(Guard.audit)
    to_erase = _waited(Guard.to_erase)
    erase = _waited(Guard.erase)
    recheck = _waited(Guard.recheck)

    def gates(self) -> tuple[GateState, ...]:
        """Every gate that the policy names: on which channels it is asked, and whether it is there."""
        return self.guard.gates()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """The result of a coroutine on the guard's own event loop, for example of a call of ``self.guard``."""
        return self.guard.run(coroutine)

    def close(self) -> None:
        """Let threads and store go."""
        self.guard.close()

    def __enter__(self) -> SyncGuard:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()
