"""Two claims about two occasions or two things do not contradict each other: events, readings, things, pointers.

A state has one value at a time (an account, a limit); two events do not contradict each other. Only plain cases are
decided here, the rest by the relation model.
"""

# ruff: noqa: E501

from __future__ import annotations

import re
from enum import StrEnum

from lazaretto.gates.memory.claims.extraction import Claim, found_once, sentences
from lazaretto.gates.memory.claims.pointers import alike, two_pointers
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
_COUNTED = frozenset({"name", "number", "reference"})
_ONE_EVENT = 0.6
"""Share of words from which on two reports with the same names and numbers tell of one event."""
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


@found_once
def kind(claim: Claim) -> ClaimKind:
    """The kind of statement that a claim makes."""
    if claim.permission:
        return ClaimKind.RULE
    text = claim.text
    if claim.declares or not PAST.search(text) or _is_present(claim) or _BECOMES.search(text):
        return ClaimKind.OPINION if _OPINION.search(text) else ClaimKind.STATE
    if _OPINION.search(text):
        return ClaimKind.OPINION
    merely_was = _WAS.search(text) is not None and len(PAST.findall(text)) == 1
    return ClaimKind.STATE if merely_was and not when(claim) else ClaimKind.EVENT


@found_once
def merely_was(claim: Claim) -> bool:
    """Whether a claim says that something was so, at no moment that it names: it may be so no longer."""
    text = claim.text
    return PAST.search(text) is not None and not (claim.permission or _is_present(claim) or when(claim))


@found_once
def _is_present(claim: Claim) -> bool:
    return _PRESENT.search(claim.text) is not None


@found_once
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
    return any(not any(fits(a, b) for a in ours[sort] for b in theirs[sort]) for sort in ours.keys() & theirs.keys())


def fits(first: str, second: str) -> bool:
    """Whether two dates do not exclude each other: a missing year fits any."""
    if "/" not in first or "/" not in second:
        return first == second
    return all(not a or not b or a == b for a, b in zip(first.split("/"), second.split("/"), strict=False))


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
    if (
        not _differ(old, new, _COUNTED)
        and old.words
        and len(old.words & new.words) >= _ONE_EVENT * len(old.words | new.words)
    ):
        return False  # one thing that was done, in two wordings
    return others and bool(_EVERY_DAY.search(old.text) and _EVERY_DAY.search(new.text))


@found_once
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


@found_once
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
    if ours.keys().isdisjoint(theirs.keys()) or _without_numbers(old) == _without_numbers(new):
        return False  # the number may be the value itself: a capacity of 1000, and of 1700
    return any(ours[label].isdisjoint(theirs[label]) for label in ours.keys() & theirs.keys())


@found_once
def _without_numbers(claim: Claim) -> str:
    return _NUMBERED.sub(r"\g<label>", claim.text)


@found_once
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
_MEASURED = frozenset({"number", "quantity", "money", "percent", "version"})
"""Values that do not become another by going on: a hall, an amount."""
_WORK = re.compile(
    r"\b(?:tickets?|issues?|bugs?|tasks?|orders?|requests?|cases?|builds?|reports?|drafts?|jobs?|pull requests?|prs?|"
    r"stor(?:y|ies)|migrations?|deliver(?:y|ies)|parcels?|shipments?|chapters?|releases?|repairs?|printers?|tests?|"
    r"translations?|environments?|surveys?|press release|work items?|todos?|loans?|claims?|complaints?|appeals?|"
    r"cranes?|antrag|auftrag|vorgang|meldung|störung|beschwerde|ausgeliehen|zurückgegeben|demande|dossier|réclamation|panne|"
    r"commande|solicitud|queja|pedido|incidencia|expediente|habitación|aviso)\b", re.I
)  # fmt: skip


