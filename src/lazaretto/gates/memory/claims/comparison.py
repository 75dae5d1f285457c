"""Two claims side by side: what their values and words say, as numbers for the relation model and for a person."""

# ruff: noqa: E501

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from lazaretto.gates.memory.claims.extraction import Claim, found_once
from lazaretto.gates.memory.claims.measures import OPEN_TIME, same_time
from lazaretto.gates.memory.claims.occasions import (
    ClaimKind,
    at_two_times,
    fits,
    merely_was,
    references,
    said_again,
    two_events,
    two_of_a_kind,
)
from lazaretto.gates.memory.claims.occasions import kind as kind_of
from lazaretto.gates.memory.claims.values import COMMON, STRONG, Value, language_of

FEATURES = (
    "values_shared", "values_conflict", "strong_conflict", "number_conflict", "strong_equal", "names_conflict",
    "names_shared", "subject_jaccard", "subject_of_old", "subject_of_new", "negation_differs", "permission_opposed",
    "permission_equal", "new_announces", "old_announces", "new_is_later", "same_date", "opposites", "number_ratio",
    "length_ratio", "equal_text", "both_have_values", "new_waives", "old_guards", "both_events", "two_times",
    "two_of_a_kind", "foreign",
)  # fmt: skip
_NUMERIC = ("money", "percent", "date", "year", "time", "quantity", "number")
_OPPOSED = {frozenset(("require", "waive")), frozenset(("forbid", "allow")), frozenset(("forbid", "waive"))}
_OPPOSITES = tuple(
    (frozenset(a.split()), frozenset(b.split()))
    for a, b in (
        ("open reopen", "clos shut"), ("mandator compulsor oblig requir", "optional option voluntar"),
        ("enabl activ", "disabl inactiv"), ("allow permit", "forbidd prohibit bann"), ("availabl", "unavailabl"),
        ("safe", "unsaf danger hazard"), ("tru", "fals"), ("online", "offlin"), ("approv accept", "reject declin"),
        ("includ", "exclud"), ("public", "privat secret confidential"), ("alive liv", "dead di"),
        ("start begin", "stop end"),
        ("valid", "invalid expir"), ("encrypt", "unencrypt plaintext"), ("full", "empt"), ("hot", "cold"),
        ("first", "last"), ("higher mor larger", "lower less smaller"), ("import", "unimport"), ("win won", "los lost"),
    )
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Difference:
    """A value that both claims give, differently."""

    kind: str
    old: str
    new: str


@found_once
def _by_kind(claim: Claim) -> Mapping[str, set[str]]:
    found: dict[str, set[str]] = {}
    for value in claim.values:
        kind = value.kind
        if kind == "reference":
            continue  # it says which one is meant
        if kind == "quantity":  # amounts of different units are about different things
            kind = f"quantity {value.norm.split(' ', 1)[1]}"
        elif kind == "money":
            kind = f"money {value.norm.split(' ', 1)[0]}"
        found.setdefault(kind, set()).add(value.norm)
    return found


def _side_by_side(old: Claim, new: Claim) -> tuple[Mapping[str, set[str]], Mapping[str, set[str]]]:
    """The values of both by kind; a time that one says without its half of the day ("half past two") is the other's."""
    a, b = _by_kind(old), _by_kind(new)
    ours, theirs = a.get("time", set()), b.get("time", set())
    if not any(time.startswith(OPEN_TIME) for time in ours | theirs):
        return a, b
    meant = {next((other for other in ours if same_time(other, time)), time) for time in theirs}
    return a, {**b, "time": meant}


def _equal(kind: str, old: set[str], new: set[str]) -> bool:
    if kind == "date":
        return any(fits(a, b) for a in old for b in new)
    return bool(old & new)


def differences(old: Claim, new: Claim) -> tuple[Difference, ...]:
    """Kinds of which both have values and none in common, strong kinds first."""
    a, b = _side_by_side(old, new)
    found = [
        Difference(kind.split(" ")[0], _shown(old, a[kind]), _shown(new, b[kind]))
        for kind in a
        if kind != "name" and kind in b and not _equal(kind, a[kind], b[kind])
    ]
    return tuple(sorted(found, key=lambda d: d.kind not in STRONG))


@dataclass(frozen=True, slots=True)
class WrongValue:
    """A value of a new claim for which the old one gives another."""

    kind: str
    norm: str
    instead: str
    """The old claim's value, in its words."""


def differing_values(old: Claim, new: Claim) -> tuple[WrongValue, ...]:
    """The values of a new claim that an old one gives differently, where it is plain which stands for which.

    Of each kind, both must give one value that the other does not; a name counts where nothing else differs.
    """
    a, b = _side_by_side(old, new)
    found = []
    for kind in a:
        ours, theirs = a[kind] - b.get(kind, set()), b.get(kind, set()) - a[kind]
        if len(ours) == len(theirs) == 1 and (kind == "name" or not _equal(kind, ours, theirs)):
            first = next(v for v in old.values if v.norm in ours)
            found.append(WrongValue(kind.split(" ")[0], theirs.pop(), old.text[first.start : first.end]))
    valued = [wrong for wrong in found if wrong.kind != "name"]
    return tuple(valued or found)


def other_names(old: Claim, new: Claim) -> bool:
    """Whether each has a name that the other does not have."""
    ours, theirs = (_tokens(_by_kind(claim).get("name", set())) for claim in (old, new))
    return bool(ours - theirs) and bool(theirs - ours)


def opposed_in_words(old: Claim, new: Claim) -> bool:
    """Whether one turns round what the other says: its polarity, its permission, or a word for its opposite."""
    permissions = frozenset((old.permission, new.permission))
    return old.negated != new.negated or permissions in _OPPOSED or _opposites(old.words, new.words)


def _shown(claim: Claim, norms: set[str]) -> str:
    return ", ".join(claim.text[v.start : v.end] for v in claim.values if v.norm in norms)[:120]


def compared(old: Claim, new: Claim) -> list[float]:
    """``FEATURES`` of a pair, each about 0 to 1."""
    a, b = _side_by_side(old, new)
    typed_a = {(k, v) for k, several in a.items() if k != "name" for v in several}
    typed_b = {(k, v) for k, several in b.items() if k != "name" for v in several}
    names_a, names_b = a.get("name", set()), b.get("name", set())
    words_a, words_b = _tokens(names_a), _tokens(names_b)
    differing = [k for k in a if k != "name" and k in b and not _equal(k, a[k], b[k])]
    subject_a, subject_b = old.subject, new.subject
    shared = len(subject_a & subject_b)
    later, same = _dates(a, b)
    return [
        len(typed_a & typed_b) / max(1, len(typed_a | typed_b)),
        float(bool(differing)),
        float(any(k in STRONG for k in differing)),
        float(any(k.split(" ")[0] in _NUMERIC for k in differing)),
        float(any(k in STRONG and k in b and a[k] & b[k] for k in a)),
        float(bool(words_a - words_b) and bool(words_b - words_a)),
        len(words_a & words_b) / max(1, min(len(words_a), len(words_b))),
        shared / max(1, len(subject_a | subject_b)),
        shared / max(1, len(subject_a)),
        shared / max(1, len(subject_b)),
        float(old.negated != new.negated),
        float(frozenset((old.permission, new.permission)) in _OPPOSED),
        float(old.permission == new.permission != ""),
        float(new.announces),
        float(old.announces),
        later,
        same,
        float(_opposites(old.words, new.words)),
        _ratio(old.values, new.values),
        min(1.0, len(old.text) / max(1, len(new.text))) if len(old.text) < len(new.text)
        else 2.0 - min(1.0, len(new.text) / max(1, len(old.text))),
        float(old.text.casefold().strip(" .") == new.text.casefold().strip(" .")),
        float(bool(typed_a) and bool(typed_b)),
        float(new.permission in ("waive", "allow")),
        float(old.permission in ("require", "forbid")),
        float(kind_of(old) is ClaimKind.EVENT and kind_of(new) is ClaimKind.EVENT),
        float(at_two_times(old, new)),
        float(two_things(old, new) or two_of_a_kind(old, new)),
        float(_language(new) != "en"),
    ]  # fmt: skip


class Overlap(StrEnum):
    """The overlap of two claims."""

    OPPOSED = "opposed"
    """In something that can be opposed: a value, a polarity, a permission, the name that stands beside a shared one."""
    ALIKE = "alike"
    """In almost all they say."""
    APART = "apart"
    """In nothing that could be opposed."""
    SAME = "same"
    """In a value that both give for the same thing, with nothing that opposes: two ways of saying it."""
    TWO_THINGS = "two things"
    """The claims name two things: job 12 and job 15, a call on Monday and one on Tuesday."""


def meeting(old: Claim, new: Claim, cosine: float) -> Overlap:
    """The overlap of two claims; the cosine is that of all-MiniLM-L6-v2.

    Two notes about one person seldom exclude each other, however different they are; models trained on descriptions of
    single scenes believe that they do.
    """
    if two_things(old, new) or two_events(old, new) or two_of_a_kind(old, new):
        return Overlap.TWO_THINGS
    if _two_occasions(old, new):
        return Overlap.APART
    features = dict(zip(FEATURES, compared(old, new), strict=True))
    if _same(old, new, features):
        return Overlap.SAME
    same_subject = features["subject_jaccard"] >= _SAME_WORDS
    valued = any(features[name] for name in ("values_conflict", "permission_opposed", "opposites"))
    named = features["names_conflict"] > 0 and (features["names_shared"] > 0 or same_subject)
    if (valued or (named and same_subject)) and cosine >= _RELATED:
        return Overlap.OPPOSED
    if (named or (features["negation_differs"] > 0 and same_subject)) and cosine >= _CLOSE:
        return Overlap.OPPOSED
    return Overlap.ALIKE if cosine >= _ALIKE else Overlap.APART


def _two_occasions(old: Claim, new: Claim) -> bool:
    """Whether two reports give two values for two days: "The queue held 40 jobs on Friday", and 70 on Monday.

    Where money, access, safety or permissions are concerned, or a change is announced, another day is no excuse.
    """
    if old.sensitive or new.sensitive or new.announces:
        return False
    kinds = {difference.kind for difference in differences(old, new)}
    return bool(kinds & _WHEN) and bool(kinds - _WHEN)


def two_things(old: Claim, new: Claim) -> bool:
    """Whether two claims name two numbered things of one kind, and the new one does not say that anything changed."""
    ours, theirs = references(old), references(new)
    labels = {name.split()[0] for name in ours} & {name.split()[0] for name in theirs}
    former = {v.norm for v in new.values if v.kind == "number"} & {name.split()[1] for name in ours}  # "119, once 118"
    return bool(labels) and not ours & theirs and not former and not new.declares


def _same(old: Claim, new: Claim, features: Mapping[str, float]) -> bool:
    """Whether both give the same value, differ in no other, and nothing else opposes.

    A date or a bare number is shared by chance more often than an account: there the names must be equal too.
    """
    against = ("values_conflict", "names_conflict", "permission_opposed", "negation_differs", "opposites")
    if any(features[name] for name in against):
        return False
    if old.permission != new.permission and (new.permission in ("allow", "waive") or not _still_asked(old, new)):
        return False
    if merely_was(new) and not merely_was(old):
        return False
    a, b = _side_by_side(old, new)
    if a == b and said_again(old, new):
        return True
    shared = {kind.split(" ")[0] for kind in a if kind != "name" and kind in b and _equal(kind, a[kind], b[kind])}
    named = bool(a.get("name")) and a.get("name") == b.get("name")
    return bool(shared & (_EXACT | {"quantity"})) or (named and bool(shared & {"date", "number"}))


_ASKED = frozenset(
    [
        "approv", "sign", "signatur", "consent", "permission", "check", "review", "verif", "verific", "agree",
        "confirm", "author",
    ]
)  # fmt: skip
"""Stems of things that are asked for before something may be done."""


def _still_asked(old: Claim, new: Claim) -> bool:
    """Whether a new claim names what the old one asks for as what comes first, where it asks for anything, and says
    little else: "go out right away" does not speak of the approval that is needed."""
    if old.permission not in ("require", "forbid"):
        return True
    asked = old.words & _ASKED
    if not asked or not asked <= new.words:
        return False
    if new.permission or _ASKED_OF.search(new.text):
        return True
    return _FIRST.search(new.text) is not None and len(new.words - old.words) <= _FEW_MORE


_FIRST = re.compile(
    r"\b(?:after|with|upon|following|awaits?|waits? (?:for|until)|subject to|nach|mit|wart\w+ auf|après|avec|attend\w*|tras|con|"
    r"esper\w+)\b",
    re.I,
)
_ASKED_OF = re.compile(
    r"\b(?:approves|signs|consents|permits|checks|reviews|verifies|agrees|confirms|authori[sz]es)\b", re.I
)
_FEW_MORE = 2
"""Words besides the known ones of a claim that says the same: "go out", "wait"."""


def restates(known: Claim, new: Claim, old: Claim) -> bool:
    """Whether a known claim already says what a new one says against an old one: then the new one changes nothing.

    In every kind of value in which new and old differ it gives the new value, of the same matter, and says that it
    holds: a warning of the value, or what happened with it once, does not. Without such, it has the new one's permission
    and polarity.
    """
    matter = old.subject & new.subject  # what the two are at odds about; its names must not be others
    named = {w for claim in (old, new) for v in claim.values if v.kind == "name" for w in v.norm.split()} & matter
    openings = {claim.opening for claim in (old, new)} & matter
    if not (named | openings) <= known.subject or len(matter & known.subject) < _SAME_THING * len(matter):
        return False
    a, b, c = _by_kind(old), _by_kind(new), _by_kind(known)
    differing = [k for k in a if k != "name" and k in b and not _equal(k, a[k], b[k])]
    if differing and not matter <= known.subject and not known.announces:
        return False  # "pays its taxes from account ...": the value of another matter
    if differing and known.negated == new.negated and known.permission != "forbid":
        holds = kind_of(known) is not ClaimKind.EVENT or kind_of(new) is ClaimKind.EVENT
        return holds and all(k in c and c[k] & b[k] for k in differing)
    return (
        not differing
        and (known.permission, known.negated) == (new.permission, new.negated)
        and not _opposites(known.words, new.words)
    )


_WHEN = frozenset({"date", "year"})
_RELATED, _CLOSE, _ALIKE = 0.45, 0.6, 0.7
_SAME_WORDS = 0.4
_EXACT = STRONG | {"money", "percent", "time"}


def differs_in_a_value_alone(old: Claim, new: Claim) -> bool:
    """Whether two claims say the same words of the same names, with another value of a kind that names one thing, or
    the same words and values with another name of who decides.

    A model takes such texts for the same; numbers are left out, because they may tell subjects apart (line 3, line 5).
    """
    a, b = map(dict, _side_by_side(old, new))
    if not old.words or len(old.words & new.words) < 0.8 * len(old.words | new.words):
        return False
    if a.pop("name", None) != b.pop("name", None):
        return a == b and old.decides and new.decides and other_names(old, new)
    exact = [kind for kind in a if kind.split(" ")[0] in _EXACT and kind in b]
    others = [k for k in {*a, *b} if k.split(" ")[0] in ("number", "quantity", "year") and a.get(k) != b.get(k)]
    return not others and any(not _equal(kind, a[kind], b[kind]) for kind in exact)


def gives_another_value(old: Claim, new: Claim) -> bool:
    """Whether it is plain without a model that two claims give two values for one thing, in one language or in two."""
    return differs_in_a_value_alone(old, new) or another_value_across(old, new)


def replaces(old: Claim, new: Claim) -> bool:
    """Whether a new claim plainly states the same property of the same thing, so that the old one ends with it.

    Dates, times, amounts and bare numbers name an occasion or a thing as often as they are its value ("on Friday",
    "line 3"). So either the same words come with another value of a kind that names one
    thing, or the new claim says that something changed and differs in one kind of value, or in polarity or permission,
    alone. Where this is not so, both stay: a memory that is ended by mistake is lost, of two a person can choose.
    """
    a, b = _side_by_side(old, new)
    if a.get("name") != b.get("name"):
        return False
    differing = [kind for kind in {*a, *b} if a.get(kind) != b.get(kind)]
    if any(kind not in a or kind not in b or _equal(kind, a[kind], b[kind]) for kind in differing):
        return False  # one gives a value that the other leaves open
    exact = len(differing) == 1 and differing[0] in STRONG
    if not exact and ("number" in differing or old.declares or not new.declares):
        return False  # two reports of changes are two reports
    if exact and not new.announces:
        return old.words == new.words
    shared = old.subject & new.subject
    if len(shared) < 2 or len(shared) < _SAME_THING * min(len(old.subject), len(new.subject)):
        return False
    if any(claim.opening not in other.subject for claim, other in ((old, new), (new, old)) if claim.opening):
        return False
    if differing:
        return len(differing) == 1
    return (
        old.negated != new.negated
        or frozenset((old.permission, new.permission)) in _OPPOSED
        or _opposites(old.words, new.words)
    )


_SAME_THING = 0.6


def _tokens(names: set[str]) -> set[str]:
    return {word for name in names for word in name.split() if len(word) > 2}


def _dates(a: Mapping[str, set[str]], b: Mapping[str, set[str]]) -> tuple[float, float]:
    """Whether the new claim speaks of a later year, and whether both speak of the same date or year."""
    old = a.get("year", set()) | {v.rsplit("/", 1)[1] for v in a.get("date", set()) if "/" in v} - {""}
    new = b.get("year", set()) | {v.rsplit("/", 1)[1] for v in b.get("date", set()) if "/" in v} - {""}
    if not old or not new:
        return 0.0, 0.0
    return float(max(new) > max(old)), float(bool(old & new))


def _opposites(old: frozenset[str], new: frozenset[str]) -> bool:
    return any((old & x and new & y and not old & y) or (old & y and new & x and not old & x) for x, y in _OPPOSITES)


def _ratio(old: tuple[Value, ...], new: tuple[Value, ...]) -> float:
    """Distance of the nearest amounts of one kind, in powers of ten, at most 1."""
    best = 0.0
    for kind in ("money", "quantity", "number", "percent"):
        xs, ys = ([_size(v.norm) for v in side if v.kind == kind] for side in (old, new))
        gaps = [abs(math.log10(x / y)) for x in xs for y in ys if x > 0 and y > 0]
        best = max(best, min(gaps, default=0.0))
    return min(1.0, best)


def _size(norm: str) -> float:
    for part in norm.split():
        try:
            return float(part)
        except ValueError:
            continue
    return 0.0


# Two claims in two languages: when they give two values for one property of one thing.
#
# The encoder knows English. So this compares by rule: a name that both have, a property that both name (an account, a
# limit, a deadline, a word that both languages share), and one value of one kind in each.

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
    return _language(old) != _language(new)


@found_once
def _language(claim: Claim) -> str:
    return language_of(claim.text)


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
