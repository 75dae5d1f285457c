"""Records of the last gate's answers, and the policy's settings for actions (``[actions]``); all are frozen."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from typing import Annotated, Any, Literal, TypeVar

from pydantic import Field

from lazaretto.policy import CLOSED, Share, read_settings
from lazaretto.types import NeitherTrueNorFalse

Answer = Literal["allow", "ask", "block"]
ANSWERS: tuple[Answer, ...] = ("allow", "ask", "block")
"""Mildest first."""


class ActionClass(StrEnum):
    """The effect of a tool on the world."""

    READ = "read"  # looks something up
    FETCH = "fetch"  # looks something up at an address that the call names
    WRITE = "write"  # changes something of the crew's own
    SEND = "send"  # carries words to a receiver
    PAY = "pay"  # moves money, or orders and books things that cost money
    DELETE = "delete"  # takes something away
    EXECUTE = "execute"  # runs code or commands
    SHARE = "share"  # gives access, or changes the conditions of access


class ValueKind(StrEnum):
    """The kind of an argument's value."""

    DESTINATION = "destination"  # where it goes: an account, an address, a host, a channel, a person
    LINK = "link"  # an address inside a longer text
    AMOUNT = "amount"
    SECRET = "secret"  # a password, a key
    NAME = "name"  # any other short value: an id, a file, a product
    CODE = "code"
    TEXT = "text"  # words for people; not traced
    FREE = "free"  # dates, switches, words of a fixed list; not traced


Found = Literal["listed", "endorsed", "agreed", "task", "directory", "read", "repeated", "spoken for", "nowhere"]
"""How a value was found again: on the policy's list, endorsed, in a call of this task that a person agreed to, in the
task, as a whole value of a directory's answer, in something read, in something read that only repeats a value the crew
itself handed out earlier, in a directory's answer while a stranger's text speaks of it, or nowhere."""


@dataclass(frozen=True, slots=True)
class ValueOrigin:
    """The origin of one value of a call."""

    argument: str
    """The argument, for example ``recipients[0]``."""
    kind: ValueKind
    value: str
    """The value as it was given; long ones are cut."""
    found: Found
    trust: float
    needed: float
    item: str = ""
    """The item that names it; empty where none does."""
    path: tuple[str, ...] = ()
    """The path from that item back to the source that sets its trust, both included."""
    against: str = ""
    """The item in which a trusted statement gives another value of the same name."""

    @property
    def enough(self) -> bool:
        """Whether it is trusted as far as the policy asks, and nothing trusted says otherwise."""
        return self.trust >= self.needed and not self.against


@dataclass(frozen=True, slots=True)
class Control:
    """The trust in the request for a call, and the trust needed."""

    trust: float
    needed: float
    why: str
    item: str = ""
    """The task that asks for it, or the least trusted thing in mind."""
    path: tuple[str, ...] = ()
    """The path from there back to the source that sets the trust."""
    asked: bool = False
    """Whether a person's words carry it, while something less trusted is in mind."""

    @property
    def enough(self) -> bool:
        """Whether it is trusted as far as the policy asks."""
        return self.trust >= self.needed


@dataclass(frozen=True, slots=True)
class Authorization(NeitherTrueNorFalse):
    """Whether a call may be made, and the reasons."""

    id: str
    """Its id in the ledger."""
    ruling: Answer
    tool: str
    agent: str
    action: ActionClass
    reasons: tuple[str, ...]
    """Why it is not simply allowed; empty where it is."""
    control: Control
    origins: tuple[ValueOrigin, ...]
    """Every value that was looked for."""
    token: str = ""
    """With ``ask``: the token that a person approves. It lets exactly this call through, once."""
    would: Answer | None = None
    """The answer that would have been given, if the policy only observes."""

    @property
    def allowed(self) -> bool:
        """Whether the call may be made now."""
        return self.ruling == "allow"

    @property
    def notice(self) -> str:
        """The notice for a model about a call that is not made: enough for a person to find it, and nothing of it."""
        token = f"; a person may agree to {self.token}" if self.token else ""
        return f"[withheld by lazaretto: the call was not made ({self.ruling}, {self.id}){token}]"


@dataclass(frozen=True, slots=True)
class Asked:
    """A call that waits for a person."""

    token: str
    agent: str
    tool: str
    action: str
    arguments: str
    """The arguments as JSON; long values are cut."""
    reasons: tuple[str, ...]
    time: float
    principal: str = ""
    """The principal behind the call."""
    task: str = ""
    """The item that the agent's task began with; calls of one task can be answered together."""


# The policy's settings for actions: the table ``[actions]``.

T = TypeVar("T")
Mode = Literal["enforce", "observe"]


