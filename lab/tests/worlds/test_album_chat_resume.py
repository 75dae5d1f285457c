"""A run that is killed goes on where it was and ends as if nothing had happened."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lazaretto.agents.album import AlbumItem, picture_item
from lazaretto.agents.model import AgentModel
from lazaretto.agents.prompts import PLAN_TASK
from lazaretto.agents.turn import Turn
from lazaretto.errors import InputError
from lazaretto.ledger import Ledger
from lazaretto.models.caches import EmbeddingCache
from lazaretto.models.protocol import Request
from lazaretto.models.scripted import HashingEmbedder, ScriptedChatModel
from lazaretto_lab.worlds.album_chat.defence import Change, View
from lazaretto_lab.worlds.album_chat.scenario import Scenario, Virus
from lazaretto_lab.worlds.album_chat.world import AlbumChat, Outcome
from lazaretto_lab.worlds.streams import stream

SICK = picture_item(b"virus red boat", "boat")
POOL = tuple(picture_item(f"tree{i} in field{i}".encode(), f"tree {i}") for i in range(60))
SCENARIO = Scenario(agents=14, rounds=12, infected=2)


class Painter:
    """A defence with a memory of its own that brings new pictures into the world, at random agents."""

    name = "painter"

    def __init__(self) -> None:
        self.painted: list[str] = []

    async def before_round(self, view: View) -> Sequence[Change]:
        chosen = stream(view.seed, self.name, view.round_index).choice(view.agents)
        picture = picture_item(f"painting {len(self.painted)} red".encode(), "painting")
        self.painted.append(picture.key)
        return [Change(replace(chosen, album=chosen.album.add(picture)), "painted")]

    async def after_round(self, view: View, turns: Sequence[Turn]) -> Sequence[Change]:
        return ()

    def snapshot(self) -> Mapping[str, Any]:
        return {"painted": self.painted}

    def restore(self, snapshot: Mapping[str, Any], album_items: Mapping[str, AlbumItem]) -> None:
        self.painted = list(snapshot["painted"])
        assert all(key in album_items for key in self.painted)


def build(folder: Path | None, pause: float = 0.0, **more: Any) -> AlbumChat:
    def speak(request: Request) -> str:
        time.sleep(pause)
        text = request.messages[-1].text
        if PLAN_TASK in text:
            return "a red boat" if len(text) % 3 else "a tree in a field"
        return "The harbour is open." if request.messages[-1].images == (SICK.picture,) else f"hm {len(text)}"

    cache = EmbeddingCache(HashingEmbedder(lambda data: data.decode()), folder)
    virus = Virus(SICK, "The harbour is open.")
    scenario = more.pop("scenario", SCENARIO)
    return AlbumChat(
        scenario, AgentModel(ScriptedChatModel(speak), cache), POOL, (virus,), defence=Painter(), folder=folder, **more
    )


def finish(world: AlbumChat) -> Outcome:
    return asyncio.run(world.run())


@pytest.mark.slow
def test_a_killed_run_goes_on_to_the_same_end(tmp_path: Path) -> None:
    whole = finish(build(tmp_path / "whole"))
    store = f"sqlite:///{tmp_path / 'run.db'}"
    code = f"""
import asyncio, importlib.util, pathlib
spec = importlib.util.spec_from_file_location("resume_parts", {str(Path(__file__))!r})
parts = importlib.util.module_from_spec(spec); spec.loader.exec_module(parts)
ledger = parts.Ledger.open({store!r})
parts.finish(parts.build(pathlib.Path({str(tmp_path / "killed")!r}), pause=0.004, ledger=ledger))
"""
    child = subprocess.Popen([sys.executable, "-c", code], env={**os.environ, "PYTHONWARNINGS": "ignore"})
    lines = tmp_path / "killed" / "rounds.jsonl"
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not (lines.exists() and lines.read_bytes().count(b"\n") >= 3):
        assert child.poll() is None, "it ended before it could be killed"
        time.sleep(0.01)
    child.send_signal(signal.SIGKILL)
    child.wait()
    with Ledger.open(store) as ledger:
        resumed = build(tmp_path / "killed", ledger=ledger)
        assert 2 <= len(resumed.rounds) < SCENARIO.rounds  # the third line may be there without its state
        assert finish(resumed) == whole
        marks = [event.subject for event in ledger.events() if "_round_" in event.subject]
        assert len(marks) == len(set(marks)) == SCENARIO.rounds
        assert ledger.verify().ok


@pytest.mark.parametrize("stop", [0, 1, 5, 11])
def test_stopping_after_any_round_changes_nothing(tmp_path: Path, stop: int) -> None:
    world = build(tmp_path / "run")

    async def some() -> None:
        for _ in range(stop):
            await world.step()

    asyncio.run(some())
    assert finish(build(tmp_path / "run")) == finish(build(tmp_path / "whole"))


def test_a_crash_between_ledger_and_checkpoint_writes_the_round_once(tmp_path: Path) -> None:
    with Ledger.open(f"sqlite:///{tmp_path / 'run.db'}") as ledger:
        world = build(tmp_path / "run", ledger=ledger)
        asyncio.run(world.step())
        kept = {file.name: file.read_bytes() for file in (tmp_path / "run").iterdir() if file.is_file()}
        asyncio.run(world.step())
        for name, data in kept.items():  # the disk as it was before the second round was saved
            (tmp_path / "run" / name).write_bytes(data)
        before = ledger.head()
        again = build(tmp_path / "run", ledger=ledger)
        assert len(again.rounds) == 1
        asyncio.run(again.step())
        assert ledger.head() == before
        assert finish(again) == finish(build(None))


def test_a_half_written_round_is_cut_off(tmp_path: Path) -> None:
    asyncio.run(build(tmp_path / "run").step())
    with (tmp_path / "run" / "rounds.jsonl").open("ab") as handle:
        handle.write(b'{"round_index": 1, "turns": [')
    assert finish(build(tmp_path / "run")) == finish(build(None))


def test_a_folder_of_another_run_is_refused(tmp_path: Path) -> None:
    asyncio.run(build(tmp_path / "run").step())
    with pytest.raises(InputError, match="another run"):
        build(tmp_path / "run", scenario=replace(SCENARIO, seed=1))


def test_a_finished_run_is_read_back_without_asking_the_models(tmp_path: Path) -> None:
    done = finish(build(tmp_path / "run"))
    again = build(tmp_path / "run")
    assert finish(again) == done
    assert again.agent_model.spent.calls == 0
