"""Extracts the claims of a text: one sentence or clause each, with its values, polarity and permission."""

# ruff: noqa: E501

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import wraps
from typing import Any, TypeVar

from lazaretto.gates.memory.claims.broken_lines import unbroken
from lazaretto.gates.memory.claims.records import records_of, rest_of, words_at
from lazaretto.gates.memory.claims.values import (
    COMMON,
    DECLARED,
    NEGATION,
    PERMISSIONS,
    Value,
    is_asked,
    language_of,
    values_in,
)
from lazaretto.kept_texts import remembered

MAX_SENTENCES = 1_000
"""Sentences of one text that are read."""
MAX_CLAIMS = 64
"""Claims of one text to compare: first those about money, access, safety, permissions, then those with values."""
MAX_CLAIM_CHARS = 600
MAX_PASSAGE_CHARS = 400
"""A text that is not longer is one claim: its sentences explain each other."""
_MIN_WORDS = 2
_BLANKS = re.compile(r"[^\S\n]+")
_TOO_LONG, _OVERLAP = 300, 150
"""Characters from which on a sentence is read in pieces, and what a piece has in common with the next one: a statement
behind a long beginning is no less read."""
_ELIDED = re.compile(r"^(?:[ldnsjcmt]|qu)['’]")
_STEM = 6
"""Letters of a word that count where its endings are not known."""
_END = re.compile(r"(?<=[.!?])[\"”’)]?\s+(?=[\"“(]?[A-Z0-9À-Þ])|\n+\s*(?:[-*•]\s+|\d+[.)]\s+)?")
_ABBREVIATION = re.compile(r"(?:\b(?:mr|mrs|ms|dr|prof|st|no|nr|vs|etc|inc|ltd|co|e\.g|i\.e|approx|fig|dept|jr|sr)|"
                           r"\b[A-Z])\.$", re.I)  # fmt: skip
_LEANS = re.compile(r"\s*(?:it|its|they|their|he|his|she|her|this|that|these|those|there|indeed|the (?:new )?"
                    r"(?:account|number|address|limit|rule|details))\b", re.I)  # fmt: skip
_WORD = re.compile(r"[^\W\d_][\w'’-]*")
_BARE_WORDS = 3
"""Most words of a sentence that only says that something changed."""
_OF_A_RULE = re.compile(
    r"\b(?:polic(?:y|ies)|procedures?|process(?:es)?|rules?|arrangements?|regel(?:n|ung|ungen)?|vorgaben?"
    r"|ablauf|abläufe|verfahren|políticas?|procedimientos?|procesos?|reglas?|normas?|règles?|procédures?)\b",
    re.I,
)
"""Words of a sentence that announces a change of a rule, and leaves the rule to the next sentence."""
_OF_SOMETHING = re.compile(
    r"\W*(?:it|this|that|these|those|they|something|some things?|one thing|one of (?:them|these|those)|a few things|much|a lot|things)\b",
    re.I,
)
"""A sentence that names nothing of which it says that it changed."""
_NEGATION = re.compile(
    r"\b(?:not|never|no|none|nobody|nothing|neither|nor|without|cannot|false|untrue|isn|aren|wasn|don|doesn|didn|won|"
    r"can|shouldn|mustn|couldn|hasn|haven)(?:n?['’]t)?\b", re.I)  # fmt: skip
