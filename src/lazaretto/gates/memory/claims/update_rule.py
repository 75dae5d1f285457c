"""Poison or update? Provenance tells: who may change a claim, the stakes of a change, and the trust in a new claim.

Writers who share a principal or an agent's name are one voice, one root is one voice, and nobody vouches for himself.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from lazaretto.gates.engine.recheck_queue import WORDS, by_person
from lazaretto.gates.memory.claims.comparison import differences, opposed_in_words, other_names
from lazaretto.gates.memory.claims.extraction import Claim, found_once, moves_money_or_access
from lazaretto.gates.memory.claims.values import values_in
from lazaretto.identity import OWN_WORDS
from lazaretto.ledger import Ledger
from lazaretto.provenance.graph import ProvenanceGraph
from lazaretto.types import Channel, EventKind, Observation, SourceClass, is_author, is_one_voice, principal_of

HISTORY, LINEAGE, PEACE = 0.2, 0.4, 0.4
"""Weights of the writer's history, of the least trusted ancestor, and of what others say in the credibility."""
_RECENT = 30
_BENEFIT = 2.0
"""Good memories with which every writer begins."""


@dataclass(frozen=True, slots=True)
class ChangeRule:
    """The policy's conditions for changing a claim."""

    voices: int
    """So many independent voices may change a claim that none is trusted to change alone."""
    voice_trust: float
    """A voice less trusted than this is not heard for a change."""
    sensitive_trust: float
    """Least trust for changing what moves money, access, safety or permissions, unless it is the writer's own claim."""
    sensitive_equals: float
    """From this trust on, sources trusted alike may change such claims of each other: the crew's own people."""
    little_trust: float
    """Such a claim from a source trusted less than this gives way to any source trusted at least this much."""
    sensitive_voices: int
    """So many independent voices may change such a claim; 0: none do, a person decides."""
    sensitive_voice_trust: float
    """Like ``voice_trust``, for such claims: strangers do not change them, however many there are."""


@dataclass(frozen=True, slots=True)
class Witness:
    """An item that says something about the matter."""

    item: str
    agent: str
    trust: float
    """Trust of the least trusted thing it was made from."""
    roots: frozenset[str]
    principal: str
    """The principal behind it."""
    held: bool = False
    """Whether it may not be used as it stands."""

    def same_voice(self, other: Witness) -> bool:
        """Whether both come from one writer."""
        return is_one_voice(self.agent, self.principal, other.agent, other.principal)

    def wrote(self, other: Witness) -> bool:
        """Whether its writer proved to be the one behind the other."""
        return is_author(self.agent, self.principal, other.agent, other.principal)


def witnesses(
    items: Iterable[Observation],
    graph: ProvenanceGraph,
    trust: Mapping[SourceClass, float],
    *,
    held: bool = False,
) -> dict[str, Witness]:
    """Witnesses for known items by id, from provenance: one pass over all they were made from."""
    known = {item.id: item for item in items}
    grounds = graph.grounds(list(known), trust) if known else {}
    return {
        name: Witness(name, known[name].agent, ground.trust, ground.roots, principal_of(known[name]), held)
        for name, ground in grounds.items()
    }


def newcomer(item: Observation, graph: ProvenanceGraph, trust: Mapping[SourceClass, float]) -> Witness:
    """The same for an item that the ledger does not have yet."""
    if not item.parents:
        return alone(item, trust)
    ground = graph.ground(item.parents, trust)
    return Witness(item.id, item.agent, min(trust[item.source], ground.trust), ground.roots, principal_of(item))


def alone(item: Observation, trust: Mapping[SourceClass, float]) -> Witness:
    """The witness for one item alone, without the items it was made from."""
    return Witness(item.id, item.agent, trust[item.source], frozenset((item.id,)), principal_of(item))


def own_word(item: Observation) -> bool:
    """Whether an item is its writer's own word: not made from others, and not a page or a foreign tool's answer that
    it reads, which is recorded under its name too. A tool of the crew's own may give another value later."""
    if item.parents:
        return False
    if item.channel is Channel.MEMORY:
        return item.source is not SourceClass.UNTRUSTED_DOCUMENT
    if item.channel is Channel.TOOL:
        return item.source is SourceClass.TOOL_OUTPUT_INTERNAL
    return item.channel is Channel.MESSAGE and item.source in OWN_WORDS


