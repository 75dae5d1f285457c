"""``lazaretto foresight calibrate``: from a folder of benign memories, resumable, nothing half-written."""

from __future__ import annotations

import asyncio
import io
from pathlib import Path
from typing import Any

import orjson
import pytest
from PIL import Image
from typer.testing import CliRunner

from lazaretto import InputError, SyncGuard
from lazaretto.cli import build
from lazaretto.errors import ModelUnavailable
from lazaretto.learn.calibration import (
    CalibrationSize,
    FlpCalibration,
    MonitorCalibration,
    calibrate_folder,
    read_calibration,
    read_memories,
)
from lazaretto.models.protocol import Completion, Request
from lazaretto.models.scripted import HashingEmbedder, ScriptedChatModel

EMBEDDER = HashingEmbedder(dimension=256)
SMALL = CalibrationSize(agents=8, rounds=1, memories=20)


def speak(request: Request) -> str:
    text = request.messages[-1].text
    fields = dict(line.split(": ", 1) for line in text.splitlines() if ": " in line)
    return f"{fields['catchphrase']} {fields['favourite song']} {len(text) % 13} {text.splitlines()[-2][:40]}"


def embedder() -> HashingEmbedder:
    """What the command's ``--embedder`` names."""
    return EMBEDDER


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "benign"
    (place / "deeper").mkdir(parents=True)
    for number in range(20):
        (place / f"note-{number}.txt").write_text(f"note {number} on ropes, lamps and the weather {number * 7}")
    lines = [{"text": f"a line about boat {number}", "title": f"boat {number}"} for number in range(8)]
    (place / "deeper" / "more.jsonl").write_bytes(b"\n".join(orjson.dumps(line) for line in lines))
    made = io.BytesIO()
    Image.effect_noise((16, 16), 60).save(made, "PNG")
    (place / "deeper" / "old_ship-2.png").write_bytes(made.getvalue())
    (place / "readme.rst").write_text("not a memory")
    return place


def calibrate(folder: Path, to: Path, chat: Any, **options: Any) -> Any:
    return asyncio.run(calibrate_folder(folder, chat, EMBEDDER, to, size=SMALL, **options))


def test_memories_of_a_folder(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    found = read_memories(folder)
    assert len(found) == 29 and {k.title for k in found} >= {"old ship 2", "boat 3", "note 4 on ropes, lamps and"}
    (folder / "broken.png").write_bytes(b"not a picture")
    with pytest.raises(InputError, match="broken"):
        read_memories(folder)
    with pytest.raises(InputError, match="0 memories"):
        read_memories(tmp_path / "empty")
    with pytest.raises(InputError, match="not a folder"):
        read_memories(folder / "absent")


def test_an_interrupted_calibration_goes_on_and_ends_the_same(folder: Path, tmp_path: Path) -> None:
    class PowerCut(BaseException):
        """Nobody catches it."""

    asked: list[Request] = []

    def dies_late(request: Request) -> str:
        asked.append(request)
        if len(asked) == 60:
            raise PowerCut
        return speak(request)

    to, steps = tmp_path / "c.json", []
    with pytest.raises(PowerCut):
        calibrate(folder, to, ScriptedChatModel(dies_late))
    assert not to.exists() and (tmp_path / "c.json.work").is_dir(), "nothing is half-written"
    first = len(asked)
    made = calibrate(folder, to, ScriptedChatModel(dies_late), progress=lambda done, most: steps.append((done, most)))
    assert read_calibration(to) == made and not (tmp_path / "c.json.work").exists()
    whole = calibrate(folder, tmp_path / "whole.json", ScriptedChatModel(speak))
    assert whole == made
    assert len(asked) - first < steps[-1][0] - 20, "what was answered before was not asked again"
    assert [done for done, _ in steps] == sorted(done for done, _ in steps) and all(d <= m for d, m in steps)


def test_a_failing_model_writes_nothing_and_says_why(folder: Path, tmp_path: Path) -> None:
    calls = iter(range(10**6))

    def shaky(request: Request) -> str | Completion:
        return Completion("", fault="no tokens left") if next(calls) % 10 == 0 else speak(request)

    with pytest.raises(ModelUnavailable, match="no tokens left"):
        calibrate(folder, tmp_path / "c.json", ScriptedChatModel(shaky))
    with pytest.raises(ModelUnavailable, match="away"):
        calibrate(folder, tmp_path / "c.json", ScriptedChatModel(lambda _: Completion("", fault="away")))
    assert not (tmp_path / "c.json").exists()


def test_both_modes_and_what_they_are_for(folder: Path, tmp_path: Path) -> None:
    chat = ScriptedChatModel(speak)
    ours, theirs = (calibrate(folder, tmp_path / f"{m}.json", chat, mode=m) for m in ("lazaretto", "flp"))
    assert isinstance(ours, MonitorCalibration) and isinstance(theirs, FlpCalibration)
    with SyncGuard.open(f"sqlite:///{tmp_path}/l.db") as guard:
        guard.foresight.rehearse_with(tmp_path / "lazaretto.json", EMBEDDER, chat=chat)
        guard.remember("note 4 on ropes, lamps and the weather 28", agent="ada")
        assert guard.foresight.before_turn("ada").removed == ()
        with pytest.raises(InputError, match="made with hashing-256"):
            guard.foresight.rehearse_with(tmp_path / "lazaretto.json", HashingEmbedder(dimension=64))
        with pytest.raises(InputError, match="mode 'flp'"):
            guard.foresight.rehearse_with(tmp_path / "flp.json", EMBEDDER)
    (tmp_path / "x.json").write_text('{"scales": 3}')
    with pytest.raises(InputError, match="is not one"):
        read_calibration(tmp_path / "x.json")


def test_the_command(folder: Path, tmp_path: Path, stub_url: str) -> None:
    pytest.importorskip("openai")
    to = tmp_path / "out.json"
    words = ["foresight", "calibrate", str(folder), "--model", "stub", "--base-url", stub_url, "--to", str(to)]
    words += ["--embedder", f"{__name__}:embedder", "--agents", "8", "--rounds", "1", "--memories", "20"]
    done = CliRunner().invoke(build(words[0]), words)
    assert done.exit_code == 0, done.output
    assert "wrote" in done.output and read_calibration(to).source["chat"] == "stub"
    assert CliRunner().invoke(build(words[0]), [*words, "--json"]).exit_code == 0
    for changed, said in ((("--embedder", "nonsense"), "'nonsense' is unknown"), (("--agents", "1"), "agents: is 1")):
        wrong = CliRunner().invoke(build(words[0]), [*words, *changed])
        assert wrong.exit_code == 2 and said in " ".join(wrong.output.split())