@dataclass(frozen=True, slots=True)
class Needs:
    """Requirements of a class of actions. A trust is a number from 0 to 1, as in ``[trust]``; 0 asks for nothing."""

    __pydantic_config__ = CLOSED
    control: Annotated[Share, Field(description="Trust of who wanted the call.")] = 0.0
    destination: Annotated[Share, Field(description="Trust of where it goes: accounts, addresses, people.")] = 0.0
    link: Annotated[Share, Field(description="Trust of addresses inside longer texts.")] = 0.0
    amount: Annotated[Share, Field(description="Trust of amounts.")] = 0.0
    secret: Annotated[Share, Field(description="Trust of passwords and keys.")] = 0.0
    name: Annotated[Share, Field(description="Trust of other short values: ids, files, products.")] = 0.0
    code: Annotated[Share, Field(description="Trust of code and commands.")] = 0.0
    below: Annotated[Answer, Field(description="What happens to a call that lacks it.")] = "ask"
    max_amount: Annotated[float, Field(ge=0, description="Calls with a larger amount are asked about; 0: none.")] = 0.0
    max_per_hour: Annotated[int, Field(ge=0, description="Calls of one agent in an hour; 0: any number.")] = 0
    max_recipients: Annotated[int, Field(ge=0, description="Destinations of one call; 0: any number.")] = 0

    def of(self, kind: ValueKind) -> float:
        """The trust that a value of some kind needs."""
        return 0.0 if kind in (ValueKind.TEXT, ValueKind.FREE) else float(getattr(self, kind.value))


SENSITIVE = Needs(control=0.8, destination=0.8, link=0.8, secret=0.8, name=0.6, code=0.8)
"""Where money, deletion and execution are concerned. A model's own choice of a name passes (0.6), as long as nothing
that it has read is trusted less."""

_SHARING = replace(SENSITIVE, name=0.0)


@dataclass(frozen=True)
class ActionSettings:
    """The classes of tools, and the requirements of each class."""

    __pydantic_config__ = CLOSED
    mode: Annotated[Mode, Field(description="observe: calls are judged and recorded, none is stopped.")] = "enforce"
    tools: Annotated[
        Mapping[str, ActionClass],
        Field(description="Class of a tool, by name or pattern; others are guessed (`lazaretto actions list`)."),
    ] = field(default_factory=dict)
    arguments: Annotated[
        Mapping[str, ValueKind],
        Field(
            description="Kind of an argument, as `argument` or `tool.argument`, patterns allowed; others are guessed."
        ),
    ] = field(default_factory=dict)
    directories: Annotated[
        tuple[str, ...],
        Field(
            description="Tools that list your own people, channels, files, goods: each whole value counts as your own."
        ),
    ] = ()
    verifiers: Annotated[
        tuple[str, ...], Field(description="Tools whose word may endorse a value: a bank's register, a directory.")
    ] = ()
    destinations: Annotated[
        tuple[str, ...],
        Field(description="Destinations you know, patterns allowed: `*@example.com`, `*.example.com`, an account."),
    ] = ()
    window_s: Annotated[
        float, Field(gt=0, description="How long what was read stays in mind, where no task was begun, in seconds.")
    ] = 86_400.0
    read: Needs = Needs()
    fetch: Needs = Needs()
    write: Needs = Needs()
    send: Needs = Needs(control=0.8, destination=0.8, link=0.8, secret=0.8)
    pay: Needs = SENSITIVE
    delete: Needs = SENSITIVE
    execute: Needs = SENSITIVE
    share: Needs = _SHARING

    @classmethod
    def of(cls, table: Mapping[str, Any], file: str = "policy") -> ActionSettings:
        """Read the policy's table; classes keep their defaults if the table has no entry."""
        given = dict(table)
        for action in ActionClass:
            if isinstance(given.get(action.value), Mapping):
                default: Needs = getattr(_DEFAULTS, action.value)
                names = Needs.__dataclass_fields__
                given[action.value] = {name: getattr(default, name) for name in names} | dict(given[action.value])
        return read_settings(cls, given, key="actions", file=file)

    def needs(self, action: ActionClass) -> Needs:
        """The requirements of a class."""
        found: Needs = getattr(self, action.value)
        return found

    def named_class(self, tool: str) -> ActionClass | None:
        """The class that the policy gives a tool: by its name first, then by the longest pattern."""
        return _longest_match(tool, self.tools)

    def named_kind(self, tool: str, argument: str) -> ValueKind | None:
        """The kind that the policy gives an argument; ``tool.argument`` goes before ``argument``."""
        return _longest_match(f"{tool}.{argument}", self.arguments) or _longest_match(argument, self.arguments)

    def is_directory(self, tool: str) -> bool:
        """Whether a tool's results count as the crew's own."""
        return any(fnmatch.fnmatchcase(tool, pattern) for pattern in self.directories)

    @cached_property
    def known_destinations(self) -> tuple[str, ...]:
        """The listed destinations, ready to be compared."""
        return tuple(host.casefold() for host in self.destinations)


def _longest_match(name: str, table: Mapping[str, T]) -> T | None:
    if name in table:
        return table[name]
    found = [pattern for pattern in table if fnmatch.fnmatchcase(name, pattern)]
    return table[max(found, key=len)] if found else None


_DEFAULTS = ActionSettings()
