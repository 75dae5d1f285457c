"""Numbers in words, units and times of day: one form for each amount, in four languages.

Written by hand, because the libraries that read number words do so in whole texts and in one language at a time, while
a claim may mix two and has to keep the place of every value.
"""

from __future__ import annotations

import re

_EN_ONES = "one two three four five six seven eight nine"
_EN_TEENS = "ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen"
_EN_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
_FR_ONES = "deux trois quatre cinq six sept huit neuf"
_FR_TEENS = "dix onze douze treize quatorze quinze seize"
_FR_TENS = "vingt trente quarante cinquante soixante"
_ES_ONES = "dos tres cuatro cinco seis siete ocho nueve"
_ES_TEENS = "diez once doce trece catorce quince dieciséis diecisiete dieciocho diecinueve"
_ES_TWENTIES = "veintiuno veintidós veintitrés veinticuatro veinticinco veintiséis veintisiete veintiocho veintinueve"
_ES_TENS = "veinte treinta cuarenta cincuenta sesenta setenta ochenta noventa"
_ES_HUNDREDS = "ciento doscientos trescientos cuatrocientos quinientos seiscientos setecientos ochocientos novecientos"
_DE_ONES = "ein zwei drei vier fünf sechs sieben acht neun"
_DE_TEENS = "zehn elf zwölf dreizehn vierzehn fünfzehn sechzehn siebzehn achtzehn neunzehn"
_DE_TENS = "zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig"


def _row(words: str, first: int, step: int = 1) -> dict[str, float]:
    return {word: float(first + step * n) for n, word in enumerate(words.split())}


_VALUES = {
    **_row(_EN_ONES, 1), **_row(_EN_TEENS, 10), **_row(_EN_TENS, 20, 10),
    **_row(_FR_ONES, 2), **_row(_FR_TEENS, 10), **_row(_FR_TENS, 20, 10),
    **_row(_ES_ONES, 2), **_row(_ES_TEENS, 10), **_row(_ES_TWENTIES, 21), **_row(_ES_TENS, 20, 10),
    **_row(_ES_HUNDREDS, 100, 100), **_row(_ES_HUNDREDS.replace("tos", "tas"), 100, 100),
    "zero": 0.0, "un": 1.0, "une": 1.0, "una": 1.0, "uno": 1.0, "veintiún": 21.0, "cien": 100.0, "vingts": 20.0,
    "dix-sept": 17.0, "dix-huit": 18.0, "dix-neuf": 19.0,
}  # fmt: skip
_TIMES = {"hundred": 100.0, "thousand": 1000.0, "cent": 100.0, "cents": 100.0, "mille": 1000.0, "mil": 1000.0}
_GERMAN = {**_row(_DE_ONES, 1), **_row(_DE_TEENS, 10), **_row(_DE_TENS, 20, 10), "dreissig": 30.0}
_PARTS = {
    "half": 0.5, "halbe": 0.5, "halben": 0.5, "halber": 0.5, "halbes": 0.5, "demi": 0.5, "demie": 0.5, "media": 0.5,
    "medio": 0.5, "quarter": 0.25, "viertel": 0.25, "quart": 0.25, "cuarto": 0.25, "three quarters": 0.75,
    "three-quarters": 0.75, "dreiviertel": 0.75, "trois quarts": 0.75, "tres cuartos": 0.75, "anderthalb": 1.5,
    "eineinhalb": 1.5, "zweieinhalb": 2.5, "dreieinhalb": 3.5, "viereinhalb": 4.5,
}  # fmt: skip
_COUNTS = {"twice": 2.0, "beide": 2.0, "einmal": 1.0, "zweimal": 2.0, "dreimal": 3.0, "once": 1.0}
"""How often; "once" is Spanish for eleven, too, but English far more often."""
_DOZENS = r"dozen|dutzend|docenas?|douzaines?"


def _any(words: str) -> str:
    return "|".join(words.split())


