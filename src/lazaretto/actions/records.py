"""Records of the last gate's answers; all are frozen."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

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
