"""Any Python code: decorators for tools and agents, where no framework has a hook."""

from __future__ import annotations

import functools
import inspect
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast

from lazaretto.adapters.border import NOTICE, Border, schema_of
from lazaretto.ingest.opening import still

if TYPE_CHECKING:
    from lazaretto.guard import Guard
    from lazaretto.guard.sync_guard import SyncGuard

P = ParamSpec("P")
R = TypeVar("R")


Clean = Callable[[Any], Awaitable[Any]]
_MOST = 100_000
"""Parts of a generator that are read before any of them leaves."""
_RAW = (bytes, bytearray, memoryview)


def guard_tool(guard: Guard | SyncGuard, *, agent: str = "agent") -> Callable[[Callable[P, R]], Callable[P, R]]:
    """A function whose result is judged as a tool's result: held parts are replaced by a notice.

    Objects are read by their attributes, errors by their messages; a generator is read to its end and judged as a
    whole. Unreadable parts are withheld. Where the policy has a table ``[actions]``, the call itself is asked about
    first (``authorize``); one that may not be made returns a notice instead.
    """
    border = Border(guard, agent)

    def wrap(function: Callable[P, R]) -> Callable[P, R]:
        name, schema = getattr(function, "__name__", "tool"), schema_of(function)

        async def clean(result: Any) -> Any:
            return await border.answered(still(result), name)

        async def may_call(*arguments: Any, **named: Any) -> str | None:
            given = inspect.signature(function).bind_partial(*arguments, **named).arguments
            return await border.may_call(name, dict(given), description=inspect.getdoc(function), schema=schema)

        return _wrapped(function, border, clean, may_call)

    return wrap


def guard_agent(guard: Guard | SyncGuard, *, agent: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """A function that answers for an agent: its result is judged before it is acted on.

    A generator is held back: its parts leave when the whole was judged, or the notice alone.
    """
    border = Border(guard, agent)

    async def clean(result: Any) -> Any:
        return await border.cleaned(still(result), border.said)

    return lambda function: _wrapped(function, border, clean)


async def _always(*_: Any, **__: Any) -> None:
    return None


def _wrapped(
    function: Callable[P, R], border: Border, clean: Clean, may_call: Callable[..., Awaitable[str | None]] = _always
) -> Callable[P, R]:
    if inspect.isasyncgenfunction(function):

        @functools.wraps(function)
        async def held_back(*arguments: P.args, **named: P.kwargs) -> AsyncIterator[Any]:
            if refused := await may_call(*arguments, **named):
                yield refused
                return
            async for part in _held_back(function(*arguments, **named), clean):
                yield part

        return cast(Callable[P, R], held_back)
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def awaited(*arguments: P.args, **named: P.kwargs) -> Any:
            if refused := await may_call(*arguments, **named):
                return refused
            return await _later(function(*arguments, **named), clean)

        return cast(Callable[P, R], awaited)

    @functools.wraps(function)
    def waited(*arguments: P.args, **named: P.kwargs) -> R:
        if may_call is not _always and (refused := border.wait(may_call, *arguments, **named)):
            return cast(R, iter([refused]) if inspect.isgeneratorfunction(function) else refused)
        try:
            result = function(*arguments, **named)
            if isinstance(result, Iterator):
                parts = list(itertools.islice(result, _MOST + 1))
                return cast(R, iter(border.wait(_judged, parts, clean)))
        except Exception as error:
            raise border.wait(_readable_error, error, clean) from None
        if inspect.isawaitable(result):
            return cast(R, _later(result, clean))
        if inspect.isasyncgen(result):
            return cast(R, _held_back(result, clean))
        return cast(R, border.wait(clean, result))

    return waited


async def _later(result: Awaitable[Any], clean: Clean) -> Any:
    try:
        found = await result
        if isinstance(found, Iterator):
            return iter(await _judged(list(itertools.islice(found, _MOST + 1)), clean))
    except Exception as error:
        raise await _readable_error(error, clean) from None
    return _held_back(found, clean) if inspect.isasyncgen(found) else await clean(found)


async def _held_back(stream: AsyncIterator[Any], clean: Clean) -> AsyncIterator[Any]:
    parts: list[Any] = []
    try:
        async for part in stream:
            parts.append(part)
            if len(parts) > _MOST:
                break
    except Exception as error:
        raise await _readable_error(error, clean) from None
    for part in await _judged(parts, clean):
        yield part


async def _judged(parts: list[Any], clean: Clean) -> list[Any]:
    """The readable parts of a generator; its texts are judged as one text, and its bytes as one file, since it may be
    cut anywhere."""
    if len(parts) > _MOST:
        return [f"{NOTICE}: it has no end, and could not be judged]"]
    parts = still(parts)
    raw = [bytes(part) for part in parts if isinstance(part, _RAW)]
    wholes: list[Any] = ["".join(part for part in parts if isinstance(part, str))]
    wholes.append(b"".join(raw))
    wholes = [whole for whole in wholes if whole]
    others = [part for part in parts if not isinstance(part, (str, *_RAW))]
    if len(wholes) == 1 and not others:
        done = await clean(wholes[0])
        return parts if done == wholes[0] else [done]
    together = await clean([*wholes, *others])
    if not isinstance(together, list):
        return [together]
    for whole, done in zip(wholes, together, strict=False):
        if done != whole:
            return [done]
    judged = iter(together[len(wholes) :])
    return [part if isinstance(part, (str, *_RAW)) else next(judged) for part in parts]


async def _readable_error(error: Exception, clean: Clean) -> Exception:
    """The error itself, or an error with the notice alone where the message is held."""
    judged = await clean(error)
    return error if judged is error else RuntimeError(str(judged))