_EN_SMALL = rf"(?:(?:{_any(_EN_TENS)})(?:[- ](?:{_any(_EN_ONES)}))?|{_any(_EN_TEENS)}|{_any(_EN_ONES)})"
_EN_BIG = rf"(?:(?:(?:{_any(_EN_ONES)}|a) )?hundred(?:(?: and)? {_EN_SMALL})?|{_EN_SMALL})"
_EN = rf"(?:(?:(?:{_EN_BIG}|a) )?thousand(?:(?: and)? {_EN_BIG})?|{_EN_BIG}|zero)"
_FR_TEEN = rf"dix[- ](?:sept|huit|neuf)|{_any(_FR_TEENS)}"
_FR_LAST = rf"(?:(?:[- ]et)?[- ](?:{_FR_TEEN}|une?|{_any(_FR_ONES)}))?"
_FR_SMALL = (
    rf"(?:quatre[- ]vingts?{_FR_LAST}|(?:{_any(_FR_TENS)})\b{_FR_LAST}|(?:{_FR_TEEN}|{_any(_FR_ONES)})(?! cents?\b))"
)
_FR_BIG = rf"(?:(?:{_any(_FR_ONES)}) cents?(?: {_FR_SMALL})?|cent {_FR_SMALL}|{_FR_SMALL})"
_FR = rf"(?:(?:{_FR_BIG} )?mille(?: {_FR_BIG})?|{_FR_BIG})"
_ES_SMALL = (
    rf"(?:(?:{_any(_ES_TENS)})(?: y (?:un[oa]?|{_any(_ES_ONES)}))?|{_any(_ES_TWENTIES)}|veintiún|{_any(_ES_TEENS)}|"
    rf"{_any(_ES_ONES)})"
)
_ES_BIG = rf"(?:(?:cien|{_any(_ES_HUNDREDS).replace('tos', 't[oa]s')})\b(?: {_ES_SMALL})?|{_ES_SMALL})"
_ES = rf"(?:(?:{_ES_BIG} )?mil\b(?: {_ES_BIG})?|{_ES_BIG})"
_DE_SMALL = (
    rf"(?:(?:(?:{_any(_DE_ONES)})und)?(?:{_any(_DE_TENS)}|dreissig)|{_any(_DE_TEENS)}|"
    rf"{_any(_DE_ONES).partition('|')[2]})"
)
_DE_BIG = rf"(?:(?:{_any(_DE_ONES)})?hundert(?:{_DE_SMALL})?|{_DE_SMALL})"
_DE = rf"(?:(?:{_DE_BIG}|ein)?tausend(?:{_DE_BIG})?|{_DE_BIG})"
_DOZEN = rf"(?:(?:{_EN}|{_DE}|{_FR}|{_ES}|\d{{1,3}}|an?|une|una|ein) )?(?:{_DOZENS})"
NUMBER_WORDS = rf"(?:{_DOZEN}|{'|'.join(_COUNTS)}|{_EN}|{_DE}|{_FR}|{_ES})(?!\w)"
"""A number in words, as a part of a pattern."""
PARTS = "|".join(sorted(_PARTS, key=len, reverse=True))
"""Halves and quarters, which stand before a unit."""
_GERMAN_NUMBER = re.compile(
    rf"(?:(?P<thousands>{_DE_BIG}|ein)?(?P<mil>tausend))?(?:(?P<hundreds>{_any(_DE_ONES)})?(?P<cent>hundert))?"
    rf"(?:(?:(?P<ones>{_any(_DE_ONES)})und)?(?P<rest>{_any(_DE_TENS)}|dreissig|{_any(_DE_TEENS)}|{_any(_DE_ONES)}))?"
)


_HOURS = (
    "one two three four five six seven eight nine ten eleven twelve",
    "eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf",
    "une deux trois quatre cinq six sept huit neuf dix onze",
    "una dos tres cuatro cinco seis siete ocho nueve diez once doce",
)
_HOUR_WORDS = {word: n for words in _HOURS for n, word in enumerate(words.split(), 1)}
_SHIFTS = {
    "half past": 30, "quarter past": 15, "quarter to": -15, "halb": -30, "viertel nach": 15,
    "viertel vor": -15, "y media": 30, "y cuarto": 15, "menos cuarto": -15, "et demie": 30, "et quart": 15,
    "moins le quart": -15,
}  # fmt: skip
_BEGINS = {
    *_VALUES, *_COUNTS, *_EN_ONES.split(), "a", "an", "ein", "hundred", "thousand", "cent", "mille", "mil", "zero",
    *(part.split(" ")[0].split("-")[0] for part in _PARTS), *_HOUR_WORDS, *(s.split(" ")[0] for s in _SHIFTS),
    *_GERMAN, *["dozen", "dutzend", "docena", "docenas", "douzaine", "douzaines", "fortnight", "hora"],
}  # fmt: skip
_COMPOUND = ("zig", "ßig", "ssig", "hundert", "tausend")
_PREFIXES = ("viertel", "dreiviertel", "demi")
_A_WORD = re.compile(r"[^\W\d_]+|(?<![\w.,:])\d{1,2}(?= [A-Za-z])")


def number_words(text: str) -> list[int]:
    """Where in a text a number in words, or an amount or time with one, may begin."""
    found = []
    for word in _A_WORD.finditer(text):
        plain = word[0].casefold()
        if plain in _BEGINS or plain.isdigit() or plain.startswith(_PREFIXES) or any(e in plain for e in _COMPOUND):
            found.append(word.start())
    return found


def number_of(words: str) -> float | None:
    """The number that words stand for; None for anything else."""
    text = " ".join(words.casefold().split())
    if text in _PARTS or text in _COUNTS:
        return _PARTS.get(text, _COUNTS.get(text))
    if dozens := re.fullmatch(rf"(?:(?P<n>.+) )?(?:{_DOZENS})", text):
        before = dozens["n"] or "one"
        each = 1.0 if before in ("a", "an", "ein") else float(before) if before.isdigit() else number_of(before)
        return None if each is None else 12 * each
    return _german(text) or _spaced(text)


