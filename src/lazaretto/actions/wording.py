"""Whether a task asks for an action: the words in which people ask for each class of actions.

Only requests count ("send", "make a payment"), not "the emails", "do not send" or "tell me". They are weak evidence,
used for one thing: a call that no words ask for, made while a stranger's text is in mind, is asked about.
"""

from __future__ import annotations

import re

from lazaretto.actions.classes import word_set, words_of
from lazaretto.actions.records import ActionClass
from lazaretto.actions.values import addresses_in

_VERBS: dict[ActionClass, frozenset[str]] = {
    ActionClass.SEND: word_set(
        "send email mail message write tell inform notify reply respond forward post publish remind contact invite "
        "schedule submit upload announce text dm share"
    ),
    ActionClass.PAY: word_set(
        "pay transfer refund buy purchase order book reserve charge donate wire subscribe settle rent schedule adjust "
        "update change"
    ),
    ActionClass.DELETE: word_set("delete remove cancel erase clear drop purge clean kick revoke undo"),
    ActionClass.EXECUTE: word_set("run execute start launch deploy install test build compile evaluate restart"),
    ActionClass.SHARE: word_set("share invite add grant give change update set reset allow"),
    ActionClass.WRITE: word_set("write create update set add append save edit change move rename schedule"),
}
_NEVER_NOUNS = word_set(
    "send write tell inform notify forward invite remind publish submit pay buy refund reserve donate settle delete "
    "remove erase execute install deploy grant reset append"
)
"""Verbs that need nothing before them to be one."""
_NOUNS: dict[ActionClass, frozenset[str]] = {
    ActionClass.PAY: word_set("reservation booking payment transfer transaction order purchase donation refund"),
    ActionClass.SEND: word_set("message email mail reply post announcement invitation"),
}
"""Nouns that people make, place or set up instead of using the verb."""
_MAKES = word_set("make place create set write")
_DETERMINERS = word_set("the a an my your his her their our this that these those any all each every no some")
_LEADS = word_set(
    "and then please to also you or just could would will can i we ll now kindly must should help d let us let's lets "
    "need want but so after afterwards finally first next otherwise immediately quickly automatically"
)
_NEGATIONS = word_set("not don't dont never without cannot no")
_TO_THE_USER = word_set("me us")
_WORD = re.compile(r"[\w']+|[.!?;:,\n()-]")
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
_ENDS = frozenset(".!?;\n")
_LOOKING = word_set("look looking looks")
_STOPS = frozenset(".!?;:,\n()-")
_PAGES = word_set(
    "website websites webpage webpages page pages article articles link links blog blogs url urls site sites web "
    "internet online"
)
"""Nouns of a task that asks for pages to be read."""
_GENERIC = word_set("get list search find read fetch check show view tool api call user data item")
_SYNONYMS = {
    "create": ("add",),
    "add": ("create",),
    "reschedule": ("move", "postpone"),
    "remove": ("kick",),
    "update": ("modify", "switch", "upgrade", "downgrade", "adjust", "swap", "replace"),
}
"""Other words for the verb that a tool is named by."""
_DO = word_set("do perform complete follow execute")
_WORK = word_set("actions tasks instructions steps todos requests")
_WHOSE = word_set("the all of my our your his her their every each")
"""Words that may stand before work described elsewhere; "these tasks" and "the following ones" are described here."""
_FIRMLY = word_set("please and then also kindly")
"""Words that may stand before an order without doubt: not "should I do", nor "what to do"."""
_NEAR = 5
"""Words between the noun and the word that makes it."""


def asks_for(text: str, tool: str, action: ActionClass) -> str:
    """The word with which a text asks for such an action; empty where none does."""
    if action is ActionClass.FETCH:
        return asks_for_pages(text)
    name = words_of(tool)
    own = {name[0], *_SYNONYMS.get(name[0], ())} - _GENERIC if name else set()
    verbs = _VERBS.get(action, frozenset()) | own
    words: list[str] = _WORD.findall(text.casefold().replace("’", "'"))
    for place, word in enumerate(words):
        if word in verbs and _is_request(words, place, word):
            return word
        if word in _MAKES and _negated(words, place) is False:
            near = words[place + 1 : place + 1 + _NEAR]
            made = near[: next((i for i, word_near in enumerate(near) if word_near in _STOPS), _NEAR)]
            if noun := next((word_near for word_near in made if word_near in _NOUNS.get(action, ())), ""):
                return noun
    return ""


def hands_over(text: str) -> str:
    """The words with which a text asks to follow another text ("do the tasks of Ann's list", "follow the
    instructions"); empty if there are none."""
    words: list[str] = _WORD.findall(text.casefold().replace("’", "'"))
    for place, word in enumerate(words):
        before = words[place - 1] if place else ""
        if word not in _DO or not (not before or before in _STOPS or before in _FIRMLY) or _negated(words, place):
            continue
        work = next((after for after in words[place + 1 : place + 1 + _NEAR] if after not in _WHOSE), "")
        if work in _WORK:
            return f"{word} the {work}"
    return ""


def is_request_word(word: str) -> bool:
    """Whether people ask for some action with a word."""
    return any(word in verbs for verbs in _VERBS.values())


def asks_for_pages(text: str) -> str:
    """The word with which a text asks for pages that it does not name; a sentence that names pages asks for these
    alone."""
    for sentence in _SENTENCE.split(text):
        words: list[str] = _WORD.findall(sentence.casefold())
        spoken = {*words} & _PAGES
        if spoken and not addresses_in(sentence):
            return min(spoken)
    return ""


def _is_request(words: list[str], place: int, word: str) -> bool:
    before, after = words[place - 1] if place else "", words[place + 1] if place + 1 < len(words) else ""
    if after in _TO_THE_USER or _negated(words, place):
        return False
    if word == "share" and not _shared_with(words[place + 1 :]):
        return False
    if word == "forward" and before in _LOOKING:
        return False
    if not before or before in _STOPS or before in _LEADS:
        return True
    return word in _NEVER_NOUNS and before not in _DETERMINERS


def _shared_with(after: list[str]) -> bool:
    """Whether something is to be shared with a third person: "share the names" only asks for an answer."""
    clause = after[: next((i for i, word in enumerate(after) if word in _ENDS), len(after))]
    pairs = zip(clause, [*clause[1:], ""], strict=True)
    return any(word in ("with", "to", "on", "among", "between") and then not in _TO_THE_USER for word, then in pairs)


def _negated(words: list[str], place: int) -> bool:
    before = words[max(0, place - 4) : place]
    since = before[max((i + 1 for i, word in enumerate(before) if word in _STOPS), default=0) :]
    return bool({*since} & _NEGATIONS)