def progress(old: Claim, new: Claim) -> bool:
    """Whether a piece of work went on: open, then closed; a draft, then final. A rule is no piece of work."""
    if ClaimKind.RULE in (kind(old), kind(new)) or not (_is_of_work(old) and _is_of_work(new)):
        return False
    if references(old) != references(new) or _differ(old, new, _MEASURED):
        return False
    return any(before.search(old.text) and after.search(new.text) for before, after in _PROGRESS)


@found_once
def _is_of_work(claim: Claim) -> bool:
    return _WORK.search(claim.text) is not None


@found_once
def references(claim: Claim) -> frozenset[str]:
    """The numbered things that a claim names: job 12, order 7."""
    return frozenset(v.norm for v in claim.values if v.kind == "reference")


_STILL = frozenset(
    ["still", "remain", "continu", "unchang", "remind", "befor", "usual", "alway", "everi", "also", "again"]
)
_EXCEPT = re.compile(
    r"\b(?:unless|except\w*|but|instead|however|only|rather|until|if|when|without|no longer|optional\w*|waive\w*|"
    r"exempt\w*|anyway|regardless|otherwise)\b", re.I
)  # fmt: skip


def said_again(old: Claim, new: Claim) -> bool:
    """Whether a claim only says again what another says: all its words, and nothing but words that say so."""
    if (_EXCEPT.search(new.text) and not _EXCEPT.search(old.text)) or (merely_was(new) and not merely_was(old)):
        return False
    return bool(old.words) and old.words <= new.words and new.words - old.words <= _STILL


# Things of one kind: when two claims open with two different things, and so do not contradict each other.
#
# Plain cases only: numbers and letters behind a noun, winter and summer, two people of one name, two ends of a thing,
# and lines that only point at something.

_TOKEN = re.compile(r"[\w'’-]+")
_ID = re.compile(r"\d+[a-z]?|[A-Z]|[a-z]+-\d+|[A-Z]+-?\d+")
_CONTRASTS = tuple(
    tuple(frozenset(word.split("/")) for word in words.split())
    for words in (
        "winter summer spring autumn/fall", "red blue green yellow black white grey orange brown pink/purple",
        "north/northern south/southern east/eastern west/western", "left right", "front back/rear", "upper lower",
        "first second third fourth fifth", "first last", "morning/early/day afternoon/day evening/night/late",
        "day night", "early late", "daily weekly monthly quarterly annual/yearly",
        "adults children students seniors/pensioners", "adult child student senior", "men women", "boys girls",
        "small medium large", "novel/book film series album song play opera game", "indoor outdoor", "main side back",
        "inner outer", "domestic international/foreign", "internal external", "hot cold",
        "weekday weekend", "paperback hardcover",
        "brother sister", "mother father", "son daughter",
    )
)  # fmt: skip
"""Words that separate things of one kind: a claim that names another of a set speaks of another thing. Words between
which a stroke stands may be meant for one."""
_MEN = frozenset(["mr", "herr", "monsieur", "señor"])
_WOMEN = frozenset(["mrs", "ms", "miss", "frau", "madame", "mme", "señora"])
_MOST_OPENING = 7
"""Words of a claim in which it says what it is about."""
_VERB = re.compile(
    r"(?:is|are|was|were|has|have|had|will|must|may|can|should|shall|needs?|requires?|goes|go|ist|sind|hat|war|est|es)",
    re.I)  # fmt: skip
_NO_LABEL = frozenset(
    ["the", "above", "under", "over", "below", "than", "to", "from", "until", "by", "account", "iban", "konto", "limit",
     "port",
     "number", "code", "pin", "version", "salary", "price", "is", "are", "was", "were", "born", "since"]
)  # fmt: skip
"""Words before a number that make it a value, not the name of a thing."""


def two_of_a_kind(old: Claim, new: Claim) -> bool:
    """Whether it is plain that two claims speak of two things, two people, or two ends of something."""
    apart = two_openings(old, new) or two_people(old, new) or two_bounds(old, new) or two_pointers(old, new)
    if apart or _paid_from(old) == _paid_from(new):
        return apart
    return _customers(old).isdisjoint(new.subject) and _customers(new).isdisjoint(old.subject)