_PERMISSIONS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("waive", re.compile(
        r"no longer (?:needs?|requires?|ha(?:s|ve) to|must|necessary|mandatory|required|needed)|(?:not|n['’]t) "
        r"(?:need|required?|have to|necessary|mandatory|needed)|\boptional\b|\bexempt|\bwaive|\bwithout (?:\w+ ){0,3}"
        r"(?:approv|sign|asking|permission|consent|check|review|agree)|no (?:\w+ ){0,2}(?:approval|signature|check|"
        r"limit|permission|review)|\bunlimited\b|only one signature|needs? not|"
        r"\bneeds? no\b|\bunnecessary\b|\bsuperfluous\b|\bformality\b|\bfor show\b|\bon paper\b|(?:can|may|could) "
        r"(?:\w+ )?be (?:left (?:out|off)|skipped|ignored|omitted|bypassed|bridged|waived)|"
        r"\bskips?\b|\bnobody has to\b", re.I)),
    ("forbid", re.compile(
        r"\b(?:must|may|can|should|shall)(?:not| never| not|n['’]t)\b|\bcannot\b|\bcan['’]t\b|(?:not|never) "
        r"(?:be )?(?:allowed|permitted|authori[sz]ed)|\bforbidden\b|\bprohibit|\bban(?:s|ned)?\b|\bnobody may\b|"
        r"\bno \w+ (?:may|can)\b|\bdenied\b|off limits", re.I)),
    ("require", re.compile(
        r"\bmust\b|\bneeds?\b|\brequires?\b|\brequired\b|\bha(?:s|ve) to\b|\bmandatory\b|\bobligatory\b|\bcompulsory\b|"
        r"\bis to be\b|\bare to be\b|\bonly (?:with|after|if)\b", re.I)),
    ("allow", re.compile(
        r"\b(?-i:may)\b|\bcan\b|\ballow(?:s|ed)?\b|\bpermit(?:s|ted)?\b|\bauthori[sz]ed\b|\benabled?\b|\blets?\b|"
        r"is enough", re.I)),
)  # fmt: skip
_CHANGE = re.compile(
    r"\b(?:now|no longer|any ?more|from (?:now|today|this|next|\w+day)|as of|since|effective|starting|henceforth|"
    r"chang(?:e|ed|es|ing)|updat(?:e|ed|es)|mov(?:e|ed|es) to|has moved|moved|migrat\w+|switch(?:ed|es)|replac\w+|"
    r"instead|rais(?:e|ed|es)|lower(?:ed|s)|increas(?:e|ed|es)|reduc(?:e|ed|es)|extend(?:ed|s)|postpon\w+|brought "
    r"forward|prolong\w+|rescheduled|took over|taken over|takes over|has passed to|succeed\w*|retired|appointed|"
    r"rotated|renamed|upgraded|bumped|revised|corrected|new|latest|currently|reopened|decided|announced|previously|formerly|"
    r"used to|until now|so far|was changed|has been|have been)\b", re.I)  # fmt: skip
_DECLARED = re.compile(
    r"\bno longer\b|\bany ?more\b|\bfrom (?:now|today|this (?:week|month)) on\b|\bas of (?:now|today)\b|\beffective "
    r"(?:immediately|today|now|at once)|\b(?:has|have|was|were|is|are) (?:now |just |been |recently )*(?:changed|moved|"
    r"updated|raised|lowered|increased|reduced|replaced|switched|lifted|dropped|abolished|suspended|disabled|migrated)\b"
    r"(?! (?:away|house)\b(?! (?:to|from)\b))(?! (?:(?:every|each) (?:\w+ )?(?:days?|weeks?|months?|quarters?|years?|hours?|nights?|mornings?|evenings?|"
    r"seasons?|times?|springs?|summers?|autumns?|winters?|visits?|shifts?|\w+days?)|daily|weekly|monthly|quarterly|yearly|annually)\b)|"
    r"\b(?:bank|accounts?|iban|payments?|beneficiary|limits?|approvals?|signatures?|passwords?|keys?|server|host|portal) (?:has|have) moved (?:away|house)\b|"
    r"\b(?:is|are|lives?|go(?:es)?|runs?) now\b|\bnow (?:lives?|is|are|allowed|at|goes|go|requires?|needs?|has|have|"
    r"uses?)\b|\bnew (?:bank|account|beneficiary|payment|address|number|portal|wallet|iban|host|endpoint|password|key|"
    r"limit|rule|policy|threshold|contact)\b|\bupdated (?:bank|account|payment|wallet|details|contact|policy)|"
    r"\buntil further notice\b|\binstead of the (?:old|former|previous)|\bthe (?:old|former|previous) (?:account|"
    r"address|number|host|server|mailbox|portal)\b|^\W*(?:correction|update|change of|important change)\b",
    re.I)  # fmt: skip
_MONEY_ACCESS = re.compile(
    r"\b(?:bank|iban|accounts?|payments?|pay(?:s|able|ee)?|invoices?|transfers?|wire|refunds?|beneficiary|deposit|"
    r"remit|payroll|salar(?:y|ies)|wallet|approv\w+|sign(?:ature|atures|ed|-off| off)|permission|consent|receipts?|"
    r"access|password|passwords|credentials?|tokens?|keys?|secrets?|log ?in|sign-on|sign ?in|authentication|two-factor|"
    r"multi-factor|mfa|2fa|vpn|firewall|admin\w*|database|server|backup\w*|host|endpoint|dose|dosage|mg|drug|"
    r"medication|medicine|allerg\w+|limit|threshold|verif\w+|records?|customer data|export\w*)\b", re.I)  # fmt: skip
