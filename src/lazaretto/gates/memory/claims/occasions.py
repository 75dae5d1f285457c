"""Events and readings: when two claims speak of two occasions, and when one only repeats the other.

A state has one value at a time (an account, a limit); two events do not contradict each other. Only plain cases are
decided here, the rest by the relation model.
"""

from __future__ import annotations

import re
from enum import StrEnum

from lazaretto.gates.memory.claims.extraction import Claim, sentences
from lazaretto.gates.memory.claims.values import Value


class ClaimKind(StrEnum):
    """The kind of statement that a claim makes."""

    STATE = "state"
    """Something that has one value at a time."""
    EVENT = "event"
    """Something that happened, or was measured, once."""
    RULE = "rule"
    """A rule: something must, may or must not be done."""
    OPINION = "opinion"
    """An opinion."""


_IRREGULAR = (
    "rang|came|went|said|saw|met|sold|bought|paid|sent|got|gave|took|made|fell|rose|grew|won|lost|left|began|broke|"
    "brought|caught|chose|drove|ate|flew|forgot|heard|ran|rode|slept|spoke|spent|taught|told|threw|wrote|fed|drew|woke|"
    "shook|sang|drank|swam|stole|found|felt|thought|held|kept|stood|lay|hung"
)
PAST = re.compile(
    rf"\b(?:[a-z]{{3,}}ed|{_IRREGULAR}|was|were|had)\b|\b(?:hat|haben|hatten?|wurden?|war|waren|zeigten?|kam|ging|rief|"
    r"a été|ont été|était|étaient|est arrivée?|fue|fueron|[a-zñ]{3,}ó|[a-z]{3,}aron|[a-z]{3,}ieron)(?!\w)", re.I
)  # fmt: skip
_PRESENT = re.compile(
    r"\b(?:is|are|has|have|do|does|will|shall|must|(?-i:may)|can|should|would|could|needs?|requires?|isn|aren|ist|sind|"
    r"wird|werden|est(?! \w+é)|sont|es|son|está)\b", re.I
)  # fmt: skip
_BECOMES = re.compile(
    r"\b(?:moved|chang\w+|switch\w+|replac\w+|rais\w+|lower\w+|increas\w+|reduc\w+|extend\w+|postpon\w+|renam\w+|"
    r"upgrad\w+|appoint\w+|took over|became|retired|lifted|abolish\w+|suspend\w+|disabl\w+|enabl\w+|dropp\w+|"
    r"migrat\w+|rotat\w+|deprecat\w+|revis\w+|correct\w+|updat\w+|instead|no longer|from now on|permanently|always|"
    r"never|used to)\b",
    re.I)  # fmt: skip
