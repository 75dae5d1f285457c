"""Measures in one form: how often something is done, how long it takes, how heavy or warm it is.

"Every three months" is "four times a year", and 42 days are six weeks. Values of a text keep their own words
(``values``); here two claims are compared by what they measure. Pure functions; no model is needed.
"""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Iterator

from lazaretto.gates.memory.claims.extraction import STOP_WORDS, Claim, sentences
from lazaretto.gates.memory.claims.measure_words import ASIDE, FRAME, LASTING, PAST, SIDES
from lazaretto.gates.memory.claims.occasions import HOLDS, ClaimKind, kind
from lazaretto.gates.memory.claims.tongues import COMMON, NUMBERS, UNITS, language_of

_NEAR = 0.05
"""Measures that differ by less are the same: twelve months are 360 or 365 days."""
_HOURS = {
    "second": 1 / 3600, "minute": 1 / 60, "hour": 1.0, "day": 24.0, "night": 24.0, "week": 168.0, "fortnight": 336.0,
    "month": 730.0, "quarter": 2190.0, "year": 8760.0,
}  # fmt: skip
_SCALES = {
    "length of time": _HOURS,
    "mass": {"milligram": 1e-3, "gram": 1.0, "kilogram": 1e3, "tonne": 1e6},
    "volume": {"millilitre": 1e-3, "litre": 1.0},
    "length": {"mm": 1e-3, "cm": 1e-2, "metre": 1.0, "kilometre": 1e3, "km": 1e3},
}
"""Units that can be brought to each other."""
_SPANS = {
    name: unit
    for unit, names in {
        "minute": "minutes minute minuten minutos minuto",
        "hour": "hours hour hourly stunden stunde heures heure horas hora",
        "day": "days day daily tage tagen tag jours jour días día noches noche nights night nächte nacht nuits nuit",
        "week": "weeks week woche wochen semaines semaine semanas semana", "fortnight": "fortnight fortnights",
        "month": "months month monate monaten monat mois meses mes", "quarter": "quarters quarter quartal trimestre",
        "year": "years year jahre jahren jahr ans an année années años año",
    }.items()
    for name in names.split()
}  # fmt: skip
_SPANS |= {
    "täglich": "day", "wöchentlich": "week", "monatlich": "month", "jährlich": "year", "daily": "day", "weekly": "week",
    "monthly": "month", "yearly": "year",
}  # fmt: skip
_SPAN = "|".join(sorted(_SPANS, key=len, reverse=True))
_DAYS = (
    "mondays?|tuesdays?|wednesdays?|thursdays?|fridays?|saturdays?|sundays?|montag|dienstag|mittwoch|donnerstag|freitag|"
    "samstag|sonntag|lundi|mardi|mercredi|jeudi|vendredi|samedi|dimanche|lunes|martes|miércoles|jueves|viernes|sábado|"
    "domingo"
)
_COUNTS = {
    word: float(number)
    for word, number in {
        **NUMBERS, "one": "1", "two": "2", "three": "3", "four": "4", "five": "5", "six": "6", "seven": "7",
        "eight": "8", "nine": "9", "ten": "10", "twelve": "12", "fifteen": "15", "twenty": "20", "thirty": "30",
        "half a": "0.5", "half an": "0.5", "half": "0.5", "halbe": "0.5", "other": "2", "second": "2", "third": "3",
        "zweite": "2", "zweiten": "2", "zweites": "2", "dritte": "3", "dritten": "3", "drittes": "3", "ein": "1",
        "eine": "1", "une": "1", "un": "1", "una": "1", "once": "1", "twice": "2", "demi": "0.5", "media": "0.5",
        "dreißig": "30", "trente": "30", "treinta": "30",
    }.items()
}  # fmt: skip
_COUNT = r"\d+(?:[.,]\d+)?|" + "|".join(sorted(_COUNTS, key=len, reverse=True))
_TIMES = (
    rf"\b(?:(?P<once>once|twice|einmal|zweimal|dreimal|viermal)|(?P<times>{_COUNT})[- ]?(?:times|mal|fois|vez|veces))"
    rf"(?: (?P<of>in|alle|every|tous les|toutes les|cada) (?P<many>{_COUNT}))?"
    rf"(?: (?:a|an|per|each|every|in the|in|am|im|pro|in der|par|al|a la|por|cada|chaque|jeden?|jedes))? ?"
    rf"(?P<span>{_SPAN})\b"
)
_EVERY = (
    rf"\b(?:every|each|jede[nsr]?|alle|cada|chaque|tous les|toutes les|todos los|todas las) "
    rf"(?:(?P<every>{_COUNT}) )?(?P<each>{_SPAN})\b"
)
_WEEKDAY = rf"\b(?:every|each|jede[nr]?|cada|chaque|tous les|todos los) (?:(?P<nth>{_COUNT}) )?(?:{_DAYS})\b"
_ADVERBS = {
    "hour": "hourly|stündlich\\w*|horaire", "day": "daily|nightly|täglich\\w*|quotidien\\w*|diari[oa]s?|diariamente",
    "week": "weekly|wöchentlich\\w*|hebdomadaire\\w*|semanal\\w*", "fortnight": "fortnightly|quincenal\\w*",
    "month": "monthly|monatlich\\w*|mensuel\\w*|mensual\\w*",
    "quarter": "quarterly|vierteljährlich\\w*|quartalsweise|trimestriel\\w*|trimestral\\w*",
    "year": "yearly|annual|annually|(?<!viertel)(?<!halb)jährlich\\w*|annuel\\w*|anual\\w*",
}  # fmt: skip
_OFTEN = (
    re.compile(_TIMES, re.I), re.compile(_EVERY, re.I), re.compile(_WEEKDAY, re.I),
    *(re.compile(rf"\b(?P<{unit}>{words})\b", re.I) for unit, words in _ADVERBS.items()),
    re.compile(r"\b(?P<halfyear>half-yearly|semi-annual\w*|halbjährlich\w*|semestriel\w*|semestral\w*)\b", re.I),
)  # fmt: skip
_MAL = {"einmal": 1.0, "zweimal": 2.0, "dreimal": 3.0, "viermal": 4.0, "once": 1.0, "twice": 2.0}


