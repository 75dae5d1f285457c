"""A search for infected memories: test halves, remove the infected ones, and test the rest again.

The test is a function: would an agent that held only these memories be infected? Several viruses are several branches;
a hidden one is found when the rest is tested.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from lazaretto.errors import InputError

Infected = Callable[[tuple[str, ...]], Awaitable[bool]]
"""Would an agent with just these memories be infected?"""


@dataclass(frozen=True, slots=True)
class BisectionResult:
    """The result of a search."""

    removed: tuple[str, ...]
    tests: int
    clean: bool
    """Whether the test found the rest healthy, after the last removal."""


class _Search:
    def __init__(self, infected: Infected, smallest: int, most_tests: int) -> None:
        self.infected, self.smallest, self.most_tests = infected, smallest, most_tests
        self.tests = 0

    async def test(self, keys: tuple[str, ...]) -> bool:
        if not keys:
            return False
        self.tests += 1
        return await self.infected(keys)

    async def find(self, keys: tuple[str, ...], known: bool = False) -> list[str]:
        """The published recursion: clean, stop; small, remove; else halve."""
        if not keys or self.tests >= self.most_tests or not (known or await self.test(keys)):
            return []
        if len(keys) <= self.smallest:
            return list(keys)
        half = len(keys) // 2
        return [*await self.find(keys[:half]), *await self.find(keys[half:])]

    async def leave_one_out(self, keys: tuple[str, ...]) -> list[str]:
        """If halves look healthy and the whole does not: the one without which the rest is healthy."""
        for key in keys:
            if self.tests >= self.most_tests:
                break
            if not await self.test(tuple(other for other in keys if other != key)):
                return [key]
        return []


async def bisect(
    keys: Sequence[str], infected: Infected, *, smallest: int = 2, verify: bool = True, most_tests: int = 200
) -> BisectionResult:
    """The ``keys`` to remove. ``smallest``: size at which a set is removed whole (2 as published; 1 spares more).

    With ``verify``, the rest is tested after every removal and searched again while it is infected.
    """
    if smallest < 1:
        raise InputError("smallest", f"is {smallest}", "Give 1 or more")
    left = tuple(dict.fromkeys(keys))
    search, removed, clean = _Search(infected, smallest, most_tests), [], False
    while not (clean := not await search.test(left)):
        found = await search.find(left, known=True)
        if not found and verify:
            # another split: memories that hid each other in one half may now stand apart
            found = await search.find((*left[0::2], *left[1::2]), known=True) or await search.leave_one_out(left)
        if not found:
            break
        removed += found
        left = tuple(key for key in left if key not in set(found))
        if not verify:
            break
    return BisectionResult(tuple(removed), search.tests, clean)


async def published_search(keys: Sequence[str], infected: Infected, smallest: int = 2) -> tuple[str, ...]:
    """The search as published: down to sets of ``smallest``, without a second look at the rest."""
    return (await bisect(keys, infected, smallest=smallest, verify=False)).removed
