"""Writes an item to the ledger: with its ruling, the items it rests on and its further events, whole or not at all.

An item rests on those it was made from, those its writer had read and those it repeats. Their state at that moment
counts: when one is held or released while the item is written, or the item's record gets another owner, the ruling is
made again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from lazaretto.errors import InputError, StaleState, StoreUnavailable
from lazaretto.gates.engine.decision import decision_from_body, ruling_body, with_verdict
from lazaretto.gates.memory.claims import consequences
from lazaretto.ingest.read_history import ReadHistory, RecentReads, principal_body
from lazaretto.ledger import Ledger
from lazaretto.ledger.refs import SeenRecord
from lazaretto.ledger.vectors import ClaimRow
from lazaretto.policy import Policy
from lazaretto.provenance import echoes, taint
from lazaretto.provenance.held_index import HeldIndex
from lazaretto.types import Decision, Draft, EventKind, Observation, Ruling, Verdict, principal_of

_TRIES = 10
"""How often the items that an item rests on may change while it is recorded."""
FollowUps = Callable[[Observation, Decision], list[Draft]]
"""Gives further events of an item besides its ruling; they are recorded with it or not at all."""
RuleForOwner = Callable[[Observation], tuple[Verdict | None, SeenRecord]]
"""The ruling for the owner of an item's record, with the record as it was seen."""


class Recorder:
    """Writes judged items to the ledger, and knows what its writers had read. Every call blocks."""

    def __init__(
        self,
        ledger: Ledger,
        policy: Policy,
        teach: Callable[[Observation, Ruling, tuple[Verdict, ...]], None],
        claims_of: Callable[[Observation], Sequence[ClaimRow]],
    ) -> None:
        """``teach`` passes the outcome of an item on to the gates that learn; ``claims_of``: the claims they read."""
        self._ledger, self._policy, self._teach, self._claims_of = ledger, policy, teach, claims_of
        rules = policy.influence
        self._read_history = ReadHistory(
            ledger, messages=rules.messages, window_s=rules.window_s, max_sources=rules.max_sources
        )
        self._held = HeldIndex(ledger)

    def record(
        self,
        observation: Observation,
        decided: Decision,
        recent_reads: RecentReads,
        follow_ups: FollowUps,
        rule_for_owner: RuleForOwner,
    ) -> Decision:
        """Write an item and its ruling to the ledger. The ruling may become stricter: because of the items it rests on,
        and because of the owner of its record."""
        taint_ruling, trust = self._policy.taint.ruling, self._policy.trust.table()
        for _ in range(_TRIES):
            echoed = () if taint_ruling is Ruling.ALLOW else echoes.echoed(observation, self._ledger, trust)
            rests_on = {*observation.parents, *recent_reads.links, *echoed}
            taint_verdict, states = taint.on_writing(
                observation, recent_reads.read, self._held, taint_ruling, echoed, rests_on
            )
            owner_verdict, seen_record = rule_for_owner(observation)
            decision = with_verdict(with_verdict(decided, owner_verdict), taint_verdict)
            if self._policy.mode == "observe":
                decision = replace(decision, ruling=Ruling.ALLOW, would=decision.ruling)
            drafts = [Draft(EventKind.RULED, observation.id, body=ruling_body(decision))]
            if recent_reads.links:
                body = {"sources": list(recent_reads.links), **principal_body(observation.principal)}
                drafts.append(Draft(EventKind.INFLUENCED, observation.id, observation.agent, body))
            drafts += echoes.links(observation.id, echoed)
            if taint_verdict is not None and taint_verdict.ruling > Ruling.WARN:
                drafts += echoes.marks([observation])
            drafts += [*follow_ups(observation, decision), *consequences.follow_ups(decision)]
            try:
                claims = self._claims_of(observation)
                self._ledger.append_item(observation, drafts, states=states, claims=claims, record=seen_record)
            except StaleState:
                continue  # something that it rests on was held or released in between, or its record was written
            except InputError as error:
                before = self.earlier_decision(observation) if error.field == "id" else None
                if before is None:
                    raise
                return before  # the same call, sent twice, arrived a moment earlier
            verdicts = decision.active_verdicts
            if verdicts:  # a ruling that only stands for a broken gate teaches nothing about the item
                self._teach(observation, max(v.ruling for v in verdicts), verdicts)
            return decision
        raise StoreUnavailable(
            f"the items that {observation.id} rests on or its record keep changing; nothing was recorded, try again"
        )

    def earlier_decision(self, observation: Observation) -> Decision | None:
        """The decision when an item of this id was recorded; None if there is none.

        ``InputError`` if it was another item: a caller that names its writes must give each a different name.
        """
        if self._ledger.unknown([observation.id]):
            return None
        found = self._ledger.item(observation.id)
        if principal_of(found) != principal_of(observation):
            raise InputError("once", "this name was used by another writer", "Use a new name for every write")
        for field in ("agent", "channel", "source", "text", "image", "fields", "parents"):
            if getattr(found, field) != getattr(observation, field):
                raise InputError("once", f"this name was used for another {field}", "Use a new name for every write")
        ruled = next(iter(self._ledger.events(subject=observation.id, kinds=(EventKind.RULED,), limit=1)), None)
        return None if ruled is None or ruled.body is None else decision_from_body(ruled.body)

    def recent_reads(self, observation: Observation, stated: bool) -> RecentReads:
        """Items that the writer read lately and did not name; empty if the writer is trusted to name everything."""
        rules, trust = self._policy.influence, self._policy.trust.table()
        if not rules.infer or (stated and trust[observation.source] >= rules.believe_from):
            return RecentReads()
        recent = self._read_history.lately(observation.agent, observation.principal)
        links = tuple(item for item in recent.links if item not in observation.parents)
        if len(links) > rules.max_sources:
            found = self._ledger.items(ids=links, hidden=True, limit=None)
            links = taint.most_telling(observation, found, trust, rules.max_sources)
        return RecentReads(tuple(item for item in recent.read if item not in observation.parents), links)

    def before_decision(self, agent: str) -> tuple[str, ...]:
        """Items that the agent read since its last reported decision, as many as the policy lets count."""
        return self._read_history.before_decision(agent)