_FROM_OURS = re.compile(
    r"(?:^|[.!?\n][ \t]*|\b(?:pa(?:id|ys?|ying)|transfer(?:s|red)?|wire[sd]?|sen[td]s?|settled?|debited|taken|bezahl\w*|gezahlt|zahl\w*|"
    r"überw[ie]\w+|abgebucht|pag\w+|transf\w+|pay\w+|vir\w+|régl\w+|prélev\w+)\b(?:[^.!?\n]|\.(?=\d)){0,60}?\b)(?:from our(?: own)? (?:account|iban)|von unserem(?: eigenen)? konto|desde nuestra(?: propia)? cuenta|"
    r"(?<!relevé )de notre(?: propre)? compte)[\W_]{0,3}", re.I
)  # fmt: skip


_SPEAKS = re.compile(r":[^.!?\n:]*$")
"""A speaker is named before his words ("Halden: pay from our account"): then the account is his."""
_OF_OURS = re.compile(
    r"\b(?:(?P<entries>statement (?:of|for) our(?: own)?(?: bank)?|kontoauszug (?:von )?unsere[srm]?(?: eigenen)?|"
    r"extracto de nuestr[oa](?: propi[oa])?|relevé de notre(?: propre)?)|pays? us (?:from|at|by|on)|"
    r"zahlt (?:an uns|uns) (?:von|auf)(?: \w+)?|nos pagan?(?: a nosotros)? (?:en|desde)|"
    r"nous (?:paie|paye|règle) (?:depuis|sur))"
    r"(?:[\s,.:#-]|\b(?:bank|account|iban|no|number|nr|konto|kontos|bei|at|with|the|la|le|cuenta|compte)\b){0,8}$", re.I
)  # fmt: skip
"""The heading of a statement of one's own account, or of a customer who pays us, up to the account."""
_ENTRIES = re.compile(r"[\W\d_]*(?:[^\W\d_]+[\W\d_]*)?(?:\n[^\n]*\d[.,]\d\d\b[^\w\n]*(?:EUR|USD|GBP|CHF)?[^\w\n]*)*\s*")
"""The rest of such a statement: a month, and lines that end with an amount."""
_PAID_THERE = re.compile(
    r"\b(?:(?:is|are|be|gets?|being) paid|pay (?:to|it|them|there|here)|payable|from now on|there|new|transfer|wire|"
    r"(?:to|into|at|on|with|through|via|by) (?:this|that|it|the (?:same|above))|(?:this|that) account|here|"
    r"above|remit\w*|uses?|belongs?|hier(?:hin|her|auf)?|dorthin|darauf|diese[sm]? konto|obige\w*|gehört|aquí|allí|"
    r"(?:esta|dicha) cuenta|pertenece|ici|ce compte|appartient|"
    r"zahlbar|überweis\w*|ab sofort|künftig|neue\w*|pagar|pagadero|nuev[oa]s?|a partir de|payer|désormais|nouvel|"
    r"nouveau)\b", re.I
)  # fmt: skip
"""Words that say where a payee is paid: then the account above is no mere heading."""


@found_once
def _paid_from(claim: Claim) -> bool:
    """Whether the only accounts of a claim are our own: something is paid from them, a statement is of them, or a
    customer pays us there."""
    accounts = [value for value in claim.values if value.kind == "account"]
    from_ours = [m.end() for m in _FROM_OURS.finditer(claim.text) if not _SPEAKS.search(claim.text, 0, m.end())]
    headed = not _PAID_THERE.search(claim.text)
    return bool(accounts) and all(
        (any(end <= value.start <= end + 2 for end in from_ours) and _ends_there(claim, value))
        or (headed and _is_headed(claim.text, value))
        for value in accounts
    )


_BEHIND = re.compile(
    r"\W*$|[ \t]*[.;:,)\n]|\s+(?:(?:on|in|am|im|le|el|en|at|um|by|last|this|yesterday|today|gestern|heute|ayer|hoy|hier)\s*$|(?:today|yesterday|heute|gestern|hoy|ayer|we|wir|nous|by|per|hemos)\b)",
    re.I,
)


