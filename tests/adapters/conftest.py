"""A guard that holds whatever says POISON, by every road, and loads no model."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image

from lazaretto import Channel, Guard, Observation, Ruling, Verdict
from lazaretto.gates.protocol import GateContext

BAD = "POISON"
POLICY = {"channels": {channel.value: {"stages": [["words"]]} for channel in Channel}}


class Words:
    """Holds whatever says one word, and every red picture."""

    name = "words"
    channels = frozenset(Channel)

    async def examine(self, observation: Observation, context: GateContext) -> Verdict:
        found = BAD in observation.text
        if observation.image is not None:
            with Image.open(io.BytesIO(context.ledger.blob(observation.image))) as shown:
                found = found or shown.convert("RGB").getpixel((0, 0)) == (255, 0, 0)
        ruling = Ruling.QUARANTINE if found else Ruling.ALLOW
        return Verdict(self.name, observation.id, ruling, float(found), (0.0, 1.0), "word")


def picture(colour: str) -> bytes:
    """A small picture; a red one is held."""
    made = io.BytesIO()
    Image.new("RGB", (8, 8), colour).save(made, "PNG")
    return made.getvalue()


@pytest.fixture
def pictures() -> tuple[bytes, bytes]:
    """One that may be shown, and one that is held."""
    return picture("blue"), picture("red")


@pytest.fixture
def crew(tmp_path: Path) -> Iterator[Guard]:
    with Guard.open(f"sqlite:///{tmp_path / 'crew.db'}", POLICY, gates={"words": Words()}) as guard:
        yield guard


@pytest.fixture(scope="module")
def shared_crew(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guard]:
    """One for all tests of a file that do not look at what others left in it."""
    path = tmp_path_factory.mktemp("crew") / "crew.db"
    with Guard.open(f"sqlite:///{path}", POLICY, gates={"words": Words()}) as guard:
        yield guard


@pytest.fixture(autouse=True)
def _same_environment() -> Iterator[None]:
    """Frameworks set variables of the whole process when they are imported; no test may see those of another."""
    before = dict(os.environ)
    yield
    for name in set(os.environ) - set(before):
        del os.environ[name]
    os.environ.update(before)
