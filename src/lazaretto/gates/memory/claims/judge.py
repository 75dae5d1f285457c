"""Judges the claims of a text against known claims: finds the nearest, relates them, and asks provenance.

Evidence of kind ``claim`` names items, never texts: an erased memory must not live on in the ruling on another.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from lazaretto.gates.memory.claims import update_rule
from lazaretto.gates.memory.claims.comparison import (
    Overlap,
    another_value_across,
    meeting,
    replaces,
    restates,
)
from lazaretto.gates.memory.claims.extraction import (
    MAX_PASSAGE_CHARS,
    Claim,
    announcement,
    claim_at,
    claims_of,
    declares_sensitive,
    says_one_thing,
)
from lazaretto.gates.memory.claims.occasions import progress
from lazaretto.gates.memory.claims.pairs import (
    LEAST_APART,
    NAMED,
    ClaimReader,
    ComparedPair,
    NearPair,
    PairModels,
    ReadText,
    conflict_bar,
    conflict_evidence,
    is_gray_pair,
    listed,
    share,
    shared_reader,
)
from lazaretto.gates.memory.claims.quiet import WEAKENS, Quiet, shared_quiet_head
from lazaretto.gates.memory.claims.relation import LlmTiebreak, Pair, Related, Relation, RelationModel
from lazaretto.gates.memory.claims.update_rule import ChangeRule, Witness
from lazaretto.gates.secrets import shown
from lazaretto.ledger import Ledger
from lazaretto.ledger.reader import standing_events
from lazaretto.ledger.vectors import ClaimRow, Neighbour
from lazaretto.processor_time import left, spare
from lazaretto.provenance.graph import ProvenanceGraph
from lazaretto.types import Channel, EventKind, Evidence, Observation, SourceClass

NEAREST, NEAREST_WEIGHTY = 6, 24
"""Known claims near to each new one that are looked at; and to one about money, access, safety or permissions, which
others must not crowd out by writing much that is near to it."""
MOST_LOOKED = 256
"""Pairs of one text that are looked at by their words alone."""
MOST_PAIRS = 24
"""Pairs that one text is worth, read by the model: of each claim the one that matters most, then the next."""
LEAST_COSINE = 0.34
"""Claims farther apart than this are about different things: .35 in full precision, and what eight bits may be off."""
LEAST_ACROSS = 0.25
"""The same where the two are in two languages and plainly give two values: the encoder was made on English."""
LEAST_ASKED = 0.3
"""The same for a question and a claim that may answer it."""
LEAST_AGREEING = 0.5
"""Claims farther apart than this are not read for agreement alone: of 214 development pairs that the model finds to
agree 8 were, one of them a restatement."""
_ASKED_AGAIN = 1
"""Nearest pairs that are read only for agreement, where nothing is opposed."""
_REFUSED = "changes_known_claim"
_BEFORE_CLOCK = 4
"""Pairs that are read between two looks at the clock."""
_FOR_OTHERS, _AT_STAKE = 0.25, 0.25
"""Share of a text's time that comparing leaves to the readers of the text itself, once weighty pairs were compared: a
text that meets many known claims would not be read whole for it. And the share that comparing weighty pairs may take
beyond that time."""
_MOST_ANCESTORS = 64


@dataclass(frozen=True, slots=True)
class ClaimJudgement:
    """The result of comparing a text's claims with the known ones."""

    relation: Relation
    """A change that its source may make is an update, any other a contradiction."""
    items: tuple[str, ...]
    """Items it stands in that relation to, surest first."""
    rule: str
    """changes_known_claim | accepted_change | announces_change | possible_conflict | weakens_control |
    new_destination | corroborated | nothing_known."""
    refused: bool
    """Whether it changes a claim that its source may not change."""
    doubtful: bool
    """Whether a person should look."""
    risk: float
    supersedes: tuple[str, ...]
    evidence: tuple[Evidence, ...]
    whole: bool
    """False while claims of the namespace are still being read in."""
    cut: bool = False
    """Whether there was no time to compare all its claims."""
    ms: float = 0.0
    unheard: str = ""
    """Why a larger model that is set up did not read its possible conflicts."""


