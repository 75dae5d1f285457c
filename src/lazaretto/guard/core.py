"""The core of the guard's parts: the store, the gates, and the one way an item is judged and recorded.

``Core`` makes the parts and introduces them to each other. Store calls block, so they run in threads of their own.
``Lifecycle`` is the guard's face of it: waiting for a call, and closing.
"""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Callable, Coroutine, Generator, Mapping, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

import orjson

from lazaretto import kept_texts
from lazaretto.actions.authority import Authority
from lazaretto.errors import GuardClosed, InputError, StaleState, StoreUnavailable
from lazaretto.external_stores.outbox import Outbox
from lazaretto.gates.engine.decision import decision_from_body, ruling_body, with_beside, with_verdict
from lazaretto.gates.engine.one_at_a_time import OneAtATime
from lazaretto.gates.engine.runner import GateSet, Worker
from lazaretto.gates.memory.claims import conflicts
from lazaretto.gates.protocol import Gate
from lazaretto.guard.recall import Recaller, require_known
from lazaretto.guard.rechecking import Rechecked, Rechecker
from lazaretto.guard.record_owners import RecordOwners
from lazaretto.guard.telemetry import Tracing, Watchers, now
from lazaretto.identity import Identity, is_own
from lazaretto.incidents.incidents import Incidents
from lazaretto.ingest.raw_input import RawInput, names_beside, read_observation
from lazaretto.ingest.read_history import ReadHistory, RecentReads, met_by, principal_body
from lazaretto.learn.alignment import Alignment
from lazaretto.learn.labels import Copies, Labels
from lazaretto.learn.lessons import Lessons
from lazaretto.learn.withdrawals import Withdrawals
from lazaretto.ledger import Ledger, seen_draft
from lazaretto.names import check_ids, check_name, check_principal
from lazaretto.policy import Policy
from lazaretto.provenance import carrying, taint
from lazaretto.provenance.carrying import HeldIndex
from lazaretto.provenance.graph import ProvenanceGraph
from lazaretto.provenance.taint_rulings import TaintRulings
from lazaretto.repair import engine
from lazaretto.repair.contain import called_benign
from lazaretto.repair.protocol import RepairView
from lazaretto.types import Channel, Decision, Draft, EventKind, Observation, Receipt, Ruling, new_id, principal_of

if TYPE_CHECKING:
    from lazaretto.learn.automatic_cases import AutomaticCases

T = TypeVar("T")
STORE_THREADS = 16
MOST_NAMES = 400_000
"""Bytes for names beside texts that passed."""
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
            self.view, policy, self.gates, self.owners, self._with_names, self.taints.hold_what_came_from,
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
        self._passed: kept_texts.KeptTexts[bool] = kept_texts.KeptTexts(MOST_NAMES, lambda _: 100)
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
            await self.in_store_thread(self._hold_watched, observation.parents)
        if raw.image is not None:
            digest = await self.in_store_thread(self.ledger.put_blob, raw.image)
            observation = replace(observation, image=digest)
        asked = None if raw.once is None else {**(raw.asked or {}), "parents": "named" if stated else "inferred"}
        if asked is not None:
            before = await self.in_store_thread(self.recorder.earlier_decision, observation, asked)
            if before is not None:
                return await self.in_store_thread(self._enforced, before)
        decided = await self._judged(observation)
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
            decision = await self._judged(observation)
        else:  # the gates read it as from the store, which never has it
            with self.ledger.lent_blob(raw.image) as digest:
                observation = replace(observation, image=digest)
                decision = await self._judged(observation)
        self.watchers.tell("decided", observation, decision, began)
        return decision

    async def _judged(self, observation: Observation) -> Decision:
        """The gates' decision on an item, and on the names and fields beside its text."""
        return await self._with_names(observation, await self.gates.judge(observation))

    async def _with_names(self, observation: Observation, decided: Decision) -> Decision:
        """The decision, with that on the names and fields beside the text; those that passed pass again."""
        fail_mode = self.policy.channels[Channel.DOCUMENT].fail_mode
        for words in names_beside(observation):
            key = kept_texts.digest(observation.source, words)
            if self._passed.get(key):
                continue
            alone = Observation(
                agent=observation.agent, channel=Channel.DOCUMENT, text=words, source=observation.source,
                namespace=observation.namespace, id=observation.id,
            )  # fmt: skip
            made = with_beside(decided, await self.gates.judge(alone), fail_mode)
            if made is not decided:
                return made
            self._passed.put(key, True)
        return decided

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

    def _hold_watched(self, items: Sequence[str]) -> None:
        """Hold those of some items that were only watched and that today's gates hold, and what came from them."""
        if held := self.rechecker.hold_watched(items):
            self.taints.hold_what_came_from(held)

    def _enforced(self, before: Decision) -> Decision:
        """An earlier decision about an item; where it was only watched, as it stands in a policy that holds."""
        if before.would is None or self.policy.mode == "observe":
            return before
        self._hold_watched([before.item])
        kept = self.ledger.item(before.item).channel is Channel.MEMORY and self.ledger.state(before.item).visible
        fine = kept or before.would <= Ruling.WARN or called_benign(before.item, self.ledger)
        return before if fine else replace(before, ruling=before.would, would=None)

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