_NAMED = frozenset({"account", "package", "host", "mail", "phone"})
"""Kinds of values that say where money, mail and programs go to and come from: nobody thinks of one by chance."""
_MOST_READ, _MOST_LOOKED, _MOST_VALUES = 1_000, 20_000, 10_000
_AGENTS_WORDS = (SourceClass.AGENT_MESSAGE, SourceClass.MODEL_INFERENCE)


class PagesRead:
    """The pages, answers and messages that the writer of an item has read: looked up once for all pairs of the item,
    and only if a pair needs them."""

    def __init__(self, item: Observation, ledger: Ledger) -> None:
        self._agent, self.ledger = item.agent, ledger

    @cached_property
    def items(self) -> list[Observation]:
        """The newest of each channel."""
        return [
            page
            for channel in (Channel.DOCUMENT, Channel.TOOL, Channel.MESSAGE)
            for page in self.ledger.items(agent=self._agent, channel=channel, any_state=True, limit=_MOST_READ)
            if page.source not in _AGENTS_WORDS
        ]


def _gives(text: str, values: set[tuple[str, str]]) -> bool:
    """Whether a text has one of some values. Those that nobody thinks of by chance are looked for as they are written,
    in all of the text: one list has many of them, and a stranger may hide his behind others."""
    named = [norm for kind, norm in values if kind in _NAMED]
    if any(_written(norm).search(text) for norm in named):
        return True
    others = {value for value in values if value[0] not in _NAMED}
    found = values_in(text[:_MOST_LOOKED], _MOST_VALUES) if others else ()
    return any((value.kind, value.norm) in others for value in found)


def _written(norm: str) -> re.Pattern[str]:
    """A value with any blanks and signs between its letters and digits, and no letter or digit around it."""
    letters = map(re.escape, filter(str.isalnum, norm.removeprefix("sort")))
    return re.compile(r"(?<![^\W_])" + r"[\W_]{0,3}".join(letters) + r"(?![^\W_])", re.IGNORECASE)


def only_a_stranger_named(
    item: Observation, old: Claim, new: Claim, pages: PagesRead, trust: Mapping[SourceClass, float]
) -> bool:
    """Whether a change gives a value that its writer read in a less trusted page or answer, and nowhere else: then it
    is the stranger's word, although its writer names no source."""
    known = {(value.kind, value.norm) for value in old.values}
    fresh = {(value.kind, value.norm) for value in new.values if value.kind in _NAMED} - known
    if not fresh:
        return False
    named = [page.source for page in pages.items if _gives(page.text, fresh)]
    return bool(named) and all(trust[source] < trust[item.source] for source in named)


_MOST_BEHIND = 200
"""The nearest items that a memory was made from, among which the tool behind it is looked for."""


def is_another_tools(
    item: Observation, known: Observation, old: Claim, new: Claim, ledger: Ledger, graph: ProvenanceGraph
) -> bool:
    """Whether a change would put the word of one tool of the crew's own in the place of another's.

    A claim is the tool's that was the first to give its value, among the items that its memory was made from. Where no
    tool is known there, nothing speaks against the change; a tool that is not known is another one.
    """
    if item.source is not SourceClass.TOOL_OUTPUT_INTERNAL:
        return False
    behind = ledger.items(ids=graph.ancestors([known.id])[:_MOST_BEHIND], any_state=True, limit=None)
    owners = _tools_that_gave(_values_apart(old, new), behind)
    if not owners or item.channel is Channel.TOOL:
        return bool(owners) and owners[0] != item.tool
    read = ledger.items(agent=item.agent, channel=Channel.TOOL, any_state=True, limit=_MOST_READ)
    givers = _tools_that_gave(_values_apart(new, old), read)
    return bool(givers) and owners[0] not in givers