def _spaced(text: str) -> float | None:
    """English, French and Spanish: words that are added, and hundreds and thousands."""
    total, current = 0.0, 0.0
    for word in re.split(r"[- ]", text):
        if word in ("and", "et", "y", "a"):
            continue
        if word in _TIMES:
            current = max(current, 1.0) * _TIMES[word]
            if _TIMES[word] == 1000:
                total, current = total + current, 0.0
        elif word in ("vingt", "vingts") and current % 100 == 4:
            current += 76  # four twenties
        elif word in _VALUES:
            current += _VALUES[word]
        else:
            return None
    return total + current


def _german(text: str) -> float | None:
    found = _GERMAN_NUMBER.fullmatch(text) if text else None
    if found is None:
        return None
    thousands = 1000 * (_german(found["thousands"]) or 1.0 if found["thousands"] else 1.0) if found["mil"] else 0.0
    hundreds = 100 * _GERMAN.get(found["hundreds"] or "ein", 1.0) if found["cent"] else 0.0
    return thousands + hundreds + _GERMAN.get(found["ones"] or "", 0.0) + _GERMAN.get(found["rest"] or "", 0.0)


_BASES = {
    "microgram": ("gram", 1e-6), "milligram": ("gram", 1e-3), "kilogram": ("gram", 1e3), "tonne": ("gram", 1e6),
    "millimetre": ("metre", 1e-3), "centimetre": ("metre", 1e-2), "kilometre": ("metre", 1e3),
    "millilitre": ("litre", 1e-3), "centilitre": ("litre", 1e-2), "decilitre": ("litre", 0.1),
    "second": ("minute", 1 / 60), "hour": ("minute", 60.0), "week": ("day", 7.0), "fortnight": ("day", 14.0),
    "year": ("month", 12.0), "people": ("person", 1.0),
}  # fmt: skip
"""Unit -> the one that it is counted in. Days are not counted in hours, nor months in days: "30 days" is no month."""
_DAY = 24 * 60.0


def measure(amount: float, unit: str) -> str:
    """An amount of a unit in one form: "90 minute" for an hour and a half."""
    base, times = _BASES.get(unit, (unit, 1.0))
    amount *= times
    if unit == "hour" and amount >= _DAY and amount % _DAY == 0:
        base, amount = "day", amount / _DAY
    return f"{float(f'{amount:.6g}'):g} {base}"


_AN_HOUR = rf"(?:1[0-2]|0?[1-9]|{'|'.join(sorted(_HOUR_WORDS, key=len, reverse=True))})(?!\w)"
_MORNING = r"in the morning|morgens|vormittags|in der früh|du matin|de la mañana|a\.?m\b\.?"
_LATER = (
    r"in the afternoon|in the evening|at night|nachmittags|abends|de l['’]après-midi|du soir|de la tarde|de la noche|"
    r"p\.?m\b\.?"
)
_PART_OF_DAY = rf"(?P<morning>{_MORNING})|(?P<later>{_LATER})"
SPOKEN_TIME = re.compile(
    rf"\b(?:(?P<before>half past|quarter past|quarter to|halb|viertel nach|viertel vor) (?P<h1>{_AN_HOUR})"
    rf"|(?:(?<=las )|(?<=la )|(?<=à ))(?P<h2>{_AN_HOUR})(?: heures?)? "
    r"(?P<after>y media|y cuarto|menos cuarto|et demie|et quart|moins le quart)"
    rf"|(?P<h3>{_AN_HOUR})(?: heures?| uhr| o['’]clock)?(?= (?:{_MORNING}|{_LATER}))"
    rf"|(?P<h4>{'|'.join(_HOUR_WORDS)}) (?:uhr|o['’]clock)(?!\w))(?: (?:{_PART_OF_DAY}))?",
    re.I,
)
"""Times of day in words: half past two, halb drei, six in the evening."""
OPEN_TIME = "~"
"""Begins a time of which nobody says whether it is before or after noon."""


def spoken_time(found: re.Match[str]) -> str:
    """A time of day in words as digits."""
    word = (found["h1"] or found["h2"] or found["h3"] or found["h4"]).casefold()
    minutes = 60 * (_HOUR_WORDS.get(word) or int(word))
    minutes += _SHIFTS.get((found["before"] or found["after"] or "").casefold(), 0)
    if not (found["morning"] or found["later"]):
        return f"{OPEN_TIME}{_clock(minutes % 720)}"
    return _clock((minutes % 720) + (720 if found["later"] else 0))


def _clock(minutes: int) -> str:
    return f"{minutes // 60:02d}:{minutes % 60:02d}"


def same_time(first: str, second: str) -> bool:
    """Whether two times may be one: half past two is 02:30 and 14:30."""
    if OPEN_TIME not in (first[0], second[0]):
        return first == second
    (hour, minute), (hour2, minute2) = (time.lstrip(OPEN_TIME).split(":")[:2] for time in (first, second))
    return minute == minute2 and int(hour) % 12 == int(hour2) % 12
