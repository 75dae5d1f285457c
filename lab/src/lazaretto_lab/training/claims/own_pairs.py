"""Our own pairs for the relation model: topics, events and passages, and statements of another hand, each with
variants of itself in which names and numbers are others.

A pair is read in both orders: what cannot hold together cannot in either. A variant changes the same names and numbers
in both texts alike, so that the relation stays what it was.
"""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from lazaretto.gates.memory.claims.comparison import Overlap, gives_another_value, meeting
from lazaretto.gates.memory.claims.extraction import Claim, claims_of
from lazaretto.gates.memory.claims.judge import LEAST_COSINE
from lazaretto.gates.memory.claims.values import values_in
from lazaretto.models.minilm import claim_minilm
from lazaretto_lab.training.claims.facts_data import all_pairs
from lazaretto_lab.training.claims.templates import AGREES, NO_CONFLICT, OTHER
from lazaretto_lab.training.written import FOLDS, Stated, days, notes, statements

CONFLICT = 5
"""Like NO_CONFLICT: contradicts or updates, and nobody says which."""
CALIBRATED_ON = frozenset({"hotel", "school", "lab"})
"""Kinds of work of the topics that are scored and not trained on, besides those that are held out."""
_GROUPS = {"restatement": AGREES, "poison": CONFLICT, "event": OTHER}
_NAMES_OF = {"restates": "restatement", "conflict": "poison"}
_NUMBERED = frozenset({"account", "phone", "reference", "money", "percent", "quantity", "number"})
_SAME_WORD = re.compile(r"[^\W\d_]+")


@dataclass(frozen=True, slots=True)
class Own:
    """Two texts with their relation, and the source under which a training knows them."""

    old: str
    new: str
    label: int
    source: str
    group: str
    """event | passage | compatible | restatement | poison."""
    language: str


def part_of(work: str, held_out: bool) -> str:
    """Whether topics of a kind of work are for a fit, for bars, or for neither."""
    return "held" if held_out else "cal" if work in CALIBRATED_ON else "train"


def own_pairs(variants: int = 2, seed: int = 5) -> Iterator[Own]:
    """All of them: ``own_train``, ``own_cal``, ``own_held`` and ``written_N`` are as written, ``more_own`` and
    ``more_N`` are made from those by order, crossing and variants."""
    rng = random.Random(seed)
    for pair in all_pairs(crossed=True):
        part = part_of(pair.work, pair.held_out)
        one = Own(pair.old, pair.new, label_of(pair.group), f"own_{part}", pair.group, pair.language)
        yield one
        if part == "train":
            yield from _more(one, variants, "more_own", rng)
    told = list(statements())
    for stated in told:
        group = group_of(stated)
        one = Own(
            stated.first, stated.second, label_of(group), f"written_{stated.fold}", group, stated.language
        )  # fmt: skip
        yield one
        yield from _more(one, variants, f"more_{stated.fold}", rng)
    yield from _crossed(told)


_LONGEST, _NEAREST, _LEAST = 400, 6, 0.34


def near_notes(fold: int) -> list[tuple[str, str, float]]:
    """Short notes of the kinds of work of a fold, each beside those before it that are nearest, with their cosine;
    nobody meant two of them to contradict each other."""
    texts = list(dict.fromkeys(one.text for one in notes() if one.fold == fold and len(one.text) <= _LONGEST))
    return _nearest([(text, "") for text in texts if len(claims_of(text)) == 1], _NEAREST)


def near_in_a_day(fold: int) -> list[tuple[str, str, float]]:
    """Notes of working days, each beside those of its day before it."""
    return [pair for day in days() if day.fold == fold for pair in _nearest([(n, "") for n in day.notes], _NEAREST)]


def near_others(per: int = 3) -> Iterator[tuple[str, str, str]]:
    """Statements beside the nearest of other kinds of work, with the source under which a training knows the pair:
    they speak of two things."""
    topics = [(text, one.work) for one in all_pairs() if part_of(one.work, one.held_out) == "train"
              for text in (one.old, one.new)]  # fmt: skip
    yield from (("more_own", old, new) for old, new, _ in _nearest(topics, per))
    for fold in range(FOLDS):
        told = [(text, one.kind) for one in statements() if one.fold == fold for text in (one.first, one.second)]
        yield from ((f"more_{fold}", old, new) for old, new, _ in _nearest(told, per))


def _nearest(several: Sequence[tuple[str, str]], most: int) -> list[tuple[str, str, float]]:
    """Each text beside the nearest before it; of one kind of work only where none is named."""
    kinds = dict(several)
    texts = list(kinds)
    matrix = np.asarray(claim_minilm().embed_texts(texts), np.float32)
    cosines = matrix @ matrix.T
    found = []
    for place in range(1, len(texts)):
        mine = kinds[texts[place]]
        order = (int(one) for one in np.argsort(-cosines[place, :place]) if cosines[place, one] >= _LEAST)
        others = (one for one in order if not mine or kinds[texts[one]] != mine)
        found += [(texts[one], texts[place], float(cosines[place, one])) for one in itertools.islice(others, most)]
    return found


def group_of(stated: Stated) -> str:
    """The group of a statement in the words of the topics."""
    return _NAMES_OF.get(stated.relation, stated.relation)


