"""The shared core of the guard's parts: the store, the gates, and the one way an item is judged and recorded.

``Core`` makes the parts and introduces them to each other. Store calls block, so they run in threads of their own.
``Lifecycle`` is the guard's face of it: waiting for a call, and closing.
"""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from lazaretto.actions.authority import Authority
from lazaretto.errors import GuardClosed, InputError
from lazaretto.external_stores.outbox import Outbox
from lazaretto.gates.engine.gate_set import GateSet
from lazaretto.gates.engine.one_at_a_time import OneAtATime
from lazaretto.gates.engine.record_owners import RecordOwners
from lazaretto.gates.engine.runner import Worker
from lazaretto.gates.protocol import Gate
from lazaretto.guard.recall import Recaller, require_known
from lazaretto.guard.rechecking import Rechecked, Rechecker
from lazaretto.guard.recording import FollowUps, Recorder
from lazaretto.guard.telemetry import Tracing, Watchers, now
from lazaretto.identity import Identity, is_own
from lazaretto.incidents.incidents import Incidents
from lazaretto.ingest.raw_input import RawInput, read_observation
from lazaretto.learn.alignment import Alignment
from lazaretto.learn.copies import Copies
from lazaretto.learn.labels import Labels
from lazaretto.learn.lessons import Lessons
from lazaretto.learn.withdrawals import Withdrawals
from lazaretto.ledger import Ledger
from lazaretto.policy import Policy
from lazaretto.provenance.graph import ProvenanceGraph
from lazaretto.provenance.taint_rulings import TaintRulings
from lazaretto.repair import engine
from lazaretto.repair.protocol import RepairView
from lazaretto.types import Decision, Draft, Observation, Receipt

if TYPE_CHECKING:
    from lazaretto.learn.automatic_cases import AutomaticCases

T = TypeVar("T")
STORE_THREADS = 16
MAX_REASON = 10_000
"""Characters of a person's reason."""


