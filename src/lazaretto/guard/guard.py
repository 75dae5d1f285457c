"""The guard: the one object users hold. Read it first.

An item comes in (``ingest``), the gates of the policy judge it (``gates``), decision and item are recorded in one
transaction (``ledger``), and repairs change items that were held or should be (``repair``). Nothing is acknowledged
before it is recorded: while the store is away, calls raise ``StoreUnavailable``. ``Core.judge_and_record`` is the way.
Calls of people (label, release, audit) are in ``people_calls``, those before a tool is called in ``tool_calls``.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from lazaretto.actions.listing import answer_digest
from lazaretto.errors import InputError
from lazaretto.external_stores.outbox import external_write_drafts
from lazaretto.gates.engine.decision import held_without_it
from lazaretto.gates.engine.runner import GateState
from lazaretto.gates.protocol import FOR_ITS_WRITER, Gate
from lazaretto.guard.core import Core, Lifecycle
from lazaretto.guard.foresight import Rehearsals
from lazaretto.guard.old_names import OldNames
from lazaretto.guard.people_calls import IncidentBook, PeopleCalls
from lazaretto.guard.recall import Memories
from lazaretto.guard.rechecking import Rechecked
from lazaretto.guard.repairs import Repairs
from lazaretto.guard.stores import Stores
from lazaretto.guard.telemetry import Watchers, now
from lazaretto.guard.tool_calls import Approvals, ToolCalls
from lazaretto.ingest.raw_input import RawInput, channel_for, check_own_fields
from lazaretto.ingest.read_history import is_reading, principal_body
from lazaretto.ledger import Ledger
from lazaretto.names import check_name, check_principal
from lazaretto.policy import Policy
from lazaretto.types import (
    Channel,
    Decision,
    Draft,
    EventKind,
    MemoryFields,
    Observation,
    Ref,
    Ruling,
    SourceClass,
)  # fmt: skip

log = logging.getLogger("lazaretto")


class Guard(PeopleCalls, ToolCalls, Lifecycle, OldNames):
    """Watches what agents read, keep and say. Async throughout; ``SyncGuard`` is the same for synchronous code.

    The subject of a call comes first, the actor is named: ``remember(text, agent=...)``, ``label(item, "harmful",
    by=...)``. One guard may be used by many tasks, threads and event loops at once. Rarer calls are in its parts:

    - ``repairs``: plan, dry_run, apply, undo, receipts, proposals
    - ``incidents``: open ones, one by name, reports
    - ``stores``: join a store of your own, import its records, due writes
    - ``foresight``: rehearse agents before their turn
    - ``approvals``: decide about tool calls that wait
    - ``graph``: lineage, contacts, blast radius, trust of an item
    - ``ledger``: the recorded events and items; verify and export them
    - ``policy``, ``actions``: the settings, and the check before tool calls
    """

    def __init__(
        self,
        ledger: Ledger,
        policy: Policy | Mapping[str, Any] | str | Path | None = None,
        *,
        gates: Mapping[str, Gate] | None = None,
        file: str = "policy",
    ) -> None:
        """``gates`` adds ready-made gates under names that the policy may use; ``file`` is for error messages."""
        if not isinstance(ledger, Ledger):
            raise InputError("ledger", f"is {type(ledger).__name__}, not a Ledger", "Give a URL to Guard.open")
        core = self._core = Core(ledger, Policy.read(policy), gates or {}, file)
        self.ledger, self.policy, self.graph, self.actions = ledger, core.policy, core.graph, core.actions
        self.repairs = Repairs(core)
        self.incidents = IncidentBook(core)
        self.stores = Stores(core)
        self.foresight = Rehearsals(core, self.repairs, self.incidents)
        self.approvals = Approvals(core)

    @classmethod
    def open(
        cls,
        store: str | None = None,
        policy: Policy | Mapping[str, Any] | str | Path | None = None,
        namespace: str | None = None,
        *,
        gates: Mapping[str, Gate] | None = None,
    ) -> Guard:
        """A guard over the store at a URL (default: the policy's, else one SQLite file in the user's data folder).

        ``policy`` is a ``Policy``, the name of a preset (``"strict"``), a mapping with the same keys as the file, or
        the path of a TOML file.
        """
        file = str(policy) if isinstance(policy, (str, Path)) else "policy"
        rules = Policy.read(policy)
        ledger = Ledger.open(store or rules.store or None, namespace or rules.namespace)
        try:
            ledger.configure_signing(rules.record)
            return cls(ledger, rules, gates=gates, file=file)
        except BaseException:
            ledger.close()
            raise

    # calls for agents

    async def check(
        self,
        text: str | bytes = "",
        *,
        agent: str,
        channel: Channel | str | None = None,
        image: bytes | None = None,
        source: SourceClass | str | None = None,
        parents: Sequence[str] = (),
        once: str | None = None,
        principal: str | None = None,
        tool: str | None = None,
        answer: Any = None,
    ) -> Decision:
        """Judge something an agent is about to read or say, and record both. To judge without recording: ``screen``.

        A page, tool result or picture that is allowed counts as read by the agent; on the channel ``memory``, items it
        read lately count as influence, as in ``remember``. ``once`` is a name of your own for
        this call: repeated with it, after an answer that never came, it records nothing new and answers the same;
        ``InputError`` if anything of the call differs, or another writer made it.
        ``principal`` is who proved to be behind the call, for example ``key:scout``; without it, your own process
        vouches for the agent's name (``process:<agent>``).

        ``tool`` is the tool that answered with it. It is on record with the item, and no other tool of the crew's own
        changes what was noted from it where something is at stake (docs/claims.md). Where the policy names it as a
        directory, the whole values in its answer count as the crew's own before another tool is called
        (docs/actions.md); ``answer`` is the answer as data, where ``text`` has only its words.

        A text that is ruled ``rewrite`` is held, and nothing is recorded in its place: before you hand the decision's
        ``replacement`` on, ``check`` it, with ``parents=[decision.item]``.
        """
        listing = None
        if tool is None and answer is not None:
            raise InputError("answer", "is given without the tool that answered", "Give tool=, or leave it out")
        if tool is not None:
            name = check_name(tool, "tool", printable=True)
            listing = self.actions.listing(name, text if answer is None else answer)
            source = source or (SourceClass.TOOL_OUTPUT_INTERNAL if listing and not listing.speaks else None)

        def read(observation: Observation, decision: Decision) -> list[Draft]:
            if not (decision.allowed and is_reading(observation)):
                return []
            body = principal_body(observation.principal)
            known = [] if listing is None else [self.actions.listed_draft(observation.id, observation.agent, listing)]
            return [Draft(EventKind.RETRIEVED, observation.id, observation.agent, body), *known]

        digest = None if answer is None or once is None else answer_digest(answer)
        asked = {"call": "check", "tool": None if listing is None else tool, "answer": digest}
        raw = RawInput(
            agent, channel or channel_for(text, image), text, image, parents=parents, source=source, once=once,
            asked=asked, principal=principal, tool=tool,
        )  # fmt: skip
        kept = raw.channel == Channel.MEMORY  # it can be recalled, so what its writer read counts as in ``remember``
        decision = await self._core.judge_and_record(raw, read, writes=kept)
        if self.actions.follows(agent):
            await self._core.in_store_thread(self.actions.take_in, agent)
        return decision

    async def remember(
        self,
        text: str | bytes = "",
        *,
        agent: str,
        image: bytes | None = None,
        fields: MemoryFields | Mapping[str, Any] | None = None,
        source: SourceClass | str | None = None,
        parents: Sequence[str] | None = None,
        key: str | None = None,
        once: str | None = None,
        ref: Ref | Sequence[str] | None = None,
        value: Any = None,
        principal: str | None = None,
    ) -> Decision:
        """Judge and keep a memory. Items the agent read lately count as influence beside the ``parents`` it names.

        ``parents=[...]`` says that nothing else was used; that is believed of sources the policy trusts enough
        (``influence.believe_from``). ``key`` is the name under which a store of your own keeps it; the policy says who
        may write protected ones. ``once``, ``principal``: as in ``check``.

        ``ref`` says where that store keeps it: (system, namespace, key). Write it there when it is allowed; repairs
        follow it there (``guard.stores.join``). ``value`` is the stored JSON data, and takes the place of
        ``text``.

        A text that is ruled ``rewrite`` stays held, and its ``replacement`` is judged and kept as a memory of its own,
        made from it, without ``fields``: ``decision.kept``. Not so beside a picture, and with ``ref`` or ``value``,
        where you write to your own store: call it again for what you write there, with ``parents=[decision.item]``.
        """
        check_own_fields(fields)
        raw = RawInput(
            agent, Channel.MEMORY, text, image, fields, parents=parents or (), source=source, key=key, once=once,
            ref=ref, value=value, asked={"call": "remember"}, principal=principal,
        )  # fmt: skip
        made = await self._core.judge_and_record(raw, external_write_drafts, writes=True, stated=parents is not None)
        return made if ref is not None or value is not None else await self._keep_the_replacement(raw, made)

    async def _keep_the_replacement(self, raw: RawInput, made: Decision) -> Decision:
        """The decision, with the memory that took the place of a text that has to be rewritten."""
        quotes_others = made.rule.partition(":")[2] in FOR_ITS_WRITER
        if made.ruling is not Ruling.REWRITE or not made.replacement or raw.image is not None or quotes_others:
            return made
        once = None if raw.once is None else f"kept:{hashlib.sha256(raw.once.encode()).hexdigest()}"
        parents = tuple(dict.fromkeys((*raw.parents, made.item)))
        instead = replace(raw, text=made.replacement, fields=None, parents=parents, once=once)
        kept = await self._core.judge_and_record(instead, external_write_drafts, writes=True)
        if not kept.allowed:
            log.warning("%s", held_without_it(made, kept))
        return replace(made, kept=kept.item if kept.allowed else "")

    async def recall(
        self,
        query: str | None = None,
        *,
        agent: str,
        items: Sequence[str | Ref] | None = None,
        limit: int = 5,
        min_trust: float = 0.0,
        principal: str | None = None,
    ) -> Memories:
        """Memories the agent may use, and a record that it read them. ``principal``: as in ``check``.

        ``query``: the best matches, best first. ``items``: these ids, or refs into your own stores, in your order;
        refs that nobody recorded are in the answer's ``unknown``. Neither: the newest. Held, superseded and erased
        memories are left out, and memories trusted less than ``min_trust`` (trust is at most that of the least
        trusted item in the lineage).
        """
        reader = check_name(agent, "agent", printable=True)
        self._core.recaller.check(limit, min_trust)
        began = now()
        body = principal_body(None if principal is None else check_principal(principal))
        found = await self._core.in_store_thread(
            self._core.recaller.recall, reader, query, items, limit, float(min_trust), body
        )
        self._core.watchers.tell("recalled", self.ledger.namespace, reader, [memory.id for memory in found], began)
        return found

    async def search(self, query: str, *, limit: int = 20) -> tuple[Observation, ...]:
        """Memories that may be used, by words and by meaning, best first: for people. Nothing is recorded as read."""
        self._core.recaller.check(limit, 0.0)
        found = await self._core.in_store_thread(self._core.recaller.search, query, limit)
        return tuple(memory for memory, _ in found)

    async def exchange(
        self,
        text: str | bytes = "",
        *,
        sender: str,
        receiver: str,
        image: bytes | None = None,
        source: SourceClass | str | None = None,
        parents: Sequence[str] | None = None,
        once: str | None = None,
        principal: str | None = None,
    ) -> Decision:
        """Judge a message or picture from one agent to another; it counts as delivered only when it is allowed.

        Items the sender read lately count as influence, as in ``remember``. ``once``, ``principal``: as in ``check``.
        After ``rewrite`` nothing is delivered: send the decision's ``replacement``, with ``parents=[decision.item]``.
        """
        to = check_name(receiver, "receiver", printable=True)

        def sent(observation: Observation, decision: Decision) -> list[Draft]:
            body = {"to": to, **principal_body(observation.principal)}
            return [Draft(EventKind.SENT, observation.id, sender, body)] if decision.allowed else []

        raw = RawInput(
            sender, channel_for(text, image), text, image, parents=parents or (), source=source, once=once,
            asked={"call": "exchange", "receiver": to}, principal=principal,
        )  # fmt: skip
        return await self._core.judge_and_record(raw, sent, writes=True, stated=parents is not None)

    async def screen(
        self,
        text: str | bytes = "",
        *,
        agent: str = "unknown",
        channel: Channel | str = Channel.MEMORY,
        image: bytes | None = None,
        fields: MemoryFields | Mapping[str, Any] | None = None,
        source: SourceClass | str | None = None,
        key: str | None = None,
        principal: str | None = None,
    ) -> Decision:
        """The gates' decision. Nothing is recorded: the item can neither be recalled nor traced nor disputed."""
        raw = RawInput(agent, channel, text, image, fields, source=source, key=key, principal=principal)
        return await self._core.judge(raw)

    async def report(
        self,
        what: str,
        *,
        agent: str,
        success: bool | None = None,
        rests_on: Sequence[str] | None = None,
        principal: str | None = None,
    ) -> str:
        """Record a decision of an agent and how it went; returns the decision's id.

        Without ``rests_on``, the items the agent read since its last decision count. ``principal``: as in ``check``.
        With another principal than your own process, items in ``rests_on`` that the agent neither read nor wrote are
        recorded as claimed, and change no trust.
        """
        record = self._core.recorder.record_outcome
        return await self._core.in_store_thread(record, what, agent, success, rests_on, principal)

    # looking again

    async def recheck(self, *, limit: int | None = None, news: int = 1) -> Rechecked:
        """Judge memories again, up to ``limit`` of them (default: the policy's): release clean ones, hold missed ones
        with the items made from them, and propose repairs of the rest (``repair.automatic``,
        ``repairs.proposals``). Call again while ``left`` is above 0. Labels and repairs since the last call become
        cases of the debate.

        Nothing is looked at until there were ``news`` (memories, outcomes, labels) since the last pass. A person's
        label is never overturned.
        """
        return await self._core.recheck(self.policy.review.limit if limit is None else limit, news)

    def gates(self) -> tuple[GateState, ...]:
        """Every gate that the policy names: on which channels it is asked, and whether it is there."""
        return self._core.gates.states()

    @property
    def watchers(self) -> Watchers:
        """The watchers; each is notified of every decision, recall, repair and undone repair."""
        return self._core.watchers
