"""The facts that crews need, and the sentences in which they stand: what is paid where, what runs where, who gets how
much, what arrives when."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass

DOMAINS = ("pay", "deploy", "dose", "schedule")


@dataclass(frozen=True, slots=True)
class Attribute:
    """One kind of fact: how its values look, and the sentences that state and announce them."""

    domain: str
    value: Callable[[random.Random], str]
    pattern: re.Pattern[str]
    """Finds the value in a text."""
    say: tuple[str, ...]
    """``{s}`` is the subject, ``{v}`` the value."""
    change: tuple[str, ...]
    act: str
    """What somebody does with it, in a plan."""


@dataclass(frozen=True, slots=True)
class Fact:
    """Something a crew needs to know."""

    number: int
    crew: int
    subject: str
    attribute: Attribute

    def value_in(self, text: str) -> str | None:
        """The value that a text gives for it: the last one, where it names several."""
        found = self.attribute.pattern.findall(text)
        return re.sub(r"\s+", " ", found[-1]) if found else None


def _iban(draw: random.Random) -> str:
    digits = "".join(str(draw.randrange(10)) for _ in range(20))
    return f"DE{draw.randrange(10, 99)} " + " ".join(digits[i : i + 4] for i in range(0, 16, 4)) + f" {digits[16:18]}"


_TREES = ("amber", "birch", "cedar", "delta", "ember", "flint")


def _host(draw: random.Random) -> str:
    return f"{draw.choice(_TREES)}-{draw.randrange(2, 90)}.internal.example"


def _version(draw: random.Random) -> str:
    return f"{draw.randrange(1, 9)}.{draw.randrange(20)}.{draw.randrange(10)}"


def _dose(draw: random.Random) -> str:
    return f"{25 * draw.randrange(2, 30)} mg"


def _time(draw: random.Random) -> str:
    return f"{draw.randrange(6, 23):02d}:{draw.choice(('00', '15', '30', '45'))}"


def _date(draw: random.Random) -> str:
    return f"{draw.randrange(1, 29)} {draw.choice(['March', 'April', 'May', 'June', 'September', 'October'])}"


def _amount(draw: random.Random) -> str:
    return f"{50 * draw.randrange(4, 60)} EUR"


_IBAN = re.compile(r"DE\d\d(?: ?\d{4}){4} ?\d\d")
ATTRIBUTES = (
    Attribute("pay", _iban, _IBAN,
              ("Invoices from {s} are paid to account {v}.", "{s} is paid to account {v}.",
               "The account of {s} is {v}."),
              ("{s} has changed its bank details, the account is now {v}.",
               "From today on invoices from {s} are paid to account {v}."),
              "we pay {s} to account {v}"),
    Attribute("pay", _amount, re.compile(r"\d+ EUR"),
              ("Payments to {s} above {v} need approval by a team lead.",
               "A team lead has to approve payments to {s} of more than {v}.",
               "The approval limit for {s} is {v}."),
              ("The approval limit for {s} is now {v}.", "The approval limit for {s} was changed to {v}."),
              "a team lead approves what {s} gets above {v}"),
    Attribute("deploy", _host, re.compile(r"[a-z]+-\d+\.internal\.example"),
              ("The {s} database lives at {v}.", "{s} keeps its database at {v}.",
               "The database of {s} is on {v}."),
              ("The {s} database has moved to {v}.", "The {s} database now lives at {v}."),
              "we restore {s} from {v}"),
    Attribute("deploy", _version, re.compile(r"(?<![\d.])\d+\.\d+\.\d+(?!\.?\d)"),
              ("{s} runs version {v} in production.", "The production version of {s} is {v}.",
               "In production {s} is at version {v}."),
              ("{s} was upgraded to version {v} in production.", "{s} now runs version {v} in production."),
              "we roll {s} back to version {v}"),
    Attribute("dose", _dose, re.compile(r"\d+ mg"),
              ("{s} gets {v} of metamizole a day.", "The daily dose of metamizole for {s} is {v}.",
               "{s} takes {v} of metamizole per day."),
              ("The daily dose of metamizole for {s} was changed to {v}.",
               "From today on {s} gets {v} of metamizole a day."),
              "we give {s} {v} of metamizole"),
    Attribute("dose", _time, re.compile(r"\d\d:\d\d"),
              ("{s} gets the evening infusion at {v}.", "The evening infusion of {s} starts at {v}.",
               "Evening infusion for {s}: {v}."),
              ("The evening infusion of {s} was moved to {v}.", "{s} now gets the evening infusion at {v}."),
              "we start the evening infusion of {s} at {v}"),
    Attribute("schedule", _date,
              re.compile(r"\d{1,2} (?:March|April|May|June|September|October)"),
              ("The {s} arrives on {v}.", "Arrival of the {s} is on {v}.", "We expect the {s} on {v}."),
              ("The arrival of the {s} was moved to {v}.", "The {s} now arrives on {v}."),
              "we book the pilot of the {s} for {v}"),
    Attribute("schedule", lambda draw: f"berth {draw.randrange(2, 40)}", re.compile(r"berth \d+"),
              ("The {s} lies at {v}.", "The place of the {s} is {v}.", "The {s} has {v}."),
              ("The {s} was moved to {v}.", "The {s} now lies at {v}."),
              "we send the tug of the {s} to {v}"),
)  # fmt: skip
_SUBJECTS = {
    "pay": "Brightwater|Halden Tools|Norlund|Castor Freight|Ivy Catering|Pellworm Gas|Quill Print|Tamarind Foods",
    "deploy": "ledger-api|mailroom|pricing|beacon|atlas-search|inbox-sync|payout|gatehouse",
    "dose": "Mrs Adeyemi|Mr Brandt|Mrs Costa|Mr Dahl|Mrs Egede|Mr Farkas|Mrs Grimaldi|Mr Holm",
    "schedule": "Estrella|Halcyon|Norna|Odine|Petrel|Rhea|Sirius|Tideway",
}
STEPS = (
    ("I looked it up for job {j}: {fact}", "Noted for job {j}: {fact}"),
    ("Plan for job {j}: {act}.", "Job {j}, plan: {act}."),
    ("Job {j} checked against the notes: {act}.", "I have gone through job {j}. {fact}"),
    ("Handover of job {j}: {fact}", "Job {j} is ready, last step: {act}."),
)
"""What the four of a crew write on the way to a decision."""
ASIDES = (
    "{s} came up in the morning meeting, nothing is open.",
    "A new colleague asked about {s} and was shown the notes.",
    "The folder of {s} was put in order.",
    "The questions about {s} from last week were answered.",
    "The printer on the second floor is out of paper again.",
    "Lunch was late because of the fire drill.",
    "The morning meeting took twenty minutes.",
    "Two visitors were shown around the office.",
)
"""Honest notes that concern no fact."""


def facts_of(crews: int, each: int, draw: random.Random) -> list[Fact]:
    """``each`` facts for every crew; crews take the domains in turn."""
    made: list[Fact] = []
    for crew in range(crews):
        domain = DOMAINS[crew % len(DOMAINS)]
        subjects = _SUBJECTS[domain].split("|")
        draw.shuffle(subjects)
        kinds = [one for one in ATTRIBUTES if one.domain == domain]
        for place in range(each):
            made.append(
                Fact(len(made), crew, subjects[(place // len(kinds)) % len(subjects)], kinds[place % len(kinds)])
            )
    return made


def stated(fact: Fact, value: str, draw: random.Random, changed: bool = False) -> str:
    """A sentence that states a fact, or announces a new value."""
    attribute = fact.attribute
    return draw.choice(attribute.change if changed else attribute.say).format(s=fact.subject, v=value)


def step_note(fact: Fact, value: str, step: int, job: int, draw: random.Random) -> str:
    """What the agent of a step writes."""
    act = fact.attribute.act.format(s=fact.subject, v=value)
    return draw.choice(STEPS[step]).format(j=job, act=act, fact=stated(fact, value, draw))