_Statements = tuple[ReadText, Sequence[Quiet]]
"""The claims of a text, and those of them that weaken a control or send something elsewhere."""
_MOST_QUIET = 4
"""So many of these are asked for what speaks for them; where all do, the next one waits for a person."""


class ClaimJudge:
    """Compares texts with the claims of a namespace."""

    def __init__(
        self,
        rule: ChangeRule,
        announce_below: float,
        model: RelationModel | None = None,
        llm_tiebreak: LlmTiebreak | None = None,
    ) -> None:
        """``model`` stands in for both relation models; ``llm_tiebreak`` asks a language model about pairs that they
        are not sure about."""
        self._rule, self._announce_below = rule, announce_below
        self._models, self._llm_tiebreak = PairModels(model, exact=llm_tiebreak is not None), llm_tiebreak

    @property
    def model(self) -> RelationModel:
        """The relation model, loaded when it is first needed."""
        return self._models.first

    @property
    def reader(self) -> ClaimReader:
        """The reader of claims of this process."""
        return shared_reader()

    def warm_up(self) -> None:
        """Load the reader of texts; the model for pairs of claims is loaded with the first pair."""
        self.reader.read(["The berth is number nine."])
        _ = self.model

    def rows_of(self, observation: Observation) -> list[ClaimRow]:
        """The claims of a memory that was just judged, as the ledger keeps them; others are kept by catching up."""
        known = observation.text and self.reader.knows(observation.text)
        return self.reader.read([observation.text])[0].rows() if known else []

    def judge(
        self,
        observation: Observation,
        ledger: Ledger,
        graph: ProvenanceGraph,
        trust: Mapping[SourceClass, float],
        *,
        name_agreeing: bool = False,
    ) -> ClaimJudgement:
        """The judgement on one item that is not recorded yet.

        ``name_agreeing``: what agrees is looked for where no ruling rests on it, too; that takes a reading of one pair.
        """
        started = time.perf_counter()
        whole = self.reader.catch_up(ledger)
        read = self.reader.read([observation.text])[0]
        quiet = shared_quiet_head().find_all(zip(read.claims, read.vectors, strict=True))  # before time is taken
        near, all_looked = self._near(read, ledger, without=observation.id)
        announces = any(map(declares_sensitive, read.claims))
        agreement = name_agreeing or announces or bool(quiet)
        weighed, spared = (near, []) if agreement else self._spared(near, observation, (ledger, graph, trust))
        ranked = _by_weight([pair for pair in weighed if self._is_read_first(pair)])
        first = [pair for pair, _ in ranked[:MOST_PAIRS]]
        due = sum(weighty for _, weighty in ranked)  # they come first
        found = self._related(first, due=due, agreement=agreement)
        cut = not (read.whole and all_looked) or any(weighty for _, weighty in ranked[len(found) :])
        found = _surest([*found, *self._doubted(weighed)])
        asked = any(self._is_conflict(f) or self._is_gray(f) for f in found)
        if asked and not agreement:  # now it counts what agrees, and what the writer may change anyway
            more = [pair for pair, _ in _by_weight([pair for pair in spared if self._is_read_first(pair)])]
            first = [*first, *more][:MOST_PAIRS]
            found = _renewed(found, [*self._related(first, due=due, agreement=True), *self._doubted(spared)])
        rest = [pair for pair in near if pair.cosine >= LEAST_AGREEING and not self._is_read_first(pair)]
        rest = rest[: MOST_PAIRS - len(first)]
        if asked or announces:
            agree = self._related(rest, due=len(rest) if quiet else 0, agreement=True)
            found = _surest([*found, *agree])  # agreeing claims count
            new = update_rule.newcomer(observation, graph, trust)
        else:  # ancestors are not needed
            new = update_rule.alone(observation, trust)
            if quiet and new.trust < self._rule.sensitive_trust:
                for weak in quiet[:_MOST_QUIET]:
                    about = [pair for pair in rest if pair.new == weak.claim]
                    found = _surest([*found, *self._corroborating(_about(found, weak.claim), about)])
            elif name_agreeing:
                found = _surest([*found, *self._corroborating(found, rest)])
        judged = self._decide(observation, (read, quiet), found, new, (ledger, graph, trust))
        ms = (time.perf_counter() - started) * 1000
        return ClaimJudgement(*judged, whole, cut, ms, self._models.unheard(f.related for f in found))

    def find(self, query: str, ledger: Ledger, limit: int) -> list[str]:
        """Ids of visible memories near to a query in meaning, nearest first."""
        self.reader.catch_up(ledger)
        vector = self.reader.vector(query)
        near = ledger.nearest_claims(vector, limit=4 * limit, least=LEAST_ASKED)
        return list(dict.fromkeys(claim.item for claim in near))[:limit]

    def opposed(self, item: Observation, ledger: Ledger) -> list[ComparedPair]:
        """Claims of other visible memories that cannot hold together with those of one, surest first."""
        near, _ = self._near(self.reader.read([item.text])[0], ledger, without=item.id)
        ranked = _by_weight([pair for pair in near if pair.may_conflict])
        found = self._related([pair for pair, _ in ranked[:MOST_PAIRS]])
        return _one_per_item([f for f in found if self._is_conflict(f)])

    def judge_alone(self, observation: Observation, trust: Mapping[SourceClass, float]) -> ClaimJudgement:
        """The judgement where nothing at all is known: only what a text announces by itself counts."""
        read = ReadText(claims_of(observation.text), np.zeros((0, 0), np.float32))
        new = update_rule.alone(observation, trust)
        return ClaimJudgement(*self._decide_unopposed((read, ()), (), (), new), whole=True)

    def _near(
        self, read: ReadText, ledger: Ledger, *, without: str, hidden: bool = False
    ) -> tuple[list[NearPair], bool]:
        """The nearest known claims of each claim, nearest first, and whether there was time to look for all.

        ``without``: an item that may be among the known ones already, and is no witness for itself.
        """
        near: list[tuple[int, Claim, Neighbour]] = []
        all_looked = True
        for claim, vector in zip(read.claims, read.vectors, strict=True):
            if near and left() <= 0:
                all_looked = False
                break
            most = NEAREST_WEIGHTY if claim.sensitive else NEAREST
            known = ledger.nearest_claims(vector, limit=most, least=_least(claim), hidden=hidden)
            near += [(rank, claim, neighbour) for rank, neighbour in enumerate(known)]
        if not near:
            return [], all_looked
        near = sorted(near, key=lambda row: (row[0] >= NEAREST, -row[2].cosine))[:MOST_LOOKED]
        items = {
            memory.id: memory for memory in ledger.items(ids=[n.item for _, _, n in near], any_state=True, limit=None)
        }
        alone = len(read.claims) == 1
        pairs = []
        for _, new, place in near:
            item = items.get(place.item)
            if item is None or place.item == without:
                continue
            old = claim_at(item.text, place.start, place.end)
            if old is not None and (place.cosine >= LEAST_COSINE or another_value_across(old, new)):
                cut = len(old.text) < len(item.text.strip())
                partial = not (alone or new.record) or (cut and not old.record)
                pairs.append(NearPair(new, old, item, place.cosine, partial, meeting(old, new, place.cosine)))
        return sorted(pairs, key=lambda pair: -pair.cosine), all_looked

    def _spared(
        self, near: Sequence[NearPair], observation: Observation,
        where: tuple[Ledger, ProvenanceGraph, Mapping[SourceClass, float]],
    ) -> tuple[list[NearPair], list[NearPair]]:  # fmt: skip
        """The pairs to read, and those that need no reading because provenance settles them: the writer may change the
        known claim even if others oppose it, so that no conflict could hold the text.

        Such a pair is read all the same where the new claim could end the old memory, where that costs nothing, and
        where a person would look at a possible conflict.
        """
        ledger, graph, trust = where
        pages = update_rule.PagesRead(observation, ledger)
        mine = update_rule.newcomer(observation, graph, trust)
        seen = update_rule.witnesses({pair.item.id: pair.item for pair in near}.values(), graph, trust)
        single = observation.channel is Channel.MEMORY and says_one_thing(observation.text)

        def is_spared(pair: NearPair) -> bool:
            own = self._is_own(pair, observation, (mine, seen[pair.item.id]), (pages, graph, trust))
            may = self._is_progress(pair, mine) or update_rule.may_alone(
                mine, seen[pair.item.id], sensitive=pair.at_stake, own=own, rule=self._rule
            )
            if not may or pair.gives_another_value:
                return False
            if mine.trust < self._announce_below and (pair.old.sensitive or pair.new.sensitive):
                return False
            return not (single and replaces(pair.old, pair.new) and says_one_thing(pair.item.text))

        spared = [is_spared(pair) for pair in near]
        return (
            [pair for pair, free in zip(near, spared, strict=True) if not free],
            [pair for pair, free in zip(near, spared, strict=True) if free],
        )

    def _related(
        self, pairs: Sequence[NearPair], *, due: int = 0, hidden: bool = False, agreement: bool = False
    ) -> list[ComparedPair]:
        """The pairs with their relations, as far as the time lasts; surest conflict first. The first ``due`` may take
        more than that; after them some time is kept for the readers of the text itself. ``hidden``, ``agreement``: see
        ``PairModels.answers``."""
        answers: list[Related] = []
        while len(answers) < len(pairs):
            first = len(answers)
            if spare(-_AT_STAKE if first < due else _FOR_OTHERS) <= 0:
                break
            end = min(first + _BEFORE_CLOCK, due if first < due else len(pairs))
            answers += self._models.answers(pairs[first:end], hidden=hidden, agreement=agreement)
        compared = list(zip(pairs, answers, strict=False))
        if self._llm_tiebreak is not None and not hidden:
            settled = self._llm_tiebreak.settle([Pair(p.old, p.new, p.meeting, related) for p, related in compared])
            compared = [(pair, related) for (pair, _), related in zip(compared, settled, strict=True)]
        return _surest(
            [ComparedPair(p.new, p.old, p.item, p.cosine, p.partial, p.meeting, related) for p, related in compared]
        )

    def _doubted(self, near: Sequence[NearPair]) -> list[ComparedPair]:
        """Pairs that are opposed although they are taken for peaceful without a model, where there is time for them."""
        return self._models.doubted(near) if spare(_FOR_OTHERS) > 0 else []

    def _corroborating(self, found: Sequence[ComparedPair], rest: Sequence[NearPair]) -> list[ComparedPair]:
        """Of pairs that cannot conflict, the first that agrees and those asked before it; none where one agrees anyway.
        Only the nearest that give the same value are asked."""
        asked: list[ComparedPair] = []
        if any(self._agrees(pair) for pair in found):
            return asked
        for pair in [pair for pair in rest if pair.meeting is Overlap.SAME][:_ASKED_AGAIN]:
            asked += self._related([pair], due=1)
            if asked and self._agrees(asked[-1]):
                break
        return asked

    def _decide(
        self, observation: Observation, statements: _Statements, found: Sequence[ComparedPair], new: Witness,
        where: tuple[Ledger, ProvenanceGraph, Mapping[SourceClass, float]],
    ) -> tuple[Relation, tuple[str, ...], str, bool, bool, float, tuple[str, ...], tuple[Evidence, ...]]:  # fmt: skip
        ledger, graph, trust = where
        at = self.model.calibration
        opposed = _one_per_item([f for f in found if self._is_conflict(f)])
        agreeing = _one_per_item([f for f in found if self._agrees(f)])
        if not opposed:
            return self._decide_unopposed(statements, found, agreeing, new)
        seen = update_rule.witnesses((f.item for f in (*opposed, *agreeing)), graph, trust)
        known = [*_ancestors(observation, ledger, graph, trust), *((f.old, seen[f.item.id]) for f in agreeing)]
        opposed = [f for f in opposed if not self._is_stated_already(f, seen[f.item.id], known)]
        opposed = [f for f in opposed if not update_rule.let_in_beside(ledger, f.item.id, observation.id)]
        if not opposed:
            return self._decide_unopposed(statements, found, agreeing, new)
        support = update_rule.voices((seen[f.item.id] for f in agreeing), new)
        against = update_rule.voices((seen[f.item.id] for f in opposed), new)
        sensitive = any(f.at_stake for f in opposed)
        if new.trust >= self._rule.voice_trust:
            support = self._all_support(statements[0], ledger, new, where, support)
        read_before = (update_rule.PagesRead(observation, ledger), graph, trust)
        why = {
            f.item.id: self._why(f, observation, (new, seen[f.item.id]), (support, against), read_before)
            for f in opposed
        }
        believed = update_rule.credibility(
            update_rule.history(ledger, new.agent), new.trust,
            sum(voice.trust for voice in support), sum(voice.trust for voice in against),
        )  # fmt: skip
        risk = update_rule.risk(at.alpha, believed, opposed[0].related.conflict)
        items = tuple(f.item.id for f in opposed)
        refused = not all(why.values())
        # what the words alone say stands in the evidence; whether a change is an update, provenance decides
        relation = Relation.CONTRADICTS if refused else Relation.UPDATES
        roots = update_rule.voices(seen[f.item.id] for f in opposed)
        evidence = conflict_evidence(opposed, seen, roots, new, why, believed, sensitive)
        if refused:
            return relation, items, _REFUSED, True, False, risk, (), evidence
        single = says_one_thing(observation.text)
        sure = [
            f
            for f in opposed
            if f.related.conflict >= self._models.bars_of(f.related).replace_at and replaces(f.old, f.new)
        ]
        replaced = tuple(f.item.id for f in sure if single and says_one_thing(f.item.text))
        may = observation.channel is Channel.MEMORY
        return relation, items, "accepted_change", False, False, min(risk, 0.29), replaced if may else (), evidence

    def _why(
        self, found: ComparedPair, observation: Observation, who: tuple[Witness, Witness],
        heard: tuple[Sequence[Witness], Sequence[Witness]],
        where: tuple[update_rule.PagesRead, ProvenanceGraph, Mapping[SourceClass, float]],
    ) -> str:  # fmt: skip
        """Why a change may be made; empty where it may not. ``who``: the new claim's writer and the old one's;
        ``heard``: voices for the new claim and against it."""
        (new, old), (support, against) = who, heard
        if self._is_progress(found, new):
            return "progress"
        own = self._is_own(found, observation, who, where)
        return update_rule.may_change(new, old, support, against, sensitive=found.at_stake, own=own, rule=self._rule)

    def _is_own(
        self, pair: NearPair | ComparedPair, observation: Observation, who: tuple[Witness, Witness],
        where: tuple[update_rule.PagesRead, ProvenanceGraph, Mapping[SourceClass, float]],
    ) -> bool:  # fmt: skip
        """Whether a change is its writer's own word, as far as that matters: of a claim that is theirs."""
        if not update_rule.own_word(observation) or not (pair.at_stake and who[0].wrote(who[1])):
            return update_rule.own_word(observation)
        pages, graph, trust = where
        if update_rule.is_another_tools(observation, pair.item, pair.old, pair.new, pages.ledger, graph):
            return False
        return not update_rule.only_a_stranger_named(observation, pair.old, pair.new, pages, trust)

    def _is_progress(self, pair: NearPair, new: Witness) -> bool:
        return new.trust >= self._announce_below and not pair.at_stake and progress(pair.old, pair.new)

    def _decide_unopposed(
        self, statements: _Statements, found: Sequence[ComparedPair], agreeing: Sequence[ComparedPair], new: Witness
    ) -> tuple[Relation, tuple[str, ...], str, bool, bool, float, tuple[str, ...], tuple[Evidence, ...]]:
        read, quiet = statements
        low = new.trust < self._announce_below
        spoken_for = {(f.new.start, f.new.end, f.new.text) for f in found if self._agrees(f)}

        def stands_alone(claim: Claim) -> bool:
            """Whether nothing known says the same; what agrees with another sentence of the text is no support."""
            return (claim.start, claim.end, claim.text) not in spoken_for

        gray = [f for f in found if (f.new.sensitive or f.old.sensitive) and self._is_gray(f) and stands_alone(f.new)]
        items = tuple(f.item.id for f in agreeing)
        doubt = 0.05 + 0.24 * max(
            (f.related.conflict for f in found), default=0.0
        )  # below the gray band of every answer
        if gray and low:
            first = gray[0]
            words = f"It may contradict {first.item.id} in what moves money, access, safety or permissions."
            data = {"relation": first.related.likeliest.value, "items": [first.item.id], **share(first.related)}
            return (
                Relation.NONE, (), "possible_conflict", False, True, first.related.conflict, (),
                (Evidence("claim", words, data),),
            )  # fmt: skip
        announced = [c for c in read.claims if declares_sensitive(c) and stands_alone(c)]
        if announced and new.trust < self._rule.sensitive_trust:
            quote = shown(announcement(announced[0]))
            words = (
                "Announces a change in what moves money, access, safety or permissions, which a source of trust "
                f"{new.trust:.2g} may not decide, and nothing known speaks for it: “{quote}”"
            )
            data = {"start": announced[0].start, "end": announced[0].end, "trust": round(new.trust, 2)}
            return Relation.NONE, (), "announces_change", False, True, 0.5, (), (Evidence("claim", words, data),)
        alone = next((weak for weak in quiet if stands_alone(weak.claim)), None)
        if alone is not None and new.trust < self._rule.sensitive_trust:
            return _of_quiet(alone, new)
        if agreeing:
            words = f"Agrees with {listed(items)}."
            evidence = (Evidence("claim", words, {"relation": "agrees", "items": list(items[:NAMED])}),)
            return Relation.AGREES, items, "corroborated", False, False, doubt, (), evidence
        return Relation.NONE, (), "nothing_known", False, False, doubt, (), ()

    def _is_stated_already(self, found: ComparedPair, old: Witness, known: Sequence[tuple[Claim, Witness]]) -> bool:
        """Whether a usable memory that may change the old claim states the new one already: then it changes nothing."""
        least = max(old.trust, self._rule.sensitive_trust if found.at_stake else 0.0)
        return any(
            who.item != old.item and who.trust >= least and restates(claim, found.new, found.old)
            for claim, who in known
        )

    def _is_read_first(self, pair: NearPair) -> bool:
        """Whether the two could be found to contradict each other."""
        if pair.meeting is not Overlap.APART:
            return pair.may_conflict
        return pair.cosine >= LEAST_APART or pair.gives_another_value

    def _agrees(self, found: ComparedPair) -> bool:
        return found.related.agrees >= self._models.bars_of(found.related).agree_at

    def _is_conflict(self, found: ComparedPair) -> bool:
        return found.may_conflict and found.related.conflict >= conflict_bar(found, self._models.bars_of(found.related))

    def _is_gray(self, found: ComparedPair) -> bool:
        return is_gray_pair(found) and found.related.conflict >= self._models.bars_of(found.related).review_at

    def _all_support(
        self, read: ReadText, ledger: Ledger, new: Witness,
        known: tuple[Ledger, ProvenanceGraph, Mapping[SourceClass, float]], support: list[Witness],
    ) -> list[Witness]:  # fmt: skip
        """Voices for the new claim, those included that were held because they stood alone."""
        _, graph, trust = known
        near, _ = self._near(read, ledger, without=new.item, hidden=True)
        waiting = _waiting({pair.item.id for pair in near}, ledger)
        agreeing = [
            f
            for f in self._related([pair for pair in near if pair.item.id in waiting][:MOST_PAIRS], hidden=True)
            if self._agrees(f)
        ]
        more = update_rule.witnesses((f.item for f in agreeing), graph, trust, held=True)
        return update_rule.voices([*support, *more.values()], new)


