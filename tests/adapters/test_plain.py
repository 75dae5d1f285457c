"""Decorators for code without a framework, and what every adapter shares."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pydantic
import pytest

BAD = "POISON"

from lazaretto import Channel, Guard, Observation, Ruling, SyncGuard, Verdict
from lazaretto.adapters.border import WITHHELD, Border, cleaned_content
from lazaretto.adapters.plain import guard_agent, guard_tool
from lazaretto.gates.protocol import GateContext
from lazaretto.ingest.strings import read_strings
from lazaretto.types import Ref


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
    "block",
    [
        lambda data: {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}},
        lambda data: {"type": "image", "source": {"type": "base64", "data": data}},
        lambda data: {"type": "image", "base64": data},
        lambda data: {"type": "input_image", "image_url": f"data:image/png;base64,{data}"},
    ],
)
async def test_pictures_in_content_blocks(crew: Guard, pictures: tuple[bytes, bytes], block: Any) -> None:
    import base64

    border, (fine, held) = Border(crew, "ada"), (block(base64.b64encode(one).decode()) for one in pictures)
    content = [{"type": "text", "text": "look"}, fine]
    assert await cleaned_content(border, content, border.user) is content
    done = await cleaned_content(border, [*content, held], border.user)
    assert done[:2] == content and done[2]["type"] == "text" and "withheld" in done[2]["text"]


@dataclasses.dataclass
class Page:
    text: str


class Model(pydantic.BaseModel):
    text: str


class Document:
    """As retrievers hand them on."""

    def __init__(self, page_content: str, **metadata: Any) -> None:
        self.page_content, self.metadata = page_content, metadata


SAYS: dict[str, Callable[[str], Any]] = {
    "dataclass": Page,
    "model": lambda text: [Model(text=text)],
    "document": Document,
    "bytes": str.encode,
    "metadata": lambda text: Document("tea", title=text),
    "tuple": lambda text: ("tea", (text,)),
    "set": lambda text: {text},
    "key": lambda text: {text: 1},
    "letters": list,
    "generator": lambda text: (one for one in ("tea ", text[:3], text[3:])),
    "generator of objects": lambda text: (one for one in (Page("tea"), Page(text))),
    "iterator": lambda text: iter([text]),
    "objects with bytes": lambda text: {"raw": [Page(text.encode())]},
}


def shown(value: Any) -> str:
    if isinstance(value, Iterator):
        value = list(value)
    return read_strings(value).text.replace("\n", "")


@pytest.mark.parametrize("kind", SAYS)
async def test_every_kind_of_result_is_read(crew: Guard, kind: str) -> None:
    @guard_tool(crew, agent="scout")
    def search(text: str) -> Any:
        return SAYS[kind](text)

    @guard_tool(crew, agent="scout")
    async def fetch(text: str) -> Any:
        return SAYS[kind](text)

    def wrapped(text: str) -> Any:
        return fetch(text)

    for found in (search(BAD), await fetch(BAD), await guard_tool(crew)(wrapped)(BAD)):
        said = shown(found)
        assert BAD not in said and "withheld" in said, kind
    fine = search("milk")
    assert type(fine) is type(SAYS[kind]("milk")) or isinstance(fine, Iterator)
    assert shown(fine) == shown(SAYS[kind]("milk"))


async def test_errors_are_read_too(crew: Guard) -> None:
    @guard_tool(crew, agent="scout")
    def search(text: str) -> str:
        raise ValueError(f"no such page: {text}")

    @guard_tool(crew, agent="scout")
    async def fetch(text: str) -> AsyncIterator[str]:
        yield "tea"
        raise KeyError(text)

    with pytest.raises(ValueError, match="no such page: tea"):
        search("tea")
    with pytest.raises(RuntimeError, match="withheld") as caught:
        search(BAD)
    assert BAD not in str(caught.value) and caught.value.__cause__ is None
    with pytest.raises(RuntimeError, match="withheld"):
        [part async for part in fetch(BAD)]


def test_what_cannot_be_read_is_withheld(crew: Guard) -> None:
    @guard_tool(crew, agent="scout")
    def search() -> Any:
        return {"raw": b"\x00\xff\x81", "later": lambda: BAD, "n": 1}

    done = search()
    assert "could not be judged" in done["raw"] and "could not be judged" in done["later"] and done["n"] == 1


async def test_a_gate_that_failed_is_asked_again(crew: Guard, monkeypatch: pytest.MonkeyPatch) -> None:
    border, check = Border(crew, "ada"), crew.check

    async def fails(*arguments: Any, **named: Any) -> Any:
        return dataclasses.replace(await check(*arguments, **named), rule="fail:words:failed", ruling=Ruling.REVIEW)

    monkeypatch.setattr(crew, "check", fails)
    assert (await border.tool("tea is at four")).startswith("[withheld")
    monkeypatch.setattr(crew, "check", check)
    assert await border.tool("tea is at four") == "tea is at four"


class Mender:
    """Has SECRET taken out, and holds whatever says POISON."""

    name = "mender"
    channels = frozenset(Channel)

    async def examine(self, observation: Observation, context: GateContext) -> Verdict:
        told, instead = Ruling.ALLOW, None
        if BAD in observation.text:
            told = Ruling.REVIEW
        if "SECRET" in observation.text:
            told, instead = Ruling.REWRITE, observation.text.replace("SECRET", "[removed]")
        return Verdict(self.name, observation.id, told, 0.5, (0.0, 1.0), "word", replacement=instead)


async def test_what_has_to_go_is_taken_out_and_the_rest_is_handed_on_and_stored(tmp_path: Path) -> None:
    policy = {"channels": {channel.value: {"stages": [["mender"]]} for channel in Channel}}
    with Guard.open(f"sqlite:///{tmp_path / 'crew.db'}", policy, gates={"mender": Mender()}) as guard:
        border = Border(guard, "ada")
        for _ in range(2):  # judged, then known
            assert await border.tool("the code is SECRET, tea at four") == "the code is [removed], tea at four"
            said = await border.message("the code is SECRET", sender="ada", receiver="bob")
            assert said == "the code is [removed]"
        hidden = await border.tool(f"SECRET and {BAD}")
        assert hidden.startswith("[withheld") and "SECRET" not in hidden, "without the secret it is still held"
        value = {"text": "the code is SECRET", "tags": ["tea"]}
        kept = await border.kept(("notes", "", "one"), value)
        assert kept == {"text": "the code is [removed]", "tags": ["tea"]} and value["text"].endswith("SECRET")
        (shown,) = [one.text for one in await guard.recall(agent="bob", items=[Ref("notes", "", "one")])]
        assert "[removed]" in shown and "SECRET" not in shown
        assert await border.kept(("notes", "", "two"), {"text": f"SECRET {BAD}"}) is WITHHELD
        assert not await border.keep(("notes", "", "three"), {"text": "SECRET"}), "as it is, it may not be written"
        item = next(one for one in guard.ledger.items() if one.text == "the code is [removed], tea at four")
        await guard.label(item.id, "harmful", by="mia")
        assert (await border.tool("the code is SECRET, tea at four")).startswith("[withheld by lazaretto: held since")
