"""Guesses the class of a tool from its name, its description and the schema of its arguments.

``lazaretto actions list`` shows the guess; the policy overrides it. A tool without a guess counts as ``send``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lazaretto.actions.records import ActionClass


def word_set(words: str) -> frozenset[str]:
    """The words of a line."""
    return frozenset(words.split())


_READS = word_set(
    "get list search find read fetch lookup look check show view query count calculate calc think describe download is "
    "has verify validate compute browse open scan summarize summarise analyze analyse retrieve recall see watch ping "
    "compare preview inspect history status whoami now time help"
)
_WORDS: tuple[tuple[ActionClass, frozenset[str]], ...] = (
    (
        ActionClass.EXECUTE,
        word_set("run exec execute eval shell bash sh python terminal command script deploy sql code spawn"),
    ),
    (
        ActionClass.DELETE,
        word_set("delete remove cancel drop erase purge terminate uninstall destroy wipe trash clear revoke"),
    ),
    (
        ActionClass.SHARE,
        word_set("share invite grant permission permissions password access role credential credentials token"),
    ),
    (
        ActionClass.PAY,
        word_set(
            "pay payment payments purchase buy order book reserve refund charge checkout transaction transactions "
            "invoice donate wire withdraw deposit subscribe money reservation booking approve authorize "
            "authorise settle"
        ),
    ),
    (
        ActionClass.SEND,
        word_set(
            "send email mail message post reply forward notify tweet publish comment call upload push submit webhook "
            "transfer sms dm broadcast announce respond"
        ),
    ),
    (
        ActionClass.WRITE,
        word_set(
            "create write update set add append save edit insert modify rename move schedule reschedule put store "
            "remember make copy mark archive change upsert patch note"
        ),
    ),
)
_CODE_ARGUMENTS = word_set("code command cmd script sql shell expression program statement")
_RECIPIENTS = word_set(
    "to recipient recipients receiver receivers cc bcc participants attendees invitees addressee mailto"
)
_ADDRESSES = word_set("url uri urls link links href website webpage page_url host hostname endpoint")
_AMOUNTS = word_set("amount price total sum value_usd amount_usd")
_WORDS_FOR_PEOPLE = word_set("body message content text summary reason note")
_HANDS_OVER = word_set("transfer escalate handoff handover connect")
_ONWARD = word_set("forward forward_to forwarding redirect redirect_to webhook webhook_url callback callback_url alias")
"""Names of tools and of arguments that have something sent on from then on."""
_MEMBER = re.compile(r"\badds? (?:\w+ ){0,2}(?:user|member|collaborator|admin|owner)s?\b", re.I)
_SUM = re.compile(r"(?!.*\*\s*\*)[0-9 .,+*/()%-]{1,200}")
_PART = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool as it describes itself."""

    name: str
    description: str = ""
    arguments: tuple[str, ...] = ()
    """Names of its arguments."""
    fixed: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """The arguments that take one of a list of values, with the values as text."""

    @classmethod
    def of(cls, name: str, description: str = "", schema: Mapping[str, Any] | None = None) -> Tool:
        """From a name, a description and a JSON schema of the arguments."""
        properties = (schema or {}).get("properties")
        known = properties if isinstance(properties, Mapping) else {}
        fixed = {str(key): _fixed_values(value) for key, value in known.items() if isinstance(value, Mapping)}
        return cls(name, description, tuple(map(str, known)), {key: values for key, values in fixed.items() if values})

    def takes_only(self, argument: str, value: Any) -> bool:
        """Whether a value is one of a list that the tool names for an argument."""
        return _as_text(value) in self.fixed.get(argument, ())


def _fixed_values(schema: Mapping[str, Any]) -> frozenset[str]:
    listed = schema.get("enum", [schema["const"]] if "const" in schema else [])
    if schema.get("type") == "boolean":
        listed = [True, False]
    return frozenset(map(_as_text, listed)) if isinstance(listed, (list, tuple)) else frozenset()


def _as_text(value: Any) -> str:
    return str(value).casefold() if isinstance(value, bool) else str(value)