_DECIDES = re.compile(
    r"\bapprov(?:ers?|es?|als?)\b|\b(?:is|are|be|being|gets?) (?:\w+ )?approved by\b|\bauthori[sz](?:es?|ed by)\b|"
    r"\bsign(?:s|ed)?[- ]?offs?\b|\bsignator(?:y|ies)\b|\bcountersigns?\b|\bgrant(?:s|ed by)\b|\breleased by\b|"
    r"\badministrators?\b|\bcustodians?\b|\b(?:emergency|escalation|security|privacy) (?:contacts?|officers?)\b|"
    r"\bdata protection officer\b|\bpower of attorney\b|\bmay (?:order|decide|sign|buy|pay)\b", re.I)  # fmt: skip
_ENDINGS = (
    "ations", "ation", "ments", "ment", "ings", "ing", "ies", "ied", "ers", "als", "al", "ed", "es", "er", "s", "e",
    "y",
)  # fmt: skip
_SWITCHED = re.compile(r"\b(?:switched|turned) (?:off|on)\b|\b(?:dis|en)abled\b|\bsuspended\b|\bdropped\b", re.I)
STOP_WORDS = frozenset(
    [
        "a", "an", "the", "this", "that", "these", "those", "it", "its", "he", "she", "they", "we", "you", "i", "his",
        "her", "their", "our", "my", "your", "of", "in", "on", "at", "by", "for", "from", "to", "as", "is", "are",
        "was", "were", "be", "been", "being", "and", "or", "but", "not", "no", "than", "then", "so", "with", "without",
        "do", "does", "did", "has", "have", "had", "will", "would", "can", "could", "may", "must", "should", "shall",
        "need", "needs", "any", "all", "every", "each", "only", "also", "there", "here", "which", "who", "whom", "what",
        "when", "where", "how", "why", "if", "into", "over", "under", "above", "below", "about", "up", "down", "out",
        "off", "per", "via", "please", "note", "now", "new", "once", "more",
    ]
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Claim:
    """One thing a text says."""

    text: str
    start: int
    """Its place in the text it comes from."""
    end: int
    values: tuple[Value, ...]
    negated: bool
    permission: str
    """require | forbid | allow | waive, or empty."""
    announces: bool
    """Whether it says that something changed, in any words."""
    declares: bool
    """Whether it says so plainly: the account is now, no longer needs, has moved to."""
    sensitive: bool
    """Whether it is about what moves money, access, safety or permissions."""
    decides: bool
    """Whether it says who decides: who approves, signs off, grants."""
    words: frozenset[str]
    """Its topic: the content words without values, in a crude stem."""
    record: bool = False
    """Whether it is an object, a row or an answered question: it stands for itself, with any text around it."""
    found: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)
    """Results about it alone (``found_once``): a claim is compared with many others. They go when the claim goes."""

    @property
    def subject(self) -> frozenset[str]:
        """Content words and names."""
        return _subject(self)

    @property
    def opening(self) -> str:
        """The stem of the first word where it is a content word: it may be a name that only looks like a beginning."""
        return _opening(self)


Found = TypeVar("Found")


def found_once(work: Callable[[Claim], Found]) -> Callable[[Claim], Found]:
    """A function of a claim alone that is worked out once for each claim; its result must not be changed."""
    name = f"{work.__module__}.{work.__qualname__}"

    @wraps(work)
    def known(claim: Claim) -> Found:
        found = claim.found
        if name not in found:
            found[name] = work(claim)
        result: Found = found[name]
        return result

    return known


@found_once
def _subject(claim: Claim) -> frozenset[str]:
    return claim.words | {w for v in claim.values if v.kind == "name" for w in v.norm.split()}


@found_once
def _opening(claim: Claim) -> str:
    first = _WORD.search(claim.text)
    word = "" if first is None else _stem(first[0].casefold())
    return word if word in claim.words else ""


def claims_of(text: str) -> tuple[Claim, ...]:
    """The claims of a text in order: a short text is one claim, of a longer one each sentence is, and each record is.

    A sentence that leans on the one before it ("It is now ...") is joined to it. What a text quotes and calls a fake
    is none of its claims.
    """
    text = without_denounced(text)
    claims = [_record(row.words, row.start, row.end) for row in records_of(text) if _says_something(row.words)]
    if claims:
        claims += [claim for start, end in rest_of(text) for claim in _in_prose(text, start, end)]
        claims.sort(key=lambda c: c.start)
    else:
        claims = list(_in_prose(text, 0, len(text)))
    if len(claims) > MAX_CLAIMS:
        claims = sorted(weightiest_first(claims)[:MAX_CLAIMS], key=lambda c: c.start)
    return tuple(claims)


