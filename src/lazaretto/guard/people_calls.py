"""Calls for people: incidents, waiting items, decisions, disputes, erasure."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Coroutine, Sequence
from typing import TYPE_CHECKING, Any, Literal

from lazaretto.errors import InputError, NotYours, RepairRefused
from lazaretto.guard.core import MAX_REASON, Core
from lazaretto.guard.repairs import Repairs
from lazaretto.identity import Identity, check_person
from lazaretto.incidents.records import HeldItem, Incident, State
from lazaretto.ingest.raw_input import read_text
from lazaretto.learn.lessons import SCREENED, ContactQueue
from lazaretto.learn.withdrawals import LISTED, LabelDecision, Withdrawal
from lazaretto.names import check_name, warn_old_name
from lazaretto.provenance.suspects import Suspect, suspects
from lazaretto.provenance.to_erase import to_erase
from lazaretto.types import Draft, Event, EventKind, Observation, Receipt

if TYPE_CHECKING:
    from lazaretto.gates.content.gate import ContentGate


class PeopleCalls:
    """The guard's calls for people."""

    _core: Core
    repairs: Repairs
    _content_gate: ContentGate | None = None
    """Made when an audit is first asked for; its panel holds the debates."""

    async def held(self, *, limit: int | None = None) -> tuple[HeldItem, ...]:
        """Items that wait for a person, disputed rulings first; ``release`` and ``label`` settle them."""
        return await self._core.in_store_thread(functools.partial(self._core.incidents.held, limit=limit))

    async def release(
        self, item: str, *, reason: str = "", descendants: bool = False, by: str = "", caller: Identity | None = None
    ) -> Receipt:
        """Bring a held item back, and copies of it that wait, as ``label`` does: plan and apply in one call.

        ``by``: the person, kept with the reason; ``caller``: as in ``repairs.apply``. ``NotYours`` where either would
        release something of its own; a copy of its own waits for others.
        """
        person = check_person(by) if by else ""
        why = f"{reason} (released by {person})".strip() if person else reason
        options: dict[str, Any] = {"reason": why, "descendants": descendants}
        seen = check_name(item, "item", printable=True)
        copies = await self._core.in_store_thread(self._core.copies_of, seen, person, caller)
        if copies:
            with contextlib.suppress(NotYours, RepairRefused):  # items made from them may be their own, or too many
                plan = await self.repairs.plan(item, "release", copies=copies, **options)
                return await self.repairs.apply(plan, by=person, caller=caller)
        plan = await self.repairs.plan(item, "release", **options)
        return await self.repairs.apply(plan, by=person, caller=caller)

    async def label(
        self, item: str, label: Literal["harmful", "benign"], *, by: str, caller: Identity | None = None
    ) -> Event:
        """Label an item as harmful or benign. Harmful items are held at once, benign ones released.

        Copies of it that wait for a label get the same one (``copies`` in the event's body): benign ones from sources
        that are trusted as much or more, harmful ones from those trusted as little or less.

        Items made from a harmful item are held with it; the next ``recheck`` proposes repairs of the rest, as it does
        after a finding of its own.

        ``NotYours`` if ``by``, or the ``caller`` of a server, would clear an item it wrote itself.
        """
        person = check_person(by)
        event = await self._core.in_store_thread(self._core.labels.label, item, label, person, caller)
        await self._core.outbox.write_back()
        return event

    async def labels(self, *, limit: int = LISTED) -> tuple[LabelDecision, ...]:
        """People's labels (harmful or benign), the newest first, each with the number that takes it back."""
        return await self._core.in_store_thread(self._core.withdrawals.decisions, limit)

    async def unlabel(self, decision: int, *, by: str, caller: Identity | None = None) -> Withdrawal:
        """Take back a label: items and block list are as before it, and it counts for nothing any more. Changes that
        cannot be undone are named in ``left`` and ``notes``.

        ``RepairRefused`` if it was taken back already, another decision about the item was made since, or the item
        was erased. ``NotYours`` if ``by`` or ``caller`` would take back a label *harmful* on an item of its own.
        """
        person = check_person(by)
        done = await self._core.in_store_thread(self._core.withdrawals.withdraw, decision, person, caller)
        await self._core.outbox.write_back()
        return done

    async def settle(self, keep: str, *, over: str, by: str, caller: Identity | None = None) -> None:
        """Decide between two items that contradict each other: ``keep`` is believed and replaces ``over``.

        Called the other way round, it takes the decision back.
        """
        person = check_person(by)
        await self._core.in_store_thread(self._core.labels.settle, keep, over, person, caller)

    async def appeal(self, item: str, reason: str, *, by: str) -> Event:
        """Record that the ruling on an item is disputed; it stays until a person labels or releases the item."""
        words, person = read_text(reason, MAX_REASON), check_person(by)
        return await self._core.in_store_thread(self._core.labels.appeal, item, words, person)

    async def audit(self, text: str = "", *, image: bytes | None = None, description: str = "") -> dict[str, Any]:
        """Have a text, a picture or both judged by debate, with reasons and precedents. Nothing is recorded.

        ``description`` describes the picture in words, if you know it. A person's decision on the same content is the
        report's outcome.
        """
        from lazaretto.gates.content.debate import hold_debate, report_data
        from lazaretto.gates.content.gate import make
        from lazaretto.gates.content.people import with_peoples_word
        from lazaretto.gates.content.records import Content

        core = self._core
        core.require_open()
        if not text.strip() and image is None and not description.strip():
            raise InputError("text", "there is nothing to judge", "Give text, image or both")
        gate = self._content_gate = self._content_gate or make(core.policy.gates.get("content", {}))
        panel = await core.in_store_thread(gate.panel_for, core.ledger, core.policy.limits)
        content = Content("item", text, image, description)
        report = report_data(await hold_debate(panel, content, gate.settings.debate))
        return await core.in_store_thread(with_peoples_word, report, content, core.ledger, core.graph, core.policy)

    async def to_erase(self, item: str = "", *, agent: str = "", descendants: bool = False) -> tuple[str, ...]:
        """Ids of an item, or of all that an agent wrote and reported, whose content is still there; with
        ``descendants`` also of what was made from them. Changes nothing: ``erase`` takes the ids one by one."""
        check_name(item, "item", empty=True)
        check_name(agent, "agent", empty=True)
        work = functools.partial(to_erase, agent=agent, descendants=descendants)
        return await self._core.in_store_thread(work, self._core.ledger, self._core.graph, item)

    async def erase(self, item: str, *, reason: str, by: str = "") -> Event:
        """Remove the content of an item or a decision for good; that it was there, why it went and ``by`` whom stays
        recorded. Its record in a joined store goes first (``stores.join``); if that store cannot be reached, nothing is
        erased."""
        person, outbox = check_person(by) if by else "", self._core.outbox
        found = await self._core.in_store_thread(self._recorded, check_name(item, "item"))
        if found is not None:
            await outbox.take_out(found)

        def work() -> Event:
            from lazaretto.cases.casebook import erase_cases_of_erased  # and the library with it

            event = self._core.ledger.erase(item, reason, by=person)
            erase_cases_of_erased(self._core.ledger)
            return event

        event = await self._core.in_store_thread(work)
        if found is not None and found.ref is not None:
            await outbox.restore(found.ref)
        return event

    def _recorded(self, item: str) -> Observation | None:
        """An item with its content; None for a decision, and for one that is not known."""
        return next(iter(self._core.ledger.items(ids=[item], any_state=True, limit=None)), None)