def is_sum(arguments: Mapping[str, Any]) -> bool:
    """Whether everything that a tool for code is called with is a sum: numbers, brackets and signs."""
    return bool(arguments) and all(isinstance(value, str) and _SUM.fullmatch(value) for value in arguments.values())


def words_of(name: str) -> tuple[str, ...]:
    """The words of a name such as ``send_money``, ``sendMoney`` or ``mail.send``."""
    return tuple(part.casefold() for part in _PART.findall(name))


def guess(tool: Tool) -> tuple[ActionClass, str]:
    """The class of a tool and why."""
    words, arguments = words_of(tool.name), {a.casefold() for a in tool.arguments}
    description = tool.description.split(".")[0]
    if words and words[0] in _READS and not arguments & _CODE_ARGUMENTS:
        return _does_more(words, description, arguments) or _reads(arguments, f"its name begins with {words[0]!r}")
    if "human" in words and {*words} & _HANDS_OVER and arguments <= _WORDS_FOR_PEOPLE:
        return ActionClass.READ, "it hands over to a person"
    if arguments & _CODE_ARGUMENTS:
        return ActionClass.EXECUTE, f"it takes {min(arguments & _CODE_ARGUMENTS)!r}"
    if _MEMBER.search(" ".join(words)) or _MEMBER.search(description):
        return ActionClass.SHARE, "it adds a person"
    if arguments & _AMOUNTS and {*words} & {"send", "transfer", "schedule", "update"}:
        return ActionClass.PAY, f"it takes {min(arguments & _AMOUNTS)!r}"
    for action, known in _WORDS:
        if hit := next((word for word in words if word in known), ""):
            if action is ActionClass.WRITE and (there := (arguments & (_RECIPIENTS | _ONWARD)) | ({*words} & _ONWARD)):
                return ActionClass.SEND, f"it has {min(there)!r}"
            return action, f"its name has {hit!r}"
    return _from_description(description, arguments)


def _does_more(words: tuple[str, ...], description: str, arguments: set[str]) -> tuple[ActionClass, str] | None:
    """The class of a tool that is named as if it only read: by a second verb in its name, the first word of its
    description, or arguments that nobody needs for reading."""
    joined = next((words[at + 1 :] for at, word in enumerate(words) if word in ("and", "or", "then")), ())
    first = tuple(word.removesuffix("s") for word in words_of(description)[:1])
    for action, known in _WORDS:
        for part, why in ((joined, "its name joins"), (first, "its description begins with")):
            if action is not ActionClass.WRITE and (hit := next((word for word in part if word in known), "")):
                return action, f"{why} {hit!r}"
    if not arguments & _RECIPIENTS:
        return None
    if arguments & _AMOUNTS:
        return ActionClass.PAY, f"it takes {min(arguments & _AMOUNTS)!r} and {min(arguments & _RECIPIENTS)!r}"
    if arguments & _WORDS_FOR_PEOPLE:
        return ActionClass.SEND, f"it takes {min(arguments & _WORDS_FOR_PEOPLE)!r} and {min(arguments & _RECIPIENTS)!r}"
    return None


def _reads(arguments: set[str], why: str) -> tuple[ActionClass, str]:
    """A tool that reads at an address given in the call also sends something to that address."""
    if there := arguments & _ADDRESSES:
        return ActionClass.FETCH, f"{why}, and it takes {min(there)!r}"
    return ActionClass.READ, why


def _from_description(description: str, arguments: set[str]) -> tuple[ActionClass, str]:
    words = words_of(description)
    if words and (words[0] in _READS or words[0].rstrip("s") in _READS or words[0] in ("returns", "retrieves")):
        return _does_more((), "", arguments) or _reads(arguments, f"its description begins with {words[0]!r}")
    for action, known in _WORDS:
        if hit := next((word for word in words if word in known or word.removesuffix("s") in known), ""):
            return action, f"its description has {hit!r}"
    return ActionClass.SEND, "nothing tells what it does: name it in [actions.tools]"