class Closed:
    """The answer of closing, which may be awaited: it is done already."""

    def __await__(self) -> Generator[None, None, None]:
        yield from ()


class Lifecycle:
    """The guard's calls about itself."""

    _core: Core

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """The result of one of the guard's calls, on an event loop of its own; ``SyncGuard`` is built on it.

        Works inside a running event loop too, which then stands still meanwhile.
        """
        return self._core.run(coroutine)

    def close(self) -> Closed:
        """Close threads and store; calls under way in other threads end with ``GuardClosed``. ``await guard.close()``
        does the same; only ``async with`` lets the event loop go on meanwhile."""
        self._core.close()
        return Closed()

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


# Writes an item to the ledger: with its ruling, the items it rests on and its further events, whole or not at all.
#
# An item rests on those it was made from, those its writer had read and those it repeats. Their state at that moment
# counts: when one is held or released while the item is written, or the item's record gets another owner, the ruling is
# made again. A decision that an agent reports is recorded with the items it rests on.

_TRIES = 10
"""How often the items that an item rests on may change while it is recorded."""
FollowUps = Callable[[Observation, Decision], list[Draft]]
"""Gives further events of an item besides its ruling; they are recorded with it or not at all."""


class Recorder:
    """Writes judged items and reported decisions to the ledger, and knows what agents had read. Every call blocks."""

    def __init__(
        self,
        ledger: Ledger,
        policy: Policy,
        gates: GateSet,
        owners: RecordOwners,
    ) -> None:
        """``gates`` give the claims they read, and learn the outcome."""
        self._ledger, self._policy, self._gates, self._owners = ledger, policy, gates, owners
        rules = policy.influence
        self._read_history = ReadHistory(
            ledger, messages=rules.messages, window_s=rules.window_s, max_sources=rules.max_sources
        )
        self._held = HeldIndex(ledger)

    def record(
        self,
        observation: Observation,
        decided: Decision,
        follow_ups: FollowUps,
        *,
        writes: bool,
        stated: bool,
        stands: bool,
        asked: Mapping[str, str | None] | None,
    ) -> Decision:
        """Write an item and its ruling to the ledger. The ruling may become stricter: because of the items it rests on,
        and because of the owner of its record. ``writes``, ``stated``, ``stands``: as in ``Core.judge_and_record``;
        ``asked`` is noted with it, for ``earlier_decision``."""
        recent_reads = self._recent_reads(observation, stated) if writes else RecentReads()
        taint_ruling, trust = self._policy.taint.ruling, self._policy.trust.table()
        for _ in range(_TRIES):
            echoed = () if taint_ruling is Ruling.ALLOW else carrying.echoed(observation, self._ledger, trust)
            rests_on = {*observation.parents, *recent_reads.links, *echoed}
            taint_verdict, states = taint.on_writing(
                observation, recent_reads.read, self._held, taint_ruling, echoed, rests_on
            )
            owner_verdict, seen_record = self._owners.ruled(observation, stands=stands)
            decision = with_verdict(with_verdict(decided, owner_verdict), taint_verdict)
            if self._policy.mode == "observe":
                decision = replace(decision, ruling=Ruling.ALLOW, would=decision.ruling)
            noted = {"asked": dict(asked)} if asked else {}
            drafts = [Draft(EventKind.RULED, observation.id, body={**ruling_body(decision), **noted})]
            if recent_reads.links:
                body = {"sources": list(recent_reads.links), **principal_body(observation.principal)}
                drafts.append(Draft(EventKind.INFLUENCED, observation.id, observation.agent, body))
            drafts += carrying.links(observation.id, echoed)
            if taint_verdict is not None and taint_verdict.ruling > Ruling.WARN:
                drafts += carrying.marks([observation])
            drafts += [*follow_ups(observation, decision), *conflicts.follow_ups(decision)]
            try:
                claims = self._gates.claims_of(observation)
                self._ledger.append_item(observation, drafts, states=states, claims=claims, record=seen_record)
            except StaleState:
                continue  # something that it rests on was held or released in between, or its record was written
            except InputError as error:
                before = self.earlier_decision(observation, asked or {}) if error.field == "id" else None
                if before is None:
                    raise
                return before  # the same call, sent twice, arrived a moment earlier
            verdicts = decision.active_verdicts
            if verdicts:  # a ruling that only stands for a broken gate teaches nothing about the item
                self._gates.teach(observation, max(v.ruling for v in verdicts), verdicts)
            return decision
        raise StoreUnavailable(
            f"the items that {observation.id} rests on or its record keep changing; nothing was recorded, try again"
        )

    def earlier_decision(self, observation: Observation, asked: Mapping[str, str | None]) -> Decision | None:
        """The decision when an item of this id was recorded; None if there is none.

        ``InputError`` if it was another item, another call or another writer: a caller that names its writes must give
        each a different name. All that is recorded of an item is compared, but for its time.
        """
        if self._ledger.unknown([observation.id]):
            return None
        if self._ledger.state(observation.id).erased:
            raise _used_before("for an item that was erased since")
        found = self._ledger.item(observation.id)
        if principal_of(found) != principal_of(observation):
            raise _used_before("by another writer")
        if found.agent != observation.agent:
            raise _used_before("for another agent")
        _refuse_differing(_recorded_of(found), _recorded_of(observation))
        ruled = next(iter(self._ledger.events(subject=observation.id, kinds=(EventKind.RULED,), limit=1)), None)
        if ruled is None or ruled.body is None:
            return None
        decision = decision_from_body(ruled.body)
        before = ruled.body.get("asked")
        if before is not None and asked.get("tool") is None:  # only a directory's name decides how an answer counts
            before = {**before, **({"tool": None} if "tool" in before else {})}
        if before is None:  # by a version that did not note it: a delivery says to whom, if it was allowed
            before = {**asked, "receiver": self._receiver(observation.id)} if decision.allowed else asked
        _refuse_differing(before, asked)
        return decision

    def _receiver(self, item: str) -> str | None:
        """The agent to which an item was sent."""
        sent = next(iter(self._ledger.events(subject=item, kinds=(EventKind.SENT,), limit=1)), None)
        return None if sent is None or sent.body is None else sent.body.get("to")

    def _recent_reads(self, observation: Observation, stated: bool) -> RecentReads:
        """Items that the writer read lately and did not name; empty if the writer is trusted to name everything."""
        rules, trust = self._policy.influence, self._policy.trust.table()
        if not rules.infer or (stated and trust[observation.source] >= rules.believe_from):
            return RecentReads()
        recent = self._read_history.lately(observation.agent, observation.principal)
        links = tuple(item for item in recent.links if item not in observation.parents)
        if len(links) > rules.max_sources:
            found = self._ledger.items(ids=links, any_state=True, limit=None)
            links = taint.most_telling(observation, found, trust, rules.max_sources)
        return RecentReads(tuple(item for item in recent.read if item not in observation.parents), links)

    def record_outcome(
        self, what: str, agent: str, success: bool | None, rests_on: Sequence[str] | None, principal: str | None
    ) -> str:
        """Record a decision of an agent and how it went; returns its id. See ``Guard.report``."""
        limits, name = self._policy.limits, check_name(agent, "agent", printable=True)
        if not isinstance(what, str) or len(what) > limits.max_text_bytes:
            raise InputError("what", "is not text, or past limits.max_text_bytes", "Say in a sentence what was decided")
        if success is not None and not isinstance(success, bool):
            raise InputError("success", f"is {success!r}", "Give True, False or None")
        claimed: tuple[str, ...] = ()
        if rests_on is None:
            items = self._read_history.before_decision(name, principal or "")
        else:
            items = check_ids(rests_on, "rests_on", limits.max_results, "limits.max_results")
            if principal is not None:
                require_known(self._ledger, items, "rests_on")
                met = met_by(check_principal(principal), name, items, self._ledger)
                items, claimed = met, tuple(item for item in items if item not in met)
        decision = new_id("de")
        body: dict[str, Any] = {"what": what, "success": success, "rests_on": list(items)}
        body |= {"claimed": list(claimed)} if claimed else {}
        body |= {} if principal is None else {"principal": principal}
        self._ledger.append([Draft(EventKind.REPORTED, decision, name, body)])
        return decision


def _recorded_of(observation: Observation) -> dict[str, bytes]:
    """All that an item's event holds, field by field, but for who proved to be behind it (``principal_of``) and for the
    tool that answered with it, since another one may answer the same."""
    body, apart = seen_draft(observation).body, ("principal", "tool")
    return {name: orjson.dumps(body[name], option=orjson.OPT_SORT_KEYS) for name in body if name not in apart}


def _refuse_differing(before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    for field in sorted(before.keys() | now.keys()):
        if before.get(field) != now.get(field):
            raise _used_before(f"for another {field}")


def _used_before(how: str) -> InputError:
    return InputError("once", f"this name was used {how}", "Use a new name for every write")