# Incidents: findings, items that wait for a person, and agents to look at next.


class IncidentBook:
    """``guard.incidents``: findings, grouped, and agents and items to look at."""

    def __init__(self, core: Core) -> None:
        """Part of the guard with this core."""
        self._core = core
        self._contacts = ContactQueue(core.ledger, core.graph)

    async def all(self, state: State | None = None, *, limit: int | None = None) -> tuple[Incident, ...]:
        """Incidents: findings that belong together are one. The newest first; ``state`` keeps some."""
        return await self._core.in_store_thread(functools.partial(self._core.incidents.all, state, limit=limit))

    async def open(self, *, limit: int | None = None) -> tuple[Incident, ...]:
        """Incidents that nobody has settled yet, the newest first."""
        return await self.all("open", limit=limit)

    async def one(self, name: str) -> Incident:
        """One incident by its id, or by the id of an item that was found in it."""
        return await self._core.in_store_thread(self._core.incidents.one, check_name(name, "incident", printable=True))

    async def suspects(self, *, limit: int = 10) -> tuple[Suspect, ...]:
        """Items behind decisions that failed more often than chance lets them, the strongest suspicion first."""
        if (
            isinstance(limit, bool)
            or not isinstance(limit, int)
            or not 1 <= limit <= self._core.policy.limits.max_results
        ):
            raise InputError("limit", f"is {limit!r}", f"Give 1 to {self._core.policy.limits.max_results}")
        return await self._core.in_store_thread(suspects, self._core.ledger, self._core.graph, limit)

    async def contacts(self) -> tuple[str, ...]:
        """Agents that held or read a finding since they were last screened: holders first, the newest first."""
        return await self._core.in_store_thread(self._contacts.due)

    async def note_screened(self, agents: Sequence[str]) -> None:
        """Record that agents were looked at: they leave the queue until they meet something that is found."""
        names = [check_name(agent, "agents", printable=True) for agent in agents]
        if names:
            body = {"what": SCREENED, "agents": names}
            await self._core.append(Draft(EventKind.NOTED, SCREENED, body=body))

    def __call__(
        self, state: State | None = None, *, limit: int | None = None
    ) -> Coroutine[Any, Any, tuple[Incident, ...]]:
        """The old name of ``all``."""
        warn_old_name("guard.incidents()", "guard.incidents.all()")
        return self.all(state, limit=limit)
