"""Whether a text that reads like an order is a plan: an agent carries out a trusted source's words.

"Job 8, plan: we pay Brightwater to account DE36 ..." asks for an action, and so does poison. A plan takes every value,
and whom it is about, from one memory of a trusted source and says nothing about how agents are to behave; an order that
an agent passes on from a stranger brings an account, a host or a rule of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from lazaretto.gates.memory.claims.extraction import Claim, claim_at, claims_of
from lazaretto.gates.memory.claims.judge import LEAST_COSINE, ClaimJudge
from lazaretto.ledger import Ledger
from lazaretto.provenance.graph import ProvenanceGraph
from lazaretto.reading.text import chosen_windows, reading_of
from lazaretto.types import Observation, SourceClass

_MOST_CLAIMS = 4
"""A longer text is more than one plan, and is judged by its words."""
_NEAREST = 32
_MOST_ANCESTORS = 64
_WORD = re.compile(r"\w+")
_UNTOLD = frozenset({"name", "reference"})
"""Kinds of values that nothing is done with: whom it is about is compared by itself, and every job has a number."""
_LONGEST = 20_000
"""Characters of a plan."""
_MOST_NEW_WORDS = 6
"""Content words beside those of the known claim: "plan", "ready", "last step", and a verb. More of them say more."""
_RULES_FOR_AGENTS = re.compile(
    r"\b(?:agents?|assistants?|ai|bots?|llms?|models?|system|prompts?|instruct\w*|ignor\w*|disregard\w*|forget\w*|"
    r"overrid\w*|bypass\w*|skip\w*|must|always|never|without|not|don['’]t|no longer|from now on|every\w*|any\w*|nobody|"
    r"others|all|you|your|tell|inform|repeat|copy|forward\w*|upload\w*|reveal\w*|export\w*|publish\w*|passwords?|"
    r"secrets?|keys?|tokens?|credentials?|execut\w*|install\w*|delet\w*|remov\w*|drop|wipe\w*|disabl\w*|immediately|"
    r"at once|urgent\w*|confirm\w*|only|more)\b",
    re.IGNORECASE,
)
"""Words on how agents are to behave, or for irreversible acts; a plan has only those of the memory it carries out."""


def supporting_memories(
    observation: Observation,
    judge: ClaimJudge,
    ledger: Ledger,
    graph: ProvenanceGraph,
    trust: Mapping[SourceClass, float],
    least: float,
) -> tuple[str, ...]:
    """The trusted memories that a text carries out; none where any part of it says more than these.

    ``least``: how far a memory, and everything it was made from, must be trusted.
    """
    if len(observation.text) > _LONGEST:
        return ()
    claims = claims_of(observation.text)
    if (
        not 0 < len(claims) <= _MOST_CLAIMS
        or reading_of(observation.text).language != "en"
        or _says_it_twice(observation.text)
    ):
        return ()
    known = list(_known(observation, judge, ledger, graph, trust, least))
    grounds: list[str] = []
    for claim in claims:
        item = next((item for item, known_claim in known if says_no_more(claim, known_claim)), "")
        if not item:
            return ()
        grounds.append(item)
    return tuple(dict.fromkeys(grounds))


def says_no_more(plan: Claim, known: Claim) -> bool:
    """Whether a plan takes all its values and names from one known claim, and brings no rule for agents."""
    values = {(v.kind, v.norm) for v in plan.values if v.kind not in _UNTOLD}
    if not values or not values <= {(v.kind, v.norm) for v in known.values}:
        return False
    named = {word for v in plan.values if v.kind == "name" for word in v.norm.split()}
    if not named <= set(_WORD.findall(known.text.casefold())) or not plan.subject & known.subject:
        return False
    if len(plan.words - known.subject) > _MOST_NEW_WORDS:
        return False
    return _rules(plan.text) <= _rules(known.text)


def _says_it_twice(text: str) -> bool:
    """Whether a text has a second reading that says something else: a hidden part is no part of a plan."""
    return any(view.name not in ("plain", "written out") for view, _ in chosen_windows(reading_of(text).views())[0])


def _rules(text: str) -> set[str]:
    return {found.casefold() for found in _RULES_FOR_AGENTS.findall(text)}


def _known(
    observation: Observation, judge: ClaimJudge, ledger: Ledger, graph: ProvenanceGraph,
    trust: Mapping[SourceClass, float], least: float,
) -> Iterator[tuple[str, Claim]]:  # fmt: skip
    """Claims of trusted memories: those the text was made from, and those near to it."""
    above = dict.fromkeys(graph.ancestors(observation.parents))
    usable = ledger.items(ids=list(above)[:_MOST_ANCESTORS], limit=None)  # held and replaced ones say nothing
    grounds = graph.grounds([memory.id for memory in usable], trust) if usable else {}
    for memory in usable:
        if grounds[memory.id].trust >= least:
            yield from ((memory.id, claim) for claim in claims_of(memory.text))
    judge.reader.catch_up(ledger)
    read = judge.reader.read([observation.text])[0]
    for vector in read.vectors:
        near = [n for n in ledger.nearest_claims(vector, limit=_NEAREST, least=LEAST_COSINE) if n.item not in above]
        items = {memory.id: memory for memory in ledger.items(ids=[n.item for n in near], limit=None)}
        for place in near:
            item = items.get(place.item)
            if item and item.id != observation.id and graph.trust(item.id, trust).value >= least:
                claim = claim_at(item.text, place.start, place.end)
                if claim is not None:
                    yield item.id, claim