"""Words by which something that happened says what holds from then on."""
_WAS = re.compile(r"\b(?:was|were|war|waren|était|étaient)\b(?! (?:\w+ )?\w+(?:ed|en|t)\b)", re.I)
_OPINION = re.compile(
    r"\b(?:thinks?|believes?|feels?|felt|likes?|liked|loves?|loved|prefers?|enjoyed|found (?:it|the \w+) \w+|"
    r"considers?|in (?:my|her|his|their) (?:view|opinion))\b", re.I
)  # fmt: skip
_MONTHS = (
    "january|february|march|april|june|july|august|september|october|november|december|januar|februar|märz|mai|juni|"
    "juli|oktober|dezember|janvier|février|mars|avril|juin|juillet|août|septembre|octobre|novembre|décembre|enero|febrero|"
    "marzo|abril|mayo|junio|julio|agosto|septiembre|octubre|noviembre|diciembre"
)
_MOMENTS = tuple(
    (sort, re.compile(rf"\b(?:{words})\b", re.I))
    for sort, words in (
        ("part", "mornings?|afternoons?|evenings?|nights?|dawn|dusk|früh|vormittags?|nachmittags?|abends?|nachts?|"
                 "matin|après-midi|soir|tarde|noche"),
        ("day", "today|yesterday|tomorrow|tonight|heute|gestern|hier|ayer|hoy|montags?|dienstags?|mittwochs?|"
                "donnerstags?|freitags?|samstags?|sonntags?|lundi|mardi|mercredi|jeudi|vendredi|samedi|dimanche|lunes|"
                "martes|miércoles|jueves|viernes|sábado|domingo|the next day|weekdays?|weekends?"),
        ("month", f"{_MONTHS}|(?-i:May)"),
        ("hour", r"\d{1,2} (?:uhr|heures?|horas?)"),
        ("turn", r"(?:this|last|next|first|second|third|previous) (?:week(?:end)?|month|quarter|year|visit|run|round|"
                 r"time|batch|interview|meeting|day|session|attempt)|week \d+|q[1-4]"),
    )
)  # fmt: skip
_TIMED = frozenset({"date", "year", "time"})
_RECEIVERS = frozenset({"account", "mail", "phone", "host", "package", "path"})
_NAMES = frozenset({"name"})
_MOST_CHARS = 200
"""Most characters of a claim that is read as the report of one event."""
_NUMBERED = re.compile(
    r"\b(?P<label>[A-Za-z]?[a-z]{2,}) (?P<id>[A-Z]|[A-Z]{0,2}\d{1,4}[a-z]?)(?=[,;.!]|$| (?:of|in|on|at|with|for|and|"
    r"was|were|reported|showed|gave|returned)\b)"
)
_NO_THING = frozenset(
    ["the", "and", "for", "with", "from", "than", "about", "over", "under", "above", "below", "until", "cost", "read",
     "hit", "set", "put", "cut", "were", "account", "version", "limit", "budget", "price", "total", "number", "code"]
)  # fmt: skip
_ONCE = re.compile(
    r"\b(?:died|passed away|deceased|born|founded|established|invented|discovered|composed|premiered|graduated|married|"
    r"elected|inaugurated|coined|patented|located|named after|won the|as of)\b", re.I
)  # fmt: skip
"""Verbs of events that happen once, and have one date and place."""
_EVERY_DAY = re.compile(
    r"\b(?:booked|ordered|bought|called|rang|phoned|visited|met|asked|sent|received|shipped|delivered|reviewed|checked|"
    r"tested|reported|complained|requested|unloaded|loaded|fed|spoke|talked|mailed|e-?mailed|repaired|cleaned|inspected|"
    r"opened|closed|said|found|angerufen|bestellt)\b", re.I
)  # fmt: skip


def kind(claim: Claim) -> ClaimKind:
    """The kind of statement that a claim makes."""
    if claim.permission:
        return ClaimKind.RULE
    text = claim.text
    if claim.declares or not PAST.search(text) or _PRESENT.search(text) or _BECOMES.search(text):
        return ClaimKind.OPINION if _OPINION.search(text) else ClaimKind.STATE
    if _OPINION.search(text):
        return ClaimKind.OPINION
    merely_was = _WAS.search(text) is not None and len(PAST.findall(text)) == 1
    return ClaimKind.STATE if merely_was and not when(claim) else ClaimKind.EVENT


def when(claim: Claim) -> dict[str, set[str]]:
    """The moments that a claim names, by sort: dates, years, times, parts of the day, days, months, turns."""
    found: dict[str, set[str]] = {}
    taken = [(v.start, v.end) for v in claim.values if v.kind in _TIMED]
    for value in claim.values:
        if value.kind in _TIMED:
            found.setdefault(value.kind, set()).add(value.norm)
    for sort, pattern in _MOMENTS:
        for match in pattern.finditer(claim.text):
            if not any(start < match.end() and match.start() < end for start, end in taken):
                found.setdefault(sort, set()).add(match[0].casefold())
    return found


def at_two_times(old: Claim, new: Claim) -> bool:
    """Whether two claims name two moments of one sort."""
    ours, theirs = when(old), when(new)
    return any(ours[sort].isdisjoint(theirs[sort]) for sort in ours.keys() & theirs.keys())


