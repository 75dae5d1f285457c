"""The gate for personal data: numbers that belong to a person, recognised by check digits and number plans.

Card numbers, IBANs, US social security numbers, international telephone numbers, e-mail addresses. Names and streets
would need a language model. It is in no preset, because personal data is ordinary in many crews.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, Literal

from pydantic import Field

from lazaretto.errors import MissingExtra
from lazaretto.gates.protocol import GateContext
from lazaretto.policy import CLOSED, RulingWord, read_settings
from lazaretto.policy.plugins import require
from lazaretto.types import Channel, Cost, Evidence, Observation, Ruling, Verdict

Kind = Literal["card number", "IBAN", "social security number", "telephone number", "e-mail address"]


@dataclass(frozen=True, slots=True)
class PersonalSettings:
    """The policy's ``[gates.personal]`` table."""

    __pydantic_config__ = CLOSED
    ruling: Annotated[
        RulingWord, Field(description="Ruling for a text with personal data; rewrite offers the text without it.")
    ] = Ruling.REWRITE
    kinds: Annotated[tuple[Kind, ...], Field(description="What counts as personal data.")] = (
        "card number",
        "IBAN",
        "social security number",
        "telephone number",
        "e-mail address",
    )


class PersonalGate:
    """Looks for personal data in texts."""

    name = "personal"
    channels = frozenset(Channel)
    brief = True

    def __init__(self, settings: PersonalSettings) -> None:
        self.settings = settings

    async def examine(self, observation: Observation, context: GateContext) -> Verdict:
        """Every finding is evidence by its kind and place; none repeats the data."""
        started = time.perf_counter()
        found = find_personal(observation.text, self.settings.kinds)
        words = "Personal data stands in it: {}."
        return Verdict(
            gate=self.name,
            subject=observation.id,
            ruling=self.settings.ruling if found else Ruling.ALLOW,
            risk=0.8 if found else 0.02,
            interval=(0.4, 1.0) if found else (0.0, 0.5),
            rule="personal_data" if found else "none_found",
            evidence=tuple(Evidence("span", words.format(k), {"start": a, "end": b}) for a, b, k in found[:10]),
            taxonomy=("LLM02",) if found else (),
            cost=Cost(ms=(time.perf_counter() - started) * 1000),
            replacement=without(observation.text, found) if found else None,
        )


def make(settings: Mapping[str, Any]) -> PersonalGate:
    """The gate, from the policy's table; raises where its libraries are absent."""
    made = PersonalGate(read_settings(PersonalSettings, settings, key="gates.personal"))
    require("the gate for personal data", "privacy", "stdnum", "phonenumbers")
    return made


_SPAN = tuple[int, int, str]
_EMAIL = re.compile(r"(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,6}(?![\w-])")
_DIGITS = re.compile(r"(?<![\w.-])\d(?:[ -]?\d){12,18}(?![\w-])")
_IBAN = re.compile(r"(?<!\w)[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,4})?(?!\w)")
_SSN = re.compile(r"(?<![\w-])\d{3}-\d{2}-\d{4}(?![\w-])")
_CARDS = re.compile(
    r"3[47]\d{13}|4\d{12}(?:\d{3}){0,2}|(?:5[1-5]|2[2-7])\d{14}|(?:6011|64[4-9]\d|65\d\d)\d{12}|35\d{14}"
)
"""The issuers' prefixes and lengths."""


def find_personal(text: str, kinds: tuple[str, ...]) -> list[_SPAN]:
    """Start, end and kind of everything personal, in order, none inside another."""
    found: list[_SPAN] = []
    for kind in kinds:
        found += [(start, end, kind) for start, end in _finders()[kind](text)]
    kept: list[_SPAN] = []
    for match in sorted(found, key=lambda span: (span[0], -span[1])):
        if not kept or match[0] >= kept[-1][1]:
            kept.append(match)
    return kept


def without(text: str, found: list[_SPAN]) -> str:
    """The text with a mark where each finding was."""
    for start, end, kind in reversed(found):
        text = f"{text[:start]}[{kind} removed]{text[end:]}"
    return text


@cache
def _finders() -> Mapping[str, Callable[[str], Iterator[tuple[int, int]]]]:
    try:
        from phonenumbers import PhoneNumberMatcher
        from stdnum import iban, luhn
        from stdnum.us import ssn
    except ImportError:
        raise MissingExtra("the gate for personal data", "privacy") from None

    def matching(pattern: re.Pattern[str], sound: Callable[[str], bool]) -> Callable[[str], Iterator[tuple[int, int]]]:
        return lambda text: (match.span() for match in pattern.finditer(text) if sound(match[0]))

    def is_card(digits: str) -> bool:
        bare = re.sub(r"\D", "", digits)
        return bool(_CARDS.fullmatch(bare)) and bool(luhn.is_valid(bare))

    return {
        "card number": matching(_DIGITS, is_card),
        "IBAN": matching(_IBAN, iban.is_valid),
        "social security number": matching(_SSN, ssn.is_valid),
        "telephone number": lambda text: ((m.start, m.end) for m in PhoneNumberMatcher(text, None)),
        "e-mail address": matching(_EMAIL, lambda _: True),
    }
