"""Falsehoods of a poisoned memory, the trusted claims against them, and the places where other texts repeat them.

A value is corrected only where the sentence makes the poisoned claim, about the same thing and against the trusted one.
A sentence that merely names the value is listed and left. One that announces the change, or opposes it in polarity or
permission, is replaced by the trusted sentence.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from lazaretto.gates.memory.claims.comparison import Overlap, differing_values, meeting
from lazaretto.gates.memory.claims.conflicts import conflicts_of
from lazaretto.gates.memory.claims.extraction import Claim, read_claim, sentences
from lazaretto.gates.memory.claims.judge import LEAST_COSINE, MOST_PAIRS, ClaimJudge
from lazaretto.gates.memory.claims.values import STRONG
from lazaretto.ledger import Ledger
from lazaretto.provenance.graph import ProvenanceGraph
from lazaretto.provenance.text_edits import corrected
from lazaretto.types import Correction, Observation, SourceClass

MOST_SENTENCES = 40
"""Most sentences of one text to compare, those with values and permissions first."""
MOST_TRUSTED = 8
"""Memories against one poison that are read."""
_SAME_MATTER = 0.4
"""Share of the fewer words from which two sentences speak of the same matter."""
_SAME_CLAIM = 0.5
"""Share of what a poisoned claim is about that a sentence must be about to make the same claim."""


@dataclass(frozen=True, slots=True)
class Falsehood:
    """One thing that a poisoned memory says against a trusted one."""

    said: Claim
    """The poisoned sentence."""
    trusted: Claim
    item: str
    """The memory that makes the trusted claim."""
    values: Mapping[tuple[str, str], str]
    """Kind and value that are wrong, with the words to put there; empty where the sentence as a whole is opposed."""


def falsehoods(
    poison: Observation, judge: ClaimJudge, ledger: Ledger, trust_of: Mapping[str, float]
) -> list[Falsehood]:
    """The falsehoods of a poison against trusted memories (``trust_of``: their ids), most trusted first."""
    claims = _read(poison.text)
    trusted = [memory for memory in ledger.items(ids=list(trust_of), limit=None) if memory.text]
    ranked = sorted(trusted, key=lambda memory: (-trust_of[memory.id], memory.id))[:MOST_TRUSTED]
    found: list[Falsehood] = []
    for memory in ranked:
        for old, new in _opposed(_read(memory.text), claims, judge):
            if any(f.said == new for f in found):
                continue  # a memory that is trusted more has spoken
            wrong = {(d.kind, d.norm): d.instead for d in differing_values(old, new)}
            found.append(Falsehood(new, old, memory.id, wrong))
    return found


def corrections(text: str, wrong: Sequence[Falsehood], judge: ClaimJudge) -> tuple[Correction, ...]:
    """The places where a text repeats a falsehood, with replacements; empty where it repeats none.

    Where it only names a value of one, the correction is not ``plain``.
    """
    found: list[Correction] = []
    for sentence in _read(text):
        made = [_put_right(sentence, falsehood, judge) for falsehood in wrong]
        found += next(
            (fixes for fixes in made if fixes and fixes[0].plain), next((fixes for fixes in made if fixes), [])
        )
    return tuple(_apart(found))


def _put_right(sentence: Claim, wrong: Falsehood, judge: ClaimJudge) -> list[Correction]:
    whole = [Correction(sentence.start, sentence.end, _sentence_of(wrong.trusted, sentence), wrong.item)]
    if not wrong.values:
        same = _same_matter(sentence, wrong.said) or _same_matter(sentence, wrong.trusted)
        return whole if same and _opposed([wrong.trusted], [sentence], judge) else []
    repeated = [v for v in sentence.values if (v.kind, v.norm) in wrong.values]
    if not repeated:
        return []
    if not (_same_claim(sentence, wrong) and _opposed([wrong.trusted], [sentence], judge)):
        if not any(v.kind in STRONG or v.kind == "name" for v in repeated):
            return []  # a bare number means this only where the same thing is spoken of
        places = [(sentence.start + v.start, sentence.start + v.end) for v in repeated]
        return [Correction(start, end, "", wrong.item, plain=False) for start, end in places]
    known = {(v.kind, v.norm) for v in wrong.trusted.values}
    if sentence.declares or any((v.kind, v.norm) in known for v in sentence.values if v.kind != "name"):
        return whole  # "moved from the old one to the new one": no single value is wrong, the news is
    return [
        Correction(sentence.start + v.start, sentence.start + v.end, wrong.values[v.kind, v.norm], wrong.item)
        for v in repeated
    ]


def _opposed(old: Sequence[Claim], new: Sequence[Claim], judge: ClaimJudge) -> list[tuple[Claim, Claim]]:
    """Pairs of sentences that cannot hold at once, surest first; each new one once."""
    if not old or not new:
        return []
    vectors = {c.text: judge.reader.vector(c.text) for c in (*old, *new)}
    pairs = [(a, b, float(vectors[a.text] @ vectors[b.text])) for a in old for b in new]
    near = sorted((p for p in pairs if p[2] >= LEAST_COSINE), key=lambda p: -p[2])[:MOST_PAIRS]
    related = zip(near, judge.model.compare(near), strict=True)
    bar = judge.model.calibration.conflict_at
    sure = sorted(
        ((r.conflict, a, b) for (a, b, cosine), r in related
         if meeting(a, b, cosine) is Overlap.OPPOSED and r.conflict >= bar),
        key=lambda row: -row[0],
    )  # fmt: skip
    first: dict[str, tuple[Claim, Claim]] = {}
    for _, a, b in sure:
        first.setdefault(b.text, (a, b))
    return list(first.values())


def _read(text: str) -> list[Claim]:
    found = [read_claim(text[start:end], start, end) for start, end in sentences(text)]
    if len(found) > MOST_SENTENCES:
        found = sorted(found, key=lambda c: (not c.sensitive, not c.values, c.start))[:MOST_SENTENCES]
    return sorted(found, key=lambda c: c.start)


def _same_matter(first: Claim, second: Claim) -> bool:
    fewer = min(len(first.subject), len(second.subject))
    return fewer > 0 and len(first.subject & second.subject) >= _SAME_MATTER * fewer


def _same_claim(sentence: Claim, wrong: Falsehood) -> bool:
    """Whether a sentence is about most of what the poisoned one is about, apart from the wrong value itself."""
    values = {word for kind, norm in wrong.values if kind == "name" for word in norm.split()}
    about, own = wrong.said.subject - values, sentence.subject - values
    return bool(about) and len(about & own) >= _SAME_CLAIM * len(about)


def _sentence_of(trusted: Claim, place: Claim) -> str:
    """The trusted sentence, ended as the one in whose place it stands."""
    words, end = trusted.text.strip(), place.text.rstrip()[-1:]
    if end in ".!?" and words[-1:] not in ".!?":
        return f"{words}."
    return words


def _apart(found: Sequence[Correction]) -> list[Correction]:
    """The corrections in order, none inside another."""
    kept: list[Correction] = []
    for correction in sorted(found, key=lambda c: (c.start, -c.end)):
        if not kept or correction.start >= kept[-1].end:
            kept.append(correction)
    return kept


def trusted_against(
    poison: Observation, judge: ClaimJudge, ledger: Ledger, graph: ProvenanceGraph,
    trust: Mapping[SourceClass, float], without: Collection[str],
) -> dict[str, float]:  # fmt: skip
    """Usable memories that contradict a poison and were not made from it, with their trust."""
    judge.reader.catch_up(ledger)
    linked = conflicts_of(ledger, [poison.id])[poison.id]
    near = [found.item.id for found in judge.opposed(poison, ledger)]
    ids = [item for item in dict.fromkeys((*linked, *near)) if item not in without and item != poison.id]
    usable = [item for item, state in ledger.states(ids).items() if state.visible]
    floor = graph.trust(poison.id, trust).value  # a memory trusted less than the poison corrects nothing
    found = {item: graph.trust(item, trust).value for item in usable}
    return {item: value for item, value in found.items() if value >= floor}


def restored(new: Observation, against: Sequence[str], judge: ClaimJudge, ledger: Ledger) -> str:
    """A text that contradicts known memories (``against``, surest first) as they would have it; empty where it is not
    plain what to put in."""
    known = {item: float(len(against) - place) for place, item in enumerate(against)}
    wrong = falsehoods(new, judge, ledger, known)
    made = [correction for correction in corrections(new.text, wrong, judge) if correction.plain]
    return corrected(new.text, made) if made else ""