def _count(words: str | None) -> float:
    if not words:
        return 1.0
    found = _COUNTS.get(words.casefold())
    return float(words.replace(",", ".")) if found is None else found


def how_often(text: str) -> list[tuple[float, int, int]]:
    """How often something is done by a text: hours between two times, and the place of the words."""
    found: list[tuple[float, int, int]] = []
    for pattern in _OFTEN:
        for match in pattern.finditer(text):
            if not any(start < match.end() and match.start() < end for _, start, end in found):
                found.append((_hours_between(match), match.start(), match.end()))
    return found


def _hours_between(match: re.Match[str]) -> float:
    named = {name: words for name, words in match.groupdict().items() if words}
    if "span" in named:
        times = _MAL.get(named.get("once", "").casefold()) or _count(named.get("times"))
        return _HOURS[_SPANS[named["span"].casefold()]] * _count(named.get("many")) / max(times, 1e-3)
    if "each" in named:
        return _HOURS[_SPANS[named["each"].casefold()]] * _count(named.get("every"))
    if "halfyear" in named:
        return _HOURS["year"] / 2
    unit = next((name for name in named if name in _HOURS), None)
    return _HOURS[unit] if unit else _HOURS["week"] * _count(named.get("nth"))


def measures(claim: Claim) -> dict[str, set[float]]:
    """The measures of a claim by sort: how often, lengths of time, masses, and what stands in units of its own."""
    found: dict[str, set[float]] = {}
    often = how_often(claim.text)
    for hours, _, _ in often:
        found.setdefault("how often", set()).add(hours)
    for value in claim.values:
        if value.kind == "quantity" and not any(s < value.end and value.start < e for _, s, e in often):
            sort, size = _measured(*value.norm.split(" ", 1))
            below = claim.text[: value.start].rstrip(" ")[-1:] in ("-", "−") and sort == "degree"
            found.setdefault(sort, set()).add(-size if below else size)
    return found


def _measured(number: str, unit: str) -> tuple[str, float]:
    unit = UNITS.get(unit, unit)
    for sort, sizes in _SCALES.items():
        if unit in sizes:
            return sort, float(number) * sizes[unit]
    return unit, float(number)


def same_measure(old: Claim, new: Claim) -> bool:
    """Whether two claims measure one thing in one sort and give the same in it: 42 days, and six weeks."""
    if not any(first == second for _, first, second in _both(old, new)):
        return False
    a, b = _valued(old), _valued(new)
    counted = [{n for sort, sizes in side.items() if sort.startswith("number") for n in sizes} for side in (a, b)]
    if not all(_agree(a[sort], b[sort]) for sort in a.keys() & b.keys()) or (all(counted) and not _agree(*counted)):
        return False
    ours, theirs = what_is_measured(old), what_is_measured(new)
    if len(ours) > len(theirs):
        ours, theirs = theirs, ours
    return 2 * len(only_in(ours, theirs)) <= len(ours) and bool(ours)


def _both(old: Claim, new: Claim) -> Iterator[tuple[str, float, float]]:
    """Sorts of which each claim has one measure, with the two; equal ones are made the same."""
    a, b = measures(old), measures(new)
    for sort in a.keys() & b.keys():
        if len(a[sort]) == len(b[sort]) == 1:
            (x,), (y,) = a[sort], b[sort]
            yield sort, x, x if abs(x - y) <= _NEAR * max(abs(x), abs(y)) else y


_WORD = re.compile(r"[^\W_]+")
_TITLES = frozenset(["herr", "herrn", "frau", "monsieur", "mme", "señor", "señora"])
_SMALL = (frozenset(word for several in COMMON.values() for word in several) | STOP_WORDS) - _TITLES
_MOST_CHARS = 200