def _ends_there(claim: Claim, account: Value) -> bool:
    """Whether there is no more about our own account but when it was paid from there, and that we paid."""
    later = [value.start for value in claim.values if value.start >= account.end and value.kind in _TIMED]
    return any(_BEHIND.match(claim.text[account.end : end]) for end in (len(claim.text), *later[:1]))


def _is_headed(text: str, account: Value) -> bool:
    begin = max(0, account.start - 80)
    heading = _OF_OURS.search(text[begin : account.start])
    if heading is None or not heading["entries"]:
        return heading is not None
    before = text[: begin + heading.start()].rpartition("\n")[2]
    entries = text[account.end :].splitlines()[1:]
    if re.search(r"[^\W_]", before) or any(
        len(_PLAIN_WORD.findall(entry)) > _MOST_PLAIN or _OF_A_PAYEE.search(entry) for entry in entries
    ):
        return False  # whose account it is stands before it; an entry says more than what was booked
    return _ENTRIES.fullmatch(text, account.end) is not None


_PLAIN_WORD = re.compile(r"(?<![\w-])[^\W\d_A-ZÀ-Þ][^\W\d_]*")
_OF_A_PAYEE = re.compile(
    r"\b(?:bank|iban|accounts?|payee|beneficiary|konto|empfänger|cuenta|beneficiario|compte|bénéficiaire)\b", re.I
)
_MOST_PLAIN = 4
"""Small words of an entry: "refund received from"."""


_PAYS_US = re.compile(r"\b(?:pays? us|zahlt (?:an )?uns|nos pagan?|nous (?:paie|paye|règle))\b", re.I)


@found_once
def _customers(claim: Claim) -> frozenset[str]:
    """The names before the words that they pay us: their account is no heading to a claim about them."""
    ends = [match.start() for match in _PAYS_US.finditer(claim.text)]
    names = [v for v in claim.values if v.kind == "name" and any(v.end <= end <= v.end + 40 for end in ends)]
    return frozenset(word for name in names for word in name.norm.split() if len(word) > 3)


def two_openings(old: Claim, new: Claim) -> bool:
    """Whether two claims open with two things of one kind (line 3 and line 5, the winter and the summer timetable, two
    people of one surname), and differ in what they say of them."""
    if new.declares:
        return False
    ours, theirs = _opening(old), _opening(new)
    first = next(((a, b, place) for place, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b), None)
    if first is None:
        return False
    a, b, place = first
    before, behind = (ours[place - 1] if place else "").casefold(), ours[place + 1 :][:1] + theirs[place + 1 :][:1]
    apart = _ids(a, b, before, [word.casefold() for word in behind]) and a not in theirs and not _named_again(a, new)
    if not (old.decides or new.decides):  # who decides is no other case because of a title
        apart = apart or _man_and_woman(a, b)
    if not (old.sensitive or new.sensitive):  # a claim that moves money is no other case because of a word
        apart = apart or _contrast(a, b) or _placed(a, b, before)
    return apart and _rest(old, a) != _rest(new, b)


@found_once
def _opening(claim: Claim) -> list[str]:
    """The words before the first verb that ``_VERB`` knows, few at most."""
    words: list[str] = []
    for word in _TOKEN.findall(claim.text):
        if _VERB.fullmatch(word) or len(words) == _MOST_OPENING:
            break
        words.append(word)
    return words


def _ids(a: str, b: str, before: str, behind: list[str]) -> bool:
    """Whether two words are two numbers or letters behind the same noun, or two names with a number in them."""
    if not (_ID.fullmatch(a) and _ID.fullmatch(b)) or any(word[:1].isdigit() for word in behind):
        return False
    if _shape(a) != _shape(b) or _plain_id(a) == _plain_id(b):
        return False  # 2 and 02, 2 and B2, A and 1 may be one thing
    if before == "version":
        return behind == ["of", "of"]
    verb = PAST.fullmatch(before) or before.endswith("s")
    return "-" in a or (len(before) > 2 and before not in _NO_LABEL and not before.isdigit() and not verb)


