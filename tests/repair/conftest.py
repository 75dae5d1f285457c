"""A guard on an empty store."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lazaretto import Guard


@pytest.fixture
def open_guard(tmp_path: Path) -> Iterator[Callable[..., Guard]]:
    """Opens guards on one store and closes them all."""
    opened: list[Guard] = []

    def make(policy: Any = None, namespace: str = "default", **more: Any) -> Guard:
        guard = Guard.open(f"sqlite:///{tmp_path / 'crew.db'}", policy, namespace, **more)
        opened.append(guard)
        return guard

    yield make
    for guard in opened:
        guard.close()


@pytest.fixture
def guard(open_guard: Callable[..., Guard]) -> Guard:
    """A guard with the default policy."""
    return open_guard()