def another_measure(old: Claim, new: Claim) -> bool:
    """Whether two lasting statements of one thing, in one language, give two values of one measure.

    Nothing but words around a measure may stand in one and not in the other, and no other value.
    """
    if not may_be_one_measure(old, new):
        return False
    if not _differ_in_measures(_valued(old), _valued(new)):
        return False
    ours, theirs = what_is_measured(old), what_is_measured(new)
    return bool(ours) and not only_in(ours, theirs) and not only_in(theirs, ours)


def measured_apart(old: Claim, new: Claim) -> bool:
    """Whether two claims give something of one sort, and nothing of it in both."""
    a, b = _valued(old), _valued(new)
    return any(not _agree(a[sort], b[sort]) for sort in a.keys() & b.keys())


def _differ_in_measures(ours: dict[str, set[float | str]], theirs: dict[str, set[float | str]]) -> bool:
    differing = {sort for sort in ours.keys() & theirs.keys() if not _agree(ours[sort], theirs[sort])}
    more = ours.keys() ^ theirs.keys()
    if any((ours.get(sort) or theirs[sort]) != {1.0} for sort in more) or not differing or "number" in differing:
        return False
    if len(differing) > 1 and any(sort in _WHEN or sort.startswith("number") for sort in differing):
        return False  # another day, another value; another house number, another rent
    return all(len(side[sort]) == 1 for sort in differing for side in (ours, theirs))


_WHEN = frozenset({"date", "year", "time"})


def may_be_one_measure(old: Claim, new: Claim) -> bool:
    """Whether two short lasting statements may give a measure of one thing: no past, no other case, no two bounds."""
    texts = (old.text, new.text)
    if max(map(len, texts)) > _MOST_CHARS or any(
        "?" in text or PAST.search(text) or ASIDE.search(text) for text in texts
    ):
        return False
    lasting = any(HOLDS.search(text) or LASTING.search(text) for text in texts)
    if ClaimKind.EVENT in (kind(old), kind(new)) or not lasting:
        return False
    if old.negated != new.negated or language_of(old.text) != language_of(new.text) or len(sentences(new.text)) > 1:
        return False
    return not any(
        (first.search(x) and last.search(y) and not last.search(x) and not first.search(y))
        for first, last in SIDES
        for x, y in (texts, texts[::-1])
    )


def _valued(claim: Claim) -> dict[str, set[float | str]]:
    """All values of a claim by what they measure; names are part of the matter."""
    found: dict[str, set[float | str]] = {sort: set(sizes) for sort, sizes in measures(claim).items()}
    taken = [(start, end) for _, start, end in how_often(claim.text)]
    for value in claim.values:
        if value.kind in ("name", "quantity") or any(s < value.end and value.start < e for s, e in taken):
            continue
        sort = f"money {value.norm.split(' ')[0]}" if value.kind == "money" else value.kind
        if value.kind == "number":
            counted = _WORD.match(claim.text, value.end + 1)
            noun = counted and (counted[0].islower() or language_of(claim.text) == "de")
            sort = f"number of {counted[0][:_SHORT].casefold()}" if counted and noun else "number"
        found.setdefault(sort, set()).add(value.norm)
    return found


def _agree(ours: set[float | str], theirs: set[float | str]) -> bool:
    if ours & theirs:
        return True
    return any(
        isinstance(x, float) and isinstance(y, float) and abs(x - y) <= _NEAR * max(abs(x), abs(y))
        for x in ours
        for y in theirs
    )


_SHORT = 4


def what_is_measured(claim: Claim) -> set[str]:
    """The words of a claim that say what is measured."""
    blank = list(claim.text)
    places = [(v.start, v.end) for v in claim.values if v.kind != "name"]
    for start, end in [*places, *((start, end) for _, start, end in how_often(claim.text))]:
        blank[start:end] = " " * (end - start)
    found = set()
    for match in _WORD.finditer("".join(blank)):
        word = match[0].casefold()
        letter = len(word) == 1 and match[0].isupper() and match.start() > 0
        if letter or not word.isalpha() or (len(word) > 2 and word not in _SMALL and not FRAME.fullmatch(word)):
            found.add(bare(word) if word.isalpha() else word)
    return found


def bare(word: str) -> str:
    """A word without accents, and without the prefix of a German participle."""
    plain = "".join(c for c in unicodedata.normalize("NFD", word) if not unicodedata.combining(c))
    return plain[2:] if len(plain) > 6 and plain.startswith("ge") and plain.endswith(("t", "en")) else plain


def only_in(ours: set[str], theirs: set[str]) -> set[str]:
    """The words of one claim that the other has in no form."""
    return {word for word in ours if not any(_akin(word, other) for other in theirs)}


def _akin(a: str, b: str) -> bool:
    """Whether two words are forms of one: only their ends differ."""
    same = sum(1 for _ in itertools.takewhile(lambda two: two[0] == two[1], zip(a, b, strict=False)))
    return a == b or (same >= _SHORT and max(len(a), len(b)) - same <= _SHORT - 1)
