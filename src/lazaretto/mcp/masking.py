"""Held items in the form that a model may read: which item, why and how long, but none of its words.

Otherwise the guard itself would hand out the poison. People read the words in the console and on the command line.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from lazaretto.incidents.records import HeldItem, Incident, IncidentItem

SHOWN = 60
"""Characters of a text that are shown, masked."""
_LONGEST_NAME = 64
_LETTERS = re.compile(r"(?<=\w)[^\W\d_]")
_DIGITS = re.compile(r"\d")


def masked(text: str, length: int | None = None) -> str:
    """The first letters of the first words, and how long the text is: enough to recognise it, nothing to obey."""
    if not text:
        return ""
    start = _DIGITS.sub("#", _LETTERS.sub("•", " ".join(text[:SHOWN].split())))
    return f"{start} ({len(text) if length is None else length} characters, masked)"


def _name(agent: str) -> str:
    """An agent's name; one that reads like a sentence is masked too, because agents choose theirs."""
    return agent if len(agent) <= _LONGEST_NAME and agent.count(" ") <= 2 else masked(agent)


def masked_held(held: HeldItem, length: int) -> dict[str, Any]:
    """A held item that waits for a person."""
    return {
        "id": held.id,
        "agent": _name(held.agent),
        "channel": held.channel,
        "since": held.since,
        "ruling": held.ruling,
        "reason": held.rule,
        "risk": held.risk,
        "appealed": held.appealed,
        "length": length,
        "excerpt": masked(held.text, length),
    }


def masked_incident(incident: Incident) -> Incident:
    """An incident without the words of its items, of the decisions that rested on them and of disputes."""
    return replace(
        incident,
        title=masked(incident.title),
        brought_by=_name(incident.brought_by),
        items=tuple(map(_item, incident.items)),
        reached=tuple(map(_item, incident.reached)),
        agents=tuple(replace(row, agent=_name(row.agent)) for row in incident.agents),
        decisions=tuple(
            replace(decision, agent=_name(decision.agent), what=masked(decision.what))
            for decision in incident.decisions
        ),
        repairs=tuple(replace(repair, reason=masked(repair.reason)) for repair in incident.repairs),
        timeline=tuple(
            replace(entry, agent=_name(entry.agent), says=entry.says.partition(": ")[0]) for entry in incident.timeline
        ),
    )


def _item(item: IncidentItem) -> IncidentItem:
    return replace(item, agent=_name(item.agent), text=masked(item.text))
