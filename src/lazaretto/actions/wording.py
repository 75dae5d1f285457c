"""Whether a task asks for an action: the words in which people ask for each class of actions.

Only what a person said counts, and only as a request: "send", "please email", "and pay"; neither "the emails", nor "do
not send". A word is weak evidence of what was wanted, and enough for one thing: a call that nobody's words ask for,
made while a stranger's text is in mind, is asked about.
"""

from __future__ import annotations

import re

from lazaretto.actions.classes import word_set, words_of
from lazaretto.actions.records import ActionClass

_VERBS: dict[ActionClass, frozenset[str]] = {
    ActionClass.SEND: word_set(
        "send email mail message write tell inform notify reply respond answer forward post publish remind contact ask "
        "invite schedule submit upload announce text dm share let say thank confirm"
    ),
    ActionClass.PAY: word_set(
        "pay transfer send refund buy purchase order book reserve charge donate wire subscribe settle rent schedule "
        "adjust update change"
    ),
    ActionClass.DELETE: word_set("delete remove cancel erase clear drop purge clean kick revoke undo"),
    ActionClass.EXECUTE: word_set("run execute start launch deploy install test build compile evaluate restart"),
    ActionClass.SHARE: word_set("share invite add grant give change update set reset allow"),
    ActionClass.WRITE: word_set("write create update set add append save edit change move rename schedule"),
}
_LEADS = word_set(
    "and then please to also you or just could would will can i we ll now kindly must should help d let us let's lets "
    "need want but so after afterwards finally first next otherwise immediately quickly automatically n't"
)
_NEGATIONS = word_set("not don't dont never without n't cannot no")
_WORD = re.compile(r"[\w']+|[.!?;:,\n()-]")
_STOPS = frozenset(".!?;:,\n()-")
_GENERIC = word_set("get list search find read fetch check show view tool api call user data item")


def asks_for(text: str, tool: str, action: ActionClass) -> str:
    """The word with which a text asks for such an action; empty where none does."""
    name = words_of(tool)
    verbs = _VERBS.get(action, frozenset()) | ({name[0]} - _GENERIC if name else set())
    words: list[str] = _WORD.findall(text.casefold().replace("’", "'"))
    for place, word in enumerate(words):
        if word not in verbs:
            continue
        before = words[max(0, place - 4) : place]
        since = before[max((i + 1 for i, one in enumerate(before) if one in _STOPS), default=0) :]
        if {*since} & _NEGATIONS:
            continue
        last = words[place - 1] if place else ""
        if not last or last in _STOPS or last in _LEADS:
            return word
    return ""
