"""Judges that say what a test tells them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from lazaretto.gates.content.chat_roles import Retriever, RoleModel, chat_panel
from lazaretto.gates.content.records import Panel, Role
from lazaretto.models.protocol import Request
from lazaretto.models.scripted import ScriptedChatModel

DUTIES = {
    "You are the Supporter": Role.SUPPORTER,
    "You are the Strict": Role.STRICT,
    "You are the Loose": Role.LOOSE,
    "You are the Arbiter": Role.ARBITER,
    "You are the Curator": Role.CURATOR,
    "Describe the picture": Role.PREPROCESSOR,
}


def role_of(request: Request) -> tuple[Role, int]:
    """Which role a prompt is for, and in which round: read off its last instruction."""
    text = next(m.text for m in request.messages if m.role == "user")
    place, role = max((text.rfind(mark), role) for mark, role in DUTIES.items())
    assert place >= 0
    tail = text[place:]
    number = int(tail.split("This is round ")[1].split(" ")[0]) if "This is round " in tail else 0
    return role, number


def say(**fields: Any) -> str:
    """An answer as the schema wants it."""
    return json.dumps(fields)


def debater(argument: str, score: float, **more: Any) -> str:
    """A debater's answer."""
    return say(argument=argument, risk_score=score, **{"quotes": [], "hazards": [], "concede": False, **more})


def arbiter(rule: str, label: str, score: float, reasoning: str = "The evidence was weighed.", **more: Any) -> str:
    """The Arbiter's answer."""
    return say(rule=rule, label=label, score=score, reasoning=reasoning, **more)


SUPPORTER = say(summary="A question.", cues=[], differences=[], patterns=[], precedents=[])

Lines = Mapping[tuple[Role, int], str]


@pytest.fixture
def scripted_panel() -> Callable[..., Panel]:
    """A panel whose roles speak given lines, by (role, round)."""

    def build(lines: Lines, library: Retriever | None = None, **options: Any) -> Panel:
        said = {(Role.SUPPORTER, 0): SUPPORTER, **lines}
        model = ScriptedChatModel(lambda request: said[role_of(request)])
        roles = {role for role, _ in said}
        return chat_panel({role: RoleModel(role, model) for role in roles}, library, **options)

    return build


@pytest.fixture
def speech() -> SimpleNamespace:
    """Answers as the schemas want them, and who a prompt is for."""
    return SimpleNamespace(debater=debater, arbiter=arbiter, supporter=SUPPORTER, role_of=role_of, say=say)