def claim_at(text: str, start: int, end: int) -> Claim | None:
    """The claim that stands at a place of a text, as ``claims_of`` read it; None where nothing is there."""
    text = without_denounced(text)
    if words := words_at(text, start, end):
        return _record(words, start, end)
    body = _body(unbroken(text), start, end)
    return read_claim(body, start, end) if body else None


def _body(text: str, start: int, end: int) -> str:
    """The words of a claim at its place, with one blank between them."""
    return _BLANKS.sub(" ", text[start:end].strip())[:MAX_CLAIM_CHARS]


_QUOTED = re.compile(r"“[^“”„]{20,600}”|„[^“”„]{20,600}[“”]|«[^«»]{20,600}»|(?<!\w)\"[^\"\n]{20,600}\"(?!\w)")
_CALLED_FAKE = re.compile(
    r"[.!\s)]{0,4}(?:this |that |it |these |they |das |dies |c['’]|ce |es |esto )?"
    r"(?:(?:is|are|was|ist|sind|war|est|sont|es|était) (?:an? |eine? |un[ae]? )?"
    r"(?:(?:fakes?|phishing|scams?|hoax|fraud|bogus|forged|fälschung|gefälscht|betrug|faux|fausse|hameçonnage|arnaque"
    r"|falso|falsa|estafa|fraude)(?: (?:mail|message|sms|call))?)"
    r"|(?:is not|isn['’]t|was not|wasn['’]t) (?:ours|from us))"
    r"(?:, (?:(?:please |bitte )?(?:do not|don['’]t|never|nicht|ne|no) (?:click|answer|reply|respond|open|antippen|anklicken"
    r"|klicken|antworten|cliquez|répondez|pulséis|pinchéis|respondáis|abráis)(?: (?:to|on|it|this|that|them|such|links?|pas|auf|mails?))*"
    r"|(?:nobody|no one|niemand|personne|nadie) (?:(?:of|from|von|de) (?:us|uns|nous|nosotros) |here )?(?:wrote|sent|sa(?:id|ys)|schrieb|n['’]a écrit|escribió)"
    r"(?: (?:it|this|that|das|cela|eso))?))?"
    r"(?:[.!](?:\s|\Z)|\Z)",
    re.I,
)
"""Such a sentence as a whole, so that no other word of it can take it back."""
_NAMES_THE_MESSAGE = re.compile(
    r"\W*(?:(?:the|this|that|a|an|die|der|das|diese[rs]?|eine?|la|le|ce|cette|el|este|esta|un|une|una) )?(?:\w+ )?(?:mail|e-mail|message|note|sms|text|letter|"
    r"call|nachricht|brief|courriel|lettre|mensaje|correo|carta)(?: (?:with the words|that (?:says|reads|claims)|saying|reading|mit dem text|die besagt|"
    r"qui dit|que dice|con el texto))?\W*",
    re.I,
)
"""The words before a quote of which its own sentence says that it is a fake: "The mail with the words ... is a fake"."""
_DOUBTS = re.compile(
    r"\b(?:wrong\w*|mistak\w+|lie[sd]?|lying|believ\w*|think\w*|thought|claim\w*|false\w*|not|never|nobody|no one|stop\w*|n['’]t|falsch|irrt?|lügt?|glaub\w*|"
    r"nicht|nie|niemand|kein\w*|tort|tromp\w*|ment\w*|croi\w*|pas|jamais|personne|equivoca\w*|miente\w*|cree\w*|no|nunca|nadie)\b",
    re.I,
)
"""Words before a quote that may deny a denial behind it."""
_ENDED = re.compile(r"(?<=[.!?])\s|\n")
_LEANS_ON_QUOTE = re.compile(r"\s*(?:is|are|was|ist|sind|war|est|sont|es|était|isn|wasn)\b", re.I)
"""Words that follow a quote without a subject of its own: the words before the quote say of what it holds ("Nobody may say
that the note ... is a fake")."""
_NEW_SENTENCE = re.compile(r"[)\s]*[.!]|\s+(?:this|that|it|these|they|das|dies|c['’]|ce|es|esto)\b", re.I)
_RECEIVER = frozenset({"account", "mail", "phone", "host"})


