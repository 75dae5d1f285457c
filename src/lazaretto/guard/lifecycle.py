"""Waiting for the guard's calls without an event loop, and closing it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, Self, TypeVar

from lazaretto.guard.core import Core

T = TypeVar("T")


class Lifecycle:
    """The guard's calls about itself."""

    _core: Core

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """The result of one of the guard's calls, on an event loop of its own; ``SyncGuard`` is built on it.

        Works inside a running event loop too, which then stands still meanwhile.
        """
        return self._core.run(coroutine)

    def close(self) -> None:
        """Close threads and store; calls under way in other threads end with ``GuardClosed``."""
        self._core.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.close)  # it waits for the store's threads

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()