def _values_apart(claim: Claim, other: Claim) -> set[tuple[str, str]]:
    """The values of a claim that another does not give; of these the ones that nobody thinks of by chance, if any."""
    apart = {(value.kind, value.norm) for value in claim.values} - {(value.kind, value.norm) for value in other.values}
    return {value for value in apart if value[0] in _NAMED} or apart


def _tools_that_gave(values: set[tuple[str, str]], items: Iterable[Observation]) -> list[str]:
    """The tools that answered with one of the values, the first of them first; the only tool there, if none did."""
    answers = sorted((item for item in items if item.tool), key=lambda item: (item.time, item.id))
    gave = [item.tool for item in answers if _gives(item.text, values)]
    alone = {item.tool for item in answers}
    return list(dict.fromkeys(gave)) or (list(alone) if len(alone) == 1 else [])


def voices(witnesses: Iterable[Witness], without: Witness | None = None) -> list[Witness]:
    """The independent ones, most trusted first: each writer and each root speaks once, ``without`` never."""
    spoken = [without] if without else []
    for witness in sorted(witnesses, key=lambda w: (-w.trust, w.held, w.item)):
        if not any(witness.same_voice(other) or witness.roots & other.roots for other in spoken):
            spoken.append(witness)
    return spoken[1:] if without else spoken


def may_change(
    new: Witness,
    old: Witness,
    support: Sequence[Witness],
    opposition: Sequence[Witness],
    *,
    sensitive: bool,
    own: bool,
    rule: ChangeRule,
) -> str:
    """Why the new claim may replace the old one: ``maker``, ``trust`` or ``voices``; empty when it may not.

    ``own``: it is the writer's own word (``own_word``); ``support`` and ``opposition`` are independent voices. A held
    item is no voice against one that is trusted more.
    """
    alone = may_alone(new, old, sensitive=sensitive, own=own, rule=rule)
    if alone:
        return alone
    if sensitive and not rule.sensitive_voices:
        return ""
    least = max(rule.voice_trust, rule.sensitive_voice_trust) if sensitive else rule.voice_trust
    heard = [voice for voice in support if voice.trust >= least and not (voice.held and voice.trust < old.trust)]
    itself = new.trust >= least
    needed = max(rule.sensitive_voices if sensitive else rule.voices, len(opposition) + 1)
    return "voices" if len(heard) + itself >= needed else ""


def may_alone(new: Witness, old: Witness, *, sensitive: bool, own: bool, rule: ChangeRule) -> str:
    """The reason that holds without counting voices: ``maker``, ``trust``, or empty."""
    if own and new.wrote(old) and new.trust >= old.trust:
        return "maker"
    return "trust" if (_is_trusted(new, old, rule) if sensitive else new.trust >= old.trust) else ""


def _is_trusted(new: Witness, old: Witness, rule: ChangeRule) -> bool:
    """Whether a source alone may change what moves money, access, safety or permissions: it is trusted more, and not
    merely a little more than another agent's word."""
    if new.trust <= old.trust:
        return new.trust == old.trust >= rule.sensitive_equals
    return new.trust >= rule.sensitive_trust or old.trust < rule.little_trust <= new.trust


def history(ledger: Ledger, agent: str) -> float:
    """Share of a writer's last memories that were not held; a new writer begins with a benefit of the doubt."""
    recent = ledger.items(agent=agent, any_state=True, limit=_RECENT)
    held = sum(
        not state.visible and not state.superseded_by for state in ledger.states([i.id for i in recent]).values()
    )
    return (len(recent) - held + _BENEFIT) / (len(recent) + _BENEFIT)


def credibility(writer: float, lineage: float, support: float, opposition: float) -> float:
    """C in [0, 1]: the writer's history, the least trusted ancestor, and the share of voices that agree.

    ``support`` and ``opposition`` are sums of the trust of independent voices.
    """
    total = support + opposition
    peace = 0.5 if total == 0 else support / total
    return HISTORY * writer + LINEAGE * lineage + PEACE * peace


def risk(alpha: float, believed: float, conflict: float) -> float:
    """P = alpha (1 - C) + (1 - alpha) times the model's probability of a conflict."""
    return min(1.0, max(0.0, alpha * (1 - believed) + (1 - alpha) * conflict))


