"""Words by which two claims are plainly at odds, if they speak of one thing: that is for the relation models to say.

"Only the keeper opens it", and anybody does; closed, and open; another name for the same office; another value of a
measure with one word more. Such a pair is read even where its claims lie far apart, and a lower bar counts.
"""

from __future__ import annotations

import re

from lazaretto.gates.memory.claims.extraction import Claim, sentences
from lazaretto.gates.memory.claims.measures import bare, may_be_one_measure, measured_apart, only_in, what_is_measured
from lazaretto.gates.memory.claims.occasions import ClaimKind, kind, when

_ONLY = re.compile(
    r"\b(?:only|alone|solely|exclusively|nobody (?:but|except|other)|nur|alleine?|ausschließlich|seule?s?|uniquement|"
    r"réservée?s?|solo|sólo|únicamente|reservad\w+)\b", re.I
)  # fmt: skip
_ANY = re.compile(
    r"\b(?:any(?:one|body)?|every(?:one|body)?|whoever|whatever|all|each|too|also|welcome|free|jede[nrsm]?|alle|auch|"
    r"wer|chacun\w*|tous|toutes|tout|aussi|n['’]importe|cualquier\w*|tod[oa]s?|también)\b", re.I
)  # fmt: skip
_OPPOSITES = tuple(
    (re.compile(rf"\b(?:{a})\b", re.I), re.compile(rf"\b(?:{b})\b", re.I))
    for a, b in (
        ("offen|geöffnet", "geschlossen|abgeschlossen|verschlossen|gesperrt"),
        (r"ouverte?s?|ouvr\w+", r"fermée?s?|fermen?t?"),
        (r"abiert[oa]s?|abren?", r"cerrad[oa]s?|cierran?"),
        ("erlaubt|gestattet|dürfen|darf", "verboten|untersagt"),
        ("pflicht|muss|müssen", "freiwillig|überflüssig"),
        (r"obligatoires?|doi(?:t|vent)", r"facultati\w+|se passer|inutiles?"),
        (r"obligatori[oa]s?|deben?", r"opcional(?:es)?|voluntari[oa]s?"),
        ("kostenlos|gratis|umsonst", r"kostet|kosten|zahl\w+"),
        ("free(?: of charge)?", "costs?|pays?|paid|charged?"),
        ("gratuite?s?", r"coûten?t?|paien?t?|payante?s?"),
        ("compulsory|mandatory|must|ha(?:s|ve) to|required", "free choice|optional|matter of taste|voluntary|no need"),
        ("forbidden|prohibited|banned|not allowed|out of bounds|condemned|off limits",
         "allowed|welcome|permitted|good to|nobody minds"),
        ("deleted|destroyed|thrown away|shredded", "kept|stored|archived"),
        ("turned away|rejected|refused", "accepted|welcome"),
    )
)  # fmt: skip
_DIMENSIONS = re.compile(r"\b(?:long|deep|wide|high|tall|thick|lang|tief|breit|hoch|longs?|profond\w*|largeu?r?|"
                         r"hauteur|largo|hondo|ancho|alto)\b", re.I)  # fmt: skip
_ENDED = re.compile(
    r"\bno longer\b|\b(?:cancelled|dropped|abolished|stopped|not any ?more)\b|\bnicht mehr\b|\bkeine?n? \w+ mehr\b|"
    r"\b(?:fällt aus|entfällt|abgeschafft)\b|\bn['’e]? ?\w+ plus\b|\b(?:annulée?s?|supprimée?s?)\b|\bya no\b|"
    r"\b(?:cancelad[oa]s?|suprimid[oa]s?)\b", re.I)  # fmt: skip
_NEGATIVES = re.compile(
    r"\b(?:no|not|never|nobody|none|without|nicht|kein\w*|ohne|niemand|nie|außer|pas|sans|jamais|personne|aucune?|sin|nadie|"
    r"nunca|unless|except)\b|n['’]t\b", re.I)  # fmt: skip
_OFFICE = re.compile(
    r"leads?|led|head|heads|manages?|charge|responsible|orders?|ordered|suppl\w+|deliver\w*|hosts?|hosted|owns?|belongs?|"
    r"looks?|contact|asks?|write|name|named|comes?|liefer\w*|bestell\w*|leite\w*|führ\w*|verantwort\w*|zuständ\w*|macht|"
    r"fourni\w*|livr\w*|command\w*|dirig\w*|responsab\w*|charge|suministr\w*|pedid\w*|jef[ae]|encarg\w*|cargo|manos|"
    r"est|llev\w*|guard\w*", re.I)  # fmt: skip
