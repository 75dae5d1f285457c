"""A run's place on disk: what happened so far, and the agents as they are. Killed at any moment, it can go on.

``rounds.jsonl`` holds every finished round; ``state.json`` is replaced in one move when a round is done and says how
many of those lines count. A line written by a round that was never finished is cut off when the run goes on.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import orjson

from lazaretto.agents.album import Album, AlbumItem
from lazaretto.agents.prompts import ChatRecord
from lazaretto.agents.turn import AgentState, History
from lazaretto.errors import InputError
from lazaretto.files import write_file
from lazaretto_lab.worlds.album_chat.trace import RoundTrace


@dataclass(frozen=True, slots=True)
class CheckpointState:
    """What a checkpoint gives back."""

    rounds: tuple[RoundTrace, ...]
    agents: tuple[AgentState, ...]
    defence: Mapping[str, Any]
    made: tuple[AlbumItem, ...]
    """Contents that a defence brought in."""


class Checkpoint:
    """The folder of one run."""

    def __init__(self, folder: Path | str, fingerprint: str) -> None:
        self.folder = Path(folder)
        self.fingerprint = fingerprint
        self.folder.mkdir(parents=True, exist_ok=True)
        self._rounds = self.folder / "rounds.jsonl"
        self._state = self.folder / "state.json"
        self._contents = self.folder / "contents"

    def load(self, start: Sequence[AgentState], album_items: Mapping[str, AlbumItem]) -> CheckpointState | None:
        """The run so far, or None when it has not begun. ``start`` are the agents before round 0."""
        if not self._state.exists():
            self._rounds.unlink(missing_ok=True)
            return None
        state = orjson.loads(self._state.read_bytes())
        if state["fingerprint"] != self.fingerprint:
            raise InputError(
                "checkpoint",
                f"{self.folder} holds another run (scenario, models, viruses or defence differ)",
                "Use another folder, or remove it",
            )
        lines = self._rounds.read_bytes().split(b"\n")[: state["rounds"]] if state["rounds"] else []
        write_file(self._rounds, b"".join(line + b"\n" for line in lines), durable=True)
        made = tuple(self._read_content(content) for content in state["contents"])
        known = {**album_items, **{album_item.key: album_item for album_item in made}}
        agents = tuple(_agent(agent, kept, known) for agent, kept in zip(start, state["agents"], strict=True))
        rounds = tuple(RoundTrace.from_json(orjson.loads(line)) for line in lines)
        return CheckpointState(rounds, agents, state["defence"], made)

    def save(
        self, trace: RoundTrace, agents: Sequence[AgentState], made: Sequence[AlbumItem], defence: Mapping[str, Any]
    ) -> None:
        """A round is done. ``made`` are contents that came from a defence and not from the pool."""
        with self._rounds.open("ab") as handle:
            handle.write(orjson.dumps(trace.to_json()) + b"\n")
            handle.flush()
            os.fsync(handle.fileno())
        state = {
            "fingerprint": self.fingerprint,
            "rounds": trace.round_index + 1,
            "agents": [_agent_data(agent) for agent in agents],
            "contents": [self._write_content(album_item) for album_item in made],
            "defence": dict(defence),
        }
        write_file(self._state, orjson.dumps(state), durable=True)

    def _write_content(self, album_item: AlbumItem) -> dict[str, str]:
        self._contents.mkdir(exist_ok=True)
        place = self._contents / album_item.key
        if not place.exists():
            write_file(place, album_item.note if album_item.is_note else album_item.picture, durable=True)
        return {"key": album_item.key, "title": album_item.title, "kind": "note" if album_item.is_note else "picture"}

    def _read_content(self, made: Mapping[str, str]) -> AlbumItem:
        data = (self._contents / made["key"]).read_bytes()
        if made["kind"] == "note":
            return AlbumItem(made["key"], made["title"], note=data.decode())
        return AlbumItem(made["key"], made["title"], picture=data)


def _agent_data(agent: AgentState) -> dict[str, Any]:
    return {
        "album": [k.key for k in agent.album],
        "history": [[record.question, record.answer] for record in agent.history],
    }


def _agent(agent: AgentState, kept: Mapping[str, Any], album_items: Mapping[str, AlbumItem]) -> AgentState:
    album = Album(agent.album.size, tuple(album_items[key] for key in kept["album"]))
    history = History(agent.history.size, tuple(ChatRecord(q, a) for q, a in kept["history"]))
    return replace(agent, album=album, history=history)
