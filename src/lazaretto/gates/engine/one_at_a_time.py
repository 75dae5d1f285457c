"""A lock for tasks of any event loop and thread: waiting for it holds up no thread that others need."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor


class OneAtATime:
    """``async with`` lets one task in at a time. A task that is cancelled while it waits leaves nothing locked."""

    def __init__(self, name: str) -> None:
        """``name`` is the thread's: the waiters wait in one thread of their own, however many they are."""
        self._lock = threading.Lock()
        self._waiters = ThreadPoolExecutor(max_workers=1, thread_name_prefix=f"lazaretto-{name}")

    async def __aenter__(self) -> None:
        if self._lock.acquire(blocking=False):
            return
        waiting = self._waiters.submit(self._lock.acquire)
        try:
            await asyncio.wrap_future(waiting)
        except asyncio.CancelledError:
            if not waiting.cancel():  # it will get the lock all the same
                waiting.add_done_callback(lambda _: self._lock.release())
            raise

    async def __aexit__(self, *_: object) -> None:
        self._lock.release()