"""Words around the name of who holds an office or supplies something."""
_CASE = re.compile(
    r"\b(?:if|unless|except|own|other|another|wenn|falls|außer|eigene\w*|andere\w*|si|sauf|propres?|autres?|cuando|salvo|"
    r"propi[oa]s?|otr[oa]s?)\b", re.I)  # fmt: skip
"""Words by which a claim may speak of another case."""
_MOST_CHARS = 160
_OPEN_TO_ANY, _OPPOSITE, _MEASURED, _ANOTHER_NAME = 0.3, 0.4, 0.4, 0.5
_WAIVED, _NEGATED, _OVER = 0.4, 0.4, 0.55
"""Bars, by what is at odds: on pairs that no model had seen, what both hold from here on is poison."""
LEAST_ASKED = 0.05
"""The conflict, by the first model, from which on the second reads such a pair."""


def bar_at_odds(old: Claim, new: Claim) -> float | None:
    """The probability of a conflict from which on it counts in two claims at odds; None where they are not."""
    if not all(_is_plain(claim) for claim in (old, new)):
        return None
    ours, theirs = what_is_measured(old), what_is_measured(new)
    more, less = only_in(ours, theirs), only_in(theirs, ours)
    rest = more - _names(old)
    few = 2 * len(rest) > len(ours - _names(old))
    if more == ours or (few and len(rest) > 2):
        return None  # they share too few words
    bars = []
    alone = len(_NEGATIVES.findall(new.text)) < 2
    if _ONLY.search(old.text) and _ANY.search(new.text) and not _ONLY.search(new.text) and not new.negated:
        bars.append(_OPEN_TO_ANY)
    if few and len(rest) > 1:
        return min(bars, default=None)  # who alone may do it need not be named again
    if old.negated == new.negated and _opposite(old.text, new.text):
        bars.append(_OPPOSITE)
    if (not more or not less) and _other_measure(old, new):
        bars.append(_MEASURED)
    if _another_name(old, new, more, less):
        bars.append(_ANOTHER_NAME)
    if alone and old.permission in ("require", "forbid") and new.permission == "waive":
        bars.append(_WAIVED)
    if alone and old.negated != new.negated and 3 * len(more) <= len(ours) and 3 * len(less) <= len(theirs):
        bars.append(_NEGATED)
    if _ENDED.search(new.text) and not _ENDED.search(old.text) and (not less or 2 * len(more) <= len(ours)):
        bars.append(_OVER)
    return min(bars, default=None)


def _is_plain(claim: Claim) -> bool:
    """Whether a claim is one short lasting statement about no other case."""
    text = claim.text
    if len(text) > _MOST_CHARS or "?" in text or _CASE.search(text) or kind(claim) is ClaimKind.EVENT:
        return False
    return len(sentences(text)) == 1


def _opposite(old: str, new: str) -> bool:
    return any(
        (a.search(x) and b.search(y) and not a.search(y) and not b.search(x))
        for a, b in _OPPOSITES
        for x, y in ((old, new), (new, old))
    )


def _other_measure(old: Claim, new: Claim) -> bool:
    """Whether two claims give two values of one measure, of the same dimension and for the same day."""
    dimensions = [frozenset(word.casefold() for word in _DIMENSIONS.findall(claim.text)) for claim in (old, new)]
    if dimensions[0] != dimensions[1] or _days(old) != _days(new):
        return False
    return may_be_one_measure(old, new) and measured_apart(old, new)


def _days(claim: Claim) -> set[str]:
    return {word for sort, words in when(claim).items() if sort in ("part", "day", "turn") for word in words}


def _names(claim: Claim) -> set[str]:
    return {bare(word) for value in claim.values if value.kind == "name" for word in value.norm.split()}


def _another_name(old: Claim, new: Claim, more: set[str], less: set[str]) -> bool:
    """Whether each names somebody or some place that the other does not, and one of them says nothing else more."""
    ours, theirs = _names(old), _names(new)
    if not ours or not theirs or ours & theirs:
        return False
    rest = ({word for word in some if not _OFFICE.fullmatch(word)} for some in (more - ours, less - theirs))
    return not all(rest)
