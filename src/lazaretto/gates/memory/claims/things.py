"""Things of one kind: when two claims open with two different things, and so do not contradict each other.

Plain cases only: numbers and letters behind a noun, winter and summer, two people of one name, two ends of a thing, and
lines that only point at something (``pointers``).
"""

from __future__ import annotations

import re

from lazaretto.gates.memory.claims.extraction import Claim
from lazaretto.gates.memory.claims.occasions import PAST
from lazaretto.gates.memory.claims.pointers import two_pointers

_TIMED = frozenset({"date", "year", "time"})
_TOKEN = re.compile(r"[\w'’-]+")
_ID = re.compile(r"\d+[a-z]?|[A-Z]|[a-z]+-\d+|[A-Z]+-?\d+")
_CONTRASTS = tuple(
    frozenset(words.split())
    for words in (
        "winter summer spring autumn fall", "red blue green yellow black white grey orange brown pink purple",
        "north south east west northern southern eastern western", "left right", "front back rear", "upper lower",
        "first second third fourth fifth last", "morning afternoon evening night late early day",
        "daily weekly monthly quarterly annual yearly", "adults children students seniors pensioners",
        "adult child student senior", "men women", "boys girls", "small medium large",
        "novel film book series album song play opera game", "indoor outdoor", "main side back", "inner outer",
        "domestic international foreign", "internal external", "hot cold",
        "weekday weekend", "paperback hardcover",
        "brother sister", "mother father", "son daughter",
    )
)  # fmt: skip
"""Words that separate things of one kind: a claim that names another of a set speaks of another thing."""
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
     "number", "code", "pin", "version", "salary", "price", "is", "are", "was", "were"]
)  # fmt: skip
"""Words before a number that make it a value, not the name of a thing."""


def two_of_a_kind(old: Claim, new: Claim) -> bool:
    """Whether it is plain that two claims speak of two things, two people, or two ends of something."""
    apart = two_openings(old, new) or two_people(old, new) or two_bounds(old, new) or two_pointers(old, new)
    return apart or _paid_from(old) != _paid_from(new)


_FROM_OURS = re.compile(
    r"\b(?:from our(?: own)? (?:account|iban)|von unserem(?: eigenen)? konto|desde nuestra(?: propia)? cuenta|"
    r"de notre(?: propre)? compte)[\W_]{0,3}", re.I
)  # fmt: skip


def _paid_from(claim: Claim) -> bool:
    """Whether the only accounts of a claim are those that something is paid from."""
    starts = [value.start for value in claim.values if value.kind == "account"]
    from_ours = [match.end() for match in _FROM_OURS.finditer(claim.text)]
    return (
        bool(starts) and bool(from_ours) and all(any(end <= start <= end + 2 for end in from_ours) for start in starts)
    )


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
    apart = _ids(a, b, before, [word.casefold() for word in behind]) or _man_and_woman(a, b)
    if not (old.sensitive or new.sensitive):  # a claim that moves money is no other case because of a word
        apart = apart or _contrast(a, b) or _placed(a, b, before)
    return apart and _rest(old, a) != _rest(new, b)


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
    if before == "version":
        return behind == ["of", "of"]
    verb = PAST.fullmatch(before) or before.endswith("s")
    return "-" in a or (len(before) > 2 and before not in _NO_LABEL and not before.isdigit() and not verb)


def _man_and_woman(a: str, b: str) -> bool:
    """Whether two titles are those of two people: Mr Klein and Mrs Klein, not Mrs Klein and Frau Klein."""
    titles = {a.casefold(), b.casefold()}
    return bool(titles & _MEN and titles & _WOMEN)


def _placed(a: str, b: str, before: str) -> bool:
    """Whether two names tell where or whose it is: Springfield in Illinois, and in Oregon."""
    return before in ("in", "of", "from", "at") and a.istitle() and b.istitle()


def _contrast(a: str, b: str) -> bool:
    return any({a.casefold(), b.casefold()} <= words for words in _CONTRASTS)


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
    ours, theirs = _BORN.search(old.text), _BORN.search(new.text)
    if ours is None or theirs is None or ours[1] == theirs[1]:
        return False
    return min(len(old.subject - new.subject), len(new.subject - old.subject)) >= 2


def two_bounds(old: Claim, new: Claim) -> bool:
    """Whether one says when something begins and the other when it ends, both with a time."""
    if not all(any(v.kind in _TIMED for v in claim.values) for claim in (old, new)):
        return False
    a, b = old.text, new.text
    return any(
        (x.search(a) and y.search(b) and not y.search(a) and not x.search(b))
        or (y.search(a) and x.search(b) and not x.search(a) and not y.search(b))
        for x, y in _BOUNDS
    )
