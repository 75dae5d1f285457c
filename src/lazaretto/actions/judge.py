"""The judgement itself: a pure function of a call, the policy and the items the agent has in mind."""

from __future__ import annotations

import fnmatch
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from lazaretto.actions.call_log import CONTROL, LIMITS, MOST_AGREED, AgentView, PeopleAnswers
from lazaretto.actions.classes import Tool
from lazaretto.actions.known_claims import KnownClaims, Name, Text
from lazaretto.actions.mind import Known
from lazaretto.actions.records import (
    ANSWERS,
    ActionClass,
    ActionSettings,
    Answer,
    Control,
    Found,
    Needs,
    ValueKind,
    ValueOrigin,
)
from lazaretto.actions.values import (
    MOST_VALUES,
    SHOWN,
    ArgumentValue,
    Leaf,
    account_form,
    asks_for,
    fingerprint,
    hands_over,
    host_of,
    is_mail,
    looks_like,
    value_form,
)
from lazaretto.types import SourceClass

_TOOLS = (SourceClass.TOOL_OUTPUT_INTERNAL, SourceClass.TOOL_OUTPUT_EXTERNAL)


@dataclass(frozen=True, slots=True)
class Call:
    """One call, read."""

    tool: Tool
    action: ActionClass
    values: Sequence[ArgumentValue]
    marks: Sequence[str]
    """Fingerprints of the values."""
    rest: Sequence[Leaf]
    """Everything besides the destinations, as it stands."""
    products: Sequence[float] = ()
    """Prices, each times the number of pieces beside it."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """The result for a call."""

    ruling: Answer
    reasons: tuple[str, ...]
    control: Control
    origins: tuple[ValueOrigin, ...]
    marks: Sequence[str] = ()
    """Fingerprints of the values whose origins these are."""
    lacks: tuple[str, ...] = ()
    """The missing requirements: fingerprints of values, and ``CONTROL`` and ``LIMITS``."""
    destinations: Mapping[str, str] = field(default_factory=dict)
    """Destinations among the values that lack trust, by fingerprint: a yes covers these."""


class Judge:
    """Judges calls by one policy. Knows nothing of the store."""

    def __init__(self, settings: ActionSettings, own_trust: float, namespace: str) -> None:
        """``own_trust``: the trust of values that a model made up by itself."""
        self._settings, self._own_trust, self._namespace = settings, own_trust, namespace

    def judge(self, call: Call, view: AgentView, answers: PeopleAnswers, known: KnownClaims) -> Judgement:
        """May this be called now, with the items in mind?"""
        tool, action, values = call.tool, call.action, call.values
        needs = self._settings.needs(action)
        looked, marks = values[:MOST_VALUES], call.marks[:MOST_VALUES]
        found = [
            self._origin(value, mark, needs.of(value.kind), view, answers)
            for value, mark in zip(looked, marks, strict=True)
        ]
        origins, agreed = self._agreed_to(call, found, needs, view, answers)
        control = self._control(tool, action, needs, view)
        if action is ActionClass.FETCH:
            control = _asked_there(origins, needs) or _stands_somewhere(control, origins)
        elif action is ActionClass.SEND and not control.enough:
            control = self._handed_over(control, origins, view)
        if action is ActionClass.READ:
            return Judgement("allow", (), control, origins, marks)
        lacking = [] if control.enough else [control.why]
        lacking += [self._why(origin, view) for origin in origins if not origin.enough]
        if not lacking and needs.control > 0 and action is not ActionClass.FETCH:
            origins, lacking = self._held_to_claims(call, origins, needs, view, answers, known)
        past = self._past_limits(call, needs, view)
        ruling: Answer = "allow"
        if lacking:
            ruling = needs.below
        if past:
            ruling = max(ruling, "ask", key=ANSWERS.index)
        if ruling == "allow":
            return Judgement(ruling, agreed, control, origins, marks)
        lacks = [] if control.enough else [CONTROL]
        lacks += [mark for mark, origin in zip(marks, origins, strict=True) if not origin.enough]
        lacks += [LIMITS] if past else []
        parts = Counter(value.argument for value in looked)
        there = [
            (mark, value.value)
            for value, mark, origin in zip(looked, marks, origins, strict=True)
            if _short(origin, action, needs) and parts[value.argument] == 1 and len(value.value) <= SHOWN
        ]  # not a part of a longer text: agreeing to that is not agreeing to go there
        destinations = dict(there[:MOST_AGREED])
        if action is ActionClass.FETCH:
            lacks += destinations
        return Judgement(ruling, (*lacking, *past), control, origins, marks, tuple(dict.fromkeys(lacks)), destinations)

    def _agreed_to(
        self, call: Call, origins: Sequence[ValueOrigin], needs: Needs, view: AgentView, answers: PeopleAnswers
    ) -> tuple[tuple[ValueOrigin, ...], tuple[str, ...]]:
        """The origins, with those marked that a person agreed to in another call of this task; and reasons for these.
        Amounts, and words that nobody trusted wrote, are never agreed to with a destination."""
        found, why = list(origins), []
        least = max(needs.control, needs.destination)
        for place, (mark, origin) in enumerate(zip(call.marks, origins, strict=False)):
            if not _short(origin, call.action, needs) or origin.trust <= 0.0:  # held by now: not what was agreed to
                continue
            yes = answers.agreed(mark)
            if yes is None or not all(self._stands_by_itself(leaf, view, least) for leaf in call.rest):
                continue
            found[place] = replace(origin, found="agreed", trust=1.0)
            why.append(f"{yes.by} agreed to {origin.argument} = {origin.value!r} in this task ({yes.receipt})")
        return tuple(found), tuple(why)

    def _stands_by_itself(self, leaf: Leaf, view: AgentView, least: float) -> bool:
        """Whether something that is trusted enough has these very words."""
        if not leaf.plain:
            return False
        value = ArgumentValue(leaf.place, ValueKind.NAME, leaf.text)
        best = self._found(value, view, fingerprint(self._namespace, leaf.text))
        return best is not None and best[1] >= least

    # who wanted it

    def _control(self, tool: Tool, action: ActionClass, needs: Needs, view: AgentView) -> Control:
        trust, lowest = view.mind.least_trusted()
        item, path = (lowest.id, lowest.path) if lowest is not None else ("", ())
        if trust >= needs.control:
            why = "everything in mind is trusted enough" if lowest is not None else "nothing was read"
            return Control(trust, needs.control, why, item, path)
        planned = view.task.tools if view.task is not None else ()
        for asked in view.mind.requests(needs.control):
            is_task = view.task is not None and asked.id == view.task.item
            if planned and is_task and any(fnmatch.fnmatchcase(tool.name, pattern) for pattern in planned):
                return Control(
                    view.mind.trust_of(asked), needs.control, "the task names this tool", asked.id, asked.path
                )
            if planned and is_task:
                continue
            if word := asks_for(asked.raw_text, tool.name, action):
                return Control(
                    view.mind.trust_of(asked), needs.control, f"a person asked to {word!r}", asked.id, asked.path, True
                )
        if lowest is None:
            why = f"nothing that {tool.name} could rest on was read through the guard (trust {trust:.1f})"
        else:
            source = lowest.source.value.replace("_", " ")
            why = f"no person asked for {action.value}, and {lowest.id} is in mind ({source}, trust {trust:.1f})"
        return Control(trust, needs.control, why, item, path)

    @staticmethod
    def _handed_over(control: Control, origins: Sequence[ValueOrigin], view: AgentView) -> Control:
        """A task that asks to follow a text carries a message only to people whom the task names itself: whom
        the text chooses is for a person to decide."""
        there = [origin for origin in origins if origin.kind is ValueKind.DESTINATION]
        if view.task is None or view.task.tools or not there:
            return control
        if not all(origin.found == "task" and origin.enough for origin in there):
            return control
        for asked in view.mind.requests(control.needed):
            if asked.id == view.task.item and (words := hands_over(asked.raw_text)):
                why = f"a person asked to {words!r} and named {there[0].argument}"
                return Control(view.mind.trust_of(asked), control.needed, why, asked.id, asked.path, True)
        return control

    # where a value comes from

    def _origin(
        self, value: ArgumentValue, mark: str, needed: float, view: AgentView, answers: PeopleAnswers
    ) -> ValueOrigin:
        shown = value.value[:SHOWN]
        if value.kind in (ValueKind.DESTINATION, ValueKind.LINK) and self.listed(value.value):
            return ValueOrigin(value.argument, value.kind, shown, "listed", 1.0, needed)
        best = self._found(value, view, mark)
        lowest = min(view.mind.least_trusted()[0], self._own_trust)
        origin = ValueOrigin(value.argument, value.kind, shown, "nowhere", lowest, needed)
        if best is not None:
            known, trust, how = best
            is_task = view.task is not None and known.id == view.task.item
            found: Found = "task" if is_task and how == "read" else how
            origin = ValueOrigin(value.argument, value.kind, shown, found, trust, needed, known.id, known.path)
        if origin.found == "directory" and value.kind is ValueKind.NAME and needed > 0:
            speaker = view.mind.spoken_for(value.value, mark, needed, partial(self._repeats, view, mark))
            if speaker is not None:
                trust = view.mind.trust_in_words(speaker)
                origin = ValueOrigin(
                    value.argument, value.kind, shown, "spoken for", trust, needed, speaker.id, speaker.path
                )
        if not origin.enough and answers.endorsed(mark):
            return ValueOrigin(value.argument, value.kind, shown, "endorsed", 1.0, needed, origin.item, origin.path)
        return origin

    def _found(self, value: ArgumentValue, view: AgentView, mark: str) -> tuple[Known, float, Found] | None:
        """The most trusted item that names a value, how far it is trusted there, and how it stands in it."""
        if value.number is not None:
            candidates = view.mind.find_number(value.number)
        else:
            candidates = view.mind.find(value_form(value.value), account_form(value.value))
        best: tuple[Known, float, Found] | None = None
        for known in [*candidates, *view.mind.listed_in(mark)]:
            trust, how = self._trust_there(known, view, mark)
            if best is None or trust > best[1]:
                best = (known, trust, how)
        return best

    def _trust_there(self, known: Known, view: AgentView, mark: str) -> tuple[float, Found]:
        trust = view.mind.trust_of(known)
        how: Found = "read"
        if (listed := view.mind.trust_of_listed(known, mark)) is not None:
            trust, how = listed, "directory"
        if known.source in _TOOLS and (echoed := view.repeated(mark, known.id, known.time)) < trust:
            return echoed, "repeated"
        return trust, how

    def _held_to_claims(
        self,
        call: Call,
        origins: Sequence[ValueOrigin],
        needs: Needs,
        view: AgentView,
        answers: PeopleAnswers,
        known: KnownClaims,
    ) -> tuple[tuple[ValueOrigin, ...], list[str]]:
        """The origins, with those marked that a trusted statement contradicts, and the reasons for these."""
        values = call.values[:MOST_VALUES]
        found, why, looked_up = list(origins), [], dict[Name, dict[str, Text]]()
        for place, (value, mark, origin) in enumerate(zip(values, call.marks, origins, strict=False)):
            if not origin.enough or origin.found in ("listed", "endorsed", "nowhere"):
                continue
            other = known.against(value, origin, values, view, needs.control, looked_up)
            if other is None or answers.endorsed(mark):
                continue
            found[place] = replace(origin, against=other.item)
            why.append(
                f"{origin.argument} = {origin.value!r} is another than {other.item} says (trust {other.trust:.1f}): "
                f"{other.says!r}"
            )
        return tuple(found), why

    @staticmethod
    def _repeats(view: AgentView, mark: str, known: Known) -> bool:
        """Whether a tool's answer only repeats a value that it was called with."""
        return known.source in _TOOLS and view.repeated(mark, known.id, known.time) < 1.0

    def listed(self, value: str) -> bool:
        """Whether the policy lists a destination: as it stands, or by the host that it leads to."""
        form, account = value_form(value), account_form(value)
        return any(_matches(value, form, account, pattern) for pattern in self._settings.known_destinations)

    def _why(self, origin: ValueOrigin, view: AgentView) -> str:
        what = f"{origin.argument} = {origin.value!r}"
        if like := self._taken_for(origin, view):
            return f"{what} looks like {like!r}, which is another {origin.kind.value}"
        if origin.found == "nowhere":
            return f"{what} was found in nothing that was read: the model's own (trust {origin.trust:.1f})"
        if origin.found == "repeated":
            return (
                f"{what} was handed out by the crew itself before {origin.item} repeated it (trust {origin.trust:.1f})"
            )
        if origin.found == "spoken for":
            return (
                f"{what} is one of several that a directory lists, and {origin.item} speaks for it "
                f"(trust {origin.trust:.1f}); no person named it"
            )
        end = origin.path[-1] if origin.path else origin.item
        return f"{what} is named only by {origin.item} (trust {origin.trust:.1f}, set by {end})"

    def _taken_for(self, origin: ValueOrigin, view: AgentView) -> str:
        """A listed or trusted destination that a reader would take a value for."""
        if origin.kind not in (ValueKind.DESTINATION, ValueKind.LINK):
            return ""
        mine, form = looks_like(origin.value), value_form(origin.value)
        listed = (known for known in self._settings.known_destinations if looks_like(known) == mine)
        alike = (*listed, *view.mind.that_look_like(origin.value, origin.needed))
        return next((other for other in alike if value_form(other) != form), "")

    # limits

    def _past_limits(self, call: Call, needs: Needs, view: AgentView) -> list[str]:
        past, action, values = list[str](), call.action, call.values
        amounts = [*_sums(values), *call.products]
        if needs.max_amount and any(abs(amount) > needs.max_amount for amount in amounts):
            past.append(f"the amount {max(amounts, key=abs):g} is above actions.{action.value}.max_amount")
        if needs.max_amount and any(value.kind is ValueKind.AMOUNT and value.number is None for value in values):
            past.append("an amount cannot be read as a number")
        if needs.max_per_hour and view.calls_in_last_hour(action.value) >= needs.max_per_hour:
            past.append(f"{needs.max_per_hour} calls in an hour are made (actions.{action.value}.max_per_hour)")
        there = {value_form(value.value) for value in values if value.kind is ValueKind.DESTINATION}
        if needs.max_recipients and len(there) > needs.max_recipients:
            past.append(f"{len(there)} destinations are more than actions.{action.value}.max_recipients")
        if len(values) > MOST_VALUES:
            past.append(f"more than {MOST_VALUES} values: too many to look for")
        return past