def label_of(group: str) -> int:
    """What is known of the relation of a group's pairs."""
    return _GROUPS.get(group, NO_CONFLICT)


def _more(one: Own, variants: int, source: str, rng: random.Random) -> Iterator[Own]:
    yield replace(one, old=one.new, new=one.old, source=source)
    for _ in range(variants):
        old, new = varied(one.old, one.new, rng, names=one.language != "de", equal=one.label == AGREES)
        if (old, new) != (one.old, one.new):
            first, second = (old, new) if rng.random() < 0.5 else (new, old)
            yield replace(one, old=first, new=second, source=source)


def _crossed(told: Sequence[Stated]) -> Iterator[Own]:
    """Where one statement stands beside several others: what restates it is in conflict with what contradicts it."""
    by: dict[tuple[str, int, str], dict[str, list[str]]] = {}
    for one in told:
        by.setdefault((one.first, one.fold, one.language), {}).setdefault(group_of(one), []).append(one.second)
    for (_, fold, language), several in sorted(by.items(), key=lambda item: item[0][1]):
        for again in several.get("restatement", ()):
            for group in ("poison", "compatible", "event"):
                for other in several.get(group, ()):
                    yield Own(again, other, label_of(group), f"more_{fold}", group, language)
                    if group == "poison":
                        yield Own(other, again, label_of(group), f"more_{fold}", group, language)


def place_of(old: Claim, new: Claim, cosine: float) -> str:
    """Where a pair meets; ``far``, ``same`` and ``two things`` are never held, ``plain`` always is."""
    meets = meeting(old, new, cosine)
    if meets in (Overlap.SAME, Overlap.TWO_THINGS):
        return str(meets.value)
    if gives_another_value(old, new):
        return "plain"
    if cosine < LEAST_COSINE:
        return "far"
    return "sensitive" if meets is Overlap.OPPOSED and (old.sensitive or new.sensitive) else str(meets.value)


def varied(
    old: str, new: str, rng: random.Random, *, names: bool = True, equal: bool = False
) -> tuple[str, str]:  # fmt: skip
    """Two texts with other numbers, and with other names in the places of those that both have.

    Numbers change only where both texts have some (``equal``: the same ones): their digits are exchanged for each
    other in both. Dates, times and years stay.
    """
    digits = list("123456789")
    shuffled = digits[:]
    rng.shuffle(shuffled)
    exchange = str.maketrans(dict(zip(digits, shuffled, strict=True)))
    a, b = _numbers(old), _numbers(new)
    if a and b and (a == b or not equal):
        old, new = _exchanged(old, exchange), _exchanged(new, exchange)
    if names:
        for name in sorted(_names(old) & _names(new)):
            other = rng.choice(_NAMES)
            old, new = (re.sub(rf"\b{re.escape(name)}\b", other, text) for text in (old, new))
    return old, new


def _numbers(text: str) -> set[str]:
    return {text[v.start : v.end] for v in values_in(text) if v.kind in _NUMBERED and re.search(r"\d", v.norm)}


def _exchanged(text: str, exchange: dict[int, str]) -> str:
    found = list(text)
    for value in values_in(text):
        if value.kind in _NUMBERED:
            found[value.start : value.end] = text[value.start : value.end].translate(exchange)
    return "".join(found)


def _names(text: str) -> set[str]:
    """Words of the names of a text that are no beginning of a sentence."""
    found = {w for v in values_in(text) if v.kind == "name" for w in _SAME_WORD.findall(text[v.start : v.end])}
    return {w for w in found if len(w) > 3 and w[0].isupper() and w[1:].islower()}


_NAMES = (
    "Abbott", "Adeyemi", "Aldous", "Almeida", "Ashford", "Baptiste", "Barlow", "Bellamy", "Bergen", "Bianchi",
    "Bramley", "Calder", "Castell", "Chandra", "Colby", "Corwin", "Dalmore", "Danvers", "Delacroix", "Dorsey",
    "Drayton", "Eastman", "Elsworth", "Emery", "Fairbank", "Falkner", "Farrow", "Fontaine", "Gallardo", "Garnet",
    "Gilmore", "Granger", "Hadley", "Halden", "Harlow", "Hassan", "Hendry", "Holbrook", "Ibarra", "Ingram", "Iversen",
    "Jarvis", "Jensen", "Kamara", "Kendal", "Kimura", "Kowalski", "Lambert", "Langley", "Larsen", "Lindgren", "Lomax",
    "Maddox", "Marlow", "Mbeki", "Mendez", "Merton", "Moreau", "Nakamura", "Navarro", "Nielsen", "Norwood", "Oakley",
    "Okoro", "Orlando", "Osborne", "Palmer", "Paquette", "Pereira", "Petrov", "Quigley", "Radford", "Ramos", "Redmond",
    "Rosales", "Rowland", "Salazar", "Santini", "Sawyer", "Selby", "Silva", "Sterling", "Sutton", "Tanaka", "Tolland",
    "Trent", "Urquhart", "Valdez", "Vance", "Varga", "Walden", "Weston", "Whitby", "Winslow", "Yates", "Zeller",
)  # fmt: skip
