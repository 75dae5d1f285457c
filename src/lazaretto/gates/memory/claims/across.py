"""Two claims in two languages: when they give two values for one property of one thing.

The encoder knows English. So this compares by rule: a name that both have, a property that both name (an account, a
limit, a deadline, a word that both languages share), and one value of one kind in each.
"""

from __future__ import annotations

import re

from lazaretto.gates.memory.claims.extraction import Claim
from lazaretto.gates.memory.claims.tongues import COMMON, language_of

_PROPERTIES = tuple(
    re.compile(rf"\b(?:{words})", re.I)
    for words in (
        r"accounts?\b|iban\b|konto|compte\b|cuenta\b",
        r"invoices?|bills?\b|billing|rechnung|facture|factura",
        r"deadline|due\b|frist|fällig|abgabe|échéance|délai|plazo|vence\b|fecha límite",
        r"limit|cap\b|ceiling|maximum|höchst|obergrenze|grenze|plafond|límite|tope\b|máximo",
        r"dose|dosage|gets\b|takes\b|dosis|bekommt|erhält|nimmt|prend\b|reçoit|recibe|toma\b",
        r"price|costs?\b|preis|kostet|prix\b|coûte|precio|cuesta",
        r"salary|wages?\b|gehalt|lohn|salaire|sueldo|salario",
        r"phone|hotline|call\b|telefon|anruf|téléphone|appel|teléfono|llama",
        r"e-?mails?\b|mailbox|write to|schreib|postfach|courriel|correo|escrib",
        r"quay|berths?\b|kai\b|liegeplatz|quai\b|muelle|atraca",
        r"rooms?\b|hall\b|raum|zimmer|saal\b|salle|chambre|sala\b|habitación|aula\b",
        r"codes?\b|pin\b|password|kennwort|passwort|mot de passe|contraseña|código",
        r"platform|track\b|gate\b|gleis|bahnsteig|voie\b|quai\b|porte\b|andén|vía\b|puerta",
        r"opens?\b|öffnet|ouvre|abre\b", r"closes?\b|shuts?\b|schließt|ferme\b|cierra",
        r"starts?\b|begins?\b|beginnt|fängt|commence|débute|empieza|comienza",
        r"ends?\b|endet|finit|termine|acaba",
        r"leaves?\b|departs?|fährt|abfahrt|part\b|départ|sale\b|salida",
        r"arrives?\b|arrival|ankunft|kommt\b|arrive\b|arrivée|llega\b|llegada",
        r"pressure|druck|pression|presión", r"temperature|temperatur|température|temperatura|degrees?|grad\b|degrés",
        r"server|host\b|serveur|servidor|database|datenbank|base de do?n",
        r"approv|freigabe|freigeb|genehmig|approuv|approbation|aprueb|aprob|autoriz",
        r"deliver|liefer|livr|entreg", r"fee\b|fees\b|gebühr|frais|tarif|cuota|tasa\b",
    )
)  # fmt: skip
"""The same property in the four languages."""
_CAPITALISED = re.compile(r"(?<![\w@.])[A-ZÀ-Þ][\wÀ-ÿ’'-]{3,}")
_KINDS = frozenset({"mail", "phone", "host", "money", "percent", "date", "time", "quantity", "number", "year"})
_STEM = 6


def in_two_languages(old: Claim, new: Claim) -> bool:
    """Whether two claims are in two of the languages that ``language_of`` knows."""
    return language_of(old.text) != language_of(new.text)


def another_value_across(old: Claim, new: Claim) -> bool:
    """Whether a claim in another language gives another value for the same property of the same thing."""
    if not in_two_languages(old, new) or old.negated != new.negated:
        return False
    names = _names(old.text) & _names(new.text)
    if not names:
        return False
    differing = _one_each(old, new)
    if differing == {"account"}:
        return True
    return len(differing) == 1 and differing <= _KINDS and _one_property(old, new, names)


def _names(text: str) -> set[str]:
    """Capitalised words that the other language may have too: parts of compounds count by themselves."""
    words = (part for word in _CAPITALISED.findall(text) for part in word.casefold().split("-"))
    known = {common for several in COMMON.values() for common in several}
    return {re.sub(r"['’]s?$", "", word) for word in words if len(word) > 3} - known


def _one_each(old: Claim, new: Claim) -> set[str]:
    """The kinds of which each claim gives one value, another than the other."""
    found = set()
    for kind in {v.kind for v in old.values} - {"name", "reference"}:
        ours, theirs = ({v.norm for v in claim.values if v.kind == kind} for claim in (old, new))
        if kind in ("money", "quantity"):  # of one currency or unit
            unit = -1 if kind == "quantity" else 0
            if {v.split(" ")[unit] for v in ours} != {v.split(" ")[unit] for v in theirs}:
                continue
        if len(ours) == len(theirs) == 1 and ours != theirs:
            found.add(kind)
    return found


def _one_property(old: Claim, new: Claim, names: set[str]) -> bool:
    ours, theirs = (_without_values(claim) for claim in (old, new))
    if any(words.search(ours) and words.search(theirs) for words in _PROPERTIES):
        return True
    a, b = ({w[:_STEM] for w in _WORD.findall(text.casefold()) if len(w) >= _STEM} for text in (ours, theirs))
    return bool((a & b) - {name[:_STEM] for name in names})


def _without_values(claim: Claim) -> str:
    """The text without its values; a name is part of the statement."""
    kept, last = [], 0
    for value in claim.values:
        if value.kind != "name":
            kept.append(claim.text[last : value.start])
            last = value.end
    return " ".join((*kept, claim.text[last:]))


_WORD = re.compile(r"[^\W\d_]+")