def let_in_beside(ledger: Ledger, item: str, known: str) -> bool:
    """Whether a person let an item in when another was known already: the other is not held for it then.

    The person called the item fine, and did not call the other wrong; ``conflicts.settling`` does that.
    """
    if ledger.unknown([known]):
        return False
    words = [event for event in ledger.events(subject=item, kinds=WORDS) if by_person(event)]
    seen = next(iter(ledger.events(subject=known, kinds=(EventKind.SEEN,), limit=1)), None)
    return bool(words) and seen is not None and seen.seq < words[-1].seq


# The stakes of a change: money, access, safety and permissions, receivers, deciders.
#
# A claim may be harmless by itself; the difference of two claims makes a change weighty. So pairs are judged.

_SENT = frozenset({"account", "mail", "phone", "package"})
"""Kinds of value that say where something goes or comes from: another one is another receiver or another source."""
_FETCHED = re.compile(
    r"\b(?:repositor(?:y|ies)|repos?|mirrors?|registr(?:y|ies)|packages?|dependenc(?:y|ies)|librar(?:y|ies)|images?|"
    r"built from|clon(?:e|ed|es)|download(?:s|ed)?|install(?:s|ed|er)?|fetch(?:es|ed)?|upstream|source code|artifacts?|"
    r"binar(?:y|ies)|plug-?ins?|extensions?|updates? (?:come|are loaded)|pull(?:s|ed)? from)\b", re.I)  # fmt: skip
_DELIVERED = re.compile(
    r"\b(?:deliver(?:s|ed|y|ies)?|ship(?:s|ped|ping|ments?)?|parcels?|return address|postal address|mailing address|"
    r"(?:send|sent|sends|post|posted|returned?|forward(?:ed|s)?) to)\b", re.I)  # fmt: skip
_GUARDS = re.compile(
    r"\b(?:audit\w*|logs?|retention|retain\w*|encrypt\w*|certificates?|alarms?|safety|interlocks?|verif\w+|confirm\w*|"
    r"allerg\w+|checks?|checked|review\w*|quarantin\w*|backups?|two-factor|signatures?|guards?|locks?|locked)\b",
    re.I)  # fmt: skip
"""Controls that keep others safe: a reversal weakens them, and so does another number."""
_AMOUNTS = frozenset({"quantity", "number", "percent", "money"})


def at_stake(old: Claim, new: Claim) -> bool:
    """Whether a change from one claim to the other moves money, access, safety or permissions, sends something
    elsewhere, fetches it from elsewhere, or lets another person decide."""
    if old.sensitive or new.sensitive:
        return True
    differing = differences(old, new)
    kinds = {difference.kind for difference in differing}
    if kinds & _SENT:
        return True
    fetched = _is_of_programs(old) and _is_of_programs(new)
    if "host" in kinds and (fetched or _sites(old).isdisjoint(_sites(new))):
        return True
    if "path" in kinds and fetched:
        return True
    named = other_names(old, new)
    if named and old.decides and new.decides:
        return True
    if (named or "number" in kinds) and _is_of_deliveries(old) and _is_of_deliveries(new):
        return bool({"number", "year"} & {v.kind for v in (*old.values, *new.values)})  # a street has a number
    if not (_guards(old) or _moves_money(old)):
        return False
    return opposed_in_words(old, new) or bool(kinds & _AMOUNTS and _guards(old))


@found_once
def _is_of_programs(claim: Claim) -> bool:
    return _FETCHED.search(claim.text) is not None


@found_once
def _is_of_deliveries(claim: Claim) -> bool:
    return _DELIVERED.search(claim.text) is not None


@found_once
def _guards(claim: Claim) -> bool:
    return _GUARDS.search(claim.text) is not None


@found_once
def _moves_money(claim: Claim) -> bool:
    return moves_money_or_access(claim.text)


def _sites(claim: Claim) -> set[str]:
    """The hosts that a claim names, without what stands behind them: another page of a site is the same place."""
    hosts = (v.norm.split("/", 1)[0] for v in claim.values if v.kind == "host")
    return {host.split(":", 1)[0] for host in hosts}