class Core:
    """The wiring of one guard, which only the guard and its parts hold."""

    def __init__(self, ledger: Ledger, policy: Policy, gates: Mapping[str, Gate], file: str) -> None:
        """``gates`` are ready-made ones by name; ``file`` is the policy's, for error messages."""
        self.ledger, self.policy, self.file = ledger, policy, file
        self.graph = ProvenanceGraph(ledger, policy.trust.table())
        self.gates = GateSet(policy, ledger, self.graph, gates, file)
        teach = self.gates.teach
        self.owners = RecordOwners(ledger, self.graph, policy)
        self.recorder = Recorder(ledger, policy, self.gates, self.owners)
        self.taints = TaintRulings(ledger, self.graph, policy, teach)
        self.alignment = Alignment(ledger, self.graph, self.taints)
        self.lessons = Lessons(ledger, teach, self.alignment.align)
        self.copies = Copies(ledger, self.graph, policy.trust, self.alignment)
        observes = policy.mode == "observe"
        self.labels = Labels(
            ledger, self.taints, self.lessons, teach, self.copies, self.alignment, observes=observes,
            undone=self.tell_undone,
        )  # fmt: skip
        self.withdrawals = Withdrawals(ledger, self.taints, self.lessons, self.alignment)
        self.view = RepairView(
            ledger, self.graph, objection=self.gates.held_today, correction=self.gates.correction,
            copies=lambda item: self.copies.settled_with(item, "benign"),
        )  # fmt: skip
        self.rechecker = Rechecker(
            self.view, policy, self.gates, self.owners, self.taints.hold_what_came_from,
            lambda receipt: self.watchers.tell("repaired", ledger.namespace, receipt, now()),
        )  # fmt: skip
        self._ready = dict(gates)
        self._cases: AutomaticCases | None = None
        self.recaller = Recaller(ledger, self.graph, policy, self.gates, self._hold_again)
        self.outbox = Outbox(ledger)
        self.incidents = Incidents(ledger, self.graph)
        self.actions = Authority(ledger, self.graph, policy, file)
        self.watchers = Watchers(Tracing())
        self._store_threads = ThreadPoolExecutor(STORE_THREADS, thread_name_prefix="lazaretto-store")
        self._rechecks = OneAtATime("recheck")
        self._sync_worker: Worker | None = None
        self._closed = False
        self._lock = threading.Lock()

    # how an item passes

    async def judge_and_record(
        self,
        raw: RawInput,
        follow_ups: FollowUps = lambda _observation, _decision: [],
        *,
        writes: bool = False,
        stated: bool = False,
        stands: bool = False,
    ) -> Decision:
        """The way of every item: read it, judge it (``GateSet``), record it and teach the gates (``Recorder``).

        ``follow_ups`` gives further events of the item besides its ruling; they are recorded with it or not at all.
        ``writes``: the agent made it itself, so its recent reads count; ``stated``: it names its parents;
        ``stands``: a store of the caller's own has it already.
        """
        self.require_open()  # before any gate runs
        began = now()
        observation = read_observation(raw, self.ledger.namespace, self.policy.limits)
        await self.catch_up()
        if observation.parents:
            await self.in_store_thread(require_known, self.ledger, observation.parents, "parents")
        if raw.image is not None:
            digest = await self.in_store_thread(self.ledger.put_blob, raw.image)
            observation = replace(observation, image=digest)
        asked = None if raw.once is None else {**(raw.asked or {}), "parents": "named" if stated else "inferred"}
        if asked is not None:
            before = await self.in_store_thread(self.recorder.earlier_decision, observation, asked)
            if before is not None:
                return before
        decided = await self.gates.judge(observation)
        record = functools.partial(self.recorder.record, writes=writes, stated=stated, stands=stands, asked=asked)
        decision = await self.in_store_thread(record, observation, decided, follow_ups)
        self.watchers.tell("decided", observation, decision, began)
        return decision

    async def judge(self, raw: RawInput) -> Decision:
        """The gates' decision; nothing is recorded."""
        self.require_open()
        began = now()
        observation = read_observation(raw, self.ledger.namespace, self.policy.limits)
        await self.catch_up()
        if raw.image is None:
            decision = await self.gates.judge(observation)
        else:  # the gates read it as from the store, which never has it
            with self.ledger.lent_blob(raw.image) as digest:
                observation = replace(observation, image=digest)
                decision = await self.gates.judge(observation)
        self.watchers.tell("decided", observation, decision, began)
        return decision

    def tell_undone(self, receipts: Sequence[str]) -> None:
        """Tell the watchers that these repairs were undone, wholly or in part. Blocks."""
        for name in receipts:
            self.watchers.tell("undone", self.ledger.namespace, engine.find_receipt(name, self.ledger), now())

    async def recheck(self, limit: int, news: int) -> Rechecked:
        """Judge memories again; one pass at a time."""
        for field, number in (("limit", limit), ("news", news)):
            if isinstance(number, bool) or not isinstance(number, int) or number < 1:
                raise InputError(field, f"is {number!r}", "Give 1 or more")
        self.require_open()
        async with self._rechecks:
            rechecked = await self.rechecker.run(limit, news, self.in_store_thread)
            tainted = await self.in_store_thread(self.taints.hold_what_came_from_found, rechecked.held)
            rechecked = replace(rechecked, held=tuple(dict.fromkeys((*rechecked.held, *tainted))))
            await self.in_store_thread(self.taints.release_what_came_from, rechecked.released)
            await self.outbox.write_back()
            return replace(rechecked, cases=await self._making_cases().step(self.in_store_thread))

    def _making_cases(self) -> AutomaticCases:
        if self._cases is None:
            from lazaretto.learn.automatic_cases import AutomaticCases  # and the whole debate with it

            self._cases = AutomaticCases(self.ledger, self.policy, self.gates, self._ready)
        return self._cases

    async def catch_up(self) -> None:
        """Once, before the first item: teach the gates the decisions that an earlier process left untaught."""
        if not self.lessons.current:
            await self.in_store_thread(self.lessons.look_up if self.ledger.read_only else self.lessons.catch_up)

    def copies_of(self, item: str, by: str, caller: Identity | None) -> list[str]:
        """Waiting copies of an item that its release settles, without those that the releasing person wrote."""
        found = list(self.copies.settled_with(self.ledger.item(item), "benign"))
        seen = self.ledger.items(ids=found, any_state=True, limit=None) if found else []
        return [copy.id for copy in seen if not is_own(caller, by, copy)]

    async def written_back(self, receipt: Receipt) -> Receipt:
        """The receipt with the outcomes of its records in stores of the caller's own."""
        await self.outbox.write_back()
        return (await self.in_store_thread(self.outbox.with_outcomes, [receipt]))[0]

    def _hold_again(self, observations: Sequence[Observation]) -> tuple[str, ...]:
        """Hold the memories that would be held today, and items that came from them; returns the memories."""
        held = self.rechecker.recheck(observations)
        if held:
            self.taints.hold_what_came_from(held)
        return held

    # threads, and the end

    def require_open(self) -> None:
        """``GuardClosed`` after ``close``."""
        if self._closed:
            raise GuardClosed

    async def in_store_thread(self, work: Callable[..., T], *arguments: Any) -> T:
        """Run a blocking call of the store in a thread, so that the caller's event loop goes on."""
        loop = asyncio.get_running_loop()
        try:
            waiting = loop.run_in_executor(self._store_threads, functools.partial(work, *arguments))
        except RuntimeError:  # the threads were let go
            raise GuardClosed from None
        return await waiting

    async def append(self, *drafts: Draft) -> None:
        """Record events."""
        await self.in_store_thread(self.ledger.append, list(drafts))

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """The result of a coroutine, on an event loop of the guard's own."""
        with self._lock:
            if self._closed:
                coroutine.close()
                raise GuardClosed
            if self._sync_worker is None:
                self._sync_worker = Worker("sync")
            worker = self._sync_worker
        if threading.current_thread() is worker.thread:
            coroutine.close()
            raise InputError("run", "was called from inside a call that is itself being run", "Use await there")
        future = worker.submit(coroutine)
        try:
            return future.result()
        except CancelledError:
            raise GuardClosed from None  # only closing the guard cancels tasks on its own loop
        except BaseException:
            future.cancel()
            raise

    def close(self) -> None:
        """Close threads and store; calls under way in other threads end with ``GuardClosed``."""
        with self._lock:
            self._closed = True
            worker, self._sync_worker = self._sync_worker, None
        if worker is not None:
            worker.stop()  # before the gates: a call whose gate was ended would be ruled by the fail mode
        self.gates.close()
        if self._cases is not None:
            self._cases.close()
        self._store_threads.shutdown(wait=True)
        self.ledger.close()


class Lifecycle:
    """The guard's calls about itself."""

    _core: Core

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """The result of one of the guard's calls, on an event loop of its own; ``SyncGuard`` is built on it.

        Works inside a running event loop too, which then stands still meanwhile.
        """
        return self._core.run(coroutine)

    def close(self) -> None:
        """Close threads and store; calls under way in other threads end with ``GuardClosed``."""
        self._core.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.close)  # it waits for the store's threads

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()
