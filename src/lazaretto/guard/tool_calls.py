"""Tool calls: the agent's task, whether it may make a call now, and people's decisions on calls that wait."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lazaretto.actions.classes import Tool
from lazaretto.actions.records import Asked, Authorization
from lazaretto.errors import InputError
from lazaretto.guard.core import Core
from lazaretto.identity import Identity, check_person
from lazaretto.ingest.raw_input import RawInput
from lazaretto.names import check_name, check_principal
from lazaretto.types import Channel, Decision, Draft, Observation, SourceClass


class ToolCalls:
    """The guard's calls about tools."""

    _core: Core

    async def begin_task(
        self,
        text: str,
        *,
        agent: str,
        tools: Sequence[str] = (),
        source: SourceClass | str = SourceClass.DIRECT_USER,
        principal: str | None = None,
    ) -> Decision:
        """Give an agent a task: from here on only this, and the items it reads from now on, are in its mind.

        The words of a task allow the calls they ask for (``authorize``). ``tools``, names or patterns, lists the tools
        the task may need; then the task allows no other call. A task that the gates hold is not begun.
        """
        if isinstance(tools, str) or not all(isinstance(tool, str) for tool in tools):
            raise InputError("tools", "is no list of names", "Give names or patterns, for example ['search_*']")
        if source not in (SourceClass.DIRECT_USER, SourceClass.SYSTEM):
            raise InputError("source", f"{source} begins no task", "Use direct_user or system; pass on others' wishes")

        def begun(observation: Observation, decision: Decision) -> list[Draft]:
            if not decision.allowed:
                return []
            return self._core.actions.task_drafts(observation.id, observation.agent, tuple(tools))

        raw = RawInput(agent, Channel.MESSAGE, text, source=source, principal=principal)
        return await self._core.judge_and_record(raw, begun)

    async def authorize(
        self,
        tool: str,
        arguments: Mapping[str, Any],
        *,
        agent: str,
        description: str = "",
        schema: Mapping[str, Any] | None = None,
        task: str | None = None,
        principal: str | None = None,
    ) -> Authorization:
        """May this agent call this tool now? allow, ask (a person, see ``approvals.answer``) or block, and why.

        Two questions decide: who wanted it, and where each value comes from (docs/actions.md). ``description`` and
        ``schema`` (JSON schema of the arguments) help to guess the class of a tool that the policy does not name.
        ``task`` is the id of an earlier task than the agent's last. No model is asked; the answer is recorded first.
        """
        self._core.require_open()
        name, who = check_name(tool, "tool", printable=True), check_name(agent, "agent", printable=True)
        known = Tool.of(name, description, schema)
        proven = f"process:{who}" if principal is None else check_principal(principal)
        return await self._core.in_store_thread(self._core.actions.authorize, known, arguments, who, task, proven)


# Approvals: a person's decision on tool calls that wait, and on values that calls may use.

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
        name, person = check_name(token, "token", printable=True), check_person(by)
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
        person = check_person(by)
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
        person = check_person(by)
        return await self._core.in_store_thread(self._core.actions.endorse, value, purpose, person, caller)
