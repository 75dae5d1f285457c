"""Decorators for code without a framework, and what every adapter shares."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

BAD = "POISON"

from lazaretto import Guard, SyncGuard
from lazaretto.adapters.border import Border
from lazaretto.adapters.content import picture_in
from lazaretto.adapters.plain import guard_agent, guard_tool


async def test_a_decorated_tool_returns_notices(crew: Guard) -> None:
    @guard_tool(SyncGuard(crew), agent="scout")
    def search(text: str) -> dict[str, Any]:
        """Find pages."""
        return {"pages": [text, "tea"], "n": 2}

    @guard_tool(crew, agent="scout")
    async def fetch(text: str) -> str:
        return text

    assert search("milk") == {"pages": ["milk", "tea"], "n": 2} and search.__doc__ == "Find pages."
    assert search(BAD)["pages"][0].startswith("[withheld") and (await fetch(BAD)).startswith("[withheld")


async def test_a_decorated_agent_is_held_back(crew: Guard) -> None:
    @guard_agent(crew, agent="ada")
    async def speak(*parts: str) -> AsyncIterator[str]:
        for part in parts:
            yield part

    assert [part async for part in speak("tea ", "is at four")] == ["tea ", "is at four"]
    (only,) = [part async for part in speak(BAD[:3], BAD[3:])]
    assert only.startswith("[withheld by lazaretto"), "split over two parts, and judged as one"


async def test_what_was_judged_is_not_judged_again_until_it_is_held(crew: Guard) -> None:
    border = Border(crew, "ada")
    assert await border.tool("tea is at four") == "tea is at four"
    events = crew.ledger.head().seq
    assert await border.tool("tea is at four") == "tea is at four"
    assert crew.ledger.head().seq == events
    (item,) = crew.ledger.items()
    await crew.label(item.id, "harmful", by="mia")
    assert (await border.tool("tea is at four")).startswith("[withheld by lazaretto: held since")


@pytest.mark.parametrize(
    ("block", "found"),
    [
        ({"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}, b"hi"),
        ({"type": "image", "source": {"type": "base64", "data": "aGk="}}, b"hi"),
        ({"type": "image", "base64": "aGk="}, b"hi"),
        ({"type": "input_image", "image_url": "data:image/png;base64,aGk="}, b"hi"),
        ({"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}, None),
        ({"type": "text", "text": "aGk="}, None),
    ],
)
def test_pictures_in_content_blocks(block: dict[str, Any], found: bytes | None) -> None:
    assert picture_in(block) == found
