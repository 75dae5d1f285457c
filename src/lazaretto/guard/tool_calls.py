"""Before a tool is called: the agent's task, and whether it may make this call now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lazaretto.actions.classes import Tool
from lazaretto.actions.records import Authorization
from lazaretto.errors import InputError
from lazaretto.guard.core import Core
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