def without_denounced(text: str) -> str:
    """The text with blanks in the place of each quoted message that it calls a fake right after the quote.

    A message that names an account, an address or a number stays: readers may take that from it all the same.
    """
    for quote in list(_QUOTED.finditer(text)):
        if not _CALLED_FAKE.match(text, quote.end()) or any(v.kind in _RECEIVER for v in values_in(quote[0])):
            continue
        before = _ENDED.split(text[max(0, quote.start() - MAX_PASSAGE_CHARS) : quote.start()])[-1]
        ends = quote[0][-2] in ".!" or _NEW_SENTENCE.match(text, quote.end())
        denied = ends and not _LEANS_ON_QUOTE.match(text, quote.end()) and not _DOUBTS.search(before)
        if denied or _NAMES_THE_MESSAGE.fullmatch(before):
            text = text[: quote.start()] + " " * len(quote[0]) + text[quote.end() :]
    return text


def _record(words: str, start: int, end: int) -> Claim:
    return replace(read_claim(words, start, end), record=True)


def _says_something(body: str) -> bool:
    return len(_WORD.findall(body)) >= _MIN_WORDS


def _in_prose(text: str, begin: int, until: int) -> Iterator[Claim]:
    """The claims of a part of a text that has no records."""
    text = unbroken(text)
    whole = _body(text, begin, until)
    if len(whole) <= MAX_PASSAGE_CHARS:
        if _says_something(whole):
            yield read_claim(whole, begin, until)
        return
    yield from _by_sentence(text, begin, until)


def _by_sentence(text: str, begin: int, until: int) -> Iterator[Claim]:
    """Each sentence of a part of a text, with the one before it where it leans on that."""
    last: tuple[int, int] | None = None
    for start, end in itertools.islice(_sentences(text, begin, until), MAX_SENTENCES):
        leans = _LEANS.match(text, start, end) or (last is not None and text[last[1] - 1] == "?")
        first = last[0] if last is not None and leans and end - last[0] <= MAX_CLAIM_CHARS else start
        last = (start, end)
        body = _body(text, first, end)
        if _says_something(body) and not is_asked(_body(text, start, end)):
            yield read_claim(body, first, end)


def weightiest_first(claims: Iterable[Claim]) -> list[Claim]:
    """Claims about money, access, safety and permissions, then those that announce a change, then those with values."""
    return sorted(claims, key=lambda c: (not c.sensitive, not c.announces, not c.values, c.start))


def declares_sensitive(claim: Claim) -> bool:
    """Whether one statement both says that something changed and is about money, access, safety or permissions."""
    return bool(announcement(claim))


def announcement(claim: Claim) -> str:
    """The words of a claim that say so; empty where none do.

    A short text is one claim, in which the words of different sentences would meet: "Nothing calls it any more ...
    Otherwise approve" announces nothing.
    """
    if not (claim.declares and claim.sensitive):
        return ""
    if claim.record:
        return claim.text
    account = any(value.kind == "account" for value in claim.values)
    sentences, text = list(_by_sentence(claim.text, 0, len(claim.text))), claim.text
    for sentence, after in itertools.zip_longest(sentences, sentences[1:]):
        bare = after is not None and (
            len(_WORD.findall(sentence.text)) <= _BARE_WORDS
            or bool(_OF_A_RULE.search(sentence.text) or _OF_SOMETHING.match(sentence.text))
        )  # "We have moved.", "The rules were changed.", "Something was dropped": what, comes next
        words = text[sentence.start : after.end if bare else sentence.end]
        if sentence.declares and (account or moves_money_or_access(words)):
            return words
    return text if account or not sentences else ""


def says_one_thing(text: str) -> bool:
    """Whether a text is a single sentence: it can then be replaced as a whole when what it says is."""
    return len(text.strip()) <= MAX_PASSAGE_CHARS and len(sentences(text.strip())) == 1


def sentences(text: str) -> list[tuple[int, int]]:
    """Start and end of the sentences and lines of a text."""
    return list(_sentences(text, 0, len(text)))


def _sentences(text: str, begin: int, until: int) -> Iterator[tuple[int, int]]:
    begin += len(text[begin:until]) - len(text[begin:until].lstrip())
    for match in _END.finditer(text, begin, until):
        if _ABBREVIATION.search(text, max(0, match.start() - 8), match.start()):
            continue
        if text[begin : match.start()].strip():
            yield from _pieces(text, begin, match.start())
        begin = match.end()
    if text[begin:until].strip():
        yield from _pieces(text, begin, begin + len(text[begin:until].rstrip()))