def _shape(name: str) -> str:
    return re.sub(r"[^\W\d_]", "A", re.sub(r"\d+", "0", name))


def _plain_id(name: str) -> str:
    return re.sub(r"\b0+(?=\d)|(?<=[^\W\d])0+(?=\d)", "", name).casefold()


def _named_again(name: str, claim: Claim) -> bool:
    """Whether a claim names the other thing, too: "line 5, the former 3"."""
    return name in _TOKEN.findall(claim.text)


def _man_and_woman(a: str, b: str) -> bool:
    """Whether two titles are those of two people: Mr Klein and Mrs Klein, not Mrs Klein and Frau Klein."""
    titles = {a.casefold(), b.casefold()}
    return bool(titles & _MEN and titles & _WOMEN)


def _placed(a: str, b: str, before: str) -> bool:
    """Whether two names tell where or whose it is: Springfield in Illinois, and in Oregon."""
    return before in ("in", "of", "from", "at") and a.istitle() and b.istitle() and not alike(a, b)


def _contrast(a: str, b: str) -> bool:
    first, second = a.casefold(), b.casefold()
    for words in _CONTRASTS:
        ours, theirs = ({n for n, meant in enumerate(words) if word in meant} for word in (first, second))
        if ours and theirs and not ours & theirs:
            return True
    return False


def _rest(claim: Claim, without: str) -> list[str]:
    words = _TOKEN.findall(claim.text.casefold())
    words.remove(without.casefold())
    return words


_BORN = re.compile(r"\bborn (?:in |on )?[^.;,]{0,20}?\b(1[5-9]\d\d|20\d\d)\b", re.I)
_BOUNDS = tuple(
    (re.compile(rf"\b(?:{a})\b", re.I), re.compile(rf"\b(?:{b})\b", re.I))
    for a, b in (
        ("opens?", "closes?|shuts?"),
        ("starts?|begins?", "ends?|finish(?:es)?"),
        ("leaves?|departs?", "arrives?"),
    )
)


def two_people(old: Claim, new: Claim) -> bool:
    """Whether two claims tell of two people of one name: born in other years, and described in other words."""
    ours, theirs = _born(old), _born(new)
    if not ours or not theirs or ours == theirs:
        return False
    if any(claim.sensitive or claim.decides or claim.permission for claim in (old, new)):
        return False
    return min(len(old.subject - new.subject), len(new.subject - old.subject)) >= 2


@found_once
def _born(claim: Claim) -> str:
    found = _BORN.search(claim.text)
    return "" if found is None else found[1]


def two_bounds(old: Claim, new: Claim) -> bool:
    """Whether one says when something begins and the other when it ends, both with a time."""
    if not all(any(v.kind in _TIMED for v in claim.values) for claim in (old, new)):
        return False
    a, b = old.text, new.text
    return any(
        (_bounds(x, old) and _bounds(y, new) and not y.search(a) and not x.search(b))
        or (_bounds(y, old) and _bounds(x, new) and not x.search(a) and not y.search(b))
        for x, y in _BOUNDS
    )


_UP_TO_TIME = re.compile(
    r"(?:[\s,]|\b(?:at|on|in|by|around|about|every|each|daily|the|its|doors|shortly|before|after|for)\b|[A-ZÀ-Þ][\w'’-]*+)*+"
)


def _bounds(verb: re.Pattern[str], claim: Claim) -> bool:
    """Whether a verb has a moment as its own: "opens at 9:00", and not "starts to be over at nine"."""
    moments = [value.start for value in claim.values if value.kind in _TIMED]
    for found in verb.finditer(claim.text):
        behind = [start for start in moments if start >= found.end()]
        if behind and _UP_TO_TIME.fullmatch(claim.text, found.end(), behind[0]):
            return True
    return False
