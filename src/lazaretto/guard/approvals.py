"""Approvals: a person's decision on tool calls that wait, and on values that calls may use."""

from __future__ import annotations

from collections.abc import Sequence

from lazaretto.actions.records import Asked
from lazaretto.errors import InputError
from lazaretto.guard.core import Core
from lazaretto.identity import Identity
from lazaretto.names import check_name

MOST_TOGETHER = 16
"""Calls that one word answers: more than that nobody reads."""


class Approvals:
    """``guard.approvals``: tool calls that wait for a person, and values that a person vouches for."""

    def __init__(self, core: Core) -> None:
        """Part of the guard with this core."""
        self._core = core

    async def answer(self, token: str, agree: bool, *, by: str, caller: Identity | None = None) -> Asked:
        """A person's decision on a call that waits: yes lets exactly this call through once, no blocks it for a day.

        Nobody agrees to a call of their own: ``NotYours``. ``caller`` is who proved to be behind a request.
        """
        name, person = check_name(token, "token", printable=True), check_name(by, "by", printable=True)
        if not isinstance(agree, bool):
            raise InputError("agree", f"is {agree!r}", "Give True or False")
        return await self._core.in_store_thread(self._core.actions.answer, name, agree, person, caller)

    async def answer_all(
        self, tokens: Sequence[str], agree: bool, *, by: str, caller: Identity | None = None
    ) -> tuple[Asked, ...]:
        """One answer for several calls of one agent's task: a model often makes several at once, and a person who sees
        all of them need not be interrupted for each.

        Each is answered as by ``answer``. None is answered if one of them does not wait or is the person's own,
        or if they belong to several agents or tasks.
        """
        if isinstance(tokens, str) or not 0 < len(tokens) <= MOST_TOGETHER:
            raise InputError("tokens", f"is no list of 1 to {MOST_TOGETHER} tokens", "Give those of one task")
        names = tuple(dict.fromkeys(check_name(token, "tokens", printable=True) for token in tokens))
        person = check_name(by, "by", printable=True)
        if not isinstance(agree, bool):
            raise InputError("agree", f"is {agree!r}", "Give True or False")
        return await self._core.in_store_thread(self._core.actions.answer_all, names, agree, person, caller)

    async def waiting(self) -> tuple[Asked, ...]:
        """Calls that wait for a person, the newest first."""
        return await self._core.in_store_thread(self._core.actions.waiting)

    async def endorse(self, value: str, *, purpose: str, by: str, caller: Identity | None = None) -> str:
        """Raise the trust of a value for one purpose (a tool or a class of actions); returns the receipt's id.

        ``by`` is a person, or ``tool:NAME`` of a tool that the policy names under ``actions.verifiers``. Nobody
        endorses a value that they brought in: ``NotYours``. ``caller`` is who proved to be behind a request.
        """
        person = check_name(by, "by", printable=True)
        return await self._core.in_store_thread(self._core.actions.endorse, value, purpose, person, caller)
