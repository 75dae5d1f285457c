"""A crew with a day behind it, shared by the tests of the console: telling it again for each would take too long."""

from __future__ import annotations

import asyncio
import importlib.util
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest

from lazaretto import Guard

REPOSITORY = Path(__file__).resolve().parents[2]


def load_story() -> ModuleType:
    """``examples/harbour_outbreak.py`` as a module."""
    name = "harbour_outbreak"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, REPOSITORY / "examples" / f"{name}.py")
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    return sys.modules[name]


@dataclass(frozen=True)
class Crew:
    """A guard, and the items of its story by name."""

    guard: Guard
    named: dict[str, str]


@pytest.fixture(scope="module")
def make_crew(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], Crew]]:
    """Makes crews, each on a store of its own."""
    story, opened = load_story(), []

    def make() -> Crew:
        folder = tmp_path_factory.mktemp("harbour")
        guard = story.open_guard(f"sqlite:///{folder / 'crew.db'}")
        opened.append(guard)
        return Crew(guard, asyncio.run(story.tell(guard, notes=24)))

    yield make
    for guard in opened:
        guard.close()


@pytest.fixture(scope="module")
def crew(make_crew: Callable[[], Crew]) -> Crew:
    """One crew for all tests of a file."""
    return make_crew()
