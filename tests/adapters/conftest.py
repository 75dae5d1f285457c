"""A guard that holds whatever says POISON, by every road, and loads no model."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from lazaretto import Channel, Guard, Observation, Ruling, Verdict
from lazaretto.gates.protocol import GateContext

BAD = "POISON"
POLICY = {"channels": {channel.value: {"stages": [["words"]]} for channel in Channel}}


class Words:
    """Holds whatever says one word."""

    name = "words"
    channels = frozenset(Channel)

    async def examine(self, observation: Observation, context: GateContext) -> Verdict:
        found = BAD in observation.text
        ruling = Ruling.QUARANTINE if found else Ruling.ALLOW
        return Verdict(self.name, observation.id, ruling, float(found), (0.0, 1.0), "word")


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
