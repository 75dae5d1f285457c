"""Any Python code: decorators for tools and agents, where no framework has a hook."""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast

from lazaretto.adapters.border import Border

if TYPE_CHECKING:
    from lazaretto.guard import Guard
    from lazaretto.sync_guard import SyncGuard

P = ParamSpec("P")
R = TypeVar("R")


def guard_tool(guard: Guard | SyncGuard, *, agent: str = "agent") -> Callable[[Callable[P, R]], Callable[P, R]]:
    """A function whose result is judged as a tool's: every text in it that is held gives way to a notice."""
    border = Border(guard, agent)

    async def clean(result: Any) -> Any:
        return await border.cleaned(result, border.tool)

    return lambda function: _wrapped(function, border, clean)


def guard_agent(guard: Guard | SyncGuard, *, agent: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """A function that speaks for an agent: what it returns is judged before anybody acts on it.

    An async generator is held back: its parts leave when the whole was judged, or the notice alone.
    """
    border = Border(guard, agent)

    async def clean(result: Any) -> Any:
        return await border.cleaned(result, border.said)

    return lambda function: _wrapped(function, border, clean)


def _wrapped(function: Callable[P, R], border: Border, clean: Callable[[Any], Any]) -> Callable[P, R]:
    if inspect.isasyncgenfunction(function):

        @functools.wraps(function)
        async def held_back(*arguments: P.args, **named: P.kwargs) -> AsyncIterator[Any]:
            parts = [part async for part in function(*arguments, **named)]
            whole = "".join(part for part in parts if isinstance(part, str))
            said = await clean(whole)
            for part in parts if said == whole else [said]:
                yield part

        return cast(Callable[P, R], held_back)
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def awaited(*arguments: P.args, **named: P.kwargs) -> Any:
            return await clean(await function(*arguments, **named))

        return cast(Callable[P, R], awaited)

    @functools.wraps(function)
    def waited(*arguments: P.args, **named: P.kwargs) -> R:
        return cast(R, border.wait(clean, function(*arguments, **named)))

    return waited
