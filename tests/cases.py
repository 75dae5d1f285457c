"""Tables of cases: strangers who try something, and honest flows that look alike."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

Case = Callable[[Path], Awaitable[bool]]


class Cases:
    """Cases by name; each answers whether it came out as it should."""

    def __init__(self) -> None:
        self.attacks: dict[str, Case] = {}
        self.honest_ones: dict[str, Case] = {}

    def attack(self, case: Case) -> Case:
        """The case answers whether the stranger stayed outside."""
        self.attacks[case.__name__] = case
        return case

    def honest(self, case: Case) -> Case:
        """The case answers whether the work went on as it should."""
        self.honest_ones[case.__name__] = case
        return case

    def table(self, known_to_fail: frozenset[str]) -> list[Any]:
        """Parameters for a test; what is known to fail has to fail."""
        every = {**self.attacks, **self.honest_ones}
        assert known_to_fail <= every.keys()
        mark = pytest.mark.xfail(strict=True, raises=AssertionError, reason="known to be open")
        return [
            pytest.param(case, id=name, marks=[mark] if name in known_to_fail else []) for name, case in every.items()
        ]