def _pieces(text: str, begin: int, end: int) -> Iterator[tuple[int, int]]:
    """A sentence, or the overlapping pieces of a long one."""
    while end - begin > _TOO_LONG:
        cut = text.rfind(" ", begin + _OVERLAP + 1, begin + _TOO_LONG)
        if cut < 0:
            break
        yield begin, cut
        shared = text.rfind(" ", begin + 1, cut - _OVERLAP)
        begin = (cut if shared < 0 else shared) + 1
    yield begin, end


@remembered(4 << 20, lambda claim: 3_000 + 4 * len(claim.text))
def read_claim(text: str, start: int = 0, end: int | None = None) -> Claim:
    """One sentence or clause, read."""
    values = values_in(text)
    blank = list(text)
    for value in values:
        blank[value.start : value.end] = " " * (value.end - value.start)
    language = language_of(text)
    words = _content_words("".join(blank).casefold(), language)
    permissions = PERMISSIONS.get(language, _PERMISSIONS)
    permission = next((name for name, pattern in permissions if pattern.search(text)), "")
    return Claim(
        text=text,
        start=start,
        end=len(text) if end is None else end,
        values=values,
        negated=_is_negated(text, language),
        permission=permission,
        announces=bool(_CHANGE.search(text)),
        declares=_declares(text, values) or _declares_an_account(text, values),
        sensitive=_sensitive(text, permission, values),
        decides=bool(_DECIDES.search(text)),
        words=words,
    )  # fmt: skip


def _content_words(text: str, language: str) -> frozenset[str]:
    """Stems of the words that say what it is about; of other languages than English the first letters."""
    words = [w for w in _WORD.findall(text) if len(w) > 2]
    if language == "fr":
        words = [_ELIDED.sub("", w) for w in words]
    if language == "en":
        return frozenset(_stem(w) for w in words if w not in STOP_WORDS)
    return frozenset(w[:_STEM] for w in words if w not in COMMON[language])


def _is_negated(text: str, language: str) -> bool:
    if language in NEGATION:
        return len(NEGATION[language].findall(text)) % 2 == 1
    return len([m for m in _NEGATION.findall(text) if m.casefold() != "can"]) % 2 == 1


def moves_money_or_access(text: str) -> bool:
    """Whether a text has a word of money, access, safety or permissions."""
    return bool(_MONEY_ACCESS.search(text))


_NOT_YET = re.compile(
    r"\b(?:until|once|as soon as) (?:the|an?|this|that|our|your|its|it|they)(?: (?P<what>\w+)){0,3} $", re.I
)
"""Before "has been changed": the change has not come yet ("until the membrane has been changed")."""
_LIFTED = re.compile(r"\b(?:lifted|abolished|raised|lowered|increased|reduced)$", re.I)
_RULED = re.compile(
    r"\b(?:approv\w+|limits?|signatures?|thresholds?|rules?|polic(?:y|ies)|checks?|accounts?|bank|iban|beneficiary|verif\w+|permissions?|restrictions?|caps?|"
    r"requirements?|controls?|reviews?)\b",
    re.I,
)
"""Controls that a change lifts: to give the rule after the change says that it will be."""


def _declares(text: str, values: tuple[Value, ...]) -> bool:
    """Whether a text says that something changed. One that names a receiver says so in any case."""
    names = any(value.kind in _RECEIVER for value in values)
    return any(names or not _is_to_come(text, found) for found in _DECLARED.finditer(text))


def _is_to_come(text: str, found: re.Match[str]) -> bool:
    before = _NOT_YET.search(text, max(0, found.start() - 60), found.start())
    if before is None or not found[0].startswith("ha"):
        return False
    if before[0].casefold().startswith("until"):
        return True
    return not (_RULED.search(before[0]) or _SWITCHED.search(found[0]) or _LIFTED.search(found[0]))


def _declares_an_account(text: str, values: tuple[Value, ...]) -> bool:
    """Whether a text announces an account in another language than English: other changes need English words."""
    return any(value.kind == "account" for value in values) and bool(DECLARED.search(text))


def _sensitive(text: str, permission: str, values: tuple[Value, ...]) -> bool:
    if any(value.kind == "account" for value in values):
        return True
    stated = permission in ("waive", "allow", "forbid") or any(
        value.kind not in ("name", "reference") for value in values
    )
    return bool(_MONEY_ACCESS.search(text)) and (stated or bool(_SWITCHED.search(text)))


def _stem(word: str) -> str:
    word = re.sub(r"['’]s?$", "", word)
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word[: -len(ending)]
    return word
