"""Definitions of tools in a request. A tool with a poisoned description is not offered, as at the MCP gateway.

A crew may have taken it from a foreign server, and the model reads it before any word of the conversation.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

import orjson

from lazaretto.errors import InputError
from lazaretto.guard import Guard
from lazaretto.kept_texts import KeptTexts, digest
from lazaretto.mcp.descriptions import description_fault

log = logging.getLogger("lazaretto")
_KEPT: KeptTexts[str] = KeptTexts(1 << 20, lambda fault: 200 + len(fault))
_UNREAD = frozenset({"headers", "authorization"})
"""Fields for the endpoint alone: keys to a server."""


async def faults_of(guard: Guard, tools: Any) -> dict[int, str]:
    """By place, the faults of definitions that may not be offered. A policy that only observes offers all of them."""
    listed = [
        (place, tool) for place, tool in enumerate(tools if isinstance(tools, list) else ()) if isinstance(tool, dict)
    ]
    faults = await asyncio.to_thread(lambda: {place: fault for place, tool in listed if (fault := _fault(tool))})
    for place, fault in faults.items():
        log.warning("the tool %s of a request is not offered: %s", place, fault)
    return {} if guard.policy.mode == "observe" else faults


async def leave_out(guard: Guard, body: dict[str, Any]) -> int:
    """Take the tools that may not be offered out of a request; how many there were. ``InputError`` if the request says
    that one of them must be called."""
    count = 0
    for key, chosen in (("tools", "tool_choice"), ("functions", "function_call")):
        faults = await faults_of(guard, body.get(key))
        if not faults:
            continue
        gone = [_name(body[key][place]) for place in faults]
        if _name(body.get(chosen)) in gone or not _still_chosen(body.get(chosen), gone):
            raise InputError(chosen, f"names a tool that is not offered: {next(iter(faults.values()))}", "Take it out")
        body[key] = [tool for place, tool in enumerate(body[key]) if place not in faults]
        count += len(faults)
        if not body[key]:
            for field in (key, chosen, "parallel_tool_calls"):
                body.pop(field, None)
    return count


def _name(tool: Any) -> Any:
    """The name in a definition of a tool, or in the choice of one."""
    inner = tool.get("function", tool.get("custom", tool)) if isinstance(tool, dict) else None
    return inner.get("name") or object() if isinstance(inner, dict) else None


def _still_chosen(choice: Any, gone: Sequence[Any]) -> bool:
    """Take tools out of a choice of several; whether any are left in it."""
    inner = choice.get("allowed_tools", choice) if isinstance(choice, dict) else None
    listed = inner.get("tools") if isinstance(inner, dict) else None
    if not isinstance(inner, dict) or not isinstance(listed, list):
        return True
    inner["tools"] = [tool for tool in listed if _name(tool) not in gone]
    return bool(inner["tools"])


def _fault(tool: dict[str, Any]) -> str:
    described = {key: value for key, value in tool.items() if key not in _UNREAD}
    try:
        key = digest("tool", orjson.dumps(described, option=orjson.OPT_SORT_KEYS).decode())
    except TypeError:  # a number past 64 bits, half a character, or parts too deep in each other
        return description_fault(described, quoted=False)
    known = _KEPT.get(key)
    if known is None:
        known = description_fault(described, quoted=False)
        _KEPT.put(key, known)
    return known