def _last_name(place: str) -> str:
    """The name that a value goes by: ``lines[3].price`` is a price."""
    while place.endswith("]") and "[" in place:
        place = place[: place.rindex("[")]
    return place.rpartition(".")[2]


def _sums(values: Sequence[ArgumentValue]) -> list[float]:
    """The amounts of a call; those that go by one name together, wherever they stand."""
    found: dict[str, float] = {}
    for value in values:
        if value.kind is ValueKind.AMOUNT and value.number is not None:
            name = _last_name(value.argument)
            found[name] = found.get(name, 0.0) + abs(value.number)
    return [*found.values()]


def _short(origin: ValueOrigin, action: ActionClass, needs: Needs) -> bool:
    """Whether a destination is trusted less than the call needs; where pages are read, control asks for it."""
    needed = needs.control if action is ActionClass.FETCH else origin.needed
    return origin.kind is ValueKind.DESTINATION and origin.trust < needed


def _asked_there(origins: Sequence[ValueOrigin], needs: Needs) -> Control | None:
    """Control of a fetch whose page is named by the task or another trusted item: the one that named it."""
    there = [origin for origin in origins if origin.kind is ValueKind.DESTINATION]
    if not there or any(origin.trust < needs.control for origin in there):
        return None
    lowest = min(there, key=lambda origin: origin.trust)
    return Control(lowest.trust, needs.control, f"{lowest.argument} is trusted", lowest.item, lowest.path)


def _stands_somewhere(control: Control, origins: Sequence[ValueOrigin]) -> Control:
    """A request for pages without naming them is a request for known pages, not for addresses that a model makes up:
    such an address can carry out any data written into it."""
    made_up = [origin for origin in origins if origin.kind is ValueKind.DESTINATION and origin.found == "nowhere"]
    if not control.asked or not made_up:
        return control
    why = f"{made_up[0].argument} = {made_up[0].value!r} stands in nothing that was read"
    return Control(made_up[0].trust, control.needed, why, control.item, control.path)


def _matches(value: str, form: str, account: str, pattern: str) -> bool:
    """A pattern with ``@`` is for mail addresses, any other for hosts, or for names where the value is no address."""
    if "*" not in pattern:
        return form == value_form(pattern) or bool(account and account == account_form(pattern))
    if "@" in pattern:
        return is_mail(value) and fnmatch.fnmatchcase(form, pattern)
    leads_to = host_of(value) if "://" in value or "." in value else form
    return bool(leads_to) and "@" not in value and fnmatch.fnmatchcase(leads_to, pattern)