def _least(claim: Claim) -> float:
    """Least cosine of a known claim to be looked at; one with a value may meet one in another language."""
    return LEAST_ACROSS if any(v.kind not in ("name", "reference") for v in claim.values) else LEAST_COSINE


def _of_quiet(
    quiet: Quiet, new: Witness
) -> tuple[Relation, tuple[str, ...], str, bool, bool, float, tuple[str, ...], tuple[Evidence, ...]]:
    does = "weaken a control" if quiet.rule == WEAKENS else "send something of the crew's to a new place"
    quote = shown(quiet.claim.text, MAX_PASSAGE_CHARS)
    words = f"Would {does}, which a source of trust {new.trust:.2g} may not decide: “{quote}”"
    data = {
        "start": quiet.claim.start, "end": quiet.claim.end, "trust": round(new.trust, 2),
        "probability": round(quiet.probability, 3),
    }  # fmt: skip
    return Relation.NONE, (), quiet.rule, False, True, 0.5, (), (Evidence("claim", words, data),)


def _waiting(items: Collection[str], ledger: Ledger) -> set[str]:
    """The items among these that are held for their claims: not called harmful by a person, and not replaced."""
    states = ledger.states(items) if items else {}
    held = [item for item, state in states.items() if state.held and not (state.hidden or state.superseded_by)]
    rules = {item: list(standing_events(ledger, (EventKind.RULED,), subject=item))[-1:] for item in held}
    return {item for item, last in rules.items() if last and (last[0].body or {}).get("rule") == f"memory:{_REFUSED}"}


