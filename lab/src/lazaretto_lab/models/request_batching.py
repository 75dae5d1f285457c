"""Several conversations in step: what they ask at the same time goes to the model as one batch.

A search that asks the model one small question after another leaves it idle; many such searches side by side need not.
Each part of a chorus runs until it asks; when all that still run have asked, one batch answers them. Who runs with whom
decides the batches, so the same chorus asks the same batches every time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from lazaretto.models.protocol import ChatModel, Completion, Request

T = TypeVar("T")


class RequestBatcher:
    """A ``ChatModel`` for the parts of ``run_together``; elsewhere it is the model it wraps."""

    def __init__(self, chat: ChatModel) -> None:
        self.chat = chat
        self.name = chat.name
        self._singing = 0
        self._asked: list[tuple[Sequence[Request], asyncio.Future[list[Completion]]]] = []

    async def complete(self, requests: Sequence[Request]) -> list[Completion]:
        """Answers of the batch that these requests became part of."""
        if not self._singing:
            return await self.chat.complete(requests)
        future: asyncio.Future[list[Completion]] = asyncio.get_running_loop().create_future()
        self._asked.append((requests, future))
        await self._answer()
        return await future

    async def run_together(self, parts: Sequence[Callable[[], Awaitable[T]]]) -> list[T]:
        """Run all parts in step, and what each came to, in order. What a part raises is raised when all have ended."""

        async def one(part: Callable[[], Awaitable[T]]) -> T:
            try:
                return await part()
            finally:
                self._singing -= 1
                await self._answer()

        self._singing += len(parts)
        ended = await asyncio.gather(*(one(part) for part in parts), return_exceptions=True)
        for result in ended:
            if isinstance(result, BaseException):
                raise result
        return [result for result in ended if not isinstance(result, BaseException)]

    async def _answer(self) -> None:
        """One batch, once everybody who still sings has asked."""
        if not self._asked or len(self._asked) < self._singing:
            return
        asked, self._asked = self._asked, []
        try:
            answers = await self.chat.complete([request for requests, _ in asked for request in requests])
        except Exception as error:
            for _, future in asked:
                future.set_exception(error)
            return
        start = 0
        for requests, future in asked:
            future.set_result(list(answers[start : start + len(requests)]))
            start += len(requests)