def two_events(old: Claim, new: Claim) -> bool:
    """Whether two claims report two events or readings: at two times, of two actors who did two things, or of two
    things of a sort that happens every day; or are two entries of a log.

    Two reports that name different receivers (accounts, addresses, hosts) are left to the model, on any day, and so are
    long texts, questions with their answers, and events that happen once: a death has one date.
    """
    if _differ(old, new, _RECEIVERS):
        return False
    if _is_entry(old) and _is_entry(new) and at_two_times(old, new) and _say_more(old, new):
        return True
    if not all(_is_report(claim) for claim in (old, new)):
        return False
    if at_two_times(old, new) or _numbered_apart(old, new):
        return True
    if when(old) != when(new) or old.negated != new.negated:
        return False
    others = _differ(old, new, _NAMES) or bool(old.words - new.words and new.words - old.words)
    return others and bool(_EVERY_DAY.search(old.text) and _EVERY_DAY.search(new.text))


def _is_report(claim: Claim) -> bool:
    if kind(claim) not in (ClaimKind.EVENT, ClaimKind.OPINION) or len(claim.text) > _MOST_CHARS or "?" in claim.text:
        return False
    return not _ONCE.search(claim.text) and len(sentences(claim.text)) == 1


_HOLDS = re.compile(
    r"\b(?:is|are|has|have|do|does|will|shall|must|(?-i:may)|can|should|would|could|needs?|requires?|goes?|gets?|takes?|"
    r"stays?|costs?|lies|isn|aren|ist|sind|wird|werden|gilt|hat|haben|bekommt|kostet|liegt|est|sont|a|ont|doit|coûte|es|"
    r"son|está|tiene|debe|cuesta|[a-z]{3,}s (?:to|at|in|on|by|from|the|a)|now|new|instead|always|every|each|daily|"
    r"weekly|per|jeden|täglich|chaque|cada|valid|until|limit|deadline|due|frist)\b", re.I
)  # fmt: skip
"""Words of a lasting statement, in contrast to a past event."""
_ENTRY_CHARS = 160


def _is_entry(claim: Claim) -> bool:
    """Whether a claim reads like an entry of a log: short, without a verb of what holds, of nothing that moves money,
    access, safety or permissions ("Screen 4, 20:15 show: 61 tickets")."""
    if claim.sensitive or claim.permission or claim.declares or claim.decides or len(claim.text) > _ENTRY_CHARS:
        return False
    return "?" not in claim.text and not _HOLDS.search(claim.text)


def _say_more(old: Claim, new: Claim) -> bool:
    """Whether two claims differ in more than their moments: a deadline alone is no event."""
    ours, theirs = (
        {(v.kind, v.norm) for v in claim.values if v.kind not in _TIMED | {"name", "reference"}} for claim in (old, new)
    )
    return ours != theirs or bool(old.words - new.words and new.words - old.words)


def _numbered_apart(old: Claim, new: Claim) -> bool:
    """Whether two reports give two numbers or letters to one sort of thing, and differ in what they say of it: sample
    K7 and sample K9."""
    ours, theirs = _numbered(old), _numbered(new)
    if _NUMBERED.sub(r"\g<label>", old.text) == _NUMBERED.sub(r"\g<label>", new.text):
        return False  # the number may be the value itself: a capacity of 1000, and of 1700
    return any(ours[label].isdisjoint(theirs[label]) for label in ours.keys() & theirs.keys())


def _numbered(claim: Claim) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for match in _NUMBERED.finditer(claim.text):
        if not PAST.fullmatch(match["label"]) and match["label"] not in _NO_THING:
            found.setdefault(match["label"].casefold(), set()).add(match["id"])
    return found


def _differ(old: Claim, new: Claim, kinds: frozenset[str]) -> bool:
    ours, theirs = ({v.norm for v in claim.values if v.kind in kinds} for claim in (old, new))
    return bool(ours - theirs) and bool(theirs - ours)