def _ancestors(
    observation: Observation, ledger: Ledger, graph: ProvenanceGraph, trust: Mapping[SourceClass, float]
) -> list[tuple[Claim, Witness]]:
    """The claims of the usable memories that an item was made from, however far back."""
    above = graph.ancestors(observation.parents)
    usable = ledger.items(ids=above[:_MOST_ANCESTORS], limit=None)
    seen = update_rule.witnesses(usable, graph, trust)
    return [(claim, seen[memory.id]) for memory in usable for claim in claims_of(memory.text)]


def _by_weight(pairs: Sequence[NearPair]) -> list[tuple[NearPair, bool]]:
    """The pairs in the order in which they are read, and whether a person has to look where one is not.

    Weighty pairs come first. Each claim has its turn before another has its second: a text that repeats many known
    claims must not keep the one thing that it changes from being compared.
    """
    marked = sorted(
        ((not pair.at_stake, pair.meeting is not Overlap.OPPOSED, -pair.cosine, at) for at, pair in enumerate(pairs))
    )
    turns: dict[tuple[int, int], int] = {}
    ranked: list[tuple[bool, int, int]] = []
    for light, _, _, at in marked:
        claim = (pairs[at].new.start, pairs[at].new.end)
        turns[claim] = turns.get(claim, -1) + 1
        if turns[claim] < NEAREST:
            ranked.append((light, turns[claim], at))
    return [(pairs[at], not light and turn == 0) for light, turn, at in sorted(ranked, key=lambda row: row[:2])]


def _surest(found: Sequence[ComparedPair]) -> list[ComparedPair]:
    """Surest conflict first."""
    return sorted(found, key=lambda pair: -pair.related.conflict)


def _renewed(found: Sequence[ComparedPair], again: Sequence[ComparedPair]) -> list[ComparedPair]:
    """The pairs found, each with its last reading: there may have been no time to read all again."""
    last = {(f.item.id, f.old.start, f.new.start): f for f in (*found, *again)}
    return _surest(list(last.values()))


def _about(found: Sequence[ComparedPair], claim: Claim) -> list[ComparedPair]:
    return [pair for pair in found if pair.new == claim]


def _one_per_item(found: Sequence[ComparedPair]) -> list[ComparedPair]:
    best: dict[str, ComparedPair] = {}
    for pair in found:
        best.setdefault(pair.item.id, pair)
    return list(best.values())
