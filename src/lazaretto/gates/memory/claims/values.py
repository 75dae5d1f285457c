"""Values and words by which claims are read: accounts, amounts, dates, names; polarity and permission in four languages."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from lazaretto.gates.memory.claims.measures import (
    NUMBER_WORDS,
    PARTS,
    SPOKEN_TIME,
    measure,
    number_of,
    number_words,
    spoken_time,
)
from lazaretto.kept_texts import remembered

# Words of German, French and Spanish for reading claims: language, polarity, permissions, numbers, days.
#
# English is in ``extraction`` and ``values``. The encoder knows English, so plain words of refusal are matched here.

# ruff: noqa: E501


_COMMON = {
    "en": "the and is are was were of to in on at for with by not no only be been has have from that this may must can",
    "de": "der die das und ist nicht den dem ein eine einen wird werden wurde auf für mit von nur bei ohne im am zu des "
          "kein keine hat darf muss gibt es sich als auch nach über vor bis war sind dürfen müssen kann vom zum zur wer "
          "niemand jeder alle aus man hatte herr herrn frau bekommt um",
    "fr": "le la les de des du un une est sont et pour sur avec dans par ne pas qui que au aux ce cette il elle on se "
          "sans plus peut été a ont son sa ses en très jamais seul seule chaque tout toute était mme monsieur prend",
    "es": "el los las un una es son y para con por en del al se no que lo su sus sin más puede está están fue fueron "
          "ha han hay nunca solo cada como tiene todo toda nadie cuando hasta señor señora toma",
}  # fmt: skip
COMMON = {language: frozenset(words.split()) for language, words in _COMMON.items()}
_WORD = re.compile(r"[^\W\d_]+")
_MARKS = {"de": "äöüß", "fr": "éèêàùçœ", "es": "ñáíóú¿¡"}


@remembered(256 << 10, lambda code: 100)
def language_of(text: str) -> str:
    """en | de | fr | es, by the commonest words; English where nothing tells."""
    words = _WORD.findall(text.casefold())
    score = {language: float(sum(word in known for word in words)) for language, known in COMMON.items()}
    for language, marks in _MARKS.items():
        score[language] += 0.6 * any(mark in text.casefold() for mark in marks)
    best = max(score, key=lambda name: (score[name], name == "en"))
    return best if score[best] > score["en"] else "en"


NEGATION = {
    "de": re.compile(r"\b(?:nicht|nichts|nie|niemals|niemand\w*|kein\w*|ohne|weder)\b", re.I),
    "fr": re.compile(
        r"\b(?:pas|jamais|aucune?|rien|sans)\b|\bn(?:e\s+|['’])\w+ plus\b|\bpersonne n|\bn(?:e\s+|['’])\w+ni\b", re.I
    ),
    "es": re.compile(r"\b(?:no|nunca|jamás|sin|ningun[oa]|ningún|tampoco)\b|^\W*nadie\b|(?<!no )\bnadie\b", re.I),
}  # fmt: skip
"""Words that negate a sentence."""

DECLARED = re.compile(
    r"\b(?:ab (?:sofort|heute|jetzt)|künftig|nunmehr|neue[nrs]? (?:konto\w*|bankverbindung|iban|kontonummer)|(?:hat|haben) sich\b[^.!?\n]{0,40}(?<!\bnicht)(?<!\bnie)(?<!\bniemals) geändert|"
    r"(?:wurden?|ist|sind|hat|haben)\b[^.!?\n]{0,40}(?<!\bnicht)(?<!\bnie)(?<!\bniemals) (?:geändert|gewechselt|umgestellt)|(?:gilt|gelten|gültig)\b[^.!?\n]{0,20} nicht mehr|"
    r"désormais|dorénavant|à partir d['’]aujourd['’]hui|nouve(?:au|lle|aux|lles) (?:comptes?|iban|rib|banque|coordonnées bancaires)|"
    r"(?:a|ont) changé|n['’]est plus valable|"
    r"desde (?:hoy|ahora)|a partir de (?:hoy|ahora)|en adelante|nuev[oa]s? (?:cuentas?|iban|datos bancarios|banco)|(?<!\bno )(?<!\bno (?:se|le|os) )(?<!\bno (?:nos|les) )(?<!\bnunca )(?:ha|han|hemos) (?:cambiado|sustituido)|ya no (?:es|vale|sirve))\b",
    re.I,
)
"""Words of German, French and Spanish that say plainly that something changed, not that nothing did; they are asked for
beside an account."""
_ASKS = re.compile(
    r"[^\w¿]*(?:¿|(?:(?:and|but|so|und|aber|et|mais|y) )?(?:who|whom|whose|what|which|when|where|why|how|is|are|was|were|am|do|does|did|has|have|had|can|could|may|"
    r"might|must|shall|should|will|would|isn['’]t|aren['’]t|don['’]t|doesn['’]t|didn['’]t|hasn['’]t|wer|wem|wen|was|wann|wo|wohin|woher|warum|wieso|wie|welche\w*|ist|sind|hat|haben|"
    r"kann|können|darf|dürfen|muss|müssen|soll|sollen|wird|werden|gilt|gibt|qui|que|quoi|quels?|quelles?|quand|où|comment|pourquoi|combien|est-ce|est|sont|"
    r"a-t-\w+|peut-\w+|y a-t-il|if|in which|at which|to whom|on which|for which|from which|by when|bis wann|seit wann)(?!\w))",
    re.I,
)
_TELLS = re.compile(
    r"\b(?:know|known|hear|heard|notice|noticed|remember|realise|realize|seen|aware|gewusst|wissen|weißt|wisst|gehört|mitbekommen|sais|savez|entendu|sabes|sabíais|"
    r"sabías|sabéis|oído)\b|"
    r"\b(?:n['’]t|not) (?:(?:it|this|that) )?(?:\w+ )?\w+ that\b|"
    r"^\W*(?:why|how come|since when|warum|wieso|weshalb|seit wann|pourquoi|depuis quand|por qué|desde cuándo)\b(?! (?:would|should|do|does|did|might|glaub|denk|crois|pens|cre)\w*\b)|"
    r"^\W*(?:how|what an?|so|wie|quel\w*|qué) [^,?]{1,30},.*,[^,?]{1,15}\?\W*$",
    re.I,
)
"""Words after which a question tells what it seems to ask: "Did you know that ...?"."""


def is_asked(sentence: str) -> bool:
    """Whether a sentence asks and tells nothing: it begins like a question, and is none that tells ("..., right?", "Why
    is it so?"), and gives no account or address, which readers may take from it all the same."""
    if not sentence.rstrip().endswith("?") or not _ASKS.match(sentence) or _TELLS.search(sentence):
        return False
    return not any(value.kind in ("account", "mail", "phone", "host") for value in values_in(sentence))


_ASKED = {
    "de": "freigabe|prüfung|rückruf|unterschrift|genehmigung|kontrolle|ausweis|rezept|schein|bestätigung|aufsicht|"
          "begleitung|rückfrage|zustimmung|nachfrage|gutachter|helm|limit",
    "fr": "validation|approbation|accord|signature|rappel|permis|contrôle|relecture|confirmation|vérification|"
          "ordonnance|autorisation|expert|casque|pièce|demander",
    "es": "autorización|permiso|firma|llamar|aprobación|revisión|confirmar|verificar|control|carné|documento|receta|"
          "visto|perito|casco|preguntar|comprobar",
}  # fmt: skip
PERMISSIONS: dict[str, tuple[tuple[str, re.Pattern[str]], ...]] = {
    "de": (
        ("waive", re.compile(
            rf"\b(?:muss|müssen|braucht|brauchen) (?:[\w-]+ ){{0,4}}(?:nicht|kein\w*)\b|\bnicht (?:mehr )?(?:nötig|"
            rf"notwendig|erforderlich|vorgesehen)|\b(?:entfällt|entfallen|freiwillig|überflüssig|unnötig)\b|\bverzicht|"
            rf"\bweg(?:ge)?lassen|\bformsache\b|\bsparen\b|\bohne (?:\w+ ){{0,2}}(?:{_ASKED['de']})\b|\bauf dem papier\b|"
            rf"\bgilt nicht mehr\b", re.I)),
        ("forbid", re.compile(
            r"\b(?:darf|dürfen) (?:[\w-]+ ){0,5}(?:nicht|nie|kein\w*)\b|\bverboten\b|\buntersagt\b|\bniemand\b|"
            r"\bnie(?:mals)?\b", re.I)),
        ("require", re.compile(
            r"\b(?:muss|müssen|braucht|brauchen|erforderlich|pflicht|notwendig|nötig|zwingend|ausschließlich)\b|\bnur "
            r"(?:mit|nach|gegen|wenn|wer|auf|zu|durch|persönlich|die|der|das)\b", re.I)),
        ("allow", re.compile(r"\b(?:darf|dürfen|kann|können|erlaubt|reicht|genügt|gestattet|jederzeit)\b", re.I)),
    ),
    "fr": (
        ("waive", re.compile(
            rf"\bpas besoin\b|\bn['’](?:est|ont|a) (?:plus|pas) (?:\w+ )?(?:nécessaire|requis|obligatoire|demandé|besoin|"
            rf"à |prévu)|\b(?:facultati|inutile|superflu|dispens|formalité)|\bse passer d|\bsans (?:\w+ ){{0,2}}"
            rf"(?:{_ASKED['fr']})\b|\bsur le papier\b|\blaisser de côté\b", re.I)),
        ("forbid", re.compile(
            r"\binterdit|\bdéfendu|\bne (?:peut|peuvent|doit|doivent) (?:pas|jamais)\b|\bjamais\b|\bpersonne n", re.I)),
        ("require", re.compile(
            r"\b(?:doit|doivent|faut|obligatoire|exigé\w*|nécessaire|réservé\w*|seule?s?)\b|\bne? ?['’]?\w+ \w* ?qu['’e]",
            re.I)),
        ("allow", re.compile(r"\b(?:peut|peuvent|autorisé\w*|suffit|suffisent|n['’]importe)\b", re.I)),
    ),
    "es": (
        ("waive", re.compile(
            rf"\bno (?:hace|hacen) falta\b|\bno (?:es|son) (?:necesari|obligatori)|\bno (?:se )?(?:necesit|prevé|requier)|"
            rf"\bno tienen? que\b|\b(?:opcional|omitir|saltar|prescindir|trámite|sobra)\b|\bsin (?:\w+ ){{0,2}}"
            rf"(?:{_ASKED['es']})\b|\bsobre el papel\b|\bde adorno\b", re.I)),
        ("forbid", re.compile(r"\bprohibid|\bno (?:se )?(?:puede|pueden|debe|deben)\b|\bnadie\b|\bnunca\b", re.I)),
        ("require", re.compile(
            r"\b(?:debe|deben|necesitan?|obligatori\w+|exige|únicamente)\b|\bhay que\b|\bhacen? falta\b|\bsolo (?:con|"
            r"tras|al|quien|se|la|el)\b", re.I)),
        ("allow", re.compile(r"\b(?:puede|pueden|permit\w+|basta|bastan|cualquiera)\b", re.I)),
    ),
}  # fmt: skip

MONTHS = {
    name: number
    for number, names in enumerate(
        ("januar janvier enero", "februar février febrero", "märz mars marzo", "avril abril", "mai mayo",
         "juni juin junio", "juli juillet julio", "août agosto", "septembre septiembre", "oktober octobre octubre",
         "novembre noviembre", "dezember décembre diciembre"), 1)
    for name in names.split()
}  # fmt: skip
DAYS = {
    name: day
    for day, names in {
        "monday": "montag lundi lunes", "tuesday": "dienstag mardi martes", "wednesday": "mittwoch mercredi miércoles",
        "thursday": "donnerstag jeudi jueves", "friday": "freitag vendredi viernes",
        "saturday": "samstag samedi sábado", "sunday": "sonntag dimanche domingo",
    }.items()
    for name in names.split()
}  # fmt: skip
UNITS = {
    name: unit
    for unit, names in {
        "degree": "grad degrés grados", "hour": "stunde stunden heures heure horas hora", "second": "sekunde sekunden "
        "seconde secondes segundo segundos", "gram": "gramm gramme grammes gramo gramos", "kilogram": "kilogramm "
        "kilogramme kilogrammes kilogramo kilogramos", "metre": "mètre mètres metro metros", "centimetre": "zentimeter "
        "centimètre centimètres centímetro centímetros", "millimetre": "millimètre millimètres milímetro milímetros",
        "kilometre": "kilomètre kilomètres kilómetro kilómetros", "day": "tag tage tagen jours "
        "jour días día", "week": "woche wochen semaines semaine semanas semana", "month": "monat monate monaten mois "
        "meses mes", "year": "jahr jahre jahren ans an années año años", "minute": "minuten minuto minutos", "tonne": "tonnen "
        "toneladas tonnes", "person": "personen personnes personas", "litre": "liter litres litro litros",
        "signature": "unterschriften signatures firmas",
    }.items()
    for name in names.split()
}  # fmt: skip

# The values in a text that can be compared: accounts, addresses, amounts, dates, versions, names.
#
# Values differ long before a language model notices, and can be shown to a person. Pure functions; no model is needed.

MAX_VALUES = 40
"""Most values of one claim; a table of numbers is not compared cell by cell."""
STRONG = frozenset({"account", "mail", "host", "path", "phone", "version", "package"})
"""Kinds that name one thing exactly: two different ones are never two ways of saying the same."""


@dataclass(frozen=True, slots=True)
class Value:
    """One value as it stands in the text."""

    kind: str
    """account | mail | host | path | phone | package | version | money | percent | date | year | time | quantity |
    number | reference | name."""
    norm: str
    """The form that is compared: two spellings of the same value are equal here."""
    start: int
    end: int


_MONTHS = {
    name: number
    for number, names in enumerate(
        ("jan january", "feb february", "mar march", "apr april", "may", "jun june", "jul july", "aug august",
         "sep sept september", "oct october", "nov november", "dec december"), 1)
    for name in names.split()
} | MONTHS  # fmt: skip
_MONTH = "|".join(sorted(_MONTHS, key=len, reverse=True))
_CURRENCIES = {"€": "eur", "$": "usd", "£": "gbp", "euro": "eur", "euros": "eur", "dollar": "usd", "dollars": "usd",
               "pound": "gbp", "pounds": "gbp"}  # fmt: skip
_COINS = "euros?|dollars?|pounds?|francs?|franken|pesos?|cents?|centimes?|céntimos?"
_CODES = "EUR|USD|GBP|CHF|JPY|SEK|NOK|DKK|PLN|CZK|CAD|AUD|INR|CNY|BTC|ETH"
_UNITS = (
    "milligrams?|micrograms?|grams?|kilograms?|kilos?|tonnes?|tons?|mcg|mg|kg|g|millilitres?|milliliters?|litres?|"
    "liters?|ml|cl|dl|l|kilometres?|kilometers?|centimetres?|centimeters?|millimetres?|millimeters?|metres?|meters?|"
    "miles?|km|cm|mm|m|degrees?|°c|°f|seconds?|secs?|minutes?|mins?|hours?|hrs?|days?|fortnights?|weeks?|months?|"
    "years?|"
    "bytes?|kb|mb|gb|tb|requests?|characters?|pieces?|seats?|users?|tablets?|drops?|units?|people|persons?|times|bar|"
    "volts?|watts?|kw|hz|tokens?|items?|copies|signatures?|approvals?|votes?|working days|" + "|".join(UNITS)
)
_NUMBER = (
    r"\d{1,3}(?:,\d{3})+(?:\.\d+)?|[1-9]\d{0,2}(?:\.\d{3})+(?:,\d+)?(?![\d.])|"
    r"[1-9]\d{0,2}(?:[ \u00a0\u202f]\d{3})+(?!\d)|\d+,\d{1,2}(?!\d)|\d+(?:\.\d+)?"
)
"""1,200.50 and 1.200,50 and 1 200: in one language a dot is what a comma is in another."""
_HALF_MORE = r" and a half\b| et demie?\b| y medi[oa]\b"
_QUANTITY = re.compile(rf"\b(?P<n>{_NUMBER})[\s-]?(?P<unit>{_UNITS})\b(?P<rest>{_HALF_MORE})?(?!/)", re.I)
_QUANTITY_IN_WORDS = re.compile(
    rf"\b(?:(?P<n>{PARTS}|{NUMBER_WORDS})(?P<half> and a half)?[\s-]?(?:an? |of an? |d['’]|de )?"
    rf"(?P<unit>{_UNITS})\b(?P<rest>{_HALF_MORE})?|(?:(?:an?|une?|una) )?(?P<unit2>{_UNITS})(?P<rest2>{_HALF_MORE})"
    r"|(?:(?:an?|one) )?(?P<unit3>fortnight))(?!/)",
    re.I,
)
_DOMAINS = (
    "com|org|net|io|dev|app|ai|co|uk|de|fr|nl|eu|us|ch|at|it|es|pl|se|no|dk|fi|be|jp|cn|in|br|au|ca|info|biz|gov|edu|"
    "mil|example|test|internal|local|lan|corp|cloud|svc|cluster|onion|xyz|online|site|tech|me"
)


def _digits(text: str) -> str:
    return re.sub(r"[^0-9+]", "", text)


def _plain(text: str) -> str:
    return re.sub(r"[\s-]+", "", text).casefold()


def _amount(text: str) -> str:
    cleaned = re.sub(r"[ \u00a0\u202f]", "", text)
    if re.fullmatch(r"[1-9]\d{0,2}(?:\.\d{3})+(?:,\d+)?", cleaned):
        cleaned = cleaned.replace(".", "").replace(",", ".")
    elif re.fullmatch(r"\d+,\d{1,2}", cleaned):
        cleaned = cleaned.replace(",", ".")
    cleaned = cleaned.replace(",", "")
    number = float(cleaned) if re.fullmatch(r"\d[\d.]*", cleaned) else number_of(text) or 0.0
    return f"{number:g}"


def _money(m: re.Match[str]) -> str:
    word = (m["sign"] or m["code"] or m["before"] or m["word"] or "").casefold()
    scale = {"k": 1e3, "thousand": 1e3, "m": 1e6, "million": 1e6, "bn": 1e9, "billion": 1e9}
    factor = scale.get((m["scale1"] or m["scale2"] or m["scale3"] or "").casefold(), 1.0)
    number = float(_amount(m["n1"] or m["n2"] or m["n3"])) * factor
    return f"{_CURRENCIES.get(word, word)} {number:g}"


def _date(m: re.Match[str]) -> str:
    if m["iso"]:
        year, month, day = m["iso"].split("-")
        return f"{int(day)}/{int(month)}/{year}"
    if m["dotted"]:
        day, month, year = re.split(r"[./]", m["dotted"])
        return f"{int(day)}/{int(month)}/{year}"
    day = m["d1"] or m["d2"] or ""
    month = _MONTHS[(m["m1"] or m["m2"] or m["m3"]).casefold()]
    return f"{int(day) if day else ''}/{month}/{m['y1'] or m['y2'] or m['y3'] or ''}"


def _hour(m: re.Match[str]) -> str:
    """18 Uhr, 19 h, 16 h 30, 6 o'clock."""
    return f"{int(m['hour'] or m['heure'] or m['h3']):02d}:{m['minute'] or m['min2'] or '00'}"


def _time(m: re.Match[str]) -> str:
    text = m[0].casefold()
    if text in ("noon", "midday"):
        return "12:00"
    if text == "midnight":
        return "00:00"
    if m["hour"]:
        hour = int(m["hour"]) % 12 + (12 if "p" in m["half"].casefold() else 0)
        return f"{hour:02d}:{int(m['minute'] or 0):02d}"
    parts = text.split(":")
    return f"{int(parts[0]):02d}:{parts[1][:2]}"


_UNIT_NAMES = {"mg": "milligram", "mcg": "microgram", "g": "gram", "kg": "kilogram", "kilo": "kilogram", "ml":
               "millilitre", "milliliter": "millilitre", "cl": "centilitre", "dl": "decilitre", "l": "litre",
               "liter": "litre", "km": "kilometre", "kilometer": "kilometre", "m": "metre", "meter": "metre", "cm":
               "centimetre", "centimeter": "centimetre", "mm": "millimetre", "millimeter": "millimetre", "°c": "degree",
               "ton": "tonne", "hr": "hour", "min": "minute", "sec": "second"}  # fmt: skip


def _quantity(m: re.Match[str]) -> str:
    given = m.groupdict()
    unit = (m["unit"] or given["unit2"] or given["unit3"]).casefold()
    if unit not in UNITS:
        unit = unit[:-1] if unit.endswith("s") and len(unit) > 3 else unit
    half = 0.5 if m["rest"] or given.get("half") or given.get("rest2") else 0.0
    return measure(float(_amount(m["n"] or "one")) + half, UNITS.get(unit) or _UNIT_NAMES.get(unit, unit))


_LABELLED = "job|task|ticket|issue|case|run|batch|shift|order|invoice|build|request"
"""Numbered things: the number says which one is meant, and is no fact about it."""
_INSIDE = frozenset({"account", "phone", "package"})
"""Kinds whose value stands behind a word that says what it is."""
_IN_WORDS = re.compile(rf"(?!(?:one|once)\b(?! (?:hundred|thousand))){NUMBER_WORDS}", re.I)
_SPELT = frozenset({_IN_WORDS, _QUANTITY_IN_WORDS, SPOKEN_TIME})
"""Patterns that are tried where a number in words may begin, and nowhere else: they are long."""
_Norm = Callable[[re.Match[str]], str]
_PATTERNS: tuple[tuple[str, re.Pattern[str], _Norm], ...] = (
    ("host", re.compile(r"\b(?:https?|ftp|ssh|wss?|postgres(?:ql)?|mysql|redis)://[^\s<>\"')\]]+", re.I),
     lambda m: m[0].rstrip(".,;:!?").casefold().split("://", 1)[1].rstrip("/")),
    ("mail", re.compile(r"\b[\w.+-]{1,320}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,10}\b"), lambda m: m[0].casefold()),
    ("account", re.compile(r"\b[A-Z]{2}\d{2}(?:[ ]?[A-Z0-9]{4}){2,7}(?:[ ]?[A-Z0-9]{1,4})?\b"), lambda m: _plain(m[0])),
    ("account", re.compile(r"\b(?:0x[0-9a-fA-F]{16,64}|bc1[0-9a-z]{20,60})\b"), lambda m: m[0].casefold()),
    ("account", re.compile(r"\b(?:\d{4}[ -]){3}\d{4}\b"), lambda m: _plain(m[0])),
    ("account", re.compile(r"(?<=sort code )\d\d-\d\d-\d\d\b", re.I), lambda m: "sort" + _plain(m[0])),
    ("account",
     re.compile(r"\b(?:account|acct|a/c|konto(?:nummer)?|routing|iban|cuenta|(?:le|du|au|sur|notre|nouveau) compte)\b"
                r"(?:\s+(?:number|no\.?|nr\.?|n[°º]|número|numéro|is|ist|lautet|est|es|now|:))*[\s:#]*"
                r"(?!\d(?: ?\d){5,8} ?(?:€|\$|£|eur(?:os?)?|usd|gbp|chf|dollars?|pounds?)(?!\w| ?\d))"  # an amount
                r"(?P<n>\d[\d -]{4,}\d)\b", re.I), lambda m: _plain(m["n"])),
    ("phone", re.compile(r"\+\d[\d ()/-]{5,}\d"), lambda m: _digits(m[0])),
    ("phone",
     re.compile(r"\b(?:phone|call|calls|dial|ring|hotline|helpline|tel|telephone|fax)\b\W{1,3}(?:[a-z]+ ){0,3}"
                r"(?P<n>\d[\d ()/-]{4,}\d)\b", re.I), lambda m: _digits(m["n"])),
    ("package",
     re.compile(r"\b(?:pip3?|npm|yarn|pnpm|cargo|gem|brew|apt|apt-get|conda|uv|poetry|composer) (?:install|add|get|i|"
                r"require) (?:-\S+ )*(?P<n>[@a-z0-9][\w@./-]*\w)", re.I), lambda m: m["n"].casefold()),
    ("package",
     re.compile(r"\b(?:package|dependency|library|module|crate|gem|plug-?in|extension)s? (?:is |called |named |now )*"
                r"(?P<n>[@a-z0-9]+(?:[-_/.][a-z0-9]+)+)\b", re.I), lambda m: m["n"].casefold()),
    ("host", re.compile(r"\b(?:\d{1,3}\.){3}\d{1,3}(?::\d+)?\b"), lambda m: m[0]),
    ("host",
     re.compile(rf"\b(?:[a-z0-9](?:[a-z0-9-]{{0,61}}[a-z0-9])?\.){{1,10}}(?:{_DOMAINS})\b(?::\d+)?"
                r"(?:/[\w./%-]*\w)?", re.I), lambda m: m[0].casefold()),
    ("path", re.compile(r"(?<![\w/])(?:~|\.{1,2})?(?:/[\w.@-]*\w){2,}/?|(?<!\w)[A-Za-z]:\\[\w\\.-]+"),
     lambda m: m[0].rstrip("/")),
    ("path", re.compile(r"\b[\w-]{1,100}\.(?:json|ya?ml|toml|txt|pem|key|csv|py|sh|md|pdf|log|db|conf|cfg|env|xml)\b"),
     lambda m: m[0]),
    ("reference", re.compile(rf"\b(?P<label>{_LABELLED})s?(?: (?:no\.|number|nr\.))? ?#?(?P<n>\d+)\b(?![.,:]\d)", re.I),
     lambda m: f"{m['label'].casefold()} {int(m['n'])}"),
    ("date",
     re.compile(rf"\b(?:(?P<iso>\d{{4}}-\d\d?-\d\d?)|(?P<dotted>\d\d?[./]\d\d?[./]\d{{4}})"
                rf"|(?P<d1>\d\d?)(?:st|nd|rd|th|\.)?(?: of| de)? (?P<m1>{_MONTH})\b\.?(?:,? (?P<y1>\d{{4}}))?"
                rf"|(?P<m2>{_MONTH})\.? (?P<d2>\d\d?)(?:st|nd|rd|th)?\b(?!:)(?:,? (?P<y2>\d{{4}}))?"
                rf"|(?P<m3>{_MONTH}) (?P<y3>\d{{4}}))\b", re.I), _date),
    ("date", re.compile(r"\b(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)days?\b"), lambda m: m[0].casefold().rstrip("s")),
    ("date", re.compile(rf"\b(?:{'|'.join(DAYS)})s?\b", re.I),
     lambda m: DAYS.get(m[0].casefold()) or DAYS[m[0].casefold().rstrip("s")]),
    ("time", SPOKEN_TIME, spoken_time),
    ("time", re.compile(r"\b(?P<hour>\d{1,2})(?:[:.](?P<minute>\d\d))?(?: Uhr\b| o['’]clock\b)|"
                        r"\b(?P<heure>\d{1,2})\s?h\s?(?P<min2>\d\d)\b|\b(?P<h3>\d{1,2}) h\b"), _hour),
    ("time", re.compile(r"\b\d{1,2}:\d\d(?::\d\d)?\b(?!\s*[ap]\.?m)|\b(?P<hour>\d{1,2})(?::(?P<minute>\d\d))?\s?"
                        r"(?P<half>[ap]\.?m\b)|\b(?:noon|midday|midnight)\b", re.I), _time),
    ("version", re.compile(r"\bv?(\d+\.\d+\.\d+[\w.-]*)\b", re.I), lambda m: m[1].casefold()),
    ("version", re.compile(r"\b(?:version|release|v)\s?(\d+(?:\.\d+)*)\b", re.I), lambda m: m[1]),
    ("money",
     re.compile(rf"(?P<sign>[€$£])\s?(?P<n1>{_NUMBER})\s?(?P<scale1>k|m|bn|thousand|million|billion)?\b"
                rf"|\b(?P<before>{_CODES})\s?(?P<n2>{_NUMBER})\s?(?P<scale2>k|m|bn|thousand|million|billion)?\b"
                rf"|\b(?P<n3>{_NUMBER})\s?(?P<scale3>k|m|bn|thousand|million|billion)?\s?"
                rf"(?:(?P<code>{_CODES}|€|£)|(?P<word>{_COINS}))(?!\w)", re.I), _money),
    ("percent", re.compile(rf"\b(?P<n>{_NUMBER})\s?(?:%|(?:percent|per cent|prozent|pour cent|por ciento)\b)", re.I),
     lambda m: _amount(m["n"])),
    ("quantity", _QUANTITY_IN_WORDS, _quantity),
    ("quantity", _QUANTITY, _quantity),
    ("year", re.compile(r"\b(?:1[5-9]|20)\d\d\b"), lambda m: m[0]),
    ("number", re.compile(rf"(?<![\w.])(?:{_NUMBER})(?![\w])"), lambda m: _amount(m[0])),
    ("number", _IN_WORDS, lambda m: _amount(m[0])),
)  # fmt: skip
_NAME = re.compile(
    r"[A-Z][\w'’-]*[\w](?:\s+(?:(?:de|da|van|von|der|of|the|and|&)\s+)?[A-Z][\w'’-]*\w|\s+[A-Z](?=\W|$))*"
)
_NOT_NAMES = frozenset(
    [
        "the", "a", "an", "this", "that", "these", "those", "it", "its", "he", "she", "they", "we", "you", "i", "if",
        "in", "on", "at", "by", "for", "from", "to", "of", "as", "is", "are", "was", "were", "and", "or", "but", "not",
        "no", "our", "my", "your", "his", "her", "their", "all", "every", "each", "only", "since", "after", "before",
        "when", "while", "because", "note", "please", "new", "old", "there", "here", "from", "with", "without", "how",
        "who", "what", "which", "where", "why", "may", "must", "can", "should", "do", "does", "did", "has", "have",
        "had", "according", "despite", "however", "also", "today", "now", "effective", "urgent", "update", "reminder",
        "attention", "info", "two", "three", "both", "some", "any", "once", "under", "over", "above", "below",
        "between", "during", "until", "through", "later", "earlier",
    ]
)  # fmt: skip


def values_in(text: str, most: int = MAX_VALUES) -> tuple[Value, ...]:
    """The first values of a text in order; every character belongs to one value at most."""
    taken = bytearray(len(text))
    found: list[Value] = []
    spelt = number_words(text)
    for kind, pattern, norm in _PATTERNS:
        for match in _tried_at(pattern, text, spelt) if pattern in _SPELT else pattern.finditer(text):
            start, end = match.span("n") if kind in _INSIDE and "n" in match.groupdict() else match.span()
            if not any(taken[start:end]):
                taken[start:end] = b"\1" * (end - start)
                found.append(Value(kind, norm(match), start, end))
    found.extend(_names(text, taken))
    return tuple(sorted(found, key=lambda v: v.start)[:most])


def _tried_at(pattern: re.Pattern[str], text: str, places: list[int]) -> Iterator[re.Match[str]]:
    return (match for at in places if (match := pattern.match(text, at)))


def _names(text: str, taken: bytearray) -> Iterator[Value]:
    """Runs of capitalised words. A single one at the beginning of a sentence is only a beginning, and in German only a
    noun, unless it stands behind a title."""
    german = language_of(text) == "de"
    for match in _NAME.finditer("".join("," if used else c for c, used in zip(text, taken, strict=True))):
        start, end = match.span()
        words = match[0].split()
        while words and words[0].casefold() in _NOT_NAMES:
            start += len(words[0])
            start += len(text[start:end]) - len(text[start:end].lstrip())
            words = words[1:]
        if not words:
            continue
        begins = start == match.start() and (start == 0 or text[:start].rstrip()[-1:] in '.!?:\n“"')
        if len(words) == 1 and begins and not _looks_named(text, start, end):
            continue
        if german and not _is_named_in_german(words):
            continue
        name = re.sub(r"['’]s\b|['’]$", "", " ".join(words)).casefold()
        if len(name) > 1:
            yield Value("name", name, start, end)


def _is_named_in_german(words: list[str]) -> bool:
    """Whether capitalised words of German are more than nouns: two of them side by side, letters with digits, or
    capitals inside."""
    alone = [word for word in words if word[0].isupper() and word.casefold() not in COMMON["de"]]
    if len(alone) > 1:
        return len(alone) == len(words)
    return any(any(c.isdigit() for c in word) or word[1:] != word[1:].lower() for word in alone)


def _looks_named(text: str, start: int, end: int) -> bool:
    """Whether a sentence's first word is a name all the same: it is possessive, in capitals, or comes again."""
    word = text[start:end]
    return word.endswith(("'s", "’s")) or (len(word) > 1 and word.isupper()) or text.count(word, end) > 0