_PROGRESS = tuple(
    (re.compile(before, re.I), re.compile(after, re.I))
    for before, after in (
        (r"\b(?:re)?open(?:ed)?\b|\bpending\b|\bin progress\b|\bwait(?:s|ing)\b|\bnot (?:finished|done|fixed|ready)\b|"
         r"\bunresolved\b|\bunder way\b|\bin review\b|\bbeing \w+ed\b|\bplanned\b|\bto do\b",
         r"\bclosed\b|\bresolved\b|\bdone\b|\bfinished\b|\bfixed\b|\bcompleted?\b|\bmerged\b|\breleased\b|\bready\b|"
         r"\b(?:was|were|is|are) \w+ed\b"),
        (r"\bdraft\b", r"\bfinal\b|\bpublished\b"),
        (r"\bbroken\b|\bdown\b|\boffline\b|\bred\b|\bfail(?:s|ing|ed)?\b",
         r"\brepaired\b|\bworks?\b|\bup\b|\bonline\b|\bgreen\b|\bpass(?:es|ing|ed)?\b|\bfixed\b|\bback\b"),
        (r"\bon its way\b|\bordered\b|\bshipped\b|\bin transit\b", r"\barrived\b|\bdelivered\b|\breceived\b"),
        (r"\bassigned\b|\breported\b|\braised\b|\breceived\b|\bloan(?:ed)? out\b|\bout of service\b",
         r"\bclosed\b|\breplaced\b|\bconfirmed\b|\breturned\b|\bback (?:in service|from)\b"),
        (r"\b(?:offen|eingegangen|ausgeliehen|angemeldet|in arbeit|defekt)\b",
         r"\b(?:geschlossen|erledigt|bewilligt|zurückgegeben|behoben|repariert|abgeschlossen)\b"),
        (r"\b(?:ouverte?|en cours|reçue?|empruntée?|en panne)\b", r"\b(?:fermée?|close|terminée?|rendue?|réparée?)\b"),
        (r"\b(?:abiert[ao]|en curso|recibid[ao]|prestad[ao]|averiad[ao])\b",
         r"\b(?:cerrad[ao]|resuelt[ao]|terminad[ao]|devuelt[ao]|arreglad[ao])\b"),
    )
)  # fmt: skip
_WORK = re.compile(
    r"\b(?:tickets?|issues?|bugs?|tasks?|orders?|requests?|cases?|builds?|reports?|drafts?|jobs?|pull requests?|prs?|"
    r"stor(?:y|ies)|migrations?|deliver(?:y|ies)|parcels?|shipments?|chapters?|releases?|repairs?|printers?|tests?|"
    r"translations?|environments?|surveys?|press release|work items?|todos?|loans?|claims?|complaints?|appeals?|"
    r"cranes?|antrag|auftrag|vorgang|meldung|störung|beschwerde|ausgeliehen|zurückgegeben|demande|dossier|réclamation|panne|"
    r"commande|solicitud|queja|pedido|incidencia|expediente|habitación|aviso)\b", re.I
)  # fmt: skip


def progress(old: Claim, new: Claim) -> bool:
    """Whether a piece of work went on: open, then closed; a draft, then final. A rule is no piece of work."""
    if ClaimKind.RULE in (kind(old), kind(new)) or not (_WORK.search(old.text) and _WORK.search(new.text)):
        return False
    ours, theirs = (_references(claim.values) for claim in (old, new))
    if ours != theirs:
        return False
    return any(before.search(old.text) and after.search(new.text) for before, after in _PROGRESS)


def _references(values: tuple[Value, ...]) -> set[str]:
    return {v.norm for v in values if v.kind == "reference"}


_STILL = frozenset(
    ["still", "remain", "continu", "unchang", "remind", "befor", "usual", "alway", "everi", "also", "again"]
)
_EXCEPT = re.compile(
    r"\b(?:unless|except\w*|but|instead|however|only|rather|until|if|when|without|no longer|optional\w*|waive\w*|"
    r"exempt\w*|anyway|regardless|otherwise)\b", re.I
)  # fmt: skip


def said_again(old: Claim, new: Claim) -> bool:
    """Whether a claim only says again what another says: all its words, and nothing but words that say so."""
    if _EXCEPT.search(new.text) and not _EXCEPT.search(old.text):
        return False
    return bool(old.words) and old.words <= new.words and new.words - old.words <= _STILL
